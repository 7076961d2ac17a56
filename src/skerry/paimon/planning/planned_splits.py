"""The splits of a plan: row numbers of files, which become records on access.

Spec: docs/formats/paimon.md § 9.5.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.paimon.metadata.paths import MAIN_BRANCH
from skerry.paimon.planning.sections import KeyRanges, Sections, sorted_runs
from skerry.paimon.planning.splits import Section, Split, SplitFile, VectorLocation
from skerry.table.files.scan_task import ScanStep
from skerry.table.rows.column_records import records_of

__all__ = ["FileUnion", "PaimonPlan", "PlanUnion", "PlannedFiles", "PlannedSplits", "SplitUnion"]

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
_NUMBERS: Final = (
    "file_size",
    "row_count",
    "schema_id",
    "level",
    "min_sequence_number",
    "max_sequence_number",
    "delete_row_count",
    "first_row_id",
)
"""Attribute names of the numeric columns in a file's record."""
_STEP: Final = 2048
"""Number of files whose columns are converted to Python values at a time."""


@dataclass(frozen=True, eq=False)
class PlannedFiles:
    """Files of a plan as columns.

    Args:
        entries: Columns of `skerry.paimon.manifests.manifest.ENTRY_SCHEMA` without statistics.
        folders: Folders of buckets.
        folder_of: int64[files] Index of each file's folder, unless it has a path of its own.
        matches_all: bool[files] Whether every row that is not deleted matches.
        vectors: Deletion vectors by row.
        has_rows: bool[files] Whether a file's rows are not those of another file, of which it has further columns; None
            if all are so.
        rows: By row, the positions in a file that indexes leave: int64[n], ascending.
    """

    entries: pa.RecordBatch
    folders: Sequence[str]
    folder_of: npt.NDArray[np.int64]
    matches_all: npt.NDArray[np.bool_]
    vectors: Mapping[int, VectorLocation] = field(default_factory=dict)
    has_rows: npt.NDArray[np.bool_] | None = None
    rows: Mapping[int, npt.NDArray[np.int64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.entries.num_rows

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return int(self.entries.column("_FILE_SIZE").to_numpy(zero_copy_only=False).sum())

    @property
    def row_count(self) -> int:
        """Rows of all files, before merging and deletes."""
        counts = self.entries.column("_ROW_COUNT").to_numpy(zero_copy_only=False)
        return int(counts.sum() if self.has_rows is None else counts[self.has_rows].sum())

    @property
    def candidate_count(self) -> int:
        """Rows of all files that indexes leave, before merging and deletes."""
        counts = self.entries.column("_ROW_COUNT").to_numpy(zero_copy_only=False)
        return self.row_count - sum(int(counts[number]) - len(rows) for number, rows in self.rows.items())

    @property
    def unfiltered_count(self) -> int:
        """Number of files whose rows all match, except deleted ones."""
        return int(np.count_nonzero(self.matches_all))

    def records(self, rows: npt.NDArray[np.int64]) -> list[SplitFile]:
        """The files of some rows."""
        columns = [column.take(pa.array(rows)) for column in self._columns]
        names, *numbers, paths = (column.to_pylist() for column in columns)
        numbers_of = rows.tolist()
        locations = [
            path or f"{self.folders[folder]}/{name}"
            for path, folder, name in zip(paths, self.folder_of[rows].tolist(), names, strict=True)
        ]
        formats = [name.rpartition(".")[2].lower() for name in names]
        matches = self.matches_all[rows].tolist()
        vectors = map(self.vectors.get, numbers_of) if self.vectors else itertools.repeat(None)
        written = self.entries.column("_WRITE_COLS").take(pa.array(rows))
        columns_of: Iterable[tuple[str, ...] | None] = itertools.repeat(None)
        if written.null_count < len(written):
            columns_of = [None if found is None else tuple(found) for found in written.to_pylist()]
        return records_of(
            SplitFile,
            len(rows),
            location=locations,
            file_format=formats,
            **dict(zip(_NUMBERS, numbers, strict=True)),
            matches_all=matches,
            deletion_vector=vectors,
            write_cols=columns_of,
            rows=map(self.rows.get, numbers_of) if self.rows else itertools.repeat(None),
        )

    @cached_property
    def _columns(self) -> list[pa.Array]:
        return [self.entries.column(name) for name in _COLUMNS]


@dataclass(frozen=True, eq=False)
class PlannedSplits(Sequence[Split]):
    """Splits over files; iteration creates them one by one and keeps none.

    Args:
        files: The files.
        sections: Sections of them.
        bounds: int64[splits + 1] The first section of each split, with the end of the last.
        ranges: Keys of the files; None where nothing is merged.
        snapshot_id: The snapshot.
        branch: Its branch.
    """

    files: PlannedFiles
    sections: Sections
    bounds: npt.NDArray[np.int64]
    ranges: KeyRanges | None
    snapshot_id: int
    branch: str = MAIN_BRANCH

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

    def certain_rows(self, *, keyed: bool) -> int:
        """Number of rows that match with certainty: those of unmerged files that match as a whole.

        Args:
            keyed: Whether the files record for each row whether it is a delete.
        """
        is_certain = np.zeros(len(self.files), np.bool_)
        if self.files.has_rows is not None:
            is_certain |= self.files.has_rows
        else:
            of_raw = np.repeat(self.sections.is_raw, np.diff(self.sections.starts))
            is_certain[self.sections.rows[of_raw]] = True
        is_certain &= self.files.matches_all
        if keyed:
            deletes = self.files.entries.column("_DELETE_ROW_COUNT").fill_null(1)
            is_certain &= deletes.to_numpy(zero_copy_only=False) == 0
        counts = np.array(self.files.entries.column("_ROW_COUNT").to_numpy(zero_copy_only=False))
        for row, vector in self.files.vectors.items():
            counts[row] -= counts[row] if vector.cardinality is None else vector.cardinality
        return int(counts[is_certain].sum())

    def _splits(self, first: int, last: int) -> Iterator[Split]:
        """Create splits, converting their files to records together."""
        low, high = self.bounds[first].item(), self.bounds[last].item()
        starts = self.sections.starts[low : high + 1]
        numbers = self.sections.rows[starts[0] : starts[-1]]
        files = self.files.records(numbers)
        starts = starts - starts[0]
        rows, raw = numbers.tolist(), self.sections.is_raw[low:high].tolist()
        sections = [
            self._section(rows[begin:end], files[begin:end], is_raw)
            for (begin, end), is_raw in zip(itertools.pairwise(starts.tolist()), raw, strict=True)
        ]
        bounds = self.bounds[first : last + 1] - low
        heads = pa.array(numbers[starts[bounds[:-1]]])
        buckets = zip(*(column.take(heads).to_pylist() for column in self._bucket_columns), strict=True)
        for (begin, end), (partition, bucket, total) in zip(itertools.pairwise(bounds.tolist()), buckets, strict=True):
            yield Split(partition, bucket, total, tuple(sections[begin:end]), self.snapshot_id, self.branch)

    def _section(self, rows: list[int], files: list[SplitFile], is_raw: bool) -> Section:
        if len(rows) == 1 or self.ranges is None:
            return Section((tuple(files),), is_raw, is_stitched=not is_raw and self.ranges is None)
        file_of = dict(zip(rows, files, strict=True))
        runs = sorted_runs(rows, self.ranges)
        return Section(tuple(tuple(file_of[row] for row in run) for run in runs), is_raw)

    @cached_property
    def _bucket_columns(self) -> list[pa.Array]:
        return [self.files.entries.column(name) for name in ("_PARTITION", "_BUCKET", "_TOTAL_BUCKETS")]


@dataclass(frozen=True, slots=True)
class PaimonPlan:
    """What a scan reads.

    Args:
        splits: Parts of buckets, in the order of the metadata.
        steps: The planning steps that led to it.
        partitions: The partitions (rows with arity) in which the snapshot has rows, of those that can hold matching
            rows; empty if not requested.
    """

    splits: PlannedSplits
    steps: tuple[ScanStep, ...]
    partitions: frozenset[bytes] = frozenset()

    @property
    def tasks(self) -> PlannedFiles:
        """The files, as an explanation counts them."""
        return self.splits.files


# Plans of several branches -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileUnion:
    """Files of several plans, for counting.

    Args:
        parts: The files of each.
    """

    parts: tuple[PlannedFiles, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(part.size_bytes for part in self.parts)

    @property
    def unfiltered_count(self) -> int:
        """Number of files whose rows all match, except deleted ones."""
        return sum(part.unfiltered_count for part in self.parts)


@dataclass(frozen=True, slots=True)
class SplitUnion(Sequence[Split]):
    """Splits of several plans, in sequence.

    Args:
        parts: The splits of each.
    """

    parts: tuple[PlannedSplits, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @overload
    def __getitem__(self, index: int) -> Split: ...
    @overload
    def __getitem__(self, index: slice) -> list[Split]: ...
    def __getitem__(self, index: int | slice) -> Split | list[Split]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if number >= 0:
            for part in self.parts:
                if number < len(part):
                    return part[number]
                number -= len(part)
        raise IndexError(f"split {index} of {len(self)}")

    def __iter__(self) -> Iterator[Split]:
        return itertools.chain.from_iterable(self.parts)

    @property
    def files(self) -> FileUnion:
        """All files."""
        return FileUnion(tuple(part.files for part in self.parts))


@dataclass(frozen=True, slots=True)
class PlanUnion:
    """What a scan reads from several branches.

    Args:
        splits: Those of one branch followed by those of the other.
        steps: The planning steps that led to them.
    """

    splits: SplitUnion
    steps: tuple[ScanStep, ...]

    @property
    def tasks(self) -> FileUnion:
        """The files, as an explanation counts them."""
        return self.splits.files
