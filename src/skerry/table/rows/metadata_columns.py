"""Metadata columns, which every table has without declaring them: a row's file and position, and its lineage.

They are identified by reserved field ids. New columns of a table may not have their names, as row-level changes and
row lineage read both side by side. A table of another engine that has such a column can be read nevertheless.

Spec: Iceberg spec, Reserved Field IDs, Row Lineage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.rows.schema import FIELD_ID_KEY

__all__ = [
    "DELETED",
    "FILE",
    "LAST_UPDATED_SEQUENCE_NUMBER",
    "LINEAGE_COLUMNS",
    "METADATA_COLUMNS",
    "POSITION",
    "ROW_ID",
    "SPEC_ID",
    "check_new_names",
    "is_metadata_column",
    "with_metadata_columns",
]

FILE: Final = 2147483646
POSITION: Final = 2147483645
DELETED: Final = 2147483644
SPEC_ID: Final = 2147483643
ROW_ID: Final = 2147483540
LAST_UPDATED_SEQUENCE_NUMBER: Final = 2147483539


def _field(name: str, type_: pa.DataType, field_id: int, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={FIELD_ID_KEY: str(field_id).encode()})


LINEAGE_COLUMNS: Final = pa.schema(
    [
        _field("_row_id", pa.int64(), ROW_ID, nullable=True),
        _field("_last_updated_sequence_number", pa.int64(), LAST_UPDATED_SEQUENCE_NUMBER, nullable=True),
    ]
)
"""What rows of tables with row lineage (Iceberg v3) keep when they are rewritten; null in rows of older tables."""

METADATA_COLUMNS: Final = pa.schema(
    [
        _field("_file", pa.string(), FILE),
        _field("_pos", pa.int64(), POSITION),
        _field("_deleted", pa.bool_(), DELETED),
        _field("_spec_id", pa.int32(), SPEC_ID),
        *LINEAGE_COLUMNS,
    ]
)
"""All of them: the row's data file, its position there, whether it is deleted (requesting this returns deleted rows
too), the file's partition spec, the row's id, and the sequence number of the commit that last changed it."""

_IDS: Final = frozenset(int(field.metadata[FIELD_ID_KEY]) for field in METADATA_COLUMNS)


def is_metadata_column(field_id: int) -> bool:
    """Whether a field id belongs to a metadata column."""
    return field_id in _IDS


def with_metadata_columns(schema: pa.Schema) -> pa.Schema:
    """A table's schema followed by the metadata columns whose names it does not use itself."""
    taken = set(schema.names)
    return pa.schema([*schema, *(field for field in METADATA_COLUMNS if field.name not in taken)], schema.metadata)


def check_new_names(names: Iterable[str]) -> None:
    """Refuse new columns that have the name of a metadata column.

    Raises:
        SchemaError: A column has such a name.
    """
    for name in names:
        if name in METADATA_COLUMNS.names:
            raise SchemaError(f"column {name!r} has the name of a metadata column, which every table has; rename it")
