"""A merge whose rows never pass through the driver: tasks match rows, leave what they found, and write new rows.

The driver knows which rows of which files change, and nothing else that grows with the source.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from skerry.bitmaps import positions_from_roaring64, roaring64_from_positions
from skerry.iceberg.jobs.merging.attempt import Attempt, Written, by_file, without_values
from skerry.iceberg.jobs.merging.matching import Matcher, RowUpdate, RowUpdater, TaskMatches, with_lineage
from skerry.iceberg.jobs.rewrite import Matches
from skerry.iceberg.writing.layout import FileLayout
from skerry.iceberg.writing.table_writers import write_batches
from skerry.storage import Storage, join
from skerry.table.files.scan_task import FileScanTask
from skerry.table.merging import NOTHING, MergeSource, Pack, StagedSource
from skerry.table.merging.rules import Actions, RowNumbers
from skerry.table.owned_files import OwnedFiles
from skerry.table.predicate import Predicate
from skerry.table.statistics.written_file import WrittenFile

__all__ = ["AttemptInTasks"]

_GROUP_ROWS = 1 << 18
"""Updated rows that a task reads and writes, at least."""
_NOWHERE = -1
_LEFT = pa.schema(
    [("source_row", pa.int64()), ("position", pa.int64()), ("action", pa.int16()), ("row_id", pa.int64())]
)

_FileBatch = tuple[str, int]


class AttemptInTasks(Attempt):
    """A merge on one state of the table, whose source is in files."""

    def _tasks(self, where: Predicate) -> list[FileScanTask]:
        return list(self._scan(list(self._source.on), where).plan(split=True, indexed=True, keys=self._sought()))

    def _written(self, owned: OwnedFiles) -> Written:
        assert isinstance(self._source, StagedSource)
        packs = self._source.staged.packs(self._layout.target_file_size_bytes)
        matcher = _LeavingMatcher(self._matcher(), self._source, tuple(packs), with_matches=self._copies)
        found = self._match(matcher)
        updated = sum(left.updated_rows for _, left in found)
        writes_updates = bool(updated) and not self._copies
        reads_updates = writes_updates and (bool(self._rules.kept_columns) or self._rules.has_by_source)
        files: list[WrittenFile] = []
        if reads_updates:
            update = _UpdateWriter(self._layout, self._source.staged.storage, self._updater())
            for number, written in enumerate(owned.map(self._request.executor, update, _groups(found)), 1):
                files += written
                self._request.report("update", number, number, _rows_of(files))
        if self._rules.inserts or (writes_updates and not reads_updates):
            tasks = [_PackTask(pack, _about(pack, [left for _, left in found])) for pack in packs]
            write = _PackWriter(self._layout, self._source, self._update, writes_updates and not reads_updates)
            for number, written in enumerate(owned.map(self._request.executor, write, tasks), 1):
                files += written
                self._request.report("write", number, len(tasks), _rows_of(files))
        changes = by_file([(task, left.matches) for task, left in found if left.rows])
        return Written(files, updated, sum(left.rows for _, left in found) - updated, changes)


def _rows_of(files: Sequence[WrittenFile]) -> int:
    return sum(file.data_file.record_count for file in files)


# Matching ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Left:
    """The matches in a part of a data file, most of which are in a file of their own; picklable.

    Args:
        location: The file, of columns as in `_LEFT`; empty if there are no matches. Its batches are those of packs of
            the source, after one with rows of the table that match no row of the source.
        packs: The number of its batch for every pack that has one, by the pack's start.
        rows: How many rows are updated or deleted.
        updated_rows: How many of them are updated.
        bitmap: Their positions.
        numbered: The same with their actions, if whoever plans needs these.
    """

    location: str
    packs: Mapping[int, int]
    rows: int
    updated_rows: int
    bitmap: bytes
    numbered: Matches | None

    @property
    def matches(self) -> Matches:
        """The rows to be updated or deleted; their actions are right if these were requested."""
        if self.numbered is not None:
            return self.numbered
        return Matches.to_delete(positions_from_roaring64(self.bitmap, max_positions=self.rows))

    def __len__(self) -> int:
        return self.rows


@dataclass(frozen=True)
class _LeavingMatcher:
    """Matches rows, and leaves what it finds in a file; picklable.

    Args:
        matcher: Matches.
        source: The source.
        packs: Its packs.
        with_matches: Whether the caller needs the matches as well.
    """

    matcher: Matcher
    source: StagedSource
    packs: tuple[Pack, ...]
    with_matches: bool

    def __call__(self, task: FileScanTask) -> _Left:
        """Match the rows of a part of a data file.

        Raises:
            SchemaError: Several rows of the source match one row of the table; the message names the key.
        """
        part = self.matcher(task)
        matches = part.matches
        updated = int(self.matcher.rules.updates[matches.actions].sum()) if len(matches) else 0
        location, numbers = self._leave(part)
        bitmap = b"" if self.with_matches else roaring64_from_positions(matches.positions)
        return _Left(location, numbers, len(matches), updated, bitmap, matches if self.with_matches else None)

    def _leave(self, part: TaskMatches) -> tuple[str, dict[int, int]]:
        """Write the matches by row of the source, a batch for every pack; and matched rows that change nothing."""
        rows = self._rows(part)
        if not rows.num_rows:
            return "", {}
        source_rows = rows.column("source_row").to_numpy()
        starts = [pack.start for pack in self.packs]
        cuts = [0, *np.searchsorted(source_rows, starts).tolist(), len(source_rows)]
        staged = self.source.staged
        location = join(staged.folder, f"{uuid.uuid4()}.arrow")
        numbers: dict[int, int] = {}
        written = 0
        with staged.storage.open_output(location) as sink, pa.ipc.new_file(sink, _LEFT) as writer:
            for start, first, last in zip([_NOWHERE, *starts], cuts, cuts[1:], strict=False):
                if last > first:
                    writer.write_batch(rows.slice(first, last - first))
                    numbers[start] = written
                    written += 1
        return location, numbers

    def _rows(self, part: TaskMatches) -> pa.RecordBatch:
        """The columns of `_LEFT`, ordered by row of the source."""
        matches, source = part.matches, self.source.holding(self.matcher.rules.deciding_columns)
        silent = source.matched([part.matched])
        silent[matches.source_rows[matches.source_rows >= 0]] = False
        unchanged = np.flatnonzero(silent)
        source_rows = np.concatenate([matches.source_rows, unchanged])
        order = np.argsort(source_rows, kind="stable")
        nothing = np.full(len(unchanged), NOTHING)
        ids = part.row_ids if part.row_ids is not None else pa.nulls(len(matches), pa.int64())
        columns = [
            pa.array(source_rows),
            pa.array(np.concatenate([matches.positions, np.full(len(unchanged), _NOWHERE)])),
            pa.array(np.concatenate([matches.actions, nothing]).astype(np.int16)),
            pa.concat_arrays([ids, pa.nulls(len(unchanged), pa.int64())]),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_LEFT).take(pa.array(order))


def _left(storage: Storage, location: str, batch: int | None = None) -> pa.Table:
    """A batch of what a task left, or all of it."""
    with storage.open_input(location) as file:
        opened = pa.ipc.open_file(file)
        return opened.read_all() if batch is None else pa.Table.from_batches([opened.get_batch(batch)])


def _about(pack: Pack, found: Iterable[_Left]) -> tuple[_FileBatch, ...]:
    """Where tasks have left what they found about a pack."""
    return tuple((left.location, left.packs[pack.start]) for left in found if pack.start in left.packs)


# Writing -------------------------------------------------------------------------------------------------------------


def _groups(found: Sequence[tuple[FileScanTask, _Left]]) -> list[list[tuple[FileScanTask, str]]]:
    """Parts of files, together as many updated rows as are worth a file."""
    groups: list[list[tuple[FileScanTask, str]]] = []
    rows = _GROUP_ROWS
    for task, left in found:
        if left.updated_rows:
            if rows >= _GROUP_ROWS:
                groups.append([])
                rows = 0
            groups[-1].append((task, left.location))
            rows += left.updated_rows
    return groups


@dataclass(frozen=True)
class _UpdateWriter:
    """Reads updated rows and writes them with their new values; picklable.

    Args:
        layout: The layout of the new files.
        storage: Access to what tasks left.
        updater: Reads and updates.
    """

    layout: FileLayout
    storage: Storage
    updater: RowUpdater

    def __call__(self, group: Sequence[tuple[FileScanTask, str]]) -> list[WrittenFile]:
        """Write the updated rows of parts of files."""
        return write_batches(self.layout, (rows for task, location in group for rows in self._updated(task, location)))

    def _updated(self, task: FileScanTask, location: str) -> list[pa.RecordBatch]:
        left = _left(self.storage, location).sort_by("position")
        positions, actions = left.column("position").to_numpy(), left.column("action").to_numpy()
        updates = (positions != _NOWHERE) & self.updater.update.rules.updates[actions]
        matches = Matches(positions, left.column("source_row").to_numpy(), actions).where(updates)
        return self.updater((replace(task, matches_all=True, rows=matches.positions), matches))


@dataclass(frozen=True, slots=True)
class _PackTask:
    """A pack of the source, and what tasks have left about its rows: files and the numbers of batches."""

    pack: Pack
    left: tuple[_FileBatch, ...]


@dataclass(frozen=True)
class _PackWriter:
    """Writes the rows of a pack that are inserted, and those that replace a row of the table whole; picklable.

    Args:
        layout: The layout of the new files.
        source: The source.
        update: Computes updated rows.
        updates: Whether to write them.
    """

    layout: FileLayout
    source: StagedSource
    update: RowUpdate
    updates: bool

    def __call__(self, task: _PackTask) -> list[WrittenFile]:
        """Write the rows of a pack."""
        storage = self.source.staged.storage
        left = pa.concat_tables([_LEFT.empty_table(), *(_left(storage, *batch) for batch in task.left)])
        return write_batches(self.layout, self._rows(task.pack, left.sort_by("source_row").combine_chunks()))

    def _rows(self, pack: Pack, left: pa.Table) -> Iterator[pa.RecordBatch]:
        numbers, actions = (left.column(name).to_numpy() for name in ("source_row", "action"))
        is_update = np.zeros(len(numbers), bool)
        is_update[actions != NOTHING] = self.update.rules.updates[actions[actions != NOTHING]]
        start = pack.start
        for batch in self.source.staged.of_pack(pack):
            source = self.source.of(batch)
            first, last = np.searchsorted(numbers, [start, start + batch.num_rows])
            if self.updates:
                some = first + np.flatnonzero(is_update[first:last])
                if len(some):
                    yield self._updated(
                        source, numbers[some] - start, actions[some], left.column("row_id").take(pa.array(some))
                    )
            if self.update.rules.inserts:
                new = np.ones(batch.num_rows, bool)
                new[numbers[first:last] - start] = False
                for inserted in self.update.rules.inserted(source, np.flatnonzero(new)):
                    yield with_lineage(inserted, None) if self.layout.lineage else inserted
            start += batch.num_rows

    def _updated(
        self, source: MergeSource, numbers: RowNumbers, actions: Actions, row_ids: pa.ChunkedArray
    ) -> pa.RecordBatch:
        ids = row_ids.combine_chunks() if self.layout.lineage else None
        update = replace(self.update, source=source)
        return update(numbers, without_values(len(numbers), ids), actions)
