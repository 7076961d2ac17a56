"""A real cluster of one master and two workers: the same calls, the same outcome, a task that dies included."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from java_options import quick_java
from skerry.spark.runtime.java import find_java, java_home

pytestmark = [pytest.mark.spark, pytest.mark.service]

START_SECONDS = 180
WORKERS = 2

JAVA_OPTIONS = f"{quick_java()} -XX:+UseSerialGC"

JOB = """
import datetime, os, signal, sys
import pyarrow as pa
import skerry, skerry.spark
from skerry.spark.runtime.executor import SparkExecutor

master, warehouse, marker = sys.argv[1:4]
spark = skerry.spark.session(master=master, config={
    "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.sql.shuffle.partitions": "4",
    "spark.task.maxFailures": "4", "spark.driver.memory": "512m", "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": sys.argv[4], "spark.executor.extraJavaOptions": sys.argv[4],
    "spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.cores.max": "2",  # wait for both workers
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
})
skerry.spark.register(spark)
catalog = skerry.connect(warehouse)
table = catalog.create_table(
    "d.t",
    pa.schema([("k", pa.int64()), ("s", pa.string()), ("p", pa.int64())]),
    partition_by=["p"],
    properties={"write.delete.mode": "merge-on-read"},
)

def place(number):
    return os.environ.get("SPARK_EXECUTOR_DIRS") or os.getcwd()

print("executors", len(set(SparkExecutor(spark).map(place, range(8)))))

columns = ["id as k", "concat('s', id % 7) as s", "id % 2 as p"]

def once(name):
    path = f"{marker}-{name}"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def fail_once(batches):
    from pyspark import TaskContext
    for batch in batches:
        yield batch
    if TaskContext.get().partitionId() == 1 and once("failed"):
        raise RuntimeError("a task fails")

frame = spark.range(0, 1000, 1, 4).selectExpr(*columns)
skerry.spark.ingest(spark, frame.mapInArrow(fail_once, frame.schema), table)

def die_once(batches):
    # behind the rows, so that the task has been writing: its Python worker and the one that writes are killed
    from pyspark import TaskContext
    yield from batches
    if TaskContext.get().partitionId() == 1 and once("died"):
        daemon = os.getppid()
        with open(f"/proc/{daemon}/task/{daemon}/children") as children:
            workers = [int(child) for child in children.read().split()]
        for worker in sorted(workers, key=lambda worker: worker == os.getpid()):
            os.kill(worker, signal.SIGKILL)

frame = spark.range(1000, 2000, 1, 4).selectExpr(*columns)
frame = frame.mapInArrow(die_once, frame.schema)
frame.write.format("skerry").mode("append").option("catalog", warehouse).save("d.t")
print("failed", os.path.exists(f"{marker}-failed"), "died", os.path.exists(f"{marker}-died"))
read = spark.read.format("skerry").option("catalog", warehouse).load("d.t")
print("rows", sorted(table.refresh().scan(["k"]).to_arrow()["k"].to_pylist()) == list(range(2000)), read.count())
table.delete("k < 100")
merged = skerry.spark.merge(
    spark, table, spark.range(1990, 2010).selectExpr("id as k", "'new' as s", "id % 2 as p"), on="k",
    when_matched="update", when_not_matched="insert",
)
print("merged", merged.updated_rows, merged.inserted_rows)
compacted = skerry.spark.compact(spark, table, full=True)
print("compacted", compacted.groups, compacted.rows)
skerry.spark.expire_snapshots(spark, table, older_than=datetime.datetime.now(datetime.UTC))
orphans = skerry.spark.remove_orphans(spark, table, older_than_days=0)
print("content", table.scan().count(), len(table.files()), str(table.statistics()["k"].freshness))
print("orphans in data", sum("/data/" in file.location for file in orphans.files))
spark.stop()
"""


@contextmanager
def running(command: list[str], log: Path, environment: dict[str, str], pattern: str = "()") -> Iterator[str]:
    """A server, and what its log says when it is ready; at once if that does not matter."""
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=log.parent)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not (found := re.search(pattern, log.read_text(errors="replace"))):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[1]} did not start:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(spark_home: Path, tmp_path: Path) -> Iterator[str]:
    """URL of the master of a standalone cluster with two workers of one core each."""
    spark_class = spark_home / "bin" / "spark-class"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home(find_java(pyspark.__version__))),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home),
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    at = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as servers:
        master = [str(spark_class), "org.apache.spark.deploy.master.Master", *at]
        url = servers.enter_context(
            running(master, tmp_path / "master.log", environment, r"(spark://127\.0\.0\.1:\d+)")
        )
        worker = [str(spark_class), "org.apache.spark.deploy.worker.Worker", *at, "--cores", "1", "--memory", "1g"]
        for number in range(WORKERS):  # the job waits for them while its own processes start
            command = [*worker, "--work-dir", str(tmp_path / f"work{number}"), url]
            servers.enter_context(running(command, tmp_path / f"worker{number}.log", environment))
        yield url


@pytest.mark.long
def test_jobs_on_a_standalone_cluster(cluster: str, spark_home: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JOB, cluster, tmp_path / "warehouse", tmp_path / "marker", JAVA_OPTIONS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(spark_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.splitlines() == [
        "executors 2",
        "failed True died True",
        "rows True 2000",
        "merged 10 10",
        "compacted 2 1910",
        "content 1910 2 fresh",
        "orphans in data 0",
    ]
