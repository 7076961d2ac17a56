"""Configured Spark sessions: finds Java, prepares Python workers, and adds the Iceberg connector on request.

Every setting made here is a default. Settings in `config`, in `spark-defaults.conf` and in
`PYSPARK_SUBMIT_ARGS` take precedence.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.errors import MissingDependencyError, SkerryError, UnsupportedError
from skerry.spark.runtime.java import find_java, java_home
from skerry.spark.runtime.settings import READ_SETTINGS
from skerry.spark.runtime.spark_home import home_without_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "ICEBERG_EXTENSIONS",
    "ICEBERG_VERSION",
    "SQLITE_VERSION",
    "iceberg_packages",
    "iceberg_settings",
    "plan_settings",
    "read_defaults",
    "session",
]

ICEBERG_VERSION = "1.12.0"
"""Version of the Iceberg connector that `session` adds."""

SQLITE_VERSION = "3.50.3.0"
"""Version of the JDBC driver by which the connector opens our embedded catalog."""

ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
"""Spark SQL extensions of the connector: row-level commands, branches, procedures."""

_CONNECTOR_SPARK_VERSIONS = frozenset({"4.0", "4.1"})  # the minor versions of Spark that this connector is built for
_CONNECT = "sc://"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_GIB = 1 << 30
_QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def session(
    app_name: str = "skerry",
    *,
    master: str = "local[*]",
    config: Mapping[str, str | int | float] | None = None,
    packages: Iterable[str] = (),
    iceberg_catalog: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """Start Spark, or return the running session.

    Defaults: UTC as the session time zone, so that a file gives the same instants on every machine; Parquet
    columns found by field id, and the cost-based optimizer with its reordering of joins, which `read` relies on; no web
    UI; a log of only those errors that no exception reports; on a local master a driver heap of a quarter of the memory
    (1 to 8 GiB) and this Python for the workers.

    Args:
        app_name: Name of the application.
        master: A Spark master, or the URL of a Spark Connect server (`sc://host:port`), which needs no Java here.
        config: Spark settings, which override all defaults made here.
        packages: Maven coordinates (`group:artifact:version`) of jars to fetch and add; not to a Connect server.
        iceberg_catalog: Warehouse folder of an embedded catalog, as `skerry.connect` takes it. Spark's own Iceberg
            connector is then added and configured to the same catalog file, under the name `skerry`:
            `spark.table("skerry.nyc.flights")`.

    Raises:
        MissingDependencyError: PySpark is not installed, or its client for Spark Connect; or no suitable Java is
            found.
        UnsupportedError: There is no Iceberg connector for the installed version of Spark; or jars were requested for a
            Connect server.
        SkerryError: Spark did not start, or a running session lacks what was requested.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError("PySpark is not installed: run `pip install 'skerry[spark]'`") from error

    packages = list(packages)
    if master.startswith(_CONNECT) and packages:
        raise UnsupportedError(
            f"a Spark Connect server has the jars that it was started with: start the server with `--packages "
            f"{','.join(packages)}`"
        )
    settings = plan_settings(
        master,
        config={**read_defaults(os.environ), **{key: _text(value) for key, value in (config or {}).items()}},
        packages=packages,
        iceberg_catalog=None if iceberg_catalog is None else os.fspath(iceberg_catalog),
        log_settings=_log_settings(os.environ),
    )
    builder = SparkSession.builder.appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if master.startswith(_CONNECT):
        try:
            return builder.remote(master).getOrCreate()
        except ImportError as error:
            raise MissingDependencyError(
                f"Spark Connect needs packages that are not installed: run `pip install 'pyspark[connect]'` ({error})"
            ) from error
    with _environment(_launch_environment(master, settings)):
        try:
            spark = builder.master(master).getOrCreate()
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            fetched = settings.get("spark.jars.packages")
            reason = f"it could not fetch {fetched}, or " if fetched else ""
            raise SkerryError(f"Spark did not start: {reason}see its output above for the cause") from error
    _log_less()
    if iceberg_catalog is not None:
        _require_connector(spark)
    return spark


def plan_settings(
    master: str,
    *,
    config: Mapping[str, str],
    packages: Iterable[str] = (),
    iceberg_catalog: str | None = None,
    log_settings: Path | None = None,
) -> dict[str, str]:
    """Return all Spark settings of a session: our defaults under the caller's, jars and extensions added to theirs.

    Args:
        master: As `session` takes it.
        config: The caller's settings.
        packages: As `session` takes them.
        iceberg_catalog: As `session` takes it.
        log_settings: A Log4j file to log by, unless the settings name one.
    """
    wanted = list(packages)
    catalog: dict[str, str] = {}
    if iceberg_catalog is not None:
        catalog = iceberg_settings(iceberg_catalog)
        wanted += iceberg_packages()
    if master.startswith(_CONNECT):  # all else is the server's business
        return {"spark.sql.session.timeZone": "UTC"} | READ_SETTINGS | catalog | dict(config)
    settings = READ_SETTINGS | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.daemon.module": "skerry.spark.daemon",
    }
    if master.startswith("local"):
        settings["spark.driver.memory"] = f"{_driver_heap_bytes() // (1 << 20)}m"
        settings["spark.executor.heartbeatInterval"] = "1s"  # as often as progress is news
    settings |= catalog | dict(config)
    if log_settings is not None and "log4j" not in settings.get(_JAVA_OPTIONS, ""):
        options = [settings.get(_JAVA_OPTIONS, ""), f"-Dlog4j2.configurationFile='{log_settings}'"]
        settings[_JAVA_OPTIONS] = " ".join(filter(None, options))
    if catalog:
        _append(settings, "spark.sql.extensions", [ICEBERG_EXTENSIONS])
    jars, missing = _in_ivy_cache(wanted)
    _append(settings, "spark.jars", jars)
    _append(settings, "spark.jars.packages", missing)
    return settings


