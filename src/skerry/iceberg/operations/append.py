"""Appending rows, and publishing sketches of rows that are there already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from skerry.iceberg.manifest import EntryStatus, ManifestEntry
from skerry.iceberg.operations.change import MetadataChange, SnapshotChange
from skerry.iceberg.operations.sketches import sketches_with
from skerry.iceberg.state import MAIN, TableState
from skerry.table.files import DataFile, WrittenFile
from skerry.table.statistics import union_of_samples
from skerry.theta import ThetaSketch

__all__ = ["AppendFiles", "PublishSketches"]


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
            sketches=sketches_with(base, self.ref, self.sketches),
            ref=self.ref,
            properties=self.properties,
            staged=self.staged,
        )


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
