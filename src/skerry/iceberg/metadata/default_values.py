"""Default values that columns are given: checked to be what metadata can store and other readers can read.

Spec: Iceberg spec, JSON single-value serialization, Default values.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from skerry.errors import FormatError, SchemaError
from skerry.iceberg.metadata.arrow_schema import to_arrow_type
from skerry.iceberg.metadata.single_values import value_from_json, value_to_json
from skerry.iceberg.metadata.types import IcebergType
from skerry.table.rows.values import physical_value

__all__ = ["checked_default"]

_COMMON_YEAR: Final = re.compile(r"(?!0000)\d{4}-", re.ASCII)


def checked_default(type_: IcebergType, value: Any, column: str) -> Any:
    """Convert a default to its form in metadata.

    Args:
        type_: The column's type, a primitive one.
        value: The default as a natural or physical value.
        column: The column's name, for messages.

    Returns:
        Its physical value.

    Raises:
        SchemaError: It does not fit the type, or JSON has no such value: NaN, infinities, and years before 1 or
            after 9999, which PyIceberg does not read.
    """
    arrow = to_arrow_type(type_)
    physical = physical_value(arrow, value)
    try:
        written = value_to_json(type_, physical)
        kept = value_from_json(type_, written, column) == physical
    except (ValueError, FormatError) as error:
        raise SchemaError(f"column {column!r}: metadata cannot store the default {value!r}: {error}") from error
    dated = pa.types.is_date(arrow) or pa.types.is_timestamp(arrow)
    if not kept or (dated and not _COMMON_YEAR.match(written)):
        raise SchemaError(f"column {column!r}: metadata cannot store the default {value!r} of type {type_}")
    return physical
