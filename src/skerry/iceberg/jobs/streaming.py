"""Read an Iceberg table as a stream: the existing rows, then the changes commit by commit.

An offset is the position of a stream, and all that a restart needs. Batches between two offsets always have the same
rows. Reads are split into picklable tasks, one per file if a commit only added rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.iceberg.encryption.table_keys import KnownKeys
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.manifests.summary import summary_of
from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.snapshot import Operation, Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.stray_metadata import read_table_metadata
from skerry.iceberg.planning.changes import ChangePlanner
from skerry.iceberg.reading.changes import Changes
from skerry.iceberg.reading.scan import Scan, scan_planner
from skerry.storage import Storage
from skerry.table.connector.stream_choice import EARLIEST, LATEST, StreamChoice
from skerry.table.connector.stream_tasks import RowsTask
from skerry.table.files.scan_task import FileScanTask
from skerry.table.predicate import conjuncts_of
from skerry.table.rows.changes import CHANGE_COLUMNS, with_ordinal

__all__ = ["CommitTask", "StreamOffset", "StreamSource"]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The position of a stream.

    Args:
        table: The table's uuid.
        snapshot: The snapshot whose rows were read; None if nothing was read.
        files: The number of its files read so far, during the initial read; None if all were read.
    """

    table: str
    snapshot: int | None = None
    files: int | None = None

    def encode(self) -> dict[str, Any]:
        """Encode as JSON for a checkpoint."""
        return {"table": self.table, "snapshot": self.snapshot, "files": self.files}

    @classmethod
    def decode(cls, offset: Mapping[str, Any]) -> StreamOffset:
        """Parse the result of `encode`.

        Raises:
            FormatError: It is not such an offset.
        """
        table, snapshot, files = (offset.get(name) for name in ("table", "snapshot", "files"))
        counts = (snapshot, files)
        if not isinstance(table, str) or any(isinstance(n, bool) or not isinstance(n, int | None) for n in counts):
            raise FormatError(f"not a valid offset of a stream of an Iceberg table: {dict(offset)!r}")
        return cls(table, snapshot, files)


