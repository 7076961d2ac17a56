"""Writing a frame as data files of a table with Spark's own Parquet writer.

All files go to the layout's folder, which no other write uses. Spark shows them after its whole job has succeeded, and
none belongs to the table before the driver commits it: a killed job leaves a single folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from skerry.iceberg.writing.layout import FileLayout
from skerry.spark.runtime.failures import original_errors
from skerry.spark.runtime.jvm import Jvm, is_classic
from skerry.spark.runtime.settings import changed_settings
from skerry.spark.schema import written_by_spark
from skerry.spark.writing.incoming import conform_frame
from skerry.spark.writing.transforms import partition_key, transform_column
from skerry.storage import join, local_path, name, parent
from skerry.table.rows.schema import leaves

__all__ = [
    "hadoop_location",
    "has_file_system",
    "rebalance_settings",
    "spark_can_write",
    "unused_name",
    "write_frame",
    "write_settings",
]

# The layout uses PyArrow's names of codecs.
_CODECS = {"lz4": "lz4_raw", "none": "uncompressed"}

# How many bytes Spark gives to a task when it gathers rows, and the initial number of tasks.
_ADVISORY = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_REDUCERS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
_MANY_REDUCERS = 512

_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default is INT96, which Iceberg does not allow
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
}


def spark_can_write(spark: SparkSession, layout: FileLayout) -> bool:
    """Whether Spark's own Parquet writer can write a table's files: format, types, and location."""
    is_parquet = layout.file_format == "parquet"
    return (
        is_parquet
        and is_classic(spark)
        and written_by_spark(layout.schema)
        and layout.key_bytes is None  # each encrypted file has a key of its own, made by the task that writes it
        and layout.requests is None  # Spark has no keys, nor signatures of the catalog's
        and has_file_system(spark, layout.folder, layout.storage_options)
    )


def write_frame(frame: DataFrame, layout: FileLayout, origin: Column | None = None) -> list[str]:
    """Write a frame with Spark's own Parquet writer.

    Rows of a partitioned table are first gathered by partition, so that each partition becomes one file or,
    when it is large, a few; Spark splits the largest and merges the small ones by their measured size.

    Args:
        frame: Rows that fit the table's schema, in a session for which `spark_can_write`.
        layout: How the table's files are written.
        origin: The file that a row comes from, for messages.

    Returns:
        Locations of the files, in alphabetical order.

    Raises:
        SchemaError: Columns, types or a value do not fit.
    """
    spark = frame.sparkSession
    jvm = Jvm(spark)
    rows = conform_frame(frame, layout.schema, origin)
    sorting = _sorting(jvm, layout)
    key_name = None
    if layout.is_partitioned:
        key_name = unused_name("partition", layout.schema.names)
        key = partition_key((column, type_) for column, type_ in _partition_values(jvm, layout))
        rows = rows.withColumn(key_name, key).hint("rebalance", sf.col(key_name))
        sorting = [sf.col(key_name), *sorting]
    if sorting:
        rows = rows.sortWithinPartitions(*sorting)
    writer = rows.write.mode("append").options(**_options(layout))
    if key_name is not None:
        writer = writer.partitionBy(key_name)
    with changed_settings(spark, write_settings(spark, layout)), original_errors():
        writer.parquet(hadoop_location(layout.folder))
    found = sorted(status.location for status in layout.storage.list(layout.folder))
    files = [location for location in found if not name(location).startswith((".", "_"))]
    layout.storage.delete(set(found).difference(files))  # Hadoop's checksums beside local files
    return sorted(_with_own_names(files))


def _with_own_names(locations: Sequence[str]) -> Iterator[str]:
    """Give the files distinct names: Paimon, to which a table may migrate, distinguishes files by name.

    Spark's tasks use the same name in every folder of a partition. In object stores these are kept: renaming a file
    means copying it there.
    """
    taken: set[str] = set()
    for location in locations:
        old = local_path(location)
        if name(location) in taken and old is not None:
            stem, _, suffix = name(location).partition(".")
            location = join(parent(location), f"{stem}-{len(taken)}.{suffix}")
            Path(old).rename(local_path(location) or "")
        taken.add(name(location))
        yield location


def _options(layout: FileLayout) -> dict[str, str]:
    options = {
        "compression": _CODECS.get(layout.codec, layout.codec),
        "parquet.block.size": str(layout.row_group_size_bytes),
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
    if layout.codec_level is not None and layout.codec == "zstd":
        options["parquet.compression.codec.zstd.level"] = str(layout.codec_level)
    return options


def unused_name(wanted: str, names: Iterable[str]) -> str:
    """A column name that differs from all others, ignoring case, made by lengthening another one if necessary."""
    taken = {existing.lower() for existing in names}
    while wanted in taken:
        wanted += "_"
    return wanted


# Partition and order -------------------------------------------------------------------------------------------------


def _partition_values(jvm: Jvm, layout: FileLayout) -> Iterator[tuple[Column, pa.DataType]]:
    for field in layout.spec.fields:
        yield _transformed(jvm, layout, field.source_id, str(field.transform))


def _sorting(jvm: Jvm, layout: FileLayout) -> list[Column]:
    columns = []
    for field in layout.sort_order.fields:
        column, _ = _transformed(jvm, layout, field.source_id, str(field.transform))
        columns.append(getattr(column, _ORDERS[field.direction.value, field.null_order.value])())
    return columns


_ORDERS = {
    ("asc", "nulls-first"): "asc_nulls_first",
    ("asc", "nulls-last"): "asc_nulls_last",
    ("desc", "nulls-first"): "desc_nulls_first",
    ("desc", "nulls-last"): "desc_nulls_last",
}


def _transformed(jvm: Jvm, layout: FileLayout, source_id: int, transform: str) -> tuple[Column, pa.DataType]:
    """A transform's values with the type that defines their text form."""
    source = next(leaf for leaf in leaves(layout.schema) if leaf.field_id == source_id)
    column = sf.col(".".join("`" + part.replace("`", "``") + "`" for part in source.path))
    value = transform_column(jvm, column, source.type, transform)
    keeps_type = transform.startswith(("identity", "truncate", "void"))
    return value, source.type if keeps_type else pa.int64()


