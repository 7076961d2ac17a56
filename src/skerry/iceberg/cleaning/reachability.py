"""Which files a table's snapshots reach: manifest lists, manifests, data and delete files, statistics.

Deletion relies on these sets, so they are built from complete metadata: a file that cannot be read is an error, never a
gap.

Spec: Iceberg spec, Manifest Lists, Manifests, Table Statistics, Partition Statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from skerry.encryption import KeyMetadata
from skerry.iceberg.manifests.manifest import EntryStatus, FileContent
from skerry.iceberg.manifests.manifest_list import ManifestFile, decode_manifest_list, resolved_manifests
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.manifests.snapshot_manifests import manifest_list_key, read_manifests
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.iceberg.statistics.earlier import earlier_statistics
from skerry.storage import Storage, file_key, file_keys, is_within
from skerry.table.reachability import FileKey
from skerry.table.table_files import FileKind, TableFile
from skerry.table.work.tasks import Executor

__all__ = [
    "FileReader",
    "ManifestTask",
    "keyed",
    "manifest_files",
    "metadata_files",
    "read_list",
    "read_live_files",
    "replaced_statistics",
    "statistics_files",
    "thinned_statistics",
]


_FILE_COLUMNS = ["content", "file_path", "file_size_in_bytes"]


@dataclass(frozen=True, slots=True)
class ManifestTask:
    """A manifest to be read; picklable.

    Args:
        manifest: The manifest, as a manifest list names it.
        storage: Access to it. It may hold credentials, and so is never printed.
    """

    manifest: ManifestFile
    storage: Storage = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListTask:
    """A manifest list to be read; picklable.

    Args:
        location: Its location.
        storage: Access to it. It may hold credentials, and so is never printed.
        key: What decrypts it; None if it is not encrypted.
    """

    location: str
    storage: Storage = field(repr=False)
    key: KeyMetadata | None = None


def read_list(task: ListTask) -> tuple[TableFile, list[ManifestFile]]:
    """A manifest list, and the manifests that it names.

    Raises:
        FormatError: It is corrupt.
        NotFoundError: It is missing.
    """
    data = task.storage.read(task.location)
    manifests = resolved_manifests(task.storage, decode_manifest_list(data, task.key, location=task.location))
    return TableFile(task.location, FileKind.MANIFEST_LIST, len(data)), manifests


def read_live_files(task: ManifestTask) -> pa.RecordBatch:
    """The live files of a manifest: `content`, `file_path` and `file_size_in_bytes`.

    Raises:
        FormatError: The manifest is corrupt.
        NotFoundError: It is missing.
    """
    table = read_manifest(task.storage, task.manifest, ("status", *_FILE_COLUMNS)).table
    return table.filter(pc.not_equal(table.column("status"), EntryStatus.DELETED)).select(_FILE_COLUMNS)


def statistics_files(metadata: TableMetadata) -> Iterator[tuple[int, TableFile]]:
    """The statistics files that are registered, each with the id of the snapshot that it is registered for."""
    registered: Iterable[StatisticsFile | PartitionStatisticsFile] = (
        *metadata.statistics,
        *metadata.partition_statistics,
    )
    for file in registered:
        yield file.snapshot_id, TableFile(file.statistics_path, FileKind.STATISTICS, file.file_size_in_bytes)


def replaced_statistics(state: TableState, staying: Iterable[Snapshot] | None = None) -> Iterator[TableFile]:
    """Statistics files that earlier metadata files name and that no snapshot of the table can get again.

    They were replaced by others of the same snapshot, or their snapshot is gone.

    Args:
        state: The table.
        staying: The snapshots that will be left; all of them if None.
    """
    current = {file_key(file.location) for _, file in statistics_files(state.metadata)}
    owners = {file.snapshot_id for file in state.metadata.statistics}
    living = {snapshot.snapshot_id for snapshot in (state.metadata.snapshots if staying is None else staying)}
    for owner, file in earlier_statistics(state):
        key = file_key(file.location)
        is_lost = owner in owners or owner not in living
        if is_lost and key not in current and is_within(state.metadata.location, file.location):
            current.add(key)
            if state.storage.exists(file.location):
                yield file


def thinned_statistics(state: TableState) -> Iterator[TableFile]:
    """The last statistics files that earlier metadata files name for snapshots that exist and have none now.

    A branch that moves back to such a snapshot takes them from there (`skerry.iceberg.statistics.earlier`).
    """
    without = {snapshot.snapshot_id for snapshot in state.metadata.snapshots}
    without -= {file.snapshot_id for file in state.metadata.statistics}
    last = {owner: file for owner, file in earlier_statistics(state) if owner in without}
    return iter(last.values())


def metadata_files(state: TableState) -> list[str]:
    """The metadata files that a table's state names: its own and those before it."""
    return [state.metadata_location, *(entry.metadata_file for entry in state.metadata.metadata_log)]


