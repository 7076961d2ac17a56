"""Parquet data files: row groups with their statistics, columns found by field id."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from skerry.encryption import KeyMetadata
from skerry.errors import UnsupportedError
from skerry.parquet import (
    FileMetadata,
    PagedChunk,
    decode_metadata,
    is_encrypted,
    read_arrow_metadata,
    read_footer,
    read_places,
)
from skerry.storage import Storage
from skerry.table.files.evolution import (
    NameMapping,
    TableNames,
    column_positions,
    count_leaves,
    identify,
    match_leaves,
    top_level,
    with_ids,
)
from skerry.table.files.int96 import TimestampUnits, check_nanoseconds, plan_units
from skerry.table.files.parquet_statistics import bound_of, extent_of
from skerry.table.files.stored_file import Part, reading, without_columns
from skerry.table.files.variant_statistics import chunk_bounds, empty_values, shredded_leaves, typed_values
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.rows.values import arrow_storage
from skerry.wkb import PLANAR, Shapes, WkbType

__all__ = ["ParquetFile", "open_parquet"]

_STREAM_FACTOR = 16
_STREAM_BYTES = 1 << 18
_TRAILER_BYTES = 8  # length of the footer, and magic
_FOOTER_FACTOR = 8
"""How much larger a footer is in memory, about."""


def open_parquet(
    storage: Storage,
    location: str,
    wanted: pa.Schema,
    names: NameMapping | None,
    key: KeyMetadata | None = None,
    *,
    size: int | None = None,
) -> ParquetFile:
    """Read a file's footer.

    Args:
        storage: Access to the file.
        location: The file.
        wanted: The columns to read, with field ids; top-level ones of a dictionary type are read as dictionaries.
        names: Field ids by name, for a file without ids; None refuses such a file.
        key: What decrypts an encrypted file.
        size: Its size in bytes, if it is known: saves asking the store.

    Raises:
        FormatError: The file is corrupt; or the key is another file's.
        NotFoundError: It is missing.
        SchemaError: It has no field ids, and there is no name mapping.
        UnsupportedError: It is encrypted and there is no key, or PyArrow does not read it.
    """
    with reading(location, "parquet"):
        source = storage.arrow_file(location)
        decryption = None if key is None else _decryption_of(key)
        footer, file_size = b"", 0
        if decryption is None:
            footer, file_size = read_footer(storage, location, file_size=size)
            if is_encrypted(memoryview(footer)[:-_TRAILER_BYTES]):
                raise UnsupportedError("the file is encrypted", location=location)
            metadata, sound = read_arrow_metadata(footer)
        else:
            metadata = pq.ParquetFile(source, decryption_properties=decryption).metadata
            # nobody without the key can have changed the footer
            sound = np.ones((metadata.num_row_groups, metadata.num_columns), np.bool_)
        stored = pq.ParquetFile(source, metadata=metadata, decryption_properties=decryption).schema_arrow
        if count_leaves(stored) != metadata.num_columns:
            raise UnsupportedError(
                f"the file has {metadata.num_columns} columns, {count_leaves(stored)} of them understood",
                location=location,
            )
        if isinstance(names, TableNames):
            names = names.by_position(stored)
        schema = identify(stored, names)
        unneeded = empty_values(metadata, schema, wanted)
        matched = [match for match in match_leaves(schema, wanted) if match[0] not in unneeded]
        units = plan_units(metadata.schema, matched)
        if units.nanoseconds and decryption is not None:
            raise UnsupportedError("timestamps of type INT96 are not read from encrypted files", location=location)
        return ParquetFile(
            location=location,
            source=source,
            decryption=decryption,
            metadata=metadata,
            sound=sound,
            schema=schema,
            leaves=frozenset(leaf for leaf, _ in matched),
            positions=column_positions(schema),
            names=None if schema is stored else names,
            storage=storage,
            units=units,
            pages=decode_metadata(footer, location=location, file_size=file_size) if units.nanoseconds else None,
            footer=(footer, file_size),
            dictionaries=tuple(_dictionaries(schema, wanted)),
            parts=tuple(_parts(metadata, [leaf for leaf, _ in matched])),
        )


def _decryption_of(key: KeyMetadata) -> Any:
    """PyArrow's form of a file's key."""
    from pyarrow.parquet.encryption import create_decryption_properties

    return create_decryption_properties(key.key, aad_prefix=key.aad_prefix or None)


def _dictionaries(schema: pa.Schema, wanted: pa.Schema) -> Iterator[str]:
    stored = top_level(schema)
    for number, index in top_level(wanted).items():
        if number in stored and pa.types.is_dictionary(wanted.field(index).type):
            yield schema.field(stored[number]).name


def _parts(metadata: pq.FileMetaData, leaves: list[int]) -> Iterator[Part]:
    first_row = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        yield Part(
            index=index,
            first_row=first_row,
            row_count=group.num_rows,
            offset=_offset(group),
            size_bytes=sum(group.column(leaf).total_uncompressed_size for leaf in leaves),
        )
        first_row += group.num_rows


def _offset(group: pq.RowGroupMetaData) -> int:
    if not group.num_columns:
        return 0
    chunk = group.column(0)
    data: int = chunk.data_page_offset
    return min(data, chunk.dictionary_page_offset) if chunk.has_dictionary_page else data


@dataclass(frozen=True)
class ParquetFile:
    """A file whose footer has been read.

    Args:
        location: The file.
        storage: Access to it.
        source: The file that PyArrow reads from.
        decryption: How PyArrow decrypts it; None if it is not encrypted.
        metadata: The footer.
        sound: Whether the statistics of a column chunk are valid, bool[row_groups, columns].
        schema: All its columns with field ids.
        leaves: The requested primitive columns, by their positions.
        positions: Positions of columns among the primitive ones, by field id.
        names: Field ids by name, if the file itself has none.
        units: The requested primitive columns, and the units in which timestamps of type INT96 are read.
        pages: Locations of the pages of INT96 columns that are read in nanoseconds; None if there are none.
        dictionaries: The columns that are read as dictionaries.
        parts: Its row groups.
        footer: The bytes of the footer, none of an encrypted file; and the size of the file.
    """

    location: str
    storage: Storage
    source: Any
    decryption: Any
    metadata: pq.FileMetaData
    sound: npt.NDArray[np.bool_]
    schema: pa.Schema
    leaves: frozenset[int]
    positions: dict[int, int]
    names: NameMapping | None
    units: TimestampUnits
    pages: FileMetadata | None
    dictionaries: tuple[str, ...]
    parts: tuple[Part, ...]
    footer: tuple[bytes, int] = field(repr=False)
    remembered: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What readers of it keep for their next reading; little."""
    _chunks: dict[tuple[int, int], PagedChunk] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def row_count(self) -> int:
        """See `StoredFile`, as do the following."""
        return int(self.metadata.num_rows)

    @cached_property
    def layout(self) -> FileMetadata:
        """Where its column chunks are; decoded when it is first asked for."""
        footer, file_size = self.footer
        return decode_metadata(footer, location=self.location, file_size=file_size)

    def paged_chunks(self, group: int, positions: Sequence[int]) -> list[PagedChunk]:
        """The pages of primitive columns in a row group, which are kept: of some of `paged_columns`."""
        missing = [position for position in positions if (group, position) not in self._chunks]
        if missing:
            chunks = [self.layout.row_groups[group].chunks[position] for position in missing]
            found = read_places(self.storage, self.location, chunks)
            for position, chunk, places in zip(missing, chunks, found, strict=True):
                self._chunks[group, position] = PagedChunk(chunk, places)
        return [self._chunks[group, position] for position in positions]

    @property
    def kept_bytes(self) -> int:
        """Memory that is kept of it, about."""
        pages = sum(chunk.size_bytes for chunk in self._chunks.values())
        return _FOOTER_FACTOR * len(self.footer[0]) + pages

    @cached_property
    def paged_columns(self) -> tuple[tuple[int, pa.Field], ...] | None:
        """The requested columns, each with its position among the primitive ones, if all can be read page by page."""
        found = tuple(
            (position, self.schema.field(place))
            for number, place in top_level(self.schema).items()
            if (position := self.positions.get(number, -1)) in self.leaves
        )
        is_plain = self.decryption is None and not self.units.nanoseconds and not self.dictionaries
        is_flat = len(found) == len(self.leaves) and all(_is_paged(field.type) for _, field in found)
        return found if is_plain and is_flat else None

    def metrics(self, column: Column) -> FieldMetrics | None:
        """The statistics of a column in each row group."""
        if column.inside is not None:
            return self._metrics_inside(column)
        position = self.positions.get(column.field_id)
        return None if position is None else _statistics(self.metadata, self.sound, position, column)

    def _metrics_inside(self, column: Column) -> FieldMetrics | None:
        """The statistics of a shredded field of variants."""
        place = top_level(self.schema).get(column.field_id)
        if len(column.path) > 1 or place is None:
            return None
        leaves = shredded_leaves(self.schema, place)
        leaf = next((leaf for leaf in leaves if leaf.path == column.inside), None)
        if leaf is None or not self.sound[:, leaf.typed].all():
            return None
        groups = (self.metadata.row_group(index) for index in range(self.metadata.num_row_groups))
        found = [chunk_bounds(leaf, group, self.metadata.schema) or (None, None) for group in groups]
        lower, upper = (typed_values((bounds[end] for bounds in found), column.type) for end in (0, 1))
        unknown = np.full(len(found), -1, np.int64)
        nans = unknown if pa.types.is_floating(leaf.type) else np.zeros_like(unknown)
        # what is not shredded may be NaN
        nans = np.where([least is None for least, _ in found], -1, nans)
        return FieldMetrics(lower, upper, unknown, nans, unknown)

    def batches(self, part: Part, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read the requested columns of a row group."""
        if not self.units.paths:
            yield from without_columns(part.row_count, batch_rows)
            return
        with reading(self.location, "parquet"):
            if self.pages is not None:
                check_nanoseconds(self.storage, self.pages, part.index, self.units.nanoseconds)
            readers = [self._read(part, batch_rows, unit, paths) for unit, paths in self.units.paths.items()]
            for batches in zip(*readers, strict=True):
                batch = batches[0] if len(batches) == 1 else _side_by_side(batches)
                if self.names is None:
                    yield batch
                else:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=with_ids(batch.schema, self.names))

    def _read(self, part: Part, batch_rows: int, unit: str, paths: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        # a consumer of small batches has no memory for whole column chunks
        is_stream = _STREAM_FACTOR * batch_rows < part.row_count
        parquet = pq.ParquetFile(
            self.source,
            metadata=self.metadata,
            decryption_properties=self.decryption,
            read_dictionary=self.dictionaries,
            coerce_int96_timestamp_unit=unit,
            # one request for all columns of the row group
            pre_buffer=not (is_stream or isinstance(self.source, pa.OSFile)),
            buffer_size=_STREAM_BYTES if is_stream else 0,
        )
        batches: Iterator[pa.RecordBatch] = parquet.iter_batches(
            batch_size=batch_rows, row_groups=[part.index], columns=list(paths), use_threads=False
        )
        return batches


def _is_paged(type_: pa.DataType) -> bool:
    """Whether pages of a column of a type are decoded by themselves."""
    others = (pa.types.is_nested, pa.types.is_time, pa.types.is_float16, pa.types.is_dictionary)
    return not isinstance(type_, pa.BaseExtensionType) and not any(is_type(type_) for is_type in others)


def _side_by_side(batches: tuple[pa.RecordBatch, ...]) -> pa.RecordBatch:
    """Combine the columns of several batches into one."""
    fields = [field for batch in batches for field in batch.schema]
    columns = [column for batch in batches for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _statistics(metadata: pq.FileMetaData, sound: npt.NDArray[np.bool_], position: int, column: Column) -> FieldMetrics:
    """The statistics of one column over all row groups; Parquet does not count NaNs."""
    if isinstance(column.type, WkbType):
        return _extents(metadata, sound, position, column.type.shapes)
    stored = metadata.schema.column(position)
    logical = json.loads(stored.logical_type.to_json())
    lower: list[Any] = []
    upper: list[Any] = []
    nulls, values = [], []
    for index in range(metadata.num_row_groups):
        chunk = metadata.row_group(index).column(position)
        statistics: Any = chunk.statistics if sound[index, position] else None
        bounded = statistics is not None and statistics.has_min_max and chunk.physical_type != "INT96"
        for bounds, is_upper in ((lower, False), (upper, True)):
            raw = (statistics.max_raw if is_upper else statistics.min_raw) if bounded else None
            value = bound_of(column.type, raw, chunk.physical_type, logical, upper=is_upper) if bounded else None
            bounds.append(value)
        counted = statistics is not None and statistics.has_null_count
        nulls.append(statistics.null_count if counted else -1)
        values.append(chunk.num_values)
    storage = arrow_storage(column.type)
    unknown = np.full(len(values), -1, np.int64)
    return FieldMetrics(
        pa.array(lower, storage),
        pa.array(upper, storage),
        np.array(nulls, np.int64),
        unknown,
        np.array(values, np.int64),
    )


def _extents(metadata: pq.FileMetaData, sound: npt.NDArray[np.bool_], position: int, shapes: Shapes) -> FieldMetrics:
    """The boxes around the shapes of a column in all row groups; PyArrow does not show how many are null.

    None on a globe: writers differ in whether boxes contain the curves between points.
    """
    groups = range(metadata.num_row_groups)
    chunks = [metadata.row_group(index).column(position) for index in groups]
    is_told = [shapes.edges == PLANAR and sound[index, position] for index in groups]
    found = [extent_of(chunk) if is_told[index] else None for index, chunk in enumerate(chunks)]
    point = pa.list_(pa.float64(), 2)
    unknown = np.full(len(chunks), -1, np.int64)
    return FieldMetrics(
        pa.array([None if box is None else box[:2] for box in found], point),
        pa.array([None if box is None else box[2:] for box in found], point),
        unknown,
        unknown,
        np.array([chunk.num_values for chunk in chunks], np.int64),
    )
