"""Looking after a table: its statistics, the layout of its files and what is no longer needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from skerry.catalog.backend import WriteOptions
from skerry.catalog.history import TableHistory
from skerry.catalog.names import check_list, check_moment
from skerry.jobs.orphans import remove_orphans
from skerry.table.history import MAIN, Snapshot
from skerry.table.reachability import DEFAULT_GRACE_DAYS
from skerry.table.summaries import CompactOptions
from skerry.table.tasks import Executor, Watcher

if TYPE_CHECKING:
    from skerry.table.summaries import (
        AnalyzeSummary,
        CompactSummary,
        DeletesSummary,
        ExpireSummary,
        ManifestSummary,
        MigrationSummary,
        OrphanSummary,
    )

__all__ = ["TableMaintenance"]


class TableMaintenance(TableHistory):
    """What changes no rows."""

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        full: bool = False,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> AnalyzeSummary:
        """Sketch the rows of the current snapshot that are not sketched yet, and publish sketches of all rows for it.

        What others have written since the last commit of ours is read, and nothing else.

        Args:
            columns: Dotted names; those that the table's properties choose if None.
            full: Whether to sketch all files anew.
            executor: Where to sketch; threads of this process by default.
            watcher: Called with the progress.
        """
        check_list("columns", columns)
        return self._backend.analyze(columns, full, executor, watcher)

    def compact(
        self,
        where: str | Any = None,
        *,
        sort_by: Sequence[str] | None = None,
        z_order: Sequence[str] | None = None,
        target_file_size_bytes: int | None = None,
        min_input_files: int | None = None,
        min_deletes: int | None = 1,
        rewrite_all: bool = False,
        ref: str = MAIN,
        dry_run: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> CompactSummary:
        """Write few files of a good size in place of many small or too large ones, deletes folded in.

        Rows stay the same, and so do their row ids and the table's statistics. Only what is worth it is written anew:
        partitions with many small files, files much larger than the target, files with deleted rows. What other
        writers change meanwhile stays changed; files that they took are planned again.

        Args:
            where: Only files that can hold rows for which this is true: SQL text or a PyArrow expression.
            sort_by: Write all files anew, sorted like this; without it the table's sort order is kept.
            z_order: Write all files anew, rows along a Z-curve of these columns, so that conditions on any of them
                leave files out.
            target_file_size_bytes: The size that files are to have; `write.target-file-size-bytes` if None.
            min_input_files: So many small files of a partition are made one, even if they do not fill it; 5 if None,
                in Paimon tables `compaction.min.file-num`.
            min_deletes: So many delete files of a data file are folded in; None leaves deletes alone.
            rewrite_all: Write every file anew.
            ref: The branch.
            dry_run: Only tell what would be done.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are written; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            ConflictError: Other writers changed the same rows again and again.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            SchemaError: An argument does not fit.
        """
        return self._backend.compact(
            where,
            CompactOptions(
                sort_by, z_order, target_file_size_bytes, min_input_files, min_deletes, rewrite_all, dry_run
            ),
            WriteOptions(ref, False, snapshot_properties or {}, executor, watcher),
        )

    def rewrite_manifests(
        self,
        *,
        rewrite_all: bool = False,
        ref: str = MAIN,
        dry_run: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> ManifestSummary:
        """Put manifests together anew, the files of a partition side by side, if there are more than need be.

        Files, rows, statistics and changes between snapshots stay what they are; planning reads less. Manifests are as
        large as `commit.manifest.target-size-bytes` says.

        Args:
            rewrite_all: Whether those are rewritten too that are few enough.
            ref: The branch.
            dry_run: Only tell what would be done.
            snapshot_properties: Further entries of the snapshot summary.

        Raises:
            ConflictError: Other writers won every race.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        """
        options = WriteOptions(ref, False, snapshot_properties or {})
        return self._backend.rewrite_manifests(options, rewrite_all=rewrite_all, dry_run=dry_run)

    def rewrite_deletes(
        self,
        *,
        min_input_files: int = 2,
        ref: str = MAIN,
        dry_run: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> DeletesSummary:
        """Put the delete files of each data file together, and drop those that no data file needs.

        In tables of version 2 one file of positions comes in place of several; from version 3 on files of positions,
        left from before, become deletion vectors. Data files are neither read nor written: `compact` folds deletes in.

        Args:
            min_input_files: So many files of positions of one data file are worth it; from version 3 on each is.
            ref: The branch.
            dry_run: Only tell what would be done.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where delete files are read and written; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            ConflictError: Other writers changed the same rows again and again.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: A delete file is corrupt; nothing was changed.
        """
        options = WriteOptions(ref, False, snapshot_properties or {}, executor, watcher)
        return self._backend.rewrite_deletes(options, min_input_files=min_input_files, dry_run=dry_run)

    def expire_snapshots(
        self,
        *,
        keep_last: int | None = None,
        older_than: datetime | None = None,
        dry_run: bool = False,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> ExpireSummary:
        """Forget old snapshots, and delete the files that only they reach.

        Every branch keeps its newest snapshots, and those that are young enough; a tag keeps the one it names. Without
        arguments the table's properties `history.expire.*` decide, which by default keep one snapshot and those of the
        last five days; what a branch or tag says of itself comes first. Files that do not lie below the table's
        location stay.

        Args:
            keep_last: So many of each branch's newest snapshots stay, however old.
            older_than: Only snapshots from before this moment go (UTC if it has no zone).
            dry_run: Whether to tell only what would be done.
            executor: Where manifests are read; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            FormatError: Metadata is corrupt; nothing was changed.
            NotFoundError: A metadata file is missing; nothing was changed.
            SchemaError: The table property `gc.enabled` is false, or an argument makes no sense.
            ConflictError: Other writers won every race; nothing was changed.
        """
        check_moment("older_than", older_than)
        return self._backend.expire_snapshots(
            keep_last=keep_last,
            older_than=older_than,
            dry_run=dry_run,
            executor=executor,
            watcher=watcher,
        )

    def remove_orphans(
        self,
        *,
        older_than_days: float = DEFAULT_GRACE_DAYS,
        dry_run: bool = False,
        marked: str | None = None,
        log: str | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> OrphanSummary:
        """Delete files in the table's folder that nothing needs: what writers that died or lost a race left there.

        The folder is listed, then the newest state is read; what it reaches by any branch, tag, staged snapshot,
        statistics entry or its metadata log stays, under whatever spelling of its location. So does what is younger
        than the grace period, what belongs to other tables in the folder, and everything outside of it. Before each
        batch of files the newest state is asked again.

        Args:
            older_than_days: The grace period. It must be longer than any writer takes from its first file to its
                commit: with 0 a writer at work loses its files.
            dry_run: Whether to tell only what would be done.
            marked: The log of an earlier run: only files that it marked, and that are as they were, are deleted.
            log: A folder for logs: what will be deleted, written before the first file is, and what was.
            executor: Where folders are listed and manifests read; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            FormatError: Metadata is corrupt; nothing was deleted.
            NotFoundError: A metadata file is missing; nothing was deleted.
            SchemaError: The table property `gc.enabled` is false, or an argument makes no sense.
            UnsupportedError: The table's folder is a whole store, or a table of another format as well.
        """
        return remove_orphans(
            self._backend.reachable(executor),
            older_than_days=older_than_days,
            dry_run=dry_run,
            marked=marked,
            log=log,
            executor=executor,
            watcher=watcher,
        )

    def migrate(
        self,
        format: str,
        *,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
        dry_run: bool = False,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> MigrationSummary:
        """Make the table one of another format, under its name and with its data files as they are.

        Afterwards this object stands for a table that is gone; `Catalog.load_table` gives the new one. See
        `Catalog.migrate` for the arguments, what goes over and what is refused.
        """
        return self._catalog.migrate(
            self.name,
            format=format,
            partition_by=partition_by,
            properties=properties,
            format_version=format_version,
            dry_run=dry_run,
            executor=executor,
            watcher=watcher,
        )

    def add_files(
        self,
        locations: Iterable[str],
        *,
        ref: str = MAIN,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> Snapshot | None:
        """Make Parquet files that exist already part of the table, where they lie and as they are.

        From then on they are the table's: `expire_snapshots` may delete them. Columns are found by field id, or by name
        in files that have none; the table then gets a name mapping if it has none yet. Metrics, partition values and
        sketches are computed from the files.

        Args:
            locations: The files.
            ref: The branch to add them to.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are looked at; threads of this process by default.
            watcher: Called with the progress.

        Returns:
            The branch's snapshot.

        Raises:
            AlreadyExistsError: A file is named twice, or the branch has it already.
            FormatError: A file is corrupt, or no Parquet.
            NotFoundError: A file, or the branch, does not exist.
            SchemaError: A file's columns do not fit, its rows belong to several partitions, or it has none.
            UnsupportedError: A file lies outside of the table's folder, and the table does not allow that.
        """
        self._backend.add_files(locations, WriteOptions(ref, False, snapshot_properties or {}, executor, watcher))
        return self.current_snapshot(ref)
