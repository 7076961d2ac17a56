"""Expiry of snapshots: the retention policy, and the operation that removes snapshots from the metadata.

Spec: Iceberg spec, Snapshot Retention Policy; Iceberg properties, `history.expire.*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skerry.errors import SchemaError
from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.requirements import AssertRefSnapshotId
from skerry.iceberg.metadata.snapshot import SnapshotRef, SnapshotRefType
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.iceberg.metadata.table_updates import RemoveSnapshotRefUpdate, RemoveSnapshotsUpdate, TableUpdate
from skerry.iceberg.operations import MetadataChange
from skerry.table.properties import whole_number

__all__ = ["ExpirePlan", "ExpireSnapshots", "RetentionDefaults", "refuse_kept_files"]

_GC_PROPERTY = "gc.enabled"
_PREFIX = "history.expire."
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class RetentionDefaults:
    """The retention policy of references without one of their own.

    Args:
        max_snapshot_age_ms: Older snapshots of a branch expire.
        min_snapshots_to_keep: The number of newest snapshots of a branch that stay, however old.
        max_ref_age_ms: References other than `main` expire when their snapshot is older; None: never.
    """

    max_snapshot_age_ms: int = 5 * _DAY_MS
    min_snapshots_to_keep: int = 1
    max_ref_age_ms: int | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RetentionDefaults:
        """Read `history.expire.max-snapshot-age-ms`, `.min-snapshots-to-keep` and `.max-ref-age-ms`.

        Raises:
            SchemaError: A value is not a whole number above 0.
        """
        defaults = cls()
        return cls(
            whole_number(properties, f"{_PREFIX}max-snapshot-age-ms", defaults.max_snapshot_age_ms),
            whole_number(properties, f"{_PREFIX}min-snapshots-to-keep", defaults.min_snapshots_to_keep),
            whole_number(properties, f"{_PREFIX}max-ref-age-ms", None),
        )


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """The snapshots and references to be removed.

    Args:
        snapshot_ids: Its snapshots, in the order of the metadata.
        refs: Its branches and tags.
    """

    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExpireSnapshots:
    """Expire old snapshots, and branches and tags that are too old themselves.

    A branch keeps the snapshots that are young enough, and its newest ones however old; a tag keeps its snapshot.
    Snapshots of no branch or tag (staged or rolled back) expire by age alone.

    Args:
        now_ms: The time from which ages are counted.
        keep_last: Instead of the table's minimum of snapshots to keep; a branch's own setting takes precedence.
        older_than_ms: Only snapshots from before this time, instead of the table's maximum age; a branch's own setting
            takes precedence.
    """

    now_ms: int
    keep_last: int | None = None
    older_than_ms: int | None = None

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change; None if nothing is old enough."""
        plan = self.plan(base)
        updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=name) for name in plan.refs]
        if plan.snapshot_ids:
            updates.append(RemoveSnapshotsUpdate(snapshot_ids=plan.snapshot_ids))
        if not updates:
            return None
        # a reference that moved in the meantime may retain other snapshots
        unmoved = [
            AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in base.metadata.refs.items()
        ]
        return MetadataChange(tuple(updates), tuple(unmoved))

    def plan(self, base: TableState) -> ExpirePlan:
        """The snapshots and references that would expire now.

        Raises:
            SchemaError: A property has an invalid value.
        """
        metadata = base.metadata
        defaults = RetentionDefaults.from_properties(base.properties)
        refs = {name: ref for name, ref in metadata.refs.items() if self._keeps_ref(metadata, name, ref, defaults)}
        kept: set[int] = set()
        reached: set[int] = set()
        for ref in refs.values():
            if ref.snapshot_ref_type is SnapshotRefType.TAG:
                kept.add(ref.snapshot_id)
                reached.add(ref.snapshot_id)
                continue
            line = [snapshot.snapshot_id for snapshot in ancestors(metadata, metadata.snapshot_by_id(ref.snapshot_id))]
            reached.update(line)
            kept.update(self._kept_of_branch(metadata, ref, defaults))
        oldest = self._oldest(None, defaults)
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id not in reached and snapshot.timestamp_ms >= oldest:
                kept.add(snapshot.snapshot_id)
        return ExpirePlan(
            tuple(found.snapshot_id for found in metadata.snapshots if found.snapshot_id not in kept),
            tuple(name for name in metadata.refs if name not in refs),
        )

    def _keeps_ref(self, metadata: TableMetadata, name: str, ref: SnapshotRef, defaults: RetentionDefaults) -> bool:
        age = ref.max_ref_age_ms or defaults.max_ref_age_ms
        snapshot = metadata.snapshot_by_id(ref.snapshot_id)
        if name == MAIN or (age is None and snapshot is not None):
            return True
        return snapshot is not None and age is not None and self.now_ms - snapshot.timestamp_ms <= age

    def _kept_of_branch(self, metadata: TableMetadata, ref: SnapshotRef, defaults: RetentionDefaults) -> list[int]:
        at_least = ref.min_snapshots_to_keep or self.keep_last or defaults.min_snapshots_to_keep
        oldest = self._oldest(ref.max_snapshot_age_ms, defaults)
        kept: list[int] = []
        for snapshot in ancestors(metadata, metadata.snapshot_by_id(ref.snapshot_id)):
            if len(kept) >= at_least and snapshot.timestamp_ms < oldest:
                break
            kept.append(snapshot.snapshot_id)
        return kept

    def _oldest(self, max_age_ms: int | None, defaults: RetentionDefaults) -> int:
        """The earliest timestamp that is not too old."""
        if max_age_ms is not None:
            return self.now_ms - max_age_ms
        return self.older_than_ms if self.older_than_ms is not None else self.now_ms - defaults.max_snapshot_age_ms


def refuse_kept_files(state: TableState) -> None:
    """Refuse to delete files of a table whose property says that they may be shared.

    As in Iceberg Java, every other value than `true` says so.

    Raises:
        SchemaError: The table property `gc.enabled` is not true.
    """
    value = state.properties.get(_GC_PROPERTY, "true").strip().lower()
    if value != "true":
        raise SchemaError(
            f"table property {_GC_PROPERTY} is {value}: files of {state.name} may belong to other tables too; none are "
            "deleted"
        )
