"""Sketching of columns: of existing Parquet files, and of Arrow batches on their way to a writer.

A column of a file is read in the cheapest correct way:

- only its dictionaries, if parquet-mr (Spark, Iceberg Java, Flink, Hive) wrote the file and encoded every page of the
  column by dictionary. Its dictionaries contain only values of rows; those of other writers may contain more;
- its pages, hashing values in place and dictionary entries once, if an index refers to them;
- decoded by PyArrow, if pages are encoded or compressed in other ways, or have values of a type that needs a cast.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.parquet import (
    SUPPORTED_CODECS,
    Column,
    ColumnChunk,
    DictionaryPage,
    FileMetadata,
    PageBuffer,
    PhysicalType,
    iter_pages,
    read_metadata,
)
from skerry.table.files.int96 import check_nanoseconds, is_nanoseconds
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.page_hashing import (
    HASHED_ENCODINGS,
    PageCounts,
    PageHashing,
    hash_dictionary,
    hash_pages,
    plan_hashing,
)
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.row_sampling import RowSampler
from skerry.theta import Sample

if TYPE_CHECKING:
    from skerry.storage import Storage

__all__ = ["BatchSketcher", "FileSketch", "sketch_parquet"]

_PARQUET_MR: Final = "parquet-mr version "
"""Trino's `parquet-mr-trino version` and Photon's `parquet-mr compatible Photon version` are other writers."""
_REWRITTEN_FROM: Final = "original.created.by"
"""Where parquet-mr's rewriter, which copies pages unchanged, names the writers of the original files."""
_BATCH_ROWS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class FileSketch:
    """The sketches and counts of a file's columns, by field id.

    Args:
        samples: The smallest hashes of each sketched column; empty for a column that the file lacks.
        null_value_counts: Nulls, if the file or its pages give them; a column that the file lacks is all null.
        nan_value_counts: NaNs of every float and double column.
    """

    samples: dict[int, Sample] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)


def sketch_parquet(
    storage: Storage,
    location: str,
    schema: pa.Schema,
    field_ids: Collection[int],
    *,
    metadata: FileMetadata | None = None,
    count_nans: bool = True,
) -> FileSketch:
    """Sketch columns of one Parquet file.

    Deleted rows are not considered: for a file with deletes the sketch is an upper bound. Columns are found by field
    id, or by name in a file without any ids. A column that the file lacks counts as null; defaults of the schema are
    left to the caller.

    Args:
        storage: Access to the file.
        location: The file.
        schema: The table's schema with field ids; values are hashed as its types serialise them.
        field_ids: The primitive columns to sketch, also inside structs.
        metadata: The file's footer if the caller has it; otherwise one or two more reads.
        count_nans: Whether to count the NaNs of all float and double columns of the schema, sketched or not.

    Returns:
        Samples and counts of the file.

    Raises:
        FormatError: The file is corrupt.
        NotFoundError: There is no such file.
        SchemaError: A field id is not in the schema, or a column of the file cannot be read as the table's type.
        UnsupportedError: The file is encrypted.
    """
    found = metadata or read_metadata(storage, location)
    plan = _plan_file(found, _wanted_leaves(schema, field_ids, count_nans), field_ids, count_nans)
    sketches = [
        *plan.known,
        *(_sketch_column(storage, each) for each in plan.columns if not each.needs_dictionaries_only),
    ]
    by_dictionary = [each for each in plan.columns if each.needs_dictionaries_only]
    if by_dictionary:
        sketches += _sketch_dictionaries(storage, by_dictionary)
    return _file_sketch(sketches)


def _wanted_leaves(schema: pa.Schema, field_ids: Collection[int], count_nans: bool) -> list[Leaf]:
    """The columns to read: those to sketch, and those that may contain NaNs."""
    known = leaves(schema)
    unknown = set(field_ids) - {leaf.field_id for leaf in known}
    if unknown:
        raise SchemaError(f"no primitive column has field id {min(unknown)}")
    return [leaf for leaf in known if leaf.field_id in field_ids or (count_nans and pa.types.is_floating(leaf.type))]


