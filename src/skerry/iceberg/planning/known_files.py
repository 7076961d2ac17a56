"""The files of a snapshot, decoded once for many conditions: look-ups by value plan in a fraction of a millisecond."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.planning.file_pruning import FilePruner, LiveFiles
from skerry.table.files.scan_task import FileScanTask
from skerry.table.predicate import Column, Comparison, In, Operator, Predicate

__all__ = ["MAX_KNOWN_FILES", "KnownFiles", "with_kept_metrics"]

MAX_KNOWN_FILES: Final = 1024
"""Of larger snapshots only what a condition leaves becomes objects."""
_Bounds = tuple[Any, Any]
_KINDS: Final[dict[pa.DataType, type]] = {
    pa.string(): str,
    pa.large_string(): str,
    pa.int32(): int,
    pa.int64(): int,
}
"""Types whose values Python orders as PyArrow does; texts by their bytes."""


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
    _bounds: dict[Column, list[_Bounds] | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def chosen(self, conjuncts: tuple[Predicate, ...]) -> Iterator[FileScanTask]:
        """The files that may have matching rows, as `skerry.iceberg.planning.plan.ScanPlanner.stream` finds them.

        Args:
            conjuncts: Predicates that matching rows satisfy, all of them.
        """
        holding = self._holding(conjuncts[0]) if len(conjuncts) == 1 else None
        if holding is not None:
            for place in holding:
                task = self.tasks[place]
                yield replace(task, matches_all=False) if task.matches_all else task
            return
        pruner = FilePruner(self.schema, conjuncts)
        first = 0
        for live in self.live:
            alive, must, _ = pruner.judge(live)
            for place in alive.nonzero()[0].tolist():
                task = self.tasks[first + place]
                yield task if task.matches_all == must[place] else replace(task, matches_all=bool(must[place]))
            first += len(alive)

    def _holding(self, condition: Predicate) -> list[int] | None:
        """The files that may have one of some values by their bounds; None if the condition is another.

        PyArrow takes longer to begin than Python to compare some bounds.
        """
        if isinstance(condition, Comparison) and condition.operator is Operator.EQ:
            values: tuple[Any, ...] = (condition.value,)
        elif isinstance(condition, In) and not condition.negated:
            values = condition.values
        else:
            return None
        column = condition.column
        kind = _KINDS.get(column.type)
        if kind is None or not all(type(value) is kind for value in values):
            return None
        if column not in self._bounds:
            self._bounds[column] = self._known_bounds(column)
        bounds = self._bounds[column]
        if bounds is None:
            return None
        sought = sorted(value.encode() if kind is str else value for value in values)
        found = []
        for place, (lower, upper) in enumerate(bounds):
            first = 0 if lower is None else bisect_left(sought, lower)
            if first < len(sought) and (upper is None or sought[first] <= upper):
                found.append(place)
        return found

    def _known_bounds(self, column: Column) -> list[_Bounds] | None:
        """The bounds of a column as Python compares them; None if other metrics tell more of a file."""
        if column.inside is not None or len(column.path) != 1:
            return None
        found: list[_Bounds] = []
        for live in self.live:
            metrics = None if live.batch.spec.fields else live.columns(column)
            if metrics is None:
                return None
            lower, upper = metrics.lower, metrics.upper
            if _KINDS[column.type] is str:
                lower, upper = lower.cast(pa.binary()), upper.cast(pa.binary())
            for least, greatest in zip(lower.to_pylist(), upper.to_pylist(), strict=True):
                if least is not None and least == greatest:  # all rows may match
                    return None
                is_misleading = least is not None and greatest is not None and least > greatest
                found.append((None, None) if is_misleading else (least, greatest))
        return found


def with_kept_metrics(live: LiveFiles) -> LiveFiles:
    """The same files; the metrics of a column are decoded once."""
    return LiveFiles(live.batch, functools.cache(live.partitions), functools.cache(live.columns))
