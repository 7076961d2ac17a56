"""A table as a source of Spark's structured streaming."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from skerry.errors import FormatError, UnsupportedError
from skerry.spark.data_source.options import SourceOptions
from skerry.spark.outgoing import for_spark
from skerry.storage import join, name
from skerry.table.connector.stream_choice import StreamChoice, StreamTask, TableOffset, TableStream
from skerry.table.history import MAIN
from skerry.table.rows.changes import CHANGE_COLUMNS
from skerry.table.selection import asks_for_value

__all__ = ["StreamReader", "table_stream"]


def table_stream(options: SourceOptions, columns: Sequence[str] | None = None) -> TableStream:
    """The stream described by options.

    Args:
        options: The options.
        columns: The columns of the caller's schema, if known.

    Raises:
        UnsupportedError: The options select values inside of variants.
    """
    table = options.load()
    if any(asks_for_value(table.schema, column) for column in options.columns or ()):
        raise UnsupportedError("a stream delivers columns of variants whole: use Spark's try_variant_get on its frame")
    chosen = columns if columns is not None else options.columns
    if chosen is not None and options.tells_changes:
        chosen = [column for column in chosen if column not in CHANGE_COLUMNS.names]
    return table.connector().stream(
        StreamChoice(
            None if chosen is None else tuple(chosen),
            options.where,
            options.ref or MAIN,
            options.tells_changes,
            options.on,
            options.start,
            options.skips_changes,
            options.limits,
            options.consumer,
        )
    )


class _Share(InputPartition):  # type: ignore[misc]
    """What one task reads, pickled."""

    def __init__(self, task: StreamTask | None) -> None:
        super().__init__(pickle.dumps(task))


class StreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reports a table's offsets to Spark, and reads the rows between two of them.

    Spark does not say where the next batch begins when it asks where it ends. The reader remembers that; after a
    restart it looks it up in the checkpoint if it knows the location, otherwise the first batch has no limits.

    Args:
        options: The caller's options.
        columns: The columns of the caller's schema.
    """

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._last: TableOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state for tasks: without the table, which stays in the planning process."""
        return {"_options": self._options, "_columns": self._columns, "_last": None}

    @cached_property
    def _source(self) -> TableStream:
        return table_stream(self._options, self._columns)

    @cached_property
    def _initial(self) -> TableOffset:
        return self._source.initial()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The start of a new stream; Spark asks for it after the end of the first batch."""
        return self._initial.encode()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch."""
        initial = self._initial
        if self._last is None and self._options.checkpoint is not None:
            self._last = self._find_last(self._options.checkpoint) or initial
        return self._source.latest(self._last).encode()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Tasks that read the rows between two offsets; an empty one if there are none."""
        source = self._source
        begin, self._last = source.decode(start), source.decode(end)
        source.hold(begin, self._last)
        return [_Share(task) for task in source.plan(begin, self._last)] or [_Share(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        task: StreamTask | None = pickle.loads(partition.value)
        if task is not None:
            yield from for_spark(task.batches())

    def commit(self, end: dict[str, Any]) -> None:
        """Everything before an offset was processed."""
        self._source.commit(self._source.decode(end))

    def stop(self) -> None:
        """Do nothing: no resource is open."""

    def _find_last(self, checkpoint: str) -> TableOffset | None:
        """The end of the last batch that Spark planned, from the checkpoint's log of offsets."""
        source = self._source
        storage = source.storage
        logs = [status.location for status in storage.list_folder(join(checkpoint, "offsets")).files]
        numbered = {int(name(location)): location for location in logs if name(location).isdecimal()}
        if not numbered:
            return None
        for line in storage.read(numbered[max(numbered)]).decode(errors="replace").splitlines():
            try:
                offset = source.decode(json.loads(line))
            except (ValueError, AttributeError, FormatError):
                continue  # the version, Spark's own record, or another source
            if offset.table == source.identity:
                return offset
        return None
