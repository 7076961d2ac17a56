"""What a pipeline does, on the Spark of the environment that this runs in; prints what came of each step."""

from __future__ import annotations

import datetime as dt
import sys

import pyarrow as pa
import pyspark

import skerry
import skerry.spark
from skerry.errors import UnsupportedError

warehouse = sys.argv[1]
catalog = skerry.connect(warehouse)
spark = skerry.spark.session(
    master="local[2]",
    config={
        "spark.driver.extraJavaOptions": sys.argv[3],
        "spark.driver.memory": "1g",
        "spark.local.dir": sys.argv[2],
        "spark.sql.shuffle.partitions": "2",
    },
)
print("spark", pyspark.__version__, spark.version)
try:
    skerry.spark.session(iceberg_catalog=warehouse)
except UnsupportedError as error:
    print(error.message)
skerry.spark.register(spark)
schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("p", pa.int32())])
columns = ["id as k", "concat('s', id % 7) as s", "cast(id % 3 as int) as p"]
table = catalog.create_table("d.t", schema, partition_by=["p"], properties={"write.delete.mode": "merge-on-read"})


def content() -> str:
    """Rows, files and what is known of the keys."""
    statistics = table.refresh().statistics()["k"]
    return f"{table.scan().count()} rows in {len(table.files())} files, {statistics.ndv} keys, {statistics.freshness}"


summary = skerry.spark.ingest(spark, spark.range(0, 900, 1, 4).selectExpr(*columns), table)
print("ingest", summary.rows, content())
source = {"catalog": warehouse, "table": "d.t"}
rows = spark.range(900, 1000, 1, 2).selectExpr(*columns)
rows.write.format("skerry").options(**source).mode("append").save()
print("write", content())
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
        .options(catalog=warehouse, table="d.copy", checkpointLocation=f"{sys.argv[2]}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
print("stream", copy.refresh().scan().count(), len(copy.snapshots()))
expired = skerry.spark.expire_snapshots(spark, table, older_than=dt.datetime.now(dt.UTC))
orphans = skerry.spark.remove_orphans(spark, table, older_than_days=0)
print("upkeep", len(table.refresh().snapshots()), bool(expired.files), len(orphans.files))
spark.stop()
