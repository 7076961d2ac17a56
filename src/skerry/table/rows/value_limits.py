"""Limits of columns that Arrow types cannot express: lengths of texts and bytes, digits of seconds, shapes.

They are in the metadata of fields, for table formats that have such types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.wkb import shapes_of

__all__ = ["FRACTION_DIGITS_KEY", "MAX_LENGTH_KEY", "plan_check"]

MAX_LENGTH_KEY: Final = b"skerry:max_length"
"""Metadata key of the maximum length of a text in characters (code points), or of a binary value in bytes."""
FRACTION_DIGITS_KEY: Final = b"skerry:fraction_digits"
"""Metadata key of the number of fractional digits of times."""
_UNIT_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def plan_check(field: pa.Field) -> Callable[[pa.Array], None] | None:
    """Plan the check of a column's values, which raises ArrowInvalid; None if the field has no limits.

    Args:
        field: The field; arrays are of its type.
    """
    metadata = field.metadata or {}
    if MAX_LENGTH_KEY in metadata:
        return _lengths(field.type, int(metadata[MAX_LENGTH_KEY]))
    if FRACTION_DIGITS_KEY in metadata:
        return _fractions(field.type, int(metadata[FRACTION_DIGITS_KEY]))
    return _check_shapes if shapes_of(field) is not None else None


def _lengths(type_: pa.DataType, most: int) -> Callable[[pa.Array], None]:
    is_text = pa.types.is_string(type_)
    measure, unit = (pc.utf8_length, "characters") if is_text else (pc.binary_length, "bytes")

    def check(array: pa.Array) -> None:
        longest = pc.max(measure(array)).as_py()
        if longest is not None and longest > most:
            raise pa.ArrowInvalid(f"it has {longest} {unit}, the column's limit is {most}")

    return check


def _fractions(type_: pa.DataType, digits: int) -> Callable[[pa.Array], None]:
    step = 10 ** (_UNIT_DIGITS[type_.unit] - digits)
    number = pa.int64() if type_.bit_width == 64 else pa.int32()

    def check(array: pa.Array) -> None:
        values = array.cast(number).drop_null().to_numpy()
        if np.any(values % step):
            raise pa.ArrowInvalid(f"the column has {digits} fractional digits of a second")

    return check


def _check_shapes(array: pa.Array) -> None:
    from skerry.wkb import check

    try:
        check(array)
    except FormatError as error:
        raise pa.ArrowInvalid(error.message) from None
