"""Some pages of one flat column as a Parquet file of their own, in memory, for PyArrow to decode.

PyArrow decodes pages only as a part of a file. Pages that are known to lie somewhere get the frame that is missing: a
magic, and a footer that tells of one column in one row group. So a caller that keeps where pages are, and a little
about the column, needs neither the footer of the file that they come from nor any page but those it wants.

Spec: parquet.thrift, FileMetaData; Apache Thrift, "Thrift compact protocol encoding".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.errors import FormatError, UnsupportedError
from skerry.parquet.metadata import MAGIC
from skerry.parquet.schema import PhysicalType

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["decode_column_pages"]

_TRUE, _FALSE, _I8, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 5, 6, 8, 9, 12
_NAME: Final = b"column"
_Field = tuple[int, int, Any]
_UNITS: Final = {"ms": 1, "us": 2, "ns": 3}


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
    column: list[_Field] = [
        (1, _I32, physical_type),
        (2, _LIST, (_I32, [0, 3])),
        (3, _LIST, (_BINARY, [_NAME])),
        (4, _I32, codec),
        (5, _I64, value_count),
        (6, _I64, len(data)),
        (7, _I64, len(data)),
        (9, _I64, first_data),
    ]
    if has_dictionary:
        column.append((11, _I64, start))
    chunk: list[_Field] = [(2, _I64, start), (3, _STRUCT, column)]
    group: list[_Field] = [(1, _LIST, (_STRUCT, [chunk])), (2, _I64, len(data)), (3, _I64, value_count)]
    schema = [[(4, _BINARY, b"schema"), (5, _I32, 1)], _element(physical_type, type_length, arrow_type, is_optional)]
    footer = _encode_struct(
        [(1, _I32, 2), (2, _LIST, (_STRUCT, schema)), (3, _I64, value_count), (4, _LIST, (_STRUCT, [group]))]
    )
    file = b"".join((MAGIC, data, footer, len(footer).to_bytes(4, "little"), MAGIC))
    try:
        table = pq.read_table(pa.BufferReader(file), use_threads=False, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(
            f"PyArrow cannot decode pages: {error}", location=location, offset=offset, rule="parquet.thrift, PageHeader"
        ) from error
    decoded = table.column(0)
    if len(decoded) != value_count:
        raise FormatError(
            f"pages hold {len(decoded)} values, expected {value_count}",
            location=location,
            offset=offset,
            rule="parquet.thrift, PageHeader",
        )
    return decoded.chunk(0) if decoded.num_chunks == 1 else decoded.combine_chunks()


def _element(physical_type: PhysicalType, type_length: int, arrow_type: pa.DataType, is_optional: bool) -> list[_Field]:
    """A leaf of the schema. Spec: parquet.thrift, SchemaElement."""
    element: list[_Field] = [(1, _I32, physical_type)]
    if physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY:
        element.append((2, _I32, type_length))
    element += [(3, _I32, int(is_optional)), (4, _BINARY, _NAME)]
    annotation = _logical_type(physical_type, arrow_type)
    if pa.types.is_decimal(arrow_type):
        element += [(6, _I32, 5), (7, _I32, arrow_type.scale), (8, _I32, arrow_type.precision)]
    if annotation is not None:
        element.append((10, _STRUCT, [annotation]))
    return element


def _logical_type(physical_type: PhysicalType, arrow_type: pa.DataType) -> _Field | None:
    """The annotation that gives values their meaning. Spec: parquet.thrift, LogicalType."""
    types = pa.types
    if types.is_string(arrow_type) or types.is_large_string(arrow_type):
        return 1, _STRUCT, []
    if types.is_decimal(arrow_type):
        return 5, _STRUCT, [(1, _I32, arrow_type.scale), (2, _I32, arrow_type.precision)]
    if types.is_date32(arrow_type):
        return 6, _STRUCT, []
    if types.is_timestamp(arrow_type):
        if physical_type is PhysicalType.INT96:
            return None
        unit: _Field = (_UNITS[arrow_type.unit], _STRUCT, [])
        return 8, _STRUCT, [(1, _TRUE if arrow_type.tz is not None else _FALSE, None), (2, _STRUCT, [unit])]
    if types.is_integer(arrow_type):
        sign = _FALSE if types.is_unsigned_integer(arrow_type) else _TRUE
        return 10, _STRUCT, [(1, _I8, arrow_type.bit_width), (2, sign, None)]
    plain = (types.is_boolean, types.is_float32, types.is_float64, types.is_binary, types.is_large_binary)
    if types.is_fixed_size_binary(arrow_type) or any(is_type(arrow_type) for is_type in plain):
        return None
    raise UnsupportedError(f"Parquet columns of {arrow_type} page by page")


def _encode_struct(fields: Sequence[_Field]) -> bytes:
    """Fields in ascending order of their ids, then a stop."""
    out = bytearray()
    before = 0
    for number, kind, value in fields:
        out.append((number - before) << 4 | kind)  # ids are less than 16 apart
        before = number
        out += _encode_value(kind, value)
    out.append(0)
    return bytes(out)


def _encode_value(kind: int, value: Any) -> bytes:
    if kind in (_TRUE, _FALSE):
        return b""
    if kind == _I8:
        return bytes((value,))
    if kind in (_I32, _I64):
        return _varint(value << 1 ^ value >> 63)
    if kind == _BINARY:
        return _varint(len(value)) + value
    if kind == _STRUCT:
        return _encode_struct(value)
    element_kind, elements = value
    return bytes((len(elements) << 4 | element_kind,)) + b"".join(_encode_value(element_kind, e) for e in elements)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
