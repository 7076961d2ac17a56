"""Keeping manifests few: small ones are merged, and files that were added and deleted are dropped from them.

Which manifests are merged is decided by their sizes alone; the result of merging consecutive ones replaces them, so
that the order of entries is kept.

Spec: docs/formats/paimon.md § 4.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skerry.paimon.manifests.manifest import FileIdentity, FileKind, ManifestEntry
from skerry.paimon.manifests.manifest_list import ManifestFileMeta
from skerry.paimon.metadata.options import CoreOptions

__all__ = ["ManifestSizes", "cancelled_entries", "plan_merging"]


@dataclass(frozen=True, slots=True)
class ManifestSizes:
    """Target size and number of manifests.

    Args:
        target_bytes: Target size of a manifest.
        min_count: Number of small ones from which on they are merged, even if they do not fill one.
        full_threshold_bytes: Bytes of small manifests, and of those that delete, from which on all of them are merged.
    """

    target_bytes: int = 8 << 20
    min_count: int = 30
    full_threshold_bytes: int = 16 << 20

    @classmethod
    def from_options(cls, options: CoreOptions) -> ManifestSizes:
        """The sizes by a table's options."""
        return cls(
            options.manifest_target_file_size,
            options.manifest_merge_min_count,
            options.manifest_full_compaction_threshold,
        )


def plan_merging(manifests: Sequence[ManifestFileMeta], sizes: ManifestSizes) -> list[list[ManifestFileMeta]]:
    """Which manifests are merged: groups in their order; those of one manifest stay as they are.

    Args:
        manifests: All manifests of a snapshot, oldest first.
        sizes: The target sizes.
    """
    changed = [file for file in manifests if file.file_size < sizes.target_bytes or file.num_deleted_files]
    if sum(file.file_size for file in changed) >= sizes.full_threshold_bytes and len(changed) > 1:
        first = manifests.index(changed[0])
        return [*([file] for file in manifests[:first]), list(manifests[first:])]
    groups: list[list[ManifestFileMeta]] = []
    pending: list[ManifestFileMeta] = []
    pending_bytes = 0
    for file in manifests:
        pending.append(file)
        pending_bytes += file.file_size
        if pending_bytes >= sizes.target_bytes:
            groups.append(pending)
            pending, pending_bytes = [], 0
    if len(pending) >= sizes.min_count:
        return [*groups, pending]
    return groups + [[file] for file in pending]


def cancelled_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Entries without pairs of ADD and DELETE among them; a DELETE of a file that was added earlier stays."""
    left: dict[tuple[FileIdentity, FileKind], ManifestEntry] = {}
    for entry in entries:
        identity = entry.identity
        if entry.kind is FileKind.DELETE and left.pop((identity, FileKind.ADD), None) is not None:
            continue
        left[identity, entry.kind] = entry
    return list(left.values())
