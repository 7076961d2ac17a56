"""Scans: lazy reads of a snapshot, which plan, explain and read on demand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from skerry.errors import NotFoundError, UnsupportedError
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import Snapshot, SnapshotRefType
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.planning.file_tables import FileTables
from skerry.iceberg.planning.plan import ScanPlanner
from skerry.iceberg.planning.planned_files import PlannedFiles, plan_schema
from skerry.iceberg.planning.scan_server import ScanServer
from skerry.iceberg.planning.server_plan import plan_of_server, plan_request
from skerry.iceberg.planning.splits import target_split_bytes
from skerry.iceberg.reading.known_table import column_defaults, known_table, leaf_ids
from skerry.iceberg.reading.survey import survey
from skerry.storage import Storage, is_local
from skerry.table.arguments import Condition
from skerry.table.explanation import Explanation
from skerry.table.files.evolution import top_level
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask, ScanPlan
from skerry.table.files.variant_paths import PathValue, schema_with
from skerry.table.history import in_utc
from skerry.table.indexes.definitions import PIECES_PROPERTY
from skerry.table.predicate import ALWAYS_FALSE, Predicate, columns_of, conjuncts_of, parse
from skerry.table.rows.metadata_columns import DELETED, LAST_UPDATED_SEQUENCE_NUMBER
from skerry.table.selection import check_snapshot, checked_limit, select_columns, select_values
from skerry.table.table_scan import TableScan
from skerry.table.work.read_ahead import default_threads

if TYPE_CHECKING:
    from skerry.iceberg.reading.narrowing import FindRows
    from skerry.table.indexes.conditions import ValueCondition
    from skerry.table.indexes.finding import TableIndexes

__all__ = ["Explanation", "Scan", "scan", "scan_planner"]

_SURVEYED_FILES = 64


class Scan(TableScan):
    """A lazy read of one snapshot of a table; created by `Table.scan`.

    Every method reads the same snapshot, even if the table changes. Rows are in the order of the files in the metadata
    and of the rows in the files.

    Args:
        state: The table's metadata and access to its files.
        snapshot: The snapshot to read; None reads nothing.
        schema: The schema of the result.
        columns: Dotted names, or `variant_get(column, '$.path', 'type') AS name`, in the order to deliver; all columns
            if None.
        where: SQL text, a PyArrow expression, or a predicate.
        limit: Maximum number of rows.
        threads: The number of files planned and read in parallel; by default one per core.
        server: What plans the scan, once; None to plan it from manifests.
        since: The snapshot's parent or itself, as `start-snapshot-id` of a plan of what was appended since.
        at_snapshot: Whether the schema is that of the snapshot's time.

    Raises:
        FormatError: `where` is not a condition.
        SchemaError: A column does not exist, or a literal does not fit its column.
        UnsupportedError: `where` uses unsupported expressions.
    """

    def __init__(
        self,
        state: TableState,
        snapshot: Snapshot | None,
        schema: Schema,
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        limit: int | None = None,
        threads: int | None = None,
        server: ScanServer | None = None,
        since: Snapshot | None = None,
        at_snapshot: bool = False,
    ) -> None:
        self._state = state
        self._snapshot = snapshot
        self._server = server
        self._since = since
        self._at_snapshot = at_snapshot
        self._iceberg_schema = schema
        self._limit = checked_limit(limit)
        self._threads = threads or default_threads()
        self._known = known_table(state, schema)
        self._table_schema = self._known.schema
        self._known_columns = self._known.columns
        self._predicate = parse(where, self._known_columns)
        self._values: tuple[PathValue, ...] = ()
        if columns is not None:
            columns, self._values = select_values(self._known_columns, columns)
        self._stored_columns = self._table_schema if columns is None else select_columns(self._known_columns, columns)
        self._schema = schema_with(self._stored_columns, self._values)

    def __repr__(self) -> str:
        limit = "" if self._limit is None else f", limit={self._limit}"
        return f"Scan({self._state.name!r}, columns={self._schema.names}, where={str(self._predicate)!r}{limit})"

    @property
    def state(self) -> TableState:
        """The state of the table that is read."""
        return self._state

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows; fields have their id in the metadata `PARQUET:field_id`."""
        return self._schema

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read; None for a table without snapshots."""
        return None if self._snapshot is None else int(self._snapshot.snapshot_id)

    @property
    def predicate(self) -> Predicate:
        """The condition, bound to the columns of the table."""
        return self._predicate

    @property
    def is_planned_by_server(self) -> bool:
        """Whether the catalog's server plans the scan (`scan-planning-mode=server`)."""
        return self._server is not None

    # ---- planning ----

    def plan(
        self, *, split: bool = False, indexed: bool = False, keys: Sequence[ValueCondition] = ()
    ) -> Sequence[FileScanTask]:
        """Find the files that may contain matching rows, each with the delete files that apply to it.

        Args:
            split: Whether files are split into tasks of at most the table property `read.split.target-size` (by default
                128 MB), as far as their split offsets allow; for parallel readers.
            indexed: Whether indexes leave out files, and rows of the others.
            keys: For that, further conditions that matching rows satisfy.

        Returns:
            The tasks in the order of the metadata. They become objects during iteration.

        Raises:
            FormatError: The metadata is corrupt.
            NotFoundError: A metadata file is missing.
            SchemaError: The table property is not a whole number above 0.
            SkerryError: A file is outside of the table's folder.
            UnsupportedError: Files are encrypted.
        """
        tasks = (self._narrowed(keys) if indexed else self._plan()).tasks
        return tasks.split(self._split_bytes) if split else tasks

    def plan_table(self) -> pa.Table:
        """The plan as columns, one row per data file, for callers that need no objects.

        Returns:
            The columns of Iceberg's `data_file` that reading needs (`file_path`, `record_count` …) under their names in
            the specification, with `partition` as a struct of the fields of all specs; `spec_id`; `matches_all`,
            whether metrics prove that every live row matches; and `deletes`, a list of delete files.

        Raises:
            SkerryError: As `plan`.
        """
        return self._plan().tasks.to_arrow()

    def plan_batches(self) -> pa.RecordBatchReader:
        """The rows of `plan_table` as a stream: memory does not grow with the number of files.

        Returns:
            The columns of `plan_table`; `partition` has the fields of all specs of the table.

        Raises:
            SkerryError: As `plan`, while the stream is read.
        """
        fields = FileTables(self._state).partition_fields
        batches = (batch for part in self._parts() for batch in part.to_arrow(fields).to_batches())
        return pa.RecordBatchReader.from_batches(plan_schema(fields), batches)

    @property
    def file_count(self) -> int:
        """The number of data files to read."""
        return len(self._narrowed().tasks)

    def row_bounds(self) -> tuple[int, int]:
        """Lower and upper bound of the number of matching rows, from metadata; the limit is ignored.

        Raises:
            SkerryError: As `plan`.
        """
        certain, others = self._narrowed().tasks.settled()
        return certain, certain + others.candidate_count

    def explain(self, *, row_groups: bool | None = None) -> Explanation:
        """Plan, and report how many manifests, files, row groups, pages and rows remain after each step, and why.

        Args:
            row_groups: Whether to open the remaining files and prune their row groups by statistics; by default if
                there are at most 64 files that do not match wholly.

        Raises:
            SkerryError: As `plan`, and for a data file that is missing or corrupt.
        """
        plan = self._narrowed()
        open_count = len(plan.tasks) - plan.tasks.unfiltered_count
        if row_groups or (row_groups is None and open_count and len(plan.tasks) <= _SURVEYED_FILES):
            plan = survey(self._reader(self._stored_columns), plan)
        return Explanation(
            self._state.name,
            self.snapshot_id,
            tuple(self._schema.names),
            str(self._predicate),
            self._limit,
            plan,
            self._split_bytes,
            len(plan.tasks.split(self._split_bytes)),
            "the catalog's server" if self.is_planned_by_server else None,
        )

    def _plan(self) -> ScanPlan[PlannedFiles]:
        return self._planner.plan(self._snapshot) if self._server is None else self._planned_by_server[0]

    def _parts(self) -> Iterator[PlannedFiles]:
        """The files of the plan, some thousand at a time."""
        return self._planner.stream(self._snapshot) if self._server is None else iter((self._plan().tasks,))

    def _narrowed(self, keys: Sequence[ValueCondition] = ()) -> ScanPlan[PlannedFiles]:
        """The plan, and what indexes leave of its files."""
        return self._narrowing(keys)(self._plan())

    def _narrowed_parts(self) -> Iterator[PlannedFiles]:
        """What indexes leave of the files of the plan, some thousand at a time."""
        narrow = self._narrowing()
        return (narrow(ScanPlan(part, ())).tasks for part in self._parts())

    def _tasks(self) -> Iterator[FileScanTask]:
        """What to read, in the order of the metadata."""
        tasks = self._known_tasks() if conjuncts_of(self._predicate) else None
        if tasks is None:
            return (task for part in self._narrowed_parts() for task in part)
        find = self._asking()
        return tasks if find is None else self._narrowed_tasks(tasks, find)

    def _narrowed_tasks(self, tasks: Iterable[FileScanTask], find: FindRows) -> Iterator[FileScanTask]:
        from skerry.iceberg.reading.narrowing import narrowed_tasks

        return narrowed_tasks(tasks, find, self._threads, local=is_local(self._state.metadata.location))

    def _known_tasks(self) -> Iterator[FileScanTask] | None:
        """The files of the plan, by what earlier scans of the state have left; None if that is nothing."""
        if self._snapshot is None or self._server is not None:
            return None
        planner = scan_planner(self._state, self._iceberg_schema, threads=self._threads)
        known = self._known.files(self._snapshot, planner)
        return None if known is None else known.chosen(conjuncts_of(self._predicate))

    def whole_files(self) -> Sequence[FileScanTask]:
        """The files of the plan, whatever indexes leave of them.

        Raises:
            SkerryError: As `plan`.
        """
        tasks = self._known_tasks()
        return self._plan().tasks if tasks is None else [*tasks]

    @property
    def indexes(self) -> TableIndexes:
        """The indexes of the table's files."""
        return self._known.indexes

    def _narrowing(
        self, keys: Sequence[ValueCondition] = ()
    ) -> Callable[[ScanPlan[PlannedFiles]], ScanPlan[PlannedFiles]]:
        """What asks the indexes of a plan's files."""
        find = self._asking(keys)
        if find is None:
            return lambda plan: plan
        from skerry.iceberg.reading.narrowing import narrow

        local = is_local(self._state.metadata.location)
        return lambda plan: narrow(plan, find, self._threads, local=local) if len(plan.tasks) else plan

    def _asking(self, keys: Sequence[ValueCondition] = ()) -> FindRows | None:
        """What asks the indexes of a file for the rows that may match; None if no index helps."""
        if PIECES_PROPERTY not in self._state.metadata.properties:
            return None
        from skerry.table.indexes.words import index_conditions

        conditions = (*index_conditions(conjuncts_of(self._predicate), self._known.wanted_indexes), *keys)
        known = self._known.indexes
        return (lambda file: known.rows(file, conditions)) if conditions else None

    @property
    def _planner(self) -> ScanPlanner:
        conjuncts = conjuncts_of(self._predicate)
        return scan_planner(self._state, self._iceberg_schema, conjuncts=conjuncts, threads=self._threads)

    @cached_property
    def _planned_by_server(self) -> tuple[ScanPlan[PlannedFiles], Storage]:
        """The server's plan, and access to its files: it may come with credentials of its own.

        Raises:
            UnsupportedError: A column is requested of which the server does not say enough.
        """
        state, snapshot, schema = self._state, self._snapshot, self._iceberg_schema
        if snapshot is None or self._predicate == ALWAYS_FALSE or self._server is None:
            return self._planner.plan(None), state.storage
        predicate_ids = {column.field_id for column in columns_of(self._predicate)}
        if LAST_UPDATED_SEQUENCE_NUMBER in top_level(self._schema) or LAST_UPDATED_SEQUENCE_NUMBER in predicate_ids:
            raise UnsupportedError(
                "_last_updated_sequence_number cannot be read where the catalog's server plans scans: it does not say "
                "which commit added a file",
                location=state.name,
            )
        own = schema.field_ids
        ids = leaf_ids(self._stored_columns)
        ids += [value.column.field_id for value in self._values]
        request = plan_request(
            schema,
            (state.metadata.schema(), _schema_of(state, snapshot) or schema),
            snapshot_id=snapshot.snapshot_id,
            start_snapshot_id=None if self._since is None else self._since.snapshot_id,
            use_snapshot_schema=self._at_snapshot,
            columns=[number for number in (*ids, *sorted(predicate_ids)) if number in own],
            predicate=self._predicate,
        )
        planned = self._server.plan(request, state.storage, self._threads)
        planner = self._planner
        schemas = {number: state.schema_with(spec) for number, spec in planner.specs.items()}
        return plan_of_server(planned.parts, planner, schemas), planned.storage

    @property
    def _split_bytes(self) -> int:
        return target_split_bytes(self._state.properties)

    # ---- reading ----

    def to_batches(self) -> pa.RecordBatchReader:
        """Read the rows as a stream; files are read ahead in threads, within a memory budget of 256 MB.

        Raises:
            FormatError: A file is corrupt.
            NotFoundError: A file is missing.
            SchemaError: A file's columns do not fit the table's schema.
            UnsupportedError: A file is in another format than Parquet, ORC and Avro, or uses unsupported features.
        """
        tasks = self._tasks()
        begun = itertools.chain(list(itertools.islice(tasks, 1)), tasks)  # what cannot be planned fails here
        return self._stream(self._reader(self._stored_columns, self._values).batches(begun, limit=self._limit))

    def _stream(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, batches)

    def to_arrow(self) -> pa.Table:
        """Read the rows into a PyArrow table; the few that indexes leave without threads."""
        tasks = None if self._limit is not None else self._known_tasks() if conjuncts_of(self._predicate) else None
        find = None if tasks is None else self._asking()
        if tasks is None or find is None or not is_local(self._state.metadata.location):
            return super().to_arrow()
        from skerry.iceberg.reading.narrowing import few_tasks

        few, others = few_tasks(tasks, lambda task: None if task.matches_all else find(task.data_file))
        reader = self._reader(self._stored_columns, self._values)
        if others is not None:
            found = self._narrowed_tasks(others, find)
            return self._stream(reader.batches(itertools.chain(few, found))).read_all()
        return pa.Table.from_batches(reader.batches_here(few), self._schema)

    def count(self) -> int:
        """Count the rows; files are opened only if metadata does not determine their count."""
        limit = math.inf if self._limit is None else self._limit
        counts_deleted = DELETED in top_level(self._stored_columns)  # they are delivered, and so are counted
        known = 0

        def undecided() -> Iterator[FileScanTask]:
            nonlocal known
            for part in self._narrowed_parts():
                rows, others = (0, part) if counts_deleted else part.settled()
                known += rows
                if known >= limit:
                    return
                yield from others

        counted = self._reader(self._stored_columns if counts_deleted else pa.schema([])).count(undecided())
        return int(min(known + counted, limit))

    def row_reader(self, schema: pa.Schema | None = None) -> RowReader:
        """The reader of planned files; picklable, so that remote tasks can read their share.

        Args:
            schema: Columns of the table and metadata columns to read, found by field id; those of the scan if None.
        """
        return self._reader(self._stored_columns, self._values) if schema is None else self._reader(schema)

    def _reader(self, schema: pa.Schema, values: tuple[PathValue, ...] = ()) -> RowReader:
        needed = {column.field_id for column in columns_of(self._predicate)}
        needed |= {value.column.field_id for value in values}
        return RowReader(
            storage=self._state.storage if self._server is None else self._planned_by_server[1],
            schema=schema,
            read_schema=self._known.pruned(needed.union(leaf_ids(schema))),
            predicate=self._predicate,
            names=self._known.names,
            threads=self._threads,
            is_local=is_local(self._state.metadata.location),
            columns=self._known.all_columns,
            values=values,
        )


