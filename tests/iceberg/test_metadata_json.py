"""Metadata files: PyIceberg beside us, files of other writers, what is kept, what is refused."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from metadata_samples import append, metadata_histories, new_table, statistics_of
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.typedef import IcebergBaseModel

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.iceberg.metadata.applying import apply_updates
from skerry.iceberg.metadata.metadata_json import decode_metadata, encode_metadata, parse_metadata
from skerry.iceberg.metadata.snapshot import Operation, Snapshot, SnapshotRefType
from skerry.iceberg.metadata.table_metadata import EncryptedKey
from skerry.iceberg.metadata.table_updates import AddEncryptionKeyUpdate, SetStatisticsUpdate
from torture import examples

CASES = Path(__file__).parents[3] / "shared" / "cases"


SAME_IN_PYICEBERG = [
    *("format_version", "table_uuid", "location", "last_updated_ms", "last_column_id", "last_partition_id"),
    *("current_schema_id", "default_spec_id", "default_sort_order_id", "current_snapshot_id", "properties"),
]
SINCE = [
    *("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id", "sort-orders"),
    *("default-sort-order-id", "refs", "table-uuid", "properties"),
]
"""Fields that the first writers of version 1 did not have."""


def table(version=2, appends=2):
    metadata = new_table(version)
    for number in range(appends):
        metadata = apply_updates(metadata, append(metadata), metadata_location=f"file:///{number}.json", now_ms=10**9)
    return metadata


def document(version=2, appends=2):
    return json.loads(encode_metadata(table(version, appends)))


def read(found):
    return decode_metadata(json.dumps(found).encode(), location="file:///v.json")


# PyIceberg ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(metadata=metadata_histories())
def test_what_is_written_is_read_as_it_was_by_us_and_pyiceberg(metadata):
    data = encode_metadata(metadata)
    assert decode_metadata(data) == metadata
    assert parse_metadata(json.loads(data)) == metadata
    peer = TableMetadataUtil.parse_raw(data.decode())
    for name in SAME_IN_PYICEBERG:
        assert getattr(peer, name) == getattr(metadata, name), name
    for theirs, ours in (
        (peer.schemas, metadata.schemas),
        (peer.partition_specs, metadata.partition_specs),
        (peer.sort_orders, metadata.sort_orders),
        (peer.snapshot_log, metadata.snapshot_log),
        (peer.metadata_log, metadata.metadata_log),
        (peer.statistics, metadata.statistics),
        (peer.partition_statistics, metadata.partition_statistics),
        (peer.snapshots, metadata.snapshots),
    ):
        assert len(theirs) == len(ours)
    for theirs, ours in zip(peer.snapshots, metadata.snapshots, strict=True):
        assert (theirs.snapshot_id, theirs.parent_snapshot_id) == (ours.snapshot_id, ours.parent_snapshot_id)
        assert (theirs.first_row_id, theirs.added_rows) == (ours.first_row_id, ours.added_rows)
        assert (theirs.sequence_number or 0) == (ours.sequence_number or 0)
        assert theirs.summary.operation.value == ours.operation
    assert {name: (ref.snapshot_id, str(ref.snapshot_ref_type)) for name, ref in peer.refs.items()} == {
        name: (ref.snapshot_id, ref.snapshot_ref_type.value) for name, ref in metadata.refs.items()
    }


@settings(max_examples=40)
@given(metadata=metadata_histories())
def test_what_pyiceberg_writes_is_read(metadata):
    peer = TableMetadataUtil.parse_raw(encode_metadata(metadata).decode())
    again = decode_metadata(IcebergBaseModel.model_dump_json(peer).encode())
    # PyIceberg has no sequence numbers of version 1
    assert numbered(again.snapshots) == numbered(metadata.snapshots)
    assert dataclasses.replace(again, snapshots=()) == dataclasses.replace(metadata, snapshots=())


def numbered(snapshots):
    return [msgspec.structs.replace(one, sequence_number=one.sequence_number or 0) for one in snapshots]


# Files of other writers -----------------------------------------------------------------------------------------------


def metadata_files():
    found = {*CASES.rglob("*.metadata.json"), *CASES.rglob("*metadata.json.gz")}
    return [pytest.param(path, id=str(path.relative_to(CASES))) for path in sorted(found)]


@pytest.mark.skipif(not CASES.is_dir(), reason="the collected tables of other writers are not here")
def test_metadata_files_of_other_writers():
    """Those of Iceberg Java, Go, Rust, C++, DuckDB, Trino and PyIceberg, in all versions and compressions."""
    refused = {}
    for path in {*CASES.rglob("*.metadata.json"), *CASES.rglob("*metadata.json.gz")}:
        data = path.read_bytes()
        try:
            metadata = decode_metadata(data, location=str(path))
        except SkerryError as error:
            refused[path.name] = str(error)
            continue
        assert decode_metadata(encode_metadata(metadata)) == metadata, path
    assert set(refused) == {"v0.metadata.json"}, refused  # of BigQuery: not even a format version
    assert "format-version: is missing" in refused["v0.metadata.json"]


# What is kept ---------------------------------------------------------------------------------------------------------


def with_marks(value):
    """A document with an unknown field in every object but those of free names."""
    if isinstance(value, list):
        return [with_marks(item) for item in value]
    if not isinstance(value, dict):
        return value
    free = ("properties", "summary", "refs")
    marked = {
        name: {key: with_marks(item) for key, item in found.items()} if name in free else with_marks(found)
        for name, found in value.items()
    }
    return {**marked, "x-unknown": {"deep": [1, None, "ü"]}}


@pytest.mark.parametrize("version", [2, 3])
def test_unknown_fields_of_every_object_are_written_back(version):
    metadata = table(version)
    (snapshot, _) = metadata.snapshots
    metadata = apply_updates(
        metadata, [SetStatisticsUpdate(statistics=statistics_of(snapshot))], metadata_location=None, now_ms=10**9
    )
    found = with_marks(json.loads(encode_metadata(metadata)))
    again = json.loads(encode_metadata(read(found)))
    assert again == found
    # and by changes of something else
    changed = apply_updates(read(found), append(read(found)), metadata_location="file:///n.json", now_ms=10**9)
    written = json.loads(encode_metadata(changed))
    assert written["snapshots"][:2] == found["snapshots"]
    assert written["statistics"] == found["statistics"]
    assert written["schemas"] == found["schemas"]
    assert written["x-unknown"] == found["x-unknown"]


def test_a_field_that_is_named_as_ours_for_unknown_ones():
    found = document()
    found["snapshots"][1]["unknown"] = {"b": 1}
    again = json.loads(encode_metadata(read(found)))
    assert again["snapshots"][1]["unknown"] == {"b": 1}
    del found["snapshots"][1]["unknown"]
    found["snapshots"][0]["* unknown *"] = {"snapshot-id": 7}
    for metadata in (read(found), decode_metadata(json.dumps(found).encode())):
        again = json.loads(encode_metadata(metadata))
        assert again["snapshots"][0] == found["snapshots"][0]


def test_encryption_keys_survive_commits():
    metadata = table(3)
    key = EncryptedKey(key_id="k", encrypted_key_metadata="AAAA", encrypted_by_id="kms", properties={"a": "b"})
    metadata = apply_updates(metadata, [AddEncryptionKeyUpdate(encryption_key=key)], metadata_location=None)
    metadata = apply_updates(metadata, append(metadata, key_id="k"), metadata_location=None)
    found = json.loads(encode_metadata(metadata))
    assert found["encryption-keys"] == [
        {"key-id": "k", "encrypted-key-metadata": "AAAA", "encrypted-by-id": "kms", "properties": {"a": "b"}}
    ]
    assert found["snapshots"][-1]["key-id"] == "k"
    assert read(found) == metadata


def test_null_is_as_good_as_absent():
    found = document()
    for name in ("statistics", "partition-statistics", "metadata-log", "snapshot-log", "properties", "encryption-keys"):
        found[name] = None
    found["snapshots"][0] |= {"summary": None, "schema-id": None, "parent-snapshot-id": None}
    metadata = read(found)
    assert (metadata.statistics, metadata.metadata_log, dict(metadata.properties)) == ((), (), {})
    assert metadata.snapshots[0].operation is None
    empty = document(appends=0)
    for name in ("snapshots", "refs", "current-snapshot-id"):
        empty[name] = None
    assert read(empty).snapshots == ()


def test_blobs_of_unknown_types_are_kept():
    metadata = table()
    file = statistics_of(metadata.snapshots[0], "my-blob-v7")
    metadata = apply_updates(metadata, [SetStatisticsUpdate(statistics=file)], metadata_location=None)
    assert decode_metadata(encode_metadata(metadata)).statistics[0].blob_metadata[0].type == "my-blob-v7"


# Versions -------------------------------------------------------------------------------------------------------------


def test_version_1_has_the_fields_of_older_readers():
    found = document(1)
    assert found["schema"] == found["schemas"][0]
    assert found["partition-spec"] == found["partition-specs"][0]["fields"]
    assert not {"last-sequence-number", "next-row-id"} & found.keys()
    assert not any("sequence-number" in snapshot for snapshot in found["snapshots"])


def test_metadata_of_the_first_writers():
    """Before ids of schemas and specs, sort orders and references."""
    found = document(1)
    for name in [
        "schemas",
        "current-schema-id",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
        "refs",
        "table-uuid",
        "properties",
    ]:
        del found[name]
    del found["schema"]["schema-id"]
    for part in found["partition-spec"]:
        del part["field-id"]
    metadata = read(found)
    assert (metadata.table_uuid, metadata.current_schema_id, metadata.default_spec_id) == (None, 0, 0)
    assert metadata.spec().fields[0].field_id == metadata.last_partition_id == 1000
    assert metadata.sort_order().is_unsorted
    assert metadata.refs["main"].snapshot_id == metadata.current_snapshot_id
    assert decode_metadata(encode_metadata(metadata)) == metadata


def test_snapshots_of_version_1_in_version_2():
    found = document()
    del found["snapshots"][0]["sequence-number"]  # as Iceberg Java writes 0
    assert read(found).snapshots[0].sequence_number == 0
    assert json.loads(encode_metadata(read(found)))["snapshots"][0]["sequence-number"] == 0


def test_manifests_inline():
    found = document(1)
    del found["snapshots"][0]["manifest-list"]
    found["snapshots"][0]["manifests"] = ["file:///a.avro"]
    snapshot = read(found).snapshots[0]
    assert (snapshot.manifest_list, snapshot.manifests) == (None, ("file:///a.avro",))
    assert json.loads(encode_metadata(read(found)))["snapshots"][0] == found["snapshots"][0]


def test_a_missing_next_row_id_comes_from_the_snapshots():
    found = document(3)
    del found["next-row-id"]
    assert read(found).next_row_id == 6
    empty = document(3, appends=0)
    del empty["next-row-id"]
    assert read(empty).next_row_id == 0


@pytest.mark.parametrize(("version", "absent"), [(1, -1), (2, -1), (3, None)])
def test_a_table_without_snapshots_says_so(version, absent):
    """As Iceberg Java writes it; Nessie requires the field."""
    found = document(version, appends=0)
    assert found["current-snapshot-id"] == absent
    assert read(found).current_snapshot_id is None


def test_compressed_files():
    data = encode_metadata(table())
    assert decode_metadata(gzip.compress(data)) == table()
    assert decode_metadata(zstandard.compress(data)) == table()
    assert gzip.decompress(encode_metadata(table(), "file:///v.gz.metadata.json")) == data
    for bad in (gzip.compress(data)[:-20], zstandard.compress(data)[:-20], gzip.compress(bytes(1 << 26))):
        with pytest.raises(FormatError) as caught:
            decode_metadata(bad, location="file:///x")
        assert caught.value.location == "file:///x"


# Refusals -------------------------------------------------------------------------------------------------------------


def changed(**entries):
    return lambda found: found | {name.replace("_", "-"): value for name, value in entries.items()}


def in_snapshot(**entries):
    def change(found):
        found["snapshots"][1] |= {name.replace("_", "-"): value for name, value in entries.items()}
        return found

    return change


def twice(name):
    return lambda found: found | {name: [*found[name], found[name][0]]}


REFUSED = {
    "version": (changed(format_version=4), UnsupportedError, "format version 4 is not supported"),
    "version as text": (changed(format_version="2"), FormatError, "format-version: expected"),
    "uuid": (changed(table_uuid="x"), FormatError, "table-uuid: expected a UUID, found 'x'"),
    "no uuid": (changed(table_uuid=None), FormatError, "table-uuid: is missing"),
    "column id": (changed(last_column_id=2**31), FormatError, "last-column-id: expected a 32-bit integer"),
    "time": (changed(last_updated_ms=2**63), FormatError, "last-updated-ms: expected a 64-bit integer"),
    "current schema": (changed(current_schema_id=9), FormatError, "current-schema-id: there is no schema 9"),
    "default spec": (changed(default_spec_id=9), FormatError, "default-spec-id: there is no partition spec 9"),
    "default order": (changed(default_sort_order_id=9), FormatError, "default-sort-order-id: there is no sort order 9"),
    "current snapshot": (changed(current_snapshot_id=9, refs={}), FormatError, "current-snapshot-id: there is no snap"),
    "main": (
        changed(current_snapshot_id=101),
        FormatError,
        "main: is snapshot 102, but current-snapshot-id is 101",
    ),
    "main without snapshot": (
        changed(current_snapshot_id=-1),
        FormatError,
        "main: is snapshot 102, but .* is None",
    ),
    "reference": (
        changed(refs={"v1": {"snapshot-id": 9, "type": "tag"}}),
        FormatError,
        "refs.v1: there is no snapshot 9",
    ),
    "kind of reference": (
        changed(refs={"v1": {"snapshot-id": 101, "type": "twig"}}),
        FormatError,
        r"refs\.v1\.type: invalid enum value 'twig'",
    ),
    "no properties": (changed(properties=[]), FormatError, "properties: expected an object, found an array"),
    "properties": (changed(properties={"a": {}}), FormatError, r"properties\.a: expected a string"),
    "schemas": (changed(schemas=[]), FormatError, "schemas: is empty"),
    "two schemas": (twice("schemas"), FormatError, "schemas: two of them have the schema-id 0"),
    "two specs": (twice("partition-specs"), FormatError, "partition-specs: two of them have the spec-id 0"),
    "two orders": (twice("sort-orders"), FormatError, "sort-orders: two of them have the order-id 1"),
    "two snapshots": (twice("snapshots"), FormatError, "snapshots: two of them have the snapshot-id 101"),
    "snapshots": (changed(snapshots={}), FormatError, "snapshots: expected an array, found an object"),
    "a snapshot": (changed(snapshots=[7]), FormatError, r"snapshots\[0\]: expected an object, found 7"),
    "snapshot id": (
        in_snapshot(snapshot_id="102"),
        FormatError,
        r"snapshots\[1\].snapshot-id: expected `int`, got `str`",
    ),
    "no snapshot id": (in_snapshot(snapshot_id=None), FormatError, "missing required field `snapshot-id`"),
    "huge snapshot id": (in_snapshot(snapshot_id=2**64), FormatError, r"snapshots\[1\].snapshot-id: expected 64 bits"),
    "fraction": (
        in_snapshot(timestamp_ms=1.5),
        FormatError,
        r"s\[1\].timestamp-ms: expected `int`, got `float`",
    ),
    "truth": (in_snapshot(timestamp_ms=True), FormatError, r"snapshots\[1\].timestamp-ms: expected `int`, got `bool`"),
    "list": (in_snapshot(manifest_list=None), FormatError, r"snapshots\[1\].manifest-list: is missing"),
    "summary": (in_snapshot(summary={"a": []}), FormatError, r"snapshots\[1\].summary"),
    "sequence number": (
        in_snapshot(sequence_number=3),
        FormatError,
        "sequence-number: is 2, but snapshot 102 has 3",
    ),
    "blob": (
        changed(
            statistics=[
                {
                    "snapshot-id": 101,
                    "statistics-path": "x",
                    "file-size-in-bytes": 1,
                    "file-footer-size-in-bytes": 1,
                    "blob-metadata": [{"type": 5}],
                }
            ]
        ),
        FormatError,
        r"statistics\[0\].blob-metadata\[0\].type: expected `str`, got `int`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_itself_is_refused_with_its_place(name):
    change, error, message = REFUSED[name]
    with pytest.raises(error, match=message) as caught:
        read(change(document()))
    assert caught.value.location == "file:///v.json"
    assert caught.value.rule is not None


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"7", b"null", b'{"a":', b"\xff", b'{"format-version":2,"format-version":1e999}', b"[" * 100_000,
     b'{"x":' * 100_000, b'{"format-version": ' + b"9" * 6000 + b"}", b'{"snapshots": [' + b'{"snapshots":' * 50_000],
)  # fmt: skip
def test_what_is_no_metadata(data):
    with pytest.raises(FormatError, match="this is not table metadata"):
        decode_metadata(data)


@settings(max_examples=examples(60))
@given(data=st.data())
def test_hostile_metadata_is_refused_by_our_errors_alone(data):
    """Any value at any place."""
    found = copy.deepcopy(document(data.draw(st.integers(1, 3))))
    values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
    strange = st.recursive(values, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner))
    place = found
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            place = inner
            continue
        place[key] = data.draw(strange)
        break
    try:
        metadata = read(found)
    except SkerryError as error:
        refused = error.location
    else:
        refused = None
        assert decode_metadata(encode_metadata(metadata)) == metadata
    assert refused in (None, "file:///v.json")


# Records --------------------------------------------------------------------------------------------------------------


def test_records_say_what_snapshots_and_references_are():
    metadata = table()
    assert metadata.current_snapshot() is metadata.snapshot_by_id(102)
    assert metadata.current_snapshot().operation is Operation.APPEND
    assert metadata.snapshot_by_id(9) is None
    assert metadata.refs["main"].snapshot_ref_type is SnapshotRefType.BRANCH
    assert metadata.schema() is metadata.schema_by_id(0)
    assert metadata.schema_by_id(9) is None
    assert metadata.spec() is metadata.specs()[0]
    assert metadata.sort_order() is metadata.sort_order_by_id(1)
    assert Snapshot(snapshot_id=1, timestamp_ms=1, summary={"operation": "guess"}).operation is None
