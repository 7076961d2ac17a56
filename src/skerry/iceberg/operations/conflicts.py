"""Conflict detection: what other writers committed since a job's starting snapshot, and whether that conflicts.

A job reads one snapshot, its *starting snapshot*, and commits on top of the current tip of the branch. Only the
manifests that the snapshots in between added are read: their entries show which files were added and removed.

Spec: Iceberg spec, Commit Conflict Resolution and Retry. The rules are those of Iceberg's isolation levels
`serializable` and `snapshot`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import ConflictError, SchemaError
from skerry.iceberg.manifests.cache import shared_cache
from skerry.iceberg.manifests.file_batch import conform_partition
from skerry.iceberg.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifests.map_columns import METRIC_COLUMNS
from skerry.iceberg.manifests.reader import partition_tuples, read_manifest
from skerry.iceberg.manifests.references import FILE_PATH_ID
from skerry.iceberg.manifests.snapshot_manifests import read_manifests, spec_of
from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.snapshot import Operation, Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.partitioning.projection import project
from skerry.iceberg.planning.metrics import column_metrics, partition_metrics
from skerry.table.predicate import Predicate, evaluate
from skerry.table.rows.schema import nearest

__all__ = ["Conflicts", "Isolation"]

_RULE = "Iceberg spec, Commit Conflict Resolution and Retry"
_MAX_SHOWN = 200


class Isolation(Enum):
    """Isolation levels: which concurrent changes a job may ignore."""

    SERIALIZABLE = "serializable"
    """None: the result is as if the job had begun after them."""
    SNAPSHOT = "snapshot"
    """Added rows: the result is as if the job had read before them."""

    @classmethod
    def parse(cls, text: str) -> Isolation:
        """Read the value of a property such as `write.delete.isolation-level`.

        Raises:
            SchemaError: There is no such level.
        """
        try:
            return cls(text.strip().lower())
        except ValueError:
            choices = nearest(text, (level.value for level in cls))
            raise SchemaError(f"there is no isolation level {text!r}{choices}") from None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], action: str) -> Isolation:
        """Read `write.delete.isolation-level` or `write.merge.isolation-level`.

        Args:
            properties: The table's properties.
            action: Selects the property: `delete` or `merge`.

        Raises:
            SchemaError: There is no such level.
        """
        name = f"write.{action}.isolation-level"
        text = properties.get(name, cls.SERIALIZABLE.value)
        try:
            return cls.parse(text)
        except SchemaError:
            choices = nearest(text, (level.value for level in cls))
            raise SchemaError(f"table property {name} is {text!r}{choices}") from None


class Conflicts:
    """The changes on a branch since a snapshot, and the rules that refuse some of them.

    Args:
        base: The table's newest state.
        ref: The branch.
        starting_snapshot_id: The snapshot that was read; None if the branch had none.

    Every rule raises `ConflictError`, not retryable, also if the branch no longer descends from that snapshot or the
    history in between has expired.
    """

    def __init__(self, base: TableState, ref: str, starting_snapshot_id: int | None) -> None:
        self._base = base
        self._ref = ref
        self._starting_snapshot_id = starting_snapshot_id
        self._tip = base.snapshot(ref)

    def may_have_new_key_deletes(self) -> bool:
        """Whether other writers may have added equality deletes: no snapshot with deletes is an append."""
        for snapshot in ancestors(self._base.metadata, self._tip):
            if snapshot.snapshot_id == self._starting_snapshot_id:
                return False
            if snapshot.operation not in (Operation.APPEND, Operation.REPLACE):
                return True
        return self._starting_snapshot_id is not None

    # ---- rules ----

    def refuse_removed_files(self, locations: Collection[str], *, unless_rows_deleted: bool = False) -> None:
        """Refuse if others removed data files that the job replaces or deletes rows of.

        Args:
            locations: The files.
            unless_rows_deleted: Whether files all of whose rows were deleted are not a conflict: a job that only
                deletes has nothing left to do there.

        Raises:
            ConflictError: naming the file and the snapshot (not retryable).
        """
        if not locations:
            return
        wanted = pa.array(sorted(locations), pa.string())
        for snapshot, file in self._added_manifests(ManifestContent.DATA):
            if file.deleted_files_count == 0 or (unless_rows_deleted and snapshot.operation is Operation.DELETE):
                continue
            entries = self._read(file, "status", "snapshot_id", "file_path")
            gone = entries.filter(_of_snapshot(entries, EntryStatus.DELETED, snapshot)).column("file_path")
            for path in gone.filter(pc.is_in(gone, wanted)):
                raise _conflict(snapshot, f"removed data file {path}, which this commit changes", self._base.name)

    def refuse_new_vectors(self, locations: Collection[str]) -> None:
        """Refuse if others added deletion vectors to data files to which the job adds its own.

        Raises:
            ConflictError: naming the file and the snapshot (not retryable).

        Spec: Iceberg spec, Deletion Vectors: at most one of them for a data file.
        """
        if not locations:
            return
        for snapshot, entry, _ in self._added_deletes():
            if entry.is_deletion_vector and entry.referenced_data_file in locations:
                raise _conflict(
                    snapshot, f"added a deletion vector to data file {entry.referenced_data_file}", self._base.name
                )

    def refuse_new_deletes(self, conflict_filter: Predicate, *, of: Collection[str], by_keys: bool = True) -> None:
        """Refuse if others deleted rows of data files that the job rewrites.

        Args:
            conflict_filter: Delete files of partitions that it excludes are not a conflict.
            of: Locations of the data files.
            by_keys: Whether equality deletes count.

        Raises:
            ConflictError: naming the delete file and the snapshot (not retryable).
        """
        if not of:
            return
        partitions = functools.cache(lambda: self._partitions_of(of))
        for snapshot, entry, may_match in self._added_deletes(conflict_filter):
            if not may_match or snapshot.operation is Operation.REPLACE:
                continue
            if entry.content is FileContent.EQUALITY_DELETES and not by_keys:
                continue
            if self._may_apply(entry, of, partitions):
                location = entry.data_file.location
                raise _conflict(
                    snapshot, f"deleted rows of data files that this commit replaces, by {location}", self._base.name
                )

    def refuse_new_rows(self, conflict_filter: Predicate) -> None:
        """Refuse if others added rows that the job would have had to read.

        Args:
            conflict_filter: What it read. Partitions and column metrics show which rows a file may contain.

        Raises:
            ConflictError: naming the data file and the snapshot (not retryable).
        """
        columns = ("status", "snapshot_id", "file_path", "partition", "record_count", *METRIC_COLUMNS)
        for snapshot, file in self._added_manifests(ManifestContent.DATA):
            if file.added_files_count == 0 or snapshot.operation is Operation.REPLACE:
                continue
            entries = self._read(file, *columns)
            entries = entries.filter(_of_snapshot(entries, EntryStatus.ADDED, snapshot))
            for row in np.flatnonzero(self._may_match(conflict_filter, file, entries, by_metrics=True)).tolist():
                path = entries.column("file_path")[row]
                what = f"added data file {path}, which may contain rows of {_shown(conflict_filter)}"
                raise _conflict(snapshot, what, self._base.name)

    # ---- what others did ----

    def _added_manifests(self, content: ManifestContent) -> Iterator[tuple[Snapshot, ManifestFile]]:
        """The manifests that each snapshot since the starting one wrote."""
        for snapshot, listed in self._listed:
            for file in listed:
                if file.content is content and file.added_snapshot_id == snapshot.snapshot_id:
                    yield snapshot, file

    @functools.cached_property
    def _listed(self) -> list[tuple[Snapshot, list[ManifestFile]]]:
        """The snapshots since the starting one, newest first, with their manifests; read on demand."""
        snapshots = tuple(_since(self._base, self._tip, self._ref, self._starting_snapshot_id))
        return [(snapshot, read_manifests(self._base.storage, snapshot)) for snapshot in snapshots]

    def _added_deletes(
        self, conflict_filter: Predicate | None = None
    ) -> Iterator[tuple[Snapshot, ManifestEntry, bool]]:
        """The delete files that others added, and whether their partition may contain rows of the filter."""
        for snapshot, file in self._added_manifests(ManifestContent.DELETES):
            if file.added_files_count == 0:
                continue
            entries = self._read(file, "status", "snapshot_id", "partition")
            rows = np.flatnonzero(_of_snapshot(entries, EntryStatus.ADDED, snapshot)).tolist()
            may = self._may_match(conflict_filter, file, entries, by_metrics=False)
            spec = spec_of(self._base.metadata, file)
            for row, entry in zip(rows, read_manifest(self._base.storage, file).entries(rows, spec=spec), strict=True):
                yield snapshot, entry, bool(may[row])

    def _may_match(
        self, predicate: Predicate | None, file: ManifestFile, entries: pa.RecordBatch, *, by_metrics: bool
    ) -> npt.NDArray[np.bool_]:
        """Which files may contain, or delete, rows of a predicate."""
        if predicate is None:
            return np.ones(entries.num_rows, bool)
        spec = spec_of(self._base.metadata, file)
        projected = project(predicate, self._base.schema_with(spec), spec)
        may = evaluate(projected, partition_metrics(spec, entries), entries.num_rows).may
        if by_metrics:
            may = may & evaluate(predicate, column_metrics(entries), entries.num_rows).may
        return may

    def _read(self, file: ManifestFile, *columns: str) -> pa.RecordBatch:
        """Columns of a manifest, partitions in the order of the spec."""
        entries = shared_cache().read(self._base.storage, file, columns)
        if "partition" not in columns:
            return entries
        spec = spec_of(self._base.metadata, file)
        partition = conform_partition(entries.column("partition"), spec, file.manifest_path)
        return entries.set_column(columns.index("partition"), "partition", partition)

    # ---- which files deletes are of ----

    def _may_apply(
        self, entry: ManifestEntry, locations: Collection[str], partitions: Callable[[], set[tuple[Any, ...]]]
    ) -> bool:
        """Whether a delete file may apply to one of the data files.

        Spec: Iceberg spec, Scan Planning: deletes apply to data files of their partition; equality deletes of an
        unpartitioned spec to all.
        """
        if entry.referenced_data_file is not None:
            return entry.referenced_data_file in locations
        file = entry.data_file
        if entry.content is FileContent.EQUALITY_DELETES:
            if self._base.metadata.specs()[file.spec_id].is_unpartitioned():
                return True
        elif FILE_PATH_ID in file.lower_bounds and FILE_PATH_ID in file.upper_bounds:
            lower, upper = file.lower_bounds[FILE_PATH_ID], file.upper_bounds[FILE_PATH_ID]
            if not any(lower <= location.encode() <= upper for location in locations):
                return False
        return _partition_key(file.spec_id, file.partition) in partitions()

    def _partitions_of(self, locations: Collection[str]) -> set[tuple[Any, ...]]:
        """The partitions of given data files of the branch."""
        found: set[tuple[Any, ...]] = set()
        if self._tip is None:
            return found
        wanted = pa.array(sorted(locations), pa.string())
        for file in read_manifests(self._base.storage, self._tip):
            if file.content is ManifestContent.DATA and file.has_live_files:
                files = self._read(file, "file_path", "partition")
                files = files.filter(pc.is_in(files.column("file_path"), wanted))
                found |= {
                    _partition_key(file.partition_spec_id, values)
                    for values in partition_tuples(files.column("partition"))
                }
        return found


def _since(base: TableState, tip: Snapshot | None, ref: str, starting_snapshot_id: int | None) -> Iterator[Snapshot]:
    """The snapshots of a branch that are younger than the starting one, newest first."""
    walk = tip
    while walk is not None and walk.snapshot_id != starting_snapshot_id:
        yield walk
        parent = walk.parent_snapshot_id
        walk = base.metadata.snapshot_by_id(parent) if parent is not None else None
        if walk is None and (parent is not None or starting_snapshot_id is not None):
            raise ConflictError(
                f"branch {ref!r} does not descend from snapshot {starting_snapshot_id}, which this commit was built "
                "on, or the snapshots in between have expired",
                retryable=False,
                location=base.name,
                rule=_RULE,
            )
    if walk is None and starting_snapshot_id is not None and tip is None:
        raise ConflictError(
            f"branch {ref!r} no longer has snapshots, but this commit was built on {starting_snapshot_id}",
            retryable=False,
            location=base.name,
            rule=_RULE,
        )


def _of_snapshot(entries: pa.RecordBatch, status: EntryStatus, snapshot: Snapshot) -> pa.Array:
    return pc.and_(
        pc.equal(entries.column("status"), int(status)), pc.equal(entries.column("snapshot_id"), snapshot.snapshot_id)
    )


def _partition_key(spec_id: int, partition: tuple[Any, ...]) -> tuple[Any, ...]:
    return (spec_id, *map(repr, partition))  # as text, because no NaN equals another


def _shown(predicate: Predicate) -> str:
    """A predicate for a message; one that lists the keys of a merge may be long."""
    text = str(predicate)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _conflict(snapshot: Snapshot, what: str, table: str) -> ConflictError:
    return ConflictError(
        f"snapshot {snapshot.snapshot_id} of another writer {what}; read the table again and redo the change",
        retryable=False,
        location=table,
        rule=_RULE,
    )
