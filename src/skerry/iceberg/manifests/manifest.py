"""Manifests: data files or delete files of one partition spec, with their metrics and their history.

From version 2 on, entries added by a commit leave snapshot id and sequence numbers unset: readers inherit them from the
manifest list, so that a commit that lost a race can publish the same manifest again. Existing and deleted entries
contain the values that they once inherited.

Spec: Iceberg spec, Manifests, Sequence Number Inheritance, First Row ID Inheritance.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pyarrow as pa

from skerry.avro import write_container
from skerry.errors import FormatError
from skerry.iceberg.manifests.avro_schemas import BLOCK_SIZE_BYTES, manifest_schema, partition_names
from skerry.iceberg.manifests.manifest_list import FieldSummary, ManifestContent, ManifestFile
from skerry.iceberg.manifests.references import referenced_file
from skerry.iceberg.manifests.summaries import summarize_partitions
from skerry.iceberg.metadata.json_records import encode_json
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.partitioning.partitions import partition_type
from skerry.table.files.data_file import DataFile
from skerry.table.rows.values import physical_value

__all__ = [
    "EntryStatus",
    "FileContent",
    "ManifestContent",
    "ManifestEntry",
    "check_entry",
    "encode_manifest",
    "manifest_header",
    "with_counts",
]

_RULE = "Iceberg spec, Manifests"


class EntryStatus(IntEnum):
    """The status of a file in a snapshot."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class FileContent(IntEnum):
    """The content of a file."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file in a manifest.

    Args:
        status: Added, existing or deleted.
        data_file: The file, its metrics and its partition.
        snapshot_id: The snapshot that added the file, or deleted it; None is inherited.
        sequence_number: Data sequence number, the age of the rows; None is inherited by added files.
        file_sequence_number: Sequence number of the commit that added the file; None is inherited by added files.
        content: Rows, positions or keys.
        equality_ids: Field ids of the columns that equality deletes compare.
        key_metadata: What decrypts the file; None if it is not encrypted. It is never printed.
        first_row_id: Row id of the first row (version 3); None is inherited.
        referenced_data_file: The one data file to which all deletes apply; required for deletion vectors.
        content_offset: Where in the file a deletion vector begins.
        content_size_bytes: How long it is.
    """

    status: EntryStatus
    data_file: DataFile
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    content: FileContent = FileContent.DATA
    equality_ids: tuple[int, ...] = ()
    key_metadata: bytes | None = field(default=None, repr=False)
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_bytes: int | None = None

    @property
    def is_live(self) -> bool:
        """Whether the file belongs to the snapshot."""
        return self.status is not EntryStatus.DELETED

    @property
    def is_deletion_vector(self) -> bool:
        """Whether the deletes are a bitmap in a Puffin file."""
        return self.content is FileContent.POSITION_DELETES and self.data_file.file_format.lower() == "puffin"


# Writing -------------------------------------------------------------------------------------------------------------


def encode_manifest(
    location: str,
    entries: Iterable[ManifestEntry],
    *,
    schema: Schema,
    spec: PartitionSpec,
    format_version: int,
    content: ManifestContent = ManifestContent.DATA,
    snapshot_id: int | None = None,
    codec: str = "deflate",
) -> tuple[bytes, ManifestFile]:
    """Encode a manifest.

    Args:
        location: Its future location.
        entries: Its files, all of the partition spec and of the content.
        schema: The table's current schema.
        spec: The partition spec.
        format_version: The table's: 1, 2 or 3.
        content: Data files or delete files.
        snapshot_id: The snapshot that adds the manifest. Version 1 writes it into every new entry; from version 2 on it
            may be None, and the manifest can then be used by any snapshot.
        codec: Avro's name of the compression codec.

    Returns:
        The bytes, and the manifest as the manifest list names it.

    Raises:
        FormatError: An entry is not allowed in such a manifest.
        SchemaError: A partition value does not fit its type.

    Spec: Iceberg spec, Manifests, Manifest Entry Fields, Data File Fields.
    """
    partition = partition_type(schema, spec)
    checked = [_checked(entry, partition, spec.spec_id, format_version, content, snapshot_id) for entry in entries]
    if not checked:
        raise FormatError("a manifest needs at least one entry", location=location, rule=_RULE)
    names = partition_names(partition)
    records = [_to_record(entry, names, format_version) for entry in checked]
    data = write_container(
        manifest_schema(partition, format_version),
        records,
        metadata=manifest_header(schema, spec, format_version, content),
        codec=codec,
    )
    described = ManifestFile(location, 0, spec.spec_id, content, added_snapshot_id=snapshot_id)
    return data, _describe(described, checked, partition, len(data))


