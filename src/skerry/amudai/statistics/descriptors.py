"""What descriptors say about a field, and how those of stripes are put together for a shard.

Spec: docs/formats/amudai.md § 5; Amudai book, chapter 6, (Shard) Field Descriptor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from skerry.amudai.messages import AnyValue, FieldDescriptor, RangeStats
from skerry.amudai.shard.schema import BasicType, DataType
from skerry.amudai.statistics.bloom import BloomFilter
from skerry.amudai.statistics.hll import HllSketch
from skerry.amudai.values.decimals import DECIMAL_BYTES, decode_decimal
from skerry.errors import FormatError

__all__ = [
    "BooleanCounts",
    "FieldStatistics",
    "Lengths",
    "NumberCounts",
    "ValueRange",
    "decode_scalar",
    "decode_statistics",
    "merge_descriptors",
    "with_nulls",
]

_RULE: Final = "docs/formats/amudai.md § 5"
_INTEGER_BITS: Final = {BasicType.INT8: 8, BasicType.INT16: 16, BasicType.INT32: 32, BasicType.INT64: 64}


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Bounds of values that are neither null nor NaN.

    Bounds are integers, floats, strings, bytes, `Decimal`; ticks of 100 ns for dates, timestamps and durations. Strings
    and bytes are ordered by their bytes.

    Args:
        low: No value is less. None: not known, or there is no value.
        high: No value is greater.
        has_low: Whether `low` may be a value itself.
        has_high: Whether `high` may be.
    """

    low: Any = None
    high: Any = None
    has_low: bool = True
    has_high: bool = True


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of values that are not null: bytes of strings and binaries, items of lists and maps.

    Args:
        least: The least.
        least_filled: The least above 0, None if there is none.
        most: The greatest.
        ascii_count: Strings of ASCII only; None if not known, or for other types.
    """

    least: int
    least_filled: int | None
    most: int
    ascii_count: int | None = None


@dataclass(frozen=True, slots=True)
class BooleanCounts:
    """How many booleans are true, and how many false."""

    true_count: int
    false_count: int


@dataclass(frozen=True, slots=True)
class NumberCounts:
    """How many floating point numbers or decimals are of which kind; infinite ones are counted apart.

    Decimals have no counts of infinities.
    """

    zero_count: int
    positive_count: int
    negative_count: int
    nan_count: int
    positive_infinity_count: int = 0
    negative_infinity_count: int = 0


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """What a descriptor says of a field in a stripe or a shard. None: it does not say.

    Args:
        position_count: Values, null ones included.
        null_count: Null ones among them.
        raw_data_size: Bytes of the values without encoding.
        dictionary_size: Entries of the field's dictionary, that for null included.
        is_constant: Whether all values are the same, `constant`.
        constant: That value, in the types of `ValueRange`; None also for null.
        range: Bounds.
        distinct_count: Number of distinct values.
        is_distinct_estimated: Whether that is an estimate.
        sketch: From which it is.
        bloom_filter: Says which values a stripe's field certainly lacks.
        details: Counts or lengths, according to the type.
    """

    position_count: int
    null_count: int | None = None
    raw_data_size: int | None = None
    dictionary_size: int | None = None
    is_constant: bool = False
    constant: Any = None
    range: ValueRange | None = None
    distinct_count: int | None = None
    is_distinct_estimated: bool = False
    sketch: HllSketch | None = None
    bloom_filter: BloomFilter | None = None
    details: Lengths | BooleanCounts | NumberCounts | None = None


def decode_statistics(node: DataType, described: FieldDescriptor, *, location: str | None = None) -> FieldStatistics:
    """Read a descriptor.

    Args:
        node: The type of the field.
        described: The message.
        location: The file, for errors.

    Raises:
        FormatError: A count is larger than the number of values, or a value is of another type than the field.
    """
    null_count = _optional(described, "null_count")
    if null_count is not None and null_count > described.position_count:
        raise FormatError(
            f"field {node.name!r} has {null_count} nulls, expected at most {described.position_count}",
            location=location,
            rule=_RULE,
        )
    cardinality = described.cardinality
    is_constant = described.HasField("constant_value")
    return FieldStatistics(
        described.position_count,
        null_count,
        _optional(described, "raw_data_size"),
        _optional(described, "dictionary_size"),
        is_constant,
        decode_scalar(node, described.constant_value, location=location) if is_constant else None,
        _range(node, described.range_stats, location) if described.HasField("range_stats") else None,
        _optional(cardinality, "count"),
        cardinality.is_estimate,
        HllSketch.from_message(cardinality.hll_sketch, location=location)
        if cardinality.HasField("hll_sketch")
        else None,
        BloomFilter.from_message(described.membership_filters.sbbf, location=location)
        if described.membership_filters.HasField("sbbf")
        else None,
        _details(described),
    )


def _optional(message: Any, name: str) -> int | None:
    return getattr(message, name) if message.HasField(name) else None


def _range(node: DataType, stats: RangeStats, location: str | None) -> ValueRange:
    low, high = _bound(node, stats, "min_value", location), _bound(node, stats, "max_value", location)
    return ValueRange(low, high, stats.min_inclusive, stats.max_inclusive)


def _bound(node: DataType, stats: RangeStats, name: str, location: str | None) -> Any:
    """A bound; None if it is not there, or NaN, which bounds nothing."""
    if not stats.HasField(name):
        return None
    value = decode_scalar(node, getattr(stats, name), location=location)
    return value if value == value else None


def _details(described: FieldDescriptor) -> Lengths | BooleanCounts | NumberCounts | None:
    kind = described.WhichOneof("type_specific")
    if kind is None:
        return None
    stats = getattr(described, kind)
    if kind == "boolean_stats":
        return BooleanCounts(stats.true_count, stats.false_count)
    if kind == "string_stats":
        filled, ascii_count = _optional(stats, "min_non_empty_size"), _optional(stats, "ascii_count")
        return Lengths(stats.min_size, filled, stats.max_size, ascii_count)
    if kind in ("list_stats", "binary_stats"):
        return Lengths(stats.min_length, _optional(stats, "min_non_empty_length"), stats.max_length)
    counts = (stats.zero_count, stats.positive_count, stats.negative_count, stats.nan_count)
    if kind == "decimal_stats":
        return NumberCounts(*counts)
    return NumberCounts(*counts, stats.positive_infinity_count, stats.negative_infinity_count)


# Scalars ------------------------------------------------------------------------------------------------------------


def decode_scalar(node: DataType, value: AnyValue, *, location: str | None = None) -> Any:
    """A value of a field as a Python value, as in `ValueRange`; booleans as bool, null as None.

    Raises:
        FormatError: It is of another type than the field, or outside of that type.
    """
    kind = value.WhichOneof("kind")
    if kind == "null_value":
        return None
    found: Any = getattr(value, kind) if kind is not None else None
    if kind in ("datetime_value", "timespan_value"):
        found = found.ticks
        if kind == "timespan_value" and found >> 63:
            found -= 1 << 64
    if not _SCALARS[_family(node)](node, kind, found):
        raise FormatError(
            f"a value of field {node.name!r} is {kind or 'nothing'} {str(found)[:40]!r}, expected one of "
            f"{node.basic_type.name}",
            location=location,
            rule=_RULE,
        )
    return decode_decimal(found) if kind == "decimal_value" else found


def _family(node: DataType) -> str:
    if node.basic_type is BasicType.BOOLEAN:
        return "boolean"
    if node.basic_type.is_floating:
        return "floating"
    if node.is_numeric:
        return "integer"
    if node.basic_type is BasicType.STRING:
        return "string"
    if node.is_decimal:
        return "decimal"
    return "bytes" if node.basic_type.is_bytes else "none"


def _is_integer(node: DataType, kind: str | None, found: Any) -> bool:
    if kind not in ("i64_value", "u64_value", "datetime_value", "timespan_value"):
        return False
    bits = _INTEGER_BITS.get(node.basic_type, 64)
    return bool(-(1 << (bits - 1)) <= found < 1 << (bits - 1) if node.signed else 0 <= found < 1 << bits)


def _is_bytes(node: DataType, kind: str | None, found: Any) -> bool:
    return kind == "bytes_value" and node.fixed_size in (0, len(found))


_SCALARS: Final[dict[str, Callable[[DataType, str | None, Any], bool]]] = {
    "boolean": lambda _node, kind, _found: kind == "bool_value",
    "integer": _is_integer,
    "floating": lambda _node, kind, _found: kind == "double_value",
    "string": lambda _node, kind, _found: kind == "string_value",
    "bytes": _is_bytes,
    "decimal": lambda _node, kind, found: kind == "decimal_value" and len(found) == DECIMAL_BYTES,
    "none": lambda _node, _kind, _found: False,
}


# Merging ------------------------------------------------------------------------------------------------------------


def with_nulls(statistics: FieldStatistics, position_count: int) -> FieldStatistics:
    """The same field with nulls added up to a number of values."""
    missing = position_count - statistics.position_count
    if missing <= 0:
        return statistics
    return replace(
        statistics,
        position_count=position_count,
        null_count=None if statistics.null_count is None else statistics.null_count + missing,
        is_constant=statistics.is_constant and statistics.constant is None,
        constant=None,
    )


def merge_descriptors(
    node: DataType, described: Iterable[FieldDescriptor], *, location: str | None = None
) -> FieldDescriptor:
    """Make the descriptor of a shard's field from those of its stripes.

    Counts are added, ranges widened, sketches united; a constant stays if it is that of all. What one stripe lacks
    is left out. Filters, dictionary sizes and indexes belong to stripes alone. Properties are put together, each one
    once.

    Args:
        node: The type of the field.
        described: The stripes' descriptors; those of no values say nothing, but none of them is missing.
        location: The file, for errors.
    """
    parts = list(described)
    merged = FieldDescriptor(position_count=sum(part.position_count for part in parts))
    _merge_properties(merged, parts)
    parts = [part for part in parts if part.position_count] or parts[:1]
    for name in ("null_count", "raw_data_size"):
        if parts and all(part.HasField(name) for part in parts):
            setattr(merged, name, sum(getattr(part, name) for part in parts))
    if parts and all(part.HasField("constant_value") for part in parts):
        first = parts[0].constant_value
        if all(part.constant_value == first for part in parts):
            merged.constant_value.CopyFrom(first)
    if parts and all(part.HasField("range_stats") for part in parts):
        _merge_ranges(node, merged.range_stats, [part.range_stats for part in parts], location)
    _merge_details(merged, parts)
    _merge_cardinality(merged, parts, location)
    return merged


def _merge_properties(merged: FieldDescriptor, parts: list[FieldDescriptor]) -> None:
    for part in parts:
        for name in ("standard_properties", "custom_properties"):
            kept = getattr(merged, name)
            kept.extend(pair for pair in getattr(part, name) if pair not in kept)


def _merge_ranges(node: DataType, merged: RangeStats, parts: list[RangeStats], location: str | None) -> None:
    """The least minimum and the greatest maximum; a stripe without values has neither."""
    merged.min_inclusive = merged.max_inclusive = True
    having = [part for part in parts if part.HasField("min_value") or part.HasField("max_value")]
    for name, flag, choose in (("min_value", "min_inclusive", min), ("max_value", "max_inclusive", max)):
        bounds = [_bound(node, part, name, location) for part in having]
        if not bounds or None in bounds:
            continue
        outermost = choose(bounds)
        chosen = [part for part, bound in zip(having, bounds, strict=True) if bound == outermost]
        getattr(merged, name).CopyFrom(getattr(chosen[0], name))
        setattr(merged, flag, any(getattr(part, flag) for part in chosen))


_LEAST: Final = ("min_size", "min_length", "min_non_empty_size", "min_non_empty_length")
_MOST: Final = ("max_size", "max_length")


def _merge_details(merged: FieldDescriptor, parts: list[FieldDescriptor]) -> None:
    """Least and greatest lengths, sums of counts; a stripe without any value has lengths of 0, which say nothing."""
    telling = [part for part in parts if part.null_count != part.position_count] or parts[:1]
    kinds = {part.WhichOneof("type_specific") for part in telling}
    if len(kinds) != 1 or None in kinds:
        return
    (kind,) = kinds
    assert kind is not None
    stats = [getattr(part, kind) for part in telling]
    result = getattr(merged, kind)
    result.SetInParent()
    for column in result.DESCRIPTOR.fields:
        name = column.name
        values = [getattr(part, name) for part in stats if not column.has_presence or part.HasField(name)]
        if not values or (name == "ascii_count" and len(values) < len(stats)):
            continue
        combine = min if name in _LEAST else max if name in _MOST else sum
        setattr(result, name, combine(values))


def _merge_cardinality(merged: FieldDescriptor, parts: list[FieldDescriptor], location: str | None) -> None:
    having = [part for part in parts if part.null_count != part.position_count]
    if not having or not all(part.HasField("cardinality") for part in having):
        return
    telling = [part.cardinality for part in having]
    if len(telling) == 1:
        merged.cardinality.CopyFrom(telling[0])
        return
    united: HllSketch | None = None
    for cardinality in telling:
        sketch = (
            HllSketch.from_message(cardinality.hll_sketch, location=location)
            if cardinality.HasField("hll_sketch")
            else None
        )
        united = sketch if united is None else united.merge(sketch) if sketch is not None else None
        if united is None:
            return
    if united is not None:
        merged.cardinality.count = united.estimate()
        merged.cardinality.is_estimate = True
        merged.cardinality.hll_sketch.CopyFrom(united.to_message())
