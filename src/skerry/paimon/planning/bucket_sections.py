"""The files of buckets as sections that are kept or pruned as a whole, and splits made from them.

Spec: docs/formats/paimon.md § 9.5; Paimon Java, `MergeTreeSplitGenerator`, `AppendOnlySplitGenerator`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skerry.paimon.metadata.options import CoreOptions, MergeEngine
from skerry.paimon.planning.sections import KeyRanges, Sections, check_levels, overlapping_sections
from skerry.paimon.values.byte_spans import Longs

__all__ = ["bucket_numbers", "file_sections", "keeps_values", "merge_sections", "pack_sections"]


def bucket_numbers(codes: Longs, buckets: Longs) -> Longs:
    """Number buckets.

    Args:
        codes: int64[files] Their partitions.
        buckets: int64[files] Their buckets.

    Returns:
        int64[files] Partition and bucket as one number, from 0 on in the order in which they first occur.
    """
    pairs = codes * (np.int64(2) ** 32) + buckets
    _, firsts, places = np.unique(pairs, return_index=True, return_inverse=True)
    numbers = np.empty(len(firsts), np.int64)
    numbers[np.argsort(firsts, kind="stable")] = np.arange(len(firsts))
    return numbers[places.reshape(-1)]


def file_sections(numbers: Longs, order: Longs | None = None) -> Sections:
    """Sections of files that are read one by one.

    Args:
        numbers: int64[files] Their buckets as numbers.
        order: int64[files] Sort key of the files of a bucket; as they are if None.
    """
    keys = (numbers,) if order is None else (order, numbers)
    rows = np.lexsort(keys)
    return Sections.of_files(rows, numbers[rows])


def merge_sections(
    entries: pa.RecordBatch, numbers: Longs, ranges: KeyRanges, *, merged_already: bool, location: str
) -> Sections:
    """Sections of the buckets of a primary-key table.

    Args:
        entries: The files: columns of `skerry.paimon.manifests.manifest.ENTRY_SCHEMA`.
        numbers: int64[files] Their buckets as numbers.
        ranges: Their keys.
        merged_already: Whether files without deleted rows need no merging, since deletion vectors exclude outdated
            rows, or keys never change (`first-row`).
        location: The snapshot, for messages.

    Raises:
        FormatError: Files of a level overlap.
    """
    levels = entries.column("_LEVEL").to_numpy(zero_copy_only=False).astype(np.int64)
    has_deletes = entries.column("_DELETE_ROW_COUNT").fill_null(0).to_numpy(zero_copy_only=False) > 0
    check_levels(numbers, levels, ranges, location=location)
    sections = overlapping_sections(numbers, ranges, has_deletes)
    if not merged_already or not len(sections):
        return sections
    # buckets whose files are all of higher levels and without deletes: their files are read one by one
    unmerged = np.bincount(numbers, weights=(levels == 0) | has_deletes, minlength=1)
    apart = unmerged[sections.buckets] == 0
    repeats = np.where(apart, np.diff(sections.starts), 1)
    lengths = np.where(np.repeat(apart, repeats), 1, np.repeat(np.diff(sections.starts), repeats))
    return Sections(
        sections.rows,
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        np.repeat(sections.buckets, repeats),
        np.repeat(apart | sections.is_raw, repeats),
    )


def keeps_values(options: CoreOptions) -> bool:
    """Whether a merged row is always one of its records."""
    return options.merge_engine in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)


def pack_sections(sections: Sections, sizes: Longs, target: int, open_cost: int) -> Longs:
    """Put the sections of buckets into splits, in their order.

    Args:
        sections: The sections.
        sizes: int64[files] Bytes of all files.
        target: Target size of a split in bytes.
        open_cost: Minimum number of bytes that a file counts as.

    Returns:
        int64[splits + 1] The first section of each split, with the end of the last.
    """
    weights = sections.sums(np.maximum(sizes[sections.rows], open_cost)).tolist()
    bounds = [0]
    load, current = 0, -1
    for number, (bucket, weight) in enumerate(zip(sections.buckets.tolist(), weights, strict=True)):
        if number and (bucket != current or load + weight > target):
            bounds.append(number)
            load = 0
        load, current = load + weight, bucket
    return np.array([*bounds, len(weights)] if weights else [0], np.int64)
