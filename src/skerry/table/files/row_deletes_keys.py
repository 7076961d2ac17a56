"""Equality deletes: finding the rows whose key is deleted.

A row is deleted if its key columns have the values of a deleted key, null matching null. As the index of keys cannot
contain nulls, keys are grouped by which of their columns are null: within a group the other columns are compared.

Floating-point values are equal if their bits are (all NaNs being one value), as in Iceberg's Java readers: -0.0 does
not delete 0.0.

Spec: Iceberg spec, Equality Delete Files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import UnsupportedError
from skerry.table.files.evolution import plan_conversion
from skerry.table.rows.keys import KeyIndex
from skerry.table.rows.schema import Leaf, leaves

__all__ = ["KeyDeletes"]

_Mask: TypeAlias = npt.NDArray[np.bool_]

_MAX_COLUMNS = 63  # one bit each


@dataclass(frozen=True)
class KeyDeletes:
    """Deleted keys over one set of columns; may be used by many threads.

    Args:
        schema: The key columns, in the structs around them, with field ids.
        columns: The key columns themselves.
        groups: Keys by a bit mask of their null columns: the values of the other columns, None if there are none.
        nbytes: Approximate memory use.
    """

    schema: pa.Schema
    columns: tuple[Leaf, ...]
    groups: dict[int, KeyIndex | None]
    nbytes: int

    @classmethod
    def of(cls, keys: pa.Table) -> KeyDeletes:
        """Index deleted keys.

        Args:
            keys: One row per key, with only the key columns.

        Raises:
            SchemaError: A column is of a type that cannot be compared.
            UnsupportedError: There are more than 63 columns, or more than 2³¹ rows.
        """
        columns = tuple(leaves(keys.schema))
        if len(columns) > _MAX_COLUMNS:
            raise UnsupportedError(f"equality deletes on {len(columns)} columns, more than {_MAX_COLUMNS}")
        values = _values(keys, columns)
        patterns = _null_patterns(values)
        groups: dict[int, KeyIndex | None] = {}
        for pattern in np.unique(patterns).tolist():
            present = [column for bit, column in enumerate(values) if not pattern >> bit & 1]
            rows = pa.array(patterns == pattern)
            groups[pattern] = KeyIndex.of([column.filter(rows) for column in present]) if present else None
        return cls(keys.schema, columns, groups, 4 * keys.nbytes + 4096)

    def find(self, batch: pa.RecordBatch) -> _Mask:
        """Find the rows that are deleted.

        Args:
            batch: Rows whose columns have field ids, the key columns among them in the types of `schema`.

        Returns:
            bool[rows]
        """
        gone = np.zeros(batch.num_rows, bool)
        values = _values(plan_conversion(batch.schema, self.schema)(batch), self.columns)
        patterns = _null_patterns(values)
        for pattern, index in self.groups.items():
            rows = patterns == pattern
            if index is not None and rows.any():
                present = [column for bit, column in enumerate(values) if not pattern >> bit & 1]
                if not rows.all():
                    chosen = pa.array(rows)
                    present = [column.filter(chosen) for column in present]
                rows[rows] = index.find(present) >= 0
            gone |= rows
        return gone


def _values(rows: pa.Table | pa.RecordBatch, columns: tuple[Leaf, ...]) -> list[Any]:
    """The key columns of rows, floating-point ones as integers with the same bits."""
    found = []
    for leaf in columns:
        values = rows.column(leaf.path[0])
        if len(leaf.path) > 1:
            values = pc.struct_field(values, list(leaf.path[1:]))
        found.append(_bits(values) if pa.types.is_floating(leaf.type) else values)
    return found


def _bits(values: Any) -> pa.Array:
    floats = values.fill_null(0.0).to_numpy()
    bits = np.where(np.isnan(floats), np.array(np.nan, floats.dtype), floats).view(f"i{floats.itemsize}")
    return pa.array(bits, mask=values.is_null().to_numpy(zero_copy_only=False))


def _null_patterns(values: list[Any]) -> npt.NDArray[np.int64]:
    """int64[rows]: bit b is set where column b is null."""
    patterns = np.zeros(len(values[0]), np.int64)
    for bit, column in enumerate(values):
        if column.null_count:
            patterns |= column.is_null().to_numpy(zero_copy_only=False).astype(np.int64) << bit
    return patterns
