"""Distinct counts of all 16 columns of TPC-H lineitem from Parquet files that Spark wrote, beside DuckDB and polars.

The files are made once, by `tpchgen-cli` and Spark, under `.cache/`: lineitem at scale factor 1 in four files, with
Snappy (Spark's default) and with Zstandard. skerry makes them part of a table (`add_files`: footers, metrics, sketches,
one commit) and asks for the table's statistics. All engines work with two threads, take turns, and end with 16 numbers;
the ratio is the median of the rounds' ratios. Beside it stands what an append of 1 % costs: the columns of a file of
60,000 rows, sketched from the file as jobs do that describe one, and from Arrow batches on their way to a writer.

On a machine that has other work, the processor time says more than the time of the clock; both are shown.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "2"

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

import skerry
from figures import figure
from skerry.kernels import warm_up
from skerry.storage import Storage
from skerry.table.rows.schema import leaves
from skerry.table.statistics.sketching import BatchSketcher, sketch_parquet
from tpch_data import CACHE, make_lineitem

CODECS = ("snappy", "zstd")
THREADS = 2
APPENDED_ROWS = 60_000

Routes = dict[str, Callable[[], Callable[[], object]]]
Times = dict[str, list[tuple[float, float]]]


def make_spark_files() -> Path:
    """The same rows as Spark writes them, with field ids, and 60,000 of them in a file of their own."""
    folder = CACHE / "lineitem-by-spark"
    if not (folder / "done").exists():
        from pyspark.sql import functions as f

        from skerry.spark import session

        spark = session(master=f"local[{THREADS}]", config={"spark.sql.files.maxPartitionBytes": 64 << 20})
        frame = spark.read.parquet(str(make_lineitem()))
        frame = frame.select(
            *(f.col(name).alias(name, metadata={"parquet.field.id": i}) for i, name in enumerate(frame.columns, 1))
        )
        for codec in CODECS:
            frame.write.parquet(str(folder / codec), mode="overwrite", compression=codec)
            appended = frame.limit(APPENDED_ROWS).coalesce(1)
            appended.write.parquet(str(folder / f"appended-{codec}"), mode="overwrite", compression=codec)
        spark.stop()
        (folder / "done").touch()
    return folder


def by_skerry(table: skerry.Table, locations: Sequence[str]) -> list[float | None]:
    table.add_files(locations, executor=skerry.ThreadExecutor(THREADS))
    found = table.statistics()
    return [found[name].ndv for name in table.schema.names]


def empty_tables(warehouse: Path, schema: pa.Schema) -> Iterator[skerry.Table]:
    """Tables that may take files from outside of their folders, one after the other."""
    catalog = skerry.connect(warehouse)
    for number in itertools.count():
        yield catalog.create_table(
            f"tpch.lineitem_{number}", schema, properties={"skerry.read.files-outside-location": "true"}
        )


def by_duckdb(connection: duckdb.DuckDBPyConnection, pattern: str, names: Sequence[str]) -> list[float]:
    counts = ", ".join(f"approx_count_distinct({name})" for name in names)
    return [float(count) for count in connection.execute(f"select {counts} from '{pattern}'").fetchall()[0]]


def by_polars(pattern: str) -> list[float]:
    counts = polars.scan_parquet(pattern).select(polars.all().approx_n_unique())
    return [float(count) for count in counts.collect().row(0)]


def in_batches(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> None:
    sketcher = BatchSketcher(schema, [leaf.field_id for leaf in leaves(schema)])
    for batch in batches:
        sketcher.update(batch)


def race(routes: Routes, rounds: int) -> Times:
    """Seconds by the clock and of the processor, for every route and round; the routes take turns.

    Args:
        routes: What makes ready, and gives what is timed.
        rounds: How often.
    """
    times: Times = {name: [] for name in routes}
    for _ in range(rounds):
        for name, make_ready in routes.items():
            route = make_ready()
            clock, processor = time.perf_counter(), time.process_time()
            route()
            times[name].append((time.perf_counter() - clock, time.process_time() - processor))
    return times


def report(times: Times) -> None:
    for name, rounds in times.items():
        clock, processor = (statistics.median(values) for values in zip(*rounds, strict=True))
        least = min(seconds for seconds, _ in rounds)
        print(f"  {name:20s}{clock:7.3f} s   (least {least:.3f}; processor {processor:.3f})")


def report_ratio(files: str, times: Times, ours: str, peer: str, goal: str = "") -> None:
    pairs = list(zip(times[ours], times[peer], strict=True))
    clock, processor = (statistics.median(mine[i] / theirs[i] for mine, theirs in pairs) for i in (0, 1))
    figure(f"{files}, beside {peer}", *([seconds for seconds, _ in times[name]] for name in (ours, peer)))
    print(f"  {ours} takes {clock:.2f} of {peer}'s time, {processor:.2f} of its processor time {goal}")


def count_files(connection: duckdb.DuckDBPyConnection, folder: Path, rounds: int, *, show_counts: bool) -> None:
    locations = [str(path) for path in sorted(folder.glob("*.parquet"))]
    pattern = str(folder / "*.parquet")
    schema = pq.read_schema(locations[0])
    with tempfile.TemporaryDirectory() as warehouse:
        tables = empty_tables(Path(warehouse), schema)
        ours, theirs = by_skerry(next(tables), locations), by_duckdb(connection, pattern, schema.names)
        size = sum(Path(location).stat().st_size for location in locations)
        print(f"lineitem, {len(locations)} files by Spark, {folder.name}: {size:,} bytes")
        if show_counts:
            for name, mine, other in zip(schema.names, ours, theirs, strict=True):
                print(f"  {name:16s} skerry {mine:12,.0f}   DuckDB {other:12,.0f}")
        times = race(
            {
                "skerry": lambda: partial(by_skerry, next(tables), locations),
                "DuckDB": lambda: partial(by_duckdb, connection, pattern, schema.names),
                "polars": lambda: partial(by_polars, pattern),
            },
            rounds,
        )
    report(times)
    report_ratio(folder.name, times, "skerry", "DuckDB", "(goal: at most 0.6)")
    report_ratio(folder.name, times, "skerry", "polars")


def count_appended(folder: Path, rounds: int) -> None:
    (location,) = (str(path) for path in folder.glob("*.parquet"))
    schema = pq.read_schema(location)
    ids = [leaf.field_id for leaf in leaves(schema)]
    batches = pq.read_table(location).to_batches()
    print(f"append of {APPENDED_ROWS:,} rows, {folder.name}, one thread (goal: at most 0.1 s)")
    storage = Storage()
    routes: Routes = {
        "from the file": lambda: partial(sketch_parquet, storage, location, schema, ids),
        "from Arrow batches": lambda: partial(in_batches, batches, schema),
    }
    report(race(routes, rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    folder = make_spark_files()
    warm_up()
    connection = duckdb.connect(config={"threads": THREADS})
    for codec in CODECS:
        count_files(connection, folder / codec, rounds, show_counts=codec == CODECS[0])
        count_appended(folder / f"appended-{codec}", rounds)


if __name__ == "__main__":
    main()
