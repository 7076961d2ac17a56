"""The splits of a plan: numbers of files, which become records when someone asks for them.

Spec: `formats/paimon.md` § 9.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.paimon.sections import KeyRanges, Sections, sorted_runs
from skerry.paimon.splits import Section, Split, SplitFile, VectorLocation
from skerry.table.scan import ScanStep

__all__ = ["PaimonPlan", "PlannedFiles", "PlannedSplits"]

_COLUMNS: Final = (
    "_FILE_NAME",
    "_FILE_SIZE",
    "_ROW_COUNT",
    "_SCHEMA_ID",
    "_LEVEL",
    "_MIN_SEQUENCE_NUMBER",
    "_MAX_SEQUENCE_NUMBER",
    "_DELETE_ROW_COUNT",
    "_FIRST_ROW_ID",
    "_EXTERNAL_PATH",
)
_STEP: Final = 512
"""Files whose columns become Python values at a time."""


@dataclass(frozen=True, eq=False)
class PlannedFiles:
    """Files of a plan as columns.

    Args:
        entries: Columns of `skerry.paimon.manifest.ENTRY_SCHEMA` without statistics.
        folders: Folders of buckets.
        folder_of: int64[files] The folder that each file lies in, unless it has a path of its own.
        matches_all: bool[files] Whether every row that is not deleted is wanted.
        vectors: Deletion vectors by row.
        indexes: File indexes by row: locations, or the indexes themselves.
    """

    entries: pa.RecordBatch
    folders: Sequence[str]
    folder_of: npt.NDArray[np.int64]
    matches_all: npt.NDArray[np.bool_]
    vectors: Mapping[int, VectorLocation] = field(default_factory=dict)
    indexes: Mapping[int, str | bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.entries.num_rows

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return int(self.entries.column("_FILE_SIZE").to_numpy(zero_copy_only=False).sum())

    @property
    def row_count(self) -> int:
        """Rows of all files, before merging and deletes."""
        return int(self.entries.column("_ROW_COUNT").to_numpy(zero_copy_only=False).sum())

    @property
    def unfiltered_count(self) -> int:
        """Files whose rows are all wanted, but for deleted ones."""
        return int(np.count_nonzero(self.matches_all))

    def records(self, rows: Sequence[int]) -> dict[int, SplitFile]:
        """The files of some rows, by row."""
        wanted = pa.array(rows, pa.int64())
        columns = [self.entries.column(name).take(wanted).to_pylist() for name in _COLUMNS]
        folders, matches = self.folder_of[list(rows)].tolist(), self.matches_all[list(rows)].tolist()
        found = {}
        for row, folder, matches_all, values in zip(rows, folders, matches, zip(*columns, strict=True), strict=True):
            name, size, count, schema_id, level, least, greatest, deletes, first_row_id, external = values
            found[row] = SplitFile(
                location=external or f"{self.folders[folder]}/{name}",
                file_format=name.rpartition(".")[2].lower(),
                file_size=size,
                row_count=count,
                schema_id=schema_id,
                level=level,
                min_sequence_number=least,
                max_sequence_number=greatest,
                delete_row_count=deletes,
                first_row_id=first_row_id,
                matches_all=matches_all,
                deletion_vector=self.vectors.get(row),
                file_index=self.indexes.get(row),
            )
        return found


@dataclass(frozen=True, eq=False)
class PlannedSplits(Sequence[Split]):
    """Splits over files; iterating makes them one after the other and keeps none.

    Args:
        files: The files.
        sections: Sections of them.
        bounds: int64[splits + 1] The first section of each split, with the end of the last.
        ranges: Keys of the files; None where nothing is merged.
        snapshot_id: The snapshot.
    """

    files: PlannedFiles
    sections: Sections
    bounds: npt.NDArray[np.int64]
    ranges: KeyRanges | None
    snapshot_id: int

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, index: int) -> Split: ...
    @overload
    def __getitem__(self, index: slice) -> list[Split]: ...
    def __getitem__(self, index: int | slice) -> Split | list[Split]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"split {index} of {len(self)}")
        return next(self._splits(number, number + 1))

    def __iter__(self) -> Iterator[Split]:
        ends = self.sections.starts[self.bounds]
        first = 0
        while first < len(self):
            last = max(int(np.searchsorted(ends, ends[first] + _STEP, side="right")) - 1, first + 1)
            yield from self._splits(first, last)
            first = last

    def _splits(self, first: int, last: int) -> Iterator[Split]:
        """Splits, whose files become records together."""
        low, high = self.bounds[first].item(), self.bounds[last].item()
        starts = self.sections.starts[low : high + 1].tolist()
        rows = self.sections.rows[starts[0] : starts[-1]].tolist()
        files = self.files.records(rows)
        places = zip(*(column.take(pa.array(rows)).to_pylist() for column in self._place_columns), strict=True)
        place_of = dict(zip(rows, places, strict=True))
        raw = self.sections.is_raw[low:high].tolist()
        for begin, end in itertools.pairwise((self.bounds[first : last + 1] - low).tolist()):
            groups = [
                (rows[starts[number] - starts[0] : starts[number + 1] - starts[0]], raw[number])
                for number in range(begin, end)
            ]
            sections = tuple(self._section(group, is_raw, files) for group, is_raw in groups)
            partition, bucket, total = place_of[groups[0][0][0]]
            yield Split(partition, bucket, total, sections, self.snapshot_id)

    def _section(self, rows: list[int], is_raw: bool, files: Mapping[int, SplitFile]) -> Section:
        runs = [rows] if len(rows) == 1 or self.ranges is None else sorted_runs(rows, self.ranges)
        return Section(tuple(tuple(files[row] for row in run) for run in runs), is_raw)

    @cached_property
    def _place_columns(self) -> list[pa.Array]:
        return [self.files.entries.column(name) for name in ("_PARTITION", "_BUCKET", "_TOTAL_BUCKETS")]


@dataclass(frozen=True, slots=True)
class PaimonPlan:
    """What a scan reads.

    Args:
        splits: Parts of buckets, in the order of the metadata.
        steps: How planning came to it.
    """

    splits: PlannedSplits
    steps: tuple[ScanStep, ...]

    @property
    def tasks(self) -> PlannedFiles:
        """The files, as an explanation counts them."""
        return self.splits.files
