"""Rows of Parquet data files in a table's schema: columns found by field id, row groups skipped by their statistics.

A file is read row group by row group, each by a thread of its own: on two cores that is 1.4 times as fast as PyArrow's
threads over columns. Row groups are read ahead in order, as far as a memory budget allows.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.storage import Storage
from skerry.table.evolution import (
    NameMapping,
    column_positions,
    count_leaves,
    has_ids,
    plan_conversion,
    wanted_leaves,
    with_ids,
)
from skerry.table.parquet_statistics import bound_of
from skerry.table.predicate import ALWAYS_TRUE, Column, FieldMetrics, Predicate, Verdict, evaluate, row_mask
from skerry.table.predicate.arrow import arrow_storage
from skerry.table.scan import FileScanTask

__all__ = ["RowReader", "default_threads"]

_BATCH_ROWS = 1 << 17
# Decoded row groups that may wait for the consumer, by their uncompressed size in the file.
_BUDGET_BYTES = 256 << 20

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class _OpenFile:
    """A file whose footer is read: its columns that are wanted, by path."""

    task: FileScanTask
    source: Any
    metadata: pq.FileMetaData
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """A row group to read."""

    file: _OpenFile
    index: int
    row_count: int
    size_bytes: int
    matches_all: bool


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of data files that a predicate keeps.

    Args:
        storage: Access to the files.
        schema: The columns to deliver, in the table's types and with field ids.
        read_schema: The columns to read for that: those of `schema` and those of the predicate, with the table's names.
        predicate: Which rows.
        names: Field ids by name, for files without ids; None refuses such files.
        threads: How many row groups are read at a time.
    """

    storage: Storage
    schema: pa.Schema
    read_schema: pa.Schema
    predicate: Predicate = ALWAYS_TRUE
    names: NameMapping | None = None
    threads: int = 1

    def batches(self, tasks: Iterable[FileScanTask], *, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Read files in order.

        Args:
            tasks: The files.
            limit: Stop after so many rows.

        Yields:
            Batches of `schema` with at least one row, in the order of the files and of the rows in them.

        Raises:
            FormatError: A file is corrupt.
            NotFoundError: A file is missing.
            SchemaError: A file's columns do not fit the table's schema.
            UnsupportedError: A file is not Parquet, or uses what PyArrow does not read.
        """
        if limit == 0:
            return
        left = limit
        select = plan_conversion(self.read_schema, self.schema)
        with self._pool() as pool:
            groups = self._row_groups(pool, tasks, limit)
            for found in _ahead(pool, lambda group: self._read(group, limit), groups, _size_of, _BUDGET_BYTES):
                for batch in found:
                    yield select(batch if left is None else batch.slice(0, left))
                    left = None if left is None else left - batch.num_rows
                    if left is not None and left <= 0:
                        return

    def count(self, tasks: Iterable[FileScanTask]) -> int:
        """Count the rows of files; columns are read only of row groups whose statistics leave it open."""
        with self._pool() as pool:
            return sum(_ahead(pool, self._count, self._row_groups(pool, tasks, None), _size_of, _BUDGET_BYTES))

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="skerry-scan")
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    # ---- files ----

    def _row_groups(
        self, pool: ThreadPoolExecutor, tasks: Iterable[FileScanTask], limit: int | None
    ) -> Iterator[_RowGroup]:
        """Row groups that may have wanted rows; no more of them than certainly fill the limit."""
        certain = 0
        for groups in _ahead(pool, self._open, tasks, lambda _: 1, 2 * self.threads):
            for group in groups:
                yield group
                certain += group.row_count * group.matches_all
                if limit is not None and certain >= limit:
                    return

    def _open(self, task: FileScanTask) -> list[_RowGroup]:
        file = task.data_file
        if file.file_format != "parquet":
            raise UnsupportedError(f"reading {file.file_format} files is not supported", location=file.location)
        if task.deletes:
            raise UnsupportedError("row-level deletes are not read yet", location=file.location)
        with _errors(file.location):
            source = self.storage.arrow_file(file.location)
            parquet = pq.ParquetFile(source)
            metadata, schema = parquet.metadata, parquet.schema_arrow
        if metadata.num_rows != file.record_count:
            raise FormatError(
                f"the file has {metadata.num_rows} rows, the table's metadata says {file.record_count}",
                location=file.location,
            )
        if count_leaves(schema) != metadata.num_columns:
            raise UnsupportedError(
                f"the file has {metadata.num_columns} columns, {count_leaves(schema)} of them understood",
                location=file.location,
            )
        schema = self._with_ids(schema, file.location)
        leaves = wanted_leaves(schema, self.read_schema)
        opened = _OpenFile(task, source, metadata, tuple(metadata.schema.column(leaf).path for leaf in leaves))
        verdict = self._judge(task, metadata, schema)
        groups = []
        for index in np.flatnonzero(verdict.may).tolist():
            group = metadata.row_group(index)
            size_bytes = sum(group.column(leaf).total_uncompressed_size for leaf in leaves)
            groups.append(_RowGroup(opened, index, group.num_rows, size_bytes, bool(verdict.must[index])))
        return groups

    def _with_ids(self, schema: pa.Schema, location: str) -> pa.Schema:
        if has_ids(schema):
            return schema
        if self.names is None:
            raise SchemaError(
                "the file has no field ids, and the table has no schema.name-mapping.default", location=location
            )
        return with_ids(schema, self.names)

    def _judge(self, task: FileScanTask, metadata: pq.FileMetaData, schema: pa.Schema) -> Verdict:
        """What the statistics of the row groups say about the predicate."""
        count = metadata.num_row_groups
        if task.matches_all:
            return Verdict(np.full(count, True), np.full(count, True))
        positions = column_positions(schema)

        def metrics(column: Column) -> FieldMetrics | None:
            if column.field_id not in positions:
                return None
            return _statistics(metadata, positions[column.field_id], column)

        return evaluate(self.predicate, metrics, count)

    # ---- row groups ----

    def _read(self, group: _RowGroup, limit: int | None) -> list[pa.RecordBatch]:
        batches, rows = [], 0
        for batch in self._filtered(group, _BATCH_ROWS if limit is None else min(limit, _BATCH_ROWS)):
            batches.append(batch)
            rows += batch.num_rows
            if limit is not None and rows >= limit:
                break
        return batches

    def _count(self, group: _RowGroup) -> int:
        if group.matches_all:
            return group.row_count
        return sum(batch.num_rows for batch in self._filtered(group, _BATCH_ROWS))

    def _filtered(self, group: _RowGroup, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The wanted rows of a row group in the read schema."""
        location = group.file.task.data_file.location
        for batch in self._converted(group, batch_rows, location):
            if not group.matches_all:
                batch = batch.filter(row_mask(self.predicate, batch))
            if batch.num_rows:
                yield batch

    def _converted(self, group: _RowGroup, batch_rows: int, location: str) -> Iterator[pa.RecordBatch]:
        convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
        with _errors(location):
            for batch in _stored_batches(group, batch_rows):
                if convert is None:
                    schema = (
                        batch.schema if has_ids(batch.schema) or not self.names else with_ids(batch.schema, self.names)
                    )
                    convert = plan_conversion(schema, self.read_schema, group.file.task.constants)
                yield convert(batch)


def _stored_batches(group: _RowGroup, batch_rows: int) -> Iterator[pa.RecordBatch]:
    if not group.file.paths:
        for start in range(0, group.row_count, batch_rows):
            yield pa.record_batch([pa.nulls(min(batch_rows, group.row_count - start))], names=["rows"])
        return
    source = group.file.source
    parquet = pq.ParquetFile(
        source,
        metadata=group.file.metadata,
        coerce_int96_timestamp_unit="us",
        pre_buffer=not isinstance(source, pa.OSFile),  # one request for all columns of the row group
    )
    yield from parquet.iter_batches(
        batch_size=batch_rows, row_groups=[group.index], columns=list(group.file.paths), use_threads=False
    )


def _statistics(metadata: pq.FileMetaData, position: int, column: Column) -> FieldMetrics:
    """The statistics of one column over all row groups; Parquet counts no NaNs."""
    stored = metadata.schema.column(position)
    logical = json.loads(stored.logical_type.to_json())
    lower: list[Any] = []
    upper: list[Any] = []
    nulls, values = [], []
    for index in range(metadata.num_row_groups):
        chunk = metadata.row_group(index).column(position)
        statistics = chunk.statistics
        bounded = statistics is not None and statistics.has_min_max and chunk.physical_type != "INT96"
        for bounds, is_upper in ((lower, False), (upper, True)):
            raw = (statistics.max_raw if is_upper else statistics.min_raw) if bounded else None
            value = bound_of(column.type, raw, chunk.physical_type, logical, upper=is_upper) if bounded else None
            bounds.append(value)
        counted = statistics is not None and statistics.has_null_count
        nulls.append(statistics.null_count if counted else -1)
        values.append(chunk.num_values)
    storage = arrow_storage(column.type)
    unknown = np.full(len(values), -1, np.int64)
    return FieldMetrics(
        pa.array(lower, storage),
        pa.array(upper, storage),
        np.array(nulls, np.int64),
        unknown,
        np.array(values, np.int64),
    )


def _size_of(group: _RowGroup) -> int:
    return max(group.size_bytes, 1 << 16)


def _ahead(
    pool: ThreadPoolExecutor,
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    weight: Callable[[_Item], int],
    capacity: int,
) -> Iterator[_Result]:
    """Map in threads, in order, so far ahead of the consumer as the weights of what is under way allow."""
    under_way: deque[tuple[Future[_Result], int]] = deque()
    load = 0
    for item in items:
        under_way.append((pool.submit(function, item), weight(item)))
        load += under_way[-1][1]
        while load >= capacity:
            future, done = under_way.popleft()
            load -= done
            yield future.result()
    while under_way:
        yield under_way.popleft()[0].result()


@contextmanager
def _errors(location: str) -> Iterator[None]:
    """PyArrow's exceptions as ours."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"PyArrow does not read this file: {error}", location=location) from error
    except SchemaError as error:
        raise SchemaError(error.message, location=location) from error
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"the file is not Parquet, or corrupt: {error}", location=location) from error


def default_threads() -> int:
    """One thread per core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
