"""The headers of many data pages, or the places of all pages of a chunk, decoded at once.

Spec: Parquet spec, parquet.thrift, `PageHeader`, `DataPageHeader`, `OffsetIndex`; Thrift compact protocol.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.kernels import kernel
from skerry.parquet.numbers import DAMAGED, read_varint

__all__ = ["CHECKSUM", "HEADER_FIELDS", "NO_CHECKSUM", "page_locations", "read_headers", "walk_headers"]

HEADER_FIELDS: Final = 6
"""Numbers of a header: bytes of the header, of the body, of the body decompressed; values; encoding; checksum."""
CHECKSUM: Final = 5
NO_CHECKSUM: Final = 1 << 40
_BAD: Final = -(1 << 50)
_LEAST_LOCATION_BYTES: Final = 7
_MAX_INT32: Final = (1 << 31) - 1


@kernel("int64(uint8[::1], int64[::1], int64[::1], out int64[:, ::1])")
def read_headers(data: Any, starts: Any, sizes: Any, found: Any) -> int:
    """Decode headers of DATA_PAGE whose fields are in ascending order, as writers have them.

    Args:
        data: Pages, each with its header.
        starts: Where each begins.
        sizes: How long they are, all within `data`.
        found: A row of `HEADER_FIELDS` numbers per page.

    Returns:
        Whether all headers are so.
    """
    for page in range(len(starts)):
        if not _read_header(data, starts[page], starts[page] + sizes[page], page, found):
            return 0
    return 1


@kernel("int64(uint8[::1], int64, int64, out int64[:, ::1])")
def walk_headers(data: Any, start: int, values: int, found: Any) -> int:
    """Decode the headers of pages that follow each other, as `read_headers`.

    Args:
        data: The pages.
        start: Where the first begins.
        values: How many values they have in all; behind them nothing is read.
        found: Room for a row of `HEADER_FIELDS` numbers per page.

    Returns:
        How many pages there are; -1 if a header is not as usual, or there is no room.
    """
    at = np.int64(start)
    seen = np.int64(0)
    page: Any = np.int64(0)
    while seen < values:
        if page == len(found) or at >= len(data) or not _read_header(data, at, np.int64(len(data)), page, found):
            return -1
        at += found[page, 0] + found[page, 1]
        if at > len(data) or found[page, 3] == 0:
            return -1
        seen += found[page, 3]
        page += 1
    return page if seen == values else -1


@kernel
def _read_header(data: Any, start: Any, end: Any, page: Any, found: Any) -> int:
    """Decode a header; 0 if it is not as usual."""
    at = start
    # page type, uncompressed size, compressed size
    for place in range(3):
        if at >= end or data[at] != 0x15:
            return 0
        value, at = _zigzag(data, at + 1, end)
        if value < 0 or value > _MAX_INT32 or (place == 0 and value != 0):
            return 0
        if place:
            found[page, 3 - place] = value
    found[page, 5] = NO_CHECKSUM
    following = 0x2C
    if at < end and data[at] == 0x15:
        found[page, 5], at = _zigzag(data, at + 1, end)
        if found[page, 5] == _BAD:
            return 0
        following = 0x1C
    if at >= end or data[at] != following:
        return 0
    at += 1
    # values, encoding, encodings of both levels
    for place in range(4):
        if at >= end or data[at] != 0x15:
            return 0
        value, at = _zigzag(data, at + 1, end)
        if value < 0 or value > _MAX_INT32 or (place == 2 and value != 3):
            return 0
        if place < 2:
            found[page, 3 + place] = value
    if at < end and data[at] == 0x1C:
        at = _behind_struct(data, at + 1, end)
    if at < 0 or at + 1 >= end or data[at] != 0 or data[at + 1] != 0:
        return 0
    found[page, 0] = at + 2 - start
    return 1


def page_locations(data: memoryview) -> npt.NDArray[np.int64] | None:
    """The places of pages in an offset index whose fields are in ascending order, as writers have them.

    Args:
        data: The offset index.

    Returns:
        int64[pages, 3]: offset, size and first row of each page; None if it is written in another way.
    """
    found = np.empty((len(data) // _LEAST_LOCATION_BYTES + 1, 3), np.int64)
    count = int(_read_locations(np.frombuffer(data, np.uint8), found))
    return found[:count].copy() if count >= 0 else None


@kernel("int64(uint8[::1], out int64[:, ::1])")
def _read_locations(data: Any, found: Any) -> int:
    """Decode the locations of pages; returns how many there are, -1 if they are written in another way."""
    size = np.int64(len(data))
    if size < 2 or data[0] != 0x19 or data[1] & 0x0F != 0x0C:
        return -1
    count = np.int64(data[1] >> 4)
    at = np.int64(2)
    if count == 15:
        count, at = read_varint(data, at, size)
        if count == DAMAGED:
            return -1
    if count > len(found):
        return -1
    for page in range(count):
        for place in range(3):
            if at >= size or data[at] != (0x15 if place == 1 else 0x16):
                return -1
            at += 1
            value = np.uint64(0)
            width = np.uint64(0)
            while True:
                if at >= size or width > 56:
                    return -1
                part = np.uint64(data[at])
                at += 1
                value |= (part & np.uint64(0x7F)) << width
                width += np.uint64(7)
                if part < 0x80:
                    break
            if value & np.uint64(1):  # below 0
                return -1
            found[page, place] = np.int64(value >> np.uint64(1))
        if at >= size or data[at] != 0:
            return -1
        at += 1
    return int(count)


@kernel
def _zigzag(data: Any, at: Any, end: Any) -> Any:
    """A number of at most 35 bits, and where it ends."""
    value, at = read_varint(data, at, end)
    if value == DAMAGED:
        return np.int64(_BAD), at
    return (value >> 1) ^ -(value & 1), at


@kernel
def _behind_struct(data: Any, at: Any, end: Any) -> Any:
    """Where a structure of flags, numbers and bytes ends; -1 if it is another."""
    while at < end and data[at] != 0:
        head = data[at]
        kind = head & 0x0F
        at += 1
        if head < 0x10:
            return -1
        if kind == 1 or kind == 2:
            continue
        value = np.int64(0)
        shift = np.int64(0)
        while at < end and data[at] >= 0x80 and shift < 56:
            value |= np.int64(data[at] & 0x7F) << shift
            shift += 7
            at += 1
        if at >= end or data[at] >= 0x80:
            return -1
        value |= np.int64(data[at]) << shift
        at += 1
        if kind == 8:
            if value < 0 or value > end - at:
                return -1
            at += value
        elif kind < 4 or kind > 6:
            return -1
    return at + 1
