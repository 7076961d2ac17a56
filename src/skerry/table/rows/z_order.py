"""Z-order: rows that are near each other in several columns are stored near each other in files.

Each column's values are mapped to quantiles of a sample, so that skewed columns count as much as uniform ones, and the
bits of the quantile numbers are interleaved. Files of rows in that order have narrow bounds in every one of the
columns. A Hilbert curve makes no jumps: neighbours on it are neighbours in one of the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError
from skerry.table.rows.sorting import sortable

__all__ = ["ZOrder", "check_z_order"]

_KEY_BITS = 64
_MAX_BITS = 16
_MAX_COLUMNS = 8


def check_z_order(columns: Sequence[object]) -> None:
    """Refuse too few or too many columns, and one that is named twice.

    Raises:
        SchemaError: It is so.
    """
    if not 2 <= len(columns) <= _MAX_COLUMNS or len(set(columns)) != len(columns):
        raise SchemaError(f"a curve takes 2 to {_MAX_COLUMNS} different columns, found {len(columns)}")


@dataclass(frozen=True, slots=True)
class ZOrder:
    """The mapping of values to quantile numbers.

    Args:
        edges: For each column, ascending values without nulls: a value's number is the count of edges not above it.
        is_hilbert: Whether the numbers are points of a Hilbert curve instead of a Z-curve.
    """

    edges: tuple[pa.Array, ...]
    is_hilbert: bool = False

    @classmethod
    def of(cls, sample: Sequence[Any], *, is_hilbert: bool = False) -> ZOrder:
        """The order of a table, from a sample of its rows: the values of each column."""
        most = (1 << _bits(len(sample))) - 1
        edges = []
        for values in sample:
            column = pc.drop_null(_flat(sortable(values)))
            ordered = column.take(pc.sort_indices(column))
            chosen = np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).astype(np.int64))
            distinct = ordered.take(pa.array(chosen)).unique() if len(ordered) else ordered
            edges.append(distinct)
        return cls(tuple(edges), is_hilbert)

    def keys(self, columns: Sequence[Any]) -> npt.NDArray[np.uint64]:
        """uint64[n] The position of each row along the curve; nulls are less than all values."""
        numbers = [_numbers(_flat(sortable(column)), edges) for column, edges in zip(columns, self.edges, strict=True)]
        bits = _bits(len(numbers))
        return _interleave(_unfolded(numbers, bits) if self.is_hilbert else numbers, bits)


def _bits(columns: int) -> int:
    return min(_MAX_BITS, _KEY_BITS // columns)


def _flat(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numbers(column: pa.Array, edges: pa.Array) -> npt.NDArray[np.uint64]:
    """uint64[n] The number of edges not above each value; 0 for nulls."""
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary
    # edges are put before values in a stable sort: edges that sort before a value are not above it
    order = pc.sort_indices(pa.concat_arrays([edges, distinct])).to_numpy()
    is_edge = order < len(edges)
    number_of = np.zeros(len(distinct) + 1, np.uint64)
    number_of[order[~is_edge] - len(edges)] = np.cumsum(is_edge)[~is_edge]
    codes = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    numbers: npt.NDArray[np.uint64] = number_of[codes]
    return numbers


def _unfolded(columns: Sequence[npt.NDArray[np.uint64]], bits: int) -> list[npt.NDArray[np.uint64]]:
    """Numbers whose interleaved bits are the distance along a Hilbert curve.

    From the largest cubes to the smallest: each is turned as the curve runs through it (J. Skilling, Programming the
    Hilbert curve, 2004).
    """
    one, axes = np.uint64(1), [column.copy() for column in columns]
    for bit in range(bits - 1, 0, -1):
        below = (one << np.uint64(bit)) - one
        for axis in axes:
            is_far = (axis >> np.uint64(bit) & one).astype(bool)
            swapped = np.where(is_far, np.uint64(0), (axes[0] ^ axis) & below)
            axes[0] ^= np.where(is_far, below, swapped)
            axis ^= swapped
    for number in range(1, len(axes)):
        axes[number] ^= axes[number - 1]
    turned = np.zeros(len(axes[0]), np.uint64)
    for bit in range(bits - 1, 0, -1):
        is_far = (axes[-1] >> np.uint64(bit) & one).astype(bool)
        turned ^= np.where(is_far, (one << np.uint64(bit)) - one, np.uint64(0))
    return [axis ^ turned for axis in axes]


def _interleave(columns: Sequence[npt.NDArray[np.uint64]], bits: int) -> npt.NDArray[np.uint64]:
    """uint64[n] Interleaved bits: the highest of all columns, then the next ones."""
    keys = np.zeros(len(columns[0]), np.uint64)
    for bit in reversed(range(bits)):
        for column in columns:
            keys <<= np.uint64(1)
            keys |= (column >> np.uint64(bit)) & np.uint64(1)
    return keys
