"""Metadata of version 3 through PyIceberg's catalogs, and snapshot summaries."""

from __future__ import annotations

import dataclasses
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from manifest_samples import data_entries, data_file, delete_entries
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate

from skerry.errors import SchemaError
from skerry.iceberg.catalogs.pyiceberg_models import install, own_metadata, py_schema, py_sort_order, py_spec
from skerry.iceberg.manifests.manifest import EntryStatus, ManifestEntry, encode_manifest
from skerry.iceberg.manifests.manifest_list import ManifestContent, encode_manifest_list, read_manifest_list
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.manifests.summary import ENGINE_NAME, ENGINE_VERSION, snapshot_summary, summary_of
from skerry.iceberg.metadata import snapshot as records
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema, to_iceberg_schema
from skerry.iceberg.metadata.json_records import read_records
from skerry.iceberg.partitioning.partitions import partition_spec
from skerry.iceberg.partitioning.sorting import sort_order
from skerry.iceberg.writing.metrics import metrics_modes, parquet_data_file
from skerry.storage import Storage

ROWS = pa.table({"k": [1, 2, 3], "s": ["a", None, "ü"], "d": [Decimal("1.50"), Decimal("2.50"), None]})
SCHEMA = to_iceberg_schema(ROWS.schema)


@pytest.fixture
def catalog(tmp_path):
    catalog = SqlCatalog("skerry", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("d")
    return install(catalog)


def create(catalog, name="d.t", version=3, **options):
    return catalog.create_table(name, py_schema(SCHEMA), properties={"format-version": str(version)}, **options)


def append(catalog, table, rows, number):
    """A commit made of this package's parts: a data file, a manifest, a manifest list, one catalog update."""
    metadata, storage = own_metadata(table.metadata), Storage()
    schema = to_arrow_schema(metadata.schema())
    path = f"{table.location()}/data/{number}.parquet"
    file = Path(path.removeprefix("file://"))
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.cast(schema), file)
    data = parquet_data_file(path, pq.read_metadata(file), file.stat().st_size, schema, metrics_modes(schema, {}))
    entry = ManifestEntry(EntryStatus.ADDED, data)
    encoded, manifest = encode_manifest(
        f"{table.location()}/metadata/m{number}.avro",
        [entry],
        schema=metadata.schema(),
        spec=metadata.spec(),
        format_version=metadata.format_version,
    )
    storage.write(manifest.manifest_path, encoded)
    parent = metadata.current_snapshot()
    older = read_manifest_list(storage, parent.manifest_list) if parent else []
    snapshot_id = 1000 + number
    first_row_id = metadata.next_row_id
    listed = encode_manifest_list(
        [manifest, *older],
        format_version=metadata.format_version,
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=metadata.last_sequence_number + 1,
        first_row_id=first_row_id,
    )
    summary = snapshot_summary("append", added=[entry], removed=[], previous=summary_of(parent) if parent else None)
    location = f"{table.location()}/metadata/snap{number}.avro"
    storage.write(location, listed.data)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=metadata.last_sequence_number + 1,
        timestamp_ms=metadata.last_updated_ms + 1,
        manifest_list=location,
        summary=Summary(Operation.APPEND, **{name: text for name, text in summary.items() if name != "operation"}),
        schema_id=metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=listed.next_row_id - first_row_id,
    )
    updates = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot_id),
    )
    catalog.commit_table(table, (AssertTableUUID(uuid=metadata.table_uuid),), updates)
    return catalog.load_table(table.name())


def stored(table):
    return json.loads(Path(table.metadata_location.removeprefix("file://")).read_bytes())


def test_a_table_of_version_3_is_created_and_keeps_its_row_ids(catalog):
    table = create(catalog)
    assert stored(table)["format-version"] == 3
    assert stored(table)["next-row-id"] == 0
    assert table.metadata.next_row_id == 0
    table = append(catalog, table, ROWS, 1)
    assert stored(table)["next-row-id"] == 3
    table = append(catalog, table, ROWS, 2)
    assert stored(table)["next-row-id"] == table.metadata.next_row_id == 6
    snapshots = stored(table)["snapshots"]
    assert [(snapshot["first-row-id"], snapshot["added-rows"]) for snapshot in snapshots] == [(0, 3), (3, 3)]
    assert table.scan().to_arrow().num_rows == 6
    assert table.current_snapshot().summary.additional_properties["total-records"] == "6"
    # other changes keep it
    with table.transaction() as transaction:
        transaction.set_properties(a="b")
    assert stored(catalog.load_table("d.t"))["next-row-id"] == 6


