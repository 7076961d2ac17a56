"""Summaries of partition values, by which whole manifests are pruned.

Spec: Iceberg spec, Manifest Lists, `field_summary`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from skerry.iceberg.manifests.manifest_list import FieldSummary
from skerry.table.rows.values import encode_value, is_uuid

__all__ = ["summarize_partitions"]


def summarize_partitions(partition: pa.Schema, columns: Sequence[list[Any]]) -> tuple[FieldSummary, ...]:
    """Summarize the partitions of a manifest's files.

    Args:
        partition: The fields of the partition tuple.
        columns: For each field its physical values, each at least once, with null if a file has none.

    Returns:
        A summary for each field; none where readers disagree about the order of values.
    """
    types = partition.types
    if any(is_uuid(type_) and not _order_is_clear(values) for type_, values in zip(types, columns, strict=True)):
        return ()
    return tuple(_summarize(type_, values) for type_, values in zip(types, columns, strict=True))


def _order_is_clear(uuids: list[bytes | None]) -> bool:
    """Whether readers agree on the order of UUIDs: Iceberg Java compares halves as signed numbers, others bytes."""
    signs = {(value[0] >= 0x80, value[8] >= 0x80) for value in uuids if value is not None}
    return len(signs) <= 1


def _summarize(type_: pa.DataType, values: list[Any]) -> FieldSummary:
    """A summary of the files' values of one partition field.

    Spec: Iceberg spec, Manifest Lists, `field_summary`: -0.0 comes before 0.0, and NaN is no bound.
    """
    present = [value for value in values if value is not None]
    ordered = [value for value in present if not _is_nan(value)]
    key = _total_order if pa.types.is_floating(type_) else None
    return FieldSummary(
        contains_null=len(present) < len(values),
        contains_nan=len(ordered) < len(present),
        lower_bound=encode_value(type_, min(ordered, key=key)) if ordered else None,
        upper_bound=encode_value(type_, max(ordered, key=key)) if ordered else None,
    )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _total_order(value: float) -> tuple[float, float]:
    return value, math.copysign(1.0, value)
