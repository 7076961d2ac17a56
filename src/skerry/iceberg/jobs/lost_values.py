"""Updates of samples after deletes: which values of a group of files are in no remaining row.

Deleting a row changes a group's samples only if a hash of the row is in the sample and no other row of the group has
it. So only the parts of files that lose rows are read, once, and few of their values are hashed: those of the deleted
rows, and as many of the others as it takes to find the same hashes. If a hash is not found, its column is searched in
the rest of the group. Where few rows of an indexed table go, they alone are read first, page by page, and the indexes
say where else their values are. The result is exact.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.iceberg.jobs.rewrite import FileChange
from skerry.iceberg.jobs.sketch_files import POSITION, SketchTask, sample_again, samples_to_follow, sketch_file
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.reading.scan import scan
from skerry.table.files.evolution import top_level
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.indexes.definitions import PIECES_PROPERTY, IndexKind
from skerry.table.rows.schema import Leaf, empty_batch, leaves
from skerry.table.statistics.file_groups import FileGroup, SketchedFile, ThinnedGroup, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.sketching import BatchSketcher
from skerry.table.work.tasks import Executor
from skerry.theta.setops import below

if TYPE_CHECKING:
    from skerry.table.indexes.conditions import ValueCondition
    from skerry.table.indexes.finding import TableIndexes

__all__ = ["subtract_deleted"]

_WORTH = 4
"""If more than one of this many rows is deleted, sampling the group again costs no more."""
_APART = 64
"""Deleted rows are read alone if there is at most one among this many: in indexed tables, whose pages are small."""
_FEW_FILES = 4
_MANY_ROWS = 10_000
"""If fewer files than that lose more rows than that, their columns are divided among tasks."""
_HELD_BYTES = 128 << 20
_NONE: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
_NO_ROWS: npt.NDArray[np.int64] = np.empty(0, np.int64)

_Hashes: TypeAlias = npt.NDArray[np.uint64]
_Positions: TypeAlias = npt.NDArray[np.int64]


def subtract_deleted(
    executor: Executor,
    state: TableState,
    ref: str,
    changes: Sequence[FileChange],
    removed: Sequence[str],
    delete_changes: Mapping[str, int],
) -> tuple[tuple[ThinnedGroup, ...], tuple[SketchedFile, ...]]:
    """Determine the samples of groups of files after a change, as the table's properties ask for.

    Args:
        executor: Runs the tasks that read files.
        state: The state on which the change is based.
        ref: The branch.
        changes: The files that lose rows and stay.
        removed: The removed files.
        delete_changes: By location, the key of the deletes that each file gains or loses.

    Returns:
        The groups with the values that their deleted rows remove, and files of other groups, sampled again.
    """
    groups = samples_to_follow(state, ref)
    if groups is None:
        return (), ()
    files = groups.files
    deletes = {
        key: files[key] ^ delta for location, delta in delete_changes.items() if (key := key_of(location)) in files
    }
    touched = {key: change for change in changes if (key := key_of(change.location)) in deletes}
    thinned = _thin_groups(executor, state, ref, groups, touched, set(map(key_of, removed)), deletes)
    rest = groups.with_thinned(thinned)
    return thinned, sample_again(executor, state, ref, rest, touched, removed, deletes)


def _thin_groups(
    executor: Executor,
    state: TableState,
    ref: str,
    groups: GroupSamples,
    changes: Mapping[int, FileChange],
    removed: Collection[int],
    deletes: Mapping[int, int],
) -> tuple[ThinnedGroup, ...]:
    """Find the hashes that a change's deleted rows remove; groups for which that costs too much are left out.

    Args:
        executor: Runs the tasks that read files.
        state: The state on which the change is based.
        ref: The branch.
        groups: The samples of its files.
        changes: The files that lose rows and stay, by key of their location.
        removed: Keys of the locations of the removed files.
        deletes: By key of the location, the key of the deletes that apply after the change.
    """
    columns = [leaf for leaf in leaves(state.schema) if leaf.field_id in groups.columns]
    worth = {
        row: [key for key in group.files if key in changes]
        for row, group in enumerate(groups.groups)
        if group.exact and group.files.keys().isdisjoint(removed) and _is_worth(group, changes)
    }
    if not worth or not columns:
        return ()
    search = _Search(executor, state, ref, columns, changes)
    looked = search.look_at_rows_that_go(groups, worth)
    thetas = {leaf.field_id: groups.columns[leaf.field_id].theta for leaf in columns}
    thinned = []
    for row, keys in worth.items():
        group = groups.groups[row]
        gone = {leaf.field_id: np.empty(0, np.uint64) for leaf in columns}
        gone |= search.missing(group, {key: looked[key] for key in keys})
        lost = sum(len(changes[key].matches) for key in keys)
        now = {key: deletes[key] for key in keys}
        positions = {key: changes[key].matches.positions for key in keys}
        thinned.append(ThinnedGroup(group.files, now, group.row_count - lost, gone, positions, thetas))
    return tuple(thinned)


def _is_worth(group: FileGroup, changes: Mapping[int, FileChange]) -> bool:
    lost = sum(len(changes[key].matches) for key in group.files.keys() & changes.keys())
    return 0 < _WORTH * lost <= group.row_count


# Tasks ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LookTask:
    """Read the deleted rows of a file and the rows around them; picklable.

    Args:
        file: The file.
        reader: Reads its columns and, as the last one, `_pos`.
        gone: int64[n], positions of the deleted rows.
        held: By field id, the hashes in the samples of the file's group.
        indexed: Field ids of the columns that have an index.
    """

    file: FileScanTask
    reader: RowReader
    gone: _Positions
    held: Mapping[int, _Hashes]
    indexed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Looked:
    """The result of reading a file.

    Args:
        suspects: By field id, hashes of the group's samples that deleted rows have.
        found: By field id, those of them that remaining rows of the file have.
        is_all: Whether all rows of the file were searched for all of them.
        values: By field id, the values of the deleted rows, for columns that have an index.
    """

    suspects: Mapping[int, _Hashes]
    found: Mapping[int, _Hashes]
    is_all: bool
    values: Mapping[int, pa.Array] = field(default_factory=dict)

    def with_columns_of(self, other: _Looked) -> _Looked:
        """Together with other columns of the same file."""
        return _Looked(
            {**self.suspects, **other.suspects},
            {**self.found, **other.found},
            self.is_all and other.is_all,
            {**self.values, **other.values},
        )


def _common(held: npt.NDArray[np.uint64], hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Which of some ascending hashes are among others, also ascending; most are larger than all hashes of a sample."""
    if not len(held):
        return held
    wanted = below(hashes, int(held[-1]) + 1)
    return wanted[held[np.searchsorted(held, wanted)] == wanted]


