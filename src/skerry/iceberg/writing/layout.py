"""The layout of a table's data files: everything that a writing task needs, as small picklable values."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skerry.errors import SchemaError
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.sort_order import SortOrder
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.partitioning.partitions import partition_columns, partition_path, split_by_partition
from skerry.iceberg.partitioning.sorting import sort_indices
from skerry.iceberg.writing.file_writers import FileEncoding
from skerry.iceberg.writing.metrics import MetricsMode, metrics_modes, parquet_data_file
from skerry.storage import Storage, join
from skerry.storage.renewing import RenewedCredentials
from skerry.storage.signed import SignedRequests
from skerry.table.files.data_file import DataFile
from skerry.table.owned_files import OwnedFiles, owned_files
from skerry.table.properties import whole_number
from skerry.table.rows.metadata_columns import LINEAGE_COLUMNS
from skerry.table.rows.schema import leaves
from skerry.table.rows.values import physical_value
from skerry.table.statistics.column_statistics import SketchPolicy

__all__ = ["FileLayout", "file_layout"]

VERSION_WITH_LINEAGE = 3
DEFAULT_TARGET_FILE_SIZE_BYTES = 512 << 20
DEFAULT_ROW_GROUP_SIZE_BYTES = 128 << 20


@dataclass(frozen=True)
class FileLayout:
    """The layout of the files of one write.

    Args:
        table: Table name, for messages.
        folder: The folder of data files.
        iceberg_schema: The table's schema.
        spec: The partition spec.
        sort_order: The sort order.
        modes: Metrics mode by field id.
        sketched: Field ids of the columns to sample.
        file_format: `parquet`, `orc`, `avro` or `amudai`.
        codec: Compression codec, under the name that the format's writer uses.
        codec_level: Compression level, None for the codec's default.
        shredded_rows: How many of a file's first rows decide what is shredded of variants; None to shred nothing.
        page_index: Whether Parquet files say where their pages are.
        hashed: The columns whose hash keys are computed on writing, in the process that commits.
        key_bytes: How long the keys of files are that are encrypted; None if they are not.
        target_file_size_bytes: A file is closed when it reaches this size.
        row_group_size_bytes: A row group is closed when its rows reach this size in memory.
        storage_options: Options of the files' storage. May contain credentials, so it is never printed.
        renewed: The same options, if their credentials expire and are renewed.
        requests: Sends requests to S3, signed by the catalog.
        deletes: The format of delete files.
        deletes_by_partition: Whether all data files of a partition share one position delete file.
        lineage: Whether rows have `_row_id` and `_last_updated_sequence_number`, because they are rewritten.
        presorted: Whether rows arrive in the sort order, so that writers need not wait for all rows of a file.
    """

    table: str
    folder: str
    iceberg_schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    modes: Mapping[int, MetricsMode]
    sketched: tuple[int, ...]
    file_format: str = "parquet"
    codec: str = "zstd"
    codec_level: int | None = None
    shredded_rows: int | None = None
    page_index: bool = False
    hashed: tuple[str, ...] = ()
    key_bytes: int | None = None
    target_file_size_bytes: int = DEFAULT_TARGET_FILE_SIZE_BYTES
    row_group_size_bytes: int = DEFAULT_ROW_GROUP_SIZE_BYTES
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    renewed: RenewedCredentials | None = field(default=None, repr=False, compare=False)
    requests: SignedRequests | None = field(default=None, repr=False, compare=False)
    deletes: FileEncoding = field(default_factory=FileEncoding)
    deletes_by_partition: bool = False
    lineage: bool = False
    presorted: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__} | {"hashed": ()}

    @cached_property
    def schema(self) -> pa.Schema:
        """The table's schema as Arrow, with field ids."""
        return to_arrow_schema(self.iceberg_schema)

    @cached_property
    def file_schema(self) -> pa.Schema:
        """The columns of data files: the table's, followed by those of row lineage."""
        if not self.lineage:
            return self.schema
        return pa.schema([*self.schema, *LINEAGE_COLUMNS], self.schema.metadata)

    @property
    def encoding(self) -> FileEncoding:
        """The format of data files."""
        return FileEncoding(
            self.file_format,
            self.codec,
            self.codec_level,
            shredded_rows=self.shredded_rows,
            page_index=self.page_index,
            key_bytes=self.key_bytes,
        )

    @cached_property
    def storage(self) -> Storage:
        """Access to the files."""
        return Storage(self.storage_options, renewed=self.renewed, requests=self.requests)

    @property
    def is_partitioned(self) -> bool:
        """Whether the spec has fields."""
        return not self.spec.is_unpartitioned()

    @property
    def is_sorted(self) -> bool:
        """Whether files must be sorted."""
        return not self.sort_order.is_unsorted

    @property
    def sorts(self) -> bool:
        """Whether writers must sort."""
        return self.is_sorted and not self.presorted

    def split(self, batch: pa.RecordBatch) -> list[tuple[tuple[Any, ...], pa.RecordBatch]]:
        """The rows of a batch by partition, as (partition values, rows) in a fixed order."""
        if not self.is_partitioned:
            return [((), batch)]
        return split_by_partition(self.iceberg_schema, self.spec, batch)

    def sort(self, rows: pa.Table) -> pa.Table:
        """Rows in the table's sort order."""
        return rows.take(sort_indices(self.iceberg_schema, self.sort_order, rows)) if self.sorts else rows

    def owned_files(self) -> AbstractContextManager[OwnedFiles]:
        """Own everything that is written to the folder, which no other write uses."""
        return owned_files(self.storage, self.folder)

    def partition_folder(self, partition: tuple[Any, ...]) -> str:
        """The folder of a partition's files."""
        return (
            join(self.folder, partition_path(self.iceberg_schema, self.spec, partition)) if partition else self.folder
        )

    def partition_of(
        self, footer: pq.FileMetaData, read: Callable[[list[str]], pa.Table], *, has_own_names: bool = True
    ) -> tuple[Any, ...]:
        """The partition of all rows of a file, computed from the rows.

        If every transform preserves order, minimum and maximum decide; otherwise the columns are read.

        Args:
            footer: The file's footer.
            read: Reads top-level columns of the file.
            has_own_names: Whether the file uses the table's column names; otherwise the columns are read.

        Raises:
            SchemaError: The rows belong to several partitions.
        """
        if not self.is_partitioned or footer.num_rows == 0:
            return ()
        names = [str(self.iceberg_schema.find_column_name(field.source_id)) for field in self.spec.fields]
        extremes = self._extremes(footer, names) if has_own_names else None
        rows = extremes if extremes is not None else read(sorted({name.partition(".")[0] for name in names}))
        values = []
        for partition_field, column in zip(
            self.spec.fields, partition_columns(self.iceberg_schema, self.spec, rows), strict=True
        ):
            distinct = pc.unique(column)
            if len(distinct) != 1:
                raise SchemaError(
                    f"a data file contains rows of {len(distinct)} partitions: {partition_field.name} is "
                    f"{', '.join(map(str, distinct[:3].to_pylist()))}"
                )
            values.append(physical_value(distinct.type, distinct[0]))
        return tuple(values)

    def _extremes(self, footer: pq.FileMetaData, names: list[str]) -> pa.Table | None:
        """Minimum and maximum of each partition column, as two rows; None if the footer does not have them."""
        if not all(field.transform.preserves_order for field in self.spec.fields):
            return None
        columns = {}
        positions = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
        for name in names:
            type_ = next((found.type for found in leaves(self.schema) if found.name == name), None)
            if type_ is None or "." in name or not _has_exact_bounds(type_):
                return None
            bounds: list[Any] = []
            nulls = 0
            for group in range(footer.num_row_groups):
                statistics = footer.row_group(group).column(positions[name]).statistics
                if statistics is None or not statistics.has_null_count:
                    return None
                nulls += statistics.null_count
                if statistics.has_min_max:
                    bounds += [statistics.min, statistics.max]
            if nulls not in (0, footer.num_rows) or bool(bounds) == (nulls == footer.num_rows):
                return None
            columns[name] = pa.array([min(bounds), max(bounds)] if bounds else [None, None], type_)
        return pa.table(columns)

    def data_file(
        self,
        location: str,
        footer: pq.FileMetaData,
        file_size_bytes: int,
        *,
        partition: tuple[Any, ...] = (),
        nan_value_counts: Mapping[int, int] | None = None,
        is_sorted: bool = False,
    ) -> DataFile:
        """A Parquet file with the metrics that the table's properties ask for.

        Args:
            location: The file.
            footer: Its footer.
            file_size_bytes: Its exact size.
            partition: Its partition values.
            nan_value_counts: NaNs by field id, which footers do not contain.
            is_sorted: Whether its rows are in the sort order.
        """
        return parquet_data_file(
            location,
            footer,
            file_size_bytes,
            self.schema,
            self.modes,
            spec_id=self.spec.spec_id,
            partition=partition,
            sort_order_id=self.sort_order.order_id if is_sorted and self.is_sorted else None,
            nan_value_counts=nan_value_counts,
        )


