"""Some pages of one flat column as a Parquet file of their own, in memory, for PyArrow to decode.

PyArrow decodes pages only as part of a file. Pages whose offsets are known get the frame that is missing: a magic, and
a footer that describes one column in one row group. So a caller that keeps the offsets of pages, and a few facts about
the column, needs neither the footer of the original file nor any page but the wanted ones.

Spec: Parquet spec, parquet.thrift, `FileMetaData`; Thrift compact protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.errors import FormatError, UnsupportedError
from skerry.parquet.annotations import timestamp_annotation
from skerry.parquet.metadata import MAGIC
from skerry.parquet.schema import PhysicalType
from skerry.parquet.thrift_encoding import BINARY, FALSE, I8, I32, I64, LIST, STRUCT, TRUE, Field, encode_struct

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["decode_column_pages"]

_NAME: Final = b"column"


def decode_column_pages(
    pages: Sequence[Buffer],
    *,
    physical_type: PhysicalType,
    type_length: int,
    arrow_type: pa.DataType,
    is_optional: bool,
    codec: int,
    value_count: int,
    has_dictionary: bool,
    location: str | None = None,
    offset: int | None = None,
) -> pa.Array:
    """Decode pages of a column outside of lists and structs.

    Args:
        pages: Bytes that put together are pages with their headers, the dictionary page first if there is one.
        physical_type: How values are stored.
        type_length: Bytes per value of a FIXED_LEN_BYTE_ARRAY.
        arrow_type: What values mean, as in `Column.type`.
        is_optional: Whether there are definition levels.
        codec: How pages are compressed, a `Codec`.
        value_count: Values of the data pages, nulls included.
        has_dictionary: Whether the first page is a dictionary.
        location: The file they come from, for errors.
        offset: Where in that file they begin, for errors.

    Returns:
        The values, in `arrow_type` or a type that PyArrow reads it as.

    Raises:
        FormatError: PyArrow cannot decode the pages.
        UnsupportedError: Values of that meaning are not supported.
    """
    data = b"".join(pages)
    start = len(MAGIC)
    first_data = start + (memoryview(pages[0]).nbytes if has_dictionary else 0)
    column: list[Field] = [
        (1, I32, physical_type),
        (2, LIST, (I32, [0, 3])),
        (3, LIST, (BINARY, [_NAME])),
        (4, I32, codec),
        (5, I64, value_count),
        (6, I64, len(data)),
        (7, I64, len(data)),
        (9, I64, first_data),
    ]
    if has_dictionary:
        column.append((11, I64, start))
    chunk: list[Field] = [(2, I64, start), (3, STRUCT, column)]
    group: list[Field] = [(1, LIST, (STRUCT, [chunk])), (2, I64, len(data)), (3, I64, value_count)]
    schema = [[(4, BINARY, b"schema"), (5, I32, 1)], _element(physical_type, type_length, arrow_type, is_optional)]
    footer = encode_struct(
        [(1, I32, 2), (2, LIST, (STRUCT, schema)), (3, I64, value_count), (4, LIST, (STRUCT, [group]))]
    )
    file = b"".join((MAGIC, data, footer, len(footer).to_bytes(4, "little"), MAGIC))
    try:
        table = pq.ParquetFile(pa.BufferReader(file), page_checksum_verification=True).read(use_threads=False)
        if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
            table.validate(full=True)  # PyArrow hands out text that is not UTF-8
    except (pa.ArrowException, OSError) as error:
        raise FormatError(
            f"PyArrow cannot decode pages: {error}",
            location=location,
            offset=offset,
            rule="Parquet spec, parquet.thrift, `PageHeader`",
        ) from error
    decoded = table.column(0)
    if len(decoded) != value_count:
        raise FormatError(
            f"pages hold {len(decoded)} values, expected {value_count}",
            location=location,
            offset=offset,
            rule="Parquet spec, parquet.thrift, `PageHeader`",
        )
    return decoded.chunk(0) if decoded.num_chunks == 1 else decoded.combine_chunks()


def _element(physical_type: PhysicalType, type_length: int, arrow_type: pa.DataType, is_optional: bool) -> list[Field]:
    """A leaf of the schema. Spec: Parquet spec, parquet.thrift, `SchemaElement`."""
    element: list[Field] = [(1, I32, physical_type)]
    if physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY:
        element.append((2, I32, type_length))
    element += [(3, I32, int(is_optional)), (4, BINARY, _NAME)]
    annotation = _logical_type(physical_type, arrow_type)
    if pa.types.is_decimal(arrow_type):
        element += [(6, I32, 5), (7, I32, arrow_type.scale), (8, I32, arrow_type.precision)]
    if annotation is not None:
        element.append((10, STRUCT, [annotation]))
    return element


def _logical_type(physical_type: PhysicalType, arrow_type: pa.DataType) -> Field | None:
    """The annotation that gives values their meaning. Spec: Parquet spec, parquet.thrift, `LogicalType`."""
    types = pa.types
    if types.is_string(arrow_type) or types.is_large_string(arrow_type):
        return 1, STRUCT, []
    if types.is_decimal(arrow_type):
        return 5, STRUCT, [(1, I32, arrow_type.scale), (2, I32, arrow_type.precision)]
    if types.is_date32(arrow_type):
        return 6, STRUCT, []
    if types.is_timestamp(arrow_type):
        if physical_type is PhysicalType.INT96:
            return None
        return timestamp_annotation(arrow_type)
    if types.is_integer(arrow_type):
        sign = FALSE if types.is_unsigned_integer(arrow_type) else TRUE
        return 10, STRUCT, [(1, I8, arrow_type.bit_width), (2, sign, None)]
    plain = (types.is_boolean, types.is_float32, types.is_float64, types.is_binary, types.is_large_binary)
    if types.is_fixed_size_binary(arrow_type) or any(is_type(arrow_type) for is_type in plain):
        return None
    raise UnsupportedError(f"Parquet columns of {arrow_type} page by page")
