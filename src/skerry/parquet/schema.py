"""The schema of a Parquet file: its leaf columns, with field ids, Arrow types and levels.

Spec: Parquet spec, parquet.thrift, `SchemaElement`, LogicalTypes.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import pyarrow as pa

from skerry.errors import FormatError
from skerry.parquet.thrift import Struct

__all__ = ["Column", "PhysicalType", "decode_columns"]


class PhysicalType(IntEnum):
    """How values are stored in pages. Spec: Parquet spec, parquet.thrift, `Type`."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


_REQUIRED, _OPTIONAL, _REPEATED = range(3)
_MAX_LEVEL: Final = 255
_MAX_TYPE_BYTES: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf of the schema.

    Args:
        index: Its place among the leaves, which is its place in every row group.
        path: Names from the root's child down to the leaf.
        field_id: The leaf's field id, None if the file gives none.
        physical_type: How its values are stored.
        type_length: Bytes per value of a FIXED_LEN_BYTE_ARRAY, else 0.
        type: What the values mean, as the plain Arrow type of that meaning: the file's annotations alone decide, not
            the Arrow schema that a writer may have put beside them. UUID and INTERVAL are fixed-size binary.
        max_definition_level: The definition level of a value that is there.
        max_repetition_level: More than 0 inside lists and maps.
    """

    index: int
    path: tuple[str, ...]
    field_id: int | None
    physical_type: PhysicalType
    type_length: int
    type: pa.DataType
    max_definition_level: int
    max_repetition_level: int

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)


def decode_columns(elements: list[Struct]) -> tuple[Column, ...]:
    """Walk the flattened schema tree.

    Args:
        elements: The footer's SchemaElements in depth-first order, the root first.

    Returns:
        The leaves in order.

    Raises:
        FormatError: The list is not a tree, or an element contradicts itself.
    """
    if not elements:
        raise FormatError(
            "Parquet schema is empty, expected a root", rule="Parquet spec, parquet.thrift, `FileMetaData.schema`"
        )
    leaves: list[Column] = []
    # One entry per open group: children still to come, path, definition level, repetition level.
    open_groups: list[tuple[int, tuple[str, ...], int, int]] = [(_child_count(elements[0]) or 0, (), 0, 0)]
    for element in elements[1:]:
        while open_groups and open_groups[-1][0] == 0:
            open_groups.pop()
        if not open_groups:
            raise element.error("is outside of the schema's root")
        remaining, path, definition, repetition = open_groups[-1]
        open_groups[-1] = (remaining - 1, path, definition, repetition)
        repeated = element.integer(3, "repetition_type", maximum=_REPEATED)
        path = (*path, element.text(4, "name"))
        definition += repeated != _REQUIRED
        repetition += repeated == _REPEATED
        if definition > _MAX_LEVEL:
            raise element.error(f"nests deeper than {_MAX_LEVEL} optional levels")
        children = _child_count(element)
        if children is not None:
            open_groups.append((children, path, definition, repetition))
        else:
            leaves.append(_decode_leaf(element, len(leaves), path, definition, repetition))
    if any(group[0] for group in open_groups):
        raise elements[-1].error("is the last one, but a group has children to come")
    return tuple(leaves)


def _child_count(element: Struct) -> int | None:
    """Children of a group, None for a leaf. A leaf has a type; a group without children is legal and has none."""
    count = element.optional_integer(5, "num_children", maximum=2**31 - 1)
    if count is None and 1 not in element.fields:
        return 0
    return None if count == 0 and 1 in element.fields else count


def _decode_leaf(
    element: Struct, index: int, path: tuple[str, ...], definition_level: int, repetition_level: int
) -> Column:
    physical_type = PhysicalType(element.integer(1, "type", maximum=max(PhysicalType)))
    type_length = 0
    if physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY:
        type_length = element.integer(2, "type_length", minimum=1, maximum=_MAX_TYPE_BYTES)
    return Column(
        index=index,
        path=path,
        field_id=element.optional_integer(9, "field_id", minimum=-(2**31), maximum=2**31 - 1),
        physical_type=physical_type,
        type_length=type_length,
        type=_arrow_type(element, physical_type, type_length),
        max_definition_level=definition_level,
        max_repetition_level=repetition_level,
    )


def _arrow_type(element: Struct, physical_type: PhysicalType, type_length: int) -> pa.DataType:
    """What the annotation says, the newer one (logicalType) before the older one (converted_type)."""
    logical = element.optional_structure(10, "logicalType")
    if logical is not None:
        # A union: at most one of its fields is there. An annotation that is not known here leaves the physical type.
        for field, decode in _LOGICAL_TYPES.items():
            annotation = logical.optional_structure(field, "logicalType")
            if annotation is not None:
                return decode(annotation, physical_type, type_length)
    converted = element.optional_integer(6, "converted_type")
    if converted == _CONVERTED_DECIMAL:
        return _decimal(element, physical_type, type_length, scale_field=7, precision_field=8)
    if converted in _CONVERTED_TYPES and logical is None:
        expected, type_ = _CONVERTED_TYPES[converted]
        return _check_physical(element, physical_type, expected, type_)
    return _physical_arrow_type(physical_type, type_length)


def _physical_arrow_type(physical_type: PhysicalType, type_length: int) -> pa.DataType:
    if physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY:
        return pa.binary(type_length)
    return _PHYSICAL_TYPES[physical_type]


def _check_physical(
    element: Struct, physical_type: PhysicalType, expected: PhysicalType, type_: pa.DataType
) -> pa.DataType:
    if physical_type is not expected:
        raise element.error(f"annotates {physical_type.name} as {type_}, expected {expected.name}")
    return type_


def _decimal(
    element: Struct,
    physical_type: PhysicalType,
    type_length: int,
    *,
    scale_field: int = 1,
    precision_field: int = 2,
) -> pa.DataType:
    maximum = {PhysicalType.INT32: 9, PhysicalType.INT64: 18, PhysicalType.BYTE_ARRAY: 76}.get(physical_type)
    if physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY:
        # The digits that fit into n bytes: floor(log10(2^(8n-1) - 1)).
        maximum = min(76, len(str(2 ** (8 * min(type_length, 64) - 1) - 1)) - 1)
    if maximum is None:
        raise element.error(f"annotates {physical_type.name} as a decimal")
    precision = element.integer(precision_field, "precision", minimum=1, maximum=maximum)
    scale = element.optional_integer(scale_field, "scale", maximum=precision) or 0
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _integer(element: Struct, physical_type: PhysicalType, type_length: int) -> pa.DataType:
    width = element.integer(1, "bitWidth", minimum=8, maximum=64)
    signed = element.flag(2, "isSigned", default=True)
    type_ = _INTEGERS.get((width, signed))
    if type_ is None:
        raise element.error(f"has bitWidth {width}, expected 8, 16, 32 or 64")
    expected = PhysicalType.INT64 if width == 64 else PhysicalType.INT32
    return _check_physical(element, physical_type, expected, type_)


def _unit(element: Struct) -> str:
    unit = element.structure(2, "unit")
    for field, name in ((1, "ms"), (2, "us"), (3, "ns")):
        if field in unit.fields:
            return name
    raise unit.error("is none of MILLIS, MICROS, NANOS")


def _time(element: Struct, physical_type: PhysicalType, type_length: int) -> pa.DataType:
    unit = _unit(element)
    if unit == "ms":
        return _check_physical(element, physical_type, PhysicalType.INT32, pa.time32("ms"))
    return _check_physical(element, physical_type, PhysicalType.INT64, pa.time64(unit))


def _timestamp(element: Struct, physical_type: PhysicalType, type_length: int) -> pa.DataType:
    zone = "UTC" if element.flag(1, "isAdjustedToUTC", default=False) else None
    return _check_physical(element, physical_type, PhysicalType.INT64, pa.timestamp(_unit(element), zone))


def _plain(expected: PhysicalType, type_: pa.DataType) -> Callable[[Struct, PhysicalType, int], pa.DataType]:
    return lambda element, physical_type, _: _check_physical(element, physical_type, expected, type_)


def _fixed(expected_bytes: int, type_: pa.DataType) -> Callable[[Struct, PhysicalType, int], pa.DataType]:
    def decode(element: Struct, physical_type: PhysicalType, type_length: int) -> pa.DataType:
        _check_physical(element, physical_type, PhysicalType.FIXED_LEN_BYTE_ARRAY, type_)
        if type_length != expected_bytes:
            raise element.error(f"annotates values of {type_length} bytes, expected {expected_bytes}")
        return type_

    return decode


_PHYSICAL_TYPES: Final = {
    PhysicalType.BOOLEAN: pa.bool_(),
    PhysicalType.INT32: pa.int32(),
    PhysicalType.INT64: pa.int64(),
    PhysicalType.INT96: pa.timestamp("ns"),
    PhysicalType.FLOAT: pa.float32(),
    PhysicalType.DOUBLE: pa.float64(),
    PhysicalType.BYTE_ARRAY: pa.binary(),
}
_INTEGERS: Final = {
    (8, True): pa.int8(),
    (16, True): pa.int16(),
    (32, True): pa.int32(),
    (64, True): pa.int64(),
    (8, False): pa.uint8(),
    (16, False): pa.uint16(),
    (32, False): pa.uint32(),
    (64, False): pa.uint64(),
}
_LOGICAL_TYPES: Final[dict[int, Callable[[Struct, PhysicalType, int], pa.DataType]]] = {
    1: _plain(PhysicalType.BYTE_ARRAY, pa.string()),
    4: _plain(PhysicalType.BYTE_ARRAY, pa.string()),  # ENUM
    5: _decimal,
    6: _plain(PhysicalType.INT32, pa.date32()),
    7: _time,
    8: _timestamp,
    10: _integer,
    11: lambda element, physical_type, type_length: pa.null(),  # UNKNOWN: every value is null
    12: _plain(PhysicalType.BYTE_ARRAY, pa.string()),  # JSON
    13: _plain(PhysicalType.BYTE_ARRAY, pa.binary()),  # BSON
    14: _fixed(16, pa.binary(16)),  # UUID
    15: _fixed(2, pa.float16()),
}
"""By field id of the union LogicalType. Spec: Parquet spec, parquet.thrift, `LogicalType`."""
_CONVERTED_DECIMAL: Final = 5
_CONVERTED_TYPES: Final = {
    0: (PhysicalType.BYTE_ARRAY, pa.string()),
    4: (PhysicalType.BYTE_ARRAY, pa.string()),  # ENUM
    6: (PhysicalType.INT32, pa.date32()),
    7: (PhysicalType.INT32, pa.time32("ms")),
    8: (PhysicalType.INT64, pa.time64("us")),
    9: (PhysicalType.INT64, pa.timestamp("ms", "UTC")),
    10: (PhysicalType.INT64, pa.timestamp("us", "UTC")),
    11: (PhysicalType.INT32, pa.uint8()),
    12: (PhysicalType.INT32, pa.uint16()),
    13: (PhysicalType.INT32, pa.uint32()),
    14: (PhysicalType.INT64, pa.uint64()),
    15: (PhysicalType.INT32, pa.int8()),
    16: (PhysicalType.INT32, pa.int16()),
    17: (PhysicalType.INT32, pa.int32()),
    18: (PhysicalType.INT64, pa.int64()),
    19: (PhysicalType.BYTE_ARRAY, pa.string()),  # JSON
    20: (PhysicalType.BYTE_ARRAY, pa.binary()),  # BSON
}
"""By ConvertedType. Spec: Parquet spec, parquet.thrift, `ConvertedType`."""
