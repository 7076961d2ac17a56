"""Which files of a table belong to which snapshots, so that files of removed snapshots only can be deleted.

Spec: docs/formats/paimon.md § 1.1, § 3.1, § 5, § 13.4.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from skerry.errors import NotFoundError
from skerry.paimon.manifests.index_manifest import read_index_manifest
from skerry.paimon.manifests.live_files import merged_entries
from skerry.paimon.manifests.manifest import FileKind, ManifestEntry, read_manifest
from skerry.paimon.manifests.manifest_list import ManifestFileMeta, read_manifest_list
from skerry.paimon.metadata.branches import branch_names, on_branch
from skerry.paimon.metadata.changelogs import changelog_ids, changes_list, read_changelog
from skerry.paimon.metadata.paths import MAIN_BRANCH
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.snapshots import find_snapshot, snapshot_ids
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.tags import read_tags
from skerry.paimon.statistics.samples import statistics_locations
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import Storage
from skerry.table.work.tasks import Executor, ThreadExecutor

__all__ = [
    "FileUse",
    "MetadataReader",
    "PaimonFile",
    "files_of_changes",
    "kept_changelogs",
    "kept_snapshots",
    "reachable",
]

_TASK_FILES: Final = 16

_Named = TypeVar("_Named", ManifestEntry, ManifestFileMeta)


class FileUse(Enum):
    """What a file is used for."""

    DATA = "data file"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    INDEX = "index file"
    STATISTICS = "statistics file"


@dataclass(frozen=True, slots=True)
class PaimonFile:
    """A file of a table.

    Args:
        location: Where it is.
        use: What it is for.
        size_bytes: Its size; 0 where metadata does not record it.
    """

    location: str
    use: FileUse
    size_bytes: int = field(default=0, compare=False)


class MetadataReader:
    """Reads metadata files, each once; missing files count as empty where that is allowed.

    Args:
        state: The table.
        lenient: Whether missing files are allowed: others may have expired them before.
        executor: Where `load` reads.
    """

    def __init__(self, state: PaimonState, *, lenient: bool = False, executor: Executor | None = None) -> None:
        self._state = state
        self._lenient = lenient
        self._executor = executor or ThreadExecutor()
        self._manifests: dict[str, list[ManifestEntry]] = {}
        self._lists: dict[str, list[ManifestFileMeta]] = {}

    def load(self, run: Sequence[Snapshot]) -> None:
        """Read in parallel what `reachable` needs to know of a run of snapshots.

        Raises:
            FormatError: Metadata is corrupt.
            NotFoundError: A file is missing, and that is not allowed.
        """
        names = dict.fromkeys(name for snapshot in run for name in _lists_of(snapshot) if name is not None)
        lists = [name for name in names if name not in self._lists]
        self._lists.update(zip(lists, self._read(read_manifest_list, lists), strict=True))
        later = {snapshot.base_manifest_list for snapshot in run[1:]}  # adds nothing to what its predecessors list
        named = dict.fromkeys(found.file_name for name in names if name not in later for found in self._lists[name])
        manifests = [name for name in named if name not in self._manifests]
        self._manifests.update(zip(manifests, self._read(read_manifest, manifests), strict=True))

    def manifests(self, name: str | None) -> list[ManifestFileMeta]:
        """The manifests of a list."""
        if name is None:
            return []
        if name not in self._lists:
            (self._lists[name],) = self._read(read_manifest_list, [name])
        return self._lists[name]

    def entries(self, manifests: Iterable[ManifestFileMeta]) -> list[ManifestEntry]:
        """The entries of manifests, in their order."""
        return [entry for manifest in manifests for entry in self._entries(manifest.file_name)]

    def _entries(self, name: str) -> list[ManifestEntry]:
        if name not in self._manifests:
            (self._manifests[name],) = self._read(read_manifest, [name])
        return self._manifests[name]

    def _read(self, read: Callable[[Storage, str], list[_Named]], names: Sequence[str]) -> Iterator[list[_Named]]:
        """Read files, several in a task; a few are read here without tasks."""
        work = functools.partial(_read_files, read, self._state.storage, self._lenient)
        locations = [self._state.paths.manifest(name) for name in names]
        is_little = len(locations) <= _TASK_FILES
        step = 1 if is_little else _TASK_FILES
        tasks = [locations[start : start + step] for start in range(0, len(locations), step)]
        executor = ThreadExecutor() if is_little else self._executor
        return itertools.chain.from_iterable(executor.map(work, tasks))


def _read_files(
    read: Callable[[Storage, str], list[_Named]], storage: Storage, lenient: bool, locations: Sequence[str]
) -> list[list[_Named]]:
    found: list[list[_Named]] = []
    for location in locations:
        try:
            found.append(read(storage, location))
        except NotFoundError:
            if not lenient:
                raise
            found.append([])
    return found


def _lists_of(snapshot: Snapshot) -> tuple[str, str, str | None]:
    """A snapshot's manifest lists: of its base, of its own commit, of its changelog."""
    return snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list


