"""Reading the changes of a table between two snapshots, from changelog files if it has them, else from new files.

Changelog files hold rows with their kinds. Without them, the files that a commit added are read: in append tables every
row is an insert, in primary-key tables it is a record, regardless of the previous row of its key. What an overwrite or
a deletion removed is in no file; the buckets that it changed are read as they were before and after, and compared.

Spec: docs/formats/paimon.md § 9.6, § 11.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from skerry.errors import NotFoundError, SchemaError
from skerry.paimon.manifests.live_files import delta_entries
from skerry.paimon.manifests.manifest import FileKind
from skerry.paimon.metadata.changelogs import announced_level, changes_list, has_changelog, read_changelog
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot
from skerry.paimon.metadata.snapshots import earliest_id, find_snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.time_travel import state_at_ref, state_at_snapshot
from skerry.paimon.planning.plan import ScanPlanner
from skerry.paimon.planning.splits import Section, Split, SplitFile
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.reading.scan import PaimonScan
from skerry.table.arguments import Condition
from skerry.table.files.evolution import plan_conversion
from skerry.table.predicate import ALWAYS_TRUE, Predicate, columns_of, conjunction, conjuncts_of, row_mask
from skerry.table.rows.changes import (
    CHANGE_COLUMNS,
    ChangedRows,
    ChangeType,
    compare_rows,
    describe_changes,
    drop_carried_over,
)
from skerry.table.rows.row_stream import RowStream
from skerry.table.rows.schema import leaf
from skerry.table.work.read_ahead import default_threads

__all__ = ["PaimonChanges", "changelog_rows", "changes", "changes_rows", "is_compared", "read_commit"]

_TYPES: Final = tuple(ChangeType)
_BY_KIND: Final = np.array(
    [
        _TYPES.index(type_)
        for type_ in (ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE)
    ],
    np.int8,
)
"""Index of a kind's change type, by `RowKind`."""


class PaimonChanges(RowStream):
    """A description of the changes between two snapshots; created by `Table.changes`.

    They are ordered by commit, oldest first; those of a commit in the order of its files, or, if states are compared,
    first deleted rows, then updates as pairs of images, then inserted rows.

    Args:
        state: The table, with the schema to read the changes with.
        commits: The snapshots whose changes are read, oldest first.
        columns: Dotted names, in the order of the result; all columns if None.
        where: SQL text, a PyArrow expression, or a predicate.
        on: Columns that identify a row if states are compared; the primary key if None.
        carried_over: Whether rows that an overwrite only moved to other files are reported as deletes and inserts.
        threads: How many files are planned and read in parallel; by default one per core.

    Raises:
        FormatError: `where` is not a valid condition.
        SchemaError: A column does not exist, or a literal does not fit its column.
        UnsupportedError: `where` uses something that conditions do not support, or the table has an option that reading
            does not support.
    """

    def __init__(
        self,
        state: PaimonState,
        commits: Sequence[Snapshot],
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        on: Sequence[str] | None = None,
        carried_over: bool = False,
        threads: int | None = None,
    ) -> None:
        self._state = state
        self._commits = [snapshot for snapshot in commits if changes_rows(state, snapshot)]
        self._threads = threads or default_threads()
        self._carried_over = carried_over
        chosen = PaimonScan(state, columns=columns, where=where)
        self._rows_schema = chosen.schema
        self._predicate = chosen.predicate
        names = state.schema.primary_keys if on is None else tuple(on)
        self._key = tuple(leaf(state.arrow_schema, name).path[0] for name in names)
        taken = set(CHANGE_COLUMNS.names).intersection(state.arrow_schema.names)
        if taken:
            raise SchemaError(
                f"column {min(taken)!r} has a name that is reserved for changes; rename it to read them",
                location=state.name,
            )

    def __repr__(self) -> str:
        return f"PaimonChanges({self._state.name!r}, snapshots={self.snapshot_ids}, where={str(self._predicate)!r})"

    @property
    def schema(self) -> pa.Schema:
        """The selected columns, then `_change_type`, `_change_ordinal` and `_commit_snapshot_id`."""
        return pa.schema([*self._rows_schema, *CHANGE_COLUMNS])

    @property
    def snapshot_ids(self) -> list[int]:
        """The snapshots whose changes are read, oldest first; `_change_ordinal` counts them."""
        return [snapshot.id for snapshot in self._commits]

    def to_batches(self) -> pa.RecordBatchReader:
        """Read the changes as a stream.

        Raises:
            FormatError: A file is corrupt.
            NotFoundError: A file is missing, or the snapshot to compare an overwrite with has expired.
            SchemaError: A file's columns do not match its schema.
            UnsupportedError: A file has an unsupported format or feature.
        """
        batches = (
            batch
            for ordinal, snapshot in enumerate(self._commits)
            for found in self._of_commit(snapshot)
            for batch in describe_changes(found, self.schema, ordinal, snapshot.id).to_batches()
            if batch.num_rows
        )
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    # ---- commits ----

    def _of_commit(self, snapshot: Snapshot) -> Iterator[ChangedRows]:
        planner = ScanPlanner(self._state, conjuncts_of(self._predicate), self._threads)
        if snapshot.commit_kind is CommitKind.OVERWRITE or is_compared(self._state, snapshot):
            yield self._compared(snapshot)
            return
        reads_changelog = has_changelog(self._state.schema)
        plan = planner.plan_changelog(snapshot) if reads_changelog else planner.plan_delta(snapshot)
        yield from changelog_rows(self._reader(self._rows_schema, self._predicate), plan.splits)

    def _reader(self, columns: pa.Schema, predicate: Predicate = ALWAYS_TRUE) -> SplitReader:
        return SplitReader(self._state, columns, predicate, self._threads)

    # ---- comparing states ----

    def _compared(self, snapshot: Snapshot) -> ChangedRows:
        """The rows deleted, updated and inserted in the buckets that a commit changed.

        Conditions on the key alone are applied to all rows, others to the result, since the images of an update must be
        matched first.
        """
        keys = set(self._key)
        pushed = [
            part for part in conjuncts_of(self._predicate) if {column.path[0] for column in columns_of(part)} <= keys
        ]
        before, after = self._touched(snapshot, pushed)
        schema = self._state.arrow_schema
        reader = self._reader(schema, conjunction(pushed))
        gone, come = (pa.Table.from_batches(reader.batches(splits), schema) for splits in (before, after))
        if not self._carried_over:
            gone, come = drop_carried_over(gone, come)
        of_rows = (gone.select(list(self._key)), come.select(list(self._key))) if self._key else None
        rows = compare_rows(gone, come, of_rows)
        if len(pushed) < len(conjuncts_of(self._predicate)):
            masks = [row_mask(self._predicate, batch) for batch in rows.rows.to_batches()]
            rows = rows.filter(pa.concat_arrays(masks) if masks else pa.array([], pa.bool_()))
        convert = plan_conversion(schema, self._rows_schema)
        batches = [convert(batch) for batch in rows.rows.to_batches()]
        return ChangedRows(pa.Table.from_batches(batches, self._rows_schema), rows.types)

    def _touched(self, snapshot: Snapshot, pushed: Sequence[Predicate]) -> tuple[list[Split], list[Split]]:
        """The splits to read of the state before a commit, and of the state after it."""
        previous = None
        if snapshot.id > 1:
            previous = find_snapshot(self._state.storage, self._state.paths, snapshot.id - 1)
            if previous is None:
                raise NotFoundError(
                    f"snapshot {snapshot.id - 1} has expired, but snapshot {snapshot.id}, an overwrite, "
                    "must be compared with it",
                    location=self._state.name,
                )
        planner = ScanPlanner(self._state, tuple(pushed), self._threads)
        level = announced_level(self._state.schema)
        before, after = ([split.from_level(level) for split in planner.plan(at).splits] for at in (previous, snapshot))
        return _without_common(before, after, by_file=not self._state.schema.primary_keys)


