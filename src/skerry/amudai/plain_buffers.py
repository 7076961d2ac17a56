"""Buffers of blocks whose values are not encoded: the profile `plain`.

Spec: docs/amudai.md, "Blocks" and "Block maps".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.checksum import checksum
from skerry.amudai.encodings.block_map import encode_block_map

__all__ = ["encode_plain_binaries", "encode_plain_block", "encode_plain_numbers"]

_BLOCK_VALUES: Final = 8192
_BLOCK_BYTES: Final = 1 << 16
_PLAIN: Final = struct.pack("<H", 1)
_Flags = npt.NDArray[np.bool_] | None


def encode_plain_block(values: bytes, valid: _Flags) -> bytes:
    """Frame the values section of a block."""
    presence = b""
    if valid is not None and not valid.all():
        presence = b"\x02" + valid.tobytes() if valid.any() else b"\x01"
    body = presence + bytes(-len(presence) % 8) + _PLAIN + values
    body = struct.pack("<II", len(presence), len(values) + 2) + body
    body += bytes(-(len(body) + 4) % 8)
    return body + struct.pack("<I", checksum(body))


def encode_plain_numbers(values: npt.NDArray[Any], valid: _Flags) -> tuple[bytes, int, int]:
    """Encode a buffer of numbers.

    Returns:
        The buffer, how many of its last bytes are the block map, and how many blocks it has.
    """

    def blocks() -> Iterator[tuple[int, bytes]]:
        for start in range(0, len(values), _BLOCK_VALUES):
            part = values[start : start + _BLOCK_VALUES]
            flags = None if valid is None else valid[start : start + _BLOCK_VALUES]
            yield len(part), encode_plain_block(part.tobytes(), flags)

    return _assemble(list(blocks()))


def encode_plain_binaries(
    offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], valid: _Flags, fixed_size: int
) -> tuple[bytes, int, int]:
    """Encode a buffer of byte strings; the result is that of `encode_plain_numbers`."""

    def blocks() -> Iterator[tuple[int, bytes]]:
        start, count = 0, len(offsets) - 1
        while start < count:
            end = int(np.searchsorted(offsets, offsets[start] + _BLOCK_BYTES, "right")) - 1
            end = min(max(end, start + 1), start + _BLOCK_VALUES, count)
            spans = (offsets[start : end + 1] - offsets[start]).astype("<u8").tobytes()
            head = b"\x00" if fixed_size else b"\x08" + spans
            flags = None if valid is None else valid[start:end]
            yield end - start, encode_plain_block(head + data[offsets[start] : offsets[end]].tobytes(), flags)
            start = end

    return _assemble(list(blocks()))


def _assemble(blocks: list[tuple[int, bytes]]) -> tuple[bytes, int, int]:
    counts, sizes = ([count for count, _ in blocks], [len(block) for _, block in blocks])
    body = b"".join(block for _, block in blocks)
    body += bytes(-len(body) % 16)
    block_map = encode_block_map(np.array(counts, np.int64), np.array(sizes, np.int64))
    return body + block_map, len(block_map), len(blocks)
