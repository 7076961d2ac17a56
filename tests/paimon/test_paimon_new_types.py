"""VARIANT and VECTOR columns, written here and by the peers.

Spec: docs/formats/paimon.md § 2.2, § 2.3, § 8.2.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skerry
from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.types import AtomicType, TypeRoot, VectorType
from skerry.variant import VARIANT, as_json, from_json

if TYPE_CHECKING:
    from pathlib import Path

    from paimon_peers import JavaPaimon, PyPaimon

TEXTS = ['{"a":1,"b":[true,null,"x"]}', None, "3.25", '"text"', '{"a":{"c":-5}}', "null"]
VECTORS = [[1.0, -2.5, 0.25], None, [0.0, 0.0, 0.0], [3.5, 4.5, 5.5]]


def table_of(folder: Path, schema: pa.Schema, **how: Any) -> PaimonTable:
    catalog = skerry.connect(folder)
    table = catalog.create_table("db.t", schema, format="paimon", **how)
    assert isinstance(table, PaimonTable)
    return table


def plain(texts: list[str | None]) -> list[Any]:
    return [None if text is None else json.loads(text) for text in texts]


@pytest.mark.spark
def test_variants_are_exchanged_with_java(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    table = table_of(tmp_path, pa.schema([("id", pa.int64()), ("v", VARIANT), ("t", pa.string())]))
    ids = list(range(len(TEXTS)))
    table.append(pa.table({"id": ids, "v": from_json(pa.array(TEXTS)), "t": ["x"] * len(ids)}))
    found = java_paimon.read(table.location)
    assert [row[0] for row in found] == ids
    assert plain([row[1] for row in found]) == plain(TEXTS)

    java_paimon.write(table.location, [[10 + number, text, "y"] for number, text in enumerate(TEXTS)])
    rows = table.refresh().scan(where="id >= 10").to_arrow()
    assert plain(as_json(rows.column("v").combine_chunks()).to_pylist()) == plain(TEXTS)
    assert table.scan(where="v IS NULL").count() == 2
    ones = table.scan(where="variant_get(v, '$.a', 'int') = 1", columns=["id"]).to_arrow()
    assert ones.column("id").to_pylist() == [0, 10]


@pytest.mark.service
def test_vectors_are_exchanged_with_pypaimon(tmp_path: Path, pypaimon: PyPaimon) -> None:
    type_ = pa.list_(pa.float32(), 3)
    table = table_of(tmp_path, pa.schema([("id", pa.int64()), ("v", type_)]), properties={"vector-field": "v"})
    rows = pa.table({"id": [0, 1, 2, 3], "v": pa.array(VECTORS, type_)})
    table.append(rows)
    assert pypaimon.read(table.location).to_pylist() == rows.to_pylist()
    full = rows.filter(pc.is_valid(rows.column("v")))
    pypaimon.write(table.location, full)  # its PyArrow writes no null vectors
    assert table.refresh().scan().to_arrow().to_pylist() == [*rows.to_pylist(), *full.to_pylist()]
    assert table.schema.field("v").type == table.scan().to_arrow().schema.field("v").type


def test_vectors_have_one_length(tmp_path: Path) -> None:
    type_ = pa.list_(pa.float32(), 3)
    table = table_of(tmp_path, pa.schema([("id", pa.int64()), ("v", type_)]), properties={"vector-field": "v"})
    assert table.handle.state.schema.field("v").type == VectorType(AtomicType(TypeRoot.FLOAT), 3)
    with pytest.raises(SchemaError, match="a vector has 2 elements, expected 3"):
        table.append(pa.table({"id": [0], "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))}))
    table.append(pa.table({"id": [0, 1], "v": pa.array([[1.0, 2.0, 3.0], None], pa.list_(pa.float32()))}))
    table.append(pa.table({"id": [2], "v": pa.array([[4.0, None, 6.0]], type_)}))
    table.delete("id = 0")
    table.compact(full=True)
    assert table.scan(where="id = 1").to_arrow().column("v").to_pylist() == [None]
    assert table.scan(where="id = 2").to_arrow().column("v").to_pylist() == [[4.0, None, 6.0]]


def test_new_types_need_parquet_and_are_no_keys(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", VARIANT)])
    table = table_of(tmp_path, schema, properties={"file.format": "orc"})
    with pytest.raises(UnsupportedError, match="column 'v' of type VARIANT is written to Parquet files only"):
        table.append(pa.table({"id": [1], "v": from_json(pa.array(["1"]))}))
    catalog = skerry.connect(tmp_path)
    with pytest.raises(SchemaError, match="column 'v' of type VARIANT NOT NULL cannot be part of a primary key"):
        catalog.create_table("db.u", schema, format="paimon", primary_key=["v"])
    with pytest.raises(SchemaError, match="option vector-field names 'w', which is not a column"):
        catalog.create_table("db.u", schema, format="paimon", properties={"vector-field": "w"})
    with pytest.raises(SchemaError, match="column 'id': Arrow type int64 cannot be stored as BLOB"):
        catalog.create_table("db.u", schema, format="paimon", properties={"blob-field": "id"})


def test_variants_of_keyed_tables_are_merged(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", VARIANT)])
    table = table_of(tmp_path, schema, primary_key=["id"], partition_by=["bucket(1, id)"])
    table.append(pa.table({"id": [1, 2], "v": from_json(pa.array(['{"a":1}', "2"]))}, schema=schema))
    table.append(pa.table({"id": [2, 3], "v": from_json(pa.array(['{"b":2}', None]))}, schema=schema))
    for _ in range(2):
        found = table.scan().to_arrow()
        assert found.column("id").to_pylist() == [1, 2, 3]
        assert as_json(found.column("v").combine_chunks()).to_pylist() == ['{"a":1}', '{"b":2}', None]
        table.compact(full=True)
