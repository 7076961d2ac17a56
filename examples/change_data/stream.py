"""Write change records into an Iceberg and a Paimon table as they come: one Spark stream, until it is killed.

    python stream.py records/ warehouse/ checkpoint/

Each batch of record files is one commit in each table, with its statistics. Killed at any moment, it
continues from the same checkpoint: a table that already has a batch skips it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import skerry
import skerry.spark
from skerry.catalog import Catalog, Table
from skerry.spark import ChangeIngestSummary

__all__ = ["ICEBERG", "PAIMON", "create_tables", "main", "start"]

ICEBERG, PAIMON = "shop.orders_iceberg", "shop.orders_paimon"

ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("customer", pa.int32()),
        ("status", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("weight", pa.float64()),
        ("paid", pa.bool_()),
        ("changed", pa.timestamp("us", "UTC")),
        ("note", pa.string()),
    ]
)
RECORDS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
"""Columns of the record files, which are those of Spark's Kafka source."""


def create_tables(catalog: Catalog) -> list[Table]:
    """The tables that the stream writes; created if they do not exist."""
    there = catalog.list_tables("shop") if "shop" in catalog.list_namespaces() else []
    if ICEBERG not in there:
        properties = {
            "write.merge.mode": "merge-on-read",
            "write.metadata.delete-after-commit.enabled": "true",  # or each batch leaves a metadata file for ever
            "write.metadata.previous-versions-max": "20",
        }
        catalog.create_table(ICEBERG, ORDERS, format_version=3, primary_key=["id"], properties=properties)
    if PAIMON not in there:
        catalog.create_table(PAIMON, ORDERS, format="paimon", primary_key=["id"], partition_by=["bucket(2, id)"])
    return [catalog.load_table(name) for name in (ICEBERG, PAIMON)]


def start(
    spark: SparkSession,
    records: str | Path,
    tables: Sequence[Table],
    checkpoint: str | Path,
    *,
    files_per_batch: int = 20,
    progress: Callable[[ChangeIngestSummary], None] | None = None,
) -> StreamingQuery:
    """Start the stream: batches of record files, each once into each table.

    Args:
        spark: The session.
        records: The folder of record files.
        tables: Where to write.
        checkpoint: Where the stream stores its progress.
        files_per_batch: The largest number of files in a batch.
        progress: Called after every batch, with its summary.
    """
    source = spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", files_per_batch).parquet(str(records))
    return skerry.spark.ingest_change_stream(
        spark, source, tables, checkpoint=str(checkpoint), stream="orders", progress=progress
    )


def show(done: ChangeIngestSummary) -> None:
    """Print the summary of a batch."""
    changed = done.tables[0]
    print(
        f"batch {done.batch}: {done.records:,} records; {changed.inserted_rows} rows inserted, "
        f"{changed.updated_rows} updated, {changed.deleted_rows} deleted",
        flush=True,
    )


def main() -> None:
    """Stream until killed."""
    parser = argparse.ArgumentParser(description="Write change records into an Iceberg and a Paimon table.")
    parser.add_argument("records", help="the folder of record files")
    parser.add_argument("warehouse")
    parser.add_argument("checkpoint")
    parser.add_argument("--master", default="local[2]")
    arguments = parser.parse_args()
    tables = create_tables(skerry.connect(arguments.warehouse))
    spark = skerry.spark.session("change data", master=arguments.master)
    start(spark, arguments.records, tables, arguments.checkpoint, progress=show).awaitTermination()


if __name__ == "__main__":
    main()
