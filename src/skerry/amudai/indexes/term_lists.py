"""The terms of an index with the rows that they are in, while the index is built.

Terms are numbered in the order in which they are met, by a hash table over their folded or plain bytes. Each field of
each stripe is a *part*: its rows are kept per term number, and all parts are put into the order of terms at the end.

Spec: docs/formats/amudai-indexes.md § 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.indexes.character_tables import upper_case
from skerry.amudai.indexes.collations import FOLDED_BYTES, Collation, fold, fold_span
from skerry.amudai.indexes.position_lists import encode_positions
from skerry.amudai.indexes.tokenizers import Tokenizer, find_terms
from skerry.errors import UnsupportedError
from skerry.kernels import kernel

__all__ = ["SortedTerms", "TermLists"]

_Places = npt.NDArray[np.int64]
_MAX_POSITION: Final = (1 << 32) - 1
_BATCH_BYTES: Final = 4 << 20
_BATCH_VALUES: Final = 1 << 16
_LOAD: Final = 2
"""Slots of the hash table per term, at least."""
FNV_OFFSET, FNV_PRIME, MIX = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
HIGH_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True)
class SortedTerms:
    """What the two shards of a text index hold, in the order of terms.

    Args:
        terms: large_binary[n], the terms.
        entry_terms: int64[m], the ordinal of the term of each entry, ascending.
        entry_parts: int64[m], the ordinal of the part of each, ascending among entries of a term.
        representations: uint8[m], what the slice of each entry is.
        ends: int64[m], where the slice of each ends; it begins where the one before ends.
        positions: uint64[k], the slices.
    """

    terms: pa.LargeBinaryArray
    entry_terms: _Places
    entry_parts: _Places
    representations: npt.NDArray[np.uint8]
    ends: _Places
    positions: npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of a part: those of term i are `rows[starts[i] : starts[i + 1]]`."""

    starts: _Places
    rows: npt.NDArray[np.uint32]


