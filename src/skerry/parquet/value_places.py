"""Where single values of pages are, without decoding the others.

Spec: Parquet spec, Encodings.md, Plain, Run Length Encoding / Bit-Packing Hybrid.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from skerry.kernels import kernel
from skerry.parquet.numbers import DAMAGED, read_uint32, read_varint

__all__ = ["LAYOUT_FIELDS", "copy_values", "find_values"]

LAYOUT_FIELDS: Final = 4
"""Numbers of a page's layout: whether it begins with definition levels; the bytes of a value, 0 where they vary, -1 for
bits; the first entry of its dictionary, -1 if its values are plain; the entry after the last."""

_ENDLESS: Final = 1 << 62
"""The header of a run without end: codes of no bits have none."""


@kernel(
    "int64(uint8[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], "
    "out int64[::1], out int64[::1])"
)
def find_values(
    data: Any,
    edges: Any,
    layouts: Any,
    rows: Any,
    row_edges: Any,
    entries: Any,
    starts: Any,
    lengths: Any,
) -> int:
    """Find values of pages.

    Args:
        data: Decompressed pages.
        edges: Where each begins, and where the last ends.
        layouts: How each is to be read: a row of `LAYOUT_FIELDS` numbers per page.
        rows: The wanted rows, counted from the first of their page; ascending in each page.
        row_edges: Where the rows of each page begin among `rows`.
        entries: Where each entry of the dictionaries begins, and its length.
        starts: Where the values begin in `data`, or behind it if they are entries: as if the dictionaries followed; of
            bits the number of the bit; -1 for nulls.
        lengths: Their lengths, 0 for bits; those of nulls are 0 where lengths vary.

    Returns:
        0, or the number of the damaged page, counted from 1.
    """
    for page in range(len(edges) - 1):
        at, end = edges[page], edges[page + 1]
        max_level, width = layouts[page, 0], layouts[page, 1]
        first_entry, stop_entry = layouts[page, 2], layouts[page, 3]
        first, last = row_edges[page], row_edges[page + 1]
        if max_level:
            if end - at < 4:
                return page + 1
            size = read_uint32(data, at)
            at += 4
            if size > end - at or _find_present(data, at, at + size, rows, first, last, starts) < 0:
                return page + 1
            at += size
        else:
            for i in range(first, last):
                starts[i] = rows[i]
        if first_entry >= 0:
            found = _find_coded(data, at, end, first, last, entries[first_entry:stop_entry], starts, lengths)
        elif width == 0:
            found = _find_variable(data, at, end, first, last, starts, lengths)
        else:
            found = _find_fixed(at, end, width, first, last, starts, lengths)
        if found < 0:
            return page + 1
        for i in range(first, last):
            if starts[i] < 0:
                lengths[i] = max(width, 0)
    return 0


@kernel
def _find_present(data: Any, at: Any, end: Any, rows: Any, first: Any, last: Any, places: Any) -> int:
    """The places of rows among the values that are present; -1 for nulls."""
    seen = np.int64(0)
    present = np.int64(0)
    i = first
    while i < last:
        header, at = read_varint(data, at, end)
        if header < 0 or at >= end:
            return DAMAGED
        run = (header >> 1) * 8 if header & 1 else header >> 1
        counted = np.int64(0)
        while i < last and rows[i] < seen + run:
            wanted = rows[i] - seen
            if header & 1:
                if at + (wanted >> 3) >= end:
                    return DAMAGED
                while counted < wanted:
                    present += _packed(data, at, counted, 1)
                    counted += 1
                places[i] = present if _packed(data, at, wanted, 1) else -1
            else:
                places[i] = present + wanted if data[at] & 1 else -1
            i += 1
        if i < last:
            if header & 1:
                if header >> 1 > end - at:
                    return DAMAGED
                while counted < run:
                    present += _packed(data, at, counted, 1)
                    counted += 1
                at += header >> 1
            else:
                present += run * np.int64(data[at] & 1)
                at += 1
        seen += run
    return 0


@kernel
def _find_coded(data: Any, at: Any, end: Any, first: Any, last: Any, entries: Any, starts: Any, lengths: Any) -> int:
    """Replace places of values by where the entries are that their codes name."""
    i = first
    while i < last and starts[i] < 0:
        i += 1
    if i == last:
        return 0
    if at >= end or data[at] > 32:
        return DAMAGED
    bits = np.int64(data[at])
    at += 1
    size = (bits + 7) >> 3
    seen = np.int64(0)
    while i < last:
        header = np.int64(_ENDLESS)
        if bits:
            header, at = read_varint(data, at, end)
            if header < 0:
                return DAMAGED
        run = (header >> 1) * 8 if header & 1 else header >> 1
        while i < last and starts[i] < seen + run:
            if starts[i] >= 0:
                place = (starts[i] - seen) * bits if header & 1 else np.int64(0)
                width = bits if header & 1 else 8 * size
                if at + ((place + width + 7) >> 3) > end:
                    return DAMAGED
                code = _packed(data, at, place, width)
                if code >= len(entries):
                    return DAMAGED
                starts[i] = len(data) + entries[code, 0]
                lengths[i] = entries[code, 1]
            i += 1
        seen += run
        at += (header >> 1) * bits if header & 1 else size
    return 0


@kernel
def _packed(data: Any, at: Any, place: Any, bits: Any) -> Any:
    """A number of at most 32 bits, which begins at a bit of what begins at a byte."""
    start = at + (place >> 3)
    window = np.int64(0)
    for k in range(((place & 7) + bits + 7) >> 3):
        window |= np.int64(data[start + k]) << (8 * k)
    return (window >> (place & 7)) & ((np.int64(1) << bits) - 1)


@kernel
def _find_variable(data: Any, at: Any, end: Any, first: Any, last: Any, starts: Any, lengths: Any) -> int:
    """Replace places of values by where they begin, each after its length."""
    number = np.int64(0)
    for i in range(first, last):
        wanted = starts[i]
        while wanted >= number:
            if end - at < 4:
                return DAMAGED
            size = read_uint32(data, at)
            at += 4
            if size > end - at:
                return DAMAGED
            if wanted == number:
                starts[i] = at
                lengths[i] = size
            at += size
            number += 1
    return 0


@kernel
def _find_fixed(at: Any, end: Any, width: Any, first: Any, last: Any, starts: Any, lengths: Any) -> int:
    """Replace places of values of one width by where they begin."""
    for i in range(first, last):
        if starts[i] < 0:
            continue
        if width < 0:
            starts[i] += 8 * at
            lengths[i] = 0
            if starts[i] >= 8 * end:
                return DAMAGED
        else:
            starts[i] = at + width * starts[i]
            lengths[i] = width
            if starts[i] + width > end:
                return DAMAGED
    return 0


@kernel("int64(uint8[::1], uint8[::1], int64[::1], int64[::1], out uint8[::1])")
def copy_values(data: Any, dictionaries: Any, starts: Any, lengths: Any, values: Any) -> int:
    """Put values one after another; those that begin at -1 become zeros.

    Args:
        data: Decompressed pages.
        dictionaries: What follows them.
        starts: Where each value begins.
        lengths: Their lengths.
        values: Gets them.

    Returns:
        How many bytes they take.
    """
    at = 0
    for i in range(len(starts)):
        start = starts[i]
        if start >= len(data):
            for k in range(lengths[i]):
                values[at + k] = dictionaries[start - len(data) + k]
        else:
            for k in range(lengths[i]):
                values[at + k] = data[start + k] if start >= 0 else 0
        at += lengths[i]
    return at
