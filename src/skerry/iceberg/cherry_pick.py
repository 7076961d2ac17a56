"""Cherry-pick: add the files that one snapshot added to the tip of a branch.

This is also how a staged snapshot is published (write, audit, publish): it was committed outside of its branch with a
`wap.id`, and is picked after an audit.

Spec: Iceberg spec, Optional Snapshot Summary Fields, `source-snapshot-id`, `wap.id`, `published-wap-id`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from skerry.errors import AlreadyExistsError, ConflictError, NotFoundError, UnsupportedError
from skerry.iceberg.manifests.manifest import EntryStatus, ManifestEntry
from skerry.iceberg.manifests.manifest_list import ManifestContent
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.manifests.snapshot_manifests import read_manifests
from skerry.iceberg.manifests.summary import summary_of
from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.snapshot import Operation, Snapshot
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.operations import MetadataChange, SnapshotChange
from skerry.iceberg.refs import move_branch
from skerry.iceberg.statistics.samples import read_sample
from skerry.table.rows.schema import nearest
from skerry.table.statistics.file_groups import SketchedFile, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.table_sample import SampleChange

__all__ = ["PUBLISHED_WAP_ID", "WAP_ENABLED_PROPERTY", "WAP_ID", "CherryPick", "PublishStaged"]

WAP_ENABLED_PROPERTY = "write.wap.enabled"
WAP_ID = "wap.id"
PUBLISHED_WAP_ID = "published-wap-id"
SOURCE_SNAPSHOT_ID = "source-snapshot-id"


@dataclass(frozen=True, slots=True)
class CherryPick:
    """Apply to a branch what a snapshot added.

    If the snapshot's parent is the branch's tip, it becomes the tip itself. Otherwise its added files are added again
    in a new snapshot; their rows are new rows and get new row ids (version 3).

    Args:
        snapshot_id: The snapshot to pick.
        ref: The branch.
        properties: Further entries of the new snapshot's summary.
        sampled: Samples of files that it added, if its own samples do not keep them separate from others.
    """

    snapshot_id: int
    ref: str = MAIN
    properties: Mapping[str, str] = field(default_factory=dict)
    sampled: tuple[SketchedFile, ...] = ()

    def apply(self, base: TableState) -> SnapshotChange | MetadataChange | None:
        """Decide the change.

        Raises:
            AlreadyExistsError: The branch has the snapshot's rows already.
            ConflictError: The snapshot removed rows, which is only valid on top of its parent.
            NotFoundError: There is no such snapshot or branch.
            SchemaError: `ref` is a tag.
        """
        picked = base.snapshot_by_id(self.snapshot_id)
        tip = base.branch(self.ref)
        self._refuse_twice(base, picked, tip)
        if _follows(picked, tip):
            return move_branch(base, self.ref, picked.snapshot_id)
        operation = picked.operation
        if operation is not Operation.APPEND:
            raise ConflictError(
                f"snapshot {picked.snapshot_id} ({operation.value if operation is not None else 'unknown'}) can only "
                f"follow snapshot {picked.parent_snapshot_id}, but branch {self.ref!r} has moved on; redo the change",
                location=base.name,
            )
        properties = {SOURCE_SNAPSHOT_ID: str(picked.snapshot_id), **self.properties}
        wap_id = summary_of(picked).get(WAP_ID)
        if wap_id is not None:
            properties[PUBLISHED_WAP_ID] = wap_id
        added = _added_entries(base, picked)
        return SnapshotChange(
            operation="append",
            added=added,
            samples=_sample_change(base, picked, added, self.sampled),
            ref=self.ref,
            properties=properties,
        )

    def files_to_sample(self, base: TableState) -> tuple[int, frozenset[str]]:
        """The snapshot, and those of its added files for which no separate samples exist.

        Raises:
            NotFoundError: There is no such snapshot or branch.
        """
        picked = base.snapshot_by_id(self.snapshot_id)
        if _follows(picked, base.branch(self.ref)) or picked.operation is not Operation.APPEND:
            return picked.snapshot_id, frozenset()
        added = _added_entries(base, picked)
        known = _groups_of(base, picked, added).files
        locations = (entry.data_file.location for entry in added)
        return picked.snapshot_id, frozenset(location for location in locations if key_of(location) not in known)

    def _refuse_twice(self, base: TableState, picked: Snapshot, tip: Snapshot | None) -> None:
        """Refuse a snapshot that the branch already has: itself, a pick of it, or another one with its `wap.id`."""
        wap_id = summary_of(picked).get(WAP_ID)
        for snapshot in ancestors(base.metadata, tip):
            summary = summary_of(snapshot)
            is_picked = summary.get(SOURCE_SNAPSHOT_ID) == str(picked.snapshot_id)
            if snapshot.snapshot_id == picked.snapshot_id or is_picked:
                raise AlreadyExistsError(
                    f"branch {self.ref!r} has snapshot {picked.snapshot_id} already"
                    + (f", as {snapshot.snapshot_id}" if is_picked else ""),
                    location=base.name,
                )
            if wap_id is not None and wap_id in (summary.get(WAP_ID), summary.get(PUBLISHED_WAP_ID)):
                raise AlreadyExistsError(
                    f"{WAP_ID} {wap_id!r} was published to branch {self.ref!r} already, "
                    f"by snapshot {snapshot.snapshot_id}",
                    location=base.name,
                )


@dataclass(frozen=True, slots=True)
class PublishStaged:
    """Cherry-pick the snapshot that was staged under a `wap.id`.

    Args:
        wap_id: The id.
        ref: The branch.
        sampled: As `CherryPick` has it.
    """

    wap_id: str
    ref: str = MAIN
    sampled: tuple[SketchedFile, ...] = ()

    def apply(self, base: TableState) -> SnapshotChange | MetadataChange | None:
        """Decide the change.

        Raises:
            AlreadyExistsError: It was published already.
            ConflictError: Several snapshots have that id; or as `CherryPick` has it.
            NotFoundError: No snapshot has it.
        """
        return self._pick(base).apply(base)

    def files_to_sample(self, base: TableState) -> tuple[int, frozenset[str]]:
        """As `CherryPick.files_to_sample`.

        Raises:
            ConflictError: Several snapshots have that id.
            NotFoundError: No snapshot has it.
        """
        return self._pick(base).files_to_sample(base)

    def _pick(self, base: TableState) -> CherryPick:
        staged = [snapshot for snapshot in base.metadata.snapshots if summary_of(snapshot).get(WAP_ID) == self.wap_id]
        if not staged:
            known = {text for snapshot in base.metadata.snapshots if (text := summary_of(snapshot).get(WAP_ID))}
            raise NotFoundError(f"no snapshot has {WAP_ID} {self.wap_id!r}{nearest(self.wap_id, known)}")
        if len(staged) > 1:
            ids = ", ".join(str(snapshot.snapshot_id) for snapshot in staged)
            raise ConflictError(f"{WAP_ID} {self.wap_id!r} belongs to several snapshots: {ids}; cherry-pick one")
        return CherryPick(staged[0].snapshot_id, self.ref, sampled=self.sampled)


def _follows(picked: Snapshot, tip: Snapshot | None) -> bool:
    """Whether a snapshot's parent is the tip of the branch, so that it can be the next one itself."""
    return picked.parent_snapshot_id == (None if tip is None else tip.snapshot_id)


