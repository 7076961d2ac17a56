"""Single values of a column chunk: the pages that hold them are decompressed, and nothing else of them is decoded.

PyArrow decodes whole pages, each with the dictionary before it, which for one row in thousands is nearly all of the
time. Pages that are not as usual (DATA_PAGE_V2, delta encodings, decimals) are left to it.

Spec: Parquet spec, README.md, Data Pages, Encodings.md, Plain, Run Length Encoding / Bit-Packing Hybrid.
"""

from __future__ import annotations

import itertools
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.parquet.codecs import SUPPORTED_CODECS, PageBuffer, check_expansion, decompress_into
from skerry.parquet.metadata import Codec, ColumnChunk, Encoding
from skerry.parquet.page_headers import CHECKSUM, HEADER_FIELDS, NO_CHECKSUM, read_headers
from skerry.parquet.page_index import PagePlaces, decode_pages
from skerry.parquet.pages import DictionaryPage, iter_pages
from skerry.parquet.plain import decode_plain_byte_array
from skerry.parquet.schema import Column, PhysicalType
from skerry.parquet.value_places import copy_values, find_values

if TYPE_CHECKING:
    from skerry.storage import Storage

__all__ = ["PagedChunk", "take_rows"]

_Numbers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_RULE: Final = "Parquet spec, README.md, Data Pages"
_AT_ONCE_BYTES: Final = 32 << 20
"""How many bytes of pages are read together, unless they are those of one row."""
_PART_BYTES: Final = 1 << 20
"""How many of them are held decompressed, about: a single page may be larger."""
_KEPT_DICTIONARY_BYTES: Final = 1 << 18
_SHORT_HEADER_BYTES: Final = 256
"""Headers are seldom longer."""
_WIDTHS: Final = {PhysicalType.INT32: 4, PhysicalType.INT64: 8, PhysicalType.FLOAT: 4, PhysicalType.DOUBLE: 8}
_BITS: Final = -1
_VARIABLE: Final = 0


@dataclass(frozen=True, slots=True)
class _Dictionary:
    """The entries of a dictionary page.

    Args:
        data: uint8[n], where they are.
        entries: int64[entries, 2], where each begins, and its length.
    """

    data: _Bytes
    entries: _Numbers


_NO_DICTIONARY: Final = _Dictionary(np.empty(0, np.uint8), np.empty((0, 2), np.int64))


