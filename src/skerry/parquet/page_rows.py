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
"""How many bytes of pages are read together, unless they are those of one row."""
_PART_BYTES: Final = 1 << 20
"""How many of them are held decompressed, about: a single page may be larger."""
_SHORT_HEADER_BYTES: Final = 256
"""Headers are seldom longer."""
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
    offsets = [offset for work in works for offset in work.offsets]
    sizes = [size for work in works for size in work.sizes]
    if len(rows) > 1 and sum(sizes) > _AT_ONCE_BYTES:
        middle = len(rows) // 2
        halves = [take_rows(storage, location, chunks, part) for part in (rows[:middle], rows[middle:])]
        return [pa.concat_arrays(list(parts)) for parts in zip(*halves, strict=True)]
    missing = {place: each for place, chunk in enumerate(chunks) if (each := chunk.missing_dictionary) is not None}
    offsets += [start for start, _ in missing.values()]
    sizes += [size for _, size in missing.values()]
    views = storage.read_ranges(location, offsets, sizes)
    dictionaries = dict(zip(missing, views[len(views) - len(missing) :], strict=True))
    try:
        usual = _usual(works, views[: len(views) - len(missing)], storage, location, dictionaries)
        found = _values([each for each in usual if each is not None])
    except SkerryError as error:
        if error.location is None:
            error.location, error.offset = location, offsets[0]
        raise
    return [
        work.by_arrow(storage, location) if pages is None else next(found)
        for work, pages in zip(works, usual, strict=True)
    ]


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
        page_of = paged.places.first_rows.searchsorted(rows, "right") - 1
        if len(rows) == 1:
            return cls(paged, rows, page_of, _ONE_ROW)
        changes = np.flatnonzero(page_of[1:] != page_of[:-1]) + 1
        edges = np.concatenate([[0], changes, [len(rows)]])
        return cls(paged, rows, page_of[edges[:-1]], edges)

    @property
    def firsts(self) -> _Numbers:
        """The first row of each page."""
        firsts: _Numbers = self.paged.places.first_rows[self.pages]
        return firsts

    @property
    def offsets(self) -> list[int]:
        offsets: list[int] = self.paged.places.offsets[self.pages].tolist()
        return offsets

    @property
    def sizes(self) -> list[int]:
        sizes: list[int] = self.paged.places.sizes[self.pages].tolist()
        return sizes

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
        bodies: The pages without their headers.
        sizes: int64[m], what their headers say of their decompressed sizes.
        dictionary: Its entries; none if no page refers to them.
        uses_dictionary: bool[m], which pages do.
    """

    work: _Work
    bodies: list[memoryview]
    sizes: _Numbers
    dictionary: Dictionary
    uses_dictionary: npt.NDArray[np.bool_]


def _usual(
    works: Sequence[_Work],
    views: Sequence[memoryview],
    storage: Storage,
    location: str,
    dictionaries: dict[int, memoryview],
) -> list[_Pages | None]:
    """The pages of each column; None for those that are left to PyArrow."""
    headers = _headers(views)
    if headers is None:  # each column by itself: others may be as usual
        if len(works) == 1:
            return [None]
        found: list[_Pages | None] = []
        for place, work in enumerate(works):
            first = sum(len(each.pages) for each in works[:place])
            known = {0: dictionaries[place]} if place in dictionaries else {}
            found += _usual([work], views[first : first + len(work.pages)], storage, location, known)
        return found
    encodings = headers[:, 4]
    is_coded = (encodings == _CODES) | (encodings == _OLD_CODES)
    is_usual = is_coded | (encodings == _PLAIN)
    _check_headers(works, headers, is_usual)
    bodies = [
        view[start : start + size]
        for view, start, size in zip(views, headers[:, 0].tolist(), headers[:, 1].tolist(), strict=True)
    ]
    _check_checksums(bodies, headers[:, CHECKSUM].tolist())
    found, stop, all_usual = [], 0, is_usual.all()
    for place, work in enumerate(works):
        first, stop = stop, stop + len(work.pages)
        if not work.paged.is_plain or not (all_usual or is_usual[first:stop].all()):
            found.append(None)
            continue
        coded, dictionary = is_coded[first:stop], NO_DICTIONARY
        if coded.any():
            dictionary = work.paged.dictionary(storage, location, dictionaries.get(place))
        found.append(_Pages(work, bodies[first:stop], headers[first:stop, 2], dictionary, coded))
    return found


def _check_headers(works: Sequence[_Work], headers: _Numbers, is_usual: npt.NDArray[np.bool_]) -> None:
    """Compare the headers of pages with the page index."""
    ends = np.concatenate([work.paged.places.first_rows[work.pages + 1] for work in works])
    starts = np.concatenate([work.firsts for work in works])
    if ((headers[:, 3] != ends - starts) & is_usual).any():
        raise FormatError("a page holds another number of values than the page index says", rule=PAGE_RULE)
    sizes = np.concatenate([work.paged.places.sizes[work.pages] for work in works])
    if ((headers[:, 0] + headers[:, 1] > sizes) & is_usual).any():
        raise FormatError("a page is longer than the page index says", rule=PAGE_RULE)


def _headers(views: Sequence[memoryview]) -> _Numbers | None:
    """int64[pages, HEADER_FIELDS] The headers of pages; None if they are not as usual."""
    headers = np.empty((len(views), HEADER_FIELDS), np.int64)
    for limit in (_SHORT_HEADER_BYTES, None):
        parts = [view[:limit] for view in views]
        edges = np.array([0, *itertools.accumulate(map(len, parts))])
        if read_headers(np.frombuffer(b"".join(parts), np.uint8), edges, headers):
            return headers
    return None


def _check_checksums(bodies: list[memoryview], checksums: list[int]) -> None:
    for body, expected in zip(bodies, checksums, strict=True):
        if expected != NO_CHECKSUM and zlib.crc32(body) != expected & 0xFFFFFFFF:
            raise FormatError("a page has another checksum", rule="Parquet spec, parquet.thrift, `PageHeader`")


# Values -------------------------------------------------------------------------------------------------------------


def _values(columns: Sequence[_Pages]) -> Any:
    """The values of columns, one after another, as an iterator of arrays."""
    if not columns:
        return iter(())
    count = len(columns[0].work.rows)
    decode = _Decoding.of(columns)
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
        codecs: The codec of each page.
        bodies: The pages without their headers.
        sizes: int64[pages], what their headers say of their decompressed sizes.
        layouts: int64[pages, LAYOUT_FIELDS], how each is to be read.
        dictionary: The entries of all columns.
        rows: int64[n], the wanted rows of all pages, each counted from the first of its page.
        edges: int64[pages + 1], where those of each page begin.
        names: The column of each page.
    """

    codecs: list[int]
    bodies: list[memoryview]
    sizes: _Numbers
    layouts: _Numbers
    dictionary: Dictionary
    rows: _Numbers
    edges: _Numbers
    names: list[str]

    @classmethod
    def of(cls, columns: Sequence[_Pages]) -> _Decoding:
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
        return cls(
            codecs,
            [body for pages in columns for body in pages.bodies],
            np.concatenate([pages.sizes for pages in columns]),
            np.concatenate(layouts),
            dictionaries.joined,
            np.concatenate(rows),
            np.concatenate(edges),
            names,
        )

    def part(self, start: int, stop: int) -> tuple[int, _Part]:
        """The wanted values of pages, and the place of the first of them."""
        sizes = self.sizes[start:stop]
        data = decompress_pages(self.codecs[start:stop], self.bodies[start:stop], sizes.tolist())
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
