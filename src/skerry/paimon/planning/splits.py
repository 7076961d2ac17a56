"""Splits: the files of buckets, grouped by what must be merged, as planning passes them to reading.

Spec: docs/formats/paimon.md § 9.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from skerry.paimon.metadata.paths import MAIN_BRANCH

__all__ = ["Section", "Split", "SplitFile", "VectorLocation"]


@dataclass(frozen=True, slots=True)
class VectorLocation:
    """The location of a data file's deletion vector.

    Args:
        location: The index file.
        offset: Where the vector's length field begins.
        length: Length by the index manifest; what it includes depends on the vector's kind.
        cardinality: Deleted rows; None if unknown.
    """

    location: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class SplitFile:
    """A data or changelog file to be read; small and picklable.

    Args:
        location: Its location.
        file_format: `parquet`, `orc`, `avro` or `amudai`.
        file_size: Bytes, exact.
        row_count: Rows in the file, deleted ones included.
        schema_id: The schema that it was written with, which gives its column names.
        level: Its level.
        min_sequence_number: Least sequence number of its rows.
        max_sequence_number: Greatest one.
        delete_row_count: Rows of kind -U and -D; None if unknown.
        first_row_id: Row id of its first row; None if rows have no ids.
        matches_all: Whether its statistics prove that every row that is not deleted matches.
        deletion_vector: Which rows are deleted; None for none.
        write_cols: The columns that it has, by their names then; None for all of its schema.
        rows: int64[n] Ascending positions: no other row matches. None if indexes leave all rows.
    """

    location: str
    file_format: str
    file_size: int
    row_count: int
    schema_id: int
    level: int = 0
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    delete_row_count: int | None = None
    first_row_id: int | None = None
    matches_all: bool = False
    deletion_vector: VectorLocation | None = None
    write_cols: tuple[str, ...] | None = None
    rows: npt.NDArray[np.int64] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Section:
    """Files of a bucket whose keys overlap with each other, but not with those of other sections.

    Args:
        runs: Sorted runs; the files of a run follow each other without overlap, in the order of keys.
        is_raw: Whether rows are read without merging, since no two files can hold the same key: always so in append
            tables, except where rows are stitched together. A raw section has one run.
        is_stitched: Whether all files have the same rows, of which each has some columns. Such a section has one run;
            deletion vectors are those of its first file.
    """

    runs: tuple[tuple[SplitFile, ...], ...]
    is_raw: bool
    is_stitched: bool = False

    @property
    def row_count(self) -> int:
        """Rows in its files, before merging and deletes."""
        return sum(file.row_count for file in self.files_with_rows)

    @property
    def files_with_rows(self) -> Iterator[SplitFile]:
        """The files whose rows are not those of another file, of which they have further columns."""
        return iter(self.runs[0][:1]) if self.is_stitched else self.files

    @property
    def files(self) -> Iterator[SplitFile]:
        """All files."""
        for run in self.runs:
            yield from run


@dataclass(frozen=True, slots=True)
class Split:
    """A part of one bucket that is read independently; small and picklable.

    Args:
        partition: Values of the partition keys as a row with arity.
        bucket: The bucket.
        total_buckets: Number of buckets of the partition; -1 and -2 as in the option `bucket`.
        sections: What to read, in the order of keys where there are any.
        snapshot_id: The snapshot, for messages.
        branch: Its branch, whose schemas its files refer to.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    sections: tuple[Section, ...]
    snapshot_id: int
    branch: str = MAIN_BRANCH

    @property
    def files(self) -> Iterator[SplitFile]:
        """All files."""
        for section in self.sections:
            yield from section.files

    def from_level(self, level: int) -> Split:
        """The split without files of lower levels."""
        if level <= 0:
            return self
        sections = []
        for section in self.sections:
            runs = (tuple(file for file in run if file.level >= level) for run in section.runs)
            left = tuple(run for run in runs if run)
            if left:
                sections.append(Section(left, section.is_raw))
        return replace(self, sections=tuple(sections))

    @property
    def is_raw(self) -> bool:
        """Whether nothing needs merging."""
        return all(section.is_raw for section in self.sections)

    @property
    def row_count(self) -> int:
        """Rows in its files, before merging and deletes."""
        return sum(section.row_count for section in self.sections)

    @property
    def size_bytes(self) -> int:
        """Bytes of its files."""
        return sum(file.file_size for file in self.files)
