"""Single numbers out of blocks, without decoding the blocks where their encoding allows that.

Rows by position touch a block for one or two of its thousands of values. Packed, plain, constant and dictionary-coded
blocks give them without the others; blocks of other encodings are decoded.

Spec: docs/formats/amudai-encodings.md § 3, § 4.1, § 4.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks.block_map import Blocks
from skerry.amudai.blocks.decoding import Numbers, check_frames, decode_numbers
from skerry.amudai.blocks.presence import PresenceKind
from skerry.amudai.encodings.bit_packing import CHUNK, ROW_BYTES, packed_value
from skerry.amudai.encodings.codes import Encoding
from skerry.amudai.encodings.numbers import load_any
from skerry.kernels import kernel, load_u16, load_u32

__all__ = ["take_numbers"]

_MIN_SHARE: Final = 16
"""Blocks are decoded if more than one value in this many is wanted."""


def take_numbers(
    blocks: Blocks, dtype: npt.DTypeLike, positions: npt.NDArray[np.int64], *, has_presence: bool
) -> Numbers | None:
    """Some values of numeric blocks.

    Args:
        blocks: The blocks.
        dtype: Type of the values.
        positions: int64[n], which values of all blocks, ascending.
        has_presence: Whether the blocks say which values are null.

    Returns:
        The wanted values; None if decoding all of them is cheaper.

    Raises:
        FormatError: A checksum does not match, or a block that is decoded breaks the rules of its encoding.
    """
    kind = np.dtype(dtype)
    if len(positions) * _MIN_SHARE > blocks.value_count:
        return None
    ends = check_frames(blocks)
    edges = np.append(0, np.cumsum(blocks.counts))
    owners = np.searchsorted(edges, positions, "right") - 1
    values = np.zeros(len(positions), np.uint64)
    states = np.zeros(len(positions), np.uint8)
    data = np.ascontiguousarray(blocks.data)
    places = positions - edges[owners]
    arguments = (blocks.starts[owners], ends[owners], blocks.counts[owners], places)
    take(data, *arguments, kind.itemsize, int(has_presence), values, states)
    found = values.astype(f"u{kind.itemsize}").view(kind)
    present = states != _NULL
    left = np.flatnonzero(states == _LEFT)
    if len(left):
        some = np.unique(owners[left])
        chosen = blocks.counts[some]
        part = replace(blocks, starts=blocks.starts[some], ends=ends[some], counts=chosen, has_checksums=False)
        decoded = decode_numbers(part, kind, has_presence=has_presence)
        bases = np.append(0, np.cumsum(chosen))
        at = bases[np.searchsorted(some, owners[left])] + places[left]
        found[left] = decoded.values[at]
        if decoded.validity is not None:
            present[left] = (decoded.validity[at >> 3] >> (at & 7).astype(np.uint8)) & 1
    nulls = len(present) - int(np.count_nonzero(present))
    return Numbers(found, np.packbits(present, bitorder="little") if nulls else None, nulls)


_LEFT: Final = 0
"""Not found without decoding."""
_FOUND: Final = 1
_NULL: Final = 2


@kernel(
    "void(uint8[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, int64, out uint64[::1], out uint8[::1])"
)
def take(
    data: Any, starts: Any, ends: Any, counts: Any, places: Any, size: int, has_presence: int, values: Any, states: Any
) -> None:
    """Find what can be found without decoding a block.

    Args:
        data: The encoded bytes.
        starts: int64[n], where the block of each value begins.
        ends: int64[n], where it ends, its checksum left out.
        counts: int64[n], values of the block.
        places: int64[n], which of them is wanted.
        size: Bytes of a value.
        has_presence: Whether blocks may have a presence section.
        values: uint64[n], takes the values.
        states: uint8[n], takes _FOUND, _NULL or _LEFT.
    """
    for i in range(len(places)):
        start, end, count, place = starts[i], ends[i], counts[i], places[i]
        if end - start < 10:
            continue
        presence = np.int64(load_u32(data, start))
        section = np.int64(load_u32(data, start + 4))
        first = start + 8 + ((presence + 7) & ~7)
        last = first + section
        if last > end or (presence > 0 and has_presence == 0):
            continue
        if presence > 0:
            form = data[start + 8]
            if form == PresenceKind.ALL_NULL and presence == 1:
                states[i] = _NULL
                continue
            if form != PresenceKind.PLAIN or presence != count + 1:
                continue
            flag = data[start + 9 + place]
            if flag > 1:
                continue
            if flag == 0:
                states[i] = _NULL
                continue
        code = np.int64(load_u16(data, first)) if section >= 2 else 0
        if code == Encoding.BLOCK_DICTIONARY:
            states[i] = take_entry(data, first, last, count, place, size, values, i)
        else:
            states[i] = take_value(data, first, last, count, place, size, values, i)


@kernel
def take_entry(data: Any, first: int, last: int, count: int, place: int, size: int, values: Any, i: int) -> int:
    """A value of a block dictionary whose entries are not encoded."""
    if last - first < 16:
        return _LEFT
    codes_size = np.int64(load_u32(data, first + 2))
    distinct = np.int64(load_u32(data, first + 6))
    entries = first + 16 + codes_size
    if data[first + 10] != 0 or last - entries != distinct * size:
        return _LEFT
    if take_value(data, first + 16, entries, count, place, 4, values, i) == _LEFT:
        return _LEFT
    code = np.int64(values[i])
    if code < 1 or code > distinct:
        return _LEFT
    values[i] = load_any(data, entries + (code - 1) * size, size)
    return _FOUND


@kernel
def take_value(data: Any, first: int, last: int, count: int, place: int, size: int, values: Any, i: int) -> int:
    """A value of a plain, constant or bit-packed stream."""
    if last - first < 2:
        return _LEFT
    code = np.int64(load_u16(data, first))
    if code == Encoding.PLAIN and last - first == 2 + count * size:
        values[i] = load_any(data, first + 2 + place * size, size)
        return _FOUND
    if code == Encoding.SINGLE_VALUE and last - first >= 2 + size:
        values[i] = load_any(data, first + 2, size)
        return _FOUND
    header = np.int64(8)
    width_at = first + 2
    if code == Encoding.FUSED_FRAME_OF_REFERENCE:
        header = np.int64(16) if size == 8 else np.int64(8)
        width_at = first + 2 + size
    elif code != Encoding.BIT_PACKING:
        return _LEFT
    if last - first < header:
        return _LEFT
    width = np.int64(data[width_at])
    chunks = (count + CHUNK - 1) // CHUNK
    if width < 1 or width > 8 * size or last - first - header != chunks * ROW_BYTES * width:
        return _LEFT
    number = packed_value(data, first + header, width, place, size)
    if code == Encoding.FUSED_FRAME_OF_REFERENCE:
        number += load_any(data, first + 2, size)
    values[i] = number
    return _FOUND