@dataclass(slots=True, eq=False)
class PagedChunk:
    """A column chunk of a flat column whose pages are known; keeps its dictionary if that is small.

    Args:
        chunk: The chunk.
        places: Its pages.
    """

    chunk: ColumnChunk
    places: PagePlaces
    _dictionary: _Dictionary | None = field(default=None, init=False, repr=False)

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, without a dictionary."""
        return 3 * int(self.places.offsets.nbytes)

    @property
    def missing_dictionary(self) -> tuple[int, int] | None:
        """Where the dictionary is that all pages need and that is not kept; None if there is none such."""
        return self.places.dictionary if self._dictionary is None and self.chunk.is_dictionary_encoded else None

    def dictionary(self, storage: Storage, location: str, data: memoryview | None) -> _Dictionary:
        """The entries of its dictionary.

        Args:
            storage: Access to the file.
            location: The file.
            data: The dictionary's page, if it was read.

        Raises:
            FormatError: There is none, or it is unsound.
        """
        found = self._dictionary
        if found is None:
            place = self.places.dictionary
            if place is None:
                raise FormatError(f"pages of {self.chunk.column.name} lack their dictionary", rule=_RULE)
            page = memoryview(storage.read_range(location, *place)) if data is None else data
            found = _read_dictionary(page, location, self.chunk, place[0])
            if len(found.data) <= _KEPT_DICTIONARY_BYTES:
                self._dictionary = found
        return found


def take_rows(
    storage: Storage, location: str, chunks: Sequence[PagedChunk], rows: npt.NDArray[np.int64]
) -> list[pa.Array]:
    """Read rows of a row group.

    Args:
        storage: Access to the file.
        location: The file.
        chunks: The wanted columns in that row group.
        rows: int64[n] Positions in the row group, ascending and distinct; at least one.

    Returns:
        The values of each column, in its type or one that PyArrow reads it as.

    Raises:
        FormatError: A page is unsound.
        UnsupportedError: PyArrow does not decode columns of this type page by page.
    """
    works = [_Work.of(chunk, rows) for chunk in chunks]
    offsets = [offset for work in works for offset in work.offsets]
    sizes = [size for work in works for size in work.sizes]
    if sum(sizes) > _AT_ONCE_BYTES and len(rows) > 1:
        middle = len(rows) // 2
        halves = [take_rows(storage, location, chunks, part) for part in (rows[:middle], rows[middle:])]
        return [pa.concat_arrays(list(parts)) for parts in zip(*halves, strict=True)]
    missing = {place: each for place, chunk in enumerate(chunks) if (each := chunk.missing_dictionary) is not None}
    offsets += [start for start, _ in missing.values()]
    sizes += [size for _, size in missing.values()]
    views = storage.read_ranges(location, offsets, sizes)
    pages = views[: len(views) - len(missing)]
    dictionaries = dict(zip(missing, views[len(pages) :], strict=True))
    headers = _headers(pages)
    found, first = [], 0
    for place, work in enumerate(works):
        stop = first + len(work.pages)
        part = pages[first:stop]
        of_part = _headers(part) if headers is None else headers[first:stop]
        first = stop
        try:
            values = None if of_part is None else work.values(storage, location, part, of_part, dictionaries.get(place))
        except SkerryError as error:
            if error.location is None:
                error.location, error.offset = location, work.offsets[0]
            raise
        found.append(work.by_arrow(storage, location) if values is None else values)
    return found


@dataclass(frozen=True, slots=True)
class _Work:
    """Rows of a chunk, and the pages that they are in.

    Args:
        paged: The chunk.
        rows: int64[n], positions in the row group.
        pages: int64[m], the pages.
        edges: int64[m + 1], where the rows of each page begin among `rows`.
    """

    paged: PagedChunk
    rows: _Numbers
    pages: _Numbers
    edges: _Numbers

    @classmethod
    def of(cls, paged: PagedChunk, rows: _Numbers) -> _Work:
        page_of = np.searchsorted(paged.places.first_rows, rows, "right") - 1
        changes = np.flatnonzero(page_of[1:] != page_of[:-1]) + 1
        edges = np.concatenate([[0], changes, [len(rows)]])
        return cls(paged, rows, page_of[edges[:-1]], edges)

    @property
    def offsets(self) -> list[int]:
        offsets: list[int] = self.paged.places.offsets[self.pages].tolist()
        return offsets

    @property
    def sizes(self) -> list[int]:
        sizes: list[int] = self.paged.places.sizes[self.pages].tolist()
        return sizes

    def values(
        self,
        storage: Storage,
        location: str,
        views: list[memoryview],
        headers: _Numbers,
        dictionary_page: memoryview | None,
    ) -> pa.Array | None:
        """The values; None if the pages, or the type, are not as usual."""
        chunk, column = self.paged.chunk, self.paged.chunk.column
        width = _width(column)
        if width is None or chunk.codec not in SUPPORTED_CODECS or column.max_definition_level > 1:
            return None
        header_bytes, compressed, uncompressed, counts, encodings = (headers[:, place].copy() for place in range(5))
        uses_dictionary = (encodings == Encoding.RLE_DICTIONARY) | (encodings == Encoding.PLAIN_DICTIONARY)
        if not (uses_dictionary | (encodings == Encoding.PLAIN)).all():
            return None
        first_rows = self.paged.places.first_rows
        if (counts != np.diff(first_rows)[self.pages]).any():
            raise FormatError("a page holds another number of values than the page index says", rule=_RULE)
        if (header_bytes + compressed > self.paged.places.sizes[self.pages]).any():
            raise FormatError("a page is longer than the page index says", rule=_RULE)
        bodies = [
            view[start : start + size]
            for view, start, size in zip(views, header_bytes.tolist(), compressed.tolist(), strict=True)
        ]
        _check_checksums(bodies, headers[:, CHECKSUM].tolist())
        dictionary = _NO_DICTIONARY
        if uses_dictionary.any():
            dictionary = self.paged.dictionary(storage, location, dictionary_page)
        decode = _Decoding(chunk, width, dictionary, bodies, uncompressed, uses_dictionary.astype(np.uint8))
        within = self.rows - np.repeat(first_rows[self.pages], np.diff(self.edges))
        arrays = [decode.values(start, stop, within, self.edges) for start, stop in _parts(uncompressed)]
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)

    def by_arrow(self, storage: Storage, location: str) -> pa.Array:
        """The values by PyArrow."""
        decoded = decode_pages(storage, location, self.paged.chunk, self.paged.places, self.pages)
        firsts = self.paged.places.first_rows[self.pages].tolist()
        edges = self.edges.tolist()
        parts = [
            values.take(pa.array(self.rows[edges[place] : edges[place + 1]] - firsts[place]))
            for place, values in enumerate(decoded)
        ]
        return pa.concat_arrays(parts)


def _headers(views: Sequence[memoryview]) -> _Numbers | None:
    """int64[pages, HEADER_FIELDS] The headers of pages; None if they are not as usual."""
    headers = np.empty((len(views), HEADER_FIELDS), np.int64)
    for limit in (_SHORT_HEADER_BYTES, None):
        parts = [view[:limit] for view in views]
        edges = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        if read_headers(np.frombuffer(b"".join(parts), np.uint8), edges, headers):
            return headers
    return None


def _width(column: Column) -> int | None:
    """The bytes of a value, 0 where they vary and -1 for bits; None for a type that is left to PyArrow."""
    type_, physical = column.type, column.physical_type
    if pa.types.is_decimal(type_) or pa.types.is_float16(type_):
        return None
    if physical is PhysicalType.BOOLEAN:
        return _BITS if pa.types.is_boolean(type_) else None
    if physical is PhysicalType.BYTE_ARRAY:
        return _VARIABLE if pa.types.is_string(type_) or pa.types.is_binary(type_) else None
    if physical is PhysicalType.FIXED_LEN_BYTE_ARRAY:
        return column.type_length if pa.types.is_fixed_size_binary(type_) else None
    width = _WIDTHS.get(physical)
    is_narrow = width == 4 and pa.types.is_integer(type_)
    return width if width is not None and (type_.bit_width == 8 * width or is_narrow) else None


def _check_checksums(bodies: list[memoryview], checksums: list[int]) -> None:
    for body, expected in zip(bodies, checksums, strict=True):
        if expected != NO_CHECKSUM and zlib.crc32(body) != expected & 0xFFFFFFFF:
            raise FormatError("a page has another checksum", rule="Parquet spec, parquet.thrift, `PageHeader`")


def _parts(sizes: _Numbers) -> list[tuple[int, int]]:
    """Split pages into parts whose content fits the processor's cache, or that are one page."""
    if len(sizes) == 1:
        return [(0, 1)]
    place = (np.cumsum(sizes) - 1) // _PART_BYTES
    edges = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), len(sizes)]
    return [*itertools.pairwise(edges)]


