"""The Hive catalog over a metastore in this process; a real one is asked in `tests/foreign/test_hive_metastore.py`."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from metastore_server import Metastore, serving
from skerry.databases.hive_metastore import HiveMetastore, MetastoreLimits, UnansweredError
from skerry.databases.thrift_binary import Kind, decode_message, encode_message, text
from skerry.errors import (
    AlreadyExistsError,
    CatalogLockedError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    SchemaError,
    SkerryError,
    StorageError,
    UnsupportedError,
)
from skerry.iceberg.catalogs.hive import HiveCatalog

ROWS = pa.table({"id": pa.array([1, 2, 3]), "name": ["a", "b", "c"]})


@pytest.fixture
def metastore() -> Iterator[Metastore]:
    with serving(Metastore()) as found:
        yield found


def connect(metastore: Metastore, folder: Path, **options: object) -> skerry.Catalog:
    return skerry.connect(metastore.uri, warehouse=str(folder), **options)


@pytest.fixture
def catalog(metastore: Metastore, tmp_path: Path) -> skerry.Catalog:
    found = connect(metastore, tmp_path)
    found.create_namespace("ns")
    return found


def inner(catalog: skerry.Catalog) -> HiveCatalog:
    found = catalog._iceberg.catalog
    assert isinstance(found, HiveCatalog)
    return found


def test_names_come_and_go(catalog: skerry.Catalog, metastore: Metastore, tmp_path: Path) -> None:
    assert catalog.list_namespaces() == ["default", "ns"]
    assert inner(catalog).namespace_properties(("ns",))["location"] == str(tmp_path / "ns.db")
    with pytest.raises(AlreadyExistsError):
        catalog.create_namespace("ns")
    with pytest.raises(SchemaError, match="have one part"):
        catalog.create_namespace("a.b")
    table = catalog.create_table("ns.t", ROWS.schema)
    assert table.location.endswith("/ns.db/t")
    table.append(ROWS)
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("ns.t", ROWS.schema)
    catalog.rename_table("ns.t", "ns.u")
    assert catalog.list_tables() == ["ns.u"]
    with pytest.raises(NotFoundError, match=r"no table 'ns\.t'"):
        catalog.load_table("ns.t")
    renamed = catalog.load_table("ns.u")
    assert renamed.scan().to_arrow().num_rows == 3
    catalog.create_table("ns.v", ROWS.schema)
    with pytest.raises(AlreadyExistsError):
        catalog.rename_table("ns.u", "ns.v")
    with pytest.raises(SchemaError, match="not empty"):
        catalog.drop_namespace("ns")
    location = metastore.parameters("ns", "u")["metadata_location"]
    catalog.drop_table("ns.u")
    catalog.register_table("ns.again", location)
    assert catalog.load_table("ns.again").scan().to_arrow().num_rows == 3
    catalog.drop_table("ns.again", purge=True)
    catalog.drop_table("ns.v")
    catalog.drop_namespace("ns")
    assert catalog.list_namespaces() == ["default"]


def test_what_the_metastore_is_told(catalog: skerry.Catalog, metastore: Metastore) -> None:
    table = catalog.create_table("ns.t", ROWS.schema, properties={"gc.enabled": "false"}, partition_by=["id"])
    table.append(ROWS)
    found = metastore.parameters("ns", "t")
    assert found["table_type"] == "ICEBERG"
    assert found["EXTERNAL"] == "TRUE"
    assert found["external.table.purge"] == "false"
    assert found["numRows"] == "3"
    assert found["current-snapshot-id"] == str(table.snapshots()[-1].snapshot_id)
    assert "previous_metadata_location" in found
    assert "metadata_hash" not in found
    stored = metastore.tables["ns", "t"]
    columns = stored[7][1][1][1].items
    assert [(column[1][1], column[2][1]) for column in columns] == [(b"id", b"bigint"), (b"name", b"string")]
    table.update_schema().add_column("more", pa.list_(pa.decimal128(9, 2))).commit()
    assert metastore.tables["ns", "t"][7][1][1][1].items[-1][2][1] == b"array<decimal(9,2)>"


def test_what_is_not_known_stays(catalog: skerry.Catalog, metastore: Metastore) -> None:
    table = catalog.create_table("ns.t", ROWS.schema, properties={"a": "1"})
    metastore.tables["ns", "t"][99] = text("of another version")
    metastore.set_parameters("ns", "t", mine="kept", COLUMN_STATS_ACCURATE="true")
    table.append(ROWS)
    table.set_properties({"b": "2"})
    table.remove_properties("a")
    assert metastore.tables["ns", "t"][99] == text("of another version")
    found = metastore.parameters("ns", "t")
    assert (found["mine"], found["b"]) == ("kept", "2")
    assert "a" not in found
    assert "COLUMN_STATS_ACCURATE" not in found


def test_a_table_of_hive_is_none_of_iceberg(catalog: skerry.Catalog, metastore: Metastore) -> None:
    catalog.create_table("ns.t", ROWS.schema)
    metastore.set_parameters("ns", "t", table_type="")
    assert catalog.list_tables() == []
    with pytest.raises(SchemaError, match="is no Iceberg table"):
        catalog.load_table("ns.t")
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("ns.t", ROWS.schema)


@pytest.mark.parametrize("locking", ["true", "false"])
def test_many_writers(metastore: Metastore, tmp_path: Path, locking: str) -> None:
    options = {"engine.hive.lock-enabled": locking, "commit.retry.min-wait-ms": "1"}
    connect(metastore, tmp_path).create_namespace("ns")
    settings = {"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "20"}
    connect(metastore, tmp_path).create_table("ns.t", ROWS.schema, properties=settings)

    def write() -> None:
        table = connect(metastore, tmp_path, **options).load_table("ns.t")
        for _ in range(3):
            table.append(ROWS)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = connect(metastore, tmp_path).load_table("ns.t")
    assert table.scan().to_arrow().num_rows == 27
    assert len(table.snapshots()) == 9
    assert not metastore.locks
    assert ("lock" in metastore.calls) == (locking == "true")


def test_another_writer_without_a_lock(catalog: skerry.Catalog, metastore: Metastore, tmp_path: Path) -> None:
    """The metastore compares what the commit builds on with what it has, in the very change."""
    catalog.create_table("ns.t", ROWS.schema, properties={"engine.hive.lock-enabled": "false"}).append(ROWS)
    table, other = catalog.load_table("ns.t"), connect(metastore, tmp_path).load_table("ns.t")

    def overtaking(name: str) -> None:
        if name.startswith("alter_table"):
            metastore.before = lambda _name: None
            other.append(ROWS)

    metastore.before = overtaking
    table.append(ROWS)
    assert table.scan().to_arrow().num_rows == 9
    metastore.compares = False
    with pytest.raises(UnsupportedError, match="compares no parameters"):
        table.append(ROWS)
    assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 9


def test_a_lock_that_nobody_releases(metastore: Metastore, tmp_path: Path) -> None:
    catalog = connect(metastore, tmp_path, **{"iceberg.hive.lock-timeout-ms": "1"})
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", ROWS.schema, properties={"commit.retry.num-retries": "0"})
    metastore.locks[99] = ("ns", "t")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(CatalogLockedError, match="locked by another program"):
        table.append(ROWS)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    assert list(metastore.locks) == [99]
    del metastore.locks[99]
    table.append(ROWS)


def test_an_answer_that_does_not_come(catalog: skerry.Catalog, metastore: Metastore) -> None:
    """What was changed is found again; what was not is not known."""
    table = catalog.create_table("ns.t", ROWS.schema)

    def silent(name: str, answer: bytes) -> bytes | None:
        return None if name.startswith("alter_table") else answer

    metastore.answers = silent
    table.append(ROWS)
    assert table.scan().to_arrow().num_rows == 3
    metastore.answers = lambda _name, answer: answer

    def refusing(name: str) -> None:
        if name.startswith("alter_table"):
            raise OSError

    metastore.before = refusing
    with pytest.raises(CommitUnknownError):
        table.append(ROWS)
    metastore.before = lambda _name: None
    assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 3


def test_nonsense(catalog: skerry.Catalog, metastore: Metastore) -> None:
    catalog.create_table("ns.t", ROWS.schema)
    wrong = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        encode_message("get_table_req", {0: (Kind.I32, 1)}, 1, 2),
        encode_message("other", {}, 1, 2),
        encode_message("get_table_req", {}, 1, 3),
        b"\x80\x01\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x01\x0c\x00\x00" * 200,
        b"\x80\x01\x00\x02\xff\xff\xff\xff",
        b"\x80\x01\x00\x02\x7f\xff\xff\xff",
        b"\x80\x01\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x01",
    ]
    for answer in wrong:
        metastore.answers = lambda _name, _answer, sent=answer: sent
        with pytest.raises(SkerryError):
            catalog.load_table("ns.t")
    metastore.answers = lambda _name, answer: answer
    assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 0


def test_silence_is_bounded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        found = HiveMetastore(uri, limits=MetastoreLimits(answer_s=0.05))
        begun = time.monotonic()
        with pytest.raises(UnansweredError):
            found.table_names("ns")
        assert time.monotonic() - begun < 10
    with pytest.raises(StorageError, match="does not answer"):
        skerry.connect(uri).list_namespaces()


def test_an_answer_is_not_longer_than_it_may_be(metastore: Metastore) -> None:
    found = HiveMetastore(metastore.uri, limits=MetastoreLimits(answer_bytes=20))
    with pytest.raises(FormatError, match="too long"):
        found.database_names()


@pytest.mark.parametrize("uri", ["thrift://", "http://x:1", "thrift://x:port", "thrift://x:0", "thrift://a:1,b:2"])
def test_an_address(uri: str) -> None:
    with pytest.raises(SchemaError, match="thrift://host:port"):
        HiveMetastore(uri)


def test_the_second_address_is_tried_and_a_user_is_told(metastore: Metastore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"thrift://127.0.0.1:{closed.getsockname()[1]}"
    found = HiveMetastore(f"{dead}, {metastore.uri}", "me:mine")
    assert found.database_names() == ["default"]
    assert metastore.calls == ["set_ugi", "get_all_databases"]
    assert "127.0.0.1" in repr(found)


def test_a_conflict_of_names_is_none_of_commits(catalog: skerry.Catalog, metastore: Metastore) -> None:
    catalog.create_table("ns.t", ROWS.schema)
    lost = metastore.parameters("ns", "t")["metadata_location"]

    def moved(name: str) -> None:
        if name == "lock":
            metastore.set_parameters("ns", "t", metadata_location=lost + "x")

    metastore.before = moved
    with pytest.raises(ConflictError, match="another writer was first"):
        catalog.rename_table("ns.t", "ns.u")


def test_values_of_every_type_come_back() -> None:
    from metastore_server import list_of, record

    fields = {
        1: (Kind.BOOL, 1),
        2: (Kind.BYTE, -3),
        3: (Kind.DOUBLE, 1.5),
        4: (Kind.I16, -300),
        5: (Kind.I64, 1 << 40),
        6: list_of(Kind.STRUCT, [{1: text("ä")}, {}]),
        7: record({7: record({})}),
        8: (Kind.SET, list_of(Kind.I32, [1, 2])[1]),
    }
    data = memoryview(encode_message("call", fields, 7))
    place = 0

    def read(length: int) -> bytes:
        nonlocal place
        place += length
        return bytes(data[place - length : place])

    assert decode_message(read) == (1, "call", 7, fields)
    assert place == len(data)
