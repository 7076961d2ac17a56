"""Block maps: where the blocks of an encoded buffer are, and which rows each holds.

    map = segment* first positions, segment starts, footer
    segment = head, logical sizes less their minimum, pad to 4, block sizes less their minimum, pad to 8

Spec: docs/formats/amudai-encodings.md § 2.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from skerry.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["SEGMENT_BLOCKS", "BlockMap", "Blocks", "decode_block_map", "encode_block_map"]

_Integers = npt.NDArray[np.int64]

SEGMENT_BLOCKS: Final = 1024
"""Blocks of a segment that is written; read are segments of any number."""
MAX_SIZE: Final = 1 << 32
"""A block has fewer values than this, and fewer bytes."""

_FOOTER: Final = struct.Struct("<5Q")
_HEAD: Final = struct.Struct("<QQIIBBH")
_WIDTHS: Final[dict[int, np.dtype[Any]]] = {8: np.dtype("u1"), 16: np.dtype("<u2"), 32: np.dtype("<u4")}
_RULE: Final = "docs/formats/amudai-encodings.md § 2"


@dataclass(frozen=True, slots=True)
class Blocks:
    """Encoded blocks in one piece of memory, in the order of their rows.

    Args:
        data: uint8[m].
        starts: int64[k], where each block begins in `data`.
        ends: int64[k], where each ends, its checksum included.
        counts: int64[k], how many values each holds; none is 0.
        has_checksums: Whether each ends in a checksum.
        location: The file they were read from, for messages.
        offset: Where in the file `data` begins; None if it was pieced together.
    """

    data: npt.NDArray[np.uint8]
    starts: _Integers
    ends: _Integers
    counts: _Integers
    has_checksums: bool = True
    location: str | None = None
    offset: int | None = None

    @property
    def value_count(self) -> int:
        """Values of all blocks."""
        return int(self.counts.sum())

    def offset_of(self, place: int) -> int | None:
        """The offset in the file of a place in `data`, if that is known."""
        return None if self.offset is None else self.offset + place


@dataclass(frozen=True, slots=True)
class BlockMap:
    """The blocks of an encoded buffer.

    Args:
        positions: int64[k + 1], the first logical position of each block, then the number of values.
        offsets: int64[k + 1], where each block begins, counted from the start of the buffer, then the end of the last.
    """

    positions: _Integers
    offsets: _Integers

    @property
    def block_count(self) -> int:
        """How many blocks there are."""
        return len(self.positions) - 1

    @property
    def value_count(self) -> int:
        """How many values they hold."""
        return int(self.positions[-1])

    def blocks_of(self, first: int, stop: int) -> tuple[int, int]:
        """The blocks that hold positions `first` to `stop` - 1, as the first and the one after the last.

        Args:
            first: A position, at least 0.
            stop: The position after the last, at most `value_count`.

        Returns:
            Ordinals of blocks; equal ones for an empty range.
        """
        if first >= stop:
            return 0, 0
        block = int(np.searchsorted(self.positions, first, "right")) - 1
        return block, int(np.searchsorted(self.positions, stop, "left"))

    def blocks_at(self, positions: npt.NDArray[Any]) -> _Integers:
        """The blocks that hold any of some positions.

        Args:
            positions: Integers in any order, each at least 0 and below `value_count`.

        Returns:
            int64[n] Ordinals of blocks, ascending and distinct.
        """
        return np.unique(np.searchsorted(self.positions, positions, "right") - 1)

    def byte_range(self, first_block: int, stop_block: int) -> tuple[int, int]:
        """Where the bytes of consecutive blocks begin and end, counted from the start of the buffer."""
        if first_block >= stop_block:
            return 0, 0
        return int(self.offsets[first_block]), int(self.offsets[stop_block])

    def blocks(
        self,
        data: Buffer,
        first_block: int,
        stop_block: int,
        *,
        has_checksums: bool,
        location: str | None = None,
        offset: int | None = None,
    ) -> Blocks:
        """Consecutive blocks that have been read.

        Args:
            data: Exactly the bytes of `byte_range(first_block, stop_block)`.
            first_block: Ordinal of the first.
            stop_block: Ordinal of the one after the last.
            has_checksums: Whether each ends in a checksum.
            location: The file, for messages.
            offset: Where in the file `data` begins, for messages.

        Returns:
            The blocks, a view of `data`.

        Raises:
            FormatError: `data` is cut short.
        """
        start, end = self.byte_range(first_block, stop_block)
        found = _as_bytes(data)
        if len(found) != end - start:
            raise _error(f"blocks of {end - start} bytes, found {len(found)}", location, offset)
        edges = self.offsets[first_block : stop_block + 1] - start
        counts = np.diff(self.positions[first_block : stop_block + 1])
        return Blocks(found, edges[:-1], edges[1:], counts, has_checksums, location, offset)

    def blocks_from(
        self, pieces: Sequence[Buffer], ordinals: _Integers, *, has_checksums: bool, location: str | None = None
    ) -> Blocks:
        """Blocks that have been read one by one.

        Args:
            pieces: The bytes of each block.
            ordinals: int64[k], which block each is.
            has_checksums: Whether each ends in a checksum.
            location: The file, for messages.

        Returns:
            The blocks, a copy.

        Raises:
            FormatError: A piece is not as long as its block.
        """
        sizes = np.fromiter((len(memoryview(piece).cast("B")) for piece in pieces), np.int64, len(pieces))
        expected = self.offsets[ordinals + 1] - self.offsets[ordinals]
        if not np.array_equal(sizes, expected):
            raise _error("a block was not read whole", location, None)
        data = np.frombuffer(b"".join(pieces), np.uint8)
        ends = np.cumsum(sizes)
        counts = self.positions[ordinals + 1] - self.positions[ordinals]
        return Blocks(data, ends - sizes, ends, counts, has_checksums, location, None)


def _as_bytes(data: Buffer) -> npt.NDArray[np.uint8]:
    return np.frombuffer(memoryview(data).cast("B"), np.uint8)


def _error(problem: str, location: str | None, offset: int | None) -> FormatError:
    return FormatError(f"block map: {problem}", location=location, offset=offset, rule=_RULE)


# Decoding -----------------------------------------------------------------------------------------------------------


def decode_block_map(data: Buffer, *, buffer_size: int, location: str | None = None, offset: int = 0) -> BlockMap:
    """Decode a block map and check that it is consistent.

    Args:
        data: The map and nothing else.
        buffer_size: Bytes of the whole encoded buffer, the map included.
        location: The file, for messages.
        offset: Where in the file the map begins, for messages.

    Returns:
        The map.

    Raises:
        FormatError: The bytes are not a map of a buffer of that size.
    """
    view = memoryview(data).cast("B")
    size = len(view)
    if size < _FOOTER.size + 16 or size % 8 or size > buffer_size:
        raise _error(
            f"{size} bytes, expected a multiple of 8 from {_FOOTER.size + 16} to {buffer_size}", location, offset
        )
    values, blocks, segments, segment_blocks, data_bytes = _FOOTER.unpack_from(view, size - _FOOTER.size)
    arrays = size - _FOOTER.size - 16 * (segments + 1)
    if arrays < _HEAD.size * segments:
        raise _error(f"{segments} segments in {size} bytes", location, offset)
    if blocks < segments or segments * segment_blocks < blocks or 2 * blocks > arrays:
        raise _error(f"{blocks} blocks in {segments} segments of {segment_blocks}", location, offset)
    if values < blocks or values >= 1 << 63 or (values > 0 and blocks == 0):
        raise _error(f"{values} values in {blocks} blocks", location, offset)
    firsts = np.frombuffer(view, "<u8", segments + 1, arrays)
    starts = np.frombuffer(view, "<u8", segments + 1, arrays + 8 * (segments + 1))
    if firsts[0] != 0 or starts[0] != 0 or firsts[-1] != values or starts[-1] != arrays:
        raise _error("its segments do not cover it", location, offset)
    if (firsts[1:] <= firsts[:-1]).any() or (starts[1:] <= starts[:-1]).any() or (starts % 8).any():
        raise _error("its segments do not ascend", location, offset)
    counts, sizes = [], []
    position = start = 0
    for i, (begin, end) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        head = _decode_segment(view[begin:end], location, offset + begin)
        if head[0] != position or head[0] != firsts[i] or head[1] != start:
            raise _error(f"segment {i} does not go on where the one before ends", location, offset + begin)
        counts.append(head[2])
        sizes.append(head[3])
        position += int(head[2].sum())
        start += int(head[3].sum())
    if position != values or start != data_bytes or sum(map(len, counts)) != blocks:
        raise _error(
            f"blocks of {position} values and {start} bytes, expected {values} and {data_bytes}", location, offset
        )
    if start > buffer_size - size:
        raise _error(f"blocks of {start} bytes in {buffer_size - size}", location, offset)
    return BlockMap(_edges(counts), _edges(sizes))


def _decode_segment(view: memoryview, location: str | None, offset: int) -> tuple[int, int, _Integers, _Integers]:
    """Decode a segment: its first position and offset, and the counts and sizes of its blocks."""
    if len(view) < _HEAD.size:
        raise _error("segment cut short", location, offset)
    position, start, min_count, min_size, count_bits, size_bits, blocks = _HEAD.unpack_from(view)
    if count_bits not in _WIDTHS or size_bits not in _WIDTHS:
        raise _error(f"numbers of {count_bits} and {size_bits} bits, expected 8, 16 or 32", location, offset + 24)
    sizes_at = -(-(_HEAD.size + blocks * count_bits // 8) // 4) * 4
    end = -(-(sizes_at + blocks * size_bits // 8) // 8) * 8
    if end != len(view):
        raise _error(f"segment of {blocks} blocks has {len(view)} bytes, expected {end}", location, offset)
    counts = np.frombuffer(view, _WIDTHS[count_bits], blocks, _HEAD.size).astype(np.int64) + min_count
    sizes = np.frombuffer(view, _WIDTHS[size_bits], blocks, sizes_at).astype(np.int64) + min_size
    if blocks == 0 or counts.min() < 1 or sizes.min() < 1 or counts.max() >= MAX_SIZE or sizes.max() >= MAX_SIZE:
        raise _error("a block without values or bytes, or too large a one", location, offset)
    return position, start, counts, sizes


def _edges(parts: list[_Integers]) -> _Integers:
    edges = np.zeros(sum(map(len, parts)) + 1, np.int64)
    if parts:
        np.cumsum(np.concatenate(parts), out=edges[1:])
    return edges


# Encoding -----------------------------------------------------------------------------------------------------------


def encode_block_map(counts: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> bytes:
    """Encode a block map.

    Args:
        counts: int[k], values of each block.
        sizes: int[k], bytes of each.

    Returns:
        The map, a multiple of 8 bytes.
    """
    positions, offsets = _edges([counts.astype(np.int64)]), _edges([sizes.astype(np.int64)])
    parts, starts = [], [0]
    for first in range(0, len(counts), SEGMENT_BLOCKS):
        stop = min(first + SEGMENT_BLOCKS, len(counts))
        parts.append(_encode_segment(positions[first : stop + 1], offsets[first : stop + 1]))
        starts.append(starts[-1] + len(parts[-1]))
    firsts = np.append(positions[:-1][::SEGMENT_BLOCKS], positions[-1])
    footer = _FOOTER.pack(int(positions[-1]), len(counts), len(parts), SEGMENT_BLOCKS, int(offsets[-1]))
    return b"".join((*parts, firsts.astype("<u8").tobytes(), np.array(starts, "<u8").tobytes(), footer))


def _encode_segment(positions: _Integers, offsets: _Integers) -> bytes:
    counts, sizes = np.diff(positions), np.diff(offsets)
    min_count, min_size = int(counts.min()), int(sizes.min())
    count_bits, size_bits = _width(counts), _width(sizes)
    head = _HEAD.pack(int(positions[0]), int(offsets[0]), min_count, min_size, count_bits, size_bits, len(counts))
    segment = head + (counts - min_count).astype(_WIDTHS[count_bits]).tobytes()
    segment += bytes(-len(segment) % 4) + (sizes - min_size).astype(_WIDTHS[size_bits]).tobytes()
    return segment + bytes(-len(segment) % 8)


def _width(numbers: _Integers) -> int:
    spread = int(numbers.max() - numbers.min())
    return 8 if spread <= 0xFF else 16 if spread <= 0xFFFF else 32
