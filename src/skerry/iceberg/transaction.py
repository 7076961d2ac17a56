"""Changes of several Iceberg tables that become visible together.

Inside a transaction the commits of jobs are staged: an operation is applied to the table's state as the transaction
sees it, and its manifests and statistics are written, but nothing is published. At the end one request to the catalog
publishes all tables. After a conflict all operations are applied to the newest states, in their order, and staged as
new; those that no longer fit refuse, and with them the whole transaction.

Files follow the protocol of `skerry.table.owned_files`: those of the jobs belong to the transaction until it is
published, those of an attempt until it is lost. After an unknown outcome nothing is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from skerry.errors import CommitUnknownError, ConflictError, SkerryError, UnsupportedError
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.loading import load_state, read_back, state_of, table_of
from skerry.iceberg.catalogs.metadata_files import metadata_after
from skerry.iceberg.catalogs.records import CatalogTable, Identifier, MetadataWrite, TableCommit
from skerry.iceberg.commit import IcebergTarget, StagedCommit
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.metadata.requirements import TableRequirement
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.metadata.table_updates import AddPartitionSpecUpdate, AddSchemaUpdate, SetStatisticsUpdate
from skerry.iceberg.old_metadata import delete_old_metadata
from skerry.iceberg.table import IcebergTable
from skerry.table.arguments import Rows, WriteOptions
from skerry.table.commit import Operation, RetryPolicy
from skerry.table.history import Snapshot
from skerry.table.owned_files import OwnedFiles, PublishStep, after_publish, owned_files

if TYPE_CHECKING:
    from skerry.iceberg.operations import MetadataChange, SnapshotChange
    from skerry.iceberg.writing.layout import FileLayout
    from skerry.table.table import TableCatalog

__all__ = ["IcebergTransaction", "iceberg_transaction"]

_ASSIGNING: Final = (AddSchemaUpdate, AddPartitionSpecUpdate)


@contextmanager
def iceberg_transaction(catalog: IcebergCatalog) -> Iterator[IcebergTransaction]:
    """Stage changes of several tables, and publish them as one when the block ends.

    Raises:
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        ConflictError: Other writers were faster, or changed what the transaction has read; nothing was published.
        UnsupportedError: The catalog changes one table at a time.
    """
    catalog.check_transactions()
    with ExitStack() as owned:
        transaction = IcebergTransaction(catalog, owned)
        try:
            yield transaction
            transaction.publish()
        finally:
            transaction.is_open = False


class IcebergTransaction:
    """The tables of a transaction.

    Args:
        catalog: Their catalog.
        owned: Ends with the transaction, and with its exception; owns what was written.

    Attributes:
        is_open: Whether changes can be staged.
    """

    def __init__(self, catalog: IcebergCatalog, owned: ExitStack) -> None:
        self.is_open = True
        self._catalog = catalog
        self._owned = owned
        self._tables: dict[Identifier, _StagedTable] = {}

    def table(self, identifier: Identifier, catalog: TableCatalog | None = None) -> IcebergTable:
        """A table whose changes are staged.

        Args:
            identifier: Namespace parts and table name.
            catalog: What the table gives as its catalog.

        Raises:
            NotFoundError: There is no such table.
        """
        if not self.is_open:
            raise _ended()
        found = self._tables.get(identifier)
        if found is None:
            state = load_state(self._catalog, identifier)
            changes = _Changes(self._catalog, identifier, state, self._owned)
            handle = _StagingHandle(self, self._catalog, identifier, changes)
            found = self._tables[identifier] = _StagedTable(handle, catalog)
        return found

    def publish(self) -> None:
        """Publish all changes; see `iceberg_transaction`."""
        staging = [table.staging for table in self._tables.values() if table.staging.changes.staged]
        if not staging:
            return
        policies = [RetryPolicy.from_properties(found.changes.origin.properties) for found in staging]
        retry = min(policies, key=lambda policy: policy.num_retries)
        waits = retry.waits_s()
        deadline = time.monotonic() + retry.total_timeout_ms / 1000
        attempts = 1
        while True:
            try:
                states = _publish(self._catalog, [found.changes for found in staging])
                break
            except ConflictError as lost:
                wait = next(waits, None)
                if not lost.retryable or wait is None or time.monotonic() + wait > deadline:
                    lost.message = f"gave up after {attempts} attempt{'s' * (attempts > 1)}: {lost.message}"
                    raise
            time.sleep(wait)
            attempts += 1
            for found in staging:
                found.changes.redo()
        for found, state in zip(staging, states, strict=True):
            found.state = state


class _Changes:
    """The staged changes of one table.

    Args:
        catalog: The catalog.
        identifier: The table.
        origin: The state that they begin with.
        owned: Ends with the transaction.

    Attributes:
        origin: The state that they begin with; the newest one after a conflict.
        state: The state after them.
        staged: What was staged for each operation.
        data_files: Owns the files of jobs.
        attempt: Owns the files of the attempt.
    """

    def __init__(self, catalog: IcebergCatalog, identifier: Identifier, origin: TableState, owned: ExitStack) -> None:
        self.identifier = identifier
        self.origin = self.state = origin
        self.staged: list[StagedCommit] = []
        self._operations: list[Operation[TableState, SnapshotChange | MetadataChange]] = []
        self._target = IcebergTarget(catalog, identifier, origin)
        self._owned = owned
        self.data_files: OwnedFiles = owned.enter_context(owned_files(origin.storage))
        self.attempt: OwnedFiles = owned.enter_context(owned_files(origin.storage))

    def stage(self, operation: Operation[TableState, SnapshotChange | MetadataChange]) -> TableState:
        """Apply an operation, and write what its new state refers to."""
        if self._apply(operation):
            self._operations.append(operation)
        return self.state

    def _apply(self, operation: Operation[TableState, SnapshotChange | MetadataChange]) -> bool:
        change = operation.apply(self.state)
        if change is None:
            return False
        origin = self.origin
        with owned_files(origin.storage) as files:
            staged = self._target.stage(self.state, change, files)
            updates = [update for found in (*self.staged, staged) for update in found.updates]
            metadata = metadata_after(origin.metadata, origin.metadata_location, (), updates)
            files.hand_over(self.attempt)
        self.staged.append(staged)
        table = CatalogTable(self.identifier, metadata, origin.metadata_location, origin.config)
        self.state = state_of(table, origin.storage)
        return True

    def redo(self) -> None:
        """Stage all operations as new, on the newest state.

        Raises:
            ConflictError: One of them does not fit it (not retryable).
        """
        self.attempt.remove()
        assigns_ids = any(isinstance(update, _ASSIGNING) for staged in self.staged for update in staged.updates)
        before, self.origin = self.origin, self._target.load()
        if assigns_ids and _assigned(before) != _assigned(self.origin):
            raise ConflictError(
                "another writer changed columns or partitions, and so does the transaction: files that it wrote may "
                "have their ids; run it again",
                retryable=False,
                location=self.origin.name,
            )
        self.state, self.staged = self.origin, []
        self.attempt = self._owned.enter_context(owned_files(self.origin.storage))
        for operation in self._operations:
            self._apply(operation)

    def combined(self) -> StagedCommit:
        """All operations as one commit."""
        requirements: dict[TableRequirement, None] = {}
        for staged in self.staged:
            for requirement in staged.requirements:
                with suppress(ConflictError):  # what an earlier change of the transaction itself has changed
                    requirement.check(self.origin.metadata)
                    requirements[requirement] = None
        snapshots = [staged.snapshot for staged in self.staged if staged.snapshot is not None]
        files = [staged.statistics_path for staged in self.staged if staged.statistics_path is not None]
        return StagedCommit(
            base=self.origin,
            updates=tuple(update for staged in self.staged for update in staged.updates),
            requirements=tuple(requirements),
            metadata_write=MetadataWrite(self.attempt),
            named=tuple(name for staged in self.staged for name in self._target.named_files(staged)),
            snapshot=snapshots[0] if snapshots else None,
            statistics_path=files[0] if files else None,
        )


def _publish(catalog: IcebergCatalog, tables: list[_Changes]) -> list[TableState]:
    """Publish the changes of several tables, once.

    Raises:
        CommitUnknownError: The outcome is unknown.
        ConflictError: Other writers were faster; what the attempt has written may be deleted.
    """
    commits = [table.combined() for table in tables]
    steps = [PublishStep(commit.named, table.attempt) for table, commit in zip(tables, commits, strict=True)]
    sent = [
        TableCommit(
            table_of(table.origin, table.identifier),
            commit.requirements,
            commit.updates,
            commit.metadata_write,
        )
        for table, commit in zip(tables, commits, strict=True)
    ]
    try:
        found = catalog.commit_tables(sent)
    except ConflictError:
        # a proxy may have repeated a request that a server had executed
        published = None if catalog.writes_metadata else _published(catalog, tables, commits)
        if published is not None:
            return published
        _withdraw(steps)
        raise
    except CommitUnknownError as error:
        return _read_back(catalog, tables, commits, steps, error)
    except BaseException as error:
        if isinstance(error, SkerryError) or not any(commit.metadata_write.may_have_effect for commit in commits):
            _withdraw(steps)
        raise
    states = []
    for number, (table, committed) in enumerate(zip(tables, found, strict=True)):
        with after_publish("deleting statistics that later changes of the transaction replaced"):
            kept = {file.statistics_path for file in table.state.metadata.statistics}
            table.origin.storage.delete(path for path in _statistics_files(commits[number]) if path not in kept)
        if catalog.writes_metadata:
            with after_publish("deleting old metadata files"):
                delete_old_metadata(table.origin, committed.metadata, committed.metadata_location)
        states.append(state_of(committed, table.origin.storage))
    return states


def _statistics_files(commit: StagedCommit) -> list[str]:
    updates = (update for update in commit.updates if isinstance(update, SetStatisticsUpdate))
    return [update.statistics.statistics_path for update in updates]


def _withdraw(steps: list[PublishStep]) -> None:
    for step in steps:
        step.withdraw()


def _read_back(
    catalog: IcebergCatalog,
    tables: list[_Changes],
    commits: list[StagedCommit],
    steps: list[PublishStep],
    error: CommitUnknownError,
) -> list[TableState]:
    """The published states, if the tables show them.

    Raises:
        CommitUnknownError: They do not show it; or only some tables have their changes, against the server's promise.
        ConflictError: They show that nothing was or will be published.
    """
    published = _published(catalog, tables, commits, error)
    if published is not None:
        return published
    never = []
    for table, commit in zip(tables, commits, strict=True):
        with suppress(Exception):  # unknown
            never.append(commit.can_never_be_in(read_back(catalog, table.identifier)))
    # in a database one table proves it for all; a server may have been interrupted between two tables
    is_lost = any(never) if catalog.writes_metadata else len(never) == len(tables) and all(never)
    if is_lost:
        _withdraw(steps)
        raise ConflictError("another writer was first", location=error.location) from error
    raise error


def _published(
    catalog: IcebergCatalog,
    tables: list[_Changes],
    commits: list[StagedCommit],
    error: CommitUnknownError | None = None,
) -> list[TableState] | None:
    """The newest states of all tables if they have the changes; None if no table is known to have them.

    Raises:
        CommitUnknownError: Some have them.
    """
    states: list[TableState] = []
    missing: list[str] = []
    for table, commit in zip(tables, commits, strict=True):
        state = None
        with suppress(Exception):  # unknown
            state = read_back(catalog, table.identifier)
        if state is not None and commit.is_in(state):
            states.append(state)
        else:
            missing.append(".".join(table.identifier))
    if not states:
        return None
    if missing:
        raise CommitUnknownError(
            f"the catalog published the changes of {', '.join(state.name for state in states)}; those of "
            f"{', '.join(missing)} are not visible"
        ) from error
    return states


def _assigned(state: TableState) -> tuple[Any, ...]:
    """What decides which ids new columns, schemas and partition specs get."""
    metadata = state.metadata
    return (
        metadata.last_column_id,
        metadata.last_partition_id,
        metadata.current_schema_id,
        metadata.default_spec_id,
        [schema.schema_id for schema in metadata.schemas],
        [spec.spec_id for spec in metadata.partition_specs],
    )


def _ended() -> SkerryError:
    return SkerryError("the transaction has ended: load the table from the catalog")


class _StagingHandle(IcebergHandle):
    """A handle whose commits are staged, and which sees them.

    Args:
        transaction: The transaction.
        catalog: The catalog.
        identifier: The table.
        changes: Its changes.
    """

    def __init__(
        self, transaction: IcebergTransaction, catalog: IcebergCatalog, identifier: Identifier, changes: _Changes
    ) -> None:
        super().__init__(catalog, identifier, changes.origin)
        self._transaction = transaction
        self.changes = changes

    def refresh(self) -> TableState:
        """The state with the changes of the transaction, and of no other writer."""
        return self.state if self._transaction.is_open else super().refresh()

    def commit_retrying(
        self,
        operation: Operation[TableState, SnapshotChange | MetadataChange],
        retry: Callable[[TableState], RetryPolicy],
    ) -> TableState:
        """Stage an operation."""
        if not self._transaction.is_open:
            raise _ended()
        self.state = self.changes.stage(operation)
        return self.state

    @property
    def _loaded(self) -> TableState:
        return self.changes.origin  # staged states have the location of the metadata that they change

    def layout(self, *, ref: str = MAIN, lineage: bool = False) -> FileLayout:
        """The layout of new files, whose folder belongs to the transaction."""
        layout = super().layout(ref=ref, lineage=lineage)
        self.changes.data_files.add_folder(layout.folder)
        return layout


class _StagedTable(IcebergTable):
    """A table in a transaction: its rows, branches and settings can be changed, upkeep comes afterwards.

    Args:
        staging: Its handle.
        catalog: Its catalog.
    """

    def __init__(self, staging: _StagingHandle, catalog: TableCatalog | None) -> None:
        super().__init__(staging, catalog)
        self.staging = staging

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("a table in a transaction is not pickled", location=self.name)

    def _append(self, data: Rows, options: WriteOptions) -> Snapshot | None:
        if options.batch is not None:
            raise self._not_here("a batch of a stream")
        return super()._append(data, options)

    def _apply_changes(self, data: Rows, *arguments: Any) -> Any:
        if any(isinstance(found, WriteOptions) and found.batch is not None for found in arguments):
            raise self._not_here("a batch of a stream")
        return super()._apply_changes(data, *arguments)

    def _not_here(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{what} cannot be part of a transaction over several tables", location=self.name)

    def _cherry_pick(self, *_: Any) -> Any:
        raise self._not_here("cherry_pick()")

    def _publish(self, *_: Any) -> Any:
        raise self._not_here("publish()")

    def _analyze(self, *_: Any) -> Any:
        raise self._not_here("analyze()")

    def _compact(self, *_: Any) -> Any:
        raise self._not_here("compact()")

    def _rewrite_manifests(self, *_: Any) -> Any:
        raise self._not_here("rewrite_manifests()")

    def _rewrite_deletes(self, *_: Any) -> Any:
        raise self._not_here("rewrite_deletes()")

    def _expire_snapshots(self, *_: Any) -> Any:
        raise self._not_here("expire_snapshots()")

    def _remove_orphans(self, *_: Any) -> Any:
        raise self._not_here("remove_orphans()")

    def connector(self) -> Any:
        raise self._not_here("a write of another engine")
