"""B-tree files of global indexes: the row ids of the keys of a column, in blocks of ascending keys.

Spec: docs/formats/paimon.md § 12.8.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.bitmaps.position_sets import union
from skerry.bitmaps.roaring import positions_from_roaring64
from skerry.compression.zstd import decompress_zstd
from skerry.errors import FormatError, UnsupportedError
from skerry.paimon.values.types import AtomicType, TypeRoot

__all__ = [
    "BLOCK_END",
    "BLOCK_TRAILER",
    "FOOTER",
    "FOOTER_BYTES",
    "LENGTH",
    "MAGIC",
    "TYPE",
    "VERSION",
    "BTreeIndex",
    "IndexedKeys",
    "KeyRange",
    "can_index",
    "decode_index_meta",
    "is_text",
    "number_form",
]

TYPE: Final = "btree"
FOOTER_BYTES: Final = 52
_RULE: Final = "docs/formats/paimon.md § 12.8"
FOOTER: Final = struct.Struct("<QIQQIQIII")
"""The end of a file: Bloom filter, index block, nulls, version, magic."""
MAGIC: Final = 0x50425449
VERSION: Final = 1
BLOCK_TRAILER: Final = struct.Struct("<BI")
"""After a block: compression, checksum."""
BLOCK_END: Final = struct.Struct("<IB")
"""The end of a block: bytes of an entry and 0, or number of entries and 1."""
LENGTH: Final = struct.Struct("<i")
"""Before a key in the index manifest."""
_ALIGNED: Final = 0
_CRC: Final = struct.Struct("<I")
_NONE, _ZSTD = 0, 1
_MOST_BYTES: Final = 64 << 20
_MOST_BLOCKS: Final = 32
"""Conditions that reach more blocks are not looked up."""

_I32, _I64 = struct.Struct("<i"), struct.Struct("<q")
_NUMBERS: Final = {
    TypeRoot.TINYINT: struct.Struct("<b"),
    TypeRoot.SMALLINT: struct.Struct("<h"),
    TypeRoot.INT: _I32,
    TypeRoot.BIGINT: _I64,
    TypeRoot.DATE: _I32,
    TypeRoot.DECIMAL: _I64,
    TypeRoot.TIMESTAMP: _I64,
    TypeRoot.TIMESTAMP_LTZ: _I64,
}
_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_TIMESTAMPS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_LONG_DECIMAL: Final = 18
_MILLIS, _MICROS = 3, 6


def can_index(type_: AtomicType) -> bool:
    """Whether keys of a type are understood: integers, short decimals, days, timestamps up to µs, and strings."""
    if type_.root is TypeRoot.DECIMAL:
        return type_.precision <= _LONG_DECIMAL
    if type_.root in _TIMESTAMPS:
        return type_.precision <= _MICROS
    return type_.root in _NUMBERS or is_text(type_)


def is_text(type_: AtomicType) -> bool:
    """Whether keys are the bytes of strings."""
    return type_.root in _TEXTS


def number_form(type_: AtomicType) -> tuple[struct.Struct, bool]:
    """The layout of keys that are numbers, and whether the number is of milliseconds, with nanoseconds after it.

    Args:
        type_: A type that `can_index` and is not a text.
    """
    return _NUMBERS[type_.root], type_.root in _TIMESTAMPS and type_.precision > _MILLIS


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys between two bounds, which may be missing.

    Args:
        least: No key is less; strings as bytes.
        greatest: No key is greater.
    """

    least: Any = None
    greatest: Any = None

    def is_below(self, key: Any) -> bool:
        """Whether all of it is less than a key."""
        return self.greatest is not None and self.greatest < key

    def is_above(self, key: Any) -> bool:
        """Whether all of it is greater than a key."""
        return self.least is not None and self.least > key


@dataclass(frozen=True, slots=True)
class IndexedKeys:
    """What the index manifest says about the keys of a file.

    Args:
        least: The least key, as conditions compare it; None if all rows are null.
        greatest: The greatest key; None if all rows are null.
        has_nulls: Whether some rows have no key.
    """

    least: Any
    greatest: Any
    has_nulls: bool

    def may_hold(self, ranges: Sequence[KeyRange]) -> bool:
        """Whether a key can be in one of some ranges."""
        if self.least is None or self.greatest is None:
            return False
        return any(not (range_.is_below(self.least) or range_.is_above(self.greatest)) for range_ in ranges)


