"""A real cluster of one master and two workers: what jobs do on it, a task that fails and one that dies included.

`make test` takes the newest Spark, which has no Iceberg connector; `make torture` also the one that has.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from java_options import quick_java
from skerry.spark.runtime.java import find_java, java_home
from spark_homes import make_spark_home
from torture import TORTURE

pytestmark = [pytest.mark.spark, pytest.mark.service]

START_SECONDS = 180
WORKERS = 2
PEERS = Path(__file__).parent / "peers"
NEWEST = Path(__file__).parents[2] / ".venv-spark43"
"""The environment of the newest Spark, made by `make peers`."""

NO_CONNECTOR = "Iceberg 1.12.0 has no connector for Spark 4.3, only for 4.0 and 4.1: run `pip install 'pyspark==4.1.*'`"
STEPS = [
    "executors 2",
    "ingest 900 900 rows in 3 files, 900.0 keys, fresh",
    "write 1000 rows in 6 files, 1000.0 keys, fresh",
    "failed True died True",
    "keys True",
    "read 1000 9945",
    "own read 330 ['s0', 's1', 's2', 's3', 's4', 's5', 's6']",
    "sql {'n': 990, 'm': 999}",
    "merge 5 5",
    "compact 3 995 rows in 3 files, 995.0 keys, fresh",
    "stream 995 1",
    "upkeep 1 True 0",
]


@dataclass(frozen=True)
class Cluster:
    """A standalone cluster.

    Args:
        master: URL of its master.
        python: The Python of its Spark.
        environment: Variables of its processes.
        java: Options for its Javas.
    """

    master: str
    python: Path
    environment: dict[str, str]
    java: str


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


@contextmanager
def cluster(version: str, python: Path, package: Path, folder: Path) -> Iterator[Cluster]:
    """A standalone cluster with two workers of one core each."""
    home, java = make_spark_home(folder / "home", package), f"{quick_java(version)} -XX:+UseSerialGC"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home(find_java(version))),
        "PYSPARK_PYTHON": str(python),
        "SPARK_DAEMON_JAVA_OPTS": java,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    spark_class = str(home / "bin" / "spark-class")
    at = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as servers:
        master = [spark_class, "org.apache.spark.deploy.master.Master", *at]
        url = servers.enter_context(running(master, folder / "master.log", environment, r"(spark://127\.0\.0\.1:\d+)"))
        worker = [spark_class, "org.apache.spark.deploy.worker.Worker", *at, "--cores", "1", "--memory", "1g"]
        for number in range(WORKERS):  # the job waits for them while its own processes start
            command = [*worker, "--work-dir", str(folder / f"work{number}"), url]
            servers.enter_context(running(command, folder / f"worker{number}.log", environment))
        yield Cluster(url, python, environment, java)


def steps(cluster: Cluster, folder: Path) -> list[str]:
    """What a pipeline says of each of its steps."""
    (scratch := folder / "scratch").mkdir()
    done = subprocess.run(
        [cluster.python, PEERS / "cluster_job.py", cluster.master, folder / "warehouse", scratch, cluster.java],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in cluster.environment.items() if name != "JAVA_HOME"},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout.splitlines()


def sparks() -> list[tuple[str, Path, Path, list[str]]]:
    """Version, Python and package of each Spark, and what is said there first."""
    (package,) = NEWEST.glob("lib/python*/site-packages/pyspark")
    version, ours = pyspark.__version__, Path(pyspark.__file__).parent
    newest = ("4.3.0", NEWEST / "bin" / "python", package, ["spark 4.3.0 4.3.0", NO_CONNECTOR])
    connector = (version, Path(sys.executable), ours, [f"spark {version} {version}"])
    return [newest, connector] if TORTURE else [newest]


@pytest.mark.long
def test_a_pipeline_on_a_cluster(tmp_path: Path) -> None:
    for version, python, package, said in sparks():
        (folder := tmp_path / version).mkdir()
        with cluster(version, python, package, folder) as place:
            assert steps(place, folder) == [*said, *STEPS]