@pytest.mark.parametrize("version", [1, 2])
def test_other_versions_are_written_as_before(catalog, version):
    table = create(catalog, version=version)
    plain = SqlCatalog("skerry", **catalog.properties)
    other = plain.create_table("d.other", py_schema(SCHEMA), properties={"format-version": str(version)})
    assert stored(table).keys() - stored(other).keys() <= {"current-snapshot-id"}
    assert stored(other).keys() <= stored(table).keys()
    assert "next-row-id" not in stored(table)


def test_installing_twice_changes_nothing(catalog):
    writer = catalog._write_metadata
    assert install(catalog) is catalog
    assert catalog._write_metadata is writer
    assert "_write_metadata" not in vars(SqlCatalog("x", uri="sqlite:///:memory:"))


def test_compressed_metadata(catalog, tmp_path):
    table = create(catalog)
    catalog._write_metadata(table.metadata, table.io, f"file://{tmp_path}/v.gz.metadata.json")
    assert json.loads(gzip.decompress((tmp_path / "v.gz.metadata.json").read_bytes()))["next-row-id"] == 0
    with pytest.raises(FileExistsError):
        catalog._write_metadata(table.metadata, table.io, f"file://{tmp_path}/v.gz.metadata.json")


# Java ----------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_reads_and_continues_a_table_of_version_3(iceberg_spark, spark, tmp_path):
    from skerry.spark.runtime.session import iceberg_settings

    uri = iceberg_settings(str(tmp_path))["spark.sql.catalog.skerry.uri"].removeprefix("jdbc:sqlite:")
    catalog = SqlCatalog("skerry", uri=f"sqlite:///{uri}", warehouse=str(tmp_path))
    install(catalog).create_namespace("d")
    table = create(
        catalog,
        partition_spec=py_spec(partition_spec(SCHEMA, [])),
        sort_order=py_sort_order(sort_order(SCHEMA, ["k desc nulls first"])),
    )
    table = append(catalog, append(catalog, table, ROWS, 1), ROWS, 2)

    java = spark._jvm.org.apache.iceberg
    io = java.hadoop.HadoopFileIO(spark._jsc.hadoopConfiguration())
    metadata = java.TableMetadataParser.read(io, table.metadata_location)
    assert (metadata.formatVersion(), metadata.nextRowId(), metadata.lastSequenceNumber()) == (3, 6, 2)
    assert [snapshot.firstRowId() for snapshot in metadata.snapshots()] == [0, 3]
    assert metadata.currentSnapshot().summary()["total-records"] == "6"

    session = iceberg_spark(tmp_path)
    rows = session.sql("select _row_id, _last_updated_sequence_number, k, s, d from skerry.d.t order by 1").collect()
    # the newer manifest stands first in the list, and counts from where its snapshot began
    assert [tuple(row)[:3] for row in rows] == [(0, 1, 1), (1, 1, 2), (2, 1, 3), (3, 2, 1), (4, 2, 2), (5, 2, 3)]
    assert [row.s for row in rows[:3]] == ["a", None, "ü"]
    assert [row.d for row in rows[:3]] == [Decimal("1.50"), Decimal("2.50"), None]
    session.sql("alter table skerry.d.t set tblproperties ('write.delete.mode' = 'merge-on-read')")
    session.sql("insert into skerry.d.t values (9, 'x', 0.25)")
    session.sql("delete from skerry.d.t where k = 2")
    table = catalog.load_table("d.t")
    assert table.metadata.next_row_id >= 7
    listed = read_manifest_list(Storage(), table.current_snapshot().manifest_list)
    (deletes,) = (manifest for manifest in listed if manifest.content is ManifestContent.DELETES)
    vectors = list(read_manifest(Storage(), deletes).entries())
    assert [(entry.is_deletion_vector, entry.data_file.record_count) for entry in vectors] == [(True, 1), (True, 1)]
    table = append(catalog, table, ROWS, 7)
    session.sql("refresh table skerry.d.t")
    assert session.sql("select count(*) from skerry.d.t").collect()[0][0] == 8


