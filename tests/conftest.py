"""Fixtures shared by all tests.

Under pytest-xdist, tests that use `spark` share one worker, and so one JVM; those that run Spark in processes of their
own go wherever there is room.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from java_options import quick_java
from spark_homes import make_spark_home
from torture import TORTURE, examples

# Examples share two cores with other tests, so that no time says anything. They are the same in every run; with
# SKERRY_TORTURE=1 they are new ones each time, and many.
hypothesis.settings.register_profile(
    "skerry",
    deadline=None,
    max_examples=examples(40),
    derandomize=not TORTURE,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("skerry")
if not TORTURE:
    # It also tries numbers that stand in whatever modules are loaded, and these differ from worker to worker.
    providers._get_local_constants = lambda: providers._local_constants

# The tests start hundreds of Python processes. Each would compile the package for itself, and each pytest worker
# rewrite the assertions of all tests again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A catalog in SQLite waits for the disk at every commit. Files of tests are kept in memory where there is room.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 8 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

pytest_plugins = ["services", "slow_tests"]

LONGEST_NAMED = 100
"""Characters or bytes of a parameter that names a test."""

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without garbage collection.

    Modules and tests are half a million objects that stay: looking for garbage among them takes a quarter of the time
    meanwhile, and half a second whenever a test, or pytest at its end, has all of them looked through.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # extension modules complain of objects that are left at the end


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not TORTURE and (rare := [item for item in items if item.get_closest_marker("torture")]):
        config.hook.pytest_deselected(items=rare)
        items[:] = [item for item in items if item not in set(rare)]
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "spark" in fixtures:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))
        else:
            for server in ("rest_catalog", "reference_server"):  # one Java each, not one for each worker
                if server in fixtures:
                    item.add_marker(pytest.mark.xdist_group(server))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A short name for a long value: every worker sends the names of all tests, and each is in three reports."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_NAMED:
        return f"{argname} of {len(val)}"
    return None


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark's programs are for the tests, with a compiled archive of PySpark."""
    import pyspark

    return make_spark_home(tmp_path_factory.mktemp("spark") / "home", Path(pyspark.__file__).parent)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_home: Path) -> Iterator[SparkSession]:
    """One Spark for the whole run, with the jars of Iceberg's connector, SQLite's driver and Paimon in its JVM."""
    import skerry.spark
    from skerry.spark.runtime.session import ICEBERG_EXTENSIONS, iceberg_packages

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_HOME", str(spark_home))
        session = skerry.spark.session(
            "skerry tests",
            master="local[2]",
            packages=[*iceberg_packages("4.1"), "org.apache.paimon:paimon-bundle:1.4.2"],
            config={
                "spark.connect.grpc.binding.port": "0",
                "spark.driver.memory": "2g",
                "spark.local.dir": str(folder / "local"),
                "spark.sql.extensions": ICEBERG_EXTENSIONS,
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder / 'derby'} {quick_java()}",
            },
        )
    yield session
    session.stop()


@pytest.fixture
def iceberg_spark(spark: SparkSession) -> Callable[[str | Path], SparkSession]:
    """A function of a warehouse folder: a session of its own in the shared JVM, whose SQL catalog `skerry` it is."""
    from skerry.spark.runtime.session import iceberg_settings

    def open_session(warehouse: str | Path) -> SparkSession:
        session = spark.newSession()
        for key, value in iceberg_settings(str(warehouse)).items():
            session.conf.set(key, value)
        return session

    return open_session