def scan_planner(
    state: TableState, schema: Schema, *, conjuncts: tuple[Predicate, ...] = (), threads: int = 1
) -> ScanPlanner:
    """The planner of scans of a table with a schema; see `skerry.iceberg.planning.plan.ScanPlanner`."""
    metadata = state.metadata
    return ScanPlanner(
        table=state.name,
        storage=state.storage,
        roots=state.readable_roots,
        schema=schema,
        specs=metadata.specs(),
        conjuncts=conjuncts,
        defaults=column_defaults(schema),
        threads=threads,
    )


def scan(
    state: TableState,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    *,
    limit: int | None = None,
    snapshot: int | None = None,
    ref: str | None = None,
    as_of: datetime | None = None,
    threads: int | None = None,
    server: ScanServer | None = None,
) -> Scan:
    """Create a scan of a table, now or as it was.

    Args:
        state: The table's metadata and access to its files.
        columns: Dotted names, in the order to deliver; all columns if None.
        where: SQL text, a PyArrow expression, or a predicate.
        limit: Maximum number of rows.
        snapshot: Read this snapshot.
        ref: Read the tip of this branch or tag.
        as_of: Read what was current at this time; UTC if it has no zone.
        threads: The number of files planned and read in parallel; by default one per core.
        server: What plans scans of users, if the catalog wants that; jobs plan theirs from manifests.

    Returns:
        The scan. Snapshots and tags are read with the schema of their time, branches with the table's.

    Raises:
        NotFoundError: There is no such snapshot or reference, or nothing was current at that time.
        SchemaError: More than one of `snapshot`, `ref` and `as_of` is given, or `columns` or `where` do not fit.
    """
    check_snapshot(snapshot, ref, as_of)
    if as_of is not None:
        snapshot = _snapshot_at(state, as_of)
    ref_of = None if ref is None else state.metadata.refs.get(ref)
    is_tag = ref_of is not None and ref_of.snapshot_ref_type is SnapshotRefType.TAG
    found = state.snapshot_by_id(snapshot) if snapshot is not None else state.snapshot(ref or MAIN)
    schema = _schema_of(state, found) if found is not None and (snapshot is not None or is_tag) else None
    return Scan(
        state,
        found,
        schema or state.metadata.schema(),
        columns=columns,
        where=where,
        limit=limit,
        threads=threads,
        server=server,
        at_snapshot=schema is not None,
    )


def _schema_of(state: TableState, snapshot: Snapshot) -> Schema | None:
    """The schema at the time when a snapshot was written."""
    return next((schema for schema in state.metadata.schemas if schema.schema_id == snapshot.schema_id), None)


def _snapshot_at(state: TableState, moment: datetime) -> int:
    at = in_utc(moment)
    entries = [entry for entry in state.metadata.snapshot_log if entry.timestamp_ms <= at.timestamp() * 1000]
    if not entries:
        raise NotFoundError(f"no snapshot was current at {at.isoformat()}", location=state.name)
    return int(entries[-1].snapshot_id)
