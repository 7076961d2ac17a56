"""Merging rows by key on Spark, beside Spark's own Parquet write of the same rows in the same session.

The table is TPC-H lineitem at scale factor 1 (6,001,215 rows, made once by `tpchgen-cli` under `.cache/`), its rows
sorted by key. A tenth of it comes again with new prices, and as many rows with keys that are new: whole orders, as a
change feed brings them. Every run merges into a table of its own with copies of the same files. Spark writes the frame
with Zstandard; a merge finds the rows, marks the old ones as deleted (in delete files with format version 2, in vectors
with version 3), writes the new ones, sketches them, and commits.

The processor time of this process, of Spark's and of its Python workers stands beside the time of the clock.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import statistics
from collections.abc import Callable

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import skerry
import skerry.spark
from figures import figure
from spark_times import Times, timed
from tpch_data import CACHE, lineitem_rows

FOLDER = CACHE / "spark-merge"
THREADS = 2
TARGET = 0.5
VERSIONS = ("2", "3")
KEY = ["l_orderkey", "l_linenumber"]


def incoming(frame: DataFrame) -> DataFrame:
    """A tenth of the orders with other prices, and as many that are new."""
    columns = [name for name in frame.columns if name not in ("l_orderkey", "l_extendedprice")]
    changed = frame.where("l_orderkey % 10 = 0")
    price = "cast(l_extendedprice + 1 as decimal(15, 2)) as l_extendedprice"
    known = changed.selectExpr("l_orderkey", price, *columns)
    new = changed.selectExpr("l_orderkey + 100000000 as l_orderkey", "l_extendedprice", *columns)
    return known.unionByName(new).select(frame.columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=6_001_215, help="rows of the table")
    chosen = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    rows = lineitem_rows(chosen.rows)
    spark = skerry.spark.session(master=f"local[{THREADS}]")
    catalog = skerry.connect(FOLDER / "warehouse")
    source = FOLDER / "incoming"
    pq.write_table(rows, FOLDER / "lineitem.parquet", compression="zstd")
    incoming(spark.read.parquet(str(FOLDER / "lineitem.parquet"))).write.parquet(str(source))
    frame = spark.read.parquet(str(source))
    count = frame.count()

    def by_spark(number: int) -> Times:
        return timed(lambda: frame.write.parquet(str(FOLDER / "plain"), mode="overwrite", compression="zstd"))

    def by_skerry(number: int, version: str) -> Times:
        properties = {"format-version": version, "write.merge.mode": "merge-on-read"}
        table = catalog.create_table(f"d.round_{number}_{version}", rows.schema, sort_by=KEY, properties=properties)
        table.append(rows)
        try:
            return timed(
                lambda: skerry.spark.merge(
                    spark, table, frame, on=KEY, when_matched="update", when_not_matched="insert"
                )
            )
        finally:
            catalog.drop_table(table.name, purge=True)

    runs: dict[str, Callable[[int], Times]] = {"Spark's write": by_spark}
    for version in VERSIONS:
        runs[f"merge, version {version}"] = functools.partial(by_skerry, version=version)
    times: dict[str, list[Times]] = {name: [] for name in runs}
    for number in range(chosen.rounds + 1):
        turns = list(runs.items())
        for name, run in turns if number % 2 else reversed(turns):
            found = run(number)
            print(f"round {number}, {name}: {found}")
            if number:  # the first one warms up
                times[name].append(found)
    for name, all_found in times.items():
        seconds = statistics.median(found.clock_s for found in all_found)
        print(f"{name}: median {seconds:.2f} s, {count / seconds / 1e6:.2f} million rows/s")
    theirs, *others = times.items()
    for name, ours in others:
        pairs = list(zip(theirs[1], ours, strict=True))
        figure(name, *([found.clock_s for found in each] for each in (ours, theirs[1])))
        by_clock = statistics.median(peer.clock_s / own.clock_s for peer, own in pairs)
        by_processor = statistics.median(peer.processor_s / own.processor_s for peer, own in pairs)
        print(f"{name}, of {theirs[0]}: {by_clock:.2f} (at least {TARGET}), processor {by_processor:.2f}")
    spark.stop()


if __name__ == "__main__":
    main()