def decode_index_meta(type_: AtomicType, data: bytes, location: str) -> IndexedKeys:
    """Decode `_INDEX_META` of a file.

    Args:
        type_: The type of its keys, which `can_index`.
        data: The bytes.
        location: The file, for messages.

    Raises:
        FormatError: They are of another layout.

    Spec: docs/formats/paimon.md § 12.8.
    """

    def wrong(what: str) -> FormatError:
        return FormatError(f"the index manifest's description of the file {what}", location=location, rule=_RULE)

    keys: list[bytes] = []
    position = 0
    for _ in range(2):
        if position + LENGTH.size > len(data):
            raise wrong(f"of {len(data)} bytes has no two keys")
        length = LENGTH.unpack_from(data, position)[0]
        position += LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise wrong(f"of {len(data)} bytes has a key of {length} bytes at {position}")
        keys.append(data[position : position + length])
        position += length
    if position == len(data):
        raise wrong(f"of {len(data)} bytes ends after its keys")
    has_nulls, *rest = data[position:]
    missing = rest[1] if len(rest) > 1 else 0

    def key(number: int) -> Any:
        if missing >> number & 1 or (not keys[number] and not is_text(type_)):  # Java 1.4.2 does not mark missing keys
            return None
        return _decode_key(type_, keys[number], location)

    return IndexedKeys(key(0), key(1), bool(has_nulls))


@dataclass(frozen=True)
class BTreeIndex:
    """A file of an index.

    Args:
        fetch: Reads a range of it: offset, length.
        size: Its bytes.
        type: The type of its keys.
        location: The file, for messages.
    """

    fetch: Callable[[int, int], bytes]
    size: int
    type: AtomicType
    location: str

    def row_ids(self, ranges: Sequence[KeyRange], limit: int) -> npt.NDArray[np.int64] | None:
        """The rows whose keys are in some ranges.

        Args:
            ranges: The ranges.
            limit: Row ids are less.

        Returns:
            int64[n] Ascending row ids, counted from the first row of the index; None if too many blocks would be read.

        Raises:
            FormatError: The file is corrupt.
            UnsupportedError: Its version or compression is unknown.
        """
        blocks = list(self._reached(ranges))
        if len(blocks) > _MOST_BLOCKS:
            return None
        found = []
        for offset, length in blocks:
            for key, value in self._entries(self._block(offset, length)):
                if any(not (range_.is_below(key) or range_.is_above(key)) for range_ in ranges):
                    found.append(_row_ids(_Reader(value, self.location)))
        rows = union(found)
        if len(rows) and (rows[0] < 0 or rows[-1] >= limit):
            raise self._wrong(f"has row {int(rows[-1])} of {limit}")
        return rows

    def null_ids(self, limit: int) -> npt.NDArray[np.int64]:
        """The rows without a key.

        Args:
            limit: Row ids are less.

        Returns:
            int64[n] Ascending row ids, counted from the first row of the index.

        Raises:
            FormatError: The file is corrupt.
            UnsupportedError: Its version is unknown.
        """
        *_, offset, length, _, _ = self._footer()
        if not length:
            return np.zeros(0, np.int64)
        stored = self._fetch(offset, length + _CRC.size)
        data = stored[:length]
        if zlib.crc32(data) != _CRC.unpack(stored[length:])[0]:
            raise self._wrong("has a bitmap of nulls with a wrong checksum")
        rows = positions_from_roaring64(data, max_positions=limit, location=self.location, offset=offset)
        if len(rows) and rows[-1] >= limit:
            raise self._wrong(f"has row {int(rows[-1])} of {limit}")
        return rows

    # ---- blocks ----

    def _footer(self) -> tuple[int, ...]:
        """The numbers at the end: offset, length and more of the Bloom filter, the index block, the nulls."""
        found = FOOTER.unpack(self._fetch(self.size - FOOTER_BYTES, FOOTER_BYTES))
        *_, version, magic = found
        if magic != MAGIC:
            raise self._wrong("is not a b-tree")
        if version != VERSION:
            raise UnsupportedError(f"version {version} of b-trees is not supported", location=self.location)
        return found

    def _reached(self, ranges: Sequence[KeyRange]) -> Iterator[tuple[int, int]]:
        """The blocks that may have keys of some ranges: each is listed with its greatest key."""
        *_, offset, length, _, _, _, _ = self._footer()
        before = None
        for key, value in self._entries(self._block(offset, length)):
            reader = _Reader(value, self.location)
            handle = reader.number(), reader.number()
            if any(not range_.is_above(key) and (before is None or not range_.is_below(before)) for range_ in ranges):
                yield handle
            before = key

    def _fetch(self, offset: int, length: int) -> bytes:
        if offset < 0 or length > self.size - offset:
            raise self._wrong(f"of {self.size} bytes has a block of {length} bytes at {offset}")
        return self.fetch(offset, length)

    def _block(self, offset: int, length: int) -> bytes:
        stored = self._fetch(offset, length + BLOCK_TRAILER.size)
        data, (compression, crc) = stored[:length], BLOCK_TRAILER.unpack(stored[length:])
        if zlib.crc32(bytes([compression]), zlib.crc32(data)) != crc:
            raise self._wrong("has a block with a wrong checksum")
        if compression == _NONE:
            return data
        if compression != _ZSTD:
            raise UnsupportedError(f"compression {compression} of b-trees is not supported", location=self.location)
        reader = _Reader(data, self.location)
        expected = reader.number()
        if expected > _MOST_BYTES:
            raise self._wrong(f"has a block of {expected} bytes")
        plain = decompress_zstd(data[reader.position :], max_bytes=expected)
        if len(plain) != expected:
            raise self._wrong("has a block of another length than it says")
        return bytes(plain)

    def _entries(self, block: bytes) -> Iterator[tuple[Any, bytes]]:
        """Keys and values of a block."""
        if len(block) < BLOCK_END.size:
            raise self._wrong("has a block without an end")
        number, kind = BLOCK_END.unpack(block[-BLOCK_END.size :])
        end = len(block) - BLOCK_END.size - (0 if kind == _ALIGNED else 4 * number)
        if end < 0:
            raise self._wrong(f"has a block of {len(block)} bytes with {number} entries")
        reader = _Reader(block[:end], self.location)
        while reader.position < end:
            key = _decode_key(self.type, reader.bytes(reader.number()), self.location)
            yield key, reader.bytes(reader.number())

    def _wrong(self, what: str) -> FormatError:
        return FormatError(f"the file {what}", location=self.location, rule=_RULE)


