"""The files of buckets as sections that stay or go as a whole, and splits made of them.

Spec: `formats/paimon.md` § 9; Java's MergeTreeSplitGenerator, AppendOnlySplitGenerator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.paimon.byte_spans import Longs
from skerry.paimon.options import CoreOptions, MergeEngine
from skerry.paimon.planned_splits import PlannedSection, PlannedSplit
from skerry.paimon.schema import TableSchema
from skerry.paimon.sections import check_levels, key_ranges, plan_sections

__all__ = ["bucket_groups", "bucket_sections", "keeps_values", "pack_sections", "single_files", "wanted_sections"]

_Mask = npt.NDArray[np.bool_]


def bucket_groups(codes: Longs, buckets: Longs) -> tuple[Longs, list[Longs]]:
    """Tell buckets apart.

    Args:
        codes: int64[files] Their partitions.
        buckets: int64[files] Their buckets.

    Returns:
        int64[files] Partition and bucket as one number, and the files of each bucket, in the order in which buckets
        first occur.
    """
    if not len(codes):
        return np.zeros(0, np.int64), []
    pairs = codes * (np.int64(2) ** 32) + buckets
    _, firsts, groups = np.unique(pairs, return_index=True, return_inverse=True)
    groups = groups.reshape(-1)
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(len(firsts) + 1))
    members = [order[bounds[number] : bounds[number + 1]] for number in np.argsort(firsts, kind="stable")]
    return groups, members


def single_files(members: Iterable[Longs]) -> list[list[PlannedSection]]:
    """Sections of buckets whose files are read one by one."""
    return [[PlannedSection([[row]], True) for row in rows.tolist()] for rows in members]


def bucket_sections(
    entries: pa.RecordBatch,
    groups: Longs,
    members: Sequence[Longs],
    schema: TableSchema,
    *,
    merged_already: bool,
    location: str,
) -> list[list[PlannedSection]]:
    """Sections of the buckets of a primary-key table.

    Args:
        entries: The files: columns of `skerry.paimon.manifest.ENTRY_SCHEMA`.
        groups: int64[files] Their buckets as numbers.
        members: The files of each bucket.
        schema: The table's schema.
        merged_already: Whether files without deleted rows need no merging, since deletion vectors took away what is
            out of date, or keys never change (`first-row`).
        location: The snapshot, for messages.

    Raises:
        FormatError: Keys are corrupt, or files of a level overlap.
    """
    levels = entries.column("_LEVEL").to_numpy(zero_copy_only=False).astype(np.int64)
    deletes = entries.column("_DELETE_ROW_COUNT").fill_null(0).to_numpy(zero_copy_only=False)
    ranges = key_ranges(entries.column("_MIN_KEY"), entries.column("_MAX_KEY"), schema.key_fields, location=location)
    check_levels(groups, levels, ranges, location=location)
    result = []
    for rows in members:
        if merged_already and (levels[rows] > 0).all() and (deletes[rows] == 0).all():
            ordered = rows[np.argsort(ranges.lowest[rows], kind="stable")]
            result.append([PlannedSection([[row]], True) for row in ordered.tolist()])
            continue
        result.append([PlannedSection(runs, _is_raw(runs, deletes)) for runs in plan_sections(rows.tolist(), ranges)])
    return result


def _is_raw(runs: Sequence[Sequence[int]], deletes: Longs) -> bool:
    """Whether a section is one file without deleted rows."""
    return len(runs) == 1 and len(runs[0]) == 1 and not deletes[runs[0][0]]


def keeps_values(options: CoreOptions) -> bool:
    """Whether a merged row is always one of the rows that it comes from."""
    return options.merge_engine in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)


def wanted_sections(
    sections: Iterable[PlannedSection], may: _Mask, *, whole_rows: bool
) -> tuple[list[PlannedSection], list[int]]:
    """Sections that can hold wanted rows.

    Args:
        sections: All of them.
        may: bool[files] Which files can.
        whole_rows: Whether merged rows are rows of files; else nothing is known of sections that are merged.

    Returns:
        The sections that are kept, and the files of the others.
    """
    kept: list[PlannedSection] = []
    dropped: list[int] = []
    for section in sections:
        rows = [row for run in section.runs for row in run]
        if (not section.is_raw and not whole_rows) or may[rows].any():
            kept.append(section)
        else:
            dropped += rows
    return kept, dropped


def pack_sections(
    sections: Sequence[PlannedSection], sizes: Longs, target: int, open_cost: int
) -> Iterator[PlannedSplit]:
    """Put the sections of a bucket into splits, in their order.

    Args:
        sections: The sections.
        sizes: int64[files] Bytes of all files.
        target: Bytes that a split should have.
        open_cost: Bytes that a file counts as at least.
    """
    split: list[PlannedSection] = []
    load = 0
    for section in sections:
        weight = sum(max(int(sizes[row]), open_cost) for run in section.runs for row in run)
        if split and load + weight > target:
            yield split
            split, load = [], 0
        split.append(section)
        load += weight
    if split:
        yield split
