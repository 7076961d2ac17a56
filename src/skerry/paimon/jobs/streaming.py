"""Reading a Paimon table as a stream: the initial rows, then the changes of each snapshot.

If the table's writers record changes in changelog files, those are read; otherwise the files that commits added: rows
of append tables, records of primary-key tables with their kinds. Compaction yields no changes, unless it made a
changelog. The changes of an overwrite or a deletion are in no file, and are found by comparing the states before and
after it.

An offset says how far a stream has come; it is all that a restart needs. Batches between two offsets always have the
same rows. The work is split into picklable tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.paimon.handle import PaimonHandle
from skerry.paimon.manifests.manifest_list import read_manifest_list
from skerry.paimon.metadata.changelogs import announced_level, has_changelog
from skerry.paimon.metadata.consumers import write_consumer
from skerry.paimon.metadata.schemas import schema_ids
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot
from skerry.paimon.metadata.snapshots import find_snapshot, read_snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.plan import ScanPlanner
from skerry.paimon.planning.splits import Split
from skerry.paimon.reading.changes import PaimonChanges, changelog_rows, changes_rows, is_compared, read_commit
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.reading.scan import PaimonScan
from skerry.storage import Storage
from skerry.table.connector.stream_choice import EARLIEST, LATEST, StreamChoice
from skerry.table.connector.stream_tasks import RowsTask
from skerry.table.predicate import conjuncts_of
from skerry.table.rows.changes import CHANGE_COLUMNS, describe_changes, with_ordinal
from skerry.table.work.read_ahead import default_threads

__all__ = ["ChangelogTask", "ComparedTask", "PaimonOffset", "PaimonStream"]


@dataclass(frozen=True, slots=True)
class PaimonOffset:
    """How far a stream has come.

    Args:
        table: The table's folder and creation time.
        snapshot: The snapshot up to which everything was read; None if nothing was.
        sections: Number of its sections (files, or groups of them whose keys overlap) that were read, while the initial
            rows are being read; None if all were.
        commit: The name of the snapshot's own manifest list, which no other snapshot of this number has.
    """

    table: str
    snapshot: int | None = None
    sections: int | None = None
    commit: str | None = None

    def encode(self) -> dict[str, Any]:
        """As JSON for a checkpoint."""
        return {"table": self.table, "snapshot": self.snapshot, "sections": self.sections, "commit": self.commit}

    @classmethod
    def decode(cls, offset: Mapping[str, Any]) -> PaimonOffset:
        """Decode what `encode` returned.

        Raises:
            FormatError: It is not a valid offset.
        """
        table, snapshot, sections, commit = (offset.get(name) for name in ("table", "snapshot", "sections", "commit"))
        counts = (snapshot, sections)
        if (
            not isinstance(table, str)
            or not isinstance(commit, str | None)
            or any(isinstance(n, bool) or not isinstance(n, int | None) for n in counts)
        ):
            raise FormatError(f"not a valid offset of a stream of a Paimon table: {dict(offset)!r}")
        return cls(table, snapshot, sections, commit)


# Tasks ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangelogTask:
    """Reads records that carry their changes; picklable. As `RowsTask`."""

    reader: SplitReader = field(repr=False)
    pieces: tuple[Split, ...]
    schema: pa.Schema
    ordinal: int = 0
    snapshot_id: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes."""
        for found in changelog_rows(self.reader, self.pieces):
            yield from describe_changes(found, self.schema, self.ordinal, self.snapshot_id).to_batches()


