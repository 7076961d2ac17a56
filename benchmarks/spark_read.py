"""Reading a table through `skerry.spark.read`, beside Spark's own Parquet read of the same files.

Lineitem at scale factor 1 (6,001,215 rows, made once by `tpchgen-cli` under `.cache/`), aggregated over 3 and over all
16 columns in one session, taking turns. A read includes planning, metrics and sketches; the ratio is the median of the
rounds' ratios.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import skerry
import skerry.spark
from figures import figure
from tpch_data import CACHE, make_lineitem

THREADS = 2
TARGET = 0.95
COLUMNS = {"3 columns": ["l_orderkey", "l_quantity", "l_shipdate"], "16 columns": None}


def scanned(frame: DataFrame) -> float:
    """Seconds to read all values of a frame."""
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    source = make_lineitem()
    work = CACHE / "spark-read"
    shutil.rmtree(work, ignore_errors=True)
    spark = skerry.spark.session(master=f"local[{THREADS}]")
    table = skerry.connect(work / "warehouse").create_table("tpch.lineitem", pq.read_schema(source))
    skerry.spark.ingest(spark, source, table)
    paths = [file.location for file in table.files()]
    for name, columns in COLUMNS.items():
        times: dict[str, list[float]] = {"Spark's read": [], "skerry": []}

        def by_spark(columns: list[str] | None = columns) -> float:
            begin = time.perf_counter()
            frame = spark.read.parquet(*paths).select(columns or "*")
            made = time.perf_counter() - begin
            return made + scanned(frame)

        def by_skerry(columns: list[str] | None = columns) -> float:
            begin = time.perf_counter()
            frame = skerry.spark.read(spark, table, columns)
            made = time.perf_counter() - begin
            return made + scanned(frame)

        by_spark()  # the JVM warms up
        by_skerry()
        for number in range(rounds):
            turns = [("Spark's read", by_spark), ("skerry", by_skerry)]
            for turn, run in turns if number % 2 else reversed(turns):
                times[turn].append(run())
        for turn, seconds in times.items():
            each = ", ".join(f"{second:.2f}" for second in seconds)
            print(f"{name}, {turn}: median {statistics.median(seconds):.2f} s of {each}")
        figure(name, times["skerry"], times["Spark's read"])
        ratios = [theirs / ours for theirs, ours in zip(*times.values(), strict=True)]
        print(f"{name}, speed of skerry to Spark's own read: {statistics.median(ratios):.2f} (at least {TARGET})")
    spark.stop()


if __name__ == "__main__":
    main()
