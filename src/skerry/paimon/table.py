"""A Paimon table: its newest known state, and the operations on it, named as those of `skerry.catalog.Table`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.paimon.commit import PaimonTarget, retry_policy
from skerry.paimon.jobs.analyze import analyze
from skerry.paimon.jobs.append import ChangeRequest, append, overwrite_partitions
from skerry.paimon.jobs.compact import compact, compact_due
from skerry.paimon.jobs.compact_tasks import CompactionRules
from skerry.paimon.jobs.delete import delete, overwrite, upsert
from skerry.paimon.jobs.expire import ExpiryPlan, ExpiryRule, expire_snapshots
from skerry.paimon.metadata.creation import create_table, first_schema
from skerry.paimon.metadata.fallback_branch import fallback_state
from skerry.paimon.metadata.paths import MAIN_BRANCH
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.state import PaimonState, load_state
from skerry.paimon.operations import CommitId, TableChange
from skerry.paimon.planning.partition_choice import names_partitions, partitions_where
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.reading.scan import PaimonScan
from skerry.paimon.statistics.branches import column_freshness, column_statistics
from skerry.paimon.table_refs import TableRefs
from skerry.storage import Storage
from skerry.storage import name as folder_name
from skerry.table.commit import Operation, commit
from skerry.table.predicate import parse
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness
from skerry.table.summaries import AnalyzeSummary, CompactSummary, RowChanges
from skerry.table.tasks import Executor, ThreadExecutor, Watcher

__all__ = ["PaimonTable"]


class PaimonTable(TableRefs):
    """One Paimon table in a folder.

    Args:
        state: A state of its main branch.
    """

    # ---- making and finding ----

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
        """Make a table.

        Args:
            storage: Access to its files.
            location: Its folder.
            schema: Its columns.
            partition_by: Names of the partition keys.
            primary_key: Names of the columns that identify a row.
            properties: Its options, in Paimon's words.
            comment: What it is.
            name: Its name, for messages; the folder's if None.

        Raises:
            AlreadyExistsError: There is a table already.
            SchemaError: A column, key or option does not fit.
            UnsupportedError: An option is not supported; the message names it.
        """
        made = first_schema(
            schema, partition_by=partition_by, primary_key=primary_key, properties=properties, comment=comment
        )
        return cls(create_table(storage, location, made, name=name or folder_name(location)))

    @classmethod
    def open(cls, storage: Storage, location: str, *, name: str | None = None) -> Self:
        """Load a table.

        Raises:
            NotFoundError: There is none.
        """
        return cls(load_state(storage, location, table=name))

    def commit(self, operation: Operation[PaimonState, TableChange], *, ref: str = MAIN_BRANCH) -> PaimonState:
        """Commit an operation through the one commit loop.

        Raises:
            ConflictError: Other writers won every race, or the operation does not fit what they did.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        """
        state = commit(operation, self._target(ref), retry_policy)
        if ref == MAIN_BRANCH:
            self.state = state
        return state

    def request(
        self,
        ref: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> ChangeRequest:
        """What jobs that change rows want to know; `keep` it afterwards to see what they did."""
        return ChangeRequest(
            self._target(ref),
            dict(snapshot_properties or {}),
            books=self._books,
            executor=executor or ThreadExecutor(),
            watcher=watcher,
        )

    def keep(self, request: ChangeRequest) -> PaimonState:
        """Go on with the newest state that a request has seen: what follows a publish step reads nothing more."""
        state = request.target.newest or request.target.load()
        if state.branch == MAIN_BRANCH:
            self.state = state
        return state

    def _target(self, ref: str) -> PaimonTarget:
        if ref != MAIN_BRANCH:
            self.check_branch(ref)
        return PaimonTarget(self.state.storage, self.state.location, ref, self.state.name)

    # ---- identity ----

    @property
    def name(self) -> str:
        """Its name."""
        return self.state.name

    @property
    def location(self) -> str:
        """Its folder."""
        return self.state.location

    @property
    def version(self) -> str:
        """What tells the rows at hand from others: the state, and that of the branch that it falls back to."""
        fallback = fallback_state(self.state)
        return self.state.version if fallback is None else f"{self.state.version} {fallback.version}"

    @property
    def schema(self) -> pa.Schema:
        """The newest schema; fields carry their id in the metadata `PARQUET:field_id`."""
        return self.state.arrow_schema

    @property
    def properties(self) -> dict[str, str]:
        """The table's options."""
        return self.state.properties

    @property
    def partition_by(self) -> list[str]:
        """Names of the partition keys."""
        return list(self.state.schema.partition_keys)

    @property
    def primary_key(self) -> list[str]:
        """Names of the columns that identify a row; none in append tables."""
        return list(self.state.schema.primary_keys)

    # ---- reading ----

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Any = None,
        *,
        limit: int | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: datetime | None = None,
    ) -> PaimonScan:
        """Describe a read of the table; see `skerry.paimon.reading.fallback_scan.scan`."""
        return scan(self.state, columns, where, limit=limit, snapshot=snapshot, ref=ref, as_of=as_of)

    def statistics(self, where: str | Any = None) -> dict[str, ColumnStatistics]:
        """What is known about every primitive column; see `skerry.paimon.statistics.branches.column_statistics`."""
        return column_statistics(self.state, where)

    def freshness(self) -> dict[str, Freshness]:
        """How far the distinct count of every primitive column holds, without a look at the data."""
        return column_freshness(self.state)

    # ---- rows ----

    def append(
        self,
        data: Any,
        *,
        ref: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        commit_id: CommitId | None = None,
        watermark: int | None = None,
    ) -> Snapshot | None:
        """Add rows; in a primary-key table they take the place of rows with their keys, as its merge engine says.

        Buckets that have too many sorted runs then (`num-sorted-run.compaction-trigger`) are compacted in a commit of
        its own, unless the table is `write-only`.

        Args:
            data: Anything with the Arrow C stream interface.
            ref: The branch.
            snapshot_properties: The snapshot's properties.
            commit_id: Who commits what: a commit that was made already is not made again. A new one if None.
            watermark: Event time that the rows have reached, in milliseconds.

        Returns:
            The branch's snapshot.

        Raises:
            NotFoundError: There is no such branch.
            SchemaError: The data does not fit the table; nothing was written.
            UnsupportedError: An option of the table is not supported for writing.
            ConflictError: Other writers won every race; the files written were removed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        """
        target = self._target(ref)
        request = ChangeRequest(target, dict(snapshot_properties or {}), commit_id, watermark, self._books)
        state = append(request, data)
        compact_due(request, state)
        self.keep(request)
        return state.snapshot

    def overwrite(
        self,
        data: Any,
        where: str | Any = None,
        *,
        ref: str = MAIN_BRANCH,
        dynamic: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> RowChanges:
        """Put rows in place of those that a condition holds for, in one commit.

        Args:
            data: The new rows: anything with the Arrow C stream interface. The condition need not hold for them.
            where: Which rows they replace: SQL text or a PyArrow expression; all rows if None.
            ref: The branch.
            dynamic: Replace the partitions that get rows, and no others (Paimon's `dynamic-partition-overwrite`).
            snapshot_properties: The snapshot's properties.
            executor: Where files are read and rewritten; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            SchemaError: `where` or the data does not fit the table's columns.
            UnsupportedError: The table's merge engine knows no deletes; the message names the option.
        """
        request = self.request(ref, snapshot_properties, executor, watcher)
        if where is None:
            counts = overwrite_partitions(request, data, None, dynamic=dynamic)
        else:
            counts = overwrite(request, data, where)
        self.keep(request)
        return counts

    def delete(
        self,
        where: str | Any,
        *,
        ref: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> RowChanges:
        """Delete the rows that a condition holds for.

        Whole partitions go by metadata alone. Else files of append tables are written anew, or get deletion vectors
        where the option `deletion-vectors.enabled` is set; rows of primary-key tables are taken away by records.

        Args:
            where: Which rows: SQL text or a PyArrow expression.
            ref: The branch.
            snapshot_properties: The snapshot's properties.
            executor: Where files are read and rewritten; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: `where` is no condition.
            SchemaError: `where` does not fit the table's columns.
            UnsupportedError: The table's merge engine knows no deletes; the message names the option.
        """
        request = self.request(ref, snapshot_properties, executor, watcher)
        schema = self.branch_state(ref).schema
        if where is not None and names_partitions(parse(where, schema.arrow_schema), schema):
            counts = overwrite_partitions(request, None, self._partitions(where, ref))
        else:
            counts = delete(request, where)
        self.keep(request)
        return counts

    def upsert(
        self,
        data: Any,
        on: str | Sequence[str] = (),
        *,
        ref: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> RowChanges:
        """Update the rows that have the keys of new rows, and insert the new rows whose keys no row has.

        Args:
            data: The new rows: anything with the Arrow C stream interface, held in memory.
            on: The key columns; the primary key if there is one.
            ref: The branch.
            snapshot_properties: The snapshot's properties.
            executor: Where files are read and rewritten; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            SchemaError: The data does not fit the table, or a key is in it twice; the message names it.
            UnsupportedError: `on` is not the primary key of a table that has one.
        """
        request = self.request(ref, snapshot_properties, executor, watcher)
        counts = upsert(request, data, [on] if isinstance(on, str) else on)
        if request.target.newest is not None:
            compact_due(request, request.target.newest)
        self.keep(request)
        return counts

    def truncate(self, *, ref: str = MAIN_BRANCH, snapshot_properties: Mapping[str, str] | None = None) -> RowChanges:
        """Delete all rows."""
        request = self.request(ref, snapshot_properties)
        counts = overwrite_partitions(request, None, None)
        self.keep(request)
        return counts

    # ---- upkeep ----

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        full: bool = False,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> AnalyzeSummary:
        """Sketch the rows that are not sketched yet, and publish sketches of all rows.

        Args:
            columns: Dotted names; those that the table's options choose if None.
            full: Whether to sketch all files anew.
            executor: Where to sketch; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            SchemaError: A column does not exist.
            ConflictError: Others wrote to the table again and again.
        """
        request = self.request(executor=executor, watcher=watcher)
        counts = analyze(request, columns, full=full)
        self.keep(request)
        return counts

    def compact(
        self,
        where: str | Any = None,
        *,
        target_file_size_bytes: int | None = None,
        min_input_files: int | None = None,
        rewrite_all: bool = False,
        ref: str = MAIN_BRANCH,
        dry_run: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> CompactSummary:
        """Merge sorted runs and small files; rows stay the same.

        Args:
            where: Only partitions for which this is true: SQL text or a PyArrow expression on partition keys.
            target_file_size_bytes: The size that files are to have; `target-file-size` if None.
            min_input_files: So many small files of an append table are made one, even if they do not fill it;
                `compaction.min.file-num` if None.
            rewrite_all: Merge every bucket to its highest level; else those that have too many sorted runs.
            ref: The branch.
            dry_run: Only tell what would be done.
            snapshot_properties: The snapshot's properties.
            executor: Where buckets are compacted; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            ConflictError: Others compacted the same files, again and again.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            UnsupportedError: The condition is about other columns than partition keys, or the table is of a kind that
                is not compacted.
        """
        schema = self.branch_state(ref).schema
        if where is not None and not names_partitions(parse(where, schema.arrow_schema), schema):
            raise UnsupportedError("only whole partitions are compacted: the condition must be on partition keys")
        request = self.request(ref, snapshot_properties, executor, watcher)
        counts = compact(
            request,
            CompactionRules(rewrite_all, self._partitions(where, ref), min_input_files),
            target_file_size=target_file_size_bytes,
            dry_run=dry_run,
        )
        self.keep(request)
        return counts

    def expire_snapshots(
        self,
        *,
        keep_last: int | None = None,
        older_than: datetime | None = None,
        ref: str = MAIN_BRANCH,
        dry_run: bool = False,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> ExpiryPlan:
        """Forget old snapshots, and delete the files that only they need.

        What tags and branches need stays, and no snapshot goes that a consumer has still to read. Without arguments the
        options `snapshot.num-retained.min`, `.max` and `snapshot.time-retained` decide.

        Args:
            keep_last: So many of the newest snapshots stay, however old; all others go, unless `older_than` is given.
            older_than: Only snapshots from before this moment go (UTC if it has no zone).
            ref: The branch.
            dry_run: Only tell what would be done.
            executor: Where manifests are read; threads of this process by default.
            watcher: Called with the progress.

        Raises:
            FormatError: Metadata is corrupt; nothing was changed.
            NotFoundError: A metadata file is missing; nothing was changed.
            SchemaError: An argument makes no sense.
            UnsupportedError: Changelogs are to be kept longer than snapshots.
        """
        state = self.branch_state(ref)
        rule = ExpiryRule.of(state, keep_last, older_than)
        return expire_snapshots(state, rule, dry_run=dry_run, executor=executor, watcher=watcher)

    def _partitions(self, where: str | Any, ref: str) -> Callable[[Collection[bytes]], Collection[bytes]] | None:
        if where is None:
            return None
        schema = self.branch_state(ref).schema
        predicate = parse(where, schema.arrow_schema)
        return partitions_where(predicate, schema)
