"""Reading of changes between two snapshots, from the files that commits added, removed or deleted rows of.

A commit that only added rows is read as a stream. If it also removed rows, all columns of the affected rows are held in
memory: rows that only moved between files must be distinguished from changed ones.

Spec: Iceberg spec, Snapshots (operation), Row Lineage.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import NotFoundError, SchemaError, SkerryError
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import Operation, Snapshot
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.planning.changes import ChangePlanner, CommitChanges, TouchedFile
from skerry.iceberg.planning.scan_server import ScanServer
from skerry.iceberg.reading.scan import Scan, scan_planner
from skerry.table.arguments import Condition
from skerry.table.files.data_file import DeleteKind
from skerry.table.files.evolution import plan_conversion
from skerry.table.files.row_deletes import deleted_positions
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.files.stored_files import open_stored
from skerry.table.predicate import Column, Predicate, columns_of, conjunction, conjuncts_of, row_mask
from skerry.table.predicate.binding import resolve_column
from skerry.table.predicate.syntax import Name
from skerry.table.rows.changes import (
    CHANGE_COLUMNS,
    ChangedRows,
    ChangeType,
    compare_rows,
    describe_changes,
    drop_carried_over,
)
from skerry.table.rows.metadata_columns import METADATA_COLUMNS
from skerry.table.rows.row_stream import RowStream
from skerry.table.work.read_ahead import default_threads

__all__ = ["Changes", "changes"]

_POSITION = METADATA_COLUMNS.field("_pos")
_ROW_ID = METADATA_COLUMNS.field("_row_id")
_Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Moved:
    """Changed rows of a data file that stayed.

    Args:
        file: The file.
        lost: int64[n] Positions of rows that were deleted by the commit, ascending.
        revived: int64[n] Positions of rows that were deleted before and are live again.
    """

    file: TouchedFile
    lost: _Positions
    revived: _Positions


class Changes(RowStream):
    """A lazy read of the changes between two snapshots; created by `Table.changes`.

    Commits are read oldest first. Within a commit, deleted rows come first, then updates as pairs of images, then
    inserted rows.

    Args:
        state: The table's metadata and access to its files.
        commits: The snapshots whose changes are read, each with its parent, oldest first.
        schema: The schema of the result.
        columns: Dotted names, in the order to deliver; all columns if None.
        where: SQL text, a PyArrow expression, or a predicate.
        on: Columns that identify a row; the table's identifier columns if None.
        carried_over: Whether rows that only moved between files are reported as deletes and inserts.
        threads: The number of files planned and read in parallel; by default one per core.
        server: What plans the commits that only appended rows; None to plan all from manifests.

    Raises:
        FormatError: `where` is not a condition.
        SchemaError: A column does not exist, or a literal does not fit its column.
        UnsupportedError: `where` uses unsupported expressions.
    """

    def __init__(
        self,
        state: TableState,
        commits: Sequence[tuple[Snapshot, Snapshot | None]],
        schema: Schema,
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        on: Sequence[str] | None = None,
        carried_over: bool = False,
        threads: int | None = None,
        server: ScanServer | None = None,
    ) -> None:
        self._state = state
        self._commits = commits
        self._iceberg_schema = schema
        self._threads = threads or default_threads()
        self._server = server
        self._columns = columns
        self._has_start: bool | None = None
        self._carried_over = carried_over
        chosen = Scan(state, None, schema, columns=columns, where=where)
        self._rows_schema = chosen.schema
        self._predicate = chosen.predicate
        self._full_schema = Scan(state, None, schema).schema
        names = schema.identifier_field_names() if on is None else on
        self._key = tuple(_column(self._full_schema, name) for name in names)
        # rows of version 3 tables keep their id through every update
        self._by_row_id = on is None and not self._key and state.metadata.format_version >= 3
        taken = {*CHANGE_COLUMNS.names, _POSITION.name, _ROW_ID.name}.intersection(self._full_schema.names)
        if taken:
            raise SchemaError(
                f"column {min(taken)!r} has a name that is reserved for changes; rename it to read them",
                location=state.name,
            )

    def __repr__(self) -> str:
        ids = [snapshot.snapshot_id for snapshot, _ in self._commits]
        return f"Changes({self._state.name!r}, snapshots={ids}, where={str(self._predicate)!r})"

    @property
    def schema(self) -> pa.Schema:
        """The chosen columns, then `_change_type`, `_change_ordinal` and `_commit_snapshot_id`."""
        return pa.schema([*self._rows_schema, *CHANGE_COLUMNS])

    @property
    def snapshot_ids(self) -> list[int]:
        """The snapshots whose changes are read, oldest first; `_change_ordinal` counts them."""
        return [snapshot.snapshot_id for snapshot, _ in self._commits]

    def to_batches(self) -> pa.RecordBatchReader:
        """Read the changes as a stream.

        Raises:
            FormatError: A file is corrupt.
            NotFoundError: A file is missing.
            SchemaError: A file's columns do not fit the table's schema.
            UnsupportedError: A file is encrypted, or in an unsupported format.
        """
        batches = (
            batch
            for ordinal, (snapshot, parent) in enumerate(self._commits)
            for found in self._of_snapshot(snapshot, parent)
            for batch in describe_changes(found, self.schema, ordinal, snapshot.snapshot_id).to_batches()
            if batch.num_rows
        )
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    # ---- commits ----

    @cached_property
    def _planner(self) -> ChangePlanner:
        where = conjuncts_of(self._predicate)
        of_key = {column.field_id for column in self._key}
        if self._key or self._by_row_id:
            of_pairs = tuple(part for part in where if {c.field_id for c in columns_of(part)} <= of_key)
        else:
            of_pairs = where
        return ChangePlanner(scan_planner(self._state, self._iceberg_schema, threads=self._threads), where, of_pairs)

    def _of_snapshot(self, snapshot: Snapshot, parent: Snapshot | None) -> Iterator[ChangedRows]:
        if self._server is None or not _only_appends(snapshot, parent):
            yield from self._of_commit(self._planner.plan(snapshot, parent))
            return
        for batch in self._appended(self._start(snapshot, parent), snapshot).to_batches():
            yield ChangedRows.all_of(pa.Table.from_batches([batch]), ChangeType.INSERT)

    def _appended(self, start: Snapshot | None, snapshot: Snapshot) -> Scan:
        """What a server says was appended; all rows of the snapshot if nothing is before it."""
        return Scan(
            self._state,
            snapshot,
            self._iceberg_schema,
            columns=self._columns,
            where=self._predicate,
            threads=self._threads,
            server=self._server,
            since=start,
        )

    def _start(self, snapshot: Snapshot, parent: Snapshot | None) -> Snapshot | None:
        """The `start-snapshot-id` of a plan of one commit.

        The specification leaves that snapshot out of the plan; Iceberg's reference server (1.11) has it in the plan.
        Which of both a server does shows when it is asked for what the parent appended, from the parent on.
        """
        if parent is None or parent.operation is not Operation.APPEND:
            return parent
        if self._has_start is None:
            try:
                self._has_start = True if len(self._appended(parent, parent).plan()) else None
            except SkerryError as error:
                if type(error) is not SkerryError:  # not a refused request
                    raise
                self._has_start = False
        return snapshot if self._has_start else parent

    def _of_commit(self, commit: CommitChanges) -> Iterator[ChangedRows]:
        moved = [self._moved(touched) for touched in commit.touched]
        comes = bool(commit.added) or any(len(rows.revived) for rows in moved)
        goes = bool(commit.removed) or any(len(rows.lost) for rows in moved)
        if comes and goes:
            yield self._compared(commit, moved)
            return
        batches = (self._come if comes else self._gone)(commit, moved, self._rows_schema, self._predicate)
        for batch in batches:
            type_ = ChangeType.INSERT if comes else ChangeType.DELETE
            yield ChangedRows.all_of(pa.Table.from_batches([batch]), type_)

    def _compared(self, commit: CommitChanges, moved: Sequence[_Moved]) -> ChangedRows:
        """The changes of a commit that removed and added rows."""
        schema, predicate = self._full_schema, conjunction(commit.pushed)
        read = pa.schema([*schema, _ROW_ID]) if self._by_row_id else schema
        gone = pa.Table.from_batches(self._gone(commit, moved, read, predicate), read)
        come = pa.Table.from_batches(self._come(commit, moved, read, predicate), read)
        own = range(len(schema))
        if not self._carried_over:
            gone, come = drop_carried_over(gone, come, own)
        rows = compare_rows(gone.select(own), come.select(own), self._keys(gone, come))
        if commit.pushed != conjuncts_of(self._predicate):
            rows = rows.filter(_mask(self._predicate, rows.rows))
        convert = plan_conversion(schema, self._rows_schema)
        batches = [convert(batch) for batch in rows.rows.to_batches()]
        return ChangedRows(pa.Table.from_batches(batches, self._rows_schema), rows.types)

    def _keys(self, gone: pa.Table, come: pa.Table) -> tuple[pa.Table, pa.Table] | None:
        """The keys of the rows of both sides."""
        if self._by_row_id:
            return _row_ids(gone.column(_ROW_ID.name), 1), _row_ids(come.column(_ROW_ID.name), 2)
        if not self._key:
            return None
        keys = [
            pa.table({str(column.field_id): _values(side, column) for column in self._key}) for side in (gone, come)
        ]
        return keys[0], keys[1]

    # ---- rows ----

    def _gone(
        self, commit: CommitChanges, moved: Sequence[_Moved], schema: pa.Schema, predicate: Predicate
    ) -> Iterator[pa.RecordBatch]:
        yield from self._reader(schema, predicate).batches(commit.removed)
        for rows in moved:
            yield from self._at(rows.file.before, rows.lost, schema, predicate)

    def _come(
        self, commit: CommitChanges, moved: Sequence[_Moved], schema: pa.Schema, predicate: Predicate
    ) -> Iterator[pa.RecordBatch]:
        for rows in moved:
            yield from self._at(rows.file.after, rows.revived, schema, predicate)
        yield from self._reader(schema, predicate).batches(commit.added)

    def _moved(self, file: TouchedFile) -> _Moved:
        """Find the rows that a commit deleted or restored; data files are read only for equality deletes."""
        before, after = file.before, file.after
        if _key_deletes(before) == _key_deletes(after):
            was, now = (deleted_positions(self._state.storage, task) for task in (before, after))
            return _Moved(file, lost=np.setdiff1d(now, was, True), revived=np.setdiff1d(was, now, True))
        was, now = self._alive(before), self._alive(after)
        return _Moved(file, lost=np.setdiff1d(was, now, True), revived=np.setdiff1d(now, was, True))

    def _alive(self, task: FileScanTask) -> _Positions:
        found = [batch.column(0).to_numpy() for batch in self._reader(pa.schema([_POSITION])).batches([task])]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _at(
        self, task: FileScanTask, positions: _Positions, schema: pa.Schema, predicate: Predicate
    ) -> Iterator[pa.RecordBatch]:
        """Rows at some positions of a file; only the parts that contain them are read."""
        if not len(positions):
            return
        reader = self._reader(pa.schema([*schema, _POSITION]), predicate)
        for batch in reader.batches(_parts_with(reader, task, positions)):
            found = batch.column(batch.num_columns - 1).to_numpy()
            indices = np.minimum(np.searchsorted(positions, found), len(positions) - 1)
            rows = batch.filter(pa.array(positions[indices] == found))
            if rows.num_rows:
                yield rows.select(range(rows.num_columns - 1))

    def _reader(self, schema: pa.Schema, predicate: Predicate | None = None) -> RowReader:
        reader = Scan(self._state, None, self._iceberg_schema, where=predicate, threads=self._threads)
        return reader.row_reader(schema)


def changes(
    state: TableState,
    from_snapshot: int | str | None = None,
    to_snapshot: int | str | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    on: Sequence[str] | None = None,
    carried_over: bool = False,
    threads: int | None = None,
    server: ScanServer | None = None,
) -> Changes:
    """Describe the changes between two snapshots of a table.

    Args:
        state: The table's metadata and access to its files.
        from_snapshot: Id of the older snapshot, or a branch or tag: changes after it are read. None to read from the
            beginning.
        to_snapshot: Id of the newer snapshot, or a branch or tag, whose own changes are included. The current one if
            None.
        columns: Dotted names, in the order to deliver; all columns if None.
        where: SQL text, a PyArrow expression, or a predicate.
        on: Columns that identify a row, so that updates are reported as such. If None, the table's identifier columns;
            without them the row ids of version 3 tables. With an empty list, updates are reported as deletes and
            inserts.
        carried_over: Whether rows that only moved between files are reported as deletes and inserts.
        threads: The number of files planned and read in parallel.
        server: What plans scans of users, if the catalog wants that; it knows what commits appended, and no more.

    Returns:
        The changes, with the schema of the newer snapshot; with the table's if that is the current one.

    Raises:
        NotFoundError: A snapshot or reference does not exist, or snapshots between the two have expired.
        SchemaError: The older snapshot is not an ancestor of the newer one, or a column does not exist.
    """
    newest = _snapshot(state, MAIN if to_snapshot is None else to_snapshot)
    oldest = _snapshot(state, from_snapshot) if from_snapshot is not None else None
    commits = _commits(state, oldest, newest) if newest is not None else []
    schema = state.metadata.schema()
    if newest is not None and newest.snapshot_id != getattr(state.snapshot(), "snapshot_id", None):
        schema = state.metadata.schema_by_id(newest.schema_id) or schema if newest.schema_id is not None else schema
    return Changes(
        state,
        [(new, old) for new, old in commits if new.operation is not Operation.REPLACE],
        schema,
        columns=columns,
        where=where,
        on=on,
        carried_over=carried_over,
        threads=threads,
        server=server,
    )


# Snapshots -----------------------------------------------------------------------------------------------------------


def _only_appends(snapshot: Snapshot, parent: Snapshot | None) -> bool:
    """Whether a server can tell what a commit changed: that is all that it appended, or all that there was at first."""
    if snapshot.operation is not Operation.APPEND:
        return False
    summary = snapshot.summary or {}
    added, total = (summary.get(name) for name in ("added-data-files", "total-data-files"))
    return parent is not None or (added is not None and added == total)


def _snapshot(state: TableState, which: int | str) -> Snapshot | None:
    return state.snapshot(which) if isinstance(which, str) else state.snapshot_by_id(which)


def _commits(state: TableState, oldest: Snapshot | None, newest: Snapshot) -> list[tuple[Snapshot, Snapshot | None]]:
    """The snapshots after `oldest` up to `newest` with their parents, oldest first."""
    commits: list[tuple[Snapshot, Snapshot | None]] = []
    walk: Snapshot | None = newest
    while walk is not None and (oldest is None or walk.snapshot_id != oldest.snapshot_id):
        parent_id = walk.parent_snapshot_id
        parent = state.metadata.snapshot_by_id(parent_id) if parent_id is not None else None
        if parent_id is not None and parent is None:
            raise NotFoundError(
                f"snapshot {parent_id}, before {walk.snapshot_id}, has expired, so that its changes are unknown"
                + (": changes can be read from the oldest snapshot on" if oldest is None else ""),
                location=state.name,
            )
        commits.append((walk, parent))
        walk = parent
    if oldest is not None and walk is None:
        raise SchemaError(_no_ancestor(state, oldest, newest), location=state.name)
    return commits[::-1]


def _no_ancestor(state: TableState, oldest: Snapshot, newest: Snapshot) -> str:
    walk: Snapshot | None = oldest
    while walk is not None and walk.snapshot_id != newest.snapshot_id:
        parent = walk.parent_snapshot_id
        walk = state.metadata.snapshot_by_id(parent) if parent is not None else None
    if walk is not None:
        return f"snapshot {oldest.snapshot_id} came after {newest.snapshot_id}: changes are read from old to new"
    return f"snapshot {oldest.snapshot_id} is not an ancestor of {newest.snapshot_id}: they are on different branches"


# Columns and rows ----------------------------------------------------------------------------------------------------


def _column(schema: pa.Schema, name: str) -> Column:
    parts = (name,) if name in schema.names else tuple(name.split("."))
    return resolve_column(schema, Name(parts, (True,) * len(parts)))


def _values(rows: pa.Table, column: Column) -> pa.ChunkedArray:
    values = rows.column(column.path[0])
    return pc.struct_field(values, list(column.path[1:])) if len(column.path) > 1 else values


def _row_ids(ids: pa.ChunkedArray, side: int) -> pa.Table:
    """Row ids as keys; a row without an id, from before the table had them, is different from all others."""
    unlike = -(2 * np.arange(len(ids), dtype=np.int64) + side)
    known = np.asarray(ids.is_valid())
    return pa.table({_ROW_ID.name: np.where(known, ids.fill_null(0).to_numpy(), unlike)})


def _mask(predicate: Predicate, rows: pa.Table) -> pa.BooleanArray:
    masks = [row_mask(predicate, batch) for batch in rows.to_batches()]
    return pa.concat_arrays(masks) if masks else pa.array([], pa.bool_())


def _key_deletes(task: FileScanTask) -> frozenset[str]:
    return frozenset(delete.location for delete in task.deletes if delete.kind is DeleteKind.KEYS)


def _parts_with(reader: RowReader, task: FileScanTask, positions: _Positions) -> Iterable[FileScanTask]:
    """The parts of a file that contain some positions; adjacent parts are merged."""
    file = task.data_file
    parts = open_stored(
        reader.storage,
        file.location,
        file.file_format,
        reader.read_schema,
        reader.names,
        key_metadata=file.key_metadata,
    ).parts
    bounds = [np.searchsorted(positions, [part.first_row, part.first_row + part.row_count]) for part in parts]
    needed = [bool(stop > start) for start, stop in bounds]
    for number, part in enumerate(parts):
        if needed[number] and not (number and needed[number - 1]):
            after = next((other for other in range(number, len(parts)) if not needed[other]), len(parts))
            end = parts[after].offset if after < len(parts) else None
            yield dataclasses.replace(task, start_byte=part.offset, end_byte=end)
