"""Tables made of what lies there already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from skerry.catalog.new_tables import made_for_rows
from skerry.errors import AlreadyExistsError, SchemaError, UnsupportedError
from skerry.iceberg.jobs.add_files import add_files
from skerry.iceberg.table import IcebergTable
from skerry.migration.folder import plan_migration
from skerry.storage import Storage
from skerry.table.files.evolution import has_ids
from skerry.table.rows.schema import field_id
from skerry.table.summaries import MigrationSummary
from skerry.table.tasks import Executor, Watcher

if TYPE_CHECKING:
    from skerry.catalog.catalog import Catalog

__all__ = ["migrate_folder"]


def migrate_folder(
    catalog: Catalog,
    name: str,
    folder: str,
    *,
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    dry_run: bool = False,
    executor: Executor | None = None,
    watcher: Watcher | None = None,
) -> MigrationSummary:
    """Make a table of a folder; see `Catalog.migrate`."""
    location = folder if "://" in folder or not folder.startswith("/") else f"file://{folder}"
    location = location.rstrip("/")
    plan = plan_migration(Storage(catalog.properties), location, executor=executor, watcher=watcher)
    summary = MigrationSummary(len(plan.files), plan.size_bytes, plan.schema, plan.partition_by, dry_run)
    if dry_run:
        return summary
    if catalog.table_exists(name):
        raise AlreadyExistsError(f"table {name!r} exists already")
    table = catalog.create_table(
        name,
        plan.schema,
        partition_by=[f'"{column}"' if not column.isidentifier() else column for column in plan.partition_by],
        properties=properties,
        location=location,
        format_version=format_version,
    )
    implementation = table.implementation
    if not isinstance(implementation, IcebergTable):
        raise UnsupportedError(f"folders become Iceberg tables, found {table.format}", location=name)
    with made_for_rows(catalog, table):
        _check_ids(plan.schema, table.schema)
        ids = {column.name: field_id(column) for column in table.schema}
        add_files(
            implementation,
            [file.location for file in plan.files],
            constants=plan.constants(table.schema, ids),
            executor=executor,
            watcher=watcher,
        )
    return summary


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
