"""`docs/types.md` says what the code does: every row of its table of stored types is tried."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from skerry.errors import SchemaError
from skerry.iceberg.metadata.arrow_schema import to_arrow_type, to_iceberg_schema, to_iceberg_type
from skerry.table.rows.values import arrow_storage, encode_value
from skerry.variant import VARIANT, is_variant
from skerry.wkb import Shapes, WkbType

DOCUMENT = Path(__file__).parents[2] / "docs" / "types.md"
TYPES = {
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal128(P, S)": pa.decimal128(9, 2),
    "date32[day]": pa.date32(),
    "time64[us]": pa.time64("us"),
    "timestamp[us]": pa.timestamp("us"),
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
    "timestamp[ns]": pa.timestamp("ns"),
    "timestamp[ns, tz=UTC]": pa.timestamp("ns", "UTC"),
    "extension<arrow.uuid>": pa.uuid(),
    "fixed_size_binary[L]": pa.binary(7),
    "struct<value, metadata>": VARIANT,
    "geoarrow.wkb": WkbType(Shapes("OGC:CRS84")),
    "geoarrow.wkb, edges": WkbType(Shapes("OGC:CRS84", "spherical")),
    "struct": pa.struct([("a", pa.int32())]),
    "list": pa.list_(pa.int32()),
    "map": pa.map_(pa.string(), pa.int32()),
}


def stored_types():
    section = DOCUMENT.read_text().split("## What a table stores")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


def name(cell):
    return re.match(r"`([^`]*)`", cell)[1]


@pytest.mark.parametrize("row", stored_types(), ids=lambda row: row[0])
def test_every_row_of_the_document_is_true(row):
    iceberg, arrow, *_, hashed = row
    type_ = TYPES.get(name(arrow)) or pa.type_for_alias(name(arrow))
    mapped = to_iceberg_type(type_, format_version=3)
    assert re.split(r"[(\[<]", str(mapped))[0] == re.split(r"[(\[<]", name(iceberg))[0]
    # shapes are binary, and their fields have the mark
    assert arrow_storage(to_arrow_type(mapped)).id == arrow_storage(type_).id
    if "(v3)" in iceberg and not pa.types.is_timestamp(type_):
        with pytest.raises(SchemaError, match="needs format version 3"):
            to_iceberg_schema(pa.schema([("c", type_)]), format_version=2)
    size = re.match(r"(\d+) bytes?", hashed)
    if size:
        value = {"bool": True, "float": 1.0, "double": 1.0, "extension<arrow.uuid>": bytes(16)}.get(name(arrow), 1)
        assert len(encode_value(type_, value)) == int(size[1])


@pytest.mark.parametrize("row", stored_types(), ids=lambda row: row[0])
def test_spark_has_the_types_that_the_document_gives_it(row):
    pytest.importorskip("pyspark")
    from skerry.spark.schema import to_spark_type

    arrow, spark = name(row[1]), name(row[3])
    type_ = TYPES.get(arrow) or pa.type_for_alias(arrow)
    if isinstance(type_, WkbType):
        type_ = type_.storage_type
    if pa.types.is_nested(type_) and not is_variant(type_):
        type_ = to_arrow_type(to_iceberg_type(type_))
    assert re.split(r"[(<]", to_spark_type(type_).simpleString())[0] == re.split(r"[(<]", spark)[0]
