"""Manifests between us and Iceberg Java: it reads what we write, and we read what it writes."""

from __future__ import annotations

import dataclasses
import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from java_manifests import JavaIceberg
from manifest_samples import BARE, SCHEMA, SPEC, data_entries, data_file, delete_entries, identity_table

from skerry.iceberg.manifests.manifest import EntryStatus, FileContent, ManifestContent, ManifestEntry, encode_manifest
from skerry.iceberg.manifests.manifest_list import decode_manifest_list, encode_manifest_list
from skerry.iceberg.manifests.reader import decode_manifest
from skerry.iceberg.partitioning.partitions import partition_path, partition_type

pytestmark = pytest.mark.spark

SNAPSHOT = 2**40 + 77
FIRST_ROW_ID = 2**41


@pytest.fixture(scope="module")
def java(spark):
    return JavaIceberg(spark)


def large_ids(entry):
    return entry if entry.snapshot_id is None else dataclasses.replace(entry, snapshot_id=2**40 + entry.snapshot_id)


def write(tmp_path, entries, version, *, schema=SCHEMA, spec=SPEC, content=ManifestContent.DATA):
    location = str(tmp_path / "ours.avro")
    data, manifest = encode_manifest(
        location, entries, schema=schema, spec=spec, format_version=version, content=content, snapshot_id=SNAPSHOT
    )
    (tmp_path / "ours.avro").write_bytes(data)
    listed = encode_manifest_list(
        [manifest],
        format_version=version,
        snapshot_id=SNAPSHOT,
        sequence_number=9,
        first_row_id=FIRST_ROW_ID if version >= 3 else None,
    )
    (tmp_path / "list.avro").write_bytes(listed.data)
    return listed.manifests[0], list(decode_manifest(data, listed.manifests[0]).entries())


def described(java, manifest):
    """A Java manifest as ours describe themselves."""
    summaries = manifest.partitions() or []
    return {
        "manifest_path": manifest.path(),
        "manifest_length": manifest.length(),
        "partition_spec_id": manifest.partitionSpecId(),
        "content": manifest.content().id(),
        "sequence_number": manifest.sequenceNumber(),
        "min_sequence_number": manifest.minSequenceNumber(),
        "added_snapshot_id": manifest.snapshotId(),
        "added_files_count": manifest.addedFilesCount(),
        "existing_files_count": manifest.existingFilesCount(),
        "deleted_files_count": manifest.deletedFilesCount(),
        "added_rows_count": manifest.addedRowsCount(),
        "existing_rows_count": manifest.existingRowsCount(),
        "deleted_rows_count": manifest.deletedRowsCount(),
        "partitions": [
            (s.containsNull(), s.containsNaN(), java.bytes(s.lowerBound()), java.bytes(s.upperBound()))
            for s in summaries
        ],
        "key_metadata": java.bytes(manifest.keyMetadata()),
        "first_row_id": manifest.firstRowId(),
    }


def ours(manifest):
    record = {field.name: getattr(manifest, field.name) for field in dataclasses.fields(manifest)}
    record["content"] = int(manifest.content)
    record["partitions"] = [
        (s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound) for s in manifest.partitions
    ]
    return record


def physical(java, value):
    """A partition value of Java's as ours are."""
    if value is None or isinstance(value, bool | int | float | Decimal | str):
        return value
    kind = value.getClass().getName()
    if "ByteBuffer" in kind:
        return java.bytes(value)
    if kind == "java.util.UUID":
        return uuid.UUID(value.toString()).bytes
    return Decimal(value.toPlainString()) if kind == "java.math.BigDecimal" else value.toString()


def assert_reads(java, theirs, entry, partition):
    """Java's entry says what ours does."""
    file, mine = theirs.file(), entry.data_file
    assert theirs.status().id() == int(entry.status)
    assert theirs.snapshotId() == entry.snapshot_id
    assert theirs.dataSequenceNumber() == entry.sequence_number
    assert theirs.fileSequenceNumber() == entry.file_sequence_number
    assert file.content().id() == int(entry.content)
    assert file.location() == mine.location
    assert file.format().name().lower() == mine.file_format
    assert file.recordCount() == mine.record_count
    assert file.fileSizeInBytes() == mine.file_size_bytes
    assert file.specId() == mine.spec_id
    assert dict(file.columnSizes() or {}) == mine.column_sizes
    assert dict(file.valueCounts() or {}) == mine.value_counts
    assert dict(file.nullValueCounts() or {}) == mine.null_value_counts
    assert dict(file.nanValueCounts() or {}) == mine.nan_value_counts
    assert java.byte_map(file.lowerBounds()) == mine.lower_bounds
    assert java.byte_map(file.upperBounds()) == mine.upper_bounds
    assert java.bytes(file.keyMetadata()) == entry.key_metadata
    assert tuple(file.splitOffsets() or ()) == mine.split_offsets
    assert tuple(file.equalityFieldIds() or ()) == entry.equality_ids
    if entry.content is not FileContent.POSITION_DELETES:  # of those Java never tells one
        assert file.sortOrderId() == mine.sort_order_id
    assert file.firstRowId() == entry.first_row_id
    if entry.content is not FileContent.DATA:
        assert file.referencedDataFile() == entry.referenced_data_file
        assert file.contentOffset() == entry.content_offset
        assert file.contentSizeInBytes() == entry.content_size_bytes
    kind = java.class_named("java.lang.Object")
    values = [physical(java, file.partition().get(index, kind)) for index in range(len(partition))]
    assert list(map(str, values)) == list(map(str, mine.partition))


