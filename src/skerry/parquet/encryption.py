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
def _read_varint(data, place):  # type: ignore[no-untyped-def]
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
def _is_short(kind, length, size):  # type: ignore[no-untyped-def]
    """Whether a value of a physical type cannot have this many bytes."""
    if kind == _BYTE_ARRAY:
        return False
    return size < (length if kind == _FIXED_LEN_BYTE_ARRAY else _VALUE_BYTES[kind])


@kernel("int64(uint8[::1], out int64[:, ::1], int64[:, ::1], out uint8[:, ::1])")
def _walk(data: Any, stack: Any, columns: Any, sound: Any) -> Any:  # noqa: C901  a kernel
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
    place = np.int64(0)
    depth, field = 1, np.int64(0)
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
            elif checks and role == _CHUNK and field == 3:
                child = np.int64(_META)
            elif role == _META and field == 12:
                child = np.int64(_STATISTICS)
            elif role == _META and field == 16:
                child = np.int64(_SIZES)
        if kind != 12:
            if child == _ROW_GROUP:
                return _MALFORMED
            if child == _CHUNK:
                return _MALFORMED
            if child >= _META:
                child = np.int64(_OTHER)
        if checks and child == _ROW_GROUP:
            group += 1
            chunk = np.int64(-1)
            if group >= len(sound):
                return _FEW_CHUNKS
        elif checks and child == _CHUNK:
            chunk += 1
            if group < 0 or chunk >= len(columns):
                return _FEW_CHUNKS
        # pass over the value, or open it
        if kind == 1 or kind == 2:
            place += 1 if in_list else 0
        elif kind == 3:
            place += 1
        elif kind >= 4 and kind <= 6:
            value, place = _read_varint(data, place)
            if place < 0:
                return _MALFORMED
            if role == _META and field == 1:
                if (np.int64(np.uint64(value) >> np.uint64(1)) ^ -(value & 1)) != columns[chunk, 0]:
                    return _OTHER_TYPE
            elif role == _SIZES and field == 1 and columns[chunk, 0] != _BYTE_ARRAY:
                return _OTHER_LEVELS
        elif kind == 7:
            place += 8
        elif kind == 13:
            place += 16
        elif kind == 8:
            size, place = _read_varint(data, place)
            if place < 0 or size < 0 or size > len(data) - place:
                return _MALFORMED
            place += size
            is_bound = role == _STATISTICS and (field == 1 or field == 2 or field == 5 or field == 6)
            if is_bound and _is_short(columns[chunk, 0], columns[chunk, 1], size):
                sound[group, chunk] = 0
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
                is_histogram = role == _SIZES and (field == 2 or field == 3)
                if is_histogram and size != 0 and size != columns[chunk, field] + 1:
                    return _OTHER_LEVELS
                stack[depth, 2] = size
            elif child == _META:
                sound[group, chunk] = 1
            if kind == 12 or size > 0:
                depth += 1
        else:
            return _MALFORMED
        if place > len(data):
            return _MALFORMED
    return 0
