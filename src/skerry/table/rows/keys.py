"""Exact matching of row keys: an index over the keys of some rows, searched for the keys of others.

A key is the values of one or more primitive columns. Two keys are the same if their values are, column by column, as
conditions compare them: NaN equals NaN, -0.0 equals 0.0, and a null equals nothing.

Every key is converted to a few 64-bit words. Numbers, dates and times are words themselves; strings and binary values
are hashed to a word, and values with equal hashes are compared byte by byte. The index ensures that among its own
keys equal words mean equal keys (if two collide another seed is used), so that each lookup has one candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, UnsupportedError
from skerry.kernels import kernel, load_u64

__all__ = ["KeyIndex"]

Words: TypeAlias = npt.NDArray[np.uint64]
RowNumbers: TypeAlias = npt.NDArray[np.int64]

_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
_MAX_ROWS = 2**31


@dataclass(frozen=True)
class KeyIndex:
    """Finds the first row with a key.

    Created by `KeyIndex.of`. It is picklable, and may be used by several threads.

    Args:
        columns: The key columns of the indexed rows.
        first: int64[rows], per row the first row with its key; -1 where a part of the key is null.
        words: uint64[rows, words], the rows' keys.
        slots: uint64[2**n], the hash table: upper half of the hash and row number + 1, or 0.
        seed: Seed of the hashes of strings.
    """

    columns: tuple[pa.Array, ...]
    first: RowNumbers
    words: Words
    slots: npt.NDArray[np.uint64]
    seed: int

    @classmethod
    def of(cls, columns: Sequence[pa.Array | pa.ChunkedArray]) -> KeyIndex:
        """Index rows by the values of their key columns.

        Args:
            columns: The key columns, all of one length; at least one.

        Raises:
            SchemaError: A column's type is not supported in keys: lists, maps, structs.
            UnsupportedError: There are more than 2³¹ rows.
        """
        arrays = tuple(_one_array(column) for column in columns)
        count = len(arrays[0])
        if count > _MAX_ROWS:
            raise UnsupportedError(f"{count:,} rows are more than an index of keys supports; split them")
        slots = np.empty(1 << max(2 * count - 1, 1).bit_length(), np.uint64)
        valid = _valid(arrays)
        first = np.empty(count, np.int64)
        for seed in _SEEDS:
            words = _words(arrays, seed)
            slots[:] = 0
            index_words(words, valid, slots, first)
            repeated = np.flatnonzero((first >= 0) & (first != np.arange(count)))
            if _same_bytes(arrays, repeated, arrays, first[repeated]).all():
                return cls(arrays, first, words, slots, seed)
        raise UnsupportedError("different keys have the same hashes under every seed: the data is built to collide")

    def __len__(self) -> int:
        return len(self.first)

    def find(self, columns: Sequence[pa.Array]) -> RowNumbers:
        """Find the indexed row for every key.

        Args:
            columns: The key columns of the rows to look up, of the same types as the index's.

        Returns:
            int64[rows]: the first indexed row with the key, -1 if there is none or a part of the key is null.
        """
        arrays = tuple(_one_array(column) for column in columns)
        found = np.empty(len(arrays[0]), np.int64)
        find_words(_words(arrays, self.seed), _valid(arrays), self.words, self.slots, found)
        if any(_is_hashed(array.type) for array in arrays):
            asking = np.flatnonzero(found >= 0)
            same = _same_bytes(arrays, asking, self.columns, found[asking])
            found[asking[~same]] = -1
        return found

    @cached_property
    def repeated(self) -> npt.NDArray[np.bool_]:
        """bool[rows]: whether a row is the first of several with its key."""
        repeated = np.zeros(len(self), bool)
        others = (self.first >= 0) & (self.first != np.arange(len(self)))
        repeated[self.first[others]] = True
        return repeated


# Keys as words -------------------------------------------------------------------------------------------------------


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array of its storage type, strings with 64-bit offsets so that all of them fit."""
    type_ = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
    if type_ != column.type:
        column = column.cast(type_)
    if _is_hashed(type_):
        column = column.cast(pa.large_binary())
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    return column


def _is_hashed(type_: pa.DataType) -> bool:
    return (
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    ) and not pa.types.is_decimal(type_)


def _valid(arrays: Sequence[pa.Array]) -> npt.NDArray[np.uint8]:
    """uint8[rows]: 1 where no part of the key is null."""
    valid = np.ones(len(arrays[0]), np.uint8)
    for array in arrays:
        if array.null_count:
            valid &= array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _words(arrays: Sequence[pa.Array], seed: int) -> Words:
    """uint64[rows, words]: the keys; undefined in rows whose key contains a null."""
    widths = [2 if pa.types.is_decimal(array.type) else 1 for array in arrays]
    words = np.empty((len(arrays[0]), sum(widths)), np.uint64)
    column = 0
    for array, width in zip(arrays, widths, strict=True):
        if _is_hashed(array.type):
            _, offsets, data = array.buffers()
            starts = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
            values = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
            hash_values(values, starts, seed, column, words)
        elif width == 2:
            _, data = array.cast(pa.decimal128(array.type.precision, array.type.scale)).buffers()
            pairs = np.frombuffer(data, np.uint64).reshape(-1, 2) if data is not None else np.empty((0, 2), np.uint64)
            words[:, column : column + 2] = pairs[array.offset : array.offset + len(array)]
        else:
            words[:, column] = _numbers(array)
        column += width
    return words


