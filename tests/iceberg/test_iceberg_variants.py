"""Columns of variants in Iceberg tables: every operation, what is refused, bounds, and conditions on paths."""

from __future__ import annotations

import pickle
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.errors import FormatError, SchemaError, SkerryError, UnsupportedError
from skerry.table.files.variant_paths import positions_of
from skerry.variant import (
    VARIANT,
    as_json,
    as_values,
    decode_variant,
    encode_variant,
    from_json,
    from_values,
    is_variant,
    variant_get,
)
from skerry.variant.assembling import assemble
from skerry.variant.decoding import split_metadata
from skerry.variant.getting import parse_type
from skerry.variant.paths import parse_path
from skerry.variant.shredding import shred, stored_type
from skerry.variant.stored import stored_get

SCHEMA = pa.schema([("id", pa.int64()), ("v", VARIANT)])
ANYWHERE = {"skerry.read.files-outside-location": "true"}
SHREDDED = {"write.parquet.shred-variants": "true"}


def rows(values: dict[int, Any]) -> pa.Table:
    return pa.table([pa.array(list(values), pa.int64()), from_values(values.values())], schema=SCHEMA)


def content(table: Any, **options: Any) -> dict[int, Any]:
    found = table.scan(**options).to_arrow()
    return dict(zip(found["id"].to_pylist(), as_values(found["v"]), strict=True))


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "lake")


def metrics(folder: Path, name: str, number: int) -> list[Any]:
    """What the newest manifest says about a column, as fastavro reads it."""
    (path,) = folder.rglob("*-m0.avro")
    with path.open("rb") as file:
        (entry,) = fastavro.reader(file)
    found = {pair["key"]: pair["value"] for pair in entry["data_file"][name] or []}
    return found[number]


# ---- operations ----


@pytest.mark.parametrize("properties", [{}, SHREDDED], ids=["whole", "shredded"])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_every_operation_keeps_variants(catalog, properties, mode):
    modes = {f"write.{change}.mode": mode for change in ("delete", "update", "merge")}
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties={**properties, **modes})
    expected: dict[int, Any] = {i: {"a": i, "b": [i, "x"], "c": {"d": f"n{i}"}} for i in range(20)}
    table.append(rows(expected))
    more = {20: {"a": "text"}, 21: 5, 22: None, 23: [1, {"a": 1}], 24: {}}
    table.append(rows(more))
    expected |= more
    assert content(table) == expected
    table.delete("id = 3 OR variant_get(v, '$.c.d', 'string') = 'n7'")
    del expected[3], expected[7]
    assert content(table) == expected
    changed = {4: {"a": "changed"}, 21: {"new": [None]}, 40: 1.5}
    table.upsert(rows(changed), on="id")
    expected |= changed
    assert content(table) == expected
    table.overwrite(rows({5: {"a": 55}}), where="id = 5")
    expected[5] = {"a": 55}
    assert content(table) == expected
    table.compact()
    assert content(table) == expected
    before = table.current_snapshot().snapshot_id
    table.delete("id < 10")
    changes = table.changes(before).to_arrow()
    assert len(changes) == sum(key < 10 for key in expected)
    assert is_variant(changes.schema.field("v").type)
    table.update_schema().rename_column("v", "w").commit()
    assert dict(zip(*table.scan(["id", "w"]).to_arrow().to_pydict().values(), strict=True)).keys() == {
        key for key in expected if key >= 10
    }
    assert set(table.statistics()) == {"id"}


def test_variants_inside_of_other_columns(catalog):
    inner = pa.struct([("x", pa.int32()), ("v", VARIANT)])
    schema = pa.schema([("s", inner), ("l", pa.list_(VARIANT)), ("m", pa.map_(pa.string(), VARIANT)), ("v", VARIANT)])
    table = catalog.create_table("a.t", schema, format_version=3, properties=SHREDDED)
    variants = from_values([{"a": 1}, [2], None])
    data = pa.table(
        [
            pa.StructArray.from_arrays([pa.array([1, 2, 3], pa.int32()), variants], fields=list(inner)),
            pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), variants, type=pa.list_(VARIANT)),
            pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), variants),
            variants,
        ],
        schema=schema,
    )
    table.append(data)
    found = table.scan().to_arrow()
    assert found.to_pylist() == data.to_pylist()
    for column in (found["s"].chunk(0).field(1), found["l"].chunk(0).values, found["m"].chunk(0).items, found["v"]):
        assert is_variant(column.type)
        assert as_values(column) == [{"a": 1}, [2], None]
    assert table.scan(["s.v"]).to_arrow().num_rows == 3
    assert table.scan(where="variant_get(s.v, '$.a', 'int') = 1").count() == 1