def _look(task: _LookTask) -> _Looked:
    if task.indexed and _APART * len(task.gone) <= task.file.data_file.record_count:
        return _look_at_rows(task)
    return _look_around(task)


def _look_at_rows(task: _LookTask) -> _Looked:
    """Read the deleted rows of a file, and no others."""
    schema = task.reader.schema
    going = pa.concat_batches([empty_batch(schema), *task.reader.batches([replace(task.file, rows=task.gone)])])
    fields = _fields_of(schema)
    suspects = {number: _common(held, _hashes_of(going, fields[number], number)) for number, held in task.held.items()}
    places = top_level(schema)
    values = {number: pc.unique(going.column(places[number])) for number in task.indexed if number in places}
    return _Looked(suspects, dict.fromkeys(task.held, _NONE), is_all=False, values=values)


def _look_around(task: _LookTask) -> _Looked:
    """Read the parts of a file that lose rows, in chunks that fit in memory."""
    suspects = dict.fromkeys(task.held, _NONE)
    found = dict(suspects)
    fields = _fields_of(task.reader.schema)
    windows = 0
    batches, is_whole = task.reader.batches_around(task.file, task.gone)
    for window in _windows(batches):
        split = [(batch, _rows_at(batch, task.gone)) for batch in window]
        going = pa.concat_batches([batch.take(pa.array(rows)) for batch, rows in split])
        for field_id, held in task.held.items():
            hashes = _common(held, _hashes_of(going, fields[field_id], field_id))
            suspects[field_id] = np.union1d(suspects[field_id], hashes)
            for batch, rows in split:
                if len(found[field_id]) == len(suspects[field_id]):
                    break
                staying = _hashes_of(batch, fields[field_id], field_id, rows)
                found[field_id] = np.union1d(found[field_id], _common(suspects[field_id], staying))
        windows += 1
    return _Looked(suspects, found, is_whole and windows == 1)