def changelog_rows(reader: SplitReader, splits: Iterable[Split]) -> Iterator[ChangedRows]:
    """Rows of changelog files, or of files that a commit added, with their kinds."""
    if not reader.state.schema.primary_keys:
        for batch in reader.batches(splits):
            yield ChangedRows.all_of(pa.Table.from_batches([batch]), ChangeType.INSERT)
        return
    for records in reader.records(splits):
        yield ChangedRows(pa.Table.from_batches([records.values]), _BY_KIND[records.kinds])


def changes_rows(state: PaimonState, snapshot: Snapshot) -> bool:
    """Whether a commit may have changed rows, as far as its snapshot shows."""
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        return True
    return changes_list(state.schema, snapshot) is not None


def is_compared(state: PaimonState, snapshot: Snapshot) -> bool:
    """Whether the changes of a commit are in no file, so that states are compared.

    What an overwrite adds is in its files, unless a compaction will announce it. Where several files have columns of
    the same rows, any commit may have added columns of older ones.
    """
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        if announced_level(state.schema) > 0 or not _only_adds(state, snapshot):
            return True
    elif not state.options.data_evolution:
        return False
    return state.options.data_evolution and not _adds_rows(state, snapshot)


def _only_adds(state: PaimonState, snapshot: Snapshot) -> bool:
    """Whether an overwrite found nothing to replace."""
    if any(entry.kind is FileKind.DELETE for entry in delta_entries(state, snapshot)):
        return False
    if snapshot.index_manifest is None:
        return True
    before = find_snapshot(state.storage, state.paths, snapshot.id - 1)
    return before is not None and before.index_manifest == snapshot.index_manifest


def _adds_rows(state: PaimonState, snapshot: Snapshot) -> bool:
    """Whether the files that a commit added have rows that were not there before."""
    added = delta_entries(state, snapshot)
    before = find_snapshot(state.storage, state.paths, snapshot.id - 1) if snapshot.id > 1 else None
    if not added or (before is None and snapshot.id > 1):
        return not added
    start = 0 if before is None else before.next_row_id or 0
    return all(entry.file.first_row_id is not None and entry.file.first_row_id >= start for entry in added)


