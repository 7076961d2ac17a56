"""The RLE / bit-packing hybrid: how levels and dictionary indices are stored. They are counted here, not expanded.

Spec: Parquet spec, Encodings.md, Run Length Encoding / Bit-Packing Hybrid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from skerry.errors import FormatError
from skerry.kernels import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["MAX_BIT_WIDTH", "count_codes"]

MAX_BIT_WIDTH: Final = 32
_TRUNCATED: Final = -1
_OUT_OF_RANGE: Final = -2


def count_codes(data: npt.NDArray[np.uint8], bit_width: int, count: int, counts: npt.NDArray[np.int64]) -> int:
    """Count how often each code occurs.

    Args:
        data: uint8[n], runs without length prefix; what follows the last code is ignored.
        bit_width: Bits per code, 0 to 32.
        count: How many codes there are.
        counts: int64[m], increased in place: `counts[c]` by the occurrences of code c.

    Returns:
        The number of bytes that the codes take.

    Raises:
        FormatError: `data` ends before the last code, or a code is not below m; `counts` is then of no use.

    Spec: Parquet spec, Encodings.md, Run Length Encoding / Bit-Packing Hybrid.
    """
    if not 0 <= bit_width <= MAX_BIT_WIDTH:
        raise FormatError(
            f"codes of {bit_width} bits, expected 0 to {MAX_BIT_WIDTH}",
            rule="Parquet spec, Encodings.md, Run Length Encoding / Bit-Packing Hybrid",
        )
    if bit_width == 0:
        if count and not len(counts):
            raise FormatError(
                "code 0 of no codes", rule="Parquet spec, Encodings.md, Run Length Encoding / Bit-Packing Hybrid"
            )
        counts[:1] += count
        return 0
    end = int(_count_codes(data, bit_width, count, counts))
    if end == _TRUNCATED:
        raise FormatError(
            f"{len(data)} bytes of runs end before code {count}",
            rule="Parquet spec, Encodings.md, Run Length Encoding / Bit-Packing Hybrid",
        )
    if end == _OUT_OF_RANGE:
        raise FormatError(
            f"a code is not below {len(counts)}",
            rule="Parquet spec, Encodings.md, Run Length Encoding / Bit-Packing Hybrid",
        )
    return end


@kernel("int64(uint8[::1], int64, int64, out int64[::1])")
def _count_codes(data, bit_width, count, counts):  # type: ignore[no-untyped-def]
    size = len(data)
    value_bytes = (bit_width + 7) // 8
    mask = (np.uint64(1) << np.uint64(bit_width)) - np.uint64(1)
    limit = np.uint64(len(counts))
    position = 0
    left = count
    while left > 0:
        # The header of a run, a variable-length integer of at most 5 bytes.
        header = np.uint64(0)
        shift = 0
        while True:
            if position >= size or shift > 28:
                return _TRUNCATED
            byte = data[position]
            position += 1
            header |= np.uint64(byte & 0x7F) << np.uint64(shift)
            shift += 7
            if byte < 0x80:
                break
        if header & np.uint64(1):
            # Groups of 8 codes. The last run may hold more codes than there are, and end with the last one.
            run = min(left, np.int64(header >> np.uint64(1)) * 8)
            if (run * bit_width + 7) // 8 > size - position:
                return _TRUNCATED
            window = np.uint64(0)
            bits = 0
            at = position
            for _ in range(run):
                while bits < bit_width:
                    window |= np.uint64(data[at]) << np.uint64(bits)
                    at += 1
                    bits += 8
                code = window & mask
                window >>= np.uint64(bit_width)
                bits -= bit_width
                if code >= limit:
                    return _OUT_OF_RANGE
                counts[code] += 1
            position += min(np.int64(header >> np.uint64(1)) * bit_width, size - position)
        else:
            run = min(left, np.int64(header >> np.uint64(1)))
            if value_bytes > size - position:
                return _TRUNCATED
            code = np.uint64(0)
            for i in range(value_bytes):
                code |= np.uint64(data[position + i]) << np.uint64(8 * i)
            position += value_bytes
            if run > 0:
                if code >= limit:
                    return _OUT_OF_RANGE
                counts[code] += run
        left -= run
    return position
