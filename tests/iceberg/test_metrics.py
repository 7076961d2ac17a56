"""Metrics of data files: what a Parquet footer says, as a table's properties want it kept."""

from __future__ import annotations

import datetime as dt
import io
import math
import struct
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema, to_iceberg_schema
from skerry.iceberg.writing.bounds import truncate_lower, truncate_upper
from skerry.iceberg.writing.metrics import MetricsKind, MetricsMode, metrics_modes, parquet_data_file
from skerry.table.files.parquet_statistics import bound_of
from skerry.table.rows.values import decode_value, encode_value

COUNTS = MetricsMode(MetricsKind.COUNTS)
FULL = MetricsMode(MetricsKind.FULL)
NONE = MetricsMode(MetricsKind.NONE)
TRUNCATE = MetricsMode(MetricsKind.TRUNCATE, 16)


def with_ids(schema):
    return to_arrow_schema(to_iceberg_schema(schema, format_version=3))


def footer(table, **options):
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return pq.read_metadata(buffer), buffer.tell()


def describe(table, properties=None, *, schema=None, modes=None, write=None, **options):
    schema = schema or with_ids(table.schema)
    if modes is None:
        modes = metrics_modes(schema, properties or {})
    metadata, size = footer(table.cast(schema) if write is None else table, **(write or {}))
    return parquet_data_file("f.parquet", metadata, size, schema, modes, **options)


def bounds(file, number, type_):
    lower, upper = file.lower_bounds.get(number), file.upper_bounds.get(number)
    return (
        None if lower is None else decode_value(type_, lower),
        None if upper is None else decode_value(type_, upper),
    )


# Values --------------------------------------------------------------------------------------------------------------

COLUMNS = [
    (pa.array([True, None, False]), False, True),
    (pa.array([3, None, -5], pa.int32()), -5, 3),
    (pa.array([2**62, -(2**62)]), -(2**62), 2**62),
    (pa.array([1.5, -2.5], pa.float32()), -2.5, 1.5),
    (pa.array([1.5, -math.inf]), -math.inf, 1.5),
    (pa.array([-1, 17501], pa.date32()), -1, 17501),
    (pa.array([1, 86_399_999_999], pa.time64("us")), 1, 86_399_999_999),
    (pa.array([-1, 5], pa.timestamp("us")), -1, 5),
    (pa.array([-1, 5], pa.timestamp("us", "UTC")), -1, 5),
    (pa.array([-1, 5], pa.timestamp("ns")), -1, 5),
    (pa.array([-1, 5], pa.timestamp("ns", "UTC")), -1, 5),
    (pa.array(["b", "a", None, ""]), "", "b"),
    (pa.array([b"\xff", b"\0"]), b"\0", b"\xff"),
    (pa.array([b"\xff\0", b"\0\1"], pa.binary(2)), b"\0\1", b"\xff\0"),
    (pa.array([Decimal("-1.50"), Decimal("9.99")], pa.decimal128(9, 2)), Decimal("-1.50"), Decimal("9.99")),
    (pa.array([Decimal("-1.50"), Decimal("9.99")], pa.decimal128(18, 2)), Decimal("-1.50"), Decimal("9.99")),
    (pa.array([Decimal("-1.50"), Decimal("9.99")], pa.decimal128(38, 2)), Decimal("-1.50"), Decimal("9.99")),
]


@pytest.mark.parametrize(("column", "lower", "upper"), COLUMNS, ids=lambda part: str(getattr(part, "type", "")))
@pytest.mark.parametrize("options", [{}, {"store_decimal_as_integer": True}, {"row_group_size": 1}], ids=str)
def test_bounds_of_every_type(column, lower, upper, options):
    file = describe(pa.table({"c": column}), write=options)
    assert bounds(file, 1, column.type) == (lower, upper)
    assert file.value_counts == {1: len(column)}
    assert file.null_value_counts == {1: column.null_count}
    assert file.column_sizes[1] > 0
    assert file.record_count == len(column)
    assert file.file_format == "parquet"


def test_uuids_have_counts_but_no_bounds():
    column = pa.array([bytes(16), b"\xff" * 16], pa.binary(16)).cast(pa.uuid())
    file = describe(pa.table({"c": column}))
    assert file.value_counts == {1: 2}
    assert bounds(file, 1, pa.uuid()) == (None, None)


