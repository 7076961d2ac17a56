"""Catalogs that PyIceberg opens: Glue, and SQL catalogs as for MySQL; our metadata in their compare-and-swap."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pyarrow as pa
import pytest
from moto import mock_aws
from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadataV1, TableMetadataV2, TableMetadataV3

from skerry.catalog.catalog import Catalog
from skerry.catalog.iceberg_tables import IcebergTables
from skerry.errors import AlreadyExistsError, CommitUnknownError, ConflictError, FormatError, NotFoundError, SchemaError
from skerry.iceberg.catalogs import pyiceberg_catalogs
from skerry.iceberg.catalogs.pyiceberg_catalogs import PyIcebergCatalog, as_pyiceberg
from skerry.iceberg.catalogs.records import MetadataWrite
from skerry.iceberg.metadata.requirements import AssertRefSnapshotId
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.iceberg.metadata.table_updates import SetPropertiesUpdate
from skerry.storage import Storage
from skerry.table.owned_files import owned_files

CHANGE = SetPropertiesUpdate(updates={"a": "b"})
SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])


def rows(start, stop):
    return pa.table({"k": list(range(start, stop)), "s": [f"s{k % 7}" for k in range(start, stop)]}, schema=SCHEMA)


@pytest.fixture(params=["glue", "sql"])
def inner(request, tmp_path, monkeypatch):
    if request.param == "sql":
        uri = f"sqlite:///{tmp_path}/catalog.db"
        yield PyIcebergCatalog("theirs", {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}"})
        return
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield PyIcebergCatalog(
            "theirs", {"type": "glue", "warehouse": f"file://{tmp_path}", "client.region": "us-east-1"}
        )


@pytest.fixture
def catalog(inner):
    return Catalog(inner.name, inner.properties, IcebergTables(inner), None)


def path_of(location):
    return Path(location.removeprefix("file://"))


def edit(table, change):
    """Another writer's metadata, in the same file."""
    path = path_of(table.metadata_location)
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_tables_life(catalog, version):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["bucket(4, k)"], sort_by=["s"], format_version=version)
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    table.update_schema().add_column("n", pa.int32()).commit()
    table.create_tag("before")
    table.delete("k = 3")
    left = [k for k in range(20) if k != 3]
    found = catalog.load_table("d.t")
    assert sorted(found.scan(["k"]).to_arrow()["k"].to_pylist()) == left
    assert str(found.statistics()["s"].freshness) == "fresh"
    assert found.format_version == version
    assert catalog.list_tables("d") == ["d.t"]
    document = json.loads(path_of(found.metadata_location).read_bytes())
    assert document.get("next-row-id") == (None if version < 3 else document["next-row-id"])
    assert ("schema" in document) is (version == 1)
    other = catalog.rename_table("d.t", "d.other")
    assert sorted(other.scan(["k"]).to_arrow()["k"].to_pylist()) == left
    catalog.drop_table("d.other")
    again = catalog.register_table("d.again", found.metadata_location)
    assert sorted(again.scan(["k"]).to_arrow()["k"].to_pylist()) == left
    catalog.drop_table("d.again", purge=True)
    assert catalog.list_tables("d") == []


def test_what_pyiceberg_cannot_read_is_read_and_kept(catalog):
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 10))

    def change(document):
        document["partition-statistics"] = None
        document["x-unknown"] = {"a": 1}
        document["snapshots"][0]["x-unknown"] = [2]
        document["statistics"][0]["blob-metadata"][0]["type"] = "my-blob-v7"

    edit(table, change)
    table = catalog.load_table("d.t")
    table.append(rows(10, 20))
    assert table.scan().count() == 20
    document = json.loads(path_of(table.metadata_location).read_bytes())
    assert document["x-unknown"] == {"a": 1}
    assert document["snapshots"][0]["x-unknown"] == [2]
    assert document["statistics"][0]["blob-metadata"][0]["type"] == "my-blob-v7"


def test_whoever_uses_pyiceberg_on_the_same_catalog_gets_its_models(catalog, inner):
    kinds = {1: TableMetadataV1, 2: TableMetadataV2, 3: TableMetadataV3}
    for version, kind in kinds.items():
        table = catalog.create_table(f"d.t{version}", SCHEMA, format_version=version)
        table.append(rows(0, 10))
        peer = as_pyiceberg(inner).load_table(("d", f"t{version}"))
        assert isinstance(peer, PyTable)
        assert type(peer.metadata) is kind
        assert peer.scan().to_arrow().num_rows == 10
        with peer.transaction() as transaction:
            transaction.set_properties(owner="them")
        assert catalog.load_table(f"d.t{version}").properties["owner"] == "them"
        assert catalog.load_table(f"d.t{version}").scan().count() == 10
    created = as_pyiceberg(inner).create_table(("d", "theirs"), pa.schema([("k", pa.int64())]))
    created.append(pa.table({"k": [1, 2]}))
    assert isinstance(catalog.load_table("d.theirs").handle.state.metadata, TableMetadata)
    assert catalog.load_table("d.theirs").scan().count() == 2