class TermLists:
    """Collects the terms of an index.

    Args:
        collation: Which terms are equal, and their order.
    """

    def __init__(self, collation: Collation) -> None:
        self._collation = collation
        self._folds = np.uint8(collation is Collation.CASE_INSENSITIVE)
        self._slots = np.zeros(1 << 12, np.int64)
        self._hashes = np.zeros(1 << 11, np.uint64)
        self._last_rows = np.zeros(1 << 11, np.int64)
        self._offsets = np.zeros((1 << 11) + 1, np.int64)
        self._data = np.zeros(1 << 15, np.uint8)
        self._plain_offsets = np.zeros((1 << 11) + 1, np.int64)
        self._plain = np.zeros(1 << 15, np.uint8)
        self._count = 0
        self._parts: list[_Part] = []
        self._numbers: list[npt.NDArray[np.uint32]] = []
        self._rows: list[npt.NDArray[np.uint32]] = []

    def add(self, values: pa.LargeBinaryArray, rows: _Places, tokenizer: Tokenizer) -> None:
        """Add values to the current part.

        Args:
            values: UTF-8 of n values; nulls have no terms.
            rows: int64[n], the row of each, ascending, and not less than any of the part so far.
            tokenizer: What a term is.

        Raises:
            UnsupportedError: A row is 2^32 or more.
        """
        if len(rows) and int(rows[-1]) > _MAX_POSITION:
            raise UnsupportedError(
                f"a text index holds rows up to {_MAX_POSITION}, found {int(rows[-1])}: write fewer rows into a shard"
            )
        if values.null_count:
            values, rows = values.drop_null(), rows[values.is_valid().to_numpy(zero_copy_only=False)]
        start = 0
        while start < len(values):
            stop = min(start + _BATCH_VALUES, len(values))
            offsets = np.frombuffer(values.buffers()[1], np.int64, stop - start + 1, 8 * (values.offset + start))
            fitting = int(np.searchsorted(offsets, offsets[0] + _BATCH_BYTES, "right")) - 1
            stop = start + min(max(fitting, 1), stop - start)
            self._add_batch(values.buffers()[2], offsets[: stop - start + 1], rows[start:stop], tokenizer)
            start = stop

    def _add_batch(self, data: pa.Buffer | None, offsets: _Places, rows: _Places, tokenizer: Tokenizer) -> None:
        if data is None or offsets[-1] == offsets[0]:
            return
        view = np.frombuffer(data, np.uint8)
        spans = find_terms(view, offsets, tokenizer)
        self._grow(len(spans.starts), int(spans.lengths.sum()))
        numbers, places = np.empty(len(spans.starts), np.uint32), np.empty(len(spans.starts), np.uint32)
        counts = np.array([self._count, 0], np.int64)
        number_terms(
            view,
            spans.starts,
            spans.lengths,
            rows[spans.values],
            self._folds,
            upper_case(),
            np.empty(FOLDED_BYTES, np.uint8),
            self._slots,
            self._hashes,
            self._offsets,
            self._data,
            self._plain_offsets,
            self._plain,
            self._last_rows,
            counts,
            numbers,
            places,
        )
        self._count = int(counts[0])
        self._numbers.append(numbers[: counts[1]])
        self._rows.append(places[: counts[1]])

    def _grow(self, terms: int, size: int) -> None:
        """Make room for new terms."""
        needed = self._count + terms
        if needed > len(self._hashes):
            room = 2 * needed
            self._hashes, self._last_rows = _longer(self._hashes, room), _longer(self._last_rows, room)
            self._offsets, self._plain_offsets = (
                _longer(self._offsets, room + 1),
                _longer(self._plain_offsets, room + 1),
            )
        if int(self._offsets[self._count]) + 2 * size > len(self._data):
            self._data = _longer(self._data, 2 * (len(self._data) + 2 * size))
        if int(self._plain_offsets[self._count]) + size > len(self._plain):
            self._plain = _longer(self._plain, 2 * (len(self._plain) + size))
        if _LOAD * needed > len(self._slots):
            self._slots = np.zeros(1 << (_LOAD * needed).bit_length(), np.int64)
            fill_slots(self._hashes, self._count, self._slots)

    def end_part(self) -> None:
        """End the current part: the values of a field in a stripe."""
        numbers = np.concatenate([np.empty(0, np.uint32), *self._numbers])
        rows = np.concatenate([np.empty(0, np.uint32), *self._rows])
        self._numbers, self._rows = [], []
        starts, sorted_rows = np.zeros(self._count + 1, np.int64), np.empty(len(rows), np.uint32)
        group_rows(numbers, rows, np.zeros(self._count, np.int64), starts, sorted_rows)
        self._parts.append(_Part(starts, sorted_rows))
        self._last_rows[:] = 0

    def finish(self) -> SortedTerms:
        """Put the terms in order, and encode their rows."""
        terms = _binaries(self._plain, self._plain_offsets[: self._count + 1])
        folded = terms if not self._count else _binaries(*fold(self._plain, self._plain_offsets[: self._count + 1]))
        table = pa.table({"folded": folded, "term": terms})
        order = pc.sort_indices(table, sort_keys=[("folded", "ascending"), ("term", "ascending")]).to_numpy()
        starts = np.zeros((self._count, len(self._parts)), np.int64)
        stops = np.zeros_like(starts)
        base = 0
        for ordinal, part in enumerate(self._parts):
            known = len(part.starts) - 1
            starts[:known, ordinal] = base + part.starts[:-1]
            stops[:known, ordinal] = base + part.starts[1:]
            base += len(part.rows)
        starts, stops = starts[order], stops[order]
        entry_terms, entry_parts = (np.ascontiguousarray(places) for places in np.nonzero(stops > starts))
        rows = np.concatenate([np.empty(0, np.uint32), *(part.rows for part in self._parts)])
        chosen = entry_terms, entry_parts
        positions, representations, ends = encode_positions(rows, starts[chosen], stops[chosen])
        return SortedTerms(terms.take(pa.array(order)), entry_terms, entry_parts, representations, ends, positions)


