"""Turn an Iceberg table into a Paimon append table: the same data files under new metadata.

Nothing is rewritten and nothing is moved. Field ids are kept; files that have other columns than the table, or other
names for them, get schemas of their own; identity partitions become partition keys, bounds become statistics, position
deletes and deletion vectors become deletion vectors, and samples of distinct values are carried over.

Spec: Iceberg spec, Column Projection; docs/formats/paimon.md § 2, § 5, § 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.planning.live_files import live_data_files
from skerry.iceberg.statistics.samples import deletes_of, live_files, sample_of
from skerry.migration.carried_samples import CarriedFile, carry_samples
from skerry.migration.first_commit import FirstRows, check_free, create_with_rows
from skerry.migration.foreign_stats import ColumnFacts, encode_facts
from skerry.migration.paimon_schemas import (
    file_schemas,
    partition_keys,
    partition_rows,
    read_all_columns,
    table_options,
    table_schema,
)
from skerry.paimon.manifests.manifest import DataFileMeta, FileKind, FileSource, ManifestEntry
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations.samples import partition_key
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.statistics.samples import delete_key
from skerry.paimon.writing.data_files import local_millis
from skerry.storage import Storage, name
from skerry.table.files.data_file import DataFile, DeleteKind
from skerry.table.files.row_deletes import RowDeletes
from skerry.table.files.scan_task import FileScanTask
from skerry.table.owned_files import OwnedFiles
from skerry.table.rows.schema import leaves
from skerry.table.rows.values import decode_value
from skerry.table.statistics.table_sample import SampleChange
from skerry.table.work.tasks import Executor, ProgressCallback, ThreadExecutor

__all__ = ["DraftFile", "PaimonDraft", "plan_paimon", "publish_paimon"]

_FORMATS: Final = ("parquet", "orc")
_NO_POSITIONS: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class DraftFile:
    """A data file of the new table.

    Args:
        data_file: Its entry in the Iceberg table, with metrics.
        schema_id: The schema that it is read with.
        partition: Values of the partition keys as a row with arity.
        deleted: int64[n] Positions of deleted rows, ascending.
        deletes: The key of its deletes in the Iceberg table's samples.
    """

    data_file: DataFile
    schema_id: int
    partition: bytes
    deleted: Positions
    deletes: int

    @property
    def file_name(self) -> str:
        """Its name without folders."""
        return name(self.data_file.location)


@dataclass(frozen=True)
class PaimonDraft:
    """The Paimon table that an Iceberg table becomes.

    Args:
        state: The table.
        schemas: The schemas by id; the last one is the table's, the others belong to files.
        files: The data files.
    """

    state: TableState
    schemas: tuple[TableSchema, ...]
    files: tuple[DraftFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The total size of the data files."""
        return sum(file.data_file.file_size_bytes for file in self.files)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow."""
        return self.schemas[-1].arrow_schema

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that it is partitioned by."""
        return self.schemas[-1].partition_keys


# Planning ------------------------------------------------------------------------------------------------------------


def plan_paimon(
    state: TableState,
    *,
    partition_by: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
) -> PaimonDraft:
    """Plan the migration from the table's metadata and the footers of its data files. Nothing is changed.

    Args:
        state: The table; the newest snapshot of its main branch counts.
        partition_by: The partition keys; every file must be partitioned by their identity. None for those of the
            table's partition spec. An empty list makes a table without partitions, whose files are still pruned by
            their statistics.
        properties: Options of the Paimon table; they override what is derived from the Iceberg table.
        executor: Runs the tasks that read footers; threads of this process by default.
        progress: Called after every footer.

    Raises:
        FormatError: A file or the metadata is corrupt.
        NotFoundError: A file is missing.
        SchemaError: A file's columns do not fit the table's, or an option or partition key is invalid.
        UnsupportedError: The table uses something that Paimon append tables do not support; the message names it.
    """
    snapshot = state.snapshot()
    tasks = list(live_files(state, snapshot)) if snapshot is not None else []
    _check_files(tasks)
    keys = partition_keys(state, partition_by, tasks)
    current = table_schema(state, keys, table_options(state, tasks, properties or {}))
    stored = read_all_columns(state, tasks, executor or ThreadExecutor(), progress)
    older, ids = file_schemas(current, tasks, stored)
    current = replace(current, id=len(older))
    if snapshot is None or not tasks:
        return PaimonDraft(state, (current,))
    metrics = {file.location: file for file in live_data_files(state, snapshot)}
    partitions = partition_rows(state, current, tasks)
    deletes = RowDeletes(state.storage)
    files = tuple(
        DraftFile(
            metrics[task.data_file.location],
            len(older) if number is None else number,
            partition,
            deletes.positions(task) if task.deletes else _NO_POSITIONS,
            deletes_of(task),
        )
        for task, number, partition in zip(tasks, ids, partitions, strict=True)
    )
    return PaimonDraft(state, (*older, current), files)


