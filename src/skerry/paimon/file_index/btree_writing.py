"""B-tree files of global indexes, written: of the bytes that Paimon's Java library writes for the same keys.

Everything is laid out at once for all keys of a file, on columns.

Spec: docs/formats/paimon.md § 12.8.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.bitmaps.roaring import roaring64_from_positions
from skerry.paimon.file_index.btree import (
    BLOCK_END,
    BLOCK_TRAILER,
    FOOTER,
    LENGTH,
    MAGIC,
    VERSION,
    is_text,
    number_form,
)
from skerry.paimon.values.types import AtomicType

__all__ = ["SortedRows", "encode_btree"]

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Longs: TypeAlias = npt.NDArray[np.int64]

_NO_COMPRESSION: Final = 0
_ALIGNED, _UNALIGNED = 0, 1
_POSITION_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows in the order of their keys.

    Args:
        keys: The keys, ascending, without nulls: texts as large_binary, all others as int64, timestamps with more than
            3 digits in µs.
        rows: int64[keys] The row of each; ascending where keys are equal.
        nulls: int64[m] Rows without a key, ascending.
    """

    keys: pa.Array
    rows: _Longs
    nulls: _Longs


@dataclass(frozen=True, slots=True)
class _Ragged:
    """Byte strings one after the other.

    Args:
        data: Their bytes.
        lengths: int64[n] The length of each.
    """

    data: _Bytes
    lengths: _Longs

    @property
    def starts(self) -> _Longs:
        """int64[n] Where each begins."""
        starts: _Longs = np.cumsum(self.lengths) - self.lengths
        return starts

    def at(self, number: int) -> bytes:
        """One of them."""
        start = int(self.lengths[:number].sum())
        return self.data[start : start + int(self.lengths[number])].tobytes()


def encode_btree(type_: AtomicType, found: SortedRows, block_bytes: int) -> tuple[bytes, bytes]:
    """Encode a file of an index.

    Args:
        type_: The type of its keys, which `can_index`.
        found: The rows; at least one.
        block_bytes: A block ends with the entry that makes it larger.

    Returns:
        The file, and what the index manifest says about it: `_INDEX_META`.
    """
    parts: list[bytes] = []
    index: list[tuple[bytes, int, int]] = []
    offset = 0
    keys, starts = _distinct(type_, found.keys)
    first = last = None
    if len(starts):
        entries = _entries(keys, _values(found.rows, starts))
        first, last = keys.at(0), keys.at(len(starts) - 1)
        key_starts = keys.starts
        for block, end in _blocks(entries, block_bytes):
            parts += [block, _trailer(block)]
            key = keys.data[key_starts[end] : key_starts[end] + keys.lengths[end]].tobytes()
            index.append((key, offset, len(block)))
            offset += len(block) + BLOCK_TRAILER.size
    nulls = (0, 0)
    if len(found.nulls):
        data = roaring64_from_positions(found.nulls)
        parts += [data, struct.pack("<I", zlib.crc32(data))]
        nulls = (offset, len(data))
        offset += len(data) + 4
    block = _index_block(index)
    parts += [block, _trailer(block), FOOTER.pack(0, 0, 0, offset, len(block), *nulls, VERSION, MAGIC)]
    return b"".join(parts), _meta(first, last, has_nulls=bool(len(found.nulls)))


def _meta(first: bytes | None, last: bytes | None, *, has_nulls: bool) -> bytes:
    missing = (first is None) | (last is None) << 1
    texts = b"".join(LENGTH.pack(len(key)) + key for key in (first or b"", last or b""))
    return texts + bytes([has_nulls, VERSION, missing])


