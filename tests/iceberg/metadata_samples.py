"""Random table metadata of every version, and random updates of it."""

from __future__ import annotations

import dataclasses
import uuid

from hypothesis import strategies as st
from schema_samples import schemas

from skerry.errors import SkerryError
from skerry.iceberg.metadata.applying import apply_updates
from skerry.iceberg.metadata.creation import new_table_metadata
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import Snapshot, SnapshotRefType
from skerry.iceberg.metadata.sort_order import NullOrder, SortDirection, SortField, SortOrder
from skerry.iceberg.metadata.statistics_file import BlobMetadata, PartitionStatisticsFile, StatisticsFile
from skerry.iceberg.metadata.table_updates import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
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
    UpgradeFormatVersionUpdate,
)
from skerry.iceberg.metadata.transforms import BucketTransform, IdentityTransform
from skerry.iceberg.metadata.types import LongType, NestedField, StringType

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True), NestedField(2, "s", StringType()), identifier_field_ids=[1]
)
SPEC = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))
ORDER = SortOrder(SortField(2, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST))
THETA = "apache-datasketches-theta-v1"


def new_table(version=2, schema=SCHEMA, **properties):
    """A table without snapshots, whose last state is old enough for any update."""
    spec, order = (SPEC, ORDER) if schema is SCHEMA else (PartitionSpec(), SortOrder(order_id=0))
    found = new_table_metadata(
        schema, spec, order, "file:///lake/t", {"format-version": str(version), "owner": "me", **properties}
    )
    return dataclasses.replace(found, table_uuid=uuid.UUID(int=7), last_updated_ms=1_000)


def snapshot_after(metadata, *, rows=3, **fields):
    """A snapshot that follows the current one."""
    number = 1 + max((known.snapshot_id for known in metadata.snapshots), default=100)
    defaults = {
        "snapshot_id": number,
        "parent_snapshot_id": metadata.current_snapshot_id,
        "sequence_number": metadata.last_sequence_number + 1 if metadata.format_version > 1 else None,
        "timestamp_ms": metadata.last_updated_ms + 10,
        "manifest_list": f"file:///lake/t/metadata/snap-{number}.avro",
        "summary": {"operation": "append", "added-records": str(rows)},
        "schema_id": metadata.current_schema_id,
    }
    if metadata.format_version == 3:
        defaults |= {"first_row_id": metadata.next_row_id, "added_rows": rows}
    return Snapshot(**(defaults | fields))


def append(metadata, ref="main", **fields):
    """The updates of an append."""
    snapshot = snapshot_after(metadata, **fields)
    move = SetSnapshotRefUpdate(ref_name=ref, type=SnapshotRefType.BRANCH, snapshot_id=snapshot.snapshot_id)
    return [AddSnapshotUpdate(snapshot=snapshot), move]


def statistics_of(snapshot, blob_type=THETA):
    blob = BlobMetadata(
        type=blob_type,
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        fields=(1,),
        properties={"ndv": "3"},
    )
    return StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=f"file:///lake/t/metadata/{snapshot.snapshot_id}.stats",
        file_size_in_bytes=100,
        file_footer_size_in_bytes=10,
        blob_metadata=(blob,),
    )


def _pick(draw, items):
    return draw(st.sampled_from(sorted(items, key=str)))


def _branch(draw, metadata):
    return [
        SetSnapshotRefUpdate(
            ref_name=draw(st.sampled_from(["main", "work"])),
            type=SnapshotRefType.BRANCH,
            snapshot_id=_pick(draw, [known.snapshot_id for known in metadata.snapshots]),
            min_snapshots_to_keep=draw(st.none() | st.integers(1, 5)),
        )
    ]


def _tag(draw, metadata):
    snapshot_id = _pick(draw, [known.snapshot_id for known in metadata.snapshots])
    age = draw(st.none() | st.integers(1, 10**12))
    return [SetSnapshotRefUpdate(ref_name="v1", type=SnapshotRefType.TAG, snapshot_id=snapshot_id, max_ref_age_ms=age)]


def _statistics(draw, metadata):
    return [SetStatisticsUpdate(statistics=statistics_of(draw(st.sampled_from(metadata.snapshots))))]


def _partition_statistics(draw, metadata):
    snapshot = draw(st.sampled_from(metadata.snapshots))
    file = PartitionStatisticsFile(snapshot_id=snapshot.snapshot_id, statistics_path="file:///p", file_size_in_bytes=3)
    return [SetPartitionStatisticsUpdate(partition_statistics=file)]