def test_columns_of_variants_are_added_and_dropped(catalog):
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), format_version=3)
    table.append(pa.table({"id": [1]}))
    table.update_schema().add_column("v", VARIANT).commit()
    table.append(rows({2: {"a": 1}}))
    assert content(table) == {1: None, 2: {"a": 1}}
    assert content(table, where="variant_get(v, '$.a', 'int') IS NULL") == {1: None}
    table.update_schema().delete_column("v").commit()
    assert table.scan().to_arrow().column_names == ["id"]


def test_files_of_others_are_added(catalog, tmp_path):
    """Without an annotation and ids, as PyArrow writes them, shredded or not."""
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=ANYWHERE)
    values = {i: {"a": i} for i in range(5)}
    data = rows(values)
    pq.write_table(data, tmp_path / "plain.parquet")
    type_ = pa.struct([("a", pa.int16())])
    (chunk,) = shred_of(data, type_).chunks
    pq.write_table(pa.table({"id": pa.array(range(10, 15)), "v": chunk}), tmp_path / "shredded.parquet")
    table.add_files([str(tmp_path / "plain.parquet"), str(tmp_path / "shredded.parquet")])
    assert content(table) == values | {i + 10: value for i, value in values.items()}


def shred_of(data: pa.Table, type_: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([shred(chunk, type_) for chunk in data["v"].chunks], stored_type(type_))


def test_avro_and_orc_files_of_others_are_read(tmp_path):
    from pyarrow import orc

    from skerry.storage import Storage
    from skerry.table.files.data_file import DataFile
    from skerry.table.files.row_reader import RowReader
    from skerry.table.files.scan_task import FileScanTask

    data = rows({1: {"a": 1}, 2: None})
    orc.write_table(data, tmp_path / "f.orc")
    variant = {
        "type": "record",
        "name": "r2",
        "logicalType": "variant",
        "fields": [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}],
    }
    columns = [
        {"name": "id", "type": ["null", "long"], "field-id": 1},
        {"name": "v", "type": ["null", variant], "field-id": 2},
    ]
    with (tmp_path / "f.avro").open("wb") as avro:
        fastavro.writer(avro, {"type": "record", "name": "table", "fields": columns}, data.to_pylist())
    schema = pa.schema(
        [field.with_metadata({b"PARQUET:field_id": str(i).encode()}) for i, field in enumerate(SCHEMA, 1)]
    )
    reader = RowReader(Storage(), schema, schema, names={("id",): 1, ("v",): 2})
    for name in ("f.orc", "f.avro"):
        file = DataFile(str(tmp_path / name), name[2:], 2, (tmp_path / name).stat().st_size)
        found = pa.Table.from_batches(reader.batches([FileScanTask(file)]))
        assert found["id"].to_pylist() == [1, 2]
        assert as_values(found["v"]) == [{"a": 1}, None]


# ---- bounds and conditions ----


def test_bounds_are_those_of_the_specification(catalog, tmp_path):
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=SHREDDED)
    table.append(
        rows({i: {"a": i, "b.c": {"it's": "x" * 40 + chr(97 + i)}, "m": i or "text", "f": i / 3} for i in range(10)})
    )
    assert metrics(tmp_path, "value_counts", 2) == 10
    assert metrics(tmp_path, "null_value_counts", 2) == 0
    lower, upper = (
        decode_variant(*split_metadata(metrics(tmp_path, name, 2))) for name in ("lower_bounds", "upper_bounds")
    )
    name = "$['b.c']['it\\'s']"
    assert lower == {"$['a']": 0, name: "x" * 16, "$['f']": -0.0}
    assert str(lower["$['f']"]) == "-0.0"
    assert upper == {"$['a']": 9, name: "x" * 15 + "y", "$['f']": 3.0}


