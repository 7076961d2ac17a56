"""Updates of metadata and what commits require: PyIceberg beside us, JSON both ways, what is refused."""

from __future__ import annotations

import json
import uuid

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metadata_samples import (
    ORDER,
    SCHEMA,
    SPEC,
    append,
    metadata_histories,
    new_table,
    snapshot_after,
    statistics_of,
    updates_of,
)
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import update_table_metadata
from pyiceberg.typedef import IcebergBaseModel

from skerry.errors import ConflictError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.metadata.applying import apply_updates
from skerry.iceberg.metadata.json_records import encode_json, json_of
from skerry.iceberg.metadata.metadata_json import decode_metadata, encode_metadata
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.requirements import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
)
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import SnapshotLogEntry, SnapshotRefType
from skerry.iceberg.metadata.sort_order import SortOrder
from skerry.iceberg.metadata.statistics_file import PartitionStatisticsFile
from skerry.iceberg.metadata.table_metadata import EncryptedKey
from skerry.iceberg.metadata.table_updates import (
    AddEncryptionKeyUpdate,
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssignUUIDUpdate,
    RemoveEncryptionKeyUpdate,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemovePropertiesUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

NOW = 10**9
BASE = new_table()
SNAPSHOT = snapshot_after(BASE)
EVERY = [
    AssignUUIDUpdate(uuid=uuid.UUID(int=7)),
    UpgradeFormatVersionUpdate(format_version=3),
    AddSchemaUpdate(schema=Schema(*SCHEMA.fields, schema_id=1)),
    SetCurrentSchemaUpdate(schema_id=-1),
    AddPartitionSpecUpdate(spec=PartitionSpec(*SPEC.fields, spec_id=1)),
    SetDefaultSpecUpdate(spec_id=1),
    AddSortOrderUpdate(sort_order=SortOrder(*ORDER.fields, order_id=2)),
    SetDefaultSortOrderUpdate(sort_order_id=2),
    AddSnapshotUpdate(snapshot=SNAPSHOT),
    SetSnapshotRefUpdate(ref_name="v1", type=SnapshotRefType.TAG, snapshot_id=101, max_ref_age_ms=5),
    RemoveSnapshotsUpdate(snapshot_ids=(101, 2**62)),
    RemoveSnapshotRefUpdate(ref_name="v1"),
    SetLocationUpdate(location="file:///elsewhere"),
    SetPropertiesUpdate(updates={"a": "b"}),
    RemovePropertiesUpdate(removals=("a",)),
    SetStatisticsUpdate(statistics=statistics_of(SNAPSHOT)),
    RemoveStatisticsUpdate(snapshot_id=101),
    SetPartitionStatisticsUpdate(
        partition_statistics=PartitionStatisticsFile(snapshot_id=101, statistics_path="p", file_size_in_bytes=1)
    ),
    RemovePartitionStatisticsUpdate(snapshot_id=101),
    RemovePartitionSpecsUpdate(spec_ids=(0,)),
    RemoveSchemasUpdate(schema_ids=(0,)),
]
KEYS = [
    AddEncryptionKeyUpdate(encryption_key=EncryptedKey(key_id="k", encrypted_key_metadata="AA==")),
    RemoveEncryptionKeyUpdate(key_id="k"),
]
REQUIREMENTS = [
    AssertCreate(),
    AssertTableUUID(uuid=uuid.UUID(int=7)),
    AssertRefSnapshotId(ref="main", snapshot_id=None),
    AssertRefSnapshotId(ref="main", snapshot_id=5),
    AssertLastAssignedFieldId(last_assigned_field_id=2),
    AssertCurrentSchemaId(current_schema_id=0),
    AssertLastAssignedPartitionId(last_assigned_partition_id=1000),
    AssertDefaultSpecId(default_spec_id=0),
    AssertDefaultSortOrderId(default_sort_order_id=1),
]


def request(requirements, updates):
    """A commit as PyIceberg's models, made from our JSON."""
    body = {
        "identifier": {"namespace": ["d"], "name": "t"},
        "requirements": json_of(tuple(requirements)),
        "updates": json_of(tuple(updates)),
    }
    return CommitTableRequest.model_validate_json(encode_json(body))


def apply(metadata, *updates, location="file:///m.json", now_ms=NOW):
    return apply_updates(metadata, updates, metadata_location=location, now_ms=now_ms)


# JSON -----------------------------------------------------------------------------------------------------------------


def test_every_update_and_requirement_is_one_for_pyiceberg():
    found = request(REQUIREMENTS, EVERY)
    written = json.loads(found.model_dump_json())
    assert [update["action"] for update in written["updates"]] == [update.action for update in EVERY]
    ours = json.loads(encode_json(json_of(tuple(EVERY))))
    for theirs, own in zip(written["updates"], ours, strict=True):
        if own["action"] == "add-schema":
            own["schema"] |= {"identifier-field-ids": []}  # which may be left out
        if own["action"] == "set-statistics":
            own["snapshot-id"] = own["statistics"]["snapshot-id"]  # deprecated, PyIceberg adds it
        assert {name: value for name, value in theirs.items() if value is not None} == own
    for theirs, own in zip(written["requirements"], REQUIREMENTS, strict=True):
        assert theirs == json.loads(encode_json(own))


def test_updates_of_keys_are_those_of_the_specification():
    """PyIceberg does not know them."""
    assert json.loads(encode_json(json_of(tuple(KEYS)))) == [
        {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "AA=="}},
        {"action": "remove-encryption-key", "key-id": "k"},
    ]


