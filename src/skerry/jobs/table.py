"""What tables of all formats do by the shared jobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from skerry.table.table import Table
from skerry.table.work.tasks import Executor, ProgressCallback

if TYPE_CHECKING:
    from skerry.table.summaries import OrphanSummary

__all__ = ["JobTable"]


class JobTable(Table):
    """A table whose orphans are removed by `skerry.jobs.orphans`."""

    def _remove_orphans(
        self,
        before: datetime,
        dry_run: bool,
        marked: str | None,
        log: str | None,
        executor: Executor | None,
        progress: ProgressCallback | None,
    ) -> OrphanSummary:
        from skerry.jobs.orphans import remove_orphans

        return remove_orphans(
            self.reachable(executor),
            before=before,
            dry_run=dry_run,
            marked=marked,
            log=log,
            executor=executor,
            progress=progress,
        )