CONDITIONS = [
    ("variant_get(v, '$.a', 'long') = {0}", lambda v, x: v == x),
    ("variant_get(v, '$.a', 'long') < {0}", lambda v, x: v is not None and v < x),
    ("NOT variant_get(v, '$.a', 'int') >= {0}", lambda v, x: v is not None and v < x),
    ("variant_get(v, '$.a', 'double') > {0}.5", lambda v, x: v is not None and v > x + 0.5),
    ("variant_get(v, '$[''a'']', 'long') IN ({0}, {0})", lambda v, x: v == x),
    ("variant_get(v, '$.a', 'long') IS NULL AND id >= {0}", None),
]


def test_conditions_on_paths_find_the_rows(catalog):
    """Against plain Python, with files of one kind, of several, whole and shredded, and row groups of few rows."""
    rng = random.Random(4)
    properties = {**SHREDDED, "write.parquet.row-group-size-bytes": "2000"}
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=properties)
    expected: dict[int, Any] = {}
    for start in range(0, 600, 100):
        table.set_properties({"write.parquet.shred-variants": rng.choice(["true", "true", "false"])})
        kinds = rng.choice([[int], [int], [int, str], [int, None, list]])
        part = {}
        for key in range(start, start + 100):
            kind = rng.choice(kinds)
            number = start + rng.randrange(100)
            part[key] = {"a": {int: number, str: str(number), None: None, list: [number]}[kind]}
        table.append(rows(part))
        expected |= part
    for _ in range(8):
        limit = rng.randrange(-50, 700)
        for text, holds in CONDITIONS:
            found = content(table, where=text.format(limit))
            numbers = {key: value["a"] if isinstance(value["a"], int) else None for key, value in expected.items()}
            if holds is None:
                wanted = {key for key, number in numbers.items() if number is None and key >= limit}
            else:
                wanted = {key for key, number in numbers.items() if holds(number, limit)}
            assert found.keys() == wanted, (text, limit)
            only_ids = table.scan(["id"], where=text.format(limit)).to_arrow()["id"].to_pylist()
            assert set(only_ids) == wanted, (text, limit)


def test_files_and_row_groups_are_pruned(catalog):
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=SHREDDED)
    for start in (0, 100, 200):
        table.append(rows({start + i: {"a": start + i, "w": f"w{start + i:03}"} for i in range(50)}))
    for where, count in (
        ("variant_get(v, '$.a', 'long') = 120", 1),
        ("variant_get(v, '$.a', 'decimal(9, 2)') < 60", 1),
        ("variant_get(v, '$.a', 'double') > 249", 0),
        ("variant_get(v, '$.w', 'string') BETWEEN 'w140' AND 'w201'", 2),
        ("variant_get(v, '$.a', 'string') = 'x'", 3),
        ("variant_get(v, '$.a', 'long') = 120 OR id = 210", 2),
    ):
        assert len(list(table.scan(where=where).plan())) == count, where


def test_bad_bounds_are_refused(catalog):
    from skerry.iceberg.writing.variant_bounds import decode_bounds
    from skerry.table.predicate import Column

    column = Column(2, ("v",), pa.int64(), ("a",))
    good = b"".join(encode_variant({"$['a']": 7}))
    assert decode_bounds(pa.array([good, None, good]), column)[0].to_pylist() == [7, None, 7]
    for bad in (b"", b"\x02\x00\x00", good[:-1], good[:5]):
        with pytest.raises(FormatError):
            decode_bounds(pa.array([good, bad]), column)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"format_version": 2}, SchemaError, "format version 3"),
        ({"format_version": 3, "file_format": "amudai"}, UnsupportedError, "'v': an Amudai shard cannot hold variants"),
        ({"format_version": 3, "partition_by": ["v"]}, SkerryError, "v"),
        ({"format_version": 3, "partition_by": ["bucket(4, v)"]}, SkerryError, "v"),
        ({"format_version": 3, "sort_by": ["v"]}, SkerryError, "v"),
        ({"format_version": 3, "primary_key": ["v"]}, SchemaError, "primary key"),
    ],
)
def test_tables_that_cannot_be_are_refused(catalog, options, error, problem):
    with pytest.raises(error, match=problem):
        catalog.create_table("a.t", SCHEMA, **options)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_formats_that_we_do_not_write_are_refused(catalog, file_format):
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties={"write.format.default": file_format})
    with pytest.raises(UnsupportedError, match=r"'v'.*cannot hold variants"):
        table.append(rows({1: 1}))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (pa.table({"id": [1], "v": ["{}"]}), "from_json"),
        (pa.table({"id": [1], "v": [{"metadata": b"\x01\x00\x00", "value": b"\x0d"}]}), "cut short"),
        (pa.table({"id": [1], "v": [{"metadata": b"\x01\x00\x00", "value": None}]}), "required"),
        (pa.table({"id": [1], "v": [{"metadata": b"\x01\x00\x00", "value": b"\x00", "x": 1}]}), "variant in the table"),
    ],
)
def test_data_that_are_no_variants_are_refused(catalog, data, problem):
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    with pytest.raises(SchemaError, match=problem):
        table.append(data)