# Summaries -----------------------------------------------------------------------------------------------------------


def summarize(added=(), removed=(), previous=None, operation="append", **options):
    summary = snapshot_summary(operation, added=added, removed=removed, previous=previous, **options)
    entries = dict(summary)
    assert entries.pop("operation") == operation
    assert entries.pop(ENGINE_NAME) == "skerry"
    assert entries.pop(ENGINE_VERSION)
    return entries


def test_the_first_append():
    added = [entry for entry in data_entries(2) if entry.status is EntryStatus.ADDED]
    assert summarize(added) == {
        "added-data-files": "2",
        "added-records": "200",
        "added-files-size": str(2**34),
        "changed-partition-count": "2",
        "total-data-files": "2",
        "total-delete-files": "0",
        "total-records": "200",
        "total-files-size": str(2**34),
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_deletes_of_every_kind():
    previous = summarize(delete_entries(3)[1:2])
    assert previous["total-position-deletes"] == "100"
    entries = summarize(delete_entries(3)[::2], delete_entries(3)[1:2], previous, "overwrite")
    assert entries == {
        "added-delete-files": "2",
        "added-equality-delete-files": "1",
        "added-equality-deletes": "100",
        "added-dvs": "1",
        "added-position-deletes": "5",
        "added-files-size": str(2**33 + 50),  # of the deletion vector, not of the Puffin file
        "removed-delete-files": "1",
        "removed-position-delete-files": "1",
        "removed-position-deletes": "100",
        "removed-files-size": str(2**33),
        "changed-partition-count": "1",
        "total-data-files": "0",
        "total-delete-files": "2",
        "total-records": "0",
        "total-files-size": str(2**33 + 50),
        "total-position-deletes": "5",
        "total-equality-deletes": "100",
    }


def test_totals_follow_the_parent_and_are_left_out_where_it_has_none():
    entry = ManifestEntry(EntryStatus.ADDED, data_file("a"))
    entries = summarize([entry], previous={"total-records": "1000", "total-data-files": "x", "total-files-size": "-5"})
    assert entries["total-records"] == "1100"
    assert not {"total-data-files", "total-files-size", "total-delete-files"} & entries.keys()
    entries = summarize(removed=[entry], previous={"total-records": "5"}, operation="delete")
    assert "total-records" not in entries
    assert entries["deleted-records"] == "100"
    assert entries["deleted-data-files"] == "1"


def test_partitions_are_counted_once():
    def entry(*partition):
        return ManifestEntry(EntryStatus.ADDED, data_file("a", partition=partition))

    nan = float("nan")
    added = [entry(1, nan), entry(1, -nan), entry(1, None), entry(1, 0.0), entry(1, -0.0)]
    assert summarize(added, [entry(1, None)])["changed-partition-count"] == "4"
    other_spec = dataclasses.replace(added[0].data_file, spec_id=9)
    assert summarize([added[0], ManifestEntry(EntryStatus.ADDED, other_spec)])["changed-partition-count"] == "2"


def test_properties_are_added_and_operations_are_known():
    entries = summarize(operation="replace", properties={"wap.id": "5", "total-records": "7"})
    assert entries["wap.id"] == "5"
    assert entries["total-records"] == "7"
    with pytest.raises(SchemaError, match="there is no snapshot operation 'apend'; did you mean 'append'"):
        summarize(operation="apend")


def test_numbers_that_a_writer_has_not_quoted_are_texts():
    document = {"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": "m", "summary": {"operation": "append", "n": 7}}
    (snapshot, other) = read_records(records.Snapshot, [document, {**document, "summary": None}], "snapshots", "rule")
    assert (summary_of(snapshot), summary_of(other)) == ({"n": "7"}, {})
