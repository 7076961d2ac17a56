"""Sampling of the live rows of data files, and which files need it when rows of some are deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from skerry.iceberg.jobs.rewrite import FileChange
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.reading.scan import scan
from skerry.iceberg.statistics.row_deletes import RowDeletePolicy
from skerry.iceberg.statistics.samples import read_sample
from skerry.parquet import read_metadata
from skerry.table.files.evolution import TableNames
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.file_groups import SketchedFile, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.row_sampling import sample_file
from skerry.table.statistics.sketching import BatchSketcher, sketch_parquet
from skerry.table.statistics.table_sample import sketched_file
from skerry.table.work.tasks import Executor
from skerry.theta import Sample

__all__ = ["FileSample", "SketchTask", "sample_again", "samples_to_follow", "sketch_file"]

POSITION = "_pos"


@dataclass(frozen=True)
class SketchTask:
    """Sample one data file; small and picklable.

    Args:
        file: The file, with its deletes.
        reader: Reads its rows, with `_pos` as the last column if `gone` is given.
        field_ids: The columns.
        gone: int64[n], positions of rows to leave out in addition to those already deleted.
        samples_rows: Whether rows are sampled too.
        reads_all: Whether they are sampled even if all of the file must be read again for them.
    """

    file: FileScanTask
    reader: RowReader
    field_ids: tuple[int, ...]
    gone: npt.NDArray[np.int64] | None = None
    samples_rows: bool = True
    reads_all: bool = False


@dataclass(frozen=True, slots=True)
class FileSample:
    """The samples of a file.

    Args:
        row_count: The number of live rows.
        samples: By field id; a sample is small and picklable.
        rows: Some of the live rows; None if none were sampled.
    """

    row_count: int
    samples: dict[int, Sample]
    rows: RowSample | None = None


def sketch_file(task: SketchTask) -> FileSample:
    """Sample the columns of one data file.

    The file is sketched directly if all of its rows are alive and it has all the columns; otherwise its rows are read
    as a scan reads them.
    """
    file, reader = task.file.data_file, task.reader
    if file.file_format == "parquet" and not task.file.deletes and task.gone is None:
        metadata = read_metadata(reader.storage, file.location, file_size=file.file_size_bytes)
        stored = {column.field_id for column in metadata.columns}
        by_name = any(stored) or not isinstance(reader.names, TableNames)  # if it has no ids; otherwise by position
        lacking = any(field_id in task.file.constants and field_id not in stored for field_id in task.field_ids)
        if by_name and not lacking:
            found = sketch_parquet(
                reader.storage, file.location, reader.schema, task.field_ids, metadata=metadata, count_nans=False
            )
            footer = None if task.reads_all else metadata
            chosen = sample_file(reader, task.file, task.field_ids, footer) if task.samples_rows else None
            return FileSample(
                file.record_count,
                {key: sample.release() for key, sample in found.samples.items()},
                chosen,
            )
    sketcher = BatchSketcher(reader.schema, task.field_ids, samples_rows=task.samples_rows, is_whole=False)
    rows = 0
    for batch in reader.batches([task.file]):
        if task.gone is not None:
            is_gone = np.isin(batch.column(batch.num_columns - 1).to_numpy(), task.gone, assume_unique=True)
            batch = batch.filter(~is_gone) if is_gone.any() else batch
        rows += batch.num_rows
        sketcher.update(batch)
    return FileSample(
        rows,
        {field_id: sample.release() for field_id, sample in sketcher.samples.items()},
        sketcher.row_sample(),
    )


def samples_to_follow(state: TableState, ref: str) -> GroupSamples | None:
    """The samples of a branch that a row change must update; None if nothing is to be read for that."""
    snapshot = state.snapshot(ref)
    enabled = SketchPolicy.from_properties(state.properties).enabled
    if snapshot is None or RowDeletePolicy.from_properties(state.properties) is RowDeletePolicy.UPPER_BOUND:
        return None
    known = read_sample(state, snapshot) if enabled else None
    return known.groups if known is not None and known.groups.columns else None


def sample_again(
    executor: Executor,
    state: TableState,
    ref: str,
    groups: GroupSamples,
    touched: Mapping[int, FileChange],
    removed: Sequence[str],
    deletes: Mapping[int, int],
) -> tuple[SketchedFile, ...]:
    """Sample the remaining rows of files whose group would no longer be exact after a change.

    Only groups that are exact now, or all of whose files are touched, are worth it: the others are left unchanged.

    Args:
        executor: Runs the tasks that read files.
        state: The state on which the change is based.
        ref: The branch.
        groups: The samples of its files.
        touched: The files that lose rows and stay, by key of their location.
        removed: The removed files.
        deletes: By key of the location, the key of the deletes that apply after the change.
    """
    files = groups.files
    left = groups.with_columns(()).without_files(removed).with_deletes(deletes)
    wanted = _files_to_sample(groups, left, set(touched))
    if not wanted:
        return ()
    tasks = {key: change.whole for key, change in touched.items() if key in wanted}
    if len(tasks) < len(wanted):
        planned = scan(state, ref=ref).plan()
        tasks |= {key: task for task in planned if (key := key_of(task.data_file.location)) in wanted - tasks.keys()}
    columns = [leaf for leaf in leaves(state.schema) if leaf.field_id in groups.columns]
    todo = _tasks(state, ref, tasks, touched, columns)
    found = executor.map(sketch_file, todo)
    return tuple(
        sketched_file(
            task.file.data_file,
            sampled.samples,
            row_count=sampled.row_count,
            deletes=deletes.get(key := key_of(task.file.data_file.location), files[key]),
            rows=sampled.rows,
        )
        for task, sampled in zip(todo, found, strict=True)
    )


def _files_to_sample(before: GroupSamples, after: GroupSamples, touched: set[int]) -> set[int]:
    was_exact = {file for group in before.groups if group.exact for file in group.files}
    return {
        file
        for group in after.groups
        if not group.exact and (group.files.keys() <= was_exact or group.files.keys() <= touched)
        for file in group.files
    }


def _tasks(
    state: TableState,
    ref: str,
    files: Mapping[int, FileScanTask],
    touched: Mapping[int, FileChange],
    columns: Sequence[Leaf],
) -> list[SketchTask]:
    names = [leaf.name for leaf in columns]
    field_ids = tuple(leaf.field_id for leaf in columns)
    plain = scan(state, names, ref=ref, threads=1).row_reader()
    numbered = scan(state, [*names, POSITION], ref=ref, threads=1).row_reader()
    return [
        SketchTask(task, numbered, field_ids, touched[key].matches.positions)
        if key in touched
        else SketchTask(replace(task, start_byte=0, end_byte=None), plain, field_ids)
        for key, task in files.items()
    ]
