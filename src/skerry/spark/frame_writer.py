"""Writing frames and streams through Python workers: tasks write and sketch, the driver publishes once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from skerry.jobs.exchange import TableWrite
from skerry.spark.source_options import SourceOptions
from skerry.table.stream_batch import StreamBatch

__all__ = ["FrameWriter", "StreamWriter"]

_BATCH = "streaming.sql.batchId"


@dataclass(frozen=True)
class _Written(WriterCommitMessage):  # type: ignore[misc]
    """What a task has written."""

    share: Any


def _abort(write: TableWrite, messages: list[WriterCommitMessage | None]) -> None:
    """Remove what the tasks have written, if one of them failed.

    Spark aborts after a failed commit too, in a process that cannot know whether its outcome was unknown. Then every
    task has a message, and `publish` has removed the files already if that was safe.
    """
    if any(message is None for message in messages):
        write.abort()


def _publish(
    options: SourceOptions,
    write: TableWrite,
    messages: list[WriterCommitMessage | None],
    batch: StreamBatch | None = None,
) -> None:
    shares = [message.share for message in messages if message is not None]
    with write.owned(shares):
        write.publish(options.load().implementation, shares, batch)


class FrameWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a frame.

    Args:
        options: What the caller said.
        write: What the table's format makes of it.
    """

    def __init__(self, options: SourceOptions, write: TableWrite) -> None:
        self._options = options
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's share of the rows."""
        return _Written(self._write.share(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what all tasks have written, with the table's statistics, as one snapshot."""
        _publish(self._options, self._write, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what is not committed."""
        _abort(self._write, messages)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes a stream: each batch is committed once, however often Spark sends it.

    Args:
        options: What the caller said.
        write: What the table's format makes of it.
        stream: What names the stream, the same after a restart.
    """

    def __init__(self, options: SourceOptions, write: TableWrite, stream: str) -> None:
        self._options = options
        self._write = write
        self._stream = stream

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's share of a batch's rows."""
        context = TaskContext.get()
        number = context.getLocalProperty(_BATCH) if context is not None else None
        return _Written(self._write.of_batch(number if number is not None else "rows").share(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a batch, unless the table has it."""
        batch = StreamBatch(self._stream, batchId)
        _publish(self._options, self._write.of_batch(batchId), messages, batch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what is not committed of a batch."""
        _abort(self._write.of_batch(batchId), messages)
