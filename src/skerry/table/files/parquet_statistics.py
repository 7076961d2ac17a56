"""Minima and maxima of Parquet column chunks as values of a table's type.

Spec: Parquet spec, parquet.thrift, `Statistics`, LogicalTypes.md; Iceberg spec, Schema Evolution.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.table.rows.values import is_uuid

__all__ = ["bound_of", "extent_of"]

_NANOSECONDS = {"milliseconds": 1_000_000, "microseconds": 1000, "nanoseconds": 1}
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
_WIDE = decimal.Context(prec=80)


def bound_of(type_: pa.DataType, raw: Any, physical_type: str, logical_type: Mapping[str, Any], *, upper: bool) -> Any:
    """Convert a minimum or maximum of a Parquet column chunk to a value of the table's type.

    Args:
        type_: The table's Arrow type of the column.
        raw: The statistic as Parquet stores it: int, float, bool or bytes.
        physical_type: Parquet's physical type.
        logical_type: Parquet's logical type, as PyArrow's JSON has it.
        upper: Whether it is the maximum; a value that falls between two of the table's is rounded outward.

    Returns:
        The physical value; None if the stored type cannot be converted to the table's, or the value does not fit it.
    """
    kind = logical_type.get("Type")
    if pa.types.is_boolean(type_):
        return bool(raw) if physical_type == "BOOLEAN" else None
    if type_ in (pa.int32(), pa.int64()):
        number = _integer(raw, physical_type, logical_type)
        limit = 1 << (type_.bit_width - 1)
        return number if number is not None and -limit <= number < limit else None
    if pa.types.is_floating(type_):
        return float(raw) if physical_type in ("FLOAT", "DOUBLE") else None
    if pa.types.is_date32(type_):
        return raw if kind == "Date" else None
    if pa.types.is_time64(type_):
        return _rescale(raw, logical_type, 1000, upper=upper) if kind == "Time" else None
    if pa.types.is_timestamp(type_):
        same_kind = kind == "Timestamp" and logical_type["isAdjustedToUTC"] == (type_.tz is not None)
        return _rescale(raw, logical_type, _UNITS[type_.unit], upper=upper) if same_kind else None
    if pa.types.is_decimal(type_):
        if kind != "Decimal" or logical_type["scale"] != type_.scale:
            return None
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        if abs(unscaled) >= 10**type_.precision:  # no value of the column has so many digits
            return None
        return decimal.Decimal(unscaled).scaleb(-type_.scale, _WIDE)
    if not isinstance(raw, bytes):
        return None
    if pa.types.is_string(type_):
        return _string(raw, upper=upper) if kind in ("String", "Enum", "JSON", "None") else None
    if pa.types.is_fixed_size_binary(type_) or is_uuid(type_):
        return raw if len(raw) == (16 if is_uuid(type_) else type_.byte_width) else None
    return raw if pa.types.is_binary(type_) else None


def extent_of(chunk: pq.ColumnChunkMetaData) -> tuple[float, float, float, float] | None:
    """The box around the shapes of a column chunk: least x, least y, greatest x, greatest y; None if it is unknown.

    Spec: Parquet spec, Geospatial.md.
    """
    found = chunk.geo_statistics
    if found is None:
        return None
    edges = (found.xmin, found.ymin, found.xmax, found.ymax)
    if any(edge is None for edge in edges):
        return None
    is_ordered = edges[0] <= edges[2] and edges[1] <= edges[3]  # not so where a box crosses the antimeridian
    return edges if is_ordered else None


def _integer(raw: Any, physical_type: str, logical_type: Mapping[str, Any]) -> int | None:
    if physical_type not in ("INT32", "INT64") or logical_type.get("Type") not in ("Int", "None"):
        return None
    if not logical_type.get("isSigned", True):
        return int(raw) & (0xFFFFFFFF if physical_type == "INT32" else 0xFFFFFFFFFFFFFFFF)
    return int(raw)


def _rescale(raw: int, logical_type: Mapping[str, Any], unit: int, *, upper: bool) -> int:
    nanoseconds = raw * _NANOSECONDS[logical_type["timeUnit"]]
    return -(-nanoseconds // unit) if upper else nanoseconds // unit


def _string(raw: bytes, *, upper: bool) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        # cut within a code point by a writer that shortens statistics: the text before it is still a lower bound
        return None if upper or error.start == 0 else raw[: error.start].decode()