def test_every_kind_of_update_is_known():
    """Those of the REST specification."""
    actions = {
        *("assign-uuid", "upgrade-format-version", "add-schema", "set-current-schema", "add-spec", "set-default-spec"),
        *("add-sort-order", "set-default-sort-order", "add-snapshot", "set-snapshot-ref", "remove-snapshots"),
        *("remove-snapshot-ref", "set-location", "set-properties", "remove-properties", "set-statistics"),
        *("remove-statistics", "set-partition-statistics", "remove-partition-statistics", "remove-partition-specs"),
        *("remove-schemas", "add-encryption-key", "remove-encryption-key"),
    }
    assert {kind.action for kind in TableUpdate.__subclasses__()} == actions


# Applying -------------------------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(data=st.data())
def test_updates_do_what_they_do_in_pyiceberg(data):
    metadata = data.draw(metadata_histories())
    updates = data.draw(updates_of(metadata))
    peer = TableMetadataUtil.parse_raw(encode_metadata(metadata).decode())
    try:
        ours = apply(metadata, *updates)
    except SkerryError:
        return  # stricter: see below
    if any(isinstance(update, UpgradeFormatVersionUpdate | RemoveSnapshotsUpdate) for update in updates):
        return  # PyIceberg does it otherwise than the specification says: see below
    theirs = update_table_metadata(peer, request((), updates).updates, metadata_location="file:///m.json")
    again = decode_metadata(IcebergBaseModel.model_dump_json(theirs).encode())
    for name in ours.__dataclass_fields__:
        if name not in ("last_updated_ms", "metadata_log", "snapshot_log", "snapshots", "_snapshots_by_id"):
            assert getattr(again, name) == getattr(ours, name), name
    if ours is metadata:
        return  # PyIceberg may make a new state without a change
    assert again.metadata_log == ours.metadata_log
    assert [one.snapshot_id for one in again.snapshots] == [one.snapshot_id for one in ours.snapshots]
    assert [one.snapshot_id for one in again.snapshot_log] == [one.snapshot_id for one in ours.snapshot_log]


@settings(max_examples=60)
@given(data=st.data())
def test_a_state_stays_one_that_can_be_read(data):
    """Whatever is applied, references exist, numbers grow, and time does not run backwards."""
    metadata = data.draw(metadata_histories())
    try:
        after = apply(metadata, *data.draw(updates_of(metadata)), now_ms=data.draw(st.integers(0, 2 * NOW)))
    except SkerryError:
        return
    assert decode_metadata(encode_metadata(after)) == after
    assert after.last_sequence_number >= metadata.last_sequence_number
    assert after.last_column_id >= metadata.last_column_id
    assert (after.next_row_id or 0) >= (metadata.next_row_id or 0)
    assert after.last_updated_ms >= metadata.last_updated_ms
    assert [one.timestamp_ms for one in after.snapshot_log] == sorted(one.timestamp_ms for one in after.snapshot_log)
    if after is not metadata:
        assert after.metadata_log[-1].metadata_file == "file:///m.json"
        assert after.metadata_log[-1].timestamp_ms == metadata.last_updated_ms


