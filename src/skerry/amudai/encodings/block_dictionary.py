"""Block dictionary: the distinct values of a block, and a code for each value.

    numbers   0  u16  code 14
              2  u32  bytes of the codes
              6  u32  number of entries
             10  u8   whether the entries are a stream
             16  the codes, a stream of uint32; the entries

    bytes     0  u16  code 14
              2  u32  bytes of the codes
              6  u32  bytes of the lengths
             10  u32  number of entries
             14  u8   whether the lengths are a stream
             16  the codes, a stream of uint32; zeros to a multiple of 8; the length of each entry (u32), unless all
                 values have one size; the bytes of the entries

Code 0 is null, code c is entry c - 1.

Spec: docs/formats/amudai-encodings.md § 4.3, § 5.2, § 5.4.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.byte_values import (
    SLACK,
    ByteEncoder,
    Output,
    Strings,
    copy_short,
    make_room,
    write_offset,
)
from skerry.amudai.encodings.codes import UINT32, Encoding, Profile
from skerry.amudai.encodings.numbers import U1, U8, Values, as_bytes, load_any, move, pad, store_any, value_bytes
from skerry.amudai.encodings.plans import BIT_PACKED, FRAMED, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    CUT_SHORT,
    DECODE,
    DONE,
    FIXED,
    OUT_OF_DICTIONARY,
    TOO_MANY,
    WANT_BYTES,
    WANT_MEMORY,
    WRONG_SIZE,
    Bytes,
    Integer,
    Machine,
    Stream,
    check_header,
    push,
    push_part,
    push_to_finish,
    refuse,
    reserve,
)
from skerry.kernels import kernel, load_u32, load_u64, store

__all__ = [
    "CODE",
    "decode",
    "decode_bytes",
    "encode",
    "encode_bytes",
    "finish",
    "finish_bytes",
    "number_spans",
    "number_values",
    "suits",
    "suits_bytes",
]

CODE: Final = Encoding.BLOCK_DICTIONARY
HEADER: Final = 16
_MAX_ENTRIES: Final = 4096
"""Most entries of a dictionary that is worth a try."""
MIX = np.uint64(0x9E3779B97F4A7C15)
S29, S32, S3 = np.uint64(29), np.uint64(32), np.uint64(3)
LAST = np.array([(1 << 8 * size) - 1 for size in range(8)], np.uint64)  # masks for the last bytes of a value


# Numbers ------------------------------------------------------------------------------------------------------------


def suits(sample: Values, profile: Profile) -> Plan | None:
    """The plan worth a try, if values recur; see `encodings`."""
    if sample.itemsize == 1 or number_values(sample, min(_MAX_ENTRIES, len(sample) // 2 + 1)) is None:
        return None
    return Plan(CODE, (BIT_PACKED,) if sample.dtype.kind == "f" else (BIT_PACKED, FRAMED))


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode numbers; see `encodings`."""
    numbered = number_values(values, len(values))
    assert numbered is not None
    numbers, firsts = numbered
    codes = encoder.stream(numbers + np.uint32(1), plan.part(0) or BIT_PACKED)
    part = plan.part(1) if len(codes) % 8 == 0 else None  # packed bits would not be aligned
    flag, entries = encoder.part(values[firsts], part)
    header = struct.pack("<IIB", len(codes), len(firsts), flag)
    return make_stream(CODE, HEADER, header, codes, entries)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have codes and entries decoded; see `encodings`."""
    status = check_header(machine, stream, True, HEADER)
    if status != DONE:
        return status
    source, end, count = stream.source, stream.end, stream.count
    size = value_bytes(stream.kind)
    body = source + HEADER
    codes_end = body + np.int64(load_u32(machine.data, source + 2))
    entries = np.int64(load_u32(machine.data, source + 6))
    if entries > count:
        return refuse(machine, TOO_MANY, source + 6, count, entries)
    if codes_end > end:
        return refuse(machine, CUT_SHORT, body, codes_end - body, end - body)
    if not reserve(machine, 4 * count + (entries + 1) * size):
        return WANT_MEMORY
    values = stream.scratch + 4 * count
    store_any(machine.memory, values, U8, size)  # code 0: null
    push_to_finish(machine, stream)
    push_part(machine, source + 10, codes_end, end, entries, stream.kind, values + size)
    return push(machine, DECODE, body, codes_end, count, UINT32, stream.scratch)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Look the codes up."""
    memory, count, size = machine.memory, stream.count, value_bytes(stream.kind)
    entries = np.int64(load_u32(machine.data, stream.source + 6))
    codes = stream.scratch
    values = codes + 4 * count
    largest = U8
    for i in range(count):
        largest = max(largest, load_u32(memory, codes + 4 * i))
    if largest > np.uint64(entries):
        return refuse(machine, OUT_OF_DICTIONARY, stream.source + HEADER, entries, np.int64(largest))
    for i in range(count):
        at = values + np.int64(load_u32(memory, codes + 4 * i)) * size
        store_any(memory, stream.target + i * size, load_any(memory, at, size), size)
    return DONE


# Strings of bytes ---------------------------------------------------------------------------------------------------


