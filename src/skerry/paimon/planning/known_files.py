"""What plans of a snapshot find out that the next ones need, too: its files never change.

A handle that stays open plans many reads of one state. From the second one on its live files are kept, with what was
decoded of their statistics, if they are not many.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from skerry.paimon.planning.entry_columns import ReadEntries
from skerry.paimon.planning.file_pruning import FilePruner
from skerry.paimon.planning.splits import VectorLocation
from skerry.paimon.planning.vector_locations import VectorKey
from skerry.table.predicate import Column, FieldMetrics

__all__ = ["MOST_FILES", "KnownFiles"]

MOST_FILES: Final = 1024
"""Of snapshots with more files nothing is kept."""


@dataclass(frozen=True)
class KnownFiles:
    """The live files of a snapshot.

    Args:
        live: Their entries.
        vectors: Their deletion vectors.
        pruner: Judges them, without conditions.
    """

    live: ReadEntries
    vectors: Mapping[VectorKey, VectorLocation]
    pruner: FilePruner
    _metrics: dict[Hashable, FieldMetrics | None] = field(default_factory=dict, repr=False)

    def metrics(self, column: Column) -> FieldMetrics | None:
        """What is known of a column in the files; decoded once."""
        key = column.field_id, column.path, column.type, column.inside
        if key not in self._metrics:
            self._metrics[key] = self.pruner.value_metrics(column)
        return self._metrics[key]
