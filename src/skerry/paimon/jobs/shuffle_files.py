"""Shuffle files: rows for another writer, as Arrow batches with the bucket of every batch.

A task that does not own its buckets cannot write them: two writers of a bucket would give their records the same
sequence numbers, write a file each, and in dynamic buckets put one key into two buckets. It writes its rows to one
file, sorted by bucket, and the publisher reads the files of all tasks bucket by bucket. That takes the memory of one
bucket's batches, and returns the rows in the order of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skerry.storage import Storage

__all__ = ["Group", "ShuffleFile", "read_groups", "write_shuffle_file"]

_MAX_BUFFERED_BYTES: Final = 64 << 20
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")

Group = tuple[bytes, int]
"""Partition and bucket."""


@dataclass(frozen=True, slots=True)
class ShuffleFile:
    """A shuffle file; picklable.

    Args:
        location: An Arrow file.
        groups: The batches of each bucket, by partition and bucket.
        row_count: Rows in it.
    """

    location: str
    groups: tuple[tuple[Group, tuple[int, ...]], ...]
    row_count: int


def write_shuffle_file(
    storage: Storage,
    location: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    split: Callable[[pa.RecordBatch], Iterable[tuple[Group, pa.RecordBatch]]],
) -> ShuffleFile:
    """Write rows; if that fails, the file is removed.

    Args:
        storage: Access to the file.
        location: The file.
        schema: The columns.
        batches: The rows.
        split: Splits a batch by bucket.
    """
    buffered: dict[Group, list[pa.RecordBatch]] = {}
    written: dict[Group, list[int]] = {}
    size = count = rows = 0
    with storage.open_output(location) as sink, pa.ipc.new_file(sink, schema, options=_OPTIONS) as writer:

        def flush() -> None:
            nonlocal count
            for group, parts in buffered.items():
                writer.write_batch(pa.concat_batches(parts))
                written.setdefault(group, []).append(count)
                count += 1
            buffered.clear()

        for batch in batches:
            rows += batch.num_rows
            for group, part in split(batch) if batch.num_rows else ():
                buffered.setdefault(group, []).append(part)
                size += part.nbytes
            if size >= _MAX_BUFFERED_BYTES:
                flush()
                size = 0
        flush()
    return ShuffleFile(location, tuple((group, tuple(numbers)) for group, numbers in written.items()), rows)


def read_groups(storage: Storage, files: Sequence[ShuffleFile]) -> Iterator[tuple[Group, Iterator[pa.RecordBatch]]]:
    """Read the rows of all files bucket by bucket, each bucket's in the order of the files.

    A bucket's batches must be consumed before the next bucket is requested.
    """
    by_group: dict[Group, list[tuple[int, tuple[int, ...]]]] = {}
    for number, file in enumerate(files):
        for group, batches in file.groups:
            by_group.setdefault(group, []).append((number, batches))
    with ExitStack() as stack:
        opened: dict[int, pa.ipc.RecordBatchFileReader] = {}

        def reader(number: int) -> pa.ipc.RecordBatchFileReader:
            if number not in opened:
                source = stack.enter_context(storage.open_input(files[number].location))
                opened[number] = pa.ipc.open_file(source)
            return opened[number]

        def rows(group: Group) -> Iterator[pa.RecordBatch]:
            for number, batches in by_group[group]:
                for batch in batches:
                    yield reader(number).get_batch(batch)

        for group in sorted(by_group):
            yield group, rows(group)
