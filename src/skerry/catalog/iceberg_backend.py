"""An Iceberg table behind the public one: jobs and operations on `skerry.iceberg.table.IcebergTable`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation

from skerry.catalog.backend import SchemaStep, SpecStep, WriteOptions
from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.cherry_pick import WAP_ENABLED_PROPERTY, WAP_ID, CherryPick, PublishStaged
from skerry.iceberg.cleaning.reachable_table import ReachableIcebergTable
from skerry.iceberg.evolution.schema_evolution import ChangeSchema
from skerry.iceberg.evolution.settings import ChangeProperties, ChangeSortOrder, Upgrade
from skerry.iceberg.evolution.spec_evolution import ChangeSpec
from skerry.iceberg.jobs.add_files import add_files
from skerry.iceberg.jobs.analyze import analyze
from skerry.iceberg.jobs.append import append, append_once
from skerry.iceberg.jobs.apply_changes import apply_changes
from skerry.iceberg.jobs.cherry_pick import pick
from skerry.iceberg.jobs.compact import compact
from skerry.iceberg.jobs.delete import delete, overwrite
from skerry.iceberg.jobs.expire import expire_snapshots
from skerry.iceberg.jobs.merge import merge, upsert
from skerry.iceberg.jobs.purge import purge
from skerry.iceberg.jobs.rewrite_deletes import rewrite_deletes
from skerry.iceberg.jobs.rewrite_manifests import rewrite_manifests
from skerry.iceberg.jobs.row_changes import ChangeRequest
from skerry.iceberg.manifests.summary import operation_of, summary_of
from skerry.iceberg.reading.changes import Changes
from skerry.iceberg.reading.scan import Scan
from skerry.iceberg.refs import CreateRef, DropRef, FastForward, Rollback, SetRefRetention
from skerry.iceberg.table import IcebergTable
from skerry.jobs.change_records import RecordColumns
from skerry.table.files.data_file import DataFile, WrittenFile
from skerry.table.history import Ref, Retention, Snapshot, of_batch, of_millis
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness
from skerry.table.summaries import ChangeSummary, CompactOptions
from skerry.table.tasks import Executor, ThreadExecutor, Watcher

if TYPE_CHECKING:
    from skerry.iceberg.jobs.row_changes import ChangeRequest
    from skerry.table.merging import MergeClauses
    from skerry.table.summaries import (
        AnalyzeSummary,
        CompactSummary,
        DeletesSummary,
        ExpireSummary,
        ManifestSummary,
        RowChanges,
    )

__all__ = ["IcebergBackend"]


class IcebergBackend:
    """The methods of `skerry.catalog.backend.TableBackend` for an Iceberg table.

    Args:
        table: The table.
    """

    def __init__(self, table: IcebergTable) -> None:
        self._table = table

    @property
    def implementation(self) -> IcebergTable:
        """The table."""
        return self._table

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return self._table.state.name

    @property
    def format(self) -> str:
        """The table format."""
        return "iceberg"

    @property
    def format_version(self) -> int:
        """The version of the table format."""
        return int(self._table.state.metadata.format_version)

    @property
    def location(self) -> str:
        """The folder of the table's files."""
        return str(self._table.state.metadata.location)

    @property
    def metadata_location(self) -> str:
        """The metadata file of the state at hand."""
        return self._table.state.metadata_location

    @property
    def schema(self) -> pa.Schema:
        """The current schema."""
        return self._table.state.schema

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return self._table.state.properties

    @property
    def partition_by(self) -> list[str]:
        """The default partition spec."""
        return self._table.partition_by

    @property
    def sort_by(self) -> list[str]:
        """The default sort order."""
        return self._table.sort_by

    @property
    def primary_key(self) -> list[str]:
        """The identifier fields."""
        return sorted(self._table.state.metadata.schema().identifier_field_names())

    def refresh(self) -> None:
        """Load the newest state."""
        self._table.refresh()

    # ---- history ----

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, oldest first."""
        metadata = self._table.state.metadata
        with_statistics = {file.snapshot_id for file in metadata.statistics if file.blob_metadata}
        found = [
            Snapshot(
                snapshot_id=snapshot.snapshot_id,
                parent_id=snapshot.parent_snapshot_id,
                sequence_number=snapshot.sequence_number or 0,
                timestamp=of_millis(snapshot.timestamp_ms),
                operation=(operation_of(snapshot) or Operation.APPEND).value,
                summary=dict(summary_of(snapshot)),
                has_statistics=snapshot.snapshot_id in with_statistics,
            )
            for snapshot in metadata.snapshots
        ]
        return sorted(found, key=lambda snapshot: (snapshot.sequence_number, snapshot.timestamp))

    def current_snapshot(self, ref: str) -> Snapshot | None:
        """The snapshot that a branch or tag names."""
        current = self._table.state.snapshot(ref)
        if current is None:
            return None
        return next(snapshot for snapshot in self.snapshots() if snapshot.snapshot_id == current.snapshot_id)

    def references(self) -> list[Ref]:
        """All branches and tags."""
        return [
            Ref(
                name=name,
                kind=ref.snapshot_ref_type.value,
                snapshot_id=ref.snapshot_id,
                max_ref_age=_age(ref.max_ref_age_ms),
                max_snapshot_age=_age(ref.max_snapshot_age_ms),
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
            )
            for name, ref in self._table.state.metadata.refs.items()
        ]

    def history(self) -> list[tuple[datetime, int]]:
        """When which snapshot became the current one."""
        return [(of_millis(entry.timestamp_ms), entry.snapshot_id) for entry in self._table.state.metadata.snapshot_log]

    def create_branch(self, name: str, snapshot: int | None, ref: str, retention: Retention, replace: bool) -> None:
        """Make a branch."""
        self._table.commit(CreateRef(name, SnapshotRefType.BRANCH, snapshot, ref, retention, replace))

    def create_tag(
        self, name: str, snapshot: int | None, ref: str, max_ref_age: timedelta | None, replace: bool
    ) -> None:
        """Make a tag."""
        self._table.commit(CreateRef(name, SnapshotRefType.TAG, snapshot, ref, Retention(max_ref_age), replace))

    def set_retention(self, ref: str, retention: Retention) -> None:
        """Say how long a reference holds on to snapshots."""
        self._table.commit(SetRefRetention(ref, retention))

    def drop_ref(self, name: str) -> None:
        """Forget a reference."""
        self._table.commit(DropRef(name))

    def fast_forward(self, branch: str, to: str) -> None:
        """Move a branch ahead."""
        self._table.commit(FastForward(branch, to))

    def cherry_pick(self, snapshot: int, ref: str) -> None:
        """Bring another snapshot's rows to a branch."""
        pick(self._table, CherryPick(snapshot, ref))

    def publish(self, wap_id: str, ref: str) -> None:
        """Publish what was staged."""
        pick(self._table, PublishStaged(wap_id, ref))

    def rollback(self, to: int | datetime, ref: str, anywhere: bool) -> None:
        """Move a branch to another snapshot."""
        self._table.commit(Rollback(ref, to, anywhere=anywhere))

    # ---- reading ----

    def files(self) -> list[DataFile]:
        """The data files of the current snapshot."""
        snapshot = self._table.state.snapshot()
        return self._table.data_files(snapshot) if snapshot is not None else []

    def scan(
        self,
        columns: Sequence[str] | None,
        where: str | Any,
        *,
        limit: int | None,
        snapshot: int | None,
        ref: str | None,
        as_of: datetime | None,
    ) -> Scan:
        """Describe a read."""
        return self._table.scan(columns, where, limit=limit, snapshot=snapshot, ref=ref, as_of=as_of)

    def changes(
        self,
        from_snapshot: int | str | None,
        to_snapshot: int | str | None,
        *,
        columns: Sequence[str] | None,
        where: str | Any,
        on: Sequence[str] | None,
        carried_over: bool,
    ) -> Changes:
        """Describe the changes between two snapshots."""
        return self._table.changes(
            from_snapshot, to_snapshot, columns=columns, where=where, on=on, carried_over=carried_over
        )

    def statistics(self, where: str | Any) -> dict[str, ColumnStatistics]:
        """What is known about every primitive column."""
        return self._table.column_statistics(self._table.state.snapshot(), where)

    def freshness(self) -> dict[str, Freshness]:
        """How far every column's distinct count holds."""
        return self._table.column_freshness(self._table.state.snapshot())

    # ---- rows ----

    def append(self, data: Any, options: WriteOptions) -> Snapshot | None:
        """Append rows."""
        entries, staged = self._staging(options)
        if options.batch is not None:
            if staged:
                raise UnsupportedError("a batch of a stream is not staged: write it to a branch", location=self.name)
            applied = append_once(
                self._table, data, options.batch, ref=options.ref, properties=entries, watcher=options.watcher
            )
            return of_batch(self.current_snapshot(options.ref), applied=applied)
        append(self._table, data, ref=options.ref, staged=staged, properties=entries, watcher=options.watcher)
        if not staged:
            return self.current_snapshot(options.ref)
        wap_id = entries[WAP_ID]
        found = next((found for found in reversed(self.snapshots()) if found.summary.get(WAP_ID) == wap_id), None)
        tip = self._table.state.snapshot(options.ref)
        if found is not None and tip is not None and found.snapshot_id == tip.snapshot_id:
            raise UnsupportedError(
                f"the catalog stages no snapshots: it has made {found.snapshot_id} the snapshot of branch "
                f"{options.ref!r}; roll back if the rows must not be seen",
                location=self.name,
            )
        return found or self.current_snapshot(options.ref)

    def append_files(self, files: Iterable[WrittenFile], options: WriteOptions) -> None:
        """Publish files that a job has written."""
        self._table.append(files, ref=options.ref, properties=options.properties)

    def delete(self, where: str | Any, options: WriteOptions) -> RowChanges:
        """Delete rows."""
        return delete(self._request("delete", options), where)

    def overwrite(self, data: Any, where: str | Any, options: WriteOptions) -> RowChanges:
        """Put rows in place of others."""
        return overwrite(self._request("delete", options), data, where)

    def upsert(self, data: Any, on: str | Sequence[str] | None, blind: bool, options: WriteOptions) -> RowChanges:
        """Update rows by key, and insert the others."""
        keys = self.primary_key if on is None else on
        if on is None and not keys:
            raise SchemaError(f"table {self.name} has no identifier columns: upsert needs on=", location=self.name)
        return upsert(self._request("merge", options), data, keys, blind=blind)

    def merge(
        self, data: Any, on: str | Sequence[str], clauses: MergeClauses, blind: bool, options: WriteOptions
    ) -> RowChanges:
        """Merge rows by key."""
        return merge(self._request("merge", options), data, on, clauses, blind=blind)

    def apply_changes(
        self,
        data: Any,
        on: tuple[str, ...],
        op: str,
        order_by: tuple[str, ...],
        before: str,
        blind: bool,
        options: WriteOptions,
    ) -> ChangeSummary:
        """Apply change records by a merge."""
        columns = RecordColumns(on, op, order_by, before)
        request = self._request("merge", options)
        return apply_changes(request, data, columns, batch=options.batch, blind=blind)

    def _request(self, action: str, options: WriteOptions) -> ChangeRequest:
        entries, staged = self._staging(options)
        executor = options.executor or ThreadExecutor()
        return ChangeRequest(self._table, action, options.ref, entries, executor, options.watcher, staged)

    def _staging(self, options: WriteOptions) -> tuple[dict[str, str], bool]:
        """Summary entries, and whether to stage: asked for, or the table stages every write with a `wap.id`."""
        entries = dict(options.properties)
        enabled = self.properties.get(WAP_ENABLED_PROPERTY, "false").lower() == "true"
        staged = options.staged or (enabled and WAP_ID in entries)
        if staged:
            entries.setdefault(WAP_ID, str(uuid.uuid4()))
        return entries, staged

    # ---- settings ----

    def change_schema(self, steps: tuple[SchemaStep, ...], allow_incompatible_changes: bool) -> None:
        """Change the schema."""
        self._table.commit(ChangeSchema(steps, allow_incompatible_changes))

    def change_spec(self, steps: tuple[SpecStep, ...]) -> None:
        """Change the partition spec."""
        self._table.commit(ChangeSpec(steps))

    def change_sort_order(self, sort_by: tuple[str, ...]) -> None:
        """Change the sort order."""
        self._table.commit(ChangeSortOrder(sort_by))

    def change_properties(self, updates: Mapping[str, str], removals: tuple[str, ...]) -> None:
        """Set and remove properties."""
        self._table.commit(ChangeProperties(updates, removals))

    def upgrade(self, format_version: int) -> None:
        """Raise the format version."""
        self._table.commit(Upgrade(format_version))

    # ---- upkeep ----

    def analyze(
        self, columns: Sequence[str] | None, full: bool, executor: Executor | None, watcher: Watcher | None
    ) -> AnalyzeSummary:
        """Sketch what is not sketched yet."""
        return analyze(self._table, columns, executor=executor, watcher=watcher, full=full)

    def compact(self, where: str | Any, how: CompactOptions, options: WriteOptions) -> CompactSummary:
        """Write few files in place of many."""
        return compact(
            self._table,
            where,
            how,
            ref=options.ref,
            properties=options.properties,
            executor=options.executor,
            watcher=options.watcher,
        )

    def expire_snapshots(
        self,
        *,
        keep_last: int | None,
        older_than: datetime | None,
        dry_run: bool,
        executor: Executor | None,
        watcher: Watcher | None,
    ) -> ExpireSummary:
        """Forget old snapshots."""
        return expire_snapshots(
            self._table,
            keep_last=keep_last,
            older_than=older_than,
            dry_run=dry_run,
            executor=executor,
            watcher=watcher,
        )

    def rewrite_manifests(self, options: WriteOptions, *, rewrite_all: bool, dry_run: bool) -> ManifestSummary:
        """Put manifests together anew."""
        return rewrite_manifests(
            self._table, rewrite_all=rewrite_all, ref=options.ref, dry_run=dry_run, properties=options.properties
        )

    def rewrite_deletes(self, options: WriteOptions, *, min_input_files: int, dry_run: bool) -> DeletesSummary:
        """Put delete files together anew."""
        return rewrite_deletes(
            self._table,
            min_input_files=min_input_files,
            ref=options.ref,
            dry_run=dry_run,
            properties=options.properties,
            executor=options.executor,
            watcher=options.watcher,
        )

    def reachable(self, executor: Executor | None) -> ReachableIcebergTable:
        """The table as cleaning sees it."""
        return ReachableIcebergTable(self._table, executor or ThreadExecutor())

    def add_files(self, locations: Iterable[str], options: WriteOptions) -> None:
        """Take files that exist into the table."""
        add_files(
            self._table,
            locations,
            ref=options.ref,
            properties=options.properties,
            executor=options.executor,
            watcher=options.watcher,
        )

    def purge(self, drop: Callable[[], None]) -> None:
        """Drop the table and delete its files."""
        purge(self._table, drop)


def _age(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)
