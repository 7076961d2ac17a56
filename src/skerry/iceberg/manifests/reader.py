"""Reading of manifests: as columns, and entries as a view of them.

A manifest is decoded directly to Arrow columns, which are then completed with inherited values. Planning works on the
columns; entries become Python objects only when they are requested.

Spec: Iceberg spec, Manifests, Sequence Number Inheritance, First Row ID Inheritance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skerry.avro import read_columns, read_header
from skerry.errors import FormatError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.manifests.avro_schemas import (
    DATA_FILE_FIELDS,
    DATA_FILE_ID,
    ENTRY_FIELDS,
    PARTITION_ID,
    check_version,
    columns_by_id,
    project,
)
from skerry.iceberg.manifests.file_batch import conform_partition
from skerry.iceberg.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifests.references import referenced_file
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.partition_spec import PartitionSpec, partition_fields
from skerry.iceberg.metadata.schema import Schema
from skerry.storage import Storage, decode_json, is_relative
from skerry.table.files.data_file import DataFile
from skerry.table.rows.schema import nearest
from skerry.table.rows.values import is_uuid

__all__ = ["COLUMNS", "Manifest", "decode_manifest", "partition_tuples", "physical_column", "read_manifest"]

_RULE = "Iceberg spec, Manifests"
_ENTRY_COLUMNS = tuple(entry for entry in ENTRY_FIELDS if entry.id != DATA_FILE_ID)
_FILE_COLUMNS = tuple(entry for entry in DATA_FILE_FIELDS if entry.name != "block_size_in_bytes")

COLUMNS = tuple(entry.name for entry in (*_ENTRY_COLUMNS, *_FILE_COLUMNS))
"""The columns of `Manifest.table`, named as in the specification: those of the entry, then those of its data file."""

_ABSOLUTE = "^(/|[A-Za-z][A-Za-z0-9+.-]*:)"
_LOCATIONS = ("file_path", "referenced_data_file")
_NEEDED_FOR = {
    "sequence_number": ("status",),
    "file_sequence_number": ("status",),
    "first_row_id": ("status", "record_count"),
}


@dataclass(frozen=True)
class Manifest:
    """A decoded manifest.

    Args:
        file: Its record in the manifest list.
        table: One row per entry with (a choice of) `COLUMNS`; `partition` is a struct in the spec's order, maps are by
            field id, and inherited values are filled in.
        metadata: The file's own header.
    """

    file: ManifestFile
    table: pa.RecordBatch
    metadata: Mapping[str, bytes] = field(repr=False)

    @functools.cached_property
    def schema(self) -> Schema:
        """The table's schema when the manifest was written.

        Raises:
            FormatError: The header has none that can be parsed.
        """
        return self._parse("schema", lambda value: Schema.from_json(JsonObject(value, "schema")))

    @functools.cached_property
    def spec(self) -> PartitionSpec:
        """The partition spec of the files.

        Raises:
            FormatError: The header has none that can be parsed.
        """
        key = "partition-spec"
        fields = self._parse(key, lambda value: partition_fields(JsonObject({key: value}), key))
        return PartitionSpec(*fields, spec_id=self.file.partition_spec_id)

    def _parse(self, key: str, parse: Callable[[Any], Any]) -> Any:
        try:
            return parse(decode_json(self.metadata[key]))
        except (KeyError, ValueError, SkerryError) as error:
            problem = error.message if isinstance(error, SkerryError) else type(error).__name__
            raise FormatError(
                f"the header's {key!r} cannot be parsed: {problem}", location=self.file.manifest_path, rule=_RULE
            ) from error

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def entries(self, rows: Any = None, *, spec: PartitionSpec | None = None) -> Iterator[ManifestEntry]:
        """The entries as objects.

        Args:
            rows: Row numbers, None for all.
            spec: The table's partition spec, which determines the order of partition values; that of the file if None.

        Raises:
            FormatError: A field of the spec is missing.
            SchemaError: The manifest was decoded without some of its columns.
        """
        missing = [name for name in COLUMNS if name not in self.table.schema.names]
        if missing:
            raise SchemaError(f"entries need all columns; {', '.join(missing)} were not decoded")
        table = self.table if rows is None else self.table.take(pa.array(rows, pa.int64()))
        lists = {name: table.column(name).to_pylist() for name in COLUMNS if name != "partition"}
        partition = table.column("partition")
        if spec is not None:
            partition = conform_partition(partition, spec, self.file.manifest_path)
        partitions = partition_tuples(partition)
        for row in range(table.num_rows):
            yield self._entry({name: values[row] for name, values in lists.items()}, partitions[row])

    def _entry(self, row: dict[str, Any], partition: tuple[Any, ...]) -> ManifestEntry:
        data_file = DataFile(
            location=row["file_path"],
            file_format=row["file_format"].lower(),
            record_count=row["record_count"],
            file_size_bytes=row["file_size_in_bytes"],
            spec_id=self.file.partition_spec_id,
            partition=partition,
            column_sizes=dict(row["column_sizes"] or ()),
            value_counts=dict(row["value_counts"] or ()),
            null_value_counts=dict(row["null_value_counts"] or ()),
            nan_value_counts=dict(row["nan_value_counts"] or ()),
            lower_bounds=dict(row["lower_bounds"] or ()),
            upper_bounds=dict(row["upper_bounds"] or ()),
            split_offsets=tuple(row["split_offsets"] or ()),
            sort_order_id=row["sort_order_id"],
        )
        referenced = row["referenced_data_file"]
        if row["content"] == FileContent.POSITION_DELETES and data_file.file_format != "puffin":
            referenced = referenced_file(referenced, data_file.lower_bounds, data_file.upper_bounds)
        return ManifestEntry(
            status=EntryStatus(row["status"]),
            data_file=data_file,
            snapshot_id=row["snapshot_id"],
            sequence_number=row["sequence_number"],
            file_sequence_number=row["file_sequence_number"],
            content=FileContent(row["content"]),
            equality_ids=tuple(row["equality_ids"] or ()),
            key_metadata=row["key_metadata"],
            first_row_id=row["first_row_id"],
            referenced_data_file=referenced,
            content_offset=row["content_offset"],
            content_size_bytes=row["content_size_in_bytes"],
        )


def partition_tuples(partition: pa.StructArray) -> list[tuple[Any, ...]]:
    """The partition of every entry, in physical values."""
    if partition.type.num_fields == 0:
        return [()] * len(partition)
    return list(zip(*(physical_column(column).to_pylist() for column in partition.flatten()), strict=True))


def physical_column(column: pa.Array) -> pa.Array:
    """Partition values in the form that planning compares."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        return column.cast(pa.int64())
    return column.storage if is_uuid(column.type) else column


