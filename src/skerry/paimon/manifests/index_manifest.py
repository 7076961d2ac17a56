"""Index manifests: the index files of a snapshot, all of them in one file.

Spec: docs/formats/paimon.md § 5.6; Paimon spec, Table Index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import pyarrow as pa

from skerry.errors import FormatError
from skerry.paimon.manifests.manifest import FileKind
from skerry.paimon.manifests.metadata_file import (
    MetadataEncoding,
    encode_metadata,
    list_of,
    read_metadata,
    required,
    to_batch,
)
from skerry.storage import Storage

__all__ = [
    "DELETION_VECTORS",
    "HASH",
    "INDEX_MANIFEST_VERSION",
    "DeletionVectorMeta",
    "GlobalIndexMeta",
    "IndexManifestEntry",
    "encode_index_manifest",
    "read_index_manifest",
]

INDEX_MANIFEST_VERSION: Final = 1
_RULE: Final = "docs/formats/paimon.md § 5.6"

HASH = "HASH"
"""Index type: hashes of the keys of a bucket (dynamic buckets)."""
DELETION_VECTORS = "DELETION_VECTORS"
"""Index type: vectors of deleted rows."""


@dataclass(frozen=True, slots=True)
class DeletionVectorMeta:
    """The location of a data file's deletion vector in an index file.

    Args:
        data_file_name: The data file, without folders.
        offset: Where the vector's length field begins.
        length: Bytes; what they include depends on the vector's kind.
        cardinality: Deleted rows; None if unknown.
    """

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class GlobalIndexMeta:
    """The rows and columns that a global index covers."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None


@dataclass(frozen=True, slots=True)
class IndexManifestEntry:
    """An index file.

    Args:
        partition: Values of the partition keys as a row with arity.
        bucket: Its bucket.
        index_type: `HASH`, `DELETION_VECTORS`, or the name of a global index.
        file_name: Its name, without folders.
        file_size: Bytes.
        row_count: Hashes or vectors in it.
        deletion_vectors_ranges: The vectors in it; None if it has none.
        external_path: Where it is, if not in the table.
        global_index: What a global index covers.
        kind: Always ADD in files.
    """

    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors_ranges: tuple[DeletionVectorMeta, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None
    kind: FileKind = FileKind.ADD


_RANGE: Final = pa.struct(
    [
        required("f0", pa.string()),
        required("f1", pa.int32()),
        required("f2", pa.int32()),
        pa.field("_CARDINALITY", pa.int64()),
    ]
)
_GLOBAL_INDEX: Final = pa.struct(
    [
        required("_ROW_RANGE_START", pa.int64()),
        required("_ROW_RANGE_END", pa.int64()),
        required("_INDEX_FIELD_ID", pa.int32()),
        pa.field("_EXTRA_FIELD_IDS", list_of(pa.int32())),
        pa.field("_INDEX_META", pa.binary()),
    ]
)
_COLUMNS: Final = pa.schema(
    [
        required("_KIND", pa.int32()),
        required("_PARTITION", pa.binary()),
        required("_BUCKET", pa.int32()),
        required("_INDEX_TYPE", pa.string()),
        required("_FILE_NAME", pa.string()),
        required("_FILE_SIZE", pa.int64()),
        required("_ROW_COUNT", pa.int64()),
        pa.field("_DELETIONS_VECTORS_RANGES", pa.list_(_RANGE)),
        pa.field("_EXTERNAL_PATH", pa.string()),
        pa.field("_GLOBAL_INDEX", _GLOBAL_INDEX),
    ]
)


def read_index_manifest(storage: Storage, location: str) -> list[IndexManifestEntry]:
    """Read an index manifest.

    Args:
        storage: Access to it.
        location: The index manifest.

    Raises:
        NotFoundError: The file does not exist.
        FormatError: It is corrupt.
        UnsupportedError: Its version is unknown.
    """
    batch = read_metadata(storage, location, _COLUMNS, INDEX_MANIFEST_VERSION)
    return [_entry(row, location) for row in batch.to_pylist()]


def _entry(row: Mapping[str, Any], location: str) -> IndexManifestEntry:
    if row["_KIND"] != FileKind.ADD:
        raise FormatError(f"index manifests only add files, found kind {row['_KIND']}", location=location, rule=_RULE)
    ranges, global_index = row["_DELETIONS_VECTORS_RANGES"], row["_GLOBAL_INDEX"]
    if min(row["_FILE_SIZE"], row["_ROW_COUNT"]) < 0:
        raise FormatError(f"a number of index file {row['_FILE_NAME']} is negative", location=location, rule=_RULE)
    vectors = None if ranges is None else tuple(DeletionVectorMeta(*found.values()) for found in ranges if found)
    for vector in vectors or ():
        if vector.offset < 0 or vector.length < 0 or vector.offset + vector.length > row["_FILE_SIZE"]:
            raise FormatError(
                f"the deletion vector of {vector.data_file_name} is outside its file of {row['_FILE_SIZE']} bytes",
                location=location,
                rule=_RULE,
            )
    return IndexManifestEntry(
        partition=row["_PARTITION"],
        bucket=row["_BUCKET"],
        index_type=row["_INDEX_TYPE"],
        file_name=row["_FILE_NAME"],
        file_size=row["_FILE_SIZE"],
        row_count=row["_ROW_COUNT"],
        deletion_vectors_ranges=vectors,
        external_path=row["_EXTERNAL_PATH"],
        global_index=None if global_index is None else _global_index(global_index),
    )


def _global_index(row: Mapping[str, Any]) -> GlobalIndexMeta:
    extra = row["_EXTRA_FIELD_IDS"]
    return GlobalIndexMeta(
        row["_ROW_RANGE_START"],
        row["_ROW_RANGE_END"],
        row["_INDEX_FIELD_ID"],
        None if extra is None else tuple(extra),
        row["_INDEX_META"],
    )


def encode_index_manifest(entries: Iterable[IndexManifestEntry], encoding: MetadataEncoding | None = None) -> bytes:
    """Encode an index manifest.

    Args:
        entries: All index files of the snapshot.
        encoding: Its format and compression.

    Raises:
        SchemaError: A value does not fit its field.
        UnsupportedError: The compression is unknown.
    """
    rows = [
        (
            entry.kind,
            entry.partition,
            entry.bucket,
            entry.index_type,
            entry.file_name,
            entry.file_size,
            entry.row_count,
            _vector_records(entry.deletion_vectors_ranges),
            entry.external_path,
            None if entry.global_index is None else _struct(_GLOBAL_INDEX, entry.global_index),
        )
        for entry in entries
    ]
    return encode_metadata(to_batch(rows, _COLUMNS), INDEX_MANIFEST_VERSION, encoding)


def _vector_records(vectors: tuple[DeletionVectorMeta, ...] | None) -> list[dict[str, Any]] | None:
    return None if vectors is None else [_struct(_RANGE, vector) for vector in vectors]


def _struct(type_: pa.StructType, record: DeletionVectorMeta | GlobalIndexMeta) -> dict[str, Any]:
    return {column.name: getattr(record, slot.name) for column, slot in zip(type_, fields(record), strict=True)}
