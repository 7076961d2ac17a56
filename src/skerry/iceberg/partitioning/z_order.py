"""Z-order: rows that are near each other in several columns are stored near each other in files.

Each column's values are mapped to quantiles of a sample, so that skewed columns count as much as uniform ones, and the
bits of the quantile numbers are interleaved. Files of rows in that order have narrow bounds in every one of the
columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.partitioning.partitions import column_of, source_column
from skerry.iceberg.partitioning.sorting import sortable

__all__ = ["ZOrder", "z_order_columns"]

_KEY_BITS = 64
_MAX_BITS = 16
_MAX_COLUMNS = 8


def z_order_columns(schema: Schema, names: Iterable[str]) -> tuple[int, ...]:
    """The field ids of columns given by name.

    Raises:
        SchemaError: A column is unknown or named twice, or there are too few or too many.
    """
    ids = tuple(source_column(schema, name).field_id for name in names)
    if not 2 <= len(ids) <= _MAX_COLUMNS or len(set(ids)) != len(ids):
        raise SchemaError(f"Z-order takes 2 to {_MAX_COLUMNS} different columns, found {len(ids)}")
    return ids


@dataclass(frozen=True, slots=True)
class ZOrder:
    """The mapping of values to quantile numbers.

    Args:
        field_ids: The columns.
        edges: For each, ascending values without nulls: a value's number is the count of edges not above it.
    """

    field_ids: tuple[int, ...]
    edges: tuple[pa.Array, ...]

    @classmethod
    def of(cls, schema: Schema, field_ids: Sequence[int], sample: pa.Table) -> ZOrder:
        """The order of a table, from a sample of its rows."""
        most = (1 << _bits(len(field_ids))) - 1
        edges = []
        for field_id in field_ids:
            column = pc.drop_null(_flat(sortable(column_of(schema, field_id, sample))))
            ordered = column.take(pc.sort_indices(column))
            chosen = np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).astype(np.int64))
            distinct = ordered.take(pa.array(chosen)).unique() if len(ordered) else ordered
            edges.append(distinct)
        return cls(tuple(field_ids), tuple(edges))

    def keys(self, schema: Schema, rows: pa.Table) -> npt.NDArray[np.uint64]:
        """uint64[n] The position of each row along the curve; nulls are less than all values."""
        columns = [
            _numbers(_flat(sortable(column_of(schema, field_id, rows))), edges)
            for field_id, edges in zip(self.field_ids, self.edges, strict=True)
        ]
        return _interleave(columns, _bits(len(columns)))


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