def _distinct(type_: AtomicType, keys: pa.Array) -> tuple[_Ragged, _Longs]:
    """The distinct keys as they are stored, and int64[n] where the rows of each begin."""
    if not len(keys):
        return _Ragged(np.zeros(0, np.uint8), np.zeros(0, np.int64)), np.zeros(0, np.int64)
    changes = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)
    distinct = keys.take(pa.array(starts))
    if is_text(type_):
        offsets = np.frombuffer(distinct.buffers()[1], np.int64)[distinct.offset : distinct.offset + len(distinct) + 1]
        data = np.frombuffer(distinct.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
        return _Ragged(data, np.diff(offsets)), starts
    form, has_nanos = number_form(type_)
    numbers = distinct.to_numpy()
    nanos = np.mod(numbers, 1000) * 1000
    stored = (np.floor_divide(numbers, 1000) if has_nanos else numbers).astype(f"<i{form.size}")
    fixed = _Ragged(stored.view(np.uint8), np.full(len(stored), form.size, np.int64))
    return (_joined(fixed, _varints(nanos)) if has_nanos else fixed), starts


def _values(rows: _Longs, starts: _Longs) -> _Ragged:
    """The rows of each key: their number, and each of them."""
    ids = _varints(rows)
    counts = np.diff(np.append(starts, len(rows)))
    grouped = _Ragged(ids.data, np.add.reduceat(ids.lengths, starts))
    return _joined(_varints(counts), grouped)


def _entries(keys: _Ragged, values: _Ragged) -> _Ragged:
    return _joined(_varints(keys.lengths), keys, _varints(values.lengths), values)


def _varints(numbers: _Longs) -> _Ragged:
    """Numbers of a variable length: seven bits in each byte, the lowest first."""
    width = max((int(numbers.max(initial=0)).bit_length() + 6) // 7, 1)
    shifts = 7 * np.arange(width)
    lengths = 1 + (numbers[:, None] >> shifts[1:] != 0).sum(axis=1)
    places = np.arange(width) < lengths[:, None]
    data = (numbers[:, None] >> shifts & 0x7F) | np.where(np.arange(width) < lengths[:, None] - 1, 0x80, 0)
    return _Ragged(data.astype(np.uint8)[places], lengths.astype(np.int64))


def _joined(*parts: _Ragged) -> _Ragged:
    """Byte strings that consist of those of several parts."""
    lengths = np.sum([part.lengths for part in parts], axis=0)
    data = np.empty(int(lengths.sum()), np.uint8)
    starts = np.cumsum(lengths) - lengths
    for part in parts:
        data[np.repeat(starts - part.starts, part.lengths) + np.arange(len(part.data))] = part.data
        starts = starts + part.lengths
    return _Ragged(data, lengths)


# Blocks --------------------------------------------------------------------------------------------------------------


def _blocks(entries: _Ragged, block_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Blocks, and the number of the last entry of each."""
    ends = np.cumsum(entries.lengths)
    with_positions = np.cumsum(entries.lengths + _POSITION_BYTES)
    room = block_bytes - BLOCK_END.size
    other = np.append(np.flatnonzero(np.diff(entries.lengths)) + 1, len(ends))  # entries unlike those before them
    begin, begin_bytes = 0, 0
    while begin < len(ends):
        change = int(other[np.searchsorted(other, begin, side="right")])
        last = max(int(np.searchsorted(ends, begin_bytes + room, side="right")), begin)
        aligned = last < change or change == len(ends)
        if not aligned:
            before = int(with_positions[begin - 1]) if begin else 0
            last = max(int(np.searchsorted(with_positions, before + room, side="right")), change)
        last = min(last, len(ends) - 1)
        end_bytes = int(ends[last])
        data = entries.data[begin_bytes:end_bytes].tobytes()
        lengths = entries.lengths[begin : last + 1]
        yield _block(data, lengths, aligned=aligned), last
        begin, begin_bytes = last + 1, end_bytes


def _block(data: bytes, lengths: _Longs, *, aligned: bool) -> bytes:
    if aligned:
        return data + BLOCK_END.pack(int(lengths[0]), _ALIGNED)
    positions = (np.cumsum(lengths) - lengths).astype("<i4").tobytes()
    return data + positions + BLOCK_END.pack(len(lengths), _UNALIGNED)


def _index_block(index: list[tuple[bytes, int, int]]) -> bytes:
    if not index:
        return BLOCK_END.pack(0, _UNALIGNED)
    keys = _Ragged(
        np.frombuffer(b"".join(key for key, _, _ in index), np.uint8),
        np.array([len(key) for key, _, _ in index], np.int64),
    )
    handles = _joined(*(_varints(np.array([entry[part] for entry in index], np.int64)) for part in (1, 2)))
    entries = _entries(keys, handles)
    aligned = bool((entries.lengths == entries.lengths[0]).all())
    return _block(entries.data.tobytes(), entries.lengths, aligned=aligned)


def _trailer(block: bytes) -> bytes:
    return BLOCK_TRAILER.pack(_NO_COMPRESSION, zlib.crc32(bytes([_NO_COMPRESSION]), zlib.crc32(block)))
