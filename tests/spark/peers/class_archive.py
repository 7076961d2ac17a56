"""Writes an archive of the classes that Spark loads, by which the JVMs of the tests start with half the work.

Run by `make peers` with the Python of each environment: `python class_archive.py FILE`. Archives belong to one Java and
one set of jars, and a JVM does without one that does not fit (https://docs.oracle.com/en/java/javase/17/vm/
class-data-sharing.html).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import SparkSession

from skerry.errors import SkerryError
from skerry.spark.runtime.java import find_java, java_home

if TYPE_CHECKING:
    import pyarrow as pa


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def load_classes(spark: SparkSession, folder: str) -> None:
    """A little of all that the tests do: files, queries, Python's tasks, streams."""
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "id as k", "cast(id % 3 as int) as p", "concat('s', id) as s", "array(id) as l"
    )
    frame.write.partitionBy("p").parquet(f"{folder}/rows")
    flat = frame.drop("l")
    flat.write.csv(f"{folder}/csv", header=True)
    flat.write.json(f"{folder}/json")
    flat.write.orc(f"{folder}/orc")
    spark.read.csv(f"{folder}/csv", header=True, inferSchema=True).count()
    spark.read.json(f"{folder}/json").count()
    spark.read.orc(f"{folder}/orc").collect()
    rows = spark.read.parquet(f"{folder}/rows")
    rows.mapInArrow(same, rows.schema).where("k > 3").groupBy("p").count().orderBy("p").collect()
    rows.join(flat.select("k"), "k").selectExpr("max(k)", "count(distinct p)").toArrow()
    rows.createOrReplaceTempView("t")
    spark.sql("select *, row_number() over (partition by p order by k) from t where s like 's1%' limit 3").collect()
    stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").writeStream.format("parquet")
    places = {"path": f"{folder}/copy", "checkpointLocation": f"{folder}/checkpoint"}
    stream.options(**places).trigger(availableNow=True).start().awaitTermination()


def run_spark(archive: Path) -> None:
    options = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={archive} -Xlog:disable -Xlog:all=error:stderr"
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.remote("local[2]")  # a server for Spark Connect also loads what others do
        for key, value in {
            "spark.driver.extraJavaOptions": options,
            "spark.driver.memory": "1g",
            "spark.local.dir": f"{folder}/local",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.ui.enabled": "false",
        }.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        load_classes(spark, folder)
        spark.stop()


def write(archive: Path) -> str:
    """Write the archive; returns why it could not be written, or nothing."""
    try:
        java = str(java_home(find_java(pyspark.__version__)))
    except SkerryError as error:
        return str(error)
    # The JVM writes the archive after the process that started it has ended; it keeps the pipes open until then.
    done = subprocess.run(
        [sys.executable, __file__, archive, "run"],
        env={**os.environ, "JAVA_HOME": java, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0 and archive.exists():
        return ""
    return done.stderr[-3000:] or f"exit status {done.returncode}"


def main() -> None:
    archive = Path(sys.argv[1]).absolute()
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    problem = write(archive)
    if problem:
        archive.write_bytes(b"")  # so that not every `make` tries again; tests do without it
        print(f"warning: no archive of Spark's classes, the tests' JVMs start slower:\n{problem}", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[2:]:
        run_spark(Path(sys.argv[1]))
    else:
        main()
