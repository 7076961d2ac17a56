"""Decoding Avro manifests: our columnar decoder beside fastavro, and beside what inflating alone takes.

The data are the manifests of an Iceberg table of 50,000 files: 50 manifests (version 2, deflate) of 1,000 entries with
full metrics of 10 columns and day and bucket partitions, made once with fastavro in `.cache/`. All routes decode the
same bytes from memory, in turn, several rounds; medians are shown.
"""

from __future__ import annotations

import argparse
import io
import random
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fastavro
import polars as pl

from figures import figure
from skerry.avro import read_columns, read_header
from skerry.avro.container import decode_block, decode_blocks

FOLDER = Path(__file__).parent.parent / ".cache" / "avro_manifests"
MANIFESTS, ENTRIES, COLUMNS = 50, 1000, 10
PLANNED = ["status", "data_file.file_path", "data_file.record_count", "data_file.partition"]


def field(field_id: int, name: str, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    default = {"default": None} if optional else {}
    return {"name": name, "type": ["null", kind] if optional else kind, "field-id": field_id, **default}


def metrics(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    pair = [field(key_id, "key", "int"), field(value_id, "value", value)]
    items = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": pair}
    return {"type": "array", "items": items, "logicalType": "map"}


def schema() -> dict[str, Any]:
    """The manifest schema of format version 2 for a table partitioned by day and bucket."""
    partition = [
        field(1000, "ts_day", {"type": "int", "logicalType": "date"}, optional=True),
        field(1001, "id_bucket", "int", optional=True),
    ]
    data_file = [
        field(134, "content", "int"),
        field(100, "file_path", "string"),
        field(101, "file_format", "string"),
        field(102, "partition", {"type": "record", "name": "r102", "fields": partition}),
        field(103, "record_count", "long"),
        field(104, "file_size_in_bytes", "long"),
        field(108, "column_sizes", metrics(117, 118, "long"), optional=True),
        field(109, "value_counts", metrics(119, 120, "long"), optional=True),
        field(110, "null_value_counts", metrics(121, 122, "long"), optional=True),
        field(137, "nan_value_counts", metrics(138, 139, "long"), optional=True),
        field(125, "lower_bounds", metrics(126, 127, "bytes"), optional=True),
        field(128, "upper_bounds", metrics(129, 130, "bytes"), optional=True),
        field(131, "key_metadata", "bytes", optional=True),
        field(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}, optional=True),
        field(135, "equality_ids", {"type": "array", "items": "int", "element-id": 136}, optional=True),
        field(140, "sort_order_id", "int", optional=True),
    ]
    entry = [
        field(0, "status", "int"),
        field(1, "snapshot_id", "long", optional=True),
        field(3, "sequence_number", "long", optional=True),
        field(4, "file_sequence_number", "long", optional=True),
        field(2, "data_file", {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": entry}


def entries(seed: int) -> Iterator[dict[str, Any]]:
    noise = random.Random(seed)
    columns = range(1, COLUMNS + 1)
    for i in range(ENTRIES):
        rows = noise.randrange(10**5, 10**6)
        day, bucket = 19_000 + noise.randrange(365), i % 16
        numbers = [struct.pack("<q", noise.getrandbits(40)) for _ in range(2 * COLUMNS - 4)]
        words = [bytes(noise.choices(b"abcdefgh", k=16)) for _ in range(4)]
        metric_values = {
            "column_sizes": [noise.randrange(10**5, 10**7) for _ in columns],
            "value_counts": [rows for _ in columns],
            "null_value_counts": [noise.randrange(100) for _ in columns],
            "nan_value_counts": [0 for _ in columns],
            "lower_bounds": numbers[::2] + words[:2],
            "upper_bounds": numbers[1::2] + words[2:],
        }
        yield {
            "status": 1,
            "snapshot_id": 2**60 + seed,
            "sequence_number": seed,
            "file_sequence_number": seed,
            "data_file": {
                "content": 0,
                "file_path": f"s3://warehouse/db/t/data/ts_day={day}/id_bucket={bucket}/{noise.getrandbits(128):032x}.parquet",
                "file_format": "PARQUET",
                "partition": {"ts_day": day, "id_bucket": bucket},
                "record_count": rows,
                "file_size_in_bytes": noise.randrange(10**7, 10**9),
                **{
                    name: [{"key": column, "value": value} for column, value in zip(columns, values, strict=True)]
                    for name, values in metric_values.items()
                },
                "key_metadata": None,
                "split_offsets": [4, 128 << 20],
                "equality_ids": None,
                "sort_order_id": 0,
            },
        }


def manifests() -> list[bytes]:
    paths = [FOLDER / f"{seed}.avro" for seed in range(MANIFESTS)]
    if not all(path.exists() for path in paths):
        FOLDER.mkdir(parents=True, exist_ok=True)
        parsed = fastavro.parse_schema(schema())
        for seed, path in enumerate(paths):
            stream = io.BytesIO()
            fastavro.writer(stream, parsed, entries(seed), codec="deflate")
            path.write_bytes(stream.getvalue())
    return [path.read_bytes() for path in paths]


def inflate(data: bytes) -> int:
    view, header = memoryview(data), read_header(data)
    return sum(len(decode_block(view, block, header.codec, max_bytes=1 << 30)) for block in decode_blocks(view, header))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    files = manifests()
    pool = ThreadPoolExecutor(2)
    routes: dict[str, Callable[[], object]] = {
        "inflate alone": lambda: [inflate(data) for data in files],
        "skerry, all columns": lambda: [read_columns(data) for data in files],
        "skerry, all columns, 2 threads": lambda: list(pool.map(read_columns, files)),
        "skerry, 4 columns": lambda: [read_columns(data, PLANNED) for data in files],
        "fastavro": lambda: [list(fastavro.reader(io.BytesIO(data))) for data in files],
        "polars": lambda: [pl.read_avro(io.BytesIO(data)) for data in files],
    }
    begin = time.perf_counter()
    assert sum(read_columns(data).num_rows for data in files) == MANIFESTS * ENTRIES
    print(f"first use, kernel compiled or loaded: {time.perf_counter() - begin:.2f} s")
    times: dict[str, list[float]] = {name: [] for name in routes}
    for _ in range(rounds):
        for name, route in routes.items():
            begin = time.perf_counter()
            route()
            times[name].append(time.perf_counter() - begin)
    inflated = sum(map(inflate, files))
    print(f"{MANIFESTS * ENTRIES:,} entries, {sum(map(len, files)):,} bytes, {inflated:,} inflated; {rounds} rounds")
    fast = statistics.median(times["fastavro"])
    for name, found in times.items():
        seconds = statistics.median(found)
        if name.startswith("skerry"):
            figure(name, found, times["fastavro"])
        print(f"{name:34}{seconds:8.3f} s {inflated / seconds / 1e6:8.0f} MB/s{fast / seconds:8.1f} times fastavro")


if __name__ == "__main__":
    main()
