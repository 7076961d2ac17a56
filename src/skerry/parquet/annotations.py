"""Logical types that PyArrow does not write, added by changing only the footer.

PyArrow writes either all timestamps of a file as INT96 or none of them. Where only some are to be INT96 it is given the
others as integers, which are stored the same way, and the footer says afterwards what they are. Variants are structs to
it, and of shapes it changes the name of the reference system.

Spec: Parquet spec, parquet.thrift, `SchemaElement`, `LogicalType`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from skerry.errors import FormatError
from skerry.parquet.metadata import MAGIC
from skerry.parquet.thrift import CompactDecoder
from skerry.parquet.thrift_encoding import BINARY, FALSE, I8, I32, STRUCT, TRUE, Field, encode_struct

__all__ = [
    "UNNAMED_CRS",
    "VARIANT_ANNOTATION",
    "annotate",
    "annotate_timestamps",
    "shapes_annotation",
    "timestamp_annotation",
]

_UNITS: Final = {"ms": 1, "us": 2, "ns": 3}
_LENGTH_BYTES: Final = 4
_VERSION_FIELD: Final = 0x15
_SCHEMA_FIELD: Final = 0x19
_FIELD_10_STRUCT: Final = bytes((STRUCT, 10 << 1))
"""The header of a field with its full id, which does not depend on the field before it."""
_RULE: Final = "Parquet spec, parquet.thrift, `FileMetaData`"


def timestamp_annotation(type_: pa.TimestampType) -> Field:
    """The logical type of INT64 timestamps, as a field of LogicalType."""
    unit: Field = (_UNITS[type_.unit], STRUCT, [])
    return 8, STRUCT, [(1, FALSE if type_.tz is None else TRUE, None), (2, STRUCT, [unit])]


VARIANT_ANNOTATION: Final[Field] = (16, STRUCT, [(1, I8, 1)])
"""The logical type of variants of version 1, as a field of LogicalType."""


UNNAMED_CRS: Final = "unnamed"
"""A reference system of shapes that PyArrow writes as it is, to be replaced."""
_GEOMETRY, _GEOGRAPHY = 17, 18
_ALGORITHMS: Final = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_UNNAMED: Final = tuple(
    bytes((1 << 4 | STRUCT,)) + encode_struct([(number, STRUCT, [(1, BINARY, UNNAMED_CRS.encode())])])
    for number in (_GEOMETRY, _GEOGRAPHY)
)
"""Logical types as PyArrow writes them, with the header of field 10 behind field 9, the field id."""


def annotate_timestamps(tail: bytes, types: Mapping[int, pa.TimestampType]) -> bytes:
    """Make timestamps of columns that a file has as plain INT64; see `annotate`.

    Args:
        tail: The end of the file, with its whole footer at least.
        types: The types, in milliseconds, microseconds or nanoseconds, by place.
    """
    return annotate(tail, {place: timestamp_annotation(type_) for place, type_ in types.items()})


def shapes_annotation(crs: str | None, algorithm: str | None) -> Field:
    """The logical type of shapes, as a field of LogicalType.

    Args:
        crs: Their coordinate reference system, None for the default.
        algorithm: How edges run between two points on a globe; None for shapes in the plane.

    Spec: Parquet spec, Geospatial.md, LogicalTypes.md.
    """
    fields: list[Field] = [] if crs is None else [(1, BINARY, crs.encode())]
    if algorithm is None:
        return _GEOMETRY, STRUCT, fields
    return _GEOGRAPHY, STRUCT, [*fields, (2, I32, _ALGORITHMS.index(algorithm))]


def annotate(tail: bytes, annotations: Mapping[int, Field]) -> bytes:
    """Give logical types to elements of a file's schema that have none, or that of shapes with `UNNAMED_CRS`.

    Args:
        tail: The end of the file, with its whole footer at least.
        annotations: Fields of LogicalType by the place of elements among all of the schema in depth-first order; the
            root is element 0.

    Returns:
        The end of the file with another footer. All offsets in the file are as before.

    Raises:
        FormatError: This is not the end of a Parquet file.
    """
    trailer = _LENGTH_BYTES + len(MAGIC)
    start = len(tail) - trailer - int.from_bytes(tail[-trailer : -len(MAGIC)], "little")
    if not tail.endswith(MAGIC) or start < 0:
        raise FormatError("the bytes do not end with a footer", rule=_RULE)
    footer = tail[start:-trailer]
    decoder = CompactDecoder(footer, position=1)
    decoder.skip_integer()
    if footer[0] != _VERSION_FIELD or footer[decoder.position] != _SCHEMA_FIELD:
        raise FormatError("the footer does not begin with a version and the schema", rule=_RULE)
    decoder.position += 1
    out, copied = bytearray(), 0
    for place, end in enumerate(decoder.struct_ends("SchemaElement")):
        if place in annotations:
            kept = footer[copied : end - 1]  # all but the stop
            for unnamed in _UNNAMED:
                kept = kept.removesuffix(unnamed)
            out += kept
            out += _FIELD_10_STRUCT + encode_struct([annotations[place]]) + b"\0"
            copied = end
    out += footer[copied:]
    return b"".join((tail[:start], out, len(out).to_bytes(_LENGTH_BYTES, "little"), MAGIC))
