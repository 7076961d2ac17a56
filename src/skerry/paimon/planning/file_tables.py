"""The files of manifests as a table: in the columns of Iceberg's metadata tables, and Paimon's own.

Spec: docs/formats/paimon.md § 5.3, § 5.6; Paimon documentation, System Tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.paimon.manifests.index_manifest import DELETION_VECTORS, IndexManifestEntry
from skerry.paimon.manifests.live_files import index_entries
from skerry.paimon.manifests.manifest import ENTRY_SCHEMA, FileKind, FileSource, read_entries
from skerry.paimon.manifests.manifest_list import ManifestFileMeta
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.entry_columns import PartitionCodes, partition_codes, value_metrics
from skerry.paimon.planning.file_locations import bucket_folders
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.types import DataField
from skerry.storage import is_local
from skerry.table.inspection.columns import constant, metrics_type, readable_metrics
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.work.read_ahead import WorkPool, default_threads, read_ahead

__all__ = ["FileTables", "read_all"]

_AHEAD_BYTES: Final = 4 << 20
_DATA, _POSITION_DELETES = 0, 1
_STORED: Final = {
    "record_count": ("_ROW_COUNT", pa.int64()),
    "file_size_in_bytes": ("_FILE_SIZE", pa.int64()),
    "first_row_id": ("_FIRST_ROW_ID", pa.int64()),
    "bucket": ("_BUCKET", pa.int32()),
    "total_buckets": ("_TOTAL_BUCKETS", pa.int32()),
    "level": ("_LEVEL", pa.int32()),
    "schema_id": ("_SCHEMA_ID", pa.int64()),
    "min_sequence_number": ("_MIN_SEQUENCE_NUMBER", pa.int64()),
    "max_sequence_number": ("_MAX_SEQUENCE_NUMBER", pa.int64()),
    "creation_time": ("_CREATION_TIME", pa.timestamp("ms")),
    "delete_row_count": ("_DELETE_ROW_COUNT", pa.int64()),
    "extra_files": ("_EXTRA_FILES", pa.list_(pa.string())),
    "write_cols": ("_WRITE_COLS", pa.list_(pa.string())),
}
"""Columns that are stored as they are shown: the field of manifests, and the type."""


def read_all(state: PaimonState, manifests: Sequence[ManifestFileMeta]) -> pa.RecordBatch:
    """The entries of manifests, in their order, read in threads.

    Raises:
        FormatError: A manifest is corrupt.
        NotFoundError: One is missing.
    """

    def read(manifest: ManifestFileMeta) -> pa.RecordBatch:
        location = state.paths.manifest(manifest.file_name)
        return read_entries(state.storage, location, size=manifest.file_size)

    with WorkPool(default_threads(), "inspect", is_local=is_local(state.location)) as pool:
        found = list(read_ahead(pool, read, manifests, lambda manifest: manifest.file_size, _AHEAD_BYTES))
    return pa.concat_batches(found) if found else pa.RecordBatch.from_pylist([], schema=ENTRY_SCHEMA)


class FileTables:
    """The files of a table's manifests, in the columns of its schema.

    Args:
        state: The table; the files shown may be of other snapshots and branches of it.
    """

    def __init__(self, state: PaimonState) -> None:
        self._state = state

    # ---- columns ----

    @cached_property
    def partition(self) -> pa.StructType:
        """The type of `partition`: the partition keys."""
        return _struct(self._state.schema.partition_fields)

    @cached_property
    def file_fields(self) -> list[pa.Field]:
        """The columns of files besides `readable_metrics`; `partition` only if there are partition keys, as keys."""
        key = _struct(self._state.schema.key_fields)
        types = {
            "content": pa.int32(),
            "file_path": pa.string(),
            "file_format": pa.string(),
            "partition": self.partition,
            **{name: _STORED[name][1] for name in ("record_count", "file_size_in_bytes", "first_row_id")},
            "referenced_data_file": pa.string(),
            "content_offset": pa.int64(),
            "content_size_in_bytes": pa.int64(),
            **{name: _STORED[name][1] for name in ("bucket", "total_buckets", "level", "schema_id")},
            "min_key": key,
            "max_key": key,
            "file_source": pa.string(),
            **{name: type_ for name, (_, type_) in _STORED.items()},
        }
        return [pa.field(name, type_) for name, type_ in types.items() if type_ != pa.struct([])]

    @cached_property
    def metrics_field(self) -> pa.Field:
        """The column `readable_metrics`: of the primitive columns of the schema."""
        return pa.field("readable_metrics", metrics_type(leaves(self._state.arrow_schema)))

    def _fields_of(self, columns: Iterable[str]) -> list[pa.Field]:
        known = {field.name: field for field in (*self.file_fields, self.metrics_field)}
        return [known[name] for name in columns]

    # ---- files ----

    def data_files(self, of: PaimonState, entries: pa.RecordBatch, columns: Sequence[str]) -> pa.Table:
        """Data files.

        Args:
            of: The state whose files they are.
            entries: Columns of `skerry.paimon.manifests.manifest.ENTRY_SCHEMA`.
            columns: Of `file_fields` and `metrics_field`.

        Raises:
            FormatError: A partition, a key or statistics do not match the schema.
        """
        fields = self._fields_of(columns)
        made = _DataFiles(of, entries, leaves(self._state.arrow_schema))
        return pa.Table.from_arrays([made.column(field) for field in fields], schema=pa.schema(fields))

    def deletion_vectors(self, of: PaimonState, columns: Sequence[str]) -> pa.Table:
        """The deletion vectors of a state's snapshot: files of content 1, as in Iceberg; see `data_files`."""
        fields = self._fields_of(columns)
        found = [entry for entry in index_entries(of) if entry.index_type == DELETION_VECTORS]
        made = _Vectors(of, found)
        return pa.Table.from_arrays([made.column(field) for field in fields], schema=pa.schema(fields))