def _decode_key(type_: AtomicType, data: bytes, location: str) -> Any:
    """A key as `skerry.paimon.file_index.keys.as_key` gives it."""
    if is_text(type_):
        return data
    form, has_nanos = number_form(type_)
    if len(data) < form.size or (len(data) > form.size and not has_nanos):
        raise FormatError(
            f"the file has a key of {len(data)} bytes, expected {form.size}", location=location, rule=_RULE
        )
    number = form.unpack_from(data)[0]
    return number * 1000 + _Reader(data[form.size :], location).number() // 1000 if has_nanos else number


class _Reader:
    """Reads numbers and bytes one after the other."""

    def __init__(self, data: bytes, location: str) -> None:
        self._data = data
        self._location = location
        self.position = 0

    def number(self) -> int:
        """A number of a variable length, seven bits in each byte, the lowest first."""
        value = 0
        for shift in range(0, 63, 7):
            if self.position >= len(self._data):
                break
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise FormatError("the file has a number that does not end", location=self._location, rule=_RULE)

    def bytes(self, length: int) -> bytes:
        """Some bytes."""
        found = self._data[self.position : self.position + length]
        if len(found) < length:
            raise FormatError("the file has an entry that does not end", location=self._location, rule=_RULE)
        self.position += length
        return found

    @property
    def left(self) -> int:
        """Bytes that are not read yet."""
        return len(self._data) - self.position


def _row_ids(reader: _Reader) -> npt.NDArray[np.int64]:
    count = reader.number()
    if count > reader.left:
        raise FormatError("the file has fewer row ids than it says", location=reader._location, rule=_RULE)  # noqa: SLF001
    return np.fromiter((reader.number() for _ in range(count)), np.int64, count)