def _longer(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


def _binaries(data: npt.NDArray[np.uint8], offsets: _Places) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


@kernel("int64(uint64[::1], int64, out int64[::1])")
def fill_slots(hashes: Any, count: int, slots: Any) -> int:
    """Enter terms by their hashes; a slot has the number of its term, and one."""
    mask = np.uint64(len(slots) - 1)
    for term in range(count):
        slot = hashes[term] & mask
        while slots[np.int64(slot)] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[np.int64(slot)] = term + 1
    return 0


@kernel
def hash_term(data: Any, start: int, length: int) -> Any:
    """A hash of a few bytes; it is never stored."""
    found = FNV_OFFSET
    for i in range(start, start + length):
        found = (found ^ np.uint64(data[i])) * FNV_PRIME
    found = (found ^ (found >> HIGH_BITS)) * MIX
    return found ^ (found >> HIGH_BITS)


@kernel
def find_slot(term: Any, length: int, hashed: Any, slots: Any, hashes: Any, key_offsets: Any, keys: Any) -> Any:
    """The slot of a term, or the free one where it belongs."""
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    while True:
        held = slots[np.int64(slot)] - 1
        if held < 0:
            return np.int64(slot)
        first = key_offsets[held]
        if hashes[held] == hashed and key_offsets[held + 1] - first == length:
            same = True
            for j in range(length):
                if keys[first + j] != term[j]:
                    same = False
                    break
            if same:
                return np.int64(slot)
        slot = (slot + np.uint64(1)) & mask


@kernel
def copy_bytes(source: Any, start: int, length: int, target: Any, place: int) -> Any:
    """Copy some bytes; gives the place after them."""
    for j in range(length):
        target[place + j] = source[start + j]
    return place + length


@kernel(
    "int64(uint8[::1], int64[::1], int64[::1], int64[::1], uint8, int32[::1], out uint8[::1], out int64[::1], "
    "out uint64[::1], out int64[::1], out uint8[::1], out int64[::1], out uint8[::1], out int64[::1], "
    "out int64[::1], out uint32[::1], out uint32[::1])"
)
def number_terms(  # noqa: PLR0913
    data: Any,
    starts: Any,
    lengths: Any,
    rows: Any,
    folds: Any,
    upper: Any,
    scratch: Any,
    slots: Any,
    hashes: Any,
    key_offsets: Any,
    keys: Any,
    plain_offsets: Any,
    plain: Any,
    last_rows: Any,
    counts: Any,
    numbers: Any,
    places: Any,
) -> int:
    """Number the terms of some spans, and note which is in which row, once each.

    Args:
        data, starts, lengths: The spans.
        rows: The row of each, ascending.
        folds: Whether terms are equal if their folded forms are.
        upper: The upper case of code points.
        scratch: Room for a folded term.
        slots: The hash table, with free slots.
        hashes, key_offsets, keys: What is compared of each term, with room for one more per span.
        plain_offsets, plain: Each term as it was first met.
        last_rows: The last row of each term, and one; 0 if it has none.
        counts: How many terms there are; then how many pairs of term and row were noted here.
        numbers, places: The pairs.
    """
    count = counts[0]
    noted: Any = np.int64(0)
    for i in range(len(starts)):
        start, length = starts[i], lengths[i]
        if folds != 0:
            length = fold_span(data, start, length, upper, scratch, np.int64(0))
        else:
            for j in range(length):
                scratch[j] = data[start + j]
        hashed = hash_term(scratch, 0, length)
        slot = find_slot(scratch, length, hashed, slots, hashes, key_offsets, keys)
        term = slots[slot] - 1
        if term < 0:
            term = count
            count += 1
            slots[slot] = count
            hashes[term] = hashed
            key_offsets[count] = copy_bytes(scratch, 0, length, keys, key_offsets[term])
            plain_offsets[count] = copy_bytes(data, start, lengths[i], plain, plain_offsets[term])
        if last_rows[term] != rows[i] + 1:
            last_rows[term] = rows[i] + 1
            numbers[noted] = term
            places[noted] = rows[i]
            noted += 1
    counts[0] = count
    counts[1] = noted
    return noted


@kernel("int64(uint32[::1], uint32[::1], out int64[::1], out int64[::1], out uint32[::1])")
def group_rows(numbers: Any, rows: Any, places: Any, starts: Any, grouped: Any) -> int:
    """Put rows in the order of their terms; those of a term stay in theirs."""
    for i in range(len(numbers)):
        starts[np.int64(numbers[i]) + 1] += 1
    for term in range(len(places)):
        starts[term + 1] += starts[term]
        places[term] = starts[term]
    for i in range(len(numbers)):
        number = np.int64(numbers[i])
        grouped[places[number]] = rows[i]
        places[number] += 1
    return 0