@dataclass(frozen=True, slots=True)
class _Decoding:
    """Pages of a chunk, to be decompressed part by part.

    Args:
        chunk: The chunk.
        width: What `_width` says.
        dictionary: Its entries.
        bodies: The pages without their headers.
        sizes: int64[pages], what their headers say of their decompressed sizes.
        has_codes: uint8[pages], whether they refer to the dictionary.
    """

    chunk: ColumnChunk
    width: int
    dictionary: _Dictionary
    bodies: list[memoryview]
    sizes: _Numbers
    has_codes: _Bytes

    def values(self, start: int, stop: int, rows: _Numbers, row_edges: _Numbers) -> pa.Array:
        """The wanted values of pages.

        Args:
            start: The first page.
            stop: The page after the last.
            rows: int64[n], the wanted rows of all pages, each counted from the first of its page.
            row_edges: int64[pages + 1], where those of each page begin.
        """
        column = self.chunk.column
        data, edges = self._decompressed(start, stop)
        wanted = rows[row_edges[start] : row_edges[stop]]
        starts, lengths = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
        within = row_edges[start : stop + 1] - row_edges[start]
        levels, codes = int(column.max_definition_level), self.has_codes[start:stop]
        entries = self.dictionary.entries
        if find_values(data, edges, codes, wanted, within, levels, self.width, entries, starts, lengths):
            raise FormatError(f"a page of {column.name} ends before its values, or has codes of no entry", rule=_RULE)
        return _array(column, data, starts, lengths, self.width)

    def _decompressed(self, start: int, stop: int) -> tuple[_Bytes, _Numbers]:
        """Pages one after another, behind the entries of the dictionary; and where each begins and the last ends."""
        before, sizes, codec = self.dictionary.data, self.sizes[start:stop], self.chunk.codec
        edges = len(before) + np.concatenate([[0], np.cumsum(sizes)])
        if stop - start == 1 and not len(before):
            return _buffers.page.decompress(codec, self.bodies[start], int(sizes[0])), edges
        if stop - start == 1 and codec != Codec.UNCOMPRESSED:  # others together are small
            check_expansion(codec, len(self.bodies[start]), int(sizes[0]))
        places = edges.tolist()
        memory = _buffers.reserve(places[-1])
        memory[: len(before)] = before
        for body, (begin, end) in zip(self.bodies[start:stop], itertools.pairwise(places), strict=True):
            decompress_into(codec, body, memory[begin:end])
        return memory, edges


