"""Turn a Paimon append table into an Iceberg table: the same data files under new metadata.

Nothing is rewritten and nothing is moved. Field ids are kept, the partition keys become a spec of identity transforms,
minima and maxima become bounds, deletion vectors become position deletes, and samples of distinct values are carried
over. Columns of files without field ids are found through a name mapping, which has every name that a column ever had.

Spec: Iceberg spec, Table Metadata, Name Mapping Serialization; docs/formats/paimon.md § 2, § 5, § 8.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.evolution.property_checks import check_properties
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.manifests.manifest import EntryStatus, ManifestEntry
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.metadata_json import encode_metadata
from skerry.iceberg.metadata.partition_spec import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.sort_order import UNSORTED_SORT_ORDER
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.iceberg.metadata.transforms import IdentityTransform
from skerry.iceberg.operations import SnapshotChange
from skerry.iceberg.writing.bounds import encode_bounds
from skerry.iceberg.writing.delete_files import FileDeletes, write_deletion_vectors, write_position_deletes
from skerry.migration.carried_samples import CarriedFile, carry_samples
from skerry.migration.iceberg_schemas import FileShape, NamesInFiles, iceberg_schema, read_shape
from skerry.migration.stats_reading import read_stats
from skerry.paimon.allowed_locations import check_location
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import ManifestEntry as PaimonEntry
from skerry.paimon.metadata.options import FALLBACK_BRANCH
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import deleted_positions
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.planning.splits import SplitFile
from skerry.paimon.statistics.samples import delete_key, sample_of
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import is_within, join
from skerry.table.files.data_file import DataFile
from skerry.table.files.locations import OUTSIDE_PROPERTY
from skerry.table.owned_files import OwnedFiles
from skerry.table.properties import BACKGROUND_PROPERTY
from skerry.table.rows.schema import leaves
from skerry.table.rows.values import physical_value
from skerry.table.statistics.file_groups import deletes_key
from skerry.table.statistics.table_sample import SampleChange, delete_name, partition_name
from skerry.table.work.tasks import Executor, FileTask, JobProgress, ProgressCallback, ThreadExecutor

__all__ = ["IcebergDraft", "NewMetadata", "described_files", "identity_spec", "plan_iceberg", "publish_files"]

_FORMATS: Final = ("parquet", "orc", "amudai")
_VERSION_WITH_VECTORS: Final = 3
_BOUND_LENGTH: Final = 16
_CACHED_INDEX_FILES: Final = 8


@dataclass(frozen=True)
class IcebergDraft:
    """The Iceberg table that a Paimon table becomes.

    Args:
        state: The table.
        schema: The columns.
        spec: The partition spec.
        files: The data files, with their entries in the Paimon and the Iceberg table.
        properties: The table's properties.
        format_version: The format version of the Iceberg table.
    """

    state: PaimonState
    schema: Schema
    spec: PartitionSpec
    files: tuple[tuple[SplitFile, DataFile], ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    format_version: int = 2

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow."""
        return to_arrow_schema(self.schema)

    @property
    def size_bytes(self) -> int:
        """The total size of the data files."""
        return sum(file.file_size_bytes for _, file in self.files)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that it is partitioned by."""
        return tuple(part.name for part in self.spec.fields)


# Planning ------------------------------------------------------------------------------------------------------------


def plan_iceberg(
    state: PaimonState,
    *,
    format_version: int = 2,
    properties: Mapping[str, str] | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
) -> IcebergDraft:
    """Plan the migration from the table's metadata and the footers of its data files. Nothing is changed.

    Args:
        state: The table; its newest snapshot counts.
        format_version: The format version of the Iceberg table, 2 or 3.
        properties: Further table properties.
        executor: Runs the tasks that read footers; threads of this process by default.
        progress: Called after every footer.

    Raises:
        FormatError: Metadata or a footer is corrupt.
        SchemaError: The format version is invalid, or files were written with incompatible columns.
        UnsupportedError: The table uses something that Iceberg tables do not support; the message names it.
    """
    if format_version not in (2, _VERSION_WITH_VECTORS):
        raise SchemaError(f"format_version must be 2 or 3, found {format_version!r}")
    _check_table(state)
    schema = iceberg_schema(state.schema, format_version)
    entries = live_entries(state)
    splits = FileSplits(state, WriteLayout(state.name, state.location, state.storage, state.schema))
    files = [splits.file(entry) for entry in entries]
    for entry, file in zip(entries, files, strict=True):
        _check_file(state, entry, file)
    shapes = list(_shapes(state, files, executor or ThreadExecutor(), progress))
    names = NamesInFiles(state.schema, state.schema_by_id)
    for file, shape in zip(files, shapes, strict=True):
        names.add(file.schema_id, shape, file.location)
    spec = identity_spec(state.schema)
    described = described_files(state, schema, entries, files, shapes)
    own = _properties(state, files)
    if (mapping := names.mapping()) is not None:
        own |= mapping
    settings = {**own, **(properties or {})}
    check_properties(settings, to_arrow_schema(schema))
    return IcebergDraft(state, schema, spec, tuple(zip(files, described, strict=True)), settings, format_version)


def identity_spec(schema: TableSchema) -> PartitionSpec:
    """The partition keys of a Paimon table as a spec of identity transforms."""
    return PartitionSpec(
        *(
            PartitionField(column.id, PARTITION_FIELD_ID_START + number, IdentityTransform(), column.name)
            for number, column in enumerate(schema.partition_fields)
        )
    )


def _check_table(state: PaimonState) -> None:
    if state.schema.primary_keys:
        raise UnsupportedError(
            "a Paimon table with a primary key merges records as it is read, which Iceberg tables do not: only "
            "append tables can become Iceberg tables without rewriting; read it and write the rows to a new table",
            location=state.name,
        )
    if state.options.fallback_branch is not None:
        raise UnsupportedError(
            f"table option {FALLBACK_BRANCH}={state.options.fallback_branch}: partitions of that branch would be lost",
            location=state.name,
        )
    if state.options.row_tracking:
        raise UnsupportedError("table option row-tracking.enabled=true: row ids would be lost", location=state.name)


def _check_file(state: PaimonState, entry: PaimonEntry, file: SplitFile) -> None:
    if entry.file.external_path is not None:
        check_location(state, entry.file.external_path)
    if entry.file.write_cols is not None:
        raise UnsupportedError("the data file has only some of the columns", location=file.location)
    if file.file_format not in _FORMATS:
        raise UnsupportedError(
            f"data files of format {file.file_format} written by Paimon cannot belong to an Iceberg table; those of "
            f"{', '.join(_FORMATS)} can: set file.format and compact(full=True)",
            location=file.location,
        )


def _shapes(
    state: PaimonState, files: Sequence[SplitFile], executor: Executor, progress: ProgressCallback | None
) -> Iterator[FileShape]:
    """Facts from the footers of Parquet files; for other formats the table's metadata is enough."""
    tasks = [FileTask(file.location, state.storage) for file in files if file.file_format == "parquet"]
    read = executor.map(read_shape, tasks)
    done = 0
    for file in files:
        if file.file_format != "parquet":
            yield FileShape()
            continue
        yield next(read)
        done += 1
        if progress is not None:
            progress(JobProgress("read footers", done, len(tasks)))


