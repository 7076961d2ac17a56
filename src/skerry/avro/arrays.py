"""The memory that columns are decoded into, and Arrow arrays over it without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.avro import machine
from skerry.avro.columns import Column, Slot
from skerry.avro.schema import Array, Enumeration, Fixed, Map, Record
from skerry.errors import FormatError, UnsupportedError

__all__ = ["Arena"]

_ALIGNMENT: Final = 64
_MAX_COUNT: Final = (1 << 31) - 1  # Arrow's lists, strings and bytes have offsets of 32 bits


@dataclass(frozen=True, slots=True)
class Arena:
    """One zeroed block of memory with a place for every slot.

    Args:
        memory: uint8[bytes]; its length is a multiple of 64.
        bases: int64[slots] Where each slot begins.
        sizes: int64[slots] Bytes of each slot.
        counts: int64[counters] What the counting run has found.
    """

    memory: np.ndarray[Any, np.dtype[np.uint8]]
    bases: np.ndarray[Any, np.dtype[np.int64]]
    sizes: np.ndarray[Any, np.dtype[np.int64]]
    counts: np.ndarray[Any, np.dtype[np.int64]]

    @staticmethod
    def measure(slots: tuple[Slot, ...], counts: np.ndarray[Any, np.dtype[np.int64]]) -> int:
        """Bytes that columns take, but for what aligns them."""
        return sum(_slot_sizes(slots, counts))

    @classmethod
    def allocate(cls, slots: tuple[Slot, ...], counts: np.ndarray[Any, np.dtype[np.int64]], max_bytes: int) -> Arena:
        """Lay out the slots and allocate memory for them.

        Args:
            slots: The slots.
            counts: int64[counters] How many values there are.
            max_bytes: The most to allocate.

        Raises:
            UnsupportedError: More bytes are needed, or more than 2^31 - 1 items, or bytes of one column.
        """
        used = [int(counts[slot.counter]) for slot in slots]
        sizes = _slot_sizes(slots, counts)
        rounded = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]
        total = sum(rounded)
        if total > max_bytes:
            raise UnsupportedError(f"Avro columns would take {total} bytes, more than the bound of {max_bytes}")
        if max(used, default=0) > _MAX_COUNT:
            raise UnsupportedError(f"Avro column with {max(used)} items or bytes, more than {_MAX_COUNT}")
        bases = np.zeros(len(slots), dtype=np.int64)
        np.cumsum(rounded[:-1], out=bases[1:])
        return cls(np.zeros(total, dtype=np.uint8), bases, np.array(sizes, dtype=np.int64), counts)

    def arrays(self, columns: tuple[Column, ...]) -> list[pa.Array]:
        """The Arrow arrays of columns, over this memory.

        Raises:
            FormatError: A decimal has more digits than its type.
        """
        builder = _Builder(pa.py_buffer(self.memory), self.bases.tolist(), self.sizes.tolist(), self.counts.tolist())
        return [builder.array(column) for column in columns]


@dataclass(frozen=True, slots=True)
class _Builder:
    memory: pa.Buffer
    bases: list[int]
    sizes: list[int]
    counts: list[int]

    def array(self, column: Column) -> pa.Array:
        arrow_type = column.field.type
        length = self.counts[column.domain]
        if pa.types.is_null(arrow_type):
            return pa.nulls(length)
        validity = None if column.validity == machine.NO_SLOT else self.buffer(column.validity)
        buffers = [validity, *(self.buffer(slot) for slot in column.slots)]
        source = column.source
        if isinstance(source, Enumeration):
            indices = pa.Array.from_buffers(pa.int32(), length, buffers)
            return pa.DictionaryArray.from_arrays(indices, pa.array(source.symbols, pa.string()), safe=False)
        if isinstance(source, Record | Array | Map):
            children = [self.array(child) for child in column.children]
            if pa.types.is_map(arrow_type):
                entries = pa.struct([child.field for child in column.children])
                count = self.counts[column.counter]
                children = [pa.Array.from_buffers(entries, count, [None], children=children)]
            return pa.Array.from_buffers(arrow_type, length, buffers, children=children)
        if isinstance(source, Fixed) and isinstance(arrow_type, pa.UuidType):
            storage = pa.Array.from_buffers(arrow_type.storage_type, length, buffers)
            return pa.ExtensionArray.from_storage(arrow_type, storage)
        array = pa.Array.from_buffers(arrow_type, length, buffers)
        if pa.types.is_decimal(arrow_type):
            _check_digits(array, column)
        return array

    def buffer(self, slot: int) -> pa.Buffer:
        return self.memory.slice(self.bases[slot], self.sizes[slot])


def _slot_sizes(slots: tuple[Slot, ...], counts: np.ndarray[Any, np.dtype[np.int64]]) -> list[int]:
    return [((int(counts[slot.counter]) + slot.extra) * slot.bits + 7) // 8 for slot in slots]


def _check_digits(array: pa.Array, column: Column) -> None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise FormatError(
            f"Avro field {column.field.name!r}: {error}", rule="Avro spec, Logical Types, Decimal"
        ) from error
