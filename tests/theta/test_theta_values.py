"""Which bytes of a value are hashed, for every type of Arrow, Iceberg and NumPy, in arrays of any shape."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_theta import alpha
from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    UUIDType,
)

from skerry.errors import FormatError, SchemaError
from skerry.theta import Sample, ThetaSketch
from skerry.theta.hashing import hash_bytes

INTS = [0, 1, -1, 42, 127, -128]
DAY, MIDNIGHT = dt.date(2024, 2, 29), dt.time(0, 0)
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999000)
DECIMALS = [Decimal(text) for text in ("0.00", "-1.28", "1.27", "1.28", "-327.69", "99999999.99")]
WIDE = [
    *DECIMALS,
    Decimal("-9" * 1 + "9" * 35 + ".99"),
    Decimal("92233720368547758.08"),
    Decimal("-184467440737095516.17"),
]
STRINGS = ["a", "", "sixteen bytes ok", "grüße, 世界", "x" * 100, "b"]


def microseconds(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


def since_midnight(time: dt.time) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 10**6 + time.microsecond


def days(date: dt.date) -> int:
    return (date - dt.date(1970, 1, 1)).days


# (values, Arrow type, Iceberg's type, value -> what PyIceberg serialises)
CASES: list[tuple[list[Any], pa.DataType, Any, Any]] = [
    ([True, False, True], pa.bool_(), BooleanType(), bool),
    ([True, True], pa.bool_(), BooleanType(), bool),
    (INTS, pa.int8(), IntegerType(), int),
    (INTS, pa.int16(), IntegerType(), int),
    ([*INTS, -(1 << 31), (1 << 31) - 1], pa.int32(), IntegerType(), int),
    ([*INTS, -(1 << 63), (1 << 63) - 1], pa.int64(), LongType(), int),
    ([0, 1, 255], pa.uint8(), IntegerType(), int),
    ([0, 1, 65535], pa.uint16(), IntegerType(), int),
    ([0, 1, (1 << 32) - 1], pa.uint32(), LongType(), int),
    ([0.0, -0.0, 1.5, float("inf"), -float("inf")], pa.float16(), FloatType(), float),
    ([0.0, -0.0, 1.5, 1e-40, float("inf")], pa.float32(), FloatType(), float),
    ([0.0, -0.0, 1.5, 5e-324, -float("inf")], pa.float64(), DoubleType(), float),
    (DECIMALS[:5], pa.decimal32(9, 2), DecimalType(9, 2), Decimal),
    (DECIMALS, pa.decimal64(10, 2), DecimalType(10, 2), Decimal),
    (DECIMALS, pa.decimal128(10, 2), DecimalType(10, 2), Decimal),
    (WIDE, pa.decimal128(38, 2), DecimalType(38, 2), Decimal),
    (WIDE, pa.decimal256(38, 2), DecimalType(38, 2), Decimal),
    ([DAY, dt.date(1, 1, 1)], pa.date32(), DateType(), days),
    ([DAY, dt.date(1969, 1, 1)], pa.date64(), DateType(), days),
    (
        [MIDNIGHT, dt.time(23, 59, 59)],
        pa.time32("s"),
        TimeType(),
        lambda t: (t.hour * 3600 + t.minute * 60 + t.second) * 10**6,
    ),
    ([MIDNIGHT, dt.time(0, 0, 1)], pa.time32("ms"), TimeType(), since_midnight),
    ([MIDNIGHT, dt.time(0, 0, 1, 5)], pa.time64("us"), TimeType(), since_midnight),
    ([MIDNIGHT, dt.time(0, 0, 1, 5)], pa.time64("ns"), TimeType(), since_midnight),
    ([MOMENT.replace(microsecond=0)], pa.timestamp("s"), TimestampType(), microseconds),
    ([MOMENT], pa.timestamp("ms"), TimestampType(), microseconds),
    ([MOMENT, dt.datetime(2262, 1, 1)], pa.timestamp("us"), TimestampType(), microseconds),
    ([MOMENT], pa.timestamp("us", "Europe/Berlin"), TimestampType(), microseconds),
    ([MOMENT], pa.timestamp("ns"), LongType(), lambda moment: microseconds(moment) * 1000),
    (STRINGS, pa.string(), StringType(), str),
    (STRINGS, pa.large_string(), StringType(), str),
    (STRINGS, pa.string_view(), StringType(), str),
    ([b"\x00", b"\xff" * 17], pa.binary(), BinaryType(), bytes),
    ([b"\x00", b"\xff" * 17], pa.large_binary(), BinaryType(), bytes),
    ([b"\x00", b"\xff" * 17], pa.binary_view(), BinaryType(), bytes),
    ([b"abc", b"\x00\x00\x00"], pa.binary(3), FixedType(3), bytes),
    ([uuid.UUID(int=1).bytes, uuid.UUID(int=1 << 127).bytes], pa.binary(16), UUIDType(), lambda b: uuid.UUID(bytes=b)),
    ([uuid.UUID(int=1).bytes, uuid.UUID(int=7).bytes], pa.uuid(), UUIDType(), lambda b: uuid.UUID(bytes=b)),
]


every_type = pytest.mark.parametrize(
    ("values", "data_type", "iceberg_type", "convert"), CASES, ids=[str(case[1]) for case in CASES]
)
INDEX_TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]
STRING_TYPES = [pa.string(), pa.large_string(), pa.string_view()]


def column(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, pa.array(values, data_type.storage_type))
    if pa.types.is_float16(data_type):
        return pa.array([None if value is None else np.float16(value) for value in values], data_type)
    return pa.array(values, data_type)


def hashes_of(values: list[bytes]) -> list[int]:
    return sorted({hash_bytes(value) for value in values if value})


@every_type
def test_value_is_hashed_as_iceberg_serialises_it(
    values: list[Any], data_type: pa.DataType, iceberg_type: Any, convert: Any
):
    expected = hashes_of([to_bytes(iceberg_type, convert(value)) for value in values])
    array = column(values, data_type)
    assert Sample().update(array).hashes.tolist() == expected
    with_nulls = column([None, *[part for value in values for part in (value, None)], values[0]], data_type)
    assert Sample().update(with_nulls).hashes.tolist() == expected
    sliced = column([None, values[0], *values, None], data_type).slice(2, len(values))
    assert Sample().update(sliced).hashes.tolist() == expected
    chunked = pa.chunked_array([array.slice(0, 1), array.slice(1), with_nulls.slice(3, 0)], array.type)
    assert Sample().update(chunked).hashes.tolist() == expected


@every_type
def test_column_of_nulls_alone_has_no_values(
    values: list[Any], data_type: pa.DataType, iceberg_type: Any, convert: Any
):
    array = column([None, None], data_type)
    assert ThetaSketch().update(array).is_empty
    assert ThetaSketch().update(array.slice(0, 0)).is_empty


def test_null_type_has_no_values():
    assert Sample().update(pa.nulls(3)).is_empty


def test_empty_strings_do_not_count_as_in_java():
    """`UpdateSketch.update(ByteBuffer)` ignores a buffer without bytes, so Iceberg's sketches do not count them."""
    for data_type in (pa.string(), pa.large_binary(), pa.string_view(), pa.binary(0)):
        empty = "" if data_type in (pa.string(), pa.string_view()) else b""
        sketch = ThetaSketch().update(pa.array([empty, None, empty], data_type))
        assert sketch.is_empty
        assert sketch.estimate() == 0