def file_layout(state: TableState, *, ref: str = MAIN, lineage: bool = False) -> FileLayout:
    """The layout of files that are about to be added to a table.

    Data files of one write share a folder of their own, so that a killed writer leaves only one folder.

    Args:
        state: The table.
        ref: The branch to which they are added.
        lineage: Whether they contain existing rows, which keep their row ids in version 3.

    Raises:
        SchemaError: A table property has an invalid value, or a column has the name of a row lineage column.
        UnsupportedError: The table's warehouse was copied or moved, and the files would be in the old location.
    """
    state.storage.check_writable(state.data_folder)
    properties = state.properties
    lineage = lineage and state.metadata.format_version >= VERSION_WITH_LINEAGE
    if lineage and (taken := set(LINEAGE_COLUMNS.names).intersection(state.schema.names)):
        raise SchemaError(
            f"column {min(taken)!r} has a name that is reserved for row lineage; rename it", location=state.name
        )
    encoding = FileEncoding.from_properties(properties)
    target_bytes, row_group_bytes = _sizes(properties)
    policy = SketchPolicy.from_properties(properties)
    policy.check(state.schema)
    # Whether they can be published is decided at commit; an unused sample costs little.
    candidates = policy.columns(
        state.schema, created=state.snapshot(ref) is None, sketched=[leaf.field_id for leaf in leaves(state.schema)]
    )
    sort_order = state.metadata.sort_order()
    return FileLayout(
        table=state.name,
        folder=join(state.data_folder, str(uuid.uuid4())),
        iceberg_schema=state.metadata.schema(),
        spec=state.spec,
        sort_order=sort_order,
        modes=metrics_modes(state.schema, properties, tuple(field.source_id for field in sort_order.fields)),
        sketched=tuple(leaf.field_id for leaf in candidates),
        file_format=encoding.file_format,
        codec=encoding.codec,
        codec_level=encoding.codec_level,
        shredded_rows=encoding.shredded_rows,
        page_index=encoding.page_index,
        hashed=encoding.hashed if encoding.file_format == "parquet" else (),
        key_bytes=encoding.key_bytes,
        target_file_size_bytes=target_bytes,
        row_group_size_bytes=row_group_bytes,
        storage_options=dict(state.storage.options),
        renewed=state.storage.renewed,
        requests=state.storage.requests,
        deletes=FileEncoding.from_properties(properties, deletes=True),
        deletes_by_partition=_deletes_by_partition(properties),
        lineage=lineage,
    )


