"""The keys of hash indexes: XXH3 of a leaf's path and a value's bytes.

Spec: docs/formats/amudai-indexes.md § 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.indexes.leaves import Leaf
from skerry.amudai.shard.schema import BasicType, DataType
from skerry.amudai.statistics.xxh3 import hash_values
from skerry.amudai.values.shredding import NodeColumn, shred_column
from skerry.amudai.values.types import schema_from_arrow

__all__ = ["ColumnKeys", "has_keys", "keys_of_column", "keys_of_leaf", "keys_of_values"]

_SEED: Final = 0
_BATCH_ROWS: Final = 1 << 18
"""Values whose bytes are put together at once."""


@dataclass(frozen=True, slots=True)
class ColumnKeys:
    """The keys of a column's values, and the rows that they are in.

    Args:
        keys: uint64[n].
        rows: int64[n].
    """

    keys: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]


def keys_of_column(name: str, values: pa.Array, first_row: int) -> ColumnKeys:
    """The keys of a top-level column without children.

    Args:
        name: Its name.
        values: Its values.
        first_row: The row of the first.
    """
    field = schema_from_arrow(pa.schema([pa.field(name, values.type)])).fields[0]
    (column,) = shred_column(field.data_type, values)
    rows = np.arange(first_row, first_row + len(values), dtype=np.int64)
    return ColumnKeys(keys_of_values(name, column), rows)


def has_keys(node: DataType) -> bool:
    """Whether values of a node can be keys: floats and decimals cannot."""
    basic = node.basic_type
    return not (basic.is_floating or basic.is_composite or node.is_decimal or basic is BasicType.UNIT)


def keys_of_leaf(leaf: Leaf) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The keys of a leaf's values, and the rows that they are in.

    Returns:
        uint64[n] keys and int64[n] rows; a null is a key unless what it is in is null.
    """
    keys, rows = keys_of_values(leaf.path, leaf.column), leaf.rows
    if leaf.present is not None and not leaf.present.all():
        keys, rows = keys[leaf.present], rows[leaf.present]
    return keys, rows


def keys_of_values(path: str, column: NodeColumn) -> npt.NDArray[np.uint64]:
    """The keys of values at a path, uint64[positions]; a null has that of an empty string.

    Args:
        path: The path of the leaf.
        column: Values of a node that `has_keys`.
    """
    prefix = f"{path}:".encode()
    keys = np.empty(column.positions, np.uint64)
    for start in range(0, column.positions, _BATCH_ROWS):
        stop = min(start + _BATCH_ROWS, column.positions)
        part = _prefixed(prefix, column, start, stop)
        data = part.buffers()[2]
        offsets = np.frombuffer(part.buffers()[1], np.int64, stop - start + 1)
        keys[start:stop] = hash_values(np.frombuffer(data, np.uint8), offsets, _SEED)
    return keys


def _prefixed(prefix: bytes, column: NodeColumn, start: int, stop: int) -> pa.LargeBinaryArray:
    """The path, ":" and the bytes of each value, from the start of their buffers on."""
    values = _bytes_of(column, start, stop)
    if column.valid is not None:
        values = pc.if_else(pa.array(column.valid[start:stop]), values, pa.scalar(b"", pa.large_binary()))
    return pc.binary_join_element_wise(pa.scalar(prefix, pa.large_binary()), values, pa.scalar(b"", pa.large_binary()))


def _bytes_of(column: NodeColumn, start: int, stop: int) -> pa.LargeBinaryArray:
    values = column.values[start:stop]
    if column.node.basic_type is BasicType.BOOLEAN:
        return pc.if_else(pa.array(values), *(pa.scalar(digit, pa.large_binary()) for digit in (b"1", b"0")))
    if isinstance(values, np.ndarray):
        width = values.dtype.itemsize
        offsets = np.arange(0, width * len(values) + 1, width)
        little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(little)]
        return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
    return values.cast(pa.large_binary())