@pytest.mark.parametrize(
    ("data_type", "word", "canonical"),
    [
        (np.float32, np.uint32, np.array([0x7FC00000], np.uint32).tobytes()),
        (np.float64, np.uint64, np.array([0x7FF8 << 48], np.uint64).tobytes()),
    ],
)
def test_every_nan_is_one_value(data_type: type, word: type, canonical: bytes):
    exponent = 0x7F800000 if word is np.uint32 else 0x7FF << 52
    sign = 1 << (31 if word is np.uint32 else 63)
    nans = np.array([exponent | 1, exponent | 0x1234, exponent | sign | 7], word).view(data_type)
    assert np.isnan(nans).all()
    assert Sample().update(nans).hashes.tolist() == [hash_bytes(canonical)]
    infinities = np.array([exponent, exponent | sign], word).view(data_type)
    assert len(Sample().update(infinities).hashes) == 2


def test_minus_zero_is_another_value_as_in_iceberg_java():
    assert len(Sample().update(np.array([0.0, -0.0])).hashes) == 2


@pytest.mark.parametrize("index_type", INDEX_TYPES)
@pytest.mark.parametrize("values", [pa.array(["used", "unused", "", None, "also used"]), pa.array([7, 8, 9, None, 11])])
def test_dictionary_counts_used_values_alone(index_type: pa.DataType, values: pa.Array):
    indices = pa.array([0, None, 4, 0, 3, 2, 4] * 300, index_type)
    encoded = pa.DictionaryArray.from_arrays(indices, values)
    expected = Sample().update(encoded.cast(values.type)).serialize()
    assert Sample().update(encoded).serialize() == expected
    assert Sample().update(encoded.slice(1)).update(encoded.slice(0, 1)).serialize() == expected
    assert Sample().update(pa.chunked_array([encoded, encoded.slice(3, 2)])).serialize() == expected