def _struct(fields: Sequence[DataField]) -> pa.StructType:
    return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])


def _partition_column(codes: PartitionCodes, type_: pa.StructType) -> pa.StructArray:
    values = pa.StructArray.from_arrays(codes.values, fields=list(type_))
    return values.take(pa.array(codes.codes))


class _DataFiles:
    """The columns of data files.

    Args:
        state: The state whose files they are.
        entries: Columns of `skerry.paimon.manifests.manifest.ENTRY_SCHEMA`.
        leaves: The columns of `readable_metrics`.
    """

    def __init__(self, state: PaimonState, entries: pa.RecordBatch, leaves: Sequence[Leaf]) -> None:
        self._state = state
        self._entries = entries
        self._leaves = leaves
        self._count = entries.num_rows

    @cached_property
    def _partitions(self) -> PartitionCodes:
        return partition_codes(self._entries.column("_PARTITION"), self._state.schema.partition_fields)

    def column(self, field: pa.Field) -> pa.Array:
        """One column."""
        stored = _STORED.get(field.name)
        if stored is not None:
            return self._entries.column(stored[0]).cast(field.type)
        made: dict[str, Callable[[], pa.Array]] = {
            "content": lambda: constant(_DATA, field.type, self._count),
            "file_path": self._paths,
            "file_format": self._formats,
            "partition": lambda: _partition_column(self._partitions, field.type),
            "min_key": lambda: self._keys("_MIN_KEY", field.type),
            "max_key": lambda: self._keys("_MAX_KEY", field.type),
            "file_source": self._sources,
            "readable_metrics": self._metrics,
        }
        return made[field.name]() if field.name in made else pa.nulls(self._count, field.type)

    def _paths(self) -> pa.Array:
        buckets = self._entries.column("_BUCKET").to_numpy(zero_copy_only=False).astype(np.int64)
        folders, folder_of = bucket_folders(self._state, self._partitions, buckets)
        inside = pc.binary_join_element_wise(
            pa.array(folders, pa.string()).take(pa.array(folder_of)), self._entries.column("_FILE_NAME"), "/"
        )
        return pc.coalesce(self._entries.column("_EXTERNAL_PATH"), inside)

    def _formats(self) -> pa.Array:
        return pc.utf8_upper(pc.replace_substring_regex(self._entries.column("_FILE_NAME"), r"^.*\.", ""))

    def _keys(self, name: str, type_: pa.StructType) -> pa.StructArray:
        values = decode_rows([field.type for field in self._state.schema.key_fields], self._entries.column(name))
        return pa.StructArray.from_arrays(values, fields=list(type_))

    def _sources(self) -> pa.Array:
        codes = self._entries.column("_FILE_SOURCE")
        names = pa.array([source.name for source in FileSource], pa.string())
        if len(codes) and pc.any(pc.or_(pc.less(codes, 0), pc.greater_equal(codes, len(names)))).as_py():
            raise FormatError("a file source is unknown", rule="docs/formats/paimon.md § 5.3")
        return names.take(codes)

    def _metrics(self) -> pa.StructArray:
        """Counts and bounds; key columns that the statistics of values omit have those of keys."""
        ids = pc.unique(self._entries.column("_SCHEMA_ID")).to_pylist()
        schemas = {number: self._state.schema_by_id(number) for number in ids}
        by_value = value_metrics(self._entries, schemas)
        by_key = value_metrics(self._entries, schemas, keys=True)
        keys = {field.id for field in self._state.schema.key_fields}

        def lookup(leaf: Leaf) -> FieldMetrics | None:
            if not self._count:
                return None
            column = Column(leaf.field_id, leaf.path, leaf.type)
            return by_value(column) or (by_key(column) if leaf.field_id in keys else None)

        return readable_metrics(self._leaves, lookup, self._count)


