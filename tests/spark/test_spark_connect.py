"""A real Spark Connect server: tasks, landing, upkeep, and the data source in batches and streams."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skerry.errors import UnsupportedError
from skerry.spark.runtime.session import session

JOB = """
import datetime, sys
from pathlib import Path
import pyarrow as pa
import skerry, skerry.spark
from skerry.errors import FormatError
from skerry.spark.runtime.executor import SparkExecutor

spark = skerry.spark.session(master=sys.argv[3], config={"spark.sql.shuffle.partitions": "2"})
assert "connect" in type(spark).__module__
print(list(SparkExecutor(spark).map(lambda number: -number, range(3))))

def fail(number):
    raise FormatError("broken", offset=number)

try:
    list(SparkExecutor(spark).map(fail, [7]))
except FormatError as error:
    print(error.message, error.offset)

warehouse, checkpoint = sys.argv[1:3]
catalog = skerry.connect(warehouse)
schema = pa.schema([("k", pa.int64()), ("l", pa.list_(pa.int64())), ("p", pa.int32())])
columns = ["id as k", "array(id) as l", "cast(id % 2 as int) as p"]
table = catalog.create_table("d.t", schema, partition_by=["p"], properties={"write.delete.mode": "merge-on-read"})
skerry.spark.ingest(spark, spark.range(10).selectExpr(*columns), table)
print("landed", table.scan().count(), len(table.files()))

skerry.spark.register(spark)
source = {"catalog": warehouse, "table": "d.t"}
spark.range(10, 30, 1, 4).selectExpr(*columns).write.format("skerry").options(**source).mode("append").save()
print("written", table.refresh().scan().count(), len(table.files()), table.statistics()["k"].freshness)
read = spark.read.format("skerry").options(**source, where="k >= 5").load()
print("read", read.count(), read.where("p = 1").selectExpr("sum(k)").first()[0])
again = spark.range(28, 32).selectExpr(*columns)
again.write.format("skerry").options(**source, operation="upsert", on="k").mode("append").save()
print("upserted", table.refresh().scan().count())

copy = catalog.create_table("d.copy", schema)

def run_stream():
    stream = spark.readStream.format("skerry").options(**source, **{"max-snapshots-per-batch": "1"}).load()
    to = {"catalog": warehouse, "table": "d.copy", "checkpointLocation": checkpoint}
    stream.writeStream.format("skerry").options(**to).trigger(availableNow=True).start().awaitTermination()
    return copy.refresh().scan().count()

print("streamed", run_stream())
print("query", copy.properties[f"skerry.stream-query.{checkpoint}"] in Path(checkpoint, "metadata").read_text())
spark.range(40, 45).selectExpr(*columns).write.format("skerry").options(**source).mode("append").save()
print("streamed on", run_stream(), len({row["k"] for row in copy.scan(["k"]).to_arrow().to_pylist()}))

table.refresh().delete("k < 3")
print("own read", skerry.spark.read(spark, table, where="k < 10").count())
print("sql", skerry.spark.sql(spark, "select count(*) as n from d.t", catalog).first().n)
merged = skerry.spark.merge(
    spark, table, spark.range(44, 46).selectExpr(*columns), on="k", when_matched="update", when_not_matched="insert"
)
print("merged", merged.updated_rows, merged.inserted_rows)
print("compacted", skerry.spark.compact(spark, table, full=True).rows, len(table.refresh().files()))
skerry.spark.expire_snapshots(spark, table, older_than=datetime.datetime.now(datetime.UTC))
print("orphans", len(skerry.spark.remove_orphans(spark, table, older_than_days=0).files))
spark.stop()
"""


@pytest.fixture
def connect_url(spark: SparkSession) -> Iterator[str]:
    """URL of a Spark Connect server in the JVM of all tests."""
    services = spark._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(services, "SparkConnectService$"), "MODULE$")
    service.start(spark._jsc.sc())
    yield f"sc://127.0.0.1:{service.localPort()}"
    none = spark._jvm.scala.Option.empty()
    service.stop(none, none)


def test_jobs_batches_and_streams_on_spark_connect(connect_url: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="PySpark was installed without its client for Spark Connect")
    done = subprocess.run(
        [sys.executable, "-c", JOB, tmp_path / "warehouse", tmp_path / "checkpoint", connect_url],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "[0, -1, -2]",
        "broken 7",
        "landed 10 2",
        "written 30 4 fresh",
        "read 25 221",
        "upserted 32",
        "streamed 32",
        "query True",
        "streamed on 37 37",
        "own read 7",
        "sql 34",
        "merged 1 1",
        "compacted 35 2",
        "orphans 0",
    ], done.stderr[-5000:]


def test_what_only_the_server_can_be_given_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"start the server with `--packages a:b:1,c:d:2`"):
        session(master="sc://localhost:1", packages=["a:b:1", "c:d:2"])


def test_a_missing_client_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['grpc'] = None; import skerry.spark; skerry.spark.session(master='sc://localhost:1')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingDependencyError: Spark Connect needs packages that are not installed" in done.stderr
    assert "pip install 'pyspark[connect]'" in done.stderr
