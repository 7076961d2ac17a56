"""The decisions of an operation: a new snapshot, or a change of the metadata alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from skerry.iceberg.manifests.manifest import ManifestEntry
from skerry.iceberg.metadata.requirements import TableRequirement
from skerry.iceberg.metadata.state import MAIN
from skerry.iceberg.metadata.table_updates import TableUpdate
from skerry.table.statistics.table_sample import SampleChange, TableSample
from skerry.theta import ThetaSketch

__all__ = ["DeleteKey", "MetadataChange", "SnapshotChange"]

DeleteKey = tuple[str, int | None]
"""The key of a delete file: its location, and the offset of its content if it is a deletion vector."""


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """A new snapshot on a branch.

    Args:
        operation: `append`, `replace`, `overwrite` or `delete` (Iceberg spec, Snapshots).
        added: Entries of the data files that the snapshot adds.
        samples: The change of the sampled files, from which its statistics are derived; None publishes none.
        ref: The branch.
        properties: Further entries of the snapshot summary.
        added_deletes: Entries of the delete files that it adds.
        removed: Locations of the data files that it removes. Delete files that apply only to these are removed with
            them.
        removed_deletes: The delete files that it removes.
        staged: Whether the branch does not move: the snapshot is audited before it is published.
        rewritten_manifests: Locations of manifests whose entries are to be rewritten, sorted by partition.
        updates: Further updates of the metadata, in the same commit.
        files: Locations of further files that were written for the change.
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
    files: tuple[str, ...] = ()

    @property
    def schema_ids(self) -> set[int]:
        """The schemas by which values of added files were hashed, as far as the files say."""
        added = () if self.samples is None else self.samples.added
        return {file.schema_id for file in added if file.schema_id is not None}

    def without_columns(self, field_ids: Collection[int]) -> SnapshotChange:
        """The change, without samples of some columns."""
        return self if self.samples is None else replace(self, samples=self.samples.without_columns(field_ids))


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A change of the table's metadata without a new snapshot.

    Args:
        updates: What to change.
        requirements: What must be true in the base.
        sketches: By field id, what to publish about an existing snapshot.
        snapshot_id: That snapshot.
        sample: The samples to store for it, if any.
        files: Locations of the files that were written for the change.
    """

    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()
    sketches: Mapping[int, ThetaSketch] = field(default_factory=dict)
    snapshot_id: int | None = None
    sample: TableSample | None = None
    files: tuple[str, ...] = ()

    @property
    def schema_ids(self) -> set[int]:
        """None: it adds no files."""
        return set()

    def without_columns(self, field_ids: Collection[int]) -> MetadataChange:
        """The change, without sketches and samples of some columns."""
        sketches = {field_id: sketch for field_id, sketch in self.sketches.items() if field_id not in field_ids}
        sample = None if self.sample is None else self.sample.without_columns(field_ids)
        return replace(self, sketches=sketches, sample=sample)