def _properties(state: PaimonState, files: Sequence[SplitFile]) -> dict[str, str]:
    options = state.schema.options
    found = {name: value for name, value in options.items() if name.startswith("skerry.")}
    found.pop(BACKGROUND_PROPERTY, None)  # writers of Iceberg tables do not compact
    if state.options.file_format.value != "parquet":
        found["write.format.default"] = state.options.file_format.value
    if state.schema.comment:
        found["comment"] = state.schema.comment
    if not all(is_within(state.location, file.location) for file in files):
        found[OUTSIDE_PROPERTY] = "true"
    return found


# Files ---------------------------------------------------------------------------------------------------------------


def described_files(
    state: PaimonState,
    schema: Schema,
    entries: Sequence[PaimonEntry],
    files: Sequence[SplitFile],
    shapes: Sequence[FileShape],
) -> list[DataFile]:
    """The data files of a Paimon table as Iceberg's manifests describe them.

    Args:
        state: The table.
        schema: Its columns in the Iceberg table.
        entries: The files.
        files: Where they are.
        shapes: Facts from their footers.

    Raises:
        FormatError: Metadata is corrupt.
    """
    columns = {leaf.field_id: leaf.type for leaf in leaves(to_arrow_schema(schema))}
    partitions = _partitions(state, columns, entries)
    described = [
        DataFile(
            location=file.location,
            file_format=file.file_format,
            record_count=file.row_count,
            file_size_bytes=file.file_size,
            partition=partition,
            split_offsets=shape.split_offsets,
        )
        for file, shape, partition in zip(files, shapes, partitions, strict=True)
    ]
    for stats in read_stats([entry.file for entry in entries], state.schema_by_id):
        type_ = columns.get(stats.field_id)
        if type_ is None:
            continue
        minima, maxima = _physical(stats.minima, type_), _physical(stats.maxima, type_)
        for index, low, high, nulls in zip(stats.files, minima, maxima, stats.null_counts, strict=True):
            file = described[index]
            file.value_counts[stats.field_id] = file.record_count
            if nulls is not None:
                file.null_value_counts[stats.field_id] = nulls
            lower, upper = encode_bounds(type_, _known(low), _known(high), _BOUND_LENGTH)
            if lower is not None:
                file.lower_bounds[stats.field_id] = lower
            if upper is not None:
                file.upper_bounds[stats.field_id] = upper
    return described


def _known(value: Any) -> list[Any] | None:
    return None if value is None or value != value else [value]


def _partitions(
    state: PaimonState, columns: Mapping[int, pa.DataType], entries: Sequence[PaimonEntry]
) -> list[tuple[Any, ...]]:
    keys = state.schema.partition_fields
    if not keys:
        return [()] * len(entries)
    values = decode_rows([key.type for key in keys], [entry.partition for entry in entries])
    return list(
        zip(*(_physical(column, columns[key.id]) for key, column in zip(keys, values, strict=True)), strict=True)
    )


