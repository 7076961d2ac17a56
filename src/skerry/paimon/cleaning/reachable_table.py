"""A Paimon table as cleaning sees it: everything that its branches, tags, changelogs and consumers refer to.

The table is its folder, so that there are no states that are found only by a listing.

Spec: docs/formats/paimon.md § 1.1, § 13.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from skerry.errors import NotFoundError
from skerry.paimon.automatic_tags import success_folder
from skerry.paimon.cleaning.reachability import (
    MetadataReader,
    files_of_changes,
    kept_changelogs,
    kept_snapshots,
    reachable,
)
from skerry.paimon.done_partitions import SUCCESS_FILE
from skerry.paimon.metadata.branches import branch_folder_names, branch_names, on_branch
from skerry.paimon.metadata.iceberg_storage import ICEBERG_STORAGE
from skerry.paimon.metadata.paths import MAIN_BRANCH, TablePaths
from skerry.paimon.metadata.schemas import schema_ids
from skerry.paimon.metadata.snapshots import snapshot_ids
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.stream_marks import marks_folder
from skerry.storage import FileStatus, Storage, file_key, join, name
from skerry.table.indexes.registry import index_files, listed_pieces
from skerry.table.reachability import FileKey, TableKind
from skerry.table.work.tasks import Executor

__all__ = ["ReachablePaimonTable"]


class ReachablePaimonTable:
    """Finds the files that a Paimon table needs; see `skerry.table.reachability.ReachableTable`.

    Args:
        state: A state of its main branch.
        executor: Where manifests are read; threads of this process by default.
    """

    kind = TableKind.PAIMON

    def __init__(self, state: PaimonState, executor: Executor | None = None) -> None:
        self._state = state
        self._executor = executor

    @property
    def kinds(self) -> frozenset[TableKind]:
        """Its format, and Iceberg if there is metadata for its readers."""
        return frozenset({TableKind.PAIMON, TableKind.ICEBERG} if self._has_iceberg_metadata else {TableKind.PAIMON})

    @property
    def _has_iceberg_metadata(self) -> bool:
        return self._state.options.options.get(ICEBERG_STORAGE, "disabled").strip().lower() != "disabled"

    @property
    def name(self) -> str:
        """Its name."""
        return self._state.name

    @property
    def identity(self) -> str:
        """Its folder and the creation time of its first schema: tables have no id of their own."""
        first = min(schema_ids(self.storage, self._paths), default=0)
        return f"{self.location} {self._state.schema_by_id(first).time_millis}"

    @property
    def location(self) -> str:
        """The table's folder."""
        return self._state.location

    @property
    def storage(self) -> Storage:
        """Access to its files."""
        return self._state.storage

    @property
    def folders(self) -> tuple[str, ...]:
        """The table's folder and those of its branches, also of what is left of a branch that has no schema."""
        names = [MAIN_BRANCH, *branch_folder_names(self.storage, self._paths)]
        return tuple(on_branch(self._paths, branch).branch_root for branch in names)

    @property
    def _paths(self) -> TablePaths:
        return self._state.paths

    def _branches(self) -> list[TablePaths]:
        names = [MAIN_BRANCH, *branch_names(self.storage, self._paths)]
        return [on_branch(self._paths, branch) for branch in names]

    def newest(self) -> str:
        """Load the newest state, including the contents of the folders that name files, of all branches.

        Raises:
            NotFoundError: The table no longer exists.
        """
        self._state = self._state.newest(MAIN_BRANCH)
        found = sorted((file.location, file.size_bytes, file.modified.timestamp()) for file in self._metadata_files())
        return repr(found)

    def reached(self, markers: Sequence[str]) -> Mapping[FileKey, str]:
        """The files that snapshots, tags and changelogs of all branches need, and those that name them.

        Raises:
            FormatError: Metadata is corrupt.
            NotFoundError: Metadata is missing.
        """
        found = {file_key(file.location): file.location for file in self._metadata_files()}
        reader = MetadataReader(self._state, executor=self._executor)
        for run in kept_snapshots(self._state):
            found |= {file_key(file.location): file.location for file in reachable(self._state, run, reader)}
        lenient = MetadataReader(self._state, lenient=True, executor=self._executor)
        changes = files_of_changes(self._state, kept_changelogs(self._state), lenient)
        found |= {file_key(file.location): file.location for file in changes}
        pieces = listed_pieces(self.storage, self.location)
        indexes = index_files(self.storage, self.location, pieces, found.keys())
        beside = (*indexes, *self._marks(found.values()))
        return found | {file_key(location): location for location in beside}

    def _marks(self, locations: Iterable[str]) -> Iterator[str]:
        """The success files that partitions with files may have."""
        if self._state.schema.partition_keys:
            for folder in {location.rsplit("/", 2)[0] for location in locations}:
                yield join(folder, SUCCESS_FILE)

    def _metadata_files(self) -> Iterator[FileStatus]:
        """Schemas, snapshots, tags, changelogs, consumers and marks of streams of all branches, and hints.

        Names that begin with a dot are files that are still being written, or were abandoned; a changelog beside its
        snapshot was left by an expiry that did not finish.
        """
        for paths in self._branches():
            folders = (
                paths.schemas,
                paths.snapshots,
                paths.tags,
                success_folder(paths.tags),
                paths.changelogs,
                paths.consumers,
                marks_folder(paths),
            )
            beside = {file_key(paths.changelog(number)) for number in snapshot_ids(self.storage, paths)}
            for folder in folders:
                try:
                    files = self.storage.list_folder(folder).files
                except NotFoundError:
                    continue
                for file in files:
                    if not name(file.location).startswith(".") and file_key(file.location) not in beside:
                        yield file
        yield from self._iceberg_files()

    def _iceberg_files(self) -> Iterator[FileStatus]:
        """The table's metadata for Iceberg readers, which is deleted by those who write it."""
        if self._has_iceberg_metadata:
            with suppress(NotFoundError):
                yield from self.storage.list_folder(join(self.location, "metadata")).files
