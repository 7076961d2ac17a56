"""Where the pages of a column chunk are, and what bounds their values: by the page index, else by their headers.

Spec: Parquet spec, parquet.thrift, `OffsetIndex`, `ColumnIndex`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError
from skerry.parquet.column_file import decode_column_pages
from skerry.parquet.metadata import ColumnChunk, PageType
from skerry.parquet.page_headers import page_locations
from skerry.parquet.pages import decode_page_header
from skerry.parquet.schema import PhysicalType
from skerry.parquet.thrift import CompactDecoder, Struct
from skerry.storage import Storage

__all__ = ["PagePlaces", "decode_pages", "read_page_bounds", "read_page_places", "read_places"]

_MAX_INT32: Final = 2**31 - 1
_INT_FORMATS: Final = {PhysicalType.INT32: "<i4", PhysicalType.INT64: "<i8"}


@dataclass(frozen=True, slots=True, eq=False)
class PagePlaces:
    """The data pages of a chunk of a flat column.

    Args:
        first_rows: int64[pages + 1] The first row of each in its row group, with the number of rows.
        offsets: int64[pages] Where their headers start in the file.
        sizes: int64[pages] Their bytes, headers included.
        dictionary: Offset and size of the dictionary page; None if there is none.
    """

    first_rows: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    dictionary: tuple[int, int] | None


def read_page_places(storage: Storage, location: str, chunk: ColumnChunk) -> PagePlaces:
    """Find the pages of a chunk of a flat column; without a page index, all of the chunk is read for it.

    Raises:
        FormatError: The page index or a page header is unsound, or they contradict the footer.
    """
    (found,) = read_places(storage, location, [chunk])
    return found


def read_places(storage: Storage, location: str, chunks: Sequence[ColumnChunk]) -> list[PagePlaces]:
    """Find the pages of chunks of flat columns, which are read together; see `read_page_places`."""
    indexed = [chunk.offset_index for chunk in chunks if chunk.offset_index is not None]
    views = iter(storage.read_ranges(location, [start for start, _ in indexed], [size for _, size in indexed]))
    return [
        _walk(storage.read_range(location, chunk.offset, chunk.size_bytes), location, chunk)
        if chunk.offset_index is None
        else _places(next(views), location, chunk, chunk.offset_index[0])
        for chunk in chunks
    ]


def _places(data: memoryview, location: str, chunk: ColumnChunk, base: int) -> PagePlaces:
    """The pages that an offset index names."""
    found = page_locations(data)
    root = Struct("OffsetIndex", {}, location, base)
    if found is None:
        root = CompactDecoder(data, location=location, base=base).decode_struct("OffsetIndex")
        pages = root.structures(1, "PageLocation")
        found = np.array(
            [
                (
                    page.integer(1, "offset"),
                    page.integer(2, "compressed_page_size", maximum=_MAX_INT32),
                    page.integer(3, "first_row_index"),
                )
                for page in pages
            ],
            np.int64,
        ).reshape(-1, 3)
    offsets, sizes, rows = (np.ascontiguousarray(found[:, place]) for place in range(3))
    first_rows = np.append(rows, chunk.value_count)
    end = chunk.offset + chunk.size_bytes
    is_sound = (
        len(rows) > 0
        and rows[0] == 0
        and (np.diff(first_rows) > 0).all()
        and (sizes <= _MAX_INT32).all()
        and offsets[0] >= chunk.offset
        and (offsets[1:] >= (offsets + sizes)[:-1]).all()
        and offsets[-1] + sizes[-1] <= end
    )
    if chunk.value_count and not is_sound:
        raise root.error(f"has pages of {chunk.column.name} that are not within its chunk, or not in order")
    has_dictionary = chunk.dictionary_offset is not None and len(offsets) and offsets[0] > chunk.offset
    dictionary = (chunk.offset, int(offsets[0]) - chunk.offset) if has_dictionary else None
    return PagePlaces(first_rows, offsets, sizes, dictionary)


def _read_struct(storage: Storage, location: str, place: tuple[int, int], name: str) -> Struct:
    data = memoryview(storage.read_range(location, *place))
    return CompactDecoder(data, location=location, base=place[0]).decode_struct(name)


def _walk(data: bytes, location: str, chunk: ColumnChunk) -> PagePlaces:
    """Find pages by their headers."""
    counts, offsets, sizes = [], [], []
    dictionary: tuple[int, int] | None = None
    view, position, seen = memoryview(data), 0, 0
    while position < len(data) and seen < chunk.value_count:
        header = decode_page_header(view, position, location=location, base=chunk.offset)
        size = header.header_bytes + header.compressed_bytes
        if header.type == PageType.DICTIONARY_PAGE:
            dictionary = chunk.offset + position, size
        elif header.type in (PageType.DATA_PAGE, PageType.DATA_PAGE_V2) and header.value_count:
            seen += header.value_count
            counts.append(header.value_count)
            offsets.append(chunk.offset + position)
            sizes.append(size)
        position += size
    if seen != chunk.value_count or position > len(data):
        raise FormatError(
            f"pages hold {seen} values of {chunk.column.name}, their column chunk {chunk.value_count}",
            location=location,
            offset=chunk.offset,
            rule="Parquet spec, parquet.thrift, `ColumnMetaData.num_values`",
        )
    first_rows = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))])
    return PagePlaces(first_rows, np.array(offsets, np.int64), np.array(sizes, np.int64), dictionary)


def read_page_bounds(storage: Storage, location: str, chunk: ColumnChunk, pages: int) -> tuple[pa.Array, pa.Array]:
    """The least and greatest values of pages, by the column index.

    Args:
        storage: Access to the file.
        location: The file.
        chunk: A chunk of a column of integers, texts or bytes (other types have no bounds here).
        pages: How many data pages it has.

    Returns:
        For each page no more than its least value and no less than its greatest, of the chunk's type, those of texts as
        bytes; null where unknown.

    Raises:
        FormatError: The column index is unsound.
    """
    type_ = chunk.column.type
    is_text = pa.types.is_string(type_) or pa.types.is_binary(type_)
    stored = _INT_FORMATS.get(chunk.column.physical_type)
    is_number = stored is not None and (pa.types.is_signed_integer(type_) or pa.types.is_temporal(type_))
    known = pa.binary() if is_text else type_
    if chunk.column_index is None or not (is_text or is_number):
        return pa.nulls(pages, known), pa.nulls(pages, known)
    root = _read_struct(storage, location, chunk.column_index, "ColumnIndex")
    flags, *bounds = (root.fields.get(field, []) for field in (1, 2, 3))
    if not all(isinstance(found, list) and len(found) == pages for found in (flags, *bounds)):
        raise root.error(f"does not describe the {pages} pages of {chunk.column.name}")
    sides = []
    for side in bounds:
        values = [None if is_null else value for is_null, value in zip(flags, side, strict=True)]
        if is_text:
            sides.append(_texts(values, root))
        else:
            assert stored is not None
            sides.append(_numbers(values, stored, type_, root))
    return sides[0], sides[1]


def _texts(values: list[Any], root: Struct) -> pa.Array:
    if not all(value is None or isinstance(value, bytes) for value in values):
        raise root.error("has a bound that is not bytes")
    return pa.array(values, pa.binary())


def _numbers(values: list[Any], stored: str, type_: pa.DataType, root: Struct) -> pa.Array:
    width = np.dtype(stored).itemsize
    if not all(value is None or (isinstance(value, bytes) and len(value) == width) for value in values):
        raise root.error(f"has a bound that is not {width} bytes long")
    numbers = np.frombuffer(b"".join(bytes(width) if value is None else value for value in values), stored)
    whole = pa.array(numbers, mask=np.array([value is None for value in values], np.bool_))
    if pa.types.is_temporal(type_):
        return whole.view(type_) if type_.bit_width == 8 * width else whole.cast(pa.int64()).view(type_)
    return whole.cast(type_)


def decode_pages(
    storage: Storage, location: str, chunk: ColumnChunk, places: PagePlaces, pages: npt.NDArray[np.int64]
) -> list[pa.Array]:
    """Read and decode some data pages of a flat column.

    Args:
        storage: Access to the file.
        location: The file.
        chunk: The column chunk.
        places: Its pages.
        pages: int64[n] Which of them, ascending; at least one.

    Returns:
        The values of each, in memory of their own.

    Raises:
        FormatError: A page is unsound.
        UnsupportedError: PyArrow does not decode columns of this type page by page.
    """
    offsets, sizes = places.offsets[pages].tolist(), places.sizes[pages].tolist()
    if places.dictionary is not None:
        offsets, sizes = [places.dictionary[0], *offsets], [places.dictionary[1], *sizes]
    counts = np.diff(places.first_rows)[pages]
    column = chunk.column
    values = decode_column_pages(
        storage.read_ranges(location, offsets, sizes),
        physical_type=column.physical_type,
        type_length=column.type_length,
        arrow_type=column.type,
        is_optional=column.max_definition_level > 0,
        codec=chunk.codec,
        value_count=int(counts.sum()),
        has_dictionary=places.dictionary is not None,
        location=location,
        offset=offsets[0],
    )
    ends = np.cumsum(counts).tolist()
    return [
        pa.concat_arrays([values.slice(end - count, count)]) for end, count in zip(ends, counts.tolist(), strict=True)
    ]
