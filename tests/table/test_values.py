"""Single-value serialisation: one table of (type, value, bytes) for both directions and both readers."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import FormatError, SchemaError
from skerry.table.rows.values import decode_value, decode_values, encode_value, physical_value

UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")

# Iceberg, Appendix D
VALUES = [
    (pa.bool_(), False, b"\x00"),
    (pa.bool_(), True, b"\x01"),
    (pa.int32(), 34, b"\x22\0\0\0"),
    (pa.int32(), -(2**31), b"\0\0\0\x80"),
    (pa.int8(), -1, b"\xff\xff\xff\xff"),
    (pa.uint16(), 65535, b"\xff\xff\0\0"),
    (pa.int64(), -2, b"\xfe" + b"\xff" * 7),
    (pa.uint32(), 2**32 - 1, b"\xff\xff\xff\xff\0\0\0\0"),
    (pa.float32(), 1.5, struct.pack("<f", 1.5)),
    (pa.float64(), -0.0, struct.pack("<d", -0.0)),
    (pa.date32(), 17486, struct.pack("<i", 17486)),
    (pa.time64("us"), 81068000000, struct.pack("<q", 81068000000)),
    (pa.timestamp("us"), -1, b"\xff" * 8),
    (pa.timestamp("us", "UTC"), 1510871468000000, struct.pack("<q", 1510871468000000)),
    (pa.timestamp("ns"), 1510871468000001001, struct.pack("<q", 1510871468000001001)),
    (pa.timestamp("ns", "UTC"), 5, struct.pack("<q", 5)),
    (pa.string(), "iceberg", b"iceberg"),
    (pa.string(), "", b""),
    (pa.large_string(), "å𝄞", "å𝄞".encode()),
    (pa.string_view(), "x", b"x"),
    (pa.binary(), b"\0\1", b"\0\1"),
    (pa.large_binary(), b"", b""),
    (pa.binary_view(), b"ab", b"ab"),
    (pa.binary(4), b"\0\1\2\3", b"\0\1\2\3"),
    (pa.uuid(), UUID.bytes, bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
    (pa.decimal128(4, 2), Decimal("14.20"), b"\x05\x8c"),
    (pa.decimal128(4, 2), Decimal("0.00"), b"\x00"),
    (pa.decimal128(4, 2), Decimal("1.27"), b"\x7f"),
    (pa.decimal128(4, 2), Decimal("1.28"), b"\x00\x80"),
    (pa.decimal128(4, 2), Decimal("-1.28"), b"\x80"),
    (pa.decimal128(4, 2), Decimal("-1.29"), b"\xff\x7f"),
    (pa.decimal128(38, 0), Decimal(10**38 - 1), (10**38 - 1).to_bytes(16, "big")),
    (
        pa.decimal128(38, 37),
        Decimal("-9.9999999999999999999999999999999999999"),
        (1 - 10**38).to_bytes(16, "big", signed=True),
    ),
]


@pytest.mark.parametrize(("type_", "value", "data"), VALUES, ids=lambda part: str(part)[:24])
def test_both_directions(type_, value, data):
    assert encode_value(type_, value) == data
    again = decode_value(type_, data)
    assert again == value
    assert type(again) is type(value)
    column = decode_values(type_, pa.array([None, data, data], pa.binary()))
    assert column.type == type_
    assert [physical_value(type_, item) for item in column] == [None, value, value]


def test_nan_and_minus_zero_keep_their_bits():
    assert math.isnan(decode_value(pa.float64(), encode_value(pa.float64(), math.nan)))
    assert math.copysign(1, decode_value(pa.float32(), encode_value(pa.float32(), -0.0))) == -1


# Iceberg, Schema Evolution: bounds written before a promotion keep their length
@pytest.mark.parametrize(
    ("type_", "data", "value"),
    [
        (pa.int64(), struct.pack("<i", -7), -7),
        (pa.float64(), struct.pack("<f", 0.1), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (pa.timestamp("us"), struct.pack("<i", -1), -86_400_000_000),
        (pa.timestamp("ns"), struct.pack("<i", 2), 2 * 86_400_000_000_000),
    ],
    ids=str,
)
def test_values_of_the_type_before_its_promotion(type_, data, value):
    wide = encode_value(type_, value)
    assert decode_value(type_, data) == value
    assert [physical_value(type_, item) for item in decode_values(type_, pa.array([data, wide, None]))] == [
        value,
        value,
        None,
    ]


@pytest.mark.parametrize(
    ("type_", "natural", "physical"),
    [
        (pa.date32(), dt.date(1969, 12, 31), -1),
        (pa.time64("us"), dt.time(0, 0, 1, 5), 1_000_005),
        (pa.timestamp("us"), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), -1),
        (pa.timestamp("ns"), dt.datetime(1970, 1, 1, 0, 0, 0, 2), 2000),
        (pa.timestamp("ns"), np.datetime64(7, "ns"), 7),
        (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0),
        (pa.timestamp("us", "UTC"), pa.scalar(5, pa.timestamp("us", "UTC")), 5),
        (pa.timestamp("ns"), pa.scalar(1001, pa.timestamp("ns")), 1001),
        (pa.time64("us"), pa.scalar(1000, pa.time64("ns")), 1),
        (pa.time64("us"), pa.scalar(3, pa.time32("ms")), 3000),
        (pa.timestamp("us"), pa.scalar(-(2**63), pa.timestamp("us")), -(2**63)),
        (pa.timestamp("us"), pa.scalar(-3, pa.timestamp("s")), -3_000_000),
        (pa.date32(), pa.scalar(2**31 - 1, pa.date32()), 2**31 - 1),
        (pa.date32(), pa.scalar(86_400_000, pa.date64()), 1),
        (pa.uuid(), UUID, UUID.bytes),
        (pa.uuid(), str(UUID), UUID.bytes),
        (pa.uuid(), pa.array([UUID.bytes], pa.uuid())[0], UUID.bytes),
        (pa.int32(), np.int16(3), 3),
        (pa.float32(), 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (pa.decimal128(5, 2), 3, Decimal("3.00")),
        (pa.decimal128(5, 2), Decimal("1.5"), Decimal("1.50")),
        (pa.binary(), bytearray(b"x"), b"x"),
        (pa.bool_(), np.bool_(True), True),
        (pa.int32(), None, None),
        (pa.int32(), pa.scalar(None, pa.int32()), None),
    ],
    ids=lambda part: str(part) if isinstance(part, pa.DataType) else "",
)
def test_natural_values_become_physical(type_, natural, physical):
    result = physical_value(type_, natural)
    assert result == physical
    assert type(result) is type(physical)


def test_a_pandas_timestamp_keeps_its_nanoseconds():
    pandas = pytest.importorskip("pandas")
    assert physical_value(pa.timestamp("ns"), pandas.Timestamp(1001)) == 1001
    with pytest.raises(SchemaError, match="finer than the type's unit"):
        physical_value(pa.timestamp("us"), pandas.Timestamp(1001))


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        (pa.int32(), 2**31, "outside"),
        (pa.int8(), 128, "outside"),
        (pa.int32(), True, "does not fit"),
        (pa.int32(), 1.0, "does not fit"),
        (pa.int64(), "1", "does not fit"),
        (pa.date32(), dt.datetime(2020, 1, 1), "does not fit"),
        (pa.int32(), dt.date(2020, 1, 1), "does not fit"),
        (pa.bool_(), 1, "does not fit"),
        (pa.float32(), 1e300, "does not fit"),
        (pa.decimal128(4, 2), Decimal("1.005"), "does not fit"),
        (pa.decimal128(4, 2), Decimal("123.45"), "more than 4 digits"),
        (pa.decimal128(4, 2), Decimal("NaN"), "not finite"),
        (pa.decimal128(4, 2), 1.5, "does not fit"),
        (pa.timestamp("us"), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "has none"),
        (pa.timestamp("us", "UTC"), dt.datetime(2020, 1, 1), "missing"),
        (pa.timestamp("us"), np.datetime64(1, "ns"), "finer"),
        (pa.time64("us"), pa.scalar(1, pa.time64("ns")), "finer than the type's unit"),
        (pa.timestamp("us"), pa.scalar(1, pa.timestamp("ns")), "finer than the type's unit"),
        (pa.timestamp("us"), pa.scalar(1, pa.timestamp("us", "UTC")), "has none"),
        (pa.date32(), pa.scalar(0, pa.timestamp("us")), "does not fit"),
        (pa.timestamp("ns"), pa.scalar(2**62, pa.timestamp("s")), "does not fit"),
        (pa.time64("us"), 86_400_000_000, "outside"),
        (pa.binary(4), b"abc", "expected 4 bytes, found 3"),
        (pa.uuid(), "not a uuid", "does not fit"),
        (pa.string(), b"x", "does not fit"),
        (pa.binary(), "x", "does not fit"),
        (pa.list_(pa.int32()), [1], "no single-value serialisation"),
        (pa.uint64(), 1, "no single-value serialisation"),
    ],
    ids=lambda part: str(part) if isinstance(part, pa.DataType) else "",
)
def test_values_that_do_not_fit_are_refused(type_, value, message):
    with pytest.raises(SchemaError, match=message):
        encode_value(type_, value)


def test_a_null_has_no_bytes():
    with pytest.raises(SchemaError, match="null of type int32"):
        encode_value(pa.int32(), None)


@pytest.mark.parametrize(
    ("type_", "data", "message"),
    [
        (pa.bool_(), b"", "takes 1 bytes, found 0"),
        (pa.int32(), b"\0" * 8, "takes 4 bytes, found 8"),
        (pa.int64(), b"\0" * 5, "takes 4 or 8 bytes, found 5"),
        (pa.float32(), b"\0" * 8, "takes 4 bytes"),
        (pa.float64(), b"", "takes 4 or 8 bytes"),
        (pa.date32(), b"\0", "takes 4 bytes"),
        (pa.time64("us"), b"\0" * 4, "takes 8 bytes"),
        (pa.timestamp("us", "UTC"), b"\0" * 4, "takes 8 bytes"),
        (pa.binary(4), b"\0" * 3, "takes 4 bytes"),
        (pa.uuid(), b"\0" * 17, "takes 16 bytes"),
        (pa.decimal128(4, 2), b"", "takes 1 to 16 bytes, found 0"),
        (pa.decimal128(4, 2), b"\0" * 17, "takes 1 to 16 bytes, found 17"),
        (pa.string(), b"\xff", "not UTF-8"),
    ],
    ids=str,
)
def test_impossible_bytes_are_format_errors(type_, data, message):
    with pytest.raises(FormatError, match=message):
        decode_value(type_, data)
    with pytest.raises(FormatError, match="not UTF-8" if "UTF" in message else "in row 1 takes"):
        decode_values(type_, pa.array([None, data], pa.binary()))


def test_a_decimal_beyond_its_precision_is_a_format_error():
    with pytest.raises(FormatError, match="more digits"):
        decode_value(pa.decimal128(4, 2), (12345).to_bytes(2, "big"))
    with pytest.raises(FormatError, match="outside the range"):
        decode_values(pa.decimal128(4, 2), pa.array([(12345).to_bytes(2, "big")]))


@pytest.mark.parametrize(
    "type_", [pa.int32(), pa.string(), pa.decimal128(9, 2), pa.bool_(), pa.uuid(), pa.int8()], ids=str
)
def test_columns_without_values(type_):
    assert decode_values(type_, pa.array([], pa.binary())).type == type_
    assert decode_values(type_, pa.array([None, None], pa.binary())).to_pylist() == [None, None]


def test_slices_and_chunks_are_read_where_they_stand():
    values = [encode_value(pa.int64(), n) for n in range(10)]
    column = pa.array(values, pa.binary()).slice(3, 4)
    assert decode_values(pa.int64(), column).to_pylist() == [3, 4, 5, 6]
    assert decode_values(pa.int64(), pa.chunked_array([column, column])).to_pylist() == [3, 4, 5, 6] * 2
    assert decode_values(pa.int64(), pa.array(values, pa.binary_view())).to_pylist() == list(range(10))


@given(st.lists(st.one_of(st.none(), st.decimals(-(10**8), 10**8, places=3)), max_size=20))
def test_every_decimal_column_reads_as_its_values(values):
    type_ = pa.decimal128(12, 3)
    data = pa.array([None if value is None else encode_value(type_, value) for value in values], pa.binary())
    assert decode_values(type_, data).to_pylist() == values


@given(st.integers(-(2**127), 2**127 - 1))
def test_decimals_take_the_fewest_bytes(unscaled):
    data = encode_value(pa.decimal256(39, 0), unscaled)
    assert int.from_bytes(data, "big", signed=True) == unscaled
    assert len(data) == 1 or not -(2 ** (8 * (len(data) - 1) - 1)) <= unscaled < 2 ** (8 * (len(data) - 1) - 1)