def kept_snapshots(state: PaimonState, gone: Iterable[int] = ()) -> list[list[Snapshot]]:
    """Everything that holds on to files: the snapshots, tags and changelogs of all branches.

    Args:
        state: A state of any branch.
        gone: Snapshots of its branch that no longer count.

    Returns:
        Runs of consecutive snapshots.
    """
    expired = set(gone)
    runs: list[list[Snapshot]] = []
    branches = [MAIN_BRANCH, *branch_names(state.storage, state.paths)]
    for branch in branches:
        own = state if branch == state.branch else state.newest(branch)
        ids = [number for number in snapshot_ids(own.storage, own.paths) if own is not state or number not in expired]
        found = [find_snapshot(own.storage, own.paths, number) for number in ids]
        runs.append([snapshot for snapshot in found if snapshot is not None])
        runs += [[tag.snapshot] for tag in read_tags(own.storage, own.paths)]
    return [run for run in runs if run]


def kept_changelogs(state: PaimonState, gone: Iterable[int] = ()) -> list[str]:
    """The manifest lists with the changes of snapshots of all branches that expired before their changelogs.

    Args:
        state: A state of any branch.
        gone: Snapshots whose changelogs on its branch no longer count.
    """
    expired = set(gone)
    lists: list[str | None] = []
    for branch in [MAIN_BRANCH, *branch_names(state.storage, state.paths)]:
        paths = on_branch(state.paths, branch)
        ids = changelog_ids(state.storage, paths)
        if not ids:
            continue
        own = state if branch == state.branch else state.newest(branch)
        for number in ids:
            if own is not state or number not in expired:
                lists.append(changes_list(own.schema, read_changelog(state.storage, paths, number)))
    return [name for name in lists if name is not None]


def files_of_changes(state: PaimonState, lists: Iterable[str], reader: MetadataReader) -> set[PaimonFile]:
    """The files that hold changes: manifest lists, their manifests, and the files that these add.

    Args:
        state: The table.
        lists: Names of manifest lists.
        reader: Reads metadata.
    """
    layout = WriteLayout(state.name, state.location, state.storage, state.schema, state.branch)
    found: set[PaimonFile] = set()
    for name in lists:
        found.add(PaimonFile(state.paths.manifest(name), FileUse.MANIFEST_LIST))
        manifests = reader.manifests(name)
        found |= {
            PaimonFile(state.paths.manifest(manifest.file_name), FileUse.MANIFEST, manifest.file_size)
            for manifest in manifests
        }
        for entry in reader.entries(manifests):
            if entry.kind is FileKind.ADD:
                found |= _data_files(layout, entry)
    return found


def reachable(
    state: PaimonState, run: Sequence[Snapshot], reader: MetadataReader, *, mentioned: bool = False
) -> set[PaimonFile]:
    """The files that a run of snapshots needs.

    Args:
        state: The table.
        run: Consecutive snapshots.
        reader: Reads metadata.
        mentioned: Whether to count all data files that its manifests name, not only the live ones.
    """
    layout = WriteLayout(state.name, state.location, state.storage, state.schema, state.branch)
    reader.load(run)
    found: set[PaimonFile] = set()
    entries: list[ManifestEntry] = []
    for place, snapshot in enumerate(run):
        lists = _lists_of(snapshot)
        for name in filter(None, lists):
            found.add(PaimonFile(state.paths.manifest(name), FileUse.MANIFEST_LIST))
            for manifest in reader.manifests(name):
                location = state.paths.manifest(manifest.file_name)
                found.add(PaimonFile(location, FileUse.MANIFEST, manifest.file_size))
        base, delta, changelog = map(reader.manifests, lists)
        if place == 0:
            known = reader.entries([*base, *delta])
            entries += known if mentioned else merged_entries(known)
        else:
            entries += [entry for entry in reader.entries(delta) if mentioned or entry.kind is FileKind.ADD]
        entries += reader.entries(changelog)
        found |= _index_files(state, layout, snapshot)
        if snapshot.statistics is not None:
            found.add(PaimonFile(state.paths.statistics(snapshot.statistics), FileUse.STATISTICS))
        found |= {PaimonFile(location, FileUse.STATISTICS) for location in statistics_locations(state, snapshot)}
    for entry in entries:
        found |= _data_files(layout, entry)
    return found


def _index_files(state: PaimonState, layout: WriteLayout, snapshot: Snapshot) -> set[PaimonFile]:
    if snapshot.index_manifest is None:
        return set()
    location = state.paths.manifest(snapshot.index_manifest)
    found = {PaimonFile(location, FileUse.MANIFEST)}
    for entry in read_index_manifest(state.storage, location):
        place = entry.external_path or layout.index_file(entry.partition, entry.bucket, entry.file_name)
        found.add(PaimonFile(place, FileUse.INDEX, entry.file_size))
    return found


def _data_files(layout: WriteLayout, entry: ManifestEntry) -> set[PaimonFile]:
    file = entry.file
    folder = layout.bucket_folder(entry.partition, entry.bucket)
    location = file.external_path or layout.paths.data_file(folder, file.file_name)
    beside = location[: len(location) - len(file.file_name)].rstrip("/") if file.external_path else folder
    return {
        PaimonFile(location, FileUse.DATA, file.file_size),
        *(PaimonFile(layout.paths.data_file(beside, name), FileUse.DATA) for name in file.extra_files),
    }
