"""Functions of values in conditions, as PyArrow computes them on whole columns.

Arguments are arrays or scalars of the types that `skerry.table.predicate.typing` gives them: both sides of a comparison
have one type, numbers are `int64`, `float`, `double` or decimals. Null arguments give null unless it says otherwise.
Everything means what it means in DuckDB.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.table.predicate.casts import cast

__all__ = ["KERNELS", "Data", "like_parts"]

Data: TypeAlias = Any
"""An array or a scalar: PyArrow's functions take both, and its annotations tell them apart by overloads that a table of
functions cannot use."""

_SPACES: Final = (
    "\u0020\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
"""What `trim` removes: Unicode's category Zs."""
_DAY_US: Final = 86_400_000_000


# ---- comparisons ----


def _equal(left: Data, right: Data) -> Data:
    equal = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_kleene(equal, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))
    return equal


def _less(left: Data, right: Data) -> Data:
    less = pc.less(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_kleene(less, pc.and_kleene(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    return less


def _among(value: Data, *members: Data) -> Data:
    among = pa.array([member.as_py() for member in members], members[0].type)
    if isinstance(value, pa.Scalar):
        return pc.is_in(pa.array([value.as_py()], value.type), value_set=among)[0] if value.is_valid else _UNKNOWN
    return pc.if_else(pc.is_valid(value), pc.is_in(value, value_set=among), _UNKNOWN)


_UNKNOWN: Final = pa.scalar(None, pa.bool_())


# ---- choices ----


def _case(*arguments: Data) -> Data:
    """`CASE WHEN a THEN b … ELSE c END` as a, b, …, c; all values are computed, whichever is chosen."""
    chosen = arguments[-1]
    for place in range(len(arguments) - 3, -1, -2):
        chosen = pc.if_else(pc.fill_null(arguments[place], False), arguments[place + 1], chosen)
    return chosen


def _null_if(value: Data, other: Data) -> Data:
    return pc.if_else(pc.fill_null(_equal(value, other), False), pa.scalar(None, value.type), value)


def _greatest(*values: Data) -> Data:
    """Nulls are passed over; NaN is the greatest."""
    return functools.reduce(lambda a, b: pc.coalesce(pc.if_else(_less(a, b), b, a), a, b), values)


def _least(*values: Data) -> Data:
    return functools.reduce(lambda a, b: pc.coalesce(pc.if_else(_less(b, a), b, a), a, b), values)


# ---- numbers ----


def _remainder(left: Data, right: Data) -> Data:
    return pc.subtract(left, pc.multiply(pc.divide_checked(left, right), right))


def _round(value: Data, digits: Data) -> Data:
    return pc.round(value, ndigits=digits.as_py(), round_mode="half_towards_infinity")


# ---- text ----


def like_parts(pattern: str) -> list[str | None]:
    """Split a LIKE pattern, whose escape character is the backslash, into its texts.

    Returns:
        Texts that must occur as they are, `"_"` wrapped as None for one character, and `""` for any number of them:
        texts are never empty.
    """
    parts: list[str | None] = []
    text = ""
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            parts += [text] * bool(text) + [None if character == "_" else ""]
            text = ""
        else:
            text += next(characters) if character == "\\" else character
    return parts + [text] * bool(text)


def _like(value: Data, pattern: Data) -> Data:
    match like_parts(pattern.as_py()):
        case []:
            return pc.equal(value, "")
        case ["", str(text), ""] if text:
            return pc.match_substring(value, text)
        case ["", str(text)] if text:
            return pc.ends_with(value, text)
        case [str(text), ""] if text:
            return pc.starts_with(value, text)
        case [str(text)] if text:
            return pc.equal(value, text)
        case parts:
            words = ("." if part is None else re.escape(part) if part else ".*" for part in parts)
            return pc.match_substring_regex(value, rf"(?s)\A{''.join(words)}\z")


def _substring(value: Data, first: Data, count: Data | None = None) -> Data:
    """From the first character on, which has number 1; numbers below mean places before the text."""
    start = first.as_py() - 1
    stop = None if count is None else max(start + count.as_py(), 0)
    return pc.utf8_slice_codeunits(value, max(start, 0), stop)


def _right(value: Data, count: Data) -> Data:
    wanted = count.as_py()
    return pc.utf8_slice_codeunits(value, 0, 0) if wanted == 0 else pc.utf8_slice_codeunits(value, -wanted, None)


def _regexp(value: Data, pattern: Data, options: Data | None = None) -> Data:
    flags = "" if options is None else "".join(sorted(set(options.as_py()) - {"c"}))
    return pc.match_substring_regex(value, f"(?{flags}){pattern.as_py()}" if flags else pattern.as_py())


def _replace(value: Data, old: Data, new: Data) -> Data:
    return pc.replace_substring(value, old.as_py(), new.as_py()) if old.as_py() else value


# ---- dates and times ----


def _add_days(date: Data, days: Data) -> Data:
    return pc.cast(pc.cast(pc.add_checked(_days_of(date), days), pa.int32()), pa.date32())


def _days_of(date: Data) -> Data:
    return pc.cast(pc.cast(date, pa.int32()), pa.int64())


def _days_between(date: Data, earlier: Data) -> Data:
    return pc.subtract(_days_of(date), _days_of(earlier))


def _add_interval(moment: Data, interval: Data, sign: int = 1) -> Data:
    """Add months, and then days and nanoseconds; a day that the month lacks becomes its last one."""
    months, days, nanoseconds = interval.value
    if months:
        moment = _add_months(moment, sign * months)
    unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[moment.type.unit]
    span = sign * (days * _DAY_US * 1000 + nanoseconds) // unit
    return pc.add_checked(moment, pa.scalar(span, pa.duration(moment.type.unit)))


def _add_months(moment: Data, months: int) -> Data:
    if isinstance(moment, pa.Scalar):
        return _add_months(
            pa.array([moment.as_py()], moment.type) if moment.is_valid else pa.nulls(1, moment.type), months
        )[0]
    unit = moment.type.unit
    ticks = moment.cast(pa.int64())
    given = ticks.fill_null(0).to_numpy(zero_copy_only=False).view(f"M8[{unit}]")
    day = given.astype("M8[D]")
    month = day.astype("M8[M]")
    wanted = month + months
    last = (wanted + 1).astype("M8[D]") - wanted.astype("M8[D]") - np.timedelta64(1, "D")
    moved = wanted.astype("M8[D]") + np.minimum(day - month.astype("M8[D]"), last)
    result = moved.astype(f"M8[{unit}]") + (given - day.astype(f"M8[{unit}]"))
    mask = ticks.is_null().to_numpy(zero_copy_only=False) if ticks.null_count else None
    return pa.array(result.view(np.int64), pa.int64(), mask=mask).cast(moment.type)


def _truncated(moment: Data, unit: Data) -> Data:
    return pc.floor_temporal(moment, unit=unit.as_py(), week_starts_monday=True)


def _epoch(moment: Data) -> Data:
    ticks = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[moment.type.unit]
    return pc.divide(pc.cast(pc.cast(moment, pa.int64()), pa.float64(), safe=False), ticks)


def _part(function: Callable[..., Data], **options: Any) -> Callable[[Data], Data]:
    return lambda moment: pc.cast(function(moment, **options), pa.int64())


KERNELS: Final[dict[str, Callable[..., Data]]] = {
    "=": _equal,
    "<>": lambda left, right: pc.invert(_equal(left, right)),
    "<": _less,
    ">": lambda left, right: _less(right, left),
    "<=": lambda left, right: pc.invert(_less(right, left)),
    ">=": lambda left, right: pc.invert(_less(left, right)),
    "in": _among,
    "and": lambda *parts: functools.reduce(pc.and_kleene, parts),
    "or": lambda *parts: functools.reduce(pc.or_kleene, parts),
    "not": pc.invert,
    "is null": pc.is_null,
    "isnan": pc.is_nan,
    "coalesce": pc.coalesce,
    "nullif": _null_if,
    "case": _case,
    "greatest": _greatest,
    "least": _least,
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide,
    "//": pc.divide_checked,
    "%": _remainder,
    "negative": pc.negate_checked,
    "abs": pc.abs_checked,
    "floor": pc.floor,
    "ceil": pc.ceil,
    "round": _round,
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "length": lambda value: pc.cast(pc.utf8_length(value), pa.int64()),
    "octet_length": lambda value: pc.cast(pc.binary_length(value), pa.int64()),
    "trim": lambda value: pc.utf8_trim(value, _SPACES),
    "ltrim": lambda value: pc.utf8_ltrim(value, _SPACES),
    "rtrim": lambda value: pc.utf8_rtrim(value, _SPACES),
    "substring": _substring,
    "left": lambda value, count: pc.utf8_slice_codeunits(value, 0, count.as_py()),
    "right": _right,
    "replace": _replace,
    "concat": lambda *parts: pc.binary_join_element_wise(*(pc.fill_null(part, "") for part in parts), ""),
    "||": lambda left, right: pc.binary_join_element_wise(left, right, ""),
    "contains": lambda value, part: pc.match_substring(value, part.as_py()),
    "starts_with": lambda value, part: pc.starts_with(value, part.as_py()),
    "ends_with": lambda value, part: pc.ends_with(value, part.as_py()),
    "like": _like,
    "ilike": lambda value, pattern: _like(pc.utf8_lower(value), pc.utf8_lower(pattern)),
    "regexp_matches": _regexp,
    "regexp_full_match": lambda value, pattern: pc.match_substring_regex(value, rf"\A(?:{pattern.as_py()})\z"),
    "add_days": _add_days,
    "days_between": _days_between,
    "add_interval": _add_interval,
    "subtract_interval": lambda moment, interval: _add_interval(moment, interval, -1),
    "date_trunc": _truncated,
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    "week": _part(pc.iso_week),
    "day": _part(pc.day),
    "dayofweek": _part(pc.day_of_week, count_from_zero=True, week_start=7),
    "isodow": _part(pc.day_of_week, count_from_zero=False, week_start=1),
    "dayofyear": _part(pc.day_of_year),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "epoch": _epoch,
    "cast": cast,
}
"""The functions by name; "cast" takes a value and a type."""
