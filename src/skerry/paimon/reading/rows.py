"""Rows of splits: raw sections are read part by part, others merged; deleted and non-matching rows are left out.

Pieces (`skerry.paimon.reading.pieces`) are processed by threads, in order, as far ahead as a memory budget allows; a
that is larger than that is merged as a stream, window by window.

Spec: docs/formats/paimon.md § 9.4, § 9.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.paimon.merging import MergeFunction, Records
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.splits import Split
from skerry.paimon.reading.data_files import KIND, SYSTEM_COLUMNS, DataFile
from skerry.paimon.reading.merging import KeyedRecords, RunPart, RunReader, merge_sorted_runs, merged_records
from skerry.paimon.reading.pieces import (
    OpenRun,
    OpenSection,
    Piece,
    PieceOpener,
    RawPart,
    on_positions,
    row_count_of,
    units_of,
)
from skerry.paimon.reading.stitched_files import StitchedFile
from skerry.paimon.reading.stored_records import as_records, kinds_of
from skerry.storage import is_local
from skerry.table.files.evolution import plan_conversion, prune, top_level
from skerry.table.files.variant_paths import PathValue, only_paths, schema_with, with_values
from skerry.table.predicate import (
    ALWAYS_TRUE,
    Predicate,
    columns_of,
    row_mask,
)
from skerry.table.rows.metadata_columns import (
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    LINEAGE_COLUMNS,
    METADATA_COLUMNS,
    POSITION,
    ROW_ID,
)
from skerry.table.rows.schema import field_id
from skerry.table.work.read_ahead import WorkPool, read_ahead, scan_pool
from skerry.variant import is_variant

__all__ = ["SplitReader"]

_BATCH_ROWS: Final = 1 << 17
_LEAST_BATCH_ROWS: Final = 1 << 10
_BUDGET_BYTES: Final = 256 << 20
_STREAMED_BATCHES: Final = 20
"""How many batches of a streamed part fit the memory: batches so small that Parquet's pages are read one by one."""
_LINEAGE: Final = {field_id(field): field for field in LINEAGE_COLUMNS}
_FIELDS: Final = {
    field_id(field): field for field in METADATA_COLUMNS if field_id(field) in (FILE, POSITION, *_LINEAGE)
}
_Result = TypeVar("_Result")
_ARGUMENTS: Final = ("columns", "predicate", "threads", "memory_bytes", "values", "recent")


