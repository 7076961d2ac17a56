"""Relocation of a copied or moved warehouse folder: its metadata is rewritten for the new location.

New metadata files are written beside the old ones, all of them; then the catalog's rows are updated in one transaction,
together with the record of the location. Until then the warehouse is unchanged, and an interrupted relocation is simply
repeated. Nothing is written or deleted in the old location.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skerry.catalog.iceberg_tables import IcebergTables
from skerry.catalog.paimon_tables import PaimonTables
from skerry.catalog.warehouse_origin import CATALOG_FILE, record_folder
from skerry.databases.sql_database import SqlConnection
from skerry.errors import ConflictError, NotFoundError, SkerryError, UnsupportedError
from skerry.iceberg.catalogs.sql import SqlCatalog
from skerry.iceberg.relocation import RelocatedTable, concerns_table, relocate_table
from skerry.paimon.relocation import relocate_paimon_table
from skerry.storage import MOVED_FROM, MOVED_TO, Move, Storage, is_within, local_path, move_of
from skerry.table.summaries import RelocationSummary, TableRelocationSummary
from skerry.table.work.tasks import JobProgress, ProgressCallback

__all__ = ["relocatable", "relocate_catalog"]

_ROWS = (
    "SELECT catalog_name, table_namespace, table_name, metadata_location FROM iceberg_tables "
    "ORDER BY table_namespace, table_name, catalog_name"
)
_SWITCH = (
    "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = NULL "
    "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?"
)
_PROPERTIES = (
    "SELECT catalog_name, namespace, property_key, property_value FROM iceberg_namespace_properties "
    "WHERE property_value IS NOT NULL"
)
_SET_PROPERTY = (
    "UPDATE iceberg_namespace_properties SET property_value = ? "
    "WHERE catalog_name = ? AND namespace = ? AND property_key = ?"
)


@dataclass(frozen=True, slots=True)
class _Row:
    """A table's row in the catalog."""

    catalog: str
    namespace: str
    name: str
    metadata_location: str

    @property
    def table(self) -> str:
        return f"{self.namespace}.{self.name}"


def relocatable(tables: IcebergTables | None) -> SqlCatalog:
    """The catalog of a folder.

    Raises:
        UnsupportedError: It is another kind of catalog.
    """
    catalog = None if tables is None else tables.catalog
    if not isinstance(catalog, SqlCatalog) or catalog.database.path is None:
        raise UnsupportedError("only the warehouse of a folder, with its own catalog.db, can be relocated")
    return catalog


def relocate_catalog(
    catalog: SqlCatalog, paimon: PaimonTables | None, *, dry_run: bool, progress: ProgressCallback | None
) -> RelocationSummary:
    """Rewrite the metadata of all tables that were in the old location, then switch the catalog over.

    Args:
        catalog: The catalog of the folder at its current location.
        paimon: The Paimon tables of the folder.
        dry_run: Whether to only report what would be done.
        progress: Called with the progress.

    Raises:
        CatalogLockedError: Another process has locked the catalog's database; nothing was switched.
        ConflictError: Another process changed the catalog in the meantime; nothing was switched.
        FormatError: Metadata is corrupt; nothing was switched.
        NotFoundError: A file is missing; nothing was switched.
        UnsupportedError: The catalog or files are shared with the original; or a table is encrypted.
    """
    move = move_of(catalog.properties)
    if move is None:
        return RelocationSummary("", catalog.properties.get("warehouse", ""), (), dry_run)
    folder = str(local_path(move.target))
    _refuse_shared(move, folder)
    with catalog.database.reading() as connection:
        rows = [_Row(*map(str, row)) for row in connection.rows(_ROWS) if row[3] is not None]
    storage = Storage(catalog.properties)
    moved = [row for row in rows if _is_concerned(storage, row, move)]
    for row in rows:
        if row not in moved and not is_within(move.target, row.metadata_location) and _originals(move):
            raise UnsupportedError(
                f"the original at {move.sources[0]} also has table {row.table!r}, which is outside its folder: two "
                "catalogs must not write to one table. Drop it in the copy (without purge)",
                location=row.metadata_location,
            )
    done: list[TableRelocationSummary] = []
    switch: list[tuple[_Row, str]] = []
    for number, row in enumerate(moved):
        if progress is not None:
            progress(JobProgress("relocate tables", done_files=number, total_files=len(moved)))
        table, new = _relocate(storage, row, move, dry_run=dry_run)
        done.append(table)
        switch.append((row, new))
    if paimon is not None:
        done += _relocate_paimon(paimon, move, dry_run=dry_run)
    if not dry_run:
        with catalog.database.writing() as connection:
            _switch(connection, switch, move)
            record_folder(connection, folder)
        for key in (MOVED_FROM, MOVED_TO):
            del catalog.properties[key]
    return RelocationSummary(move.sources[0], move.target, tuple(done), dry_run)


