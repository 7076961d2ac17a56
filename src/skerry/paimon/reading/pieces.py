"""Pieces of work of a scan: splits with open files, divided into units of reading.

A piece is a part of a file (a row group, a stripe) that is read without merging, or a section that is merged. Parts
that the statistics in the files exclude are left out here.

Spec: docs/formats/paimon.md § 9.3, § 9.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from skerry.errors import FormatError, NotFoundError
from skerry.paimon.merging import RowKind
from skerry.paimon.metadata.paths import MAIN_BRANCH
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions, deleted_positions
from skerry.paimon.planning.splits import Section, Split, SplitFile
from skerry.paimon.reading.data_files import KIND, DataFile, open_data_file, partition_scalars
from skerry.paimon.reading.stitched_files import StitchedFile, open_stitched
from skerry.table.files.stored_file import Part
from skerry.table.predicate import (
    Column,
    FieldMetrics,
    In,
    Predicate,
    columns_of,
    conjunction,
    conjuncts_of,
    evaluate,
)
from skerry.table.rows.metadata_columns import is_metadata_column
from skerry.table.rows.schema import field_id
from skerry.table.work.read_ahead import SharedCache

__all__ = [
    "ADDED",
    "OpenRun",
    "OpenSection",
    "Piece",
    "PieceOpener",
    "RawPart",
    "Unit",
    "on_positions",
    "row_count_of",
    "units_of",
]


_MIN_PIECE_BYTES: Final = 1 << 16
_VECTOR_CACHE_BYTES: Final = 64 << 20
_COPIES: Final = 8
_PROBED_RECORDS: Final = 1 << 17
"""Sections of more records are sampled to estimate their memory: files record only the size of encoded values."""
_PROBE_ROWS: Final = 1 << 10
_KIND_COLUMN: Final = Column(field_id(KIND), (KIND.name,), pa.int32())
ADDED: Final = In(_KIND_COLUMN, (RowKind.INSERT.value, RowKind.UPDATE_AFTER.value))
"""Records that add a row."""


@dataclass(frozen=True, slots=True)
class RawPart:
    """A part of a file that is read without merging.

    Args:
        opened: The file.
        part: The part.
        deleted: int64[n] Positions in the part that are deleted, ascending.
        matches_all: Whether every row that is not deleted matches.
        adds_only: Whether there are no records of kind -U or -D.
        rows: int64[n] Ascending positions in the file: no other rows are wanted; None for all of the part.
    """

    opened: DataFile | StitchedFile
    part: Part
    deleted: Positions
    matches_all: bool
    adds_only: bool
    rows: Positions | None = None

    @property
    def known_rows(self) -> int | None:
        """The number of rows that it returns; None if it is known only after reading."""
        is_known = self.matches_all and self.adds_only and self.rows is None
        return self.part.row_count - len(self.deleted) if is_known else None

    def stored(self, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, Positions | range]]:
        """The wanted rows as they are stored, deleted ones too, with their positions in the file."""
        if self.rows is not None and isinstance(self.opened, DataFile):
            yield from self.opened.stored_rows(self.part, self.rows, batch_rows)
            return
        first = self.part.first_row
        for batch in self.opened.batches(self.part, batch_rows):
            yield batch, range(first, first + batch.num_rows)
            first += batch.num_rows

    @property
    def size_bytes(self) -> int:
        """Approximate memory of its rows."""
        return max(self.part.size_bytes, _MIN_PIECE_BYTES)


OpenRun: TypeAlias = tuple[tuple[DataFile, tuple[Part, ...], Positions], ...]
"""The files of a sorted run, each with the parts to read and the deleted positions."""


def row_count_of(runs: Iterable[OpenRun]) -> int:
    """The records of sorted runs, deleted ones included."""
    return sum(part.row_count for run in runs for _, parts, _ in run for part in parts)


@dataclass(frozen=True, slots=True)
class OpenSection:
    """A section to be merged.

    Args:
        runs: Its sorted runs.
        row_bytes: Approximate memory of a record.
    """

    runs: tuple[OpenRun, ...]
    row_bytes: float

    @property
    def row_count(self) -> int:
        """Records before merging."""
        return row_count_of(self.runs)

    @property
    def merging_row_bytes(self) -> float:
        """Approximate memory for merging a record: it is read, combined with others, merged, and returned."""
        return _COPIES * self.row_bytes

    @property
    def size_bytes(self) -> int:
        """Approximate memory for merging all of it at once."""
        return max(int(self.merging_row_bytes * self.row_count), _MIN_PIECE_BYTES)


Piece: TypeAlias = RawPart | OpenSection


@dataclass(frozen=True, slots=True)
class Unit:
    """Files that are opened together.

    Args:
        content: A file that is read without merging, or a section that is merged.
        snapshot_id: Its snapshot, for messages.
        partition: Values of the partition keys as a row with arity.
    """

    content: SplitFile | Section
    snapshot_id: int
    partition: bytes


def units_of(splits: Iterable[Split]) -> Iterator[Unit]:
    """The units to open for splits, in their order."""
    for split in splits:
        for section in split.sections:
            if section.is_raw:
                yield from (Unit(file, split.snapshot_id, split.partition) for file in section.files)
            else:
                yield Unit(section, split.snapshot_id, split.partition)


@dataclass(frozen=True)
class PieceOpener:
    """Opens the files of splits.

    Args:
        state: The table, with the schema of the scan.
        predicate: Which rows match.
        raw_columns: The columns to read from files that are not merged.
        merge_columns: The columns to read from files that are merged.
        recent: Whether rows of merged files that this process has kept need not be read.
    """

    state: PaimonState
    predicate: Predicate
    raw_columns: pa.Schema
    merge_columns: pa.Schema
    recent: bool = False

    def open(self, unit: Unit) -> list[Piece]:
        """Open a file, or all files of a section.

        Args:
            unit: A result of `units_of`.

        Returns:
            Pieces that may have matching rows, in their order.

        Raises:
            FormatError: A file is corrupt, or does not match the metadata.
            NotFoundError: A file is missing; the message names the snapshot.
            UnsupportedError: The format of a file is not supported.
        """
        try:
            if isinstance(unit.content, SplitFile):
                return list(self._raw_parts(unit.content, unit.partition))
            if unit.content.is_stitched:
                return list(self._stitched_parts(unit.content, unit.partition))
            return [self._section(unit.content, unit.partition)]
        except NotFoundError as error:
            error.message += f"; snapshot {unit.snapshot_id} of {self._whose} needs it"
            raise

    def _open_file(self, file: SplitFile, columns: pa.Schema, partition: bytes, *, recent: bool = False) -> DataFile:
        then, now = self.state.schema_by_id(file.schema_id), self.state.schema
        values = self._values(partition)
        return open_data_file(self.state.storage, file, then, now, columns, values, recent=recent)

    def _values(self, partition: bytes) -> Mapping[int, pa.Scalar]:
        """The values of the partition keys, by field id."""
        return partition_scalars(self.state.schema, partition)

    def _raw_parts(self, file: SplitFile, partition: bytes) -> Iterator[RawPart]:
        yield from self._parts_of(file, self._open_file(file, self.raw_columns, partition))

    def _stitched_parts(self, section: Section, partition: bytes) -> Iterator[RawPart]:
        """The parts of files that have columns of the same rows."""
        state, files = self.state, list(section.files)
        for file in files[1:]:
            if file.deletion_vector is not None:
                raise FormatError(
                    "rows are deleted from a file that continues an older one, which the vector should be of",
                    location=file.location,
                    rule="docs/formats/paimon.md § 8.10",
                )
        opened = open_stitched(state, files, self.raw_columns, self._values(partition))
        yield from self._parts_of(files[0], opened)

    def _parts_of(self, file: SplitFile, opened: DataFile | StitchedFile) -> Iterator[RawPart]:
        deleted = self._deleted(file)
        count = len(opened.parts)
        condition = self._on_positions if file.matches_all else self.predicate
        verdict = evaluate(condition, partial(_metrics, opened), count)
        adds = evaluate(ADDED, opened.metrics, count).must if self.state.schema.primary_keys else np.full(count, True)
        for part in opened.parts:
            start, end = np.searchsorted(deleted, [part.first_row, part.first_row + part.row_count])
            rows = None if file.rows is None else _rows_of(part, file.rows)
            if rows is not None and not len(rows):
                continue
            if verdict.may[part.index] and end - start < part.row_count:
                within = deleted[start:end] - part.first_row
                yield RawPart(opened, part, within, bool(verdict.must[part.index]), bool(adds[part.index]), rows)

    def _section(self, section: Section, partition: bytes) -> OpenSection:
        """Open the files of a section; parts that cannot have a matching key are left out of all runs alike."""
        runs = []
        for run in section.runs:
            files = []
            for file in run:
                opened = self._open_file(file, self.merge_columns, partition, recent=self.recent)
                may = evaluate(self._key_condition, partial(_metrics, opened), len(opened.parts)).may
                parts = tuple(part for part in opened.parts if may[part.index])
                if parts:
                    files.append((opened, parts, self._deleted(file)))
            if files:
                runs.append(tuple(files))
        return OpenSection(tuple(runs), _row_bytes(runs))

    @cached_property
    def _key_condition(self) -> Predicate:
        """The part of the predicate on keys alone: it holds for all records of a key, or for none."""
        keys = {field.id for field in self.state.schema.key_fields}
        return conjunction(
            part for part in conjuncts_of(self.predicate) if {column.field_id for column in columns_of(part)} <= keys
        )

    @cached_property
    def _on_positions(self) -> Predicate:
        """The part of the predicate on the location of rows, which planning cannot evaluate."""
        return conjunction(part for part in conjuncts_of(self.predicate) if on_positions(part))

    @property
    def _whose(self) -> str:
        return "the table" if self.state.branch == MAIN_BRANCH else f"branch {self.state.branch!r}"

    # ---- deleted rows ----

    @cached_property
    def _vector_files(self) -> SharedCache:
        return SharedCache(_VECTOR_CACHE_BYTES)

    def _deleted(self, file: SplitFile) -> Positions:
        """The positions in a file that its deletion vector marks: int64[n]."""
        return deleted_positions(file, self._vector_file)

    def _vector_file(self, location: str) -> bytes:
        data: bytes = self._vector_files.get(location, lambda: self.state.storage.read(location), len)
        return data


def _row_bytes(runs: Sequence[OpenRun]) -> float:
    """Approximate memory of a record."""
    parts = [part for run in runs for _, parts, _ in run for part in parts]
    count = sum(part.row_count for part in parts)
    estimate = sum(part.size_bytes for part in parts) / max(count, 1)
    if count > _PROBED_RECORDS:
        opened, of_first, _ = runs[0][0]
        probe = next(opened.batches(of_first[0], _PROBE_ROWS))
        return max(estimate, probe.nbytes / max(probe.num_rows, 1))
    return estimate


def _rows_of(part: Part, rows: Positions) -> Positions:
    """The rows that are in a part."""
    start, end = np.searchsorted(rows, [part.first_row, part.first_row + part.row_count])
    return rows[start:end]


def on_positions(predicate: Predicate) -> bool:
    """Whether a predicate uses the location of rows."""
    return any(is_metadata_column(column.field_id) for column in columns_of(predicate))


def _metrics(opened: DataFile | StitchedFile, column: Column) -> FieldMetrics | None:
    return None if is_metadata_column(column.field_id) else opened.metrics(column)
