"""Python values as a variant of bytes.

Spec: Parquet spec, VariantEncoding.md.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from skerry.errors import SchemaError, UnsupportedError
from skerry.variant.values import EXACT, MAX_DEPTH, MAX_DIGITS, BasicType, Primitive, Typed, decimal_type

__all__ = ["VariantEncoder", "encode_metadata", "encode_primitive", "encode_variant"]

_SORTED: Final = 0x11
"""Version 1, names sorted."""
_SHORT_BYTES: Final = 63
_SMALL_COUNT: Final = 255
_EPOCH: Final = dt.datetime(1970, 1, 1)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_MAX_BYTES: Final = 2**31 - 1

_PACKED: Final = {
    Primitive.INT8: "<b",
    Primitive.INT16: "<h",
    Primitive.INT32: "<i",
    Primitive.INT64: "<q",
    Primitive.DOUBLE: "<d",
    Primitive.FLOAT: "<f",
    Primitive.DATE: "<i",
    Primitive.TIMESTAMP: "<q",
    Primitive.TIMESTAMP_NTZ: "<q",
    Primitive.TIME_NTZ: "<q",
    Primitive.TIMESTAMP_NS: "<q",
    Primitive.TIMESTAMP_NTZ_NS: "<q",
}
_DECIMAL_BYTES: Final = {Primitive.DECIMAL4: 4, Primitive.DECIMAL8: 8, Primitive.DECIMAL16: 16}


def encode_variant(value: Any) -> tuple[bytes, bytes]:
    """Encode a value.

    Args:
        value: None, bool, int, float, Decimal, str, bytes, date, time, datetime, UUID, `Typed`, or a sequence of such
            values, or a mapping from text to such values.

    Returns:
        Metadata and value.

    Raises:
        SchemaError: No variant can hold the value.
        UnsupportedError: It nests too deeply.
    """
    return VariantEncoder().encode(value)


class VariantEncoder:
    """Encodes many values, whose dictionaries are often the same."""

    __slots__ = ("_dictionaries",)

    def __init__(self) -> None:
        self._dictionaries: dict[frozenset[str], tuple[bytes, dict[str, int]]] = {}

    def encode(self, value: Any) -> tuple[bytes, bytes]:
        """Metadata and value; see `encode_variant`."""
        names: set[str] = set()
        _collect_names(value, names, 0)
        metadata, ids = self._dictionary(frozenset(names))
        return metadata, _encode(value, ids)

    def _dictionary(self, names: frozenset[str]) -> tuple[bytes, dict[str, int]]:
        known = self._dictionaries.get(names)
        if known is None:
            encoded = sorted((_utf8(name), name) for name in names)
            ids = {name: index for index, (_, name) in enumerate(encoded)}
            known = self._dictionaries[names] = (encode_metadata([name for name, _ in encoded]), ids)
        return known


def encode_metadata(names: Sequence[bytes]) -> bytes:
    """A dictionary of names, which are sorted, without duplicates.

    Spec: Parquet spec, VariantEncoding.md, Metadata encoding.
    """
    size = sum(map(len, names))
    if size > _MAX_BYTES:
        raise SchemaError(f"the names of a variant take {size} bytes, at most {_MAX_BYTES} can be stored")
    width = _width(max(size, len(names)))
    out = bytearray((_SORTED | (width - 1) << 6,))
    out += len(names).to_bytes(width, "little")
    offset = 0
    out += offset.to_bytes(width, "little")
    for name in names:
        offset += len(name)
        out += offset.to_bytes(width, "little")
    return bytes(out) + b"".join(names)


def _collect_names(value: Any, names: set[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise UnsupportedError(f"a variant nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        for name, field in value.items():
            if not isinstance(name, str):
                raise SchemaError(f"a field of an object is called {name!r:.80}, expected text")
            names.add(name)
            _collect_names(field, names, depth + 1)
    elif isinstance(value, list | tuple):
        for element in value:
            _collect_names(element, names, depth + 1)


def _encode(value: Any, ids: Mapping[str, int]) -> bytes:
    if isinstance(value, Mapping):
        fields = sorted((ids[name], field) for name, field in ((n, _encode(v, ids)) for n, v in value.items()))
        return _container([field for _, field in fields], [number for number, _ in fields])
    if isinstance(value, list | tuple):
        return _container([_encode(element, ids) for element in value], None)
    if not isinstance(value, Typed):
        value = _typed(value)
    return encode_primitive(value)


def _container(values: list[bytes], ids: list[int] | None) -> bytes:
    """An array, or an object whose fields are sorted by name. Spec: Parquet spec, VariantEncoding.md."""
    size = sum(map(len, values))
    if size > _MAX_BYTES:
        raise SchemaError(f"a variant takes {size} bytes, at most {_MAX_BYTES} can be stored")
    offset_size = _width(size)
    is_large = len(values) > _SMALL_COUNT
    if ids is None:
        header = int(is_large) << 2 | offset_size - 1
        out = bytearray((header << 2 | BasicType.ARRAY,))
    else:
        id_size = _width(ids[-1] if ids else 0)
        header = int(is_large) << 4 | id_size - 1 << 2 | offset_size - 1
        out = bytearray((header << 2 | BasicType.OBJECT,))
    out += len(values).to_bytes(4 if is_large else 1, "little")
    for number in ids or ():
        out += number.to_bytes(id_size, "little")
    offset = 0
    out += offset.to_bytes(offset_size, "little")
    for value in values:
        offset += len(value)
        out += offset.to_bytes(offset_size, "little")
    return bytes(out) + b"".join(values)


def encode_primitive(value: Typed) -> bytes:
    """A primitive value of its exact type.

    Raises:
        SchemaError: The type cannot hold the value.
    """
    type_, plain = value.type, value.value
    try:
        if type_ in (Primitive.NULL, Primitive.TRUE, Primitive.FALSE):
            return bytes((type_ << 2,))
        if type_ in _PACKED:
            return bytes((type_ << 2,)) + struct.pack(_PACKED[type_], plain)
        if type_ in _DECIMAL_BYTES:
            return _encode_decimal(type_, plain)
        if type_ is Primitive.UUID:
            return bytes((type_ << 2,)) + plain.bytes
        data = _utf8(plain) if type_ is Primitive.STRING else bytes(plain)
    except (struct.error, OverflowError, TypeError, AttributeError, ValueError) as error:
        raise SchemaError(f"{plain!r:.80} is not a variant of type {type_.name}: {error}") from None
    if type_ is Primitive.STRING and len(data) <= _SHORT_BYTES:
        return bytes((len(data) << 2 | BasicType.SHORT_STRING,)) + data
    if len(data) > _MAX_BYTES:
        raise SchemaError(f"a variant takes {len(data)} bytes, at most {_MAX_BYTES} can be stored")
    return bytes((type_ << 2,)) + len(data).to_bytes(4, "little") + data


def _encode_decimal(type_: Primitive, value: decimal.Decimal) -> bytes:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise SchemaError(f"{value} is not a finite number")
    scale = max(-exponent, 0)
    if scale > MAX_DIGITS or len(digits) + max(exponent, 0) > MAX_DIGITS:
        raise SchemaError(f"{value!r:.80} has more than {MAX_DIGITS} digits")
    unscaled = int(value.scaleb(scale, EXACT))
    return bytes((type_ << 2, scale)) + unscaled.to_bytes(_DECIMAL_BYTES[type_], "little", signed=True)


def _typed(value: Any) -> Typed:
    """The smallest type of a Python value."""
    if value is None:
        return Typed(Primitive.NULL, None)
    if isinstance(value, bool):
        return Typed(Primitive.TRUE if value else Primitive.FALSE, value)
    if isinstance(value, int):
        return _typed_integer(value)
    for class_, convert in _CONVERSIONS:
        if isinstance(value, class_):
            found: Typed = convert(value)
            return found
    raise SchemaError(f"a variant cannot hold {value!r:.80} of type {type(value).__name__}")


def _typed_integer(value: int) -> Typed:
    for type_, bits in ((Primitive.INT8, 7), (Primitive.INT16, 15), (Primitive.INT32, 31), (Primitive.INT64, 63)):
        if -(1 << bits) <= value < 1 << bits:
            return Typed(type_, value)
    return _typed_decimal(decimal.Decimal(value))


def _typed_decimal(value: decimal.Decimal) -> Typed:
    _, digits, exponent = value.as_tuple()
    scale = max(-exponent, 0) if isinstance(exponent, int) else 0
    # as many digits as the type holds, though some of them may be the zeros between point and number
    return Typed(decimal_type(max(len(digits) + max(exponent if isinstance(exponent, int) else 0, 0), scale)), value)


def _typed_time(value: dt.time) -> Typed:
    if value.tzinfo is not None:
        raise SchemaError(f"a variant cannot hold {value!r}: times of variants have no zone")
    micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return Typed(Primitive.TIME_NTZ, micros)


def _typed_timestamp(value: dt.datetime) -> Typed:
    if value.tzinfo is None:
        return Typed(Primitive.TIMESTAMP_NTZ, (value - _EPOCH) // _MICROSECOND)
    return Typed(Primitive.TIMESTAMP, (value - _EPOCH.replace(tzinfo=dt.UTC)) // _MICROSECOND)


_CONVERSIONS: Final[tuple[tuple[Any, Any], ...]] = (
    (float, lambda value: Typed(Primitive.DOUBLE, value)),
    (str, lambda value: Typed(Primitive.STRING, value)),
    (decimal.Decimal, _typed_decimal),
    (bytes | bytearray | memoryview, lambda value: Typed(Primitive.BINARY, value)),
    (dt.datetime, _typed_timestamp),
    (dt.date, lambda value: Typed(Primitive.DATE, value.toordinal() - _EPOCH_DAY)),
    (dt.time, _typed_time),
    (uuid.UUID, lambda value: Typed(Primitive.UUID, value)),
)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SchemaError(f"{text!r:.80} has half of a surrogate pair, which is not UTF-8") from None


def _width(number: int) -> int:
    """Bytes that hold a number: 1 to 4."""
    return max((number.bit_length() + 7) // 8, 1)
