"""Looking after a table: its statistics, the layout of its files and what is no longer needed."""

from __future__ import annotations

from collections.abc import Sequence

from skerry.catalog.handle import TableHandle
from skerry.jobs.analyze import AnalyzeSummary, analyze
from skerry.jobs.executor import Executor, Watcher

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
