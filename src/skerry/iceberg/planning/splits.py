"""Splitting of large files into tasks of about one size, at their split offsets.

Spec: Iceberg spec, Data File Fields, `split_offsets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.table.properties import whole_number

__all__ = ["Splits", "plan_splits", "target_split_bytes"]

_Integers: TypeAlias = npt.NDArray[np.int64]
_DEFAULT_BYTES: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class Splits:
    """The tasks of many files.

    Args:
        offsets: int64[files + 1] The index of the first task of each file in the other arrays.
        starts: int64[tasks] First byte; 0 for the first task of a file.
        ends: int64[tasks] End offset, exclusive; -1 for the last task of a file, which extends to its end.
    """

    offsets: _Integers
    starts: _Integers
    ends: _Integers


def target_split_bytes(properties: Mapping[str, str]) -> int:
    """The table property `read.split.target-size`: maximum bytes of a task, 128 MiB by default.

    Raises:
        SchemaError: It is not a whole number above 0.
    """
    return whole_number(properties, "read.split.target-size", _DEFAULT_BYTES)


def plan_splits(sizes: _Integers, list_offsets: _Integers, split_offsets: _Integers, target_bytes: int) -> Splits:
    """Split files.

    A task takes as many pieces of a file as fit the target, and at least one. Files with invalid offsets (not
    ascending, or outside of the file) are not split: relying on them would lose rows.

    Args:
        sizes: int64[files] Bytes of each file.
        list_offsets: int64[files + 1] The index of each file's first offset in `split_offsets`.
        split_offsets: int64[n] Split offsets of all files.
        target_bytes: Maximum bytes of a task.
    """
    counts = np.diff(list_offsets)
    files = np.repeat(np.arange(len(sizes)), counts)
    positions = split_offsets[list_offsets[0] : list_offsets[-1]]
    wrong = (positions < 0) | (positions >= sizes[files])
    wrong[1:] |= (positions[1:] <= positions[:-1]) & (files[1:] == files[:-1])
    sound = np.ones(len(sizes), bool)
    sound[files[wrong]] = False
    # a file's first offset is the start of its rows; cuts come after it
    is_first = np.ones(len(files), bool)
    is_first[1:] = files[1:] != files[:-1]
    usable = sound[files] & ~is_first & (sizes[files] > target_bytes)
    cut_files, cuts = _chosen(files[usable], positions[usable], sizes, max(target_bytes, 1))
    starts = np.concatenate([np.zeros(len(sizes), np.int64), cuts])
    owners = np.concatenate([np.arange(len(sizes)), cut_files])
    order = np.lexsort((starts, owners))
    starts, owners = starts[order], owners[order]
    ends = np.full(len(starts), -1, np.int64)
    goes_on = np.flatnonzero(owners[1:] == owners[:-1])
    ends[goes_on] = starts[goes_on + 1]
    return Splits(np.searchsorted(owners, np.arange(len(sizes) + 1)), starts, ends)


def _chosen(files: _Integers, positions: _Integers, sizes: _Integers, target_bytes: int) -> tuple[_Integers, _Integers]:
    """Choose the cuts that make tasks as large as the target allows; one cut of every file per round."""
    span = int(sizes.max(initial=0)) + 1
    keys = files * span + positions  # ascending; those of one file are between two multiples of the span
    active = np.unique(files)
    starts = np.zeros(len(active), np.int64)
    chosen: list[_Integers] = []
    while len(active):
        last = np.searchsorted(keys, active * span + np.minimum(starts + target_bytes, span - 1), side="right") - 1
        first = np.searchsorted(keys, active * span + starts, side="right")
        stop = np.searchsorted(keys, (active + 1) * span)
        cut = np.maximum(last, first)  # a piece larger than the target becomes a task of its own
        is_cut = (first < stop) & (sizes[active] - starts > target_bytes)
        active, cut = active[is_cut], cut[is_cut]
        starts = positions[cut]
        chosen.append(cut)
    cuts = np.concatenate(chosen) if chosen else np.zeros(0, np.int64)
    return files[cuts], positions[cuts]
