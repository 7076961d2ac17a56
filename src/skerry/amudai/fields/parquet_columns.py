"""Columns of Parquet files in shards: where their pages are, and what must be known of a column to decode them.

A descriptor of the format says where the pages of a column chunk are and how many values each has, but not how they
are compressed and whether there are nulls. Shards of this package say so in a property of the field; for others the
footer of the Parquet file is read.

Spec: docs/formats/amudai.md § 10; Amudai book, chapter 6, External Parquet Encoding.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.blocks import BlockMap
from skerry.amudai.messages import FieldDescriptor, NameValuePair
from skerry.amudai.values.any_value import Property, decode_properties, encode_properties
from skerry.errors import FormatError, UnsupportedError
from skerry.parquet import HEADER_FIELDS, Column, PageType, PhysicalType, decode_page_header, walk_headers

__all__ = ["ColumnLayout", "PageMap", "find_pages", "layout_of", "layout_property", "stored_layout"]

_PROPERTY: Final = "skerry.parquet_column"
_RULE: Final = "docs/formats/amudai.md § 10"
_LEAST_PAGE_BYTES: Final = 16
"""A header takes more."""
_FIXED: Final = struct.Struct("<HHBI")  # physical type, codec, is optional, bytes of fixed values


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """How the pages of a column are to be decoded.

    Args:
        physical_type: How values are stored.
        codec: How pages are compressed.
        is_optional: Whether there are definition levels.
        type_length: Bytes per value of a FIXED_LEN_BYTE_ARRAY.
        arrow_type: What values mean, by the annotations of the file.
    """

    physical_type: PhysicalType
    codec: int
    is_optional: bool
    type_length: int
    arrow_type: pa.DataType


def layout_of(column: Column, codec: int) -> ColumnLayout:
    """The layout of a column, from a footer.

    Raises:
        UnsupportedError: The column is in a list or a struct.
    """
    if len(column.path) != 1 or column.max_repetition_level:
        raise UnsupportedError(f"nested column {column.name} of a Parquet file")
    return ColumnLayout(column.physical_type, codec, column.max_definition_level > 0, column.type_length, column.type)


def layout_property(layout: ColumnLayout) -> NameValuePair:
    """The property in which a shard keeps a layout."""
    head = _FIXED.pack(layout.physical_type, layout.codec, layout.is_optional, layout.type_length)
    schema = pa.schema([pa.field("column", layout.arrow_type)]).serialize().to_pybytes()
    return encode_properties([Property(_PROPERTY, head + schema)])[0]


def stored_layout(described: FieldDescriptor, *, location: str) -> ColumnLayout | None:
    """The layout that a descriptor keeps; None if it keeps none.

    Raises:
        FormatError: The property is damaged.
    """
    pairs = [pair for pair in described.custom_properties if pair.name == _PROPERTY]
    if not pairs:
        return None
    value = decode_properties(pairs[:1])[0].value
    try:
        physical, codec, is_optional, type_length = _FIXED.unpack_from(value)
        schema = pa.ipc.read_schema(pa.py_buffer(value[_FIXED.size :]))
        return ColumnLayout(PhysicalType(physical), codec, bool(is_optional), type_length, schema.field(0).type)
    except (struct.error, TypeError, ValueError, OSError, pa.ArrowException, IndexError) as error:
        raise FormatError(f"property {_PROPERTY} cannot be read: {error}", location=location, rule=_RULE) from error


@dataclass(frozen=True, slots=True)
class PageMap:
    """The pages of a column chunk.

    Args:
        blocks: Its data pages as blocks: values, and bytes from the first on.
        dictionary: The byte range of the dictionary page in the file; None if there is none.
        data: The byte range of the data pages.
        page_count: How many data pages there are.
    """

    blocks: BlockMap
    dictionary: tuple[int, int] | None
    data: tuple[int, int]
    page_count: int


def find_pages(data: memoryview, base: int, value_count: int, *, location: str) -> PageMap:
    """Walk the headers of a chunk's pages.

    Args:
        data: The chunk's bytes.
        base: Where they start in the file.
        value_count: Values of the chunk, nulls included.
        location: The file, for errors.

    Raises:
        FormatError: A header is unsound, or pages hold other values than the chunk.
    """
    counts: list[int] = []
    ends: list[int] = []
    dictionary: tuple[int, int] | None = None
    position = first = pages = seen = 0
    while position < len(data) and seen < value_count:
        if not counts and dictionary is not None:
            usual = _usual_pages(data, position, value_count)
            if usual is not None:
                counts, ends = usual[0], (usual[1] + position).tolist()
                pages, seen = len(counts), value_count
                break
        header = decode_page_header(data, position, location=location, base=base)
        end = position + header.header_bytes + header.compressed_bytes
        if end > len(data):
            break
        if header.type == PageType.DICTIONARY_PAGE:
            dictionary = (base + position, base + end)
            first = end
        else:
            is_data = header.type in (PageType.DATA_PAGE, PageType.DATA_PAGE_V2)
            pages += is_data
            if is_data and header.value_count:
                counts.append(header.value_count)
                seen += header.value_count
                ends.append(end)
            elif ends:  # what holds no values goes with the page before
                ends[-1] = end
        position = end
    if seen != value_count:
        raise FormatError(
            f"pages hold {seen} values, their column chunk {value_count}",
            location=location,
            offset=base,
            rule=_RULE,
        )
    edges = np.array([first, *ends], np.int64)
    positions: npt.NDArray[np.int64] = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    return PageMap(BlockMap(positions, edges - first), dictionary, (base + first, base + int(edges[-1])), pages)


def _usual_pages(data: memoryview, start: int, value_count: int) -> tuple[list[int], npt.NDArray[np.int64]] | None:
    """The values of pages that follow each other to the end, and where each ends, counted from the first.

    Returns:
        None if a header is not as usual: then they are walked one by one.
    """
    headers = np.empty((min(value_count, (len(data) - start) // _LEAST_PAGE_BYTES + 1), HEADER_FIELDS), np.int64)
    count = walk_headers(np.frombuffer(data, np.uint8), start, value_count, headers)
    if count < 1:
        return None
    headers = headers[:count]
    return headers[:, 3].tolist(), (headers[:, 0] + headers[:, 1]).cumsum()
