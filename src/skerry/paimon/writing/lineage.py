"""Row ids and sequence numbers of rows that are written again: read as metadata columns, stored as columns of files.

Spec: docs/formats/paimon.md § 8.8.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from skerry.paimon.metadata.schema import LINEAGE_FIELDS, ROW_ID, SEQUENCE_NUMBER
from skerry.paimon.values.arrow_types import arrow_field
from skerry.paimon.writing.layout import WriteLayout
from skerry.table.rows.metadata_columns import LINEAGE_COLUMNS

__all__ = ["ROW_ID_FIELD", "read_columns", "stored_rows", "updated_rows"]

ROW_ID_FIELD: Final = LINEAGE_COLUMNS.field(0)
_ID, _NUMBER = (arrow_field(LINEAGE_FIELDS[name]) for name in (ROW_ID, SEQUENCE_NUMBER))
_STORED: Final = dict(zip(LINEAGE_COLUMNS.names, (_ID, _NUMBER), strict=True))


def read_columns(layout: WriteLayout, columns: pa.Schema) -> pa.Schema:
    """The columns to read of rows that are written again.

    Args:
        layout: How they are written.
        columns: The columns of the table.
    """
    return pa.schema([*columns, *LINEAGE_COLUMNS]) if ROW_ID in (layout.columns or ()) else columns


def stored_rows(batch: pa.RecordBatch) -> pa.Table:
    """Rows with `read_columns` as they are written."""
    fields = [_STORED.get(field.name, field) for field in batch.schema]
    return pa.Table.from_arrays(batch.columns, schema=pa.schema(fields))


def updated_rows(rows: pa.Table, row_ids: pa.ChunkedArray) -> pa.Table:
    """The new version of rows that keep their ids; their sequence number is that of the commit.

    Args:
        rows: The columns of the table.
        row_ids: int64[rows].
    """
    return rows.append_column(_ID, row_ids).append_column(_NUMBER, pa.nulls(rows.num_rows, pa.int64()))
