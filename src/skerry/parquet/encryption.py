"""Checks of a footer before PyArrow sees it: some column chunks make PyArrow abort the process.

These are encrypted ones, row groups with fewer chunks than columns, chunks of another type than their column, size
statistics with histograms of other lengths than there are levels, and minima and maxima shorter than a value. They are
found by a walk over the footer's Thrift bytes that decodes nothing else.

Spec: Thrift compact protocol; Parquet spec, parquet.thrift, `FileMetaData`, `RowGroup`, `ColumnChunk`,
`ColumnMetaData`, `Statistics`, `SizeStatistics`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.errors import FormatError
from skerry.kernels import kernel

__all__ = ["check_chunks", "is_encrypted"]

_MALFORMED, _FEW_CHUNKS, _OTHER_TYPE, _OTHER_LEVELS = -1, -2, -3, -4
_PROBLEMS = {
    _MALFORMED: "it is not a valid structure",
    _FEW_CHUNKS: "a row group has not one column chunk per column",
    _OTHER_TYPE: "a column chunk is of another type than its column",
    _OTHER_LEVELS: "the size statistics of a column chunk do not go with its column",
}
_MAX_DEPTH = 24
# what a structure or list is: others are skipped
_OTHER, _FILE, _ROW_GROUPS, _ROW_GROUP, _CHUNKS, _CHUNK, _META, _STATISTICS, _SIZES = range(9)
_STOP = -1
_LIST, _MAP, _STRUCT = 9, 11, 12
"""Thrift's types of containers: lists, sets, maps and structures are 9 to 12."""
_BYTE_ARRAY, _FIXED_LEN_BYTE_ARRAY = 6, 7
_VALUE_BYTES = np.array([1, 4, 8, 12, 4, 8, 0, 0])
"""Bytes of a value by physical type; those of fixed length say it in the schema."""


def is_encrypted(footer: bytes | memoryview) -> bool:
    """Whether a footer names an encryption algorithm, or a column chunk in it is encrypted.

    Args:
        footer: FileMetaData without its length and magic.

    Raises:
        FormatError: The bytes are no Thrift structure.
    """
    return _walked(footer, np.zeros((0, 4), np.int64), np.zeros((0, 0), np.uint8))


def check_chunks(footer: bytes | memoryview, columns: npt.NDArray[np.int64], row_groups: int) -> npt.NDArray[np.bool_]:
    """Refuse column chunks over which PyArrow would end the process.

    Args:
        footer: FileMetaData without its length and magic; not encrypted.
        columns: int64[columns, 4] Physical type, length of its values if that is fixed, greatest repetition level and
            greatest definition level of each column.
        row_groups: How many row groups there are.

    Returns:
        bool[row_groups, columns] Whether a chunk may be asked for its statistics.

    Raises:
        FormatError: There are fewer chunks than columns, or one does not go with its column.
    """
    sound = np.full((row_groups, len(columns)), 2, np.uint8)
    _walked(footer, columns, sound)
    if (sound == 2).any():  # not met, or without metadata
        raise FormatError(
            f"the Parquet footer cannot be read: {_PROBLEMS[_FEW_CHUNKS]}", rule="Parquet spec, parquet.thrift"
        )
    return sound.astype(np.bool_)


def _walked(footer: bytes | memoryview, columns: npt.NDArray[np.int64], sound: npt.NDArray[np.uint8]) -> bool:
    stack = np.zeros((_MAX_DEPTH, 4), np.int64)
    found = int(_walk(np.frombuffer(footer, np.uint8), stack, np.ascontiguousarray(columns), sound))
    if found < 0:
        raise FormatError(f"the Parquet footer cannot be read: {_PROBLEMS[found]}", rule="Parquet spec, parquet.thrift")
    return bool(found)


@kernel
def _read_varint(data: Any, place: int) -> Any:
    """Value and the position after it; -1 as the position if the bytes end within it, or it is too long."""
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


@kernel
def _zigzag(value: Any) -> Any:
    """The signed number that a varint means."""
    return np.int64(np.uint64(value) >> np.uint64(1)) ^ -(value & 1)


