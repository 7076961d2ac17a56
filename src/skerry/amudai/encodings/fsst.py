"""FSST: frequent strings of one to eight bytes become codes of one byte; only for strings of bytes.

     0  u16  code 15
     2  u8   number of symbols
     3  u32  bytes of the codes
     7  u8   whether the offsets are a stream
     8  u8   bytes of an offset: 8, or 0 for values of one size
    16  the symbols (u64, the first byte lowest), the length of each (u8), the codes, zeros to a multiple of 8,
        the offsets

All values of a block are replaced as one. Code 255 comes before a byte for which there is no symbol.

A table is grown in generations: a sample is encoded with the table so far, and the symbols of the next are those, and
those pairs of neighbours, that replace the most bytes.

Spec: docs/formats/amudai-encodings.md § 5.3; FSST paper.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.byte_values import (
    ByteEncoder,
    Output,
    Strings,
    decode_with_offsets,
    encode_offsets,
    take_room,
)
from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.numbers import U1, U8, pad
from skerry.amudai.encodings.plans import Plan, make_stream
from skerry.amudai.encodings.stack import (
    BAD_SYMBOL,
    DONE,
    TOP,
    USED,
    WANT_BYTES,
    WANT_MEMORY,
    WANTED,
    WRONG_SIZE,
    Bytes,
    Integer,
    Machine,
    Stream,
    check_header,
    refuse,
)
from skerry.kernels import kernel, load, load_u32, load_u64, store

__all__ = [
    "CODE",
    "SymbolTable",
    "decode_bytes",
    "encode_bytes",
    "encode_with",
    "finish_bytes",
    "suits_bytes",
    "train_symbols",
]

_Words = Any  # uint64[n]

CODE: Final = Encoding.FSST
HEADER: Final = 16
MAX_SYMBOLS: Final = 255
SYMBOL_BYTES: Final = 8
ESCAPE = 255
NO_SYMBOL = np.uint64(1 << 32)  # a length that no values have: what a code without a symbol gets
GENERATIONS: Final = 5
SAMPLE_BYTES: Final = 1 << 15
SLOTS = 2048
NONE = np.uint64(1 << 16)
SINGLE = 256  # code + 256: a byte without a symbol, while symbols are counted
ALPHABET = 512
PRIME = np.uint64(2971215073)
S8, S15, S16 = np.uint64(8), np.uint64(15), np.uint64(16)
BYTE, PAIR, TRIPLE = np.uint64(0xFF), np.uint64(0xFFFF), np.uint64(0xFFFFFF)
MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


def suits_bytes(sample: Strings, profile: Profile) -> Plan | None:
    """The plan worth a try; see `encodings`."""
    return Plan(CODE) if profile == Profile.BALANCED else None


def encode_bytes(strings: Strings, plan: Plan, encoder: ByteEncoder, symbols: SymbolTable | None = None) -> bytes:
    """Encode strings of bytes, with symbols of theirs if none are given; see `encodings`."""
    table = train_symbols(strings.data) if symbols is None else symbols
    codes = encode_with(table, strings.data)
    flag, width, offsets = encode_offsets(strings, plan, encoder)
    header = struct.pack("<BIBB", len(table.symbols), len(codes), flag, width)
    body = b"".join((table.symbols.astype("<u8").tobytes(), table.lengths.tobytes(), codes))
    return make_stream(CODE, HEADER, header, pad(body), offsets)


@kernel
def decode_bytes(machine: Machine, stream: Stream) -> Integer:
    """Have the offsets decoded; see `encodings`."""
    status = check_header(machine, stream, True, HEADER)
    if status != DONE:
        return status
    source = stream.source
    codes = source + HEADER + 9 * np.int64(load(U1, machine.data, source + 2))
    size = np.int64(load_u32(machine.data, source + 3))
    return decode_with_offsets(machine, stream, codes, size, HEADER, source + 8, source + 7)


@kernel
def finish_bytes(machine: Machine, output: Output, stream: Stream) -> Integer:
    """Replace the codes by their symbols."""
    data, memory, source = machine.data, machine.memory, stream.source
    symbols = np.int64(load(U1, data, source + 2))
    table = machine.state[TOP]
    if table + 256 * 16 > len(memory):
        machine.state[WANTED] = 256 * 16
        return WANT_MEMORY
    for i in range(256):
        store(U8, memory, table + 16 * i, U8)
        store(U8, memory, table + 16 * i + 8, NO_SYMBOL)
    lengths = source + HEADER + 8 * symbols
    for i in range(symbols):
        length = np.int64(load(U1, data, lengths + i))
        if length < 1 or length > 8:
            return refuse(machine, BAD_SYMBOL, lengths + i, 8, length)
        store(U8, memory, table + 16 * i, load_u64(data, source + HEADER + 8 * i))
        store(U8, memory, table + 16 * i + 8, np.uint64(length))
    codes = lengths + symbols
    end = codes + np.int64(load_u32(data, source + 3))
    start = take_room(machine, output, stream, -1, 8 * (end - codes))
    if start < 0:
        return WANT_BYTES
    limit = machine.state[USED]
    written = expand(data, memory, output.values, table, codes, end, start, limit)
    if written != limit:
        return refuse(machine, WRONG_SIZE, source, limit - start, written - start)
    return DONE


@kernel
def expand(
    data: Bytes, memory: Bytes, values: Bytes, table: int, source: int, end: int, place: Integer, limit: int
) -> Integer:
    """Replace codes by symbols, up to `limit`; returns where that ends, something else than `limit` if it does not."""
    while source < end and place <= limit:
        code = np.int64(load(U1, data, source))
        if code == ESCAPE:
            if source + 1 == end:
                return np.int64(-1)
            store(U1, values, place, load(U1, data, source + 1))
            place += 1
            source += 2
        else:
            store(U8, values, place, load_u64(memory, table + 16 * code))
            place += np.int64(load_u64(memory, table + 16 * code + 8))
            source += 1
    return place if source == end else np.int64(-1)


# Symbol tables ------------------------------------------------------------------------------------------------------


@kernel
def slot_of(word: Any) -> Any:
    """The slot of symbols that begin with three bytes."""
    hashed = (word & TRIPLE) * PRIME
    return (hashed ^ (hashed >> S15)) & np.uint64(SLOTS - 1)


@kernel
def find(word: Any, room: int, symbols: _Words, short: Any, long: _Words) -> Any:
    """The longest symbol that a word begins with, of at most `room` bytes.

    Returns:
        65536 · its length + its code; length 0 if there is none.
    """
    entry = long[slot_of(word)]
    if entry != 0:
        size = np.int64(entry >> S16)
        if size <= room and (word & MASKS[size]) == symbols[np.int64(entry & PAIR)]:
            return entry
    brief = np.uint64(short[np.int64(word & PAIR)])
    if np.int64(brief >> S8) > room:
        brief = np.uint64(short[np.int64((word & BYTE) | NONE)])
    return (brief >> S8) << S16 | (brief & BYTE)


@kernel("void(uint64[::1], uint8[::1], out uint16[::1], out uint64[::1])")
def build(symbols: _Words, lengths: Bytes, short: Any, long: _Words) -> None:
    """Lay out symbols so that two look-ups find the longest.

    Args:
        symbols: uint64[s], the bytes, the first lowest.
        lengths: uint8[s].
        short: uint16[65536 + 256], zero: by the first two bytes, then by the first byte alone; 256 · length + code.
        long: uint64[SLOTS], zero: symbols of three bytes and more.
    """
    for code in range(len(symbols)):
        entry = np.uint64(lengths[code]) << S16 | np.uint64(code)
        if lengths[code] == 1:
            short[np.int64(symbols[code] | NONE)] = np.uint16(256 | code)
            for second in range(256):
                at = np.int64(symbols[code]) | second << 8
                if short[at] < 512:
                    short[at] = np.uint16(256 | code)
        elif lengths[code] == 2:
            short[np.int64(symbols[code])] = np.uint16(512 | code)
        else:
            slot = slot_of(symbols[code])
            if long[slot] == 0:
                long[slot] = entry


@kernel("void(uint8[::1], int64, uint64[::1], uint16[::1], uint64[::1], out uint32[::1], out uint32[::1])")
def count_symbols(
    sample: Bytes, size: int, symbols: _Words, short: Any, long: _Words, singles: Any, pairs: Any
) -> None:
    """Encode a sample, and count codes and pairs of neighbours.

    Args:
        sample: uint8[size + 8].
        size: See `sample`.
        symbols: uint64[s].
        short: As `build` leaves it.
        long: As `build` leaves it.
        singles: uint32[512], takes how often each code, or byte without one, occurs.
        pairs: uint32[512 · 512], takes how often two are neighbours.
    """
    place: Integer = 0
    last = np.int64(-1)
    while place < size:
        word = load_u64(sample, place)
        entry = find(word, size - place, symbols, short, long)
        if entry == 0:
            code = np.int64(word & BYTE) + SINGLE
            place += 1
        else:
            code = np.int64(entry & PAIR)
            place += np.int64(entry >> S16)
        singles[code] += np.uint32(1)
        if last >= 0:
            pairs[last * ALPHABET + code] += np.uint32(1)
        last = code


@kernel("int64(uint8[::1], int64, uint64[::1], uint16[::1], uint64[::1], out uint8[::1])")
def replace(data: Bytes, size: int, symbols: _Words, short: Any, long: _Words, out: Bytes) -> Integer:
    """Replace symbols by codes.

    Args:
        data: uint8[size + 8].
        size: See `data`.
        symbols: uint64[s].
        short: As `build` leaves it.
        long: As `build` leaves it.
        out: uint8[2 · size], takes the codes.

    Returns:
        How many bytes they are.
    """
    place: Integer = 0
    written = 0
    while place < size:
        word = load_u64(data, place)
        entry = find(word, size - place, symbols, short, long)
        if entry == 0:
            store(U1, out, written, np.uint64(ESCAPE))
            store(U1, out, written + 1, word & BYTE)
            written += 2
            place += 1
        else:
            store(U1, out, written, entry & BYTE)
            written += 1
            place += np.int64(entry >> S16)
    return np.int64(written)


@dataclass(frozen=True)
class SymbolTable:
    """Symbols, by code.

    Args:
        symbols: uint64[s], the bytes of each, the first lowest.
        lengths: uint8[s].
    """

    symbols: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint8]

    @cached_property
    def lookups(self) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint64]]:
        """The symbols laid out for encoding."""
        short, long = np.zeros((1 << 16) + 256, np.uint16), np.zeros(SLOTS, np.uint64)
        build(self.symbols, self.lengths, short, long)
        return short, long


def train_symbols(data: npt.NDArray[np.uint8]) -> SymbolTable:
    """Make a symbol table for strings.

    Args:
        data: uint8[m], the strings one after the other.

    Returns:
        At most 255 symbols.
    """
    sample = _sample(data)
    padded = np.concatenate((sample, np.zeros(SYMBOL_BYTES, np.uint8)))
    table = SymbolTable(np.zeros(0, np.uint64), np.zeros(0, np.uint8))
    for generation in range(GENERATIONS):
        singles, pairs = np.zeros(ALPHABET, np.uint32), np.zeros(ALPHABET * ALPHABET, np.uint32)
        count_symbols(padded, len(sample), table.symbols, *table.lookups, singles, pairs)
        table = _next(table, singles, pairs, is_last=generation == GENERATIONS - 1)
    return table


def _sample(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    if len(data) <= SAMPLE_BYTES:
        return data
    pieces = 16
    step = len(data) // pieces
    return np.concatenate([data[i * step : i * step + SAMPLE_BYTES // pieces] for i in range(pieces)])


def _next(
    table: SymbolTable, singles: npt.NDArray[np.uint32], pairs: npt.NDArray[np.uint32], *, is_last: bool
) -> SymbolTable:
    """The symbols, and pairs of them, that replace the most bytes."""
    words = np.zeros(ALPHABET, np.uint64)
    sizes = np.ones(ALPHABET, np.int64)
    words[SINGLE:] = np.arange(256)
    words[: len(table.symbols)] = table.symbols
    sizes[: len(table.lengths)] = table.lengths
    seen = np.flatnonzero(singles)
    joined = np.flatnonzero(pairs)
    first, second = joined // ALPHABET, joined % ALPHABET
    keep = sizes[first] < SYMBOL_BYTES
    first, second, joined = first[keep], second[keep], joined[keep]
    joined_sizes = np.minimum(sizes[first] + sizes[second], SYMBOL_BYTES)
    joined_words = (words[first] | words[second] << (8 * sizes[first]).astype(np.uint64)) & MASKS[joined_sizes]
    all_words = np.concatenate((words[seen], joined_words))
    all_sizes = np.concatenate((sizes[seen], joined_sizes))
    counts = np.concatenate((singles[seen], pairs[joined])).astype(np.int64)
    gains = counts * all_sizes
    gains[: len(seen)] *= np.where(sizes[seen] == 1, 8, 1)  # a byte without a symbol takes two
    keys = np.stack((all_words, all_sizes.astype(np.uint64)), axis=1)
    distinct, places = np.unique(keys, axis=0, return_inverse=True)
    totals = np.bincount(places.ravel(), gains, len(distinct))
    if is_last:
        totals[totals <= 4] = 0  # not worth their nine bytes in the table
    order = np.argsort(-totals, kind="stable")[:MAX_SYMBOLS]
    order = order[totals[order] > 0]
    chosen = distinct[order]
    return SymbolTable(np.ascontiguousarray(chosen[:, 0]), chosen[:, 1].astype(np.uint8))


def encode_with(table: SymbolTable, data: npt.NDArray[np.uint8]) -> bytes:
    """Encode bytes with a symbol table.

    Args:
        table: The symbols.
        data: uint8[m].

    Returns:
        Codes, at most two for each byte.
    """
    padded = np.concatenate((data, np.zeros(SYMBOL_BYTES, np.uint8)))
    out = np.empty(2 * len(data), np.uint8)
    return out[: replace(padded, len(data), table.symbols, *table.lookups, out)].tobytes()
