"""Row changes in tasks, which may run anywhere: find rows, decide about them, write files and records.

Tasks receive the state that was read as a value; their results are small if rows stay where they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.change_request import ChangeRequest
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.options import MERGE_ON_READ
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.plan import ScanPlanner
from skerry.paimon.planning.planned_splits import PlannedSplits
from skerry.paimon.planning.splits import Split
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.data_files import BucketFiles, BucketLocation, WrittenDataFile
from skerry.paimon.writing.dynamic_buckets import OneBucket
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.lineage import ROW_ID_FIELD, read_columns, stored_rows
from skerry.paimon.writing.table_writers import KIND_COLUMN, KeyedWriter
from skerry.storage import name
from skerry.table.owned_files import OwnedFiles
from skerry.table.predicate import ALWAYS_TRUE, Predicate, conjuncts_of
from skerry.table.rows.keys import KeyIndex
from skerry.table.rows.metadata_columns import FILE, METADATA_COLUMNS, POSITION
from skerry.table.rows.schema import field_id
from skerry.table.work.tasks import JobProgress

if TYPE_CHECKING:
    from skerry.table.indexes.conditions import IndexCondition

__all__ = [
    "DELETE_KIND",
    "INSERT_KIND",
    "POSITION_FIELDS",
    "UPDATE_AFTER_KIND",
    "BucketRows",
    "ChangedBucket",
    "Decided",
    "DecidedPositions",
    "FileRewrite",
    "FoundKeys",
    "RowJob",
    "RowTransform",
    "change_bucket",
    "decide_positions",
    "find_keys",
    "find_row_ids",
    "find_rows",
    "rewrite_file",
    "with_kind",
]

POSITION_FIELDS: Final = tuple(field for field in METADATA_COLUMNS if field_id(field) in (FILE, POSITION))
INSERT_KIND: Final = 0
_UPDATE_BEFORE_KIND: Final = 1
UPDATE_AFTER_KIND: Final = 2
DELETE_KIND: Final = 3

_NO_ROWS: Final = np.zeros(0, np.int64)
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class RowJob:
    """One attempt at changing rows of a state."""

    request: ChangeRequest
    state: PaimonState
    layout: WriteLayout

    @classmethod
    def of(cls, request: ChangeRequest, state: PaimonState) -> RowJob:
        """Start an attempt.

        Raises:
            UnsupportedError: Rows of tables of this kind cannot be changed.
        """
        layout = WriteLayout.of(state)
        return cls(request, state, layout)

    def splits(self, predicate: Predicate, sought: tuple[IndexCondition, ...] = ()) -> PlannedSplits:
        """The splits that can hold rows of a predicate.

        Args:
            predicate: The predicate.
            sought: Conditions that the rows satisfy, too, and with which the table's indexes help.
        """
        # what readers skip until it is compacted are the newest records of their keys
        schema = replace(self.state.schema, options={**self.state.schema.options, MERGE_ON_READ: "true"})
        planner = ScanPlanner(replace(self.state, schema=schema), conjuncts_of(predicate), _threads(), sought=sought)
        return planner.plan(self.state.snapshot).splits

    def reader(self, columns: pa.Schema, predicate: Predicate = ALWAYS_TRUE, *, tasks: int = 1) -> SplitReader:
        """A reader of rows for a number of tasks; if there are few, each has several threads."""
        at_once = min(max(tasks, 1), _threads())
        memory_bytes = self.state.options.merge_memory_bytes
        return SplitReader(self.state, columns, predicate, _threads() // at_once, memory_bytes // at_once)

    def run(
        self,
        step: str,
        function: Callable[[_Task], _Result],
        tasks: Sequence[_Task],
        files: Callable[[_Task], int],
        owned: OwnedFiles | None = None,
    ) -> Iterator[_Result]:
        """Submit tasks, and report the files that they have processed; `owned` owns those that they write."""
        done, total = 0, sum(map(files, tasks))
        executor = self.request.executor
        results = executor.map(function, tasks) if owned is None else owned.map(executor, function, tasks)
        for task, result in zip(tasks, results, strict=True):
            yield result
            done += files(task)
            if self.request.progress is not None:
                self.request.progress(JobProgress(step, done, total))


def _threads() -> int:
    return min(os.cpu_count() or 1, 8)


# Decisions -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision about a batch of rows.

    Args:
        deleted: int64[n] Rows of the batch to delete.
        updated: int64[m] Rows to update.
        rows: Their new version, with the table's columns.
        matched: int64[k] What the transform needs again when it is asked for new rows.
    """

    deleted: npt.NDArray[np.int64]
    updated: npt.NDArray[np.int64]
    rows: pa.RecordBatch
    matched: npt.NDArray[np.int64] = field(default_factory=_NO_ROWS.copy)


