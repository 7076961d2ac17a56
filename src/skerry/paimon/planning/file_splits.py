"""Splits of known files, as compaction and row changes read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.row_sections import stitched_entries
from skerry.paimon.planning.sections import KeyRanges, key_ranges, sorted_runs
from skerry.paimon.planning.splits import Section, Split, SplitFile, VectorLocation
from skerry.paimon.planning.vector_locations import VectorKey, vector_locations
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import name

__all__ = ["FileSplits", "key_sections"]


class FileSplits:
    """Makes splits of a state's files.

    Args:
        state: The state.
        layout: Locations of its files.
        vectors: The deletion vectors of the requested files; looked up if None.
    """

    def __init__(
        self, state: PaimonState, layout: WriteLayout, vectors: Mapping[VectorKey, VectorLocation] | None = None
    ) -> None:
        self.state = state
        self._layout = layout
        if vectors is None:
            vectors = vector_locations(state, state.snapshot) if state.snapshot is not None else {}
        self.vectors = vectors

    def location(self, entry: ManifestEntry) -> str:
        """The location of a file."""
        folder = self._layout.bucket_folder(entry.partition, entry.bucket)
        return entry.file.external_path or self._layout.paths.data_file(folder, entry.file.file_name)

    def vector(self, entry: ManifestEntry) -> VectorLocation | None:
        """The deletion vector of a file; None if it has none."""
        return self.vectors.get((entry.partition, entry.bucket, entry.file.file_name))

    def file(self, entry: ManifestEntry) -> SplitFile:
        """A file to be read as a whole."""
        file, location = entry.file, self.location(entry)
        return SplitFile(
            location=location,
            file_format=name(location).rpartition(".")[2].lower(),
            file_size=file.file_size,
            row_count=file.row_count,
            schema_id=file.schema_id,
            level=file.level,
            min_sequence_number=file.min_sequence_number,
            max_sequence_number=file.max_sequence_number,
            delete_row_count=file.delete_row_count,
            first_row_id=file.first_row_id,
            matches_all=True,
            deletion_vector=self.vector(entry),
            write_cols=file.write_cols,
        )

    def raw(self, entries: Sequence[ManifestEntry]) -> Split:
        """Files of one bucket, read one after the other without merging; or together, if they have the same rows."""
        if self.state.options.data_evolution:
            groups = stitched_entries(entries, location=self.state.name)
            stitched = (Section((tuple(map(self.file, group)),), len(group) == 1, len(group) > 1) for group in groups)
            return self._split(entries, tuple(stitched))
        files = tuple(map(self.file, entries))
        return self._split(entries, (Section((files,), True),))

    def merged(self, entries: Sequence[ManifestEntry]) -> Split:
        """Files of one bucket whose records are merged."""
        ranges = _ranges(entries, self.state.schema)
        runs = sorted_runs(list(range(len(entries))), ranges)
        section = Section(tuple(tuple(self.file(entries[number]) for number in run) for run in runs), False)
        return self._split(entries, (section,))

    def _split(self, entries: Sequence[ManifestEntry], sections: tuple[Section, ...]) -> Split:
        first = entries[0]
        snapshot = self.state.snapshot
        snapshot_id = snapshot.id if snapshot is not None else 0
        return Split(first.partition, first.bucket, first.total_buckets, sections, snapshot_id, self.state.branch)


def _ranges(entries: Collection[ManifestEntry], schema: TableSchema) -> KeyRanges:
    return key_ranges(
        pa.array([entry.file.min_key for entry in entries], pa.binary()),
        pa.array([entry.file.max_key for entry in entries], pa.binary()),
        schema.key_fields,
    )


def key_sections(entries: Sequence[ManifestEntry], schema: TableSchema) -> list[list[ManifestEntry]]:
    """Group the files of a bucket so that the keys of groups do not overlap, in the order of keys."""
    ranges = _ranges(entries, schema)
    sections: list[list[ManifestEntry]] = []
    reach = -1
    for number in np.argsort(ranges.lowest, kind="stable").tolist():
        if not sections or ranges.lowest[number] > reach:
            sections.append([])
        sections[-1].append(entries[number])
        reach = max(reach, int(ranges.highest[number]))
    return sections
