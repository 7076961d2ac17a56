"""VARIANT and VECTOR columns, written here and by the peers.

Spec: docs/formats/paimon.md § 2.2, § 2.3, § 8.2.
"""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.types import AtomicType, TypeRoot, VectorType
from skerry.variant import VARIANT, as_json, from_json
from skerry.variant.shredding import shred, stored_type

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


@pytest.mark.parametrize("keyed", [False, True])
def test_values_inside_of_variants_are_columns_of_scans(tmp_path: Path, keyed: bool) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=not keyed), ("v", VARIANT)])
    how: dict[str, Any] = {"primary_key": ["id"], "partition_by": ["bucket(1, id)"]} if keyed else {}
    table = table_of(tmp_path, schema, **how)
    texts = ['{"a":1,"b":"x"}', '{"a":2,"b":[]}', None]
    table.append(pa.table({"id": [1, 2, 3], "v": from_json(pa.array(texts))}, schema=schema))
    if keyed:
        table.append(pa.table({"id": [2], "v": from_json(pa.array(['{"a":5}']))}, schema=schema))
    wanted = ["variant_get(v, '$.a', 'int') AS a", "id", "variant_get(v, '$.b', 'string') AS b"]
    scan = table.scan(wanted)
    assert scan.schema.names == ["a", "id", "b"]
    second = 5 if keyed else 2
    expected = [{"a": 1, "id": 1, "b": "x"}, {"a": second, "id": 2, "b": None}, {"a": None, "id": 3, "b": None}]
    assert scan.to_arrow().to_pylist() == expected
    assert scan.row_bounds() == table.scan().row_bounds()
    reader = pickle.loads(pickle.dumps(scan.row_reader()))
    assert pa.Table.from_batches(reader.batches(scan.plan()), reader.delivered).to_pylist() == expected
    if keyed:
        with pytest.raises(UnsupportedError, match="values inside of variants are not looked up"):
            table.lookup([1], wanted)
    found = table.scan(wanted[:1], "variant_get(v, '$.a', 'int') > 1").to_arrow()
    assert found.to_pylist() == [{"a": second}]
    assert table.scan([*wanted, "v"]).to_arrow().schema.names == ["a", "id", "b", "v"]


def test_of_shredded_variants_only_the_paths_are_read(tmp_path: Path) -> None:
    """Files as Java writes them with `variant.shreddingSchema`: what is not looked at may be unreadable."""
    table = table_of(tmp_path, pa.schema([("id", pa.int64()), ("v", VARIANT)]))
    variants = from_json(pa.array(['{"a":1,"b":"x"}', '{"a":"y","b":"z"}', None]))
    rows = pa.table({"id": [1, 2, 3], "v": variants})
    table.append(rows)
    (path,) = tmp_path.rglob("*.parquet")
    type_ = pa.struct([("a", pa.int32()), ("b", pa.string())])
    pq.write_table(
        rows.set_column(1, pa.field("v", stored_type(type_)), shred(variants, type_)), path, compression=None
    )
    column = pq.read_metadata(path).row_group(0)
    chunks = {column.column(number).path_in_schema: column.column(number) for number in range(column.num_columns)}
    unread = chunks["v.typed_value.b.typed_value"]
    with path.open("r+b") as file:
        file.seek(min(unread.dictionary_page_offset or unread.data_page_offset, unread.data_page_offset))
        file.write(b"\xff" * 8)
    values = table.scan(["variant_get(v, '$.a', 'int') AS a"], "variant_get(v, '$.a', 'int') IS NULL OR id = 1")
    assert values.to_arrow()["a"].to_pylist() == [1, None, None]
    with pytest.raises(FormatError):
        table.scan(["variant_get(v, '$.b', 'string') AS b"]).to_arrow()
