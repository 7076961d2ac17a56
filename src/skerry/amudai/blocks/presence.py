"""Presence sections: which values of a block are not null.

    0  u8  how: 1 all are null, 2 bytes, 3 a Roaring bitmap
    1      a byte for each value, 1 or 0
       or  u8, whether the bitmap holds nulls; the bitmap

A section without bytes says that no value is null.

Spec: docs/formats/amudai-encodings.md § 3.1.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.codes import Profile
from skerry.amudai.encodings.numbers import U1, U2, store_number
from skerry.amudai.encodings.stack import (
    BAD_POSITION,
    BAD_PRESENCE,
    CUT_SHORT,
    DONE,
    Bytes,
    Integer,
    Machine,
    refuse,
)
from skerry.bitmaps import roaring32_from_positions
from skerry.kernels import kernel, load_u16, load_u32, load_u64, store

__all__ = ["PresenceKind", "decode_presence", "encode_presence", "write_presence"]


class PresenceKind(IntEnum):
    """The first byte of a presence section."""

    ALL_NULL = 1
    PLAIN = 2
    ROARING = 3


BYTES_TO_BITS = np.uint64(0x0102040810204080)
LOW_BITS = np.uint64(0x0101010101010101)
S56 = np.uint64(56)
COOKIE_WITHOUT_RUNS, COOKIE = 12346, 12347
OFFSETS_FROM = 4  # bitmaps with runs and fewer containers have no offsets
MAX_ARRAY = 4096
BITSET_BYTES = 8192
ROARING_HEAD: Final = 18  # bytes before the positions, in a section with a bitmap of one array container


def encode_presence(valid: npt.NDArray[np.bool_] | None, profile: Profile = Profile.BALANCED) -> bytes:
    """Encode which values are not null, in the fewest bytes.

    Args:
        valid: bool[n], None if no value is null.
        profile: `PLAIN` always makes bytes of them.

    Returns:
        The presence section, empty if no value is null.

    Spec: docs/formats/amudai-encodings.md § 3.1.
    """
    if valid is None:
        return b""
    count = int(np.count_nonzero(valid))
    if count == len(valid):
        return b""
    if count == 0:
        return bytes((PresenceKind.ALL_NULL,))
    plain = bytes((PresenceKind.PLAIN,)) + valid.astype(np.uint8).tobytes()
    if profile == Profile.PLAIN:
        return plain
    is_negated = 2 * count > len(valid)
    positions = np.flatnonzero(valid != is_negated)
    roaring = bytes((PresenceKind.ROARING, int(is_negated))) + roaring32_from_positions(positions)
    return roaring if len(roaring) < len(plain) else plain


@kernel
def write_presence(valid: Bytes, first: int, count: int, out: Bytes, at: int) -> Integer:
    """Write the presence section of `count` values, those from `first` on, to `out`; returns how many bytes it has."""
    present = np.int64(0)
    for i in range(count):
        present += np.int64(valid[first + i])
    if present == count:
        return np.int64(0)
    if present == 0:
        store_number(out, at, PresenceKind.ALL_NULL, 1)
        return np.int64(1)
    is_negated = np.int64(2 * present > count)
    fewer = min(present, count - present)
    if ROARING_HEAD + 2 * fewer > count:
        store_number(out, at, PresenceKind.PLAIN, 1)
        for i in range(count):
            store(U1, out, at + 1 + i, np.uint64(valid[first + i]))
        return np.int64(count + 1)
    store_number(out, at, PresenceKind.ROARING, 1)
    store_number(out, at + 1, is_negated, 1)
    store_number(out, at + 2, COOKIE_WITHOUT_RUNS, 4)
    store_number(out, at + 6, 1, 4)  # containers
    store_number(out, at + 10, 0, 2)  # its key
    store_number(out, at + 12, fewer - 1, 2)
    store_number(out, at + 14, 16, 4)  # where it begins
    place = at + ROARING_HEAD
    for i in range(count):
        if np.int64(valid[first + i]) != is_negated:
            store(U2, out, place, np.uint64(i))
            place += 2
    return np.int64(place - at)


@kernel
def decode_presence(machine: Machine, validity: Bytes, source: int, end: int, row: int, count: int) -> Integer:
    """Clear the bits of null values.

    Args:
        machine: The machine.
        validity: Bitmap, least significant bit first; all bits of the block are set.
        source: Where the section begins in `data`; it is not empty.
        end: Where it ends.
        row: The bit of the block's first value.
        count: Values of the block.

    Returns:
        What the step returns.
    """
    data = machine.data
    form = np.int64(data[source])
    if form == PresenceKind.ALL_NULL:
        if end - source != 1:
            return refuse(machine, BAD_PRESENCE, source, 1, end - source)
        change_bits(validity, row, row + count, False)
        return DONE
    if form == PresenceKind.PLAIN:
        if end - source - 1 != count:
            return refuse(machine, BAD_PRESENCE, source, count + 1, end - source)
        return from_bytes(machine, validity, source + 1, row, count)
    if form != PresenceKind.ROARING:
        return refuse(machine, BAD_PRESENCE, source, 3, form)
    if end - source < 6:
        return refuse(machine, CUT_SHORT, source, 6, end - source)
    if data[source + 1] > 1:
        return refuse(machine, BAD_PRESENCE, source + 1, 1, np.int64(data[source + 1]))
    is_valid = data[source + 1] == 0
    if is_valid:
        change_bits(validity, row, row + count, False)
    return from_roaring(machine, validity, source + 2, end, row, count, is_valid)


@kernel
def change_bits(validity: Bytes, start: int, stop: int, is_set: bool) -> None:
    """Set or clear a range of bits."""
    at = start
    while at < stop and at & 7:
        change_bit(validity, at, is_set)
        at += 1
    last = stop >> 3
    for i in range(at >> 3, last):
        validity[i] = np.uint8(255) if is_set else np.uint8(0)
    at = max(at, last << 3)
    while at < stop:
        change_bit(validity, at, is_set)
        at += 1


@kernel
def change_bit(validity: Bytes, at: int, is_set: bool) -> None:
    """Set or clear one bit."""
    bit = np.uint8(1 << (at & 7))
    if is_set:
        validity[at >> 3] |= bit
    else:
        validity[at >> 3] &= ~bit


@kernel
def from_bytes(machine: Machine, validity: Bytes, source: int, row: int, count: int) -> Integer:
    """One byte per value, 1 or 0."""
    data = machine.data
    done = 0
    if row & 7 == 0:
        others = np.uint64(0)
        for i in range(count >> 3):
            word = load_u64(data, source + 8 * i)
            others |= word
            validity[(row >> 3) + i] = np.uint8((word * BYTES_TO_BITS) >> S56)
        if others & ~LOW_BITS:
            return refuse(machine, BAD_PRESENCE, source, 1, 2)
        done = count >> 3 << 3
    for i in range(done, count):
        value = data[source + i]
        if value > 1:
            return refuse(machine, BAD_PRESENCE, source + i, 1, np.int64(value))
        if value == 0:
            change_bit(validity, row + i, False)
    return DONE


@kernel
def from_roaring(
    machine: Machine, validity: Bytes, source: int, end: int, row: int, count: int, is_set: bool
) -> Integer:
    """Set or clear the bits that a Roaring bitmap holds.

    Spec: Roaring spec, Standard 32-bit Roaring Bitmap.
    """
    data = machine.data
    cookie = np.int64(load_u32(data, source))
    has_runs = cookie & 0xFFFF == COOKIE
    if has_runs:
        containers: Integer = (cookie >> 16) + 1
        flags = source + 4
        heads = flags + ((containers + 7) >> 3)
    else:
        if cookie != COOKIE_WITHOUT_RUNS or end - source < 8:
            return refuse(machine, BAD_PRESENCE, source, COOKIE_WITHOUT_RUNS, cookie)
        containers = np.int64(load_u32(data, source + 4))
        flags = source
        heads = source + 8
    at = heads + 4 * containers
    if not has_runs or containers >= OFFSETS_FROM:
        at += 4 * containers
    if at > end:
        return refuse(machine, CUT_SHORT, source, at - source, end - source)
    for i in range(containers):
        first = np.int64(load_u16(data, heads + 4 * i)) << 16
        values = np.int64(load_u16(data, heads + 4 * i + 2)) + 1
        is_run = has_runs and (data[flags + (i >> 3)] >> np.uint8(i & 7)) & 1 == 1
        size = 2 * values if values <= MAX_ARRAY else BITSET_BYTES
        if is_run:
            if end - at < 2:
                return refuse(machine, CUT_SHORT, at, 2, end - at)
            size = 2 + 4 * np.int64(load_u16(data, at))
        if size > end - at:
            return refuse(machine, CUT_SHORT, at, size, end - at)
        if is_run:
            highest = apply_runs(data, validity, at, size, row + first, count - first, is_set)
        elif values <= MAX_ARRAY:
            highest = apply_array(data, validity, at, values, row + first, count - first, is_set)
        else:
            highest = apply_bits(data, validity, at, row + first, count - first, is_set)
        if first + highest >= count:
            return refuse(machine, BAD_POSITION, at, count, first + highest)
        at += size
    if at != end:
        return refuse(machine, BAD_PRESENCE, at, 0, end - at)
    return DONE


@kernel
def apply_array(data: Bytes, validity: Bytes, at: int, values: int, row: int, limit: int, is_set: bool) -> Integer:
    """Change the bits that an array container names; returns the highest position, beyond `limit` if it is."""
    highest: Integer = np.int64(0)
    for i in range(values):
        position = np.int64(load_u16(data, at + 2 * i))
        highest = max(highest, position)
        if position < limit:
            change_bit(validity, row + position, is_set)
    return highest


@kernel
def apply_runs(data: Bytes, validity: Bytes, at: int, size: int, row: int, limit: int, is_set: bool) -> Integer:
    """Change the bits of a run container; see `apply_array`."""
    highest: Integer = np.int64(0)
    for place in range(at + 2, at + size, 4):
        start = np.int64(load_u16(data, place))
        last = start + np.int64(load_u16(data, place + 2))
        highest = max(highest, last)
        if last < limit:
            change_bits(validity, row + start, row + last + 1, is_set)
    return highest


@kernel
def apply_bits(data: Bytes, validity: Bytes, at: int, row: int, limit: int, is_set: bool) -> Integer:
    """Change the bits of a bitset container; see `apply_array`."""
    highest: Integer = np.int64(0)
    for i in range(BITSET_BYTES):
        bits = data[at + i]
        if bits == 0:
            continue
        for bit in range(8):
            if (bits >> np.uint8(bit)) & 1:
                highest = 8 * i + bit
                if highest < limit:
                    change_bit(validity, row + highest, is_set)
    return highest
