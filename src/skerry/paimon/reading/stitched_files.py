"""Files that have columns of the same rows, opened as one.

A column is read from the newest file that has it. Files of VECTOR and BLOB columns may hold a part of the rows; where
several have the same row, the newest counts.

Spec: docs/formats/paimon.md § 8.10, § 8.11.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import pyarrow as pa

from skerry.errors import FormatError
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.splits import SplitFile
from skerry.paimon.reading.blob_columns import BlobColumn
from skerry.paimon.reading.data_files import DataFile, columns_in, open_data_file
from skerry.table.files.stored_file import Part
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.rows.schema import field_id

__all__ = ["StitchedFile", "open_stitched"]

_BLOB: Final = "blob"
_NO_ROWS: Final = pa.RecordBatch.from_pylist([], schema=pa.schema([]))


@dataclass(frozen=True, slots=True)
class _Segment:
    """Rows of one file.

    Args:
        opened: The file.
        shift: The stitched row that is its first.
        first: The first stitched row that is read from it.
        end: The one after the last.
    """

    opened: DataFile
    shift: int
    first: int
    end: int

    def batches(self, first: int, end: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read stitched rows, as far as they are here."""
        first, end = max(first, self.first), min(end, self.end)
        for part in self.opened.parts:
            row = self.shift + part.first_row
            if row >= end or row + part.row_count <= first:
                continue
            for batch in self.opened.batches(part, batch_rows):
                low, high = max(first - row, 0), min(end - row, batch.num_rows)
                if low < high:
                    yield batch.slice(low, high - low)
                row += batch.num_rows
                if row >= end:
                    break