class FileReader:
    """Reads which files manifest lists and manifests name; each of them once.

    Args:
        executor: Runs the tasks that read them.
        storage: Access to them.
    """

    def __init__(self, executor: Executor, storage: Storage) -> None:
        self._executor = executor
        self._storage = storage
        self._lists: dict[str, tuple[TableFile, list[ManifestFile]]] = {}
        self._manifests: dict[FileKey, list[TableFile]] = {}
        self._locations: dict[FileKey, list[str]] = {}
        self._sought: set[FileKey] = set()
        self._named: dict[FileKey, set[FileKey]] = {}

    def lists(
        self, snapshots: Iterable[Snapshot], storage: Storage | None = None
    ) -> tuple[dict[FileKey, TableFile], dict[FileKey, ManifestFile]]:
        """The manifest lists of some snapshots, and the manifests that they name.

        Args:
            snapshots: The snapshots.
            storage: Has the keys of their manifest lists, if these are not those of the table's newest state.

        Raises:
            FormatError: A manifest list is corrupt.
            NotFoundError: A manifest list is missing.
        """
        every = list(snapshots)
        named = {found.manifest_list: found for found in every if found.manifest_list is not None}
        locations = list(named)
        missing = [location for location in locations if location not in self._lists]
        keys = (manifest_list_key(storage or self._storage, named[location]) for location in missing)
        tasks = [ListTask(location, self._storage, key) for location, key in zip(missing, keys, strict=True)]
        self._lists.update(zip(missing, self._executor.map(read_list, tasks), strict=True))
        found = [self._lists[location] for location in locations]
        manifests = {file_key(manifest.manifest_path): manifest for _, listed in found for manifest in listed}
        for snapshot in every:
            if snapshot.manifest_list is None:
                inline = read_manifests(self._storage, snapshot)
                manifests |= {file_key(manifest.manifest_path): manifest for manifest in inline}
        return keyed(file for file, _ in found), manifests

    def live(self, manifests: Mapping[FileKey, ManifestFile]) -> dict[FileKey, TableFile]:
        """The live files of some manifests.

        Raises:
            FormatError: A manifest is corrupt.
            NotFoundError: A manifest is missing.
        """
        missing = [key for key in manifests if key not in self._manifests]
        tasks = [ManifestTask(manifests[key], self._storage) for key in missing]
        found = map(_files, self._executor.map(read_live_files, tasks))
        self._manifests.update(zip(missing, found, strict=True))
        return keyed(file for key in manifests for file in self._manifests[key])

    def locations(self, manifests: Mapping[FileKey, ManifestFile]) -> dict[FileKey, str]:
        """The locations of the live files of some manifests.

        Raises:
            FormatError: A manifest is corrupt.
            NotFoundError: A manifest is missing.
        """
        missing = [key for key in manifests if key not in self._locations]
        tasks = [ManifestTask(manifests[key], self._storage) for key in missing]
        for key, files in zip(missing, self._executor.map(read_live_files, tasks), strict=True):
            self._locations[key] = files.column("file_path").to_pylist()
        live = [location for key in manifests for location in self._locations[key]]
        return dict(zip(file_keys(live), live, strict=True))

    def named(self, manifests: Mapping[FileKey, ManifestFile], sought: Iterable[FileKey]) -> set[FileKey]:
        """Those of some files that are live in some manifests.

        The manifests may name millions of files: in memory is one manifest after the other, and what was found.

        Raises:
            FormatError: A manifest is corrupt.
            NotFoundError: A manifest is missing.
        """
        if not (keys := set(sought)):
            return set()
        if not keys <= self._sought:
            self._sought, self._named = keys, {}
        missing = [key for key in manifests if key not in self._named]
        tasks = [ManifestTask(manifests[key], self._storage) for key in missing]
        names = pa.array({key[-1].rpartition("/")[2] for key in self._sought} | _DOUBTFUL_NAMES, pa.large_string())
        for key, files in zip(missing, self._executor.map(read_live_files, tasks), strict=True):
            paths = files.column("file_path")
            last = pc.replace_substring_regex(paths.cast(pa.large_string()), "(?s)^.*/", "")
            alike = paths.filter(pc.is_in(last, names)).to_pylist()
            self._named[key] = self._sought.intersection(file_keys(alike))
        return {key for manifest in manifests for key in self._named[manifest] if key in keys}


_DOUBTFUL_NAMES = {"", ".", ".."}
"""Locations that end so are those of files whose name stands before it."""


def _files(live: pa.RecordBatch) -> list[TableFile]:
    rows = zip(*(live.column(name).to_pylist() for name in _FILE_COLUMNS), strict=True)
    return [
        TableFile(path, FileKind.DATA if content == FileContent.DATA else FileKind.DELETES, size)
        for content, path, size in rows
    ]


def keyed(files: Iterable[TableFile]) -> dict[FileKey, TableFile]:
    """Files by their normalised location."""
    listed = list(files)
    return dict(zip(file_keys(file.location for file in listed), listed, strict=True))


def manifest_files(manifests: Mapping[FileKey, ManifestFile]) -> dict[FileKey, TableFile]:
    """Manifests as files."""
    return {
        key: TableFile(manifest.manifest_path, FileKind.MANIFEST, manifest.manifest_length)
        for key, manifest in manifests.items()
    }