@dataclass(frozen=True)
class SplitReader:
    """Reads the rows of splits that match a predicate and are not deleted; picklable.

    Args:
        state: The table, with the schema of the scan.
        columns: The columns to return: those of the table, possibly with only some members of structs, and for tables
            without primary key `_file` and `_pos`.
        predicate: Which rows.
        threads: How many pieces are read in parallel.
        memory_bytes: Approximate memory limit for what is read and merged in parallel.
        values: Values inside of variants that `batches` returns besides.
        recent: Whether rows of merged files that this process has kept since it wrote them need not be read.
    """

    state: PaimonState
    columns: pa.Schema
    predicate: Predicate = ALWAYS_TRUE
    threads: int = 1
    memory_bytes: int = _BUDGET_BYTES
    values: tuple[PathValue, ...] = ()
    recent: bool = False

    @property
    def delivered(self) -> pa.Schema:
        """The columns of `batches`: those of `columns`, and the values."""
        return schema_with(self.columns, self.values)

    def batches(self, splits: Iterable[Split], *, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Read splits in order.

        Args:
            splits: The splits.
            limit: Maximum number of rows.

        Yields:
            Batches of `delivered` with at least one row, in the order of splits, sections, and their rows.

        Raises:
            FormatError: A file is corrupt, or does not match the metadata.
            NotFoundError: A file is missing; the message names the snapshot.
            SchemaError: A file's columns do not match its schema.
            UnsupportedError: A file has an unsupported format or feature.
        """
        if limit == 0:
            return
        left = limit
        with scan_pool(self.threads, is_local=is_local(self.state.location)) as pool:
            for batch in self._read_pieces(pool, splits, partial(self._deliver, limit=limit), limit=limit):
                if left is None:
                    yield batch
                    del batch  # it would stay in memory while the next one is read
                    continue
                yield batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    return

    def count(self, splits: Iterable[Split]) -> int:
        """Count the rows of splits, without reading what metadata or statistics show."""
        known = 0

        def others() -> Iterator[Split]:
            nonlocal known
            for split in splits:
                rows = self._known_rows(split)
                if rows is None:
                    yield split
                else:
                    known += rows

        counting = SplitReader(self.state, pa.schema([]), self.predicate, self.threads, self.memory_bytes)
        with scan_pool(counting.threads, is_local=is_local(self.state.location)) as pool:
            counted = sum(counting._read_pieces(pool, others(), counting._count))
        return known + counted

    def records(self, splits: Iterable[Split]) -> Iterator[Records]:
        """Read records of a primary-key table with kinds and sequence numbers.

        Raw sections are returned as they are, others merged; records of kind -U and -D are included.

        Args:
            splits: The splits.

        Yields:
            Records with the values of `columns` for which the predicate holds.

        Raises:
            SkerryError: As `batches`.
        """
        with scan_pool(self.threads, is_local=is_local(self.state.location)) as pool:
            yield from self._read_pieces(pool, splits, self._records, with_numbers=True)

    def merged(self, splits: Iterable[Split], merge: Callable[[Sequence[RunPart]], _Result]) -> Iterator[_Result]:
        """Merge the sections of splits in another way than by the table's merge engine alone.

        Args:
            splits: Splits whose sections are all to be merged.
            merge: Merges all records of some keys; it gets those columns of the table that merging needs, and the
                columns of this reader.

        Yields:
            Its results, in the order of splits, sections, and keys.

        Raises:
            SkerryError: As `batches`.
        """

        def read(piece: Piece) -> Iterator[_Result]:
            assert isinstance(piece, OpenSection)
            return self._merged_by(piece, merge)

        with scan_pool(self.threads, is_local=is_local(self.state.location)) as pool:
            yield from self._read_pieces(pool, splits, read, with_numbers=True)

    # ---- columns ----

    @property
    def read_schema(self) -> pa.Schema:
        """The columns of the table that are returned or used by the predicate."""
        return self._tested

    @cached_property
    def _function(self) -> MergeFunction:
        return MergeFunction(self.state.schema)

    @cached_property
    def _has_keys(self) -> bool:
        return bool(self.state.schema.primary_keys)

    @cached_property
    def _tested(self) -> pa.Schema:
        """The columns of the table that are returned or used by the predicate."""
        table = self.state.arrow_schema
        delivered = {number for field in self.columns for number in _leaf_ids(field)}
        tested = {column.field_id for column in columns_of(self.predicate)}
        tested |= {value.column.field_id for value in self.values}
        return prune(table, delivered | tested)

    @cached_property
    def merge_columns(self) -> pa.Schema:
        """The columns of the table to read from files that are merged."""
        chosen = {field.name: field for field in self._tested}
        names = self._function.columns_for([*chosen, *self.state.schema.trimmed_primary_keys])
        table = self.state.arrow_schema
        return pa.schema([chosen.get(name, table.field(name)) for name in names])

    # ---- pieces of work ----

    def _read_pieces(
        self,
        pool: WorkPool,
        splits: Iterable[Split],
        read: Callable[[Piece], Iterator[_Result]],
        *,
        with_numbers: bool = False,
        limit: int | None = None,
    ) -> Iterator[_Result]:
        """Read pieces in order: those that fit the memory in threads, larger ones in this thread, as streams."""
        share = self.memory_bytes // self.threads

        def work(piece: Piece) -> list[_Result] | Piece:
            return piece if self._is_large(piece) else list(read(piece))

        def weight(piece: Piece) -> int:
            return min(piece.size_bytes, share)

        pieces = self._pieces(pool, splits, limit, with_numbers=with_numbers)
        for done in read_ahead(pool, work, pieces, weight, self.memory_bytes):
            yield from done if isinstance(done, list) else read(done)

    def _is_large(self, piece: Piece) -> bool:
        """Whether a piece is read as a stream: a section that exceeds its share of the memory, a part all of it."""
        share = self.memory_bytes // self.threads if isinstance(piece, OpenSection) else self.memory_bytes
        return piece.size_bytes > share

    def _streamed_rows(self, work: RawPart) -> int:
        """Rows per batch of a part that is not merged."""
        if not self._is_large(work):
            return _BATCH_ROWS
        rows = self.memory_bytes * work.part.row_count // (_STREAMED_BATCHES * work.size_bytes)
        return min(max(rows, _LEAST_BATCH_ROWS), _BATCH_ROWS)

    def _pieces(
        self, pool: WorkPool, splits: Iterable[Split], limit: int | None, *, with_numbers: bool
    ) -> Iterator[Piece]:
        """Pieces that may have matching rows, only as many as are certain to fill the limit."""
        system = () if not self._has_keys else SYSTEM_COLUMNS if with_numbers else (KIND,)
        lineage = [field for number, field in _LINEAGE.items() if number in self._metadata_ids]
        tested = only_paths(self._tested, self.columns, self.predicate, [value.column for value in self.values])
        raw_columns = pa.schema([*tested, *system, *lineage])
        merged = pa.schema([*self.merge_columns, *SYSTEM_COLUMNS])
        opener = PieceOpener(self.state, self.predicate, raw_columns, merged, self.recent)
        certain = 0
        for found in pool.in_order(opener.open, units_of(splits)):
            for piece in found:
                yield piece
                certain += (piece.known_rows or 0) if isinstance(piece, RawPart) else 0
                if limit is not None and certain >= limit:
                    return

    def __getstate__(self) -> dict[str, Any]:
        kept = {field: self.__dict__[field] for field in _ARGUMENTS}
        return {"state": self.state.for_reading(), **kept}

    # ---- raw parts ----

    def _raw_batches(self, work: RawPart, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The matching rows of a part in the columns that are read, without retractions."""
        for stored, rows in work.stored(batch_rows):
            keep = _alive_at(work.deleted, rows, work.part.first_row)
            batch = self._with_positions(stored, work, rows)
            if not work.adds_only:
                with _of_file(work.opened):
                    adds = pa.array((kinds_of(batch) & 1) == 0)
                keep = adds if keep is None else pc.and_(keep, adds)
            if not work.matches_all:
                matches = row_mask(self.predicate, batch)
                keep = matches if keep is None else pc.and_kleene(keep, matches)
            if keep is not None:
                batch = batch.filter(keep)
            if batch.num_rows:
                yield batch

    def _with_positions(self, batch: pa.RecordBatch, work: RawPart, rows: Positions | range) -> pa.RecordBatch:
        """Add the columns with the location of rows to a batch, and fill in those of their lineage, if requested."""
        file = work.opened.file
        for number in self._metadata_ids:
            if number == FILE:
                column = pa.repeat(file.location, batch.num_rows)
            elif number == LAST_UPDATED_SEQUENCE_NUMBER:
                column = pc.fill_null(batch.column(_LINEAGE[number].name), file.max_sequence_number)
            else:
                base = 0 if number == POSITION else file.first_row_id
                column = pa.nulls(batch.num_rows, pa.int64())
                if base is not None:
                    column = pa.array(_numbers(rows, base))
                if number == ROW_ID:
                    column = pc.coalesce(batch.column(_LINEAGE[number].name), column)
            if number in _LINEAGE:
                index = batch.schema.get_field_index(_LINEAGE[number].name)
                batch = batch.set_column(index, _LINEAGE[number], column)
            else:
                batch = batch.append_column(_FIELDS[number], column)
        return batch

    @cached_property
    def _metadata_ids(self) -> tuple[int, ...]:
        """The metadata columns that are returned or used by the predicate."""
        tested = {column.field_id for column in columns_of(self.predicate)} | top_level(self.columns).keys()
        return tuple(number for number in _FIELDS if number in tested)

    # ---- sections ----

    def _merged(self, work: OpenSection) -> Iterator[Records]:
        """The records of a section, one per key."""
        return self._merged_by(work, partial(merged_records, self._function), by_level=self._function.has_whole_rows)

    def _merged_by(
        self, work: OpenSection, merge: Callable[[Sequence[RunPart]], _Result], *, by_level: bool = True
    ) -> Iterator[_Result]:
        is_large = self._is_large(work)
        runs = []
        for run in _of_one_level(work.runs) if by_level else work.runs:
            batch_rows = self._window_rows(work, run) if is_large else _BATCH_ROWS
            first = run[0][0].file
            batches = self._run_batches(run, batch_rows)
            runs.append(RunReader(batches, first.location, first.level, ahead_rows=batch_rows // 2))
        if not is_large:
            for reader in runs:
                reader.read_all()
        return merge_sorted_runs(runs, merge)

    def _window_rows(self, work: OpenSection, run: OpenRun) -> int:
        """Rows per batch of a run.

        All runs share the memory by their size, so that their batches end at about the same key, each with a batch and
        half of the one before.
        """
        share = row_count_of([run]) / work.row_count
        rows = share * self.memory_bytes / self.threads / (1.5 * work.merging_row_bytes)
        return min(max(int(rows), _LEAST_BATCH_ROWS), _BATCH_ROWS)

    def _run_batches(self, run: OpenRun, batch_rows: int) -> Iterator[KeyedRecords]:
        key_columns = self.state.schema.trimmed_primary_keys
        for opened, parts, deleted in run:
            for part in parts:
                row = part.first_row
                for stored in opened.batches(part, batch_rows):
                    keep = _alive(deleted, row, stored.num_rows)
                    row += stored.num_rows
                    batch = stored if keep is None else stored.filter(keep)
                    with _of_file(opened):
                        records = KeyedRecords.of(as_records(batch), key_columns)
                    yield records

    def _wanted(self, records: Records) -> Records:
        """The records that match the predicate."""
        if self.predicate == ALWAYS_TRUE:
            return records
        return _filtered(records, row_mask(self.predicate, records.values))

    # ---- results ----

    def _deliver(self, piece: Piece, limit: int | None) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in self._rows(piece, _BATCH_ROWS if limit is None else min(limit, _BATCH_ROWS)):
            rows += batch.num_rows
            delivered = [with_values(plan_conversion(batch.schema, self.columns)(batch), batch, self.values)]
            del batch
            yield delivered.pop()
            if limit is not None and rows >= limit:
                return

    def _rows(self, piece: Piece, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if isinstance(piece, RawPart):
            yield from self._raw_batches(piece, min(batch_rows, self._streamed_rows(piece)))
            return
        for records in self._merged(piece):
            adds = (records.kinds & 1) == 0
            kept = records if adds.all() else _filtered(records, pa.array(adds))
            values = [self._wanted(kept).values]
            del records, kept, adds  # they would stay in memory while the rows are used
            if values[0].num_rows:
                yield values.pop()

    def _count(self, piece: Piece) -> Iterator[int]:
        if isinstance(piece, RawPart) and piece.known_rows is not None:
            yield piece.known_rows
            return
        for batch in self._rows(piece, _BATCH_ROWS):
            yield batch.num_rows

    def _records(self, piece: Piece) -> Iterator[Records]:
        deliver: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
        for records in self._piece_records(piece):
            kept = self._wanted(records)
            deliver = deliver or plan_conversion(kept.values.schema, self.columns)
            if len(kept):
                yield Records(deliver(kept.values), kept.kinds, kept.numbers)

    def _piece_records(self, piece: Piece) -> Iterator[Records]:
        if isinstance(piece, OpenSection):
            yield from self._merged(piece)
            return
        for stored, rows in piece.stored(self._streamed_rows(piece)):
            keep = _alive_at(piece.deleted, rows, piece.part.first_row)
            with _of_file(piece.opened):
                records = as_records(stored if keep is None else stored.filter(keep))
            yield records

    def _known_rows(self, split: Split) -> int | None:
        """The number of rows of a split, if it is known without opening its files."""
        if self._has_keys or on_positions(self.predicate):
            return None  # kinds are in the files
        rows = 0
        for file in (file for section in split.sections for file in section.files_with_rows):
            vector = file.deletion_vector
            if not file.matches_all or (vector is not None and vector.cardinality is None):
                return None
            rows += file.row_count - (vector.cardinality or 0 if vector is not None else 0)
        return rows


def _leaf_ids(field: pa.Field) -> list[int]:
    """The ids to read for a column: those of a struct's members, so that the struct itself is not read as a whole."""
    if pa.types.is_struct(field.type) and not is_variant(field.type):
        return [number for child in field.type for number in _leaf_ids(child)]
    return [field_id(field)]


def _of_one_level(runs: Iterable[OpenRun]) -> Iterator[OpenRun]:
    """Split runs by level: a sorted run may have files of several levels."""
    for run in runs:
        for level in sorted({opened.file.level for opened, _, _ in run}):
            yield tuple(part for part in run if part[0].file.level == level)


def _alive(deleted: Positions, first: int, count: int) -> pa.BooleanArray | None:
    """bool[count]: whether rows `first`, `first + 1`, … are not deleted; None if none is."""
    start, end = np.searchsorted(deleted, [first, first + count])
    if start == end:
        return None
    alive = np.ones(count, bool)
    alive[deleted[start:end] - first] = False
    return pa.array(alive)


def _alive_at(deleted: Positions, rows: Positions | range, first: int) -> pa.BooleanArray | None:
    """bool[rows]: whether rows at positions in a file are not deleted; None if none is.

    Args:
        deleted: int64[n] Deleted positions in a part, ascending.
        rows: Positions in the file.
        first: The first position of the part.
    """
    if isinstance(rows, range):
        return _alive(deleted, rows.start - first, len(rows))
    return pa.array(~np.isin(rows - first, deleted)) if len(deleted) else None


def _numbers(rows: Positions | range, base: int) -> Positions:
    return np.arange(base + rows.start, base + rows.stop, dtype=np.int64) if isinstance(rows, range) else rows + base


@contextmanager
def _of_file(opened: DataFile | StitchedFile) -> Iterator[None]:
    """Add a file's location to errors."""
    try:
        yield
    except FormatError as error:
        error.location = error.location or opened.file.location
        raise


def _filtered(records: Records, mask: pa.BooleanArray) -> Records:
    kept = np.asarray(mask.fill_null(False))
    return Records(records.values.filter(mask), records.kinds[kept], records.numbers[kept])
