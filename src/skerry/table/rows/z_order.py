"""Z-order: rows that are near each other in several columns are stored near each other in files.

Each column's values are mapped to quantiles of a sample, so that skewed columns count as much as uniform ones, and the
bits of the quantile numbers are interleaved. Files of rows in that order have narrow bounds in every one of the
columns.
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
        raise SchemaError(f"Z-order takes 2 to {_MAX_COLUMNS} different columns, found {len(columns)}")


@dataclass(frozen=True, slots=True)
class ZOrder:
    """The mapping of values to quantile numbers.

    Args:
        edges: For each column, ascending values without nulls: a value's number is the count of edges not above it.
    """

    edges: tuple[pa.Array, ...]

    @classmethod
    def of(cls, sample: Sequence[Any]) -> ZOrder:
        """The order of a table, from a sample of its rows: the values of each column."""
        most = (1 << _bits(len(sample))) - 1
        edges = []
        for values in sample:
            column = pc.drop_null(_flat(sortable(values)))
            ordered = column.take(pc.sort_indices(column))
            chosen = np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).astype(np.int64))
            distinct = ordered.take(pa.array(chosen)).unique() if len(ordered) else ordered
            edges.append(distinct)
        return cls(tuple(edges))

    def keys(self, columns: Sequence[Any]) -> npt.NDArray[np.uint64]:
        """uint64[n] The position of each row along the curve; nulls are less than all values."""
        numbers = [_numbers(_flat(sortable(column)), edges) for column, edges in zip(columns, self.edges, strict=True)]
        return _interleave(numbers, _bits(len(numbers)))


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


def _interleave(columns: Sequence[npt.NDArray[np.uint64]], bits: int) -> npt.NDArray[np.uint64]:
    """uint64[n] Interleaved bits: the highest of all columns, then the next ones."""
    keys = np.zeros(len(columns[0]), np.uint64)
    for bit in reversed(range(bits)):
        for column in columns:
            keys <<= np.uint64(1)
            keys |= (column >> np.uint64(bit)) & np.uint64(1)
    return keys
