"""Encoded buffers of a stripe, of which only the blocks with wanted positions are read.

Spec: docs/formats/amudai-encodings.md § 1; Amudai book, chapter 6, Encoded Buffers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks import BlockMap, Blocks, decode_block_map
from skerry.amudai.fields.selection import Selection
from skerry.amudai.messages import EncodedBuffer
from skerry.amudai.shard.references import Reference, UrlRules
from skerry.amudai.shard.shard_files import ShardFiles
from skerry.errors import FormatError, UnsupportedError
from skerry.storage import redact

__all__ = ["StoredBuffer"]

_SMALL_BYTES: Final = 128 * 1024
"""A buffer of at most this many bytes is read at once: reading its map first would cost more."""
_RULE: Final = "docs/formats/amudai-encodings.md § 1.1"


class StoredBuffer:
    """A buffer that a field's descriptor names; keeps its block map once that was read.

    Args:
        message: The descriptor.
        rules: Resolves its urls.
        location: The file that the descriptor is in.

    Raises:
        FormatError: References are none that can be, or the block map is not the end of the buffer.
        UnsupportedError: A url is absolute, and the caller has not allowed its folder.
    """

    def __init__(self, message: EncodedBuffer, rules: UrlRules, location: str) -> None:
        self.kind = message.kind
        self.has_checksums: bool = message.block_checksums
        self.embeds_presence: bool = message.embedded_presence
        self.embeds_offsets: bool = message.embedded_offsets
        self.reference: Reference = rules.reference(message.buffer, location)
        self.map_reference: Reference | None = None
        self._whole: memoryview | None = None
        self._map: BlockMap | None = None
        if message.HasField("block_map"):
            self.map_reference = rules.reference(message.block_map, location)
            found, whole = self.map_reference, self.reference
            if found.location != whole.location or found.end != whole.end or found.start < whole.start:
                raise FormatError(
                    f"block map at {found.start} to {found.end}, expected it to end the buffer at {whole.start} to "
                    f"{whole.end}",
                    location=redact(location),
                    offset=found.start,
                    rule=_RULE,
                )

    @property
    def shown(self) -> str:
        """The file that holds the buffer, for messages."""
        return redact(self.reference.location)

    @property
    def is_held(self) -> bool:
        """Whether the bytes of the buffer are kept."""
        return self._whole is not None

    def hold(self, whole: memoryview | None) -> None:
        """Keep the bytes of the buffer, or let go of them."""
        self._whole = whole

    def read_whole(self, files: ShardFiles) -> memoryview:
        """All bytes of the buffer."""
        return self._whole if self._whole is not None else files.read([self.reference])[0]

    def block_map(self, files: ShardFiles, value_count: int | None) -> BlockMap:
        """The buffer's block map.

        Args:
            files: Where to read it from.
            value_count: How many values the buffer must hold; None where that is not known.

        Raises:
            FormatError: It is damaged, or has another number of values.
            UnsupportedError: The buffer is not made of blocks.
        """
        if self._map is not None:
            return self._map
        if self.map_reference is None:
            raise UnsupportedError(
                "an encoded buffer without a block map", location=self.shown, offset=self.reference.start, rule=_RULE
            )
        if self._whole is None and self.reference.length <= _SMALL_BYTES:
            self._whole = self.read_whole(files)
        start = self.map_reference.start - self.reference.start
        data = self._whole[start:] if self._whole is not None else files.read([self.map_reference])[0]
        found = decode_block_map(
            data, buffer_size=self.reference.length, location=self.shown, offset=self.map_reference.start
        )
        if value_count is not None and found.value_count != value_count:
            raise FormatError(
                f"the block map has {found.value_count} values, expected {value_count}",
                location=self.shown,
                offset=self.map_reference.start,
                rule=_RULE,
            )
        self._map = found
        return found

    def read_blocks(self, files: ShardFiles, selection: Selection, value_count: int) -> tuple[Blocks, Selection]:
        """Read the blocks that hold some positions.

        Args:
            files: Where to read them from.
            selection: The positions.
            value_count: How many values the buffer must hold.

        Returns:
            The blocks, and the selection within their values.

        Raises:
            FormatError: The buffer is damaged.
            UnsupportedError: It is not made of blocks.
        """
        block_map = self.block_map(files, value_count)
        if selection.is_range:
            first, stop = block_map.blocks_of(selection.start, selection.stop)
            start, end = block_map.byte_range(first, stop)
            blocks = block_map.blocks(
                self._read(files, start, end),
                first,
                stop,
                has_checksums=self.has_checksums,
                location=self.shown,
                offset=self.reference.start + start,
            )
            base = int(block_map.positions[first])
            return blocks, Selection.range(selection.start - base, selection.stop - base)
        ordinals = _blocks_of(block_map, selection)
        if ordinals[-1] - ordinals[0] + 1 == len(ordinals):
            whole, _ = self.read_blocks(files, Selection.range(selection.start, selection.stop), value_count)
            return whole, selection.placed(ordinals, block_map.positions)
        pieces = self._read_pieces(files, block_map, ordinals)
        blocks = block_map.blocks_from(pieces, ordinals, has_checksums=self.has_checksums, location=self.shown)
        return blocks, selection.placed(ordinals, block_map.positions)

    def _read(self, files: ShardFiles, start: int, end: int) -> memoryview:
        if self._whole is not None:
            return self._whole[start:end]
        base = self.reference.start
        return files.read([Reference(self.reference.location, base + start, base + end)])[0]

    def _read_pieces(self, files: ShardFiles, block_map: BlockMap, ordinals: npt.NDArray[np.int64]) -> list[memoryview]:
        starts = block_map.offsets[ordinals].tolist()
        ends = block_map.offsets[ordinals + 1].tolist()
        if self._whole is not None:
            return [self._whole[start:end] for start, end in zip(starts, ends, strict=True)]
        base, location = self.reference.start, self.reference.location
        return files.read(
            [Reference(location, base + start, base + end) for start, end in zip(starts, ends, strict=True)]
        )


def _blocks_of(block_map: BlockMap, selection: Selection) -> npt.NDArray[np.int64]:
    """The blocks that hold any of the positions, int64[k], ascending."""
    first = np.searchsorted(block_map.positions, selection.starts, "right") - 1
    last = np.searchsorted(block_map.positions, selection.stops, "left")
    return Selection.ranges(*_joined(first, last)).positions()


def _joined(
    first: npt.NDArray[np.integer], last: npt.NDArray[np.integer]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ranges of blocks without what the range before has already."""
    starts, stops = first.astype(np.int64), last.astype(np.int64)
    starts[1:] = np.maximum(starts[1:], stops[:-1])
    return starts, stops
