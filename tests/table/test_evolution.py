"""Columns of old files in today's schema."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skerry.errors import SchemaError
from skerry.table.files.evolution import column_positions, has_ids, match_leaves, plan_conversion, prune, with_ids


def field(name, type_, field_id, *, nullable=True):
    return pa.field(name, type_, nullable=nullable, metadata={b"PARQUET:field_id": str(field_id).encode()})


def struct(*fields):
    return pa.struct(list(fields))


def convert(source, target, rows, constants=None):
    batch = pa.RecordBatch.from_pylist(rows, schema=source)
    converted = plan_conversion(source, target, constants)(batch)
    assert converted.schema == target
    converted.validate(full=True)
    return converted.to_pylist()


def one(source_type, target_type, values):
    rows = convert(
        pa.schema([field("old", source_type, 1)]),
        pa.schema([field("new", target_type, 1)]),
        [{"old": v} for v in values],
    )
    return [row["new"] for row in rows]


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (pa.int32(), pa.int64(), [1, None, -(2**31)], [1, None, -(2**31)]),
        (pa.int8(), pa.int32(), [1, -1], [1, -1]),
        (pa.float32(), pa.float64(), [1.5, None], [1.5, None]),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), [decimal.Decimal("1.25")], [decimal.Decimal("1.25")]),
        (pa.date32(), pa.timestamp("us"), [datetime.date(2020, 1, 2)], [datetime.datetime(2020, 1, 2)]),
        (pa.timestamp("ms"), pa.timestamp("us"), [datetime.datetime(2020, 1, 2)], [datetime.datetime(2020, 1, 2)]),
        (
            pa.timestamp("us"),
            pa.timestamp("us", "UTC"),
            [datetime.datetime(2020, 1, 2)],
            [datetime.datetime(2020, 1, 2, tzinfo=UTC)],
        ),
        (pa.time32("ms"), pa.time64("us"), [datetime.time(1, 2)], [datetime.time(1, 2)]),
        (pa.large_string(), pa.string(), ["a", None], ["a", None]),
        (pa.string_view(), pa.string(), ["a"], ["a"]),
        (pa.large_binary(), pa.binary(), [b"a"], [b"a"]),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", None, "a"], ["a", None, "a"]),
        (pa.null(), pa.int64(), [None], [None]),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), [[1, None], None, []], [[1, None], None, []]),
        (pa.large_list(pa.int32()), pa.list_(pa.int32()), [[1], None, [2, 3]], [[1], None, [2, 3]]),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), [[("a", 1)], None], [[("a", 1)], None]),
    ],
)
def test_a_column_is_brought_into_the_types_of_today(source, target, values, expected):
    assert one(source, target, values) == expected


def test_fixed_bytes_become_uuids():
    source, target = pa.schema([field("u", pa.binary(16), 1)]), pa.schema([field("u", pa.uuid(), 1)])
    batch = pa.RecordBatch.from_arrays([pa.array([b"a" * 16, None], pa.binary(16))], schema=source)
    assert plan_conversion(source, target)(batch).column("u").storage.to_pylist() == [b"a" * 16, None]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.int64(), pa.int32()),
        (pa.float64(), pa.float32()),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.string(), pa.binary()),
        (pa.date32(), pa.timestamp("us", "UTC")),
        (pa.list_(pa.string()), pa.list_(pa.int32())),
        (pa.struct([field("x", pa.int64(), 2)]), pa.int64()),
    ],
)
def test_other_types_are_refused_by_name(source, target):
    with pytest.raises(SchemaError, match=r"column 'new.*' is .* in the file, but .* in the table"):
        plan_conversion(pa.schema([field("old", source, 1)]), pa.schema([field("new", target, 1)]))


def test_a_value_that_does_not_fit_is_refused():
    source, target = pa.schema([field("a", pa.timestamp("ns"), 1)]), pa.schema([field("a", pa.timestamp("us"), 1)])
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.timestamp("ns"))], schema=source)
    with pytest.raises(SchemaError, match="column 'a' holds a value that does not fit"):
        plan_conversion(source, target)(batch)


def test_columns_are_found_by_id_whatever_their_names_and_places():
    source = pa.schema([field("a", pa.int64(), 1), field("b", pa.int64(), 2), pa.field("c", pa.int64())])
    target = pa.schema([field("b", pa.int64(), 1), field("a", pa.int64(), 2), field("c", pa.int64(), 3)])
    assert convert(source, target, [{"a": 1, "b": 2, "c": 3}]) == [{"b": 1, "a": 2, "c": None}]


def test_fields_of_structs_are_found_by_id_too():
    source = pa.schema([field("s", struct(field("x", pa.int32(), 2), field("y", pa.int32(), 3)), 1)])
    target = pa.schema([field("s", struct(field("y", pa.int32(), 2), field("x", pa.int32(), 3)), 1)])
    rows = [{"s": {"x": 1, "y": 2}}, {"s": None}]
    assert convert(source, target, rows) == [{"s": {"y": 1, "x": 2}}, {"s": None}]
    added = pa.schema([field("s", struct(field("z", pa.string(), 4), field("x", pa.int64(), 2)), 1)])
    assert convert(source, added, rows) == [{"s": {"z": None, "x": 1}}, {"s": None}]


def test_structs_within_lists_and_maps_change_with_them():
    old, new = struct(field("x", pa.int32(), 5)), struct(field("w", pa.string(), 6), field("x", pa.int64(), 5))
    source = pa.schema([field("l", pa.list_(old), 1), field("m", pa.map_(pa.string(), old), 2)])
    target = pa.schema([field("l", pa.list_(new), 1), field("m", pa.map_(pa.string(), new), 2)])
    rows = [{"l": [{"x": 1}, None], "m": [("k", {"x": 2})]}, {"l": None, "m": None}, {"l": [], "m": []}]
    expected = [
        {"l": [{"w": None, "x": 1}, None], "m": [("k", {"w": None, "x": 2})]},
        {"l": None, "m": None},
        {"l": [], "m": []},
    ]
    assert convert(source, target, rows) == expected
    sliced = pa.RecordBatch.from_pylist(rows * 2, schema=source).slice(1, 3)
    assert plan_conversion(source, target)(sliced).to_pylist() == (expected * 2)[1:4]


def test_missing_columns_take_their_constants():
    target = pa.schema(
        [
            field("n", pa.int64(), 1),
            field("day", pa.date32(), 2),
            field("u", pa.uuid(), 3),
            field("required", pa.string(), 4, nullable=False),
            field("s", struct(field("x", pa.int32(), 6)), 5),
        ]
    )
    source = pa.schema([field("other", pa.int64(), 9)])
    batch = pa.RecordBatch.from_pylist([{"other": 1}, {"other": 2}], schema=source)
    converted = plan_conversion(source, target, {1: 7, 2: 1, 3: b"u" * 16, 4: "there"})(batch)
    assert converted.schema == target
    assert converted.column("n").to_pylist() == [7, 7]
    assert converted.column("day").to_pylist() == [datetime.date(1970, 1, 2)] * 2
    assert converted.column("u").storage.to_pylist() == [b"u" * 16] * 2
    assert converted.column("required").to_pylist() == ["there"] * 2
    assert converted.column("s").to_pylist() == [None, None]
    with pytest.raises(SchemaError, match="required column 'required' is missing from the file and has no default"):
        plan_conversion(source, target, {1: 7})


def test_columns_that_need_no_conversion_are_passed_on():
    schema = pa.schema([field("l", pa.list_(pa.int64()), 1), field("s", struct(field("x", pa.string(), 3)), 2)])
    batch = pa.RecordBatch.from_pylist([{"l": [1], "s": {"x": "a"}}], schema=schema)
    renamed = pa.schema([field("m", pa.list_(pa.int64()), 1), field("t", struct(field("x", pa.string(), 3)), 2)])
    converted = plan_conversion(schema, renamed)(batch)
    assert converted.column("m").buffers()[1].address == batch.column("l").buffers()[1].address
    assert converted.column("t").field(0).buffers()[2].address == batch.column("s").field(0).buffers()[2].address


WIDE = pa.schema(
    [
        field("a", pa.int64(), 1),
        field("s", struct(field("x", pa.int64(), 3), field("deep", struct(field("y", pa.int64(), 5)), 4)), 2),
        field("l", pa.list_(field("element", struct(field("p", pa.int64(), 8), field("q", pa.int64(), 9)), 7)), 6),
        field("m", pa.map_(field("key", pa.string(), 11, nullable=False), field("value", pa.int64(), 12)), 10),
        pa.field("anonymous", pa.int64()),
        field("z", pa.int64(), 13),
    ]
)


def test_pruning_keeps_structs_around_wanted_fields():
    assert prune(WIDE, {13, 5}).names == ["s", "z"]
    assert str(prune(WIDE, {5}).field("s").type) == "struct<deep: struct<y: int64>>"
    assert prune(WIDE, {4}) == prune(WIDE, {5})
    assert prune(WIDE, {2}).field("s").type == WIDE.field("s").type
    assert prune(WIDE, {10, 6}) == pa.schema([WIDE.field("l"), WIDE.field("m")])


def wanted_leaves(source, target):
    return [position for position, _ in match_leaves(source, target)]


def test_wanted_columns_of_a_file_by_position(tmp_path):
    assert wanted_leaves(WIDE, WIDE) == [0, 1, 2, 3, 4, 5, 6, 8]
    assert wanted_leaves(WIDE, prune(WIDE, {13, 5})) == [2, 8]
    inner = pa.schema([field("l", pa.list_(struct(field("q", pa.int64(), 9))), 6)])
    assert wanted_leaves(WIDE, inner) == [4]
    new_field_only = pa.schema([field("s", struct(field("new", pa.int64(), 99)), 2)])
    assert wanted_leaves(WIDE, new_field_only) == [1]
    assert wanted_leaves(WIDE, pa.schema([field("new", pa.int64(), 99)])) == []
    assert column_positions(WIDE) == {1: 0, 3: 1, 5: 2, 13: 8}
    pq.write_table(WIDE.empty_table(), tmp_path / "wide.parquet")
    stored = pq.ParquetFile(tmp_path / "wide.parquet")
    paths = [stored.schema.column(position).path for position in range(9)]
    assert [paths[position] for position in (2, 4, 8)] == ["s.deep.y", "l.list.element.q", "z"]


def test_a_name_mapping_gives_ids_to_a_file_without():
    bare = pa.schema(
        [
            ("a", pa.int64()),
            ("s", pa.struct([("x", pa.int64())])),
            ("l", pa.list_(pa.struct([("p", pa.int64())]))),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("unknown", pa.int64()),
        ]
    )
    assert not has_ids(bare)
    mapping = {
        ("a",): 1, ("s",): 2, ("s", "x"): 3, ("l",): 6, ("l", "element"): 7, ("l", "element", "p"): 8,
        ("m",): 10, ("m", "key"): 11, ("m", "value"): 12,
    }  # fmt: skip
    identified = with_ids(bare, mapping)
    assert has_ids(identified)
    target = pa.schema([WIDE.field("s"), WIDE.field("l"), field("renamed", pa.int64(), 1)])
    batch = pa.RecordBatch.from_pylist([{"a": 1, "s": {"x": 2}, "l": [{"p": 3}], "m": [], "unknown": 5}], schema=bare)
    assert plan_conversion(identified, target)(batch).to_pylist() == [
        {"s": {"x": 2, "deep": None}, "l": [{"p": 3, "q": None}], "renamed": 1}
    ]
    assert wanted_leaves(identified, target) == [0, 1, 2]
