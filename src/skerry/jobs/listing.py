"""List a table's folder in parallel: the driver lists the first levels, tasks what is below.

A task returns only what cleaning needs: files that are old enough, and files that show where tables are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from skerry.storage import FileStatus, Folder, Storage
from skerry.table.reachability import TableKind, table_marker
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback

__all__ = ["FolderTask", "Listing", "list_below", "list_table"]

_ENOUGH_FOLDERS = 32
_LEVELS = 4
_FOLDERS_OF_TASK = 64


@dataclass(frozen=True, slots=True)
class FolderTask:
    """Folders to be listed; picklable.

    Args:
        folders: Their locations.
        before: Files that were written before this moment are old.
        storage: Access to them. It may hold credentials, and so is never printed.
        is_deep: Whether to list their subfolders too.
    """

    folders: tuple[str, ...]
    before: datetime
    storage: Storage = field(repr=False)
    is_deep: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing found.

    Args:
        old: Files that were written before the moment that was asked for.
        markers: Metadata files of tables, however young, with the formats and the folders of the tables.
        files: The number of files.
        size_bytes: Their total size.
        folders: Folders still to be listed.
    """

    old: tuple[FileStatus, ...] = ()
    markers: tuple[tuple[str, TableKind, str], ...] = ()
    files: int = 0
    size_bytes: int = 0
    folders: tuple[str, ...] = ()


def list_below(task: FolderTask) -> Listing:
    """List folders recursively, or only their first level."""
    levels = [
        Folder(tuple(task.storage.list(folder)), ()) if task.is_deep else task.storage.list_folder(folder)
        for folder in task.folders
    ]
    files = [file for level in levels for file in level.files]
    markers: dict[tuple[TableKind, str], list[str]] = {}
    for file in files:
        if (marker := table_marker(file.location)) is not None:
            markers.setdefault(marker, []).append(file.location)
    return Listing(
        tuple(file for file in files if file.modified < task.before),
        tuple((location, *marker) for marker, locations in markers.items() for location in locations),
        len(files),
        sum(file.size_bytes for file in files),
        tuple(folder for level in levels for folder in level.folders),
    )


def list_table(
    location: str, before: datetime, storage: Storage, executor: Executor, progress: ProgressCallback | None = None
) -> Listing:
    """List everything below a folder.

    Args:
        location: The folder.
        before: Files that were written before this moment are old.
        storage: Access to it.
        executor: Runs the listing tasks.
        progress: Called as files are found.
    """
    found = [list_below(FolderTask((location,), before, storage, is_deep=False))]
    folders = list(found[0].folders)
    for _ in range(_LEVELS):
        if not folders or len(folders) >= _ENOUGH_FOLDERS:
            break
        tasks = [FolderTask((folder,), before, storage, is_deep=False) for folder in folders]
        levels = list(executor.map(list_below, tasks))
        folders = [folder for level in levels for folder in level.folders]
        found += levels
    size = max(1, min(_FOLDERS_OF_TASK, len(folders) // _ENOUGH_FOLDERS))
    chunks = [tuple(folders[start : start + size]) for start in range(0, len(folders), size)]
    files = sum(listing.files for listing in found)
    for listing in executor.map(list_below, [FolderTask(chunk, before, storage) for chunk in chunks]):
        found.append(listing)
        files += listing.files
        if progress is not None:
            progress(JobProgress("list", files))
    return _merged(found)


def _merged(listings: Sequence[Listing]) -> Listing:
    return Listing(
        tuple(file for listing in listings for file in listing.old),
        tuple(marker for listing in listings for marker in listing.markers),
        sum(listing.files for listing in listings),
        sum(listing.size_bytes for listing in listings),
    )