def assert_exchange(java, tmp_path, entries, version, *, schema=SCHEMA, spec=SPEC, content=ManifestContent.DATA):
    """Java reads our manifest, writes it again, and we read that; so with the manifest list."""
    manifest, expected = write(tmp_path, entries, version, schema=schema, spec=spec, content=content)
    (listed,) = java.read_list(tmp_path / "list.avro")
    assert described(java, listed) == ours(manifest)
    java_spec = java.spec(schema, spec)
    found = java.read_entries(listed, java.specs(java_spec))
    assert len(found) == len(expected)
    for theirs, entry in zip(found, expected, strict=True):
        assert_reads(java, theirs, entry, partition_type(schema, spec))
        folder = java_spec.partitionToPath(theirs.file().partition())
        if not any(isinstance(value, float) for value in entry.data_file.partition):
            assert folder == partition_path(schema, spec, entry.data_file.partition)

    again = java.write_entries(
        tmp_path / "theirs.avro", version, java_spec, found, content=content, snapshot_id=SNAPSHOT
    )
    numbers = {"snapshot_id": SNAPSHOT, "sequence_number": 0 if version == 1 else 9, "first_row_id": FIRST_ROW_ID}
    java.write_list(tmp_path / "theirs-list.avro", version, [again], **numbers)
    (theirs_listed,) = decode_manifest_list((tmp_path / "theirs-list.avro").read_bytes())
    same = {"manifest_path": manifest.manifest_path, "manifest_length": manifest.manifest_length}
    assert dataclasses.replace(theirs_listed, **same) == manifest
    read = decode_manifest((tmp_path / "theirs.avro").read_bytes(), theirs_listed)
    for entry, mine in zip(read.entries(), expected, strict=True):
        if entry.content is FileContent.POSITION_DELETES:
            entry = dataclasses.replace(
                entry, data_file=dataclasses.replace(entry.data_file, sort_order_id=mine.data_file.sort_order_id)
            )
        assert entry == mine
    assert read.spec == spec


@pytest.mark.parametrize("version", [1, 2, 3])
def test_data_manifests(java, tmp_path, version):
    assert_exchange(java, tmp_path, [large_ids(entry) for entry in data_entries(version)], version)


@pytest.mark.parametrize("version", [2, 3])
def test_delete_manifests(java, tmp_path, version):
    entries = [large_ids(entry) for entry in delete_entries(version)]
    assert_exchange(java, tmp_path, entries, version, content=ManifestContent.DELETES)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_type_of_partition_value(java, tmp_path, version):
    # Java reads fixed values as if a length came first, its own too (InternalReader, 1.12)
    schema, spec, tuples = identity_table(nanoseconds=version >= 3, fixed=False)
    entries = [
        ManifestEntry(EntryStatus.ADDED, data_file(str(index), spec=spec, partition=partition, **BARE))
        for index, partition in enumerate(tuples)
    ]
    assert_exchange(java, tmp_path, entries, version, schema=schema, spec=spec)


def test_nan_partition_values(java, tmp_path):
    schema, spec, (values, _, _) = identity_table(fixed=False)
    partition = tuple(math.nan if isinstance(value, float) else None for value in values)
    entries = [ManifestEntry(EntryStatus.ADDED, data_file("a", spec=spec, partition=partition, **BARE))]
    manifest, _ = write(tmp_path, entries, 2, schema=schema, spec=spec)
    (listed,) = java.read_list(tmp_path / "list.avro")
    assert described(java, listed) == ours(manifest)
    floats = [pa.types.is_floating(type_) for type_ in partition_type(schema, spec).types]
    assert [summary.contains_nan for summary in manifest.partitions] == floats
