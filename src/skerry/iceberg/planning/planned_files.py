"""The files of a plan: columns that become scan tasks on demand.

Spec: Iceberg spec, Data File Fields, Scan Planning.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.iceberg.manifests.avro_schemas import DATA_FILE_FIELDS, ENTRY_FIELDS, arrow_type
from skerry.iceberg.manifests.file_batch import FileBatch
from skerry.iceberg.manifests.manifest import FileContent
from skerry.iceberg.manifests.reader import partition_tuples
from skerry.iceberg.metadata.transforms import IdentityTransform
from skerry.iceberg.planning.delete_index import Assignment, no_deletes
from skerry.iceberg.planning.splits import Splits, plan_splits
from skerry.table.files.data_file import DataFile, DeleteFile, DeleteKind
from skerry.table.files.scan_task import FileScanTask
from skerry.table.rows.column_records import records_of
from skerry.table.rows.schema import field_id

__all__ = ["TASK_COLUMNS", "PlannedFiles", "plan_schema"]

TASK_COLUMNS = (
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "split_offsets",
    "sort_order_id",
    "sequence_number",
    "first_row_id",
    "key_metadata",
)
"""The columns from which tasks are created, besides `partition`."""

_SHOWN_COLUMNS = tuple(name for name in TASK_COLUMNS if name != "key_metadata")  # it may hold a file's key

_STEP = 512
"""The number of files converted to Python values at a time."""


@dataclass(frozen=True, eq=False)
class PlannedFiles(Sequence[FileScanTask]):
    """A sequence of scan tasks over columns; iterating creates them one by one and keeps none.

    Args:
        batches: The data files.
        deletes: Delete files with `skerry.iceberg.planning.delete_index.DELETE_COLUMNS`.
        assignment: Which of them apply to which data file.
        defaults: Physical values by field id, for columns that files may lack.
        splits: How files are split into tasks; None for one task per file.
        rows: By location, the rows of a file that indexes leave, for the files that have an index.
    """

    batches: tuple[FileBatch, ...]
    deletes: pa.RecordBatch
    assignment: Assignment
    defaults: Mapping[int, Any]
    splits: Splits | None = None
    rows: Mapping[str, npt.NDArray[np.int64]] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def _starts(self) -> list[int]:
        """The number of the first file of every batch, and the total at the end."""
        counts = [batch.files.num_rows for batch in self.batches]
        return np.concatenate([[0], np.cumsum(counts)]).astype(int).tolist()

    @property
    def file_count(self) -> int:
        """The number of data files."""
        return self._starts[-1]

    @property
    def size_bytes(self) -> int:
        """The total size of all data files."""
        return sum(int(batch.column("file_size_in_bytes").sum()) for batch in self.batches)

    @property
    def row_count(self) -> int:
        """Rows of all data files, including deleted ones."""
        return sum(int(batch.column("record_count").sum()) for batch in self.batches)

    @property
    def candidate_count(self) -> int:
        """Rows that indexes leave of all data files, including deleted ones."""
        return int(self._candidates.sum())

    @property
    def record_counts(self) -> npt.NDArray[np.int64]:
        """int64[files], rows of each data file, including deleted ones."""
        return np.concatenate([np.zeros(0, np.int64), *(batch.column("record_count") for batch in self.batches)])

    @property
    def unfiltered_count(self) -> int:
        """The number of data files whose live rows all match."""
        return sum(int(np.count_nonzero(batch.matches_all)) for batch in self.batches)

    def __len__(self) -> int:
        return self.file_count if self.splits is None else len(self.splits.starts)

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
        if self.splits is None:
            return next(self._of_files(number, number + 1))
        file = int(np.searchsorted(self.splits.offsets, number, side="right")) - 1
        tasks = self._cut(self._of_files(file, file + 1), file)
        return next(itertools.islice(tasks, number - int(self.splits.offsets[file]), None))

    def __iter__(self) -> Iterator[FileScanTask]:
        tasks = self._of_files(0, self.file_count)
        return tasks if self.splits is None else self._cut(tasks, 0)

    def split(self, target_bytes: int) -> PlannedFiles:
        """The same files, large ones split into several tasks; see `skerry.iceberg.planning.splits.plan_splits`."""
        if not self.batches:
            return self
        lists = [batch.files.column("split_offsets") for batch in self.batches]
        lengths = [pc.fill_null(column.value_lengths(), 0).to_numpy(zero_copy_only=False) for column in lists]
        splits = plan_splits(
            self._sizes_to_split(target_bytes),
            np.concatenate([[0], np.cumsum(np.concatenate(lengths), dtype=np.int64)]),
            np.concatenate([column.flatten().to_numpy(zero_copy_only=False).astype(np.int64) for column in lists]),
            target_bytes,
        )
        return dataclasses.replace(self, splits=splits)

    def _sizes_to_split(self, target_bytes: int) -> npt.NDArray[np.int64]:
        """int64[files] The sizes of files, or of what indexes leave of them if that fits one task."""
        sizes = self._numbers("file_size_in_bytes")
        if not self.rows:
            return sizes
        left = sizes * self._candidates // np.maximum(self._numbers("record_count"), 1)
        return np.where(left <= target_bytes, left, sizes)

    @property
    def _candidates(self) -> npt.NDArray[np.int64]:
        """int64[files] The rows that indexes leave."""
        counts = self._numbers("record_count")
        if self.rows:
            counts = counts.copy()
            columns = (batch.files.column("file_path").to_pylist() for batch in self.batches)
            for number, place in enumerate(itertools.chain.from_iterable(columns)):
                if place in self.rows:
                    counts[number] = len(self.rows[place])
        return counts

    def _numbers(self, name: str) -> npt.NDArray[np.int64]:
        return np.concatenate([np.zeros(0, np.int64), *(batch.column(name) for batch in self.batches)])

    def narrowed(self, rows: Sequence[npt.NDArray[np.int64] | None]) -> PlannedFiles:
        """The files of which indexes leave rows, and these rows.

        Args:
            rows: int64[n], ascending positions, for every file; None where indexes leave all.
        """
        kept = self._only(np.array([each is None or len(each) > 0 for each in rows], bool))
        left = [each for each in rows if each is None or len(each)]
        found = {task.data_file.location: each for task, each in zip(kept, left, strict=True) if each is not None}
        return dataclasses.replace(kept, rows=found)

    def settled(self) -> tuple[int, PlannedFiles]:
        """Rows that are known to match without reading their files, and the other files."""
        if not self.batches:
            return 0, self
        matches_all = np.concatenate([batch.matches_all for batch in self.batches])
        known = matches_all & (np.diff(self.assignment.offsets) == 0)
        counts = np.concatenate([batch.column("record_count") for batch in self.batches])
        return int(counts[known].sum()), self._only(~known)

    def _only(self, wanted: npt.NDArray[np.bool_]) -> PlannedFiles:
        """The files for which a mask is true."""
        counts = np.diff(self.assignment.offsets)
        batches = [
            dataclasses.replace(batch, files=batch.files.filter(pa.array(mask)), matches_all=batch.matches_all[mask])
            for batch, mask in zip(self.batches, np.split(wanted, self._starts[1:-1]), strict=True)
        ]
        offsets = np.concatenate([[0], np.cumsum(counts[wanted])])
        assignment = Assignment(offsets, self.assignment.rows[np.repeat(wanted, counts)])
        return PlannedFiles(tuple(batches), self.deletes, assignment, self.defaults, rows=self.rows)

    def to_arrow(self, partition_fields: Sequence[pa.Field] | None = None) -> pa.Table:
        """The plan as columns, one row per data file; see `skerry.iceberg.reading.scan.Scan.plan_table`.

        Args:
            partition_fields: The fields of `partition`, with ids; those of the files' specs if None.
        """
        if partition_fields is None:
            partition_fields = _partition_fields(self.batches)
        tables = [_table_of(batch, partition_fields) for batch in self.batches]
        files = pa.concat_tables([_plan_schema(partition_fields).empty_table(), *tables])
        found = self.deletes.select(list(_SHOWN_DELETE_COLUMNS)).take(pa.array(self.assignment.rows)).to_struct_array()
        offsets = pa.array(self.assignment.offsets.astype(np.int32))
        return files.append_column("deletes", pa.ListArray.from_arrays(offsets, found))

    # ---- tasks ----

    def _of_files(self, first: int, last: int) -> Iterator[FileScanTask]:
        """The tasks of files, each whole."""
        for batch, begin, end in zip(self.batches, self._starts[:-1], self._starts[1:], strict=True):
            for start in range(max(begin, first), min(end, last), _STEP):
                yield from self._tasks(batch, begin, start, min(start + _STEP, end, last))

    def _tasks(self, batch: FileBatch, begin: int, start: int, stop: int) -> Iterator[FileScanTask]:
        """The tasks of some files of one batch, whose first file is number `begin`."""
        files = batch.files.slice(start - begin, stop - start)
        identity = [
            (index, field.source_id)
            for index, field in enumerate(batch.spec.fields)
            if isinstance(field.transform, IdentityTransform)
        ]
        columns = {name: files.column(name).to_pylist() for name in TASK_COLUMNS}
        partitions = partition_tuples(files.column("partition"))
        data_files = records_of(
            DataFile,
            files.num_rows,
            location=columns["file_path"],
            file_format=pc.utf8_lower(files.column("file_format")).to_pylist(),
            record_count=columns["record_count"],
            file_size_bytes=columns["file_size_in_bytes"],
            spec_id=itertools.repeat(batch.spec.spec_id),
            partition=partitions,
            split_offsets=[tuple(splits) if splits else () for splits in columns["split_offsets"]],
            sort_order_id=columns["sort_order_id"],
            key_metadata=columns["key_metadata"],
        )
        constants: Iterable[Mapping[int, Any]] = itertools.repeat(dict(self.defaults))
        if identity:
            constants = ({**self.defaults, **{key: values[index] for index, key in identity}} for values in partitions)
        tasks = records_of(
            FileScanTask,
            files.num_rows,
            data_file=data_files,
            matches_all=batch.matches_all[start - begin : stop - begin].tolist(),
            constants=constants,
            deletes=self._deletes_of(start, stop),
            sequence_number=columns["sequence_number"],
            first_row_id=columns["first_row_id"],
            rows=map(self.rows.get, columns["file_path"]) if self.rows else itertools.repeat(None),
        )
        return iter(tasks)

    def _cut(self, tasks: Iterable[FileScanTask], first: int) -> Iterator[FileScanTask]:
        """The tasks of the parts of files, starting at that number."""
        assert self.splits is not None
        for file, task in enumerate(tasks, first):
            begin, end = self.splits.offsets[file : file + 2].tolist()
            if end == begin + 1:
                yield task
                continue
            for start, stop in zip(
                self.splits.starts[begin:end].tolist(), self.splits.ends[begin:end].tolist(), strict=True
            ):
                yield dataclasses.replace(task, start_byte=start, end_byte=None if stop < 0 else stop)

    def _deletes_of(self, start: int, stop: int) -> Iterable[tuple[DeleteFile, ...]]:
        """The delete files of each data file; a delete file of several data files is one object."""
        offsets = self.assignment.offsets[start : stop + 1].tolist()
        if offsets[0] == offsets[-1]:
            return itertools.repeat(())
        rows = self.assignment.rows[offsets[0] : offsets[-1]]
        distinct, indices = np.unique(rows, return_inverse=True)
        found = _delete_files(self.deletes.select(list(_DELETE_FILE_COLUMNS)).take(pa.array(distinct)))
        deletes = [found[index] for index in indices.tolist()]
        return [tuple(deletes[low - offsets[0] : high - offsets[0]]) for low, high in itertools.pairwise(offsets)]


def _delete_files(rows: pa.RecordBatch) -> list[DeleteFile]:
    return [
        DeleteFile(
            kind=_kind(values["content"], values["file_format"].lower()),
            location=values["file_path"],
            file_format=values["file_format"].lower(),
            record_count=values["record_count"],
            file_size_bytes=values["file_size_in_bytes"],
            sequence_number=values["sequence_number"],
            equality_ids=tuple(values["equality_ids"] or ()),
            referenced_data_file=values["referenced_data_file"],
            content_offset=values["content_offset"],
            content_size_bytes=values["content_size_in_bytes"],
            key_metadata=values["key_metadata"],
        )
        for values in rows.to_pylist()
    ]


def _kind(content: int, file_format: str) -> DeleteKind:
    if content == FileContent.EQUALITY_DELETES:
        return DeleteKind.KEYS
    return DeleteKind.VECTOR if file_format == "puffin" else DeleteKind.POSITIONS


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
    "key_metadata",
)
_SHOWN_DELETE_COLUMNS = _DELETE_FILE_COLUMNS[:-1]


def plan_schema(partition_fields: Sequence[pa.Field]) -> pa.Schema:
    """The columns of `PlannedFiles.to_arrow` with these fields of `partition`."""
    deletes = no_deletes().files.select(list(_SHOWN_DELETE_COLUMNS)).schema
    return _plan_schema(partition_fields).append(
        pa.field("deletes", pa.list_(pa.field("item", pa.struct(list(deletes)))))
    )


# As columns ----------------------------------------------------------------------------------------------------------


def _partition_fields(batches: Sequence[FileBatch]) -> list[pa.Field]:
    """The partition fields of all specs; for promoted types the wider one."""
    found: dict[int, pa.Field] = {}
    for batch in batches:
        for field in batch.files.schema.field("partition").type:
            key = field_id(field)
            if key in found and found[key].type != field.type:
                both = [pa.schema([pa.field("", known.type)]) for known in (found[key], field)]
                field = field.with_type(pa.unify_schemas(both, promote_options="permissive").field(0).type)
            found[key] = field
    names = [field.name for field in found.values()]
    return [
        field.with_name(f"{field.name}_{key}") if names.count(field.name) > 1 else field for key, field in found.items()
    ]


def _plan_schema(partition_fields: Sequence[pa.Field]) -> pa.Schema:
    types = {field.name: arrow_type(field.type) for field in (*ENTRY_FIELDS, *DATA_FILE_FIELDS) if field.type}
    fields = [pa.field(name, types[name]) for name in _SHOWN_COLUMNS]
    own = [
        pa.field("spec_id", pa.int32()),
        pa.field("partition", pa.struct(partition_fields)),
        pa.field("matches_all", pa.bool_()),
    ]
    return pa.schema([*fields, *own])


def _table_of(batch: FileBatch, partition_fields: Sequence[pa.Field]) -> pa.Table:
    files = batch.files
    partition = files.column("partition")
    values = dict(zip((field_id(field) for field in partition.type), partition.flatten(), strict=True))
    columns = [
        values[field_id(field)].cast(field.type) if field_id(field) in values else pa.nulls(len(partition), field.type)
        for field in partition_fields
    ]
    own = [
        pa.repeat(pa.scalar(batch.spec.spec_id, pa.int32()), len(partition)),
        pa.StructArray.from_arrays(columns, fields=list(partition_fields))
        if columns
        else pa.Array.from_buffers(pa.struct([]), len(partition), [None], children=[]),
        pa.array(batch.matches_all),
    ]
    task_columns = [files.column(name) for name in _SHOWN_COLUMNS]
    return pa.Table.from_arrays([*task_columns, *own], schema=_plan_schema(partition_fields))
