"""Timestamps of ORC near 1970, which PyArrow reads a second off if the writer's time zone is not UTC.

ORC rounds seconds towards zero but counts nanoseconds upwards, so that a reader subtracts a second from times before
1970 with a fraction. "Before 1970" refers to the writer's zone: that is how Java writes and reads. PyArrow 26 tests it
after converting to its own zone, so that times between 1970 in one zone and in the other come out wrong.

Spec: ORC spec, Timestamp Columns, Stripe Footer, `writerTimezone`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from skerry.compression import decompress_zstd
from skerry.errors import FormatError, UnsupportedError
from skerry.parquet import PageBuffer
from skerry.parquet.metadata import Codec
from skerry.storage import Storage
from skerry.table.rows.nested_arrays import convert_elements, convert_entries

__all__ = ["corrected_times", "protobuf_fields", "writer_zone"]

_RULE: Final = "ORC spec, Stripe Footer"
_UTC: Final = (None, "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z")
_NANOS: Final = 10**9
_WHOLE_NANOS: Final = 999_999
"""Readers subtract no second up to this many nanoseconds, as fractions originally had milliseconds."""
_WIDEST_OFFSET: Final = 16 * 3600
_MAX_FOOTER_BYTES: Final = 16 << 20
_EPOCH: Final = datetime(1970, 1, 1)


def corrected_times(array: pa.Array, zone: Callable[[], str | None]) -> pa.Array:
    """Correct an array to the times that Java reads.

    Args:
        array: As read by PyArrow; contains timestamps without a zone, at any depth.
        zone: Returns the time zone of the stripe's writer; called only if it matters.

    Raises:
        UnsupportedError: The zone is unknown.
    """
    type_ = array.type
    if type_ == pa.timestamp("ns"):
        return _corrected(array, zone)
    if not _has_times(type_):
        return array
    if pa.types.is_struct(type_):
        members = [corrected_times(array.field(index), zone) for index in range(type_.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=array.is_null())
    if pa.types.is_map(type_):
        return convert_entries(
            array, lambda keys: corrected_times(keys, zone), lambda items: corrected_times(items, zone), type_
        )
    return convert_elements(array, lambda values: corrected_times(values, zone), type_)


def _has_times(type_: pa.DataType) -> bool:
    """Whether there are timestamps without a zone in a nested type."""
    inner = [type_.field(index).type for index in range(type_.num_fields)]
    return any(found == pa.timestamp("ns") or _has_times(found) for found in inner)


def _corrected(array: pa.Array, zone: Callable[[], str | None]) -> pa.Array:
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy()
    seconds, nanos = numbers // _NANOS, numbers % _NANOS
    near = np.flatnonzero((nanos > _WHOLE_NANOS) & (np.abs(seconds) < _WIDEST_OFFSET))
    if not len(near):
        return array
    name = zone()
    if name in _UTC:
        return array
    # as PyArrow had it before its correction for times before 1970
    local = seconds[near] + (seconds[near] < 0)
    distinct, places = np.unique(local, return_inverse=True)
    offsets = np.array([_offset(name or "", int(second)) for second in distinct], np.int64)[places]
    found = numbers.copy()
    found[near] = (local - (local - offsets < 0)) * _NANOS + nanos[near]
    return pa.array(found, mask=np.asarray(array.is_null())).view(array.type)


def _offset(name: str, second: int) -> int:
    """The offset from UTC, in seconds, of a zone's clocks when they show a number of seconds since 1970."""
    try:
        offset = ZoneInfo(name).utcoffset(_EPOCH + timedelta(seconds=second))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnsupportedError(
            f"times near 1970 were written in time zone {name!r}, which is unknown on this machine"
        ) from error
    return 0 if offset is None else int(offset.total_seconds())


# The writer's zone --------------------------------------------------------------------------------------------------


def writer_zone(storage: Storage, location: str, tail: bytes, stripe: int) -> str | None:
    """The time zone of a stripe's writer; None if the stripe does not say.

    Args:
        storage: Access to the file.
        location: The file.
        tail: Its tail, as returned by PyArrow.
        stripe: Which stripe.

    Raises:
        FormatError: The stripe's footer is corrupt.
        UnsupportedError: It is compressed in a way that is not supported.
    """
    try:
        sections = dict(protobuf_fields(tail))
        postscript = dict(protobuf_fields(sections[1]))
        stripes = [value for number, value in protobuf_fields(sections[2]) if number == 3]
        found = dict(protobuf_fields(stripes[stripe]))
        size = found.get(4, 0)
        if size > _MAX_FOOTER_BYTES:
            raise FormatError(f"the footer of stripe {stripe} has {size} bytes", location=location, rule=_RULE)
        start = sum(found.get(number, 0) for number in (1, 2, 3))
        data = bytes(storage.read_range(location, start, size))
        footer = _decompressed(data, postscript.get(2, 0), min(postscript.get(3, 1 << 18), _MAX_FOOTER_BYTES))
        names = [value for number, value in protobuf_fields(footer) if number == 3]
        return names[0].decode() if names else None
    except (IndexError, KeyError, ValueError, TypeError, AttributeError, zlib.error) as error:
        raise FormatError(
            f"the footer of stripe {stripe} is not valid: {error}", location=location, rule=_RULE
        ) from error


def _decompressed(data: bytes, kind: int, block_bytes: int) -> bytes:
    """Spec: ORC spec, Compression: chunks with headers of three bytes."""
    if kind == 0:
        return data
    out = bytearray()
    position = 0
    while position < len(data):
        header = int.from_bytes(data[position : position + 3], "little")
        position += 3
        chunk = data[position : position + (header >> 1)]
        position += header >> 1
        out += chunk if header & 1 else _decompressed_chunk(chunk, kind, block_bytes)
        if len(out) > _MAX_FOOTER_BYTES:
            raise ValueError(f"more than {_MAX_FOOTER_BYTES} bytes")
    return bytes(out)


def _decompressed_chunk(chunk: bytes, kind: int, block_bytes: int) -> bytes:
    if kind == 1:
        return zlib.decompressobj(-15).decompress(chunk, block_bytes)
    if kind == 2:
        size, _ = _varint(chunk, 0)
        if size > block_bytes:
            raise ValueError(f"a chunk of {size} bytes")
        return bytes(PageBuffer().decompress(Codec.SNAPPY, memoryview(chunk), size))
    if kind == 5:
        return decompress_zstd(chunk, max_bytes=block_bytes)
    raise UnsupportedError(f"times near 1970 in ORC files of compression {kind} are not supported")


def protobuf_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: integers, and bytes.

    Raises:
        IndexError: It is truncated.
        ValueError: It is not a message.
    """
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        match key & 7:
            case 0:
                value, position = _varint(message, position)
                yield key >> 3, value
            case 2:
                size, position = _varint(message, position)
                if size > len(message) - position:
                    raise ValueError("a field extends beyond the end")
                yield key >> 3, message[position : position + size]
                position += size
            case 1 | 5 as kind:
                position += 8 if kind == 1 else 4
            case kind:
                raise ValueError(f"wire type {kind}")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if byte < 0x80:
            return value, position
