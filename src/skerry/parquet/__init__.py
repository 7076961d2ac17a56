"""Parquet files below the values: footers, page headers, decompressed pages, PLAIN values as views.

Reading and writing tables is PyArrow's and Spark's work. What is here serves those who want something of a file that
does not need its values laid out: sketches from dictionaries, null counts, single pages by their offset.
"""

from __future__ import annotations

from skerry.parquet.annotations import (
    UNNAMED_CRS,
    VARIANT_ANNOTATION,
    annotate,
    annotate_timestamps,
    shapes_annotation,
)
from skerry.parquet.codecs import SUPPORTED_CODECS, PageBuffer
from skerry.parquet.column_file import decode_column_pages
from skerry.parquet.encryption import is_encrypted
from skerry.parquet.hybrid import count_codes
from skerry.parquet.metadata import (
    Codec,
    ColumnChunk,
    Encoding,
    FileMetadata,
    PageType,
    RowGroup,
    decode_metadata,
    read_arrow_metadata,
    read_footer,
    read_metadata,
)
from skerry.parquet.page_headers import HEADER_FIELDS, walk_headers
from skerry.parquet.page_index import PagePlaces, decode_pages, read_page_bounds, read_page_places, read_places
from skerry.parquet.page_rows import take_rows
from skerry.parquet.paged_chunk import PagedChunk
from skerry.parquet.pages import DataPage, DictionaryPage, PageHeader, decode_page_header, iter_pages
from skerry.parquet.plain import decode_plain_byte_array, decode_plain_fixed
from skerry.parquet.schema import Column, PhysicalType
from skerry.parquet.thrift_fields import ThriftField, walk_struct

__all__ = [
    "HEADER_FIELDS",
    "SUPPORTED_CODECS",
    "UNNAMED_CRS",
    "VARIANT_ANNOTATION",
    "Codec",
    "Column",
    "ColumnChunk",
    "DataPage",
    "DictionaryPage",
    "Encoding",
    "FileMetadata",
    "PageBuffer",
    "PageHeader",
    "PagePlaces",
    "PageType",
    "PagedChunk",
    "PhysicalType",
    "RowGroup",
    "ThriftField",
    "annotate",
    "annotate_timestamps",
    "count_codes",
    "decode_column_pages",
    "decode_metadata",
    "decode_page_header",
    "decode_pages",
    "decode_plain_byte_array",
    "decode_plain_fixed",
    "is_encrypted",
    "iter_pages",
    "read_arrow_metadata",
    "read_footer",
    "read_metadata",
    "read_page_bounds",
    "read_page_places",
    "read_places",
    "shapes_annotation",
    "take_rows",
    "walk_headers",
    "walk_struct",
]
