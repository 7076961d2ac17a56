"""Order keys: rows of columns encoded as comparable bytes, so that merging and sorting do not depend on types.

A key is the concatenation of the values of some columns, each encoded so that the order of the bytes is that of the
values. Its first eight bytes are kept as a number, which decides nearly every comparison; keys of up to eight bytes
have nothing else.

Numbers are big-endian with their sign bit flipped; strings and bytes end with two zeros, and a zero within them is
followed by 255, unless they are the last column; nullable columns have a leading byte, 0 for null. Timestamps, dates
and times are encoded as numbers, decimals as their unscaled ones. 0.0 and -0.0 are one value and NaN is the greatest,
unless floats are to be in the order of Java's `Double.compare`.

Spec: docs/formats/paimon.md § 8.6, § 10.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.kernels import kernel

__all__ = ["OrderKeys", "compare_keys", "encode_order_keys"]

Words: TypeAlias = npt.NDArray[np.uint64]
_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Offsets: TypeAlias = npt.NDArray[np.int64]

_WORD_BYTES: Final = 8
_NO_BYTES: Final = np.zeros(0, np.uint8)
_NO_OFFSETS: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class OrderKeys:
    """Keys of n rows.

    Args:
        words: uint64[n] The first eight bytes of each, big-endian; missing ones are 0.
        data: uint8[m] All bytes of all keys; empty if no key has more than eight, and all have the same number.
        offsets: int64[n + 1] Where each key begins in `data`; empty if `data` is.
    """

    words: Words
    data: _Bytes
    offsets: _Offsets

    def __len__(self) -> int:
        return len(self.words)

    @property
    def is_exact(self) -> bool:
        """Whether the words alone distinguish keys."""
        return not len(self.offsets)

    def slice(self, start: int, stop: int) -> OrderKeys:
        """The keys of consecutive rows; a view."""
        offsets = self.offsets if self.is_exact else self.offsets[start : stop + 1]
        return OrderKeys(self.words[start:stop], self.data, offsets)

    def take(self, rows: npt.NDArray[np.int64]) -> OrderKeys:
        """The keys of some rows."""
        if self.is_exact:
            return OrderKeys(self.words[rows], self.data, self.offsets)
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        taken = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers).take(pa.array(rows))
        _, offsets, data = taken.buffers()
        content = _NO_BYTES if data is None else np.frombuffer(data, np.uint8)
        return OrderKeys(self.words[rows], content, np.frombuffer(offsets, np.int64)[: len(rows) + 1])

    def compact(self) -> OrderKeys:
        """The same keys without what else is in the memory that they share."""
        if self.is_exact:
            return OrderKeys(self.words.copy(), _NO_BYTES, _NO_OFFSETS)
        data = self.data[self.offsets[0] : self.offsets[-1]].copy()
        return OrderKeys(self.words.copy(), data, self.offsets - self.offsets[0])

    @property
    def size_bytes(self) -> int:
        """Memory that they take."""
        return self.words.nbytes + self.data.nbytes + self.offsets.nbytes

    def key(self, row: int) -> bytes:
        """One key; keys of the same columns compare as bytes."""
        if self.is_exact:
            return int(self.words[row]).to_bytes(_WORD_BYTES, "big")
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    @classmethod
    def concat(cls, parts: Sequence[OrderKeys]) -> OrderKeys:
        """Concatenate keys of the same columns."""
        if len(parts) == 1:
            return parts[0]
        words = np.concatenate([part.words for part in parts])
        if all(part.is_exact for part in parts):
            return cls(words, _NO_BYTES, _NO_OFFSETS)
        data = [part.data[part.offsets[0] : part.offsets[-1]] for part in parts]
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(words, np.concatenate(data), _offsets(lengths))

    def order(self) -> npt.NDArray[np.int64]:
        """int64[n] The rows in the order of their keys; those of equal keys stay in their order."""
        if self.is_exact:
            return np.argsort(self.words, kind="stable")
        order = np.empty(len(self), np.int64)
        sort_rows(self.words, self.data, self.offsets, order, np.empty(len(self), np.int64))
        return order

    def ranks(self) -> Words:
        """Ranks that compare as the keys do: equal for equal keys.

        Returns:
            uint64[n].
        """
        if self.is_exact:
            return self.words
        ranks = np.empty(len(self), np.uint64)
        _rank(self.words, self.data, self.offsets, self.order(), ranks)
        return ranks


def encode_order_keys(
    columns: Sequence[pa.Array],
    nullable: Sequence[bool],
    *,
    descending: bool = False,
    java_floats: bool = False,
) -> OrderKeys:
    """Encode rows of columns.

    Args:
        columns: At least one, of primitive types, all of the same length.
        nullable: For each whether there may be nulls; keys that are to be compared with each other must be encoded with
            the same setting.
        descending: Whether greater values come first; nulls are first in any case.
        java_floats: Whether -0.0 is less than 0.0.

    Returns:
        The keys; for a single column of strings a view of its bytes.

    Raises:
        UnsupportedError: A column's type has no order.
    """
    pieces: list[_Piece] = []
    for column, may_be_null in zip(columns, nullable, strict=True):
        validity = None
        if may_be_null:
            validity = np.asarray(column.is_valid())
            pieces.append(_Fixed(validity.astype(np.uint64), 1))
        pieces.append(_piece(column, validity, java_floats=java_floats).turned(descending))
    if all(isinstance(piece, _Fixed) for piece in pieces):
        fixed = [piece for piece in pieces if isinstance(piece, _Fixed)]
        if sum(piece.width for piece in fixed) <= _WORD_BYTES:
            return OrderKeys(_joined(fixed), _NO_BYTES, _NO_OFFSETS)
    return _laid_out(pieces)


# One column ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Values of one width as numbers in the same order: uint64[n], of which the low `width` bytes are used."""

    values: Words
    width: int

    def turned(self, descending: bool) -> _Fixed:
        if not descending:
            return self
        mask = np.uint64((1 << 8 * self.width) - 1)
        return _Fixed(self.values ^ mask, self.width)