def suits_bytes(sample: Strings, profile: Profile) -> Plan | None:
    """The plan worth a try, if values recur; see `encodings`."""
    # the reference implementation misreads dictionaries of values of one size
    if sample.fixed_size is not None or number_spans(sample.data, sample.offsets, sample.count // 2 + 1) is None:
        return None
    return Plan(CODE, (BIT_PACKED, BIT_PACKED))


def encode_bytes(strings: Strings, plan: Plan, encoder: ByteEncoder) -> bytes:
    """Encode strings of bytes; see `encodings`."""
    numbered = number_spans(strings.data, strings.offsets, strings.count)
    assert numbered is not None
    numbers, firsts = numbered
    codes = numbers + np.uint32(1)
    if strings.valid is not None:
        codes[~strings.valid] = 0
    starts, ends = strings.offsets[firsts], strings.offsets[firsts + 1]
    entries = b"".join(
        strings.data[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    packed = encoder.stream(codes, plan.part(0) or BIT_PACKED)
    flag, lengths = 0, b""
    if strings.fixed_size is None:
        sizes = (ends - starts).astype("<u4")
        part = plan.part(1)
        flag, lengths = (0, sizes.tobytes()) if part is None else (1, encoder.stream(sizes, part))
    header = struct.pack("<IIIB", len(packed), len(lengths), len(firsts), flag)
    return make_stream(CODE, HEADER, header, pad(packed), lengths, entries)


@kernel
def decode_bytes(machine: Machine, stream: Stream) -> Integer:
    """Have codes and lengths decoded; see `encodings`."""
    status = check_header(machine, stream, True, HEADER)
    if status != DONE:
        return status
    data, source, count = machine.data, stream.source, stream.count
    codes_end = source + HEADER + np.int64(load_u32(data, source + 2))
    entries = np.int64(load_u32(data, source + 10))
    if entries > count:
        return refuse(machine, TOO_MANY, source + 10, count, entries)
    lengths, first = find_entries(machine, stream)
    if first > stream.end:
        return refuse(machine, CUT_SHORT, source, first - source, stream.end - source)
    # codes, lengths, offsets of the entries and their bytes, and room to copy words beyond the last
    if not reserve(machine, 4 * count + 4 * entries + 8 * (entries + 2) + stream.end - first + SLACK):
        return WANT_MEMORY
    push_to_finish(machine, stream)
    if machine.state[FIXED] < 0:
        push_part(machine, source + 14, lengths, first, entries, UINT32, stream.scratch + 4 * count)
    return push(machine, DECODE, source + HEADER, codes_end, count, UINT32, stream.scratch)


@kernel
def find_entries(machine: Machine, stream: Stream) -> tuple[Integer, Integer]:
    """Where lengths and bytes of the entries begin in the data."""
    begin = stream.source + HEADER
    codes_size = np.int64(load_u32(machine.data, stream.source + 2))
    lengths = begin + ((codes_size + 7) & ~7)
    first = lengths
    if machine.state[FIXED] < 0:
        first += np.int64(load_u32(machine.data, stream.source + 6))
    return lengths, first


@kernel
def finish_bytes(machine: Machine, output: Output, stream: Stream) -> Integer:
    """Look the codes up."""
    memory, values, count = machine.memory, output.values, stream.count
    distinct = np.int64(load_u32(machine.data, stream.source + 10))
    source = find_entries(machine, stream)[1]
    fixed = machine.state[FIXED]
    codes = stream.scratch
    lengths = codes + 4 * count
    starts = lengths + 4 * distinct  # of entries, after an empty one for code 0
    entries = starts + 8 * (distinct + 2)
    total: Integer = np.int64(0)
    store(U8, memory, starts, U8)
    if fixed >= 0 and distinct * fixed != stream.end - source:
        return refuse(machine, WRONG_SIZE, stream.source, distinct * fixed, stream.end - source)
    for i in range(distinct):
        store(U8, memory, starts + 8 * (i + 1), np.uint64(total))
        total += fixed if fixed >= 0 else np.int64(load_u32(memory, lengths + 4 * i))
    store(U8, memory, starts + 8 * (distinct + 1), np.uint64(total))
    if total != stream.end - source:
        return refuse(machine, WRONG_SIZE, stream.source, total, stream.end - source)
    move(machine.data, source, memory, entries, total)
    needed: Integer = np.int64(0)
    largest = U8
    for i in range(count):
        largest = max(largest, load_u32(memory, codes + 4 * i))
    if largest > np.uint64(distinct):
        return refuse(machine, OUT_OF_DICTIONARY, stream.source, distinct, np.int64(largest))
    for i in range(count):
        at = starts + 8 * np.int64(load_u32(memory, codes + 4 * i))
        needed += np.int64(load_u64(memory, at + 8) - load_u64(memory, at))
    start = make_room(machine, output, count * fixed if fixed >= 0 else needed)
    if start < 0:
        return WANT_BYTES
    for i in range(count):
        code = np.int64(load_u32(memory, codes + 4 * i))
        at = starts + 8 * code
        first = np.int64(load_u64(memory, at))
        size = np.int64(load_u64(memory, at + 8)) - first
        if code == 0:
            size = np.int64(max(fixed, 0))
            for k in range(size):
                store(U1, values, start + k, U8)
        else:
            copy_short(memory, entries + first, values, start, size)
        start += size
        if fixed < 0:
            write_offset(machine, output, i, start)
    return DONE


# Numbering distinct values ------------------------------------------------------------------------------------------


@kernel("int64(uint8[::1], int64, int64, int64, out uint32[::1], out uint32[::1], out int64[::1])")
def number_words(values: Bytes, count: int, size: int, limit: int, table: Any, codes: Any, firsts: Any) -> Integer:
    """Give each distinct value a number, in the order of first sight.

    Args:
        values: uint8[count · size].
        count: How many there are.
        size: Bytes of each, at most 8.
        limit: Most distinct values that are of interest.
        table: uint32[2^k], zero, at least twice as large as `limit`.
        codes: Takes the number of each value.
        firsts: int64[limit], takes where each distinct value was first seen.

    Returns:
        The number of distinct values, or -1 if there are more than `limit`.
    """
    mask = np.uint64(len(table) - 1)
    found = np.int64(0)
    for i in range(count):
        word = load_any(values, i * size, size)
        hashed = word * MIX
        slot = (hashed ^ (hashed >> S32)) & mask
        while True:
            entry = np.int64(table[slot])
            if entry == 0:
                if found == limit:
                    return np.int64(-1)
                firsts[found] = i
                found += 1
                table[slot] = np.uint32(found)
                codes[i] = np.uint32(found - 1)
                break
            if load_any(values, firsts[entry - 1] * size, size) == word:
                codes[i] = np.uint32(entry - 1)
                break
            slot = (slot + np.uint64(1)) & mask
    return found


@kernel("int64(uint8[::1], int64[::1], int64, out uint32[::1], out uint32[::1], out int64[::1])")
def number_strings(data: Bytes, offsets: Any, limit: int, table: Any, codes: Any, firsts: Any) -> Integer:
    """Give each distinct string of bytes a number, in the order of first sight.

    Args:
        data: uint8[m + 8], the strings, and bytes that do not matter.
        offsets: int64[n + 1].
        limit: Most distinct strings that are of interest.
        table: uint32[2^k], zero, at least twice as large as `limit`.
        codes: Takes the number of each string.
        firsts: int64[limit], takes where each distinct string was first seen.

    Returns:
        The number of distinct strings, or -1 if there are more than `limit`.
    """
    mask = np.uint64(len(table) - 1)
    found = np.int64(0)
    for i in range(len(offsets) - 1):
        start = offsets[i]
        size = offsets[i + 1] - start
        hashed = np.uint64(size) * MIX
        for k in range(0, size, 8):
            word = load_u64(data, start + k)
            if size - k < 8:
                word &= LAST[size - k]
            hashed = (hashed ^ word) * MIX
            hashed ^= hashed >> S29
        slot = (hashed ^ (hashed >> S32)) & mask
        while True:
            entry = np.int64(table[slot])
            if entry == 0:
                if found == limit:
                    return np.int64(-1)
                firsts[found] = i
                found += 1
                table[slot] = np.uint32(found)
                codes[i] = np.uint32(found - 1)
                break
            other = offsets[firsts[entry - 1]]
            if offsets[firsts[entry - 1] + 1] - other == size and is_same(data, start, other, size):
                codes[i] = np.uint32(entry - 1)
                break
            slot = (slot + np.uint64(1)) & mask
    return found


@kernel
def is_same(data: Bytes, start: int, other: int, size: int) -> bool:
    """Whether two strings of one length are equal."""
    for k in range(0, size, 8):
        difference = load_u64(data, start + k) ^ load_u64(data, other + k)
        if size - k < 8:
            difference &= LAST[size - k]
        if difference != 0:
            return False
    return True


def _tables(count: int, limit: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    table = np.zeros(1 << max(4, (2 * limit - 1).bit_length()), np.uint32)
    return table, np.empty(count, np.uint32), np.empty(limit, np.int64)


def number_values(values: npt.NDArray[Any], limit: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]] | None:
    """Number the distinct values of an array, by their bits.

    Args:
        values: T[n].
        limit: Most distinct values that are of interest, at least 1.

    Returns:
        uint32[n] numbers from 0 on, in the order of first sight, and int64[d] where each was first seen; None if there
        are more than `limit`.
    """
    table, codes, firsts = _tables(len(values), limit)
    found = number_words(as_bytes(values), len(values), values.itemsize, limit, table, codes, firsts)
    return (codes, firsts[:found]) if found >= 0 else None


def number_spans(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], limit: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]] | None:
    """Number the distinct strings of bytes; see `number_values`.

    Args:
        data: uint8[m].
        offsets: int64[n + 1].
        limit: Most distinct strings that are of interest, at least 1.
    """
    table, codes, firsts = _tables(len(offsets) - 1, limit)
    padded = np.concatenate((data[: offsets[-1]], np.zeros(8, np.uint8)))
    found = number_strings(padded, offsets, limit, table, codes, firsts)
    return (codes, firsts[:found]) if found >= 0 else None
