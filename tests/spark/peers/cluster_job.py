"""What a pipeline does on a cluster, on the Spark of the environment that this runs in; prints what came of each step.

Arguments: the master's URL, a folder for the warehouse, one for what Spark and the steps write, and Java's options.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys

import pyarrow as pa
import pyspark

import skerry
import skerry.spark
from skerry.errors import UnsupportedError
from skerry.spark.runtime.executor import SparkExecutor

master, warehouse, scratch, java = sys.argv[1:]
catalog = skerry.connect(warehouse)
spark = skerry.spark.session(
    master=master,
    config={
        "spark.cores.max": "2",
        "spark.driver.extraJavaOptions": java,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": java,
        "spark.executor.memory": "512m",
        "spark.local.dir": scratch,
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # wait for both workers
        "spark.sql.shuffle.partitions": "2",
        "spark.task.maxFailures": "4",
    },
)
print("spark", pyspark.__version__, spark.version)
if not pyspark.__version__.startswith("4.1"):
    try:
        skerry.spark.session(iceberg_catalog=warehouse)
    except UnsupportedError as error:
        print(error.message)
skerry.spark.register(spark)
schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("p", pa.int32())])
columns = ["id as k", "concat('s', id % 7) as s", "cast(id % 3 as int) as p"]
table = catalog.create_table("d.t", schema, partition_by=["p"], properties={"write.delete.mode": "merge-on-read"})


def place(number):
    return os.environ.get("SPARK_EXECUTOR_DIRS") or os.getcwd()


def once(name):
    path = f"{scratch}/{name}"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def fail_once(batches):
    from pyspark import TaskContext

    yield from batches
    if TaskContext.get().partitionId() == 1 and once("failed"):
        raise RuntimeError("a task fails")


def die_once(batches):
    # after the rows, so that the task has been writing: its Python worker and the one that writes are killed
    from pyspark import TaskContext

    yield from batches
    if TaskContext.get().partitionId() == 1 and once("died"):
        daemon = os.getppid()
        with open(f"/proc/{daemon}/task/{daemon}/children") as children:
            workers = [int(child) for child in children.read().split()]
        for worker in sorted(workers, key=lambda worker: worker == os.getpid()):
            os.kill(worker, signal.SIGKILL)


def content() -> str:
    """Rows, files and what is known of the keys."""
    statistics = table.refresh().statistics()["k"]
    return f"{table.scan().count()} rows in {len(table.files())} files, {statistics.ndv} keys, {statistics.freshness}"


print("executors", len(set(SparkExecutor(spark).map(place, range(8)))))
rows = spark.range(0, 900, 1, 4).selectExpr(*columns)
summary = skerry.spark.ingest(spark, rows.mapInArrow(fail_once, rows.schema), table)
print("ingest", summary.rows, content())
source = {"catalog": warehouse, "table": "d.t"}
rows = spark.range(900, 1000, 1, 2).selectExpr(*columns)
rows = rows.mapInArrow(die_once, rows.schema)
rows.write.format("skerry").options(**source).mode("append").save()
print("write", content())
print("failed", os.path.exists(f"{scratch}/failed"), "died", os.path.exists(f"{scratch}/died"))
print("keys", sorted(table.scan(["k"]).to_arrow()["k"].to_pylist()) == list(range(1000)))
read = spark.read.format("skerry").options(**source).load()
print("read", read.count(), read.where("k >= 990").selectExpr("sum(k)").first()[0])
table.delete("k < 10")
frame = skerry.spark.read(spark, table, where="p = 0")
print("own read", frame.count(), sorted(row.s for row in frame.select("s").distinct().collect()))
print("sql", skerry.spark.sql(spark, "select count(*) as n, max(k) as m from d.t", catalog).first().asDict())
merged = skerry.spark.merge(
    spark, table, spark.range(995, 1005).selectExpr(*columns), on="k", when_matched="update", when_not_matched="insert"
)
print("merge", merged.updated_rows, merged.inserted_rows)
compacted = skerry.spark.compact(spark, table, full=True)
print("compact", compacted.groups, content())
copy = catalog.create_table("d.copy", schema)
for _ in range(2):  # the second has nothing to do
    stream = spark.readStream.format("skerry").options(**source).load()
    query = (
        stream.writeStream.format("skerry")
        .options(catalog=warehouse, table="d.copy", checkpointLocation=f"{scratch}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
print("stream", copy.refresh().scan().count(), len(copy.snapshots()))
expired = skerry.spark.expire_snapshots(spark, table, older_than=dt.datetime.now(dt.UTC))
orphans = skerry.spark.remove_orphans(spark, table, older_than_days=0)
left = sum("/data/" in file.location for file in orphans.files)
print("upkeep", len(table.refresh().snapshots()), bool(expired.files), left)
spark.stop()
