"""Metrics of many files from manifests and manifest lists, in the form on which predicates are evaluated.

Spec: Iceberg spec, Manifest Lists (field_summary), Data File Fields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.iceberg.manifests.manifest_list import FieldSummary, ManifestFile
from skerry.iceberg.manifests.map_columns import FieldValues
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.writing.shape_bounds import points_of
from skerry.iceberg.writing.variant_bounds import decode_bounds
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.rows.metadata_columns import is_metadata_column
from skerry.table.rows.values import arrow_storage, decode_values
from skerry.wkb import WkbType

__all__ = ["MetricsLookup", "column_metrics", "partition_metrics", "summary_metrics"]

MetricsLookup: TypeAlias = Callable[[Column], FieldMetrics | None]
"""The metrics of a column over all files; None if nothing is known."""


def summary_metrics(spec: PartitionSpec, manifests: Sequence[ManifestFile]) -> MetricsLookup:
    """The partition summaries of manifests, as metrics of partition fields.

    Each counts as one value, since summaries only show whether there are nulls and NaNs.

    Args:
        spec: The partition spec of the manifests.
        manifests: Records of manifests in their list.
    """
    positions = {field.field_id: index for index, field in enumerate(spec.fields)}
    unknown = FieldSummary(contains_null=True)

    def lookup(column: Column) -> FieldMetrics | None:
        index = positions[column.field_id]
        summaries = [
            manifest.partitions[index] if index < len(manifest.partitions) else unknown for manifest in manifests
        ]
        is_known = np.array([index < len(manifest.partitions) for manifest in manifests], bool)
        lower = decode_values(column.type, pa.array([summary.lower_bound for summary in summaries], pa.binary()))
        upper = decode_values(column.type, pa.array([summary.upper_bound for summary in summaries], pa.binary()))
        has_null = np.array([summary.contains_null for summary in summaries], bool)
        is_float = pa.types.is_floating(column.type)
        may_be_nan = np.array([is_float and summary.contains_nan is not False for summary in summaries], bool)
        only_null = is_known & has_null & ~may_be_nan & lower.is_null().to_numpy(zero_copy_only=False)
        nulls = np.where(only_null, 1, np.where(is_known & ~has_null, 0, -1))
        return FieldMetrics(
            lower, upper, nulls, np.where(is_known & ~may_be_nan, 0, -1), np.ones(len(summaries), np.int64)
        )

    return lookup


def partition_metrics(spec: PartitionSpec, files: pa.RecordBatch) -> MetricsLookup:
    """The partition values of files, as metrics of partition fields: one value each.

    Args:
        spec: The partition spec of the files.
        files: Entries of a manifest, with the column `partition`.
    """
    positions = {field.field_id: index for index, field in enumerate(spec.fields)}

    def lookup(column: Column) -> FieldMetrics | None:
        values = files.column("partition").field(positions[column.field_id])
        storage = _cast_partition(values, column.type)
        nulls = np.asarray(storage.is_null()).astype(np.int64)
        nans = np.zeros_like(nulls)
        if pa.types.is_floating(storage.type):
            nans = np.asarray(pc.fill_null(pc.is_nan(storage), False)).astype(np.int64)
        return FieldMetrics(storage, storage, nulls, nans, np.ones_like(nulls))

    return lookup


def _cast_partition(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Partition values in the storage type of the current result type; the source may have been promoted since."""
    storage = values.storage if isinstance(values, pa.ExtensionArray) else values
    return storage if storage.type == arrow_storage(type_) else storage.cast(arrow_storage(type_))


def column_metrics(parts: pa.RecordBatch | Sequence[pa.RecordBatch]) -> MetricsLookup:
    """The column metrics of files, looked up in all of them at once.

    Args:
        parts: Entries of one or several manifests, with the columns of metrics and `record_count`.
    """
    batches = [parts] if isinstance(parts, pa.RecordBatch) else list(parts)
    found = [FieldValues(batch) for batch in batches]
    cache: dict[Column, FieldMetrics] = {}

    def stored(name: str, column: Column) -> pa.Array:
        values = [of_batch.values(name, column.field_id) for of_batch in found]
        return pa.concat_arrays(values) if len(values) > 1 else values[0]

    def inside(column: Column) -> FieldMetrics:
        lower, is_exact = decode_bounds(stored("lower_bounds", column), column)
        upper, _ = decode_bounds(stored("upper_bounds", column), column)
        unknown = np.full(len(lower), -1, np.int64)
        return FieldMetrics(lower, upper, unknown, np.where(is_exact, 0, unknown), unknown)

    def counts(name: str, key: int) -> npt.NDArray[np.int64]:
        return np.concatenate([of_batch.counts(name, key) for of_batch in found])

    def lookup(column: Column) -> FieldMetrics | None:
        if pa.types.is_nested(column.type) or pa.types.is_null(column.type) or is_metadata_column(column.field_id):
            return None  # row ids that a file does not store are inherited and have no bounds
        if column not in cache and column.inside is not None:
            cache[column] = inside(column)
        if column not in cache:
            read = points_of if isinstance(column.type, WkbType) else functools.partial(decode_values, column.type)
            values = counts("value_counts", column.field_id)
            row_counts = np.concatenate([batch.column("record_count") for batch in batches])
            cache[column] = FieldMetrics(
                read(stored("lower_bounds", column)),
                read(stored("upper_bounds", column)),
                counts("null_value_counts", column.field_id),
                counts("nan_value_counts", column.field_id),
                np.where(values < 0, row_counts, values),
            )
        return cache[column]

    return lookup