# Files ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ColumnPlan:
    """How to sketch one column of one file.

    Args:
        metadata: The file.
        leaf: The table's column.
        column: The file's.
        chunks: The row groups to read with the column's chunk of each; chunks of only nulls are left out.
        skipped_null_count: Nulls in the chunks left out.
        hashing: How pages are hashed; None if PyArrow must decode all chunks.
        is_sketched: Whether a sample is needed, not only counts.
        counts_nans: Whether NaNs are counted.
        all_entries_used: Whether dictionaries contain only values of rows.
    """

    metadata: FileMetadata
    leaf: Leaf
    column: Column
    chunks: tuple[tuple[int, ColumnChunk], ...]
    skipped_null_count: int
    hashing: PageHashing | None
    is_sketched: bool
    counts_nans: bool
    all_entries_used: bool

    @property
    def needs_dictionaries_only(self) -> bool:
        return (
            self.all_entries_used
            and self.hashing is not None
            and all(chunk.is_dictionary_encoded and chunk.codec in SUPPORTED_CODECS for _, chunk in self.chunks)
        )

    @property
    def stated_null_count(self) -> int | None:
        """Nulls according to the footer, None if it does not state them."""
        counts = [chunk.null_count for _, chunk in self.chunks]
        known = [count for count in counts if count is not None]
        return self.skipped_null_count + sum(known) if len(known) == len(counts) else None

    def new_sketch(self, null_count: int | None) -> _ColumnSketch:
        """An empty sketch of the column."""
        return _new_sketch(self.leaf.field_id, self.is_sketched, self.counts_nans, null_count)


@dataclass(slots=True)
class _ColumnSketch:
    """The sketch of one column: its sample and its NaNs if requested, its nulls if known."""

    field_id: int
    sample: Sample | None
    nan_count: int | None
    null_count: int | None

    def settled(self) -> _ColumnSketch:
        """The sketch, without its working memory."""
        if self.sample is not None:
            self.sample.release()
        return self


def _new_sketch(field_id: int, is_sketched: bool, counts_nans: bool, null_count: int | None) -> _ColumnSketch:
    return _ColumnSketch(field_id, Sample() if is_sketched else None, 0 if counts_nans else None, null_count)


@dataclass(frozen=True, slots=True)
class _FilePlan:
    """How to sketch one file: `known` needs no reading."""

    known: tuple[_ColumnSketch, ...]
    columns: tuple[_ColumnPlan, ...]


def _plan_file(
    metadata: FileMetadata, wanted: Sequence[Leaf], sketched: Collection[int], count_nans: bool
) -> _FilePlan:
    by_id = {column.field_id: column for column in metadata.columns if column.field_id is not None}
    by_path = {column.path: column for column in metadata.columns}
    all_entries_used = _keeps_used_values_only(metadata)
    known, columns = [], []
    for leaf in wanted:
        # A file without any ids (written by Spark or Hive, then added to a table) is matched by name.
        column = by_id.get(leaf.field_id) if by_id else by_path.get(leaf.path)
        is_sketched = leaf.field_id in sketched
        counts_nans = count_nans and pa.types.is_floating(leaf.type)
        if column is not None and column.max_repetition_level:
            raise SchemaError(f"column {leaf.name} is in a list or map of the file", location=metadata.location)
        groups = enumerate(metadata.row_groups)
        chunks = [(index, group.chunks[column.index]) for index, group in groups] if column else []
        with_values = tuple((index, chunk) for index, chunk in chunks if chunk.null_count != chunk.value_count)
        if column is None or not with_values:
            rows = sum(group.row_count for group in metadata.row_groups)
            known.append(_new_sketch(leaf.field_id, is_sketched, counts_nans, null_count=rows))
            continue
        columns.append(
            _ColumnPlan(
                metadata=metadata,
                leaf=leaf,
                column=column,
                chunks=with_values,
                skipped_null_count=sum(chunk.value_count for _, chunk in chunks)
                - sum(chunk.value_count for _, chunk in with_values),
                hashing=plan_hashing(column, leaf.type),
                is_sketched=is_sketched,
                counts_nans=counts_nans,
                all_entries_used=all_entries_used,
            )
        )
    return _FilePlan(tuple(known), tuple(columns))


def _keeps_used_values_only(metadata: FileMetadata) -> bool:
    """Whether dictionaries contain only values of rows: parquet-mr enters a value when it writes a row with it."""
    writers = [metadata.created_by, *metadata.key_values.get(_REWRITTEN_FROM, _PARQUET_MR).split("\n")]
    return all(writer.startswith(_PARQUET_MR) for writer in writers)