def _windows(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    window: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        window.append(batch)
        size += batch.nbytes
        if size >= _HELD_BYTES:
            yield window
            window, size = [], 0
    if window:
        yield window


def _rows_at(batch: pa.RecordBatch, positions: _Positions) -> _Positions:
    """Which rows of a batch are at given positions of its file; its last column has the ascending positions."""
    here = batch.column(batch.num_columns - 1).to_numpy()
    first, stop = np.searchsorted(positions, [here[0], here[-1] + 1]) if len(here) else (0, 0)
    rows = np.searchsorted(here, positions[first:stop])
    return rows[here[rows] == positions[first:stop]]


def _fields_of(schema: pa.Schema) -> dict[int, pa.Field]:
    """By field id of a primitive column, the field of the schema that contains it."""
    return {leaf.field_id: schema.field(leaf.path[0]) for leaf in leaves(schema)}


def _hashes_of(batch: pa.RecordBatch, field: pa.Field, field_id: int, without: _Positions = _NO_ROWS) -> _Hashes:
    """The smallest hashes of a column, excluding some rows.

    All hashes that can be in a sample of the table are among them: fewer than a sample's size are below the table's
    threshold.
    """
    column = batch.select([field.name])
    sketcher = BatchSketcher(pa.schema([field]), (field_id,))
    if len(without):
        stays = np.full(batch.num_rows, True)
        stays[without] = False
        column = column.filter(pa.array(stays))
    sketcher.update(column)
    return sketcher.samples[field_id].hashes


@dataclass(frozen=True)
class _SearchTask:
    """Search the remaining rows of a file for hashes of one column; picklable.

    Args:
        file: The file.
        reader: Reads the column and, if rows are deleted, `_pos` after it.
        field_id: The column.
        gone: int64[n], positions of the deleted rows; None if there are none.
        hashes: The hashes to search for.
    """

    file: FileScanTask
    reader: RowReader
    field_id: int
    gone: _Positions | None
    hashes: _Hashes


def _search(task: _SearchTask) -> _Hashes:
    """The hashes that no row has."""
    left = task.hashes
    if task.gone is None and not task.file.deletes and task.file.rows is None:
        found = sketch_file(SketchTask(task.file, task.reader, (task.field_id,), samples_rows=False)).samples[
            task.field_id
        ]
        return np.setdiff1d(left, found.hashes, assume_unique=True)
    field = _fields_of(task.reader.schema)[task.field_id]
    for batch in task.reader.batches([task.file]):
        gone = _NO_ROWS if task.gone is None else _rows_at(batch, task.gone)
        left = np.setdiff1d(left, _hashes_of(batch, field, task.field_id, gone), assume_unique=True)
        if not len(left):
            break
    return left


# Groups --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Search:
    """Searches the files of groups for hashes.

    Args:
        executor: Runs the tasks that read files.
        state: The state on which the change is based.
        ref: The branch.
        columns: The columns that are sampled.
        changes: The files that lose rows, by key of their location.
    """

    executor: Executor
    state: TableState
    ref: str
    columns: Sequence[Leaf]
    changes: Mapping[int, FileChange]

    def look_at_rows_that_go(self, groups: GroupSamples, touched: Mapping[int, Sequence[int]]) -> dict[int, _Looked]:
        """Read the files that lose rows; the results by key of their location.

        Args:
            groups: The samples.
            touched: The files, by the row of their group.
        """
        tasks = []
        for columns in self._shares([key for keys in touched.values() for key in keys]):
            reader = self._reader(columns, with_positions=True)
            for row, keys in touched.items():
                held = {leaf.field_id: groups.columns[leaf.field_id].group(row).hashes for leaf in columns}
                for key in keys:
                    change = self.changes[key]
                    task = _LookTask(change.whole, reader, change.matches.positions, held, self._indexed)
                    tasks.append((key, task))
        looked: dict[int, _Looked] = {}
        for (key, _), seen in zip(tasks, self.executor.map(_look, [task for _, task in tasks]), strict=True):
            looked[key] = seen if key not in looked else looked[key].with_columns_of(seen)
        return looked

    def _shares(self, files: Sequence[int]) -> list[Sequence[Leaf]]:
        """The columns in parts for tasks of their own, if few files lose many rows."""
        is_much = not self._indexed and sum(len(self.changes[key].matches) for key in files) >= _MANY_ROWS
        count = min(max(_FEW_FILES // len(files), 1), len(self.columns)) if is_much else 1
        return [self.columns[first::count] for first in range(count)]

    def missing(self, group: FileGroup, looked: Mapping[int, _Looked]) -> dict[int, _Hashes]:
        """The hashes that deleted rows of a group have and no remaining row has, by field id.

        Args:
            group: The group.
            looked: The results for those of its files that lose rows.
        """
        left = {leaf.field_id: _NONE for leaf in self.columns}
        for field_id in left:
            suspects = functools.reduce(np.union1d, (seen.suspects[field_id] for seen in looked.values()))
            found = functools.reduce(np.union1d, (seen.found[field_id] for seen in looked.values()))
            left[field_id] = np.setdiff1d(suspects, found, assume_unique=True)
        values = self._values_of(list(looked.values()))
        for key in [*looked, *(group.files.keys() - looked.keys())]:
            seen = looked.get(key)
            tasks = []
            for column in self.columns:
                known = seen.suspects[column.field_id] if seen is not None and seen.is_all else _NONE
                hashes = np.setdiff1d(left[column.field_id], known, assume_unique=True)
                task = self._task(key, column, hashes, values.get(column.field_id)) if len(hashes) else None
                if task is not None:
                    tasks.append(task)
            for task, absent in zip(tasks, self.executor.map(_search, tasks), strict=True):
                here = np.setdiff1d(task.hashes, absent, assume_unique=True)
                left[task.field_id] = np.setdiff1d(left[task.field_id], here, assume_unique=True)
        return left

    def _task(self, key: int, column: Leaf, hashes: _Hashes, values: ValueCondition | None) -> _SearchTask | None:
        """The search of a file; None if an index shows that it has none of the values but in rows that go."""
        change = self.changes.get(key)
        reader = self._reader([column], with_positions=change is not None)
        file = self._files[key] if change is None else change.whole
        gone = None if change is None else change.matches.positions
        if values is not None:
            rows = self._indexes.rows(file.data_file, [values])
            if rows is not None and gone is not None:
                rows = np.setdiff1d(rows, gone, assume_unique=True)
            if rows is not None and not len(rows):
                return None
            file = replace(file, rows=rows)
        return _SearchTask(file, reader, column.field_id, gone, hashes)

    def _values_of(self, looked: Sequence[_Looked]) -> dict[int, ValueCondition]:
        """The values of deleted rows by field id, of the indexed columns of which all are known."""
        known = functools.reduce(frozenset.__and__, (frozenset(seen.values) for seen in looked))
        if not known:
            return {}
        from skerry.table.indexes.conditions import key_values  # imports shards, which few tables need

        places = top_level(self.state.schema)
        fields = [self.state.schema.field(places[number]) for number in sorted(known)]
        columns = [pa.concat_arrays([seen.values[number] for seen in looked]) for number in sorted(known)]
        return {each.field_id: each for each in key_values(fields, columns)}

    @functools.cached_property
    def _indexed(self) -> frozenset[int]:
        """Field ids of the top-level columns with hash indexes."""
        if PIECES_PROPERTY not in self.state.properties:
            return frozenset()
        from skerry.table.indexes.publishing import wanted_indexes

        wanted = wanted_indexes(self.state.schema, self.state.properties)
        outer = top_level(self.state.schema)
        return frozenset(each.field_id for each in wanted if each.kind is IndexKind.HASH and each.field_id in outer)

    @functools.cached_property
    def _indexes(self) -> TableIndexes:
        from skerry.table.indexes.finding import TableIndexes
        from skerry.table.indexes.registry import piece_names

        return TableIndexes(self.state.storage, self.state.metadata.location, piece_names(self.state.properties))

    def _reader(self, columns: Sequence[Leaf], *, with_positions: bool) -> RowReader:
        names = [leaf.name for leaf in columns]
        names = [*names, POSITION] if with_positions else names
        return scan(self.state, names, ref=self.ref, threads=1).row_reader()

    @functools.cached_property
    def _files(self) -> dict[int, FileScanTask]:
        """All files of the branch, by key of their location."""
        return {key_of(task.data_file.location): task for task in scan(self.state, ref=self.ref).plan()}
