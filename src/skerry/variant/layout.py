"""Kernels for the layout of metadata and values: sizes, containers, and fields by name.

Every position is compared with the end of the bytes it belongs to before anything is loaded.

Spec: Parquet spec, VariantEncoding.md.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from skerry.kernels import kernel

__all__ = [
    "BAD",
    "BAD_NAME",
    "MISSING",
    "OVERLAP",
    "SHORT",
    "TOO_DEEP",
    "UNKNOWN_TYPE",
    "VERSION",
    "check_metadata",
    "check_values",
    "compare",
    "container",
    "field_name",
    "find_names",
    "find_steps",
    "load_number",
    "name_span",
    "take_elements",
    "value_end",
]

MISSING: Final = -1
SHORT: Final = -2
UNKNOWN_TYPE: Final = -3
BAD_NAME: Final = -4
OVERLAP: Final = -5
TOO_DEEP: Final = -6
VERSION: Final = -7
BAD: Final = -8

_SIZES = np.array([0, 0, 0, 1, 2, 4, 8, 8, 5, 9, 17, 4, 8, 8, 4, -1, -1, 8, 8, 8, 16], np.int64)
"""Bytes of a primitive value behind its header, by type; -1 where a length precedes it."""
_LINEAR = 8
"""Objects of so many fields are searched from first to last, larger ones by halving."""


@kernel
def load_number(data: Any, at: int, width: int) -> Any:
    """An unsigned number of one to four bytes."""
    number = np.int64(0)
    for i in range(width):
        number |= np.int64(data[at + i]) << (8 * i)
    return number


@kernel
def container(data: Any, start: int, end: int) -> Any:
    """The layout of an object or array.

    Returns:
        Number of elements, or an error below 0; then where ids begin, bytes of an id, where offsets begin, bytes of
        an offset, where values begin and end.
    """
    header = np.int64(data[start]) >> 2
    offset_size = (header & 3) + 1
    id_size = np.int64(0)
    is_large = header >> 2 & 1
    if data[start] & 3 == 2:
        id_size = (header >> 2 & 3) + 1
        is_large = header >> 4 & 1
    ids = start + (5 if is_large else 2)
    if ids > end:
        return np.int64(SHORT), start, id_size, start, offset_size, start, start
    count = load_number(data, start + 1, ids - start - 1)
    offsets = ids + count * id_size
    values = offsets + (count + 1) * offset_size
    if values > end:
        return np.int64(SHORT), start, id_size, start, offset_size, start, start
    values_end = values + load_number(data, offsets + count * offset_size, offset_size)
    if values_end > end:
        return np.int64(SHORT), start, id_size, start, offset_size, start, start
    return count, ids, id_size, offsets, offset_size, values, values_end


@kernel
def value_end(data: Any, start: int, end: int) -> Any:
    """Where the value that begins at `start` ends; an error below 0."""
    if start >= end:
        return np.int64(SHORT)
    basic = data[start] & 3
    header = np.int64(data[start]) >> 2
    found = np.int64(start + 1)
    if basic == 1:
        found = np.int64(start + 1) + header
    elif basic == 0:
        if header >= len(_SIZES):
            return np.int64(UNKNOWN_TYPE)
        size = _SIZES[header]
        if size < 0:
            if start + 5 > end:
                return np.int64(SHORT)
            size = 4 + load_number(data, start + 1, 4)
        found = start + 1 + size
    else:
        layout = container(data, start, end)
        if layout[0] < 0:
            return layout[0]
        found = layout[6]
    return found if found <= end else np.int64(SHORT)


@kernel
def name_span(metadata: Any, at: int, number: int) -> Any:
    """Where a name of a checked dictionary begins and ends."""
    width = (np.int64(metadata[at]) >> 6) + 1
    count = load_number(metadata, at + 1, width)
    offsets = at + 1 + width
    names = offsets + (count + 1) * width
    begin = names + load_number(metadata, offsets + number * width, width)
    return begin, names + load_number(metadata, offsets + (number + 1) * width, width)


@kernel
def compare(first: Any, start: int, end: int, second: Any, other_start: int, other_end: int) -> Any:
    """Compare two names by their bytes: below, at or above 0."""
    size = min(end - start, other_end - other_start)
    for i in range(size):
        if first[start + i] != second[other_start + i]:
            return np.int64(first[start + i]) - np.int64(second[other_start + i])
    return (end - start) - (other_end - other_start)


@kernel("int64(uint8[::1], int64[:, ::1], out int64[::1])")
def check_metadata(data: Any, spans: Any, counts: Any) -> Any:
    """Check dictionaries, and give the number of their names; their text is not looked at.

    Args:
        data: Their bytes.
        spans: int64[2, m], where each begins and ends.
        counts: int64[m], gets the numbers of names.

    Returns:
        0, or an error.
    """
    for row in range(spans.shape[1]):
        start = spans[0, row]
        end = spans[1, row]
        if start >= end:
            return np.int64(SHORT)
        if data[start] & 15 != 1:
            return np.int64(VERSION)
        width = (np.int64(data[start]) >> 6) + 1
        if start + 1 + 2 * width > end:
            return np.int64(SHORT)
        count = load_number(data, start + 1, width)
        offsets = start + 1 + width
        names = offsets + (count + 1) * width
        if names > end:
            return np.int64(SHORT)
        before = np.int64(0)
        for i in range(count + 1):
            offset = load_number(data, offsets + i * width, width)
            if offset < before or names + offset > end:
                return np.int64(BAD)
            before = offset
        counts[row] = count
    return np.int64(0)


@kernel("int64(uint8[::1], int64[:, ::1], uint8[::1], out int64[::1])")
def find_names(data: Any, dictionaries: Any, name: Any, found: Any) -> Any:
    """The id of a name in every checked dictionary, `MISSING` where it is not.

    Args:
        data: The dictionaries.
        dictionaries: int64[2, m], where each begins, and the number of its names.
        name: The name.
        found: int64[m], gets the ids.
    """
    for row in range(dictionaries.shape[1]):
        found[row] = MISSING
        for number in range(dictionaries[1, row]):
            span = name_span(data, dictionaries[0, row], number)
            if span[1] - span[0] == len(name) and compare(data, span[0], span[1], name, 0, len(name)) == 0:
                found[row] = number
                break
    return np.int64(0)


@kernel
def field_name(data: Any, layout: Any, i: int, metadata: Any, at: int, names: int) -> Any:
    """Where the name of a field of an object begins and ends; a begin below 0 is an error."""
    number = load_number(data, layout[1] + i * layout[2], layout[2])
    if number >= names:
        return np.int64(BAD_NAME), np.int64(BAD_NAME)
    return name_span(metadata, at, number)


@kernel
def find_field(data: Any, layout: Any, metadata: Any, at: int, names: int, name: Any) -> Any:
    """The place of a field among those of an object, `MISSING` or an error."""
    low = np.int64(0)
    high = layout[0]
    while high - low > _LINEAR:
        middle = (low + high) // 2
        span = field_name(data, layout, middle, metadata, at, names)
        if span[0] < 0:
            return span[0]
        order = compare(metadata, span[0], span[1], name, 0, len(name))
        if order == 0:
            return middle
        if order < 0:
            low = middle + 1
        else:
            high = middle
    for i in range(low, high):
        span = field_name(data, layout, i, metadata, at, names)
        if span[0] < 0:
            return span[0]
        if span[1] - span[0] == len(name) and compare(metadata, span[0], span[1], name, 0, len(name)) == 0:
            return np.int64(i)
    return np.int64(MISSING)


@kernel("int64(uint8[::1], int64[:, ::1], uint8[::1], int64[:, ::1], int64[::1], uint8[::1], int64, out int64[:, ::1])")
def find_steps(
    data: Any, spans: Any, metadata: Any, dictionaries: Any, codes: Any, name: Any, index: int, found: Any
) -> Any:
    """Find what a step of a path leads to in every value.

    Args:
        data: The values.
        spans: int64[2, n], where each begins and ends, `MISSING` for none.
        metadata: The dictionaries.
        dictionaries: int64[2, m], where each begins, and the number of its names.
        codes: int64[n], the dictionary of each value.
        name: The name of a field.
        index: The place of an element; below 0 the field is searched.
        found: int64[2, n], gets where the found values begin and end, `MISSING` for none.

    Returns:
        0, or an error.
    """
    wanted = 2 if index < 0 else 3
    for row in range(spans.shape[1]):
        start = spans[0, row]
        found[0, row] = MISSING
        found[1, row] = MISSING
        if start < 0:
            continue
        if start >= spans[1, row]:
            return np.int64(SHORT)
        if data[start] & 3 != wanted:
            continue
        layout = container(data, start, spans[1, row])
        if layout[0] < 0:
            return layout[0]
        place = np.int64(index)
        if index < 0:
            code = codes[row]
            place = find_field(data, layout, metadata, dictionaries[0, code], dictionaries[1, code], name)
            if place < MISSING:
                return place
        if place < 0 or place >= layout[0]:
            continue
        at = layout[5] + load_number(data, layout[3] + place * layout[4], layout[4])
        end = value_end(data, at, layout[6])
        if end < 0:
            return end
        found[0, row] = at
        found[1, row] = end
    return np.int64(0)


@kernel("int64(uint8[::1], int64[:, ::1], out int64[::1], out int64[:, ::1])")
def take_elements(data: Any, spans: Any, lengths: Any, elements: Any) -> Any:
    """The elements of arrays, one array after the other.

    Args:
        data: The values.
        spans: int64[2, n], where each begins and ends, `MISSING` for none.
        lengths: int64[n], gets the number of elements, `MISSING` where the value is no array.
        elements: int64[2, m], gets where elements begin and end; if there is room for none, they are only counted.

    Returns:
        The number of elements, or an error.
    """
    total = np.int64(0)
    for row in range(spans.shape[1]):
        start = spans[0, row]
        lengths[row] = MISSING
        if start < 0:
            continue
        if start >= spans[1, row]:
            return np.int64(SHORT)
        if data[start] & 3 != 3:
            continue
        layout = container(data, start, spans[1, row])
        if layout[0] < 0:
            return layout[0]
        lengths[row] = layout[0]
        if elements.shape[1]:
            used = np.int64(0)
            for i in range(layout[0]):
                at = layout[5] + load_number(data, layout[3] + i * layout[4], layout[4])
                end = value_end(data, at, layout[6])
                if end < 0:
                    return end
                used += end - at
                elements[0, total + i] = at
                elements[1, total + i] = end
            if used > layout[6] - layout[5]:
                return np.int64(OVERLAP)
        total += layout[0]
    return total


@kernel("int64(uint8[::1], int64[:, ::1], int64[::1], int64[::1], out int64[:, ::1])")
def check_values(data: Any, spans: Any, counts: Any, codes: Any, stack: Any) -> Any:
    """Check values to their last byte, but for the UTF-8 of strings and the order of fields.

    Args:
        data: The values.
        spans: int64[2, n], where each begins and ends, `MISSING` for none.
        counts: int64[m], the number of names in each dictionary.
        codes: int64[n], the dictionary of each value.
        stack: int64[MAX_DEPTH, 5], for the open containers.

    Returns:
        0, or an error.
    """
    for row in range(spans.shape[1]):
        if spans[0, row] < 0:
            continue
        at = spans[0, row]
        limit = spans[1, row]
        left = limit - at
        depth = np.int64(0)
        while True:
            end = value_end(data, at, limit)
            if end < 0:
                return end
            left -= 1
            if left < 0:
                return np.int64(OVERLAP)
            if data[at] & 3 == 0 and 8 <= data[at] >> 2 <= 10 and data[at + 1] > 38:
                return np.int64(BAD)
            if data[at] & 3 >= 2:
                if depth == len(stack):
                    return np.int64(TOO_DEEP)
                layout = container(data, at, limit)
                if layout[2]:
                    for i in range(layout[0]):
                        if load_number(data, layout[1] + i * layout[2], layout[2]) >= counts[codes[row]]:
                            return np.int64(BAD_NAME)
                stack[depth, 0] = layout[0]
                stack[depth, 1] = layout[3]
                stack[depth, 2] = layout[4]
                stack[depth, 3] = layout[5]
                stack[depth, 4] = layout[6]
                depth += 1
            while depth > 0 and stack[depth - 1, 0] == 0:
                depth -= 1
            if depth == 0:
                break
            top = depth - 1
            at = stack[top, 3] + load_number(data, stack[top, 1], stack[top, 2])
            limit = stack[top, 4]
            stack[top, 0] -= 1
            stack[top, 1] += stack[top, 2]
    return np.int64(0)