def test_a_path_is_compared_with_a_column(catalog):
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    table.append(rows({1: {"a": 1}, 2: {"a": 1}, 3: {"a": "3"}, 4: {}}))
    assert set(content(table, where="id = variant_get(v, '$.a', 'int')")) == {1}
    assert set(content(table, where="variant_get(v, '$.a', 'int') < id")) == {2}


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("v = 'x'", "v"),
        ("v.value = X'00'", "no column"),
        ("variant_get(id, '$.a', 'int') = 1", "is no variant"),
        ("variant_get(v, 'a', 'int') = 1", "no path"),
        ("variant_get(v, '$.a', 'text') = 1", "no type"),
        ("variant_get(v, '$.a') = 1", "takes a column, a path and a type"),
        ("variant_get(v, '$.a', 'variant') = 1", "comparing variants"),
        ("variant_get(v, '$.a', 'int') = 'x'", "not a number"),
    ],
)
def test_conditions_that_cannot_be_are_refused(catalog, where, problem):
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    with pytest.raises(SkerryError, match=problem):
        table.scan(where=where)


def test_conditions_are_shown_so_that_they_can_be_parsed(catalog):
    from skerry.table.predicate import parse

    schema = catalog.create_table("a.t", SCHEMA, format_version=3).schema
    for text in (
        """variant_get("v", '$[''a''][0][''it\\''s'']', 'decimal(4, 1)') >= 1.5""",
        """variant_get("v", '$', 'timestamptz') IS NULL""",
        """variant_get("v", '$[''flag'']', 'boolean') = TRUE""",
    ):
        predicate = parse(text, schema)
        assert str(predicate) == text
        assert parse(str(predicate), schema) == predicate
    flag = parse("NOT variant_get(v, '$.flag', 'boolean')", schema)
    assert str(flag) == """variant_get("v", '$[''flag'']', 'boolean') = FALSE"""


@pytest.mark.parametrize("options", [{"format_version": 3}, {"format": "paimon"}], ids=["iceberg", "paimon"])
def test_json_goes_in_and_out(catalog, options):
    table = catalog.create_table("a.t", SCHEMA, **options)
    texts = ['{"a":[1,2.50,null]}', None, "null"]
    table.append(pa.table([pa.array([1, 2, 3]), from_json(pa.array(texts))], schema=SCHEMA))
    found = table.scan().to_arrow()
    assert as_json(found["v"]).to_pylist() == texts
    assert variant_get(found["v"], "$.a[1]", "decimal(3, 2)").to_pylist() == [Decimal("2.50"), None, None]


def test_a_table_of_others_with_old_files(tmp_path):
    """Parquet files may call the two fields in either order, and hold large binaries."""
    path = tmp_path / "f.parquet"
    metadata, value = encode_variant({"a": 1})
    stored = pa.struct([("metadata", pa.large_binary()), ("value", pa.large_binary())])
    pq.write_table(pa.table({"id": [1], "v": pa.array([{"metadata": metadata, "value": value}], stored)}), path)
    catalog = skerry.connect(tmp_path / "lake")
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=ANYWHERE)
    table.add_files([str(path)])
    assert content(table) == {1: {"a": 1}}
    assert Path(path).exists()


