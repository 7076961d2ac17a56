"""Whether a footer speaks of encryption.

PyArrow ends the process when it is asked for a column chunk whose metadata is encrypted, so this is found out before:
by a walk over the footer's Thrift bytes that decodes nothing.

Spec: Apache Thrift, "Thrift compact protocol encoding"; parquet.thrift, FileMetaData, RowGroup, ColumnChunk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skerry.errors import FormatError
from skerry.kernels import kernel

__all__ = ["is_encrypted"]

_MALFORMED = -1
_MAX_DEPTH = 24
# what a structure or list is: others are passed over
_OTHER, _FILE, _ROW_GROUPS, _ROW_GROUP, _CHUNKS, _CHUNK = range(6)


def is_encrypted(footer: bytes | memoryview) -> bool:
    """Whether a footer names an encryption algorithm, or a column chunk in it is encrypted.

    Args:
        footer: FileMetaData without its length and magic.

    Raises:
        FormatError: The bytes are no Thrift structure.
    """
    found = int(_find_encryption(np.frombuffer(footer, np.uint8), np.zeros((_MAX_DEPTH, 4), np.int64)))
    if found == _MALFORMED:
        raise FormatError("the Parquet footer is no sound structure", rule="Thrift compact protocol")
    return bool(found)


@kernel
def _read_varint(data, place):  # type: ignore[no-untyped-def]
    """Value and the place behind it; -1 as the place if the bytes end within it, or it is too long."""
    value = np.uint64(0)
    for index in range(10):
        if place >= len(data):
            return np.int64(0), np.int64(-1)
        byte = data[place]
        place += 1
        value |= np.uint64(byte & 0x7F) << np.uint64(7 * index)
        if byte < 0x80:
            return np.int64(value), place
    return np.int64(0), np.int64(-1)


@kernel("int64(uint8[::1], out int64[:, ::1])")
def _find_encryption(data: Any, stack: Any) -> Any:
    """Walk over a FileMetaData; 1 if it is encrypted, 0 if not, -1 if it is malformed.

    Args:
        data: uint8[n]
        stack: int64[depth, 4] Per open structure or list: what it is; its elements' type, 0 for a structure; how many
            of them are left, or the structure's last field; the second type of a map's elements, or 0.
    """
    place = np.int64(0)
    depth = 1
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = _FILE, 0, 0, 0
    while depth > 0:
        top = depth - 1
        role, in_list = stack[top, 0], stack[top, 1] != 0
        child = np.int64(_OTHER)
        if in_list:
            if stack[top, 2] == 0:
                depth -= 1
                continue
            stack[top, 2] -= 1
            kind = stack[top, 1]
            if stack[top, 3] != 0:  # keys and values of a map take turns
                stack[top, 1], stack[top, 3] = stack[top, 3], stack[top, 1]
            if role == _ROW_GROUPS:
                child = np.int64(_ROW_GROUP)
            elif role == _CHUNKS:
                child = np.int64(_CHUNK)
        else:
            if place >= len(data):
                return _MALFORMED
            head = np.int64(data[place])
            place += 1
            if head == 0:
                depth -= 1
                continue
            kind = head & 15
            if head >> 4:
                stack[top, 2] += head >> 4
            else:
                value, place = _read_varint(data, place)
                if place < 0:
                    return _MALFORMED
                stack[top, 2] = np.int64(np.uint64(value) >> np.uint64(1)) ^ -(value & 1)
            field = stack[top, 2]
            if (role == _FILE and field == 8) or (role == _CHUNK and (field == 8 or field == 9)):
                return 1
            if role == _FILE and field == 4:
                child = np.int64(_ROW_GROUPS)
            elif role == _ROW_GROUP and field == 1:
                child = np.int64(_CHUNKS)
        # pass over the value, or open it
        if kind == 1 or kind == 2:
            place += 1 if in_list else 0
        elif kind == 3:
            place += 1
        elif kind >= 4 and kind <= 6:
            value, place = _read_varint(data, place)
            if place < 0:
                return _MALFORMED
        elif kind == 7:
            place += 8
        elif kind == 13:
            place += 16
        elif kind == 8:
            size, place = _read_varint(data, place)
            if place < 0 or size < 0 or size > len(data) - place:
                return _MALFORMED
            place += size
        elif kind >= 9 and kind <= 12:
            if depth >= _MAX_DEPTH:
                return _MALFORMED
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = child, 0, 0, 0
            if kind != 12:
                if place >= len(data):
                    return _MALFORMED
                if kind == 11:
                    size, place = _read_varint(data, place)
                    if place < 0 or size < 0 or place >= len(data):
                        return _MALFORMED
                    if size > 0:
                        types = np.int64(data[place])
                        place += 1
                        stack[depth, 1], stack[depth, 3] = types >> 4, types & 15
                        if stack[depth, 1] == 0 or stack[depth, 3] == 0:
                            return _MALFORMED
                        size *= 2
                else:
                    head = np.int64(data[place])
                    place += 1
                    size = head >> 4
                    if size == 15:
                        size, place = _read_varint(data, place)
                        if place < 0:
                            return _MALFORMED
                    stack[depth, 1] = head & 15
                    if stack[depth, 1] == 0 and size > 0:
                        return _MALFORMED
                if size < 0 or size > 2 * (len(data) - place):
                    return _MALFORMED
                stack[depth, 2] = size
            if kind == 12 or size > 0:
                depth += 1
        else:
            return _MALFORMED
        if place > len(data):
            return _MALFORMED
    return 0