def test_nulls_alone_and_no_rows_have_no_bounds():
    for column in (pa.nulls(3, pa.int32()), pa.array([], pa.int32())):
        file = describe(pa.table({"c": column}))
        assert bounds(file, 1, pa.int32()) == (None, None)
        assert file.null_value_counts == {1: len(column)}
    mixed = pa.table({"c": pa.array([None, None, 1, 2], pa.int32())})
    file = describe(mixed, write={"row_group_size": 2})
    assert bounds(file, 1, pa.int32()) == (1, 2)


def test_nan_is_no_bound():
    column = pa.array([math.nan, 1.0, 2.0, None])
    file = describe(pa.table({"c": column}), nan_value_counts={1: 1})
    assert bounds(file, 1, pa.float64()) == (1.0, 2.0)
    assert file.nan_value_counts == {1: 1}
    assert bounds(describe(pa.table({"c": [math.nan] * 3})), 1, pa.float64()) == (None, None)
    # a group of nothing but NaN has no statistics, and says nothing of the others' being all
    file = describe(pa.table({"c": [1.0, math.nan]}), write={"row_group_size": 1})
    assert bounds(file, 1, pa.float64()) == (None, None)


def test_zeros_are_widened():
    for values in ([0.0], [-0.0], [0.0, -0.0]):
        for type_ in (pa.float32(), pa.float64()):
            lower, upper = bounds(describe(pa.table({"c": pa.array(values, type_)})), 1, type_)
            assert math.copysign(1, lower) == -1
            assert math.copysign(1, upper) == 1
    lower, upper = bounds(describe(pa.table({"c": [0.0, 5.0]})), 1, pa.float64())
    assert (math.copysign(1, lower), upper) == (-1, 5.0)


def test_nan_counts_are_kept_for_floats_alone():
    table = pa.table({"a": [1.0], "b": [1], "c": [[1.0]]})
    file = describe(table, nan_value_counts={1: 0, 2: 3, 4: 1, 9: 1})
    assert file.nan_value_counts == {1: 0}


def test_other_fields_are_passed_on():
    file = describe(pa.table({"c": [1]}), spec_id=3, partition=(1, "x"), sort_order_id=2)
    assert (file.location, file.spec_id, file.partition, file.sort_order_id) == ("f.parquet", 3, (1, "x"), 2)


def test_split_offsets_are_where_row_groups_begin():
    table = pa.table({"c": pa.array(["x", "y"] * 500).dictionary_encode(), "d": range(1000)})
    schema = with_ids(pa.schema([("c", pa.string()), ("d", pa.int64())]))
    metadata, size = footer(table, row_group_size=100)
    file = parquet_data_file("f", metadata, size, schema, metrics_modes(schema, {}))
    assert len(file.split_offsets) == 10
    assert file.split_offsets[0] == 4
    assert list(file.split_offsets) == sorted(set(file.split_offsets))
    assert file.split_offsets[-1] < size
    assert describe(pa.table({"c": pa.array([], pa.int64())})).split_offsets == ()


# Truncation ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "length", "upper"),
    [
        ("abc", 3, "abc"),
        ("abc", 2, "ac"),
        ("ab\U0010ffffx", 3, "ac"),
        ("\U0010ffff\U0010ffffx", 2, None),
        ("\ud7ffx", 1, "\ue000"),
        ("𝄞𝄞", 1, "𝄟"),
        ("", 1, ""),
        (b"abc", 2, b"ac"),
        (b"a\xffc", 2, b"b"),
        (b"\xff\xffc", 2, None),
        (b"\xff", 1, b"\xff"),
    ],
    ids=repr,
)
def test_upper_bounds_are_cut_and_raised(value, length, upper):
    assert truncate_upper(value, length) == upper


@given(st.text(max_size=8), st.integers(1, 6))
def test_text_bounds_hold_and_are_those_of_pyiceberg(value, length):
    lower, upper = truncate_lower(value, length), truncate_upper(value, length)
    assert lower.encode() <= value.encode()
    assert len(lower) <= length
    if upper is not None:
        assert upper.encode() >= value.encode()
        assert len(upper) <= length
    if not any(0xD7FF <= ord(character) <= 0xDFFF for character in value):
        assert upper == truncate_upper_bound_text_string(value, length)