def test_dictionary_is_hashed_in_the_order_of_first_use():
    """Order matters to the Alpha rule: the same bytes as of the plain column show that it was kept."""
    numbers = np.random.default_rng(5).integers(0, 2000, 20_000)
    plain = pa.array(numbers)
    shuffled = pa.array(np.random.default_rng(6).permutation(2000))
    place = np.argsort(shuffled.to_numpy())
    encoded = pa.DictionaryArray.from_arrays(pa.array(place[numbers], pa.int32()), shuffled)
    assert ThetaSketch(lg_k=9).update(encoded).serialize() == ThetaSketch(lg_k=9).update(plain).serialize()


@pytest.mark.parametrize("index", [-1, 3, 100])
def test_index_outside_the_dictionary(index: int):
    indices = pa.array([0] * 2000 + [index], pa.int8())
    encoded = pa.DictionaryArray.from_buffers(
        pa.dictionary(pa.int8(), pa.string()), len(indices), indices.buffers(), pa.array(["a", "b", "c"])
    )
    with pytest.raises(FormatError, match="an index is outside of the dictionary of 3 values"):
        Sample().update(encoded)


def test_run_end_encoded_counts_every_run():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5, 9], pa.int32()), pa.array([1, None, 3]))
    assert Sample().update(runs).hashes.tolist() == hashes_of([(1).to_bytes(8, "little"), (3).to_bytes(8, "little")])
    assert Sample().update(runs.slice(5)).hashes.tolist() == hashes_of([(3).to_bytes(8, "little")])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([[1]], pa.list_(pa.int32())), "nested type list<.*: int32>"),
        (pa.array([{"a": 1}]), "nested type struct<a: int64>"),
        (pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), "nested type map<int8, int8"),
        (pa.array([None], pa.list_(pa.int32())), "nested type list<.*: int32>"),
        (pa.array([1], pa.duration("us")), r"Arrow type duration\[us\]"),
        (pa.nulls(2, pa.duration("us")), r"Arrow type duration\[us\]"),
        (pa.array([1], pa.uint64()), "Arrow type uint64"),
        (pa.array([Decimal(1)], pa.decimal256(40, 0)), r"at most 38 digits: values of decimal256\(40, 0\)"),
        (pa.array([1500], pa.time64("ns")), r"type time64\[ns\] does not fit time64\[us\]"),
        (pa.array([1 << 60], pa.timestamp("s")), r"type timestamp\[s\] does not fit timestamp\[us\]"),
        (np.zeros((2, 2)), "one dimension, the array has 2"),
        (np.array([1 + 2j]), "no Arrow column"),
        ([object()], "no Arrow column"),
        (5, "no Arrow column can be made of int"),
        ("abc", r"values must be a column, found 'abc'; write \['abc'\]"),
        (b"abc", r"values must be a column, found b'abc'; write \[b'abc'\]"),
    ],
)
def test_what_is_not_sketched_is_named(array: Any, message: str):
    with pytest.raises(SchemaError, match=message):
        Sample().update(array)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(10, dtype=np.int32)[::2],
        np.arange(10, dtype=">i8"),
        np.array(["2024-01-01", "NaT"], "datetime64[us]"),
        np.array([1.5, np.nan], np.float32),
        np.array([True, False]),
        np.array(["a", "b"]),
        pl.Series(["a", None, "a string of more than twelve bytes"]),
        pl.Series([1, 2, None]),
        [1, 2, None],
        range(3),
    ],
    ids=str,
)
def test_anything_that_holds_a_column(values: Any):
    as_arrow = pa.array(values.tolist() if isinstance(values, np.ndarray) and values.dtype == ">i8" else list(values))
    if isinstance(values, np.ndarray) and values.dtype.kind in "Mfi" and values.dtype.byteorder != ">":
        as_arrow = pa.array(values)
    assert Sample().update(values).serialize() == Sample().update(as_arrow).serialize()


