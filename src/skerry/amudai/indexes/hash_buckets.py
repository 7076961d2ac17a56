"""The partitions of a hash index: from keys and rows to tables of buckets, and from buckets back to rows.

Spec: docs/formats/amudai-indexes.md § 3.3.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.values.types import list_of_named_items as list_of
from skerry.errors import FormatError
from skerry.kernels import kernel

__all__ = [
    "BUCKET_SCHEMA",
    "bucket_of",
    "build_partition",
    "find_in_buckets",
    "is_of_unique_keys",
    "keys_in_buckets",
    "partition_of",
    "sort_keys",
]

_Keys = npt.NDArray[np.uint64]
_Rows = npt.NDArray[np.int64]

_ENTRY: Final = pa.struct([pa.field("hash", pa.uint64()), pa.field("positions", list_of(pa.uint64()))])
BUCKET_SCHEMA: Final = pa.schema([pa.field("bucket", list_of(_ENTRY))])
"""The columns of a partition; a record is a bucket."""
_MIN_BUCKETS: Final = 2
_KEY_BITS: Final = 64
_DIGITS: Final = 2048
_LOW_BITS: Final = 22
_FEW_KEYS: Final = 1 << 21
_RULE: Final = "docs/formats/amudai-indexes.md § 3.3"


def partition_of(keys: _Keys, partitions: int) -> npt.NDArray[np.int64]:
    """The partition of each key, int64[n]; `partitions` is a power of two."""
    bits = partitions.bit_length() - 1
    if bits == 0:
        return np.zeros(len(keys), np.int64)
    return (keys >> np.uint64(_KEY_BITS - bits)).astype(np.int64)


def bucket_of(keys: _Keys, buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of each key within its partition, int64[n]; `buckets` is a power of two."""
    return (keys & np.uint64(buckets - 1)).astype(np.int64)


def build_partition(keys: _Keys, rows: _Rows, partitions: int, ordinal: int) -> pa.Table:
    """A partition of an index.

    Args:
        keys: uint64[n], of all partitions.
        rows: int64[n].
        partitions: How many partitions there are, a power of two.
        ordinal: Which one.

    Returns:
        A table of `BUCKET_SCHEMA`.
    """
    if partitions > 1:
        chosen = partition_of(keys, partitions) == ordinal
        keys, rows = keys[chosen], rows[chosen]
    unique = _of_unique(keys, rows)
    if unique is not None:
        return unique
    keys, rows = sort_keys(keys, rows)
    if len(keys):
        if ((keys[1:] == keys[:-1]) & (rows[1:] < rows[:-1])).any():
            order = np.lexsort((rows, keys))
            keys, rows = keys[order], rows[order]
        distinct = np.append(True, (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1]))
        keys, rows = keys[distinct], rows[distinct]
    return _partition(keys, rows.view(np.uint64))


def _of_unique(keys: _Keys, rows: _Rows) -> pa.Table | None:
    """A partition of keys that all differ, as ids do; None if some do not, or too many meet in one bucket."""
    edges, order = np.zeros(_bucket_count(len(keys)) + 1, np.int64), np.empty(len(keys), np.int64)
    sorted_keys = np.empty_like(keys)
    group_by_bucket(keys, np.zeros(len(edges) - 1, np.int64), edges, order)
    if not sort_in_buckets(keys, edges, order, sorted_keys):
        return None
    return _table(edges, sorted_keys, np.arange(len(keys) + 1), rows[order].view(np.uint64))


@kernel("int64(uint64[::1], int64[::1], out int64[::1], out uint64[::1])")
def sort_in_buckets(keys: Any, edges: Any, order: Any, sorted_keys: Any) -> int:
    """Order the keys of each bucket among themselves.

    Args:
        keys: The keys.
        edges: Where those of each bucket begin in `order`, and where the last end.
        order: The ordinals of the keys, bucket by bucket; gets them in the order of the keys of each bucket.
        sorted_keys: Gets the keys in that order.

    Returns:
        0 if two keys are the same, or a bucket has more than 64.
    """
    for i in range(len(order)):
        sorted_keys[i] = keys[order[i]]
    for bucket in range(len(edges) - 1):
        start, stop = edges[bucket], edges[bucket + 1]
        if stop - start > 64:
            return 0
        for i in range(start + 1, stop):
            key, ordinal = sorted_keys[i], order[i]
            place = i
            while place > start and sorted_keys[place - 1] > key:
                sorted_keys[place] = sorted_keys[place - 1]
                order[place] = order[place - 1]
                place -= 1
            if place > start and sorted_keys[place - 1] == key:
                return 0
            sorted_keys[place] = key
            order[place] = ordinal
    return 1


def sort_keys(keys: _Keys, rows: _Rows) -> tuple[_Keys, _Rows]:
    """Keys in order, with their rows; those of equal keys stay in theirs."""
    if (keys[1:] >= keys[:-1]).all():
        return keys, rows
    if len(keys) <= _FEW_KEYS:  # their upper bits nearly always differ
        found = _sorted_from(keys, rows, _LOW_BITS)
        if not (found[0][1:] < found[0][:-1]).any():
            return found
    return _sorted_from(keys, rows, 0)


def _sorted_from(keys: _Keys, rows: _Rows, first_bit: int) -> tuple[_Keys, _Rows]:
    """Keys in the order of their bits from one on."""
    current, following = (keys.copy(), rows.copy()), (np.empty_like(keys), np.empty_like(rows))
    for shift in range(first_bit, _KEY_BITS, _DIGITS.bit_length() - 1):
        if sort_by_digit(*current, shift, np.zeros(_DIGITS, np.int64), *following):
            current, following = following, current
    return current


