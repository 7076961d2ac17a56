"""Preparing records of a primary-key table for files: sorted by key, and merged to one per key.

Spec: docs/formats/paimon.md § 8.6, § 8.7.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError
from skerry.paimon.merging import MergeFunction, MergeOrder, Records, encode_order_keys, sort_records
from skerry.paimon.writing.layout import WriteLayout

__all__ = ["file_rows", "order_records"]


def order_records(layout: WriteLayout, function: MergeFunction, records: Records) -> MergeOrder:
    """Order records by key, then by the table's sequence fields, then by arrival.

    Raises:
        SchemaError: A key is NaN, which is not ordered.
    """
    names = layout.schema.trimmed_primary_keys
    columns = [records.values.column(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            raise SchemaError(f"primary key {name!r} is NaN in a row, which cannot be ordered")
    keys = encode_order_keys(columns, [False] * len(columns))
    return sort_records(keys, records.numbers, function.sequence_keys(records.values))


def file_rows(layout: WriteLayout, records: Records) -> pa.Table:
    """Records in the columns of data files: keys, sequence number, kind, values."""
    schema = layout.schema.file_schema()
    keys = [records.values.column(field.name) for field in layout.schema.key_fields]
    columns = [*keys, pa.array(records.numbers), pa.array(records.kinds), *records.values.columns]
    return pa.table(columns, schema)