def test_an_append_is_logged_at_its_own_time():
    after = apply(BASE, *append(BASE))
    assert after.last_updated_ms == SNAPSHOT.timestamp_ms
    assert after.snapshot_log == (SnapshotLogEntry(snapshot_id=101, timestamp_ms=SNAPSHOT.timestamp_ms),)
    assert after.current_snapshot_id == 101
    assert (after.last_sequence_number, len(after.snapshots)) == (1, 1)


def test_a_rollback_is_logged_now():
    metadata = apply(BASE, *append(BASE))
    metadata = apply(metadata, *append(metadata))
    back = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=101)
    after = apply(metadata, back)
    assert after.snapshot_log[-1] == SnapshotLogEntry(snapshot_id=101, timestamp_ms=NOW)
    assert (after.current_snapshot_id, after.last_updated_ms) == (101, NOW)


def test_what_changes_nothing_makes_no_new_state():
    metadata = apply(BASE, *append(BASE))
    ref = metadata.refs["main"]
    same = SetSnapshotRefUpdate(ref_name="main", type=ref.snapshot_ref_type, snapshot_id=ref.snapshot_id)
    for update in (
        same,
        SetPropertiesUpdate(updates={"owner": "me"}),
        RemovePropertiesUpdate(removals=("nobody",)),
        SetCurrentSchemaUpdate(schema_id=0),
        UpgradeFormatVersionUpdate(format_version=2),
        AddSchemaUpdate(schema=SCHEMA),
        AssignUUIDUpdate(uuid=metadata.table_uuid),
        RemoveSnapshotRefUpdate(ref_name="nobody"),
    ):
        assert apply(metadata, update) is metadata


@pytest.mark.parametrize(("setting", "kept"), [(None, 100), ("3", 3), ("0", 1), ("many", 100), ("9" * 5000, 100)])
def test_the_metadata_log_is_as_long_as_its_property_says(setting, kept):
    properties = {} if setting is None else {"write.metadata.previous-versions-max": setting}
    metadata = new_table(2, **properties)
    for number in range(105):
        metadata = apply(metadata, SetPropertiesUpdate(updates={"n": str(number)}), location=f"file:///{number}.json")
    assert [entry.metadata_file for entry in metadata.metadata_log] == [
        f"file:///{number}.json" for number in range(105 - kept, 105)
    ]


def test_an_upgrade_to_version_2_numbers_snapshots():
    metadata = new_table(1)
    metadata = apply(metadata, *append(metadata))
    assert metadata.snapshots[0].sequence_number is None
    after = apply(metadata, UpgradeFormatVersionUpdate(format_version=2))
    assert (after.format_version, after.last_sequence_number) == (2, 0)
    assert after.snapshots[0].sequence_number == 0
    assert after.next_row_id is None
    after = apply(after, *append(after))
    assert [one.sequence_number for one in after.snapshots] == [0, 1]


def test_row_ids_of_an_upgraded_table_begin_with_the_next_snapshot():
    metadata = apply(BASE, *append(BASE))
    after = apply(metadata, UpgradeFormatVersionUpdate(format_version=3))
    assert after.next_row_id == 0
    after = apply(after, *append(after, rows=7))
    assert after.next_row_id == 7
    assert (after.snapshots[0].first_row_id, after.snapshots[1].first_row_id) == (None, 0)


def test_expiry_removes_what_belongs_to_snapshots_and_history_before_the_gap():
    metadata = BASE
    for _ in range(4):
        metadata = apply(metadata, *append(metadata))
    first, second, third, fourth = metadata.snapshots
    partitions = PartitionStatisticsFile(snapshot_id=102, statistics_path="p", file_size_in_bytes=1)
    metadata = apply(
        metadata,
        SetStatisticsUpdate(statistics=statistics_of(second)),
        SetStatisticsUpdate(statistics=statistics_of(fourth)),
        SetPartitionStatisticsUpdate(partition_statistics=partitions),
    )
    after = apply(metadata, RemoveSnapshotsUpdate(snapshot_ids=(second.snapshot_id,)))
    assert after.snapshots == (first, third, fourth)
    assert [file.snapshot_id for file in after.statistics] == [fourth.snapshot_id]
    assert after.partition_statistics == ()
    assert [entry.snapshot_id for entry in after.snapshot_log] == [third.snapshot_id, fourth.snapshot_id]


