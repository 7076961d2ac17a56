"""Descriptors of a field's values in a stripe: counts, ranges, lengths, sketches and filters.

Each function takes all values of one node of the schema and makes the descriptor that is stored with the stripe's data.
Values at null positions are not looked at.

Spec: docs/formats/amudai.md § 5; Amudai book, chapter 6, (Shard) Field Descriptor.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.messages import AnyValue, FieldDescriptor, FloatingStats, RangeStats, StringStats
from skerry.amudai.shard.schema import BasicType, DataType
from skerry.amudai.statistics import bloom, hll
from skerry.amudai.statistics.bloom import BloomFilter
from skerry.amudai.statistics.decimal_ranges import DecimalSummary
from skerry.amudai.statistics.hll import HllSketch
from skerry.amudai.statistics.range_index import RangeIndex
from skerry.amudai.statistics.xxh3 import hash_values

__all__ = [
    "MAX_BOUND_BYTES",
    "MAX_CONSTANT_BYTES",
    "describe_booleans",
    "describe_bytes",
    "describe_count",
    "describe_decimals",
    "describe_lists",
    "describe_numbers",
    "describe_structs",
    "spans_of",
]

MAX_CONSTANT_BYTES: Final = 128
"""A longer string or binary is not stored as a constant."""
MAX_BOUND_BYTES: Final = 64
"""Longer bounds of strings and binaries are cut, and then do not belong to the range."""
_TRIAL: Final = 4096  # values that a filter is tried with before all are hashed
_Offsets = npt.NDArray[np.int64]


def _descriptor(positions: int, nulls: int, data_bytes: int) -> FieldDescriptor:
    """Counts; the raw size has a bitmap of nulls if some values are null, and is 0 if all are."""
    if nulls == positions:
        raw = 0
    else:
        raw = data_bytes + (-(-positions // 8) if nulls else 0)
    described = FieldDescriptor(position_count=positions, null_count=nulls, raw_data_size=raw)
    if positions and nulls == positions:
        described.constant_value.null_value.SetInParent()
    return described


def describe_count(positions: int, nulls: int) -> FieldDescriptor:
    """Describe values of which nothing but their number is known."""
    described = FieldDescriptor(position_count=positions, null_count=nulls)
    if positions and nulls == positions:
        described.constant_value.null_value.SetInParent()
    return described


def describe_structs(positions: int, nulls: int) -> FieldDescriptor:
    """Describe structs, or lists of a fixed size, which have no values of their own."""
    described = _descriptor(positions, nulls, 0)
    described.ClearField("constant_value")
    return described


def describe_lists(lengths: _Offsets, nulls: int) -> FieldDescriptor:
    """Describe lists or maps.

    Args:
        lengths: int64[n], of those that are not null.
        nulls: How many are null.
    """
    positions = len(lengths) + nulls
    described = _descriptor(positions, nulls, 8 * positions)
    described.ClearField("constant_value")
    if positions:
        least, least_filled, most = _extremes(lengths)
        described.list_stats.min_length = least
        described.list_stats.max_length = most
        if least_filled is not None:
            described.list_stats.min_non_empty_length = least_filled
    return described


def describe_booleans(positions: int, nulls: int, true_count: int) -> FieldDescriptor:
    """Describe booleans by their counts."""
    described = _descriptor(positions, nulls, 0)
    described.raw_data_size = -(-positions // 8) * (1 if nulls == 0 else 2) if nulls != positions else 0
    described.boolean_stats.true_count = true_count
    described.boolean_stats.false_count = positions - nulls - true_count
    if nulls == positions:
        described.constant_value.null_value.SetInParent()
    elif nulls == 0 and true_count in (0, positions):
        described.constant_value.bool_value = true_count > 0
    return described


def describe_numbers(
    node: DataType, values: npt.NDArray[np.generic], valid: npt.NDArray[np.bool_] | None, index: RangeIndex | None
) -> FieldDescriptor:
    """Describe integers, floating point numbers or DateTime.

    Args:
        node: Their type.
        values: Numbers of that type, [n].
        valid: bool[n]; None if there are no nulls.
        index: The ranges of blocks of these values; None if there are no values.
    """
    positions = len(values)
    nulls = positions - int(np.count_nonzero(valid)) if valid is not None else 0
    described = _descriptor(positions, nulls, (positions - nulls) * values.itemsize)
    bounds = index.bounds() if index is not None else None
    described.range_stats.min_inclusive = described.range_stats.max_inclusive = True
    if bounds is not None:
        _set_number(node, described.range_stats.min_value, values.dtype.type(bounds[0]))
        _set_number(node, described.range_stats.max_value, values.dtype.type(bounds[1]))
    if node.basic_type.is_floating:
        _count_floats(described.floating_stats, values[valid] if valid is not None else values)
    if bounds is not None and nulls == 0 and bounds[0] == bounds[1] and _all_bits_alike(values):
        _set_number(node, described.constant_value, values[0])
    return described


def _set_number(node: DataType, value: AnyValue, number: np.generic) -> None:
    if node.basic_type.is_floating:
        value.double_value = float(number)
    elif node.signed:
        value.i64_value = int(number)
    else:
        value.u64_value = int(number)


def _all_bits_alike(values: npt.NDArray[np.generic]) -> bool:
    """Whether one constant represents all: NaN does not, nor does 0.0 represent -0.0."""
    bits = values.view(f"u{values.itemsize}")
    return bool((bits == bits[0]).all())


def _count_floats(stats: FloatingStats, values: npt.NDArray[np.generic]) -> None:
    """Zeros, positive and negative numbers are finite ones."""
    floats = values.view(values.dtype)
    above = int(np.count_nonzero(floats > 0))
    below = int(np.count_nonzero(floats < 0))
    stats.zero_count = int(np.count_nonzero(floats == 0))
    stats.nan_count = len(values) - above - below - stats.zero_count
    ends = int(np.count_nonzero(np.isinf(floats)))
    stats.positive_infinity_count = int(np.count_nonzero(floats == np.inf)) if ends else 0
    stats.negative_infinity_count = ends - stats.positive_infinity_count
    stats.positive_count = above - stats.positive_infinity_count
    stats.negative_count = below - stats.negative_infinity_count


def describe_decimals(encoded: npt.NDArray[np.uint8], nulls: int, summary: DecimalSummary | None) -> FieldDescriptor:
    """Describe decimals.

    Args:
        encoded: uint8[n, 16], those that are not null.
        nulls: How many are null.
        summary: How they compare; None if there are no values.
    """
    described = _descriptor(len(encoded) + nulls, nulls, encoded.size)
    described.range_stats.min_inclusive = described.range_stats.max_inclusive = True
    stats = described.decimal_stats
    stats.SetInParent()
    if summary is None:
        return described
    if summary.bounds is not None:
        described.range_stats.min_value.decimal_value = summary.bounds[0]
        described.range_stats.max_value.decimal_value = summary.bounds[1]
    stats.nan_count = summary.nan_count
    stats.positive_count = summary.positive_count
    stats.negative_count = summary.negative_count
    stats.zero_count = len(encoded) - summary.nan_count - summary.positive_count - summary.negative_count
    is_one_value = (
        nulls == 0 and summary.nan_count == 0 and described.range_stats.min_value == described.range_stats.max_value
    )
    if is_one_value and bool((encoded == encoded[0]).all()):
        described.constant_value.decimal_value = encoded[0].tobytes()
    return described


def describe_bytes(
    node: DataType,
    values: pa.Array,
    nulls: int,
    *,
    counts: npt.NDArray[np.int64] | None = None,
    with_filter: bool = True,
) -> FieldDescriptor:
    """Describe strings, binaries, binaries of a fixed size, or GUIDs.

    Args:
        node: Their type.
        values: large_binary without nulls: all values, or each distinct one.
        nulls: How many values are null.
        counts: int64[n], how often each value occurs; None for once each.
        with_filter: Whether a Bloom filter is made, if there are few enough distinct values.
    """
    offsets, data = spans_of(values)
    lengths = np.diff(offsets)
    occurring = len(values) if counts is None else int(counts.sum())
    total = int(offsets[-1] - offsets[0]) if counts is None else int((lengths * counts).sum())
    described = _descriptor(occurring + nulls, nulls, total)
    least, least_filled, most = _extremes(lengths)
    if node.basic_type is BasicType.STRING:
        _describe_string_sizes(described.string_stats, values, counts, least, least_filled, most)
    else:
        described.binary_stats.min_length = least
        described.binary_stats.max_length = most
        if least_filled is not None:
            described.binary_stats.min_non_empty_length = least_filled
    if occurring == 0:
        return described
    bounds = pc.min_max(values)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    set_byte_range(described.range_stats, low, high, is_text=node.basic_type is BasicType.STRING)
    if nulls == 0 and low == high and len(low) <= MAX_CONSTANT_BYTES:
        _set_bytes(described.constant_value, low, node.basic_type is BasicType.STRING)
    sketch = HllSketch()
    sketch.update(hash_values(data, offsets, hll.HASH_SEED))
    described.cardinality.count = sketch.estimate()
    described.cardinality.is_estimate = True
    described.cardinality.hll_sketch.CopyFrom(sketch.to_message())
    found = _distinct_hashes(data, offsets) if with_filter else None
    if found is not None:
        described.membership_filters.sbbf.CopyFrom(BloomFilter.build(found).to_message())
    return described


def spans_of(values: pa.Array) -> tuple[_Offsets, npt.NDArray[np.uint8]]:
    """The offsets and bytes of a large_binary array, views.

    Returns:
        int64[n + 1], which need not begin at 0, and uint8[bytes].
    """
    _, offsets, data = values.buffers()
    if len(values) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    spans = np.frombuffer(offsets, np.int64, len(values) + 1, 8 * values.offset)
    return spans, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def _describe_string_sizes(
    stats: StringStats,
    values: pa.Array,
    counts: npt.NDArray[np.int64] | None,
    least: int,
    least_filled: int | None,
    most: int,
) -> None:
    stats.min_size = least
    stats.max_size = most
    if least_filled is not None:
        stats.min_non_empty_size = least_filled
    offsets, data = spans_of(values)
    data = data[offsets[0] : offsets[-1]]
    if len(data) == 0 or int(data.max()) < 0x80:
        stats.ascii_count = len(values) if counts is None else int(counts.sum())
        return
    is_ascii = pc.string_is_ascii(values.view(pa.large_string())).to_numpy(zero_copy_only=False)
    stats.ascii_count = int(np.count_nonzero(is_ascii)) if counts is None else int(counts[is_ascii].sum())


def _extremes(lengths: _Offsets) -> tuple[int, int | None, int]:
    """The least length, the least above 0, and the greatest; 0 where there is none."""
    if len(lengths) == 0:
        return 0, None, 0
    least, most = int(lengths.min()), int(lengths.max())
    if least > 0 or most == 0:
        return least, least or None, most
    return least, int(lengths[lengths > 0].min()), most


def _distinct_hashes(data: npt.NDArray[np.uint8], offsets: _Offsets) -> npt.NDArray[np.uint64] | None:
    """The distinct hashes for a filter, None if there are too many."""
    found = np.unique(hash_values(data, offsets[: _TRIAL + 1], bloom.HASH_SEED))
    if len(found) <= bloom.MAX_VALUES and len(offsets) > _TRIAL + 1:
        found = np.unique(hash_values(data, offsets, bloom.HASH_SEED))
    return found if len(found) <= bloom.MAX_VALUES else None


def set_byte_range(stats: RangeStats, low: bytes, high: bytes, *, is_text: bool) -> None:
    """Set a range in byte order; long bounds are cut so that they are outside of the values.

    Args:
        stats: Takes the range.
        low: The least value.
        high: The greatest.
        is_text: Whether bounds are strings, which are cut between code points.
    """
    cut_low = _cut(low, is_text)
    _set_bytes(stats.min_value, cut_low, is_text)
    stats.min_inclusive = cut_low == low
    cut_high: bytes | None = high
    if len(high) > MAX_BOUND_BYTES:
        cut_high = _next_text(_cut(high, True)) if is_text else _next_bytes(_cut(high, False))
    if cut_high is not None:
        _set_bytes(stats.max_value, cut_high, is_text)
        stats.max_inclusive = cut_high == high


def _cut(value: bytes, is_text: bool) -> bytes:
    if len(value) <= MAX_BOUND_BYTES:
        return value
    end = MAX_BOUND_BYTES
    while is_text and end and value[end] & 0xC0 == 0x80:
        end -= 1
    return value[:end]


def _next_bytes(value: bytes) -> bytes | None:
    """The shortest value above all that begin with this one; None if there is none."""
    kept = value.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _next_text(value: bytes) -> bytes | None:
    """The same for text: the order of code points is that of their bytes."""
    text = value.decode()
    while text:
        above = ord(text[-1]) + 1
        if above <= 0x10FFFF:
            return (text[:-1] + chr(0xE000 if 0xD800 <= above <= 0xDFFF else above)).encode()
        text = text[:-1]
    return None


def _set_bytes(value: AnyValue, content: bytes, is_text: bool) -> None:
    if is_text:
        value.string_value = content.decode()
    else:
        value.bytes_value = content