def test_glue_shows_the_columns(catalog, inner):
    catalog.create_table("d.t", SCHEMA, format_version=3).update_schema().add_column("n", pa.int32()).commit()
    if inner.inner.properties["type"] == "glue":
        found = boto3.client("glue", region_name="us-east-1").get_table(DatabaseName="d", Name="t")["Table"]
        columns = {column["Name"]: column["Type"] for column in found["StorageDescriptor"]["Columns"]}
        assert columns == {"k": "bigint", "s": "string", "n": "int"}
    else:
        assert inner.load_table(("d", "t")).metadata.schema().column_names == ["k", "s", "n"]


# Outcomes -------------------------------------------------------------------------------------------------------------


def test_a_requirement_that_is_not_met_is_a_conflict_and_leaves_no_file(catalog, inner):
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 10))
    state = inner.load_table(("d", "t"))
    files = {file.location for file in Storage().list(table.location)}
    with owned_files(Storage()) as owned:
        write = MetadataWrite(owned)
        with pytest.raises(ConflictError, match="branch or tag 'main' has changed: expected None"):
            inner.commit_table(state, [AssertRefSnapshotId(ref="main")], [CHANGE], write)
        assert (write.location, write.may_have_effect) == (None, False)
    assert {file.location for file in Storage().list(table.location)} == files


def test_a_commit_that_was_overtaken_is_tried_again(catalog):
    table, rival = catalog.create_table("d.t", SCHEMA), catalog.load_table("d.t")
    rival.append(rows(0, 10))
    table.append(rows(10, 20))
    assert table.scan().count() == 20
    assert [snapshot.sequence_number for snapshot in table.snapshots()] == [1, 2]


def test_an_error_after_the_metadata_file_was_written_is_unknown(catalog, inner, monkeypatch):
    """Nothing is cleaned up: the compare-and-swap may have been sent."""
    table = catalog.create_table("d.t", SCHEMA)
    state = inner.load_table(("d", "t"))
    write = inner.inner._write_metadata

    def break_after(*arguments, **options):
        write(*arguments, **options)
        raise OSError("the connection broke")

    monkeypatch.setattr(inner.inner, "_write_metadata", break_after)
    with owned_files(Storage()) as owned:
        found = MetadataWrite(owned)
        with pytest.raises(CommitUnknownError, match="may or may not have happened: OSError"):
            inner.commit_table(state, [], [CHANGE], found)
        assert found.may_have_effect
        assert found.predecessor == table.metadata_location
        assert path_of(found.location).is_file()


def test_a_commit_returns_the_new_state(catalog, inner):
    """Without reading the table back, as after an unknown outcome."""
    catalog.create_table("d.t", SCHEMA, partition_by=["bucket(4, k)"], sort_by=["s"])
    state = inner.load_table(("d", "t"))
    with owned_files(Storage()) as owned:
        found = inner.commit_table(state, [], [CHANGE], MetadataWrite(owned))
    assert found.metadata.properties["a"] == "b"
    assert found.metadata == inner.load_table(("d", "t")).metadata
    assert found.metadata_location == inner.load_table(("d", "t")).metadata_location


def test_a_commit_whose_new_state_cannot_be_read_may_have_happened(catalog, inner, monkeypatch):
    catalog.create_table("d.t", SCHEMA)
    state = inner.load_table(("d", "t"))

    def fail(metadata):
        raise FormatError("current-schema-id: there is no schema 7")

    with owned_files(Storage()) as owned:
        found = MetadataWrite(owned)
        monkeypatch.setattr(pyiceberg_catalogs, "own_metadata", fail)
        with pytest.raises(CommitUnknownError, match="the commit was accepted, but: current-schema-id"):
            inner.commit_table(state, [], [CHANGE], found)
        monkeypatch.undo()
        assert found.may_have_effect
    assert catalog.load_table("d.t").properties["a"] == "b"


def test_an_error_before_the_metadata_file_was_written_is_harmless(catalog, inner, monkeypatch):
    table = catalog.create_table("d.t", SCHEMA)
    before = {file.location for file in Storage().list(table.location)}

    def fail(self, location, data, **options):
        if location.endswith(".metadata.json"):
            raise OSError("no space left")
        return original(self, location, data, **options)

    original = Storage.open_output
    monkeypatch.setattr(Storage, "open_output", lambda self, location, **options: fail(self, location, None, **options))
    with pytest.raises(Exception, match="no space left"):
        table.set_properties({"a": "b"})
    monkeypatch.undo()
    assert {file.location for file in Storage().list(table.location)} == before
    assert "a" not in catalog.load_table("d.t").properties


def test_errors_are_ours(catalog, inner):
    with pytest.raises(NotFoundError, match="no table"):
        catalog.load_table("d.t")
    table = catalog.create_table("d.t", SCHEMA)
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("d.t", SCHEMA)
    with pytest.raises(SchemaError, match="format_version must be 1, 2 or 3"):
        catalog.create_table("d.v", SCHEMA, format_version=4)
    edit(table, lambda document: document.update({"current-schema-id": 7}))
    with pytest.raises(FormatError, match="there is no schema 7"):
        catalog.load_table("d.t")
    assert catalog.table_exists("d.t")
    path_of(table.metadata_location).unlink()
    with pytest.raises(NotFoundError, match="metadata file is missing"):
        catalog.load_table("d.t")
    assert inner.table_exists(("d", "t"))