class _Vectors:
    """The columns of deletion vectors.

    Args:
        state: The table.
        entries: The index files that contain them.
    """

    def __init__(self, state: PaimonState, entries: Sequence[IndexManifestEntry]) -> None:
        self._state = state
        pairs = [(entry, vector) for entry in entries for vector in entry.deletion_vectors_ranges or ()]
        self._files = [entry for entry, _ in pairs]
        self._vectors = [vector for _, vector in pairs]

    @cached_property
    def _partitions(self) -> PartitionCodes:
        rows = pa.array([entry.partition for entry in self._files], pa.binary())
        return partition_codes(rows, self._state.schema.partition_fields)

    @cached_property
    def _folders(self) -> list[str]:
        """The folder of each vector's bucket."""
        buckets = np.array([entry.bucket for entry in self._files], np.int64)
        folders, folder_of = bucket_folders(self._state, self._partitions, buckets)
        return [folders[number] for number in folder_of.tolist()]

    def column(self, field: pa.Field) -> pa.Array:
        """One column."""
        if field.name == "partition":
            return _partition_column(self._partitions, field.type)
        paths = self._state.paths
        files, vectors = self._files, self._vectors
        made: dict[str, Callable[[], Sequence[object]]] = {
            "content": lambda: [_POSITION_DELETES] * len(files),
            "file_path": lambda: [
                entry.external_path or paths.index_file(entry.file_name, folder)
                for entry, folder in zip(files, self._folders, strict=True)
            ],
            "file_format": lambda: [DELETION_VECTORS] * len(files),
            "record_count": lambda: [vector.cardinality for vector in vectors],
            "file_size_in_bytes": lambda: [entry.file_size for entry in files],
            "referenced_data_file": lambda: [
                paths.data_file(folder, vector.data_file_name)
                for vector, folder in zip(vectors, self._folders, strict=True)
            ],
            "content_offset": lambda: [vector.offset for vector in vectors],
            "content_size_in_bytes": lambda: [vector.length for vector in vectors],
            "bucket": lambda: [entry.bucket for entry in files],
        }
        if field.name not in made:
            return pa.nulls(len(files), field.type)
        return pa.array(made[field.name](), field.type)


def is_added(entries: pa.RecordBatch) -> pa.BooleanArray:
    """Which entries add their file."""
    return pc.equal(entries.column("_KIND"), int(FileKind.ADD))
