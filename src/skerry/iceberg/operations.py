"""What can be done to an Iceberg table, each stated as an operation that the commit loop applies to the newest state.

An operation decides: `apply(base)` gives a `SnapshotChange` or a `MetadataChange`. It writes nothing;
`skerry.iceberg.commit` turns the decision into manifests, a statistics file and one catalog update.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyiceberg.table.update import TableRequirement, TableUpdate

from skerry.iceberg.manifest import EntryStatus, ManifestEntry
from skerry.iceberg.state import MAIN, TableState
from skerry.iceberg.statistics import extendable_sketches
from skerry.table.files import DataFile, WrittenFile
from skerry.table.statistics import SketchPolicy, union_of_samples
from skerry.theta import ThetaSketch, union

__all__ = ["AppendFiles", "MetadataChange", "PublishSketches", "SnapshotChange"]


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """A new snapshot on a branch.

    Args:
        operation: `append`, `replace`, `overwrite` or `delete` (Iceberg spec, Snapshots).
        added: Entries of the files that the snapshot adds.
        sketches: By field id, what the snapshot publishes about itself.
        ref: The branch.
        properties: Further entries of the snapshot summary.
        staged: Whether the branch stays where it is: the snapshot is to be looked at before it is published.
    """

    operation: str
    added: tuple[ManifestEntry, ...]
    sketches: Mapping[int, ThetaSketch]
    ref: str = MAIN
    properties: Mapping[str, str] = field(default_factory=dict)
    staged: bool = False


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A change of the table's metadata that makes no snapshot.

    Args:
        updates: What to change.
        requirements: What must hold in the base for it.
        sketches: By field id, what to publish about an existing snapshot.
        snapshot_id: That snapshot.
    """

    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()
    sketches: Mapping[int, ThetaSketch] = field(default_factory=dict)
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class AppendFiles:
    """Add data files, and publish sketches of the whole table with them.

    The union of the files' samples is made once and kept from attempt to attempt; which columns may be published, and
    what they are united with, depends on the base and is decided anew each time.

    Args:
        files: Freshly written files.
        sketches: By field id, the union of their samples, for columns that were sketched in every file.
        ref: The branch to append to.
        properties: Further entries of the snapshot summary.
        staged: Whether the branch stays where it is.
    """

    files: tuple[DataFile, ...]
    sketches: Mapping[int, ThetaSketch] = field(default_factory=dict)
    ref: str = MAIN
    properties: Mapping[str, str] = field(default_factory=dict)
    staged: bool = False

    @classmethod
    def of(
        cls,
        written: Iterable[WrittenFile],
        *,
        ref: str = MAIN,
        properties: Mapping[str, str] | None = None,
        staged: bool = False,
    ) -> AppendFiles:
        """The operation that appends what writers have written."""
        files = tuple(written)
        return cls(tuple(file.data_file for file in files), union_of_samples(files), ref, properties or {}, staged)

    def apply(self, base: TableState) -> SnapshotChange | None:
        """Append to whatever `base` holds; nothing to do without files."""
        if not self.files:
            return None
        return SnapshotChange(
            operation="append",
            added=tuple(ManifestEntry(EntryStatus.ADDED, file) for file in self.files),
            sketches=self._sketches(base),
            ref=self.ref,
            properties=self.properties,
            staged=self.staged,
        )

    def _sketches(self, base: TableState) -> dict[int, ThetaSketch]:
        """Unions of the base's fresh sketches and the new files' samples.

        A column is published only if every row is in its sketch: all new files were sketched for it, and so was every
        row before them.
        """
        policy = SketchPolicy.from_properties(base.properties)
        snapshot = base.snapshot(self.ref)
        published = {} if snapshot is None or not policy.enabled else extendable_sketches(base, snapshot)
        columns = policy.columns(base.schema, created=snapshot is None, sketched=published)
        return {
            column.field_id: union([published[column.field_id], added]) if column.field_id in published else added
            for column in columns
            if (added := self.sketches.get(column.field_id)) is not None
        }


@dataclass(frozen=True, slots=True)
class PublishSketches:
    """Register sketches for a snapshot that exists already, replacing the statistics file that it may have.

    Args:
        snapshot_id: The snapshot whose rows were sketched.
        sketches: By field id.
    """

    snapshot_id: int
    sketches: Mapping[int, ThetaSketch]

    def apply(self, base: TableState) -> MetadataChange | None:
        """Publish; nothing to do without sketches.

        Raises:
            NotFoundError: The snapshot has expired meanwhile.
        """
        if not self.sketches:
            return None
        base.snapshot_by_id(self.snapshot_id)
        return MetadataChange(sketches=self.sketches, snapshot_id=self.snapshot_id)