# Where and how Spark writes ------------------------------------------------------------------------------------------


def hadoop_location(location: str) -> str:
    """A location in Hadoop's form: its S3 client uses `s3a`."""
    return "s3a://" + location.removeprefix("s3://") if location.startswith("s3://") else location


def has_file_system(spark: SparkSession, location: str, options: Iterable[str]) -> bool:
    """Whether Hadoop, inside this session, has a client for a location and credentials of its own.

    Args:
        spark: A classic session.
        location: A file or folder.
        options: The names of the options with which our storage opens it.
    """
    scheme, separator, _ = hadoop_location(location).partition("://")
    if not separator or scheme == "file":
        return True
    if any(option.startswith(_CREDENTIALS) for option in options):
        return False
    jvm: Any = spark._jvm
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, spark.sparkContext._jsc.hadoopConfiguration())
    except Py4JJavaError:
        return False
    return True


# Options that give a catalog's or its user's credentials to our storage; Hadoop's clients do not see them.
_CREDENTIALS = ("s3.access-key-id", "s3.session-token", "gcs.oauth2.token", "adls.account-key", "adls.sas-token")


def write_settings(spark: SparkSession, layout: FileLayout) -> dict[str, str]:
    """The settings for a write."""
    if layout.is_partitioned:
        return {**_SETTINGS, **rebalance_settings(spark, layout.target_file_size_bytes)}
    return _SETTINGS


def rebalance_settings(spark: SparkSession, target_bytes: int) -> dict[str, str]:
    """The settings with which Spark gathers rows, unless the session sets them.

    A task that gets too much is split, and with it every partition in it, not only the large one. Therefore there
    are many small tasks at first, so that a large partition has its own; Spark then merges small ones.
    together again.

    Args:
        spark: The session.
        target_bytes: Target size of a task.
    """
    said = spark.conf.getAll
    settings = {}
    if _ADVISORY not in said:
        settings[_ADVISORY] = str(target_bytes)
    if _REDUCERS not in said:
        settings[_REDUCERS] = str(max(_MANY_REDUCERS, int(spark.conf.get("spark.sql.shuffle.partitions") or 0)))
    return settings
