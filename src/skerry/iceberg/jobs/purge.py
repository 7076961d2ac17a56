"""Drop a table together with its files, or delete the files of one that has moved."""

from __future__ import annotations

from collections.abc import Callable, Container

from skerry.iceberg.cleaning.expiry import refuse_kept_files
from skerry.iceberg.cleaning.reachability import (
    FileReader,
    keyed,
    manifest_files,
    metadata_files,
    replaced_statistics,
    statistics_files,
    thinned_statistics,
)
from skerry.iceberg.handle import IcebergHandle
from skerry.storage import file_key, is_within
from skerry.table.indexes.registry import index_files, piece_names
from skerry.table.owned_files import after_publish
from skerry.table.reachability import FileKey
from skerry.table.work.tasks import Executor, ThreadExecutor
from skerry.table.work.telemetry import working

__all__ = ["purge"]


def purge(
    table: IcebergHandle,
    drop: Callable[[], None],
    *,
    only: Container[FileKey] | None = None,
    executor: Executor | None = None,
) -> int:
    """Remove a table from its catalog and delete every file below its location that its metadata reaches.

    Args:
        table: The table.
        drop: Removes it from the catalog, or makes the catalog name a copy of it.
        only: The files that may be deleted; all of them if None.
        executor: Runs the tasks that read manifests; threads of this process by default.

    Returns:
        The number of files to be deleted; failures are logged.

    Raises:
        FormatError: Metadata is corrupt; nothing was changed.
        NotFoundError: A metadata file is missing; nothing was changed.
        SchemaError: The table may share files with other tables.
    """
    state = table.refresh()
    refuse_kept_files(state)
    state.storage.check_writable(state.metadata.location)
    reader = FileReader(executor or ThreadExecutor(), state.storage)
    lists, manifests = reader.lists(state.metadata.snapshots)
    statistics = keyed(file for _, file in statistics_files(state.metadata))
    thinned = (file for file in thinned_statistics(state) if state.storage.exists(file.location))
    statistics |= keyed(thinned) | keyed(replaced_statistics(state))
    files = reader.live(manifests) | manifest_files(manifests) | lists | statistics
    locations = {key: file.location for key, file in files.items()}
    locations |= {file_key(location): location for location in metadata_files(state)}
    indexes = [*index_files(state.storage, state.metadata.location, piece_names(state.properties), locations.keys())]
    locations |= {file_key(location): location for location in indexes}
    inside = [
        location
        for key, location in locations.items()
        if is_within(state.metadata.location, location) and (only is None or key in only)
    ]
    drop()
    done = f"deleted {len(inside)} files of the dropped table"
    with after_publish("deleting the old files of the table"), working(state.name, done, "delete", files=len(inside)):
        state.storage.delete(inside)
    return len(inside)