@given(st.binary(max_size=8), st.integers(1, 6))
def test_binary_bounds_hold_and_are_those_of_pyiceberg(value, length):
    lower, upper = truncate_lower(value, length), truncate_upper(value, length)
    assert lower <= value
    if upper is not None:
        assert value <= upper
        assert upper <= truncate_upper_bound_binary_string(value, length)  # PyIceberg keeps the bytes behind


def test_only_text_and_binary_are_cut():
    table = pa.table(
        {
            "s": ["a" * 20],
            "b": [b"\xff" * 20],
            "f": pa.array([b"x" * 20], pa.binary(20)),
            "d": pa.array([Decimal(10**37)], pa.decimal128(38, 0)),
        }
    )
    file = describe(table)
    assert file.lower_bounds[1] == b"a" * 16
    assert file.upper_bounds[1] == b"a" * 15 + b"b"
    assert file.lower_bounds[2] == b"\xff" * 16
    assert 2 not in file.upper_bounds
    assert file.lower_bounds[3] == file.upper_bounds[3] == b"x" * 20
    assert bounds(file, 4, pa.decimal128(38, 0)) == (Decimal(10**37), Decimal(10**37))
    file = describe(table, {"write.metadata.metrics.default": "full"})
    assert (file.lower_bounds[1], file.upper_bounds[2]) == (b"a" * 20, b"\xff" * 20)


# Which metrics -------------------------------------------------------------------------------------------------------


def test_modes_come_from_the_properties():
    schema = with_ids(pa.schema([("a", pa.int32()), ("b.c", pa.string()), ("s", pa.struct([("x", pa.int32())]))]))
    assert metrics_modes(schema, {}) == dict.fromkeys((1, 2, 4), TRUNCATE)
    properties = {
        "write.metadata.metrics.default": "Counts",
        "write.metadata.metrics.column.b.c": "full",
        "write.metadata.metrics.column.s.x": "truncate(3)",
        "write.metadata.metrics.column.gone": "full",
    }
    assert metrics_modes(schema, properties) == {1: COUNTS, 2: FULL, 4: MetricsMode(MetricsKind.TRUNCATE, 3)}
    assert metrics_modes(schema, {"write.metadata.metrics.default": "none"}, (1,)) == {1: TRUNCATE, 2: NONE, 4: NONE}
    sorted_none = {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.a": "none"}
    assert metrics_modes(schema, sorted_none, (1,))[1] == NONE
    assert metrics_modes(schema, {"write.metadata.metrics.default": "full"}, (1,))[1] == FULL


@pytest.mark.parametrize("text", ["truncate(0)", "truncate", "all", "truncate(-1)", "truncate(99999999999)"])
def test_modes_that_mean_nothing_are_refused(text):
    schema = with_ids(pa.schema([("a", pa.int32())]))
    for name in ("write.metadata.metrics.default", "write.metadata.metrics.column.a"):
        with pytest.raises(SchemaError, match=f"table property {name} is "):
            metrics_modes(schema, {name: text})
    with pytest.raises(SchemaError, match="column-defaults must be a whole number of at least 0, found 'x'"):
        metrics_modes(schema, {"write.metadata.metrics.max-inferred-column-defaults": "x"})


def test_only_the_first_columns_of_a_wide_table_have_metrics():
    fields = [(f"c{index}", pa.int32()) for index in range(60)]
    schema = with_ids(pa.schema([("s", pa.struct([(f"d{index}", pa.int32()) for index in range(60)])), *fields]))
    modes = metrics_modes(schema, {})
    ids = {name: int(schema.field(name).metadata[b"PARQUET:field_id"]) for name, _ in fields}
    assert all(modes[number] == TRUNCATE for number in ids.values())
    nested = [modes[int(field.metadata[b"PARQUET:field_id"])] for field in schema.field("s").type]
    assert nested == [TRUNCATE] * 40 + [NONE] * 20
    few = {"write.metadata.metrics.max-inferred-column-defaults": "1"}
    assert list(metrics_modes(schema, few).values()).count(TRUNCATE) == 1
    assert NONE not in metrics_modes(schema, few | {"write.metadata.metrics.default": "counts"}).values()


def test_modes_decide_what_is_kept():
    table = pa.table({"a": [1], "b": [1], "c": [1], "d": [1.0]})
    modes = {1: NONE, 2: COUNTS, 3: FULL}
    file = describe(table, modes=modes, nan_value_counts={4: 0})
    assert set(file.column_sizes) == set(file.value_counts) == set(file.null_value_counts) == {2, 3}
    assert set(file.lower_bounds) == set(file.upper_bounds) == {3}
    assert file.nan_value_counts == {}


# Nested columns ------------------------------------------------------------------------------------------------------


def test_columns_in_structs_count_and_those_in_lists_have_sizes_only():
    table = pa.table(
        {
            "s": [{"x": 1, "t": {"y": "a"}}, None],
            "l": [[1, 2, 3], []],
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "ls": [[{"z": 1}], None],
        }
    )
    schema = with_ids(table.schema)
    names = {}

    def collect(field, prefix):
        names[f"{prefix}{field.name}"] = int(field.metadata[b"PARQUET:field_id"])
        if pa.types.is_struct(field.type):
            for child in field.type:
                collect(child, f"{prefix}{field.name}.")

    for field in schema:
        collect(field, "")
    file = describe(table, schema=schema)
    leaves = {names["s.x"], names["s.t.y"]}
    assert set(file.value_counts) == set(file.null_value_counts) == leaves
    assert file.value_counts[names["s.x"]] == 2
    assert file.null_value_counts[names["s.x"]] == 1
    assert file.lower_bounds == {names["s.x"]: encode_value(pa.int64(), 1), names["s.t.y"]: b"a"}
    assert len(file.column_sizes) == 6


# Files that others wrote ---------------------------------------------------------------------------------------------


def foreign(table, schema, **options):
    """A file with other types than the table's."""
    metadata, size = footer(table, **options)
    return parquet_data_file(
        "f", metadata, size, schema, metrics_modes(schema, {"write.metadata.metrics.default": "full"})
    )


def test_files_without_ids_match_by_name():
    schema = with_ids(
        pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int64())])), ("l", pa.list_(pa.int64()))])
    )
    file = foreign(pa.table({"l": [[1]], "s": [{"x": 7, "y": 0}], "other": ["q"]}), schema)
    assert file.lower_bounds == {4: encode_value(pa.int64(), 7)}
    assert set(file.column_sizes) == {4, 5}


