"""The metrics of a table's columns over the live files of a snapshot, gathered manifest by manifest.

Spec: Iceberg spec, Data File Fields.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
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
_COLUMNS = ("status", "record_count", *METRIC_COLUMNS)
_EXTREMES = pa.schema(
    [
        ("nulls", pa.int64()),
        ("low", pa.binary()),
        ("low_is_known", pa.bool_()),
        ("high", pa.binary()),
        ("high_is_known", pa.bool_()),
        ("values", pa.int64()),
    ]
)
"""A row per column: its nulls, null if a file lacks their number; the serialised least and greatest bound, null if no
file has values; whether no file with values lacks that bound; and at most how many rows are not null."""
_VERSION = 2
"""Must be raised when the same manifest gives other extremes."""


def live_metrics(
    state: TableState, snapshot: Snapshot, columns: Sequence[Leaf], wanted: Collection[str] | None = None
) -> dict[int, ColumnMetrics]:
    """The metrics of columns over data files, by field id; a few manifests are in memory at a time.

    The extremes of a manifest are kept, so that the next call reads only the manifests that are new.

    Args:
        state: The table.
        snapshot: The snapshot; rows removed by delete files are still in its files.
        columns: The columns.
        wanted: Only the files at these locations.
    """
    storage, cache = state.storage, shared_cache()
    listed = [
        manifest
        for manifest in cache.manifests(storage, snapshot)
        if manifest.content is ManifestContent.DATA and manifest.has_live_files
    ]
    chosen = None if wanted is None else pa.array(sorted(wanted), pa.string())
    read: Callable[[ManifestFile], pa.RecordBatch]
    if chosen is None:
        read = functools.partial(
            cache.derived,
            storage,
            columns=_COLUMNS,
            name=_name(columns),
            derive=functools.partial(_extremes, columns=columns),
            may_keep_all=cache.fits(listed, len(columns)),
        )
    else:

        def read(manifest: ManifestFile) -> pa.RecordBatch:
            entries = cache.read(storage, manifest, (*_COLUMNS, "file_path"))
            return _extremes(entries.filter(pc.is_in(entries.column("file_path"), value_set=chosen)), columns)

    local = all(is_local(manifest.manifest_path) for manifest in listed)
    with scan_pool(default_threads(), is_local=local) as pool:
        found = [*read_ahead(pool, read, listed, lambda manifest: manifest.manifest_length, _AHEAD_BYTES)]
    every = pa.Table.from_batches(found, _EXTREMES).combine_chunks()
    places = np.arange(every.num_rows).reshape(len(found), len(columns))
    return {
        column.field_id: _united(column, every.take(pa.array(places[:, place])).to_pylist())
        for place, column in enumerate(columns)
    }


def _name(columns: Sequence[Leaf]) -> str:
    """The name of the extremes of columns: bounds are compared by the type that a column has now."""
    shaped_by = _VERSION, [(column.field_id, str(column.type), column.has_shapes) for column in columns]
    return f"extremes-{hashlib.sha256(repr(shaped_by).encode()).hexdigest()[:16]}"


def _united(column: Leaf, extremes: Sequence[dict[str, Any]]) -> ColumnMetrics:
    """The metrics of a column, of its extremes in each manifest."""
    nulls = [one["nulls"] for one in extremes]
    bounds: list[Any] = []
    for which, choose in (("low", min), ("high", max)):
        is_known = all(one[f"{which}_is_known"] for one in extremes)
        values = [decode_value(column.type, one[which]) for one in extremes if is_known and one[which] is not None]
        bounds.append(natural_value(column.type, choose(values) if values else None))
    low, high = bounds
    return ColumnMetrics(None if None in nulls else sum(nulls), low, high, sum(one["values"] for one in extremes))


def _extremes(entries: pa.RecordBatch, columns: Sequence[Leaf]) -> pa.RecordBatch:
    """The extremes of columns over the live files of a manifest."""
    entries = entries.filter(pc.not_equal(entries.column("status"), pa.scalar(EntryStatus.DELETED.value, pa.int32())))
    metrics = FieldValues(entries)
    rows = entries.column("record_count").to_numpy(zero_copy_only=False)
    found = []
    for column in columns:
        nulls = metrics.counts("null_value_counts", column.field_id)
        values = metrics.counts("value_counts", column.field_id)
        values = np.where(values < 0, rows, values)
        valued = pa.array((values != 0) & (nulls != values))
        one: dict[str, Any] = {
            "nulls": None if (nulls < 0).any() else int(nulls.sum()),
            "values": int((values - np.maximum(nulls, 0)).sum()),
        }
        for which, name in (("low", "lower_bounds"), ("high", "upper_bounds")):
            bounds = metrics.values(name, column.field_id).filter(valued)
            is_known = not bounds.null_count and not (column.has_shapes and len(bounds))  # of shapes they are points
            one |= {which: _extreme(column.type, bounds, which) if is_known else None, f"{which}_is_known": is_known}
        found.append(one)
    return pa.RecordBatch.from_pylist(found, schema=_EXTREMES)


def _extreme(type_: pa.DataType, bounds: pa.Array, which: str) -> bytes | None:
    """The least or greatest bound; None of none.

    Bounds are compared as values, not as bytes: a long's serialisation is little-endian.
    """
    if not len(bounds):
        return None
    decoded = decode_values(arrow_storage(type_), bounds)
    try:
        best = pc.min_max(decoded)["min" if which == "low" else "max"]
        place = max(pc.index(decoded, best).as_py(), 0) if best.is_valid else 0  # all are NaN
    except pa.ArrowNotImplementedError:
        values = [decode_value(type_, bound) for bound in bounds.to_pylist()]
        place = values.index(min(values) if which == "low" else max(values))
    found: bytes = bounds[place].as_py()
    return found