@dataclass(frozen=True, slots=True)
class _Wide:
    """Values of sixteen bytes: two numbers each."""

    high: Words
    low: Words

    def turned(self, descending: bool) -> _Wide:
        return _Wide(~self.high, ~self.low) if descending else self


@dataclass(frozen=True, slots=True)
class _Text:
    """Strings or bytes: where each begins and ends; `is_turned` for descending order."""

    data: _Bytes
    offsets: _Offsets
    is_turned: bool = False

    def turned(self, descending: bool) -> _Text:
        return _Text(self.data, self.offsets, descending)


_Piece: TypeAlias = _Fixed | _Wide | _Text


def _piece(column: pa.Array, validity: npt.NDArray[np.bool_] | None, *, java_floats: bool) -> _Piece:
    type_ = column.type
    if pa.types.is_boolean(type_):
        return _Fixed(np.asarray(column.fill_null(False)).astype(np.uint64), 1)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _text(column.fill_null("" if pa.types.is_string(type_) else b"") if column.null_count else column)
    if pa.types.is_decimal128(type_):
        return _decimal(column, validity)
    if pa.types.is_floating(type_):
        values = _values(column, np.dtype(f"f{type_.bit_width // 8}"))
        return _Fixed(_masked(_float_order(values, java_floats=java_floats), validity), values.itemsize)
    if pa.types.is_integer(type_) or pa.types.is_temporal(type_):
        width = type_.bit_width // 8
        values = _values(column, np.dtype(f"i{width}"))
        return _Fixed(_masked(_signed_order(values), validity), width)
    raise UnsupportedError(f"values of type {type_} have no order in Paimon")


