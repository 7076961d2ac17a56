"""The rows of `partitions`: what the files of each partition add up to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.table.inspection.columns import PARTITION_COUNTS

__all__ = ["count_partitions", "number_groups"]

_DATA, _POSITIONS, _KEYS = range(3)
_SUMS: Final = (
    ("record_count", _DATA, "record_count"),
    ("file_count", _DATA, None),
    ("total_data_file_size_in_bytes", _DATA, "file_size_in_bytes"),
    ("position_delete_record_count", _POSITIONS, "record_count"),
    ("position_delete_file_count", _POSITIONS, None),
    ("equality_delete_record_count", _KEYS, "record_count"),
    ("equality_delete_file_count", _KEYS, None),
)
"""What is counted, over files of which content, and which of their columns is summed; None counts files."""


def count_partitions(files: pa.Table, groups: npt.NDArray[np.int64], count: int) -> dict[str, pa.Array]:
    """The counts of partitions.

    Args:
        files: `content`, `record_count` and `file_size_in_bytes` of files.
        groups: int64[files] The number of each file's partition.
        count: How many partitions there are.

    Returns:
        The columns `PARTITION_COUNTS` by name, a value per partition.
    """
    content = files.column("content").to_numpy()
    numbers = {name: files.column(name).to_numpy() for name in ("record_count", "file_size_in_bytes")}
    types = {field.name: field.type for field in PARTITION_COUNTS}
    found = {}
    for name, of_content, summed in _SUMS:
        rows = np.flatnonzero(content == of_content)
        total = np.zeros(count, np.int64)
        np.add.at(total, groups[rows], 1 if summed is None else numbers[summed][rows])
        found[name] = pa.array(total, types[name])
    return found


def number_groups(columns: Iterable[pa.Array], count: int) -> npt.NDArray[np.int64]:
    """A number per row, equal for rows with equal values in all columns, where nulls are equal.

    Args:
        columns: The columns.
        count: How many rows they have.

    Returns:
        int64[count] Numbers from 0 without gaps.
    """
    groups = np.zeros(count, np.int64)
    for column in columns:
        values = column.storage if isinstance(column, pa.ExtensionArray) else column
        codes = values.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        groups = np.unique(groups * (count + 2) + codes + 1, return_inverse=True)[1].reshape(-1)
    return groups