# Reading -------------------------------------------------------------------------------------------------------------


def read_manifest(storage: Storage, manifest: ManifestFile, columns: Collection[str] | None = None) -> Manifest:
    """Read a manifest; see `decode_manifest`.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is corrupt, or contradicts the manifest list.
        UnsupportedError: Its version, or that of its key metadata, is unknown.
    """
    found = decode_manifest(storage.read(manifest.manifest_path), manifest, columns)
    return found if storage.base is None else replace(found, table=_resolved(found.table, storage))


def _resolved(table: pa.RecordBatch, storage: Storage) -> pa.RecordBatch:
    """Entries whose relative locations are joined to the table's folder.

    Raises:
        UnsupportedError: A position delete file is named so: the locations in it could not be matched with certainty.
    """
    for name in _LOCATIONS:
        place = table.schema.get_field_index(name)
        if place < 0:
            continue
        if pc.all(pc.match_substring_regex(table.column(name), _ABSOLUTE)).as_py() in (True, None):
            continue
        found = table.column(name).to_pylist()
        relative = [row for row, location in enumerate(found) if location is not None and is_relative(location)]
        for row in relative if "content_offset" in table.schema.names and "content" in table.schema.names else ():
            is_vector = table.column("content_offset")[row].is_valid
            if table.column("content")[row].as_py() == FileContent.POSITION_DELETES and not is_vector:
                raise UnsupportedError(
                    "a position delete file of a table with relative locations names data files by locations, which "
                    "are absolute before version 4",
                    location=found[row],
                    rule="Iceberg spec, Paths in Metadata",
                )
        for row in relative:
            found[row] = storage.resolved(found[row])
        if relative:
            table = table.set_column(place, table.schema.field(place), pa.array(found, table.schema.field(place).type))
    return table