class RowTransform(Protocol):
    """Decides about the rows of one state of a table; picklable."""

    @property
    def predicate(self) -> Predicate:
        """Holds for every row that may change."""
        ...

    @property
    def sought(self) -> tuple[IndexCondition, ...]:
        """Conditions that every such row satisfies, too, and with which the table's indexes help."""
        ...

    def decide(self, batch: pa.RecordBatch) -> Decided:
        """Decide about rows, with all columns of the table; called once for each batch, in any process."""
        ...

    def added(self, matched: Iterable[npt.NDArray[np.int64]]) -> Iterable[pa.RecordBatch]:
        """Rows to add, when all others are decided.

        Args:
            matched: `matched` of all decisions.
        """
        ...


# Rows by position ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DecidedPositions:
    """The decisions about the rows of a split; picklable.

    Args:
        positions: int64[n] Positions of the rows that are deleted or updated, ascending, by name of the data file.
        deleted: How many of them are deleted.
        updated: The new version of the others, followed by their row ids if these were read.
        matched: See `Decided`.
        changed: The columns in which updated rows differ from what they were; determined if row ids are read.
    """

    positions: Mapping[str, Positions]
    deleted: int
    updated: tuple[pa.RecordBatch, ...]
    matched: npt.NDArray[np.int64]
    changed: frozenset[str] = frozenset()


def find_rows(reader: SplitReader, split: Split) -> dict[str, Positions]:
    """The positions of the rows that a reader of `POSITION_FIELDS` finds, by name of the data file."""
    return _positions_by_file(reader.batches([split]))


def find_keys(reader: SplitReader, index: KeyIndex, keys: Sequence[str], split: Split) -> dict[str, Positions]:
    """The positions of the rows that have one of some keys."""

    def found() -> Iterator[pa.RecordBatch]:
        for batch in reader.batches([split]):
            hits = index.find([batch.column(key) for key in keys]) >= 0
            if hits.any():
                yield batch.filter(pa.array(hits))

    return _positions_by_file(found())


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """Rows that have one of some keys; picklable.

    Args:
        positions: int64[n] Their positions, ascending, by name of the data file.
        numbers: int64[m] The number of each row's key.
        row_ids: int64[m] The row's id.
    """

    positions: Mapping[str, Positions]
    numbers: npt.NDArray[np.int64]
    row_ids: npt.NDArray[np.int64]


def find_row_ids(reader: SplitReader, index: KeyIndex, keys: Sequence[str], split: Split) -> FoundKeys:
    """The rows that have one of some keys, with their ids; the reader has `ROW_ID_FIELD` before `POSITION_FIELDS`."""
    numbers, ids, found = [_NO_ROWS], [_NO_ROWS], []
    for batch in reader.batches([split]):
        of_key = index.find([batch.column(key) for key in keys])
        hits = np.flatnonzero(of_key >= 0)
        if len(hits):
            numbers.append(of_key[hits].astype(np.int64))
            ids.append(np.asarray(batch.column(ROW_ID_FIELD.name).take(pa.array(hits))))
            found.append(batch.take(pa.array(hits)))
    return FoundKeys(_positions_by_file(found), np.concatenate(numbers), np.concatenate(ids))


def decide_positions(reader: SplitReader, transform: RowTransform, split: Split) -> DecidedPositions:
    """Decide about the rows of a split.

    Args:
        reader: Reads the table's columns, in tables with row ids also `ROW_ID_FIELD`, and `POSITION_FIELDS`.
        transform: Decides.
        split: The split.
    """
    columns = reader.columns.names[: -len(POSITION_FIELDS)]
    has_ids = columns[-1] == ROW_ID_FIELD.name
    columns = columns[:-1] if has_ids else columns
    positions, updated, matched = [], [], [_NO_ROWS]
    deleted, changed = 0, set[str]()
    for batch in reader.batches([split]):
        decided = transform.decide(batch.select(columns))
        deleted += len(decided.deleted)
        matched.append(decided.matched)
        if decided.rows.num_rows:
            rows = decided.rows
            if has_ids:
                before = batch.take(pa.array(decided.updated))
                ids = before.column(ROW_ID_FIELD.name)
                changed |= {name for name in columns if not before.column(name).equals(rows.column(name))}
                rows = rows.append_column(ROW_ID_FIELD, ids)
            updated.append(rows)
        gone = np.concatenate([decided.deleted, decided.updated])
        if len(gone):
            positions.append(batch.select([field.name for field in POSITION_FIELDS]).take(pa.array(gone)))
    found = _positions_by_file(positions)
    return DecidedPositions(found, deleted, tuple(updated), np.concatenate(matched), frozenset(changed))


def _positions_by_file(batches: Iterable[pa.RecordBatch]) -> dict[str, Positions]:
    """Positions by name of the data file, ascending, of batches that end with `POSITION_FIELDS`; int64[n] each."""
    parts: dict[str, list[Positions]] = {}
    for batch in batches:
        files = batch.column(POSITION_FIELDS[0].name).dictionary_encode()
        positions = np.asarray(batch.column(POSITION_FIELDS[1].name))
        codes = np.asarray(files.indices)
        for code, location in enumerate(files.dictionary.to_pylist()):
            parts.setdefault(name(location), []).append(positions[codes == code])
    return {location: np.sort(np.concatenate(found)) for location, found in parts.items()}


