"""Bit-sliced indexes: the numbers of a column; negative ones are kept separately, by their absolute value.

    index  = 1 rows has_positive [sliced] has_negative [sliced]
    sliced = 1 min max existing slices bitmap*

Spec: docs/formats/paimon.md § 12.5; Paimon spec, File Index, Index: Bit-Slice Index Bitmap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.bitmaps import leading_roaring32
from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.file_index.bit_slices import MAX_SLICES, SlicedNumbers, bit_slices
from skerry.paimon.file_index.cursor import I32, I64, U8, Cursor
from skerry.paimon.file_index.grouped_bitmaps import encode_bitmaps
from skerry.paimon.file_index.keys import Leaf, intervals_of
from skerry.paimon.file_index.row_sets import complement
from skerry.paimon.file_index.sorted_keys import SortedKeys
from skerry.paimon.values.types import AtomicType, TypeRoot
from skerry.table.predicate import IsNull

__all__ = ["TYPE", "BitSlicedIndex", "can_index", "encode_bit_sliced_index"]

TYPE: Final = "bsi"

_VERSION: Final = 1
_ROOTS: Final = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.DATE,
    TypeRoot.TIME,
    TypeRoot.TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ,
    TypeRoot.DECIMAL,
)
_MAX_DECIMAL: Final = 18
_MIN, _MAX = -(1 << 63), (1 << 63) - 1


def can_index(type_: AtomicType) -> bool:
    """Whether Paimon has bit-sliced indexes of a type."""
    return type_.root in _ROOTS and type_.precision <= _MAX_DECIMAL


@dataclass(frozen=True, slots=True)
class BitSlicedIndex:
    """An index read from a file.

    Args:
        row_count: Rows of the data file.
        rows: int64[n] Rows that are not null, ascending.
        numbers: int64[n] Their keys.
    """

    row_count: int
    rows: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    @classmethod
    def decode(cls, cursor: Cursor, type_: AtomicType, row_count: int) -> BitSlicedIndex:
        """Read an index.

        Raises:
            FormatError: The bytes are not a valid bit-sliced index.
            UnsupportedError: Its version is unknown.
        """
        _check_version(cursor)
        cursor.check_row_count(row_count)
        found = []
        for sign, name in ((1, "numbers from 0 on"), (-1, "numbers below 0")):
            if cursor.flag(f"the flag for {name}"):
                sliced, least = _take_sliced(cursor, row_count)
                found.append((sliced.rows, sign * (sliced.numbers.astype(np.int64) + least)))
        rows = np.concatenate([rows for rows, _ in found]) if found else np.zeros(0, np.int64)
        numbers = np.concatenate([numbers for _, numbers in found]) if found else np.zeros(0, np.int64)
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        if (np.diff(rows) == 0).any():
            raise cursor.error("a row has both a number below 0 and one that is not")
        return cls(row_count, rows, numbers[order])

    def select(self, leaf: Leaf) -> npt.NDArray[np.int64]:
        """The rows whose keys satisfy a condition on keys: int64[n], ascending."""
        if isinstance(leaf, IsNull) and not leaf.negated:
            return complement(self.rows, self.row_count)
        chosen = np.zeros(len(self.rows), bool)
        for low, high in intervals_of(leaf, _rank, _MIN, _MAX + 1):
            low, high = max(low, _MIN), min(high, _MAX + 1)
            if low < high:
                chosen |= (self.numbers >= low) & (self.numbers <= high - 1)
        return self.rows[chosen]


def _rank(value: Any, is_behind: bool) -> int:
    return int(value) + is_behind


def _check_version(cursor: Cursor) -> None:
    version = cursor.take(U8, "version")
    if version != _VERSION:
        raise UnsupportedError(f"bit-sliced index of version {version}", location=cursor.location)


def _take_sliced(cursor: Cursor, row_count: int) -> tuple[SlicedNumbers, int]:
    """Read the numbers of one sign, and the offset to add to each."""
    _check_version(cursor)
    least, _ = cursor.take(I64, "least number"), cursor.take(I64, "greatest number")
    existing = _take_bitmap(cursor, row_count)
    slice_count = cursor.size("number of slices")
    if slice_count > MAX_SLICES:
        raise cursor.error(f"{slice_count} slices, expected at most {MAX_SLICES}")
    slices = [_take_bitmap(cursor, row_count) for _ in range(slice_count)]
    return SlicedNumbers.join(existing, slices, row_count, cursor), least


def _take_bitmap(cursor: Cursor, row_count: int) -> npt.NDArray[np.int64]:
    rest = cursor.rest()
    rows, size = leading_roaring32(rest.data, max_positions=row_count, location=rest.location, offset=rest.offset)
    cursor.position += size
    return rows


# Writing ------------------------------------------------------------------------------------------------------------


def encode_bit_sliced_index(keys: SortedKeys) -> bytes:
    """Encode the index of a column.

    Raises:
        SchemaError: A number has no absolute value of 64 bits.
    """
    numbers = keys.numbers[keys.codes]
    if len(numbers) and numbers.min() == _MIN:
        raise SchemaError(f"a bit-sliced index cannot hold {_MIN}: drop the column from file-index.bsi.columns")
    parts = [U8.pack(_VERSION), I32.pack(keys.row_count)]
    for chosen in (numbers >= 0, numbers < 0):
        parts.append(U8.pack(bool(chosen.any())))
        if chosen.any():
            parts.append(_encode_sliced(keys.rows[chosen], np.abs(numbers[chosen])))
    return b"".join(parts)


def _encode_sliced(rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> bytes:
    """The numbers of one sign. Java always has 0 as their minimum."""
    greatest = int(numbers.max())
    positions, starts = bit_slices(rows, numbers, greatest.bit_length())
    encoded, ends = encode_bitmaps(np.concatenate([rows, positions]), np.concatenate([[0], len(rows) + starts]))
    existing, slices = encoded[: ends[1]].tobytes(), encoded[ends[1] :].tobytes()
    return b"".join([U8.pack(_VERSION), I64.pack(0), I64.pack(greatest), existing, I32.pack(len(starts) - 1), slices])