def decode_manifest(data: Any, manifest: ManifestFile, columns: Collection[str] | None = None) -> Manifest:
    """Decode a manifest.

    Args:
        data: The whole file, decrypted here if its record has key metadata.
        manifest: Its record in the manifest list; entries inherit from it.
        columns: The requested columns, of `COLUMNS`; None for all.

    Returns:
        The manifest with one row per entry, deleted ones included.

    Raises:
        FormatError: The bytes are not a manifest, are corrupt, or contradict the manifest list.
        SchemaError: A requested column is unknown.
        UnsupportedError: Its version, or that of its key metadata, is unknown.

    Spec: Iceberg spec, Manifests.
    """
    if manifest.key_metadata is not None:
        from skerry.encryption import decode_gcm_stream, decode_key_metadata

        key = decode_key_metadata(manifest.key_metadata, location=manifest.manifest_path)
        return _decode_manifest(decode_gcm_stream(data, key, location=manifest.manifest_path), manifest, columns)
    try:
        return _decode_manifest(data, manifest, columns)
    except FormatError as error:
        if len(data) >= manifest.manifest_length:
            raise
        raise FormatError(
            f"the manifest has {len(data)} bytes, the manifest list says {manifest.manifest_length}: {error.message}",
            location=manifest.manifest_path,
            offset=error.offset,
        ) from error


def _decode_manifest(data: Any, manifest: ManifestFile, columns: Collection[str] | None) -> Manifest:
    location = manifest.manifest_path
    metadata = read_header(data, location=location).metadata
    check_version(metadata, location)
    content = metadata.get("content", manifest.content.name.lower().encode()).decode(errors="replace")
    if content != manifest.content.name.lower():
        raise FormatError(
            f"the manifest says its content is {content!r}, the manifest list {manifest.content.name.lower()!r}",
            location=location,
            rule=_RULE,
        )
    wanted = _with_dependencies(columns)
    decoded = _decode(data, wanted, location)
    _check(decoded, location)
    if manifest.key_metadata is None:  # else the length was proven by decrypting it
        _check_length(data, manifest, decoded)
    _inherit(decoded, manifest)
    names = [name for name in COLUMNS if columns is None or name in columns]
    table = pa.RecordBatch.from_arrays([decoded[name] for name in names], names=names)
    return Manifest(manifest, table, metadata)


def _with_dependencies(columns: Collection[str] | None) -> set[str]:
    if columns is None:
        return set(COLUMNS)
    for name in columns:
        if name not in COLUMNS:
            raise SchemaError(f"manifests have no column {name!r}{nearest(name, COLUMNS)}")
    return {needed for name in columns for needed in (name, *_NEEDED_FOR.get(name, ()))}