def test_columns_that_the_table_has_no_longer_are_left_out():
    old = with_ids(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    new = pa.schema([old.field("b").with_name("renamed")])
    file = foreign(pa.table({"a": [1], "b": [2]}).cast(old), new)
    assert file.lower_bounds == {2: encode_value(pa.int64(), 2)}


def one(array, type_, **options):
    schema = with_ids(pa.schema([("c", type_)]))
    return bounds(foreign(pa.table({"c": array}), schema, **options), 1, type_)


FOREIGN = [
    (pa.array([1, 2], pa.int32()), pa.int64(), {}, (1, 2)),
    (pa.array([1.5, 2.5], pa.float32()), pa.float64(), {}, (1.5, 2.5)),
    (pa.array([1, 2**32 - 1], pa.uint32()), pa.int64(), {}, (1, 2**32 - 1)),
    (pa.array([1, 200], pa.uint8()), pa.int32(), {}, (1, 200)),
    (pa.array([1, 2**64 - 1], pa.uint64()), pa.int64(), {}, (1, None)),
    (pa.array([1, 2**40]), pa.int32(), {}, (1, None)),
    (pa.array([-1, 1], pa.timestamp("ms")), pa.timestamp("us"), {}, (-1000, 1000)),
    (pa.array([-1, 1], pa.timestamp("s")), pa.timestamp("us"), {}, (-1_000_000, 1_000_000)),
    (pa.array([-1500, 1500], pa.timestamp("ns")), pa.timestamp("us"), {}, (-2, 2)),
    (pa.array([-1, 1], pa.timestamp("us")), pa.timestamp("ns"), {}, (-1000, 1000)),
    (pa.array([1, 2], pa.time32("ms")), pa.time64("us"), {}, (1000, 2000)),
    (pa.array([1500, 2500], pa.time64("ns")), pa.time64("us"), {}, (1, 3)),
    (pa.array(["a", "b"]).dictionary_encode(), pa.string(), {}, ("a", "b")),
    (pa.array(["a", "b"], pa.large_string()), pa.string(), {}, ("a", "b")),
    (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), pa.decimal128(9, 1), {}, (Decimal("1.5"), Decimal("1.5"))),
    # not the table's type: no bounds rather than wrong ones
    (pa.array([1, 2], pa.timestamp("us", "UTC")), pa.timestamp("us"), {}, (None, None)),
    (pa.array([1, 2], pa.timestamp("us")), pa.int64(), {}, (None, None)),
    (pa.array([1, 2]), pa.timestamp("us"), {}, (None, None)),
    (pa.array([1, 2], pa.int32()), pa.date32(), {}, (None, None)),
    (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), pa.decimal128(9, 2), {}, (None, None)),
    (pa.array([1, 2]), pa.string(), {}, (None, None)),
    (pa.array(["a"]), pa.int32(), {}, (None, None)),
    (pa.array([b"ab"], pa.binary(2)), pa.binary(3), {}, (None, None)),
    (pa.array([1, 2], pa.int32()), pa.bool_(), {}, (None, None)),
    (pa.array(["a"]), pa.float64(), {}, (None, None)),
    (pa.array([1, 2], pa.timestamp("us")), pa.timestamp("us"), {"use_deprecated_int96_timestamps": True}, (None, None)),
    (pa.array([1, 2]), pa.int64(), {"write_statistics": False}, (None, None)),
]