def _physical(values: pa.Array, type_: pa.DataType) -> list[Any]:
    """Values of a column in the Iceberg table's type."""
    return [physical_value(type_, value) for value in values.cast(type_)]


# Publishing ----------------------------------------------------------------------------------------------------------


class NewMetadata:
    """Write the metadata of the new table, in the folder of the Paimon table, which becomes its own.

    Args:
        draft: The new table.
        files: Owns what is written to its metadata folder.
    """

    def __init__(self, draft: IcebergDraft, files: OwnedFiles) -> None:
        self._draft = draft
        self._storage = draft.state.storage
        self._folder = join(draft.state.location, "metadata")
        before = {file.location for file in self._storage.list(self._folder)}
        files.add_found(lambda: [f.location for f in self._storage.list(self._folder) if f.location not in before])

    def write_first(self) -> str:
        """Write the metadata file of the table before its first snapshot; returns its location."""
        draft = self._draft
        metadata = TableMetadata(
            format_version=draft.format_version,
            table_uuid=uuid.uuid4(),
            location=draft.state.location,
            last_updated_ms=int(time.time() * 1000),
            last_column_id=max(draft.schema.highest_field_id, draft.state.schema.highest_field_id),
            schemas=(draft.schema,),
            current_schema_id=draft.schema.schema_id,
            partition_specs=(draft.spec,),
            default_spec_id=draft.spec.spec_id,
            last_partition_id=draft.spec.last_assigned_field_id,
            properties=dict(draft.properties),
            sort_orders=(UNSORTED_SORT_ORDER,),
            default_sort_order_id=UNSORTED_SORT_ORDER.order_id,
            next_row_id=0 if draft.format_version >= _VERSION_WITH_VECTORS else None,
        )
        location = join(self._folder, f"00000-{uuid.uuid4()}.metadata.json")
        self._storage.write(location, encode_metadata(metadata))
        return location


@dataclass(frozen=True)
class _Adopt:
    """Begin a table with the files of another one.

    Args:
        files: The data files.
        deletes: Their position deletes or vectors.
        samples: The samples of their values.
        properties: Entries of the snapshot summary.
    """

    files: tuple[DataFile, ...]
    deletes: tuple[ManifestEntry, ...]
    samples: SampleChange
    properties: Mapping[str, str]

    def apply(self, base: TableState) -> SnapshotChange | None:
        """Add the files to an empty table."""
        if not self.files:
            return None
        return SnapshotChange(
            operation="overwrite" if self.deletes else "append",
            added=tuple(ManifestEntry(EntryStatus.ADDED, file) for file in self.files),
            added_deletes=self.deletes,
            samples=self.samples,
            properties=self.properties,
        )


def publish_files(draft: IcebergDraft, table: IcebergHandle) -> TableState:
    """Commit the files, their deletes and their statistics to the new, empty table.

    Raises:
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    layout = replace(table.layout(), deletes_by_partition=False)
    write = write_deletion_vectors if draft.format_version >= _VERSION_WITH_VECTORS else write_position_deletes
    deleted = list(_deleted_rows(draft))
    snapshot = draft.state.snapshot
    with layout.owned_files():
        deletes = write(layout, deleted)
        adopted = _Adopt(
            tuple(file for _, file in draft.files),
            tuple(deletes),
            _samples(draft, deleted, deletes),
            {"skerry.migrated-from": f"paimon snapshot {snapshot.id}"} if snapshot is not None else {},
        )
        return table.commit(adopted)


def _deleted_rows(draft: IcebergDraft) -> Iterator[FileDeletes]:
    """The deleted rows of the files that have any; files with vectors in the same index file are adjacent."""
    read = lru_cache(_CACHED_INDEX_FILES)(draft.state.storage.read)
    with_vectors = [(split.deletion_vector, split, file) for split, file in draft.files if split.deletion_vector]
    for _, split, file in sorted(with_vectors, key=lambda found: (found[0].location, found[0].offset)):
        yield file, deleted_positions(split, read)


def _samples(draft: IcebergDraft, deleted: Sequence[FileDeletes], deletes: Sequence[ManifestEntry]) -> SampleChange:
    before = {file.location: len(np.unique(positions)) for file, positions in deleted}
    after = {
        str(entry.referenced_data_file): deletes_key([delete_name(entry.data_file.location, entry.content_offset)])
        for entry in deletes
    }
    files = []
    for split, file in draft.files:
        own = split.location.rpartition("/")[2]
        files.append(
            CarriedFile(
                own,
                file.location,
                partition_name(file.spec_id, file.partition),
                delete_key(own, before.get(file.location, 0)),
                after.get(file.location, 0),
            )
        )
    return carry_samples(sample_of(draft.state).groups, files, _hashed_alike(draft))


def _hashed_alike(draft: IcebergDraft) -> Collection[int]:
    """Field ids of the columns whose values are hashed as the same bytes in both tables."""
    then = {leaf.field_id: leaf.type for leaf in leaves(draft.state.arrow_schema)}
    return {leaf.field_id for leaf in leaves(draft.arrow_schema) if then.get(leaf.field_id) == leaf.type}