def check_layout_properties(properties: Mapping[str, str], schema: pa.Schema) -> None:
    """Refuse properties with which no file could be written.

    Args:
        properties: The table's properties.
        schema: Its columns, with field ids.

    Raises:
        SchemaError: A property has an invalid value; the message names it.
    """
    FileEncoding.from_properties(properties)
    FileEncoding.from_properties(properties, deletes=True)
    _sizes(properties)
    _deletes_by_partition(properties)
    metrics_modes(schema, properties)


def _sizes(properties: Mapping[str, str]) -> tuple[int, int]:
    """Target bytes of data files and of their row groups."""
    return (
        whole_number(properties, "write.target-file-size-bytes", DEFAULT_TARGET_FILE_SIZE_BYTES),
        whole_number(properties, "write.parquet.row-group-size-bytes", DEFAULT_ROW_GROUP_SIZE_BYTES),
    )


def _deletes_by_partition(properties: Mapping[str, str]) -> bool:
    granularity = properties.get("write.delete.granularity", "file").strip().lower()
    if granularity not in ("file", "partition"):
        raise SchemaError(f"table property write.delete.granularity must be file or partition, found {granularity!r}")
    return granularity == "partition"


def _has_exact_bounds(type_: pa.DataType) -> bool:
    """Types whose footer statistics are exact values: never truncated, no NaN, no ambiguous unit."""
    return pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_)
