"""The first batches of a stream from one table into another, `format("skerry")`: in a fresh session and restarted.

A process of its own starts Spark and runs the stream until a first and a second batch are committed, then stops the
query and starts it again from its checkpoint, twice. Given are the seconds from `start()` to each commit, and those of
the first job of a session that reads a table (`format("skerry")`, then again).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import skerry
import skerry.spark
from figures import figure

ROWS = pa.table({"k": range(1000), "s": [f"word {n % 77}" for n in range(1000)]})


def run(folder: Path) -> dict[str, float]:
    catalog = skerry.connect(folder / "warehouse")
    source = catalog.create_table("d.source", ROWS.schema)
    catalog.create_table("d.sink", ROWS.schema)
    source.append(ROWS)
    times: dict[str, float] = {}
    begin = time.perf_counter()
    spark = skerry.spark.session(config={"spark.sql.shuffle.partitions": "2"})
    skerry.spark.register(spark)
    spark.range(1).count()
    times["start of Spark"] = time.perf_counter() - begin
    place = {"catalog": str(folder / "warehouse")}

    def read() -> None:
        assert spark.read.format("skerry").options(table="d.source", **place).load().count() > 0

    def stream(start: int) -> None:
        frame = spark.readStream.format("skerry").options(table="d.source", **place).load()
        query = (
            frame.writeStream.format("skerry")
            .options(table="d.sink", checkpointLocation=str(folder / "checkpoint"), **place)
            .queryName("copy")
            .start()
        )
        begin, before = time.perf_counter(), query.lastProgress
        for name in ("first batch", "second batch"):
            source.append(ROWS)
            query.processAllAvailable()
            times[f"{name} of start {start}"] = time.perf_counter() - begin
            begin = time.perf_counter()
        assert query.lastProgress != before
        query.stop()

    for name in ("first read", "second read"):
        begin = time.perf_counter()
        read()
        times[name] = time.perf_counter() - begin
    for start in (1, 2, 3):
        stream(start)
    spark.stop()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="be one of the processes that are measured")
    arguments = parser.parse_args()
    if arguments.folder:
        print(json.dumps(run(arguments.folder)))
        return
    results = []
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, __file__, "--folder", folder], check=True, stdout=subprocess.PIPE, text=True
            )
            results.append(json.loads(done.stdout.splitlines()[-1]))
    for name in results[0]:
        values = [result[name] for result in results]
        figure(name, values)
        print(f"{name:28s} {statistics.median(values):6.2f} s   (least {min(values):.2f}, greatest {max(values):.2f})")


if __name__ == "__main__":
    main()
