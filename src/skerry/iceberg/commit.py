"""Commits to an Iceberg table: a decided change becomes manifests, a statistics file and one catalog update.

Everything that a commit writes before the catalog update has a unique name (a fresh uuid), so that attempts and writers
never use the same file. After a conflict those files are removed; after an unknown outcome nothing is
(`skerry.table.owned_files`).

Spec: Iceberg spec, Optimistic Concurrency, Snapshots, Table Statistics.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from skerry.errors import (
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SkerryError,
    UnsupportedError,
)
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.loading import decrypting_state, load_state, read_back, table_of
from skerry.iceberg.catalogs.records import Identifier, MetadataWrite
from skerry.iceberg.manifest_changes import SnapshotManifests, write_manifests
from skerry.iceberg.manifests.cache import shared_cache
from skerry.iceberg.manifests.manifest_list import encode_manifest_list, manifest_codec
from skerry.iceberg.manifests.summary import snapshot_summary, summary_of
from skerry.iceberg.metadata.requirements import AssertRefSnapshotId, AssertTableUUID, TableRequirement
from skerry.iceberg.metadata.snapshot import Snapshot, SnapshotRefType
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_metadata import EncryptedKey, TableMetadata, data_key_bytes
from skerry.iceberg.metadata.table_updates import (
    AddEncryptionKeyUpdate,
    AddSnapshotUpdate,
    RemoveStatisticsUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
    TableUpdate,
)
from skerry.iceberg.old_metadata import delete_old_metadata
from skerry.iceberg.operations import MetadataChange, SnapshotChange
from skerry.iceberg.statistics.published import write_statistics
from skerry.iceberg.statistics.snapshot_sketches import sketches_after
from skerry.iceberg.statistics.thinning import superseded
from skerry.storage import is_within, join
from skerry.table.commit import NotPublishedError
from skerry.table.owned_files import OwnedFiles, after_publish
from skerry.table.statistics.pieces.growing import Growth
from skerry.table.statistics.table_sample import TableSample
from skerry.theta import ThetaSketch

__all__ = ["IcebergTarget", "StagedCommit"]


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """What one attempt wrote and is about to publish.

    Args:
        base: The state that the attempt builds on.
        updates: The catalog update.
        requirements: What the catalog must find for it.
        metadata_write: The metadata file, once the catalog writes it.
        named: Data files, delete files and indexes that were written for the change.
        snapshot: The new snapshot, if there is one.
        statistics_path: The new statistics file, if there is one.
    """

    base: TableState
    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]
    metadata_write: MetadataWrite
    named: tuple[str, ...] = ()
    snapshot: Snapshot | None = None
    statistics_path: str | None = None

    def is_in(self, state: TableState) -> bool:
        """Whether `state` contains what this attempt was to publish."""
        metadata = state.metadata
        written = self.metadata_write.location
        if written is not None and written in (
            state.metadata_location,
            *(entry.metadata_file for entry in metadata.metadata_log),
        ):
            return True
        if self.snapshot is not None:
            return metadata.snapshot_by_id(self.snapshot.snapshot_id) is not None
        if self.statistics_path is not None:
            return any(file.statistics_path == self.statistics_path for file in metadata.statistics)
        return False

    def can_never_be_in(self, state: TableState) -> bool:
        """Whether `state`, which does not contain the attempt, proves that no later one can.

        A metastore's compare-and-swap expects one metadata file, which already has another successor. A REST catalog
        adds no snapshot with a used sequence number, and no new snapshot may descend from the attempt's.
        """
        base = self.base
        if state.metadata.table_uuid != base.metadata.table_uuid or state.metadata_location == base.metadata_location:
            return False
        if self.metadata_write.location is not None:
            log = [entry.metadata_file for entry in state.metadata.metadata_log]
            return self.metadata_write.predecessor in log and state.metadata_location != self.metadata_write.location
        if self.snapshot is None or not self.snapshot.sequence_number or self.snapshot.parent_snapshot_id is None:
            return False
        known = {snapshot.snapshot_id for snapshot in base.metadata.snapshots}
        new = {
            snapshot.snapshot_id: snapshot.parent_snapshot_id
            for snapshot in state.metadata.snapshots
            if snapshot.snapshot_id not in known
        }
        newest = max((snapshot.sequence_number or 0 for snapshot in state.metadata.snapshots), default=0)
        if newest < self.snapshot.sequence_number:
            return False
        return all(parent is None or parent in known or parent in new for parent in new.values())


class _Staging:
    """Stage one attempt; its files are owned before they are written."""

    def __init__(self, base: TableState, files: OwnedFiles) -> None:
        self.base = base
        self.id = uuid.uuid4()
        self.files = files

    def new_file(self, name: str) -> str:
        location = join(self.base.metadata_folder, name)
        self.files.add(location)
        return location


class IcebergTarget:
    """An Iceberg table as a target of the commit loop.

    Args:
        catalog: The catalog that holds the table.
        identifier: Namespace parts and table name.
        known: A state of the expected table. Its metadata is not read again while it is the newest.
        schema_id: The schema that the table had when changes were prepared; None if it is that of their base.
    """

    def __init__(
        self, catalog: IcebergCatalog, identifier: Identifier, known: TableState, schema_id: int | None = None
    ) -> None:
        self.catalog = catalog
        self.identifier = identifier
        self._known = known
        self._folder = known.metadata.location
        self._schema_ids = set() if schema_id is None else {schema_id}

    def load(self) -> TableState:
        """The newest state.

        Raises:
            NotFoundError: The table is gone, or another table has its name.

        Spec: Iceberg spec, Table Metadata Fields, `table-uuid`.
        """
        state = load_state(self.catalog, self.identifier, self._known)
        expected, found = self._known.metadata.table_uuid, state.metadata.table_uuid
        if expected is not None and found != expected:
            raise NotFoundError(
                f"table {state.name!r} was replaced by another one of that name: "
                f"expected uuid {expected}, found {found}"
            )
        self._known = state
        return state

    def stage(self, base: TableState, change: SnapshotChange | MetadataChange, files: OwnedFiles) -> StagedCommit:
        """Write manifests, manifest list and statistics file of the new state.

        Raises:
            ConflictError: The table was moved while the change's files were written.
            UnsupportedError: Nothing can be written to the table, such as to an encrypted one.
        """
        base.storage.check_writable(base.metadata_folder)
        self._check_place(base, change)
        retyped = base.retyped_columns(self._schema_ids | change.schema_ids)
        if retyped:  # their samples have the hashes of other bytes: united with newer ones, values would count twice
            change = change.without_columns(retyped)
        staging = _Staging(base, files)
        return (
            _stage_snapshot(staging, change) if isinstance(change, SnapshotChange) else _stage_metadata(staging, change)
        )

    def _check_place(self, base: TableState, change: SnapshotChange | MetadataChange) -> None:
        """Refuse new files in the folder that the table had when they were written: they would be outside of it.

        Raises:
            ConflictError: There are such files.
        """
        if base.metadata.location == self._folder or not isinstance(change, SnapshotChange):
            return
        for location in _named(change):
            if is_within(self._folder, location) and not is_within(base.metadata.location, location):
                raise ConflictError(
                    f"the table was moved to {base.metadata.location} while a file was written into its former folder; "
                    "nothing was committed, do it again",
                    retryable=False,
                    location=location,
                )

    def named_files(self, staged: StagedCommit) -> Iterable[str]:
        """The data files, delete files and indexes that the change adds."""
        return staged.named

    def publish(self, staged: StagedCommit) -> TableState:
        """Send the catalog update and classify the outcome: committed, conflict, refused, unknown."""
        base, write = staged.base, staged.metadata_write
        table = table_of(base, self.identifier)
        try:
            committed = self.catalog.commit_table(table, staged.requirements, staged.updates, write)
        except ConflictError as error:
            return self._lost(staged, error)
        except CommitUnknownError:
            raise
        except SkerryError as error:
            raise self._refusal(base, error) from error
        except BaseException as error:
            if write.may_have_effect:
                raise
            raise NotPublishedError(error) from error.__cause__
        _check_references(staged, committed.metadata)
        if self.catalog.writes_metadata:  # a server deletes its files itself
            with after_publish("deleting old metadata files"):
                delete_old_metadata(base, committed.metadata, committed.metadata_location)
        return decrypting_state(self.catalog, committed, base.storage)

    def _lost(self, staged: StagedCommit, error: ConflictError) -> TableState:
        """The state with the change after all, if a client or proxy repeated the request to a server.

        Raises:
            ConflictError: Another writer was first.
        """
        if not self.catalog.writes_metadata:
            with suppress(ConflictError):
                published = self.find_published(staged)
                if published is not None:
                    return published
        error.location = error.location or staged.base.name
        raise error

    def _refusal(self, base: TableState, error: SkerryError) -> Exception:
        """Classify a refusal: a conflict if another writer was first, otherwise an error without any effect.

        Requirements do not cover everything: a commit to another branch also takes the next sequence number.
        """
        with suppress(Exception):  # the refusal matters more
            if load_state(self.catalog, self.identifier).metadata_location != base.metadata_location:
                return ConflictError(f"the table has changed in the meantime: {error}", location=base.name)
        return NotPublishedError(error)

    def find_published(self, staged: StagedCommit) -> TableState | None:
        """Reload the table and look for what was to be published.

        Raises:
            ConflictError: It is not there and never will be.
        """
        try:
            state = read_back(self.catalog, self.identifier)
        except Exception:  # noqa: BLE001
            return None
        if staged.is_in(state):
            return state
        if staged.can_never_be_in(state):
            raise ConflictError("another writer was first", location=state.name)
        return None


def _check_references(staged: StagedCommit, metadata: TableMetadata) -> None:
    """Check that a catalog applied an update; Nessie's REST catalog ignores branches and tags of tables.

    Raises:
        NotPublishedError: A branch or tag is not there. The commit has no files that could be lost.
    """
    for update in staged.updates if staged.snapshot is None else ():
        if isinstance(update, SetSnapshotRefUpdate) and update.ref_name not in metadata.refs:
            raise NotPublishedError(
                UnsupportedError(
                    f"the catalog accepted the commit but did not set {update.type} {update.ref_name!r}: it seems not "
                    "to support branches and tags of tables",
                    location=staged.base.name,
                )
            )


def _new_snapshot_id() -> int:
    """A positive random 63-bit id; never 0 and never -1, which readers take for `no snapshot`."""
    return secrets.randbits(62) + 1


def _stage_snapshot(staging: _Staging, change: SnapshotChange) -> StagedCommit:
    base = staging.base
    metadata = base.metadata
    parent = base.branch(change.ref)
    parent_id = parent.snapshot_id if parent is not None else None
    snapshot_id = _new_snapshot_id()
    is_first = metadata.format_version == 1
    sequence_number = 0 if is_first else metadata.last_sequence_number + 1

    staged = write_manifests(
        base,
        parent,
        change,
        snapshot_id=snapshot_id,
        new_file=lambda number: staging.new_file(f"{staging.id}-m{number}.avro"),
    )
    first_row_id = metadata.next_row_id
    timestamp_ms = max(int(time.time() * 1000), metadata.last_updated_ms)
    manifest_list = encode_manifest_list(
        staged.manifests,
        format_version=metadata.format_version,
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_id,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
        codec=manifest_codec(base.properties),
    )
    location = staging.new_file(f"snap-{snapshot_id}-0-{staging.id}.avro")
    data, keys = _encrypted_list(base, manifest_list.data, timestamp_ms)
    base.storage.write(location, data)
    if not keys and base.storage.base is None:  # relative paths would be read as absolute ones
        shared_cache().keep_manifests(base.storage, location, manifest_list.manifests)

    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_id,
        sequence_number=None if is_first else sequence_number,
        # never before its parent's, even if the writers' clocks differ
        timestamp_ms=timestamp_ms,
        manifest_list=location,
        summary=_summary(change, staged, parent),
        schema_id=metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=_added_rows(manifest_list.next_row_id, first_row_id),
        key_id=keys[-1].key_id if keys else None,
    )
    updates: list[TableUpdate] = [AddEncryptionKeyUpdate(encryption_key=key) for key in keys]
    updates.append(AddSnapshotUpdate(snapshot=snapshot))
    if not change.staged:
        updates.append(set_branch(metadata, change.ref, snapshot_id))
    statistics = _statistics_after(staging, snapshot, change)
    unmoved = AssertRefSnapshotId(ref=change.ref, snapshot_id=parent_id)
    return StagedCommit(
        base=base,
        updates=(*updates, *change.updates, *statistics),
        requirements=(*_same_table(metadata), unmoved),
        metadata_write=MetadataWrite(staging.files),
        named=_named(change),
        snapshot=snapshot,
    )


def _named(change: SnapshotChange) -> tuple[str, ...]:
    """The data files, delete files and indexes that were written for a change."""
    return (*(entry.data_file.location for entry in (*change.added, *change.added_deletes)), *change.files)


def _summary(change: SnapshotChange, staged: SnapshotManifests, parent: Snapshot | None) -> dict[str, str]:
    return snapshot_summary(
        change.operation,
        added=(*change.added, *change.added_deletes),
        removed=staged.removed,
        previous=summary_of(parent) if parent is not None else None,
        properties={**staged.summary, **change.properties},
    )


def _encrypted_list(base: TableState, data: bytes, now_ms: int) -> tuple[bytes, tuple[EncryptedKey, ...]]:
    """A manifest list as it is stored, and the keys that the metadata gets; the last one is that of the list."""
    key_bytes = data_key_bytes(base.metadata.properties)
    if key_bytes is None:
        return data, ()
    from skerry.encryption import encode_gcm_stream, new_file_key

    key = new_file_key(key_bytes)
    stored = encode_gcm_stream(data, key)
    return stored, base.storage.keys.add_manifest_list(replace(key, file_length=len(stored)), key_bytes, now_ms)


def _same_table(metadata: TableMetadata) -> list[TableRequirement]:
    """The requirement that the table is the same; some tables of version 1 have no identity."""
    return [] if metadata.table_uuid is None else [AssertTableUUID(uuid=metadata.table_uuid)]


def set_branch(metadata: TableMetadata, name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """The update that moves a branch, which keeps its retention settings."""
    known = metadata.refs.get(name)
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=known.max_ref_age_ms if known is not None else None,
        max_snapshot_age_ms=known.max_snapshot_age_ms if known is not None else None,
        min_snapshots_to_keep=known.min_snapshots_to_keep if known is not None else None,
    )


def _added_rows(next_row_id: int | None, first_row_id: int | None) -> int | None:
    return None if next_row_id is None or first_row_id is None else next_row_id - first_row_id


def _statistics_after(staging: _Staging, snapshot: Snapshot, change: SnapshotChange) -> list[TableUpdate]:
    """Write the statistics file of a new snapshot; the updates that register it and drop entries it supersedes."""
    base = staging.base
    data_bytes = sum(entry.data_file.file_size_bytes for entry in (*change.added, *change.added_deletes))
    sketches, sample = sketches_after(base, change.ref, change.samples, data_bytes)
    registered = _stage_statistics(staging, snapshot, sketches, sample)
    chain = [int(name) for name in sample.names] if isinstance(sample, Growth) else []
    updates: list[TableUpdate] = [*registered]
    for update in registered:
        thinned = superseded(base, snapshot, update.statistics, chain, moves=None if change.staged else change.ref)
        updates += [RemoveStatisticsUpdate(snapshot_id=number) for number in thinned]
    return updates


def _stage_statistics(
    staging: _Staging, snapshot: Snapshot, sketches: Mapping[int, ThetaSketch], sample: TableSample | Growth | None
) -> list[SetStatisticsUpdate]:
    """Write the statistics file of a snapshot and the update that registers it; nothing without sketches or samples.

    Nor for an encrypted table: the file would show what the others hide.
    """
    if (not sketches and sample is None) or data_key_bytes(staging.base.metadata.properties) is not None:
        return []
    location = staging.new_file(f"{snapshot.snapshot_id}-{staging.id}.stats")
    registered = write_statistics(staging.base, location, snapshot, sketches, sample)
    return [SetStatisticsUpdate(snapshot_id=snapshot.snapshot_id, statistics=registered)]


def _stage_metadata(staging: _Staging, change: MetadataChange) -> StagedCommit:
    base = staging.base
    statistics: list[SetStatisticsUpdate] = []
    if change.snapshot_id is not None:
        snapshot = base.snapshot_by_id(change.snapshot_id)
        statistics = _stage_statistics(staging, snapshot, change.sketches, change.sample)
    return StagedCommit(
        base=base,
        updates=(*change.updates, *statistics),
        requirements=(*_same_table(base.metadata), *change.requirements),
        metadata_write=MetadataWrite(staging.files),
        named=change.files,
        statistics_path=statistics[0].statistics.statistics_path if statistics else None,
    )
