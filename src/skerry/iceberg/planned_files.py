"""The files of a plan: columns that become scan tasks when someone asks for them.

Spec: Iceberg table spec, Data File Fields; Scan Planning.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa
from pyiceberg.transforms import IdentityTransform

from skerry.iceberg.delete_index import Assignment
from skerry.iceberg.file_batch import FileBatch
from skerry.iceberg.manifest import FileContent
from skerry.iceberg.manifest_reader import partition_tuples
from skerry.table.files import DataFile, DeleteFile, DeleteKind
from skerry.table.scan import FileScanTask

__all__ = ["TASK_COLUMNS", "PlannedFiles"]

TASK_COLUMNS = (
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "split_offsets",
    "sort_order_id",
    "sequence_number",
    "first_row_id",
)
"""The columns that tasks are made of, beside `partition`."""

_STEP = 1024
"""Files that become objects at a time."""


@dataclass(frozen=True, eq=False)
class PlannedFiles(Sequence[FileScanTask]):
    """Scan tasks over columns; iterating makes them one after the other and keeps none.

    Args:
        batches: The data files.
        deletes: Delete files with `skerry.iceberg.delete_index.DELETE_COLUMNS`.
        assignment: Which of them apply to which data file.
        defaults: Physical values by field id, for columns that files may lack.
    """

    batches: tuple[FileBatch, ...]
    deletes: pa.RecordBatch
    assignment: Assignment
    defaults: Mapping[int, Any]

    @functools.cached_property
    def _starts(self) -> list[int]:
        """The number of the first file of every batch, and behind the last."""
        counts = [batch.files.num_rows for batch in self.batches]
        return np.concatenate([[0], np.cumsum(counts)]).astype(int).tolist()

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> FileScanTask: ...
    @overload
    def __getitem__(self, index: slice) -> list[FileScanTask]: ...
    def __getitem__(self, index: int | slice) -> FileScanTask | list[FileScanTask]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"task {index} of {len(self)}")
        batch = int(np.searchsorted(self._starts, number, side="right")) - 1
        row = number - self._starts[batch]
        return next(self._tasks(batch, row, row + 1))

    def __iter__(self) -> Iterator[FileScanTask]:
        for number, batch in enumerate(self.batches):
            for start in range(0, batch.files.num_rows, _STEP):
                yield from self._tasks(number, start, min(start + _STEP, batch.files.num_rows))

    def _tasks(self, number: int, start: int, stop: int) -> Iterator[FileScanTask]:
        """The tasks of some files of one batch."""
        batch = self.batches[number]
        files = batch.files.slice(start, stop - start)
        spec_id = batch.spec.spec_id
        identity = [
            (index, field.source_id)
            for index, field in enumerate(batch.spec.fields)
            if isinstance(field.transform, IdentityTransform)
        ]
        first = self._starts[number] + start
        offsets = self.assignment.offsets[first : first + files.num_rows + 1].tolist()
        columns = [files.column(name).to_pylist() for name in TASK_COLUMNS]
        partitions = partition_tuples(files.column("partition"))
        matches_all = batch.matches_all[start:stop].tolist()
        rows = zip(partitions, matches_all, offsets[:-1], offsets[1:], *columns, strict=True)
        for partition, must, begin, end, path, file_format, count, size, splits, order, sequence, row_id in rows:
            data_file = DataFile(
                location=path,
                file_format=file_format.lower(),
                record_count=count,
                file_size_bytes=size,
                spec_id=spec_id,
                partition=partition,
                split_offsets=tuple(splits or ()),
                sort_order_id=order,
            )
            constants = {**self.defaults, **{key: partition[index] for index, key in identity}}
            deletes = self._deletes_of(begin, end) if end > begin else ()
            yield FileScanTask(data_file, must, constants, deletes, sequence, row_id)

    def _deletes_of(self, begin: int, end: int) -> tuple[DeleteFile, ...]:
        return tuple(map(self._delete_file, self.assignment.rows[begin:end].tolist()))

    @functools.cached_property
    def _delete_file(self) -> Any:
        """Makes delete files; one that applies to many data files is made once."""
        return functools.lru_cache(maxsize=4096)(self._make_delete_file)

    def _make_delete_file(self, row: int) -> DeleteFile:
        values = {name: self.deletes.column(name)[row].as_py() for name in _DELETE_FILE_COLUMNS}
        file_format, is_keys = values["file_format"].lower(), values["content"] == FileContent.EQUALITY_DELETES
        return DeleteFile(
            kind=DeleteKind.KEYS if is_keys else DeleteKind.VECTOR if file_format == "puffin" else DeleteKind.POSITIONS,
            location=values["file_path"],
            file_format=file_format,
            record_count=values["record_count"],
            file_size_bytes=values["file_size_in_bytes"],
            sequence_number=values["sequence_number"],
            equality_ids=tuple(values["equality_ids"] or ()),
            referenced_data_file=values["referenced_data_file"],
            content_offset=values["content_offset"],
            content_size_bytes=values["content_size_in_bytes"],
        )


_DELETE_FILE_COLUMNS = (
    "content",
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "sequence_number",
    "equality_ids",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