def _without_common(
    before: Sequence[Split], after: Sequence[Split], *, by_file: bool
) -> tuple[list[Split], list[Split]]:
    """What differs between two sides: buckets, or files if rows do not depend on other files."""
    if by_file:
        old, new = _files(before), _files(after)
        return [old[file] for file in old if file not in new], [new[file] for file in new if file not in old]
    buckets: list[dict[tuple[bytes, int], list[Split]]] = [{}, {}]
    for splits, by_bucket in zip((before, after), buckets, strict=True):
        for split in splits:
            by_bucket.setdefault((split.partition, split.bucket), []).append(split)
    old_buckets, new_buckets = buckets
    changed = [
        key for key in {**old_buckets, **new_buckets} if _content(old_buckets, key) != _content(new_buckets, key)
    ]
    return (
        [split for key in changed for split in old_buckets.get(key, ())],
        [split for key in changed for split in new_buckets.get(key, ())],
    )


def _files(splits: Sequence[Split]) -> dict[SplitFile | Section, Split]:
    """Every file, or files that have columns of the same rows, as a split of its own."""
    found: dict[SplitFile | Section, Split] = {}
    for split in splits:
        for section in split.sections:
            if section.is_raw:
                for file in section.files:
                    found[file] = dataclasses.replace(split, sections=(Section(((file,),), is_raw=True),))
            else:
                found[section] = dataclasses.replace(split, sections=(section,))
    return found


def _content(buckets: Mapping[tuple[bytes, int], Sequence[Split]], key: tuple[bytes, int]) -> list[Section]:
    return [section for split in buckets.get(key, ()) for section in split.sections]


def changes(
    state: PaimonState,
    from_snapshot: int | str | None = None,
    to_snapshot: int | str | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    on: Sequence[str] | None = None,
    carried_over: bool = False,
    threads: int | None = None,
) -> PaimonChanges:
    """Describe the changes between two snapshots of a table.

    Args:
        state: The newest state of a branch.
        from_snapshot: Id of the older snapshot, or a tag: changes after it are read. From the beginning if None.
        to_snapshot: Id of the newer snapshot, or a branch or tag: its own changes are included. The current one if
            None.
        columns: Dotted names, in the order of the result; all columns if None.
        where: SQL text, a PyArrow expression, or a predicate.
        on: Columns that identify a row if states are compared, so that updates are recognised; the primary key if None.
            With an empty list, updates are reported as deletes and inserts.
        carried_over: Whether rows that an overwrite only moved to other files are reported as deletes and inserts.
        threads: How many files are planned and read in parallel.

    Returns:
        The changes, with the schema of the newer snapshot; with the table's if that is the current one.

    Raises:
        NotFoundError: A snapshot or reference does not exist, or snapshots between the two have expired.
        SchemaError: The older snapshot came after the newer one, or a column does not exist.
    """
    if isinstance(to_snapshot, str):
        state = state_at_ref(state, to_snapshot)
    elif to_snapshot is not None and (state.snapshot is None or to_snapshot != state.snapshot.id):
        state = state_at_snapshot(state, to_snapshot)
    first = 0 if from_snapshot is None else _snapshot_id(state, from_snapshot)
    last = 0 if state.snapshot is None else state.snapshot.id
    if first > last:
        if find_snapshot(state.storage, state.paths, first) is None:
            raise NotFoundError(f"no snapshot {first}; it may have expired", location=state.name)
        raise SchemaError(
            f"snapshot {first} is newer than {last}: changes are read from old to new", location=state.name
        )
    return PaimonChanges(
        state,
        [read_commit(state, number) for number in range(first + 1, last + 1)],
        columns=columns,
        where=where,
        on=on,
        carried_over=carried_over,
        threads=threads,
    )


def _snapshot_id(state: PaimonState, which: int | str) -> int:
    """The number of a snapshot that may have expired."""
    if isinstance(which, int):
        return which
    found = state_at_ref(state, which)
    if found.branch != state.branch:
        raise SchemaError(
            f"expected a snapshot of branch {state.branch!r}, found branch {found.branch!r}", location=state.name
        )
    return 0 if found.snapshot is None else found.snapshot.id


def read_commit(state: PaimonState, number: int) -> Snapshot:
    """A snapshot, or what is kept of it.

    Raises:
        NotFoundError: It has expired.
    """
    found = find_snapshot(state.storage, state.paths, number)
    if found is not None:
        return found
    try:
        return read_changelog(state.storage, state.paths, number)
    except NotFoundError as error:
        oldest = earliest_id(state.storage, state.paths)
        raise NotFoundError(
            f"snapshot {number} has expired, so that its changes are unknown; the oldest one is {oldest}",
            location=error.location,
        ) from error
