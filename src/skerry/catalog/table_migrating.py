"""Migration of a table to the other format under the same name; its data files are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skerry.catalog.iceberg_tables import IcebergTables
from skerry.catalog.paimon_tables import PaimonTables
from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    SkerryError,
    UnsupportedError,
)
from skerry.iceberg.handle import IcebergHandle
from skerry.migration.iceberg_to_paimon import PaimonDraft, plan_paimon, publish_paimon
from skerry.migration.metadata_removal import MetadataRemoval
from skerry.migration.paimon_to_iceberg import IcebergDraft, NewMetadata, plan_iceberg, publish_files
from skerry.table.history import MAIN, Ref
from skerry.table.owned_files import PublishStep, after_publish, log_failures, owned_files
from skerry.table.summaries import MigrationSummary
from skerry.table.work.tasks import Executor, ProgressCallback

__all__ = ["TableMigration"]

_SUFFIX = "__migrating"
"""Suffix of an Iceberg table's temporary name in the catalog during a migration."""


@dataclass(frozen=True)
class TableMigration:
    """Migrates tables from one format to the other.

    Args:
        iceberg: The Iceberg tables of a catalog.
        paimon: Its Paimon tables.
        partition_by: Columns that the new table is partitioned by; those of the old one if None.
        properties: Further properties of the new table.
        format_version: Version of the new Iceberg table; 2 if None.
        dry_run: Only report what the table would be.
        executor: Where footers are read.
        progress: Called with the progress.
    """

    iceberg: IcebergTables
    paimon: PaimonTables
    partition_by: Sequence[str] | None = None
    properties: Mapping[str, str] | None = None
    format_version: int | None = None
    dry_run: bool = False
    executor: Executor | None = None
    progress: ProgressCallback | None = None

    def to_paimon(self, name: str) -> MigrationSummary:
        """Migrate an Iceberg table to a Paimon append table. See `Catalog.migrate`.

        It is renamed first: a writer that tries to commit finds no such table, so that no commit is lost.
        """
        if self.format_version is not None:
            raise UnsupportedError("format_version= is only for Iceberg tables")
        old = self.iceberg.load(name)
        old.storage.check_writable(old.location)
        _check_refs(name, list(old.refs().values()))
        draft = self._plan_paimon(old.handle)
        summary = _summary(draft, dry_run=self.dry_run)
        if self.dry_run:
            return summary
        location = self.paimon.location(name)
        temporary = self._temporary(name)
        with owned_files(self.paimon.storage) as files:
            try:
                self.iceberg.rename(name, temporary)
                table = self.iceberg.load(temporary).handle
                if table.state.metadata_location != draft.state.metadata_location:
                    draft = self._plan_paimon(table)
                    summary = _summary(draft)
                publish_paimon(draft, self.paimon.storage, location, name, files)
            except BaseException as error:
                if files.may_be_published or isinstance(error, CommitUnknownError):
                    what = f"drop {temporary!r} without purge, otherwise rename it back"
                    _say(error, f"if {name!r} is a Paimon table now, {what}")
                else:
                    with log_failures(f"{temporary!r} was not renamed back to {name!r}"):
                        if not self.iceberg.exists(name):
                            self.iceberg.rename(temporary, name)
                raise
        with after_publish(f"dropping {temporary!r}, which must be dropped without purge,"):
            self._drop_name(temporary)
        return summary

    def to_iceberg(self, name: str) -> MigrationSummary:
        """Migrate a Paimon append table to an Iceberg table. See `Catalog.migrate`.

        The Iceberg table is complete, under another name, before the Paimon table is removed.
        """
        if self.partition_by is not None:
            raise UnsupportedError(
                "partition_by= is only for migrations to Paimon: the Iceberg table keeps the partition keys"
            )
        table = self.paimon.load(name)
        _check_refs(name, list(table.refs().values()))
        state = table.handle.refresh()
        draft = plan_iceberg(
            state,
            format_version=2 if self.format_version is None else self.format_version,
            properties=self.properties,
            executor=self.executor,
            progress=self.progress,
        )
        summary = _summary(draft, dry_run=self.dry_run)
        if self.dry_run:
            return summary
        temporary = self._temporary(name)
        removal = MetadataRemoval(state)
        with owned_files(state.storage) as files:
            metadata = NewMetadata(draft, files)
            location = metadata.write_first()
            PublishStep((), files)  # from here on the catalog may refer to the metadata
            try:
                self.iceberg.register(temporary, location)
                publish_files(draft, self.iceberg.load(temporary).handle)
                removal.hide()
                self.iceberg.rename(temporary, name)
            except BaseException as error:
                if not self._has_come(temporary, name, error):
                    removal.restore()
                    files.unpublish()
                    raise
                if not isinstance(error, Exception):
                    raise
        with after_publish("deleting the snapshots of the Paimon table"):
            removal.finish()
        return summary

    def _has_come(self, temporary: str, name: str, error: BaseException) -> bool:
        """Whether an Iceberg table has its final name although the migration failed; otherwise it is dropped.

        A dropped table cannot be renamed by a request that is still in flight.

        Raises:
            CommitUnknownError: That cannot be known.
        """
        try:
            if self.iceberg.exists(temporary):
                self.iceberg.drop(temporary, purge=False)
                return False
            return self.iceberg.exists(name)
        except Exception as failure:
            what = f"if {name!r} is not an Iceberg table now, rename {temporary!r} to it"
            if not isinstance(error, Exception):
                error.add_note(what)
                raise error from failure
            raise CommitUnknownError(
                f"the table may or may not have been migrated: {error}; {what}", location=name
            ) from failure

    def _drop_name(self, temporary: str) -> None:
        """Drop the old name; tried twice, since whoever drops a name that stays may purge the new table's files."""
        try:
            self.iceberg.drop(temporary, purge=False)
        except SkerryError:
            if self.iceberg.exists(temporary):
                self.iceberg.drop(temporary, purge=False)

    def _plan_paimon(self, table: IcebergHandle) -> PaimonDraft:
        return plan_paimon(
            table.refresh(),
            partition_by=self.partition_by,
            properties=self.properties,
            executor=self.executor,
            progress=self.progress,
        )

    def _temporary(self, name: str) -> str:
        temporary = name + _SUFFIX
        if self.iceberg.exists(temporary):
            raise AlreadyExistsError(
                f"table {temporary!r} exists: {name!r} is being migrated, or an earlier migration was interrupted. In "
                f"the latter case, if {name!r} is a table, drop {temporary!r} without purge, otherwise rename it to "
                f"{name!r}"
            )
        return temporary


def _check_refs(name: str, refs: Sequence[Ref]) -> None:
    """Refuse a table with other branches or tags: only the newest snapshot of `main` is migrated."""
    others = [ref for ref in refs if ref.name != MAIN]
    if others:
        kind = others[0].kind
        raise UnsupportedError(
            f"only the newest snapshot is migrated, but the table has {len(others)} other branches or tags, such as "
            f"the {kind} {others[0].name!r}: drop them first",
            location=name,
        )


def _say(error: BaseException, what: str) -> None:
    """Add to the error or interruption that ended a migration what to do about it."""
    if isinstance(error, SkerryError):
        error.message += f"; {what}"
    else:
        error.add_note(what)


def _summary(draft: IcebergDraft | PaimonDraft, *, dry_run: bool = False) -> MigrationSummary:
    return MigrationSummary(len(draft.files), draft.size_bytes, draft.arrow_schema, tuple(draft.partition_by), dry_run)
