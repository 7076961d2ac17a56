"""A table as users hold it: one documented class, which every table format implements.

`ReadableTable` has what can be asked of a table, `WritableTable` what changes its rows, `ConfigurableTable` what
changes its branches and settings, `MovableTable` what copies and moves it, `SearchableTable` what indexes and searches
it, and `Table` adds its upkeep. Methods check their arguments here, once; what they do is in the methods with an
underscore that `IcebergTable` and `PaimonTable` implement (`iceberg/table.py`, `paimon/table.py`). Those that a format
lacks raise `UnsupportedError`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Protocol

from skerry.arguments import check_list, check_whole_number
from skerry.errors import SchemaError, UnsupportedError
from skerry.table.arguments import Age, Condition, WriteOptions, moment_before
from skerry.table.history import MAIN
from skerry.table.movable import CopyCatalog
from skerry.table.reachability import DEFAULT_GRACE_DAYS, ReachableTable
from skerry.table.searchable import SearchableTable
from skerry.table.work.progress import Progress, progress_callback
from skerry.table.work.tasks import Executor, ProgressCallback

if TYPE_CHECKING:
    from skerry.table.connector.connector import TableConnector
    from skerry.table.inspection.health import Finding
    from skerry.table.inspection.upkeep import Upkeep
    from skerry.table.summaries import (
        AnalyzeSummary,
        CompactOptions,
        CompactSummary,
        DeletesSummary,
        ExpireSummary,
        FileIndexSummary,
        ManifestSummary,
        MigrationSummary,
        OrphanSummary,
        PartitionExpireSummary,
    )

__all__ = ["Table", "TableCatalog"]


class TableCatalog(CopyCatalog, Protocol):
    """What a table knows of the catalog that it was loaded from; `skerry.catalog.Catalog` is one."""

    @property
    def name(self) -> str:
        """The catalog's name."""
        ...

    def load_table(self, name: str) -> Table:
        """Load a table."""
        ...

    def migrate(
        self,
        name: str,
        *,
        format: str,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> MigrationSummary:
        """Make a table one of another format."""
        ...


class Table(SearchableTable):
    """A table, made by `Catalog.load_table` and `Catalog.create_table`; `help(skerry)` groups its methods by purpose.

    It shows the state that was newest when it was loaded or last changed through it; `refresh` loads the newest.
    """

    _catalog: TableCatalog | None = None

    @property
    def catalog(self) -> TableCatalog:
        """The catalog that the table was loaded from.

        Raises:
            UnsupportedError: It was opened without one.
        """
        if self._catalog is None:
            raise UnsupportedError("the table was opened without a catalog", location=self.name)
        return self._catalog

    @abstractmethod
    def connector(self) -> TableConnector:
        """The table as frames and streams of other engines see it: read, written and followed task by task."""

    # ---- upkeep ----

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        full: bool = False,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> AnalyzeSummary:
        """Sketch the rows of the current snapshot that are not sketched yet, and publish sketches of all rows for it.

        What others have written since the last commit of ours is read, and nothing else.

        Args:
            columns: Dotted names; those that the table's properties choose if None.
            full: Whether all files are sketched, those that are sketched already as well.
            executor: Where to sketch; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            SchemaError: A column does not exist; the message proposes the nearest.
            UnsupportedError: Nothing can be written to the table.
        """
        check_list("columns", columns)
        self.storage.check_writable(self.location)
        with progress_callback(progress, "analyze", self.location) as callback:
            return self._analyze(columns, full, executor, callback)

    def compact(  # noqa: PLR0913  options, by name
        self,
        where: Condition | None = None,
        *,
        sort_by: Sequence[str] | None = None,
        z_order: Sequence[str] | None = None,
        hilbert: Sequence[str] | None = None,
        target_file_size_bytes: int | None = None,
        min_input_files: int | None = None,
        min_deletes: int | None = 1,
        full: bool = False,
        ref: str = MAIN,
        dry_run: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> CompactSummary:
        """Rewrite many small or too large files as few of a good size, deletes folded in.

        Rows stay the same, and so do their row ids and the table's statistics. Only what gains from it is rewritten:
        partitions with many small files, files much larger than the target, files with deleted rows. What other
        writers change meanwhile stays changed; files that they replaced are planned again.

        Args:
            where: Only files that can hold rows for which this is true: a condition as in `scan`.
            sort_by: Rewrite all files, sorted like this; without it the table's sort order is kept.
            z_order: Rewrite all files, rows along a Z-curve of these columns, so that conditions on any of them leave
                files out.
            hilbert: The same along a Hilbert curve, which has no jumps: files overlap less, sorting takes longer.
            target_file_size_bytes: The size that files are to have; `write.target-file-size-bytes` if None.
            min_input_files: This many small files of a partition become one, even if they do not fill it; 5 if None,
                in Paimon tables `compaction.min.file-num`.
            min_deletes: This many delete files of a data file are folded in; None leaves deletes alone.
            full: Whether every file is rewritten.
            ref: The branch.
            dry_run: Only say what would be done.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are written; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            ConflictError: Other writers changed the same rows again and again.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            SchemaError: An argument does not fit.
        """
        from skerry.table.summaries import CompactOptions

        check_list("sort_by", sort_by)
        check_list("z_order", z_order)
        check_list("hilbert", hilbert)
        how = CompactOptions(
            sort_by, z_order, hilbert, target_file_size_bytes, min_input_files, min_deletes, full, dry_run
        )
        with progress_callback(progress, "compact", self.location) as callback:
            return self._compact(where, how, WriteOptions(ref, False, snapshot_properties or {}, executor, callback))

    def rewrite_manifests(
        self,
        *,
        full: bool = False,
        ref: str = MAIN,
        dry_run: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> ManifestSummary:
        """Rewrite manifests if there are more than needed, the files of a partition side by side.

        Files, rows, statistics and changes between snapshots stay what they are; planning reads less. Manifests are as
        large as `commit.manifest.target-size-bytes` says.

        Args:
            full: Whether manifests that are few enough are rewritten as well.
            ref: The branch.
            dry_run: Only say what would be done.
            snapshot_properties: Further entries of the snapshot summary.

        Raises:
            ConflictError: Other writers won every race.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        """
        return self._rewrite_manifests(full, dry_run, WriteOptions(ref, False, snapshot_properties or {}))

    def rewrite_deletes(
        self,
        *,
        min_input_files: int = 2,
        ref: str = MAIN,
        dry_run: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> DeletesSummary:
        """Make one delete file of those of each data file, and drop those that no data file needs.

        In tables of version 2 one file of positions replaces several; from version 3 on files of positions, left from
        before, become deletion vectors. Data files are neither read nor written: `compact` folds deletes in.

        Args:
            min_input_files: How many files of positions of one data file are rewritten; from version 3 on each is.
            ref: The branch.
            dry_run: Only say what would be done.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where delete files are read and written; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            ConflictError: Other writers changed the same rows again and again.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: A delete file is corrupt; nothing was changed.
        """
        with progress_callback(progress, "rewrite deletes", self.location) as callback:
            options = WriteOptions(ref, False, snapshot_properties or {}, executor, callback)
            return self._rewrite_deletes(min_input_files, dry_run, options)

    def rewrite_file_indexes(
        self,
        where: Condition | None = None,
        *,
        full: bool = False,
        ref: str = MAIN,
        dry_run: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> FileIndexSummary:
        """Give the data files of a Paimon table the indexes that its options `file-index.*` ask for.

        Only the indexed columns are read, and no data file is written: files that were written before an option was
        set get their indexes, and lose those that are no longer asked for.

        Args:
            where: Only these partitions: a condition on partition keys.
            full: Whether files that have these indexes are read as well, since options of columns have changed.
            ref: The branch.
            dry_run: Only say what would be done.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            ConflictError: Other writers replaced the files again and again.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            UnsupportedError: A column cannot have such an index, or the table's format has none.
        """
        with progress_callback(progress, "rewrite file indexes", self.location) as callback:
            options = WriteOptions(ref, False, snapshot_properties or {}, executor, callback)
            return self._rewrite_file_indexes(where, full, dry_run, options)

    def expire_snapshots(
        self,
        *,
        keep_last: int | None = None,
        older_than: Age | None = None,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> ExpireSummary:
        """Forget old snapshots, and delete the files that only they reach.

        Every branch keeps its newest snapshots, and those that are young enough; a tag keeps the one it names. Without
        arguments the table's properties `history.expire.*` decide, which by default keep one snapshot and those of the
        last five days; the rules of a branch or tag come first. Files that are not below the table's location stay.

        Args:
            keep_last: This many of each branch's newest snapshots stay, however old.
            older_than: Only snapshots from before this moment (UTC if it has no zone), or older than this, expire.
            dry_run: Only say what would be done.
            executor: Where manifests are read; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            FormatError: Metadata is corrupt; nothing was changed.
            NotFoundError: A metadata file is missing; nothing was changed.
            SchemaError: The table property `gc.enabled` is false, or an argument makes no sense.
            ConflictError: Other writers won every race; nothing was changed.
        """
        check_whole_number("keep_last", keep_last, 1)
        moment = moment_before("older_than", older_than)
        with progress_callback(progress, "expire snapshots", self.location) as callback:
            return self._expire_snapshots(keep_last, moment, dry_run, executor, callback)

    def expire_partitions(
        self, older_than: timedelta | None = None, *, ref: str = MAIN, dry_run: bool = False
    ) -> PartitionExpireSummary:
        """Drop the partitions of a Paimon table that are older than its options `partition.expiration-*` say.

        Args:
            older_than: The age; `partition.expiration-time` if None.
            ref: The branch.
            dry_run: Only say what would be done.

        Raises:
            CommitUnknownError: The outcome is unknown.
            SchemaError: The table has no partitions, or no age is given.
            UnsupportedError: The table's format has no such options.
        """
        return self._expire_partitions(older_than, dry_run, WriteOptions(ref, False, {}))

    def remove_orphans(
        self,
        *,
        older_than: Age | None = None,
        older_than_days: float | None = None,
        dry_run: bool = False,
        marked: str | None = None,
        log: str | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> OrphanSummary:
        """Delete files in the table's folder that nothing needs: left by writers that died or lost a race.

        The folder is listed, then the newest state is read; what it reaches by any branch, tag, staged snapshot,
        statistics entry or its metadata log stays, however its location is spelled. So does what is younger than the
        grace period, what belongs to other tables in the folder, and everything outside of it. Before each batch of
        files the newest state is read again.

        Args:
            older_than: The grace period, or the moment at which it began; three days if nothing is given. It must be
                longer than any writer takes from its first file to its commit: with 0 a writer at work loses its files.
            older_than_days: The same in days.
            dry_run: Only say what would be done.
            marked: The log of an earlier run: only files that it marked, and that have not changed, are deleted.
            log: A folder for logs: what will be deleted, written before the first file is, and what was.
            executor: Where folders are listed and manifests read; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            FormatError: Metadata is corrupt; nothing was deleted.
            NotFoundError: A metadata file is missing; nothing was deleted.
            SchemaError: The table property `gc.enabled` is false, or an argument makes no sense.
            UnsupportedError: The table's folder is a whole store, or a table of another format as well.
        """
        before = _grace(older_than, older_than_days)
        with progress_callback(progress, "remove orphans", self.location) as callback:
            return self._remove_orphans(before, dry_run, marked, log, executor, callback)

    @abstractmethod
    def reachable(self, executor: Executor | None = None) -> ReachableTable:
        """The table as the removal of orphans sees it: which files its state needs.

        Args:
            executor: Where manifests are read; threads of this process by default.
        """

    def health(self, *, orphans: bool = True, executor: Executor | None = None) -> list[Finding]:
        """Check what slows the table down or wastes space: a finding per check, those that need something done first.

        Checked are small files, the share of deleted rows, the skew of partitions, stale and missing statistics,
        snapshots that would expire, the number of manifests, the size of metadata, and orphans.

        Example:
            for finding in table.health():
                print(finding.ok, finding.check, finding.number, finding.call)

        Args:
            orphans: Whether orphans are estimated as well: that lists the table's folder and reads the manifests of all
                snapshots. The other checks read those of the current one.
            executor: Where manifests are read for orphans; threads of this process by default.

        Raises:
            FormatError: Metadata is corrupt.
            NotFoundError: A metadata file is missing.
            SchemaError: A table property has an invalid value.
        """
        from skerry.table.inspection.health import Findings, check_health, check_orphans

        found = check_health(self.inspect, self._upkeep(), self.freshness())
        if orphans:
            found.append(check_orphans(self.reachable(executor)))
        return Findings(sorted(found, key=lambda finding: finding.ok))

    def migrate(
        self,
        format: str,
        *,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> MigrationSummary:
        """Make the table one of another format, under its name and with its data files as they are.

        Afterwards this object stands for a table that is gone; `Catalog.load_table` gives the new one. See
        `Catalog.migrate` for the arguments, what goes over and what is refused.
        """
        return self.catalog.migrate(
            self.name,
            format=format,
            partition_by=partition_by,
            properties=properties,
            format_version=format_version,
            dry_run=dry_run,
            executor=executor,
            progress=progress,
        )

    def _own_catalog(self) -> TableCatalog:
        return self.catalog

    # ---- what table formats implement ----

    @abstractmethod
    def _analyze(
        self, columns: Sequence[str] | None, full: bool, executor: Executor | None, progress: ProgressCallback | None
    ) -> AnalyzeSummary: ...

    @abstractmethod
    def _compact(self, where: Condition | None, how: CompactOptions, options: WriteOptions) -> CompactSummary: ...

    def _rewrite_manifests(self, full: bool, dry_run: bool, options: WriteOptions) -> ManifestSummary:
        self._lacks("rewrite_manifests", "commits merge manifests as the options manifest.* say")

    def _rewrite_deletes(self, min_input_files: int, dry_run: bool, options: WriteOptions) -> DeletesSummary:
        self._lacks("rewrite_deletes", "a bucket has one deletion vector per file; compact folds them in")

    def _rewrite_file_indexes(
        self, where: Condition | None, full: bool, dry_run: bool, options: WriteOptions
    ) -> FileIndexSummary:
        self._lacks("rewrite_file_indexes", "their data files have statistics, and deletes in files beside them")

    def _expire_partitions(
        self, older_than: timedelta | None, dry_run: bool, options: WriteOptions
    ) -> PartitionExpireSummary:
        self._lacks("expire_partitions", "delete the rows of old partitions by a condition on their columns")

    @abstractmethod
    def _upkeep(self) -> Upkeep:
        """What the checks of the table's health need to know besides its metadata tables."""

    @abstractmethod
    def _expire_snapshots(
        self,
        keep_last: int | None,
        older_than: datetime | None,
        dry_run: bool,
        executor: Executor | None,
        progress: ProgressCallback | None,
    ) -> ExpireSummary: ...

    @abstractmethod
    def _remove_orphans(
        self,
        before: datetime,
        dry_run: bool,
        marked: str | None,
        log: str | None,
        executor: Executor | None,
        progress: ProgressCallback | None,
    ) -> OrphanSummary: ...


def _grace(older_than: Age | None, older_than_days: float | None) -> datetime:
    """The moment before which files must have been written to be orphans.

    Raises:
        SchemaError: Both are given, or one that makes no sense.
    """
    if older_than is not None:
        if older_than_days is not None:
            raise SchemaError("older_than= and older_than_days= say the same: give one of them")
        moment = moment_before("older_than", older_than)
        assert moment is not None
        return moment
    days = DEFAULT_GRACE_DAYS if older_than_days is None else older_than_days
    is_number = isinstance(days, int | float) and not isinstance(days, bool)
    if not is_number or not isfinite(days) or days < 0:
        raise SchemaError(f"older_than_days must be a number from 0, found {days!r}")
    try:
        return datetime.now(UTC) - timedelta(days=days)
    except OverflowError:
        raise SchemaError(f"older_than_days goes back beyond the calendar: {days!r}") from None
