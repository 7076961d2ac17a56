"""Collecting hashes from values: Arrow and NumPy arrays and the raw buffers of files, without an object per value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skerry.errors import FormatError, SchemaError
from skerry.theta import updating
from skerry.theta.arrow import Decimals, Dictionary, Offsets, Physical, Words, as_chunks, physical_values
from skerry.theta.layout import EMPTY_SKETCH, MAX_THETA, CompactSketch
from skerry.theta.updating import Form, Rule

__all__ = ["Collector"]

_NO_BITMAP = np.empty(0, np.uint8)


class Collector:
    """A set of hashes that grows with values.

    Args:
        k: Hashes to keep.
        rule: How the threshold is lowered when there are more.
        seed: Seed of the hash.
    """

    __slots__ = ("_work",)

    def __init__(self, k: int, rule: Rule, seed: int) -> None:
        self._work = updating.work_space(k, rule, seed)

    def update(self, values: Any) -> None:
        """Take in a column: see `skerry.theta.arrow` for what is taken and how it is hashed.

        Raises:
            SchemaError: Values of a type that is not sketched.
        """
        for chunk in as_chunks(values):
            for physical in physical_values(chunk):
                _TAKE_IN[type(physical)](self, physical)

    def update_fixed(self, values: np.ndarray[Any, Any]) -> None:
        """Take in values as they lie in memory: numbers of 4 or 8 bytes, or the rows of uint8[n, width].

        Raises:
            SchemaError: Numbers of another width.
        """
        if values.ndim == 2 and values.dtype == np.uint8:
            count, width = values.shape
            offsets = np.arange(count + 1, dtype=np.int64) * width
            self._take_in_offsets(Offsets(np.ascontiguousarray(values).reshape(-1), offsets, _NO_BITMAP, 0))
            return
        form = _FORMS.get((values.dtype.kind == "f", values.dtype.itemsize))
        if form is None or values.ndim != 1:
            raise SchemaError(f"values of fixed width have 4 or 8 bytes, these are {values.dtype}[{values.ndim}d]")
        words = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
        self._take_in_words(Words(words, _NO_BITMAP, 0, form))

    def update_decimal(self, unscaled: np.ndarray[Any, Any]) -> None:
        """Take in unscaled values of decimals: int32[n], int64[n], or uint8[n, width ≤ 16] big-endian.

        Raises:
            SchemaError: Another shape or type.
        """
        if unscaled.ndim == 1 and unscaled.dtype in (np.int32, np.int64):
            self._take_in_words(Words(unscaled.astype(np.int64).view(np.uint64), _NO_BITMAP, 0, Form.DECIMAL))
        elif unscaled.ndim == 2 and unscaled.dtype == np.uint8 and 1 <= unscaled.shape[1] <= 16:
            halves = np.empty((len(unscaled), 16), np.uint8)
            width = unscaled.shape[1]
            halves[:, :width] = unscaled[:, ::-1]
            halves[:, width:] = np.where(unscaled[:, :1] & 0x80, 0xFF, 0)
            self._take_in_decimals(Decimals(halves.view(np.uint64), _NO_BITMAP, 0))
        else:
            raise SchemaError(
                f"unscaled decimals are int32, int64 or big-endian bytes, not {unscaled.dtype}[{unscaled.ndim}d]"
            )

    def update_binary(
        self, data: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]
    ) -> None:
        """Take in values that lie anywhere in a buffer.

        Args:
            data: uint8[m].
            starts: int64[n].
            lengths: int32[n].

        Raises:
            FormatError: A value lies outside the buffer.
        """
        _check_inside(updating.update_spans(data, starts, lengths, self._work))

    def compact(self) -> CompactSketch:
        """What was collected so far."""
        theta = updating.theta_of(self._work)
        table = updating.table_of(self._work)
        hashes = table[(table != 0) & (table < np.uint64(theta))]
        if len(hashes) == 0 and theta == MAX_THETA:
            return EMPTY_SKETCH
        hashes.sort()
        return CompactSketch(theta, hashes, False)

    def _take_in_words(self, words: Words) -> None:
        update = updating.update_words_4 if words.values.itemsize == 4 else updating.update_words_8
        update(words.values, words.validity, words.bit, int(words.form), self._work)

    def _take_in_decimals(self, decimals: Decimals) -> None:
        updating.update_decimals(decimals.values, decimals.validity, decimals.bit, self._work)

    def _take_in_offsets(self, values: Offsets) -> None:
        update = updating.update_offsets_4 if values.offsets.itemsize == 4 else updating.update_offsets_8
        _check_inside(update(values.data, values.offsets, values.validity, values.bit, self._work))

    def _take_in_dictionary(self, values: Dictionary) -> None:
        size = len(values.dictionary)
        used, order = np.zeros(size, np.uint8), np.empty(size, np.int64)
        mark_used = _MARK_USED[values.indices.itemsize]
        count = mark_used(values.indices, values.validity, values.bit, used, order)
        if count < 0:
            raise FormatError(f"an index lies outside the dictionary of {size} values")
        self.update(values.dictionary.take(order[:count]))


_FORMS = {(False, 4): Form.WORD_4, (False, 8): Form.WORD_8, (True, 4): Form.FLOAT_4, (True, 8): Form.FLOAT_8}
_MARK_USED = {
    1: updating.mark_used_1,
    2: updating.mark_used_2,
    4: updating.mark_used_4,
    8: updating.mark_used_8,
}
_TAKE_IN: dict[type[Physical], Callable[[Collector, Any], None]] = {
    Words: Collector._take_in_words,
    Decimals: Collector._take_in_decimals,
    Offsets: Collector._take_in_offsets,
    Dictionary: Collector._take_in_dictionary,
}


def _check_inside(status: int) -> None:
    if status:
        raise FormatError(f"among the values from number {status - 1} on, one lies outside its buffer")
