"""Bitmap indexes: for every value of a column the rows that have it.

    version 1 = 1 rows values has_null [null_offset] (value offset)* bitmap*
    version 2 = 2 rows values has_null [null_offset null_length] blocks (first_value offset)* length block* bitmap*
    block     = entries (value offset length)*

An offset below 0 encodes a single row: -1 - offset.

Spec: docs/formats/paimon.md § 12.4; Paimon spec, File Index, Index: Bitmap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.bitmaps import leading_roaring32, positions_from_roaring32
from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.file_index.cursor import I32, U8, Cursor
from skerry.paimon.file_index.grouped_bitmaps import encode_bitmaps
from skerry.paimon.file_index.keys import Leaf, key_form, matches, take_key
from skerry.paimon.file_index.records import packed_records
from skerry.paimon.file_index.row_sets import complement, union
from skerry.paimon.file_index.sorted_keys import SortedKeys
from skerry.paimon.values.types import AtomicType, TypeRoot
from skerry.table.predicate import IsNull

__all__ = ["BLOCK_BYTES", "TYPE", "VERSIONS", "BitmapIndex", "can_index", "encode_bitmap_index"]

TYPE: Final = "bitmap"

_VERSION_1: Final = 1
_VERSION_2: Final = 2
VERSIONS: Final = (_VERSION_1, _VERSION_2)
BLOCK_BYTES: Final = 16 << 10
_UNSUPPORTED: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.DECIMAL)
_UNKNOWN_LENGTH: Final = -1


def can_index(type_: AtomicType) -> bool:
    """Whether Paimon has bitmap indexes of a type."""
    return type_.root not in _UNSUPPORTED


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where the bitmap of a value is; a length of -1 is unknown."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class BitmapIndex:
    """An index read from a file; bitmaps are decoded when they are needed.

    Args:
        row_count: Rows of the data file.
        null: Where the bitmap of nulls is; None if there are none.
        keys: The values.
        entries: Where their bitmaps are.
        body: The bitmaps.
    """

    row_count: int
    null: _Entry | None
    keys: tuple[Any, ...]
    entries: tuple[_Entry, ...]
    body: Cursor

    @classmethod
    def decode(cls, cursor: Cursor, type_: AtomicType, row_count: int) -> BitmapIndex:
        """Read an index of either version.

        Raises:
            FormatError: The bytes are not a valid bitmap index.
            UnsupportedError: Its version is unknown.
        """
        version = cursor.take(U8, "version")
        if version not in VERSIONS:
            raise UnsupportedError(f"bitmap index of version {version}", location=cursor.location)
        cursor.check_row_count(row_count)
        value_count = cursor.size("number of values")
        null = None
        if cursor.flag("the flag for nulls"):
            offset = cursor.take(I32, "offset of the nulls")
            null = _Entry(offset, cursor.take(I32, "length of the nulls") if version == _VERSION_2 else _UNKNOWN_LENGTH)
        read = _entries_1 if version == _VERSION_1 else _entries_2
        found = list(read(cursor, type_, value_count))
        if len(found) != value_count:
            raise cursor.error(f"{len(found)} values in blocks, expected {value_count}")
        keys, entries = tuple(key for key, _ in found), tuple(entry for _, entry in found)
        return cls(row_count, null, keys, entries, cursor.rest())

    def select(self, leaf: Leaf) -> npt.NDArray[np.int64]:
        """The rows whose keys satisfy a condition.

        Args:
            leaf: On keys (`skerry.paimon.file_index.keys`).

        Returns:
            int64[n], ascending.

        Raises:
            FormatError: A bitmap is corrupt.
        """
        nulls = self._rows(self.null) if self.null is not None else np.zeros(0, np.int64)
        if isinstance(leaf, IsNull):
            return complement(nulls, self.row_count) if leaf.negated else nulls
        test = matches(leaf)
        wanted = [test(key) for key in self.keys]
        if 2 * sum(wanted) <= len(wanted):
            return self._union(wanted)
        others = self._union([not is_wanted for is_wanted in wanted])
        return complement(np.concatenate([others, nulls]), self.row_count)

    def _union(self, wanted: list[bool]) -> npt.NDArray[np.int64]:
        parts = (self._rows(entry) for entry, is_wanted in zip(self.entries, wanted, strict=True) if is_wanted)
        rows = union(parts)
        assert rows is not None
        return rows

    def _rows(self, entry: _Entry) -> npt.NDArray[np.int64]:
        if entry.offset < 0:
            rows = np.array([-1 - entry.offset], np.int64)
        elif entry.length == _UNKNOWN_LENGTH:
            start = self.body.part(entry.offset, len(self.body.data) - entry.offset, "a bitmap")
            rows, _ = leading_roaring32(
                start.data, max_positions=self.row_count, location=start.location, offset=start.offset
            )
        else:
            exact = self.body.part(entry.offset, entry.length, "a bitmap")
            rows = positions_from_roaring32(
                exact.data, max_positions=self.row_count, location=exact.location, offset=exact.offset
            )
        if len(rows) and rows[-1] >= self.row_count:
            raise self.body.error(f"row {rows[-1]} of {self.row_count}")
        return rows


def _entries_1(cursor: Cursor, type_: AtomicType, value_count: int) -> Iterator[tuple[Any, _Entry]]:
    for _ in range(value_count):
        yield take_key(cursor, type_), _Entry(cursor.take(I32, "offset of a bitmap"), _UNKNOWN_LENGTH)


def _entries_2(cursor: Cursor, type_: AtomicType, value_count: int) -> Iterator[tuple[Any, _Entry]]:
    form = key_form(type_)
    least_bytes = (I32.size if form is None else form.size) + I32.size
    offsets = []
    for _ in range(cursor.count("number of blocks", least_bytes)):
        take_key(cursor, type_)
        offsets.append(cursor.take(I32, "offset of a block"))
    area = Cursor(
        cursor.bytes(cursor.size("length of the blocks"), "blocks"),
        cursor.what,
        cursor.location,
        cursor.offset + cursor.position,
    )
    for offset in offsets:
        block = area.part(offset, len(area.data) - offset, "a block")
        for _ in range(block.count("entries of a block", least_bytes + I32.size)):
            key = take_key(block, type_)
            offset_, length = block.take(I32, "offset of a bitmap"), block.take(I32, "length of a bitmap")
            yield key, _Entry(offset_, length)


# Writing ------------------------------------------------------------------------------------------------------------


def encode_bitmap_index(keys: SortedKeys, *, version: int = _VERSION_2, block_size: int = BLOCK_BYTES) -> bytes:
    """Encode the index of a column.

    Args:
        keys: The column's keys.
        version: 1 or 2 (`file-index.bitmap.<column>.version`).
        block_size: Maximum size of a block in bytes (`file-index.bitmap.<column>.index-block-size`).

    Raises:
        SchemaError: A key does not fit a block.
    """
    nulls = keys.nulls
    rows, starts = keys.rows_by_key()
    counts = np.diff(starts)
    is_one = counts == 1
    encoded, ends = encode_bitmaps(
        np.concatenate([nulls, rows[np.repeat(~is_one, counts)]]),
        np.concatenate([[0, len(nulls)], len(nulls) + np.cumsum(counts[~is_one])]),
    )
    null_size = int(ends[1])
    body_start = 0 if len(nulls) > 1 else null_size
    offsets, lengths = np.empty(len(keys), np.int64), np.full(len(keys), -1)
    offsets[is_one] = -1 - rows[starts[:-1][is_one]]
    offsets[~is_one] = ends[1:-1] - body_start
    lengths[~is_one] = np.diff(ends[1:])
    head = [U8.pack(version), I32.pack(keys.row_count), I32.pack(len(keys)), U8.pack(len(nulls) > 0)]
    if len(nulls):
        head.append(I32.pack(0 if len(nulls) > 1 else -1 - int(nulls[0])))
    if version == _VERSION_1:
        return b"".join([*head, packed_records(keys, [offsets])[0], encoded[body_start:].tobytes()])
    if len(nulls):
        head.append(I32.pack(null_size))
    return b"".join([*head, _encode_blocks(keys, offsets, lengths, block_size), encoded[body_start:].tobytes()])


def _encode_blocks(
    keys: SortedKeys, offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], block_size: int
) -> bytes:
    """The blocks of version 2, after their first keys."""
    entries, places = packed_records(keys, [offsets, lengths])
    room = block_size - I32.size
    if len(keys) and (longest := int(np.diff(places).max())) > room:
        raise SchemaError(
            f"a bitmap index has an entry of {longest} bytes, and index-block-size={block_size} leaves {room}"
        )
    firsts, area, first = [], [], 0
    at = 0
    while first < len(keys):
        last = int(np.searchsorted(places, places[first] + room, side="right")) - 1
        key_size = int(places[first + 1] - places[first]) - 2 * I32.size
        firsts.append(entries[places[first] : places[first] + key_size] + I32.pack(at))
        area.append(I32.pack(last - first) + entries[places[first] : places[last]])
        at += len(area[-1])
        first = last
    return b"".join([I32.pack(len(firsts)), *firsts, I32.pack(at), *area])
