"""Collecting hashes from values: Arrow and NumPy arrays and the raw buffers of files, without an object per value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from skerry.errors import FormatError, SchemaError
from skerry.theta import updating
from skerry.theta.arrow import NO_BITMAP, Fixed, Numbered, Physical, Variable, as_chunks, native, physical_values
from skerry.theta.layout import EMPTY_SKETCH, MAX_THETA, CompactSketch
from skerry.theta.updating import Form
from skerry.theta.workspace import Rule, hashes_in, theta_of, work_space

__all__ = ["Collector"]


class Collector:
    """A set of hashes that grows with values.

    Args:
        k: Hashes to keep.
        rule: How the threshold is lowered when there are more.
        seed: Seed of the hash.
    """

    __slots__ = ("_dictionary", "_unused", "_used", "_work")

    def __init__(self, k: int, rule: Rule, seed: int) -> None:
        self._work = work_space(k, rule, seed)
        self._dictionary: pa.Array | None = None  # the last one, as the next chunk often has the same …
        self._used = np.empty(0, np.uint8)  # … and which of its values are taken in
        self._unused = 0

    def update(self, values: Any) -> None:
        """Take in a column: see `skerry.theta.arrow` for what is taken and how it is hashed.

        Raises:
            SchemaError: Values of a type that is not sketched.
        """
        for chunk in as_chunks(values):
            physical = physical_values(chunk)
            if physical is not None:
                _TAKE_IN[type(physical)](self, physical)

    def update_fixed(self, values: np.ndarray[Any, Any]) -> None:
        """Take in values as their bytes in memory: numbers of 4 or 8 bytes, or the rows of uint8[n, width].

        Raises:
            SchemaError: Numbers of another width.
        """
        values = np.ascontiguousarray(native(values))
        data, count = values.reshape(-1).view(np.uint8), len(values)
        if values.ndim == 2 and values.dtype == np.uint8:
            offsets = np.arange(count + 1, dtype=np.int64) * values.shape[1]
            self._take_in_variable(Variable(data, offsets.view(np.uint8), 8, count, NO_BITMAP, 0))
            return
        width = values.itemsize
        if values.ndim != 1 or values.dtype.kind not in "iuf" or width not in (4, 8):
            raise SchemaError(f"values of fixed width have 4 or 8 bytes, these are {values.dtype}[{values.ndim}d]")
        form = Form.FLOAT if values.dtype.kind == "f" else Form.WORD
        self._take_in_fixed(Fixed(data, width, count, NO_BITMAP, 0, form))

    def update_decimal(self, unscaled: np.ndarray[Any, Any]) -> None:
        """Take in unscaled values of decimals: int32[n], int64[n], or uint8[n, width ≤ 16] big-endian.

        Raises:
            SchemaError: Another shape or type.
        """
        if unscaled.ndim == 1 and unscaled.dtype.kind == "i" and unscaled.itemsize in (4, 8):
            words = np.ascontiguousarray(unscaled, np.int64)
            self._take_in_fixed(Fixed(words.view(np.uint8), 8, len(words), NO_BITMAP, 0, Form.DECIMAL))
        elif unscaled.ndim == 2 and unscaled.dtype == np.uint8 and 1 <= unscaled.shape[1] <= 16:
            count, width = unscaled.shape
            if width <= 8:
                shifted = np.zeros((count, 8), np.uint8)
                shifted[:, :width] = unscaled
                words = shifted.reshape(-1).view(">i8").astype(np.int64) >> (8 * (8 - width))  # which keeps the sign
                self._take_in_fixed(Fixed(words.view(np.uint8), 8, count, NO_BITMAP, 0, Form.DECIMAL))
                return
            extended = np.empty((count, 16), np.uint8)
            extended[:, :width] = unscaled[:, ::-1]
            extended[:, width:] = np.where(unscaled[:, :1] & 0x80, 0xFF, 0)
            self._take_in_fixed(Fixed(extended.reshape(-1), 16, count, NO_BITMAP, 0, Form.DECIMAL))
        else:
            found = f"{unscaled.dtype}[{unscaled.ndim}d]"
            raise SchemaError(f"unscaled decimals are int32, int64 or up to 16 big-endian bytes, not {found}")

    def update_binary(
        self, data: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]
    ) -> None:
        """Take in values at any positions of a buffer.

        Args:
            data: uint8[m].
            starts: int64[n].
            lengths: int32[n].

        Raises:
            FormatError: A value is outside of the buffer.
        """
        if len(starts) != len(lengths):
            raise FormatError(f"there are {len(starts)} starts of values, but {len(lengths)} lengths")
        _check_inside(updating.update_spans(data, starts, lengths, self._work))

    def compact(self) -> CompactSketch:
        """What was collected so far."""
        theta, hashes = theta_of(self._work), hashes_in(self._work)
        return CompactSketch(theta, hashes, False) if len(hashes) or theta < MAX_THETA else EMPTY_SKETCH

    def _take_in_fixed(self, values: Fixed) -> None:
        updating.update_fixed(
            values.data, values.width, values.count, values.validity, values.bit, values.form, self._work
        )

    def _take_in_variable(self, values: Variable) -> None:
        _check_inside(
            updating.update_offsets(
                values.data, values.offsets, values.width, values.count, values.validity, values.bit, self._work
            )
        )

    def _take_in_numbered(self, values: Numbered) -> None:
        size = len(values.dictionary)
        if self._dictionary is None or not _is_same(self._dictionary, values.dictionary):
            self._dictionary, self._used, self._unused = values.dictionary, np.zeros(size, np.uint8), size
        if self._unused == 0:
            return
        order = np.empty(self._unused, np.int64)
        count = updating.mark_used(
            values.indices,
            values.width,
            values.count,
            values.validity,
            values.bit,
            self._used,
            order,
            self._unused,
            self._work,
        )
        if count < 0:
            self._dictionary = None
            raise FormatError(f"an index is outside of the dictionary of {size} values")
        self._unused -= count
        if count:
            self.update(values.dictionary.take(order[:count]))


_TAKE_IN: dict[type[Physical], Callable[[Collector, Any], None]] = {
    Fixed: Collector._take_in_fixed,  # noqa: SLF001  its own table
    Variable: Collector._take_in_variable,  # noqa: SLF001  its own table
    Numbered: Collector._take_in_numbered,  # noqa: SLF001  its own table
}


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays are in the same memory."""
    addresses = ([buffer and buffer.address for buffer in array.buffers()] for array in (one, other))
    return (one.type, len(one), one.offset, next(addresses)) == (other.type, len(other), other.offset, next(addresses))


def _check_inside(outside: int) -> None:
    if outside >= 0:
        raise FormatError(f"the value number {outside} is outside of its buffer")
