"""Iceberg schemas in ORC files: types that ORC lacks, and field ids as type attributes.

Spec: Iceberg spec, Appendix A, ORC.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.table.files.orc_output import OrcTimes
from skerry.table.rows.schema import FIELD_ID_KEY
from skerry.table.rows.values import is_uuid

__all__ = ["ORC_TIMES", "orc_schema"]


def orc_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of an ORC file for a table's schema; PyArrow writes field metadata as attributes of ORC types.

    Columns of the type unknown, which have no values, are left out.

    Raises:
        UnsupportedError: A nested field is of that type.
    """
    return pa.schema([_field(field) for field in schema if not pa.types.is_null(field.type)])


def _field(field: pa.Field) -> pa.Field:
    if pa.types.is_null(field.type):
        raise UnsupportedError(f"ORC files cannot hold field {field.name!r} of type unknown")
    attributes = {"iceberg.id": field.metadata[FIELD_ID_KEY].decode(), "iceberg.required": _text(not field.nullable)}
    type_, own = _stored(field.type)
    return pa.field(field.name, type_, nullable=field.nullable, metadata={**attributes, **own})


def _text(value: bool) -> str:
    return "true" if value else "false"


def _stored(type_: pa.DataType) -> tuple[pa.DataType, dict[str, str]]:
    """The Arrow type that PyArrow writes as the right ORC type, and the attributes that complete it."""
    if pa.types.is_struct(type_):
        return pa.struct([_field(child) for child in type_]), {}
    if pa.types.is_list(type_):
        return pa.list_(_field(type_.value_field)), {}
    if pa.types.is_map(type_):
        return pa.map_(_field(type_.key_field), _field(type_.item_field)), {}
    if pa.types.is_time64(type_):
        return pa.int64(), {"iceberg.long-type": "TIME"}
    if pa.types.is_int64(type_):
        return type_, {"iceberg.long-type": "LONG"}
    if pa.types.is_timestamp(type_):
        return type_, {"iceberg.timestamp-unit": {"us": "MICROS", "ns": "NANOS"}[type_.unit]}
    if is_uuid(type_):
        return pa.binary(), {"iceberg.binary-type": "UUID"}
    if pa.types.is_fixed_size_binary(type_):
        return pa.binary(), {"iceberg.binary-type": "FIXED", "iceberg.length": str(type_.byte_width)}
    if pa.types.is_binary(type_):
        return type_, {"iceberg.binary-type": "BINARY"}
    return type_, {}


def _is_wrong(early: np.ndarray, per_second: int) -> np.ndarray:
    is_wrong: np.ndarray = early % per_second != 0
    return is_wrong


ORC_TIMES: Final = OrcTimes(_is_wrong, "times before 1970 with fractional seconds", "Parquet or Avro")
"""Other readers read such times a second earlier."""