def _check_files(tasks: Iterable[FileScanTask]) -> None:
    """Refuse files that Paimon's readers would not find, or whose deleted rows they would see."""
    locations: dict[str, str] = {}
    for task in tasks:
        file = task.data_file
        if file.file_format not in _FORMATS:
            raise UnsupportedError(
                f"data files of format {file.file_format} cannot be migrated, only those of {' and '.join(_FORMATS)}",
                location=file.location,
            )
        if any(delete.kind is DeleteKind.KEYS for delete in task.deletes):
            raise UnsupportedError(
                "the file has equality deletes, which Paimon append tables do not support; compact() rewrites it "
                "without them",
                location=file.location,
            )
        own_name = name(file.location)
        if not own_name.endswith(f".{file.file_format}"):
            raise UnsupportedError(
                f"Paimon derives a file's format from its name, which does not end in .{file.file_format} here; "
                "compact(full=True) rewrites it",
                location=file.location,
            )
        other = locations.setdefault(own_name, file.location)
        if other != file.location:
            raise UnsupportedError(
                f"Paimon identifies files by their names, and {other} has the same name; compact(full=True) rewrites "
                "them",
                location=file.location,
            )


# Publishing ----------------------------------------------------------------------------------------------------------


def publish_paimon(draft: PaimonDraft, storage: Storage, location: str, name: str, files: OwnedFiles) -> PaimonState:
    """Create the Paimon table.

    Args:
        draft: The new table.
        storage: Access to its folder.
        location: Its folder.
        name: Its name, for messages.
        files: Owns what is written, until the table may exist.

    Raises:
        AlreadyExistsError: There is a table already; nothing was changed.
        CommitUnknownError: It may or may not have been created; nothing was removed.
        StorageError: It could not be created.
    """
    *older, current = draft.schemas
    base = PaimonState(name, location, storage, current, None)
    check_free(base)
    rows = None
    if draft.files:
        deleted = {(file.partition, 0, file.file_name): file.deleted for file in draft.files if len(file.deleted)}
        rows = FirstRows(tuple(_entries(draft)), deleted, _samples(draft))
    return create_with_rows(base, older, rows, files)


def _samples(draft: PaimonDraft) -> SampleChange:
    """The samples of columns that both tables hash alike."""
    types = {leaf.field_id: leaf.type for leaf in leaves(draft.state.schema)}
    alike = [leaf.field_id for leaf in leaves(draft.arrow_schema) if types.get(leaf.field_id) == leaf.type]
    carried = [
        CarriedFile(
            before=file.data_file.location,
            after=file.file_name,
            partition=partition_key(file.partition, 0, has_keys=False),
            deletes_before=file.deletes,
            deletes=delete_key(file.file_name, len(file.deleted)),
        )
        for file in draft.files
    ]
    return carry_samples(sample_of(draft.state, draft.state.snapshot()).groups, carried, alike)


def _entries(draft: PaimonDraft) -> Iterator[ManifestEntry]:
    """The manifest entries of the files."""
    now = draft.schemas[-1]
    types = {leaf.field_id: leaf.type for leaf in leaves(now.arrow_schema) if len(leaf.path) == 1}
    facts = [(draft.schemas[file.schema_id], _facts(file.data_file, types)) for file in draft.files]
    created = local_millis()
    for file, (stats, names) in zip(draft.files, encode_facts(now, facts), strict=True):
        data_file = file.data_file
        meta = DataFileMeta(
            file_name=file.file_name,
            file_size=data_file.file_size_bytes,
            row_count=data_file.record_count,
            value_stats=stats,
            min_sequence_number=0,
            max_sequence_number=max(data_file.record_count - 1, 0),
            schema_id=file.schema_id,
            level=0,
            creation_time=created,
            delete_row_count=0,
            file_source=FileSource.APPEND,
            value_stats_cols=names,
            external_path=data_file.location,
        )
        yield ManifestEntry(FileKind.ADD, file.partition, 0, -1, meta)


def _facts(file: DataFile, types: Mapping[int, pa.DataType]) -> dict[int, ColumnFacts]:
    """The statistics of a file's columns, from its metrics.

    Readers disagree on the order of NaN: a column that may contain some has no bounds.
    """
    facts = {}
    for number, type_ in types.items():
        has_bounds = not pa.types.is_floating(type_) or file.nan_value_counts.get(number) == 0
        lower, upper = file.lower_bounds.get(number), file.upper_bounds.get(number)
        nulls = file.null_value_counts.get(number)
        facts[number] = ColumnFacts(
            _value(type_, lower) if has_bounds else None,
            _value(type_, upper) if has_bounds else None,
            nulls,
            nulls == file.record_count,
        )
    return facts


def _value(type_: pa.DataType, bound: bytes | None) -> Any:
    return None if bound is None else decode_value(type_, bound)