@dataclass(frozen=True, slots=True)
class FileRewrite:
    """A file to be rewritten without some of its rows; picklable.

    Args:
        entry: The file.
        split: The file alone, with its deletion vector.
        gone: int64[n] Positions of the rows to drop, ascending.
    """

    entry: ManifestEntry
    split: Split
    gone: Positions


def rewrite_file(state: PaimonState, layout: WriteLayout, task: FileRewrite) -> list[WrittenDataFile]:
    """Rewrite a file without some of its rows."""
    entry = task.entry
    folder = layout.bucket_folder(entry.partition, entry.bucket)
    bucket = BucketLocation(entry.partition, entry.bucket, entry.total_buckets, folder)
    layout = layout.with_lineage
    files = BucketFiles(layout, bucket, first_sequence_number=entry.file.min_sequence_number)
    columns = read_columns(layout, state.arrow_schema)
    wanted = pa.schema([*columns, POSITION_FIELDS[1]])
    reader = SplitReader(state, wanted, memory_bytes=state.options.merge_memory_bytes)
    try:
        for batch in reader.batches([task.split]):
            is_gone = np.isin(np.asarray(batch.column(batch.num_columns - 1)), task.gone, assume_unique=True)
            rows = batch.select(columns.names).filter(pa.array(~is_gone))
            if rows.num_rows:
                files.write(stored_rows(rows))
        return files.close()
    except BaseException:
        files.abort()
        raise


# Rows by key ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BucketRows:
    """The rows of a bucket of a primary-key table, which one task decides about; picklable.

    Args:
        splits: What to read.
        next_sequence: The sequence number of the bucket's next record.
    """

    splits: tuple[Split, ...]
    next_sequence: int


@dataclass(frozen=True, slots=True)
class ChangedBucket:
    """The decisions about a bucket; picklable.

    Args:
        files: The records written to the bucket.
        deleted: Number of deleted rows.
        updated: Number of updated rows.
        moved: The new version of rows whose key has changed, so that they may belong to other buckets.
        matched: See `Decided`.
    """

    files: tuple[WrittenDataFile, ...]
    deleted: int
    updated: int
    moved: tuple[pa.RecordBatch, ...]
    matched: npt.NDArray[np.int64]


def with_kind(batches: Iterable[pa.RecordBatch], kind: int) -> Iterator[pa.RecordBatch]:
    """Rows as records of one kind."""
    for batch in batches:
        yield batch.append_column(KIND_COLUMN, pa.repeat(pa.scalar(kind, pa.int8()), batch.num_rows))


def change_bucket(layout: WriteLayout, reader: SplitReader, transform: RowTransform, task: BucketRows) -> ChangedBucket:
    """Decide about the rows of a bucket, and write records with higher sequence numbers for those that change.

    Args:
        layout: How the table's files are written.
        reader: Reads the table's columns.
        transform: Decides.
        task: The bucket, which has no other writer.
    """
    split = task.splits[0]
    totals, newest = {split.partition: split.total_buckets}, {(split.partition, split.bucket): task.next_sequence - 1}
    is_dynamic = layout.options.bucket == -1
    writer = KeyedWriter(
        layout,
        BucketStates(total_buckets=totals, max_sequence=newest),
        OneBucket(split.bucket) if is_dynamic else None,
    )
    deleted = updated = 0
    moved, matched = [], [_NO_ROWS]
    try:
        for batch in reader.batches(task.splits):
            decided = transform.decide(batch)
            deleted += len(decided.deleted)
            updated += len(decided.updated)
            matched.append(decided.matched)
            before = batch.take(pa.array(decided.updated))
            stays = _equal_keys(layout, before, decided.rows)
            gone = [batch.take(pa.array(decided.deleted))]
            after = decided.rows if stays.all() else decided.rows.filter(pa.array(stays))
            for record in (
                *with_kind(gone, DELETE_KIND),
                *with_kind([before], _UPDATE_BEFORE_KIND),
                *with_kind([after], UPDATE_AFTER_KIND),
            ):
                writer.write(record)
            if not stays.all():
                moved.append(decided.rows.filter(pa.array(~stays)))
        written = writer.close()
    except BaseException:
        writer.abort()
        raise
    return ChangedBucket(written.files, deleted, updated, tuple(moved), np.concatenate(matched))


def _equal_keys(layout: WriteLayout, before: pa.RecordBatch, after: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """bool[rows] Whether rows have the same primary key, and belong to the same partition."""
    equal = np.ones(before.num_rows, np.bool_)
    for key in {*layout.schema.primary_keys, *layout.schema.partition_keys}:
        old, new = before.column(key), after.column(key).cast(before.column(key).type)
        is_equal = pc.or_(pc.equal(old, new).fill_null(False), pc.and_(old.is_null(), new.is_null()))
        equal &= np.asarray(is_equal)
    return equal
