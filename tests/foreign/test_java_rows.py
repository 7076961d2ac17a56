"""Nanoseconds, columns of type unknown and shapes that we wrote, as Iceberg Java's own rows."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry

sys.path.insert(0, str(Path(__file__).parents[1] / "iceberg"))
from java_manifests import JavaIceberg

pytestmark = pytest.mark.spark

NANOSECONDS = [0, 1, -1, 1_600_000_000_123_456_789, 2**63 - 1, None]
SHAPES = [None if ns is None else struct.pack("<BIdd", 1, 1, index, -index) for index, ns in enumerate(NANOSECONDS)]
COLUMNS = {"ts": "timestamp_ns", "tz": "timestamptz_ns", "nothing": "unknown", "g": "geometry"}


def rows(first):
    return [
        {"id": first + index, "ts": ns, "tz": ns, "nothing": None, "g": SHAPES[index]}
        for index, ns in enumerate(NANOSECONDS)
    ]


def ours(table):
    found = table.refresh().scan().to_arrow()
    for name in ("ts", "tz"):
        found = found.set_column(found.schema.get_field_index(name), name, found[name].cast(pa.int64()))
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def test_java_reads_what_we_write(spark, tmp_path):
    java = JavaIceberg(spark)
    time = java.jvm.java.time
    utc = time.ZoneOffset.UTC
    table = skerry.connect(tmp_path / "lake").create_table("d.t", pa.schema([("id", pa.int64())]), format_version=3)
    update = table.update_schema()
    for name, type_ in COLUMNS.items():
        update.add_column(name, type_)
    update.commit()
    table.append(pa.Table.from_pylist(rows(0), schema=table.schema))
    theirs = java.iceberg.BaseTable(java.iceberg.StaticTableOperations(table.metadata_location, java.io), "t")

    def nanoseconds(moment):
        return None if moment is None else moment.getEpochSecond() * 10**9 + moment.getNano()

    found = []
    records = java.iceberg.data.IcebergGenerics.read(theirs).build().iterator()
    while records.hasNext():
        record = records.next()
        ts, tz, shape = (record.getField(name) for name in ("ts", "tz", "g"))
        found.append(
            {
                "id": record.getField("id"),
                "ts": nanoseconds(None if ts is None else ts.toInstant(utc)),
                "tz": nanoseconds(None if tz is None else tz.toInstant()),
                "nothing": record.getField("nothing"),
                "g": None if shape is None else bytes(shape.array()),
            }
        )
    assert sorted(found, key=lambda row: row["id"]) == rows(0) == ours(table)
    (path,) = tmp_path.rglob("data/**/*.parquet")
    assert "nothing" not in pq.read_schema(path).names