def _values(column: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The column's values in place, arbitrary under nulls."""
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(buffer, dtype)[column.offset : column.offset + len(column)]


def _masked(words: Words, validity: npt.NDArray[np.bool_] | None) -> Words:
    """Zero the nulls, so that all are equal."""
    return words if validity is None else np.where(validity, words, np.uint64(0))


def _signed_order(values: npt.NDArray[Any]) -> Words:
    width = values.itemsize
    unsigned = values.view(np.dtype(f"u{width}")).astype(np.uint64)
    return unsigned ^ np.uint64(1 << (8 * width - 1))


def _float_order(values: npt.NDArray[Any], *, java_floats: bool) -> Words:
    """Bits that compare as the numbers do: negative ones flipped, NaN canonical and the greatest."""
    width = values.itemsize
    values = values.copy()
    values[np.isnan(values)] = np.nan
    if not java_floats:
        values += 0.0  # -0.0 becomes 0.0
    bits = values.view(np.dtype(f"u{width}")).astype(np.uint64)
    sign = np.uint64(1 << (8 * width - 1))
    everything = np.uint64((1 << 8 * width) - 1)
    return np.where(bits & sign, bits ^ everything, bits | sign)


def _decimal(column: pa.Array, validity: npt.NDArray[np.bool_] | None) -> _Fixed | _Wide:
    buffer = column.buffers()[1]
    if buffer is None:
        words = np.zeros((len(column), 2), np.uint64)
    else:
        words = np.frombuffer(buffer, "<u8").reshape(-1, 2)[column.offset : column.offset + len(column)]
    sign = np.uint64(1 << 63)
    low, high = _masked(words[:, 0], validity), _masked(words[:, 1] ^ sign, validity)
    if column.type.precision <= 18:
        return _Fixed(_masked(low ^ sign, validity), _WORD_BYTES)
    return _Wide(high, low)


def _text(column: pa.Array) -> _Text:
    _, offsets, data = column.buffers()
    content = np.frombuffer(data, np.uint8) if data is not None else _NO_BYTES
    if offsets is None or not len(column):
        return _Text(content, np.zeros(len(column) + 1, np.int64))
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return _Text(content, places.astype(np.int64))


# All columns --------------------------------------------------------------------------------------------------------


def _joined(pieces: list[_Fixed]) -> Words:
    """Numbers of at most eight bytes in total, left-aligned."""
    words = pieces[0].values
    for piece in pieces[1:]:
        words = words << np.uint64(8 * piece.width) | piece.values
    missing = _WORD_BYTES - sum(piece.width for piece in pieces)
    return words << np.uint64(8 * missing) if missing else np.ascontiguousarray(words)


def _laid_out(pieces: list[_Piece]) -> OrderKeys:
    """Encode keys of any length."""
    last = pieces[-1]
    if len(pieces) == 1 and isinstance(last, _Text) and not last.is_turned:
        data, offsets = last.data, last.offsets
    else:
        data, offsets = _write(pieces)
    words = np.empty(len(offsets) - 1, np.uint64)
    _first_words(data, offsets, words)
    return OrderKeys(words, data, offsets)


def _write(pieces: list[_Piece]) -> tuple[_Bytes, _Offsets]:
    """Write the pieces of every key in sequence."""
    count = _count(pieces[0])
    lengths = np.zeros(count, np.int64)
    for piece in pieces:
        match piece:
            case _Fixed(_, width):
                lengths += width
            case _Wide():
                lengths += 2 * _WORD_BYTES
            case _Text(data, offsets, _):
                _add_text_lengths(data, offsets, lengths)
    places = _offsets(lengths)
    keys = np.empty(int(places[-1]), np.uint8)
    cursors = places[:-1].copy()
    for piece in pieces:
        match piece:
            case _Fixed(values, width):
                _write_numbers(np.ascontiguousarray(values), width, cursors, keys)
            case _Wide(high, low):
                _write_numbers(np.ascontiguousarray(high), _WORD_BYTES, cursors, keys)
                _write_numbers(np.ascontiguousarray(low), _WORD_BYTES, cursors, keys)
            case _Text(data, offsets, is_turned):
                _write_texts(data, offsets, 255 if is_turned else 0, cursors, keys)
    return keys, places


def _count(piece: _Piece) -> int:
    match piece:
        case _Fixed(values, _):
            return len(values)
        case _Wide(high, _):
            return len(high)
        case _Text(_, offsets, _):
            return len(offsets) - 1


def _offsets(lengths: _Offsets) -> _Offsets:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


@kernel("void(uint8[::1], int64[::1], out int64[::1])")
def _add_text_lengths(data: Any, offsets: Any, lengths: Any) -> None:
    """Number of bytes, plus one for each zero among them, plus two trailing zeros."""
    for i in range(len(lengths)):
        length = offsets[i + 1] - offsets[i] + 2
        for position in range(offsets[i], offsets[i + 1]):
            if data[position] == 0:
                length += 1
        lengths[i] += length


@kernel("void(uint64[::1], int64, out int64[::1], out uint8[::1])")
def _write_numbers(values: Any, width: int, cursors: Any, keys: Any) -> None:
    for i in range(len(values)):
        position = cursors[i]
        for j in range(width):
            keys[position + j] = np.uint8((values[i] >> np.uint64(8 * (width - 1 - j))) & np.uint64(0xFF))
        cursors[i] = position + width


@kernel("void(uint8[::1], int64[::1], uint8, out int64[::1], out uint8[::1])")
def _write_texts(data: Any, offsets: Any, turn: int, cursors: Any, keys: Any) -> None:
    for i in range(len(cursors)):
        position = cursors[i]
        for j in range(offsets[i], offsets[i + 1]):
            keys[position] = data[j] ^ turn
            position += 1
            if data[j] == 0:
                keys[position] = np.uint8(0xFF) ^ turn
                position += 1
        keys[position] = turn
        keys[position + 1] = turn
        cursors[i] = position + 2


@kernel("void(uint8[::1], int64[::1], out uint64[::1])")
def _first_words(data: Any, offsets: Any, words: Any) -> None:
    for i in range(len(words)):
        word = np.uint64(0)
        length = offsets[i + 1] - offsets[i]
        for j in range(8):
            byte = np.uint64(data[offsets[i] + j]) if j < length else np.uint64(0)
            word = word << np.uint64(8) | byte
        words[i] = word


# Comparing and sorting ----------------------------------------------------------------------------------------------


@kernel
def compare_keys(
    words: Any, data: Any, offsets: Any, row: Any, other_words: Any, other_data: Any, other_offsets: Any, other: Any
) -> Any:
    """Compare a key with one of another set: below 0, 0, or above 0."""
    if words[row] != other_words[other]:
        return -1 if words[row] < other_words[other] else 1
    if len(offsets) == 0:
        return 0
    length = offsets[row + 1] - offsets[row]
    other_length = other_offsets[other + 1] - other_offsets[other]
    for j in range(8, min(length, other_length)):
        difference = np.int64(data[offsets[row] + j]) - np.int64(other_data[other_offsets[other] + j])
        if difference != 0:
            return difference
    return length - other_length


@kernel
def compare_rows(words: Any, data: Any, offsets: Any, left: Any, right: Any) -> Any:
    """Compare the keys of two rows: below 0, 0, or above 0."""
    return compare_keys(words, data, offsets, left, words, data, offsets, right)


@kernel("void(uint64[::1], uint8[::1], int64[::1], out int64[::1], out int64[::1])")
def sort_rows(words: Any, data: Any, offsets: Any, order: Any, spare: Any) -> None:
    """Sort rows by their keys, keeping equal ones in order: a bottom-up merge sort."""
    count = len(order)
    for i in range(count):
        order[i] = i
    width = 1
    while width < count:
        for start in range(0, count, 2 * width):
            middle, end = min(start + width, count), min(start + 2 * width, count)
            left, right = start, middle
            for target in range(start, end):
                takes_left = left < middle
                if takes_left and right < end:
                    takes_left = compare_rows(words, data, offsets, order[left], order[right]) <= 0
                if takes_left:
                    spare[target] = order[left]
                    left += 1
                else:
                    spare[target] = order[right]
                    right += 1
        for i in range(count):
            order[i] = spare[i]
        width *= 2


@kernel("void(uint64[::1], uint8[::1], int64[::1], int64[::1], out uint64[::1])")
def _rank(words: Any, data: Any, offsets: Any, order: Any, ranks: Any) -> None:
    rank = np.uint64(0)
    for i in range(len(order)):
        if i > 0 and compare_rows(words, data, offsets, order[i - 1], order[i]) != 0:
            rank += np.uint64(1)
        ranks[order[i]] = rank
