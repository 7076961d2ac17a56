"""The cache of sketches of registered statistics files, which never change.

The sketches of a file are in one Arrow batch, which later processes map into memory.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError, UnsupportedError
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.statistics_file import StatisticsFile
from skerry.iceberg.statistics.columns import column_freshness
from skerry.iceberg.statistics.published import described_blob, is_own
from skerry.iceberg.statistics.registered import THETA_BLOB, column_blobs
from skerry.iceberg.statistics.samples import sample_of
from skerry.puffin import PuffinReader
from skerry.storage import Storage
from skerry.table.rows.schema import leaves
from skerry.table.rows.values import is_uuid
from skerry.table.statistics.column_statistics import Freshness
from skerry.table.statistics.joinable import NotCompared, SketchedColumn, TableSketches
from skerry.table.work.batch_cache import BatchCache
from skerry.table.work.remembered import version_of
from skerry.theta import ThetaSketch
from skerry.theta.layout import CompactSketch
from skerry.theta.overlap import PackedSketches, joined_sketches, pack_sketches

__all__ = ["SketchCache", "StoredSketches", "shared_sketch_cache", "table_sketches"]

_MEMORY_BYTES = 512 << 20
_DISK_BYTES = 1 << 30

_VERSION = 2
"""Must be raised when the same file decodes to something else."""
_WHOLE_FILE_BYTES = 8 << 20
"""Larger files are read in parts: the footer, then the sketches."""
_SCHEMA = pa.schema(
    [
        ("field_id", pa.int32()),
        ("snapshot_id", pa.int64()),
        ("theta", pa.uint64()),
        ("hashes", pa.large_list(pa.uint64())),
        ("is_own", pa.bool_()),
    ]
)

_FOREIGN_UUIDS = (
    "another writer sketched these UUIDs, possibly as text, which hashes differently; run analyze(full=True)"
)


@dataclass(frozen=True, slots=True, eq=False)
class StoredSketches:
    """The sketches of single columns in one statistics file.

    Args:
        field_ids: int32[n].
        snapshot_ids: int64[n], the snapshots from which they were computed.
        sketches: The n sketches.
        is_own: Whether skerry wrote them.
    """

    field_ids: npt.NDArray[np.int32]
    snapshot_ids: npt.NDArray[np.int64]
    sketches: PackedSketches
    is_own: bool


class SketchCache(BatchCache):
    """Reads statistics files, each at most once within the size limits."""

    def read(self, storage: Storage, file: StatisticsFile) -> StoredSketches:
        """The sketches of a statistics file, read in one ranged read unless it is large; unreadable ones are left out.

        Raises:
            FormatError: The file is not a valid Puffin file.
            NotFoundError: It is missing.
        """
        key = _key(storage, file)
        batch = self.find(key)
        if batch is None:
            batch = read_batch(storage, file)
            self.keep(key, batch, on_disk=not file.statistics_path.startswith("memory:"))
        return _stored(batch)


def read_batch(storage: Storage, file: StatisticsFile) -> pa.RecordBatch:
    """Read the sketches of a statistics file as Arrow; blobs that are not theta sketches of our seed are left out."""
    is_small = file.file_size_in_bytes <= _WHOLE_FILE_BYTES
    reader = PuffinReader(
        file.statistics_path,
        storage=storage,
        file_size=file.file_size_in_bytes,
        footer_size=file.file_size_in_bytes if is_small else file.file_footer_size_in_bytes,
    )
    blobs = [blob for blob in reader.blobs if blob.type == THETA_BLOB and len(blob.fields) == 1]
    contents = [reader.read_blob(blob) for blob in blobs] if is_small else reader.read_blobs(blobs)
    rows = []
    for blob, content in zip(blobs, contents, strict=True):
        try:
            sketch = ThetaSketch.deserialize(content).compact
        except (FormatError, UnsupportedError):
            continue
        rows.append((blob.fields[0], blob.snapshot_id, sketch))
    packed = pack_sketches([sketch for *_, sketch in rows])
    offsets = np.concatenate([packed.starts, [len(packed.hashes)]])
    arrays = [
        pa.array([field_id for field_id, *_ in rows], pa.int32()),
        pa.array([snapshot_id for _, snapshot_id, _ in rows], pa.int64()),
        pa.array(packed.thetas),
        pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(packed.hashes)),
        pa.repeat(pa.scalar(is_own(reader)), len(rows)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def table_sketches(state: TableState, cache: SketchCache | None = None) -> TableSketches:
    """The fresh sketches of a table's current snapshot, and the columns that have none.

    Args:
        state: The table.
        cache: The cache; that of this process if None.

    Raises:
        FormatError: The statistics file is not a valid Puffin file.
        NotFoundError: It is missing.
    """
    metadata = state.metadata
    snapshot = metadata.current_snapshot()
    freshness = column_freshness(state, snapshot)
    file = state.statistics_file(snapshot.snapshot_id) if snapshot is not None else None
    rows: dict[int, int] = {}
    stored = None
    if snapshot is not None and file is not None:
        stored = (cache or shared_sketch_cache()).read(state.storage, file)
        for field_id in np.unique(stored.field_ids).tolist():
            found = np.flatnonzero(stored.field_ids == field_id)
            chosen = described_blob(stored.snapshot_ids[found].tolist(), snapshot)
            if chosen is not None:
                rows[field_id] = int(found[chosen])
    sampled = _sampled(state, freshness)
    columns, missing = [], []
    numbers: list[int] = []  # of stored sketches, then of sampled ones
    first_sampled = len(stored.field_ids) if stored is not None else 0
    places = {field_id: first_sampled + at for at, field_id in enumerate(sampled)}
    for column in leaves(state.schema):
        if not freshness[column.name].is_fresh:
            missing.append(NotCompared(state.name, column.name, str(freshness[column.name])))
        elif column.field_id not in rows and column.field_id not in places:
            missing.append(NotCompared(state.name, column.name, "none of its sketches can be read; run analyze"))
        elif column.field_id in rows and stored is not None and is_uuid(column.type) and not stored.is_own:
            missing.append(NotCompared(state.name, column.name, _FOREIGN_UUIDS))
        else:
            columns.append(SketchedColumn(column.name, column.type))
            numbers.append(places.get(column.field_id, rows.get(column.field_id, 0)))
    sketches = stored.sketches if stored is not None else pack_sketches([])
    if sampled:
        sketches = joined_sketches(sketches, pack_sketches([*sampled.values()]))
    return TableSketches(state.name, tuple(columns), sketches.take(np.array(numbers, np.int64)), tuple(missing))


def _sampled(state: TableState, freshness: Mapping[str, Freshness]) -> dict[int, CompactSketch]:
    """The sketches of fresh columns for which the statistics file of the current snapshot has no blob."""
    snapshot = state.metadata.current_snapshot()
    file = state.statistics_file(snapshot.snapshot_id) if snapshot is not None else None
    published = {field_id for field_id, _ in column_blobs(file)} if file is not None else set()
    wanted = [
        column.field_id
        for column in leaves(state.schema)
        if freshness[column.name].is_fresh and column.field_id not in published
    ]
    if not wanted:
        return {}
    groups = sample_of(state, snapshot).groups
    return {field_id: groups.sketch(field_id).compact for field_id in wanted if field_id in groups.columns}


@functools.cache
def shared_sketch_cache() -> SketchCache:
    """The cache of this process; see `BatchCache.from_environment`.

    Raises:
        SchemaError: A limit in the environment is not a number.
    """
    return SketchCache.from_environment("sketch", _MEMORY_BYTES, _DISK_BYTES)


def _stored(batch: pa.RecordBatch) -> StoredSketches:
    field_ids, snapshot_ids, thetas, hashes, own = batch.columns
    edges = hashes.offsets.to_numpy()
    packed = PackedSketches(thetas.to_numpy(), edges[:-1], edges[1:], hashes.values.to_numpy())
    is_ours = bool(len(own) and own[0].as_py())
    return StoredSketches(field_ids.to_numpy(), snapshot_ids.to_numpy(), packed, is_ours)


def _key(storage: Storage, file: StatisticsFile) -> str:
    """A digest that identifies a file."""
    version = version_of(storage, file.statistics_path)
    shaped_by = (_VERSION, file.statistics_path, file.file_size_in_bytes, version)
    return hashlib.sha256(repr(shaped_by).encode()).hexdigest()[:32]