@dataclass(frozen=True)
class ComparedTask:
    """A commit whose changes are recorded in no file; picklable.

    Args:
        state: The table.
        snapshot: The commit.
        columns: Dotted names.
        where: Which rows.
        on: Columns that identify a row; the primary key if None.
        ordinal: Which commit of the batch it is.
    """

    state: PaimonState
    snapshot: Snapshot
    columns: tuple[str, ...] | None
    where: str | None
    on: tuple[str, ...] | None
    ordinal: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes."""
        found = PaimonChanges(
            self.state, [self.snapshot], columns=self.columns, where=self.where, on=self.on, threads=1
        )
        for batch in found.to_batches():
            yield with_ordinal(batch, self.ordinal)


PaimonTask = RowsTask | ChangelogTask | ComparedTask


# The stream ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PaimonStream:
    """A table as a stream; see `skerry.table.connector.stream_choice.TableStream`.

    Args:
        table: The table.
        choice: What is read.

    Raises:
        UnsupportedError: The table has a primary key, and the stream is not one of changes.
    """

    table: PaimonHandle
    choice: StreamChoice = field(default_factory=StreamChoice)

    def __post_init__(self) -> None:
        if self.table.state.schema.primary_keys and not self.choice.changes:
            raise UnsupportedError(
                "rows of a table with a primary key change, which a stream of new rows cannot represent: read changes",
                location=self.table.state.name,
            )

    @property
    def schema(self) -> pa.Schema:
        """The columns of the stream."""
        return self._delivered(self._scan(self._state(), None).schema)

    def _delivered(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([*rows, *CHANGE_COLUMNS]) if self.choice.changes else rows

    @property
    def identity(self) -> str:
        """The table's folder and the creation time of its first schema: tables have no id of their own."""
        return _identity(self._state())

    @property
    def storage(self) -> Storage:
        """Access to the table's files."""
        return self.table.state.storage

    def decode(self, offset: Mapping[str, Any]) -> PaimonOffset:
        """Decode an offset."""
        return PaimonOffset.decode(offset)

    def hold(self, start: PaimonOffset, end: PaimonOffset) -> None:
        """Protect the snapshots that are about to be read from expiry, if a consumer is named."""
        self._note(end.snapshot if start.snapshot is None else _next_wanted(start))

    def commit(self, end: PaimonOffset) -> None:
        """Record in the table how far the stream has come, if a consumer is named."""
        self._note(_next_wanted(end))

    def _note(self, wanted: int | None) -> None:
        if self.choice.consumer is not None and wanted is not None:
            state = self._state()
            write_consumer(state.storage, state.paths, self.choice.consumer, wanted)

    def initial(self) -> PaimonOffset:
        """The offset at which a new stream starts.

        Raises:
            NotFoundError: The branch or snapshot does not exist.
            SchemaError: `start` is not a valid starting point.
        """
        state, start = self._state(), self.choice.start
        if start == EARLIEST:
            return PaimonOffset(_identity(state))
        if start == LATEST:
            return _at(state, state.snapshot) if state.snapshot is not None else PaimonOffset(_identity(state), 0)
        return _at(state, read_snapshot(state.storage, state.paths, self.choice.start_snapshot))

    def latest(self, after: PaimonOffset | None) -> PaimonOffset:
        """Where the next batch ends, within the limits.

        Args:
            after: Where it begins; None if unknown, and then there are no limits.

        Raises:
            NotFoundError: The table no longer exists, or snapshots that were not read yet have expired.
        """
        state = self._state()
        tip = state.snapshot
        if after is not None:
            _check(state, after)
        if tip is None:
            return after or PaimonOffset(_identity(state))
        if after is None:
            return _at(state, tip)
        if after.snapshot is None or after.sections is not None:
            first = tip if after.snapshot is None else read_snapshot(state.storage, state.paths, after.snapshot)
            total = len(self._first_sections(state, first))
            sections = (after.sections or 0) + (self.choice.limits.files or total)
            return dataclasses.replace(_at(state, first), sections=sections if sections < total else None)
        last = self._last_within(state, after.snapshot, tip)
        return after if last is None else _at(state, last)

    def _last_within(self, state: PaimonState, after: int, tip: Snapshot) -> Snapshot | None:
        """The last snapshot of the next batch; None if there is nothing new."""
        limits = self.choice.limits
        if limits.files is None and limits.snapshots is None:
            return tip if tip.id > after else None
        last, files, snapshots = None, 0, 0
        for snapshot in _commits(state, after, tip.id):
            if changes_rows(state, snapshot):
                files += _added_files(state, snapshot) if limits.files is not None else 0
                snapshots += 1
                if snapshots > 1 and limits.are_passed(files, snapshots):
                    break
            last = snapshot
        return last

    def plan(self, start: PaimonOffset, end: PaimonOffset) -> list[PaimonTask]:
        """The tasks that read the changes between two offsets.

        Raises:
            FormatError: Metadata is corrupt.
            NotFoundError: Snapshots between them have expired.
            UnsupportedError: A commit between them deleted or changed rows, and the stream is not one of changes.
        """
        state = self._state()
        _check(state, start)
        _check(state, end)
        if end.snapshot is None:
            return []
        tasks: list[PaimonTask] = []
        begin = start.snapshot
        if begin is None or start.sections is not None:
            begin = end.snapshot if begin is None else begin
            first = read_snapshot(state.storage, state.paths, begin)
            stop = end.sections if end.snapshot == begin else None
            sections = self._first_sections(state, first)[start.sections or 0 : stop]
            tasks += self._tasks(RowsTask, state, sections, first, 0)
        changing = (found for found in _commits(state, begin, end.snapshot) if changes_rows(state, found))
        for ordinal, snapshot in enumerate(changing):
            tasks += self._of_commit(state, snapshot, ordinal)
        return tasks

    # ---- what is read ----

    def _state(self) -> PaimonState:
        return self.table.branch_state(self.choice.ref)

    def _scan(self, state: PaimonState, snapshot: Snapshot | None) -> PaimonScan:
        at = dataclasses.replace(state, snapshot=snapshot)
        return PaimonScan(at, columns=self.choice.columns, where=self.choice.where, threads=1)

    def _first_sections(self, state: PaimonState, snapshot: Snapshot) -> list[Split]:
        """The splits of a snapshot in an order that does not depend on options: an offset counts them.

        A stream of changes leaves out what the changelog will announce.
        """
        level = announced_level(state.schema)
        return [
            dataclasses.replace(split, sections=(section,))
            for split in self._scan(state, snapshot).plan()
            for section in split.from_level(level).sections
        ]

    def _tasks(
        self,
        kind: type[RowsTask | ChangelogTask],
        state: PaimonState,
        splits: Iterable[Split],
        snapshot: Snapshot,
        ordinal: int,
    ) -> list[PaimonTask]:
        reader = self._scan(state, snapshot).own_reader()
        schema = self._delivered(reader.columns)
        packs = _packed(splits, state.options.split_target_size)
        return [kind(reader, pack, schema, ordinal, snapshot.id) for pack in packs]

    def _of_commit(self, state: PaimonState, snapshot: Snapshot, ordinal: int) -> list[PaimonTask]:
        if is_compared(state, snapshot):
            if self.choice.changes:
                choice = self.choice
                return [ComparedTask(state, snapshot, choice.columns, choice.where, choice.on, ordinal)]
            if self.choice.skip_changes:
                return []
            raise UnsupportedError(
                f"snapshot {snapshot.id} deleted or changed rows, which a stream of new rows cannot represent: read "
                "changes, or skip such snapshots",
                location=state.name,
            )
        planner = ScanPlanner(state, conjuncts_of(self._scan(state, snapshot).predicate), default_threads())
        reads_changelog = has_changelog(state.schema) and snapshot.commit_kind is not CommitKind.OVERWRITE
        plan = planner.plan_changelog(snapshot) if reads_changelog else planner.plan_delta(snapshot)
        kind = ChangelogTask if state.schema.primary_keys else RowsTask
        return self._tasks(kind, state, plan.splits, snapshot, ordinal)


