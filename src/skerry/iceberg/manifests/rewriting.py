"""Manifests made of the columns of others, without an object for each entry.

Spec: Iceberg spec, Manifests, Manifest Entry Fields, Data File Fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.avro import ContainerEncoder
from skerry.iceberg.manifests.avro_schemas import (
    BLOCK_SIZE_BYTES,
    DATA_FILE_FIELDS,
    ENTRY_FIELDS,
    Field,
    manifest_schema,
    partition_names,
)
from skerry.iceberg.manifests.file_batch import conform_partition
from skerry.iceberg.manifests.manifest import (
    EntryStatus,
    ManifestContent,
    check_entry,
    manifest_header,
    with_counts,
)
from skerry.iceberg.manifests.manifest_list import ManifestFile
from skerry.iceberg.manifests.reader import Manifest, physical_column
from skerry.iceberg.manifests.summaries import summarize_partitions
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.partitioning.partitions import partition_type

__all__ = ["encode_entries", "joined_entries"]


def joined_entries(parts: Iterable[Manifest], schema: Schema, spec: PartitionSpec) -> pa.RecordBatch:
    """The entries of manifests of one spec, one after the other.

    Args:
        parts: The manifests, with all columns; at least one.
        schema: The table's current schema, which says the types of partition values.
        spec: Their partition spec.

    Raises:
        FormatError: A partition does not fit the spec.
    """
    types, tables = partition_type(schema, spec), []
    for part in parts:
        found = conform_partition(part.table.column("partition"), spec, part.file.manifest_path)
        if len(types):
            values = [_as_type(column, field.type) for column, field in zip(found.flatten(), types, strict=True)]
            found = pa.StructArray.from_arrays(values, fields=list(types))
        tables.append(part.table.set_column(part.table.schema.get_field_index("partition"), "partition", found))
    return tables[0] if len(tables) == 1 else pa.concat_batches(tables)


def _as_type(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_null(type_):
        return pa.nulls(len(column))
    return column if column.type == type_ else column.cast(type_)


def encode_entries(
    location: str,
    entries: pa.RecordBatch,
    *,
    schema: Schema,
    spec: PartitionSpec,
    format_version: int,
    content: ManifestContent,
    snapshot_id: int,
    codec: str = "deflate",
) -> tuple[bytes, ManifestFile]:
    """Encode a manifest, as `skerry.iceberg.manifests.manifest.encode_manifest` encodes objects.

    Args:
        location: Its future location.
        entries: At least one row of the columns that `joined_entries` gives; the partition is that of the spec.
        schema: The table's current schema.
        spec: The partition spec.
        format_version: The table's: 1, 2 or 3.
        content: Data files or delete files.
        snapshot_id: The snapshot that adds the manifest.
        codec: Avro's name of the compression codec.

    Returns:
        The bytes, and the manifest as the manifest list names it.

    Raises:
        FormatError: An entry is not allowed in such a manifest.
    """
    described = ManifestFile(location, 0, spec.spec_id, content, added_snapshot_id=snapshot_id)
    _check(entries, described, format_version)
    partition = partition_type(schema, spec)
    columns = {name: entries.column(name) for name in entries.schema.names}
    columns["file_format"] = pc.utf8_upper(columns["file_format"])
    columns["block_size_in_bytes"] = pa.repeat(pa.scalar(BLOCK_SIZE_BYTES, pa.int64()), len(entries))
    columns["partition"] = _named(columns["partition"], partition_names(partition))
    if format_version == 1:
        columns["snapshot_id"] = columns["snapshot_id"].fill_null(snapshot_id)
    encoder = ContainerEncoder(
        manifest_schema(partition, format_version),
        metadata=manifest_header(schema, spec, format_version, content),
        codec=codec,
    )
    data = b"".join([encoder.header, *encoder.encode_columns(_records(columns, format_version))])
    return data, _described(described, entries, partition, len(data))


# Checks --------------------------------------------------------------------------------------------------------------


def _check(entries: pa.RecordBatch, file: ManifestFile, version: int) -> None:
    """Refuse entries that such a manifest must not have.

    What is allowed depends on a few properties, so that one entry of each kind stands for all of them.
    """
    kinds = np.zeros(len(entries), np.int64)
    for values in (entries.column("status"), entries.column("content")):
        kinds = kinds * 4 + values.to_numpy(zero_copy_only=False)
    for name in _KIND_COLUMNS:
        kinds = kinds * 2 + np.asarray(entries.column(name).is_valid())
    kinds = kinds * 2 + (_lengths(entries.column("equality_ids")) > 0)
    kinds = kinds * 2 + np.asarray(pc.equal(pc.utf8_lower(entries.column("file_format")), "puffin"))
    _, rows = np.unique(kinds, return_index=True)
    for entry in Manifest(file, entries, {}).entries(rows):
        check_entry(entry, version, file.content)


_KIND_COLUMNS: Final = (
    "snapshot_id",
    "sequence_number",
    "file_sequence_number",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)


# Records -------------------------------------------------------------------------------------------------------------


def _records(columns: Mapping[str, pa.Array], version: int) -> pa.Table:
    """The columns as the records that Avro is to encode: only what is required is not nullable."""
    files, file_fields = _fields(DATA_FILE_FIELDS, columns, version)
    data_file = pa.StructArray.from_arrays(files, fields=file_fields)
    entries, entry_fields = _fields(ENTRY_FIELDS, {**columns, "data_file": data_file}, version)
    return pa.Table.from_arrays(entries, schema=pa.schema(entry_fields))


def _fields(
    fields: Iterable[Field], columns: Mapping[str, pa.Array], version: int
) -> tuple[list[pa.Array], list[pa.Field]]:
    written = [field for field in fields if version in field.versions]
    arrays = [_with_items(columns[field.name]) for field in written]
    return arrays, [
        pa.field(field.name, array.type, nullable=version not in field.required)
        for field, array in zip(written, arrays, strict=True)
    ]


def _with_items(array: pa.Array) -> pa.Array:
    """Lists and maps whose items are not nullable, null where they are empty; other arrays as they are."""
    type_ = array.type
    if not pa.types.is_list(type_) and not pa.types.is_map(type_):
        return array
    missing = pa.array(_lengths(array) == 0)
    if pa.types.is_map(type_):
        wanted = pa.map_(type_.key_type, pa.field("value", type_.item_type, nullable=False))
        return pa.MapArray.from_arrays(_offsets(array), array.keys, array.items, wanted, mask=missing)
    wanted = pa.list_(pa.field("item", type_.value_type, nullable=False))
    return pa.ListArray.from_arrays(_offsets(array), array.values, wanted, mask=missing)


def _lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """int64[rows] The number of items; 0 of null."""
    return np.where(np.asarray(array.is_valid()), np.diff(array.offsets.to_numpy()), 0)


def _offsets(array: pa.Array) -> pa.Array:
    return pa.array(array.offsets.to_numpy(), pa.int32())


def _named(partition: pa.StructArray, names: list[str]) -> pa.StructArray:
    if not names:
        return partition
    return pa.StructArray.from_arrays(partition.flatten(), names=names)


# The record in the manifest list -------------------------------------------------------------------------------------


def _described(file: ManifestFile, entries: pa.RecordBatch, partition: pa.Schema, length: int) -> ManifestFile:
    statuses = entries.column("status").to_numpy(zero_copy_only=False)
    counts = entries.column("record_count").to_numpy(zero_copy_only=False)
    files = Counter({status: int(np.count_nonzero(statuses == status)) for status in EntryStatus})
    rows = Counter({status: int(counts[statuses == status].sum()) for status in EntryStatus})
    live = pa.array(statuses != EntryStatus.DELETED)
    values = [_values(column) for column in entries.column("partition").flatten()] if len(partition) else []
    return with_counts(
        file,
        length=length,
        files=files,
        rows=rows,
        min_sequence_number=pc.min(entries.column("sequence_number").filter(live)).as_py(),
        partitions=summarize_partitions(partition, values),
    )


def _values(column: pa.Array) -> list[object]:
    """The physical values of a column, each at least once."""
    found = physical_column(column)
    return (found if pa.types.is_floating(found.type) else found.unique()).to_pylist()  # 0.0 and -0.0 are two values
