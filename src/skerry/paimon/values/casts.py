"""Casts: values of old files in a column's current type.

The conversions are those of Paimon in Java: integers wrap, floats are truncated, decimals are rounded half up and
become null if they do not fit. Conversions that depend on the reader's time zone are refused.

Spec: docs/formats/paimon.md § 2.6; Paimon Java, `CastExecutors`.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.java_texts import double_text, float_text, time_text
from skerry.paimon.values.types import AtomicType, TypeRoot

__all__ = ["Cast", "keeps_values", "plan_cast"]

Cast: TypeAlias = Callable[[pa.Array], pa.Array]

_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_FLOATS: Final = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_PRIMITIVE: Final = (*_INTEGERS, *_FLOATS)
_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_TIMESTAMPS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_BYTES: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_ZONED: Final = TypeRoot.TIMESTAMP_LTZ
_DAY_MILLIS: Final = 86_400_000
_WIDE: Final = decimal.Context(prec=120)
_EPOCH: Final = datetime.date(1970, 1, 1)
_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})


def plan_cast(source: AtomicType, target: AtomicType) -> Cast:
    """Plan the conversion of values between two types.

    Args:
        source: The type in the file.
        target: The type in the table.

    Returns:
        A function from arrays of the Arrow type of `source` to arrays of that of `target`. It raises `SchemaError` for
        text that cannot be parsed as the target's type.

    Raises:
        UnsupportedError: The conversion does not exist, or depends on the reader's time zone.
    """
    if keeps_values(source, target):
        return lambda array: array
    if _ZONED in (source.root, target.root) and source.root is not target.root:
        raise UnsupportedError(f"columns that change from {source} to {target} depend on the reader's time zone")
    for sources, targets, plan in _RULES:
        if source.root in sources and target.root in targets:
            return plan(source, target)
    raise UnsupportedError(f"columns that change from {source} to {target} are not supported")


def keeps_values(source: AtomicType, target: AtomicType) -> bool:
    """Whether every value of one type is the same value in another, in Arrow's terms too."""
    if arrow_type(source) != arrow_type(target):
        return False
    if target.root in (*_TEXTS, *_BYTES):
        is_same = (source.root, source.length) == (target.root, target.length)
        grows = target.root in (TypeRoot.VARCHAR, TypeRoot.VARBINARY) and source.length <= target.length
        return is_same or (grows and (source.root in _TEXTS) == (target.root in _TEXTS))
    return target.root not in _TIMESTAMPS or source.precision <= target.precision


def _by_value(convert: Callable[[Any], Any], target: AtomicType) -> Cast:
    """Convert value by value as Python objects; nulls stay."""
    type_ = arrow_type(target)

    def cast(array: pa.Array) -> pa.Array:
        values = [None if value is None else convert(value) for value in array.to_pylist()]
        return pa.array(values, type_)

    return cast


# Numbers ------------------------------------------------------------------------------------------------------------


def _primitive(source: AtomicType, target: AtomicType) -> Cast:
    type_ = arrow_type(target)
    dtype = np.dtype(type_.to_pandas_dtype())

    def cast(array: pa.Array) -> pa.Array:
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        if source.root in _FLOATS and target.root in _INTEGERS:
            values = _integral(values, 64 if target.root is TypeRoot.BIGINT else 32)
        with np.errstate(over="ignore"):
            converted = values.astype(dtype)
        return pa.array(converted, type_, mask=np.asarray(array.is_null()))

    return cast