def manifest_header(
    schema: Schema, spec: PartitionSpec, format_version: int, content: ManifestContent
) -> dict[str, str]:
    """The entries of a manifest's header beside Avro's own.

    Spec: Iceberg spec, Manifests.
    """
    header = {
        "schema": encode_json(schema.to_json()).decode(),
        "schema-id": str(schema.schema_id),
        "partition-spec": encode_json([field.to_json() for field in spec.fields]).decode(),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
    }
    return header if format_version == 1 else header | {"content": content.name.lower()}


def _checked(
    entry: ManifestEntry,
    partition: pa.Schema,
    spec_id: int,
    version: int,
    content: ManifestContent,
    snapshot_id: int | None,
) -> ManifestEntry:
    """The entry as it will be written, its partition values in their physical form."""
    file = entry.data_file
    check_entry(entry, version, content)
    problem = None
    if file.spec_id != spec_id:
        problem = f"the file is of partition spec {file.spec_id}, the manifest of {spec_id}"
    if problem is None and len(file.partition) != len(partition):
        problem = f"the partition has {len(file.partition)} values, the spec {len(partition)} fields"
    if version == 1 and entry.snapshot_id is None:
        if snapshot_id is None:
            problem = problem or "version 1 needs a snapshot id"
        entry = dataclasses.replace(entry, snapshot_id=snapshot_id)
    if problem is not None:
        raise FormatError(problem, location=file.location, rule=_RULE)
    values = tuple(physical_value(field.type, value) for field, value in zip(partition, file.partition, strict=True))
    return dataclasses.replace(entry, data_file=dataclasses.replace(file, partition=values))


def check_entry(entry: ManifestEntry, version: int, content: ManifestContent) -> None:
    """Refuse an entry that must not be in a manifest of this version and content.

    Raises:
        FormatError: It must not.
    """
    problem = _problem(entry, version, content)
    if problem is not None:
        raise FormatError(problem, location=entry.data_file.location, rule=_RULE)


def _problem(entry: ManifestEntry, version: int, content: ManifestContent) -> str | None:
    """Why an entry is not allowed in a manifest of this version and content; None if it is."""
    is_data = entry.content is FileContent.DATA
    has_vector = entry.content_offset is not None and entry.content_size_bytes is not None
    is_new = entry.status is EntryStatus.ADDED
    numbered = entry.sequence_number is not None and entry.file_sequence_number is not None
    rules = (
        (is_data == (content is ManifestContent.DATA), f"a file of {entry.content.name} in a {content.name} manifest"),
        (version >= 2 or is_data, "delete files need format version 2"),
        (version < 2 or is_new or numbered, f"{entry.status.name} entries need both sequence numbers"),
        (
            version < 2 or entry.status is not EntryStatus.EXISTING or entry.snapshot_id is not None,
            "EXISTING entries need a snapshot id",
        ),
        (
            bool(entry.equality_ids) == (entry.content is FileContent.EQUALITY_DELETES),
            "only equality deletes have equality_ids",
        ),
        (is_data or entry.first_row_id is None, "delete files have no row ids"),
        (version >= 3 or not entry.is_deletion_vector, "deletion vectors need format version 3"),
        (
            not entry.is_deletion_vector or (has_vector and entry.referenced_data_file is not None),
            "a deletion vector needs referenced_data_file, content_offset and content_size_in_bytes",
        ),
        (
            version < 3 or not is_new or entry.content is not FileContent.POSITION_DELETES or entry.is_deletion_vector,
            "version 3 adds deletion vectors, not position delete files",
        ),
    )
    return next((message for holds, message in rules if not holds), None)