def _file_sketch(columns: Iterable[_ColumnSketch]) -> FileSketch:
    sketch = FileSketch()
    for column in sorted(columns, key=lambda column: column.field_id):
        if column.sample is not None:
            sketch.samples[column.field_id] = column.sample
        if column.null_count is not None:
            sketch.null_value_counts[column.field_id] = column.null_count
        if column.nan_count is not None:
            sketch.nan_value_counts[column.field_id] = column.nan_count
    return sketch


# One column, by its cheapest way -------------------------------------------------------------------------------------


def _sketch_dictionaries(storage: Storage, plans: Sequence[_ColumnPlan]) -> list[_ColumnSketch]:
    """Sketch columns of one file by their dictionaries, all of them fetched together."""
    ranges = [_dictionary_range(chunk) for plan in plans for _, chunk in plan.chunks]
    location = plans[0].metadata.location
    parts = storage.read_ranges(location, [start for start, _ in ranges], [end - start for start, end in ranges])
    following = iter(parts)
    buffer = PageBuffer()
    return [_sketch_by_dictionaries(storage, plan, [next(following) for _ in plan.chunks], buffer) for plan in plans]


def _dictionary_range(chunk: ColumnChunk) -> tuple[int, int]:
    """The start of the dictionary page, and the latest possible end."""
    assert chunk.dictionary_offset is not None
    follows = chunk.data_offset > chunk.dictionary_offset
    return chunk.dictionary_offset, chunk.data_offset if follows else chunk.offset + chunk.size_bytes


def _sketch_by_dictionaries(
    storage: Storage, plan: _ColumnPlan, parts: Iterable[memoryview], buffer: PageBuffer
) -> _ColumnSketch:
    assert plan.hashing is not None
    location = plan.metadata.location
    sketch = plan.new_sketch(plan.stated_null_count)
    has_nan = False
    for (_, chunk), part in zip(plan.chunks, parts, strict=True):
        start = _dictionary_range(chunk)[0]
        page = next(iter_pages(part, chunk, base=start, location=location, buffer=buffer), None)
        if not isinstance(page, DictionaryPage):
            raise FormatError(f"column {plan.column.name} has no dictionary page here", location=location, offset=start)
        has_nan |= hash_dictionary(page, plan.column, plan.hashing, sketch.sample, location=location)
    # If there are NaNs, only the indices show how many.
    return _sketch_column(storage, plan) if has_nan and plan.counts_nans else sketch.settled()


def _sketch_column(storage: Storage, plan: _ColumnPlan) -> _ColumnSketch:
    """Sketch a column by its pages, and with PyArrow if those cannot be hashed."""
    sketch = plan.new_sketch(plan.skipped_null_count)
    buffer = PageBuffer()
    left = []
    for index, chunk in plan.chunks:
        counts = _hash_chunk(storage, plan, chunk, sketch.sample, buffer)
        if counts is None:
            left.append(index)
        else:
            _add(sketch, counts)
    if left:
        for array in _decode(storage, plan, left):
            if sketch.sample is not None:
                sketch.sample.update(array)
            _add(sketch, PageCounts(array.null_count, _count_nans(array) if plan.counts_nans else 0))
    return sketch.settled()


def _add(sketch: _ColumnSketch, counts: PageCounts) -> None:
    sketch.null_count = (sketch.null_count or 0) + counts.null_count
    if sketch.nan_count is not None:
        sketch.nan_count += counts.nan_count


def _hash_chunk(
    storage: Storage, plan: _ColumnPlan, chunk: ColumnChunk, sample: Sample | None, buffer: PageBuffer
) -> PageCounts | None:
    """Hash a chunk's pages; None if PyArrow must decode it."""
    if plan.hashing is None or chunk.codec not in SUPPORTED_CODECS or not chunk.encodings <= HASHED_ENCODINGS:
        return None
    location = plan.metadata.location
    data = memoryview(storage.read_range(location, chunk.offset, chunk.size_bytes))
    try:
        return hash_pages(
            iter_pages(data, chunk, base=chunk.offset, location=location, buffer=buffer),
            plan.column,
            plan.hashing,
            sample,
            location=location,
            all_entries_used=plan.all_entries_used,
            count_nans=plan.counts_nans,
        )
    except UnsupportedError:
        # The footer did not say so. Values hashed already will be hashed again, which changes nothing.
        return None