def _integral(values: Any, bits: int) -> Any:
    """Truncate floats like Java: NaN is 0, values out of range become the nearest limit."""
    whole = np.nan_to_num(np.trunc(values.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
    limit = float(1 << (bits - 1))
    inside = np.where((whole < limit) & (whole >= -limit), whole, 0.0).astype(np.int64)
    inside[whole >= limit] = (1 << (bits - 1)) - 1
    inside[whole < -limit] = -(1 << (bits - 1))
    return inside


def _to_decimal(source: AtomicType, target: AtomicType) -> Cast:
    def convert(value: Any) -> Decimal | None:
        return _fitted(Decimal(repr(value)) if isinstance(value, float) else Decimal(value), target)

    return _by_value(convert, target)


def _fitted(number: Decimal, type_: AtomicType) -> Decimal | None:
    if not number.is_finite():
        return None
    rounded = number.quantize(Decimal((0, (1,), -type_.scale)), decimal.ROUND_HALF_UP, _WIDE)
    return rounded if not rounded or rounded.adjusted() + 1 + type_.scale <= type_.precision else None


def _decimal_to_decimal(source: AtomicType, target: AtomicType) -> Cast:
    type_ = arrow_type(target)
    if source.scale == target.scale and source.precision <= target.precision:
        return lambda array: array.cast(type_)
    return _to_decimal(source, target)


def _decimal_to_primitive(source: AtomicType, target: AtomicType) -> Cast:
    if target.root in _FLOATS:
        return _by_value(float, target)
    bits = arrow_type(target).bit_width

    def convert(value: Decimal) -> int:
        return (int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))

    return _by_value(convert, target)


def _boolean_to_number(source: AtomicType, target: AtomicType) -> Cast:
    if target.root is TypeRoot.DECIMAL:
        return _to_decimal(source, target)
    return lambda array: array.cast(pa.int8()).cast(arrow_type(target))


def _number_to_boolean(source: AtomicType, target: AtomicType) -> Cast:
    return lambda array: pc.not_equal(array, pa.scalar(0, array.type))


# Texts and bytes ----------------------------------------------------------------------------------------------------


def _sized(text: Any, target: AtomicType, filler: Any) -> Any:
    """Text or bytes truncated to the length of a type, and padded if its length is fixed."""
    if target.root in (TypeRoot.CHAR, TypeRoot.BINARY):
        return text[: target.length] + filler * (target.length - len(text))
    return text[: target.length]


def _to_text(render: Callable[[AtomicType], Callable[[Any], str]]) -> Callable[[AtomicType, AtomicType], Cast]:
    def plan(source: AtomicType, target: AtomicType) -> Cast:
        to_string = render(source)
        return _by_value(lambda value: _sized(to_string(value), target, " "), target)

    return plan


def _number_text(source: AtomicType) -> Callable[[Any], str]:
    if source.root in _FLOATS:
        return double_text if source.root is TypeRoot.DOUBLE else float_text
    return (lambda value: format(value, "f")) if source.root is TypeRoot.DECIMAL else str


def _time_text(source: AtomicType) -> Callable[[Any], str]:
    def render(value: datetime.time) -> str:
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return time_text(seconds * 1000 + value.microsecond // 1000, source.precision)

    return render


def _timestamp_to_text(source: AtomicType, target: AtomicType) -> Cast:
    """Timestamps as text with as many fractional digits as the type has."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

    def cast(array: pa.Array) -> pa.Array:
        unit = per_second[array.type.unit]
        digits = len(str(unit)) - 1
        numbers = array.view(pa.int64()).to_pylist()

        def render(number: int) -> str:
            seconds, fraction = divmod(number, unit)
            moment = np.datetime64(seconds, "s").item()
            if not isinstance(moment, datetime.datetime):
                raise UnsupportedError(f"{number} {array.type.unit} since 1970 is beyond the years 1 to 9999")
            text = f"{fraction:0{digits}}"[: source.precision] if digits else ""
            return moment.isoformat(" ") + (f".{text}" if text else "")

        texts = [None if number is None else _sized(render(number), target, " ") for number in numbers]
        return pa.array(texts, pa.string())

    return cast


def _bytes_to_bytes(source: AtomicType, target: AtomicType) -> Cast:
    return _by_value(lambda value: _sized(value, target, b"\0"), target)


def _text_to_bytes(source: AtomicType, target: AtomicType) -> Cast:
    return _by_value(lambda value: _sized(value.encode(), target, b"\0"), target)


def _bytes_to_text(source: AtomicType, target: AtomicType) -> Cast:
    return _by_value(lambda value: value.decode(errors="replace"), target)


# Parsing text -------------------------------------------------------------------------------------------------------


def _from_text(parse: Callable[[str, AtomicType], Any]) -> Callable[[AtomicType, AtomicType], Cast]:
    def plan(source: AtomicType, target: AtomicType) -> Cast:
        def convert(text: str) -> Any:
            try:
                return parse(text.strip(), target)
            except (ValueError, ArithmeticError):
                raise SchemaError(f"text {text!r:.80} is not a valid {target}") from None

        return _by_value(convert, target)

    return plan


def _parse_integer(text: str, target: AtomicType) -> int:
    number = int(text.partition(".")[0]) if re.fullmatch(r"[+-]?\d+(\.\d*)?", text) else int("?")
    bits = arrow_type(target).bit_width
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(text)
    return number


def _parse_boolean(text: str, target: AtomicType) -> bool:
    lower = text.lower()
    if lower not in _TRUE | _FALSE:
        raise ValueError(text)
    return lower in _TRUE


def _parse_date(text: str, target: AtomicType) -> datetime.date:
    return datetime.date.fromisoformat(text.replace("T", " ").partition(" ")[0])


def _parse_time(text: str, target: AtomicType) -> datetime.time:
    return datetime.time.fromisoformat(text)


_MOMENT: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?")


def _parse_timestamp(text: str, target: AtomicType) -> int:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days = (datetime.date.fromisoformat(match[1]) - _EPOCH).days
    hours, minutes, seconds = (int(part or 0) for part in match.group(2, 3, 4))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(text)
    nanos = int((match[5] or "").ljust(9, "0")[: target.precision].ljust(9, "0"))
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow_type(target).unit]
    return total * 10**digits + nanos // 10 ** (9 - digits)


# Moments ------------------------------------------------------------------------------------------------------------


def _millis(array: pa.Array) -> Any:
    """Timestamps as milliseconds int64[n], rounded down; arbitrary under nulls."""
    numbers = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    unit = array.type.unit
    if unit == "s":
        return numbers * 1000
    return numbers // {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]


def _moments(numbers: Any, array: pa.Array, target: AtomicType) -> pa.Array:
    """Numbers as an array of a type, null where another array is null."""
    type_ = arrow_type(target)
    stored = numbers.astype(np.dtype(f"i{type_.bit_width // 8}"))
    return pa.array(stored, mask=np.asarray(array.is_null())).view(type_)


def _timestamp_to_timestamp(source: AtomicType, target: AtomicType) -> Cast:
    type_ = arrow_type(target)
    if source.precision <= target.precision:
        return lambda array: array.cast(type_)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

    def cast(array: pa.Array) -> pa.Array:
        numbers = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        nanos = per_second["ns"] // per_second[array.type.unit]
        step = 10 ** (9 - target.precision) // nanos
        if step > 1:
            # whole milliseconds are truncated towards 1970, fractions of them downwards
            is_coarse = target.precision < 3
            numbers = np.where((numbers < 0) & is_coarse, -(-numbers // step), numbers // step) * step
        return _moments(numbers // (per_second[array.type.unit] // per_second[type_.unit]), array, target)

    return cast


def _timestamp_to_date(source: AtomicType, target: AtomicType) -> Cast:
    return lambda array: _moments(_millis(array) // _DAY_MILLIS, array, target)


def _timestamp_to_time(source: AtomicType, target: AtomicType) -> Cast:
    return lambda array: _moments(np.mod(_millis(array), _DAY_MILLIS), array, target)


def _timestamp_to_integer(source: AtomicType, target: AtomicType) -> Cast:
    """Whole seconds, truncated towards 1970."""

    def cast(array: pa.Array) -> pa.Array:
        millis = _millis(array)
        seconds = np.where(millis < 0, -(-millis // 1000), millis // 1000)
        return pa.array(seconds.astype(arrow_type(target).to_pandas_dtype()), mask=np.asarray(array.is_null()))

    return cast


def _scaled(numbers: Any, millis_each: int, array: pa.Array, target: AtomicType) -> pa.Array:
    """Convert numbers, in units of several milliseconds, to timestamps."""
    per_milli = {"ms": 1, "us": 1000, "ns": 1_000_000}
    unit = arrow_type(target).unit
    factor = millis_each * per_milli[unit] if unit != "s" else 0
    return _moments(numbers * factor if factor else numbers * millis_each // 1000, array, target)


def _integer_to_timestamp(source: AtomicType, target: AtomicType) -> Cast:
    return lambda array: _scaled(array.cast(pa.int64()).fill_null(0).to_numpy(), 1000, array, target)


def _date_to_timestamp(source: AtomicType, target: AtomicType) -> Cast:
    return lambda array: _scaled(
        array.view(pa.int32()).cast(pa.int64()).fill_null(0).to_numpy(), _DAY_MILLIS, array, target
    )


def _time_to_timestamp(source: AtomicType, target: AtomicType) -> Cast:
    return lambda array: _scaled(array.view(pa.int32()).cast(pa.int64()).fill_null(0).to_numpy(), 1, array, target)


_Roots: TypeAlias = tuple[TypeRoot, ...]
_NUMBERS: Final = (*_PRIMITIVE, TypeRoot.DECIMAL)
_RULES: Final[tuple[tuple[_Roots, _Roots, Callable[[AtomicType, AtomicType], Cast]], ...]] = (
    (_PRIMITIVE, _PRIMITIVE, _primitive),
    (_PRIMITIVE, (TypeRoot.DECIMAL,), _to_decimal),
    ((TypeRoot.DECIMAL,), (TypeRoot.DECIMAL,), _decimal_to_decimal),
    ((TypeRoot.DECIMAL,), _PRIMITIVE, _decimal_to_primitive),
    ((TypeRoot.BOOLEAN,), _NUMBERS, _boolean_to_number),
    (_INTEGERS, (TypeRoot.BOOLEAN,), _number_to_boolean),
    (_NUMBERS, _TEXTS, _to_text(_number_text)),
    ((TypeRoot.BOOLEAN,), _TEXTS, _to_text(lambda source: lambda value: "true" if value else "false")),
    ((TypeRoot.DATE,), _TEXTS, _to_text(lambda source: lambda value: value.isoformat())),
    ((TypeRoot.TIME,), _TEXTS, _to_text(_time_text)),
    (_TIMESTAMPS, _TEXTS, _timestamp_to_text),
    (_TEXTS, _TEXTS, _to_text(lambda source: str)),
    (_TEXTS, _BYTES, _text_to_bytes),
    (_BYTES, _BYTES, _bytes_to_bytes),
    (_BYTES, _TEXTS, _bytes_to_text),
    (_TEXTS, _INTEGERS, _from_text(_parse_integer)),
    (_TEXTS, _FLOATS, _from_text(lambda text, target: float(text))),
    (_TEXTS, (TypeRoot.DECIMAL,), _from_text(lambda text, target: _fitted(Decimal(text), target))),
    (_TEXTS, (TypeRoot.BOOLEAN,), _from_text(_parse_boolean)),
    (_TEXTS, (TypeRoot.DATE,), _from_text(_parse_date)),
    (_TEXTS, (TypeRoot.TIME,), _from_text(_parse_time)),
    (_TEXTS, (TypeRoot.TIMESTAMP,), _from_text(_parse_timestamp)),
    (_TIMESTAMPS, _TIMESTAMPS, _timestamp_to_timestamp),
    (_TIMESTAMPS, (TypeRoot.DATE,), _timestamp_to_date),
    (_TIMESTAMPS, (TypeRoot.TIME,), _timestamp_to_time),
    (_TIMESTAMPS, (TypeRoot.INT, TypeRoot.BIGINT), _timestamp_to_integer),
    ((TypeRoot.INT, TypeRoot.BIGINT), _TIMESTAMPS, _integer_to_timestamp),
    ((TypeRoot.DATE,), _TIMESTAMPS, _date_to_timestamp),
    ((TypeRoot.TIME,), _TIMESTAMPS, _time_to_timestamp),
    ((TypeRoot.DATE,), (TypeRoot.DATE,), lambda source, target: lambda array: array),
    ((TypeRoot.TIME,), (TypeRoot.TIME,), lambda source, target: lambda array: array),
)