class _Buffers(threading.local):
    """The calling thread's memory for pages."""

    def __init__(self) -> None:
        self.page = PageBuffer()
        self._memory: _Bytes = np.empty(0, np.uint8)

    def reserve(self, size: int) -> _Bytes:
        if size > len(self._memory):
            self._memory = np.empty(size, np.uint8)
        return self._memory[:size]


_buffers: Final = _Buffers()


def _read_dictionary(data: memoryview, location: str, chunk: ColumnChunk, offset: int) -> _Dictionary:
    page = next(iter_pages(data, chunk, base=offset, location=location))
    if not isinstance(page, DictionaryPage):
        raise FormatError(f"the first page of {chunk.column.name} is not a dictionary", rule=_RULE)
    width = _width(chunk.column)
    if width == _VARIABLE:
        starts, lengths = decode_plain_byte_array(page.data, page.value_count)
        return _Dictionary(page.data.copy(), np.stack([starts, lengths], axis=1))
    if width is None or width < 1 or page.value_count * width > len(page.data):
        raise FormatError(f"a dictionary of {chunk.column.name} that is shorter than its entries", rule=_RULE)
    starts = np.arange(page.value_count) * width
    return _Dictionary(page.data.copy(), np.stack([starts, np.full_like(starts, width)], axis=1))


def _array(column: Column, data: _Bytes, starts: _Numbers, lengths: _Numbers, width: int) -> pa.Array:
    """Values as an array; those that begin at -1 are null."""
    count, type_ = len(starts), column.type
    is_null = starts < 0
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None
    if width == _BITS:
        flags = data[np.maximum(starts, 0) >> 3] >> (starts & 7).astype(np.uint8) & 1
        return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(np.packbits(flags, bitorder="little"))])
    edges = np.concatenate([[0], np.cumsum(lengths)])
    if width == _VARIABLE and edges[-1] >= 1 << 31:
        raise UnsupportedError(f"{count} values of {column.name} are longer than 2 GiB")
    values = np.empty(int(edges[-1]), np.uint8)
    copy_values(data, starts, lengths, values)
    if width == _VARIABLE:
        buffers = [validity, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(values)]
        return _checked_text(column, pa.Array.from_buffers(type_, count, buffers))
    if pa.types.is_integer(type_) and type_.bit_width < 8 * width:
        values = values.view("<i4").astype(type_.to_pandas_dtype())
    return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(values)])


def _checked_text(column: Column, array: Any) -> pa.Array:
    if pa.types.is_string(column.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise FormatError(f"a text of {column.name} is not UTF-8: {error}", rule=_RULE) from error
    return array
