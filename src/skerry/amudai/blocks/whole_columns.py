"""Whole columns to blocks at once, for the plans that most columns of numbers get.

Blocks are small, so that rows by position read little; encoded one by one, most of the time would go into calls. What
comes out is what `encoder.py` makes of the same plans: packed distances from the least value of the block (or one
value), for integers and for floats that are decimals.

Spec: docs/formats/amudai-encodings.md § 3, § 3.1, § 4 (FusedFrameOfReference, SingleValue, ALP, Plain).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks.packing import carry_forward, write_blocks
from skerry.amudai.encodings.alp import to_decimals
from skerry.amudai.encodings.bit_packing import CHUNK
from skerry.amudai.encodings.numbers import as_bytes
from skerry.amudai.shard.checksum import CHECKSUM_BYTES, checksum

__all__ = ["MAX_BLOCK_VALUES", "FramedBlocks", "frame_decimals", "frame_integers"]

MAX_BLOCK_VALUES: Final = 8192
"""The minority of nulls or values of a block fits an array container: a bitmap of one container."""


@dataclass(frozen=True, slots=True)
class FramedBlocks:
    """Consecutive blocks.

    Args:
        data: uint8[m], the blocks.
        counts: int64[k], values of each.
        sizes: int64[k], bytes of each.
    """

    data: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


def frame_integers(
    values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None, block_values: int, *, has_checksums: bool = True
) -> FramedBlocks:
    """Encode integers as packed distances from the least of their block.

    Args:
        values: int[n] or uint[n], little-endian; at nulls anything.
        valid: bool[n], None if no value is null.
        block_values: Values of a block, at most 8,192.
        has_checksums: Whether blocks end in a checksum.

    Returns:
        The blocks.
    """
    if valid is not None:
        values = carry_forward(values, valid)
    empty = np.zeros(0, np.uint8)
    return _frame(values, empty, empty.view(np.uint32), 0, valid, block_values, has_checksums)


def frame_decimals(
    values: npt.NDArray[Any],
    valid: npt.NDArray[np.bool_] | None,
    decimals: tuple[int, int],
    block_values: int,
    *,
    has_checksums: bool = True,
) -> FramedBlocks:
    """Encode floats as integers of an exponent and a factor, as `frame_integers` does; blocks of others as they are.

    Args:
        values: float32[n] or float64[n]; at nulls anything.
        valid: bool[n], None if no value is null.
        decimals: Exponent and factor.
        block_values: Values of a block, at most 8,192.
        has_checksums: Whether blocks end in a checksum.

    Returns:
        The blocks.
    """
    if valid is not None:
        values = carry_forward(values, valid)
    found = to_decimals(values, *decimals)
    places = decimals[0] << 8 | decimals[1]
    return _frame(found.numbers, as_bytes(values), found.exceptions, places, valid, block_values, has_checksums)


def _frame(
    numbers: npt.NDArray[Any],
    floats: npt.NDArray[np.uint8],
    exceptions: npt.NDArray[np.uint32],
    places: int,
    valid: npt.NDArray[np.bool_] | None,
    block_values: int,
    has_checksums: bool,
) -> FramedBlocks:
    count, size = len(numbers), numbers.itemsize
    blocks = -(-count // block_values)
    chunks = blocks * -(-min(block_values, max(count, 1)) // CHUNK)
    # packed values take no more than plain ones, presence one byte for each; the rest are heads and padding
    room = chunks * CHUNK * size + len(exceptions) * (4 + size) + (0 if valid is None else count) + 96 * blocks
    out = np.zeros(room, np.uint8)
    ends = np.zeros(blocks, np.int64)
    flags = np.zeros(0, np.uint8) if valid is None else as_bytes(valid)
    write_blocks(
        as_bytes(numbers),
        floats,
        exceptions,
        places,
        count,
        size,
        int(numbers.dtype.kind == "i"),
        block_values,
        flags,
        CHECKSUM_BYTES if has_checksums else 0,
        np.zeros(CHUNK * size, np.uint8),
        out,
        ends,
    )
    starts = np.concatenate((np.zeros(min(1, blocks), np.int64), ends[:-1]))
    if has_checksums:
        view = out.data
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            last = end - CHECKSUM_BYTES
            view[last:end] = checksum(view[start:last]).to_bytes(CHECKSUM_BYTES, "little")
    counts = np.full(blocks, block_values, np.int64)
    if blocks:
        counts[-1] = count - block_values * (blocks - 1)
    return FramedBlocks(out[: ends[-1] if blocks else 0], counts, ends - starts)
