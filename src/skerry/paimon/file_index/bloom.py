"""Bloom filters: whether a value may be in a column of a data file.

    filter = number_of_hash_functions bits

Strings are hashed with XXH64, everything else as a 64-bit number with Thomas Wang's integer hash.

Spec: docs/formats/paimon.md § 12.3; Paimon spec, File Index, Index: BloomFilter.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from skerry.errors import SchemaError
from skerry.kernels import kernel, load_u32, load_u64, rotate_left
from skerry.paimon.file_index.cursor import I32, Cursor
from skerry.paimon.file_index.keys import Leaf
from skerry.paimon.file_index.sorted_keys import as_longs
from skerry.paimon.values.types import AtomicType, TypeRoot
from skerry.table.predicate import Comparison, In, Operator

__all__ = ["TYPE", "BloomFilter", "BloomFilterBuilder", "can_index"]

TYPE: Final = "bloom-filter"
DEFAULT_ITEMS: Final = 1_000_000
DEFAULT_FPP: Final = 0.1

_Words = npt.NDArray[np.int64]
_BYTES: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_UNSUPPORTED: Final = (TypeRoot.BOOLEAN, TypeRoot.DECIMAL)
_MASK: Final = (1 << 64) - 1
_MAX_HASHES: Final = 1 << 10


def can_index(type_: AtomicType) -> bool:
    """Whether Paimon has Bloom filters of a type."""
    return type_.root not in _UNSUPPORTED


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A filter read from a file.

    Args:
        hash_count: Hash functions.
        bits: uint8[n] The bits; bit i is bit i % 8 of byte i // 8.
        type: The type of the column.
    """

    hash_count: int
    bits: npt.NDArray[np.uint8]
    type: AtomicType

    @classmethod
    def decode(cls, cursor: Cursor, type_: AtomicType) -> BloomFilter:
        """Read a filter.

        Raises:
            FormatError: The bytes are not a valid Bloom filter.
        """
        hash_count = cursor.size("number of hash functions")
        bits = np.frombuffer(cursor.bytes(cursor.left, "bits"), np.uint8)
        if not (0 < hash_count <= _MAX_HASHES and len(bits)):
            raise cursor.error(f"{hash_count} hash functions over {len(bits)} bytes", 0)
        return cls(hash_count, bits, type_)

    def may_match(self, leaf: Leaf) -> bool:
        """Whether a row may satisfy a condition.

        Args:
            leaf: On keys (`skerry.paimon.file_index.keys`).
        """
        match leaf:
            case Comparison(_, Operator.EQ, value):
                return self.may_contain(value)
            case In(_, values, negated=False):
                return any(self.may_contain(value) for value in values)
        return True

    def may_contain(self, key: Any) -> bool:
        """Whether a key may be in the column."""
        hashes = [hash_key(self.type, key)]
        if key == 0 and isinstance(key, float):  # 0.0 and -0.0 are equal, but hash differently
            hashes = [hash_key(self.type, 0.0), hash_key(self.type, -0.0)]
        return any(hashed is None or _contains(self.bits, self.hash_count, hashed) for hashed in hashes)


def _contains(bits: npt.NDArray[np.uint8], hash_count: int, hashed: int) -> bool:
    return all(
        bits[position >> 3] >> (position & 7) & 1 for position in bit_positions(hashed, hash_count, 8 * len(bits))
    )


def bit_positions(hashed: int, hash_count: int, bit_count: int) -> list[int]:
    """The bits that a hash sets, in 32-bit arithmetic like Java's int."""
    first, second = _signed(hashed, 32), _signed(hashed >> 32, 32)
    found = []
    for i in range(1, hash_count + 1):
        combined = _signed(first + i * second, 32)
        found.append((~combined if combined < 0 else combined) % bit_count)
    return found


def hash_key(type_: AtomicType, key: Any) -> int | None:
    """Hash one key; the plain counterpart of the kernels below.

    Returns:
        The hash as a signed 64-bit number; None if the type does not have such a key.
    """
    if type_.root in _BYTES:
        return _signed(xxhash.xxh64_intdigest(key, seed=0), 64)
    if type_.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        form, bits = (">f", ">i") if type_.root is TypeRoot.FLOAT else (">d", ">q")
        try:
            key = struct.unpack(bits, struct.pack(form, key))[0]
        except OverflowError:
            return None
    key = _signed((~key) + (key << 21), 64)
    key ^= key >> 24
    key = _signed(key + (key << 3) + (key << 8), 64)
    key ^= key >> 14
    key = _signed(key + (key << 2) + (key << 4), 64)
    key ^= key >> 28
    return _signed(key + (key << 31), 64)


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


# Writing ------------------------------------------------------------------------------------------------------------


