"""Change records made beforehand, as `examples/change_data/capture.py` writes them: the same for the same numbers.

An order is born with its customer and its amount; most changes are updates, some go to few hot orders, some to any.
Deleted orders do not come back. The file's place in time is its records' timestamp, from 1970 on.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["FILE_RECORDS", "expected_rows", "make_records"]

FILE_RECORDS = 25_000
INSERTS, DELETES, HOT = 0.15, 0.05, 0.3  # the rest are updates; of those, how many go to hot orders
SEED = 8

_VALUES = """
SELECT
    encode('{"id":' || id || '}') AS key,
    encode(CASE WHEN op = 'd'
        THEN '{"op":"d","before":{"id":' || id || '},"after":null'
        ELSE '{"op":"' || op || '","before":null,"after":{"id":' || id || ',"customer":' || customer || ',"status":"'
            || status || '","amount":' || cents // 100 || '.' || lpad((cents % 100)::TEXT, 2, '0')
            || ',"weight":' || weight || ',"paid":' || paid || ',"changed":"'
            || strftime(make_timestamp(1700000000000000 + lsn), '%Y-%m-%dT%H:%M:%S.%fZ') || '","note":'
            || CASE WHEN note = 0 THEN 'null' ELSE '"note number ' || note || '"' END || '}'
        END || ',"source":{"schema":"shop","table":"orders","lsn":' || lsn || ',"txId":' || lsn // 100 || '},"ts_ms":'
        || time_us // 1000 || '}') AS value,
    'shop.orders' AS topic, 0::INTEGER AS partition, lsn AS offset, make_timestamptz(time_us) AS timestamp
FROM drawn ORDER BY lsn
"""
_STATUS = np.array(["new", "packed", "sent", "delivered", "returned"])


class _Orders:
    """The orders that are there, to draw changes from."""

    def __init__(self, count: int) -> None:
        self.random = np.random.default_rng(SEED)
        self.live = np.arange(count)
        self.next_id = count

    def draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Operations and ids, in a random order in which inserts and deletes of one order do not meet."""
        inserts, deletes = int(count * INSERTS), int(count * DELETES)
        gone = self.random.choice(len(self.live), deletes, replace=False)
        deleted = self.live[gone]
        self.live = np.delete(self.live, gone)
        updates = count - inserts - deletes
        hot = self.random.zipf(1.2, int(updates * HOT)) % len(self.live)
        even = self.random.integers(0, len(self.live), updates - len(hot))
        new = np.arange(self.next_id, self.next_id + inserts)
        self.next_id += inserts
        ids = np.concatenate([new, self.live[np.concatenate([hot, even])], deleted])
        self.live = np.concatenate([self.live, new])
        operations = np.repeat(np.array(["c", "u", "d"]), [inserts, updates, deletes])
        order = self.random.permutation(count)
        return operations[order], ids[order]


def make_records(folder: Path, orders: int, files: int, rate: float) -> list[Path]:
    """Make record files: first the orders that are there, then so many files of changes at a rate.

    Args:
        folder: Where; what is there of the same numbers is used again.
        orders: How many orders there are at first.
        files: How many files of changes.
        rate: Changes a second: a file's records have the time of its last one, from 1970 on.

    Returns:
        The files in their order.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = folder / "made.json"
    numbers = {"orders": orders, "files": files, "rate": rate, "seed": SEED, "records": FILE_RECORDS}
    paths = [folder / f"{number:06d}.parquet" for number in range(files + 1)]
    if told.exists() and json.loads(told.read_text()) == numbers:
        return paths
    state, lsn = _Orders(orders), 1
    for number, path in enumerate(paths):
        operations, ids = (np.repeat("r", orders), state.live) if number == 0 else state.draw(FILE_RECORDS)
        _write(path, operations, ids, lsn, int(number * FILE_RECORDS / rate * 1_000_000), state.random)
        lsn += len(ids)
    told.write_text(json.dumps(numbers))
    return paths


def _write(
    path: Path, operations: np.ndarray, ids: np.ndarray, lsn: int, time_us: int, random: np.random.Generator
) -> None:
    count = len(ids)
    drawn = pa.table(
        {
            "op": pa.array(operations),
            "id": pa.array(ids),
            "lsn": pa.array(np.arange(lsn, lsn + count)),
            "time_us": pa.repeat(time_us, count),
            "customer": pa.array(ids * 7919 % 50_000),
            "status": pa.array(_STATUS[random.integers(0, len(_STATUS), count)]),
            "cents": pa.array(random.integers(100, 100_000_000, count)),
            "weight": pa.array(random.integers(1, 4_000, count) / 8),
            "paid": pa.array(random.random(count) < 0.5),
            "note": pa.array(random.integers(0, 1_000, count)),
        }
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("drawn", drawn)
        rows = connection.sql(_VALUES).to_arrow_table()
    hidden = path.with_suffix(".part")
    pq.write_table(rows, hidden, compression="zstd", row_group_size=1 << 20)
    hidden.rename(path)


def expected_rows(paths: list[Path], schema: pa.Schema) -> pa.Table:
    """What the tables must hold after the records of some files, by id: the last record of each order."""
    fields = ", ".join(f"(value->'after'->>'{field.name}') AS {field.name}" for field in schema)
    query = f"""
        SELECT {fields} FROM (
            SELECT arg_max(decode(value), "offset")::JSON AS value FROM read_parquet($paths) GROUP BY key
        ) WHERE value->>'op' <> 'd' ORDER BY (value->'after'->>'id')::BIGINT
    """
    with duckdb.connect() as connection:
        texts = connection.sql(query, params={"paths": [str(path) for path in paths]}).to_arrow_table()
    return texts.cast(schema)
