"""Scans: a description of rows to read, which plans, explains and reads when asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from skerry.paimon.pieces import on_places
from skerry.paimon.planned_splits import PaimonPlan, PlannedSplits
from skerry.paimon.planning import ScanPlanner
from skerry.paimon.reading import SplitReader
from skerry.paimon.refusals import check_readable
from skerry.paimon.splits import Split
from skerry.paimon.state import PaimonState
from skerry.paimon.time_travel import state_as_of, state_at_ref, state_at_snapshot
from skerry.table.explanation import Explanation
from skerry.table.metadata_columns import METADATA_COLUMNS
from skerry.table.predicate import Predicate, conjuncts_of, parse
from skerry.table.read_ahead import default_threads
from skerry.table.row_stream import RowStream
from skerry.table.selection import check_snapshot, checked_limit, select_columns

__all__ = ["PLACE_COLUMNS", "PaimonScan", "scan"]

PLACE_COLUMNS = ("_file", "_pos")
"""Metadata columns of tables without primary key: where a row lies."""


class PaimonScan(RowStream):
    """Rows of one snapshot of a table, described; made by `Table.scan`.

    Every method reads the same snapshot, however the table moves on. The rows come bucket by bucket; those of
    primary-key tables in the order of their keys where they had to be merged.

    Args:
        state: The table, with the snapshot to read and the schema to read it with; without snapshot there is nothing.
        columns: Dotted names, in the order to deliver; all columns if None.
        where: SQL text, a PyArrow expression, or a predicate.
        limit: Most rows.
        threads: How many files are planned and read at a time; by default one per core.
        memory_bytes: About how much memory reading and merging may take.

    Raises:
        FormatError: `where` is no condition.
        SchemaError: A column does not exist, or a literal does not fit its column.
        UnsupportedError: `where` uses what conditions do not have, or the table has an option that reading does not
            honour; the message names it.
    """

    def __init__(
        self,
        state: PaimonState,
        *,
        columns: Sequence[str] | None = None,
        where: str | Any = None,
        limit: int | None = None,
        threads: int | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        check_readable(state.schema)
        self._state = state
        self._limit = checked_limit(limit)
        self._threads = threads or default_threads()
        self._memory_bytes = memory_bytes
        known = _known_columns(state)
        self._predicate = parse(where, known)
        self._schema = state.arrow_schema if columns is None else select_columns(known, columns)

    def __repr__(self) -> str:
        limit = "" if self._limit is None else f", limit={self._limit}"
        return f"PaimonScan({self._state.name!r}, columns={self._schema.names}, where={str(self._predicate)!r}{limit})"

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows; fields carry their id in the metadata `PARQUET:field_id`."""
        return self._schema

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read; None for a table without rows so far."""
        return None if self._state.snapshot is None else self._state.snapshot.id

    @property
    def predicate(self) -> Predicate:
        """The condition, bound to the columns of the table."""
        return self._predicate

    # ---- planning ----

    def plan(self) -> Sequence[Split]:
        """Find the files that can hold wanted rows, in splits that can be read apart from each other.

        Returns:
            The splits in the order of the metadata. They become objects while one goes through them.

        Raises:
            FormatError: The metadata is corrupt.
            NotFoundError: A metadata file is missing.
            SkerryError: A file lies outside of the table's folder.
            UnsupportedError: Files are of a kind that is not done here.
        """
        return self._plan().splits

    def splits(self) -> PlannedSplits:
        """What `plan` finds, with what planning knows of all files together."""
        return self._plan().splits

    def row_bounds(self) -> tuple[int, int]:
        """Least and most rows that match, as far as metadata tells; the limit does not count.

        Raises:
            SkerryError: As `plan`.
        """
        splits = self._plan().splits
        certain = 0 if on_places(self._predicate) else splits.certain_rows(keyed=bool(self._state.schema.primary_keys))
        return certain, splits.files.row_count

    def explain(self) -> Explanation:
        """Plan, and tell how many manifests, files and rows remain after each step, and why others do not.

        Raises:
            SkerryError: As `plan`.
        """
        plan = self._plan()
        return Explanation(
            self._state.name,
            self.snapshot_id,
            tuple(self._schema.names),
            str(self._predicate),
            self._limit,
            plan,
            self._state.options.split_target_size,
            len(plan.splits),
        )

    def _plan(self) -> PaimonPlan:
        conjuncts = tuple(part for part in conjuncts_of(self._predicate) if not on_places(part))
        planner = ScanPlanner(self._state, conjuncts, self._threads)
        return planner.plan(self._state.snapshot)

    # ---- reading ----

    def to_batches(self) -> pa.RecordBatchReader:
        """Read the rows as a stream; files are read and merged ahead in threads, as far as a memory budget allows.

        Raises:
            FormatError: A file is corrupt.
            NotFoundError: A file is missing; the snapshot that names it is told.
            SchemaError: A file's columns are not what its schema says.
            UnsupportedError: A file is in another format than Parquet, ORC and Avro, or uses what is not read.
        """
        batches = self.row_reader().batches(self._plan().splits, limit=self._limit)
        return pa.RecordBatchReader.from_batches(self._schema, batches)

    def count(self) -> int:
        """Count the rows; files are opened only where metadata leaves it open how many there are."""
        count = self.row_reader().count(self._plan().splits)
        return count if self._limit is None else min(count, self._limit)

    def row_reader(self) -> SplitReader:
        """What reads the rows of splits; picklable, so that tasks elsewhere can read their share."""
        reader = SplitReader(self._state, self._schema, self._predicate, self._threads)
        if self._memory_bytes is None:
            return reader
        return SplitReader(self._state, self._schema, self._predicate, self._threads, self._memory_bytes)


def _known_columns(state: PaimonState) -> pa.Schema:
    """The columns that can be asked for."""
    schema = state.arrow_schema
    if state.schema.primary_keys:
        return schema
    places = [METADATA_COLUMNS.field(name) for name in PLACE_COLUMNS if name not in schema.names]
    return pa.schema([*schema, *places], schema.metadata)


def scan(
    state: PaimonState,
    columns: Sequence[str] | None = None,
    where: str | Any = None,
    *,
    limit: int | None = None,
    snapshot: int | None = None,
    ref: str | None = None,
    as_of: datetime | None = None,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> PaimonScan:
    """Describe a read of a table, now or as it was.

    Args:
        state: The newest state of a branch.
        columns: Dotted names, in the order to deliver; all columns if None.
        where: SQL text, a PyArrow expression, or a predicate.
        limit: Most rows.
        snapshot: Read this snapshot.
        ref: Read the newest snapshot of this branch, or this tag.
        as_of: Read what was current at this time; UTC if it has no zone.
        threads: How many files are planned and read at a time; by default one per core.
        memory_bytes: About how much memory reading and merging may take.

    Returns:
        The scan. Snapshots, tags and moments are read with the schema of their time, branches with their newest.

    Raises:
        NotFoundError: There is no such snapshot or reference, or nothing was current at that time.
        SchemaError: More than one of `snapshot`, `ref` and `as_of` is given, or `columns` or `where` do not fit.
    """
    check_snapshot(snapshot, ref, as_of)
    if snapshot is not None:
        state = state_at_snapshot(state, snapshot)
    elif ref is not None:
        state = state_at_ref(state, ref)
    elif as_of is not None:
        state = state_as_of(state, as_of)
    return PaimonScan(state, columns=columns, where=where, limit=limit, threads=threads, memory_bytes=memory_bytes)
