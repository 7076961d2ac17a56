"""Numbers between values, as kernels read them.

Spec: Parquet spec, Encodings.md, Plain, Run Length Encoding / Bit-Packing Hybrid.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from skerry.kernels import kernel

__all__ = ["DAMAGED", "read_uint32", "read_varint"]

DAMAGED: Final = -1
"""In place of a number that leads out of the data."""


@kernel
def read_uint32(data: Any, at: Any) -> Any:
    """The number of 4 bytes, little-endian, that begins at `at`; the caller has checked that they are there."""
    return (
        np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
    )


@kernel
def read_varint(data: Any, at: Any, end: Any) -> Any:
    """A variable-length integer of at most 5 bytes, and where it ends; `DAMAGED` if it is longer or cut."""
    value = np.int64(0)
    shift = np.int64(0)
    while at < end and shift <= 28:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    return np.int64(DAMAGED), at
