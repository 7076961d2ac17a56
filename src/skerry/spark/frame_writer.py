"""Writing frames and streams through Python workers: tasks write and sketch, the driver publishes once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from skerry.errors import SkerryError
from skerry.iceberg.layout import FileLayout
from skerry.iceberg.operations import StreamBatch
from skerry.jobs.publish import Publication, Share, publish, remove_shares, write_share
from skerry.spark.source_options import SourceOptions
from skerry.spark.tables import iceberg_table
from skerry.storage import join

__all__ = ["FrameWriter", "StreamWriter"]

_BATCH = "streaming.sql.batchId"


@dataclass(frozen=True)
class _Written(WriterCommitMessage):  # type: ignore[misc]
    """What a task has written."""

    share: Share


def _shares(messages: list[WriterCommitMessage | None]) -> list[Share]:
    return [message.share for message in messages if message is not None]


def _abort(layout: FileLayout, messages: list[WriterCommitMessage | None]) -> None:
    """Remove what the tasks have written, if one of them failed.

    Spark aborts after a failed commit too, in a process that cannot know whether its outcome was unknown. Then every
    task has a message, and `publish` has removed the files already if that was safe.
    """
    if any(message is None for message in messages):
        storage, folder = layout.storage, layout.folder
        storage.delete([status.location for status in storage.list(folder)])


def _publish(
    options: SourceOptions,
    layout: FileLayout,
    messages: list[WriterCommitMessage | None],
    publication: Publication,
    batch: StreamBatch | None = None,
) -> None:
    shares = _shares(messages)
    try:
        table = iceberg_table(options.load())
    except SkerryError:  # provably not committed
        remove_shares(layout, shares)
        raise
    publish(table, layout, shares, publication, batch=batch)


class FrameWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a frame.

    Args:
        options: What the caller said.
        layout: How the table wants its files; they share a folder that no other write uses.
        publication: How rows are published.
    """

    def __init__(self, options: SourceOptions, layout: FileLayout, publication: Publication) -> None:
        self._options = options
        self._layout = layout
        self._publication = publication

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's share of the rows."""
        return _Written(write_share(self._layout, self._publication.mode, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what all tasks have written, with the table's statistics, as one snapshot."""
        _publish(self._options, self._layout, messages, self._publication)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what is not committed."""
        _abort(self._layout, messages)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes a stream: each batch is committed once, however often Spark sends it.

    Args:
        options: What the caller said.
        layout: How the table wants its files; those of a batch share a folder.
        publication: How rows are published.
        stream: What names the stream, the same after a restart.
    """

    def __init__(self, options: SourceOptions, layout: FileLayout, publication: Publication, stream: str) -> None:
        self._options = options
        self._layout = layout
        self._publication = publication
        self._stream = stream

    def _of_batch(self, number: int | str) -> FileLayout:
        return dataclasses.replace(self._layout, folder=join(self._layout.folder, f"batch-{number}"))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's share of a batch's rows."""
        context = TaskContext.get()
        number = context.getLocalProperty(_BATCH) if context is not None else None
        layout = self._of_batch(number if number is not None else "rows")
        return _Written(write_share(layout, self._publication.mode, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a batch, unless the table has it."""
        batch = StreamBatch(self._stream, batchId)
        _publish(self._options, self._of_batch(batchId), messages, self._publication, batch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what is not committed of a batch."""
        _abort(self._of_batch(batchId), messages)
