"""Where tasks run: what `skerry.table.tasks` says, which the table formats need as well, by the name that jobs use."""

from __future__ import annotations

from skerry.table.tasks import Executor, Progress, ThreadExecutor, Watcher

__all__ = ["Executor", "Progress", "ThreadExecutor", "Watcher"]
