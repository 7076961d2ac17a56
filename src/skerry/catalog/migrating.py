"""Tables made of folders of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

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
from skerry.table.table import Table
from skerry.table.work.tasks import Executor, ProgressCallback

__all__ = ["migrate_folder"]


class _Catalog(Protocol):
    """What a migration does in a catalog."""

    @property
    def properties(self) -> dict[str, str]: ...
    def table_exists(self, name: str) -> bool: ...
    def create_table(
        self,
        name: str,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] | None = (),
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        format_version: int | None = None,
    ) -> Table: ...
    def drop_table(self, name: str, *, purge: bool = False) -> None: ...


def migrate_folder(
    catalog: _Catalog,
    name: str,
    folder: str,
    properties: Mapping[str, str] | None,
    format_version: int | None,
    dry_run: bool,
    executor: Executor | None,
    progress: ProgressCallback | None,
) -> MigrationSummary:
    """Make a table of a folder; see `Catalog.migrate`."""
    location = (folder if "://" in folder or not folder.startswith("/") else f"file://{folder}").rstrip("/")
    plan = plan_migration(Storage(catalog.properties), location, executor=executor, progress=progress)
    summary = MigrationSummary(len(plan.files), plan.size_bytes, plan.schema, plan.partition_by, dry_run)
    if dry_run:
        return summary
    if catalog.table_exists(name):
        raise AlreadyExistsError(f"table {name!r} already exists")
    table = catalog.create_table(
        name,
        plan.schema,
        partition_by=[f'"{column}"' if not column.isidentifier() else column for column in plan.partition_by],
        properties=properties,
        location=location,
        format_version=format_version,
    )
    if not isinstance(table, IcebergTable):
        raise UnsupportedError(f"folders can only become Iceberg tables, found {table.format}", location=name)
    with made_for_rows(catalog, table):
        _check_ids(plan.schema, table.schema)
        ids = {column.name: field_id(column) for column in table.schema}
        add_files(
            table.handle,
            [file.location for file in plan.files],
            constants=plan.constants(table.schema, ids),
            executor=executor,
            progress=progress,
        )
    return summary


def _check_ids(in_files: pa.Schema, in_table: pa.Schema) -> None:
    """Refuse files whose field ids mean other columns in the table: a catalog assigns the ids of a new table itself.

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
                f"the files have field ids, {field_id(wanted)} for column {wanted.name!r}, but the catalog assigns the "
                f"field ids of new tables itself, here {field_id(given)}; write the files without field ids"
            )
        pairs += [(wanted.type.field(index), given.type.field(index)) for index in range(wanted.type.num_fields)]
