"""Avro files by Java and for Java: Avro's own reader on our files, and files that Iceberg writes, in every codec."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import avro_oracle
import pytest
from avro_oracle import as_arrow_shows

from skerry.avro import read_columns, read_header, write_container

pytestmark = pytest.mark.spark

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": "long", "field-id": 1},
        {"name": "b", "type": ["null", "string"], "default": None, "field-id": 2},
        {"name": "c", "type": {"type": "array", "items": "int", "element-id": 4}, "field-id": 3},
        {"name": "d", "type": {"type": "map", "values": "double"}, "field-id": 5},
    ],
}
RECORDS = [
    {"a": i - 500, "b": None if i % 3 else f"é{i}", "c": list(range(i % 4)), "d": {"k": i / 2}} for i in range(1000)
]
COLUMNS = (
    "id long, name string, price decimal(20, 2), seen timestamp, day date, tags array<string>, sizes map<int, bigint>"
)
ROWS = [
    (1, "one", Decimal("1.50"), datetime(2026, 1, 2, 3, 4, 5, 678901), date(2026, 1, 2), ["x", "y"], {1: 10, 2: 20}),
    (2, None, None, None, None, None, None),
    (3, "drei", Decimal("-999999999999999999.99"), datetime(1969, 7, 20), date(1969, 7, 20), [], {}),
]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_java_reads_what_we_write(spark: Any, tmp_path: Path, codec: str) -> None:
    path = tmp_path / "ours.avro"
    path.write_bytes(write_container(SCHEMA, RECORDS, codec=codec, metadata={"k": "v"}, block_bytes=1000))
    avro, jvm = spark._jvm.org.apache.avro, spark._jvm
    reader = avro.file.DataFileReader.openReader(jvm.java.io.File(str(path)), avro.generic.GenericDatumReader())
    try:
        assert reader.getMetaString("k") == "v"
        assert json.loads(str(reader.getSchema().toString())) == SCHEMA
        records = []
        while reader.hasNext():
            records.append(json.loads(str(reader.next().toString())))
        assert records == RECORDS
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("iceberg_codec", "codec"),
    [("gzip", "deflate"), ("snappy", "snappy"), ("zstd", "zstandard"), ("uncompressed", "null")],
)
def test_we_read_what_iceberg_writes(
    iceberg_spark: Callable[[Path], Any], tmp_path: Path, iceberg_codec: str, codec: str
) -> None:
    """Data files in Avro, and the manifests and manifest lists of the table."""
    spark = iceberg_spark(tmp_path)
    name = f"skerry.avro.{iceberg_codec}"
    spark.sql("create namespace if not exists skerry.avro")
    spark.sql(
        f"create table {name} ({COLUMNS}) using iceberg partitioned by (bucket(2, id)) tblproperties "
        f"('write.format.default'='avro', 'write.avro.compression-codec'='{iceberg_codec}')"
    )
    spark.createDataFrame(ROWS, COLUMNS).writeTo(name).append()
    paths = sorted(tmp_path.rglob("*.avro"))
    assert len(paths) >= 4
    shown = []
    for path in paths:
        data = path.read_bytes()
        header = read_header(data)
        batch = read_columns(data)
        batch.validate(full=True)
        schema = json.loads(header.schema_json)
        assert batch.to_pylist() == [as_arrow_shows(value, schema) for value in avro_oracle.read_records(data)]
        if "/data/" in str(path):
            assert header.codec == codec
            shown += [(*row.values(),) for row in batch.to_pylist()]
    assert {row[0]: (row[1], row[2], row[4], row[5]) for row in shown} == {
        row[0]: (row[1], row[2], row[4], row[5]) for row in ROWS
    }
