"""Files by Spark and Iceberg Java, made by `make_variant_samples.py`: we find in them what Spark finds."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from variant_samples import column, decoded

from skerry.variant import Primitive, as_json, check
from skerry.variant.assembling import assemble

DATA = Path(__file__).with_name("data")
SHREDDED = {
    "objects": {
        "v.typed_value.at.typed_value.y.typed_value.list.element.typed_value",
        "v.typed_value.name.typed_value",
    },
    "lists": set(),
    "texts": {"v.typed_value"},
    "mixed": set(),
    "primitives": set(),
}


@pytest.mark.parametrize("name", SHREDDED)
def test_variants_by_java_are_read(name):
    path = DATA / f"{name}.parquet"
    table = pq.read_table(path)
    schema = pq.ParquetFile(path).schema
    assert {schema.column(i).path for i in range(len(schema))} >= SHREDDED[name]
    (stored,) = table["v"].chunks
    found = assemble(stored)
    check(found)
    theirs = json.loads((DATA / f"{name}.json").read_text())
    ours = as_json(found).to_pylist()
    assert [text and json.loads(text) for text in ours] == [text and json.loads(text) for text in theirs]
    assert [text is None for text in ours] == [text is None for text in theirs]
    again = column(decoded(found))
    assert decoded(again) == decoded(found)


def test_types_by_java_are_kept():
    (stored,) = pq.read_table(DATA / "primitives.parquet")["v"].chunks
    assert [value.type for value in decoded(assemble(stored))] == [
        Primitive.TRUE,
        Primitive.INT8,
        Primitive.FLOAT,
        Primitive.DOUBLE,
        Primitive.DECIMAL4,
        Primitive.DECIMAL16,
        Primitive.DATE,
        Primitive.TIMESTAMP,
        Primitive.TIMESTAMP_NTZ,
        Primitive.BINARY,
        Primitive.STRING,
        Primitive.INT64,
    ]
