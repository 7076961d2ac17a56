"""Keys: values as indexes store them, and conditions on them.

Paimon's indexes store timestamps as milliseconds (up to 3 fractional digits) or microseconds, decimals as their
unscaled number, and strings as bytes. Timestamps with 7 and more digits lose precision: an index can only say that a
row may match.

Spec: docs/formats/paimon.md § 12.3, § 12.4; Paimon spec, File Index.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias

from skerry.paimon.file_index.cursor import I32, I64, Cursor
from skerry.paimon.values.types import AtomicType, TypeRoot
from skerry.table.predicate import Comparison, In, IsMinusZero, IsNaN, IsNull, Operator, StartsWith

__all__ = ["Interval", "Leaf", "as_key", "intervals_of", "is_lossy", "key_form", "loosened", "matches", "take_key"]

Leaf: TypeAlias = Comparison | In | StartsWith | IsNull | IsNaN | IsMinusZero
"""A condition on one column."""

Interval: TypeAlias = tuple[Any, Any]
"""From the first to before the second."""

_EXACT = Context(prec=80)  # more digits than any type has
_F32, _F64 = struct.Struct(">f"), struct.Struct(">d")
_I8, _I16 = struct.Struct(">b"), struct.Struct(">h")
_FORMS: Final = {
    TypeRoot.TINYINT: _I8,
    TypeRoot.SMALLINT: _I16,
    TypeRoot.INT: I32,
    TypeRoot.DATE: I32,
    TypeRoot.TIME: I32,
    TypeRoot.BIGINT: I64,
    TypeRoot.DECIMAL: I64,
    TypeRoot.TIMESTAMP: I64,
    TypeRoot.TIMESTAMP_LTZ: I64,
    TypeRoot.FLOAT: _F32,
    TypeRoot.DOUBLE: _F64,
    TypeRoot.BOOLEAN: _I8,
}
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_LOSSY_FROM = 7


def key_form(type_: AtomicType) -> struct.Struct | None:
    """The layout of values of a fixed-width type in an index; None for strings."""
    return None if type_.root in _TEXTS else _FORMS[type_.root]


def take_key(cursor: Cursor, type_: AtomicType) -> Any:
    """Read one value of an index.

    Returns:
        int, float, bool, or bytes for a string.

    Raises:
        FormatError: The bytes end within it.
    """
    form = key_form(type_)
    if form is None:
        return bytes(cursor.bytes(cursor.size("length of a value"), "value"))
    value = cursor.take(form, "value")
    return bool(value) if type_.root is TypeRoot.BOOLEAN else value


def is_lossy(type_: AtomicType) -> bool:
    """Whether different values of the type may have the same key."""
    return type_.root in _TIMESTAMPS and type_.precision >= _LOSSY_FROM


def as_key(type_: AtomicType, value: Any) -> Any:
    """The key of a literal of a condition.

    Args:
        type_: The column's type in the file.
        value: As predicates hold values of the corresponding Arrow type: timestamps in s, ms, µs or ns by their
            precision.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Decimal):
        return int(value.scaleb(type_.scale, _EXACT))
    if type_.root in _TIMESTAMPS:
        if type_.precision == 0:
            return value * 1000
        return value // 1000 if is_lossy(type_) else value
    return value


def loosened(leaf: Leaf, type_: AtomicType) -> Leaf:
    """A condition on keys that holds wherever a condition on values does.

    Args:
        leaf: With values.
        type_: The column's type in the file.
    """
    lossy = is_lossy(type_)
    match leaf:
        case Comparison(column, operator, value):
            if lossy and operator is Operator.NE:
                return IsNull(column, negated=True)
            if lossy:
                operator = {Operator.LT: Operator.LE, Operator.GT: Operator.GE}.get(operator, operator)
            return Comparison(column, operator, as_key(type_, value))
        case In(column, values, negated):
            if lossy and negated:
                return IsNull(column, negated=True)
            return In(column, tuple(as_key(type_, value) for value in values), negated)
    return leaf


# Which keys a condition selects ---------------------------------------------------------------------------------------


def matches(leaf: Leaf) -> Callable[[Any], bool]:
    """The test of a condition on keys; no key is null.

    NaN is greater than all other numbers, and 0.0 equals -0.0.
    """
    match leaf:
        case Comparison(_, operator, value):
            return _COMPARE[operator](value)
        case In(_, values, negated):
            wanted = frozenset(values)
            return lambda key: (key in wanted) != negated
        case StartsWith(_, prefix, negated):
            start = prefix.encode()
            return lambda key: bool(key.startswith(start)) != negated
        case IsNaN(_, negated):
            return lambda key: math.isnan(key) != negated
        case IsMinusZero(_, negated):
            return lambda key: negated or key == 0
        case IsNull(_, negated):
            return lambda key: negated


_COMPARE: Final[dict[Operator, Callable[[Any], Callable[[Any], bool]]]] = {
    Operator.EQ: lambda value: lambda key: key == value,
    Operator.NE: lambda value: lambda key: key != value,
    Operator.LT: lambda value: lambda key: key < value,
    Operator.LE: lambda value: lambda key: key <= value,
    Operator.GT: lambda value: lambda key: not key <= value,
    Operator.GE: lambda value: lambda key: not key < value,
}


def intervals_of(leaf: Leaf, rank: Callable[[Any, bool], Any], first: Any, end: Any) -> Sequence[Interval]:
    """The part of an order that a condition selects.

    Args:
        leaf: On keys; not one on nulls.
        rank: The position in the order of the first key that is not below a key (False) or that is above it (True).
        first: Where the order begins.
        end: Where it ends.

    Returns:
        Intervals that do not overlap; a key that is not in the order may give empty ones.
    """
    match leaf:
        case Comparison(_, operator, value):
            low, high = rank(value, False), rank(value, True)
            return {
                Operator.EQ: [(low, high)],
                Operator.NE: [(first, low), (high, end)],
                Operator.LT: [(first, low)],
                Operator.LE: [(first, high)],
                Operator.GT: [(high, end)],
                Operator.GE: [(low, end)],
            }[operator]
        case In(_, values, negated):
            found = sorted({(rank(value, False), rank(value, True)) for value in values})
            return _gaps(found, first, end) if negated else found
        case StartsWith(_, prefix, negated):
            start = prefix.encode()
            after = start[:-1] + bytes([start[-1] + 1]) if start else None  # UTF-8 has no byte 255
            found = [(rank(start, False), end if after is None else rank(after, False))]
            return _gaps(found, first, end) if negated else found
        case IsMinusZero(_, negated):
            return [(first, end)] if negated else [(rank(0.0, False), rank(0.0, True))]
        case IsNaN(_, negated):
            found = [(rank(math.inf, True), end)]
            return _gaps(found, first, end) if negated else found
        case IsNull(_, negated):
            return [(first, end)] if negated else []


def _gaps(intervals: Sequence[Interval], first: Any, end: Any) -> list[Interval]:
    """The gaps between ascending intervals."""
    starts = [first, *(high for _, high in intervals)]
    ends = [*(low for low, _ in intervals), end]
    return [(low, high) for low, high in zip(starts, ends, strict=True) if low < high]