def test_values_without_an_arrow_array():
    """What readers of pages feed: raw numbers, rows of bytes, and starts and lengths in a buffer."""
    numbers = np.array([5, -3, 5, 1 << 40])
    assert Sample().update_fixed(numbers).serialize() == Sample().update(numbers).serialize()
    assert Sample().update_fixed(numbers.astype(">i8")).serialize() == Sample().update(numbers).serialize()
    shorts = numbers.astype(np.int32)
    assert Sample().update_fixed(shorts).serialize() == Sample().update(shorts).serialize()
    for dtype in (np.float32, np.float64):
        floats = np.array([1.0, np.nan, -0.0], dtype)
        assert Sample().update_fixed(floats).serialize() == Sample().update(floats).serialize()
    rows = np.frombuffer(b"abcdefabc", np.uint8).reshape(3, 3)
    assert Sample().update_fixed(rows).hashes.tolist() == hashes_of([b"abc", b"def"])
    data = np.frombuffer(b"..one.three..", np.uint8)
    sample = Sample().update_binary(data, np.array([2, 6, 0, 13]), np.array([3, 5, 0, 0], np.int32))
    assert sample.hashes.tolist() == hashes_of([b"one", b"three"])


@pytest.mark.parametrize("unscaled", [[0, 1, -1, 127, 128, -129], [-(1 << 31), (1 << 31) - 1]])
def test_unscaled_decimals(unscaled: list[int]):
    expected = Sample().update(pa.array([Decimal(number) for number in unscaled], pa.decimal128(38, 0))).serialize()
    for dtype in (np.int32, np.int64, ">i4"):
        assert Sample().update_decimal(np.array(unscaled, dtype)).serialize() == expected
    for width in (4, 5, 9, 16):
        rows = np.frombuffer(b"".join(number.to_bytes(width, "big", signed=True) for number in unscaled), np.uint8)
        assert Sample().update_decimal(rows.reshape(-1, width)).serialize() == expected


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (lambda sample: sample.update_fixed(np.zeros(2, np.int16)), r"4 or 8 bytes, these are int16\[1d\]"),
        (lambda sample: sample.update_fixed(np.zeros((2, 2), np.int32)), r"these are int32\[2d\]"),
        (lambda sample: sample.update_fixed(np.zeros(2, "M8[us]")), r"these are datetime64\[us\]\[1d\]"),
        (lambda sample: sample.update_decimal(np.zeros(2, np.float64)), r"not float64\[1d\]"),
        (lambda sample: sample.update_decimal(np.zeros((2, 17), np.uint8)), r"not uint8\[2d\]"),
    ],
)
def test_raw_values_of_another_shape(feed: Any, message: str):
    with pytest.raises(SchemaError, match=message):
        feed(Sample())


