"""The public table class of the Paimon format; see `skerry.table.table.Table`.

A job's module is loaded on first use: a process that only reads tables loads none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from skerry.paimon.change_request import ChangeRequest
from skerry.paimon.evolution.schema_evolution import ChangeOptions, ChangeSchema, SchemaChange, commit_schema
from skerry.paimon.handle import PaimonHandle
from skerry.paimon.indexed import IndexedPaimonTable
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.planning.partition_choice import PartitionChoice, whole_partitions
from skerry.paimon.reading.changes import changes
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.reading.scan import PaimonScan
from skerry.paimon.records import described_snapshot
from skerry.paimon.statistics.branches import column_freshness, column_statistics
from skerry.storage import RangeReader, Storage
from skerry.table.arguments import Condition, Keys, Rows, WriteOptions
from skerry.table.copying import CopyRequest, CopySummary
from skerry.table.files.data_file import DataFile
from skerry.table.history import MAIN, History, HistoryEntry, Ref, Retention, Snapshot, Snapshots, of_batch
from skerry.table.inspection.upkeep import Upkeep
from skerry.table.merging import MergeClauses
from skerry.table.movable import CopyCatalog
from skerry.table.owned_files import after_publish
from skerry.table.rows.row_stream import RowStream
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness
from skerry.table.summaries import (
    AnalyzeSummary,
    ChangeSummary,
    CompactOptions,
    CompactSummary,
    ExpireSummary,
    FileIndexSummary,
    PartitionExpireSummary,
    RowChangeSummary,
)
from skerry.table.table import TableCatalog
from skerry.table.updates import SchemaStep
from skerry.table.work.tasks import Executor, ProgressCallback

if TYPE_CHECKING:
    from skerry.paimon.cleaning.reachable_table import ReachablePaimonTable
    from skerry.paimon.inspection import PaimonInspect
    from skerry.paimon.jobs.connector import PaimonConnector
    from skerry.paimon.reading.lookup import TableLookup
    from skerry.table.table_scan import TableScan

__all__ = ["PaimonTable"]


class PaimonTable(IndexedPaimonTable):
    """A Paimon table.

    Args:
        handle: The table as jobs work on it.
        catalog: The catalog that it was loaded from.
    """

    _needs_key = False
    _has_own_folder = True

    def __init__(self, handle: PaimonHandle, catalog: TableCatalog | None = None) -> None:
        self.handle = handle
        self._catalog = catalog
        self._lookups: TableLookup | None = None

    @classmethod
    def create(
        cls,
        storage: Storage,
        location: str,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        primary_key: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Create a table in a folder; see `skerry.paimon.handle.PaimonHandle.create`."""
        handle = PaimonHandle.create(
            storage,
            location,
            schema,
            partition_by=partition_by,
            primary_key=primary_key,
            properties=properties,
            comment=comment,
            name=name,
        )
        return cls(handle)

    @classmethod
    def open(cls, storage: Storage, location: str, *, name: str | None = None) -> Self:
        """Load a table from its folder.

        Raises:
            NotFoundError: It does not exist.
        """
        return cls(PaimonHandle.open(storage, location, name=name))

    # ---- identity ----

    @property
    def name(self) -> str:
        return self.handle.state.name

    @property
    def format(self) -> str:
        return "paimon"

    @property
    def format_version(self) -> int:
        return self.handle.state.schema.version

    @property
    def location(self) -> str:
        return self.handle.state.location

    @property
    def metadata_location(self) -> str:
        """The snapshot file of the loaded state, or the schema file before the first commit."""
        state = self.handle.state
        paths = state.paths
        return paths.snapshot(state.snapshot.id) if state.snapshot is not None else paths.schema(state.schema.id)

    @property
    def version(self) -> str:
        return self.handle.version

    @property
    def storage(self) -> Storage:
        return self.handle.state.storage

    @property
    def schema(self) -> pa.Schema:
        return self.handle.state.arrow_schema

    @property
    def properties(self) -> dict[str, str]:
        return self.handle.state.properties

    @property
    def partition_by(self) -> list[str]:
        """Partition keys, and the buckets if their number is fixed."""
        state = self.handle.state
        keys = list(state.schema.partition_keys)
        if state.options.bucket > 0:
            keys.append(f"bucket({state.options.bucket}, {', '.join(state.schema.bucket_keys)})")
        return keys

    @property
    def sort_by(self) -> list[str]:
        return list(self.handle.state.schema.trimmed_primary_keys)

    @property
    def primary_key(self) -> list[str]:
        return list(self.handle.state.schema.primary_keys)

    def refresh(self) -> Self:
        self.handle.refresh()
        return self

    def connector(self) -> PaimonConnector:
        from skerry.paimon.jobs.connector import PaimonConnector

        return PaimonConnector(self.handle)

    @property
    def inspect(self) -> PaimonInspect:
        from skerry.paimon.inspection import PaimonInspect

        return PaimonInspect(self.handle)

    # ---- history ----

    def snapshots(self) -> Sequence[Snapshot]:
        return Snapshots(self.handle.snapshots(), described_snapshot)

    def current_snapshot(self, ref: str = MAIN) -> Snapshot | None:
        snapshot = self.handle.current_snapshot(ref)
        return None if snapshot is None else described_snapshot(snapshot)

    def history(self) -> History:
        return History(HistoryEntry(*entry) for entry in self.handle.history())

    def _refs(self) -> list[Ref]:
        return self.handle.refs()

    def _create_branch(self, name: str, snapshot: int | None, ref: str, retention: Retention, replace: bool) -> None:
        if retention != Retention():
            self._lacks("rules of a single branch", "set the table's options")
        self.handle.create_branch(name, snapshot, ref=ref, replace=replace)

    def _create_tag(
        self, name: str, snapshot: int | None, ref: str, max_ref_age: timedelta | None, replace: bool
    ) -> None:
        self.handle.create_tag(name, snapshot, ref=ref, max_ref_age=max_ref_age, replace=replace)

    def _drop_ref(self, name: str) -> None:
        self.handle.drop_ref(name)

    def _fast_forward(self, branch: str, to: str) -> Snapshot:
        return described_snapshot(self.handle.fast_forward(branch, to))

    def _rollback(self, to: int | datetime, ref: str) -> Snapshot:
        return described_snapshot(self.handle.rollback(to, ref=ref))

    # ---- reading ----

    def files(self) -> list[DataFile]:
        return [
            DataFile(file.location, file.file_format, file.row_count, file.file_size)
            for split in PaimonScan(self.handle.state).plan()
            for section in split.sections
            for run in section.runs
            for file in run
        ]

    def open_blob(self, descriptor: bytes) -> RangeReader:
        """Open a value of a BLOB column as a stream, which reads only the bytes that are asked for.

        Args:
            descriptor: The value, as scans return it.

        Returns:
            A seekable stream.

        Raises:
            FormatError: It is not a descriptor, or reaches beyond the end of its file.
            NotFoundError: The file does not exist.
            SkerryError: The file is outside the table's folder.
        """
        from skerry.paimon.blob_streams import open_blob

        return open_blob(self.handle.state, descriptor)

    def freshness(self) -> dict[str, Freshness]:
        return column_freshness(self.handle.state)

    def _scan(
        self,
        columns: Sequence[str] | None,
        where: Condition | None,
        limit: int | None,
        snapshot: int | None,
        ref: str | None,
        as_of: datetime | None,
    ) -> PaimonScan:
        return scan(self.handle.state, columns, where, limit=limit, snapshot=snapshot, ref=ref, as_of=as_of)

    def _lookup(self, keys: Keys, scan: TableScan) -> pa.Table:
        from skerry.paimon.reading.lookup import TableLookup

        assert isinstance(scan, PaimonScan)
        self._lookups = self._lookups or TableLookup(scan.state.options.lookup_cache_bytes)
        return self._lookups.rows(scan, keys)

    def _changes(
        self,
        from_snapshot: int | str | None,
        to_snapshot: int | str | None,
        columns: Sequence[str] | None,
        where: Condition | None,
        on: Sequence[str] | None,
        carried_over: bool,
    ) -> RowStream:
        return changes(
            self.handle.state,
            from_snapshot,
            to_snapshot,
            columns=columns,
            where=where,
            on=on,
            carried_over=carried_over,
        )

    def _statistics(self, where: Condition | None) -> dict[str, ColumnStatistics]:
        return column_statistics(self.handle.state, where)

    # ---- rows ----

    def _append(self, data: Rows, options: WriteOptions) -> Snapshot | None:
        """Append rows; then compact buckets that have too many sorted runs, in a separate commit."""
        from skerry.paimon.jobs.append import append
        from skerry.paimon.jobs.once import commit_once

        request = self._row_request(options, appends=True)
        if options.batch is not None:
            applied = commit_once(request, options.batch, lambda request: append(request, data))
            self._keep(request)
            newest = self.handle.keep(request).snapshot
            return of_batch(None if newest is None else described_snapshot(newest), applied=applied)
        state = append(request, data)
        self._keep(request)
        return None if state.snapshot is None else described_snapshot(state.snapshot)

    def _delete(self, where: Condition, options: WriteOptions) -> RowChangeSummary:
        from skerry.paimon.jobs.delete import delete

        request = self._row_request(options)
        done = delete(request, where)
        self._keep(request)
        return done

    def _overwrite(self, data: Rows, where: Condition | None, options: WriteOptions) -> RowChangeSummary:
        from skerry.paimon.jobs.delete import overwrite

        request = self._row_request(options)
        done = overwrite(request, data, where)
        self._keep(request)
        return done

    def _upsert(self, data: Rows, on: tuple[str, ...], blind: bool, options: WriteOptions) -> RowChangeSummary:
        from skerry.paimon.jobs.merge import upsert

        request = self._row_request(options, appends=True)
        if blind:
            self._lacks("blind upserts", "append replaces rows by primary key without reading them")
        done = upsert(request, data, on)
        self._keep(request)
        return done

    def _merge(
        self, data: Rows, on: str | Sequence[str], clauses: MergeClauses, blind: bool, options: WriteOptions
    ) -> RowChangeSummary:
        from skerry.paimon.jobs.merge import merge

        request = self._row_request(options)
        if blind:
            self._lacks("blind merges", "append replaces rows by primary key without reading them")
        done = merge(request, data, on, clauses)
        self._keep(request)
        return done

    def _apply_changes(
        self,
        data: Rows,
        on: tuple[str, ...],
        op: str,
        order_by: tuple[str, ...],
        before: str,
        blind: bool,
        options: WriteOptions,
    ) -> ChangeSummary:
        from skerry.jobs.change_records import RecordColumns
        from skerry.paimon.jobs.apply_changes import apply_changes

        request = self._row_request(options, appends=True)
        columns = RecordColumns(on, op, order_by, before)
        done = apply_changes(request, data, columns, batch=options.batch)
        self._keep(request)
        return done

    def _keep(self, request: ChangeRequest) -> None:
        """Compact and expire what is due after a commit, in commits of their own, and keep the newest state."""
        from skerry.paimon.jobs.compact import compact_due
        from skerry.paimon.jobs.expire_partitions import expire_due_partitions

        if request.target.newest is not None:
            compact_due(request, request.target.newest)
            expire_due_partitions(request, request.target.newest, self.handle.partition_check)
        self.handle.keep(request)

    def _row_request(self, options: WriteOptions, *, appends: bool = False) -> ChangeRequest:
        """A request to change rows; those that wait for buckets get them first, so that newer ones stay newer."""
        request = self._request(options)
        if self.handle.state.options.bucket == POSTPONE_BUCKET:
            from skerry.paimon.jobs.waiting_rows import place_before

            place_before(request, appends=appends)
        return request

    def _request(self, options: WriteOptions) -> ChangeRequest:
        if options.staged:
            self._lacks("staged=True", "write to a branch, and fast-forward to it")
        return self.handle.request(options.ref, options.properties, options.executor, options.progress)

    # ---- settings ----

    def _change_schema(self, steps: tuple[SchemaStep, ...], allow_incompatible_changes: bool) -> None:
        self._change(ChangeSchema(steps, allow_incompatible_changes))

    def _change_properties(self, updates: Mapping[str, str], removals: tuple[str, ...]) -> None:
        self._change(ChangeOptions(updates, removals))

    def _change(self, change: SchemaChange) -> None:
        self.handle.state = commit_schema(self.handle.refresh(), change)

    # ---- maintenance ----

    def _analyze(
        self, columns: Sequence[str] | None, full: bool, executor: Executor | None, progress: ProgressCallback | None
    ) -> AnalyzeSummary:
        from skerry.paimon.jobs.analyze import analyze

        request = self.handle.request(executor=executor, progress=progress)
        done = analyze(request, columns, full=full)
        self.handle.keep(request)
        return done

    def _compact(self, where: Condition | None, how: CompactOptions, options: WriteOptions) -> CompactSummary:
        """Merge sorted runs, or join small files."""
        from skerry.paimon.jobs.compact import compact
        from skerry.paimon.jobs.compact_tasks import CompactionRules
        from skerry.paimon.writing.clustering import Clustering

        request = self._request(options)
        clustering = Clustering.of(self.handle.branch_state(options.ref), how)
        done = compact(
            request,
            CompactionRules(how.full, self._partitions(where, options.ref), how.min_input_files, clustering=clustering),
            target_file_size=how.target_file_size_bytes,
            dry_run=how.dry_run,
        )
        self.handle.keep(request)
        if self.handle.state.is_indexed and not how.dry_run:
            from skerry.paimon.jobs.index import merge_small_indexes  # imports shards, which few tables need

            with after_publish("merging small indexes"):
                merge_small_indexes(self.handle.state, options.executor)
        return done

    def _rewrite_file_indexes(
        self, where: Condition | None, full: bool, dry_run: bool, options: WriteOptions
    ) -> FileIndexSummary:
        from skerry.paimon.jobs.indexes.rewrite_file_indexes import rewrite_file_indexes

        request = self._request(options)
        done = rewrite_file_indexes(request, self._partitions(where, options.ref), full=full, dry_run=dry_run)
        self.handle.keep(request)
        return done

    def _expire_partitions(
        self, older_than: timedelta | None, dry_run: bool, options: WriteOptions
    ) -> PartitionExpireSummary:
        from skerry.paimon.jobs.expire_partitions import expire_partitions

        request = self._request(options)
        done = expire_partitions(request, older_than, dry_run=dry_run)
        self.handle.keep(request)
        return done

    def _partitions(self, where: Condition | None, ref: str) -> PartitionChoice | None:
        """The choice of whole partitions by a condition."""
        return None if where is None else whole_partitions(where, self.handle.branch_state(ref).schema)

    def _expire_snapshots(
        self,
        keep_last: int | None,
        older_than: datetime | None,
        dry_run: bool,
        executor: Executor | None,
        progress: ProgressCallback | None,
    ) -> ExpireSummary:
        """Expire old snapshots of `main`; as in Iceberg tables, those that are young by the table's options stay."""
        from skerry.paimon.jobs.expire import ExpiryRule, expire_snapshots

        state = self.handle.branch_state()
        if keep_last is not None and older_than is None:
            older_than = datetime.now(UTC) - timedelta(milliseconds=state.options.snapshot_time_retained_ms)
        rule = ExpiryRule.of(state, keep_last, older_than)
        return expire_snapshots(state, rule, dry_run=dry_run, executor=executor, progress=progress)

    def _copy_to(self, request: CopyRequest, owner: CopyCatalog | None, name: str | None) -> CopySummary:
        from skerry.paimon.copying import copy_table

        return copy_table(self.handle.state, request)

    def _upkeep(self) -> Upkeep:
        from skerry.paimon.upkeep import upkeep

        return upkeep(self.handle)

    def reachable(self, executor: Executor | None = None) -> ReachablePaimonTable:
        """The table as the removal of orphans sees it: what its snapshots, tags, branches and consumers reach."""
        from skerry.paimon.cleaning.reachable_table import ReachablePaimonTable

        return ReachablePaimonTable(self.handle.state, executor)