@pytest.mark.parametrize(("array", "type_", "options", "expected"), FOREIGN, ids=lambda part: str(part)[:30])
def test_bounds_of_files_with_other_types(array, type_, options, expected):
    assert one(array, type_, **options) == expected


def test_a_file_without_statistics_has_sizes_and_value_counts():
    schema = with_ids(pa.schema([("c", pa.int64())]))
    file = foreign(pa.table({"c": [1, None]}), schema, write_statistics=False)
    assert file.value_counts == {1: 2}
    assert file.null_value_counts == {}
    assert set(file.column_sizes) == {1}


def test_statistics_that_are_cut_within_a_character_bound_below_only():
    text = "aé".encode()[:-1]
    assert bound_of(pa.string(), text, "BYTE_ARRAY", {"Type": "String"}, upper=False) == "a"
    assert bound_of(pa.string(), text, "BYTE_ARRAY", {"Type": "String"}, upper=True) is None
    assert bound_of(pa.string(), b"\xff", "BYTE_ARRAY", {"Type": "String"}, upper=False) is None


def test_a_schema_that_arrow_does_not_understand_is_named(monkeypatch):
    class Broken:
        def to_arrow_schema(self):
            raise pa.ArrowNotImplementedError("strange type")

    class Metadata:
        schema = Broken()
        num_columns = 1

    with pytest.raises(UnsupportedError, match="the Parquet schema cannot be read: strange type") as error:
        parquet_data_file("x.parquet", Metadata(), 1, with_ids(pa.schema([("a", pa.int32())])), {})
    assert error.value.location == "x.parquet"


@given(
    st.lists(
        st.one_of(st.none(), st.floats(allow_nan=True, width=32), st.sampled_from([0.0, -0.0])), min_size=1, max_size=12
    ),
    st.integers(1, 5),
)
def test_float_bounds_hold_for_every_value(values, group):
    file = describe(pa.table({"c": pa.array(values, pa.float32())}), write={"row_group_size": group})
    lower, upper = bounds(file, 1, pa.float32())

    def total(value):
        bits = struct.unpack("<i", struct.pack("<f", value))[0]
        return bits ^ ((bits >> 31) & 0x7FFFFFFF)

    for value in values:
        if value is not None and not math.isnan(value):
            assert lower is None or total(lower) <= total(value)
            assert upper is None or total(upper) >= total(value)


def test_dates_are_days():
    file = describe(pa.table({"c": [dt.date(1969, 12, 31)]}))
    assert file.lower_bounds == {1: b"\xff\xff\xff\xff"}


def test_bounds_that_the_type_does_not_hold_are_none():
    decimals, logical = pa.decimal128(9, 2), {"Type": "Decimal", "scale": 2, "precision": 9}
    assert bound_of(decimals, 999_999_999, "INT32", logical, upper=True) == Decimal("9999999.99")
    assert bound_of(decimals, 1_000_000_000, "INT32", logical, upper=True) is None
    unsigned = {"Type": "Int", "isSigned": False, "bitWidth": 32}
    assert bound_of(pa.int32(), 7, "INT32", unsigned, upper=True) == 7
    assert bound_of(pa.int32(), -1, "INT32", unsigned, upper=True) is None
    assert bound_of(pa.int64(), -1, "INT32", unsigned, upper=True) == 2**32 - 1
