"""Manifest lists: the manifests of one snapshot, with summaries by which planning skips manifests unread.

A manifest is written before the commit that publishes it has a sequence number, and may be reused by a retry under
another snapshot id. So in its record, values that only the commit knows are None; the list, written once per attempt,
fills them in.

Spec: Iceberg spec, Manifest Lists, First Row ID Assignment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skerry.avro import read_columns, read_header, write_container
from skerry.errors import FormatError, SchemaError
from skerry.iceberg.manifests.avro_schemas import (
    MANIFEST_FILE_FIELDS,
    SUMMARIES_ID,
    SUMMARY_FIELDS,
    arrow_type,
    check_version,
    manifest_list_schema,
    project,
)
from skerry.storage import Storage

if TYPE_CHECKING:
    from skerry.encryption import KeyMetadata

__all__ = [
    "FieldSummary",
    "ManifestContent",
    "ManifestFile",
    "ManifestList",
    "decode_manifest_list",
    "encode_manifest_list",
    "manifest_codec",
    "read_manifest_list",
    "resolved_manifests",
]

_RULE = "Iceberg spec, Manifest Lists"

_CODECS = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}


class ManifestContent(IntEnum):
    """The content of a manifest's files."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """A summary of a manifest's files' values of one partition field.

    Args:
        contains_null: Whether a file's value is null.
        contains_nan: Whether a file's value is NaN; None if unknown.
        lower_bound: Minimum, serialised; None if all are null or NaN.
        upper_bound: Maximum, serialised; None if all are null or NaN.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The record of a manifest in a manifest list.

    Args:
        manifest_path: Its location.
        manifest_length: Its size in bytes.
        partition_spec_id: The partition spec of its files.
        content: Data files or delete files.
        sequence_number: The number of the commit that added it; None until then.
        min_sequence_number: The minimum data sequence number of its live files; None if all of them inherit theirs from
            the commit that adds the manifest.
        added_snapshot_id: The snapshot that added it; None until then.
        added_files_count: Entries with status ADDED; None if unknown (version 1).
        existing_files_count: Entries with status EXISTING; None if unknown.
        deleted_files_count: Entries with status DELETED; None if unknown.
        added_rows_count: Rows in the files with status ADDED; None if unknown.
        existing_rows_count: Rows in the files with status EXISTING; None if unknown.
        deleted_rows_count: Rows in the files with status DELETED; None if unknown.
        partitions: A summary for every field of the spec; empty if unknown or without fields.
        key_metadata: What decrypts the manifest; None if it is not encrypted. It is never printed.
        first_row_id: First row id of its files without one of their own (version 3); None until assigned.
    """

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int | None = None
    min_sequence_number: int | None = None
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] = ()
    key_metadata: bytes | None = dataclasses.field(default=None, repr=False)
    first_row_id: int | None = None

    @property
    def has_live_files(self) -> bool:
        """Whether it may contain live files: unknown counts mean that it may."""
        return self.added_files_count != 0 or self.existing_files_count != 0


@dataclass(frozen=True, slots=True)
class ManifestList:
    """An encoded manifest list.

    Args:
        data: The file.
        manifests: Its manifests, with everything filled in.
        next_row_id: The table's `next-row-id` after this commit (version 3); None before version 3.
    """

    data: bytes
    manifests: tuple[ManifestFile, ...]
    next_row_id: int | None = None


def manifest_codec(properties: Mapping[str, str]) -> str:
    """The Avro codec of a table's manifests and manifest lists.

    Args:
        properties: The table's properties; `write.manifest.compression-codec`, else `write.avro.compression-codec`,
            else gzip.

    Raises:
        SchemaError: There is no such codec.
    """
    for key in ("write.manifest.compression-codec", "write.avro.compression-codec"):
        if key in properties:
            codec = _CODECS.get(properties[key].lower())
            if codec is None:
                raise SchemaError(
                    f"table property {key} must be one of {', '.join(_CODECS)}, found {properties[key]!r}"
                )
            return codec
    return _CODECS["gzip"]


# Writing -------------------------------------------------------------------------------------------------------------


def encode_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None = None,
    sequence_number: int = 0,
    first_row_id: int | None = None,
    codec: str = "deflate",
    lists_summaries: bool = False,
) -> ManifestList:
    """Encode the manifest list of a snapshot.

    Args:
        manifests: The snapshot's manifests; in new ones, values that only the commit knows are None.
        format_version: The table's: 1, 2 or 3.
        snapshot_id: The snapshot.
        parent_snapshot_id: The snapshot that it builds on.
        sequence_number: The sequence number of the commit (from version 2 on).
        first_row_id: The table's `next-row-id` (version 3).
        codec: Avro's name of the compression codec.
        lists_summaries: Whether manifests without summaries of partitions have an empty list of them instead of none,
            which only those of tables without partitions may have.

    Raises:
        FormatError: A manifest is not allowed in such a list.

    Spec: Iceberg spec, Manifest Lists, First Row ID Assignment, Sequence Number Inheritance.
    """
    metadata = {
        "format-version": str(format_version),
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
    }
    if format_version >= 2:
        metadata["sequence-number"] = str(sequence_number)
    if format_version >= 3:
        if first_row_id is None:
            raise FormatError("a manifest list of version 3 needs the table's next-row-id", rule=_RULE)
        metadata["first-row-id"] = str(first_row_id)
    next_row_id = first_row_id if format_version >= 3 else None
    complete = []
    for manifest in manifests:
        if format_version == 1:
            manifest = dataclasses.replace(manifest, sequence_number=0, min_sequence_number=0)
        filled = _fill_in(manifest, snapshot_id, sequence_number)
        _check(filled, format_version)
        if next_row_id is not None and filled.content is ManifestContent.DATA and filled.first_row_id is None:
            filled = dataclasses.replace(filled, first_row_id=next_row_id)
            # reserve ids for existing files too: those of a table upgraded from version 2 have none yet
            next_row_id += (filled.added_rows_count or 0) + (filled.existing_rows_count or 0)
        complete.append(filled)
    records = [_to_record(manifest, format_version, lists_summaries=lists_summaries) for manifest in complete]
    data = write_container(manifest_list_schema(format_version), records, metadata=metadata, codec=codec)
    return ManifestList(data, tuple(complete), next_row_id)


def _fill_in(manifest: ManifestFile, snapshot_id: int, sequence_number: int) -> ManifestFile:
    if manifest.added_snapshot_id is None:
        manifest = dataclasses.replace(manifest, added_snapshot_id=snapshot_id)
    is_new = manifest.added_snapshot_id == snapshot_id
    if not is_new and (manifest.sequence_number is None or manifest.min_sequence_number is None):
        raise FormatError(
            f"a manifest of snapshot {manifest.added_snapshot_id} has no sequence number",
            location=manifest.manifest_path,
            rule="Iceberg spec, Sequence Number Inheritance",
        )
    if manifest.sequence_number is None:
        manifest = dataclasses.replace(manifest, sequence_number=sequence_number)
    if manifest.min_sequence_number is None:
        manifest = dataclasses.replace(manifest, min_sequence_number=sequence_number)
    return manifest


def _check(manifest: ManifestFile, version: int) -> None:
    if version == 1 and manifest.content is not ManifestContent.DATA:
        raise FormatError("delete files need format version 2", location=manifest.manifest_path, rule=_RULE)
    if manifest.content is not ManifestContent.DATA and manifest.first_row_id is not None:
        raise FormatError("delete manifests have no row ids", location=manifest.manifest_path, rule=_RULE)
    for field in MANIFEST_FILE_FIELDS:
        if version in field.required and getattr(manifest, field.name) is None:
            raise FormatError(f"field {field.name} is missing", location=manifest.manifest_path, rule=_RULE)


def _to_record(manifest: ManifestFile, version: int, *, lists_summaries: bool) -> dict[str, Any]:
    record = {field.name: getattr(manifest, field.name) for field in MANIFEST_FILE_FIELDS if version in field.versions}
    if version >= 2:
        record["content"] = int(manifest.content)
    summaries = [
        {field.name: getattr(summary, field.name) for field in SUMMARY_FIELDS} for summary in manifest.partitions
    ]
    # an empty list would be read as the summaries of a spec without fields
    return record | {"partitions": summaries or ([] if lists_summaries else None)}


# Reading -------------------------------------------------------------------------------------------------------------

_SUMMARIES = pa.list_(pa.struct([pa.field(field.name, arrow_type(field.type)) for field in SUMMARY_FIELDS]))


def read_manifest_list(storage: Storage, location: str, key: KeyMetadata | None = None) -> list[ManifestFile]:
    """Read the manifest list of a snapshot; see `decode_manifest_list`.

    Args:
        storage: Access to it.
        location: The file.
        key: What decrypts it; None if it is not encrypted.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is not a manifest list, or it is corrupt.
        UnsupportedError: Its version is unknown.
    """
    return resolved_manifests(storage, decode_manifest_list(storage.read(location), key, location=location))


def resolved_manifests(storage: Storage, manifests: list[ManifestFile]) -> list[ManifestFile]:
    """Manifests whose relative locations are joined to the table's folder, if that is known."""
    if storage.base is None:
        return manifests
    return [replace(manifest, manifest_path=storage.resolved(manifest.manifest_path)) for manifest in manifests]


