"""Variants from JSON, and as JSON.

Numbers are read as Spark's `parse_json` reads them: whole ones into the smallest integer that holds them, those with a
point and without an exponent exactly, as decimals of at most 38 digits, all others as doubles. Values without a form
in JSON become text as `to_json` of Spark writes them: dates, times and UUIDs in their usual notation, bytes in base64.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from typing import Any, Final

import numpy as np

from skerry.errors import SchemaError, UnsupportedError
from skerry.variant.decoding import decode_variant
from skerry.variant.encoding import VariantEncoder
from skerry.variant.values import MAX_DEPTH, MAX_DIGITS, Primitive, Typed

__all__ = ["parse_json", "to_json"]

_EPOCH: Final = dt.datetime(1970, 1, 1)
_UNITS: Final = {
    Primitive.TIMESTAMP: (10**6, "+00:00"),
    Primitive.TIMESTAMP_NTZ: (10**6, ""),
    Primitive.TIMESTAMP_NS: (10**9, "+00:00"),
    Primitive.TIMESTAMP_NTZ_NS: (10**9, ""),
}
_MAX_NUMBER: Final = 4_000
"""Digits of a number; Python refuses to convert somewhat longer ones."""


def parse_json(text: str, encoder: VariantEncoder | None = None) -> tuple[bytes, bytes]:
    """Encode a JSON document.

    Args:
        text: The document.
        encoder: Shared by many documents with the same names.

    Returns:
        Metadata and value.

    Raises:
        SchemaError: The text is no JSON, repeats a name in an object, or has a value that no variant can hold.
        UnsupportedError: It nests too deeply.
    """
    if not isinstance(text, str):
        raise SchemaError(f"a JSON document must be text, found {type(text).__name__}: {text!r:.80}")
    try:
        value = json.loads(
            text, parse_float=_parse_float, parse_int=_parse_int, parse_constant=_refuse, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise SchemaError(f"{text!r:.80} is not JSON: {error}") from None
    except RecursionError:
        raise UnsupportedError(f"a variant nests deeper than {MAX_DEPTH} levels") from None
    return (encoder or VariantEncoder()).encode(value)


def _parse_int(text: str) -> int | float:
    if len(text) > _MAX_NUMBER:
        return float(text)
    value = int(text)
    return value if abs(value) < 10**MAX_DIGITS else float(text)


def _parse_float(text: str) -> decimal.Decimal | float:
    if "e" in text or "E" in text or len(text) > _MAX_NUMBER:
        return float(text)
    value = decimal.Decimal(text)
    _, digits, exponent = value.as_tuple()
    fits = len(digits) <= MAX_DIGITS and isinstance(exponent, int) and -exponent <= MAX_DIGITS
    return value if fits else float(text)


def _refuse(text: str) -> None:
    raise SchemaError(f"{text} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"an object has two fields {twice!r:.80}")
    return found


def to_json(metadata: bytes, value: bytes) -> str:
    """A variant as JSON.

    Raises:
        FormatError: The bytes break a rule of the format.
        UnsupportedError: The value has an unknown type, or nests too deeply.
    """
    return _write(decode_variant(metadata, value, typed=True))


def _write(value: Any) -> str:
    if isinstance(value, Typed):
        return _write_primitive(value.type, value.value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{_write(field)}" for name, field in value.items()) + "}"
    return "[" + ",".join(map(_write, value)) + "]"


def _write_primitive(type_: Primitive, value: Any) -> str:
    if type_ in (Primitive.NULL, Primitive.TRUE, Primitive.FALSE):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        text = _float32(value) if type_ is Primitive.FLOAT else repr(value)
        return text if math.isfinite(value) else _quoted(_NOT_FINITE.get(text, text))
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if type_ is Primitive.DATE:
        return _quoted(_timestamp(value * 86_400, 1, "")[:-9])
    if type_ in _UNITS:
        return _quoted(_timestamp(value, *_UNITS[type_]))
    if type_ is Primitive.TIME_NTZ:
        return _quoted(_timestamp(value, 10**6, "").partition(" ")[2])
    if isinstance(value, bytes):
        return _quoted(base64.b64encode(value).decode())
    return str(value) if isinstance(value, int) else _quoted(str(value))


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _float32(value: float) -> str:
    """The shortest text that gives the same float of 32 bits."""
    if not math.isfinite(value):
        return repr(value)
    return str(np.float32(value))


def _timestamp(value: int, per_second: int, zone: str) -> str:
    """A date and time of any year; the fraction without its zeros at the end."""
    seconds, fraction = divmod(value, per_second)
    days, seconds = divmod(seconds, 86_400)
    # 400 years repeat exactly, which brings any year into those that Python knows
    cycles, days = divmod(days, 146_097)
    date = _EPOCH + dt.timedelta(days=days, seconds=seconds)
    year = date.year + 400 * cycles
    written = f"{year:04}" if year >= 0 else f"-{-year:04}"
    text = f"{written}-{date:%m-%d %H:%M:%S}"
    digits = len(str(per_second)) - 1
    if fraction:
        text += "." + f"{fraction:0{digits}}".rstrip("0")
    return text + zone


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