V3 = new_table(3)
TAGGED = apply(
    apply(BASE, *append(BASE)), SetSnapshotRefUpdate(ref_name="v1", type=SnapshotRefType.TAG, snapshot_id=101)
)
CONFLICTS = {
    "sequence number": (TAGGED, AddSnapshotUpdate(snapshot=snapshot_after(BASE, snapshot_id=9)), "sequence number 1"),
    "row ids": (
        V3,
        AddSnapshotUpdate(snapshot=msgspec.structs.replace(snapshot_after(V3), first_row_id=None)),
        "took the row ids before 0",
    ),
    "snapshot": (TAGGED, AddSnapshotUpdate(snapshot=SNAPSHOT), "snapshot 101 exists already"),
    "tagged": (TAGGED, RemoveSnapshotsUpdate(snapshot_ids=(101,)), "branch main now names snapshot 101"),
    "expired": (TAGGED, RemoveSnapshotsUpdate(snapshot_ids=(5,)), "a snapshot was removed by another writer"),
    "reference": (
        BASE,
        SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=5),
        "cannot refer to snapshot 5: it is gone",
    ),
    "schema": (BASE, AddSchemaUpdate(schema=Schema(SCHEMA.fields[0])), "another writer added schema 0"),
    "no schema": (BASE, SetCurrentSchemaUpdate(schema_id=5), "there is no schema 5"),
    "current schema": (BASE, RemoveSchemasUpdate(schema_ids=(0,)), "schema 0 is the current one"),
    "spec": (BASE, AddPartitionSpecUpdate(spec=PartitionSpec()), "another writer added partition spec 0"),
    "no spec": (BASE, SetDefaultSpecUpdate(spec_id=5), "there is no partition spec 5"),
    "default spec": (BASE, RemovePartitionSpecsUpdate(spec_ids=(0,)), "partition spec 0 is the one for new files"),
    "order": (BASE, AddSortOrderUpdate(sort_order=SortOrder(order_id=1)), "another writer added sort order 1"),
    "no order": (BASE, SetDefaultSortOrderUpdate(sort_order_id=5), "there is no sort order 5"),
    "downgrade": (V3, UpgradeFormatVersionUpdate(format_version=2), "cannot be downgraded to 2"),
    "uuid": (BASE, AssignUUIDUpdate(uuid=uuid.UUID(int=8)), "cannot get 00000000"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_what_contradicts_another_writer_is_a_conflict(name):
    metadata, update, message = CONFLICTS[name]
    with pytest.raises(ConflictError, match=message):
        apply(metadata, update)


def test_what_fits_no_state():
    with pytest.raises(UnsupportedError, match="format version 4 is not supported"):
        apply(BASE, UpgradeFormatVersionUpdate(format_version=4))
    for update in (
        SetCurrentSchemaUpdate(schema_id=-1),
        SetDefaultSpecUpdate(spec_id=-1),
        SetDefaultSortOrderUpdate(sort_order_id=-1),
    ):
        with pytest.raises(SchemaError, match="was added that could become the one for new files"):
            apply(BASE, update)


def test_keys_are_added_replaced_and_removed():
    add, remove = KEYS
    after = apply(V3, add)
    assert after.encryption_keys == (add.encryption_key,)
    newer = AddEncryptionKeyUpdate(encryption_key=EncryptedKey(key_id="k", encrypted_key_metadata="BB=="))
    assert apply(after, newer).encryption_keys == (newer.encryption_key,)
    assert apply(after, remove).encryption_keys == ()


# Requirements ---------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data())
def test_requirements_are_met_when_pyiceberg_says_so(data):
    metadata = data.draw(st.none() | metadata_histories())
    requirement = data.draw(
        st.sampled_from(REQUIREMENTS)
        | st.builds(
            AssertRefSnapshotId, ref=st.sampled_from(["main", "work", "v1"]), snapshot_id=st.none() | st.just(101)
        )
    )
    (theirs,) = request((requirement,), ()).requirements
    peer = None if metadata is None else TableMetadataUtil.parse_raw(encode_metadata(metadata).decode())
    if metadata is not None and not metadata.snapshots and getattr(requirement, "ref", "main") != "main":
        return  # PyIceberg wants a snapshot even for a branch that must not exist
    expected = found = True
    try:
        theirs.validate(peer)
    except CommitFailedException:
        expected = False
    try:
        requirement.check(metadata)
    except ConflictError:
        found = False
    assert found is expected
