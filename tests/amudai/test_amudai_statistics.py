"""Statistics: what stripes tell put together is what all rows tell; bounds hold; decimals are ordered as numbers."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.amudai.encodings.codes import Profile
from skerry.amudai.messages import AnyValue, FieldDescriptor, RangeStats
from skerry.amudai.shard.schema import BasicType, DataType
from skerry.amudai.statistics.decimal_ranges import summarize_decimals
from skerry.amudai.statistics.descriptors import decode_scalar, decode_statistics, merge_descriptors
from skerry.amudai.statistics.range_index import BLOCK_POSITIONS, decode_range_index, encode_range_index, index_numbers
from skerry.amudai.values.decimals import decode_decimal, encode_decimal, encode_decimals
from skerry.amudai.values.shredding import shred_column
from skerry.amudai.values.types import EXTENSION_KEY, schema_from_arrow
from skerry.amudai.writing.descriptions import set_byte_range
from skerry.amudai.writing.field_encoding import FieldOptions, encode_field
from skerry.errors import FormatError, UnsupportedError

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int16(): st.integers(-9, 9),
    pa.uint64(): st.integers(0, (1 << 64) - 1),
    pa.float64(): st.floats(allow_subnormal=False) | st.sampled_from([0.0, -0.0, float("nan")]),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=90),
    pa.binary(): st.binary(max_size=90),
    pa.binary(2): st.binary(min_size=2, max_size=2),
    pa.decimal128(10, 2): st.integers(-99, 99).map(lambda number: Decimal(number) / 4),
    pa.list_(pa.bool_()): st.lists(st.booleans(), max_size=3),
}
OPTIONS = FieldOptions(Profile.PLAIN, with_dictionary=False)


@st.composite
def stripes(draw: st.DrawFn) -> tuple[pa.DataType, list[list[Any]]]:
    kind = draw(st.sampled_from(sorted(VALUES, key=str)))
    value = VALUES[kind] | st.none() if draw(st.booleans()) else VALUES[kind]
    return kind, draw(st.lists(st.lists(value, max_size=6), min_size=1, max_size=4))


def describe(values: list[Any], kind: pa.DataType) -> tuple[DataType, FieldDescriptor]:
    field = pa.field("x", kind)
    node = schema_from_arrow(pa.schema([field])).fields[0].data_type
    part = next(shred_column(node, pa.array(values, kind)))
    return node, encode_field(part, OPTIONS).described


@given(stripes())
def test_what_stripes_tell_together_is_what_all_rows_tell(case: tuple[pa.DataType, list[list[Any]]]) -> None:
    kind, parts = case
    node, whole = describe([value for part in parts for value in part], kind)
    merged = merge_descriptors(node, [describe(part, kind)[1] for part in parts])
    assert (merged.position_count, merged.null_count) == (whole.position_count, whole.null_count)
    ours, expected = decode_statistics(node, merged), decode_statistics(node, whole)
    if ours.range is not None and expected.range is not None:
        for name in ("low", "high"):
            found, right = getattr(ours.range, name), getattr(expected.range, name)
            assert found == right or (isinstance(right, Decimal) and Decimal(found) == right)
    assert ours.details == expected.details or whole.null_count == whole.position_count
    if whole.HasField("cardinality"):
        assert merged.cardinality == whole.cardinality
    if merged.HasField("constant_value"):
        assert merged.constant_value == whole.constant_value
    assert not merged.HasField("membership_filters")


def test_what_one_stripe_does_not_tell_is_not_told() -> None:
    node, known = describe([1, 2], pa.int16())
    unknown = FieldDescriptor(position_count=3)
    merged = merge_descriptors(node, [known, unknown])
    assert merged == FieldDescriptor(position_count=5)
    assert merge_descriptors(node, [known, FieldDescriptor()]).null_count == 0
    assert merge_descriptors(node, []) == FieldDescriptor()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=100), min_size=1, max_size=4))
def test_cut_bounds_of_strings_lie_outside_of_the_values(texts: list[str]) -> None:
    values = sorted(text.encode() for text in texts)
    stats = RangeStats()
    set_byte_range(stats, values[0], values[-1], is_text=True)
    low = stats.min_value.string_value.encode()
    assert len(low) <= 64
    assert low == values[0] if stats.min_inclusive else low < values[0]
    if stats.HasField("max_value"):
        high = stats.max_value.string_value.encode()
        assert high == values[-1] if stats.max_inclusive else high > values[-1]
    else:
        assert set(values[-1].decode()[:16]) == {"\U0010ffff"}


@pytest.mark.parametrize(
    ("high", "is_text", "expected"),
    [
        (b"a" * 65, False, b"a" * 63 + b"b"),
        (b"a" + b"\xff" * 70, False, b"b"),
        (b"\xff" * 70, False, None),
        (("a" * 63 + "é").encode(), True, b"a" * 62 + b"b"),
        (("a" * 60 + "\ud7ff" + "x" * 9).encode(), True, b"a" * 60 + "\ud7ffy".encode()),
        (("a" * 61 + "\ud7ff" + "x" * 9).encode(), True, ("a" * 61 + "\ue000").encode()),
        (("\U0010ffff" * 20).encode(), True, None),
    ],
)
def test_cut_bounds(high: bytes, is_text: bool, expected: bytes | None) -> None:
    stats = RangeStats()
    set_byte_range(stats, b"", high, is_text=is_text)
    value = stats.max_value.string_value.encode() if is_text else stats.max_value.bytes_value
    assert (value if stats.HasField("max_value") else None) == expected
    assert not stats.max_inclusive


# Decimals -----------------------------------------------------------------------------------------------------------


def summary_of(numbers: list[Decimal | None]) -> tuple[list[Any], tuple[Decimal, Decimal] | None, tuple[int, int, int]]:
    """Ranges of blocks, bounds and counts in plain Python."""
    ranges = []
    for start in range(0, len(numbers), BLOCK_POSITIONS):
        block = [number for number in numbers[start : start + BLOCK_POSITIONS] if number is not None]
        valid = [number for number in block if not number.is_nan()]
        invalid = len(numbers[start : start + BLOCK_POSITIONS]) - len(valid)
        ranges.append((min(valid, default=None), max(valid, default=None), invalid))
    valid = [number for number in numbers if number is not None and not number.is_nan()]
    counts = sum(n > 0 for n in valid), sum(n < 0 for n in valid), sum(n is not None and n.is_nan() for n in numbers)
    return ranges, (min(valid), max(valid)) if valid else None, counts


def assert_summary(numbers: list[Decimal | None], encoded: np.ndarray, words: np.ndarray | None) -> None:
    valid = np.array([number is not None for number in numbers])
    found = summarize_decimals(encoded, words, None if valid.all() else valid)
    ranges, bounds, counts = summary_of(numbers)
    assert (found.positive_count, found.negative_count, found.nan_count) == counts
    assert (None if found.bounds is None else tuple(map(decode_decimal, found.bounds))) == bounds
    rows = zip(found.index.lows, found.index.highs, found.index.invalid_counts.tolist(), strict=True)
    for (low, high, invalid), expected in zip(rows, ranges, strict=True):
        assert invalid == expected[2]
        if expected[0] is None:
            assert not low.any()
            assert not high.any()
        else:
            assert (decode_decimal(low.tobytes()), decode_decimal(high.tobytes())) == expected[:2]


@given(st.lists(st.none() | st.integers(-(10**34) + 1, 10**34 - 1) | st.integers(-3, 3), min_size=1, max_size=8))
def test_arrow_decimals_are_compared_as_integers(integers: list[int | None]) -> None:
    integers = integers * 80
    numbers = [None if value is None else Decimal(value) for value in integers]
    array = pa.array(numbers, pa.decimal128(38))
    encoded = np.frombuffer(encode_decimals(array).buffers()[1], np.uint8).reshape(-1, 16)
    assert_summary(numbers, encoded, np.frombuffer(array.buffers()[1], np.uint64))


@given(st.lists(st.none() | st.sampled_from(["1", "1.0", "-2E+3", "0", "-0", "NaN", "Infinity", "-Infinity", "1E-9"])))
def test_other_decimals_are_ranked(texts: list[str | None]) -> None:
    numbers = [None if text is None else Decimal(text) for text in [*texts, "7"]] * 60
    encoded = b"".join(bytes(16) if number is None else encode_decimal(number) for number in numbers)
    assert_summary(numbers, np.frombuffer(encoded, np.uint8).reshape(-1, 16), None)


def test_decimals_that_come_encoded_are_described() -> None:
    field = pa.field("x", pa.binary(16), metadata={EXTENSION_KEY: b"KustoDecimal"})
    node = schema_from_arrow(pa.schema([field])).fields[0].data_type
    array = pa.array([encode_decimal(Decimal(text)) for text in ("1.50", "NaN", "-3")] + [None], pa.binary(16))
    (part,) = shred_column(node, array)
    found = decode_statistics(node, encode_field(part, FieldOptions()).described)
    assert found.range is not None
    assert (found.range.low, found.range.high) == (Decimal(-3), Decimal("1.50"))
    assert found.details is not None
    assert (found.null_count, found.is_constant) == (1, False)


# Range indexes ------------------------------------------------------------------------------------------------------

INT32 = DataType(BasicType.INT32, 0, "x", signed=True)
GOOD = encode_range_index(
    index_numbers(BasicType.INT32, np.arange(600, dtype=np.int32), np.arange(600) % 7 > 0), Profile.PLAIN
)


@given(st.lists(st.none() | st.floats(width=32), min_size=1, max_size=12), st.integers(1, 60), st.sampled_from(Profile))
def test_range_indexes_come_back(values: list[float | None], times: int, profile: Profile) -> None:
    array = np.array([0.0 if value is None else value for value in values] * times, np.float32)
    valid = np.array([value is not None for value in values] * times)
    index = index_numbers(BasicType.FLOAT32, array, valid)
    node = DataType(BasicType.FLOAT32, 0)
    read = decode_range_index(encode_range_index(index, profile), node, len(array))
    for block, (low, high, invalid) in enumerate(zip(read.lows, read.highs, read.invalid_counts, strict=True)):
        rows = slice(256 * block, 256 * (block + 1))
        kept = array[rows][valid[rows] & ~np.isnan(array[rows])]
        assert invalid == len(array[rows]) - len(kept)
        assert (low, high) == ((kept.min(), kept.max()) if len(kept) else (0, 0))


def changed(position: int, code: str, value: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into("<" + code, data, position, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (GOOD[:39], "has 39 bytes, expected at least 40"),
        (changed(2, "B", 5), "is of type 5, expected 4"),
        (changed(3, "B", 2), "a flag of 2"),
        (changed(38, "H", 1), "or 1"),
        (changed(4, "Q", 601), "covers 601 values"),
        (changed(4, "Q", 1 << 63), "covers 9223372036854775808 values"),
        (changed(36, "H", 0), "0 a block"),
        (changed(36, "H", 1), ""),
        (changed(12, "Q", 0), "has sections of"),
        (changed(12, "Q", 1 << 62), "has sections of"),
        (changed(28, "Q", len(GOOD)), "has sections of"),
        (changed(50, "B", 0xFF), "checksum"),
    ],
)
def test_bad_indexes_are_refused(data: bytes, error: str) -> None:
    with pytest.raises(FormatError, match=error or "."):
        decode_range_index(data, INT32, 600)


def test_indexes_to_come_are_not_read() -> None:
    with pytest.raises(UnsupportedError, match="range index of version 2"):
        decode_range_index(changed(0, "H", 2), INT32, 600)


# Scalars ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "value"),
    [
        (INT32, AnyValue(i64_value=1 << 31)),
        (INT32, AnyValue(double_value=1.0)),
        (INT32, AnyValue()),
        (DataType(BasicType.INT8, 0), AnyValue(i64_value=-1)),
        (DataType(BasicType.DATE_TIME, 0), AnyValue(string_value="2020")),
        (DataType(BasicType.STRING, 0), AnyValue(bytes_value=b"x")),
        (DataType(BasicType.GUID, 0, fixed_size=16), AnyValue(bytes_value=b"x")),
        (DataType(BasicType.LIST, 0), AnyValue(i64_value=1)),
        (DataType(BasicType.BOOLEAN, 0), AnyValue(u64_value=1)),
    ],
)
def test_values_of_another_type_are_refused(node: DataType, value: AnyValue) -> None:
    with pytest.raises(FormatError, match="expected one of"):
        decode_scalar(node, value)


def test_more_nulls_than_values_are_refused() -> None:
    with pytest.raises(FormatError, match="has 3 nulls, expected at most 2"):
        decode_statistics(INT32, FieldDescriptor(position_count=2, null_count=3))
