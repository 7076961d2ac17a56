"""BLOB files and descriptors: where the bytes of each value are.

A BLOB file has the values of one column, one after the other, then the lengths of all of them. A descriptor names a
range of a file, so that a value can be passed on without its bytes.

Spec: docs/formats/paimon.md § 8.11.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError, UnsupportedError
from skerry.paimon.values.byte_spans import Longs

__all__ = [
    "BLOB_MAGIC",
    "FOOTER_BYTES",
    "NULL_LENGTH",
    "OVERHEAD_BYTES",
    "PLACEHOLDER_LENGTH",
    "RULE",
    "TRAILER",
    "BlobDescriptor",
    "decode_index",
    "decode_index_length",
    "descriptors",
    "encode_index",
    "encode_record_tail",
    "is_descriptor",
]

RULE: Final = "docs/formats/paimon.md § 8.11"
BLOB_MAGIC: Final = struct.pack("<I", 1_481_511_375)
"""The bytes before each value."""
TRAILER: Final = struct.Struct("<QI")
"""After each value: the length of all of its record, and the CRC-32 of what is before the CRC."""
OVERHEAD_BYTES: Final = len(BLOB_MAGIC) + TRAILER.size
NULL_LENGTH: Final = -1
PLACEHOLDER_LENGTH: Final = -2
"""The length of a value that an older file has."""
FOOTER_BYTES: Final = 5
_FOOTER: Final = struct.Struct("<IB")
_VERSION: Final = 1
_MOST_VARINT_BYTES: Final = 10

_HEAD: Final = struct.Struct("<BQi")
_OLD_HEAD: Final = struct.Struct("<Bi")
_RANGE: Final = struct.Struct("<qq")
_DESCRIPTOR_VERSION: Final = 2
_DESCRIPTOR_MAGIC: Final = 0x424C4F4244455343


# Files --------------------------------------------------------------------------------------------------------------


def decode_index_length(footer: bytes, file_size: int, *, location: str | None = None) -> int:
    """The length of the index before a file's last bytes.

    Args:
        footer: The last `FOOTER_BYTES` of the file.
        file_size: Its size in bytes.
        location: The file, for messages.

    Raises:
        FormatError: The file is too short.
        UnsupportedError: Its version is unknown.
    """
    if len(footer) != FOOTER_BYTES:
        raise FormatError(f"a BLOB file has at least {FOOTER_BYTES} bytes, found {file_size}", location=location)
    length, version = _FOOTER.unpack(footer)
    if version != _VERSION:
        raise UnsupportedError(f"version {version} of BLOB files is not supported", location=location, rule=RULE)
    if length > file_size - FOOTER_BYTES:
        raise FormatError(
            f"the index of {length} bytes does not fit a BLOB file of {file_size} bytes", location=location, rule=RULE
        )
    return int(length)


def decode_index(data: bytes, row_count: int, end: int, *, location: str | None = None) -> tuple[Longs, Longs]:
    """The places of the values of a file.

    Args:
        data: The index: differences of lengths, each as a zigzag number of a variable length.
        row_count: Rows of the file.
        end: Where the index begins, and the last value ends.
        location: The file, for messages.

    Returns:
        int64[rows] where the record of each value begins, and int64[rows] its length, or `NULL_LENGTH` or
        `PLACEHOLDER_LENGTH`.

    Raises:
        FormatError: It is corrupt, or does not have that many rows.
    """
    lengths = np.cumsum(_decode_varints(data, row_count, location))
    is_value = lengths >= 0
    if (lengths < PLACEHOLDER_LENGTH).any() or (lengths[is_value] < OVERHEAD_BYTES).any():
        raise FormatError("a value of a BLOB file has an impossible length", location=location, rule=RULE)
    if (lengths > end).any():
        raise FormatError("a value is longer than its BLOB file", location=location, rule=RULE)
    offsets = np.zeros(row_count + 1, np.float64)
    np.cumsum(np.where(is_value, lengths, 0), out=offsets[1:])
    if offsets[-1] != end:  # exact below 2^53, and far off where the sum would overflow
        raise FormatError(
            f"the values of a BLOB file take {offsets[-1]:.0f} bytes, its index begins at {end}",
            location=location,
            rule=RULE,
        )
    return offsets[:-1].astype(np.int64), lengths


def _decode_varints(data: bytes, count: int, location: str | None) -> Longs:
    """int64[count] Zigzag numbers, seven bits in each byte, the lowest first."""
    found = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(found < 0x80)
    if len(ends) != count or (count and ends[-1] != len(found) - 1) or (not count and len(found)):
        raise FormatError(
            f"the index of a BLOB file has {len(ends)} numbers, the file {count} rows", location=location, rule=RULE
        )
    if not count:
        return np.zeros(0, np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    widths = ends - starts + 1
    if widths.max() > _MOST_VARINT_BYTES - 1:  # 63 bits: more than any length needs
        raise FormatError("a number of the index of a BLOB file is too long", location=location, rule=RULE)
    shifts = 7 * (np.arange(len(found)) - np.repeat(starts, widths))
    bits = (found & 0x7F).astype(np.uint64) << shifts.astype(np.uint64)
    words = np.add.reduceat(bits, starts)
    numbers: Longs = (words >> np.uint64(1)).astype(np.int64) ^ -(words & np.uint64(1)).astype(np.int64)
    return numbers


def encode_index(lengths: Longs) -> bytes:
    """The index and the footer of a file.

    Args:
        lengths: int64[rows] Lengths of records, or `NULL_LENGTH` or `PLACEHOLDER_LENGTH`.
    """
    deltas = np.diff(lengths, prepend=0)
    words = ((deltas << 1) ^ (deltas >> 63)).astype(np.uint64)
    shifts = 7 * np.arange(_MOST_VARINT_BYTES, dtype=np.uint64)
    groups = (words[:, None] >> np.minimum(shifts, 63)) & np.uint64(0x7F)
    groups[:, -1] = words >> np.uint64(63)
    used = groups != 0
    widths = np.where(used.any(axis=1), _MOST_VARINT_BYTES - np.argmax(used[:, ::-1], axis=1), 1)
    places = np.arange(_MOST_VARINT_BYTES)
    groups |= np.where(places < widths[:, None] - 1, np.uint64(0x80), np.uint64(0))
    index = groups[places < widths[:, None]].astype(np.uint8).tobytes()
    return index + _FOOTER.pack(len(index), _VERSION)


def encode_record_tail(length: int, crc: int) -> bytes:
    """What follows the bytes of a value.

    Args:
        length: Bytes of the value.
        crc: The CRC-32 of `BLOB_MAGIC` and the value.
    """
    whole = struct.pack("<Q", length + OVERHEAD_BYTES)
    return whole + struct.pack("<I", zlib.crc32(whole, crc))


# Descriptors --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    """Where the bytes of a value are.

    Args:
        location: The file.
        offset: The first byte.
        length: Bytes; -1 for all from the offset on.
    """

    location: str
    offset: int
    length: int

    @classmethod
    def decode(cls, data: bytes) -> BlobDescriptor:
        """Decode a descriptor.

        Raises:
            FormatError: These bytes are not a descriptor.
        """
        try:
            return cls._decode(data)
        except (struct.error, UnicodeDecodeError):
            raise FormatError(f"{data[:24]!r} is not a descriptor of a BLOB", rule=RULE) from None

    @classmethod
    def _decode(cls, data: bytes) -> BlobDescriptor:
        version = data[0] if data else 0
        if version == _DESCRIPTOR_VERSION:
            _, magic, size = _HEAD.unpack_from(data)
            start = _HEAD.size
        else:
            _, size = _OLD_HEAD.unpack_from(data)
            magic, start = _DESCRIPTOR_MAGIC, _OLD_HEAD.size
        if version not in (1, _DESCRIPTOR_VERSION) or magic != _DESCRIPTOR_MAGIC or size < 0:
            raise FormatError(f"{data[:24]!r} is not a descriptor of a BLOB", rule=RULE)
        offset, length = _RANGE.unpack_from(data, start + size)
        if start + size + _RANGE.size != len(data) or offset < 0 or length < -1:
            raise FormatError(f"the descriptor of a BLOB has impossible numbers: {data[:24]!r}", rule=RULE)
        return cls(data[start : start + size].decode(), offset, length)

    def encode(self) -> bytes:
        """The bytes of the descriptor."""
        name = self.location.encode()
        head = _HEAD.pack(_DESCRIPTOR_VERSION, _DESCRIPTOR_MAGIC, len(name))
        return head + name + _RANGE.pack(self.offset, self.length)


def is_descriptor(value: memoryview) -> bool:
    """Whether bytes begin as a descriptor of version 2 does."""
    return len(value) >= _HEAD.size and _HEAD.unpack_from(value)[:2] == (_DESCRIPTOR_VERSION, _DESCRIPTOR_MAGIC)


def descriptors(location: str, offsets: Longs, lengths: Longs, present: npt.NDArray[np.bool_]) -> pa.Array:
    """Descriptors of ranges of one file, null where there is none.

    Args:
        location: The file.
        offsets: int64[n] The first byte of each.
        lengths: int64[n] Their lengths.
        present: bool[n] Where there is one.
    """
    head = BlobDescriptor(location, 0, 0).encode()[: -_RANGE.size]
    width, kept = len(head) + _RANGE.size, np.flatnonzero(present)
    data = np.empty((len(kept), width), np.uint8)
    data[:, : len(head)] = np.frombuffer(head, np.uint8)
    numbers = np.stack([offsets[kept], lengths[kept]], axis=1).astype("<i8")
    data[:, len(head) :] = np.ascontiguousarray(numbers).view(np.uint8)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(present, width, 0))])
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(present), buffers)