@dataclass(frozen=True, slots=True)
class _Lane:
    """Columns that are read from the same files.

    Args:
        schema: The columns.
        segments: The files, which cover all rows.
    """

    schema: pa.Schema
    segments: tuple[_Segment, ...]

    @property
    def bounds(self) -> frozenset[int]:
        """The stitched rows with which its parts begin."""
        return frozenset(
            segment.shift + part.first_row
            for segment in self.segments
            for part in segment.opened.parts
            if segment.first <= segment.shift + part.first_row < segment.end
        ) | {segment.first for segment in self.segments}

    def size_bytes(self, first: int, end: int) -> int:
        """Approximate memory of some rows."""
        return sum(
            part.size_bytes
            for segment in self.segments
            for part in segment.opened.parts
            if segment.shift + part.first_row < end and segment.shift + part.first_row + part.row_count > first
        )

    def batches(self, first: int, end: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read some rows."""
        for segment in self.segments:
            yield from segment.batches(first, end, batch_rows)


@dataclass(frozen=True, slots=True)
class _BlobLane:
    """A BLOB column in files of its own."""

    schema: pa.Schema
    column: BlobColumn

    def size_bytes(self, first: int, end: int) -> int:
        """Approximate memory of some rows."""
        return self.column.size_bytes(first, end - first)

    def batches(self, first: int, end: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read some rows."""
        for values in self.column.batches(first, end - first, batch_rows):
            yield pa.RecordBatch.from_arrays([values], schema=self.schema)


@dataclass(frozen=True, slots=True)
class StitchedFile:
    """Open files with the same rows; it is read like a `skerry.paimon.reading.data_files.DataFile`.

    Args:
        file: The first of them, whose rows they are.
        schema: The columns to return.
        lanes: Where they are read from; columns that no file has are null.
        parts: The rows, part by part.
    """

    file: SplitFile
    schema: pa.Schema
    lanes: tuple[_Lane | _BlobLane, ...]
    parts: tuple[Part, ...]

    def metrics(self, column: Column) -> FieldMetrics | None:
        """What the files record about a column in each of the parts; None if nothing, or about other parts."""
        for lane in self.lanes:
            if isinstance(lane, _Lane) and column.field_id in map(field_id, lane.schema):
                opened = lane.segments[0].opened
                same = [(part.first_row, part.row_count) for part in opened.parts]
                if len(lane.segments) == 1 and same == [(part.first_row, part.row_count) for part in self.parts]:
                    return opened.metrics(column)
        return None

    def batches(self, part: Part, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read a part in the columns of `schema`.

        Raises:
            FormatError: A file is corrupt.
            SchemaError: A column does not match the schema.
            UnsupportedError: A column's type has changed in a way that is not supported.
        """
        first, end = part.first_row, part.first_row + part.row_count
        streams = [lane.batches(first, end, batch_rows) for lane in self.lanes]
        held: list[pa.RecordBatch] = [_NO_ROWS] * len(streams)
        row = first
        while row < end:
            ready = [self._filled(batch, stream) for batch, stream in zip(held, streams, strict=True)]
            count = min((batch.num_rows for batch in ready), default=min(batch_rows, end - row))
            columns = {
                field_id(field): batch.column(index).slice(0, count)
                for batch in ready
                for index, field in enumerate(batch.schema)
            }
            yield self._batch(columns, count)
            held = [batch.slice(count) for batch in ready]
            row += count

    def _filled(self, batch: pa.RecordBatch, stream: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        """The rows that are left of a batch, or those of the next one."""
        while not batch.num_rows:
            found = next(stream, None)
            if found is None:
                raise FormatError(
                    "files with the same row ids have another number of rows", location=self.file.location
                )
            batch = found
        return batch

    def _batch(self, columns: Mapping[int, pa.Array], count: int) -> pa.RecordBatch:
        if not len(self.schema):
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        arrays = [columns.get(field_id(field)) for field in self.schema]
        filled = [
            pa.nulls(count, field.type) if array is None else array
            for field, array in zip(self.schema, arrays, strict=True)
        ]
        return pa.RecordBatch.from_arrays(filled, schema=self.schema)


def open_stitched(
    state: PaimonState, files: Sequence[SplitFile], wanted: pa.Schema, partition: Mapping[int, pa.Scalar]
) -> StitchedFile:
    """Open files that have columns of the same rows; those without a wanted column are left alone.

    Args:
        state: The table, with the schema of the scan.
        files: The files; the first has all row ids.
        wanted: The columns to read.
        partition: The values of partition keys, by field id.

    Raises:
        FormatError: A file is corrupt, or rows of a column are in no file.
        NotFoundError: A file is missing.
        UnsupportedError: The format of a file is not supported.
    """
    anchor = files[0]
    assert anchor.first_row_id is not None
    newest = sorted(files, key=lambda file: (file.max_sequence_number, file.location), reverse=True)
    has = {file.location: _column_ids(file, state.schema_by_id(file.schema_id)) for file in newest}
    lanes: list[_Lane | _BlobLane] = []
    by_places: dict[tuple[tuple[int, int, int], ...], list[pa.Field]] = {}
    for field in wanted:
        holders = [file for file in newest if field_id(field) in has[file.location]]
        if field_id(field) in partition:
            holders = [anchor]
        if holders and all(file.file_format == _BLOB for file in holders):
            column = BlobColumn.open(
                state.storage,
                holders,
                anchor.first_row_id,
                anchor.row_count,
                as_descriptors=state.options.blob_as_descriptor,
            )
            lanes.append(_BlobLane(pa.schema([field]), column))
        elif holders:
            places = tuple(_places(holders, anchor))
            key = tuple((newest.index(file), first, end) for file, first, end in places)
            by_places.setdefault(key, []).append(field)
    for key, fields in by_places.items():
        lanes.append(_open_lane(state, anchor, newest, key, pa.schema(fields), partition))
    updated = max(file.max_sequence_number for file in files if file.file_format != _BLOB)
    parts = tuple(_parts(anchor, lanes))
    return StitchedFile(replace(anchor, max_sequence_number=updated), wanted, tuple(lanes), parts)


def _column_ids(file: SplitFile, then: TableSchema) -> frozenset[int]:
    return frozenset(field.id for field in columns_in(file, then))


def _places(holders: Sequence[SplitFile], anchor: SplitFile) -> Iterator[tuple[SplitFile, int, int]]:
    """Which rows are read from which file, in their order; the first file that has a row counts.

    Raises:
        FormatError: Some rows are in no file.
    """
    assert anchor.first_row_id is not None
    free = [(0, anchor.row_count)]
    taken: list[tuple[int, int, SplitFile]] = []
    for file in holders:
        assert file.first_row_id is not None
        first = file.first_row_id - anchor.first_row_id
        left = []
        for low, high in free:
            begin, end = max(low, first), min(high, first + file.row_count)
            if begin >= end:
                left.append((low, high))
                continue
            taken.append((begin, end, file))
            left += [(low, begin)] * (low < begin) + [(end, high)] * (end < high)
        free = left
    if free:
        raise FormatError(
            f"no file has {free[0][1] - free[0][0]} rows of a column that {holders[0].location} has",
            location=anchor.location,
            rule="docs/formats/paimon.md § 8.10",
        )
    for begin, end, file in sorted(taken, key=lambda place: place[0]):
        yield file, begin, end


def _open_lane(
    state: PaimonState,
    anchor: SplitFile,
    files: Sequence[SplitFile],
    places: Sequence[tuple[int, int, int]],
    columns: pa.Schema,
    partition: Mapping[int, pa.Scalar],
) -> _Lane:
    assert anchor.first_row_id is not None
    opened = {}
    segments = []
    for number, first, end in places:
        file = files[number]
        if number not in opened:
            then = state.schema_by_id(file.schema_id)
            opened[number] = open_data_file(state.storage, file, then, state.schema, columns, partition)
        segments.append(_Segment(opened[number], (file.first_row_id or 0) - anchor.first_row_id, first, end))
    return _Lane(columns, tuple(segments))


def _parts(anchor: SplitFile, lanes: Sequence[_Lane | _BlobLane]) -> Iterator[Part]:
    """Parts that begin where those of all files do, so that none is decoded twice."""
    bounds = [lane.bounds for lane in lanes if isinstance(lane, _Lane)]
    common = reduce(frozenset.intersection, bounds) if bounds else frozenset({0})
    ends = sorted({0, anchor.row_count, *common})
    for index, (first, end) in enumerate(itertools.pairwise(ends)):
        yield Part(index, first, end - first, first, sum(lane.size_bytes(first, end) for lane in lanes))
