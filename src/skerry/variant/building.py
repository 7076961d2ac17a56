"""Kernels that write values: text, arrays, and objects from their fields.

What they write has as few bytes as the format allows. They are called twice: for the sizes, which become offsets, and
for the bytes.

Spec: Parquet spec, VariantEncoding.md, Value encoding.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from skerry.kernels import kernel
from skerry.variant.layout import (
    BAD_NAME,
    OVERLAP,
    compare,
    container,
    field_name,
    load_number,
    name_span,
    value_end,
)

__all__ = ["EMPTY_OBJECT_BYTES", "build_arrays", "build_objects", "copy_spans", "write_strings"]

EMPTY_OBJECT_BYTES: Final = 3
_SHORT_BYTES = 63
_SMALL_COUNT = 255
_ARRAY, _OBJECT = 3, 2


@kernel
def copy(data: Any, start: int, end: int, out: Any, at: int) -> Any:
    """Copy bytes, and give the position after them."""
    for i in range(end - start):
        out[at + i] = data[start + i]
    return at + end - start


@kernel
def put_number(out: Any, at: int, number: int, width: int) -> Any:
    """Write an unsigned number of one to four bytes, and give the position after it."""
    for i in range(width):
        out[at + i] = np.uint8(number >> (8 * i) & 255)
    return at + width


@kernel
def width_of(number: int) -> Any:
    """The bytes that hold a number: 1 to 4."""
    width = np.int64(1)
    while number >> (8 * width) and width < 4:
        width += 1
    return width


@kernel("int64(uint8[::1], int64[:, ::1], out uint8[::1])")
def copy_spans(data: Any, spans: Any, out: Any) -> Any:
    """Copy values one after the other; returns the bytes written."""
    at = np.int64(0)
    for row in range(spans.shape[1]):
        if spans[0, row] >= 0:
            at = copy(data, spans[0, row], spans[1, row], out, at)
    return at


@kernel("int64(uint8[::1], int64[:, ::1], int64, out int64[::1], out uint8[::1])")
def write_strings(data: Any, spans: Any, type_: int, offsets: Any, out: Any) -> Any:
    """Write text or bytes as values.

    Args:
        data: The text.
        spans: int64[2, n], where each begins and ends, `MISSING` for none.
        type_: The primitive type; text of up to 63 bytes becomes a short string.
        offsets: int64[n + 1], gets sizes from the second on if there is no room, else says where values go.
        out: Gets the values.
    """
    for row in range(spans.shape[1]):
        size = spans[1, row] - spans[0, row]
        is_short = type_ == 16 and size <= _SHORT_BYTES
        if len(out) == 0:
            offsets[row + 1] = 0 if spans[0, row] < 0 else size + (1 if is_short else 5)
        elif spans[0, row] >= 0:
            at = offsets[row]
            if is_short:
                out[at] = np.uint8(size << 2 | 1)
                at += 1
            else:
                out[at] = np.uint8(type_ << 2)
                at = put_number(out, at + 1, size, 4)
            copy(data, spans[0, row], spans[1, row], out, at)
    return np.int64(0)


@kernel("int64(uint8[::1], int64[:, ::1], int64[::1], out int64[::1], out uint8[::1])")
def build_arrays(data: Any, elements: Any, lengths: Any, offsets: Any, out: Any) -> Any:
    """Write arrays.

    Args:
        data: The elements.
        elements: int64[2, m], where each begins and ends; those of an array follow those of the one before it.
        lengths: int64[n], the number of elements of each array, `MISSING` for no array.
        offsets: int64[n + 1], gets sizes from the second on if there is no room, else says where arrays go.
        out: Gets the arrays.
    """
    first = np.int64(0)
    for row in range(len(lengths)):
        count = lengths[row]
        if count < 0:
            if len(out) == 0:
                offsets[row + 1] = 0
            continue
        total = np.int64(0)
        for i in range(first, first + count):
            total += elements[1, i] - elements[0, i]
        width = width_of(total)
        is_large = count > _SMALL_COUNT
        if len(out) == 0:
            offsets[row + 1] = (5 if is_large else 2) + (count + 1) * width + total
        else:
            at = offsets[row]
            out[at] = np.uint8((np.int64(is_large) << 2 | width - 1) << 2 | _ARRAY)
            at = put_number(out, at + 1, count, 4 if is_large else 1)
            offset = np.int64(0)
            at = put_number(out, at, offset, width)
            for i in range(first, first + count):
                offset += elements[1, i] - elements[0, i]
                at = put_number(out, at, offset, width)
            for i in range(first, first + count):
                at = copy(data, elements[0, i], elements[1, i], out, at)
        first += count
    return np.int64(0)


@kernel
def take_rest(rest_data: Any, layout: Any, i: int, metadata: Any, at: int, names: int, entries: Any, count: int) -> Any:
    """Add a field of an object to the entries; its size, or an error."""
    number = load_number(rest_data, layout[1] + i * layout[2], layout[2])
    if number >= names:
        return np.int64(BAD_NAME)
    start = layout[5] + load_number(rest_data, layout[3] + i * layout[4], layout[4])
    end = value_end(rest_data, start, layout[6])
    if end < 0:
        return end
    entries[count, 0] = number
    entries[count, 1] = start
    entries[count, 2] = end
    entries[count, 3] = 1
    return end - start


@kernel
def merge_fields(
    fields: Any, dictionaries: Any, code: int, row: int, rest_data: Any, rest: Any, metadata: Any, entries: Any
) -> Any:
    """The fields of an object in the order of their names: shredded ones, and the rest without these names.

    Returns:
        Their number, or an error. Entries are: id, begin, end, whether it is one of the rest.
    """
    at = dictionaries[0, code]
    names = dictionaries[1, code]
    layout = (np.int64(0), at, at, at, at, at, at)
    if rest[0, row] >= 0:
        layout = container(rest_data, rest[0, row], rest[1, row])
        if layout[0] < 0:
            return layout[0]
    count = np.int64(0)
    used = np.int64(0)
    i = np.int64(0)
    for j in range(fields.shape[1]):
        number = dictionaries[2 + j, code]
        is_present = fields[0, j, row] >= 0
        if number < 0:
            if is_present:
                return np.int64(BAD_NAME)
            continue
        wanted = name_span(metadata, at, number)
        while i < layout[0]:
            span = field_name(rest_data, layout, i, metadata, at, names)
            if span[0] < 0:
                return span[0]
            order = compare(metadata, span[0], span[1], metadata, wanted[0], wanted[1])
            if order > 0:
                break
            if order < 0:
                size = take_rest(rest_data, layout, i, metadata, at, names, entries, count)
                if size < 0:
                    return size
                used += size
                count += 1
            i += 1
        if is_present:
            entries[count, 0] = number
            entries[count, 1] = fields[0, j, row]
            entries[count, 2] = fields[1, j, row]
            entries[count, 3] = 0
            count += 1
    while i < layout[0]:
        size = take_rest(rest_data, layout, i, metadata, at, names, entries, count)
        if size < 0:
            return size
        used += size
        count += 1
        i += 1
    if used > layout[6] - layout[5]:
        return np.int64(OVERLAP)
    return count


@kernel(
    "int64(uint8[::1], int64[:, :, ::1], int64[:, ::1], int64[::1], uint8[::1], int64[:, ::1], uint8[::1],"
    " out int64[:, ::1], out int64[::1], out uint8[::1])"
)
def build_objects(
    data: Any,
    fields: Any,
    dictionaries: Any,
    codes: Any,
    rest_data: Any,
    rest: Any,
    metadata: Any,
    entries: Any,
    offsets: Any,
    out: Any,
) -> Any:
    """Write objects.

    Args:
        data: The values of shredded fields.
        fields: int64[2, k, n], where they begin and end, `MISSING` for none; in the order of their names.
        dictionaries: int64[2 + k, m], where each begins, the number of its names, and its ids of the k names.
        codes: int64[n], the dictionary of each object.
        rest_data: Objects with further fields.
        rest: int64[2, n], where these begin and end, `MISSING` for none.
        metadata: The dictionaries.
        entries: int64[f, 4], room for the fields of one object.
        offsets: int64[n + 1]. If there is no room, whether there is an object, 1 or 0, from the second on, which
            become sizes; else where objects go.
        out: Gets the objects.

    Returns:
        0, or an error.
    """
    for row in range(len(codes)):
        is_sizing = len(out) == 0
        if (is_sizing and offsets[row + 1] == 0) or (not is_sizing and offsets[row + 1] == offsets[row]):
            continue
        count = merge_fields(fields, dictionaries, codes[row], row, rest_data, rest, metadata, entries)
        if count < 0:
            return count
        total = np.int64(0)
        largest = np.int64(0)
        for i in range(count):
            total += entries[i, 2] - entries[i, 1]
            largest = max(largest, entries[i, 0])
        width = width_of(total)
        id_width = width_of(largest)
        is_large = count > _SMALL_COUNT
        if is_sizing:
            offsets[row + 1] = (5 if is_large else 2) + count * id_width + (count + 1) * width + total
            continue
        at = offsets[row]
        out[at] = np.uint8((np.int64(is_large) << 4 | id_width - 1 << 2 | width - 1) << 2 | _OBJECT)
        at = put_number(out, at + 1, count, 4 if is_large else 1)
        for i in range(count):
            at = put_number(out, at, entries[i, 0], id_width)
        offset = np.int64(0)
        at = put_number(out, at, offset, width)
        for i in range(count):
            offset += entries[i, 2] - entries[i, 1]
            at = put_number(out, at, offset, width)
        for i in range(count):
            if entries[i, 3]:
                at = copy(rest_data, entries[i, 1], entries[i, 2], out, at)
            else:
                at = copy(data, entries[i, 1], entries[i, 2], out, at)
    return np.int64(0)