def _decode(data: Any, wanted: set[str], location: str) -> dict[str, pa.Array]:
    entry_fields = [column for column in _ENTRY_COLUMNS if column.name in wanted]
    file_fields = [column for column in _FILE_COLUMNS if column.name in wanted]
    ids = [column.id for column in (*entry_fields, *file_fields)]
    # an unpartitioned manifest has an empty partition record, which must not hide how many rows there are
    batch = read_columns(data, ids or [0], ignore_missing=True, location=location)
    result = project(batch, entry_fields, {}, location)
    if not file_fields:
        return result
    files = columns_by_id(batch).get(DATA_FILE_ID)
    if files is None or files.null_count or not pa.types.is_struct(files.type):
        raise FormatError("field data_file is missing or null", location=location, rule=_RULE)
    members = pa.RecordBatch.from_struct_array(files)
    partition = columns_by_id(members).get(PARTITION_ID)
    types = {PARTITION_ID: pa.struct([]) if partition is None else partition.type}
    return result | project(members, file_fields, types, location)


def _check(columns: dict[str, pa.Array], location: str) -> None:
    for name, choices in (("status", EntryStatus), ("content", FileContent)):
        if name in columns:
            if name == "content":
                columns[name] = columns[name].fill_null(0)
            wrong = pc.filter(columns[name], pc.invert(pc.is_in(columns[name], pa.array([*choices], pa.int32()))))
            if len(wrong):
                raise FormatError(f"an entry has {name} {wrong[0]}", location=location, rule=_RULE)
    for name in ("record_count", "file_size_in_bytes", "content_offset", "content_size_in_bytes"):
        least = pc.min(columns[name]).as_py() if name in columns else None
        if least is not None and least < 0:
            raise FormatError(f"an entry has {name} {least}", location=location, rule=_RULE)


def _check_length(data: Any, manifest: ManifestFile, columns: Mapping[str, pa.Array]) -> None:
    """Refuse a manifest that is truncated between two blocks; a wrong length in the list alone does no harm."""
    if len(data) >= manifest.manifest_length:
        return
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    found = len(next(iter(columns.values())))
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or sum(known) != found:
        raise FormatError(
            f"{found} entries, the manifest list says {sum(known) if known else 'no number'}",
            location=manifest.manifest_path,
        )


def _inherit(columns: dict[str, pa.Array], manifest: ManifestFile) -> None:
    """Fill in the values that entries inherit from the manifest list.

    Spec: Iceberg spec, Sequence Number Inheritance, First Row ID Inheritance.
    """
    if manifest.added_snapshot_id is None:
        return  # no snapshot has it yet
    if "snapshot_id" in columns:
        columns["snapshot_id"] = columns["snapshot_id"].fill_null(manifest.added_snapshot_id)
    for name in ("sequence_number", "file_sequence_number"):
        if name in columns and manifest.sequence_number is not None:
            inherits = pc.equal(columns["status"], int(EntryStatus.ADDED))
            if manifest.sequence_number == 0:  # version 1 writes none; all of them are 0
                inherits = pa.array([True] * len(inherits), pa.bool_())
            inherited = pc.if_else(inherits, pa.scalar(manifest.sequence_number), pa.scalar(None, pa.int64()))
            columns[name] = pc.coalesce(columns[name], inherited)
    if columns.get("sequence_number", pa.array([])).null_count and manifest.sequence_number is not None:
        raise FormatError(
            "an existing or deleted entry has no sequence number",
            location=manifest.manifest_path,
            rule="Iceberg spec, Sequence Number Inheritance",
        )
    if "first_row_id" in columns:
        columns["first_row_id"] = _first_row_ids(columns, manifest)


def _first_row_ids(columns: dict[str, pa.Array], manifest: ManifestFile) -> pa.Array:
    ids = columns["first_row_id"]
    if manifest.content is not ManifestContent.DATA or manifest.first_row_id is None:
        # only a manifest that has a row id itself gives row ids to its files
        return pa.nulls(len(ids), pa.int64())
    open_ = pc.and_(ids.is_null(), pc.not_equal(columns["status"], int(EntryStatus.DELETED)))
    rows = pc.if_else(open_, columns["record_count"], 0)
    before = pc.subtract(pc.cumulative_sum(rows), rows)
    return pc.if_else(open_, pc.add(before, manifest.first_row_id), ids)