@pytest.mark.parametrize(
    ("paths", "read"),
    [
        (["$.a"], {"v.typed_value.a.value", "v.typed_value.a.typed_value"}),
        (
            ["$.o.x", "$.a"],
            {
                "v.typed_value.a.value",
                "v.typed_value.a.typed_value",
                "v.typed_value.o.typed_value.x.value",
                "v.typed_value.o.typed_value.x.typed_value",
            },
        ),
        (["$.rest"], {"v.metadata", "v.value"}),
        (
            ["$.o.rest", "$.l[0]"],
            {
                "v.metadata",
                "v.typed_value.o.value",
                "v.typed_value.l.value",
                "v.typed_value.l.typed_value.list.element.value",
                "v.typed_value.l.typed_value.list.element.typed_value",
            },
        ),
        (["$.a", "$"], None),
    ],
)
def test_only_the_columns_of_paths_are_read(tmp_path, paths, read):
    type_ = pa.struct(
        [("a", pa.int64()), ("l", pa.list_(pa.int8())), ("o", pa.struct([("x", pa.int8()), ("y", pa.int8())]))]
    )
    values = [
        {"a": 1, "o": {"x": 1, "y": 2, "rest": 7}, "l": [1], "rest": 5},
        {"a": "text", "o": 5, "l": {}, "rest": {}},
        {"o": {"rest": 8}, "l": []},
        7,
        None,
        {"a": 2, "rest": 6, "l": ["x", 3]},
    ]
    array = from_values([*values, {"a": None}])
    pq.write_table(pa.table({"v": shred(array, type_)}), tmp_path / "f.parquet")
    file = pq.ParquetFile(tmp_path / "f.parquet")
    names = [file.schema.column(i).path for i in range(len(file.schema))]
    found = positions_of(file.schema_arrow.field("v").type, [parse_path(path) for path in paths])
    chosen = [names[position] for position in found]
    assert set(chosen) == (set(names) if read is None else read)
    (stored,) = file.read(columns=chosen)["v"].chunks
    for path in paths:
        for kind in ("long", "string"):
            expected = variant_get(array, path, kind)
            assert stored_get(stored, parse_path(path), parse_type(kind)) == expected
            assert "v.metadata" not in chosen or variant_get(assemble(stored), path, kind) == expected


@pytest.mark.parametrize("odd", [None, "text", {"x": 1}])
def test_values_that_are_all_shredded_are_read_from_their_column_alone(catalog, monkeypatch, odd):
    """One row group, so that one value of another kind is enough to need the column of the rest."""
    properties = SHREDDED | {"write.parquet.variant-inference-buffer-size": "50"}
    table = catalog.create_table("d.t", SCHEMA, format_version=3, properties=properties)
    values = {number: {"a": number, "o": {"b": f"t{number}"}} for number in range(50)}
    values |= {50: {"o": {}}, 51: {}, 52: None, 53: {"o": {"b": None}}} | ({} if odd is None else {54: {"a": odd}})
    table.append(rows(values))
    read: list[list[str]] = []
    iterate = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda self, **options: read.append(options["columns"]) or iterate(self, **options),
    )

    def ids(where: str) -> set[int]:
        return set(table.scan(["id"], where).to_arrow()["id"].to_pylist())

    assert ids("variant_get(v, '$.a', 'int') >= 40") == set(range(40, 50))
    assert set(read.pop()) == {"id", "v.typed_value.a.typed_value"} | ({"v.typed_value.a.value"} if odd else set())
    assert ids("variant_get(v, '$.a', 'int') IS NULL") == set(values) - set(range(50))
    assert ids("variant_get(v, '$.a', 'string') = 'text'") == ({54} if odd == "text" else set())
    assert ids("variant_get(v, '$.o.b', 'string') >= 't48'") == {
        number for number in range(50) if f"t{number}" >= "t48"
    }


# ---- values as columns of a scan ----