def _properties(draw, metadata):
    names = st.sampled_from(["a", "b", "owner"])
    return [SetPropertiesUpdate(updates=draw(st.dictionaries(names, st.text(max_size=3), min_size=1)))]


def _schema(draw, metadata):
    number = max(known.schema_id for known in metadata.schemas) + 1
    column = NestedField(metadata.last_column_id + 1, f"c{number}", StringType())
    schema = Schema(*metadata.schema().fields, column, schema_id=number)
    return [AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate(schema_id=draw(st.sampled_from([-1, number])))]


def _spec(draw, metadata):
    number = max(metadata.specs()) + 1
    field = PartitionField(1, metadata.last_partition_id + 1, IdentityTransform(), f"p{number}")
    return [AddPartitionSpecUpdate(spec=PartitionSpec(field, spec_id=number)), SetDefaultSpecUpdate(spec_id=-1)]


def _order(draw, metadata):
    number = max(known.order_id for known in metadata.sort_orders) + 1
    key = SortField(1, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST)
    order = SortOrder(*(key for _ in range(number)), order_id=number)
    return [AddSortOrderUpdate(sort_order=order), SetDefaultSortOrderUpdate(sort_order_id=number)]


ALWAYS = {
    "append": lambda draw, metadata: append(metadata),
    "staged": lambda draw, metadata: append(metadata)[:1],
    "properties": _properties,
    "location": lambda draw, metadata: [SetLocationUpdate(location=f"file:///lake/t{draw(st.integers(0, 3))}")],
    "schema": _schema,
    "spec": _spec,
    "order": _order,
    "no schema": lambda draw, metadata: [RemoveSchemasUpdate(schema_ids=(metadata.schemas[0].schema_id,))],
    "no spec": lambda draw, metadata: [RemovePartitionSpecsUpdate(spec_ids=(metadata.partition_specs[0].spec_id,))],
    "upgrade": lambda draw, metadata: [
        UpgradeFormatVersionUpdate(format_version=draw(st.integers(metadata.format_version, 3)))
    ],
}
WITH = {
    "snapshots": {
        "branch": _branch,
        "tag": _tag,
        "statistics": _statistics,
        "partition statistics": _partition_statistics,
        "expire": lambda draw, metadata: [
            RemoveSnapshotsUpdate(snapshot_ids=(draw(st.sampled_from(metadata.snapshots)).snapshot_id,))
        ],
    },
    "refs": {"drop": lambda draw, metadata: [RemoveSnapshotRefUpdate(ref_name=_pick(draw, metadata.refs))]},
    "properties": {
        "no properties": lambda draw, metadata: [RemovePropertiesUpdate(removals=(_pick(draw, metadata.properties),))]
    },
    "statistics": {
        "no statistics": lambda draw, metadata: [RemoveStatisticsUpdate(snapshot_id=metadata.statistics[0].snapshot_id)]
    },
    "partition_statistics": {
        "no partition statistics": lambda draw, metadata: [
            RemovePartitionStatisticsUpdate(snapshot_id=metadata.partition_statistics[0].snapshot_id)
        ]
    },
}
"""What may be changed if the metadata has some of these."""


@st.composite
def updates_of(draw, metadata):
    """The updates of one commit that a writer might send for this state; some are refused."""
    choices = dict(ALWAYS)
    if metadata.schemas[0].fields[: len(SCHEMA.fields)] != SCHEMA.fields:
        del choices["spec"], choices["order"]
    for name, more in WITH.items():
        if getattr(metadata, name):
            choices |= more
    kind = draw(st.just("append") | st.sampled_from(sorted(choices)))
    return choices[kind](draw, metadata)


@st.composite
def metadata_histories(draw, steps=8):
    """Metadata after a random history."""
    version = draw(st.integers(1, 3))
    schema = draw(st.just(SCHEMA) | schemas()) if version == 3 else SCHEMA
    metadata = new_table(version, schema)
    for step in range(draw(st.integers(0, steps))):
        try:
            updates = draw(updates_of(metadata))
            metadata = apply_updates(metadata, updates, metadata_location=f"file:///{step}.json", now_ms=10**9 + step)
        except SkerryError:
            continue
    return metadata
