"""The columns of metadata tables that both table formats have: names and types of Iceberg's metadata tables.

A format adds columns of its own at the end (before `readable_metrics`), and leaves out those that it has no values for.

Spec: Iceberg documentation, Inspecting tables; Paimon documentation, System Tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import pyarrow as pa

from skerry.table.predicate import FieldMetrics
from skerry.table.rows.schema import Leaf

__all__ = [
    "HISTORY",
    "MANIFEST_SUMMARIES",
    "MOMENT",
    "PARTITION_COUNTS",
    "PARTITION_UPDATES",
    "POSITION_DELETES",
    "PROPERTIES",
    "REFS",
    "SNAPSHOTS",
    "STATISTICS",
    "constant",
    "metrics_type",
    "readable_metrics",
]

MOMENT: Final = pa.timestamp("ms", "UTC")
_TEXTS: Final = pa.map_(pa.string(), pa.string())

SNAPSHOTS: Final = (
    pa.field("committed_at", MOMENT, nullable=False),
    pa.field("snapshot_id", pa.int64(), nullable=False),
    pa.field("parent_id", pa.int64()),
    pa.field("operation", pa.string()),
    pa.field("manifest_list", pa.string()),
    pa.field("summary", _TEXTS),
)
HISTORY: Final = (
    pa.field("made_current_at", MOMENT, nullable=False),
    pa.field("snapshot_id", pa.int64(), nullable=False),
    pa.field("parent_id", pa.int64()),
    pa.field("is_current_ancestor", pa.bool_(), nullable=False),
)
REFS: Final = (
    pa.field("name", pa.string(), nullable=False),
    pa.field("type", pa.string(), nullable=False),
    pa.field("snapshot_id", pa.int64()),
    pa.field("max_reference_age_in_ms", pa.int64()),
    pa.field("min_snapshots_to_keep", pa.int32()),
    pa.field("max_snapshot_age_in_ms", pa.int64()),
)
PROPERTIES: Final = (
    pa.field("key", pa.string(), nullable=False),
    pa.field("value", pa.string(), nullable=False),
)
STATISTICS: Final = (
    pa.field("snapshot_id", pa.int64(), nullable=False),
    pa.field("statistics_path", pa.string(), nullable=False),
    pa.field("file_size_in_bytes", pa.int64()),
    pa.field("file_footer_size_in_bytes", pa.int64()),
    pa.field("blob_type", pa.string()),
    pa.field("blob_snapshot_id", pa.int64()),
    pa.field("blob_sequence_number", pa.int64()),
    pa.field("field_ids", pa.list_(pa.int32())),
    pa.field("columns", pa.list_(pa.string())),
    pa.field("properties", _TEXTS),
)
PARTITION_COUNTS: Final = (
    pa.field("record_count", pa.int64(), nullable=False),
    pa.field("file_count", pa.int32(), nullable=False),
    pa.field("total_data_file_size_in_bytes", pa.int64(), nullable=False),
    pa.field("position_delete_record_count", pa.int64(), nullable=False),
    pa.field("position_delete_file_count", pa.int32(), nullable=False),
    pa.field("equality_delete_record_count", pa.int64(), nullable=False),
    pa.field("equality_delete_file_count", pa.int32(), nullable=False),
)
PARTITION_UPDATES: Final = (pa.field("last_updated_at", MOMENT),)
POSITION_DELETES: Final = (
    pa.field("file_path", pa.string(), nullable=False),
    pa.field("pos", pa.int64(), nullable=False),
    pa.field("delete_file_path", pa.string(), nullable=False),
    pa.field("content_offset", pa.int64()),
    pa.field("content_size_in_bytes", pa.int64()),
)
MANIFEST_SUMMARIES: Final = pa.list_(
    pa.struct(
        [
            pa.field("contains_null", pa.bool_()),
            pa.field("contains_nan", pa.bool_()),
            pa.field("lower_bound", pa.string()),
            pa.field("upper_bound", pa.string()),
        ]
    )
)


# Readable metrics ---------------------------------------------------------------------------------------------------


def metrics_type(columns: Iterable[Leaf]) -> pa.StructType:
    """The type of `readable_metrics`: a struct of counts and typed bounds for each primitive column, by dotted name."""
    return pa.struct([pa.field(leaf.name, pa.struct(_metrics_fields(leaf))) for leaf in columns])


def _metrics_fields(leaf: Leaf) -> list[pa.Field]:
    counts = ("column_size", "value_count", "null_value_count", "nan_value_count")
    bounds = ("lower_bound", "upper_bound")
    return [pa.field(name, pa.int64()) for name in counts] + [pa.field(name, leaf.type) for name in bounds]


def readable_metrics(
    columns: Sequence[Leaf],
    lookup: Callable[[Leaf], FieldMetrics | None],
    count: int,
    sizes: Callable[[Leaf], pa.Array] | None = None,
) -> pa.StructArray:
    """The values of `readable_metrics`.

    Args:
        columns: The table's primitive columns.
        lookup: The metrics of a column in all files; None if nothing is known.
        count: Number of files.
        sizes: int64[files] The bytes of a column in each file, where that is recorded.
    """
    arrays = []
    for leaf in columns:
        found = lookup(leaf)
        size = pa.nulls(count, pa.int64()) if sizes is None else sizes(leaf)
        if found is None:
            values = [size, *(pa.nulls(count, field.type) for field in _metrics_fields(leaf)[1:])]
        else:
            counts = (found.value_counts, found.null_counts, found.nan_counts)
            bounds = (found.lower, found.upper)
            values = [size, *(pa.array(number, pa.int64(), mask=number < 0) for number in counts)]
            values += [bound if bound.type == leaf.type else bound.cast(leaf.type) for bound in bounds]
        arrays.append(pa.StructArray.from_arrays(values, fields=_metrics_fields(leaf)))
    if not arrays:
        return pa.nulls(count, pa.struct([]))
    return pa.StructArray.from_arrays(arrays, fields=list(metrics_type(columns)))


# Arrays -------------------------------------------------------------------------------------------------------------


def constant(value: object, type_: pa.DataType, count: int) -> pa.Array:
    """An array of one value, `count` times."""
    return pa.nulls(count, type_) if value is None else pa.repeat(pa.scalar(value, type_), count)
