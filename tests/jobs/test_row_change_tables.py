"""Row-level changes of all kinds of tables: key types, nested columns, file formats, evolved partitions and schemas."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid

import pyarrow as pa
import pytest

import skerry
from skerry.errors import SchemaError
from skerry.iceberg.catalogs.pyiceberg_catalogs import as_pyiceberg
from skerry.table.rows.metadata_columns import METADATA_COLUMNS

pytestmark = pytest.mark.slow

COPY, MARK = "copy-on-write", "merge-on-read"
KINDS = [("2", COPY), ("2", MARK), ("3", COPY), ("3", MARK)]
UTC = dt.UTC
KEYS = {
    "boolean": (pa.bool_(), [False, True]),
    "int": (pa.int32(), [-(2**31), 0, 7, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 0, 7, 2**63 - 1]),
    "float": (pa.float32(), [float("-inf"), 0.0, 1.5, float("nan")]),
    "double": (pa.float64(), [float("-inf"), 0.0, 1.5, float("nan")]),
    "decimal": (pa.decimal128(20, 3), [decimal.Decimal(n) for n in ("-1.500", "0.000", "12345678901234567.891")]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "time": (pa.time64("us"), [dt.time(0), dt.time(12, 30, 1, 5), dt.time(23, 59, 59, 999999)]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(1969, 12, 31, 23, 59, 59, 1), dt.datetime(2024, 1, 1)]),
    "timestamptz": (pa.timestamp("us", "UTC"), [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2024, 1, 1, tzinfo=UTC)]),
    "string": (pa.string(), ["", "a", "a\0", "é" * 40, "z" * 40]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"\xff" * 20]),
    "fixed": (pa.binary(4), [b"\0\0\0\0", b"abcd", b"\xff\xff\xff\xff"]),
    "uuid": (pa.uuid(), [uuid.UUID(int=0), uuid.UUID(int=2**127), uuid.UUID(int=2**128 - 1)]),
}
# what equality deletes of readers agree on
BLIND = [name for name in KEYS if name not in ("float", "double")]


def make(folder, schema, version="2", mode=MARK, partition_by=(), **properties):
    return skerry.connect(folder).create_table(
        "d.t",
        schema,
        partition_by=list(partition_by),
        properties={"format-version": version, "write.delete.mode": mode, "write.merge.mode": mode, **properties},
    )


def array(type_, values):
    if isinstance(type_, pa.BaseExtensionType):
        return pa.array([value.bytes for value in values], type_.storage_type).cast(type_)
    return pa.array(values, type_)


def counts(table, column="n"):
    return sorted(table.scan([column]).to_arrow()[column].to_pylist())


@pytest.mark.parametrize("mode", [COPY, MARK])
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type(tmp_path, name, mode):
    type_, values = KEYS[name]
    table = make(tmp_path, pa.schema([("k", type_), ("n", pa.int32())]), "2", mode)
    half = len(values) // 2
    for part in (values[:half], values[half:]):
        keys = pa.concat_arrays([array(type_, part), pa.nulls(1, type_)])
        table.append(pa.table({"k": keys, "n": pa.array([0] * (len(part) + 1), pa.int32())}))
    done = table.upsert(pa.table({"k": array(type_, values), "n": pa.array([1] * len(values), pa.int32())}), "k")
    assert (done.updated_rows, done.inserted_rows) == (len(values), 0)
    assert counts(table) == [0, 0] + [1] * len(values)
    if name in BLIND:
        table.upsert(
            pa.table({"k": array(type_, values), "n": pa.array([2] * len(values), pa.int32())}), "k", blind=True
        )
        assert counts(table) == [0, 0] + [2] * len(values)
    table.merge(pa.table({"k": array(type_, values[:1])}), "k", when_matched="delete")
    assert len(counts(table)) == len(values) + 1


NESTED = pa.schema(
    [
        ("k", pa.int64()),
        ("place", pa.struct([("x", pa.int32()), ("name", pa.string())])),
        ("tags", pa.list_(pa.string())),
        ("notes", pa.map_(pa.string(), pa.int32())),
        ("n", pa.int32()),
    ]
)


@pytest.mark.parametrize(("version", "mode"), KINDS)
def test_nested_columns_are_kept_and_changed(tmp_path, version, mode):
    table = make(tmp_path, NESTED, version, mode)
    rows = [
        {"k": k, "place": {"x": k, "name": f"p{k}"}, "tags": ["a", None], "notes": [("m", k)], "n": k} for k in range(4)
    ]
    rows += [{"k": 4, "place": None, "tags": None, "notes": None, "n": None}]
    table.append(pa.Table.from_pylist(rows, NESTED))
    table.merge(
        pa.table({"k": [1, 4], "place": [{"x": 9, "name": "new"}] * 2}),
        "k",
        when_matched=skerry.Update(
            {"place": "source.place", "n": "source.place.x"}, "target.place.x < 5 OR target.k = 4"
        ),
        when_not_matched_by_source=skerry.Update({"tags": None}, "place.name = 'p2'"),
    )
    table.delete("place.x = 3")
    for k in (1, 4):
        rows[k] |= {"place": {"x": 9, "name": "new"}, "n": 9}
    rows[2]["tags"] = None
    del rows[3]
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == rows


def nested_uuids(ids):
    """Columns of uuid and fixed at every kind of depth; every third row is null, as is an element of each list."""
    uuids = array(pa.uuid(), [uuid.UUID(int=number) for number in ids])
    fixed = pa.array([number.to_bytes(3, "big") for number in ids], pa.binary(3))
    starts, mask = pa.array(range(len(ids) + 1), pa.int32()), pa.array([number % 3 == 2 for number in ids])
    pairs = pa.StructArray.from_arrays([uuids, fixed], names=["u", "f"])
    columns = {
        "list": pa.ListArray.from_arrays(starts, uuids, mask=mask),
        "map": pa.MapArray.from_arrays(starts, uuids, fixed, mask=mask),
        "struct": pa.StructArray.from_arrays([uuids, fixed], names=["u", "f"], mask=mask),
        "structs": pa.ListArray.from_arrays(starts, pairs, mask=mask),
    }
    return pa.table({"k": pa.array(ids, pa.int64()), **columns})


def plain(rows):
    return sorted(rows.to_pylist(), key=lambda row: row["k"])


@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
def test_uuids_and_fixed_inside_of_lists_maps_and_structs(tmp_path, file_format):
    first = nested_uuids([1, 2, 3, 4])
    table = make(tmp_path, first.schema, **{"write.format.default": file_format})
    table.append(first)
    start = table.snapshots()[-1].snapshot_id
    table.upsert(nested_uuids([2, 5]), on=["k"])
    assert plain(table.scan().to_arrow()) == plain(nested_uuids([1, 2, 3, 4, 5]))
    table.merge(nested_uuids([1, 6]).select(["k"]), on="k", when_matched="update", when_not_matched="insert")
    lacking = pa.table({"k": pa.array([6], pa.int64())})
    expected = pa.concat_tables([nested_uuids([1, 2, 3, 4, 5]), lacking], promote_options="default")
    assert plain(table.scan().to_arrow()) == plain(expected)
    table.delete("k = 6")
    table.overwrite(nested_uuids([3]), where="k = 3")
    table.compact()
    expected = plain(nested_uuids([1, 2, 3, 4, 5]))
    assert plain(table.scan().to_arrow()) == expected
    table.changes(start, table.snapshots()[-1].snapshot_id).to_arrow()
    table.analyze()
    assert table.scan(where="k > 9").to_arrow().num_rows == 0
    assert table.scan(["struct.u"], where=f"struct.u = '{uuid.UUID(int=4)}'").count() == 1


@pytest.mark.parametrize("file_format", ["orc", "avro"])
@pytest.mark.parametrize(("version", "mode"), KINDS)
def test_other_file_formats(tmp_path, version, mode, file_format):
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    table = make(tmp_path, schema, version, mode, **{"write.format.default": file_format})
    table.append(pa.table({"k": range(10), "s": ["old"] * 10}))
    table.upsert(pa.table({"k": [3, 30], "s": ["new"] * 2}), "k")
    table.merge(pa.table({"k": [4]}), "k", when_matched=skerry.Update({"s": "'changed'"}))
    table.delete("k in (5, 6)")
    found = table.scan().to_arrow().sort_by("k").to_pydict()
    assert found["k"] == [0, 1, 2, 3, 4, 7, 8, 9, 30]
    assert found["s"] == ["old"] * 3 + ["new", "changed"] + ["old"] * 3 + ["new"]
    assert {file.file_format for file in table.files()} == {file_format}


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize(("version", "mode"), KINDS)
def test_files_of_several_partition_specs(tmp_path, version, mode, blind):
    schema = pa.schema([("k", pa.int64()), ("day", pa.date32()), ("n", pa.int32())])
    days = [dt.date(2024, 1, 1 + k % 3) for k in range(9)]
    table = make(tmp_path, schema, version, mode, ["day"])
    table.append(pa.table({"k": range(9), "day": days, "n": [0] * 9}))
    with table.update_spec() as update:
        update.remove_field("day")
        update.add_field("bucket(2, k)")
    table.append(pa.table({"k": range(9, 18), "day": days, "n": [0] * 9}))
    assert len({file.spec_id for file in table.files()}) == 2
    changes = pa.table({"k": [1, 10, 100], "day": [days[1], days[1], days[1]], "n": pa.array([1] * 3, pa.int32())})
    table.upsert(changes, ["k", "day"], blind=blind)
    assert counts(table) == [0] * 16 + [1] * 3
    table.delete("k in (2, 11)")
    assert counts(table) == [0] * 14 + [1] * 3
    assert counts(table, "k") == sorted({*range(18), 100} - {2, 11})


@pytest.mark.parametrize(("version", "mode"), KINDS)
def test_columns_that_came_later(tmp_path, version, mode):
    table = make(tmp_path, pa.schema([("k", pa.int32()), ("s", pa.string())]), version, mode)
    table.append(pa.table({"k": pa.array([1, 2, 3], pa.int32()), "s": ["a", "b", "c"]}))
    with table.update_schema() as update:
        update.add_column("later", pa.string())
        update.update_column("k", pa.int64())
        update.rename_column("s", "name")
    table.upsert(pa.table({"k": [2, 2**40], "later": ["x", "y"]}), "k")
    table.upsert(pa.table({"later": ["x"], "name": ["z"]}), "later")
    table.delete("later is null and name = 'a'")
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"])
    assert found == [
        {"k": 2, "name": "z", "later": "x"},
        {"k": 3, "name": "c", "later": None},
        {"k": 2**40, "name": None, "later": "y"},
    ]


def test_required_columns(tmp_path):
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.string(), nullable=False)])
    table = make(tmp_path, schema)
    table.append(pa.table({"k": [1, 2], "s": ["a", "b"]}, schema=schema))
    before = table.current_snapshot()
    with pytest.raises(SchemaError, match="required column 's' is missing"):
        table.upsert(pa.table({"k": [1, 3]}), "k")
    with pytest.raises(SchemaError, match="column 's' is required, but null"):
        table.upsert(pa.table({"k": [1], "s": pa.array([None], pa.string())}), "k")
    assert table.refresh().current_snapshot() == before
    table.merge(
        pa.table({"k": [1, 2], "s": ["new", None]}),
        "k",
        when_matched=[skerry.Delete("source.s IS NULL"), "update"],
    )
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "s": "new"}]


def test_names_of_metadata_columns_are_refused_for_new_columns(tmp_path):
    for name in METADATA_COLUMNS.names:
        with pytest.raises(SchemaError, match=f"column '{name}' has the name of a metadata column"):
            make(tmp_path, pa.schema([("k", pa.int64()), (name, pa.int64())]))
    table = make(tmp_path, pa.schema([("k", pa.int64()), ("s", pa.struct([("_pos", pa.int64())]))]))
    with pytest.raises(SchemaError, match="column '_pos' has the name"), table.update_schema() as update:
        update.add_column("_pos", pa.int64())
    with pytest.raises(SchemaError, match="column '_file' has the name"), table.update_schema() as update:
        update.rename_column("k", "_file")
    assert table.refresh().schema.names == ["k", "s"]


def test_safety_catches(tmp_path):
    table = make(tmp_path, pa.schema([("k", pa.int64()), ("pos", pa.int64())]))
    with as_pyiceberg(table.handle.catalog).load_table("d.t").update_schema() as update:
        update.rename_column("pos", "_pos")  # as other engines may
    with pytest.raises(SchemaError, match="delete needs a condition; 'TRUE' deletes all rows"):
        table.delete(None)
    with pytest.raises(SchemaError, match="column '_pos' has a name that is reserved for row changes"):
        table.delete("k = 1")
    with pytest.raises(SchemaError, match="column '_pos' has a name that is reserved for row changes"):
        table.overwrite(pa.table({"k": [1]}))
