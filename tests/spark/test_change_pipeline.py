"""From PostgreSQL to both table formats while processes are killed: nothing lost, nothing doubled, statistics fresh.

`make test` runs a short cut; `make soak` the same for ten minutes, with the seconds in SKERRY_SOAK_SECONDS, and
measures memory, files, metadata and latency after each round (`soak_series.py`); SKERRY_SOAK_REPORT names the file.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "change_data"))
sys.path.insert(0, str(Path(__file__).parents[1] / "paimon"))

from typing import Self

from check import catch_up, compare, compare_statistics, read_by_duckdb, read_by_spark, read_source
from paimon_peers import JavaPaimon, java_rows
from soak_series import Series
from stream import ICEBERG, PAIMON, create_tables
from upkeep import look_after
from workload import TABLE, Shop

import skerry
from java_options import quick_java

pytestmark = [pytest.mark.spark, pytest.mark.service]

EXAMPLE = Path(__file__).parents[2] / "examples" / "change_data"

SECONDS = int(os.environ.get("SKERRY_SOAK_SECONDS", "0"))
"""How long the source changes; 0 for the short cut, which always does the same."""

SEED = 20
ORDERS = 2_000
TRANSACTIONS = 100
"""So many in a round, of 25 changes or so."""

RATE = 1_000
"""Changes a second."""

WAIT_SECONDS = 240
"""How long the tables may take to catch up on a machine that does other things."""


class Pipeline:
    """The example's programs, each a process of its own, which can be killed and started again."""

    def __init__(self, url: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._environment = environment
        self.warehouse = folder / "warehouse"
        self._commands = {
            "capture": [url, TABLE, folder / "records"],
            "stream": [folder / "records", self.warehouse, folder / "checkpoint"],
            "upkeep": [self.warehouse, ICEBERG, PAIMON, "--every-seconds", "3"],
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for name in self._commands:
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name: str) -> None:
        command = [sys.executable, EXAMPLE / f"{name}.py", *map(str, self._commands[name])]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, start_new_session=True, env=self._environment
            )

    def kill(self, name: str) -> None:
        """As when the machine fails: a process and all that it has started, in the middle of what they do."""
        process = self._processes[name]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    @property
    def groups(self) -> dict[str, int]:
        """The process groups, by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def is_running(self, name: str) -> bool:
        return self._processes[name].poll() is None

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
def source(postgres_url: str) -> Iterator[str]:
    """URL of a database whose replication slots go with it."""
    url = postgres_url.replace("+psycopg", "")
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid()"
        )
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


def plan_kills() -> Iterator[str | None]:
    """What is killed in each round: in the short cut nothing, the stream, the capture; in a soak always something."""
    yield from (None, "stream", "capture")
    draw, end = random.Random(SEED), time.monotonic() + SECONDS
    while time.monotonic() < end:
        yield draw.choice(["stream", "capture", "capture", "upkeep", "upkeep"])


def wait_for_batch(iceberg: skerry.catalog.Table) -> None:
    """Wait until the stream has written a batch to the first of its tables, and is about to write it to the second."""
    before, deadline = batch_of(iceberg), time.monotonic() + WAIT_SECONDS
    while batch_of(iceberg.refresh()) == before and time.monotonic() < deadline:
        time.sleep(0.01)


def batch_of(iceberg: skerry.catalog.Table) -> str | None:
    return iceberg.properties.get("skerry.stream.orders")


def check_tables(spark: SparkSession, connection: psycopg.Connection, tables: list[skerry.catalog.Table]) -> pa.Table:
    """Compare the tables with the source, before and after they are looked after; returns the source's rows."""
    rows = read_source(connection, tables[0].schema)
    for table in tables:
        compare(f"{table.name}, read by DuckDB,", read_by_duckdb(table), rows)
        compare(f"{table.name}, read by Spark,", read_by_spark(spark, table), rows)
        look_after(table)
        compare(f"{table.name}, looked after,", read_by_duckdb(table), rows)
        compare_statistics(table, rows)
    return rows


def test_change_pipeline(source, spark, spark_home, iceberg_spark, tmp_path):
    quick = {"JAVA_TOOL_OPTIONS": quick_java(), "SPARK_HOME": str(spark_home)}  # in the short cut Spark starts twice
    environment = os.environ if SECONDS else os.environ | quick
    tables = create_tables(skerry.connect(tmp_path / "warehouse"))
    iceberg, paimon = tables
    with psycopg.connect(source, autocommit=True) as connection, Pipeline(source, tmp_path, environment) as pipeline:
        shop = Shop(connection, SEED)
        shop.fill(ORDERS)
        series = Series(Path(os.environ.get("SKERRY_SOAK_REPORT", tmp_path / "soak.jsonl")))
        try:
            kills = 0
            for victim in plan_kills():
                changing = threading.Thread(target=shop.run, args=(TRANSACTIONS, RATE))
                changing.start()
                if victim == "stream":
                    wait_for_batch(iceberg)
                elif victim is not None:
                    time.sleep(TRANSACTIONS * 12 / RATE)  # half of it
                if victim is not None:
                    kills += 1
                    pipeline.kill(victim)
                    pipeline.start(victim)
                changing.join()
                latency_s = catch_up(connection, tables, WAIT_SECONDS)
                rows = check_tables(spark, connection, tables)
                series.add(pipeline.groups, tables, latency_s, {"rows": rows.num_rows, "kills": kills})
            print(series.table())
        except Exception as error:
            raise AssertionError(f"{error}\n{pipeline.logs()}") from error
        assert all(map(pipeline.is_running, ("capture", "stream", "upkeep"))), pipeline.logs()
    by_connector = iceberg_spark(tmp_path / "warehouse").table(f"skerry.{ICEBERG}").orderBy("id").toArrow()
    compare("Iceberg's connector", by_connector, rows)
    by_java = JavaPaimon(spark, tmp_path).read(paimon.location)
    assert sorted(by_java, key=lambda row: row[0]) == java_rows(rows), "Paimon Java"
