"""Writers of frames and streams in Python workers: tasks write and sketch, the driver publishes once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from skerry.spark.data_source.options import SourceOptions
from skerry.table.connector.connector import TableWrite
from skerry.table.stream_batch import StreamBatch

__all__ = ["FrameWriter", "StreamWriter"]

_LOG = logging.getLogger(__name__)
_BATCH, _QUERY = "streaming.sql.batchId", "sql.streaming.queryId"


@dataclass(frozen=True)
class _Written(WriterCommitMessage):  # type: ignore[misc]
    """The message of a task: what it wrote, and for which query, as the committing process does not know it."""

    share: Any
    query: str | None = None


def _local_property(property: str) -> str | None:
    """A property that Spark passes to the tasks of a query."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(property)


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
    written = [message for message in messages if message is not None]
    shares = [message.share for message in written]
    if batch is not None and batch.query is None:
        batch = replace(batch, query=next((message.query for message in written), None))
    with write.owned(shares):
        is_new = write.publish(options.connector(), shares, batch)
    if batch is not None and not is_new:
        _LOG.warning("batch %d of stream %r is already in the table: nothing was written", batch.number, batch.stream)


class FrameWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a frame.

    Args:
        options: The caller's options.
        write: The table format's write.
        batch: The batch of a stream that the frame is, if any; committed only once.
    """

    def __init__(self, options: SourceOptions, write: TableWrite, batch: StreamBatch | None) -> None:
        self._options = options
        self._write = write
        self._batch = batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's share of the rows."""
        return _Written(self._write.share(iterator), _local_property(_QUERY))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what all tasks have written, with the table's statistics, in one snapshot."""
        _publish(self._options, self._write, messages, self._batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what is not committed."""
        _abort(self._write, messages)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes a stream: each batch is committed once, however often Spark repeats it.

    Args:
        options: The caller's options.
        write: The table format's write.
        stream: The stream's name, the same after a restart.
    """

    def __init__(self, options: SourceOptions, write: TableWrite, stream: str) -> None:
        self._options = options
        self._write = write
        self._stream = stream

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's share of a batch's rows."""
        share = self._write.of_batch(_local_property(_BATCH) or "rows").share(iterator)
        return _Written(share, _local_property(_QUERY))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a batch, unless the table already has it."""
        batch = StreamBatch(self._stream, batchId, takes_over=self._options.takes_over)
        _publish(self._options, self._write.of_batch(batchId), messages, batch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what was written for a batch and not committed."""
        _abort(self._write.of_batch(batchId), messages)