def iceberg_packages(spark_version: str | None = None) -> list[str]:
    """Return the Maven coordinates of Iceberg's connector for a version of Spark, and of the driver for our catalog.

    Raises:
        UnsupportedError: The connector does not exist for that version.
    """
    if spark_version is None:
        import pyspark

        spark_version = pyspark.__version__
    minor = ".".join(spark_version.split(".")[:2])
    if minor not in _CONNECTOR_SPARK_VERSIONS:
        raise UnsupportedError(
            f"Iceberg {ICEBERG_VERSION} has no connector for Spark {minor}, only for "
            f"{' and '.join(sorted(_CONNECTOR_SPARK_VERSIONS))}: run `pip install 'pyspark==4.1.*'`"
        )
    return [
        f"org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13:{ICEBERG_VERSION}",
        f"org.xerial:sqlite-jdbc:{SQLITE_VERSION}",
    ]


def iceberg_settings(warehouse: str, *, name: str = "skerry") -> dict[str, str]:
    """Return the settings by which Iceberg's connector opens the embedded catalog of a warehouse folder.

    They may also be set on a session that has the connector already, before the catalog is first used in it.

    Args:
        warehouse: The folder.
        name: Name of the catalog in SQL; it must be the name by which the tables are registered in the SQLite file.
    """
    from skerry.catalog.warehouse_origin import CATALOG_FILE

    folder = Path(warehouse).expanduser().absolute()
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:sqlite:{folder / CATALOG_FILE}",
        f"{prefix}.warehouse": f"file://{folder}",
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.cache-enabled": "false",  # else Spark would not see for a while what others commit
    }


def _append(settings: dict[str, str], key: str, items: Iterable[str]) -> None:
    """Add items to a comma-separated setting, once each."""
    present = [item for item in settings.get(key, "").split(",") if item]
    if all_items := list(dict.fromkeys([*present, *items])):
        settings[key] = ",".join(all_items)


def _in_ivy_cache(packages: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split packages into jars that were fetched before and packages still to fetch.

    Spark asks its registries again at every start, which costs seconds, fails without a network, and lets processes
    that start together trip over each other. Only our own packages are looked up, because they need no others.
    """
    jars, missing = [], []
    for package in packages:
        group, artifact, version = [*package.split(":"), "", ""][:3]
        name = f"{group}_{artifact}-{version}.jar"
        found = sorted(Path.home().glob(f".ivy2*/jars/{name}")) if _stands_alone(group, artifact) else []
        if found:
            jars.append(str(found[-1]))
        else:
            missing.append(package)
    return jars, missing


def _stands_alone(group: str, artifact: str) -> bool:
    return (group, artifact) == ("org.xerial", "sqlite-jdbc") or (
        group == "org.apache.iceberg" and artifact.startswith("iceberg-spark-runtime-")
    )


def _driver_heap_bytes() -> int:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _GIB
    return min(max(memory // 4, _GIB), 8 * _GIB)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """Read `spark-defaults.conf`, which a setting made here would override.

    Args:
        environ: Environment that says where it is: in `SPARK_CONF_DIR`, or in `conf` below `SPARK_HOME`.
    """
    folder = _configuration_folder(environ)
    try:
        lines = [] if folder is None else (folder / "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    # A Java properties file: the key ends at the first blank, equals sign or colon.
    matches = (re.match(r"\s*([^\s=:#!]+)\s*[=:]?\s*(.*?)\s*$", line) for line in lines)
    return {match[1]: match[2] for match in matches if match}


def _configuration_folder(environ: Mapping[str, str]) -> Path | None:
    if folder := environ.get("SPARK_CONF_DIR"):
        return Path(folder)
    return Path(environ["SPARK_HOME"], "conf") if "SPARK_HOME" in environ else None


def _log_settings(environ: Mapping[str, str]) -> Path | None:
    """Our Log4j file, unless Spark finds another one."""
    folder = _configuration_folder(environ)
    if folder is not None and any(folder.glob("log4j2.*")):
        return None
    return Path(__file__).with_name("log4j2.properties")


def _log_less() -> None:
    """Keep PySpark from logging every error of a query with both stack traces of the JVM, before it raises it."""
    from pyspark.logger import PySparkLogger

    for name in _QUERY_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        if logger.level <= logging.WARNING:  # as PySpark makes it
            logger.setLevel(logging.CRITICAL)


def _launch_environment(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that Spark needs to start and the process lacks."""
    import pyspark

    environment = {"JAVA_HOME": str(java_home(find_java(pyspark.__version__)))}
    if master.startswith("local"):
        if not ({"SPARK_HOME", "PYSPARK_PYTHON"} & os.environ.keys() or "spark.pyspark.python" in settings):
            home = home_without_archive(Path(pyspark.__file__).parent, os.environ)
            environment |= {} if home is None else {"SPARK_HOME": str(home)}
        # An unactivated virtual environment: `python3` on the PATH would be another Python, without skerry.
        environment["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        environment["PYSPARK_DRIVER_PYTHON"] = os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable)
        environment["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    return environment


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while Spark starts."""
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _require_connector(spark: SparkSession) -> None:
    """Refuse a running session without the connector."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName("org.apache.iceberg.spark.SparkCatalog", False, loader)
    except Exception as error:
        raise SkerryError(
            "a Spark session without Iceberg's connector is already running: stop it (`spark.stop()`) and start again "
            "with `iceberg_catalog=`"
        ) from error
