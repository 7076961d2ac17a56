"""Tables and queries of databases, read through JDBC.

Passwords are in options and in URLs; messages of Spark and drivers may repeat them. Failures are therefore reported
with all given secrets removed from their text, and without the errors that caused them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from skerry.errors import MissingDependencyError, SkerryError, StorageError, UnsupportedError
from skerry.table.rows.schema import nearest

__all__ = ["JDBC_OPTIONS", "JdbcConnection"]

JDBC_OPTIONS = (
    "url",
    "driver",
    "user",
    "password",
    "partitionColumn",
    "lowerBound",
    "upperBound",
    "numPartitions",
    "fetchsize",
    "queryTimeout",
    "isolationLevel",
    "sessionInitStatement",
    "prepareQuery",
    "customSchema",
    "pushDownPredicate",
    "preferTimestampNTZ",
    "connectionProvider",
    "keytab",
    "principal",
    "refreshKrb5Config",
)

# DriverManager does not search the jars that a session was given; Spark loads a class by name.
_DRIVERS = {
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "sqlite": "org.sqlite.JDBC",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
_QUERY = re.compile(r"\s*(select|with)\s", re.IGNORECASE)
_IN_URL = re.compile(r"(?i)(password|pwd|secret|token)=([^&;]*)")
_USER_INFO = re.compile(r"//[^/@]*:([^/@]*)@")
_CAUSE = re.compile(r"^(?:Caused by)?: ([\w.$]+: .*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class JdbcConnection:
    """How a database is reached.

    Args:
        options: Options of Spark's reader, as given.
    """

    options: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        lower = {option.lower() for option in JDBC_OPTIONS}
        for option in self.options:
            if option.lower() in ("dbtable", "query"):
                raise UnsupportedError(f"the jdbc option {option!r} cannot be set: the source is the table or query")
            if option.lower() not in lower:
                raise UnsupportedError(f"there is no jdbc option {option!r}{nearest(option, JDBC_OPTIONS)}")
        if "url" not in {option.lower() for option in self.options}:
            raise UnsupportedError("format='jdbc' needs the option url: jdbc:postgresql://host/database")

    def read(self, spark: SparkSession, source: str) -> DataFrame:
        """Read a table, or the result of a query, as a frame.

        Args:
            spark: The session; it must have the driver (`session(packages=[…])`).
            source: The table's name, or a query that begins with `select` or `with`.

        Raises:
            MissingDependencyError: The session has no driver for the URL.
            StorageError: The database cannot be reached, or refuses.
        """
        place = "query" if _QUERY.match(source) else "dbtable"
        with self.errors(source):
            return spark.read.format("jdbc").options(**self._driver, **self.options).option(place, source).load()

    @property
    def _driver(self) -> dict[str, str]:
        """The driver's class, if it is not given but the URL determines it."""
        lower = {option.lower(): str(value) for option, value in self.options.items()}
        found = _DRIVERS.get(lower["url"].removeprefix("jdbc:").partition(":")[0].lower())
        return {} if found is None or "driver" in lower else {"driver": found}

    @contextmanager
    def errors(self, source: str) -> Iterator[None]:
        """Convert failures to errors of skerry, without secrets."""
        try:
            yield
        except (Py4JJavaError, PySparkException) as failure:
            error = self.error(failure, source)
        else:
            return
        raise error from None

    def error(self, failure: BaseException, source: str | None = None) -> SkerryError:
        """The error of skerry for a failure."""
        text = str(failure)
        if "ClassNotFoundException" in text or "No suitable driver" in text:
            return MissingDependencyError(
                "the session has no JDBC driver for this URL; give its jar to the session that you start, for example "
                "skerry.spark.session(packages=['org.postgresql:postgresql:42.7.4'])"
            )
        causes = _CAUSE.findall(text)
        said = causes[-1] if causes else next((line for line in text.splitlines() if line.strip()), text)
        return StorageError(f"the database cannot be read: {self.redact(said)}", location=source)

    def redact(self, text: str) -> str:
        """A text without the secrets of the options."""
        lower = {option.lower(): str(value) for option, value in self.options.items()}
        url = lower["url"]
        secrets = [found[1] for found in _IN_URL.findall(url)] + _USER_INFO.findall(url)
        secrets += [lower[option] for option in ("password", "keytab") if option in lower]
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text
