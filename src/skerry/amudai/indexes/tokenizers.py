"""Tokenizers: the terms of values, as spans of their bytes.

Spec: docs/formats/amudai-indexes.md § 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.indexes.character_tables import alphanumeric_flags
from skerry.kernels import kernel

__all__ = ["MAX_TERM_BYTES", "Spans", "Tokenizer", "find_terms"]

MAX_TERM_BYTES = 128
"""Terms are cut after this many bytes, or sooner, so that no code point is cut."""
_MIN_ADDRESS_BYTES: Final = 7  # 1.1.1.1


class Tokenizer(StrEnum):
    """How values become terms."""

    UNICODE_WORD = "unicode-word"
    """The longest runs of alphanumeric code points."""
    UNICODE_LOG = "unicode-log"
    """IPv4 addresses, then the longest runs of alphanumeric code points."""
    TRIVIAL = "trivial"
    """The whole value."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Terms within a buffer.

    Args:
        starts: int64[n], where each begins.
        lengths: int64[n], how many bytes each has: 1 to 128.
        values: int64[n], the ordinal of the value that each is in, ascending.
    """

    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]


def find_terms(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], tokenizer: Tokenizer) -> Spans:
    """The terms of values, value by value, in the order that the tokenizer finds them.

    Args:
        data: uint8[bytes], UTF-8.
        offsets: int64[n + 1], rising and within `data`; value i is `data[offsets[i] : offsets[i + 1]]`. Not checked.
        tokenizer: What a term is.
    """
    most = len(offsets) - 1
    size = int(offsets[-1] - offsets[0]) if len(offsets) else 0
    if tokenizer is not Tokenizer.TRIVIAL:
        most = min(size, (size + most + 1) // 2)
    if tokenizer is Tokenizer.UNICODE_LOG:
        most += size // _MIN_ADDRESS_BYTES
    starts, lengths, values = (np.empty(most, np.int64) for _ in range(3))
    if tokenizer is Tokenizer.TRIVIAL:
        count = whole_values(data, offsets, starts, lengths, values)
    else:
        finds_addresses = np.uint8(tokenizer is Tokenizer.UNICODE_LOG)
        count = split_words(data, offsets, alphanumeric_flags(), finds_addresses, starts, lengths, values)
    return Spans(starts[:count], lengths[:count], values[:count])


@kernel
def cut_length(data: Any, start: int, length: int) -> int:
    """At most 128 bytes of a term: as many as do not cut a code point."""
    if length <= MAX_TERM_BYTES:
        return length
    length = MAX_TERM_BYTES
    while length > 1 and data[start + length] & 0xC0 == 0x80:
        length -= 1
    return length


@kernel("int64(uint8[::1], int64[::1], out int64[::1], out int64[::1], out int64[::1])")
def whole_values(data: Any, offsets: Any, starts: Any, lengths: Any, values: Any) -> int:
    """Take each value that is not empty as a term.

    Returns:
        How many there are.
    """
    count = 0
    for value in range(len(offsets) - 1):
        start = offsets[value]
        length = offsets[value + 1] - start
        if length > 0:
            starts[count] = start
            lengths[count] = cut_length(data, start, length)
            values[count] = value
            count += 1
    return count


@kernel
def code_point_bytes(data: Any, position: int, stop: int) -> int:
    """How many bytes the code point at a position has; 1 for what is not UTF-8."""
    lead = data[position]
    size = 1
    if lead >= 0xF0:
        size = 4
    elif lead >= 0xE0:
        size = 3
    elif lead >= 0xC0:
        size = 2
    return size if position + size <= stop else 1


@kernel
def code_point(data: Any, position: int, size: int) -> Any:
    """The code point of some bytes; 0xFFFD for what is not UTF-8."""
    lead = np.int64(data[position])
    if size == 1:
        return lead if lead < 0x80 else np.int64(0xFFFD)
    if size == 2:
        return (lead & 0x1F) << 6 | np.int64(data[position + 1] & 0x3F)
    if size == 3:
        return (lead & 0x0F) << 12 | np.int64(data[position + 1] & 0x3F) << 6 | np.int64(data[position + 2] & 0x3F)
    found = (lead & 0x07) << 18 | np.int64(data[position + 1] & 0x3F) << 12
    found |= np.int64(data[position + 2] & 0x3F) << 6 | np.int64(data[position + 3] & 0x3F)
    return found if found < 0x110000 else np.int64(0xFFFD)


@kernel
def is_ascii_alphanumeric(byte: Any) -> bool:
    """Whether a byte is an ASCII letter or digit."""
    return 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122


@kernel
def address_bytes(data: Any, position: int, stop: int) -> int:
    """How many bytes the IPv4 address at a position has; 0 if there is none."""
    at = position
    for part in range(4):
        if part > 0:
            if at >= stop or data[at] != 46:
                return 0
            at += 1
        number = np.int64(0)
        digits = 0
        while at < stop and digits < 3 and 48 <= data[at] <= 57:
            number = 10 * number + np.int64(data[at]) - 48
            at += 1
            digits += 1
        if digits == 0 or number > 255:
            return 0
    if at < stop and is_ascii_alphanumeric(data[at]):
        return 0
    return at - position


@kernel("int64(uint8[::1], int64[::1], uint8[::1], uint8, out int64[::1], out int64[::1], out int64[::1])")
def split_words(
    data: Any, offsets: Any, alphanumeric: Any, finds_addresses: Any, starts: Any, lengths: Any, values: Any
) -> int:
    """Find addresses, where they are wanted, and words.

    Args:
        data: UTF-8.
        offsets: Where values begin and end.
        alphanumeric: A flag per code point.
        finds_addresses: Whether IPv4 addresses are terms.
        starts, lengths, values: The terms: where each begins, its bytes, and its value's ordinal.

    Returns:
        How many there are.
    """
    count = 0
    for value in range(len(offsets) - 1):
        first, stop = offsets[value], offsets[value + 1]
        if finds_addresses != 0:
            at = first
            while at < stop:
                if 48 <= data[at] <= 57 and (at == first or not is_ascii_alphanumeric(data[at - 1])):
                    size = address_bytes(data, at, stop)
                    if size > 0:
                        starts[count] = at
                        lengths[count] = size
                        values[count] = value
                        count += 1
                        at += size
                        continue
                at += 1
        at = first
        start = np.int64(-1)
        while at < stop:
            byte = data[at]
            size = 1
            if byte < 0x80:
                inside = alphanumeric[byte] != 0
            else:
                size = code_point_bytes(data, at, stop)
                inside = alphanumeric[code_point(data, at, size)] != 0
            if inside and start < 0:
                start = at
            elif not inside and start >= 0:
                starts[count] = start
                lengths[count] = cut_length(data, start, at - start)
                values[count] = value
                count += 1
                start = np.int64(-1)
            at += size
        if start >= 0:
            starts[count] = start
            lengths[count] = cut_length(data, start, stop - start)
            values[count] = value
            count += 1
    return count
