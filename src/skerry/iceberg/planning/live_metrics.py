"""The metrics of a table's columns over the live files of a snapshot, gathered manifest by manifest.

Spec: Iceberg spec, Data File Fields.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.iceberg.manifests.cache import shared_cache
from skerry.iceberg.manifests.manifest import EntryStatus
from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifests.map_columns import METRIC_COLUMNS, FieldValues
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.planning.live_files import ColumnMetrics
from skerry.storage import is_local
from skerry.table.rows.schema import Leaf
from skerry.table.rows.values import arrow_storage, decode_value, decode_values, natural_value
from skerry.table.work.read_ahead import default_threads, read_ahead, scan_pool

__all__ = ["live_metrics"]

_AHEAD_BYTES = 4 << 20
"""Encoded size of the manifests that may be decoded and wait."""


def live_metrics(
    state: TableState, snapshot: Snapshot, columns: Sequence[Leaf], wanted: Collection[str] | None = None
) -> dict[int, ColumnMetrics]:
    """The metrics of columns over data files, by field id; a few manifests are in memory at a time.

    Args:
        state: The table.
        snapshot: The snapshot; rows removed by delete files are still in its files.
        columns: The columns.
        wanted: Only the files at these locations.
    """
    storage = state.storage
    listed = [
        manifest
        for manifest in shared_cache().manifests(storage, snapshot)
        if manifest.content is ManifestContent.DATA and manifest.has_live_files
    ]
    chosen = None if wanted is None else pa.array(sorted(wanted), pa.string())
    names = ("status", "record_count", *METRIC_COLUMNS, *(() if chosen is None else ("file_path",)))

    def read(manifest: ManifestFile) -> pa.RecordBatch:
        entries = shared_cache().read(storage, manifest, names)
        kept = pc.not_equal(entries.column("status"), pa.scalar(EntryStatus.DELETED.value, pa.int32()))
        if chosen is not None:
            kept = pc.and_(kept, pc.is_in(entries.column("file_path"), value_set=chosen))
        return entries.filter(kept)

    gathered = [_Gathered(column) for column in columns]
    local = all(is_local(manifest.manifest_path) for manifest in listed)
    with scan_pool(default_threads(), is_local=local) as pool:
        for entries in read_ahead(pool, read, listed, lambda manifest: manifest.manifest_length, _AHEAD_BYTES):
            if entries.num_rows:
                found = FieldValues(entries)
                rows = entries.column("record_count").to_numpy(zero_copy_only=False)
                for one in gathered:
                    one.add(found, rows)
    return {one.column.field_id: one.result() for one in gathered}


class _Gathered:
    """The metrics of a column over the files so far.

    Args:
        column: The column.
    """

    def __init__(self, column: Leaf) -> None:
        self.column = column
        self.nulls: int | None = 0
        self.lows: list[Any] | None = []
        self.highs: list[Any] | None = []

    def add(self, found: FieldValues, rows: npt.NDArray[np.int64]) -> None:
        """Add files.

        Args:
            found: Their metrics.
            rows: int64[files] Their numbers of rows.
        """
        key = self.column.field_id
        nulls, values = found.counts("null_value_counts", key), found.counts("value_counts", key)
        values = np.where(values < 0, rows, values)
        self.nulls = None if self.nulls is None or (nulls < 0).any() else self.nulls + int(nulls.sum())
        valued = pa.array((values != 0) & (nulls != values))
        if self.column.has_shapes and valued.true_count:  # bounds are points, not values
            self.lows = self.highs = None
        if self.lows is not None:
            least = self._extreme(found.values("lower_bounds", key).filter(valued), "min")
            self.lows = None if least is None else self.lows + least
        if self.highs is not None:
            greatest = self._extreme(found.values("upper_bounds", key).filter(valued), "max")
            self.highs = None if greatest is None else self.highs + greatest

    def _extreme(self, bounds: pa.Array, which: str) -> list[Any] | None:
        """The value of the least or greatest bound; none of none, None if one is missing.

        Bounds are compared as values, not as bytes: a long's serialisation is little-endian.
        """
        if bounds.null_count:
            return None
        if not len(bounds):
            return []
        decoded = decode_values(arrow_storage(self.column.type), bounds)
        try:
            best = pc.min_max(decoded)[which]
        except pa.ArrowNotImplementedError:
            values = [decode_value(self.column.type, bound) for bound in bounds.to_pylist()]
            return [min(values) if which == "min" else max(values)]
        place = pc.index(decoded, best).as_py() if best.is_valid else 0  # all are NaN
        return [decode_value(self.column.type, bounds[max(place, 0)].as_py())]

    def result(self) -> ColumnMetrics:
        """The metrics of all files."""
        type_ = self.column.type
        low, high = (min(self.lows) if self.lows else None), (max(self.highs) if self.highs else None)
        return ColumnMetrics(self.nulls, natural_value(type_, low), natural_value(type_, high))
