"""Manifests: which data files commits added and deleted.

Planning reads them as columns (`ENTRY_SCHEMA`, one row per entry); changes of a table read records.

Spec: docs/formats/paimon.md § 5.3, § 5.4; Paimon spec, Manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.paimon.manifests.cache import read_cached, shared_cache
from skerry.paimon.manifests.metadata_file import (
    MetadataEncoding,
    decode_metadata,
    encode_metadata,
    list_of,
    required,
    stats_struct,
    to_batch,
)
from skerry.paimon.values.simple_stats import EMPTY_ROW, EMPTY_STATS, SimpleStats, stats_record, stats_records
from skerry.storage import Storage

__all__ = [
    "ENTRY_SCHEMA",
    "FILE_SCHEMA",
    "MANIFEST_VERSION",
    "DataFileMeta",
    "FileIdentity",
    "FileKind",
    "FileSource",
    "ManifestEntry",
    "batch_of",
    "decode_entries",
    "encode_entries",
    "encode_manifest",
    "entries_of",
    "files_of",
    "read_entries",
    "read_manifest",
]

MANIFEST_VERSION: Final = 2
_RULE: Final = "docs/formats/paimon.md § 5.3"


class FileKind(IntEnum):
    """What an entry does with its file."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """Which operation wrote a file."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """A data or changelog file, in the order and with the names of manifests.

    Args:
        file_name: Its name, without folders.
        file_size: Bytes, exact.
        row_count: Rows in the file, those of kind -U and -D included.
        min_key: Trimmed primary key of the first row, with arity; without fields in append tables.
        max_key: That of the last row.
        key_stats: Statistics of the trimmed primary key's columns.
        value_stats: Statistics of `value_stats_cols`.
        min_sequence_number: Least sequence number of its rows.
        max_sequence_number: Greatest one.
        schema_id: The schema that it was written with.
        level: Its level in the LSM tree; 0 in append tables.
        extra_files: Names of files beside it that belong to it, such as its file index.
        creation_time: Milliseconds of the writer's local clock since 1970.
        delete_row_count: Rows of kind -U and -D; None if unknown.
        embedded_index: Its file index, if small.
        file_source: Which operation wrote it; None if unknown.
        value_stats_cols: Columns of `value_stats`; None for all, in the order of its schema.
        external_path: Where it is, if not in the table.
        first_row_id: Row id of its first row, in tables that track rows.
        write_cols: The columns that it has, if not all.
        write_cols_sequences: Sequence numbers of those.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    schema_id: int = 0
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None


_NAME_BYTES: Final = 64

