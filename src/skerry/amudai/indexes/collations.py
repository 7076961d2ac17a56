"""Collations: the order of terms, and which terms are equal.

Terms compare like their *folded* forms, UTF-8 of the simple upper case of each code point: UTF-8 has the order of code
points.

Spec: docs/formats/amudai-indexes.md § 2.3.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.indexes.character_tables import upper_case
from skerry.amudai.indexes.tokenizers import MAX_TERM_BYTES, code_point, code_point_bytes
from skerry.kernels import kernel

__all__ = ["FOLDED_BYTES", "Collation", "equal_spans", "fold", "fold_bytes"]

FOLDED_BYTES: Final = 4 * MAX_TERM_BYTES
"""Bytes that a folded term has at most."""


class Collation(StrEnum):
    """How terms are ordered and compared."""

    CASE_INSENSITIVE = "unicode-case-insensitive"
    """By folded forms, so that terms that only differ in case are one."""
    CASE_PRESERVING = "unicode-case-preserving"
    """By folded forms, then by code points."""


@kernel
def write_code_point(number: int, target: Any, place: int) -> int:
    """Write a code point as UTF-8; gives the place after it."""
    if number < 0x80:
        target[place] = number
        return place + 1
    if number < 0x800:
        target[place] = 0xC0 | number >> 6
        target[place + 1] = 0x80 | number & 0x3F
        return place + 2
    if number < 0x10000:
        target[place] = 0xE0 | number >> 12
        target[place + 1] = 0x80 | number >> 6 & 0x3F
        target[place + 2] = 0x80 | number & 0x3F
        return place + 3
    target[place] = 0xF0 | number >> 18
    target[place + 1] = 0x80 | number >> 12 & 0x3F
    target[place + 2] = 0x80 | number >> 6 & 0x3F
    target[place + 3] = 0x80 | number & 0x3F
    return place + 4


@kernel
def fold_span(data: Any, start: int, length: int, upper: Any, target: Any, place: int) -> int:
    """Write the folded form of a span, for which there is room; gives the place after it.

    What is not UTF-8 is copied.
    """
    at = start
    stop = start + length
    while at < stop:
        byte = data[at]
        if byte < 0x80:
            target[place] = byte - 32 if 97 <= byte <= 122 else byte
            place += 1
            at += 1
            continue
        size = code_point_bytes(data, at, stop)
        number = code_point(data, at, size)
        if size == 1 or number >= len(upper) or upper[number] == number:
            for i in range(size):
                target[place + i] = data[at + i]
            place += size
        else:
            place = write_code_point(np.int64(upper[number]), target, place)
        at += size
    return place


@kernel("int64(uint8[::1], int64[::1], int32[::1], out uint8[::1], out int64[::1])")
def fold_spans(data: Any, offsets: Any, upper: Any, folded: Any, folded_offsets: Any) -> int:
    """Fold `data[offsets[i] : offsets[i + 1]]`, end to end; gives the bytes written."""
    place: Any = np.int64(0)
    folded_offsets[0] = 0
    for i in range(len(offsets) - 1):
        place = fold_span(data, offsets[i], offsets[i + 1] - offsets[i], upper, folded, place)
        folded_offsets[i + 1] = place
    return place


@kernel(
    "int64(uint8[::1], int64[::1], int64[::1], uint8, int32[::1], uint8[::1], uint8, out uint8[::1], out uint8[::1])"
)
def compare_spans(
    data: Any, starts: Any, lengths: Any, folds: Any, upper: Any, term: Any, is_prefix: Any, scratch: Any, flags: Any
) -> int:
    """Compare spans with a term.

    Args:
        data, starts, lengths: The spans.
        folds: Whether spans are folded first, as the term is.
        upper: The upper case of code points.
        term: The term.
        is_prefix: Whether spans may go on after it.
        scratch: Room for a folded code point.
        flags: Which are equal.

    Returns:
        How many are equal.
    """
    count: Any = np.int64(0)
    size = len(term)
    for i in range(len(starts)):
        at = starts[i]
        stop = at + lengths[i]
        place = np.int64(0)
        while at < stop and place < size:
            byte = np.int64(data[at])
            if byte < 0x80 or folds == 0:
                if folds != 0 and 97 <= byte <= 122:
                    byte -= 32
                if term[place] != byte:
                    break
                at += 1
                place += 1
                continue
            step = code_point_bytes(data, at, stop)
            end = fold_span(data, at, step, upper, scratch, np.int64(0))
            same = place + end <= size
            for j in range(end if same else 0):
                if term[place + j] != scratch[j]:
                    same = False
                    break
            if not same:
                break
            at += step
            place += end
        flags[i] = place == size and (is_prefix != 0 or at == stop)
        count += flags[i]
    return count


def equal_spans(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    term: bytes,
    *,
    folds: bool,
    is_prefix: bool = False,
) -> npt.NDArray[np.bool_]:
    """Which spans are a term, or begin with it.

    Args:
        data: uint8[bytes], UTF-8.
        starts: int64[n], where each span begins.
        lengths: int64[n], its bytes; spans are within `data`. Not checked.
        term: The term.
        folds: Whether folded forms are compared.
        is_prefix: Whether spans may go on after the term.

    Returns:
        bool[n].
    """
    wanted = np.frombuffer(fold_bytes(term) if folds else term, np.uint8)
    flags = np.empty(len(starts), np.uint8)
    scratch = np.empty(FOLDED_BYTES, np.uint8)
    compare_spans(data, starts, lengths, np.uint8(folds), upper_case(), wanted, np.uint8(is_prefix), scratch, flags)
    return flags.view(np.bool_)


def fold(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The folded forms of texts that are stored end to end.

    Args:
        data: uint8[bytes], UTF-8.
        offsets: int64[n + 1], rising and within `data`. Not checked.

    Returns:
        uint8[bytes] and int64[n + 1], the same of the folded forms.
    """
    # an upper case has at most one byte of UTF-8 more than its code point, which then has two
    folded = np.empty(2 * int(offsets[-1] - offsets[0]), np.uint8)
    folded_offsets = np.empty(len(offsets), np.int64)
    size = fold_spans(data, offsets, upper_case(), folded, folded_offsets)
    return folded[:size], folded_offsets


def fold_bytes(text: bytes) -> bytes:
    """The folded form of one text."""
    data, _ = fold(np.frombuffer(text, np.uint8), np.array([0, len(text)], np.int64))
    return data.tobytes()