@kernel
def _is_short(kind: Any, length: Any, size: Any) -> Any:
    """Whether a value of a physical type cannot have this many bytes."""
    if kind == _BYTE_ARRAY:
        return False
    return size < (length if kind == _FIXED_LEN_BYTE_ARRAY else _VALUE_BYTES[kind])


@kernel
def _read_field(data: Any, place: Any, previous: Any) -> Any:
    """Type and number of the next field of a structure, and the position after them, -1 if they are malformed.

    At the end of the structure the type is `_STOP`.
    """
    if place >= len(data):
        return np.int64(_STOP), previous, np.int64(-1)
    head = np.int64(data[place])
    place += 1
    if head == 0:
        return np.int64(_STOP), previous, place
    if head >> 4:
        return head & 15, previous + (head >> 4), place
    value, place = _read_varint(data, place)
    return head & 15, _zigzag(value), place


@kernel
def _next_item(stack: Any, top: Any) -> Any:
    """Type of the next element of a list or map, which is counted off; `_STOP` after the last one."""
    if stack[top, 2] == 0:
        return np.int64(_STOP)
    stack[top, 2] -= 1
    kind = stack[top, 1]
    if stack[top, 3] != 0:  # keys and values of a map take turns
        stack[top, 1], stack[top, 3] = stack[top, 3], stack[top, 1]
    return kind


@kernel
def _role_of(parent: Any, in_list: Any, field: Any, kind: Any, checks: Any) -> Any:
    """What a value is, by what it is in and the number of its field; `_MALFORMED` if it should be a structure."""
    role = np.int64(_OTHER)
    if in_list and parent == _ROW_GROUPS:
        role = np.int64(_ROW_GROUP)
    elif in_list and parent == _CHUNKS:
        role = np.int64(_CHUNK)
    elif parent == _FILE and field == 4:
        role = np.int64(_ROW_GROUPS)
    elif parent == _ROW_GROUP and field == 1:
        role = np.int64(_CHUNKS)
    elif checks and parent == _CHUNK and field == 3:
        role = np.int64(_META)
    elif parent == _META and field == 12:
        role = np.int64(_STATISTICS)
    elif parent == _META and field == 16:
        role = np.int64(_SIZES)
    if kind != _STRUCT:
        if role == _ROW_GROUP:
            return np.int64(_MALFORMED)
        if role == _CHUNK:
            return np.int64(_MALFORMED)
        if role >= _META:
            return np.int64(_OTHER)
    return role


@kernel
def _skip_value(data: Any, place: Any, kind: Any, in_list: Any) -> Any:
    """Skip a value that is not a container: its varint or its length, and the position after it, -1 if malformed."""
    value = np.int64(0)
    if kind == 1 or kind == 2:
        place += 1 if in_list else 0
    elif kind == 3:
        place += 1
    elif kind >= 4 and kind <= 6:
        value, place = _read_varint(data, place)
    elif kind == 7:
        place += 8
    elif kind == 13:
        place += 16
    elif kind == 8:
        value, place = _read_varint(data, place)
        if place < 0 or value < 0 or value > len(data) - place:
            return value, np.int64(-1)
        place += value
    else:
        return value, np.int64(-1)
    return value, (place if place <= len(data) else np.int64(-1))


@kernel
def _read_items(data: Any, place: Any, kind: Any, stack: Any, depth: Any) -> Any:
    """Enter a list, set or map in the stack: the number of its elements, and where they begin, -1 if malformed."""
    size = np.int64(0)
    if place >= len(data):
        return size, np.int64(-1)
    if kind == _MAP:
        size, place = _read_varint(data, place)
        if place < 0 or size < 0 or place >= len(data):
            return size, np.int64(-1)
        if size > 0:
            types = np.int64(data[place])
            place += 1
            stack[depth, 1], stack[depth, 3] = types >> 4, types & 15
            if stack[depth, 1] == 0 or stack[depth, 3] == 0:
                return size, np.int64(-1)
            size *= 2
    else:
        head = np.int64(data[place])
        place += 1
        size = head >> 4
        if size == 15:
            size, place = _read_varint(data, place)
            if place < 0:
                return size, np.int64(-1)
        stack[depth, 1] = head & 15
        if stack[depth, 1] == 0 and size > 0:
            return size, np.int64(-1)
    if size < 0 or size > 2 * (len(data) - place):
        return size, np.int64(-1)
    stack[depth, 2] = size
    return size, place


