"""FSST: frequent strings of one to eight bytes become codes of one byte (training and encoding).

A table is grown in generations: a sample is encoded with the table so far, and the symbols of the next are those, and
those pairs of neighbours, that stand for the most bytes. Code 255 goes before a byte for which there is no symbol.

Spec: docs/formats/amudai-encodings.md § 5.3; FSST paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.machine import Bytes, Integer
from skerry.kernels import kernel, load_u64, store

__all__ = ["SymbolTable", "encode_fsst", "train_fsst"]

_Words = Any  # uint64[n]

MAX_SYMBOLS: Final = 255
SYMBOL_BYTES: Final = 8
ESCAPE = 255
GENERATIONS: Final = 5
SAMPLE_BYTES: Final = 1 << 15
SLOTS = 2048
NONE = np.uint64(1 << 16)
SINGLE = 256  # code + 256: a byte without a symbol, while symbols are counted
ALPHABET = 512
U1 = np.uint8(0)
PRIME = np.uint64(2971215073)
S8, S15, S16 = np.uint64(8), np.uint64(15), np.uint64(16)
BYTE, PAIR, TRIPLE = np.uint64(0xFF), np.uint64(0xFFFF), np.uint64(0xFFFFFF)
MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


@kernel
def slot_of(word: Any) -> Any:
    """Where symbols that begin with three bytes lie."""
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
    """Lay out symbols so that the longest is found by two looks.

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
        singles: uint32[512], takes how often each code, or byte without one, stands.
        pairs: uint32[512 · 512], takes how often two stand side by side.
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
def encode(data: Bytes, size: int, symbols: _Words, short: Any, long: _Words, out: Bytes) -> Integer:
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


def train_fsst(data: npt.NDArray[np.uint8]) -> SymbolTable:
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
    """The symbols, and pairs of them, that stand for the most bytes."""
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


def encode_fsst(data: npt.NDArray[np.uint8], table: SymbolTable) -> bytes:
    """Encode bytes with a symbol table.

    Args:
        data: uint8[m].
        table: The symbols.

    Returns:
        Codes, at most two for each byte.
    """
    padded = np.concatenate((data, np.zeros(SYMBOL_BYTES, np.uint8)))
    out = np.empty(2 * len(data), np.uint8)
    return out[: encode(padded, len(data), table.symbols, *table.lookups, out)].tobytes()
