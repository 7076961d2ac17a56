"""The files of a snapshot, decoded once for many conditions: look-ups by value plan in a fraction of a millisecond."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.planning.file_pruning import FilePruner, LiveFiles
from skerry.table.files.scan_task import FileScanTask
from skerry.table.predicate import Predicate

__all__ = ["MAX_KNOWN_FILES", "KnownFiles", "with_kept_metrics"]

MAX_KNOWN_FILES: Final = 1024
"""Of larger snapshots only what a condition leaves becomes objects."""


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """The files of a snapshot, and what their metrics say.

    Args:
        schema: The schema of the scans.
        live: The files, some together.
        tasks: A task for each of them, in the same order.
    """

    schema: Schema
    live: tuple[LiveFiles, ...]
    tasks: Sequence[FileScanTask]

    def chosen(self, conjuncts: tuple[Predicate, ...]) -> Iterator[FileScanTask]:
        """The files that may have matching rows, as `skerry.iceberg.planning.plan.ScanPlanner.stream` finds them.

        Args:
            conjuncts: Predicates that matching rows satisfy, all of them.
        """
        pruner = FilePruner(self.schema, conjuncts)
        first = 0
        for live in self.live:
            alive, must, _ = pruner.judge(live)
            for place in alive.nonzero()[0].tolist():
                task = self.tasks[first + place]
                yield task if task.matches_all == must[place] else replace(task, matches_all=bool(must[place]))
            first += len(alive)


def with_kept_metrics(live: LiveFiles) -> LiveFiles:
    """The same files; the metrics of a column are decoded once."""
    return LiveFiles(live.batch, functools.cache(live.partitions), functools.cache(live.columns))
