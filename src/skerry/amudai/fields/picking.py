"""Single numbers out of blocks: those encodings that need not be decoded whole are asked for single places.

Rows by position touch a block for one or two of its thousands of values. Packed, plain, constant and dictionary-coded
blocks give them without the others; blocks of other encodings are decoded.

Spec: docs/formats/amudai-encodings.md § 3, § 4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.block_map import Blocks
from skerry.amudai.encodings.decoding import Numbers, check_frames, decode_numbers
from skerry.kernels import kernel, load_u16, load_u32, load_u64

__all__ = ["pick_numbers"]

_MIN_SHARE: Final = 16
"""Blocks of which more than one value in so many is wanted are decoded."""
_ROW_GROUPS: Final = np.array([0, 4, 2, 6, 1, 5, 3, 7], np.int64)
"""FastLanes: where the rows of group k lie, and, as it is its own inverse, which group lies at k."""
_MASKS: Final = np.array([(1 << bits) - 1 for bits in range(64)] + [(1 << 64) - 1], np.uint64)


def pick_numbers(
    blocks: Blocks, dtype: npt.DTypeLike, positions: npt.NDArray[np.int64], *, has_presence: bool
) -> Numbers | None:
    """Some values of numeric blocks.

    Args:
        blocks: The blocks.
        dtype: Type of the values.
        positions: int64[n], which values of all blocks, ascending.
        has_presence: Whether the blocks tell which values are null.

    Returns:
        The wanted values; None if there are so many that decoding all is cheaper.

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
    _pick(data, *arguments, kind.itemsize, int(has_presence), _ROW_GROUPS, _MASKS, values, states)
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
_FOUND: Final = 1
_NULL: Final = 2


@kernel(
    "void(uint8[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, int64, int64[::1], uint64[::1], "
    "out uint64[::1], out uint8[::1])"
)
def _pick(  # noqa: PLR0913  a kernel
    data: Any, starts: Any, ends: Any, counts: Any, places: Any, size: int, has_presence: int, groups: Any, masks: Any,
    values: Any, states: Any,
) -> None:  # fmt: skip
    """Find what can be found without decoding; state 0: nothing, 1: a value, 2: null."""
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
            if form == 1 and presence == 1:
                states[i] = 2
                continue
            if form != 2 or presence != count + 1:
                continue
            flag = data[start + 9 + place]
            if flag > 1:
                continue
            if flag == 0:
                states[i] = 2
                continue
        code = np.int64(load_u16(data, first)) if section >= 2 else 0
        if code == 14:
            states[i] = _pick_entry(data, first, last, count, place, size, groups, masks, values, i)
        else:
            states[i] = _pick_plain(data, first, last, count, place, size, groups, masks, values, i)


@kernel
def _pick_entry(
    data: Any, first: int, last: int, count: int, place: int, size: int, groups: Any, masks: Any, values: Any, i: int
) -> int:
    """A value of a block dictionary whose entries are not encoded."""
    if last - first < 16:
        return 0
    codes_size = np.int64(load_u32(data, first + 2))
    distinct = np.int64(load_u32(data, first + 6))
    entries = first + 16 + codes_size
    if data[first + 10] != 0 or last - entries != distinct * size:
        return 0
    if _pick_plain(data, first + 16, entries, count, place, 4, groups, masks, values, i) == 0:
        return 0
    code = np.int64(values[i])
    if code < 1 or code > distinct:
        return 0
    values[i] = _load(data, entries + (code - 1) * size, size)
    return 1


@kernel
def _pick_plain(
    data: Any, first: int, last: int, count: int, place: int, size: int, groups: Any, masks: Any, values: Any, i: int
) -> int:
    """A value of a plain, constant or bit-packed stream."""
    if last - first < 2:
        return 0
    code = np.int64(load_u16(data, first))
    if code == 1 and last - first == 2 + count * size:
        values[i] = _load(data, first + 2 + place * size, size)
        return 1
    if code == 7 and last - first >= 2 + size:
        values[i] = _load(data, first + 2, size)
        return 1
    header = np.int64(8)
    width_at = first + 2
    if code == 4:
        header = np.int64(16) if size == 8 else np.int64(8)
        width_at = first + 2 + size
    elif code != 2:
        return 0
    if last - first < header:
        return 0
    width = np.int64(data[width_at])
    chunks = (count + 1023) >> 10
    if width < 1 or width > 8 * size or last - first - header != chunks * 128 * width:
        return 0
    lanes = 128 // size
    within = place & 1023
    rest = within & 127
    lane = rest & (lanes - 1)
    row = 8 * groups[(rest // lanes) * (lanes // 16)] + (within >> 7)
    bit = row * width
    word = bit // (8 * size)
    shift = bit - word * 8 * size
    at = first + header + (place >> 10) * 128 * width + (word * lanes + lane) * size
    number = _load(data, at, size) >> np.uint64(shift)
    if shift + width > 8 * size:
        number |= _load(data, at + lanes * size, size) << np.uint64(8 * size - shift)
    number &= masks[width]
    if code == 4:
        number += _load(data, first + 2, size)
    values[i] = number
    return 1


@kernel
def _load(data: Any, at: int, size: int) -> Any:
    """A number of 1, 2, 4 or 8 bytes."""
    if size == 8:
        return load_u64(data, at)
    if size == 4:
        return load_u32(data, at)
    if size == 2:
        return load_u16(data, at)
    return np.uint64(data[at])
