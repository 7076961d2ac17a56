"""Sort orders: parsed from text, applied to rows.

Spec: Iceberg spec, Sorting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.iceberg.metadata.arrow_schema import to_arrow_type
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.sort_order import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from skerry.iceberg.partitioning.partitions import column_of, source_column
from skerry.iceberg.partitioning.transforms import apply, parse_transform, result_type
from skerry.table.rows.values import is_uuid

__all__ = ["sort_indices", "sort_order", "sortable"]

_FIELD = re.compile(
    r"(?P<transform>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE | re.DOTALL,
)


def sort_order(schema: Schema, fields: Iterable[str], *, order_id: int = 1) -> SortOrder:
    """The sort order of a list of columns in text form.

    Args:
        schema: The table's schema.
        fields: Each a column or transform as `skerry.iceberg.partitioning.transforms.parse_transform` reads it, then
            optionally `asc` or `desc`, then optionally `nulls first` or `nulls last`. Without the latter, nulls come
            first in ascending and last in descending order.
        order_id: Id of the order; without fields it is the unsorted order, whose id is 0.

    Raises:
        SchemaError: An unknown column or transform, or one that does not apply.
    """
    result = []
    for text in fields:
        found = _FIELD.fullmatch(text)
        column, transform = parse_transform(found["transform"] if found else text)
        source = source_column(schema, column)
        result_type(transform, to_arrow_type(source.field_type, path=(column,)))
        parts = found.groupdict() if found else {}
        descending = (parts.get("direction") or "asc").lower() == "desc"
        nulls = (parts.get("nulls") or ("last" if descending else "first")).lower()
        result.append(
            SortField(
                source.field_id,
                transform,
                SortDirection.DESC if descending else SortDirection.ASC,
                NullOrder.NULLS_FIRST if nulls == "first" else NullOrder.NULLS_LAST,
            )
        )
    return SortOrder(*result, order_id=order_id) if result else UNSORTED_SORT_ORDER


def sort_indices(schema: Schema, order: SortOrder, rows: pa.RecordBatch | pa.Table) -> pa.Array:
    """The order of rows when sorted; the sort is stable.

    Args:
        schema: The table's schema.
        order: A sort order over it.
        rows: Rows with the columns of `schema`.

    Returns:
        uint64[n] row numbers in sort order.

    Spec: Iceberg spec, Sorting: -NaN < -Infinity < -value < -0 < 0 < value < Infinity < NaN.
    """
    keys: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for number, field in enumerate(order.fields):
        column = apply(field.transform, column_of(schema, field.source_id, rows))
        if column.null_count:
            # a separate key, since Arrow puts all keys' nulls at the same end
            keys[f"n{number}"] = column.is_null() if field.null_order == NullOrder.NULLS_LAST else column.is_valid()
            directions.append((f"n{number}", "ascending"))
        keys[f"v{number}"] = sortable(column)
        directions.append((f"v{number}", "descending" if field.direction == SortDirection.DESC else "ascending"))
    if not keys:
        return pa.array(np.arange(rows.num_rows, dtype=np.uint64))
    return pc.sort_indices(pa.table(keys), sort_keys=directions)


def sortable(column: Any) -> Any:
    """Convert a column so that Arrow sorts it as the specification says."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [sortable(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=chunks[0].type) if chunks else column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        bits = column.to_numpy(zero_copy_only=False).astype(np.float64).view(np.int64)
        return pa.array(bits ^ ((bits >> 63) & 0x7FFF_FFFF_FFFF_FFFF), mask=np.asarray(column.is_null()))
    return column.storage if is_uuid(column.type) else column
