"""Sections of tables whose rows are stitched together from several files: files with the same row ids.

A file of some columns has the row ids of the file that it continues. BLOB and VECTOR columns in files of their own may
be divided among several of them.

Spec: docs/formats/paimon.md § 8.10.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.paimon.manifests.manifest import ManifestEntry, batch_of
from skerry.paimon.planning.sections import Sections
from skerry.paimon.values.byte_spans import Longs

__all__ = ["is_dedicated", "is_dedicated_name", "row_sections", "stitched_entries"]

_RULE: Final = "docs/formats/paimon.md § 8.10"
_DEDICATED: Final = r"\.blob$|\.vector\.[^.]+$"


def is_dedicated(names: pa.Array) -> npt.NDArray[np.bool_]:
    """bool[files] Which files hold columns of type BLOB or VECTOR only, by their names."""
    found: npt.NDArray[np.bool_] = pc.match_substring_regex(names, _DEDICATED).to_numpy(zero_copy_only=False)
    return found


def is_dedicated_name(name: str) -> bool:
    """Whether a file holds columns of type BLOB or VECTOR only, by its name."""
    return re.search(_DEDICATED, name) is not None


def row_sections(entries: pa.RecordBatch, buckets: Longs, *, location: str) -> Sections:
    """Group files by their row ids.

    Args:
        entries: Live files: columns of `skerry.paimon.manifests.manifest.ENTRY_SCHEMA`.
        buckets: int64[files] Their buckets as numbers.
        location: The snapshot, for messages.

    Returns:
        Sections in the order of buckets and row ids. The first file of each is its oldest one, whose deletion vector
        applies to the rows; files of BLOB and VECTOR columns are last. A section of one file is raw.

    Raises:
        FormatError: Row ids overlap without being equal, or a file of BLOB or VECTOR columns continues no other file.
    """
    names, ids = entries.column("_FILE_NAME"), entries.column("_FIRST_ROW_ID")
    first = ids.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = entries.column("_ROW_COUNT").to_numpy(zero_copy_only=False).astype(np.int64)
    unknown = first < 0
    if (first > np.int64(2**62)).any() or (counts > np.int64(2**31)).any():
        raise FormatError("a file's row ids are out of range", location=location, rule=_RULE)
    # files whose rows have ids of their own inside stand alone, each in a range that no other file has
    base = int((first + counts).max(initial=0))
    first = np.where(unknown, base + np.cumsum(unknown), first)
    counts = np.where(unknown, 1, counts)
    end = first + counts
    special = is_dedicated(names)
    ages = entries.column("_MAX_SEQUENCE_NUMBER").to_numpy(zero_copy_only=False)
    by_name = np.asarray(pc.rank(names, sort_keys="ascending", tiebreaker="first")).astype(np.int64)
    rows = np.lexsort((by_name, ages, special, first, buckets))
    new_bucket = np.full(len(rows), True)
    new_bucket[1:] = np.diff(buckets[rows]) != 0
    begins = new_bucket | ~_reaches(first[rows], end[rows], new_bucket)
    heads = np.flatnonzero(begins)
    starts = np.append(heads, len(rows)).astype(np.int64)
    sections = Sections(rows, starts, buckets[rows[heads]], np.diff(starts) == 1)
    head_of = rows[heads][sections.of_row]
    inside = (first[rows] >= first[head_of]) & (end[rows] <= end[head_of])
    equal = (first[rows] == first[head_of]) & (end[rows] == end[head_of])
    wrong = ~np.where(special[rows], inside, equal) | special[head_of]
    if wrong.any():
        name = names[int(rows[np.argmax(wrong)])].as_py()
        raise FormatError(f"the row ids of {name} overlap with those of other files", location=location, rule=_RULE)
    return sections


def stitched_entries(entries: Sequence[ManifestEntry], *, location: str) -> list[list[ManifestEntry]]:
    """Group the files of a bucket by their row ids, as `row_sections` does."""
    sections = row_sections(batch_of(entries), np.zeros(len(entries), np.int64), location=location)
    bounds = itertools.pairwise(sections.starts.tolist())
    return [[entries[row] for row in sections.rows[begin:end].tolist()] for begin, end in bounds]


def _reaches(first: Longs, end: Longs, new_bucket: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """bool[n] Whether a file's row ids begin before one in front of it, in its bucket, has ended."""
    bucket = np.cumsum(new_bucket)
    span = int(end.max(initial=0)) + 1
    if len(bucket) and int(bucket[-1]) > (2**63 - 1) // span:
        return _reaches_slowly(first, end, new_bucket)
    line = bucket.astype(np.int64) * span  # one number line for all buckets
    bound = np.maximum.accumulate(line + end)
    found = np.full(len(first), False)
    found[1:] = (line + first)[1:] < bound[:-1]
    return found


def _reaches_slowly(first: Longs, end: Longs, new_bucket: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """As `_reaches`, for row ids of which a number line for all buckets would overflow."""
    found = np.full(len(first), False)
    parts = np.append(np.flatnonzero(new_bucket), len(first))
    for begin, stop in zip(parts[:-1].tolist(), parts[1:].tolist(), strict=True):
        bound = np.maximum.accumulate(end[begin:stop])
        found[begin + 1 : stop] = first[begin + 1 : stop] < bound[:-1]
    return found
