"""Sort orders: parsed from text, applied to rows.

Spec: Iceberg spec, Sorting.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from skerry.iceberg.metadata.arrow_schema import to_arrow_type
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.sort_order import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from skerry.iceberg.partitioning.partitions import column_of, source_column
from skerry.iceberg.partitioning.transforms import apply, parse_transform, result_type
from skerry.table.rows.sorting import SortTerm, parse_term
from skerry.table.rows.sorting import sort_indices as order_of
from skerry.table.rows.z_order import check_z_order

__all__ = ["sort_indices", "sort_order", "z_order_columns"]


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
        term = parse_term(text)
        column, transform = parse_transform(term.source)
        source = source_column(schema, column)
        result_type(transform, to_arrow_type(source.field_type, path=(column,)))
        result.append(
            SortField(
                source.field_id,
                transform,
                SortDirection.DESC if term.descending else SortDirection.ASC,
                NullOrder.NULLS_LAST if term.nulls_last else NullOrder.NULLS_FIRST,
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
    terms = [
        SortTerm("", field.direction == SortDirection.DESC, field.null_order == NullOrder.NULLS_LAST)
        for field in order.fields
    ]
    columns = [apply(field.transform, column_of(schema, field.source_id, rows)) for field in order.fields]
    return order_of(columns, terms, rows.num_rows)


def z_order_columns(schema: Schema, names: Iterable[str]) -> tuple[int, ...]:
    """The field ids of the columns of a Z-curve, given by name.

    Raises:
        SchemaError: A column is unknown or named twice, or there are too few or too many.
    """
    ids = tuple(source_column(schema, name).field_id for name in names)
    check_z_order(ids)
    return ids
