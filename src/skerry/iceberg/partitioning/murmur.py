"""The hash of the bucket transform: 32-bit Murmur3 (x86 variant, seed 0) over Arrow columns.

Spec: Iceberg spec, Appendix B.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.kernels import kernel
from skerry.table.rows.murmur3 import MASK, finish, mix, scramble
from skerry.table.rows.values import is_uuid

__all__ = ["hash_column"]


def hash_column(column: pa.Array) -> npt.NDArray[np.int32]:
    """Hash every value of a column.

    Args:
        column: Integers, date, time, timestamps, decimals, strings, binary, fixed or uuid.

    Returns:
        int32[n]; values at null positions are meaningless.

    Raises:
        SchemaError: The specification has no bucket hash for the type.

    Spec: Iceberg spec, Appendix B: integers of every width and temporal values (nanoseconds cut to microseconds) as 8
    bytes, little-endian; decimals as their fewest big-endian bytes.
    """
    type_ = column.type
    hashes = np.empty(len(column), np.int32)
    if pa.types.is_decimal(type_):
        data, starts, lengths = _minimal_bytes(column.cast(pa.decimal128(38, type_.scale)))
        _hash_bytes(data, starts, lengths, hashes)
    elif is_uuid(type_) or pa.types.is_fixed_size_binary(type_):
        storage = column.storage if is_uuid(type_) else column
        width = storage.type.byte_width
        starts = np.arange(storage.offset, storage.offset + len(column), dtype=np.int64) * width
        _hash_bytes(_bytes(storage.buffers()[1]), starts, np.full(len(column), width, np.int64), hashes)
    elif pa.types.is_integer(type_) or pa.types.is_date32(type_) or pa.types.is_time(type_):
        _hash_longs(_integers(column).astype(np.int64), hashes)
    elif pa.types.is_timestamp(type_):
        values = _integers(column)
        _hash_longs(np.floor_divide(values, 1000) if type_.unit == "ns" else np.ascontiguousarray(values), hashes)
    elif type_ in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        width = np.int64 if pa.types.is_large_string(type_) or pa.types.is_large_binary(type_) else np.int32
        _, offset_buffer, data_buffer = column.buffers()
        offsets = np.zeros(1, width) if offset_buffer is None else np.frombuffer(offset_buffer, width)
        offsets = offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
        _hash_bytes(_bytes(data_buffer), offsets[:-1], np.diff(offsets), hashes)
    else:
        raise SchemaError(
            f"values of type {type_} cannot be put into buckets", rule="Iceberg spec, Partition Transforms"
        )
    return hashes


def _bytes(buffer: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _integers(column: pa.Array) -> npt.NDArray[Any]:
    """The column's values as a view, including arbitrary values under nulls."""
    dtype = np.dtype(f"{'u' if pa.types.is_unsigned_integer(column.type) else 'i'}{column.type.bit_width // 8}")
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(buffer, dtype)[column.offset : column.offset + len(column)]


def _minimal_bytes(
    column: pa.Array,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Decimals as big-endian bytes uint8[n * 16], with the start and length of each without padding."""
    raw = _bytes(column.buffers()[1]).reshape(-1, 16)[column.offset : column.offset + len(column), ::-1]
    sign = (raw[:, 0] >= 0x80)[:, None]
    differs = raw != np.where(sign, 0xFF, 0x00)
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), 15)
    # the first byte after the padding must still show the sign
    shows_sign = (np.take_along_axis(raw, first[:, None], axis=1) >= 0x80) == sign
    first = np.maximum(first - ~shows_sign[:, 0], 0)
    starts = np.arange(len(column), dtype=np.int64) * 16 + first
    return np.ascontiguousarray(raw).ravel(), starts, 16 - first.astype(np.int64)


@kernel("int64(int64[::1], out int32[::1])")
def _hash_longs(values: Any, hashes: Any) -> int:
    for i in range(len(values)):
        value = values[i]
        hashes[i] = np.int32(finish(mix(mix(0, value & MASK), (value >> 32) & MASK), 8))
    return len(values)


@kernel("int64(uint8[::1], int64[::1], int64[::1], out int32[::1])")
def _hash_bytes(data: Any, starts: Any, lengths: Any, hashes: Any) -> int:
    for i in range(len(starts)):
        position = starts[i]
        length = lengths[i]
        state = np.int64(0)
        for _ in range(length // 4):
            block = np.int64(data[position]) | np.int64(data[position + 1]) << 8
            block |= np.int64(data[position + 2]) << 16 | np.int64(data[position + 3]) << 24
            state = mix(state, block)
            position += 4
        tail = np.int64(0)
        for j in range(length % 4):
            tail |= np.int64(data[position + j]) << (8 * j)
        state ^= scramble(tail)
        hashes[i] = np.int32(finish(state, length & MASK))
    return len(starts)
