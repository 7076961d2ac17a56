"""Looking after a table: its statistics, the layout of its files and what is no longer needed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from skerry.catalog.handle import TableHandle
from skerry.jobs.analyze import AnalyzeSummary, analyze
from skerry.jobs.executor import Executor, Watcher
from skerry.jobs.expire import ExpireSummary, expire_snapshots

__all__ = ["TableMaintenance"]


class TableMaintenance(TableHandle):
    """What changes no rows."""

    def analyze(
        self, columns: Sequence[str] | None = None, *, executor: Executor | None = None, watcher: Watcher | None = None
    ) -> AnalyzeSummary:
        """Sketch all rows of the current snapshot and publish the sketches for it.

        Args:
            columns: Dotted names; those that the table's properties choose if None.
            executor: Where to sketch; threads of this process by default.
            watcher: Called with the progress.
        """
        return analyze(self._table, columns, executor=executor, watcher=watcher)

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
        return expire_snapshots(
            self._table,
            keep_last=keep_last,
            older_than=older_than,
            dry_run=dry_run,
            executor=executor,
            watcher=watcher,
        )
