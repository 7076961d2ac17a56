"""Copy-on-write: rewrite data files without deleted rows and with updated rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.iceberg.writing.layout import FileLayout
from skerry.iceberg.writing.table_writers import write_batches
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.merging.rules import Actions, RowNumbers
from skerry.table.statistics.written_file import WrittenFile

__all__ = ["FileChange", "Matches", "Rewriter", "UpdateRows", "pack"]

_MIN_PACK_BYTES = 16 << 20

DELETE = 0
"""The action of all rows of a job that only deletes."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Rows of one data file to be updated or deleted.

    Args:
        positions: int64[n], the positions of the rows, ascending.
        source_rows: int64[n], for each row the matching row of a merge's source, -1 if none matches.
        actions: int16[n], the action for each row.
    """

    positions: RowNumbers
    source_rows: RowNumbers
    actions: Actions

    @classmethod
    def to_delete(cls, positions: RowNumbers) -> Matches:
        """Rows to be deleted, which match no row of a source."""
        count = len(positions)
        return cls(positions, np.full(count, -1, np.int64), np.full(count, DELETE, np.int16))

    @classmethod
    def concatenated(cls, parts: Sequence[Matches]) -> Matches:
        """Join the matches of several parts of a file."""
        if len(parts) == 1:
            return parts[0]
        positions = np.concatenate([part.positions for part in parts])
        order = np.argsort(positions, kind="stable")
        return cls(
            positions[order],
            np.concatenate([part.source_rows for part in parts])[order],
            np.concatenate([part.actions for part in parts])[order],
        )

    def __len__(self) -> int:
        return len(self.positions)

    def where(self, mask: npt.NDArray[np.bool_]) -> Matches:
        """Some of the rows."""
        return Matches(self.positions[mask], self.source_rows[mask], self.actions[mask])

    def found_in(self, positions: RowNumbers) -> tuple[npt.NDArray[np.bool_], RowNumbers]:
        """Look up rows by their positions.

        Returns:
            bool[n], whether each is among the matches, and for those that are, int64[m], the index of the match.
        """
        index = np.minimum(np.searchsorted(self.positions, positions), max(len(self) - 1, 0))
        hit = self.positions[index] == positions if len(self) else np.zeros(len(positions), bool)
        return hit, index[hit]


@dataclass(frozen=True, slots=True)
class FileChange:
    """The rows of one data file to be updated or deleted, at least one.

    Args:
        tasks: The tasks that read the file: one, or one for each of its parts.
        matches: The rows.
    """

    tasks: tuple[FileScanTask, ...]
    matches: Matches

    @property
    def location(self) -> str:
        """The data file."""
        return self.tasks[0].data_file.location

    @property
    def whole(self) -> FileScanTask:
        """The task that reads all live rows of the file."""
        return replace(self.tasks[0], matches_all=True, start_byte=0, end_byte=None, rows=None)


UpdateRows: TypeAlias = Callable[[RowNumbers, pa.RecordBatch, Actions], pa.RecordBatch]
"""Computes updated rows from the matching rows of the source, the old rows, and their actions."""


@dataclass(frozen=True)
class Rewriter:
    """Rewrites data files; picklable, so that it can run on executors.

    Args:
        layout: The layout of the new files.
        reader: Delivers the columns of rows that are kept, and their position as the last column.
        updates: bool[actions], whether an action is an update; the others are deletes.
        update: Computes the updated rows.
    """

    layout: FileLayout
    reader: RowReader
    updates: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(1, bool))
    update: UpdateRows | None = None

    def __call__(self, changes: Sequence[FileChange]) -> list[WrittenFile]:
        """Write the remaining rows of some files, in order, to new files."""
        return write_batches(self.layout, (rows for change in changes for rows in self._rows(change)))

    def _rows(self, change: FileChange) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.batches([change.whole]):
            rows = batch.drop_columns([batch.schema.names[-1]])
            hit, which = change.matches.found_in(batch.column(batch.num_columns - 1).to_numpy())
            if not len(which):
                yield rows
                continue
            if not hit.all():
                yield rows.filter(pa.array(~hit))
            updated = self.updates[change.matches.actions[which]]
            if self.update is not None and updated.any():
                chosen = which[updated]
                old = rows.take(pa.array(np.flatnonzero(hit)[updated]))
                yield self.update(change.matches.source_rows[chosen], old, change.matches.actions[chosen])


def pack(changes: Sequence[FileChange], target_size_bytes: int, workers: int) -> list[tuple[FileChange, ...]]:
    """Pack changes of small files of a partition together, so that their remaining rows make a file of a good size.

    Args:
        changes: The changes.
        target_size_bytes: Maximum size of a pack of several files.
        workers: Make at least this many packs, unless they become too small to be worthwhile.
    """
    total = sum(change.tasks[0].data_file.file_size_bytes for change in changes)
    target = min(target_size_bytes, max(total // (2 * workers), _MIN_PACK_BYTES))
    packs: list[list[FileChange]] = []
    open_: dict[object, tuple[int, list[FileChange]]] = {}
    for change in changes:
        file = change.tasks[0].data_file
        key = (file.spec_id, file.partition)
        size, current = open_.get(key, (target, []))
        if size + file.file_size_bytes > target:
            size, current = 0, []
            packs.append(current)
        current.append(change)
        open_[key] = (size + file.file_size_bytes, current)
    return [tuple(pack) for pack in packs]