@dataclass(frozen=True)
class CommitTask:
    """A commit that deleted or updated rows; picklable.

    Args:
        table: The table's name.
        metadata_location: A state of the table that has the commit.
        storage: Access to it. It may hold credentials, and so is never printed.
        snapshot_id: The commit.
        columns: Dotted names.
        where: The condition on rows.
        on: Columns that identify a row; those of the table if None.
        ordinal: The index of the commit in the batch.
        keys: What decrypts its manifest list and that before it; None if the table is not encrypted.
    """

    table: str
    metadata_location: str
    storage: Storage = field(repr=False)
    snapshot_id: int
    columns: tuple[str, ...] | None
    where: str | None
    on: tuple[str, ...] | None
    ordinal: int = 0
    keys: KnownKeys | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes."""
        metadata = read_table_metadata(self.storage, self.metadata_location)
        storage = self.storage if self.keys is None else self.storage.with_keys(self.keys)
        state = TableState(self.table, metadata, self.metadata_location, storage)
        snapshot = state.snapshot_by_id(self.snapshot_id)
        parent = state.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id is not None else None
        found = Changes(
            state,
            [(snapshot, parent)],
            metadata.schema(),
            columns=self.columns,
            where=self.where,
            on=self.on,
            threads=1,
        )
        for batch in found.to_batches():
            yield with_ordinal(batch, self.ordinal)


StreamTask = RowsTask | CommitTask


@dataclass(frozen=True)
class StreamSource:
    """A table as a stream; see `skerry.table.connector.stream_choice.TableStream`.

    Args:
        table: The table.
        choice: What to read.

    Raises:
        UnsupportedError: A consumer is named.
    """

    table: IcebergHandle
    choice: StreamChoice = field(default_factory=StreamChoice)

    def __post_init__(self) -> None:
        if self.choice.consumer is not None:
            raise UnsupportedError("Iceberg tables have no consumers", location=self.table.state.name)

    @property
    def identity(self) -> str:
        """The table's uuid."""
        return _uuid(self.table.state)

    @property
    def storage(self) -> Storage:
        """The table's folder."""
        return self.table.state.storage

    def decode(self, offset: Mapping[str, Any]) -> StreamOffset:
        """Parse an offset."""
        return StreamOffset.decode(offset)

    def hold(self, start: StreamOffset, end: StreamOffset) -> None:
        """Do nothing: there is no state per read."""

    def commit(self, end: StreamOffset) -> None:
        """Do nothing: there is no state of finished batches."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the delivered rows."""
        rows = self._scan(self.table.state, None).schema
        return pa.schema([*rows, *CHANGE_COLUMNS]) if self.choice.changes else rows

    def initial(self) -> StreamOffset:
        """The start of a new stream.

        Raises:
            NotFoundError: There is no such branch or snapshot.
            SchemaError: `start` is not one of the choices.
        """
        state = self.table.refresh()
        if self.choice.start == EARLIEST:
            return StreamOffset(_uuid(state))
        if self.choice.start == LATEST:
            tip = state.snapshot(self.choice.ref)
            return StreamOffset(_uuid(state), None if tip is None else tip.snapshot_id)
        return StreamOffset(_uuid(state), state.snapshot_by_id(self.choice.start_snapshot).snapshot_id)

    def latest(self, after: StreamOffset | None) -> StreamOffset:
        """The end of the next batch, within the limits.

        Args:
            after: Its start; None if unknown, and then there are no limits.

        Raises:
            NotFoundError: The table is gone, or unread snapshots have expired.
        """
        state = self.table.refresh()
        tip = state.snapshot(self.choice.ref)
        if after is not None:
            self._check(state, after)
        if tip is None:
            return after or StreamOffset(_uuid(state))
        if after is None:
            return StreamOffset(_uuid(state), tip.snapshot_id)
        if after.snapshot is None or after.files is not None:
            first = tip if after.snapshot is None else state.snapshot_by_id(after.snapshot)
            return self._within_first(state, first, after.files or 0)
        return StreamOffset(_uuid(state), self._last_within(state, after.snapshot, tip))

    def _within_first(self, state: TableState, snapshot: Snapshot, done: int) -> StreamOffset:
        total = len(self._scan(state, snapshot).plan())
        files = done + (self.choice.limits.files or total)
        return StreamOffset(_uuid(state), snapshot.snapshot_id, files if files < total else None)

    def _last_within(self, state: TableState, after: int, tip: Snapshot) -> int:
        last, files, snapshots = after, 0, 0
        for snapshot, _ in self._commits(state, after, tip):
            if not _is_rewrite(snapshot):
                added = summary_of(snapshot).get("added-data-files", "0")
                files, snapshots = files + (int(added) if added.isdecimal() else 0), snapshots + 1
                if snapshots > 1 and self.choice.limits.are_passed(files, snapshots):
                    break
            last = snapshot.snapshot_id
        return last

    def plan(self, start: StreamOffset, end: StreamOffset) -> list[StreamTask]:
        """The tasks that read the rows between two offsets.

        Raises:
            FormatError: Metadata is corrupt.
            NotFoundError: Snapshots between them have expired.
            UnsupportedError: A commit between them deleted or changed rows, and the stream only delivers new rows.
        """
        state = self.table.refresh()
        self._check(state, start)
        self._check(state, end)
        if end.snapshot is None:
            return []
        tasks: list[StreamTask] = []
        if start.snapshot is None or start.files is not None:
            first = state.snapshot_by_id(end.snapshot if start.snapshot is None else start.snapshot)
            last = end.files if end.snapshot == first.snapshot_id else None
            tasks += self._of_first(state, first, start.files or 0, last)
            if end.snapshot == first.snapshot_id:
                return tasks
            begin = first.snapshot_id
        else:
            begin = start.snapshot
        commits = self._commits(state, begin, state.snapshot_by_id(end.snapshot))
        for ordinal, (snapshot, parent) in enumerate(commits):
            if not _is_rewrite(snapshot):
                tasks += self._of_commit(state, snapshot, parent, ordinal)
        return tasks

    # ---- what is read ----

    def _scan(self, state: TableState, snapshot: Snapshot | None) -> Scan:
        return Scan(state, snapshot, state.metadata.schema(), columns=self.choice.columns, where=self.choice.where)

    def _of_first(self, state: TableState, snapshot: Snapshot, start: int, stop: int | None) -> list[StreamTask]:
        scan = self._scan(state, snapshot)
        return self._files(state, list(scan.plan())[start:stop], snapshot, 0)

    def _files(
        self, state: TableState, tasks: Sequence[FileScanTask], snapshot: Snapshot, ordinal: int
    ) -> list[StreamTask]:
        reader = Scan(
            state, None, state.metadata.schema(), columns=self.choice.columns, where=self.choice.where, threads=1
        ).row_reader()
        schema = self.schema
        return [RowsTask(reader, (task,), schema, ordinal, snapshot.snapshot_id) for task in tasks]

    def _of_commit(
        self, state: TableState, snapshot: Snapshot, parent: Snapshot | None, ordinal: int
    ) -> list[StreamTask]:
        operation = snapshot.operation or Operation.APPEND
        if operation is not Operation.APPEND and not self.choice.changes:
            if self.choice.skip_changes:
                return []
            raise UnsupportedError(
                f"snapshot {snapshot.snapshot_id} deleted or changed rows ({operation.value}), which a stream of new "
                "rows cannot represent: read changes, or skip such snapshots",
                location=state.name,
            )
        scan = self._scan(state, None)
        where = conjuncts_of(scan.predicate)
        planner = ChangePlanner(scan_planner(state, state.metadata.schema(), threads=1), where, where)
        commit = planner.plan(snapshot, parent)
        if not (commit.removed or commit.touched):
            return self._files(state, list(commit.added), snapshot, ordinal)
        keys = state.storage.keys
        read = (snapshot,) if parent is None else (snapshot, parent)
        return [
            CommitTask(
                state.name,
                state.metadata_location,
                state.storage,
                snapshot.snapshot_id,
                self.choice.columns,
                self.choice.where,
                self.choice.on,
                ordinal,
                keys and keys.known(found.key_id for found in read),
            )
        ]

    def _commits(self, state: TableState, after: int, tip: Snapshot) -> list[tuple[Snapshot, Snapshot | None]]:
        """The snapshots after one, with their parents, oldest first.

        Raises:
            NotFoundError: The snapshot is not an ancestor of the newest.
        """
        line: list[Snapshot] = []
        for snapshot in ancestors(state.metadata, tip):
            if snapshot.snapshot_id == after:
                pairs: list[tuple[Snapshot, Snapshot | None]] = list(pairwise([*line, snapshot]))
                return pairs[::-1]
            line.append(snapshot)
        raise NotFoundError(
            f"snapshot {after}, which the stream has reached, has expired or is not an ancestor of {tip.snapshot_id} "
            f"of {self.choice.ref}: the changes since then are unknown; start a new stream",
            location=state.name,
        )

    def _check(self, state: TableState, offset: StreamOffset) -> None:
        if offset.table != _uuid(state):
            raise NotFoundError(
                f"the stream's table {state.name!r} was replaced by another one: "
                f"expected uuid {offset.table}, found {_uuid(state)}"
            )


def _uuid(state: TableState) -> str:
    return str(state.metadata.table_uuid)


def _is_rewrite(snapshot: Snapshot) -> bool:
    """Whether a snapshot has the same rows as its parent."""
    return snapshot.operation is Operation.REPLACE
