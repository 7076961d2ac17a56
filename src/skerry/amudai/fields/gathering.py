"""Values of a dictionary, put in the order of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.kernels import kernel, load_u64, store

__all__ = ["gather_bytes", "ids_in_range", "measure"]

_U8 = np.uint64(0)


def measure(ids: npt.NDArray[np.uint32], offsets: npt.NDArray[np.int64]) -> int:
    """Bytes of the entries that ids name, each counted as often as it is named; ids are in range."""
    lengths = np.diff(offsets)  # a copy, aligned even if `offsets` is not
    return int(_total(ids, lengths))


def ids_in_range(ids: npt.NDArray[np.uint32], count: int) -> bool:
    """Whether all ids are below `count`."""
    return len(ids) == 0 or int(ids.max()) < count


def gather_bytes(
    ids: npt.NDArray[np.uint32], offsets: npt.NDArray[np.int64], values: npt.NDArray[np.uint8], out_offsets: Any
) -> npt.NDArray[np.uint8]:
    """Copy the entries that ids name end to end.

    Args:
        ids: uint32[rows], all in range.
        offsets: int64[entries + 1] into `values`, rising from 0 to its length.
        values: uint8[bytes], the entries end to end.
        out_offsets: int32[rows + 1] or int64[rows + 1], takes where each row begins, then the length of the result.

    Returns:
        uint8[bytes], the rows end to end.
    """
    total = measure(ids, offsets)
    padded = np.zeros(len(values) + 8, np.uint8)  # whole words are read and written beyond the last byte
    padded[: len(values)] = values
    out = np.empty(total + 8, np.uint8)
    copy = _copy_32 if out_offsets.dtype == np.int32 else _copy_64
    copy(ids, np.require(offsets, np.int64, "A"), padded, out, out_offsets)
    return out[:total]


@kernel("int64(uint32[::1], int64[::1])")
def _total(ids: Any, lengths: Any) -> int:
    total = 0
    for i in range(ids.size):
        total += lengths[ids[i]]
    return total


@kernel("void(uint32[::1], int64[::1], uint8[::1], out uint8[::1], out int32[::1])")
def _copy_32(ids: Any, offsets: Any, values: Any, out: Any, out_offsets: Any) -> None:
    _copy(ids, offsets, values, out, out_offsets)


@kernel("void(uint32[::1], int64[::1], uint8[::1], out uint8[::1], out int64[::1])")
def _copy_64(ids: Any, offsets: Any, values: Any, out: Any, out_offsets: Any) -> None:
    _copy(ids, offsets, values, out, out_offsets)


@kernel
def _copy(ids: Any, offsets: Any, values: Any, out: Any, out_offsets: Any) -> None:
    at = np.int64(0)
    for i in range(ids.size):
        out_offsets[i] = at
        start = offsets[ids[i]]
        length = offsets[ids[i] + 1] - start
        for k in range(0, length, 8):
            store(_U8, out, at + k, load_u64(values, start + k))
        at += length
    out_offsets[ids.size] = at
