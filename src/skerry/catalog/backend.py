"""What a table format offers to the one public table: every method of `Table` ends in one of these.

Arguments and errors are those of the method of the same name in `skerry.catalog.table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from skerry.table.explanation import Explanation
from skerry.table.files.data_file import DataFile, WrittenFile
from skerry.table.history import MAIN, Ref, Retention, Snapshot
from skerry.table.predicate import Predicate
from skerry.table.reachability import ReachableTable
from skerry.table.rows.row_stream import RowStream
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness
from skerry.table.stream_batch import StreamBatch
from skerry.table.summaries import ChangeSummary, CompactOptions
from skerry.table.tasks import Executor, Watcher

if TYPE_CHECKING:
    from skerry.table.merging import MergeClauses
    from skerry.table.summaries import (
        AnalyzeSummary,
        CompactSummary,
        DeletesSummary,
        ExpireSummary,
        ManifestSummary,
        RowChanges,
    )

__all__ = ["SchemaStep", "SpecStep", "TableBackend", "TableScan", "WriteOptions"]

SchemaStep = Callable[[Any], None]
"""Changes the table format's draft of a schema."""
SpecStep = Callable[[Any], None]
"""Changes the table format's draft of a partition spec."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a write is published.

    Args:
        ref: The branch.
        staged: Whether the branch stays where it is until the snapshot is published.
        properties: Further entries of the snapshot summary.
        executor: Where files are read and written; threads of this process if None.
        watcher: Called with the progress.
        batch: The batch of a stream that it is, committed once.
    """

    ref: str = MAIN
    staged: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    executor: Executor | None = None
    watcher: Watcher | None = None
    batch: StreamBatch | None = None


class TableScan(Protocol):
    """Rows of one snapshot of a table, described; an Arrow stream."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def snapshot_id(self) -> int | None: ...
    @property
    def predicate(self) -> Predicate: ...
    def plan(self) -> Sequence[Any]: ...
    def explain(self) -> Explanation: ...
    def row_bounds(self) -> tuple[int, int]: ...
    def to_batches(self) -> pa.RecordBatchReader: ...
    def to_arrow(self) -> pa.Table: ...
    def to_polars(self) -> Any: ...
    def to_duckdb(self, connection: Any = None) -> Any: ...
    def count(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class TableBackend(Protocol):
    """A table of one format, in the state that was loaded last."""

    # ---- identity ----

    @property
    def implementation(self) -> Any: ...
    @property
    def name(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def format_version(self) -> int: ...
    @property
    def location(self) -> str: ...
    @property
    def metadata_location(self) -> str: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def properties(self) -> dict[str, str]: ...
    @property
    def partition_by(self) -> list[str]: ...
    @property
    def sort_by(self) -> list[str]: ...
    @property
    def primary_key(self) -> list[str]: ...
    def refresh(self) -> None: ...

    # ---- history ----

    def snapshots(self) -> list[Snapshot]: ...
    def current_snapshot(self, ref: str) -> Snapshot | None: ...
    def references(self) -> list[Ref]: ...
    def history(self) -> list[tuple[datetime, int]]: ...
    def create_branch(self, name: str, snapshot: int | None, ref: str, retention: Retention, replace: bool) -> None: ...
    def create_tag(
        self, name: str, snapshot: int | None, ref: str, max_ref_age: timedelta | None, replace: bool
    ) -> None: ...
    def set_retention(self, ref: str, retention: Retention) -> None: ...
    def drop_ref(self, name: str) -> None: ...
    def fast_forward(self, branch: str, to: str) -> None: ...
    def cherry_pick(self, snapshot: int, ref: str) -> None: ...
    def publish(self, wap_id: str, ref: str) -> None: ...
    def rollback(self, to: int | datetime, ref: str, anywhere: bool) -> None: ...

    # ---- reading ----

    def files(self) -> list[DataFile]: ...
    def scan(
        self,
        columns: Sequence[str] | None,
        where: str | Any,
        *,
        limit: int | None,
        snapshot: int | None,
        ref: str | None,
        as_of: datetime | None,
    ) -> TableScan: ...
    def changes(
        self,
        from_snapshot: int | str | None,
        to_snapshot: int | str | None,
        *,
        columns: Sequence[str] | None,
        where: str | Any,
        on: Sequence[str] | None,
        carried_over: bool,
    ) -> RowStream: ...
    def statistics(self, where: str | Any) -> dict[str, ColumnStatistics]: ...
    def freshness(self) -> dict[str, Freshness]: ...

    # ---- rows ----

    def append(self, data: Any, options: WriteOptions) -> Snapshot | None: ...
    def append_files(self, files: Iterable[WrittenFile], options: WriteOptions) -> None: ...
    def delete(self, where: str | Any, options: WriteOptions) -> RowChanges: ...
    def overwrite(self, data: Any, where: str | Any, options: WriteOptions) -> RowChanges: ...
    def upsert(self, data: Any, on: str | Sequence[str] | None, blind: bool, options: WriteOptions) -> RowChanges: ...
    def merge(
        self, data: Any, on: str | Sequence[str], clauses: MergeClauses, blind: bool, options: WriteOptions
    ) -> RowChanges: ...
    def apply_changes(
        self,
        data: Any,
        on: tuple[str, ...],
        op: str,
        order_by: tuple[str, ...],
        before: str,
        blind: bool,
        options: WriteOptions,
    ) -> ChangeSummary: ...

    # ---- settings ----

    def change_schema(self, steps: tuple[SchemaStep, ...], allow_incompatible_changes: bool) -> None: ...
    def change_spec(self, steps: tuple[SpecStep, ...]) -> None: ...
    def change_sort_order(self, sort_by: tuple[str, ...]) -> None: ...
    def change_properties(self, updates: Mapping[str, str], removals: tuple[str, ...]) -> None: ...
    def upgrade(self, format_version: int) -> None: ...

    # ---- upkeep ----

    def analyze(
        self, columns: Sequence[str] | None, full: bool, executor: Executor | None, watcher: Watcher | None
    ) -> AnalyzeSummary: ...
    def compact(self, where: str | Any, how: CompactOptions, options: WriteOptions) -> CompactSummary: ...
    def expire_snapshots(
        self,
        *,
        keep_last: int | None,
        older_than: datetime | None,
        dry_run: bool,
        executor: Executor | None,
        watcher: Watcher | None,
    ) -> ExpireSummary: ...
    def rewrite_manifests(self, options: WriteOptions, *, rewrite_all: bool, dry_run: bool) -> ManifestSummary: ...
    def rewrite_deletes(self, options: WriteOptions, *, min_input_files: int, dry_run: bool) -> DeletesSummary: ...
    def reachable(self, executor: Executor | None) -> ReachableTable: ...
    def add_files(self, locations: Iterable[str], options: WriteOptions) -> None: ...
    def purge(self, drop: Callable[[], None]) -> None: ...
