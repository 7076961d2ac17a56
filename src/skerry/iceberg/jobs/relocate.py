"""Move a table to another location: copy it, make its catalog name the copy, and then delete the old files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from skerry.errors import CommitUnknownError, ConflictError, SkerryError
from skerry.iceberg.catalogs.loading import read_back
from skerry.iceberg.cleaning.expiry import refuse_kept_files
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs.purge import purge
from skerry.iceberg.relocation import copy_table
from skerry.storage import file_key
from skerry.table.commit import RetryPolicy
from skerry.table.copying import CopyRequest, CopySummary

__all__ = ["relocate"]


def relocate(table: IcebergHandle, request: CopyRequest, *, delete: bool) -> CopySummary:
    """Move a table.

    A commit of another writer in the meantime has the copy made again, with what is new, as often as the table's
    properties allow commits to be tried.

    Args:
        table: The table; afterwards at its new location.
        request: What is asked for.
        delete: Whether the old files are deleted at the end.

    Raises:
        CommitUnknownError: The catalog may or may not name the copy; nothing was deleted.
        ConflictError: Other writers were faster every time; nothing was changed.
        SchemaError: The table may share its files with others, so that they cannot be deleted.
        SkerryError: As `copy_table`.
        UnsupportedError: The catalog cannot exchange a table's metadata file.
    """
    catalog = table.catalog
    if not catalog.can_replace_metadata:
        catalog.replace_metadata(table.identifier, "", "")  # says why
    state = table.refresh()
    state.storage.check_writable(str(state.metadata.location))
    if delete:
        refuse_kept_files(state)
    retries = RetryPolicy.from_properties(state.properties).num_retries
    while True:
        done = copy_table(state, request)
        if request.dry_run:
            return done
        try:
            deleted = _exchange(table, state.metadata_location, done, delete=delete, request=request)
        except ConflictError:
            if retries <= 0:
                raise
            retries -= 1
            state = table.refresh()
            continue
        try:
            table.refresh()
        except SkerryError as error:
            raise CommitUnknownError(
                f"the table was relocated, but cannot be loaded: {error}", location=done.metadata_location
            ) from error
        return replace(done, deleted_files=deleted)


def _exchange(table: IcebergHandle, old: str, done: CopySummary, *, delete: bool, request: CopyRequest) -> int:
    """Make the catalog name the copy, then delete the original; the number of files to be deleted."""
    new = done.metadata_location
    assert new is not None

    def publish() -> None:
        try:
            table.catalog.replace_metadata(table.identifier, old, new)
        except CommitUnknownError:
            with suppress(Exception):  # what is unknown matters more
                found = read_back(table.catalog, table.identifier)
                if new in (found.metadata_location, *(entry.metadata_file for entry in found.metadata.metadata_log)):
                    return
            raise

    if not delete:
        publish()
        return 0
    copied = {file_key(file.source) for file in done.files if file.source != file.target}
    return purge(table, publish, only=copied, executor=request.executor)
