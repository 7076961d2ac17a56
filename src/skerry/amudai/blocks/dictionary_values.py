"""Value dictionaries: ids to the strings of bytes that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks.decoding import ByteValues
from skerry.amudai.encodings.byte_values import SLACK, copy_short
from skerry.amudai.encodings.stack import Bytes, Integer
from skerry.errors import FormatError, UnsupportedError
from skerry.kernels import kernel, store

__all__ = ["gather_byte_values", "gather_fixed"]

U4, U8 = np.uint32(0), np.uint64(0)
_MAX_OFFSET_32 = (1 << 31) - 1


@kernel("int64(uint32[::1], int64[::1], int64, out int64[::1])")
def measure(ids: Bytes, offsets: Bytes, null_id: int, totals: Any) -> Integer:
    """Add up the lengths of entries.

    Args:
        ids: uint32[n], ordinals of entries.
        offsets: int64[d + 1], where entries begin.
        null_id: The entry of null, -1 if none does.
        totals: int64[2], takes the bytes of all and the number of nulls.

    Returns:
        -1, or the first place of an id that has no entry.
    """
    distinct = np.uint32(len(offsets) - 1)
    largest = np.uint32(0)
    for i in range(len(ids)):
        largest = max(largest, ids[i])
    if largest >= distinct and len(ids) > 0:
        for i in range(len(ids)):
            if ids[i] >= distinct:
                return np.int64(i)
    total = np.int64(0)
    nulls = np.int64(0)
    for i in range(len(ids)):
        number = np.int64(ids[i])
        total += offsets[number + 1] - offsets[number]
        nulls += np.int64(number == null_id)
    totals[0] = total
    totals[1] = nulls
    return np.int64(-1)


@kernel("void(uint32[::1], int64[::1], uint8[::1], int64, out uint8[::1], out uint8[::1], out uint8[::1])")
def gather(ids: Bytes, offsets: Bytes, data: Bytes, null_id: int, ends: Bytes, values: Bytes, validity: Bytes) -> None:
    """Copy entries.

    Args:
        ids: uint32[n], ordinals of entries.
        offsets: int64[d + 1], where entries begin.
        data: uint8[m + SLACK], the entries.
        null_id: The entry of null, -1 if none does.
        ends: Offsets of 4 or 8 bytes, one for each value, written after the first.
        values: Takes the bytes, and up to SLACK more.
        validity: Bitmap, all zero; empty if no value is null.
    """
    place = np.int64(0)
    is_narrow = len(ends) == 4 * (len(ids) + 1)
    for i in range(len(ids)):
        number = np.int64(ids[i])
        start = offsets[number]
        size = offsets[number + 1] - start
        copy_short(data, start, values, place, size)
        place += size
        if is_narrow:
            store(U4, ends, 4 * i + 4, np.uint64(place))
        elif len(ends) > 0:
            store(U8, ends, 8 * i + 8, np.uint64(place))
    if len(validity) > 0:
        for i in range(len(ids)):
            validity[i >> 3] |= np.uint8(np.int64(ids[i]) != null_id) << np.uint8(i & 7)


def gather_byte_values(
    ids: npt.NDArray[np.uint32],
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    *,
    null_id: int | None,
    offset_dtype: npt.DTypeLike = np.int32,
) -> ByteValues:
    """Look up the values of a dictionary.

    Args:
        ids: uint32[n].
        offsets: int64[d + 1], ascending from 0 to m: where the d entries begin and the last ends.
        data: uint8[m], the entries.
        null_id: The id of null, None if none does.
        offset_dtype: Type of the offsets of the result, int32 or int64.

    Returns:
        The n values.

    Raises:
        FormatError: An id has no entry.
        UnsupportedError: There are more bytes than 32-bit offsets can hold.
    """
    dtype = np.dtype(offset_dtype)
    ends = np.zeros((len(ids) + 1) * dtype.itemsize, np.uint8)
    values, validity, nulls = _gather(ids, offsets, data, null_id, ends)
    return ByteValues(ends.view(dtype), values, validity, nulls)


def gather_fixed(
    ids: npt.NDArray[np.uint32], size: int, data: npt.NDArray[np.uint8], *, null_id: int | None
) -> ByteValues:
    """Look up the values of a dictionary that all have one size.

    Args:
        ids: uint32[n].
        size: Bytes of a value.
        data: uint8[d · size], the entries.
        null_id: The id of null, None if none does.

    Returns:
        The n values, without offsets.

    Raises:
        FormatError: An id has no entry.
    """
    if size == 0:
        raise UnsupportedError("a dictionary of values without bytes")
    offsets = np.arange(len(data) // size + 1, dtype=np.int64) * size
    return ByteValues(None, *_gather(ids, offsets, data, null_id, np.zeros(0, np.uint8)))


def _gather(
    ids: npt.NDArray[np.uint32],
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    null_id: int | None,
    ends: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8] | None, int]:
    totals = np.zeros(2, np.int64)
    null = -1 if null_id is None else null_id
    wrong = measure(ids, offsets, null, totals)
    if wrong >= 0:
        raise FormatError(
            f"id {ids[wrong]} of value {wrong} in a dictionary of {len(offsets) - 1} entries",
            rule="docs/formats/amudai.md § 7.3",
        )
    total, nulls = totals.tolist()
    if len(ends) == 4 * (len(ids) + 1) and total > _MAX_OFFSET_32:
        raise UnsupportedError(f"{total} bytes of values, more than 32-bit offsets can hold: read fewer rows")
    values = np.empty(total + SLACK, np.uint8)
    validity = np.zeros((len(ids) + 7) // 8 if nulls else 0, np.uint8)
    gather(ids, offsets, np.concatenate((data, np.zeros(SLACK, np.uint8))), null, ends, values, validity)
    return values[:total], validity if nulls else None, nulls
