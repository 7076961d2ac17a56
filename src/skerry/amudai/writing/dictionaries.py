"""Value dictionaries for a writer: whether one pays, and the dictionary with the ids of all values.

Ids follow the order of the values' bytes, and null is the last: equal runs stay runs, and a range of values is a range
of ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.fields.value_dictionary import ValueDictionary
from skerry.amudai.shard.schema import DataType
from skerry.amudai.writing.descriptions import spans_of

__all__ = ["BuiltDictionary", "build_dictionary"]

_TRIAL: Final = 16_384
"""Values that decide whether all are looked at."""
_TEXT_RATIO: Final = 3
_FIXED_RATIO: Final = 2
_DECIMAL_RATIO: Final = 4
"""Times that values are thought to shrink when they are encoded one by one."""


@dataclass(frozen=True, slots=True)
class BuiltDictionary:
    """A field as a dictionary.

    Args:
        dictionary: Its distinct values.
        ids: uint32[n], one per value.
        entries: large_binary, the distinct values but null, by id.
        counts: int64[entries], how often each occurs.
    """

    dictionary: ValueDictionary
    ids: npt.NDArray[np.uint32]
    entries: pa.Array
    counts: npt.NDArray[np.int64]


def build_dictionary(
    node: DataType, values: pa.Array, *, keys: pa.Array | None = None, is_forced: bool = False
) -> BuiltDictionary | None:
    """Make a dictionary, if it makes the field smaller.

    Args:
        node: Type of the values.
        values: Strings, binaries or fixed_size_binary, not all of them null.
        keys: Values that are equal where these are, and null where these are; they may be faster to compare.
        is_forced: Whether it is made in any case.

    Returns:
        The dictionary; None if values are better stored one by one.
    """
    keys = values if keys is None else keys
    if not is_forced and len(values) > 2 * _TRIAL:
        first = keys.slice(0, _TRIAL).dictionary_encode()
        if 2 * len(first.dictionary) > len(first) - first.null_count:  # hardly any value occurs again
            return None
    encoded = keys.dictionary_encode()
    if not is_forced and not _pays(node, encoded):
        return None
    entries = encoded.dictionary if keys is values else values.take(_first_places(encoded))
    entries = entries.cast(pa.large_binary())
    order = pc.sort_indices(entries).to_numpy()
    entries = entries.take(pa.array(order))
    ranks = np.empty(len(order) + 1, np.uint32)
    ranks[order] = np.arange(len(order), dtype=np.uint32)
    ranks[-1] = len(order)  # null
    indices = encoded.indices.fill_null(len(order)) if encoded.null_count else encoded.indices
    ids = ranks[indices.to_numpy()]
    counts = np.bincount(ids, minlength=len(order))[: len(order)]
    offsets, data = spans_of(entries)
    offsets = offsets - offsets[0]
    null_id = len(order) if encoded.null_count else None
    if null_id is not None:
        offsets = np.append(offsets, offsets[-1] + node.fixed_size)
        data = np.concatenate([data, np.zeros(node.fixed_size, np.uint8)])
    sorted_ids = np.arange(len(order), dtype=np.uint32)
    dictionary = ValueDictionary(node.basic_type, node.fixed_size, null_id, data, offsets, sorted_ids)
    return BuiltDictionary(dictionary, ids, entries, counts)


def _first_places(encoded: pa.DictionaryArray) -> pa.Array:
    """Where each entry of a dictionary occurs first."""
    places = np.empty(len(encoded.dictionary), np.int64)
    indices = encoded.indices.fill_null(-1).to_numpy()[::-1]
    kept = indices >= 0
    places[indices[kept]] = np.arange(len(indices))[::-1][kept]
    return pa.array(places)


def _pays(node: DataType, encoded: pa.DictionaryArray) -> bool:
    """Whether entries and ids are thought to be smaller than the values one by one."""
    count, positions = len(encoded.dictionary), len(encoded)
    if node.fixed_size:
        ratio = _DECIMAL_RATIO if node.is_decimal else _FIXED_RATIO
        expected = (positions - encoded.null_count) * node.fixed_size // ratio
        size = count * (node.fixed_size + 4)
    else:
        offsets, _ = spans_of(encoded.dictionary.cast(pa.large_binary()))
        lengths = np.diff(offsets)
        indices = encoded.indices.drop_null() if encoded.null_count else encoded.indices
        value_bytes = int((np.bincount(indices.to_numpy(), minlength=count) * lengths).sum())
        expected = value_bytes // _TEXT_RATIO + positions
        size = int(lengths.sum()) + 12 * count
    return size + count.bit_length() * positions // 8 < expected