@kernel
def _check_value(role: Any, field: Any, kind: Any, value: Any, column: Any) -> Any:
    """Hold a number or bytes in a chunk's metadata against the column: 0, 1 for a bound too short, or what is wrong."""
    if kind == 8:
        is_bound = role == _STATISTICS and (field == 1 or field == 2 or field == 5 or field == 6)
        return np.int64(is_bound and _is_short(column[0], column[1], value))
    if kind >= 4 and kind <= 6 and field == 1:
        if role == _META and _zigzag(value) != column[0]:
            return np.int64(_OTHER_TYPE)
        if role == _SIZES and column[0] != _BYTE_ARRAY:
            return np.int64(_OTHER_LEVELS)
    return np.int64(0)


@kernel("int64(uint8[::1], out int64[:, ::1], int64[:, ::1], out uint8[:, ::1])")
def _walk(data: Any, stack: Any, columns: Any, sound: Any) -> Any:  # noqa: C901  one loop that keeps position and stack
    """Walk over a FileMetaData; 1 if it is encrypted, 0 if not, less if something is wrong.

    Args:
        data: uint8[n]
        stack: int64[depth, 4] Per open structure or list: what it is; its elements' type, 0 for a structure; how many
            of them are left, or the structure's last field; the second type of a map's elements, or 0.
        columns: int64[k, 4] As for `check_chunks`; without columns chunks are not checked.
        sound: uint8[row_groups, k] Becomes 1 for chunks whose statistics may be asked for, 0 for others.
    """
    group, chunk = np.int64(-1), np.int64(-1)
    checks = len(columns) > 0
    place, depth = np.int64(0), np.int64(1)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = _FILE, 0, 0, 0
    while depth > 0:
        top = depth - 1
        role, in_list, field = stack[top, 0], stack[top, 1] != 0, np.int64(0)
        if in_list:
            kind = _next_item(stack, top)
        else:
            kind, field, place = _read_field(data, place, stack[top, 2])
            if place < 0:
                return _MALFORMED
            stack[top, 2] = field
        if kind == _STOP:
            depth -= 1
            continue
        if (role == _FILE and field == 8) or (role == _CHUNK and (field == 8 or field == 9)):
            return 1
        child = _role_of(role, in_list, field, kind, checks)
        if child == _MALFORMED:
            return _MALFORMED
        if checks and child == _ROW_GROUP:
            group, chunk = group + 1, np.int64(-1)
            if group >= len(sound):
                return _FEW_CHUNKS
        elif checks and child == _CHUNK:
            chunk += 1
            if group < 0 or chunk >= len(columns):
                return _FEW_CHUNKS
        if kind < _LIST or kind > _STRUCT:
            value, place = _skip_value(data, place, kind, in_list)
            if place < 0:
                return _MALFORMED
            if role >= _META:
                verdict = _check_value(role, field, kind, value, columns[chunk])
                if verdict < 0:
                    return verdict
                if verdict > 0:
                    sound[group, chunk] = 0
            continue
        if depth >= _MAX_DEPTH:
            return _MALFORMED
        stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = child, 0, 0, 0
        if kind == _STRUCT:
            depth += 1
            if child == _META:
                sound[group, chunk] = 1
            continue
        size, place = _read_items(data, place, kind, stack, depth)
        if place < 0:
            return _MALFORMED
        is_histogram = role == _SIZES and (field == 2 or field == 3)
        if is_histogram and size != 0 and size != columns[chunk, field] + 1:
            return _OTHER_LEVELS
        if size > 0:
            depth += 1
    return 0