def _identity(state: PaimonState) -> str:
    first = min(schema_ids(state.storage, state.paths), default=0)
    return f"{state.location} {state.schema_by_id(first).time_millis}"


def _at(state: PaimonState, snapshot: Snapshot) -> PaimonOffset:
    return PaimonOffset(_identity(state), snapshot.id, None, snapshot.delta_manifest_list)


def _next_wanted(offset: PaimonOffset) -> int | None:
    """The next snapshot to be read; None if unknown."""
    if offset.snapshot is None:
        return None
    return offset.snapshot if offset.sections is not None else offset.snapshot + 1


def _check(state: PaimonState, offset: PaimonOffset) -> None:
    """Refuse an offset of another table, or of a snapshot that was rolled back.

    Raises:
        NotFoundError: It is one.
    """
    if offset.table != _identity(state):
        raise NotFoundError(
            f"the stream's table {state.name!r} was replaced by another one: expected {offset.table!r}, found "
            f"{_identity(state)!r}"
        )
    if not offset.snapshot:
        return
    tip = state.snapshot.id if state.snapshot is not None else 0
    found = find_snapshot(state.storage, state.paths, offset.snapshot) if offset.snapshot <= tip else None
    is_other = found is not None and offset.commit is not None and found.delta_manifest_list != offset.commit
    if offset.snapshot > tip or is_other:
        raise NotFoundError(
            f"snapshot {offset.snapshot}, which the stream has reached, is no longer in the table: it was rolled "
            "back; start a new stream",
            location=state.name,
        )


def _commits(state: PaimonState, after: int, last: int) -> Iterator[Snapshot]:
    """The snapshots after one, oldest first.

    Raises:
        NotFoundError: One of them has expired.
    """
    for number in range(after + 1, last + 1):
        try:
            yield read_commit(state, number)
        except NotFoundError as error:
            raise NotFoundError(
                f"snapshot {number}, which the stream has not read yet, has expired: its changes are unknown; "
                "start a new stream, and name a consumer to keep snapshots until it has read them",
                location=state.name,
            ) from error


def _added_files(state: PaimonState, snapshot: Snapshot) -> int:
    """How many files hold the changes of a commit."""
    name = snapshot.changelog_manifest_list if has_changelog(state.schema) else snapshot.delta_manifest_list
    if name is None:
        return 0
    return sum(found.num_added_files for found in read_manifest_list(state.storage, state.paths.manifest(name)))


def _packed(splits: Iterable[Split], target_bytes: int) -> Iterator[tuple[Split, ...]]:
    """Splits of one task, in their order: up to the target bytes, and at least one split."""
    pack: list[Split] = []
    size = 0
    for split in splits:
        if pack and size + split.size_bytes > target_bytes:
            yield tuple(pack)
            pack, size = [], 0
        pack.append(split)
        size += split.size_bytes
    if pack:
        yield tuple(pack)
