"""The metrics of files for people: every column of the table, each looked up in the maps of all files at once.

Spec: Iceberg spec, Data File Fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.iceberg.manifests.map_columns import METRIC_COLUMNS, MapColumns
from skerry.table.inspection.columns import readable_metrics
from skerry.table.predicate import FieldMetrics
from skerry.table.rows.schema import Leaf
from skerry.table.rows.values import arrow_storage, decode_values

__all__ = ["FILE_METRICS", "file_metrics"]

FILE_METRICS: Final = ("column_sizes", *METRIC_COLUMNS)
"""The columns of a manifest that `file_metrics` needs."""


def file_metrics(entries: pa.RecordBatch, columns: Sequence[Leaf]) -> pa.StructArray:
    """The column `readable_metrics` of a manifest's entries.

    Args:
        entries: Entries with the columns `FILE_METRICS`.
        columns: The table's primitive columns.

    Raises:
        FormatError: A bound has the wrong length for its column's type, or is not text where text is expected.
    """
    maps = {name: MapColumns(entries.column(name)) for name in FILE_METRICS}

    def bounds(name: str, leaf: Leaf) -> pa.Array:
        values = maps[name].values(leaf.field_id)
        try:
            return decode_values(arrow_storage(leaf.type), values)
        except SchemaError:  # of a type whose bounds are no single values
            return pa.nulls(len(values), leaf.type)

    def lookup(leaf: Leaf) -> FieldMetrics:
        return FieldMetrics(
            bounds("lower_bounds", leaf),
            bounds("upper_bounds", leaf),
            maps["null_value_counts"].counts(leaf.field_id),
            maps["nan_value_counts"].counts(leaf.field_id),
            maps["value_counts"].counts(leaf.field_id),
        )

    return readable_metrics(columns, lookup, entries.num_rows, lambda leaf: maps["column_sizes"].values(leaf.field_id))
