"""Single values of a column chunk: the pages that hold them are decompressed, and nothing else of them is decoded.

PyArrow decodes whole pages, each with the dictionary before it, which for one row in thousands is nearly all of the
time. Pages that are not as usual (DATA_PAGE_V2, delta encodings, decimals) are left to it.

Pages of all columns are decoded together, because for few rows the number of steps is what costs.

Spec: Parquet spec, README.md, Data Pages, Encodings.md, Plain, Run Length Encoding / Bit-Packing Hybrid.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.parquet.codecs import decompress_pages
from skerry.parquet.metadata import Encoding
from skerry.parquet.page_headers import CHECKSUM, HEADER_FIELDS, NO_CHECKSUM, read_headers
from skerry.parquet.page_index import decode_pages
from skerry.parquet.paged_chunk import BITS, NO_DICTIONARY, PAGE_RULE, VARIABLE, Dictionary, PagedChunk
from skerry.parquet.schema import Column
from skerry.parquet.value_places import LAYOUT_FIELDS, copy_values, find_values

if TYPE_CHECKING:
    from skerry.storage import Storage

__all__ = ["take_rows"]

_Numbers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_AT_ONCE_BYTES: Final = 32 << 20
"""How many bytes of pages are read together, unless they are one page."""
_PART_BYTES: Final = 1 << 20
"""How many of them are held decompressed, about: a single page may be larger."""
_DENSE: Final = 2
"""All pages of a span are read if at least one byte in so many is wanted."""
_PLAIN, _CODES, _OLD_CODES = (
    int(encoding) for encoding in (Encoding.PLAIN, Encoding.RLE_DICTIONARY, Encoding.PLAIN_DICTIONARY)
)


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
    total = sum(int(work.sizes.sum()) for work in works)
    if len(chunks) > 1 and total > _AT_ONCE_BYTES:
        middle = len(chunks) // 2
        parts = (take_rows(storage, location, some, rows) for some in (chunks[:middle], chunks[middle:]))
        return [*itertools.chain(*parts)]
    if total > _AT_ONCE_BYTES and len(works[0].pages) > 1:
        middle = len(rows) // 2
        halves = [take_rows(storage, location, chunks, part) for part in (rows[:middle], rows[middle:])]
        return [pa.concat_arrays(list(parts)) for parts in zip(*halves, strict=True)]
    missing = {place: each for place, chunk in enumerate(chunks) if (each := chunk.missing_dictionary) is not None}
    ranges = [each for work in works for each in work.ranges] + [*missing.values()]
    views = storage.read_ranges(location, [start for start, _ in ranges], [size for _, size in ranges])
    dictionaries = dict(zip(missing, views[len(views) - len(missing) :], strict=True))
    read = _Reading(storage, location, dictionaries)
    if total <= _PART_BYTES:  # few pages: the number of steps is what costs
        return read.arrays(works, views, 0)
    found, stop = [], 0
    for place, work in enumerate(works):
        first, stop = stop, stop + len(work.ranges)
        found += read.arrays([work], views[first:stop], place)
    return found


@dataclass(frozen=True, slots=True)
class _Work:
    """Rows of a chunk, and the pages that they are in.

    Args:
        paged: The chunk.
        rows: int64[n], positions in the row group.
        pages: int64[m], the pages.
        edges: int64[m + 1], where the rows of each page begin among `rows`.
        sizes: int64[m], the bytes of the pages in the file.
        ranges: Offsets and sizes of what is to be read.
        starts: int64[m], where the pages begin in that.
    """

    paged: PagedChunk
    rows: _Numbers
    pages: _Numbers
    edges: _Numbers
    sizes: _Numbers
    ranges: list[tuple[int, int]]
    starts: _Numbers

    @classmethod
    def of(cls, paged: PagedChunk, rows: _Numbers) -> _Work:
        places = paged.places
        page_of = places.first_rows.searchsorted(rows, "right") - 1
        if len(rows) == 1:
            sizes = places.sizes[page_of]
            ranges = [(int(places.offsets[page_of[0]]), int(sizes[0]))]
            return cls(paged, rows, page_of, _ONE_ROW, sizes, ranges, _ONE_ROW[:1])
        changes = np.flatnonzero(page_of[1:] != page_of[:-1]) + 1
        edges = np.concatenate([[0], changes, [len(rows)]])
        pages = page_of[edges[:-1]]
        offsets, sizes = places.offsets[pages], places.sizes[pages]
        ends = sizes.cumsum()
        span = int(offsets[-1] + sizes[-1] - offsets[0])
        if _DENSE * ends[-1] >= span:  # pages between them cost less than each for itself
            return cls(paged, rows, pages, edges, sizes, [(int(offsets[0]), span)], offsets - offsets[0])
        ranges = [*zip(offsets.tolist(), sizes.tolist(), strict=True)]
        return cls(paged, rows, pages, edges, sizes, ranges, ends - sizes)

    @property
    def firsts(self) -> _Numbers:
        """The first row of each page."""
        firsts: _Numbers = self.paged.places.first_rows[self.pages]
        return firsts

    def by_arrow(self, storage: Storage, location: str) -> pa.Array:
        """The values by PyArrow."""
        decoded = decode_pages(storage, location, self.paged.chunk, self.paged.places, self.pages)
        firsts = self.firsts.tolist()
        edges = self.edges.tolist()
        parts = [
            values.take(pa.array(self.rows[edges[place] : edges[place + 1]] - firsts[place]))
            for place, values in enumerate(decoded)
        ]
        return pa.concat_arrays(parts)


_ONE_ROW: Final = np.array([0, 1])


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pages of a chunk with wanted rows, as usual and checked.

    Args:
        work: The rows.
        starts: int64[m], where they begin in what was read, without their headers.
        headers: int64[m, HEADER_FIELDS], their headers.
        dictionary: Its entries; none if no page refers to them.
        uses_dictionary: bool[m], which pages do.
    """

    work: _Work
    starts: _Numbers
    headers: _Numbers
    dictionary: Dictionary
    uses_dictionary: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Reading:
    """Decodes what was read of some columns.

    Args:
        storage: Access to the file.
        location: The file.
        dictionaries: Pages of dictionaries that were read, by the place of their column.
    """

    storage: Storage
    location: str
    dictionaries: dict[int, memoryview]

    def arrays(self, works: Sequence[_Work], views: Sequence[memoryview], first: int) -> list[pa.Array]:
        """The values of columns.

        Args:
            works: The columns.
            views: Their ranges.
            first: The place of the first among all columns.
        """
        data = views[0] if len(views) == 1 else memoryview(b"".join(views))
        bases = [0, *itertools.accumulate(sum(size for _, size in work.ranges) for work in works)]
        starts = [work.starts + base if base else work.starts for work, base in zip(works, bases, strict=False)]
        try:
            usual = self._usual(works, data, starts, first)
            found = _values([each for each in usual if each is not None], data)
        except SkerryError as error:
            if error.location is None:
                error.location, error.offset = self.location, works[0].ranges[0][0]
            raise
        return [
            work.by_arrow(self.storage, self.location) if pages is None else next(found)
            for work, pages in zip(works, usual, strict=True)
        ]

    def _usual(
        self, works: Sequence[_Work], data: memoryview, places: Sequence[_Numbers], ordinal: int
    ) -> list[_Pages | None]:
        """The pages of each column; None for those that are left to PyArrow."""
        starts, sizes = _joined(places), _joined([work.sizes for work in works])
        headers = np.empty((len(starts), HEADER_FIELDS), np.int64)
        if not read_headers(np.frombuffer(data, np.uint8), starts, sizes, headers):
            if len(works) == 1:
                return [None]
            each = zip(works, places, strict=True)  # others may be as usual
            return [self._usual([work], data, [place], ordinal + n)[0] for n, (work, place) in enumerate(each)]
        encodings = headers[:, 4]
        is_coded = (encodings == _CODES) | (encodings == _OLD_CODES)
        is_usual = is_coded | (encodings == _PLAIN)
        _check_headers(works, headers, sizes, is_usual)
        starts += headers[:, 0]
        _check_checksums(data, starts, headers)
        found: list[_Pages | None] = []
        stop, all_usual = 0, is_usual.all()
        for place, work in enumerate(works, ordinal):
            first, stop = stop, stop + len(work.pages)
            if not work.paged.is_plain or not (all_usual or is_usual[first:stop].all()):
                found.append(None)
                continue
            coded, dictionary = is_coded[first:stop], NO_DICTIONARY
            if coded.any():
                dictionary = work.paged.dictionary(self.storage, self.location, self.dictionaries.get(place))
            found.append(_Pages(work, starts[first:stop], headers[first:stop], dictionary, coded))
        return found


