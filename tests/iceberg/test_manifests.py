"""Manifests and manifest lists: what we write is read by us and by PyIceberg, what PyIceberg writes by us."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math

import fastavro
import pyarrow as pa
import pytest
from manifest_samples import (
    BARE,
    SCHEMA,
    SPEC,
    UNPARTITIONED,
    data_entries,
    data_file,
    delete_entries,
    identity_table,
)
from peers import peer_schema, peer_spec
from pyiceberg import manifest as peer
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Record

from skerry.avro import read_columns, read_header, write_container
from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.iceberg.manifests.manifest import (
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    encode_manifest,
)
from skerry.iceberg.manifests.manifest_list import (
    FieldSummary,
    ManifestFile,
    decode_manifest_list,
    encode_manifest_list,
    manifest_codec,
    read_manifest_list,
)
from skerry.iceberg.manifests.reader import COLUMNS, decode_manifest, read_manifest
from skerry.iceberg.manifests.rewriting import encode_entries, joined_entries
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.transforms import IdentityTransform
from skerry.iceberg.metadata.types import DoubleType, IntegerType, LongType, NestedField, StringType, UUIDType
from skerry.storage import Storage
from skerry.table.rows.values import encode_value

VERSIONS = [1, 2, 3]
LOCATION = "file:///warehouse/metadata/m.avro"
SNAPSHOT = 77


def encode(entries, version, *, schema=SCHEMA, spec=SPEC, content=ManifestContent.DATA, **options):
    options.setdefault("snapshot_id", SNAPSHOT)
    return encode_manifest(
        LOCATION, entries, schema=schema, spec=spec, format_version=version, content=content, **options
    )


def published(manifests, version, *, sequence_number=9, first_row_id=500, **options):
    return encode_manifest_list(
        manifests,
        format_version=version,
        snapshot_id=SNAPSHOT,
        parent_snapshot_id=11,
        sequence_number=sequence_number,
        first_row_id=first_row_id if version >= 3 else None,
        **options,
    )


def round_trip(entries, version, **options):
    """The entries as a reader of the published snapshot sees them."""
    data, manifest = encode(entries, version, **options)
    (listed,) = decode_manifest_list(published([manifest], version).data)
    return list(decode_manifest(data, listed).entries())


def inherited(entry, version, sequence_number=9):
    """What a reader makes of an entry: the slow twin of inheritance, but for row ids."""
    if version == 1:
        return dataclasses.replace(
            entry,
            sequence_number=0,
            file_sequence_number=0,
            snapshot_id=SNAPSHOT if entry.snapshot_id is None else entry.snapshot_id,
        )
    if entry.status is not EntryStatus.ADDED:
        return entry
    return dataclasses.replace(
        entry, snapshot_id=SNAPSHOT, sequence_number=sequence_number, file_sequence_number=sequence_number
    )


# Our reader ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_of_data_files_survives(version):
    entries = data_entries(version)
    result = round_trip(entries, version)
    expected = [inherited(entry, version) for entry in entries]
    if version >= 3:
        # the two added files count from the manifest's row id, the others kept theirs
        expected[0] = dataclasses.replace(expected[0], first_row_id=500)
        expected[1] = dataclasses.replace(expected[1], first_row_id=600)
    assert result == expected


@pytest.mark.parametrize("version", [2, 3])
def test_every_field_of_delete_files_survives(version):
    entries = delete_entries(version)
    result = round_trip(entries, version, content=ManifestContent.DELETES)
    assert result == [inherited(entry, version) for entry in entries]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_type_of_partition_value_survives(version):
    schema, spec, tuples = identity_table(nanoseconds=version >= 3)
    entries = [
        ManifestEntry(EntryStatus.ADDED, data_file(str(index), spec=spec, partition=partition, **BARE))
        for index, partition in enumerate(tuples)
    ]
    result = round_trip(entries, version, schema=schema, spec=spec)
    assert [entry.data_file.partition for entry in result] == tuples
    assert [str(value) for value in result[1].data_file.partition] == [str(value) for value in tuples[1]]  # -0.0


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unpartitioned_manifest(version):
    entry = ManifestEntry(EntryStatus.ADDED, data_file("a", spec=UNPARTITIONED, partition=()))
    data, manifest = encode([entry] * 3, version, spec=UNPARTITIONED)
    assert manifest.partitions == ()
    (listed,) = decode_manifest_list(published([manifest], version).data)
    assert listed.partitions == ()
    read = decode_manifest(data, listed)
    assert [found.data_file for found in read.entries()] == [entry.data_file] * 3
    assert decode_manifest(data, listed, ["partition"]).table.num_rows == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_the_header_says_what_the_specification_wants(version):
    data, _ = encode(data_entries(version), version)
    metadata = read_header(data).metadata
    assert Schema.from_json(JsonObject(json.loads(metadata["schema"]))) == SCHEMA
    assert metadata["schema-id"] == b"2"
    assert json.loads(metadata["partition-spec"]) == [field.to_json() for field in SPEC.fields]
    assert metadata["partition-spec-id"] == b"5"
    assert metadata["format-version"] == str(version).encode()
    assert metadata.get("content") == (b"data" if version >= 2 else None)
    assert metadata["avro.codec"] == b"deflate"
    if version >= 2:
        data, _ = encode(delete_entries(version), version, content=ManifestContent.DELETES)
        assert read_header(data).metadata["content"] == b"deletes"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_manifest_knows_its_schema_and_spec(version):
    data, manifest = encode(data_entries(version), version)
    read = decode_manifest(data, manifest)
    assert read.schema == SCHEMA
    assert read.spec == SPEC
    assert len(read) == 4


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_every_codec(codec):
    data, manifest = encode(data_entries(2), 2, codec=codec)
    assert read_header(data).codec == codec
    listed = published([manifest], 2, codec=codec)
    assert read_header(listed.data).codec == codec
    assert len(decode_manifest(data, decode_manifest_list(listed.data)[0])) == 4


def test_the_codec_comes_from_the_properties():
    assert manifest_codec({}) == "deflate"
    assert manifest_codec({"write.avro.compression-codec": "ZSTD"}) == "zstandard"
    assert (
        manifest_codec({"write.avro.compression-codec": "zstd", "write.manifest.compression-codec": "gzip"})
        == "deflate"
    )
    assert manifest_codec({"write.manifest.compression-codec": "uncompressed"}) == "null"
    with pytest.raises(SchemaError, match=r"manifest\.compression-codec must be one of gzip, zstd, .*, found 'lzo'"):
        manifest_codec({"write.manifest.compression-codec": "lzo"})


def test_columns_can_be_chosen():
    data, manifest = encode(data_entries(3), 3)
    (listed,) = published([manifest], 3).manifests
    whole = decode_manifest(data, listed)
    assert whole.table.schema.names == list(COLUMNS)
    for name in COLUMNS:
        part = decode_manifest(data, listed, [name])
        assert part.table.schema.names == [name]
        assert part.table.column(0).equals(whole.table.column(name)), name
    some = decode_manifest(data, listed, ["upper_bounds", "file_path", "status"])
    assert some.table.schema.names == ["status", "file_path", "upper_bounds"]
    with pytest.raises(SchemaError, match="entries need all columns; snapshot_id, "):
        next(some.entries())
    with pytest.raises(SchemaError, match="manifests have no column 'file_pth'; did you mean 'file_path'"):
        decode_manifest(data, listed, ["file_pth"])


def test_entries_can_be_chosen():
    data, manifest = encode(data_entries(2), 2)
    read = decode_manifest(data, manifest)
    assert list(read.entries([2, 0])) == [list(read.entries())[2], next(read.entries())]
    assert list(read.entries([])) == []


# Manifest lists ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_counts_and_summaries_of_a_manifest(version):
    _, manifest = encode(data_entries(version), version)
    assert (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count) == (2, 1, 1)
    assert (manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count) == (200, 100, 100)
    day, bucket = encode_value(pa.date32(), 17501), encode_value(pa.int32(), 3)
    assert manifest.partitions == (
        FieldSummary(True, False, day, day),
        FieldSummary(False, False, bucket, bucket),
        FieldSummary(True, False, b"ab", b"ab"),
        FieldSummary(True, False, None, None),
    )
    assert manifest.has_live_files
    assert manifest.min_sequence_number == (None if version == 1 else 3)


def test_summaries_order_zeros_and_leave_nan_out():
    schema = Schema(NestedField(1, "x", DoubleType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "x"))

    def summary(*values):
        entries = [
            ManifestEntry(EntryStatus.ADDED, data_file("a", spec=spec, partition=(value,), **BARE)) for value in values
        ]
        (result,) = encode(entries, 2, schema=schema, spec=spec)[1].partitions
        return result

    def bound(value):
        return encode_value(pa.float64(), value)

    assert summary(0.0, -0.0) == summary(-0.0, 0.0) == FieldSummary(False, False, bound(-0.0), bound(0.0))
    assert summary(math.nan, 1.0, None) == FieldSummary(True, True, bound(1.0), bound(1.0))
    assert summary(math.nan) == FieldSummary(False, True, None, None)
    assert summary(None) == FieldSummary(True, False, None, None)


def test_uuids_that_engines_order_differently_leave_no_summaries():
    schema = Schema(NestedField(1, "u", UUIDType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "u"))

    def summaries(*values):
        entries = [
            ManifestEntry(EntryStatus.ADDED, data_file("a", spec=spec, partition=(value,), **BARE)) for value in values
        ]
        _, manifest = encode(entries, 2, schema=schema, spec=spec)
        (listed,) = decode_manifest_list(published([manifest], 2).data)
        assert listed.partitions == manifest.partitions
        return manifest.partitions

    low, high = bytes(8) + b"\x80" * 8, b"\x7f" * 8 + b"\x90" * 8
    assert summaries(high, low, None) == (FieldSummary(True, False, low, high),)
    assert summaries(low, b"\x80" + low[1:]) == ()
    assert summaries(low, bytes(16)) == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_manifest_lists_survive_with_what_the_commit_knows(version):
    _, new = encode(data_entries(version), version, snapshot_id=SNAPSHOT if version == 1 else None)
    old = dataclasses.replace(
        new,
        manifest_path="file:///old.avro",
        added_snapshot_id=11,
        sequence_number=4,
        min_sequence_number=2,
        key_metadata=b"k",
        first_row_id=100 if version >= 3 else None,
    )
    listed = published([new, old], version)
    assert decode_manifest_list(listed.data, location="x") == list(listed.manifests)
    first, second = listed.manifests
    assert first.added_snapshot_id == SNAPSHOT
    assert first.sequence_number == (0 if version == 1 else 9)
    assert first.min_sequence_number == (0 if version == 1 else 3)
    assert first.partitions == new.partitions
    assert (second.sequence_number, second.min_sequence_number) == ((0, 0) if version == 1 else (4, 2))
    metadata = read_header(listed.data).metadata
    expected = {"format-version": str(version), "snapshot-id": "77", "parent-snapshot-id": "11"}
    expected |= {"sequence-number": "9"} if version >= 2 else {}
    expected |= {"first-row-id": "500"} if version >= 3 else {}
    assert {key: metadata[key].decode() for key in metadata if not key.startswith("avro.")} == expected
    without_parent = encode_manifest_list([], format_version=1, snapshot_id=1)
    assert read_header(without_parent.data).metadata["parent-snapshot-id"] == b"null"
    assert decode_manifest_list(without_parent.data) == []


def test_row_ids_are_assigned_as_in_the_example_of_the_specification():
    def manifest(name, added, existing, *, first_row_id=None, content=ManifestContent.DATA):
        return ManifestFile(
            name, 1, 0, content, None, None, None, 1, 1, 0, added, existing, 0, first_row_id=first_row_id
        )

    manifests = [
        manifest("existing", 75, 0, first_row_id=925),
        manifest("added1", 100, 25),
        manifest("deletes", 9, 9, content=ManifestContent.DELETES),
        manifest("added2", 0, 100),
        manifest("added3", 125, 25),
    ]
    listed = published(manifests, 3, first_row_id=1000)
    assert [m.first_row_id for m in listed.manifests] == [925, 1000, None, 1125, 1225]
    assert listed.next_row_id == 1375
    assert published(manifests[:1], 3, first_row_id=1000).next_row_id == 1000
    assert published([], 2).next_row_id is None


def test_row_ids_are_inherited_as_in_the_example_of_the_specification():
    def entry(status, rows, first_row_id=None):
        is_new = status is EntryStatus.ADDED
        known = {} if is_new else {"sequence_number": 1, "file_sequence_number": 1, "snapshot_id": 1}
        file = dataclasses.replace(data_file("a", **BARE), record_count=rows)
        return ManifestEntry(status, file, first_row_id=first_row_id, **known)

    entries = [
        entry(EntryStatus.EXISTING, 25, 800),
        entry(EntryStatus.ADDED, 50),
        entry(EntryStatus.DELETED, 7, 3),
        entry(EntryStatus.ADDED, 50),
        entry(EntryStatus.EXISTING, 10),
    ]
    data, manifest = encode(entries, 3)
    (listed,) = published([manifest], 3, first_row_id=1000).manifests
    assert [found.first_row_id for found in decode_manifest(data, listed).entries()] == [800, 1000, 3, 1050, 1100]
    unassigned = dataclasses.replace(listed, first_row_id=None)
    assert {found.first_row_id for found in decode_manifest(data, unassigned).entries()} == {None}


def test_a_retried_commit_publishes_the_same_manifest():
    entry = ManifestEntry(EntryStatus.ADDED, data_file("a"))
    data, manifest = encode([entry], 2, snapshot_id=None)
    for snapshot, number in ((1, 5), (2, 6)):
        listed = encode_manifest_list([manifest], format_version=2, snapshot_id=snapshot, sequence_number=number)
        (found,) = decode_manifest(data, listed.manifests[0]).entries()
        assert (found.snapshot_id, found.sequence_number, found.file_sequence_number) == (snapshot, number, number)


def test_a_file_may_be_added_with_an_older_data_sequence_number():
    entry = ManifestEntry(EntryStatus.ADDED, data_file("compacted"), sequence_number=4)
    data, manifest = encode([entry], 2)
    assert manifest.min_sequence_number == 4
    (listed,) = published([manifest], 2).manifests
    (found,) = decode_manifest(data, listed).entries()
    assert (found.sequence_number, found.file_sequence_number) == (4, 9)
    assert listed.min_sequence_number == 4


def test_the_life_of_an_entry():
    (added,) = round_trip([ManifestEntry(EntryStatus.ADDED, data_file("a"))], 3)
    kept = dataclasses.replace(added, status=EntryStatus.EXISTING)
    (existing,) = round_trip([kept], 3)
    assert existing == kept
    (deleted,) = round_trip([dataclasses.replace(existing, status=EntryStatus.DELETED, snapshot_id=None)], 3)
    assert deleted == dataclasses.replace(existing, status=EntryStatus.DELETED, snapshot_id=SNAPSHOT)
    assert added.is_live
    assert not deleted.is_live


# What must not be written --------------------------------------------------------------------------------------------

ADDED = ManifestEntry(EntryStatus.ADDED, data_file("a"))
EXISTING = dataclasses.replace(ADDED, status=EntryStatus.EXISTING)
POSITIONS = dataclasses.replace(ADDED, content=FileContent.POSITION_DELETES)
VECTOR = dataclasses.replace(delete_entries(3)[2])
BAD_ENTRIES = [
    (1, "DATA", POSITIONS, "a file of POSITION_DELETES in a DATA manifest"),
    (2, "DELETES", ADDED, "a file of DATA in a DELETES manifest"),
    (1, "DELETES", POSITIONS, "delete files need format version 2"),
    (2, "DATA", EXISTING, "EXISTING entries need both sequence numbers"),
    (
        2,
        "DATA",
        dataclasses.replace(ADDED, status=EntryStatus.DELETED, sequence_number=1),
        "DELETED entries need both sequence numbers",
    ),
    (
        2,
        "DATA",
        dataclasses.replace(EXISTING, sequence_number=1, file_sequence_number=1),
        "EXISTING entries need a snapshot id",
    ),
    (2, "DATA", dataclasses.replace(ADDED, equality_ids=(1,)), "only equality deletes have equality_ids"),
    (
        2,
        "DELETES",
        dataclasses.replace(ADDED, content=FileContent.EQUALITY_DELETES),
        "only equality deletes have equality_ids",
    ),
    (3, "DELETES", dataclasses.replace(VECTOR, first_row_id=1), "delete files have no row ids"),
    (2, "DELETES", VECTOR, "deletion vectors need format version 3"),
    (3, "DELETES", dataclasses.replace(VECTOR, content_offset=None), "a deletion vector needs referenced_data_file"),
    (
        3,
        "DELETES",
        dataclasses.replace(VECTOR, referenced_data_file=None),
        "a deletion vector needs referenced_data_file",
    ),
    (3, "DELETES", POSITIONS, "version 3 adds deletion vectors, not position delete files"),
    (
        2,
        "DATA",
        ManifestEntry(EntryStatus.ADDED, data_file("a", spec=UNPARTITIONED)),
        "of partition spec 0, the manifest of 5",
    ),
    (
        2,
        "DATA",
        ManifestEntry(EntryStatus.ADDED, data_file("a", partition=(1,))),
        "the partition has 1 values, the spec 4",
    ),
]


@pytest.mark.parametrize(("version", "content", "entry", "message"), BAD_ENTRIES, ids=lambda part: str(part)[:40])
def test_entries_that_break_the_rules_are_not_written(version, content, entry, message):
    with pytest.raises(FormatError, match=message) as error:
        encode([entry], version, content=ManifestContent[content])
    assert error.value.location == entry.data_file.location


@dataclasses.dataclass(frozen=True)
class Rewritten:
    """Manifests that are made of the columns of others, beside their twins made of objects."""

    version: int
    schema: Schema = SCHEMA
    spec: PartitionSpec = SPEC
    content: ManifestContent = ManifestContent.DATA

    @property
    def options(self):
        names = ("schema", "spec", "content")
        return {name: getattr(self, name) for name in names} | {"codec": "null", "snapshot_id": SNAPSHOT}

    def decode(self, entries):
        data, manifest = encode(entries, self.version, **self.options)
        (listed,) = decode_manifest_list(published([manifest], self.version).data)
        return decode_manifest(data, listed)

    def columns(self, *manifests):
        entries = joined_entries(manifests, self.schema, self.spec)
        return encode_entries(LOCATION, entries, format_version=self.version, **self.options)

    def check(self, *manifests):
        entries = [entry for manifest in manifests for entry in manifest.entries(spec=self.spec)]
        expected, described = encode(entries, self.version, **self.options)
        found, same = self.columns(*manifests)
        assert same == described
        assert found.replace(found[-16:], b"") == expected.replace(expected[-16:], b"")  # markers between blocks


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_made_of_columns_are_those_made_of_objects(version):
    rewritten = Rewritten(version)
    manifest = rewritten.decode(data_entries(version))
    rewritten.check(manifest)
    rewritten.check(manifest, rewritten.decode(data_entries(version)[1:]))
    schema, spec, tuples = identity_table(nanoseconds=version >= 3)
    typed = Rewritten(version, schema, spec)
    files = [data_file(str(number), spec=spec, partition=values, **BARE) for number, values in enumerate(tuples)]
    typed.check(typed.decode([ManifestEntry(EntryStatus.ADDED, file) for file in files]))
    plain = Rewritten(version, spec=UNPARTITIONED)
    bare = data_file("a", spec=UNPARTITIONED, partition=(), **BARE)
    plain.check(plain.decode([ManifestEntry(EntryStatus.ADDED, bare)]))
    if version > 1:
        deletes = Rewritten(version, content=ManifestContent.DELETES)
        deletes.check(deletes.decode(delete_entries(version)))


def test_partition_values_made_of_columns_have_the_types_of_today():
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "n"), spec_id=5)
    narrow, wide = (Rewritten(2, Schema(NestedField(1, "n", type_)), spec) for type_ in (IntegerType(), LongType()))
    old = narrow.decode([ManifestEntry(EntryStatus.ADDED, data_file("a", spec=spec, partition=(1,), **BARE))])
    new = wide.decode([ManifestEntry(EntryStatus.ADDED, data_file("b", spec=spec, partition=(2**40,), **BARE))])
    wide.check(old, new)


def test_entries_in_columns_that_break_the_rules_are_not_written():
    rewritten = Rewritten(2)
    manifest = rewritten.decode(data_entries(2))
    place = manifest.table.schema.get_field_index("sequence_number")
    nothing = pa.nulls(len(manifest), pa.int64())
    unnumbered = dataclasses.replace(manifest, table=manifest.table.set_column(place, "sequence_number", nothing))
    with pytest.raises(FormatError, match="entries need both sequence numbers"):
        rewritten.columns(unnumbered)
    with pytest.raises(FormatError, match="a file of DATA in a DELETES manifest"):
        Rewritten(2, content=ManifestContent.DELETES).columns(manifest)


def test_other_manifests_that_are_not_written():
    with pytest.raises(FormatError, match="version 1 needs a snapshot id"):
        encode([ADDED], 1, snapshot_id=None)
    with pytest.raises(FormatError, match="a manifest needs at least one entry"):
        encode([], 2)
    with pytest.raises(SchemaError, match=r"value 'x' \(str\) does not fit type date32"):
        encode([ManifestEntry(EntryStatus.ADDED, data_file("a", partition=("x", 3, "ab", None)))], 2)


def test_manifest_lists_that_are_not_written():
    _, manifest = encode([ADDED], 2, snapshot_id=5)
    with pytest.raises(FormatError, match="a manifest of snapshot 5 has no sequence number"):
        published([manifest], 2)
    deletes = dataclasses.replace(manifest, content=ManifestContent.DELETES, added_snapshot_id=SNAPSHOT)
    with pytest.raises(FormatError, match="delete files need format version 2"):
        published([deletes], 1)
    with pytest.raises(FormatError, match="delete manifests have no row ids"):
        published([dataclasses.replace(deletes, first_row_id=1)], 3)
    with pytest.raises(FormatError, match="added_rows_count is missing"):
        published([dataclasses.replace(manifest, added_snapshot_id=None, added_rows_count=None)], 2)
    with pytest.raises(FormatError, match="needs the table's next-row-id"):
        encode_manifest_list([], format_version=3, snapshot_id=1)


# PyIceberg -----------------------------------------------------------------------------------------------------------


def write_both(tmp_path, version, entries, **options):
    storage = Storage()
    options = {"schema": SCHEMA, "spec": SPEC, "format_version": version, "snapshot_id": SNAPSHOT} | options
    data, manifest = encode_manifest(str(tmp_path / "m.avro"), entries, **options)
    storage.write(manifest.manifest_path, data)
    listed = published([manifest], version)
    storage.write(str(tmp_path / "list.avro"), listed.data)
    return str(tmp_path / "list.avro"), listed.manifests[0]


def peer_value(value):
    return value.bytes if hasattr(value, "bytes") else value


@pytest.mark.parametrize("version", VERSIONS)
def test_pyiceberg_reads_our_data_manifests(tmp_path, version):
    location, ours = write_both(tmp_path, version, data_entries(version))
    file_io = PyArrowFileIO()
    (manifest,) = peer.read_manifest_list(file_io.new_input(location))
    assert manifest.manifest_path == ours.manifest_path
    assert manifest.manifest_length == ours.manifest_length == (tmp_path / "m.avro").stat().st_size
    assert manifest.partition_spec_id == 5
    assert (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count) == (2, 1, 1)
    assert (manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count) == (200, 100, 100)
    assert [(s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound) for s in manifest.partitions] == [
        (s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound) for s in ours.partitions
    ]
    found = manifest.fetch_manifest_entry(file_io, discard_deleted=False)
    expected = [inherited(entry, version) for entry in data_entries(version)]
    assert len(found) == len(expected)
    for theirs, entry in zip(found, expected, strict=True):
        assert int(theirs.status) == int(entry.status)
        assert theirs.snapshot_id == entry.snapshot_id
        assert theirs.sequence_number == entry.sequence_number
        file, data = entry.data_file, theirs.data_file
        assert data.file_path == file.location
        assert data.file_format == "PARQUET"
        assert (data.record_count, data.file_size_in_bytes) == (file.record_count, file.file_size_bytes)
        assert tuple(data.partition) == file.partition
        assert (data.column_sizes or {}) == file.column_sizes
        assert (data.value_counts or {}) == file.value_counts
        assert (data.null_value_counts or {}) == file.null_value_counts
        assert (data.nan_value_counts or {}) == file.nan_value_counts
        assert (data.lower_bounds or {}) == file.lower_bounds
        assert (data.upper_bounds or {}) == file.upper_bounds
        assert tuple(data.split_offsets or ()) == file.split_offsets
        assert data.sort_order_id == file.sort_order_id
        assert data.key_metadata == entry.key_metadata


@pytest.mark.parametrize("version", [2, 3])
def test_pyiceberg_reads_our_delete_manifests(tmp_path, version):
    location, _ = write_both(tmp_path, version, delete_entries(version), content=ManifestContent.DELETES)
    file_io = PyArrowFileIO()
    (manifest,) = peer.read_manifest_list(file_io.new_input(location))
    assert manifest.content is peer.ManifestContent.DELETES
    found = manifest.fetch_manifest_entry(file_io, discard_deleted=False)
    assert [int(entry.data_file.content) for entry in found] == [
        int(entry.content) for entry in delete_entries(version)
    ]
    assert found[0].data_file.equality_ids == [1, 3]


@pytest.mark.parametrize("version", VERSIONS)
def test_pyiceberg_reads_every_type_of_partition_value(tmp_path, version):
    schema, spec, tuples = identity_table()
    entries = [
        ManifestEntry(EntryStatus.ADDED, data_file(str(index), spec=spec, partition=partition, **BARE))
        for index, partition in enumerate(tuples)
    ]
    location, _ = write_both(tmp_path, version, entries, schema=schema, spec=spec)
    file_io = PyArrowFileIO()
    (manifest,) = peer.read_manifest_list(file_io.new_input(location))
    found = manifest.fetch_manifest_entry(file_io)
    assert [tuple(map(peer_value, entry.data_file.partition)) for entry in found] == tuples


@pytest.mark.parametrize("version", [1, 2])
def test_we_read_pyicebergs_manifests(tmp_path, version):
    file_io = PyArrowFileIO()
    expected = [inherited(entry, version) for entry in data_entries(version)[:2]]
    with peer.write_manifest(
        version, peer_spec(SPEC), peer_schema(SCHEMA), file_io.new_output(str(tmp_path / "m.avro")), SNAPSHOT, "deflate"
    ) as writer:
        for entry in expected:
            file = entry.data_file
            data = peer.DataFile.from_args(
                _table_format_version=2,
                content=peer.DataFileContent.DATA,
                file_path=file.location,
                file_format=peer.FileFormat.PARQUET,
                partition=Record(*file.partition),
                record_count=file.record_count,
                file_size_in_bytes=file.file_size_bytes,
                column_sizes=file.column_sizes,
                value_counts=file.value_counts,
                null_value_counts=file.null_value_counts,
                nan_value_counts=file.nan_value_counts,
                lower_bounds=file.lower_bounds,
                upper_bounds=file.upper_bounds,
                split_offsets=list(file.split_offsets),
                sort_order_id=file.sort_order_id,
            )
            writer.add(peer.ManifestEntry.from_args(status=peer.ManifestEntryStatus.ADDED, data_file=data))
    location = str(tmp_path / "list.avro")
    with peer.write_manifest_list(version, file_io.new_output(location), SNAPSHOT, 11, 9, "deflate") as lists:
        lists.add_manifests([writer.to_manifest_file()])
    (manifest,) = read_manifest_list(Storage(), location)
    assert manifest.added_files_count == 2
    assert manifest.partitions[0] == FieldSummary(True, False, *[encode_value(pa.date32(), 17501)] * 2)
    assert list(read_manifest(Storage(), manifest).entries()) == expected


# Old and odd writers -------------------------------------------------------------------------------------------------


def rewritten(data, change):
    """A file with its records and schema changed by a function."""
    header = read_header(data)
    schema, records = change(json.loads(header.schema_json), _records(data))
    metadata = {key: value for key, value in header.metadata.items() if not key.startswith("avro.")}
    return write_container(schema, records, metadata=metadata)


def _records(data):
    return list(fastavro.reader(io.BytesIO(data)))


def test_fields_are_found_by_id_and_unknown_ones_ignored():
    _, manifest = encode([ADDED], 2)
    data = published([manifest], 2).data

    def change(schema, records):
        for field in schema["fields"]:
            if field["name"] == "added_files_count":
                field["name"] = "added_data_files_count"  # as Iceberg wrote it before 1.0
        schema["fields"].append({"name": "new", "type": "string", "field-id": 999})
        for record in records:
            record["added_data_files_count"] = record.pop("added_files_count")
            record["new"] = "?"
        return schema, records

    assert decode_manifest_list(rewritten(data, change)) == decode_manifest_list(data)


def test_counts_that_an_old_writer_left_out_are_unknown():
    _, manifest = encode([ADDED], 1)
    data = published([manifest], 1).data

    def change(schema, records):
        schema["fields"] = [field for field in schema["fields"] if "_count" not in field["name"]]
        return schema, records

    (found,) = decode_manifest_list(rewritten(data, change))
    assert found.added_files_count is None
    assert found.deleted_rows_count is None
    assert found.has_live_files


# Bad files -----------------------------------------------------------------------------------------------------------

GOOD, GOOD_FILE = encode(data_entries(2), 2)
GOOD_LIST = published([GOOD_FILE], 2)


def broken_manifest(change):
    def change_records(schema, records):
        change(schema, records)
        return schema, records

    return rewritten(GOOD, change_records)


def drop(schema, name):
    schema["fields"] = [field for field in schema["fields"] if field["name"] != name]


def data_file_schema(schema):
    return next(field for field in schema["fields"] if field["name"] == "data_file")["type"]


def null_path(schema, records):
    path = next(field for field in data_file_schema(schema)["fields"] if field["name"] == "file_path")
    path["type"] = ["null", "string"]
    records[2]["data_file"]["file_path"] = None


def text_size(schema, records):
    size = next(field for field in data_file_schema(schema)["fields"] if field["name"] == "record_count")
    size["type"] = "string"
    for record in records:
        record["data_file"]["record_count"] = "many"


def set_in_file(name, value):
    return lambda schema, records: records[1]["data_file"].update({name: value})


BAD_MANIFESTS = [
    ("status 7", lambda schema, records: records[0].update(status=7), "an entry has status 7"),
    ("content 3", set_in_file("content", 3), "an entry has content 3"),
    ("record_count -1", set_in_file("record_count", -1), "an entry has record_count -1"),
    ("file_size_in_bytes -5", set_in_file("file_size_in_bytes", -5), "an entry has file_size_in_bytes -5"),
    (
        "no status",
        lambda schema, records: drop(schema, "status"),
        "field status is required, but missing or null in record 0",
    ),
    ("no data_file", lambda schema, records: drop(schema, "data_file"), "field data_file is missing or null"),
    (
        "no file_path",
        lambda schema, records: drop(data_file_schema(schema), "file_path"),
        "field file_path is required, but missing or null in record 0",
    ),
    ("null file_path", null_path, "field file_path is required, but missing or null in record 2"),
    ("text record_count", text_size, "field record_count is of type string, expected int64"),
    (
        "existing without sequence number",
        lambda schema, records: records[2].update(sequence_number=None),
        "an existing or deleted entry has no sequence number",
    ),
]


@pytest.mark.parametrize(("name", "change", "message"), BAD_MANIFESTS, ids=[name for name, _, _ in BAD_MANIFESTS])
def test_bad_manifests_are_format_errors_that_name_the_file(name, change, message):
    data = broken_manifest(change)
    listed = dataclasses.replace(GOOD_LIST.manifests[0], manifest_length=len(data))
    with pytest.raises(FormatError, match=message) as error:
        decode_manifest(data, listed)
    assert error.value.location == LOCATION


def test_truncated_and_foreign_files_are_format_errors():
    listed = GOOD_LIST.manifests[0]
    for stop in range(0, len(GOOD), 97):
        with pytest.raises(FormatError, match=f"the manifest has {stop} bytes, the manifest list says {len(GOOD)}"):
            decode_manifest(GOOD[:stop], listed)
        with pytest.raises(FormatError):
            decode_manifest(GOOD[:stop], dataclasses.replace(listed, manifest_length=0))
    for stop in range(0, len(GOOD_LIST.data) - 1, 53):
        with pytest.raises(FormatError):
            decode_manifest_list(GOOD_LIST.data[:stop], location="list")
    with pytest.raises(FormatError):
        decode_manifest(b"PAR1" * 2000, listed)


def test_flipped_bits_never_raise_anything_else():
    listed = dataclasses.replace(GOOD_LIST.manifests[0], manifest_length=0)
    for position in range(0, len(GOOD), 17):
        data = bytearray(GOOD)
        data[position] ^= 1 << (position % 8)
        with contextlib.suppress(FormatError, UnsupportedError):
            manifest = decode_manifest(bytes(data), listed)
            list(manifest.entries())
            _ = manifest.schema, manifest.spec
    for position in range(len(GOOD_LIST.data)):
        data = bytearray(GOOD_LIST.data)
        data[position] ^= 1 << (position % 8)
        with contextlib.suppress(FormatError, UnsupportedError):
            decode_manifest_list(bytes(data))


def with_metadata(data, **changes):
    header = read_header(data)
    metadata = {key: value for key, value in header.metadata.items() if not key.startswith("avro.")}
    metadata |= {key.replace("_", "-"): value for key, value in changes.items()}
    return write_container(json.loads(header.schema_json), _records(data), metadata=metadata)


def test_versions_and_contents_that_do_not_fit():
    listed = dataclasses.replace(GOOD_LIST.manifests[0], manifest_length=0)
    with pytest.raises(UnsupportedError, match="format version 4 is not supported"):
        decode_manifest(with_metadata(GOOD, format_version="4"), listed)
    with pytest.raises(UnsupportedError, match="format version 0 is not supported"):
        decode_manifest_list(with_metadata(GOOD_LIST.data, format_version="0"))
    with pytest.raises(FormatError, match="format-version is 'x', expected a number"):
        decode_manifest_list(with_metadata(GOOD_LIST.data, format_version="x"))
    with pytest.raises(FormatError, match="says its content is 'deletes', the manifest list 'data'"):
        decode_manifest(with_metadata(GOOD, content="deletes"), listed)
    with pytest.raises(UnsupportedError, match="key metadata of version 107, expected 1"):
        decode_manifest(GOOD, dataclasses.replace(listed, key_metadata=b"k"))
    broken = decode_manifest(with_metadata(GOOD, schema="{", partition_spec="[{}]"), listed)
    with pytest.raises(FormatError, match="the header's 'schema' cannot be parsed"):
        _ = broken.schema
    with pytest.raises(FormatError, match="the header's 'partition-spec' cannot be parsed"):
        _ = broken.spec
    field = '[{"source-id": 1, "field-id": 1000, "name": "x", "transform": "bucket[0]"}]'
    with pytest.raises(FormatError, match="the header's 'partition-spec' cannot be parsed"):
        _ = decode_manifest(with_metadata(GOOD, partition_spec=field), listed).spec


def bad_list(**changes):
    def change(schema, records):
        records[0].update(changes)
        return schema, records

    return rewritten(GOOD_LIST.data, change)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"content": 2}, "manifest 0 has content 2, expected 0 or 1"),
        ({"manifest_length": -1}, "manifest 0 has manifest_length -1"),
        ({"added_rows_count": -3}, "manifest 0 has added_rows_count -3"),
        ({"sequence_number": -1}, "manifest 0 has sequence_number -1"),
    ],
    ids=str,
)
def test_bad_manifest_lists_are_format_errors_that_name_the_file(changes, message):
    with pytest.raises(FormatError, match=message) as error:
        decode_manifest_list(bad_list(**changes), location="list.avro")
    assert error.value.location == "list.avro"


def test_names_that_avro_does_not_allow_are_escaped_and_stay_apart():
    names = ["a b", "a_x20b", "1", "ü", "", "a.b"]
    schema = Schema(*(NestedField(index + 1, f"c{index}", StringType()) for index in range(len(names))))
    spec = PartitionSpec(
        *(PartitionField(index + 1, 1000 + index, IdentityTransform(), name) for index, name in enumerate(names))
    )
    partition = tuple("abcdef")
    entry = ManifestEntry(EntryStatus.ADDED, data_file("a", spec=spec, partition=partition))
    data, manifest = encode([entry], 2, schema=schema, spec=spec)
    batch = read_columns(data, ["data_file.partition"])
    stored = [field.name for field in batch.schema.field("data_file").type.field("partition").type]
    assert stored == ["a_x20b", "a_x20b_1001", "_1", "_xFC", "_", "a_x2Eb"]
    (found,) = decode_manifest(data, published([manifest], 2).manifests[0]).entries()
    assert found.data_file.partition == partition


def test_a_partition_by_a_long_list_of_columns_of_one_fixed_type():
    schema = Schema(*(NestedField(index + 1, f"c{index}", LongType()) for index in range(3)))
    spec = PartitionSpec(
        *(PartitionField(index + 1, 1000 + index, IdentityTransform(), f"c{index}") for index in range(3))
    )
    entry = ManifestEntry(EntryStatus.ADDED, data_file("a", spec=spec, partition=(1, None, 3)))
    assert round_trip([entry], 2, schema=schema, spec=spec)[0].data_file.partition == (1, None, 3)