@pytest.mark.parametrize(
    ("starts", "lengths"),
    [([0, 9], [1, 2]), ([0, -1], [1, 1]), ([0, 0], [1, -1]), ([11, 0], [1, 1]), ([0, 1 << 62], [1, 1 << 30])],
)
def test_value_outside_its_buffer(starts: list[int], lengths: list[int]):
    sample = Sample()
    with pytest.raises(FormatError, match=r"value number \d is outside of its buffer"):
        sample.update_binary(np.zeros(10, np.uint8), np.array(starts), np.array(lengths, np.int32))
    with pytest.raises(FormatError, match="2 starts of values, but 1 lengths"):
        sample.update_binary(np.zeros(10, np.uint8), np.array([0, 0]), np.array([1], np.int32))
    assert sample.is_empty


def test_offsets_outside_the_buffer():
    good = pa.array(["abc"] * 1500)
    offsets = np.frombuffer(good.buffers()[1], np.int32).copy()
    offsets[1200] = 1 << 20
    bad = pa.StringArray.from_buffers(1500, pa.py_buffer(offsets), good.buffers()[2])
    with pytest.raises(FormatError, match="value number 1199 is outside of its buffer"):
        Sample().update(bad)


def test_one_number_in_every_form_is_as_many_values():
    """The same bits as int, long, float, double and decimal: none is mistaken for a repetition of another.

    A float has the hash of the int of the same four bytes, likewise a double that of a long; a decimal has fewer bytes.
    """
    parts: list[Any] = [
        np.array([5, 7], np.int32),
        np.array([5, 7], np.int64),
        np.array([5, 7], np.uint32).view(np.float32),
        np.array([5, 7], np.uint64).view(np.float64),
        pa.array([Decimal(5), Decimal(7)]),
    ]
    sample, sketch = Sample(), ThetaSketch()
    for part in [*parts, *parts[::-1]]:
        sample.update(part)
        sketch.update(part)
    merged = Sample()
    for part in parts:
        merged.merge(Sample().update(part))
    assert len(merged.hashes) == 6
    assert sample.serialize() == merged.serialize()
    assert sketch.hashes.tolist() == merged.hashes.tolist()


COLUMNS = st.one_of(
    st.tuples(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)), st.just(pa.int64())),
    st.tuples(st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1)), st.just(pa.int32())),
    st.tuples(st.lists(st.none() | st.text(max_size=40)), st.sampled_from(STRING_TYPES)),
    st.tuples(st.lists(st.none() | st.floats()), st.just(pa.float64())),
    st.tuples(st.lists(st.none() | st.booleans()), st.just(pa.bool_())),
    st.tuples(st.lists(st.none() | st.decimals(-(10**35), 10**35, places=2)), st.just(pa.decimal128(38, 2))),
)


@given(COLUMNS, st.data())
def test_slices_chunks_and_dictionaries_say_the_same(values: tuple[list[Any], pa.DataType], data: st.DataObject):
    array = pa.array(*values)
    whole = Sample().update(array).serialize()
    cut = data.draw(st.integers(0, len(array)))
    assert Sample().update(pa.chunked_array([array.slice(0, cut), array.slice(cut)])).serialize() == whole
    padded = pa.concat_arrays([array.slice(0, cut), array, array.slice(cut)])
    assert Sample().update(padded.slice(cut, len(array))).serialize() == whole
    if array.type != pa.string_view():
        assert Sample().update(array.dictionary_encode()).serialize() == whole


def test_long_columns_meet_their_twin_in_every_block():
    """Longer than several blocks, with nulls at their seams, runs, and a change of cardinality in the middle."""
    rng = np.random.default_rng(3)
    numbers = np.concatenate(
        [np.repeat(np.arange(500), 7), rng.integers(0, 1 << 40, 30_000), rng.integers(0, 50, 9_000)]
    )
    mask = np.zeros(len(numbers), bool)
    mask[[0, 1023, 1024, 2047, 2048, len(numbers) - 1]] = True
    mask |= rng.random(len(numbers)) < 0.2
    valid = [number.tobytes() for number in numbers[~mask]]
    for lg_k in (4, 7, 9):
        theta, hashes = alpha(valid, 1 << lg_k)
        sketch = ThetaSketch(lg_k=lg_k).update(pa.array(numbers, mask=mask))
        assert sketch.theta == theta
        assert sketch.hashes.tolist() == hashes
