"""The files of a snapshot as columns, read once per state of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.table.inspection.partitions import number_groups
from skerry.table.table import Table
from skerry.web.partitions import partition_name
from skerry.web.source import Source

__all__ = ["FileListing", "files_key", "list_files"]

_COLUMNS: Final = ("content", "file_path", "file_format", "partition", "bucket", "record_count", "file_size_in_bytes")


@dataclass(frozen=True, slots=True, eq=False)
class FileListing:
    """The data and delete files of a snapshot.

    Args:
        files: `content`, `file_path`, `file_format`, `record_count` and `file_size_in_bytes` of each.
        content: int64[files] 0 data, 1 deleted positions, 2 deleted keys.
        rows: int64[files] Rows, or deletes.
        sizes: int64[files] Bytes.
        groups: int64[files] The number of each file's partition.
        partitions: The names of the partitions, by number.
        values: Their values by field, by number; None for the only one of a table without partitions.
    """

    files: pa.Table
    content: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    partitions: list[str]
    values: list[dict[str, Any] | None]


def list_files(source: Source, table: Table) -> FileListing:
    """The files of a table's current snapshot."""
    return source.remember(files_key(table), lambda: _list(table))


def files_key(table: Table) -> tuple[str, str, str]:
    """What the listing of a table's current snapshot is remembered by."""
    return ("files", table.location, table.version)


def _list(table: Table) -> FileListing:
    known = table.inspect.schema("files").names
    files = table.inspect.files(columns=[name for name in _COLUMNS if name in known])
    fields = files.column("partition").combine_chunks().flatten() if "partition" in known else []
    groups = number_groups(fields, files.num_rows)
    firsts = np.unique(groups, return_index=True)[1]
    names = files.column("partition").take(firsts).to_pylist() if "partition" in known else [None] * len(firsts)
    columns = {
        name: files.column(name).to_numpy().astype(np.int64)
        for name in ("content", "record_count", "file_size_in_bytes")
    }
    return FileListing(
        files=files,
        content=columns["content"],
        rows=columns["record_count"],
        sizes=columns["file_size_in_bytes"],
        groups=groups,
        partitions=[partition_name(each, table.partition_by) for each in names],
        values=names,
    )
