"""Write change records into an Iceberg and a Paimon table as they come: one Spark stream, until it is killed.

    python stream.py records/ warehouse/ checkpoint/

Each batch of record files is one commit in each table, with its statistics. Killed at whatever moment, it
goes on with the same checkpoint: a table that has a batch already passes it over.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

import skerry
import skerry.spark
from skerry.catalog import Catalog, Table

__all__ = ["ICEBERG", "PAIMON", "Batch", "create_tables", "main", "start"]

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
    """The tables that the stream writes; made if they are not there."""
    there = catalog.list_tables("shop") if "shop" in catalog.list_namespaces() else []
    if ICEBERG not in there:
        properties = {"write.merge.mode": "merge-on-read"}
        catalog.create_table(ICEBERG, ORDERS, format_version=3, primary_key=["id"], properties=properties)
    if PAIMON not in there:
        catalog.create_table(PAIMON, ORDERS, format="paimon", primary_key=["id"], partition_by=["bucket(2, id)"])
    return [catalog.load_table(name) for name in (ICEBERG, PAIMON)]


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch was.

    Args:
        number: Its number.
        records: Change records in it.
        oldest: When the change was made that had to wait longest; None if there was none.
        begun: When it was begun.
        ended: When both tables had it.
    """

    number: int
    records: int
    oldest: datetime | None
    begun: datetime
    ended: datetime

    def __str__(self) -> str:
        seconds = (self.ended - self.begun).total_seconds()
        waited = "" if self.oldest is None else f", {(self.ended - self.oldest).total_seconds():.2f} s after the change"
        return f"batch {self.number}: {self.records:,} records in {seconds:.2f} s{waited}"


def start(
    spark: SparkSession,
    records: str | Path,
    tables: Sequence[Table],
    checkpoint: str | Path,
    *,
    files_per_batch: int = 20,
    report: Callable[[Batch], None] = print,
) -> StreamingQuery:
    """Start the stream: batches of record files, each once into each table.

    Args:
        spark: The session.
        records: The folder of record files.
        tables: Where to write.
        checkpoint: Where the stream keeps how far it is.
        files_per_batch: At most so many files make a batch.
        report: Told of each batch.
    """

    def write(batch: DataFrame, number: int) -> None:
        begun = datetime.now(UTC)
        for table in tables:
            skerry.spark.ingest_changes(spark, batch, table, format="debezium", stream="orders", batch=number)
        ended = datetime.now(UTC)
        count, oldest = batch.agg(sf.count("*"), sf.min("timestamp")).first()
        report(Batch(number, count, None if oldest is None else oldest.astimezone(UTC), begun, ended))

    frame = spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", files_per_batch).parquet(str(records))
    stream = frame.writeStream.queryName("orders").option("checkpointLocation", str(checkpoint))
    return stream.foreachBatch(write).start()


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
    report = partial(print, flush=True)
    start(spark, arguments.records, tables, arguments.checkpoint, report=report).awaitTermination()


if __name__ == "__main__":
    main()
