"""A Paimon table behind the public one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import pyarrow as pa

from skerry.catalog.backend import SchemaStep, SpecStep, WriteOptions
from skerry.catalog.paimon_records import described_snapshot, table_file
from skerry.errors import UnsupportedError
from skerry.jobs.change_records import RecordColumns
from skerry.paimon.cleaning.reachable_table import ReachablePaimonTable
from skerry.paimon.evolution.schema_evolution import ChangeOptions, ChangeSchema, SchemaChange, commit_schema
from skerry.paimon.jobs.append import append
from skerry.paimon.jobs.apply_changes import apply_changes
from skerry.paimon.jobs.merge import merge
from skerry.paimon.jobs.once import commit_once
from skerry.paimon.reading.changes import changes
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.reading.scan import PaimonScan
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.files.data_file import DataFile, WrittenFile
from skerry.table.history import Ref, Retention, Snapshot, of_batch
from skerry.table.merging import MergeClauses
from skerry.table.rows.row_stream import RowStream
from skerry.table.rows.schema import leaves
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness
from skerry.table.statistics.joinable import NotCompared, SketchedColumn, TableSketches
from skerry.table.summaries import (
    AnalyzeSummary,
    ChangeSummary,
    CompactOptions,
    CompactSummary,
    DeletesSummary,
    ExpireSummary,
    ManifestSummary,
    RowChanges,
)
from skerry.table.tasks import Executor, Watcher
from skerry.theta import pack_sketches

__all__ = ["PaimonBackend"]


class PaimonBackend:
    """The methods of `skerry.catalog.backend.TableBackend` for a Paimon table.

    Args:
        table: The table.
    """

    def __init__(self, table: PaimonTable) -> None:
        self._table = table

    @classmethod
    def open(cls, storage: Storage, location: str, name: str) -> PaimonBackend:
        """Load a table."""
        return cls(PaimonTable.open(storage, location, name=name))

    @property
    def implementation(self) -> PaimonTable:
        """The table."""
        return self._table

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return self._table.name

    @property
    def format(self) -> str:
        """The table format."""
        return "paimon"

    @property
    def format_version(self) -> int:
        """The version of the schema file."""
        return self._table.state.schema.version

    @property
    def location(self) -> str:
        """The table's folder."""
        return self._table.location

    @property
    def metadata_location(self) -> str:
        """The snapshot file of the state at hand, the schema file before the first commit."""
        state = self._table.state
        paths = state.paths
        return paths.snapshot(state.snapshot.id) if state.snapshot is not None else paths.schema(state.schema.id)

    @property
    def schema(self) -> pa.Schema:
        """The newest schema."""
        return self._table.schema

    @property
    def properties(self) -> dict[str, str]:
        """The table's options."""
        return self._table.properties

    @property
    def partition_by(self) -> list[str]:
        """Partition keys, and buckets if their number is fixed."""
        keys = self._table.partition_by
        buckets = self._table.state.options.bucket
        if buckets > 0:
            keys.append(f"bucket({buckets}, {', '.join(self._table.state.schema.bucket_keys)})")
        return keys

    @property
    def sort_by(self) -> list[str]:
        """What rows are sorted by in each file."""
        return list(self._table.state.schema.trimmed_primary_keys)

    @property
    def primary_key(self) -> list[str]:
        """The primary key."""
        return self._table.primary_key

    def refresh(self) -> None:
        """Load the newest state."""
        self._table.refresh()

    @property
    def version(self) -> str:
        """What tells the state at hand from others."""
        return self._table.version

    def sketches(self) -> TableSketches:
        """The fresh sketches of the newest snapshot."""
        known = self._table.statistics()
        columns, sketches, missing = [], [], []
        for leaf in leaves(self.schema):
            found = known[leaf.name]
            if found.freshness.is_fresh and found.sketch is not None:
                columns.append(SketchedColumn(leaf.name, leaf.type))
                sketches.append(found.sketch.compact)
            else:
                missing.append(NotCompared(self.name, leaf.name, str(found.freshness)))
        return TableSketches(self.name, tuple(columns), pack_sketches(sketches), tuple(missing))

    # ---- history ----

    def snapshots(self) -> list[Snapshot]:
        """The snapshots of `main` that have not expired, oldest first."""
        return [described_snapshot(snapshot) for snapshot in self._table.snapshots()]

    def current_snapshot(self, ref: str) -> Snapshot | None:
        """The snapshot that a branch or tag names."""
        snapshot = self._table.current_snapshot(ref)
        return None if snapshot is None else described_snapshot(snapshot)

    def references(self) -> list[Ref]:
        """All branches and tags."""
        return self._table.references()

    def history(self) -> list[tuple[datetime, int]]:
        """When which snapshot became the current one."""
        return self._table.history()

    def create_branch(self, name: str, snapshot: int | None, ref: str, retention: Retention, replace: bool) -> None:
        """Make a branch."""
        if retention != Retention():
            self._refuse("rules of a single branch", "set the table's options")
        self._table.create_branch(name, snapshot, ref=ref, replace=replace)

    def create_tag(
        self, name: str, snapshot: int | None, ref: str, max_ref_age: timedelta | None, replace: bool
    ) -> None:
        """Make a tag."""
        self._table.create_tag(name, snapshot, ref=ref, max_ref_age=max_ref_age, replace=replace)

    def set_retention(self, ref: str, retention: Retention) -> None:
        """Not in this format."""
        self._refuse("set_retention", "a tag's age is given when it is made, that of snapshots by the table's options")

    def drop_ref(self, name: str) -> None:
        """Forget a branch or tag."""
        self._table.drop_ref(name)

    def fast_forward(self, branch: str, to: str) -> None:
        """Move a branch ahead."""
        self._table.fast_forward(branch, to)

    def cherry_pick(self, snapshot: int, ref: str) -> None:
        """Not in this format."""
        self._refuse("cherry_pick", "use branches and fast_forward")

    def publish(self, wap_id: str, ref: str) -> None:
        """Not in this format."""
        self._refuse("publish", "use branches and fast_forward")

    def rollback(self, to: int | datetime, ref: str, anywhere: bool) -> None:
        """Forget the snapshots after one."""
        if anywhere:
            self._refuse("set_current_snapshot", "use rollback")
        self._table.rollback(to, ref=ref)

    # ---- reading ----

    def files(self) -> list[DataFile]:
        """The data files of the newest snapshot."""
        return [
            DataFile(file.location, file.file_format, file.row_count, file.file_size)
            for split in PaimonScan(self._table.state).plan()
            for section in split.sections
            for run in section.runs
            for file in run
        ]

    def scan(
        self,
        columns: Sequence[str] | None,
        where: str | Any,
        *,
        limit: int | None,
        snapshot: int | None,
        ref: str | None,
        as_of: datetime | None,
    ) -> PaimonScan:
        """Describe a read."""
        return scan(self._table.state, columns, where, limit=limit, snapshot=snapshot, ref=ref, as_of=as_of)

    def changes(
        self,
        from_snapshot: int | str | None,
        to_snapshot: int | str | None,
        *,
        columns: Sequence[str] | None,
        where: str | Any,
        on: Sequence[str] | None,
        carried_over: bool,
    ) -> RowStream:
        """Describe the changes between two snapshots."""
        return changes(
            self._table.state,
            from_snapshot,
            to_snapshot,
            columns=columns,
            where=where,
            on=on,
            carried_over=carried_over,
        )

    def statistics(self, where: str | Any) -> dict[str, ColumnStatistics]:
        """What is known about every primitive column."""
        return self._table.statistics(where)

    def freshness(self) -> dict[str, Freshness]:
        """How far every column's distinct count holds."""
        return self._table.freshness()

    # ---- rows ----

    def append(self, data: Any, options: WriteOptions) -> Snapshot | None:
        """Append rows."""
        self._check(options)
        if options.batch is not None:
            request = self._table.request(options.ref, options.properties)
            applied = commit_once(request, options.batch, lambda request: append(request, data))
            newest = self._table.keep(request).snapshot
            return of_batch(None if newest is None else described_snapshot(newest), applied=applied)
        snapshot = self._table.append(data, ref=options.ref, snapshot_properties=options.properties)
        return None if snapshot is None else described_snapshot(snapshot)

    def append_files(self, files: Iterable[WrittenFile], options: WriteOptions) -> None:
        """Not in this format."""
        self._refuse("append_files", "use append")

    def delete(self, where: str | Any, options: WriteOptions) -> RowChanges:
        """Delete rows."""
        self._check(options)
        return self._table.delete(where, **_how(options))

    def overwrite(self, data: Any, where: str | Any, options: WriteOptions) -> RowChanges:
        """Put rows in place of others."""
        self._check(options)
        return self._table.overwrite(data, where, **_how(options))

    def upsert(self, data: Any, on: str | Sequence[str] | None, blind: bool, options: WriteOptions) -> RowChanges:
        """Update rows by primary key, and insert the others."""
        self._check(options)
        if blind:
            self._refuse("blind upserts", "append replaces rows by primary key without a look at them")
        return self._table.upsert(data, on or (), **_how(options))

    def merge(
        self, data: Any, on: str | Sequence[str], clauses: MergeClauses, blind: bool, options: WriteOptions
    ) -> RowChanges:
        """Merge rows by key."""
        self._check(options)
        if blind:
            self._refuse("blind merges", "append replaces rows by primary key without a look at them")
        request = self._table.request(**_how(options))
        done = merge(request, data, on, clauses)
        self._table.keep(request)
        return done

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
        """Apply change records as records of the table."""
        self._check(options)
        request = self._table.request(options.ref, options.properties)
        columns = RecordColumns(on, op, order_by, before)
        summary = apply_changes(request, data, columns, batch=options.batch)
        self._table.keep(request)
        return summary

    # ---- settings ----

    def change_schema(self, steps: tuple[SchemaStep, ...], allow_incompatible_changes: bool) -> None:
        """Change the schema."""
        self._change(ChangeSchema(steps, allow_incompatible_changes))

    def _change(self, change: SchemaChange) -> None:
        self._table.state = commit_schema(self._table.refresh(), change)

    def change_spec(self, steps: tuple[SpecStep, ...]) -> None:
        """Not in this format."""
        self._refuse("update_spec", "the partition keys of a Paimon table never change")

    def change_sort_order(self, sort_by: tuple[str, ...]) -> None:
        """Not in this format."""
        self._refuse("update_sort_order", "rows of Paimon tables are sorted by their primary key")

    def change_properties(self, updates: Mapping[str, str], removals: tuple[str, ...]) -> None:
        """Set and remove options."""
        self._change(ChangeOptions(updates, removals))

    def upgrade(self, format_version: int) -> None:
        """Not in this format."""
        self._refuse("upgrade", "every commit writes the newest version")

    # ---- upkeep ----

    def analyze(
        self, columns: Sequence[str] | None, full: bool, executor: Executor | None, watcher: Watcher | None
    ) -> AnalyzeSummary:
        """Sketch what is not sketched yet."""
        return self._table.analyze(columns, full=full, executor=executor, watcher=watcher)

    def compact(self, where: str | Any, how: CompactOptions, options: WriteOptions) -> CompactSummary:
        """Merge sorted runs, or put small files together."""
        if how.sort_by is not None or how.z_order is not None:
            self._refuse("sort_by= and z_order=", "rows are sorted by the primary key")
        return self._table.compact(
            where,
            target_file_size_bytes=how.target_file_size_bytes,
            min_input_files=how.min_input_files,
            rewrite_all=how.rewrite_all,
            dry_run=how.dry_run,
            **_how(options),
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
        """Forget old snapshots of `main`; as in Iceberg tables, those stay that the table's options hold for young."""
        if keep_last is not None and older_than is None:
            older_than = datetime.now(UTC) - timedelta(milliseconds=self._table.state.options.snapshot_time_retained_ms)
        told = self._table.expire_snapshots(
            keep_last=keep_last, older_than=older_than, dry_run=dry_run, executor=executor, watcher=watcher
        )
        return ExpireSummary(
            told.snapshot_ids,
            files=tuple(map(table_file, told.files)),
            kept_outside=tuple(map(table_file, told.kept_outside)),
            dry_run=dry_run,
        )

    def rewrite_manifests(self, options: WriteOptions, *, rewrite_all: bool, dry_run: bool) -> ManifestSummary:
        """Not in this format."""
        self._refuse("rewrite_manifests", "commits merge manifests as the options manifest.* say")

    def rewrite_deletes(self, options: WriteOptions, *, min_input_files: int, dry_run: bool) -> DeletesSummary:
        """Not in this format."""
        self._refuse("rewrite_deletes", "a bucket has one deletion vector per file; compact folds them in")

    def reachable(self, executor: Executor | None) -> ReachablePaimonTable:
        """What the table's snapshots, tags, branches, changelogs and consumers reach."""
        return ReachablePaimonTable(self._table.state, executor)

    def add_files(self, locations: Iterable[str], options: WriteOptions) -> None:
        """Not in this format."""
        self._refuse("add_files", "append what they hold")

    def purge(self, drop: Callable[[], None]) -> None:
        """Drop the table with its folder."""
        drop()

    def _check(self, options: WriteOptions) -> None:
        if options.staged:
            self._refuse("staged=True", "write to a branch, and fast-forward to it")

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise UnsupportedError(f"Paimon tables have no {what}: {instead}", location=self.name)


def _how(options: WriteOptions) -> dict[str, Any]:
    """How a write is published, in the words of `PaimonTable`."""
    return {
        "ref": options.ref,
        "snapshot_properties": options.properties,
        "executor": options.executor,
        "watcher": options.watcher,
    }
