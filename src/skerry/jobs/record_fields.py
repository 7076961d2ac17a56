"""Which fields the rows in change records have, found without reading their values.

A kernel walks over the JSON text of every record and hashes the names in the row after the change, so that rows with
the same fields in the same order have one number. Names are looked up once per number. The texts must be valid JSON;
for others the result is meaningless.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.kernels import kernel

__all__ = ["FieldNames"]

_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_QUOTE, _ESCAPE, _COLON = 0x22, 0x5C, 0x3A
_OPEN_OBJECT, _CLOSE_OBJECT = 0x7B, 0x7D
_SPACE = 0x20


class FieldNames:
    """The names of rows' fields, cached across batches."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[str, ...]] = {}

    def find(self, texts: pa.LargeStringArray) -> tuple[npt.NDArray[np.uint64], dict[int, tuple[str, ...]]]:
        """Find the fields of records' rows.

        Args:
            texts: Records as JSON.

        Returns:
            uint64[records], equal for rows with the same fields, 0 where there is no row after the change; and the
            names for each number.
        """
        _, offsets, data = texts.buffers()
        starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        found = np.zeros(len(texts), np.uint64)
        if data is not None:
            hash_fields(np.frombuffer(data, np.uint8), starts, _hash(b"payload"), _hash(b"after"), found)
        numbers, examples = np.unique(found, return_index=True)
        for number, example in zip(numbers.tolist(), examples.tolist(), strict=True):
            if number and number not in self._names:
                record = json.loads(texts[example].as_py())
                self._names[number] = tuple((record.get("payload") or record)["after"])
        return found, {number: self._names[number] for number in numbers.tolist() if number}


def _hash(name: bytes) -> np.uint64:
    state = int(_BASIS)
    for byte in name:
        state = ((state ^ byte) * int(_PRIME)) & 0xFFFFFFFFFFFFFFFF
    return np.uint64(state)


@kernel("void(uint8[::1], int64[::1], uint64, uint64, out uint64[::1])")
def hash_fields(data: Any, offsets: Any, payload: Any, after: Any, found: Any) -> None:  # noqa: C901  a kernel
    """Hash the names of the fields of the object `after`, or of the one in `payload`.

    Args:
        data: uint8[bytes], records one after the other.
        offsets: int64[records + 1], where each begins and the last ends.
        payload: The hash of that name.
        after: The hash of the name `after`.
        found: uint64[records], all 0 before.
    """
    for record in range(len(offsets) - 1):
        position, end = offsets[record], offsets[record + 1]
        depth = 0
        level = 1  # depth of the objects whose field `after` is searched
        inside = -1  # the depth of names that are hashed
        wanted = -1  # the depth of an object that would be the row
        total = _BASIS
        while position < end:
            byte = data[position]
            position += 1
            if byte == _QUOTE:
                state = _BASIS
                while position < end and data[position] != _QUOTE:
                    if data[position] == _ESCAPE:
                        position += 1
                    if position < end:
                        state = (state ^ np.uint64(data[position])) * _PRIME
                    position += 1
                position += 1
                while position < end and data[position] <= _SPACE:
                    position += 1
                if position < end and data[position] == _COLON:
                    position += 1
                    while position < end and data[position] <= _SPACE:
                        position += 1
                    is_object = position < end and data[position] == _OPEN_OBJECT
                    if depth == inside:
                        total = (total ^ state) * _PRIME
                        total ^= total >> np.uint64(29)
                    elif depth == 1 and state == payload and is_object:
                        level = 2
                    elif depth == level and state == after and is_object and inside < 0:
                        wanted = depth + 1
            elif byte | _SPACE == _OPEN_OBJECT:  # or a list, whose bracket is the same but for this bit
                depth += 1
                if depth == wanted:
                    inside = depth
                    wanted = -1
            elif byte | _SPACE == _CLOSE_OBJECT:
                if depth == inside:
                    found[record] = total
                    inside = -2
                depth -= 1
