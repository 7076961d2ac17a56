"""Reading tables into Spark through Arrow, beside what PyArrow decodes of the same rows in as many threads.

Lineitem at scale factor 1 (6,001,215 rows, made once by `tpchgen-cli` under `.cache/`) in three tables: with a tenth of
its rows deleted by deletion vectors, in Amudai shards, and in Parquet files as they are, which `format("skerry")` reads
through Python workers as well. Spark reads all values and drops them (`noop`). PyArrow decodes the Parquet files (for
the shards: Parquet files of the same rows), a row group per task in as many threads, and does nothing with the rows.

The processor time of this process, of Spark's and of its Python workers stands beside the time of the clock.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skerry
import skerry.spark
from figures import figure
from skerry.catalog import Table
from spark_times import Times, timed
from tpch_data import CACHE, lineitem_rows

FOLDER = CACHE / "spark-source-read"
THREADS = 2
TARGET = 0.9
DELETED = 0.1
COLUMNS = {"3 columns": ["l_orderkey", "l_quantity", "l_shipdate"], "16 columns": None}


def make_tables(count: int) -> dict[str, Table]:
    """Tables of the same rows."""
    rows = lineitem_rows(count)
    rows = rows.append_column("number", pa.array(range(len(rows)), pa.int64()))
    shutil.rmtree(FOLDER, ignore_errors=True)
    catalog = skerry.connect(FOLDER)
    tables = {}
    for name, file_format in (("plain", "parquet"), ("deleted", "parquet"), ("shards", "amudai")):
        table = catalog.create_table(
            f"d.{name}",
            rows.schema,
            file_format=file_format,
            format_version=3,
            properties={"write.delete.mode": "merge-on-read", "write.parquet.row-group-size-bytes": str(64 << 20)},
        )
        table.append(rows)
        tables[name] = table
    numbers = np.random.default_rng(7).choice(len(rows), int(len(rows) * DELETED), replace=False)
    where = pa.compute.field("number").isin(pa.array(numbers))
    tables["deleted"].delete(where)
    return tables


def decode(paths: list[str], columns: list[str]) -> None:
    """Decode Parquet files, a row group per task."""

    def read(task: tuple[str, int]) -> int:
        return len(pq.ParquetFile(task[0]).read_row_group(task[1], columns, use_threads=False))

    tasks = [(path, group) for path in paths for group in range(pq.read_metadata(path).num_row_groups)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(read, tasks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=6_001_215)
    chosen = parser.parse_args()
    tables = make_tables(chosen.rows)
    spark = skerry.spark.session(master=f"local[{THREADS}]")
    skerry.spark.register(spark)

    def by_source(name: str, columns: list[str]) -> Times:
        frame = spark.read.format("skerry").option("catalog", str(FOLDER)).option("columns", ",".join(columns))
        return timed(lambda: frame.load(f"d.{name}").write.format("noop").mode("overwrite").save())

    def by_read(name: str, columns: list[str]) -> Times:
        return timed(
            lambda: skerry.spark.read(spark, tables[name], columns).write.format("noop").mode("overwrite").save()
        )

    for name, table in tables.items():
        decoded = tables["plain" if name == "shards" else name]
        paths = [file.location.removeprefix("file://") for file in decoded.files()]
        for title, some in COLUMNS.items():
            columns = some or [column for column in table.schema.names if column != "number"]
            routes = {
                "PyArrow": lambda paths=paths, columns=columns: timed(lambda: decode(paths, columns)),
                'format("skerry")': lambda name=name, columns=columns: by_source(name, columns),
                "skerry.spark.read": lambda name=name, columns=columns: by_read(name, columns),
            }
            times: dict[str, list[Times]] = {route: [] for route in routes}
            for number in range(chosen.rounds + 1):
                turns = list(routes.items())
                for route, run in turns if number % 2 else reversed(turns):
                    found = run()
                    if number:  # the first one warms up
                        times[route].append(found)
            for route, all_found in times.items():
                if route != "PyArrow":
                    pair = all_found, times["PyArrow"]
                    figure(f"{name}, {title}, {route}", *([found.clock_s for found in each] for each in pair))
                clock = statistics.median(found.clock_s for found in all_found)
                processor = statistics.median(found.processor_s for found in all_found)
                ratio = statistics.median(
                    theirs.clock_s / ours.clock_s for theirs, ours in zip(times["PyArrow"], all_found, strict=True)
                )
                print(
                    f"{name}, {title}, {route}: {Times(clock, processor)}, {ratio:.2f} of PyArrow (at least {TARGET})"
                )
    spark.stop()


if __name__ == "__main__":
    main()
