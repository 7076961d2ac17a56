"""A variant of bytes as Python values.

Spec: Parquet spec, VariantEncoding.md.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
import uuid
from collections.abc import Callable
from typing import Any, Final

from skerry.errors import FormatError, UnsupportedError
from skerry.variant.values import EXACT, MAX_DEPTH, RULE, BasicType, Primitive, Typed

__all__ = ["decode_names", "decode_variant", "split_metadata"]

_VERSION: Final = 1
_EPOCH: Final = dt.datetime(1970, 1, 1)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_LENGTH_BYTES: Final = 4
_MAX_SCALE: Final = 38

_INTEGER_BYTES: Final = {Primitive.INT8: 1, Primitive.INT16: 2, Primitive.INT32: 4, Primitive.INT64: 8}
_TIME_BYTES: Final = {
    Primitive.DATE: 4,
    Primitive.TIMESTAMP: 8,
    Primitive.TIMESTAMP_NTZ: 8,
    Primitive.TIME_NTZ: 8,
    Primitive.TIMESTAMP_NS: 8,
    Primitive.TIMESTAMP_NTZ_NS: 8,
}
_DECIMAL_BYTES: Final = {Primitive.DECIMAL4: 4, Primitive.DECIMAL8: 8, Primitive.DECIMAL16: 16}
_CONSTANTS: Final = {Primitive.NULL: None, Primitive.TRUE: True, Primitive.FALSE: False}


def decode_variant(metadata: bytes, value: bytes, *, typed: bool = False) -> Any:
    """Decode a variant.

    Args:
        metadata: Its dictionary of names.
        value: Its value.
        typed: Whether primitive values keep their exact types, as `Typed`.

    Returns:
        None, bool, int, float, Decimal, str, bytes, date, time, datetime, UUID, list or dict. A timestamp in
        nanoseconds, and a date or time that Python's classes cannot express, is a `Typed` in any case.

    Raises:
        FormatError: The bytes break a rule of the format.
        UnsupportedError: The value has a type that later versions of the format define, or nests too deeply.

    Spec: Parquet spec, VariantEncoding.md.
    """
    return _Decoder(decode_names(metadata), value, Typed if typed else _plain).decode(0, len(value), 0)


def decode_names(metadata: bytes) -> list[str]:
    """The names of a dictionary, by their ids.

    Raises:
        FormatError: The bytes break a rule of the format.

    Spec: Parquet spec, VariantEncoding.md, Metadata encoding.
    """
    if not metadata:
        raise FormatError("variant metadata is empty", rule=RULE)
    if metadata[0] & 0x0F != _VERSION:
        raise FormatError(f"variant metadata has version {metadata[0] & 0x0F}, expected {_VERSION}", rule=RULE)
    width = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, width)
    first = 1 + width * (count + 2)
    if first > len(metadata):
        raise FormatError(f"variant metadata has {len(metadata)} bytes, {count} names take {first} or more", rule=RULE)
    names = []
    start = _number(metadata, 1 + width, width)
    for index in range(count):
        end = _number(metadata, 1 + width * (index + 2), width)
        if not start <= end <= len(metadata) - first:
            raise FormatError(f"name {index} of a variant's metadata is at {start} to {end}", rule=RULE)
        names.append(_text(metadata[first + start : first + end]))
        start = end
    return names


def split_metadata(data: bytes) -> tuple[bytes, bytes]:
    """Metadata and value that follow each other, as in bounds of Iceberg.

    Raises:
        FormatError: The bytes break a rule of the format.
    """
    decode_names(data)
    width = (data[0] >> 6) + 1
    first = 1 + width * (_number(data, 1, width) + 2)
    end = first + _number(data, first - width, width)
    return data[:end], data[end:]


def _number(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise FormatError("variant is cut short", offset=at, rule=RULE)
    return int.from_bytes(data[at : at + width], "little")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FormatError("a string of a variant is not UTF-8", rule=RULE) from None


class _Decoder:
    """Decodes the values of one variant.

    Args:
        names: Its dictionary.
        data: Its value.
        make: What becomes of a primitive value.
    """

    __slots__ = ("_data", "_left", "_make", "_names")

    def __init__(self, names: list[str], data: bytes, make: Callable[[Primitive, Any], Any]) -> None:
        self._names = names
        self._data = data
        self._make = make
        self._left = len(data)

    def decode(self, start: int, end: int, depth: int) -> Any:
        """The value that begins at `start` and ends at `end` or before."""
        if start >= end:
            raise FormatError("variant is cut short", offset=start, rule=RULE)
        if depth > MAX_DEPTH:
            raise UnsupportedError(f"a variant nests deeper than {MAX_DEPTH} levels")
        self._left -= 1
        if self._left < 0:  # otherwise a few bytes that are used again and again would fill the memory
            raise FormatError("values of a variant overlap", offset=start, rule=RULE)
        header = self._data[start] >> 2
        basic = self._data[start] & 3
        if basic == BasicType.PRIMITIVE:
            return self._primitive(header, start + 1, end)
        if basic == BasicType.SHORT_STRING:
            return self._make(Primitive.STRING, _text(self._take(start + 1, header, end)))
        return self._container(header, basic == BasicType.OBJECT, start + 1, end, depth)

    def _container(self, header: int, is_object: bool, at: int, end: int, depth: int) -> Any:
        offset_size = (header & 3) + 1
        id_size = (header >> 2 & 3) + 1 if is_object else 0
        is_large = header >> 4 & 1 if is_object else header >> 2 & 1
        width = 4 if is_large else 1
        count = self._count(at, width, end)
        ids = at + width
        offsets = ids + count * id_size
        first = offsets + (count + 1) * offset_size
        if first > end:
            raise FormatError(f"a variant of {count} elements is cut short", offset=at, rule=RULE)
        last = first + _number(self._data, offsets + count * offset_size, offset_size)
        if last > end:
            raise FormatError(f"a variant of {count} elements ends behind its bytes", offset=at, rule=RULE)
        starts = [first + _number(self._data, offsets + index * offset_size, offset_size) for index in range(count)]
        if not is_object:
            return [self.decode(start, last, depth + 1) for start in starts]
        found: dict[str, Any] = {}
        for index, start in enumerate(starts):
            name = self._name(_number(self._data, ids + index * id_size, id_size), at)
            if name in found:
                raise FormatError(f"an object has two fields {name!r:.80}", offset=at, rule=RULE)
            found[name] = self.decode(start, last, depth + 1)
        return found

    def _count(self, at: int, width: int, end: int) -> int:
        if at + width > end:
            raise FormatError("variant is cut short", offset=at, rule=RULE)
        return _number(self._data, at, width)

    def _name(self, number: int, at: int) -> str:
        if number >= len(self._names):
            raise FormatError(
                f"a field has name {number}, the metadata has {len(self._names)} names", offset=at, rule=RULE
            )
        return self._names[number]

    def _take(self, start: int, size: int, end: int) -> bytes:
        if start + size > end:
            raise FormatError(f"a value of {size} bytes is cut short", offset=start, rule=RULE)
        return self._data[start : start + size]

    def _primitive(self, number: int, at: int, end: int) -> Any:
        if number > max(Primitive):
            raise UnsupportedError(f"a variant has a value of type {number}, known are 0 to {max(Primitive)}")
        type_ = Primitive(number)
        if type_ in _CONSTANTS:
            return self._make(type_, _CONSTANTS[type_])
        size = _INTEGER_BYTES.get(type_) or _TIME_BYTES.get(type_)
        if size is not None:
            return self._make(type_, int.from_bytes(self._take(at, size, end), "little", signed=True))
        if type_ in _DECIMAL_BYTES:
            return self._make(type_, self._decimal(_DECIMAL_BYTES[type_], at, end))
        if type_ is Primitive.DOUBLE:
            return self._make(type_, struct.unpack("<d", self._take(at, 8, end))[0])
        if type_ is Primitive.FLOAT:
            return self._make(type_, struct.unpack("<f", self._take(at, 4, end))[0])
        if type_ is Primitive.UUID:
            return self._make(type_, uuid.UUID(bytes=self._take(at, 16, end)))
        length = int.from_bytes(self._take(at, _LENGTH_BYTES, end), "little")
        data = self._take(at + _LENGTH_BYTES, length, end)
        return self._make(type_, _text(data) if type_ is Primitive.STRING else data)

    def _decimal(self, size: int, at: int, end: int) -> decimal.Decimal:
        scale = self._take(at, 1, end)[0]
        if scale > _MAX_SCALE:
            raise FormatError(f"a decimal has scale {scale}, expected 0 to {_MAX_SCALE}", offset=at, rule=RULE)
        unscaled = int.from_bytes(self._take(at + 1, size, end), "little", signed=True)
        return decimal.Decimal(unscaled).scaleb(-scale, EXACT)


def _plain(type_: Primitive, value: Any) -> Any:
    """A value as an object of Python."""
    try:
        if type_ is Primitive.DATE:
            return dt.date.fromordinal(value + _EPOCH_DAY)
        if type_ is Primitive.TIME_NTZ:
            if not 0 <= value < 86_400_000_000:
                return Typed(type_, value)
            return (_EPOCH + dt.timedelta(microseconds=value)).time()
        if type_ is Primitive.TIMESTAMP:
            return (_EPOCH + dt.timedelta(microseconds=value)).replace(tzinfo=dt.UTC)
        if type_ is Primitive.TIMESTAMP_NTZ:
            return _EPOCH + dt.timedelta(microseconds=value)
    except (OverflowError, ValueError):
        return Typed(type_, value)
    return Typed(type_, value) if type_ in (Primitive.TIMESTAMP_NS, Primitive.TIMESTAMP_NTZ_NS) else value
