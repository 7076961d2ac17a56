"""Analyze: sketch the rows that a table has, and publish the sketches for the snapshot that holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.iceberg.files import refuse_deletes
from skerry.iceberg.table import IcebergTable
from skerry.jobs.executor import Executor, Progress, ThreadExecutor, Watcher
from skerry.storage import Storage
from skerry.table.schema import leaf
from skerry.table.sketching import sketch_parquet
from skerry.table.statistics import SketchPolicy
from skerry.theta import Sample

__all__ = ["AnalyzeSummary", "SketchTask", "analyze", "sketch_file"]


@dataclass(frozen=True, slots=True)
class SketchTask:
    """Sketch one data file.

    Args:
        location: The file.
        file_size_bytes: Its size.
        schema_ipc: The table's schema as Arrow IPC.
        field_ids: The columns.
        storage_options: Options of the storage; never printed.
    """

    location: str
    file_size_bytes: int
    schema_ipc: bytes
    field_ids: tuple[int, ...]
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class AnalyzeSummary:
    """What an analyze did.

    Args:
        snapshot_id: The snapshot that was described, None for a table without rows.
        columns: Columns sketched.
        files: Files read.
        rows: Rows in them.
    """

    snapshot_id: int | None
    columns: int
    files: int
    rows: int


def analyze(
    table: IcebergTable,
    columns: Sequence[str] | None = None,
    *,
    executor: Executor | None = None,
    watcher: Watcher | None = None,
) -> AnalyzeSummary:
    """Sketch all rows of the table's current snapshot and publish the sketches for it.

    Rows that other writers add meanwhile belong to later snapshots and are not claimed.

    Args:
        table: The table; refreshed first.
        columns: Dotted names; those that the table's properties choose if None.
        executor: Where to sketch; threads of this process by default.
        watcher: Called after every file.

    Raises:
        SchemaError: A column is unknown; the message proposes the nearest.
        UnsupportedError: The snapshot has row-level deletes, or data files that are not Parquet.
    """
    state = table.refresh()
    snapshot = state.snapshot()
    if columns is None:
        chosen = SketchPolicy.from_properties(state.properties).columns(state.schema, created=True)
    else:
        chosen = [leaf(state.schema, name) for name in columns]
    if snapshot is None or not chosen:
        return AnalyzeSummary(snapshot.snapshot_id if snapshot is not None else None, 0, 0, 0)
    refuse_deletes(state, snapshot)
    files = table.data_files(snapshot)
    other = next((file for file in files if file.file_format.lower() != "parquet"), None)
    if other is not None:
        raise UnsupportedError(f"{other.file_format} files cannot be sketched yet", location=other.location)
    tasks = [
        SketchTask(
            file.location,
            file.file_size_bytes,
            state.schema.serialize().to_pybytes(),
            tuple(found.field_id for found in chosen),
            dict(state.storage.options),
        )
        for file in files
    ]
    samples: dict[int, Sample] = {found.field_id: Sample() for found in chosen}
    rows = size = 0
    for number, (file, sampled) in enumerate(
        zip(files, (executor or ThreadExecutor()).map(sketch_file, tasks), strict=True), 1
    ):
        for field_id, sample in samples.items():
            sample.merge(Sample.deserialize(sampled[field_id]))
        rows += file.record_count
        size += file.file_size_bytes
        if watcher is not None:
            watcher(Progress("sketch", number, len(files), rows, size))
    table.publish_sketches(snapshot.snapshot_id, {field_id: sample.to_sketch() for field_id, sample in samples.items()})
    return AnalyzeSummary(snapshot.snapshot_id, len(chosen), len(files), rows)


def sketch_file(task: SketchTask) -> dict[int, bytes]:
    """Sample the columns of one data file; serialised samples by field id."""
    schema = pa.ipc.read_schema(pa.py_buffer(task.schema_ipc))
    storage = Storage(task.storage_options)
    sketched = sketch_parquet(
        storage, task.location, schema, task.field_ids, file_size=task.file_size_bytes, count_nans=False
    )
    return {field_id: sample.serialize() for field_id, sample in sketched.samples.items()}