def _check_headers(works: Sequence[_Work], headers: _Numbers, sizes: _Numbers, is_usual: npt.NDArray[np.bool_]) -> None:
    """Compare the headers of pages with the page index."""
    ends = _joined([work.paged.places.first_rows[work.pages + 1] for work in works])
    firsts = _joined([work.firsts for work in works])
    if ((headers[:, 3] != ends - firsts) & is_usual).any():
        raise FormatError("a page holds another number of values than the page index says", rule=PAGE_RULE)
    if ((headers[:, 0] + headers[:, 1] > sizes) & is_usual).any():
        raise FormatError("a page is longer than the page index says", rule=PAGE_RULE)


def _check_checksums(data: memoryview, starts: _Numbers, headers: _Numbers) -> None:
    checksums = headers[:, CHECKSUM]
    for page in np.flatnonzero(checksums != NO_CHECKSUM).tolist():
        body = data[starts[page] : starts[page] + headers[page, 1]]
        if zlib.crc32(body) != int(checksums[page]) & 0xFFFFFFFF:
            raise FormatError("a page has another checksum", rule="Parquet spec, parquet.thrift, `PageHeader`")


def _joined(parts: Sequence[_Numbers]) -> _Numbers:
    """A copy of arrays, one after another."""
    return parts[0].copy() if len(parts) == 1 else np.concatenate(parts)