def decode_manifest_list(
    data: Any, key: KeyMetadata | None = None, *, location: str | None = None
) -> list[ManifestFile]:
    """Decode a manifest list.

    Args:
        data: The whole file.
        key: What decrypts it; None if it is not encrypted.
        location: The file, for messages.

    Returns:
        Its manifests, in their order. Counts omitted by an old writer are None; sequence numbers of version 1 are 0.

    Raises:
        FormatError: The bytes are not a manifest list, or they are corrupt.
        UnsupportedError: The version is unknown.

    Spec: Iceberg spec, Manifest Lists.
    """
    if key is not None:
        from skerry.encryption import decode_gcm_stream

        data = decode_gcm_stream(data, key, location=location)
    check_version(read_header(data, location=location).metadata, location)
    batch = read_columns(data, [field.id for field in MANIFEST_FILE_FIELDS], ignore_missing=True, location=location)
    columns = project(batch, MANIFEST_FILE_FIELDS, {SUMMARIES_ID: _SUMMARIES}, location)
    for name in ("content", "sequence_number", "min_sequence_number"):
        columns[name] = columns[name].fill_null(0)
    _check_columns(columns, location)
    rows = zip(*(columns[field.name].to_pylist() for field in MANIFEST_FILE_FIELDS), strict=True)
    names = [field.name for field in MANIFEST_FILE_FIELDS]
    return [_from_row(dict(zip(names, row, strict=True))) for row in rows]


def _check_columns(columns: Mapping[str, pa.Array], location: str | None) -> None:
    for row, content in enumerate(columns["content"].to_pylist()):
        if content not in iter(ManifestContent):
            raise FormatError(f"manifest {row} has content {content}, expected 0 or 1", location=location, rule=_RULE)
    for field in MANIFEST_FILE_FIELDS:
        if field.type in ("int", "long") and field.name != "added_snapshot_id":
            for row, value in enumerate(columns[field.name].to_pylist()):
                if value is not None and value < 0:
                    raise FormatError(f"manifest {row} has {field.name} {value}", location=location, rule=_RULE)


def _from_row(row: dict[str, Any]) -> ManifestFile:
    row["content"] = ManifestContent(row["content"])
    row["partitions"] = tuple(FieldSummary(**summary) for summary in row["partitions"] or ())
    return ManifestFile(**row)
