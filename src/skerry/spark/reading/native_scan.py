"""Frames of Spark's own Parquet scan with statistics in the plan, for both table formats."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from skerry.errors import NotFoundError, SkerryError
from skerry.spark.reading.conditions import spark_column
from skerry.spark.reading.plan_statistics import PlanStatistics
from skerry.spark.reading.relations import with_statistics
from skerry.spark.runtime.failures import original_errors
from skerry.spark.runtime.jvm import is_classic
from skerry.spark.runtime.settings import OPTIMIZER_SETTING
from skerry.spark.writing.spark_writer import hadoop_location, has_file_system
from skerry.storage import MOVED_TO

__all__ = [
    "is_on",
    "nullable",
    "open_files",
    "projection",
    "reaches",
    "warn_of_blind_optimizer",
    "with_statistics_or_hint",
]

_BROADCAST_SETTING = "spark.sql.autoBroadcastJoinThreshold"
# Dates are in today's calendar, for all writers.
_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
_PATTERN = re.compile(r"[{}\[\]*?\\]")


def reaches(spark: SparkSession, locations: Iterable[str], options: Iterable[str]) -> bool:
    """Whether Spark can open files; for a Connect server only its file system is known.

    Args:
        spark: The session.
        locations: The files.
        options: The names of the options with which our storage opens them.
    """
    if MOVED_TO in options:
        return False
    schemes = {location.partition("://")[0]: location for location in locations}
    if is_classic(spark):
        return all(has_file_system(spark, location, options) for location in schemes.values())
    return all(scheme == "file" or scheme.startswith("/") for scheme in schemes)


def open_files(
    spark: SparkSession, schema: StructType, locations: Sequence[str], options: Mapping[str, str] | None = None
) -> DataFrame:
    """Open Parquet files as one frame.

    Args:
        spark: The session.
        schema: The columns.
        locations: The files.
        options: Further options of the reader.

    Raises:
        NotFoundError: One of them is missing.
    """
    paths = [_literal_path(hadoop_location(location)) for location in locations]
    reader = spark.read.schema(schema).options(**_OPTIONS, **(options or {}))
    try:
        with original_errors():
            if not (paths and is_classic(spark)):
                return reader.parquet(*paths)
            jvm: Any = spark._jvm
            together = jvm.java.util.regex.Pattern.compile("\n").split("\n".join(paths))  # one call, however many
            return DataFrame(reader._jreader.parquet(together), spark)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise SkerryError(f"Spark cannot read the files: {error}") from error
        raise NotFoundError(f"a data file is missing: {error}") from None


def _literal_path(path: str) -> str:
    """A path that Hadoop takes for a name, not for a pattern of names."""
    return _PATTERN.sub(r"\\\g<0>", path)


def with_statistics_or_hint(frame: DataFrame, statistics: PlanStatistics, name: str) -> DataFrame:
    """Add statistics to a frame of files; on Spark Connect a hint, if they are small."""
    spark = frame.sparkSession
    if is_classic(spark):
        return with_statistics(frame, statistics, name)
    is_small = statistics.memory_bytes <= _bytes(spark.conf.get(_BROADCAST_SETTING, "10MB"))
    return frame.hint("broadcast") if is_small else frame


def projection(read: StructType, wanted: StructType) -> list[Column]:
    """Select the requested columns, without those read only for the condition."""
    return [_part_of((field.name,), read[field.name].dataType, field.dataType).alias(field.name) for field in wanted]


def _part_of(path: tuple[str, ...], read: DataType, wanted: DataType) -> Column:
    column = spark_column(*path)
    if read == wanted or not (isinstance(read, StructType) and isinstance(wanted, StructType)):
        return column
    parts = [
        _part_of((*path, field.name), read[field.name].dataType, field.dataType).alias(field.name) for field in wanted
    ]
    return sf.when(column.isNotNull(), sf.struct(*parts))


def nullable(type_: Any) -> Any:
    """A type as Spark's Parquet reader returns it: all values may be null, whatever the files say."""
    if isinstance(type_, StructType):
        return StructType([StructField(f.name, nullable(f.dataType), True, f.metadata) for f in type_])
    if isinstance(type_, ArrayType):
        return ArrayType(nullable(type_.elementType), True)
    return MapType(type_.keyType, nullable(type_.valueType), True) if isinstance(type_, MapType) else type_


def warn_of_blind_optimizer(spark: SparkSession, depth: int) -> None:
    """Warn of a session that ignores statistics.

    Args:
        spark: The session.
        depth: Number of calls between this one and the user's.
    """
    if is_classic(spark) and not is_on(spark, OPTIMIZER_SETTING):
        message = f"Spark ignores row counts and statistics of columns while {OPTIMIZER_SETTING} is false"
        warnings.warn(message, stacklevel=depth + 2)


def is_on(spark: SparkSession, setting: str) -> bool:
    """Whether a setting of the session is true."""
    return str(spark.conf.get(setting, "false")).lower() == "true"


_UNITS = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30}


def _bytes(text: str | None) -> int:
    """Parse a number of bytes in Spark's settings: `10MB`, `10485760b`, `-1`."""
    text = (text or "-1").strip().lower()
    digits = text.rstrip("bkmg")
    return int(digits) << _UNITS.get(text[len(digits) :], 0)