@pytest.mark.parametrize("properties", [{}, SHREDDED], ids=["whole", "shredded"])
def test_values_inside_of_variants_are_columns_of_a_scan(catalog, properties):
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=properties)
    values: dict[int, Any] = {i: {"a": i, "b": {"c": f"n{i}"}, "d e": [i, None]} for i in range(20)}
    table.append(rows(values))
    table.append(rows({20: None, 21: {"a": "text"}, 22: 5}))
    wanted = ["variant_get(v, '$.a', 'int') AS a", "id", "TRY_VARIANT_GET(v, '$.b.c', 'string') as \"b c\""]
    scan = table.scan(wanted, where="id >= 18")
    assert scan.schema.names == ["a", "id", "b c"]
    assert [field.type for field in scan.schema] == [pa.int32(), pa.int64(), pa.string()]
    found = scan.to_arrow()
    assert found.schema.equals(scan.schema)
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
        {"a": 18, "id": 18, "b c": "n18"},
        {"a": 19, "id": 19, "b c": "n19"},
        {"a": None, "id": 20, "b c": None},
        {"a": None, "id": 21, "b c": None},
        {"a": None, "id": 22, "b c": None},
    ]
    only = ["variant_get(v, '$[\"d e\"][0]', 'long') AS first"]
    by_value = table.scan(only, where="variant_get(v, '$.b.c', 'string') = 'n7'")
    assert by_value.to_arrow().to_pylist() == [{"first": 7}]
    assert by_value.count() == 1
    assert table.scan(only).count() == 23
    assert len(table.scan(only, limit=2).to_arrow()) == 2
    both = table.scan(["v", "variant_get(v, '$.a', 'int') AS a"], where="id = 3").to_arrow()
    assert as_values(both["v"]) == [values[3]]
    assert both["a"].to_pylist() == [3]
    table.delete("id < 10")
    assert table.scan(["variant_get(v, '$.a', 'int') AS a"], where="id = 10").to_arrow().to_pylist() == [{"a": 10}]
    assert table.scan(["variant_get(v, '$.a', 'int') AS a"], where="id < 0").to_arrow().to_pylist() == []


def test_of_shredded_variants_only_the_wanted_columns_are_read(catalog, monkeypatch):
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=SHREDDED)
    table.append(rows({i: {"a": i, "long": "x" * 100} for i in range(50)}))
    read: list[list[str]] = []
    iterate = pq.ParquetFile.iter_batches

    def noted(self: Any, **options: Any) -> Any:
        read.append(options["columns"])
        return iterate(self, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    found = table.scan(["variant_get(v, '$.a', 'int') AS a"]).to_arrow()
    assert found["a"].to_pylist() == list(range(50))
    assert read
    assert not any("long" in name for names in read for name in names)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["variant_get(v, '$.a', 'int')"], SchemaError, "needs a name, as in variant_get"),
        (["variant_get(v, '$.a', 'int') AS id", "id"], SchemaError, "the name 'id' is taken"),
        (["variant_get(v, '$.a', 'int') AS x", "variant_get(v, '$.b', 'int') AS x"], SchemaError, "name 'x' is taken"),
        (["variant_get(id, '$.a', 'int') AS x"], SchemaError, "is no variant"),
        (["variant_get(w, '$.a', 'int') AS x"], SchemaError, "no column 'w'"),
        (["variant_get(v, '$.a', 'thing') AS x"], SchemaError, "thing"),
        (["variant_get(v, '$.a', 'int') > 5 AS x"], SchemaError, "needs a name"),
        (["variant_get(v, '$.a', 'int') = variant_get(v, '$.b', 'int') AS x"], SchemaError, "is not one value"),
        (["variant_get(v, '$.a') AS x"], FormatError, "takes a column, a path and a type"),
        (["variant_get(v, 'a', 'int') AS x"], SchemaError, "path"),
    ],
)
def test_values_that_are_none_are_refused(catalog, columns, error, message):
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    with pytest.raises(error, match=message):
        table.scan(columns)


def test_tasks_read_values(catalog):
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    table.append(pa.table({"id": [1, 2], "v": from_values([{"a": 5}, {"b": 1}])}))
    scan = table.scan(["variant_get(v, '$.a', 'int') AS x", "id"])
    reader = pickle.loads(pickle.dumps(scan.row_reader()))
    found = pa.Table.from_batches(reader.batches(scan.plan()), reader.delivered)
    assert found.to_pylist() == [{"x": 5, "id": 1}, {"x": None, "id": 2}]
    assert reader.delivered.equals(scan.schema)
