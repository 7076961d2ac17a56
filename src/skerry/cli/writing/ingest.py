"""`skerry ingest`: append raw files to a table, through Spark."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skerry.cli.display import count, print_json, size
from skerry.cli.options import catalog_options, complete_path, json_option, key_values, table_argument
from skerry.cli.writing.changing import append_files, find_or_create
from skerry.errors import NotFoundError
from skerry.table.work.progress import show_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skerry.spark import IngestSummary

__all__ = ["ingest"]


@click.command()
@click.argument("source", shell_complete=complete_path, help="A file, a folder, or a glob in quotes.")
@table_argument
@click.option("--format", "-f", help="csv, json, parquet or orc; default: by the file's extension.")
@click.option(
    "--option",
    "-o",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of Spark's reader; repeatable. With --local those of `skerry append`.",
)
@click.option("--create", is_flag=True, help="Create the table from the source if it does not exist.")
@click.option("--partition-by", multiple=True, metavar="TRANSFORM", help="For --create: month(time), bucket(16, id), …")
@click.option("--sort-by", multiple=True, metavar="COLUMN", help="For --create: order of rows in files.")
@click.option(
    "--table-property",
    "table_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="For --create: a table property; repeatable.",
)
@click.option("--ref", default="main", help="The branch to append to.")
@click.option("--local", is_flag=True, help="Read the files here, without Spark and Java, as `skerry append` does.")
@click.option("--master", default="local[*]", help="The Spark master.")
@click.option("--spark-config", multiple=True, metavar="KEY=VALUE", help="A Spark setting; repeatable.")
@catalog_options
@json_option
def ingest(
    source: str,
    table: str,
    format: str | None,
    options: tuple[str, ...],
    create: bool,
    partition_by: tuple[str, ...],
    sort_by: tuple[str, ...],
    table_properties: tuple[str, ...],
    ref: str,
    local: bool,
    master: str,
    spark_config: tuple[str, ...],
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Append files to a table, with their statistics in the same commit.

    Either all rows are committed or none: a row that does not fit is reported with file, line, column and value.
    """
    if not create and (partition_by or sort_by or table_properties):
        raise click.BadParameter("needs --create", param_hint="--partition-by, --sort-by, --table-property")
    read_options = key_values(options, "--option")
    wanted_properties = key_values(table_properties, "--table-property")
    config = key_values(spark_config, "--spark-config")
    if local:
        if format or config or not master.startswith("local"):
            problem = "goes without --format, --master and --spark-config"
            raise click.BadParameter(problem, param_hint="--local")
        creation = {"partition_by": partition_by or (), "sort_by": sort_by or (), "properties": wanted_properties}
        files = Path(source)
        if not files.exists():
            raise NotFoundError("file does not exist", location=source)
        catalog, found = find_or_create(table, warehouse, properties, create)
        append_files(catalog, table, found, files, options, evolve=False, ref=ref, as_json=as_json, **creation)
        return
    _check_source(source, format, master, config)
    catalog, target = find_or_create(table, warehouse, properties, create)

    import skerry.spark
    from skerry.catalog.new_tables import made_for_rows

    with show_progress("start Spark") as progress:
        spark = _start(source, format, master, config)
        after_failure: AbstractContextManager[None] = nullcontext()
        if target is None:
            if progress is not None:
                progress(skerry.JobProgress("infer the schema"))
            schema = skerry.spark.infer_schema(spark, source, format=format, options=read_options)
            target = catalog.create_table(
                table, schema, partition_by=partition_by or (), sort_by=sort_by or (), properties=wanted_properties
            )
            after_failure = made_for_rows(catalog, target)
        with after_failure:
            summary = skerry.spark.ingest(
                spark, source, target, format=format, options=read_options, ref=ref, progress=progress
            )
    _print_summary(summary, table, as_json)


_OTHER_SETTINGS = frozenset(("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME"))


def _reads_local_files(master: str, config: Mapping[str, str]) -> bool:
    """Whether Spark reads a path without a scheme from the local disk: no other file system is configured."""
    settings = [key for key in config if key.startswith("spark.hadoop.fs.")]
    return master.startswith("local") and not settings and _OTHER_SETTINGS.isdisjoint(os.environ)


def _check_source(source: str, format: str | None, master: str, config: Mapping[str, str]) -> None:
    """Check that a local file exists before Spark is started, which takes seconds.

    Raises:
        NotFoundError: The file does not exist.
    """
    if (format or "").lower() == "jdbc" or not _reads_local_files(master, config):
        return
    is_pattern = not set(source).isdisjoint("*?[]{}\\")
    has_scheme = "://" in source or source.startswith("file:")
    if not (is_pattern or has_scheme or os.path.exists(source)):
        raise NotFoundError("file does not exist", location=source)


def _start(source: str, format: str | None, master: str, config: Mapping[str, str]) -> SparkSession:
    """Start Spark, unless it would not know how to read the source."""
    import skerry.spark
    from skerry.spark.writing.sources import detect_format

    if format is None:
        detect_format(source)
    return skerry.spark.session(master=master, config=config)


def _print_summary(summary: IngestSummary, table: str, as_json: bool) -> None:
    record = {"table": table, **dataclasses.asdict(summary)}
    if as_json:
        print_json(record)
    elif summary.snapshot_id is None:
        print(f"no rows in the source; {table} is unchanged")
    else:
        print(
            f"appended {count(summary.rows)} rows to {table}: {count(summary.files)} files, "
            f"{size(summary.size_bytes)}, {summary.seconds:.1f} s, snapshot {summary.snapshot_id}"
        )