def _to_record(entry: ManifestEntry, names: Sequence[str], version: int) -> dict[str, Any]:
    file = entry.data_file
    record: dict[str, Any] = {"status": int(entry.status), "snapshot_id": entry.snapshot_id}
    data_file: dict[str, Any] = {
        "file_path": file.location,
        "file_format": file.file_format.upper(),
        "partition": dict(zip(names, file.partition, strict=True)),
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_size_bytes,
        "column_sizes": _pairs(file.column_sizes),
        "value_counts": _pairs(file.value_counts),
        "null_value_counts": _pairs(file.null_value_counts),
        "nan_value_counts": _pairs(file.nan_value_counts),
        "lower_bounds": _pairs(file.lower_bounds),
        "upper_bounds": _pairs(file.upper_bounds),
        "key_metadata": file.key_metadata if entry.key_metadata is None else entry.key_metadata,
        "split_offsets": list(file.split_offsets) or None,
        "sort_order_id": file.sort_order_id,
    }
    if version == 1:
        data_file["block_size_in_bytes"] = BLOCK_SIZE_BYTES
    else:
        record |= {"sequence_number": entry.sequence_number, "file_sequence_number": entry.file_sequence_number}
        data_file |= {
            "content": int(entry.content),
            "equality_ids": list(entry.equality_ids) or None,
            "referenced_data_file": _named_data_file(entry),
        }
    if version >= 3:
        data_file |= {
            "first_row_id": entry.first_row_id,
            "content_offset": entry.content_offset,
            "content_size_in_bytes": entry.content_size_bytes,
        }
    return record | {"data_file": data_file}


def _named_data_file(entry: ManifestEntry) -> str | None:
    """The data file of deletes, unless the bounds of their paths say it as well.

    Iceberg Java does not write it either then, and its `rewrite_table_path` (1.12) renames bounds and rows but not this
    field: in the copy, deletes would be of no file, and the rows would be there again.
    """
    name, file = entry.referenced_data_file, entry.data_file
    if name is None or entry.is_deletion_vector:
        return name
    return None if referenced_file(None, file.lower_bounds, file.upper_bounds) == name else name


def _pairs(values: dict[int, Any]) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": values[key]} for key in sorted(values)] or None


def _describe(file: ManifestFile, entries: Sequence[ManifestEntry], partition: pa.Schema, length: int) -> ManifestFile:
    files = Counter(entry.status for entry in entries)
    rows: Counter[EntryStatus] = Counter()
    for entry in entries:
        rows[entry.status] += entry.data_file.record_count
    # unset ones will be greater than all known ones
    known = [entry.sequence_number for entry in entries if entry.is_live and entry.sequence_number is not None]
    values = [[entry.data_file.partition[index] for entry in entries] for index in range(len(partition))]
    return with_counts(
        file,
        length=length,
        files=files,
        rows=rows,
        min_sequence_number=min(known, default=None),
        partitions=summarize_partitions(partition, values),
    )


def with_counts(
    file: ManifestFile,
    *,
    length: int,
    files: Counter[EntryStatus],
    rows: Counter[EntryStatus],
    min_sequence_number: int | None,
    partitions: tuple[FieldSummary, ...],
) -> ManifestFile:
    """The record of a manifest whose entries have been counted.

    Args:
        file: The record without what follows.
        length: Its size in bytes.
        files: Entries by status.
        rows: Their rows by status.
        min_sequence_number: The lowest sequence number of live files that have one.
        partitions: Summaries of partition values.
    """
    return dataclasses.replace(
        file,
        manifest_length=length,
        min_sequence_number=min_sequence_number,
        added_files_count=files[EntryStatus.ADDED],
        existing_files_count=files[EntryStatus.EXISTING],
        deleted_files_count=files[EntryStatus.DELETED],
        added_rows_count=rows[EntryStatus.ADDED],
        existing_rows_count=rows[EntryStatus.EXISTING],
        deleted_rows_count=rows[EntryStatus.DELETED],
        partitions=partitions,
    )