def _decode(storage: Storage, plan: _ColumnPlan, row_groups: Sequence[int]) -> Iterator[pa.Array]:
    """Decode a column with PyArrow, and convert its values to the table's type."""
    location = plan.metadata.location
    unit = "us"
    if is_nanoseconds(plan.leaf.type):
        unit = "ns"
        if plan.column.physical_type is PhysicalType.INT96:
            for group in row_groups:
                check_nanoseconds(storage, plan.metadata, group, [plan.column.index])
    try:
        with storage.arrow_file(location) as source:
            file = pq.ParquetFile(source, metadata=plan.metadata.arrow, coerce_int96_timestamp_unit=unit)
            for batch in file.iter_batches(
                _BATCH_ROWS, row_groups=row_groups, columns=[plan.column.name], use_threads=False
            ):
                yield _as_type(_descend(batch, plan.column.path), plan.leaf, location)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"PyArrow cannot read column {plan.column.name}: {error}", location=location) from error


def _descend(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """The values of a column inside structs, null where an enclosing struct is null."""
    try:
        array = batch.column(path[0])
        for name in path[1:]:
            array = pc.struct_field(array, [array.type.get_field_index(name)])
    except (KeyError, pa.ArrowException) as error:
        raise SchemaError(f"the rows have no column {'.'.join(path)}, or several") from error
    return array


def _as_type(array: pa.Array, leaf: Leaf, location: str) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    type_ = pa.binary(16) if isinstance(leaf.type, pa.UuidType) else leaf.type
    if array.type == type_:
        return array
    try:
        if (is_nanoseconds(array.type) and not is_nanoseconds(type_)) or array.type == pa.time64("ns"):
            array = pc.floor_temporal(array, unit="microsecond")
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"column {leaf.name} is {array.type} in the file and {type_} in the table: {error}", location=location
        ) from error


def _count_nans(array: pa.Array) -> int:
    return pc.sum(pc.is_nan(array)).as_py() or 0


# Batches -------------------------------------------------------------------------------------------------------------


class BatchSketcher:
    """Sketches rows on their way to a writer.

    Args:
        schema: The table's schema with field ids.
        field_ids: The primitive columns to sketch, also inside structs.
        samples_rows: Whether rows are sampled too.
        is_whole: Whether rows come in the order of the file, all of them.

    Raises:
        SchemaError: A field id is not in the schema.
    """

    def __init__(
        self, schema: pa.Schema, field_ids: Collection[int], *, samples_rows: bool = False, is_whole: bool = True
    ) -> None:
        self.samples: dict[int, Sample] = {}
        self.nan_value_counts: dict[int, int] = {}
        self._schema = schema
        self._leaves = _wanted_leaves(schema, field_ids, count_nans=True)
        for leaf in self._leaves:
            if leaf.field_id in field_ids:
                self.samples[leaf.field_id] = Sample()
            if pa.types.is_floating(leaf.type):
                self.nan_value_counts[leaf.field_id] = 0
        sampled = [leaf for leaf in self._leaves if leaf.field_id in field_ids]
        self._rows = RowSampler(sampled, has_positions=is_whole) if samples_rows and sampled else None

    def row_sample(self) -> RowSample | None:
        """Some of the rows; None if none were to be sampled."""
        return None if self._rows is None else self._rows.finish()

    def update(self, rows: pa.RecordBatch) -> None:
        """Add rows.

        Args:
            rows: Columns with the names and types of the schema, dictionary-encoded or not; others are ignored.

        Raises:
            SchemaError: A column is missing or of another type.
        """
        for leaf in self._leaves:
            self._update_column(leaf, rows)
        if self._rows is not None:
            self._rows.update(rows)

    def update_once(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Add all rows that come for now, column by column.

        A sample needs memory only while values are added: here one at a time, so that files of thousands of columns,
        and many open files, take little.

        Args:
            batches: As `update` takes them.

        Raises:
            SchemaError: A column is missing or of another type.
        """
        for leaf in self._leaves:
            for rows in batches:
                self._update_column(leaf, rows)
            if leaf.field_id in self.samples:
                self.samples[leaf.field_id].release()
        if self._rows is not None:
            for rows in batches:
                self._rows.update(rows)

    def _update_column(self, leaf: Leaf, rows: pa.RecordBatch) -> None:
        array = _descend(rows, leaf.path)
        type_ = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        if type_ != leaf.type:
            raise SchemaError(f"column {leaf.name} is {array.type} in the rows and {leaf.type} in the table")
        if leaf.field_id in self.samples:
            self.samples[leaf.field_id].update(array)
        if leaf.field_id in self.nan_value_counts:
            self.nan_value_counts[leaf.field_id] += _count_nans(array)