def _relocate(storage: Storage, row: _Row, move: Move, *, dry_run: bool) -> tuple[TableRelocationSummary, str]:
    """Rewrite one table; returns the summary and its new metadata file."""
    if not storage.exists(row.metadata_location):
        # it was broken before and stays so, but must not refer to the old location
        return TableRelocationSummary(row.table, problem="the metadata file is missing"), move(row.metadata_location)
    try:
        found: RelocatedTable = relocate_table(storage, row.metadata_location, move, dry_run=dry_run)
    except SkerryError as error:
        error.message = (
            f"table {row.table!r} cannot be relocated, nothing was changed: {error.message}; bring the file back, or "
            "drop the table here (without purge)"
        )
        raise
    written = found.written
    table = TableRelocationSummary(
        row.table,
        "iceberg",
        found.location,
        written.metadata_files,
        written.manifest_lists,
        written.manifests,
        written.delete_files,
        written.statistics_files,
        written.size_bytes,
        len(found.outside),
    )
    return table, found.metadata_location


def _relocate_paimon(tables: PaimonTables, move: Move, *, dry_run: bool) -> list[TableRelocationSummary]:
    """Rewrite the Paimon tables that name files in the old location, as tables migrated from Iceberg do."""
    if tables.storage.move is None:  # a folder that the caller named besides the warehouse
        return []
    found = []
    for name in (name for namespace in tables.list_namespaces() for name in tables.list_tables(namespace)):
        location = tables.location(name)
        written = relocate_paimon_table(tables.storage, location, move, dry_run=dry_run)
        if written and not dry_run:  # committed by a writer in the meantime
            written += relocate_paimon_table(tables.storage, location, move)
        if written:
            found.append(TableRelocationSummary(name, "paimon", location, manifests=written))
    return found


def _is_concerned(storage: Storage, row: _Row, move: Move) -> bool:
    if move.concerns(row.metadata_location):
        return True
    try:
        return concerns_table(storage, row.metadata_location, move)
    except NotFoundError:
        return False


def _switch(connection: SqlConnection, tables: list[tuple[_Row, str]], move: Move) -> None:
    """Update the rows of tables and namespaces to the new location, in one transaction with what follows.

    Raises:
        ConflictError: A row has changed.
    """
    for row, new in tables:
        key = (row.catalog, row.namespace, row.name, row.metadata_location)
        if connection.change(_SWITCH, (new, *key)) != 1:
            raise ConflictError(
                f"table {row.table!r} was changed in the meantime; nothing was switched, relocate again",
                retryable=False,
            )
    for catalog, namespace, name, value in connection.rows(_PROPERTIES):
        if "/" in value and move(value) != value:
            connection.change(_SET_PROPERTY, (move(value), catalog, namespace, name))


def _originals(move: Move) -> list[Path]:
    """The catalogs that still exist in the old location."""
    paths = (Path(str(local_path(source)), CATALOG_FILE) for source in move.sources)
    return [path for path in paths if os.path.exists(path)]


def _refuse_shared(move: Move, folder: str) -> None:
    """Refuse a copy that shares files with its original by links.

    Raises:
        UnsupportedError: It shares files.
    """
    originals = _originals(move)
    for original in originals:
        if original.samefile(Path(folder, CATALOG_FILE)):
            raise UnsupportedError(f"{CATALOG_FILE} is a link to the original's file: copy it", location=folder)
    if originals:
        for link in _links_out_of(folder):
            raise UnsupportedError(
                f"this folder is a link to a folder outside the copy, whose files the original at {move.sources[0]} "
                "may share: copy them, or remove the link",
                location=link,
            )


def _links_out_of(folder: str) -> Iterator[str]:
    """Folders that are links to somewhere else."""
    root = os.path.realpath(folder)
    for path, folders, _ in os.walk(folder):
        for name in folders:
            link = Path(path, name)
            if os.path.islink(link) and not Path(os.path.realpath(link)).is_relative_to(root):
                yield str(link)