# Values -------------------------------------------------------------------------------------------------------------


def _values(columns: Sequence[_Pages], data: memoryview) -> Any:
    """The values of columns, one after another, as an iterator of arrays."""
    if not columns:
        return iter(())
    count = len(columns[0].work.rows)
    decode = _Decoding.of(columns, data)
    pieces: list[list[pa.Array]] = [[] for _ in columns]
    for start, stop in _parts(decode.sizes):
        first, part = decode.part(start, stop)
        for place in range(first // count, -(-(first + len(part.starts)) // count)):
            low, high = max(place * count - first, 0), min((place + 1) * count - first, len(part.starts))
            column = columns[place].work.paged
            pieces[place].append(part.array(column.chunk.column, column.width, low, high))
    return (parts[0] if len(parts) == 1 else pa.concat_arrays(parts) for parts in pieces)


def _parts(sizes: _Numbers) -> list[tuple[int, int]]:
    """Split pages into parts whose content fits the processor's cache, or that are one page."""
    ends = sizes.cumsum()
    if len(sizes) == 1 or ends[-1] <= _PART_BYTES:
        return [(0, len(sizes))]
    place = (ends - 1) // _PART_BYTES
    edges = [0, *(np.flatnonzero(place[1:] != place[:-1]) + 1).tolist(), len(sizes)]
    return [*itertools.pairwise(edges)]


@dataclass(frozen=True, slots=True)
class _Decoding:
    """Pages of columns, one column after another, to be decompressed part by part.

    Args:
        data: What was read.
        codecs: The codec of each page.
        starts: int64[pages], where they begin in it, without their headers.
        lengths: int64[pages], how long they are.
        sizes: int64[pages], what their headers say of their decompressed sizes.
        layouts: int64[pages, LAYOUT_FIELDS], how each is to be read.
        dictionary: The entries of all columns.
        rows: int64[n], the wanted rows of all pages, each counted from the first of its page.
        edges: int64[pages + 1], where those of each page begin.
        names: The column of each page.
    """

    data: memoryview
    codecs: list[int]
    starts: _Numbers
    lengths: _Numbers
    sizes: _Numbers
    layouts: _Numbers
    dictionary: Dictionary
    rows: _Numbers
    edges: _Numbers
    names: list[str]

    @classmethod
    def of(cls, columns: Sequence[_Pages], data: memoryview) -> _Decoding:
        codecs: list[int] = []
        names: list[str] = []
        layouts, rows, edges = [], [], []
        dictionaries = _Dictionaries()
        for place, pages in enumerate(columns):
            work, chunk = pages.work, pages.work.paged.chunk
            count = len(work.pages)
            codecs += [chunk.codec] * count
            names += [chunk.column.name] * count
            layout = np.empty((count, LAYOUT_FIELDS), np.int64)
            layout[:] = (chunk.column.max_definition_level, work.paged.width, *dictionaries.add(pages.dictionary))
            layout[~pages.uses_dictionary, 2] = -1
            layouts.append(layout)
            firsts = work.firsts
            rows.append(work.rows - (firsts if count == 1 else firsts.repeat(work.edges[1:] - work.edges[:-1])))
            edges.append(work.edges[:-1] + place * len(work.rows))
        edges.append(np.array([len(columns) * len(columns[0].work.rows)]))
        headers = _joined([pages.headers for pages in columns])
        return cls(
            data,
            codecs,
            _joined([pages.starts for pages in columns]),
            headers[:, 1],
            headers[:, 2],
            _joined(layouts),
            dictionaries.joined,
            _joined(rows),
            _joined(edges),
            names,
        )

    def part(self, start: int, stop: int) -> tuple[int, _Part]:
        """The wanted values of pages, and the place of the first of them."""
        sizes = self.sizes[start:stop]
        codecs, starts, lengths = self.codecs[start:stop], self.starts[start:stop], self.lengths[start:stop]
        data = decompress_pages(codecs, self.data, starts, lengths, sizes)
        edges = np.array([0, *itertools.accumulate(sizes.tolist())])
        first, last = int(self.edges[start]), int(self.edges[stop])
        starts, lengths = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
        row_edges = self.edges[start : stop + 1] - first
        entries, layouts = self.dictionary.entries, self.layouts[start:stop]
        damaged = find_values(data, edges, layouts, self.rows[first:last], row_edges, entries, starts, lengths)
        if damaged:
            name = self.names[start + damaged - 1]
            raise FormatError(f"a page of {name} ends before its values, or has codes of no entry", rule=PAGE_RULE)
        ends = np.empty(last - first + 1, np.int64)
        ends[0] = 0
        lengths.cumsum(out=ends[1:])
        values = np.empty(int(ends[-1]), np.uint8)
        copy_values(data, self.dictionary.data, starts, lengths, values)
        return first, _Part(data, starts, ends, values)


class _Dictionaries:
    """The dictionaries of columns, put one after another."""

    def __init__(self) -> None:
        self._found: list[Dictionary] = []
        self._bytes = self._count = 0

    def add(self, dictionary: Dictionary) -> tuple[int, int]:
        """Add one: its first entry among all, and the entry after its last."""
        first = self._count
        if len(dictionary.entries):
            moved = dictionary
            if self._bytes:
                moved = Dictionary(dictionary.data, dictionary.entries + np.array([self._bytes, 0]))
            self._found.append(moved)
            self._bytes += len(dictionary.data)
            self._count += len(dictionary.entries)
        return first, self._count

    @property
    def joined(self) -> Dictionary:
        if len(self._found) < 2:
            return self._found[0] if self._found else NO_DICTIONARY
        data = np.concatenate([each.data for each in self._found])
        return Dictionary(data, np.concatenate([each.entries for each in self._found]))


@dataclass(frozen=True, slots=True)
class _Part:
    """Values of some pages.

    Args:
        data: The pages.
        starts: int64[n], where the values begin in them; -1 for nulls.
        ends: int64[n + 1], where they begin and end in `values`.
        values: uint8[m], one value after another, without bits.
    """

    data: _Bytes
    starts: _Numbers
    ends: _Numbers
    values: _Bytes

    def array(self, column: Column, width: int, low: int, high: int) -> pa.Array:
        """The values at places from `low` to `high` as an array; those that begin at -1 are null."""
        count, type_, starts = high - low, column.type, self.starts[low:high]
        validity = None
        if column.max_definition_level and starts.min() < 0:
            validity = pa.py_buffer(np.packbits(starts >= 0, bitorder="little"))
        if width == BITS:
            flags = self.data[np.maximum(starts, 0) >> 3] >> (starts & 7).astype(np.uint8) & 1
            return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(np.packbits(flags, bitorder="little"))])
        first, last = int(self.ends[low]), int(self.ends[high])
        values = self.values[first:last]
        if width == VARIABLE:
            if last - first >= 1 << 31:
                raise UnsupportedError(f"{count} values of {column.name} are longer than 2 GiB")
            edges = (self.ends[low : high + 1] - first).astype(np.int32)
            buffers = [validity, pa.py_buffer(edges), pa.py_buffer(values)]
            return _checked_text(column, pa.Array.from_buffers(type_, count, buffers))
        if pa.types.is_integer(type_) and type_.bit_width < 8 * width:
            values = values.view("<i4").astype(type_.to_pandas_dtype())
        elif first % width:  # PyArrow wants numbers aligned
            values = values.copy()
        return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(values)])


def _checked_text(column: Column, array: Any) -> pa.Array:
    if pa.types.is_string(column.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise FormatError(f"a text of {column.name} is not UTF-8: {error}", rule=PAGE_RULE) from error
    return array
