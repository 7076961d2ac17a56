"""Analyze: sketch the rows that a table has, and publish the sketches for the snapshot that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skerry.iceberg.scan import scan
from skerry.iceberg.table import IcebergTable
from skerry.jobs.executor import Executor, Progress, ThreadExecutor, Watcher
from skerry.parquet import read_metadata
from skerry.table.row_reader import RowReader
from skerry.table.scan import FileScanTask
from skerry.table.schema import leaf
from skerry.table.sketching import BatchSketcher, sketch_parquet
from skerry.table.statistics import SketchPolicy
from skerry.theta import Sample

__all__ = ["AnalyzeSummary", "SketchTask", "analyze", "sketch_file"]


@dataclass(frozen=True)
class SketchTask:
    """Sketch one data file; small and picklable.

    Args:
        file: The file, with its deletes.
        reader: Reads its rows.
        field_ids: The columns.
    """

    file: FileScanTask
    reader: RowReader
    field_ids: tuple[int, ...]


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
        UnsupportedError: A file is encrypted, or uses what is not read.
    """
    state = table.refresh()
    snapshot = state.snapshot()
    if columns is None:
        chosen = SketchPolicy.from_properties(state.properties).columns(state.schema, created=True)
    else:
        chosen = [leaf(state.schema, name) for name in columns]
    if snapshot is None or not chosen:
        return AnalyzeSummary(snapshot.snapshot_id if snapshot is not None else None, 0, 0, 0)
    rows_of = scan(state, [found.name for found in chosen], threads=1)
    files, reader = rows_of.plan(), rows_of.row_reader()
    field_ids = tuple(found.field_id for found in chosen)
    tasks = [SketchTask(file, reader, field_ids) for file in files]
    samples: dict[int, Sample] = {found.field_id: Sample() for found in chosen}
    rows = size = 0
    for number, (file, sampled) in enumerate(
        zip(files, (executor or ThreadExecutor()).map(sketch_file, tasks), strict=True), 1
    ):
        for field_id, sample in samples.items():
            sample.merge(Sample.deserialize(sampled[field_id]))
        rows += file.data_file.record_count
        size += file.data_file.file_size_bytes
        if watcher is not None:
            watcher(Progress("sketch", number, len(files), rows, size))
    table.publish_sketches(snapshot.snapshot_id, {field_id: sample.to_sketch() for field_id, sample in samples.items()})
    return AnalyzeSummary(snapshot.snapshot_id, len(chosen), len(files), rows)


def sketch_file(task: SketchTask) -> dict[int, bytes]:
    """Sample the columns of one data file; serialised samples by field id.

    What the file itself knows is enough where all of its rows are alive and it has all the columns; else its rows are
    read as a scan reads them.
    """
    file, reader = task.file.data_file, task.reader
    if file.file_format == "parquet" and not task.file.deletes:
        metadata = read_metadata(reader.storage, file.location, file_size=file.file_size_bytes)
        stored = {column.field_id for column in metadata.columns}
        if not any(field_id in task.file.constants and field_id not in stored for field_id in task.field_ids):
            found = sketch_parquet(
                reader.storage, file.location, reader.schema, task.field_ids, metadata=metadata, count_nans=False
            )
            return {field_id: sample.serialize() for field_id, sample in found.samples.items()}
    sketcher = BatchSketcher(reader.schema, task.field_ids)
    for batch in reader.batches([task.file]):
        sketcher.update(batch)
    return {field_id: sample.serialize() for field_id, sample in sketcher.samples.items()}
