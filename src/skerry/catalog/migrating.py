"""Tables made of what lies there already."""

from __future__ import annotations

import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.jobs.add_files import add_files
from skerry.iceberg.table import IcebergTable
from skerry.migration.folder import Migration
from skerry.table.files.evolution import has_ids
from skerry.table.rows.schema import field_id
from skerry.table.table import Table
from skerry.table.work.tasks import Executor, Watcher

__all__ = ["add_folder", "folder_location"]


def folder_location(folder: str) -> str:
    """The location of a folder that is named by a location or a path."""
    location = folder if "://" in folder or not folder.startswith("/") else f"file://{folder}"
    return location.rstrip("/")


def add_folder(
    table: Table, plan: Migration, *, executor: Executor | None = None, watcher: Watcher | None = None
) -> None:
    """Add the files of a folder to the table that was made for them.

    Raises:
        SchemaError: The catalog has given other field ids to the columns than the files have.
        UnsupportedError: The table is not an Iceberg table.
    """
    if not isinstance(table, IcebergTable):
        raise UnsupportedError(f"folders become Iceberg tables, found {table.format}", location=table.name)
    _check_ids(plan.schema, table.schema)
    ids = {column.name: field_id(column) for column in table.schema}
    add_files(
        table.handle,
        [file.location for file in plan.files],
        constants=plan.constants(table.schema, ids),
        executor=executor,
        watcher=watcher,
    )


def _check_ids(in_files: pa.Schema, in_table: pa.Schema) -> None:
    """Refuse files whose field ids mean other columns in the table: a catalog numbers a new table's columns itself.

    Raises:
        SchemaError: An id differs.
    """
    if not has_ids(in_files):
        return
    pairs = list(zip(in_files, in_table, strict=True))
    while pairs:
        wanted, given = pairs.pop()
        if field_id(wanted) != field_id(given):
            raise SchemaError(
                f"the files' columns have field ids, {field_id(wanted)} for {wanted.name!r}, and the catalog numbers "
                f"columns of new tables itself, here {field_id(given)}; write the files without field ids"
            )
        pairs += [(wanted.type.field(index), given.type.field(index)) for index in range(wanted.type.num_fields)]
