"""Partition transforms: the specification's test values, PyIceberg as a peer, and plain twins value by value."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import peer_transform, peer_type

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.metadata.arrow_schema import to_iceberg_type
from skerry.iceberg.metadata.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from skerry.iceberg.partitioning.murmur import hash_column
from skerry.iceberg.partitioning.transforms import apply, hour_limits, parse_transform, result_type
from skerry.table.rows.values import encode_value, physical_value

few = settings(max_examples=20)  # of each type and transform
MICROSECONDS = dt.timedelta(microseconds=1)


def physical(array):
    return [physical_value(array.type, value) for value in array]


# Iceberg, Appendix B: 32-bit Hash Requirements
SPEC_HASHES = [
    (pa.int32(), 34, 2017239379),
    (pa.int64(), 34, 2017239379),
    (pa.decimal128(9, 2), Decimal("14.20"), -500754589),
    (pa.date32(), dt.date(2017, 11, 16), -653330422),
    (pa.time64("us"), dt.time(22, 31, 8), -662762989),
    (pa.timestamp("us"), dt.datetime(2017, 11, 16, 22, 31, 8), -2047944441),
    (pa.timestamp("us"), dt.datetime(2017, 11, 16, 22, 31, 8, 1), -1207196810),
    (pa.timestamp("us", "UTC"), dt.datetime(2017, 11, 16, 22, 31, 8, tzinfo=dt.UTC), -2047944441),
    (pa.timestamp("ns"), np.datetime64("2017-11-16T22:31:08"), -2047944441),
    (pa.timestamp("ns"), np.datetime64("2017-11-16T22:31:08.000001001"), -1207196810),
    (pa.timestamp("ns", "UTC"), np.datetime64("2017-11-16T22:31:08.000001001"), -1207196810),
    (pa.string(), "iceberg", 1210000089),
    (pa.large_string(), "iceberg", 1210000089),
    (pa.uuid(), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
    (pa.binary(4), b"\0\1\2\3", -188683207),
    (pa.binary(), b"\0\1\2\3", -188683207),
]


@pytest.mark.parametrize(("type_", "value", "expected"), SPEC_HASHES, ids=lambda part: str(part)[:30])
def test_hashes_are_those_of_the_specification(type_, value, expected):
    storage = pa.array([None, physical_value(type_, value), None], _storage(type_)).cast(type_)
    assert hash_column(storage)[1] == expected
    assert hash_column(storage.slice(1))[0] == expected


def _storage(type_):
    if isinstance(type_, pa.UuidType):
        return pa.binary(16)
    if pa.types.is_date32(type_):
        return pa.int32()
    return pa.int64() if pa.types.is_temporal(type_) else type_


def plain_hash(type_, value):
    """The slow twin: one value at a time through the mmh3 package."""
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        value //= 1000
    if isinstance(value, int):
        return mmh3.hash(struct.pack("<q", value))
    return mmh3.hash(encode_value(type_, value))


INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): INT64,
    pa.date32(): st.integers(-(2**31), 2**31 - 1),
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.timestamp("us"): INT64,
    pa.timestamp("us", "UTC"): INT64,
    pa.timestamp("ns"): INT64,
    pa.decimal128(12, 2): st.integers(-(10**9), 10**9).map(lambda n: Decimal(n).scaleb(-2)),
    pa.decimal128(38, 10): st.integers(-(10**26), 10**26).map(lambda n: Decimal(n).scaleb(-10)),
    pa.string(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=20),
    pa.binary(7): st.binary(min_size=7, max_size=7),
    pa.uuid(): st.binary(min_size=16, max_size=16),
}


def columns(type_):
    values = st.lists(st.one_of(st.none(), VALUES[type_]), max_size=12)
    return values.map(lambda items: pa.array(items, _storage(type_)).cast(type_))


BUCKETABLE = list(VALUES)
TRUNCATABLE = [pa.int32(), pa.int64(), pa.decimal128(12, 2), pa.decimal128(38, 10), pa.string(), pa.binary()]
DATED = [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")]


@pytest.mark.parametrize("type_", BUCKETABLE, ids=str)
@few
@given(data=st.data())
def test_buckets_follow_the_hash_of_each_value(type_, data):
    column = data.draw(columns(type_))
    buckets = data.draw(st.sampled_from([1, 2, 16, 1000, 2**31 - 1]))
    start = data.draw(st.integers(0, len(column)))
    expected = [
        None if value is None else (plain_hash(type_, value) & 0x7FFFFFFF) % buckets for value in physical(column)
    ]
    result = apply(BucketTransform(buckets), column.slice(start))
    assert result.type == pa.int32()
    assert result.to_pylist() == expected[start:]


def plain_truncate(type_, value, width):
    if value is None:
        return None
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(type_.scale))
        return Decimal(unscaled - unscaled % width).scaleb(-type_.scale)
    return value[:width] if isinstance(value, str | bytes) else value - value % width


def wrapped(type_, values):
    half = 2 ** (type_.bit_width - 1)
    return [value if value is None else (value + half) % (2 * half) - half for value in values]


@pytest.mark.parametrize("type_", TRUNCATABLE, ids=str)
@few
@given(data=st.data())
def test_truncation_rounds_down_and_keeps_code_points(type_, data):
    column = data.draw(columns(type_))
    width = data.draw(st.sampled_from([1, 2, 3, 10, 1000, 2**31 - 1]))
    expected = [plain_truncate(type_, value, width) for value in physical(column)]
    start = data.draw(st.integers(0, len(column)))
    result = apply(TruncateTransform(width), column.slice(start))
    assert result.type == type_
    if pa.types.is_integer(type_):  # below the least number Java's arithmetic wraps, and so does ours
        bits = type_.bit_width
        expected = [
            value if value is None else (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for value in expected
        ]
    assert result.to_pylist() == expected[start:]


@pytest.mark.parametrize("type_", DATED, ids=str)
@pytest.mark.parametrize("transform", [YearTransform(), MonthTransform(), DayTransform(), HourTransform()], ids=str)
@few
@given(data=st.data())
def test_parts_of_time_round_down_before_1970_too(type_, transform, data):
    if isinstance(transform, HourTransform) and pa.types.is_date32(type_):
        with pytest.raises(SchemaError, match="hour does not apply to a column of type date32"):
            apply(transform, pa.array([], type_))
        return
    moments = data.draw(st.lists(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)), max_size=12))
    units = {"us": 1, "ns": 1000}
    since = [
        (moment - dt.datetime(1970, 1, 1)) // MICROSECONDS * units[type_.unit]
        if pa.types.is_timestamp(type_)
        else (moment.date() - dt.date(1970, 1, 1)).days
        for moment in moments
    ]
    expected = {
        "year": [moment.year - 1970 for moment in moments],
        "month": [(moment.year - 1970) * 12 + moment.month - 1 for moment in moments],
        "day": [(moment.date() - dt.date(1970, 1, 1)).days for moment in moments],
        "hour": [(moment - dt.datetime(1970, 1, 1)) // dt.timedelta(hours=1) for moment in moments],
    }[str(transform)]
    column = pa.array([None, *since], _storage(type_)).cast(type_)
    result = apply(transform, column)
    assert result.type == (pa.date32() if str(transform) == "day" else pa.int32())
    assert physical(result) == [None, *expected]
    assert physical(apply(transform, column.slice(1))) == expected


PEERS = [
    *[(BucketTransform(16), type_) for type_ in BUCKETABLE],
    *[(TruncateTransform(10), type_) for type_ in TRUNCATABLE],
    *[(transform, type_) for transform in (YearTransform(), MonthTransform(), DayTransform()) for type_ in DATED],
    *[(HourTransform(), type_) for type_ in DATED[1:]],
    *[(IdentityTransform(), type_) for type_ in BUCKETABLE],
]


@pytest.mark.parametrize(("transform", "type_"), PEERS, ids=str)
@few
@given(data=st.data())
def test_pyiceberg_gives_the_same(transform, type_, data):
    column = data.draw(columns(type_))
    values = physical(column)
    if isinstance(transform, DayTransform | MonthTransform | YearTransform | HourTransform):
        # beyond Python's years PyIceberg fails
        values = [value % 2**40 if value is not None else None for value in values]
        values = [value % 10**6 if value is not None and pa.types.is_date32(type_) else value for value in values]
        column = pa.array(values, _storage(type_)).cast(type_)
    peer = peer_transform(transform).transform(peer_type(to_iceberg_type(type_, format_version=3)))
    expected = [None if value is None else peer(value) for value in values]
    if isinstance(transform, TruncateTransform) and pa.types.is_integer(type_):
        bits = type_.bit_width
        expected = [
            value if value is None else (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for value in expected
        ]
    assert physical(apply(transform, column)) == expected


def test_dictionaries_chunks_and_void():
    column = pa.array(["iceberg", None, "puffin", "iceberg"])
    expected = apply(BucketTransform(100), column).to_pylist()
    assert apply(BucketTransform(100), column.dictionary_encode()).to_pylist() == expected
    chunked = pa.chunked_array([column.dictionary_encode(), column.slice(0, 1).dictionary_encode()])
    assert apply(BucketTransform(100), chunked).to_pylist() == [*expected, expected[0]]
    assert apply(BucketTransform(100), pa.chunked_array([], pa.string())).type == pa.int32()
    assert apply(VoidTransform(), column).to_pylist() == [None] * 4
    assert apply(VoidTransform(), column).type == pa.string()
    assert apply(IdentityTransform(), column) is column


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_at_the_ends_of_their_type(unit):
    per_day = 86_400 * (10**6 if unit == "us" else 10**9)
    numbers = [-(2**63), -(2**63) + 1, -1, 0, 2**63 - 1]
    column = pa.array(numbers, pa.int64()).cast(pa.timestamp(unit))
    days = [number // per_day for number in numbers]
    assert physical(apply(DayTransform(), column)) == days
    calendar = [np.datetime64(day, "D") for day in days]
    assert physical(apply(MonthTransform(), column)) == [int(day.astype("M8[M]").astype("i8")) for day in calendar]
    assert physical(apply(YearTransform(), column)) == [int(day.astype("M8[Y]").astype("i8")) for day in calendar]
    low, high = hour_limits(column.type)
    ends = pa.array([low, None, high], pa.int64()).cast(column.type)
    hours = [number // (per_day // 24) for number in (low, high)]
    assert physical(apply(HourTransform(), ends)) == [hours[0], None, hours[1]]
    if unit == "us":
        assert hours == [-(2**31), 2**31 - 1]
        for beyond in (low - 1, high + 1):
            with pytest.raises(SchemaError, match=r"hour\(\) of a timestamp .* does not fit 32 bits"):
                apply(HourTransform(), pa.array([0, beyond], pa.int64()).cast(column.type))


def test_a_decimal_that_truncation_makes_longer_is_refused():
    column = pa.array([Decimal("-9.91"), Decimal("9.99")], pa.decimal128(3, 2))
    assert apply(TruncateTransform(3), column).to_pylist() == [Decimal("-9.93"), Decimal("9.99")]
    with pytest.raises(SchemaError, match=r"truncate\[50\] overflows decimal128\(3, 2\)"):
        apply(TruncateTransform(50), column)


REFUSED = [
    (BucketTransform(4), pa.float64()),
    (BucketTransform(4), pa.bool_()),
    (TruncateTransform(4), pa.date32()),
    (TruncateTransform(4), pa.binary(4)),
    (TruncateTransform(4), pa.uuid()),
    (YearTransform(), pa.int32()),
    (DayTransform(), pa.time64("us")),
    (HourTransform(), pa.date32()),
    (IdentityTransform(), pa.list_(pa.int32())),
    (VoidTransform(), pa.struct([("a", pa.int32())])),
]


@pytest.mark.parametrize(("transform", "type_"), REFUSED, ids=str)
def test_a_transform_that_does_not_apply_is_named(transform, type_):
    with pytest.raises(SchemaError, match="does not apply to a column of type") as error:
        apply(transform, pa.array([], type_))
    assert str(transform) in str(error.value)


def test_unknown_transforms_are_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"partition transform zorder\[3\] is not supported"):
        result_type(UnknownTransform("zorder[3]"), pa.int32())


PARSED = [
    ("ts", "ts", IdentityTransform()),
    (' "a ""b"" c" ', 'a "b" c', IdentityTransform()),
    ("s.x", "s.x", IdentityTransform()),
    ("identity(a)", "a", IdentityTransform()),
    ("DAY( ts )", "ts", DayTransform()),
    ("days(ts)", "ts", DayTransform()),
    ("months(ts)", "ts", MonthTransform()),
    ("year(ts)", "ts", YearTransform()),
    ("hours(ts)", "ts", HourTransform()),
    ("bucket(16, id)", "id", BucketTransform(16)),
    ("bucket(id,16)", "id", BucketTransform(16)),
    ('truncate(3, "16")', "16", TruncateTransform(3)),
    ("void(x)", "x", VoidTransform()),
]


@pytest.mark.parametrize(("text", "column", "transform"), PARSED, ids=str)
def test_transforms_are_read_as_people_write_them(text, column, transform):
    assert parse_transform(text) == (column, transform)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dya(ts)", "there is no partition transform 'dya'; did you mean 'day'"),
        ("day(ts, 3)", "day takes exactly one column"),
        ("bucket(id)", "bucket takes a positive number and a column"),
        ("bucket(0, id)", "bucket takes a positive number"),
        ("truncate(2147483648, s)", "truncate takes a positive number"),
        ("bucket(a, b)", "bucket takes a positive number"),
        ("day(ts", "is not a partition transform"),
        ("", "is not a partition transform"),
        ("a b", "is not a partition transform"),
    ],
    ids=str,
)
def test_text_that_is_no_transform_is_refused(text, message):
    with pytest.raises(SchemaError, match=message):
        parse_transform(text)
