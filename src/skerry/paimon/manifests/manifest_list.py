"""Manifest lists: the manifests of a snapshot, with what planning needs to skip them unread.

Spec: docs/formats/paimon.md § 5.2; Paimon spec, Manifest List.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import pyarrow as pa

from skerry.errors import FormatError
from skerry.paimon.manifests.cache import shared_cache
from skerry.paimon.manifests.manifest import FileKind, ManifestEntry
from skerry.paimon.manifests.metadata_file import (
    MetadataEncoding,
    encode_metadata,
    read_metadata,
    required,
    stats_struct,
    to_batch,
)
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.simple_stats import SimpleStats, stats_of_columns, stats_record, stats_records
from skerry.paimon.values.types import DataField
from skerry.storage import Storage

__all__ = [
    "MANIFEST_LIST_VERSION",
    "ManifestFileMeta",
    "encode_manifest_list",
    "read_manifest_list",
    "summarize",
]

MANIFEST_LIST_VERSION: Final = 2
_RULE: Final = "docs/formats/paimon.md § 5.2"


@dataclass(frozen=True, slots=True)
class ManifestFileMeta:
    """A manifest, in the order and with the names of manifest lists.

    Args:
        file_name: Its name, without folders.
        file_size: Bytes, exact.
        num_added_files: Entries that add a file.
        num_deleted_files: Entries that delete one.
        partition_stats: Statistics of the partition keys of its entries.
        schema_id: The largest schema id of its files.
        min_bucket: The least bucket of its entries; None if unknown, as are the following.
        max_bucket: The greatest.
        min_level: The least level.
        max_level: The greatest.
        min_row_id: The least row id.
        max_row_id: The greatest.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None

    @property
    def size_bytes(self) -> int:
        """About the memory that statistics take."""
        return self.partition_stats.size_bytes


_COLUMNS: Final = pa.schema(
    [
        required("_FILE_NAME", pa.string()),
        required("_FILE_SIZE", pa.int64()),
        required("_NUM_ADDED_FILES", pa.int64()),
        required("_NUM_DELETED_FILES", pa.int64()),
        required("_PARTITION_STATS", stats_struct()),
        required("_SCHEMA_ID", pa.int64()),
        pa.field("_MIN_BUCKET", pa.int32()),
        pa.field("_MAX_BUCKET", pa.int32()),
        pa.field("_MIN_LEVEL", pa.int32()),
        pa.field("_MAX_LEVEL", pa.int32()),
        pa.field("_MIN_ROW_ID", pa.int64()),
        pa.field("_MAX_ROW_ID", pa.int64()),
    ]
)
"""In the order of `ManifestFileMeta`."""


def read_manifest_list(storage: Storage, location: str, *, size: int | None = None) -> list[ManifestFileMeta]:
    """Read a manifest list.

    Args:
        storage: Access to it.
        location: The list.
        size: Its size in bytes by the snapshot.

    Raises:
        NotFoundError: The file does not exist.
        FormatError: It is corrupt, or not of that size.
        UnsupportedError: Its version is unknown.
    """
    known = shared_cache().find_records(storage, location, size)
    if known is not None:
        return list(known)
    batch = read_metadata(storage, location, _COLUMNS, MANIFEST_LIST_VERSION, size=size)
    columns: list[Sequence[Any]] = [
        stats_records(column) if pa.types.is_struct(column.type) else column.to_pylist() for column in batch.columns
    ]
    found = list(map(ManifestFileMeta, *columns))
    for manifest in found:
        if min(manifest.file_size, manifest.num_added_files, manifest.num_deleted_files, manifest.schema_id) < 0:
            raise FormatError(
                f"a size or count of manifest {manifest.file_name} is negative", location=location, rule=_RULE
            )
    shared_cache().keep_records(storage, location, size, found)
    return found


def encode_manifest_list(manifests: Iterable[ManifestFileMeta], encoding: MetadataEncoding | None = None) -> bytes:
    """Encode a manifest list.

    Args:
        manifests: Its manifests; none gives an empty list, which snapshots have, too.
        encoding: Its format and compression.

    Raises:
        SchemaError: A value does not fit its field.
        UnsupportedError: The compression is unknown.
    """
    rows = [
        [stats_record(value) if isinstance(value, SimpleStats) else value for value in _values(manifest)]
        for manifest in manifests
    ]
    return encode_metadata(to_batch(rows, _COLUMNS), MANIFEST_LIST_VERSION, encoding)


def _values(manifest: ManifestFileMeta) -> list[Any]:
    return [getattr(manifest, slot.name) for slot in fields(manifest)]


def summarize(
    file_name: str, file_size: int, entries: Sequence[ManifestEntry], partition_fields: Sequence[DataField]
) -> ManifestFileMeta:
    """The record of a manifest in its manifest list.

    Args:
        file_name: The manifest's name.
        file_size: Its bytes.
        entries: Its entries, at least one.
        partition_fields: The partition keys.

    Raises:
        FormatError: A partition does not match the keys.
    """
    types = [field.type for field in partition_fields]
    partitions = list({entry.partition for entry in entries})
    nulls_of = decode_rows(types, [entry.partition for entry in entries])
    distinct = stats_of_columns(types, decode_rows(types, partitions))
    row_ids = [(entry.file.first_row_id, entry.file.row_count) for entry in entries]
    known = [(first, first + count - 1) for first, count in row_ids if first is not None]
    tracked = known if len(known) == len(entries) else []
    return ManifestFileMeta(
        file_name=file_name,
        file_size=file_size,
        num_added_files=sum(entry.kind is FileKind.ADD for entry in entries),
        num_deleted_files=sum(entry.kind is FileKind.DELETE for entry in entries),
        partition_stats=SimpleStats(
            distinct.min_values, distinct.max_values, tuple(column.null_count for column in nulls_of)
        ),
        schema_id=max(entry.file.schema_id for entry in entries),
        min_bucket=min(entry.bucket for entry in entries),
        max_bucket=max(entry.bucket for entry in entries),
        min_level=min(entry.file.level for entry in entries),
        max_level=max(entry.file.level for entry in entries),
        min_row_id=min((first for first, _ in tracked), default=None),
        max_row_id=max((last for _, last in tracked), default=None),
    )