FileIdentity: TypeAlias = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]
"""Identifies the file of an entry: partition, bucket, level, name, extra files, embedded index, external path."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file that a commit added or deleted.

    Args:
        kind: Which of the two.
        partition: Values of the partition keys as a row with arity (`skerry.paimon.values.binary_row`).
        bucket: Its bucket; -2 for files whose rows are not assigned to buckets yet.
        total_buckets: The option `bucket` when it was written.
        file: The file.
    """

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def size_bytes(self) -> int:
        """About the memory that statistics, keys, names of columns and an index take."""
        file = self.file
        names = len(file.value_stats_cols or ()) + len(file.write_cols or ())
        values = len(file.min_key) + len(file.max_key) + len(file.embedded_index or b"")
        return file.key_stats.size_bytes + file.value_stats.size_bytes + values + _NAME_BYTES * names

    @property
    def identity(self) -> FileIdentity:
        """What an ADD and a DELETE of the same file have in common."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )


# Columns ------------------------------------------------------------------------------------------------------------


FILE_SCHEMA: Final = pa.schema(
    [
        required("_FILE_NAME", pa.string()),
        required("_FILE_SIZE", pa.int64()),
        required("_ROW_COUNT", pa.int64()),
        required("_MIN_KEY", pa.binary()),
        required("_MAX_KEY", pa.binary()),
        required("_KEY_STATS", stats_struct()),
        required("_VALUE_STATS", stats_struct()),
        required("_MIN_SEQUENCE_NUMBER", pa.int64()),
        required("_MAX_SEQUENCE_NUMBER", pa.int64()),
        required("_SCHEMA_ID", pa.int64()),
        required("_LEVEL", pa.int32()),
        required("_EXTRA_FILES", list_of(pa.string())),
        pa.field("_CREATION_TIME", pa.timestamp("ms")),
        pa.field("_DELETE_ROW_COUNT", pa.int64()),
        pa.field("_EMBEDDED_FILE_INDEX", pa.binary()),
        pa.field("_FILE_SOURCE", pa.int32()),
        pa.field("_VALUE_STATS_COLS", list_of(pa.string())),
        pa.field("_EXTERNAL_PATH", pa.string()),
        pa.field("_FIRST_ROW_ID", pa.int64()),
        pa.field("_WRITE_COLS", list_of(pa.string())),
        pa.field("_WRITE_COLS_SEQUENCES", list_of(pa.int64())),
    ]
)
"""The columns of data files, in the order of `DataFileMeta`."""

_HEAD_FIELDS: Final = (
    required("_KIND", pa.int32()),
    required("_PARTITION", pa.binary()),
    required("_BUCKET", pa.int32()),
    required("_TOTAL_BUCKETS", pa.int32()),
)
ENTRY_SCHEMA: Final = pa.schema([*_HEAD_FIELDS, *FILE_SCHEMA])
"""The columns of entries: those of the entry itself, then those of its file."""

_STORED_SCHEMA: Final = pa.schema([*_HEAD_FIELDS, required("_FILE", pa.struct(list(FILE_SCHEMA)))])


def read_entries(storage: Storage, location: str, *, size: int | None = None) -> pa.RecordBatch:
    """Read a manifest as columns.

    Args:
        storage: Access to it.
        location: The manifest.
        size: Its size in bytes by the manifest list.

    Returns:
        The columns of `ENTRY_SCHEMA`.

    Raises:
        NotFoundError: The file does not exist.
        FormatError: It is corrupt, or not of that size.
        UnsupportedError: Its version is unknown.
    """
    return read_cached(storage, location, "entries", size, lambda data: decode_entries(data, location=location))


def decode_entries(data: bytes, *, location: str | None = None) -> pa.RecordBatch:
    """Decode a manifest into columns; see `read_entries`."""
    batch = decode_metadata(data, _STORED_SCHEMA, MANIFEST_VERSION, location=location)
    *head, file = batch.columns
    entries = pa.RecordBatch.from_arrays([*head, *file.flatten()], schema=ENTRY_SCHEMA)
    _check(entries, location)
    return entries


def _check(entries: pa.RecordBatch, location: str | None) -> None:
    """Refuse invalid entries.

    Raises:
        FormatError: A kind is unknown, or a size or count is negative.
    """
    for name, least, most in _RANGES:
        if entries.num_rows:
            found = pc.min_max(entries.column(name)).as_py()
            if found["min"] is not None and (found["min"] < least or found["max"] > most):
                wrong = found["min"] if found["min"] < least else found["max"]
                raise FormatError(f"field {name} cannot be {wrong}", location=location, rule=_RULE)


_RANGES: Final = (
    ("_KIND", 0, 1),
    ("_BUCKET", -2, 2**31 - 1),
    ("_TOTAL_BUCKETS", -2, 2**31 - 1),
    ("_FILE_SIZE", 0, 2**63 - 1),
    ("_ROW_COUNT", 0, 2**63 - 1),
    ("_SCHEMA_ID", 0, 2**63 - 1),
    ("_LEVEL", 0, 2**31 - 1),
    ("_DELETE_ROW_COUNT", 0, 2**63 - 1),
)


# Records ------------------------------------------------------------------------------------------------------------


def read_manifest(storage: Storage, location: str, *, size: int | None = None) -> list[ManifestEntry]:
    """Read a manifest as records; see `read_entries`."""
    known = shared_cache().find_records(storage, location, size)
    if known is not None:
        return list(known)
    entries = entries_of(read_entries(storage, location, size=size))
    shared_cache().keep_records(storage, location, size, entries)
    return entries


def entries_of(entries: pa.RecordBatch) -> list[ManifestEntry]:
    """The records of some entries.

    Args:
        entries: Columns of `ENTRY_SCHEMA`.

    Raises:
        FormatError: A file source is unknown.
    """
    kinds = map(FileKind, entries.column("_KIND").to_pylist())
    head = [entries.column(name).to_pylist() for name in ("_PARTITION", "_BUCKET", "_TOTAL_BUCKETS")]
    return list(map(ManifestEntry, kinds, *head, files_of(entries)))


def files_of(entries: pa.RecordBatch) -> list[DataFileMeta]:
    """The files of entries.

    Args:
        entries: Columns of `FILE_SCHEMA`, possibly among others.

    Raises:
        FormatError: A file source is unknown.
    """
    return list(map(DataFileMeta, *(_values(field.name, entries.column(field.name)) for field in FILE_SCHEMA)))


def _values(name: str, column: pa.Array) -> Sequence[Any]:
    """Convert a column to values of `DataFileMeta`."""
    if pa.types.is_struct(column.type):
        return stats_records(column)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_list(column.type):
        return [None if value is None else tuple(value) for value in values]
    if name == "_FILE_SOURCE":
        unknown = {value for value in values if value is not None} - set(FileSource)
        if unknown:
            raise FormatError(f"file source {unknown.pop()} is unknown", rule=_RULE)
        return [None if value is None else FileSource(value) for value in values]
    return values


def batch_of(entries: Iterable[ManifestEntry]) -> pa.RecordBatch:
    """Entries as columns of `ENTRY_SCHEMA`.

    Raises:
        SchemaError: A value does not fit its field.
    """
    return to_batch([_row(entry) for entry in entries], ENTRY_SCHEMA)


def _row(entry: ManifestEntry) -> tuple[Any, ...]:
    file = entry.file
    values = [getattr(file, slot.name) for slot in fields(file)]
    values[_KEY_STATS_PLACE] = stats_record(file.key_stats)
    values[_KEY_STATS_PLACE + 1] = stats_record(file.value_stats)
    return (entry.kind, entry.partition, entry.bucket, entry.total_buckets, *values)


_KEY_STATS_PLACE: Final = FILE_SCHEMA.get_field_index("_KEY_STATS")


def encode_manifest(entries: Iterable[ManifestEntry], encoding: MetadataEncoding | None = None) -> bytes:
    """Encode records as a manifest; see `encode_entries`."""
    return encode_entries(batch_of(entries), encoding)


def encode_entries(entries: pa.RecordBatch, encoding: MetadataEncoding | None = None) -> bytes:
    """Encode a manifest with the fields of Java 1.4; `_WRITE_COLS_SEQUENCES`, which is newer, only if it is used.

    Args:
        entries: Columns of `ENTRY_SCHEMA`.
        encoding: Its format and compression.

    Raises:
        SchemaError: A required field is null.
        UnsupportedError: The compression is unknown.
    """
    names = FILE_SCHEMA.names
    if entries.column("_WRITE_COLS_SEQUENCES").null_count == entries.num_rows:
        names = names[:-1]
    file = pa.StructArray.from_arrays(
        [entries.column(name) for name in names], fields=[FILE_SCHEMA.field(name) for name in names]
    )
    head = [entries.column(field.name) for field in _HEAD_FIELDS]
    schema = pa.schema([*_HEAD_FIELDS, required("_FILE", file.type)])
    return encode_metadata(pa.RecordBatch.from_arrays([*head, file], schema=schema), MANIFEST_VERSION, encoding)
