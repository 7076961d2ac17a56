"""Rewrite manifests, so that planning reads few of them, and only those of its partitions.

Spec: Iceberg spec, Manifests; Iceberg properties, `commit.manifest.target-size-bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifests.snapshot_manifests import read_manifests
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.operations.change import SnapshotChange
from skerry.table.properties import whole_number
from skerry.table.statistics.table_sample import SampleChange

__all__ = ["ManifestPlan", "RewriteManifests"]

_TARGET_PROPERTY = "commit.manifest.target-size-bytes"
_TARGET_SIZE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """The manifests to be rewritten.

    Args:
        rewritten: The manifests to be rewritten.
        kept: The manifests that stay.
        target_size_bytes: The target size of manifests.
    """

    rewritten: tuple[ManifestFile, ...] = ()
    kept: tuple[ManifestFile, ...] = ()
    target_size_bytes: int = _TARGET_SIZE_BYTES


@dataclass(frozen=True, slots=True)
class RewriteManifests:
    """Rewrite the manifests of a partition spec if there are more than their total size needs.

    No file is added or removed, and every entry keeps its snapshot, sequence numbers and row ids: rows, statistics and
    changes between snapshots stay the same.

    Args:
        ref: The branch.
        all_manifests: Whether to rewrite manifests even if they are few enough, so that files of a partition are side
            by side.
        properties: Further entries of the snapshot summary.
    """

    ref: str = MAIN
    all_manifests: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def plan(self, base: TableState) -> ManifestPlan:
        """Plan the rewrite.

        Raises:
            SchemaError: The property has an invalid value, or the reference is a tag.
        """
        target = whole_number(base.properties, _TARGET_PROPERTY, _TARGET_SIZE_BYTES)
        snapshot = base.branch(self.ref)
        listed = [] if snapshot is None else read_manifests(base.storage, snapshot)
        groups: dict[tuple[ManifestContent, int], list[ManifestFile]] = {}
        for manifest in listed:
            if manifest.has_live_files:
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
        rewritten: list[ManifestFile] = []
        kept: list[ManifestFile] = []
        for group in groups.values():
            (rewritten if self._is_worth(group, target) else kept).extend(group)
        return ManifestPlan(tuple(rewritten), tuple(kept), target)

    def _is_worth(self, group: Sequence[ManifestFile], target_size_bytes: int) -> bool:
        needful = -(-sum(manifest.manifest_length for manifest in group) // target_size_bytes)
        return self.all_manifests or len(group) > max(needful, 1)

    def apply(self, base: TableState) -> SnapshotChange | None:
        """Decide the rewrite; None if the manifests are few enough."""
        rewritten = self.plan(base).rewritten
        if not rewritten:
            return None
        return SnapshotChange(
            operation="replace",
            samples=SampleChange(same_rows=True),
            ref=self.ref,
            properties=self.properties,
            rewritten_manifests=frozenset(manifest.manifest_path for manifest in rewritten),
        )
