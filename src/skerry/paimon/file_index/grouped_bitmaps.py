"""Many Roaring bitmaps at once: those of an index's values, or of its slices.

Containers are runs where these take fewer bytes than the positions alone, as in Java's library, so that indexes have
the bytes that Java would have written.

Spec: Roaring spec, Standard 32-bit Roaring Bitmap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.kernels import kernel

__all__ = ["encode_bitmaps"]

_Rows = npt.NDArray[np.int64]


def encode_bitmaps(positions: _Rows, starts: _Rows) -> tuple[npt.NDArray[np.uint8], _Rows]:
    """Encode bitmaps one after the other.

    Args:
        positions: int64[n] Those of all bitmaps; ascending and distinct within each, below 2^31.
        starts: int64[bitmaps + 1] Where each bitmap's positions start, and the end of the last.

    Returns:
        uint8[size] the portable bytes of all bitmaps, and int64[bitmaps + 1] where each starts, with the end.
    """
    positions, starts = np.ascontiguousarray(positions, np.int64), np.ascontiguousarray(starts, np.int64)
    is_first = np.ones(len(positions), bool)
    is_first[1:] = np.diff(positions >> 16) != 0
    is_first[starts[:-1][starts[:-1] < len(positions)]] = True
    containers = np.flatnonzero(is_first)
    # cookie and number or flags; key, cardinality, offset and number of runs; positions
    data = np.zeros(9 * (len(starts) - 1) + 11 * len(containers) + 2 * len(positions), np.uint8)
    ends = np.empty(len(starts), np.int64)
    _encode(positions, starts, np.append(containers, len(positions)), data, ends)
    return data[: ends[-1]], ends


@kernel
def _put16(data: Any, at: Any, value: Any) -> Any:
    data[at] = np.uint8(value & 255)
    data[at + 1] = np.uint8(value >> 8 & 255)
    return at + 2


@kernel
def _put32(data: Any, at: Any, value: Any) -> Any:
    return _put16(data, _put16(data, at, value & 65535), value >> 16 & 65535)


@kernel
def _count_runs(positions: Any, start: Any, end: Any) -> Any:
    runs = 1
    for i in range(start + 1, end):
        if positions[i] != positions[i - 1] + 1:
            runs += 1
    return runs


@kernel
def _is_run(positions: Any, start: Any, end: Any) -> Any:
    return 2 + 4 * _count_runs(positions, start, end) < min(2 * (end - start), 8192)


@kernel
def _put_container(positions: Any, start: Any, end: Any, data: Any, at: Any) -> Any:
    """Write one container, and return where it ends."""
    if _is_run(positions, start, end):
        at = _put16(data, at, _count_runs(positions, start, end))
        i = start
        while i < end:
            j = i + 1
            while j < end and positions[j] == positions[j - 1] + 1:
                j += 1
            at = _put16(data, _put16(data, at, positions[i] & 65535), j - i - 1)
            i = j
        return at
    if end - start > 4096:
        for i in range(start, end):
            low = positions[i] & 65535
            data[at + (low >> 3)] |= np.uint8(1 << (low & 7))
        return at + 8192
    for i in range(start, end):
        at = _put16(data, at, positions[i] & 65535)
    return at


@kernel("void(int64[::1], int64[::1], int64[::1], out uint8[::1], out int64[::1])")
def _encode(positions: Any, starts: Any, containers: Any, data: Any, ends: Any) -> None:
    at, first = 0, 0
    for bitmap in range(len(starts) - 1):
        ends[bitmap] = origin = at
        last = first
        has_runs = False
        while last < len(containers) - 1 and containers[last] < starts[bitmap + 1]:
            has_runs |= _is_run(positions, containers[last], containers[last + 1])
            last += 1
        count = last - first
        if has_runs:
            at = _put16(data, _put16(data, at, 12347), count - 1)
            flags = at
            at += (count + 7) // 8
            for i in range(count):
                if _is_run(positions, containers[first + i], containers[first + i + 1]):
                    data[flags + (i >> 3)] |= np.uint8(1 << (i & 7))
        else:
            at = _put32(data, _put32(data, at, 12346), count)
        for i in range(first, last):
            at = _put16(data, at, positions[containers[i]] >> 16)
            at = _put16(data, at, containers[i + 1] - containers[i] - 1)
        offsets = at
        if not has_runs or count >= 4:
            at += 4 * count
        for i in range(first, last):
            if not has_runs or count >= 4:
                _put32(data, offsets + 4 * (i - first), at - origin)
            at = _put_container(positions, containers[i], containers[i + 1], data, at)
        first = last
    ends[len(starts) - 1] = at
