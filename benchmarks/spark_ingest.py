"""Landing TPC-H lineitem through Spark with statistics and a commit, beside Spark's own Parquet write of the frame.

Both read lineitem at scale factor 1 (6,001,215 rows, 16 columns, made once by `tpchgen-cli` under `.cache/`) and write
it with Zstandard in the same session, taking turns; the ratio is the median of the rounds' ratios. What `ingest` does
beyond the write: conversions and checks, sketches of all 16 columns, footers, manifests, one statistics file, a commit.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable

import pyarrow.parquet as pq

import skerry
from figures import figure
from skerry.spark import ingest, session
from tpch_data import CACHE, make_lineitem

THREADS = 2
TARGET = 0.9


def timed(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    source = make_lineitem()
    rows = pq.read_metadata(source).num_rows
    work = CACHE / "spark-ingest"
    shutil.rmtree(work, ignore_errors=True)
    spark = session(master=f"local[{THREADS}]", config={"spark.sql.files.maxPartitionBytes": 64 << 20})
    frame = spark.read.parquet(str(source))
    catalog = skerry.connect(work / "warehouse")
    schema = pq.read_schema(source)

    def by_spark() -> None:
        frame.write.parquet(str(work / "plain"), mode="overwrite", compression="zstd")

    def by_skerry() -> None:
        name = f"tpch.lineitem_{time.monotonic_ns()}"
        ingest(spark, frame, catalog.create_table(name, schema))

    times: dict[str, list[float]] = {"Spark's write": [], "ingest": []}
    by_spark()  # the JVM and the Python workers warm up
    by_skerry()
    for number in range(rounds):
        turns = [("Spark's write", by_spark), ("ingest", by_skerry)]
        for name, run in turns if number % 2 else reversed(turns):
            times[name].append(timed(run))
    for name, seconds in times.items():
        each = ", ".join(f"{second:.2f}" for second in seconds)
        print(f"{name:14} {rows / statistics.median(seconds) / 1e6:.2f} million rows/s  median of {each} s")
    figure("ingest", times["ingest"], times["Spark's write"])
    ratios = [spark_s / ingest_s for spark_s, ingest_s in zip(*times.values(), strict=True)]
    print(f"throughput of ingest to Spark's own write: {statistics.median(ratios):.2f} (at least {TARGET})")
    spark.stop()


if __name__ == "__main__":
    main()
