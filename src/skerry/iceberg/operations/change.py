"""What an operation decides: a new snapshot, or a change of the metadata alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.table.update import TableRequirement, TableUpdate

from skerry.iceberg.manifests.manifest import ManifestEntry
from skerry.iceberg.metadata.state import MAIN
from skerry.table.statistics.table_sample import SampleChange, TableSample
from skerry.theta import ThetaSketch

__all__ = ["DeleteKey", "MetadataChange", "SnapshotChange"]

DeleteKey = tuple[str, int | None]
"""What names a delete file: its location, and where in it the content begins if it is a deletion vector."""


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """A new snapshot on a branch.

    Args:
        operation: `append`, `replace`, `overwrite` or `delete` (Iceberg spec, Snapshots).
        added: Entries of the data files that the snapshot adds.
        samples: What it does to the files that samples are of, from which its statistics come; None publishes none.
        ref: The branch.
        properties: Further entries of the snapshot summary.
        added_deletes: Entries of the delete files that it adds.
        removed: Locations of the data files that it removes. Delete files that are of these alone go with them.
        removed_deletes: The delete files that it removes.
        staged: Whether the branch stays where it is: the snapshot is to be looked at before it is published.
        rewritten_manifests: Locations of manifests whose entries are to be put together anew, by partition.
        updates: Further updates of the metadata, in the same commit.
    """

    operation: str
    added: tuple[ManifestEntry, ...] = ()
    samples: SampleChange | None = None
    ref: str = MAIN
    properties: Mapping[str, str] = field(default_factory=dict)
    added_deletes: tuple[ManifestEntry, ...] = ()
    removed: frozenset[str] = frozenset()
    removed_deletes: frozenset[DeleteKey] = frozenset()
    staged: bool = False
    rewritten_manifests: frozenset[str] = frozenset()
    updates: tuple[TableUpdate, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A change of the table's metadata that makes no snapshot.

    Args:
        updates: What to change.
        requirements: What must hold in the base for it.
        sketches: By field id, what to publish about an existing snapshot.
        snapshot_id: That snapshot.
        sample: The samples to keep of it, if any.
    """

    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()
    sketches: Mapping[int, ThetaSketch] = field(default_factory=dict)
    snapshot_id: int | None = None
    sample: TableSample | None = None
