"""Remove orphans: files in a table's folder that nothing needs, left by writers that died or by lost races.

Nothing is deleted that might be needed, regardless of concurrent operations. In this order:

1. **List** the table's folder.
2. **Mark**: load the newest state after the listing, read everything that it reaches, and mark the files that it does
   not reach and that are older than the grace period, which is longer than any writer takes to commit.
3. **Log** every marked file with its size before the first one is deleted.
4. **Sweep** in batches; before each batch, reload the newest state and keep what it reaches now.
5. **Log** what was deleted and what was kept.

Marking and sweeping may also be days apart: a later run then sweeps only files in the log of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from skerry.errors import NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.jobs.listing import Listing, list_table
from skerry.jobs.orphan_log import OrphanLog, read_marked
from skerry.storage import file_key, is_within, join, name, parent
from skerry.table.reachability import Aliases, FileKey, ReachableTable
from skerry.table.summaries import OrphanFile, OrphanSummary
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor
from skerry.table.work.telemetry import working

__all__ = ["remove_orphans"]

_BATCH = 1000


def remove_orphans(
    table: ReachableTable,
    *,
    before: datetime,
    dry_run: bool = False,
    marked: str | None = None,
    log: str | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
) -> OrphanSummary:
    """Delete the files in a table's folder that no state of it needs.

    Args:
        table: The table.
        before: Files written since stay: their writer may be about to commit them.
        dry_run: Whether to only report what would be done.
        marked: The log of an earlier run: only files that it marked and that have not changed are deleted.
        log: A folder for the logs of this run; it must not be inside the table's folder.
        executor: Runs the listing tasks; threads of this process by default.
        progress: Called with the progress.

    Raises:
        FormatError: Metadata is corrupt; nothing was deleted.
        NotFoundError: A metadata file is missing; nothing was deleted.
        SchemaError: An argument is invalid, or the table may share files with other tables.
        UnsupportedError: The table's folder is a whole store, or a table of another format as well.
    """
    table.newest()
    _check_folder(table, log)
    only = None if marked is None else read_marked(table, marked)
    listing = list_table(table.location, before, table.storage, executor or ThreadExecutor(), progress)
    sweep = _Sweep(table, listing, progress)
    candidates = [file for file in sweep.mark() if only is None or file in only]
    logs = OrphanLog(table, log)
    logs.write_marked(candidates, before)
    deleted: list[OrphanFile] = []
    saved: list[OrphanFile] = []
    if dry_run:
        deleted = candidates
    elif candidates:
        try:
            sweep.delete(candidates, deleted, saved)
        finally:
            logs.write_swept(deleted, saved)
    return OrphanSummary(
        tuple(deleted),
        tuple(saved),
        tuple(sweep.alike),
        sweep.other_tables,
        listing.files,
        listing.size_bytes,
        sweep.reached_files,
        dry_run,
        tuple(logs.locations),
    )


def _check_folder(table: ReachableTable, log: str | None) -> None:
    if not name(table.location) or parent(table.location) == table.location:
        raise UnsupportedError(
            "the table's folder is a whole store, where its files cannot be distinguished from others",
            location=table.location,
        )
    table.storage.check_writable(table.location)
    if log is not None and is_within(table.location, join(log, "log")):
        raise SchemaError(f"logs in the table's own folder would be orphans themselves: {log}")


class _Sweep:
    """One run.

    Args:
        table: The table.
        listing: The listing of its folder.
        progress: Called with the progress.

    Attributes:
        alike: Files kept because another name of them may be needed.
        other_tables: Folders of other tables.
        reached_files: The number of files that the table needs.
    """

    def __init__(self, table: ReachableTable, listing: Listing, progress: ProgressCallback | None) -> None:
        self._table = table
        self._progress = progress
        self._listing = listing
        self._state = table.newest()
        self.alike: list[OrphanFile] = []
        self.reached_files = 0
        self.other_tables = self._find_other_tables()

    def _find_other_tables(self) -> tuple[str, ...]:
        """Folders of other tables.

        Raises:
            UnsupportedError: A table of another format is in the same folder, or in a folder around it.
        """
        table = self._table
        own = set(map(file_key, table.folders))
        others = dict.fromkeys((kind, folder) for _, kind, folder in self._listing.markers)
        found = []
        for kind, folder in others:
            if kind in table.kinds and file_key(folder) in own:
                continue
            if not is_within(table.location, folder):
                raise UnsupportedError(
                    f"the folder is also a table of format {kind.value}, whose files cannot be distinguished from "
                    "orphans",
                    location=table.location,
                )
            found.append(folder)
        return tuple(dict.fromkeys(found))

    def _reached(self) -> Mapping[FileKey, str]:
        """The files that the state reaches; those of a newer state if another writer has expired part of it."""
        own = set(map(file_key, self._table.folders))
        markers = [
            location
            for location, kind, folder in self._listing.markers
            if kind is self._table.kind and file_key(folder) in own
        ]
        while True:
            try:
                return self._table.reached(markers)
            except NotFoundError:
                newest = self._table.newest()
                if newest == self._state:
                    raise
                self._state = newest

    def mark(self) -> list[OrphanFile]:
        """Mark the files that the newest state does not reach."""
        reached = self._reached()
        self.reached_files = len(reached)
        keys = [file_key(file.location) for file in self._listing.old]
        listed = set(keys)
        aliases = Aliases(location for key, location in reached.items() if key not in listed)
        marked: list[OrphanFile] = []
        for key, status in zip(keys, self._listing.old, strict=True):
            location = status.location
            if key in reached or _is_checksum_of(location, reached) or not is_within(self._table.location, location):
                continue
            if any(is_within(folder, location) for folder in self.other_tables):
                continue
            file = OrphanFile(location, status.size_bytes, status.modified)
            (self.alike if aliases.find(self._table.location, location) else marked).append(file)
        return marked

    def delete(self, marked: Sequence[OrphanFile], deleted: list[OrphanFile], saved: list[OrphanFile]) -> None:
        """Delete files batch by batch, except those that a newer state reaches.

        Args:
            marked: The files.
            deleted: Gets those that are deleted.
            saved: Gets those that are not.

        Raises:
            SkerryError: The state can no longer be read, or a store refuses; the remaining files stay.
        """
        total, size_bytes = len(marked), 0
        reached: Mapping[FileKey, str] = {}
        for start in range(0, total, _BATCH):
            reached = self._newly_reached() or reached
            batch: list[OrphanFile] = []
            for file in marked[start : start + _BATCH]:
                (saved if file_key(file.location) in reached else batch).append(file)
            try:
                with working(self._table.name, f"deleted {len(batch)} orphans", "delete", files=len(batch)):
                    self._table.storage.delete(file.location for file in batch)
            except SkerryError as error:
                error.message = f"not all orphans were deleted: {error.message}"
                raise
            deleted += batch
            size_bytes += sum(file.size_bytes for file in batch)
            if self._progress is not None:
                self._progress(JobProgress("delete", len(deleted), total - len(saved), done_bytes=size_bytes))
        self._check(deleted, self._newly_reached() or reached)

    def _newly_reached(self) -> Mapping[FileKey, str] | None:
        """The files that the newest state reaches; None if the state has not changed."""
        state = self._table.newest()
        if state == self._state:
            return None
        self._state = state
        return self._reached()

    def _check(self, deleted: Iterable[OrphanFile], reached: Mapping[FileKey, str]) -> None:
        lost = [file.location for file in deleted if file_key(file.location) in reached]
        if lost:
            raise SkerryError(
                f"{len(lost)} files that were older than the grace period were committed to {self._table.name} while "
                f"they were deleted, such as {lost[0]}; restore them, or roll the table back",
                location=self._table.location,
            )


def _is_checksum_of(location: str, reached: Mapping[FileKey, str]) -> bool:
    """Whether a file is Hadoop's checksum of one that is needed: `.name.crc` beside `name`."""
    own = name(location)
    if not (own.startswith(".") and own.endswith(".crc")) or own in (".crc", "..crc"):
        return False
    return file_key(f"{parent(location)}/{own[1:-4]}") in reached
