"""Comparison of bounds of equality deletes and data files: which deletes can match a key there?

Spec: Iceberg spec, Equality Delete Files, Data File Fields (bounds, null counts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.schema import Schema
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.rows.schema import leaves

__all__ = ["KeyRanges", "equality_columns", "join_metrics"]

_Integers: TypeAlias = npt.NDArray[np.int64]
_Mask: TypeAlias = npt.NDArray[np.bool_]


def equality_columns(equality_ids: pa.Array, schema: Schema) -> tuple[Column, ...]:
    """The columns of equality deletes whose bounds are comparable: not floating-point ones, and not those of shapes.

    Args:
        equality_ids: list[deletes] of field ids.
        schema: The schema of the scan. Dropped columns are read from the files, but have no type to compare bounds in.
    """
    wanted = set(equality_ids.flatten().to_pylist())
    return tuple(
        Column(leaf.field_id, leaf.path, leaf.type)
        for leaf in leaves(to_arrow_schema(schema))
        if leaf.field_id in wanted and not pa.types.is_floating(leaf.type) and not leaf.has_shapes
    )


def join_metrics(parts: Sequence[FieldMetrics]) -> FieldMetrics:
    """The metrics of one column over the files of all parts."""
    return FieldMetrics(
        pa.concat_arrays([part.lower for part in parts]),
        pa.concat_arrays([part.upper for part in parts]),
        np.concatenate([part.null_counts for part in parts]),
        np.concatenate([part.nan_counts for part in parts]),
        np.concatenate([part.value_counts for part in parts]),
    )


@dataclass(frozen=True)
class KeyRanges:
    """Checks pairs of data files and equality deletes.

    A pair remains if, in every column that the delete compares, both have nulls or their ranges overlap, as far as
    metrics show.

    Args:
        compared: By field id, bool[deletes]: which deletes compare the column.
        deletes: Metrics of the columns in the deletes, by field id.
        files: Metrics of the columns in the data files, by field id.
    """

    compared: Mapping[int, _Mask]
    deletes: Mapping[int, FieldMetrics]
    files: Mapping[int, FieldMetrics]

    def judge(self) -> _Judgement:
        """Convert bounds to comparable ranks, once for all pairs."""
        return _Judgement(
            [_Ranks.of(self.compared[key], self.files[key], self.deletes[key]) for key in sorted(self.compared)]
        )


@dataclass(frozen=True, slots=True)
class _Judgement:
    columns: Sequence[_Ranks]

    def __call__(self, files: _Integers, deletes: _Integers) -> _Mask:
        kept = np.ones(len(files), bool)
        for column in self.columns:
            kept &= column.may_meet(files, deletes)
        return kept


@dataclass(frozen=True, slots=True)
class _Ranks:
    """One column: bounds as ranks among each other, 0 and the maximum where unknown."""

    compared: _Mask
    file_lower: _Integers
    file_upper: _Integers
    delete_lower: _Integers
    delete_upper: _Integers
    file_nulls: _Mask
    delete_nulls: _Mask
    file_values: _Mask
    delete_values: _Mask

    @classmethod
    def of(cls, compared: _Mask, files: FieldMetrics, deletes: FieldMetrics) -> _Ranks:
        bounds = [_comparable(side) for side in (files.lower, files.upper, deletes.lower, deletes.upper)]
        ranks = pc.rank(pa.concat_arrays(bounds), tiebreaker="dense").to_numpy().astype(np.int64)
        parts = np.split(ranks, np.cumsum([len(part) for part in bounds])[:-1])
        # nulls rank highest, which is right for an unknown upper bound
        for part in (0, 2):
            parts[part] = np.where(bounds[part].is_null().to_numpy(zero_copy_only=False), 0, parts[part])
        return cls(
            compared,
            *parts,
            *((metrics.null_counts != 0) for metrics in (files, deletes)),
            *(
                (metrics.null_counts != metrics.value_counts) | (metrics.null_counts < 0)
                for metrics in (files, deletes)
            ),
        )

    def may_meet(self, files: _Integers, deletes: _Integers) -> _Mask:
        overlap = (self.file_lower[files] <= self.delete_upper[deletes]) & (
            self.delete_lower[deletes] <= self.file_upper[files]
        )
        values = self.file_values[files] & self.delete_values[deletes] & overlap
        nulls = self.file_nulls[files] & self.delete_nulls[deletes]
        return ~self.compared[deletes] | values | nulls


def _comparable(values: pa.Array) -> pa.Array:
    """Values in a type that has ranks."""
    storage = values.storage if isinstance(values, pa.ExtensionArray) else values
    return storage.cast(pa.int8()) if pa.types.is_boolean(storage.type) else storage
