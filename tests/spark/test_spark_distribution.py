"""Files do not multiply with tasks, batches are bounded by their bytes, and one large partition is shared out."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import skerry
import skerry.spark
from skerry.catalog import Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = 200
TASKS = 8


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return skerry.connect(tmp_path / "warehouse")


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    skerry.spark.register(spark)


NARROW = pa.schema([("k", pa.int64()), ("p", pa.int64())])
WITH_LISTS = pa.schema([("k", pa.int64()), ("p", pa.int64()), ("l", pa.list_(pa.int64()))])  # by our own writer


@pytest.mark.parametrize("schema", [NARROW, WITH_LISTS], ids=["Spark's writer", "our writer"])
def test_a_file_per_partition_and_not_per_task(spark: SparkSession, catalog: Catalog, schema: pa.Schema) -> None:
    table = catalog.create_table("d.t", schema, partition_by=["p"])
    frame = spark.range(0, 20_000, 1, TASKS).selectExpr("id as k", f"id % {PARTITIONS} as p", "array(id) as l")
    skerry.spark.ingest(spark, frame.select(schema.names), table)
    assert len(table.files()) == PARTITIONS
    assert table.scan().count() == 20_000


def test_a_file_per_partition_of_a_frame_or_batch_that_is_written(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = catalog.create_table("d.t", NARROW, partition_by=["p"])
    frame = spark.range(0, 20_000, 1, TASKS).selectExpr("id as k", f"id % {PARTITIONS} as p")
    frame.write.format("skerry").mode("append").option("catalog", str(tmp_path / "warehouse")).save("d.t")
    assert len(table.refresh().files()) == PARTITIONS
    assert table.scan().count() == 20_000


@pytest.mark.parametrize("schema", [NARROW, WITH_LISTS], ids=["Spark's writer", "our writer"])
def test_the_one_large_partition_is_shared_out_among_tasks(
    spark: SparkSession, catalog: Catalog, schema: pa.Schema
) -> None:
    size = 400_000
    properties = {"write.target-file-size-bytes": str(size)}
    table = catalog.create_table("d.t", schema, partition_by=["p"], properties=properties)
    values = ["xxhash64(id) as k", "if(id % 10 > 0, 0, 1 + id % 7) as p", "array(xxhash64(id, 1)) as l"]
    skerry.spark.ingest(spark, spark.range(0, 300_000, 1, TASKS).selectExpr(*values).select(schema.names), table)
    found = collections.defaultdict(list)
    for file in table.files():
        found[file.partition].append(file.file_size_bytes)
    large = found.pop((0,))
    assert 4 <= len(large) <= 20
    assert max(large) < 3 * size
    assert {partition: len(sizes) for partition, sizes in found.items()} == {(1 + n,): 1 for n in range(7)}
    assert table.scan().count() == 300_000


def test_batches_of_wide_rows_have_few_of_them(spark: SparkSession) -> None:
    """What comes to our writers; they themselves hold no more than their limits (tests/jobs/test_write.py)."""

    def measured(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    wide = spark.range(0, 80, 1, 1).selectExpr("repeat(concat('x', id), 400000) as s")
    found = wide.mapInArrow(measured, "rows long, bytes long").collect()
    assert sum(row.rows for row in found) == 80
    assert max(row.bytes for row in found) < 66 << 20