def _numbers(array: pa.Array) -> Words:
    """The values of a column of numbers, dates or times as words; equal values have equal words."""
    type_ = array.type
    if pa.types.is_boolean(type_):
        return array.fill_null(False).cast(pa.uint8()).to_numpy().astype(np.uint64)
    if pa.types.is_floating(type_):
        values = _values(array, f"f{type_.bit_width // 8}").astype(np.float64)
        values[values == 0] = 0.0  # also turns -0.0 into 0.0
        values[np.isnan(values)] = np.nan
        return values.view(np.uint64)
    if pa.types.is_integer(type_) or pa.types.is_temporal(type_):
        sign = "u" if pa.types.is_unsigned_integer(type_) else "i"
        return _values(array, f"{sign}{type_.bit_width // 8}").astype(np.int64).view(np.uint64)
    raise SchemaError(f"a column of type {type_} cannot be a key")


def _values(array: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """A view of the column's values, with arbitrary values for nulls."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype)[array.offset : array.offset + len(array)]


def _same_bytes(
    left: Sequence[pa.Array], left_rows: RowNumbers, right: Sequence[pa.Array], right_rows: RowNumbers
) -> npt.NDArray[np.bool_]:
    """bool[rows]: whether the hashed columns of pairs of rows are the same."""
    same = np.ones(len(left_rows), bool)
    for mine, other in zip(left, right, strict=True):
        if _is_hashed(mine.type) and len(same):
            equal = pc.equal(mine.take(pa.array(left_rows)), other.take(pa.array(right_rows)))
            same &= equal.to_numpy(zero_copy_only=False).astype(bool)
    return same


# Kernels -------------------------------------------------------------------------------------------------------------

_M1, _M2, _M3 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(0x9FB21C651E98DF25)
_U0, _U1, _U8 = np.uint64(0), np.uint64(1), np.uint64(8)
_S29, _S32 = np.uint64(29), np.uint64(32)
_UPPER, _LOWER = np.uint64(0xFFFFFFFF00000000), np.uint64(0x00000000FFFFFFFF)


@kernel("void(uint8[::1], int64[::1], uint64, int64, out uint64[:, ::1])")
def hash_values(data: Any, offsets: Any, seed: Any, column: Any, words: Any) -> None:
    """Hash values of any length into one column of the words.

    Args:
        data: uint8[bytes], the values one after the other.
        offsets: int64[rows + 1], the start of each value and the end of the last.
        seed: Initial state of the hash.
        column: The column of `words`.
        words: uint64[rows, words].
    """
    for row in range(len(offsets) - 1):
        position, end = offsets[row], offsets[row + 1]
        state = (seed ^ np.uint64(end - position)) * _M1
        while position + 8 <= end:
            state = (state ^ load_u64(data, position)) * _M2
            state ^= state >> _S29
            position += 8
        last = _U0
        while position < end:
            last = (last << _U8) | np.uint64(data[position])
            position += 1
        state = (state ^ last) * _M3
        state ^= state >> _S32
        words[row, column] = state * _M1


@kernel
def hash_row(words: Any, row: Any) -> Any:
    """The hash of one key."""
    state = _M3
    for column in range(words.shape[1]):
        state = (state ^ words[row, column]) * _M1
        state ^= state >> _S32
    state *= _M2
    return state ^ (state >> _S29)


@kernel
def same_words(left: Any, left_row: Any, right: Any, right_row: Any) -> Any:
    """Whether two keys have the same words, 1 or 0."""
    for column in range(left.shape[1]):
        if left[left_row, column] != right[right_row, column]:
            return 0
    return 1


@kernel("void(uint64[:, ::1], uint8[::1], out uint64[::1], out int64[::1])")
def index_words(words: Any, valid: Any, slots: Any, first: Any) -> None:
    """Fill a hash table with rows.

    Args:
        words: uint64[rows, words], the keys.
        valid: uint8[rows], 0 for rows that are left out.
        slots: uint64[2**n], initially 0; larger than the number of rows.
        first: int64[rows], set to the first row with the same words, -1 for rows that are left out.
    """
    mask = np.uint64(len(slots) - 1)
    for row in range(len(words)):
        first[row] = -1
        if valid[row] == 0:
            continue
        hashed = hash_row(words, row)
        position = hashed & mask
        while True:
            slot = slots[position]
            if slot == _U0:
                slots[position] = (hashed & _UPPER) | np.uint64(row + 1)
                first[row] = row
                break
            other = np.int64(slot & _LOWER) - 1
            if (slot & _UPPER) == (hashed & _UPPER) and same_words(words, row, words, other) == 1:
                first[row] = other
                break
            position = (position + _U1) & mask


@kernel("void(uint64[:, ::1], uint8[::1], uint64[:, ::1], uint64[::1], out int64[::1])")
def find_words(words: Any, valid: Any, indexed: Any, slots: Any, found: Any) -> None:
    """Look rows up in a hash table filled by `index_words`.

    Args:
        words: uint64[rows, words], the keys to look up.
        valid: uint8[rows], 0 for rows that match nothing.
        indexed: uint64[indexed rows, words], the keys of the table.
        slots: uint64[2**n], the hash table.
        found: int64[rows], set to the indexed row, or -1.
    """
    mask = np.uint64(len(slots) - 1)
    for row in range(len(words)):
        found[row] = -1
        if valid[row] == 0:
            continue
        hashed = hash_row(words, row)
        position = hashed & mask
        while True:
            slot = slots[position]
            if slot == _U0:
                break
            other = np.int64(slot & _LOWER) - 1
            if (slot & _UPPER) == (hashed & _UPPER) and same_words(words, row, indexed, other) == 1:
                found[row] = other
                break
            position = (position + _U1) & mask
