"""Statistics kept fresh after a change of one percent: what that adds to the change, and what it reads.

TPC-H's lineitem (scale factor 1) lies in 100 partitions, once with statistics and once without. Both tables go through
the same changes in turn: an append, an overwrite of a partition, a row-level delete, a compaction of a partition. The
difference of the times is what statistics cost. An append without statistics is caught up with `analyze()`, beside
reading the same columns. A full `analyze()` stands beside DuckDB's approximate counts of all columns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import skerry
from figures import figure
from skerry.kernels import warm_up
from skerry.puffin import PuffinReader
from skerry.table.statistics.column_statistics import ENABLED_ENVIRONMENT
from skerry.table.statistics.pieces.chain import SAMPLE_PROPERTIES
from tpch_data import CACHE, lineitem_rows

FOLDER = CACHE / "refresh"
STEP = 60_000
"""Order keys of a partition; there are six million."""


def make_table(name: str, rows: pa.Table, enabled: bool) -> skerry.catalog.Table:
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    table = skerry.connect(folder).create_table(
        "bench.lineitem",
        rows.schema,
        partition_by=[f"truncate({STEP}, l_orderkey)"],
        format_version=3,
        properties={"skerry.statistics.enabled": str(enabled).lower(), "write.delete.mode": "merge-on-read"},
    )
    table.append(rows)
    return table


def partition(rows: pa.Table, number: int) -> tuple[pa.Table, str]:
    """The rows of a partition, and the condition that they fulfil."""
    where = f"l_orderkey >= {number * STEP} AND l_orderkey < {(number + 1) * STEP}"
    keys = rows["l_orderkey"].combine_chunks()
    first, last = keys.to_numpy().searchsorted([number * STEP, (number + 1) * STEP])
    return rows.slice(first, last - first), where


@contextmanager
def other_writer() -> Iterator[None]:
    """Commit as one who knows nothing of statistics."""
    os.environ[ENABLED_ENVIRONMENT] = "0"
    try:
        yield
    finally:
        del os.environ[ENABLED_ENVIRONMENT]


def seconds(act: Callable[[], object]) -> tuple[float, float]:
    """Clock and processor time."""
    begin = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def medians(times: list[tuple[float, float]]) -> tuple[float, float]:
    clock, processor = zip(*times, strict=True)
    return statistics.median(clock), statistics.median(processor)


def changes(rows: pa.Table, number: int) -> dict[str, Callable[[skerry.catalog.Table], object]]:
    """The changes of a round, each of about one percent of the rows."""
    content, where = partition(rows, number)
    return {
        "append": lambda table: table.append(content),
        "overwrite of a partition": lambda table: table.overwrite(content, where),
        "row-level delete": lambda table: table.delete(f"{where} AND l_linenumber = 3"),
        "compaction of a partition": lambda table: table.compact(where, full=True),
    }


def measure_changes(rows: pa.Table, rounds: int) -> tuple[skerry.catalog.Table, bool]:
    tables = {True: make_table("with", rows, True), False: make_table("without", rows, False)}
    times: dict[str, dict[bool, list[tuple[float, float]]]] = {}
    for round_ in range(rounds + 1):
        for name, change in changes(rows, 10 + round_).items():
            for enabled, table in sorted(tables.items(), reverse=bool(round_ % 2)):
                taken = seconds(lambda change=change, table=table: change(table))
                if round_:  # the first one warms up
                    times.setdefault(name, {True: [], False: []})[enabled].append(taken)
    held = True
    for name, both in times.items():
        (clock, processor), (plain_clock, plain_processor) = medians(both[True]), medians(both[False])
        held &= clock - plain_clock <= 0.2
        figure(name, *([used for _, used in both[enabled]] for enabled in (True, False)))
        print(
            f"{name:28} {plain_clock:7.3f} s without, {clock:7.3f} s with statistics: {clock - plain_clock:+.3f} s; "
            f"processor {processor - plain_processor:+.3f} s"
        )
    assert all(found.freshness.is_fresh for found in tables[True].statistics().values())
    return tables[True], held


def measure_catching_up(table: skerry.catalog.Table, rows: pa.Table, rounds: int) -> bool:
    content, _ = partition(rows, 50)
    reading, catching = [], []
    for _ in range(rounds):
        known = {file.location for file in table.files()}
        with other_writer():
            table.append(content)
        (new,) = (file for file in table.refresh().files() if file.location not in known)
        reading.append(seconds(lambda new=new: pq.read_table(new.location.removeprefix("file://"))))
        catching.append(seconds(table.analyze))
        assert all(found.is_fresh for found in table.refresh().freshness().values())
    (clock, processor), (read_clock, read_processor) = medians(catching), medians(reading)
    figure("foreign append caught up", *([used for _, used in each] for each in (catching, reading)))
    print(
        f"{'foreign append caught up':28} {clock:7.3f} s, beside reading it {clock - read_clock:+.3f} s; "
        f"processor {processor - read_processor:+.3f} s"
    )
    return clock - read_clock <= 0.2


def measure_analyze(table: skerry.catalog.Table, rounds: int) -> bool:
    files = [file.location.removeprefix("file://") for file in table.files()]
    counts = ", ".join(f'approx_count_distinct("{name}")' for name in table.schema.names)
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    peer, ours = [], []
    for _ in range(rounds):
        peer.append(seconds(lambda: connection.execute(f"SELECT {counts} FROM read_parquet({files})").fetchall()))
        ours.append(seconds(lambda: table.analyze(full=True)))
    (clock, processor), (peer_clock, peer_processor) = medians(ours), medians(peer)
    figure("full analyze", *([seconds for seconds, _ in each] for each in (ours, peer)))
    print(
        f"full analyze {clock:.2f} s, DuckDB {peer_clock:.2f} s: ratio {clock / peer_clock:.2f}; "
        f"processor {processor / peer_processor:.2f}"
    )
    return clock <= 0.7 * peer_clock


def measure_size(table: skerry.catalog.Table) -> bool:
    table.analyze(full=True)  # so that the newest file has whole samples
    state = table.refresh().handle.state
    file = next(f for f in state.metadata.statistics if f.snapshot_id == table.current_snapshot().snapshot_id)
    reader = PuffinReader(file.statistics_path, storage=state.storage)
    below = int(reader.properties[SAMPLE_PROPERTIES[1]])
    share = below / sum(found.file_size_bytes for found in table.files())
    print(
        f"below table level {below / 1e6:.2f} MB, {share:.2%} of the table; "
        f"with sketches {reader.file_size / 1e6:.2f} MB"
    )
    return share <= 0.005


def main() -> None:
    """Print what statistics cost; exit with an error if one of the goals is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    warm_up()
    rows = lineitem_rows()
    table, held = measure_changes(rows, rounds)
    held &= measure_size(table)
    held &= measure_catching_up(table, rows, rounds)
    clean = make_table("clean", rows, True)
    held &= measure_analyze(clean, rounds)
    if not held:
        sys.exit("a goal was missed")


if __name__ == "__main__":
    main()
