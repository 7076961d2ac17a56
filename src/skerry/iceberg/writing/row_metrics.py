"""Metrics collected from rows while writing a file, where its format has no readable statistics.

Spec: Iceberg spec, Data File Fields, Field-level Metrics and Statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skerry.iceberg.writing.bounds import encode_bounds
from skerry.iceberg.writing.metrics import MetricsKind, MetricsMode
from skerry.iceberg.writing.shape_bounds import ShapeBounds
from skerry.table.files.data_file import DataFile
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.rows.values import is_uuid, physical_value

__all__ = ["RowMetrics"]

_NONE = MetricsMode(MetricsKind.NONE)


@dataclass(slots=True)
class _Column:
    nulls: int = 0
    nans: int = 0
    shapes: ShapeBounds | None = None
    lower: list[Any] = field(default_factory=list)
    upper: list[Any] = field(default_factory=list)


class RowMetrics:
    """Counts and bounds of every primitive column outside of lists and maps.

    Args:
        schema: The file's columns with field ids.
        only_shapes: Whether other columns than those of shapes are left out.
    """

    def __init__(self, schema: pa.Schema, *, only_shapes: bool = False) -> None:
        self._leaves = [leaf for leaf in leaves(schema) if leaf.has_shapes or not only_shapes]
        self._columns = {
            leaf.field_id: _Column(shapes=ShapeBounds(leaf.shapes) if leaf.shapes else None) for leaf in self._leaves
        }
        self._rows = 0

    def update(self, rows: pa.Table) -> None:
        """Add rows."""
        self._rows += rows.num_rows
        for leaf in self._leaves:
            column = self._columns[leaf.field_id]
            for chunk in rows.column(leaf.path[0]).chunks:
                _add(column, leaf, _descend(chunk, leaf.path[1:]))

    def data_file(
        self,
        location: str,
        file_format: str,
        file_size_bytes: int,
        modes: Mapping[int, MetricsMode],
        *,
        spec_id: int,
        partition: tuple[Any, ...],
        sort_order_id: int | None,
    ) -> DataFile:
        """The entry of the file to which the rows were written.

        Args:
            location: The file.
            file_format: `orc`, `avro` or `amudai`.
            file_size_bytes: Its exact size.
            modes: Which metrics to keep, by field id.
            spec_id: The partition spec.
            partition: The partition, in physical values.
            sort_order_id: The sort order of the rows.
        """
        kept = [leaf for leaf in self._leaves if modes.get(leaf.field_id, _NONE).kind is not MetricsKind.NONE]
        bounds = {
            leaf.field_id: self._bounds(leaf, modes[leaf.field_id])
            for leaf in kept
            # Iceberg Java compares UUIDs as signed numbers, others compare bytes: no bound holds for both
            if modes[leaf.field_id].has_bounds and not is_uuid(leaf.type)
        }
        return DataFile(
            location=location,
            file_format=file_format,
            record_count=self._rows,
            file_size_bytes=file_size_bytes,
            spec_id=spec_id,
            partition=partition,
            value_counts={leaf.field_id: self._rows for leaf in kept},
            null_value_counts={leaf.field_id: self._columns[leaf.field_id].nulls for leaf in kept},
            nan_value_counts={
                leaf.field_id: self._columns[leaf.field_id].nans for leaf in kept if pa.types.is_floating(leaf.type)
            },
            lower_bounds={number: lower for number, (lower, _) in bounds.items() if lower is not None},
            upper_bounds={number: upper for number, (_, upper) in bounds.items() if upper is not None},
            sort_order_id=sort_order_id,
        )

    def added_to(self, file: DataFile, modes: Mapping[int, MetricsMode]) -> DataFile:
        """The entry of a file with these metrics besides those that it has."""
        if not self._leaves:
            return file
        mine = self.data_file(
            file.location,
            file.file_format,
            file.file_size_bytes,
            modes,
            spec_id=file.spec_id,
            partition=file.partition,
            sort_order_id=file.sort_order_id,
        )
        return replace(
            file,
            value_counts={**file.value_counts, **mine.value_counts},
            null_value_counts={**file.null_value_counts, **mine.null_value_counts},
            lower_bounds={**file.lower_bounds, **mine.lower_bounds},
            upper_bounds={**file.upper_bounds, **mine.upper_bounds},
        )

    def _bounds(self, leaf: Leaf, mode: MetricsMode) -> tuple[bytes | None, bytes | None]:
        column = self._columns[leaf.field_id]
        if column.shapes is not None:
            return column.shapes.encode() or (None, None)
        return encode_bounds(leaf.type, column.lower, column.upper, mode.length)


def _descend(array: pa.Array, path: tuple[str, ...]) -> pa.Array:
    """A column in structs, null where one of them is null."""
    for name in path:
        array = array.flatten()[array.type.get_field_index(name)]
    return array


def _add(column: _Column, leaf: Leaf, values: pa.Array) -> None:
    column.nulls += values.null_count
    if pa.types.is_null(leaf.type) or is_uuid(leaf.type):
        return
    if column.shapes is not None:
        column.shapes.update(values)
        return
    if pa.types.is_floating(leaf.type):
        is_nan = pc.is_nan(values)
        column.nans += pc.sum(is_nan).as_py() or 0
        values = values.filter(pc.invert(is_nan))
    extremes = pc.min_max(values)
    if extremes["min"].is_valid:
        column.lower = [min([*column.lower, physical_value(leaf.type, extremes["min"])])]
        column.upper = [max([*column.upper, physical_value(leaf.type, extremes["max"])])]
