"""Dates, timestamps and durations as ticks of 100 ns: DateTime counts from 0001-01-01, time spans are signed.

Spec: docs/formats/amudai.md § 4.2; Amudai book, chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.kernels import kernel

__all__ = ["EPOCH_TICKS", "decode_ticks", "encode_ticks", "fits_nanoseconds", "is_tick_type"]

EPOCH_TICKS: Final = 621_355_968_000_000_000
"""The DateTime of 1970-01-01."""
_MAX_I64: Final = (1 << 63) - 1
_NANOSECOND_TICKS: Final = _MAX_I64 // 100
"""How far from the epoch a tick may be for its nanoseconds to fit 64 bits."""
_TICKS_PER_UNIT: Final[dict[str, int]] = {"s": 10_000_000, "ms": 10_000, "us": 10, "day": 864_000_000_000}
_NANOSECONDS: Final = "ns"


def is_tick_type(arrow_type: pa.DataType) -> bool:
    """Whether values of an Arrow type are stored as ticks: dates, timestamps and durations."""
    return bool(pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type) or pa.types.is_duration(arrow_type))


def fits_nanoseconds(low: int, high: int) -> bool:
    """Whether all ticks from `low` to `high`, counted from the epoch, are nanoseconds that fit 64 bits."""
    return low >= -_NANOSECOND_TICKS and high <= _NANOSECOND_TICKS


def decode_ticks(
    ticks: np.ndarray, arrow_type: pa.DataType, present: Callable[[], np.ndarray] | None = None
) -> np.ndarray:
    """Make values of an Arrow type out of ticks.

    Args:
        ticks: Ticks of DateTime, or of time spans for a duration type; uint64[rows] or int64[rows].
        arrow_type: A type of `is_tick_type`.
        present: Gives a flag per row, bool[rows]: whether there is a value. Asked only if some tick does not fit, which
            does not matter where there is none. By default all rows have values.

    Returns:
        int64[rows], or int32[rows] for date32; rows without a value hold anything.

    Raises:
        SchemaError: A value is not a whole number of the type's unit, or is outside of its range.
    """
    signed = ticks.view(np.int64)
    out = np.empty(signed.size, np.int64)
    bad = _decode(signed, arrow_type, out)
    if bad >= 0 and present is not None:
        signed = np.where(present(), signed, _epoch(arrow_type))
        bad = _decode(signed, arrow_type, out)
    if bad >= 0:
        raise SchemaError(
            f"row {bad} has the tick {signed.view(np.uint64)[bad] if _epoch(arrow_type) else signed[bad]}, "
            f"which no {arrow_type} holds exactly: read the column as another type, such as int64 or uint64"
        )
    return out.astype(np.int32) if pa.types.is_date32(arrow_type) else out


def _decode(signed: np.ndarray, arrow_type: pa.DataType, out: np.ndarray) -> int:
    unit = _unit(arrow_type)
    epoch = _epoch(arrow_type)
    if unit == _NANOSECONDS:
        return int(_ticks_to_nanoseconds(signed, epoch, -_NANOSECOND_TICKS, _NANOSECOND_TICKS, out))
    low = 0 if epoch else -_MAX_I64 - 1
    return int(_ticks_to_units(signed, _TICKS_PER_UNIT[unit], epoch // _TICKS_PER_UNIT[unit], low, out))


def encode_ticks(array: pa.Array) -> pa.Array:
    """Make ticks out of dates, timestamps or durations.

    Args:
        array: Values of a type of `is_tick_type`.

    Returns:
        DateTime's ticks as uint64, or for durations ticks as int64; null where `array` is.

    Raises:
        SchemaError: A value has a fraction of 100 ns, or is outside of what 63 bits of ticks hold from year 1 on.
    """
    stored = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
    values = array.view(stored).fill_null(0) if array.null_count else array.view(stored)
    numbers = values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    out = np.empty(numbers.size, np.int64)
    bad = _encode(np.ascontiguousarray(numbers), array.type, out)
    if bad >= 0:
        raise SchemaError(
            f"row {bad} has the {array.type} {array[bad].value}, expected a multiple of 100 ns "
            + ("that fits 64 bits" if _epoch(array.type) == 0 else "from year 1 to year 29227")
        )
    result_type = pa.int64() if pa.types.is_duration(array.type) else pa.uint64()
    bits = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(result_type, out.size, [bits, pa.py_buffer(out)], array.null_count)


def _encode(numbers: np.ndarray, arrow_type: pa.DataType, out: np.ndarray) -> int:
    unit = _unit(arrow_type)
    epoch = _epoch(arrow_type)
    if unit == _NANOSECONDS:
        return int(_nanoseconds_to_ticks(numbers, epoch, out))
    factor = _TICKS_PER_UNIT[unit]
    low = -(epoch // factor) if epoch else -((_MAX_I64 + 1) // factor)
    return int(_units_to_ticks(numbers, factor, epoch, low, (_MAX_I64 - epoch) // factor, out))


def _unit(arrow_type: pa.DataType) -> str:
    if pa.types.is_date32(arrow_type):
        return "day"
    return "ms" if pa.types.is_date64(arrow_type) else str(arrow_type.unit)


def _epoch(arrow_type: pa.DataType) -> int:
    return 0 if pa.types.is_duration(arrow_type) else EPOCH_TICKS


@kernel("int64(int64[::1], int64, int64, int64, int64, out int64[::1])")
def _units_to_ticks(values: Any, factor: int, epoch: int, low: int, high: int, out: Any) -> int:
    """Multiply and move; the index of the last value outside of `low` to `high`, or -1."""
    bad = -1
    for i in range(values.size):
        value = values[i]
        if value < low or value > high:
            bad = i
        out[i] = value * factor + epoch
    return bad


@kernel("int64(int64[::1], int64, out int64[::1])")
def _nanoseconds_to_ticks(values: Any, epoch: int, out: Any) -> int:
    """Divide by 100 and move; the index of the last value that is not a multiple of 100, or -1."""
    bad = -1
    for i in range(values.size):
        ticks = values[i] // 100
        if ticks * 100 != values[i]:
            bad = i
        out[i] = ticks + epoch
    return bad


@kernel("int64(int64[::1], int64, int64, int64, out int64[::1])")
def _ticks_to_nanoseconds(ticks: Any, epoch: int, low: int, high: int, out: Any) -> int:
    """Move and multiply by 100; the index of the last tick outside of `low` to `high` from the epoch, or -1."""
    bad = -1
    for i in range(ticks.size):
        moved = ticks[i] - epoch
        if moved < low or moved > high or (epoch > 0 and ticks[i] < 0):
            bad = i
        out[i] = moved * 100
    return bad


@kernel("int64(int64[::1], int64, int64, int64, out int64[::1])")
def _ticks_to_units(ticks: Any, divisor: int, epoch: int, low: int, out: Any) -> int:
    """Divide and move; the index of the last tick that is less than `low` or no whole number of units, or -1."""
    # the compiler turns a division by a number it knows into a multiplication
    if divisor == 10:
        return _divide(ticks, 10, epoch, low, out)
    if divisor == 10_000:
        return _divide(ticks, 10_000, epoch, low, out)
    if divisor == 10_000_000:
        return _divide(ticks, 10_000_000, epoch, low, out)
    return _divide(ticks, 864_000_000_000, epoch, low, out)


@kernel
def _divide(ticks: Any, divisor: int, epoch: int, low: int, out: Any) -> int:
    bad = -1
    for i in range(ticks.size):
        quotient = ticks[i] // divisor
        if quotient * divisor != ticks[i] or ticks[i] < low:
            bad = i
        out[i] = quotient - epoch
    return bad
