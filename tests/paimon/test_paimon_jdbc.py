"""Paimon's JDBC catalog, in turns with Paimon Java and pypaimon on one SQLite file, and alone in PostgreSQL."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import contextmanager

import pyarrow as pa
import pytest

import skerry
from skerry.databases.sql_database import SqlConnection, SqlDatabase
from skerry.errors import (
    AlreadyExistsError,
    CatalogLockedError,
    CommitUnknownError,
    NotFoundError,
    SchemaError,
    SkerryError,
    StorageError,
    UnsupportedError,
)
from skerry.paimon.catalogs.jdbc_lock import CatalogLock

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
KEYED = {"primary_key": ["id"], "partition_by": ["bucket(2, id)"], "format": "paimon"}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def uri(request, tmp_path):
    return f"sqlite:///{tmp_path}/names.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def open_catalog(uri, tmp_path):
    return lambda **options: skerry.connect(f"paimon+{uri}", warehouse=str(tmp_path / "wh"), **options)


def rows(*ids, name="a"):
    return pa.table({"id": ids, "name": [name] * len(ids)}, SCHEMA)


def read(table):
    return sorted(list(row.values()) for row in table.scan().to_arrow().to_pylist())


def test_tables_are_kept_by_name(open_catalog):
    catalog = open_catalog()
    catalog.create_namespace("empty", {"owner": "me"})
    table = catalog.create_table("ns.t", SCHEMA, **KEYED)
    table.append(rows(1, 2))
    assert catalog.list_namespaces() == ["empty", "ns"]
    assert catalog.list_tables() == ["ns.t"]
    other = open_catalog()
    assert read(other.load_table("ns.t")) == [[1, "a"], [2, "a"]]
    other.load_table("ns.t").set_properties({"snapshot.num-retained.max": "20"})
    renamed = other.rename_table("ns.t", "empty.u")
    renamed.append(rows(3))
    assert read(catalog.load_table("empty.u")) == [[1, "a"], [2, "a"], [3, "a"]]
    assert catalog.list_tables() == ["empty.u"]
    catalog.drop_namespace("ns")
    with pytest.raises(SchemaError, match="is not empty"):
        catalog.drop_namespace("empty")
    assert catalog.list_namespaces() == ["empty"]
    catalog.create_namespace("ns")
    for wrong, error in (("ns.t", NotFoundError), ("a.b.c", UnsupportedError)):
        with pytest.raises(error):
            catalog.rename_table(wrong, "ns.v") if error is NotFoundError else catalog.create_table(
                wrong, SCHEMA, **KEYED
            )
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("empty.u", SCHEMA, **KEYED)
    with pytest.raises(AlreadyExistsError):
        catalog.create_namespace("ns")
    with pytest.raises(SchemaError, match="purge=True"):
        catalog.drop_table("empty.u")
    catalog.drop_table("empty.u", purge=True)
    assert catalog.list_tables() == []
    assert open_catalog(**{"catalog-key": "another"}).list_namespaces() == []


@pytest.mark.parametrize("lock", ["false", "true"])
def test_java_and_pypaimon_share_the_catalog(java_paimon, pypaimon, tmp_path, lock):
    """Each creates, reads, writes, renames and drops what the others have created."""
    file = tmp_path / "names.db"
    warehouse = tmp_path / "wh"
    warehouse.mkdir()
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{file}", "warehouse": str(warehouse), "lock.enabled": lock}
    java_paimon.catalog(
        options, ["create database", "ns"], ["create", "ns", "java"], ["write", "ns", "java", [["+I", [1, "java"]]]]
    )
    catalog = skerry.connect(f"paimon+sqlite:///{file}", warehouse=str(warehouse), **{"lock.enabled": lock})
    theirs = catalog.load_table("ns.java")
    assert read(theirs) == [[1, "java"]]
    theirs.append(rows(2, name="skerry"))
    ours = catalog.create_table("ns.ours", SCHEMA, **KEYED)
    ours.append(rows(1, 2, name="skerry"))
    ours.set_properties({"snapshot.num-retained.max": "20"})
    pypaimon.catalog(options, ["create", "ns", "py"], ["write", "ns", "py", [["+I", [5, "py"]]]])
    for peer in (java_paimon, pypaimon):
        tables, found, java, py = peer.catalog(
            options, ["tables", "ns"], ["read", "ns", "ours"], ["read", "ns", "java"], ["read", "ns", "py"]
        )
        assert sorted(tables) == ["java", "ours", "py"]
        assert sorted(found) == [[1, "skerry"], [2, "skerry"]]
        assert sorted(java) == [[1, "java"], [2, "skerry"]]
        assert sorted(py) == [[5, "py"]]
    if lock == "false":  # with locks Java 1.4.2 waits for itself on SQLite, except for tables that it has just created
        java_paimon.catalog(options, ["write", "ns", "ours", [["+I", [2, "java"]]]])
    else:
        ours.append(rows(2, name="java"))
    java_paimon.catalog(options, ["rename", "ns", "ours", "ns", "moved"], ["drop", "ns", "java"])
    assert read(catalog.load_table("ns.moved")) == [[1, "skerry"], [2, "java"]]
    catalog.create_namespace("other")
    catalog.rename_table("ns.py", "other.py").append(rows(6))
    assert sorted(java_paimon.catalog(options, ["read", "other", "py"])[0]) == [[5, "py"], [6, "a"]]
    catalog.drop_table("ns.moved", purge=True)
    assert [sorted(names) for names in java_paimon.catalog(options, ["tables", "ns"], ["databases"])] == [
        [],
        ["ns", "other"],
    ]
    assert catalog.list_namespaces() == ["ns", "other"]


def test_options_are_copied_as_java_does(java_paimon, tmp_path):
    file, warehouse = tmp_path / "names.db", tmp_path / "wh"
    warehouse.mkdir()
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{file}", "warehouse": str(warehouse)}
    java_paimon.catalog(options, ["create database", "ns"], ["create", "ns", "a"], ["set", "ns", "a", "x.y", "1"])
    catalog = skerry.connect(f"paimon+sqlite:///{file}", warehouse=str(warehouse))
    catalog.create_table("ns.b", SCHEMA, **KEYED).set_properties({"x.y": "1"})
    catalog.create_namespace("b")
    with sqlite3.connect(file) as connection:
        copied, places = (
            connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4").fetchall()
            for table in ("paimon_table_properties", "paimon_database_properties")
        )
    by_table = [sorted(row[3:] for row in copied if row[2] == name) for name in ("a", "b")]
    assert by_table[0] == by_table[1]
    assert {row[2] for row in places if row[1] == "b"} == {row[2] for row in places if row[1] == "ns"}


@pytest.fixture
def database(uri):
    return SqlDatabase(uri)


def test_a_lock_keeps_others_waiting_and_expires(open_catalog, database, monkeypatch):
    options = {"lock.enabled": "true", "lock-acquire-timeout": "1 s", "lock-check-max-sleep": "100 ms"}
    table = open_catalog(**options).create_table("ns.t", SCHEMA, properties={"commit.max-retries": "0"}, **KEYED)
    table.append(rows(1))
    assert locks(database) == []
    with CatalogLock(0.1, 60).held(database, "jdbc.ns.t"), pytest.raises(CatalogLockedError, match=r"jdbc\.ns\.t"):
        table.append(rows(2))
    assert read(table.refresh()) == [[1, "a"]]
    with database.writing() as connection:
        connection.change(
            "INSERT INTO paimon_distributed_locks (lock_id, acquired_at, expire_time_seconds) VALUES (?, ?, 5)",
            ("jdbc.ns.t", "2020-01-01 00:00:00"),
        )
    table.append(rows(3))
    assert read(table.refresh()) == [[1, "a"], [3, "a"]]
    assert locks(database) == []
    change = SqlConnection.change

    def fails(connection, statement, parameters=()):
        if "paimon_distributed_locks" in statement and "INSERT" in statement:
            raise StorageError("the database is gone")
        return change(connection, statement, parameters)

    monkeypatch.setattr(SqlConnection, "change", fails)
    with pytest.raises(CatalogLockedError, match="the database is gone"):
        table.append(rows(4))
    assert len(list(table.storage.list(f"{table.location}/snapshot"))) == 3  # two, and a hint


def locks(database):
    with database.reading() as connection:
        return connection.rows("SELECT lock_id FROM paimon_distributed_locks")


def test_a_table_without_its_row_is_none(open_catalog, monkeypatch):
    """Failures between the schema and the row: known ones are undone, after unknown ones nothing is deleted."""
    catalog = open_catalog()
    commit = SqlConnection.commit
    change = SqlConnection.change

    def refuses(connection, statement, parameters=()):
        if "INTO paimon_tables" in statement:
            raise StorageError("no space left")
        return change(connection, statement, parameters)

    catalog.create_namespace("ns")
    with monkeypatch.context() as patch:
        patch.setattr(SqlConnection, "change", refuses)
        with pytest.raises(StorageError, match="no space"):
            catalog.create_table("ns.t", SCHEMA, **KEYED)
    catalog.create_table("ns.t", SCHEMA, **KEYED).append(rows(1))

    @contextmanager
    def loses(self, sending=lambda: None):
        with SqlDatabase.reading(self) as connection:
            connection.change(self.dialect.begin_write)
            yield connection
            sending()
            commit(connection)
        raise CommitUnknownError("the answer was lost")

    for work in (
        lambda: catalog.create_table("ns.u", SCHEMA, **KEYED),
        lambda: catalog.rename_table("ns.t", "ns.v"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(SqlDatabase, "writing", loses)
            with pytest.raises(CommitUnknownError):
                work()
    assert catalog.list_tables() == ["ns.u", "ns.v"]
    assert read(catalog.load_table("ns.v")) == [[1, "a"]]
    assert read(catalog.load_table("ns.u")) == []
    with monkeypatch.context() as patch:
        patch.setattr(SqlConnection, "change", lambda *_: (_ for _ in ()).throw(StorageError("gone")))
        with pytest.raises(StorageError, match="gone"):
            catalog.rename_table("ns.v", "ns.w")
    assert read(catalog.load_table("ns.v")) == [[1, "a"]]


def test_a_copy_in_another_process_commits_by_the_same_rules(open_catalog):
    table = open_catalog(**{"lock.enabled": "true"}).create_table("ns.t", SCHEMA, **KEYED)
    handle = pickle.loads(pickle.dumps(table.handle))
    assert handle.state.authority == table.handle.state.authority
    assert handle.state.authority.lock is not None


def test_wrong_targets_are_named(tmp_path):
    with pytest.raises(SkerryError, match="warehouse"):
        skerry.connect(f"paimon+sqlite:///{tmp_path}/names.db")
    with pytest.raises(UnsupportedError, match=r"paimon\+sqlite"):
        skerry.connect("paimon+ftp://host", warehouse=str(tmp_path))
    with pytest.raises(SchemaError, match="lock-acquire-timeout"):
        skerry.connect(
            f"paimon+sqlite:///{tmp_path}/a.db",
            warehouse=str(tmp_path),
            **{"lock.enabled": "true", "lock-acquire-timeout": "long"},
        )
    with pytest.raises(SkerryError) as caught:
        skerry.connect("paimon+postgresql://me:s3cret@127.0.0.1:1/x", warehouse=str(tmp_path))
    assert "s3cret" not in str(caught.value)
