"""Append rows, and publish sketches of existing rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from skerry.iceberg.manifests.manifest import EntryStatus, ManifestEntry
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.operations.change import MetadataChange, SnapshotChange
from skerry.iceberg.statistics.thinning import is_continued
from skerry.table.files.data_file import DataFile
from skerry.table.statistics.file_groups import SketchedFile
from skerry.table.statistics.table_sample import SampleChange, TableSample, sketched_files
from skerry.table.statistics.written_file import WrittenFile
from skerry.theta import ThetaSketch

__all__ = ["AppendFiles", "PublishSketches"]


@dataclass(frozen=True, slots=True)
class AppendFiles:
    """Add data files, and publish sketches of the whole table with them.

    The files' samples are decoded once for all attempts; which columns may be published, and with which samples they
    are united, depends on the base and is decided in each attempt.

    Args:
        files: Freshly written files.
        sampled: Those of them that have samples.
        ref: The branch to append to.
        properties: Further entries of the snapshot summary.
        staged: Whether the branch does not move.
    """

    files: tuple[DataFile, ...]
    sampled: tuple[SketchedFile, ...] = ()
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
        """The operation that appends written files."""
        files = tuple(written)
        sampled, _ = sketched_files(files)
        return cls(tuple(file.data_file for file in files), sampled, ref, properties or {}, staged)

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """The files that it adds."""
        return self.files

    def apply(self, base: TableState) -> SnapshotChange | None:
        """Decide the append to `base`; None without files."""
        if not self.files:
            return None
        change = SampleChange(added=self.sampled, unsampled_files=len(self.files) - len(self.sampled))
        return SnapshotChange(
            operation="append",
            added=tuple(ManifestEntry(EntryStatus.ADDED, file) for file in self.files),
            samples=change,
            ref=self.ref,
            properties=self.properties,
            staged=self.staged,
        )


@dataclass(frozen=True, slots=True)
class PublishSketches:
    """Register sketches for an existing snapshot, replacing its statistics file if there is one.

    Args:
        snapshot_id: The snapshot whose rows were sketched.
        sketches: By field id.
        sample: The samples from which they were built.
    """

    snapshot_id: int
    sketches: Mapping[int, ThetaSketch]
    sample: TableSample | None = None

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the update; None without sketches, or if samples of later snapshots continue those of this one.

        Raises:
            NotFoundError: The snapshot has expired in the meantime.
        """
        if not self.sketches and self.sample is None:
            return None
        base.snapshot_by_id(self.snapshot_id)
        if is_continued(base, self.snapshot_id):
            return None
        return MetadataChange(sketches=self.sketches, snapshot_id=self.snapshot_id, sample=self.sample)