class BloomFilterBuilder:
    """Builds a filter.

    Args:
        type_: The type of the column.
        items: How many distinct values are expected (`file-index.bloom-filter.<column>.items`).
        fpp: The false positive probability (`file-index.bloom-filter.<column>.fpp`).

    Raises:
        SchemaError: The type cannot have Bloom filters, or the numbers are out of range.
    """

    def __init__(self, type_: AtomicType, items: int = DEFAULT_ITEMS, fpp: float = DEFAULT_FPP) -> None:
        if not can_index(type_):
            raise SchemaError(f"columns of type {type_} cannot have Bloom filters")
        if items < 1 or not 0 < fpp < 1:
            raise SchemaError(f"a Bloom filter of {items} items with false positive probability {fpp} is not possible")
        self._type = type_
        wanted = int(-items * math.log(fpp) / (math.log(2) ** 2))
        bit_count = wanted + 8 - wanted % 8
        self._hash_count = max(1, _round_half_up(bit_count / items * math.log(2)))
        self._bits = np.zeros(bit_count // 8, np.uint8)
        self._has_values = False

    def update(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Add the values of a column, in the Arrow type of its type; nulls are skipped."""
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            present = chunk.drop_null()
            if len(present):
                self._has_values = True
                _set_bits(hash_column(self._type, present), self._hash_count, self._bits)

    def finish(self) -> bytes | None:
        """The filter; None if there were no values."""
        return I32.pack(self._hash_count) + self._bits.tobytes() if self._has_values else None


def _round_half_up(number: float) -> int:
    return math.floor(number + 0.5)


def hash_column(type_: AtomicType, values: pa.Array) -> _Words:
    """Hash the values of a column.

    Args:
        type_: The column's type.
        values: Without nulls, in the Arrow type of its type.

    Returns:
        int64[n].
    """
    hashes = np.empty(len(values), np.int64)
    if type_.root in _BYTES:
        values = values.cast(pa.large_binary())
        _, offsets, data = values.buffers()
        places_ = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
        content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        _hash_bytes(content, np.ascontiguousarray(places_), hashes)
        return hashes
    _hash_longs(as_longs(type_, values), hashes)
    return hashes


_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_P1_P2 = np.uint64((0x9E3779B185EBCA87 + 0xC2B2AE3D27D4EB4F) & _MASK)
_MINUS_P1 = np.uint64(_MASK + 1 - 0x9E3779B185EBCA87)
_S29, _S32, _S33, _U0 = np.uint64(29), np.uint64(32), np.uint64(33), np.uint64(0)
_R1, _R7, _R11, _R12, _R18 = (np.uint64(bits) for bits in (1, 7, 11, 12, 18))
_R23, _R27, _R31 = (np.uint64(bits) for bits in (23, 27, 31))


@kernel
def _round(lane: Any, word: Any) -> Any:
    return rotate_left(lane + word * _P2, _R31) * _P1


@kernel
def _merge_round(state: Any, lane: Any) -> Any:
    return (state ^ _round(_U0, lane)) * _P1 + _P4


@kernel
def _xxh64(data: Any, start: int, end: int) -> Any:
    """XXH64 with seed 0. Spec: xxHash spec, XXH64 Algorithm Description."""
    position = start
    if end - start >= 32:
        v1, v2, v3, v4 = _P1_P2, _P2, _U0, _MINUS_P1
        while end - position >= 32:
            v1 = _round(v1, load_u64(data, position))
            v2 = _round(v2, load_u64(data, position + 8))
            v3 = _round(v3, load_u64(data, position + 16))
            v4 = _round(v4, load_u64(data, position + 24))
            position += 32
        state = rotate_left(v1, _R1) + rotate_left(v2, _R7) + rotate_left(v3, _R12) + rotate_left(v4, _R18)
        state = _merge_round(_merge_round(_merge_round(_merge_round(state, v1), v2), v3), v4)
    else:
        state = _P5
    state += np.uint64(end - start)
    while end - position >= 8:
        state = rotate_left(state ^ _round(_U0, load_u64(data, position)), _R27) * _P1 + _P4
        position += 8
    if end - position >= 4:
        state = rotate_left(state ^ (load_u32(data, position) * _P1), _R23) * _P2 + _P3
        position += 4
    while position < end:
        state = rotate_left(state ^ (np.uint64(data[position]) * _P5), _R11) * _P1
        position += 1
    state = (state ^ (state >> _S33)) * _P2
    state = (state ^ (state >> _S29)) * _P3
    return state ^ (state >> _S32)


@kernel("void(uint8[::1], int64[::1], out int64[::1])")
def _hash_bytes(data: Any, offsets: Any, hashes: Any) -> None:
    for i in range(len(hashes)):
        hashes[i] = np.int64(_xxh64(data, offsets[i], offsets[i + 1]))


@kernel("void(int64[::1], out int64[::1])")
def _hash_longs(values: Any, hashes: Any) -> None:
    for i in range(len(hashes)):
        key = values[i]
        key = ~key + (key << 21)
        key ^= key >> 24
        key = key + (key << 3) + (key << 8)
        key ^= key >> 14
        key = key + (key << 2) + (key << 4)
        key ^= key >> 28
        hashes[i] = key + (key << 31)


@kernel("void(int64[::1], int64, out uint8[::1])")
def _set_bits(hashes: Any, hash_count: int, bits: Any) -> None:
    bit_count = 8 * len(bits)
    for i in range(len(hashes)):
        first, second = np.int32(hashes[i]), np.int32(hashes[i] >> 32)
        for j in range(1, hash_count + 1):
            combined = np.int32(first + j * second)
            if combined < 0:
                combined = ~combined
            position = np.int64(combined) % bit_count
            bits[position >> 3] |= np.uint8(1 << (position & 7))
