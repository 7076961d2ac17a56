"""The public table of the format Iceberg; see `skerry.table.table.Table`.

A job's module loads when it is first asked for: a process that only reads tables loads none of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.indexed import IndexedIcebergTable
from skerry.iceberg.manifests.summary import summary_of
from skerry.iceberg.metadata.snapshot import Operation, SnapshotRefType
from skerry.iceberg.statistics.columns import column_freshness, column_statistics
from skerry.storage import Storage
from skerry.table.arguments import Condition, Rows, WriteOptions
from skerry.table.history import MAIN, History, HistoryEntry, Ref, Retention, Snapshot, Snapshots, of_batch, of_millis
from skerry.table.table import TableCatalog
from skerry.table.updates import SchemaStep, SpecStep
from skerry.table.work.tasks import Executor, ProgressCallback, ThreadExecutor

if TYPE_CHECKING:
    from skerry.iceberg.cleaning.reachable_table import ReachableIcebergTable
    from skerry.iceberg.inspection import IcebergInspect
    from skerry.iceberg.jobs.connector import IcebergConnector
    from skerry.iceberg.jobs.row_changes import ChangeRequest
    from skerry.iceberg.metadata.snapshot import Snapshot as IcebergSnapshot
    from skerry.iceberg.metadata.table_metadata import TableMetadata
    from skerry.iceberg.reading.changes import Changes
    from skerry.iceberg.reading.scan import Scan
    from skerry.table.copying import CopyRequest, CopySummary
    from skerry.table.files.data_file import DataFile
    from skerry.table.inspection.upkeep import Upkeep
    from skerry.table.merging import MergeClauses
    from skerry.table.movable import CopyCatalog
    from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness
    from skerry.table.statistics.written_file import WrittenFile
    from skerry.table.summaries import (
        AnalyzeSummary,
        ChangeSummary,
        CompactOptions,
        CompactSummary,
        DeletesSummary,
        ExpireSummary,
        ManifestSummary,
        RowChangeSummary,
    )

__all__ = ["IcebergTable"]


class IcebergTable(IndexedIcebergTable):
    """An Iceberg table.

    Args:
        handle: The handle of the table, which jobs use.
        catalog: The catalog that it was loaded from.
    """

    def __init__(self, handle: IcebergHandle, catalog: TableCatalog | None = None) -> None:
        self.handle = handle
        self._catalog = catalog

    # ---- identity ----

    @property
    def name(self) -> str:
        return self.handle.state.name

    @property
    def format(self) -> str:
        return "iceberg"

    @property
    def format_version(self) -> int:
        return int(self.handle.state.metadata.format_version)

    @property
    def location(self) -> str:
        return str(self.handle.state.metadata.location)

    @property
    def metadata_location(self) -> str:
        return self.handle.state.metadata_location

    @property
    def version(self) -> str:
        return self.handle.state.metadata_location

    @property
    def storage(self) -> Storage:
        return self.handle.state.storage

    @property
    def schema(self) -> pa.Schema:
        return self.handle.state.schema

    @property
    def properties(self) -> dict[str, str]:
        return self.handle.state.properties

    @property
    def partition_by(self) -> list[str]:
        return self.handle.partition_by

    @property
    def sort_by(self) -> list[str]:
        return self.handle.sort_by

    @property
    def primary_key(self) -> list[str]:
        return sorted(self.handle.state.metadata.schema().identifier_field_names())

    def refresh(self) -> Self:
        self.handle.refresh()
        return self

    def connector(self) -> IcebergConnector:
        """The connector of the table to frames and streams of other engines."""
        from skerry.iceberg.jobs.connector import IcebergConnector

        return IcebergConnector(self.handle)

    @property
    def inspect(self) -> IcebergInspect:
        from skerry.iceberg.inspection import IcebergInspect

        return IcebergInspect(self.handle.state)

    # ---- history ----

    def snapshots(self) -> Sequence[Snapshot]:
        metadata = self.handle.state.metadata
        found = sorted(metadata.snapshots, key=lambda one: (one.sequence_number or 0, one.timestamp_ms))
        return Snapshots(found, partial(_described, _with_statistics(metadata)))

    def current_snapshot(self, ref: str = MAIN) -> Snapshot | None:
        current = self.handle.state.snapshot(ref)
        return None if current is None else _described(_with_statistics(self.handle.state.metadata), current)

    def history(self) -> History:
        log = self.handle.state.metadata.snapshot_log
        return History(HistoryEntry(of_millis(entry.timestamp_ms), entry.snapshot_id) for entry in log)

    def _refs(self) -> list[Ref]:
        return [
            Ref(
                name=name,
                kind=ref.snapshot_ref_type.value,
                snapshot_id=ref.snapshot_id,
                max_ref_age=_age(ref.max_ref_age_ms),
                max_snapshot_age=_age(ref.max_snapshot_age_ms),
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
            )
            for name, ref in self.handle.state.metadata.refs.items()
        ]

    def _create_branch(self, name: str, snapshot: int | None, ref: str, retention: Retention, replace: bool) -> None:
        self.handle.commit(_refs().CreateRef(name, SnapshotRefType.BRANCH, snapshot, ref, retention, replace))

    def _create_tag(
        self, name: str, snapshot: int | None, ref: str, max_ref_age: timedelta | None, replace: bool
    ) -> None:
        self.handle.commit(_refs().CreateRef(name, SnapshotRefType.TAG, snapshot, ref, Retention(max_ref_age), replace))

    def _set_retention(self, ref: str, retention: Retention) -> None:
        self.handle.commit(_refs().SetRefRetention(ref, retention))

    def _drop_ref(self, name: str) -> None:
        self.handle.commit(_refs().DropRef(name))

    def _fast_forward(self, branch: str, to: str) -> Snapshot | None:
        self.handle.commit(_refs().FastForward(branch, to))
        return self.current_snapshot(branch)

    def _cherry_pick(self, snapshot: int, ref: str) -> None:
        from skerry.iceberg.cherry_pick import CherryPick
        from skerry.iceberg.jobs.cherry_pick import pick

        pick(self.handle, CherryPick(snapshot, ref))

    def _publish(self, wap_id: str, ref: str) -> None:
        from skerry.iceberg.cherry_pick import PublishStaged
        from skerry.iceberg.jobs.cherry_pick import pick

        pick(self.handle, PublishStaged(wap_id, ref))

    def _rollback(self, to: int | datetime, ref: str) -> Snapshot | None:
        self.handle.commit(_refs().Rollback(ref, to))
        return self.current_snapshot(ref)

    def _set_current_snapshot(self, snapshot: int, ref: str) -> None:
        self.handle.commit(_refs().Rollback(ref, snapshot, anywhere=True))

    # ---- reading ----

    def files(self) -> list[DataFile]:
        from skerry.iceberg.planning.live_files import live_data_files

        snapshot = self.handle.state.snapshot()
        return live_data_files(self.handle.state, snapshot) if snapshot is not None else []

    def freshness(self) -> dict[str, Freshness]:
        return column_freshness(self.handle.state, self.handle.state.snapshot())

    def _scan(
        self,
        columns: Sequence[str] | None,
        where: Condition | None,
        limit: int | None,
        snapshot: int | None,
        ref: str | None,
        as_of: datetime | None,
    ) -> Scan:
        from skerry.iceberg.reading.scan import scan

        server = self.handle.scan_server()
        return scan(
            self.handle.state, columns, where, limit=limit, snapshot=snapshot, ref=ref, as_of=as_of, server=server
        )

    def _changes(
        self,
        from_snapshot: int | str | None,
        to_snapshot: int | str | None,
        columns: Sequence[str] | None,
        where: Condition | None,
        on: Sequence[str] | None,
        carried_over: bool,
    ) -> Changes:
        from skerry.iceberg.reading.changes import changes

        return changes(
            self.handle.state,
            from_snapshot,
            to_snapshot,
            columns=columns,
            where=where,
            on=on,
            carried_over=carried_over,
            server=self.handle.scan_server(),
        )

    def _statistics(self, where: Condition | None) -> dict[str, ColumnStatistics]:
        return column_statistics(self.handle.state, self.handle.state.snapshot(), where)

    # ---- rows ----

    def _append(self, data: Rows, options: WriteOptions) -> Snapshot | None:
        from skerry.iceberg.jobs.append import append, append_once

        entries, staged = self._staging(options)
        if options.batch is not None:
            if staged:
                raise UnsupportedError("a batch of a stream cannot be staged: write it to a branch", location=self.name)
            applied = append_once(
                self.handle, data, options.batch, ref=options.ref, properties=entries, progress=options.progress
            )
            return of_batch(self.current_snapshot(options.ref), applied=applied)
        append(self.handle, data, ref=options.ref, staged=staged, properties=entries, progress=options.progress)
        if not staged:
            return self.current_snapshot(options.ref)
        from skerry.iceberg.cherry_pick import WAP_ID

        wap_id = entries[WAP_ID]
        found = next((found for found in reversed(self.snapshots()) if found.summary.get(WAP_ID) == wap_id), None)
        tip = self.handle.state.snapshot(options.ref)
        if found is not None and tip is not None and found.snapshot_id == tip.snapshot_id:
            raise UnsupportedError(
                f"the catalog does not support staged snapshots: {found.snapshot_id} is now the snapshot of branch "
                f"{options.ref!r}; roll back if the rows must not be visible",
                location=self.name,
            )
        return found or self.current_snapshot(options.ref)

    def _append_files(self, files: Iterable[WrittenFile], options: WriteOptions) -> None:
        entries, staged = self._staging(options)
        self.handle.append(files, ref=options.ref, properties=entries, staged=staged)

    def _delete(self, where: Condition, options: WriteOptions) -> RowChangeSummary:
        from skerry.iceberg.jobs.delete import delete

        return delete(self._request("delete", options), where)

    def _overwrite(self, data: Rows, where: Condition | None, options: WriteOptions) -> RowChangeSummary:
        from skerry.iceberg.jobs.delete import overwrite

        return overwrite(self._request("delete", options), data, where)

    def _upsert(self, data: Rows, on: tuple[str, ...], blind: bool, options: WriteOptions) -> RowChangeSummary:
        from skerry.iceberg.jobs.merge import upsert

        return upsert(self._request("merge", options), data, on, blind=blind)

    def _merge(
        self, data: Rows, on: str | Sequence[str], clauses: MergeClauses, blind: bool, options: WriteOptions
    ) -> RowChangeSummary:
        from skerry.iceberg.jobs.merge import merge

        return merge(self._request("merge", options), data, on, clauses, blind=blind)

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
        from skerry.iceberg.jobs.apply_changes import apply_changes
        from skerry.jobs.change_records import RecordColumns

        if options.staged and options.batch is not None:
            raise UnsupportedError("a batch of a stream cannot be staged: write it to a branch", location=self.name)
        columns = RecordColumns(on, op, order_by, before)
        return apply_changes(self._request("merge", options), data, columns, batch=options.batch, blind=blind)

    def _add_files(self, locations: Iterable[str], options: WriteOptions) -> None:
        from skerry.iceberg.jobs.add_files import add_files

        entries, staged = self._staging(options)
        add_files(
            self.handle,
            locations,
            ref=options.ref,
            staged=staged,
            properties=entries,
            executor=options.executor,
            progress=options.progress,
        )

    def _request(self, action: str, options: WriteOptions) -> ChangeRequest:
        from skerry.iceberg.jobs.row_changes import ChangeRequest

        entries, staged = self._staging(options)
        executor = options.executor or ThreadExecutor()
        return ChangeRequest(self.handle, action, options.ref, entries, executor, options.progress, staged)

    def _staging(self, options: WriteOptions) -> tuple[dict[str, str], bool]:
        """Summary entries, and whether to stage: if requested, or if the table stages every write with a `wap.id`."""
        from skerry.iceberg.cherry_pick import WAP_ENABLED_PROPERTY, WAP_ID

        entries = dict(options.properties)
        enabled = self.properties.get(WAP_ENABLED_PROPERTY, "false").lower() == "true"
        staged = options.staged or (enabled and WAP_ID in entries)
        if staged:
            entries.setdefault(WAP_ID, str(uuid.uuid4()))
        return entries, staged

    # ---- settings ----

    def _change_schema(self, steps: tuple[SchemaStep, ...], allow_incompatible_changes: bool) -> None:
        from skerry.iceberg.evolution.schema_evolution import ChangeSchema

        self.handle.commit(ChangeSchema(steps, allow_incompatible_changes))

    def _change_spec(self, steps: tuple[SpecStep, ...]) -> None:
        from skerry.iceberg.evolution.spec_evolution import ChangeSpec

        self.handle.commit(ChangeSpec(steps))

    def _change_sort_order(self, sort_by: tuple[str, ...]) -> None:
        from skerry.iceberg.evolution.settings import ChangeSortOrder

        self.handle.commit(ChangeSortOrder(sort_by))

    def _change_properties(self, updates: Mapping[str, str], removals: tuple[str, ...]) -> None:
        from skerry.iceberg.evolution.settings import ChangeProperties

        change = ChangeProperties(updates, removals)
        self.handle.commit_retrying(change, change.retry)

    def _upgrade(self, format_version: int) -> None:
        from skerry.iceberg.evolution.settings import Upgrade

        self.handle.commit(Upgrade(format_version))

    # ---- upkeep ----

    def _analyze(
        self, columns: Sequence[str] | None, full: bool, executor: Executor | None, progress: ProgressCallback | None
    ) -> AnalyzeSummary:
        from skerry.iceberg.jobs.analyze import analyze

        return analyze(self.handle, columns, executor=executor, progress=progress, full=full)

    def _compact(self, where: Condition | None, how: CompactOptions, options: WriteOptions) -> CompactSummary:
        from skerry.iceberg.jobs.compact import compact, merge_compacted

        entries, executor, progress = options.properties, options.executor, options.progress
        done = compact(
            self.handle, where, how, ref=options.ref, properties=entries, executor=executor, progress=progress
        )
        merge_compacted(self.handle, how, executor)
        return done

    def _rewrite_manifests(self, full: bool, dry_run: bool, options: WriteOptions) -> ManifestSummary:
        from skerry.iceberg.jobs.rewrite_manifests import rewrite_manifests

        return rewrite_manifests(
            self.handle, full=full, ref=options.ref, dry_run=dry_run, properties=options.properties
        )

    def _rewrite_deletes(self, min_input_files: int, dry_run: bool, options: WriteOptions) -> DeletesSummary:
        from skerry.iceberg.jobs.rewrite_deletes import rewrite_deletes

        return rewrite_deletes(
            self.handle,
            min_input_files=min_input_files,
            ref=options.ref,
            dry_run=dry_run,
            properties=options.properties,
            executor=options.executor,
            progress=options.progress,
        )

    def _expire_snapshots(
        self,
        keep_last: int | None,
        older_than: datetime | None,
        dry_run: bool,
        executor: Executor | None,
        progress: ProgressCallback | None,
    ) -> ExpireSummary:
        from skerry.iceberg.jobs.expire import expire_snapshots

        return expire_snapshots(
            self.handle,
            keep_last=keep_last,
            older_than=older_than,
            dry_run=dry_run,
            executor=executor,
            progress=progress,
        )

    def _copy_to(self, request: CopyRequest, owner: CopyCatalog | None, name: str | None) -> CopySummary:
        from skerry.iceberg.relocation import copy_table

        return copy_table(self.handle.state, request)

    def _relocate(self, request: CopyRequest, *, delete: bool) -> CopySummary:
        from skerry.iceberg.jobs.relocate import relocate

        return relocate(self.handle, request, delete=delete)

    def _upkeep(self) -> Upkeep:
        from skerry.iceberg.inspection import upkeep

        return upkeep(self.handle.state)

    def reachable(self, executor: Executor | None = None) -> ReachableIcebergTable:
        """The files that the table's states reach, for orphan removal."""
        from skerry.iceberg.cleaning.reachable_table import ReachableIcebergTable

        return ReachableIcebergTable(self.handle, executor or ThreadExecutor())

    def purge(self, drop: Callable[[], None]) -> None:
        """Drop the table by a function that removes it from its catalog, and delete its files."""
        from skerry.iceberg.jobs.purge import purge

        purge(self.handle, drop)


def _with_statistics(metadata: TableMetadata) -> set[int]:
    """The snapshots that have sketches."""
    return {file.snapshot_id for file in metadata.statistics if file.blob_metadata}


def _described(with_statistics: AbstractSet[int], snapshot: IcebergSnapshot) -> Snapshot:
    """A snapshot as users see it."""
    return Snapshot(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        timestamp=of_millis(snapshot.timestamp_ms),
        operation=(snapshot.operation or Operation.APPEND).value,
        summary=summary_of(snapshot),
        has_statistics=snapshot.snapshot_id in with_statistics,
    )


def _age(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


def _refs() -> Any:
    """The operations on branches and tags, which load when they are first asked for."""
    from skerry.iceberg import refs

    return refs
