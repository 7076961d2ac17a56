"""What a variant can be: primitive types, their sizes, and the Arrow type of a column of variants.

Spec: Parquet spec, VariantEncoding.md.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

__all__ = [
    "ARROW_TYPES",
    "EXACT",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "NULL_VALUE",
    "RULE",
    "VARIANT",
    "BasicType",
    "Primitive",
    "Typed",
    "decimal_type",
    "is_bytes",
    "is_variant",
]

RULE: Final = "Parquet spec, VariantEncoding.md"
MAX_DEPTH: Final = 200
"""Levels of arrays and objects inside each other. The specification has no limit; Spark's parser stops at 1,000."""
MAX_DIGITS: Final = 38
EXACT: Final = decimal.Context(prec=80)
"""For arithmetic that never rounds."""
NULL_VALUE: Final = b"\0"
"""A variant null, which is a value: unlike a missing one."""


class BasicType(IntEnum):
    """The lowest two bits of a value. Spec: Parquet spec, VariantEncoding.md, `basic_type`."""

    PRIMITIVE = 0
    SHORT_STRING = 1
    OBJECT = 2
    ARRAY = 3


class Primitive(IntEnum):
    """The upper six bits of a primitive value. Spec: Parquet spec, VariantEncoding.md, Encoding types."""

    NULL = 0
    TRUE = 1
    FALSE = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT64 = 6
    DOUBLE = 7
    DECIMAL4 = 8
    DECIMAL8 = 9
    DECIMAL16 = 10
    DATE = 11
    TIMESTAMP = 12
    TIMESTAMP_NTZ = 13
    FLOAT = 14
    BINARY = 15
    STRING = 16
    TIME_NTZ = 17
    TIMESTAMP_NS = 18
    TIMESTAMP_NTZ_NS = 19
    UUID = 20


ARROW_TYPES: Final = {
    pa.int8(): Primitive.INT8,
    pa.int16(): Primitive.INT16,
    pa.int32(): Primitive.INT32,
    pa.int64(): Primitive.INT64,
    pa.float32(): Primitive.FLOAT,
    pa.float64(): Primitive.DOUBLE,
    pa.date32(): Primitive.DATE,
    pa.time64("us"): Primitive.TIME_NTZ,
    pa.timestamp("us", "UTC"): Primitive.TIMESTAMP,
    pa.timestamp("us"): Primitive.TIMESTAMP_NTZ,
    pa.timestamp("ns", "UTC"): Primitive.TIMESTAMP_NS,
    pa.timestamp("ns"): Primitive.TIMESTAMP_NTZ_NS,
    pa.string(): Primitive.STRING,
    pa.binary(): Primitive.BINARY,
}
"""The types that shredded columns have in files; boolean, decimals and UUIDs come besides.

Spec: Parquet spec, VariantShredding.md, Shredded Value Types.
"""


@dataclass(frozen=True, slots=True)
class Typed:
    """A primitive value with its exact type.

    Args:
        type: The type.
        value: A bool, int (days, microseconds, nanoseconds for dates and times), float, Decimal, str, bytes or UUID.
    """

    type: Primitive
    value: Any


VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
"""The Arrow type of a column of variants, which is Spark's: the mark is in the metadata of the second field."""


def is_variant(type_: pa.DataType) -> bool:
    """Whether an Arrow type is that of variants: bytes called `value` and `metadata`, the latter with the mark."""
    if not pa.types.is_struct(type_) or type_.num_fields != VARIANT.num_fields:
        return False
    index = type_.get_field_index("metadata")
    if index < 0 or type_.get_field_index("value") < 0 or not all(is_bytes(child.type) for child in type_):
        return False
    return (type_.field(index).metadata or {}).get(b"variant") == b"true"


def is_bytes(type_: pa.DataType) -> bool:
    """Whether an Arrow type is one of byte strings of any length."""
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_))


def decimal_type(digits: int) -> Primitive:
    """The smallest type of decimals of so many digits. Spec: Parquet spec, VariantEncoding.md, Encoding types."""
    if digits <= 9:
        return Primitive.DECIMAL4
    return Primitive.DECIMAL8 if digits <= 18 else Primitive.DECIMAL16
