"""Scans: a description of rows to read, which plans, explains and reads on request."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.validation import check_readable
from skerry.paimon.planning.plan import ScanPlanner
from skerry.paimon.planning.planned_splits import PaimonPlan, PlannedSplits, PlanUnion, SplitUnion
from skerry.paimon.planning.splits import Split
from skerry.paimon.reading.branches import BranchReader
from skerry.paimon.reading.pieces import on_positions
from skerry.paimon.reading.rows import SplitReader
from skerry.table.arguments import Condition
from skerry.table.explanation import Explanation
from skerry.table.files.variant_paths import PathValue, schema_with
from skerry.table.predicate import Predicate, conjuncts_of, parse
from skerry.table.rows.metadata_columns import LINEAGE_COLUMNS, METADATA_COLUMNS
from skerry.table.selection import checked_limit, select_columns, select_values
from skerry.table.table_scan import TableScan
from skerry.table.work.read_ahead import default_threads

__all__ = ["POSITION_COLUMNS", "PaimonScan"]

POSITION_COLUMNS = ("_file", "_pos")
"""Metadata columns of tables without primary key: the location of a row."""


class PaimonScan(TableScan):
    """A description of the rows of one snapshot of a branch; created by `Table.scan`.

    Every method reads the same snapshot, even if the table changes. The rows are ordered by bucket; those of
    primary-key tables by key if they had to be merged.

    Args:
        state: The table, with the snapshot to read and the schema to read it with; a scan without a snapshot is empty.
        columns: Dotted names, or `variant_get(column, '$.path', 'type') AS name`, in the order of the result; all
            columns if None.
        where: SQL text, a PyArrow expression, or a predicate.
        limit: Maximum number of rows.
        threads: How many files are planned and read in parallel; by default one per core.
        memory_bytes: Approximate memory limit for reading and merging.
        highest_level: Whether only files of the highest level are read, which need no merging.

    Raises:
        FormatError: `where` is not a valid condition.
        SchemaError: A column does not exist, or a literal does not fit its column.
        UnsupportedError: `where` uses something that conditions do not support, or the table has an option that reading
            does not support; the message names it.
    """

    def __init__(
        self,
        state: PaimonState,
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        limit: int | None = None,
        threads: int | None = None,
        memory_bytes: int | None = None,
        highest_level: bool = False,
    ) -> None:
        check_readable(state.schema)
        self._state = state
        self._limit = checked_limit(limit)
        self._threads = threads or default_threads()
        self._memory_bytes = memory_bytes
        self._highest_level = highest_level
        self._remembers = True
        known = self._known_columns()
        self._predicate = parse(where, known)
        self._values: tuple[PathValue, ...] = ()
        if columns is not None:
            columns, self._values = select_values(known, columns)
        self._stored_columns = state.arrow_schema if columns is None else select_columns(known, columns)
        self._schema = schema_with(self._stored_columns, self._values)

    def __repr__(self) -> str:
        limit = "" if self._limit is None else f", limit={self._limit}"
        return f"PaimonScan({self._state.name!r}, columns={self._schema.names}, where={str(self._predicate)!r}{limit})"

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows; fields carry their id in the metadata `PARQUET:field_id`."""
        return self._schema

    @property
    def state(self) -> PaimonState:
        """The table, with the snapshot to read and the schema to read it with."""
        return self._state

    @property
    def version(self) -> str:
        """Identifies the rows of the scan without its condition, among all scans of the table."""
        return f"{self._state.branch} {self._state.version}"

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot to read; None if the table has no rows yet."""
        return None if self._state.snapshot is None else self._state.snapshot.id

    @property
    def predicate(self) -> Predicate:
        """The condition, bound to the columns of the table."""
        return self._predicate

    # ---- planning ----

    def plan(self) -> Sequence[Split]:
        """Find the files that can hold matching rows, in splits that can be read independently.

        Returns:
            The splits in the order of the metadata. They are created during iteration.

        Raises:
            FormatError: The metadata is corrupt.
            NotFoundError: A metadata file is missing.
            SkerryError: A file is outside the table's folder.
            UnsupportedError: Files are of a kind that is not supported.
        """
        return self._plan().splits

    def splits(self) -> PlannedSplits | SplitUnion:
        """The splits of `plan`, with totals over all files."""
        return self._plan().splits

    def reads(self) -> list[tuple[SplitReader, PlannedSplits]]:
        """The splits of `plan`, for each branch that is read, with their reader."""
        return list(zip(self.readers(), [self._plan_of(self._state).splits], strict=True))

    def readers(self) -> Sequence[SplitReader]:
        """The reader of each branch that is read."""
        return [self._reader(self._state)]

    @property
    def file_count(self) -> int:
        """Number of data files that are read."""
        return len(self.splits().files)

    def row_bounds(self) -> tuple[int, int]:
        """Least and greatest number of matching rows, as far as metadata shows; the limit is ignored.

        Raises:
            SkerryError: As `plan`.
        """
        certain = possible = 0
        for reader, splits in self.reads():
            possible += splits.files.candidate_count
            if not on_positions(self._predicate):
                certain += splits.certain_rows(keyed=bool(reader.state.schema.primary_keys))
        return certain, possible

    def explain(self) -> Explanation:
        """Plan, and report how many manifests, files and rows remain after each step, and why others do not.

        Raises:
            SkerryError: As `plan`.
        """
        fresh = copy.copy(self)
        fresh._remembers = False  # noqa: SLF001  of the same class; all steps are to be told
        plan = fresh._plan()  # noqa: SLF001
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

    def _plan(self) -> PaimonPlan | PlanUnion:
        return self._plan_of(self._state)

    def _plan_of(
        self, state: PaimonState, elsewhere: frozenset[bytes] = frozenset(), *, list_partitions: bool = False
    ) -> PaimonPlan:
        """The splits of a branch, except for partitions that are read from another one."""
        conjuncts = tuple(part for part in conjuncts_of(self._predicate) if not on_positions(part))
        level = state.options.num_levels - 1 if self._highest_level and state.schema.primary_keys else None
        planner = ScanPlanner(
            state, conjuncts, self._threads, elsewhere, list_partitions, level, remembers=self._remembers
        )
        return planner.plan(state.snapshot)

    # ---- reading ----

    def to_batches(self) -> pa.RecordBatchReader:
        """Read the rows as a stream; files are read and merged ahead in threads, as far as a memory budget allows.

        Raises:
            FormatError: A file is corrupt.
            NotFoundError: A file is missing; the message names its snapshot.
            SchemaError: A file's columns do not match its schema.
            UnsupportedError: A file is in another format than Parquet, ORC and Avro, or uses an unsupported feature.
        """
        batches = self.row_reader().batches(self._plan().splits, limit=self._limit)
        return pa.RecordBatchReader.from_batches(self._schema, batches)

    def count(self) -> int:
        """Count the rows; files are opened only if metadata does not determine their number."""
        count = self.row_reader().count(self._plan().splits)
        return count if self._limit is None else min(count, self._limit)

    def row_reader(self) -> SplitReader | BranchReader:
        """A reader of the rows of splits; picklable, so that tasks elsewhere can read their share."""
        return self._reader(self._state)

    def own_reader(self) -> SplitReader:
        """A reader of the rows of splits of the scanned branch."""
        return self._reader(self._state)

    def _reader(self, state: PaimonState) -> SplitReader:
        reader = SplitReader(state, self._stored_columns, self._predicate, self._threads, values=self._values)
        return reader if self._memory_bytes is None else replace(reader, memory_bytes=self._memory_bytes)

    def _known_columns(self) -> pa.Schema:
        """The columns that can be requested."""
        schema = self._state.arrow_schema
        if not self._has_positions:
            return schema
        names = (*POSITION_COLUMNS, *LINEAGE_COLUMNS.names) if self._state.options.row_tracking else POSITION_COLUMNS
        positions = [METADATA_COLUMNS.field(name) for name in names if name not in schema.names]
        return pa.schema([*schema, *positions], schema.metadata)

    @property
    def _has_positions(self) -> bool:
        """Whether every row has a single location."""
        return not self._state.schema.primary_keys
