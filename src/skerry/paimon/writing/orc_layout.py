"""The layout of Paimon's rows in ORC files: field ids as type attributes, and types that PyArrow cannot write.

Spec: docs/formats/paimon.md § 8.2, § 8.4.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from skerry.table.files.orc_output import OrcTimes
from skerry.table.rows.schema import FIELD_ID_KEY

__all__ = ["ORC_TIMES", "orc_schema"]


def orc_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of an ORC file; PyArrow writes field metadata as attributes of ORC types."""
    return pa.schema([_field(field) for field in schema])


def _field(field: pa.Field) -> pa.Field:
    metadata = {"paimon.id": field.metadata[FIELD_ID_KEY].decode()}
    return pa.field(field.name, _stored(field.type), nullable=field.nullable, metadata=metadata)


def _stored(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([_field(child) for child in type_])
    if pa.types.is_list(type_):
        return pa.list_(_field(type_.value_field))
    if pa.types.is_map(type_):
        return pa.map_(_field(type_.key_field), _field(type_.item_field))
    return pa.int32() if pa.types.is_time32(type_) else type_


def _is_wrong(early: np.ndarray, per_second: int) -> np.ndarray:
    is_wrong: np.ndarray = (early > -per_second) | (early % max(per_second // 1000, 1) != 0)
    return is_wrong


ORC_TIMES: Final = OrcTimes(_is_wrong, "such times before 1970", "Parquet")
"""Paimon Java fails on fractions of a millisecond, and in the second before 1970 it reads wrong times.

Spec: docs/formats/paimon.md § 8.4.
"""
