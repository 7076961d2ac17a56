"""Rows that wait for their buckets (`bucket=-2`): what appends have left is put into buckets, partition by partition.

Spec: docs/formats/paimon.md § 7.7.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from skerry.paimon.change_request import ChangeRequest, redo_after_conflicts
from skerry.paimon.jobs.append import commit_rows, known_buckets
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.table_writers import KIND_COLUMN, WrittenRows, write_rows

__all__ = ["place_before", "place_waiting"]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The rows of a partition that wait; picklable.

    Args:
        entries: Their files, the oldest first.
        bucket_states: The buckets of the partition.
    """

    entries: tuple[ManifestEntry, ...]
    bucket_states: BucketStates


def place_waiting(
    request: ChangeRequest,
    state: PaimonState,
    choose: Callable[[Collection[bytes]], Collection[bytes]] | None = None,
) -> PaimonState:
    """Put the rows that wait into buckets, in a commit of its own; nothing is done where none wait.

    They become files of level 0, in the order in which they were written and newer than what the buckets have.

    Args:
        request: The branch, and where tasks run.
        state: Its newest state.
        choose: Which of the partitions; all of them if None.

    Returns:
        The state after it.

    Raises:
        ConflictError: Others kept placing the same rows.
    """
    if state.options.bucket != POSTPONE_BUCKET:
        return state
    plain = replace(request, commit_id=None, properties={}, watermark=None)
    return redo_after_conflicts(plain, functools.partial(_place, plain, choose))


def place_before(request: ChangeRequest, *, appends: bool = False) -> None:
    """Put the rows that wait into buckets before others are written, unless these will wait behind them."""
    state = request.target.load()
    if not (appends and state.options.postpone_waits):
        place_waiting(request, state)


def _place(
    request: ChangeRequest, choose: Callable[[Collection[bytes]], Collection[bytes]] | None, state: PaimonState
) -> PaimonState:
    layout = WriteLayout.of(state)
    bucket_states, _ = known_buckets(request, state, layout)
    if not bucket_states.has_waiting:
        return state
    files: dict[bytes, list[ManifestEntry]] = {}
    for entry in live_entries(state):
        if entry.bucket == POSTPONE_BUCKET:
            files.setdefault(entry.partition, []).append(entry)
    chosen = list(files) if choose is None else [partition for partition in choose(list(files)) if partition in files]
    if not chosen:
        return state
    tasks = [_Waiting(tuple(files[partition]), bucket_states.of_partition(partition)) for partition in chosen]
    with layout.owned_files() as owned:
        parts = list(owned.map(request.executor, functools.partial(_placed, state, layout), tasks))
        written = WrittenRows(tuple(file for part in parts for file in part.files))
        entries = [entry for task in tasks for entry in task.entries]
        return commit_rows(request, layout, written, bucket_states, None, replaces=entries)


def _placed(state: PaimonState, layout: WriteLayout, task: _Waiting) -> WrittenRows:
    """Write the rows of a partition to its buckets."""
    reader = SplitReader(state, state.arrow_schema, memory_bytes=state.options.merge_memory_bytes)
    split = FileSplits(state, layout, {}).raw(task.entries)

    def batches() -> Iterator[pa.RecordBatch]:
        for records in reader.records([split]):
            yield records.values.append_column(KIND_COLUMN, pa.array(records.kinds))

    return write_rows(layout, batches(), task.bucket_states, None)