def _added_entries(base: TableState, picked: Snapshot) -> tuple[ManifestEntry, ...]:
    """The files that a snapshot added, as entries to be added again.

    Raises:
        UnsupportedError: It added row-level deletes too.
    """
    added = []
    for manifest in read_manifests(base.storage, picked):
        if manifest.added_snapshot_id != picked.snapshot_id:
            continue
        if manifest.content is not ManifestContent.DATA:
            raise UnsupportedError(
                f"snapshot {picked.snapshot_id} has row-level deletes of its own; it cannot be picked"
            )
        for entry in read_manifest(base.storage, manifest).entries():
            if entry.status is EntryStatus.ADDED and entry.snapshot_id == picked.snapshot_id:
                added.append(
                    dataclasses.replace(
                        entry, snapshot_id=None, sequence_number=None, file_sequence_number=None, first_row_id=None
                    )
                )
    return tuple(added)


def _sample_change(
    base: TableState, picked: Snapshot, added: tuple[ManifestEntry, ...], sampled: tuple[SketchedFile, ...]
) -> SampleChange:
    """The sample change of the added files: known for those that the picked snapshot's samples keep separate."""
    groups = _groups_of(base, picked, added)
    known = groups.files
    others = tuple(file for file in sampled if key_of(file.location) not in known)
    return SampleChange(added=others, added_groups=groups, unsampled_files=len(added) - len(known) - len(others))


def _groups_of(base: TableState, picked: Snapshot, added: tuple[ManifestEntry, ...]) -> GroupSamples:
    """The sample groups of the picked snapshot that contain only added files."""
    known = read_sample(base, picked)
    groups = GroupSamples() if known is None else known.groups
    return groups.only_groups_within([entry.data_file.location for entry in added])
