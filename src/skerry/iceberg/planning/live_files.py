"""The live files of a snapshot, and the metrics of the table's columns over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skerry.iceberg.manifests.manifest import EntryStatus
from skerry.iceberg.manifests.manifest_list import ManifestContent
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.manifests.snapshot_manifests import read_manifests
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.table.files.data_file import DataFile
from skerry.table.files.scan_task import FileScanTask
from skerry.table.rows.schema import Leaf
from skerry.table.rows.values import decode_value, natural_value

__all__ = ["ColumnMetrics", "column_metrics", "live_data_files", "live_delete_keys", "needless_deletes"]


def live_data_files(state: TableState, snapshot: Snapshot) -> list[DataFile]:
    """All data files of a snapshot; rows removed by delete files are still in them."""
    return [
        entry.data_file
        for manifest in read_manifests(state.storage, snapshot)
        if manifest.content is ManifestContent.DATA and manifest.has_live_files
        for entry in read_manifest(state.storage, manifest).entries()
        if entry.is_live
    ]


def live_delete_keys(state: TableState, snapshot: Snapshot) -> list[tuple[str, int | None]]:
    """Location and content offset of all delete files of a snapshot, whether a data file needs them or not."""
    columns = ("status", "file_path", "content_offset")
    keys: list[tuple[str, int | None]] = []
    for manifest in read_manifests(state.storage, snapshot):
        if manifest.content is ManifestContent.DELETES and manifest.has_live_files:
            entries = read_manifest(state.storage, manifest, columns).table.to_pylist()
            keys += [
                (entry["file_path"], entry["content_offset"])
                for entry in entries
                if entry["status"] != EntryStatus.DELETED
            ]
    return keys


def needless_deletes(
    state: TableState, snapshot: Snapshot | None, tasks: Iterable[FileScanTask], gone: Collection[str] = ()
) -> list[tuple[str, int | None]]:
    """The delete files that no data file needs, by location and content offset.

    Args:
        state: The table.
        snapshot: The snapshot.
        tasks: All its data files.
        gone: Locations of data files that are about to be removed.
    """
    live = live_delete_keys(state, snapshot) if snapshot is not None else []
    if not live:
        return []
    needed = {
        (delete.location, delete.content_offset)
        for task in tasks
        if task.data_file.location not in gone
        for delete in task.deletes
    }
    return [key for key in live if key not in needed]


@dataclass(frozen=True, slots=True)
class ColumnMetrics:
    """The metrics of one column over files.

    Args:
        null_count: Nulls in all files; None if unknown for a file.
        min: The smallest lower bound; None if unknown for a file with values.
        max: The largest upper bound; None if unknown for a file with values.
        values: At most how many rows are not null.
    """

    null_count: int | None
    min: Any
    max: Any
    values: int


def column_metrics(files: Iterable[DataFile], column: Leaf) -> ColumnMetrics:
    """Gather one column's metrics over files.

    Bounds are compared as values, not as bytes: a long's serialisation is little-endian.
    """
    nulls: int | None = 0
    lows: list[Any] | None = []
    highs: list[Any] | None = []
    valued = 0
    for file in files:
        file_nulls = file.null_value_counts.get(column.field_id)
        nulls = None if nulls is None or file_nulls is None else nulls + file_nulls
        values = file.value_counts.get(column.field_id, file.record_count)
        valued += values - (file_nulls or 0)
        if values in (0, file_nulls):
            continue
        if column.has_shapes:  # bounds are points, not values
            lows = highs = None
        lows = _gather(lows, column.type, file.lower_bounds.get(column.field_id))
        highs = _gather(highs, column.type, file.upper_bounds.get(column.field_id))
    low, high = (min(lows) if lows else None), (max(highs) if highs else None)
    return ColumnMetrics(nulls, natural_value(column.type, low), natural_value(column.type, high), valued)


def _gather(values: list[Any] | None, type_: pa.DataType, bound: bytes | None) -> list[Any] | None:
    if values is None or bound is None:
        return None
    values.append(decode_value(type_, bound))
    return values