@kernel("int64(uint64[::1], int64[::1], int64, out int64[::1], out uint64[::1], out int64[::1])")
def sort_by_digit(keys: Any, rows: Any, shift: int, counts: Any, sorted_keys: Any, sorted_rows: Any) -> int:
    """Order keys and rows by eleven bits of the keys, keeping the order among equal ones.

    Returns:
        Whether anything was written: all keys may have the same digit.
    """
    amount = np.uint64(shift)
    mask = np.uint64(2047)
    for i in range(len(keys)):
        counts[np.int64((keys[i] >> amount) & mask)] += 1
    if len(keys) == 0 or counts[np.int64((keys[0] >> amount) & mask)] == len(keys):
        return 0
    place = 0
    for digit in range(len(counts)):
        count = counts[digit]
        counts[digit] = place
        place += count
    for i in range(len(keys)):
        found = np.int64((keys[i] >> amount) & mask)
        sorted_keys[counts[found]] = keys[i]
        sorted_rows[counts[found]] = rows[i]
        counts[found] += 1
    return 1


@kernel("int64(uint64[::1], out int64[::1], out int64[::1], out int64[::1])")
def group_by_bucket(hashes: Any, places: Any, edges: Any, order: Any) -> int:
    """Order keys by their buckets, of which there are as many as places; those of a bucket stay in their order.

    Args:
        hashes: The keys.
        places: Room for a number per bucket.
        edges: Where the keys of each bucket begin, and where the last end; zeros at first.
        order: The ordinals of the keys.
    """
    mask = np.uint64(len(places) - 1)
    for i in range(len(hashes)):
        edges[np.int64(hashes[i] & mask) + 1] += 1
    for bucket in range(len(places)):
        edges[bucket + 1] += edges[bucket]
        places[bucket] = edges[bucket]
    for i in range(len(hashes)):
        found = np.int64(hashes[i] & mask)
        order[places[found]] = i
        places[found] += 1
    return 0


def _partition(keys: _Keys, positions: npt.NDArray[np.uint64]) -> pa.Table:
    """The buckets of keys in order."""
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)
    count = _bucket_count(len(firsts))
    hashes = keys[firsts]
    order, edges = np.empty(len(hashes), np.int64), np.zeros(count + 1, np.int64)
    group_by_bucket(hashes, np.zeros(count, np.int64), edges, order)
    lengths = np.diff(np.append(firsts, len(keys)))[order]
    ends = np.cumsum(lengths)
    starts = ends - lengths
    places = np.arange(len(keys)) + np.repeat(firsts[order] - starts, lengths)
    return _table(edges, hashes[order], np.append(0, ends), positions[places])


def _bucket_count(keys: int) -> int:
    """How many buckets there are for a number of distinct keys."""
    return max(_MIN_BUCKETS, 1 << (max(keys // 2, 1) - 1).bit_length())


def _table(
    edges: npt.NDArray[np.int64], hashes: _Keys, row_edges: npt.NDArray[np.int64], positions: npt.NDArray[np.uint64]
) -> pa.Table:
    """Buckets whose entries begin at `edges`, and the rows of each entry at `row_edges`."""
    entries = pa.StructArray.from_arrays(
        [pa.array(hashes), pa.ListArray.from_arrays(pa.array(row_edges, pa.int32()), pa.array(positions))],
        fields=list(_ENTRY),
    )
    return pa.table([pa.ListArray.from_arrays(pa.array(edges, pa.int32()), entries)], schema=BUCKET_SCHEMA)


def is_of_unique_keys(partition: pa.Table) -> bool:
    """Whether each key of a partition, which `build_partition` made, has one row."""
    entries = partition.column(0).combine_chunks().values
    return len(entries) == len(entries.field(1).values)


def find_in_buckets(
    buckets: pa.ListArray, keys: _Keys, *, location: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The rows of keys.

    Args:
        buckets: Some records of a partition, `BUCKET_SCHEMA`'s column.
        keys: uint64[n], ascending and distinct.
        location: The file of the partition, for errors.

    Returns:
        int64[m] places among `keys`, and uint64[m] rows.

    Raises:
        FormatError: There are nulls, which no bucket has.
    """
    hashes, lists = _entries(buckets, location)
    found = hashes.to_numpy()
    places = np.searchsorted(keys, found)
    matching = np.flatnonzero(keys[np.minimum(places, len(keys) - 1)] == found) if len(keys) else np.empty(0, np.int64)
    lengths, rows = _rows_of(lists.take(pa.array(matching)), location)
    return np.repeat(places[matching], lengths), rows


def keys_in_buckets(buckets: pa.ListArray, *, location: str) -> tuple[_Keys, npt.NDArray[np.uint64]]:
    """All keys of some records of a partition, uint64[m], with their rows, uint64[m]; see `find_in_buckets`."""
    hashes, lists = _entries(buckets, location)
    lengths, rows = _rows_of(lists, location)
    return np.repeat(hashes.to_numpy(), lengths), rows


def _entries(buckets: pa.ListArray, location: str) -> tuple[pa.Array, pa.ListArray]:
    """The keys in buckets, and the lists of their rows."""
    entries = buckets.flatten()
    hashes, lists = entries.flatten()
    if buckets.null_count or entries.null_count or hashes.null_count or lists.null_count:
        raise FormatError("a bucket of the hash index has nulls, expected none", location=location, rule=_RULE)
    return hashes, lists


def _rows_of(lists: pa.ListArray, location: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The lengths of lists of rows, and the rows."""
    rows = lists.flatten()
    if rows.null_count:
        raise FormatError("a position of the hash index is null", location=location, rule=_RULE)
    return np.diff(lists.offsets.to_numpy()), rows.to_numpy().astype(np.uint64, copy=False)
