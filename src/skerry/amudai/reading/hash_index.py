"""Hash indexes: from values to the rows that may have them.

Spec: docs/formats/amudai-indexes.md § 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.fields.leaves import read_numbers, read_offsets
from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stored_field import StoredField
from skerry.amudai.fields.stripe_reader import StripeReader
from skerry.amudai.indexes.descriptors import HashDescription
from skerry.amudai.indexes.hash_buckets import (
    BUCKET_SCHEMA,
    bucket_of,
    find_in_buckets,
    keys_in_buckets,
    partition_of,
)
from skerry.amudai.messages import BufferKind
from skerry.amudai.reading.index_shard import IndexShard
from skerry.amudai.reading.resident_buckets import ResidentBuckets, reserve_memory
from skerry.errors import FormatError
from skerry.storage import Storage, is_local

__all__ = ["HashIndexReader"]

_OFTEN: Final = 8
"""A partition that was asked so often is kept decoded, if it is in the local file system."""
_RULE = "docs/formats/amudai-indexes.md § 3.3"


class HashIndexReader:
    """A hash index, open for reading. Partitions are opened when they are needed.

    Args:
        storage: Where to read from.
        description: What the descriptor says.
        row_count: Rows of what the index is of.
        allowed_locations: Folders into which absolute urls may lead.
    """

    def __init__(
        self, storage: Storage, description: HashDescription, row_count: int, allowed_locations: Iterable[str] = ()
    ) -> None:
        self._storage = storage
        self._description = description
        self._row_count = row_count
        self._allowed = tuple(allowed_locations)
        self._partitions: dict[int, IndexShard] = {}
        self._asked: Counter[int] = Counter()
        self._resident: dict[int, ResidentBuckets] = {}

    def find(self, keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows that may hold values.

        Args:
            keys: uint64[n], the keys of the values; ascending and distinct.

        Returns:
            int64[m] places among `keys`, and int64[m] rows. Values that differ may share a key.

        Raises:
            NotFoundError: A file of the index is missing.
            FormatError: The index is damaged.
        """
        partitions = partition_of(keys, len(self._description.partitions))
        if len(keys) == 1:
            return self._find_in(int(partitions[0]), keys)
        places, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for ordinal in np.unique(partitions).tolist():
            start, stop = np.searchsorted(partitions, [ordinal, ordinal + 1]).tolist()
            found = self._find_in(ordinal, keys[start:stop])
            places.append(found[0] + start)
            rows.append(found[1])
        return np.concatenate(places), np.concatenate(rows)

    def entries(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """All keys, uint64[n], and the row of each, int64[n].

        Raises:
            NotFoundError, FormatError: As `find`.
        """
        keys, rows = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for ordinal in range(len(self._description.partitions)):
            shard = self._partition(ordinal)
            column = shard.take(np.arange(shard.record_count)).column(0).combine_chunks()
            found = keys_in_buckets(column, location=shard.shown)
            self._check(found[1], shard)
            keys.append(found[0])
            rows.append(found[1])
        return np.concatenate(keys), np.concatenate(rows).astype(np.int64)

    def _check(self, rows: npt.NDArray[np.uint64], shard: IndexShard) -> None:
        if len(rows) and int(rows.max()) >= self._row_count:
            raise FormatError(
                f"a hash index refers to row {int(rows.max())} of {self._row_count}", location=shard.shown, rule=_RULE
            )

    def _find_in(
        self, ordinal: int, keys: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        resident = self._resident.get(ordinal)
        known = None if resident is None else resident.find(keys)
        if known is not None:
            return known
        shard = self._partition(ordinal)
        buckets = np.unique(bucket_of(keys, shard.record_count))
        with shard.only_stripe() as stripe:
            found = None if stripe is None else self._find_in_stripe(ordinal, stripe, buckets, keys)
            self._asked[ordinal] += 1
            if stripe is not None and found is not None and self._asked[ordinal] == _OFTEN and is_local(shard.location):
                self._keep(ordinal, stripe)
        if found is None:
            column = shard.take(buckets).column(0).combine_chunks()
            found = find_in_buckets(column, keys, location=shard.shown)
        places, rows = found
        self._check(rows, shard)
        return places, rows.astype(np.int64)

    def _find_in_stripe(
        self, ordinal: int, stripe: StripeReader, buckets: npt.NDArray[np.int64], keys: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]] | None:
        """The rows of keys as `find_in_buckets` gives them; those of other keys are not read.

        Returns:
            None if the stripe stores something by presence or as a constant.
        """
        lists, numbers, row_lists, rows = fields = _fields(stripe)
        entry = stripe.fields.field(stripe.schema.fields[0].data_type.children[0])
        if any(field.buffer(BufferKind.PRESENCE) is not None or field.is_null for field in (entry, *fields)) or any(
            field.constant is not None for field in (numbers, rows)
        ):
            return None
        _, entries = _items(stripe, lists, numbers, Selection.of_positions(buckets))
        found = self._hashes(ordinal, stripe, numbers, entries)
        places = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
        matching = np.flatnonzero(keys[places] == found)
        if not len(matching):
            return np.empty(0, np.int64), np.empty(0, np.uint64)
        edges, items = _items(stripe, row_lists, rows, Selection.of_positions(entries.positions()[matching]))
        return np.repeat(places[matching], np.diff(edges)), _numbers(stripe, rows, items)

    def _hashes(
        self, ordinal: int, stripe: StripeReader, field: StoredField, selection: Selection
    ) -> npt.NDArray[np.uint64]:
        """Keys of a partition, none of another's: files of an index that changed places hide their rows."""
        found = _numbers(stripe, field, selection)
        if (partition_of(found, len(self._description.partitions)) != ordinal).any():
            raise FormatError(
                f"partition {ordinal} of a hash index has keys of another", location=stripe.files.shown, rule=_RULE
            )
        return found

    def _keep(self, ordinal: int, stripe: StripeReader) -> None:
        """Keep a partition decoded, if there is memory for it."""
        lists, numbers, row_lists, rows = _fields(stripe)
        if not reserve_memory(self, ResidentBuckets.size_of(lists.positions, numbers.positions, rows.positions)):
            return
        edges, entries = _items(stripe, lists, numbers, Selection.range(0, lists.positions))
        row_edges, items = _items(stripe, row_lists, rows, Selection.range(0, numbers.positions))
        found = _numbers(stripe, rows, items)
        if len(found) and int(found.max()) >= self._row_count:
            return  # those of damaged places are refused when they are asked for
        is_one_each = len(found) == numbers.positions and bool((np.diff(row_edges) == 1).all())
        hashes = self._hashes(ordinal, stripe, numbers, entries)
        self._resident[ordinal] = ResidentBuckets(
            edges, hashes, None if is_one_each else row_edges, found.astype(np.int64)
        )

    def _partition(self, ordinal: int) -> IndexShard:
        found = self._partitions.get(ordinal)
        if found is None:
            reference = self._description.partitions[ordinal]
            found = IndexShard(self._storage, reference, BUCKET_SCHEMA, allowed_locations=self._allowed)
            count = found.record_count
            if count < 1 or count & (count - 1):
                raise FormatError(
                    f"a partition of {count} buckets, expected a power of two", location=found.shown, rule=_RULE
                )
            self._partitions[ordinal] = found
        return found


def _fields(stripe: StripeReader) -> tuple[StoredField, StoredField, StoredField, StoredField]:
    """The buckets, the keys in them, the lists of rows of the keys, and the rows."""
    bucket = stripe.schema.fields[0].data_type
    hashes, positions = bucket.children[0].children
    lists, numbers, row_lists, rows = map(stripe.fields.field, (bucket, hashes, positions, positions.children[0]))
    return lists, numbers, row_lists, rows


def _items(
    stripe: StripeReader, field: StoredField, child: StoredField, selection: Selection
) -> tuple[npt.NDArray[np.int64], Selection]:
    """Where the items of lists begin, counted from those of the first; and which they are."""
    if selection.stop > field.positions:
        raise _beyond(stripe, field, selection)
    edges, items = read_offsets(stripe.files, field, selection)
    if items.stop > child.positions:
        raise _beyond(stripe, child, items)
    return edges, items


def _numbers(stripe: StripeReader, field: StoredField, selection: Selection) -> npt.NDArray[np.uint64]:
    if not selection.count:
        return np.empty(0, np.uint64)
    values = read_numbers(stripe.files, field, selection, pa.uint64())
    if values.null_count:
        raise FormatError(f"a {field.node.name} of the hash index is null", location=stripe.files.shown, rule=_RULE)
    numbers: npt.NDArray[np.uint64] = values.to_numpy()
    return numbers


def _beyond(stripe: StripeReader, field: StoredField, selection: Selection) -> FormatError:
    return FormatError(
        f"a hash index refers to {field.node.name} {selection.stop - 1} of {field.positions}",
        location=stripe.files.shown,
        rule=_RULE,
    )
