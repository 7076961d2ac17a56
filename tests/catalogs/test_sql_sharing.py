"""Catalogs in SQL databases that other programs use too: PyIceberg, and the schemas of Iceberg Java's JDBC catalog."""

from __future__ import annotations

import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog as PyIcebergSqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from sqlalchemy import make_url

import skerry
from skerry.databases.sql_database import SqlConnection, SqlDatabase
from skerry.databases.sql_url import SqlUrl, parse_sql_url
from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SchemaError,
    StorageError,
    UnsupportedError,
)
from skerry.iceberg.catalogs import sql
from skerry.iceberg.catalogs.metadata_files import read_metadata
from skerry.iceberg.catalogs.opening import open_catalog
from skerry.iceberg.catalogs.pyiceberg_catalogs import PyIcebergCatalog
from skerry.iceberg.catalogs.sql import SqlCatalog

SCHEMA = pa.schema([("k", pa.int64())])

# As Iceberg 1.12's JdbcUtil creates them; its schema V0 has no column for the type.
JAVA_V0 = """\
CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL,table_namespace VARCHAR(255) NOT NULL,
table_name VARCHAR(255) NOT NULL,metadata_location VARCHAR(1000),previous_metadata_location VARCHAR(1000),
PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL,namespace VARCHAR(255) NOT NULL,
property_key VARCHAR(255),property_value VARCHAR(1000),PRIMARY KEY (catalog_name, namespace, property_key));
"""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def uri(request, tmp_path):
    return f"sqlite:///{tmp_path}/shared.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def sqlite_file(tmp_path):
    return tmp_path / "catalog.db"


def rows(*values):
    return pa.table({"k": list(values)}, schema=SCHEMA)


def statements(path, text):
    with sqlite3.connect(path) as connection:
        connection.executescript(text)
    connection.close()


def columns(path):
    with sqlite3.connect(path) as connection:
        found = [row[1] for row in connection.execute("PRAGMA table_info(iceberg_tables)")]
    connection.close()
    return found


def test_pyiceberg_and_we_share_a_database(uri, tmp_path):
    warehouse = f"file://{tmp_path}/lake"
    ours = skerry.connect(uri, warehouse=warehouse, name="shared")
    theirs = PyIcebergSqlCatalog("shared", uri=uri, warehouse=warehouse)
    table = ours.create_table("a.b.t", SCHEMA)
    table.append(rows(1, 2))
    peer = theirs.load_table("a.b.t")
    peer.append(rows(3))
    table.refresh().append(rows(4))
    assert sorted(theirs.load_table("a.b.t").scan().to_arrow()["k"].to_pylist()) == [1, 2, 3, 4]

    theirs.create_namespace("p", {"location": f"file://{tmp_path}/elsewhere", "owner": "me"})
    theirs.create_table("p.u", SCHEMA).append(rows(5))
    ours.load_table("p.u").append(rows(6))
    assert ours.create_table("p.v", SCHEMA).location == f"file://{tmp_path}/elsewhere/v"
    assert theirs.load_table("p.u").scan().to_arrow().num_rows == 2
    assert ours.list_namespaces() == ["a", "a.b", "p"]
    assert sorted(theirs.list_namespaces()) == [("a",), ("p",)]
    assert sorted(theirs.list_tables("p")) == [("p", "u"), ("p", "v")]
    assert ours.list_tables() == ["a.b.t", "p.u", "p.v"]

    theirs.rename_table("p.u", "a.b.w")
    ours.rename_table("a.b.t", "p.t")
    assert ours.list_tables() == ["a.b.w", "p.t", "p.v"]
    theirs.drop_table("p.v")
    ours.drop_table("p.t")
    with pytest.raises(NoSuchTableError):
        theirs.load_table("p.t")
    assert ours.list_tables() == ["a.b.w"]


def test_of_two_commits_on_one_state_one_wins(uri, tmp_path):
    warehouse = f"file://{tmp_path}/lake"
    ours = skerry.connect(uri, warehouse=warehouse, name="shared")
    table = ours.create_table("n.t", SCHEMA, properties={"commit.retry.num-retries": "0"})
    theirs = PyIcebergSqlCatalog("shared", uri=uri, warehouse=warehouse)
    write = type(theirs)._write_metadata

    def lose(metadata, io, metadata_path):
        write(metadata, io, metadata_path)
        table.append(rows(1))

    theirs._write_metadata = lose
    with pytest.raises(CommitFailedException):
        theirs.load_table("n.t").append(rows(2))
    del theirs._write_metadata

    catalog = table.handle.catalog
    replace = type(catalog._tables).replace_locations
    with pytest.MonkeyPatch.context() as patch:

        def beaten(self, *arguments):
            theirs.load_table("n.t").append(rows(3))
            replace(self, *arguments)

        patch.setattr(type(catalog._tables), "replace_locations", beaten)
        with pytest.raises(ConflictError, match="was changed by another process"):
            table.append(rows(4))
    assert sorted(ours.load_table("n.t").scan().to_arrow()["k"].to_pylist()) == [1, 3]


def test_the_tables_that_we_create_are_those_of_pyiceberg(tmp_path):
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    open_catalog("c", {"type": "sql", "uri": f"sqlite:///{ours}"})
    PyIcebergSqlCatalog("c", uri=f"sqlite:///{theirs}")

    def described(path):
        with sqlite3.connect(path) as connection:
            found = {
                name: connection.execute(f"PRAGMA table_info({name})").fetchall()
                for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
        connection.close()
        return found

    assert described(ours) == described(theirs)


def test_a_database_of_an_older_iceberg_stays_as_it_is(sqlite_file, tmp_path):
    statements(sqlite_file, JAVA_V0)
    before = columns(sqlite_file)
    catalog = skerry.connect(f"sqlite:///{sqlite_file}", warehouse=f"file://{tmp_path}/lake")
    catalog.create_table("n.t", SCHEMA).append(rows(1))
    catalog.rename_table("n.t", "n.u").append(rows(2))
    assert catalog.list_tables() == ["n.u"]
    assert columns(sqlite_file) == before
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("n.u", SCHEMA)
    peer = PyIcebergSqlCatalog("skerry", uri=f"sqlite:///{sqlite_file}")
    assert peer.load_table("n.u").scan().to_arrow().num_rows == 2
    catalog.drop_table("n.u")


def test_a_database_of_an_older_iceberg_gets_the_column_if_asked_to(sqlite_file, tmp_path):
    statements(sqlite_file, JAVA_V0)
    options = {"warehouse": f"file://{tmp_path}/lake", "schema_version": "v1"}
    with pytest.raises(SchemaError, match="schema_version must be v0 or v1, found 'v7'"):
        skerry.connect(f"sqlite:///{sqlite_file}", **{**options, "schema_version": "v7"})
    for _ in range(2):
        skerry.connect(f"sqlite:///{sqlite_file}", **options)
    assert columns(sqlite_file)[-1] == "iceberg_type"
    catalog = skerry.connect(f"sqlite:///{sqlite_file}", **options)
    catalog.create_table("n.t", SCHEMA)
    with sqlite3.connect(sqlite_file) as connection:
        assert connection.execute("SELECT iceberg_type FROM iceberg_tables").fetchall() == [("TABLE",)]
    connection.close()


def test_views_are_no_tables_but_have_their_names(sqlite_file, tmp_path):
    catalog = skerry.connect(f"sqlite:///{sqlite_file}", warehouse=f"file://{tmp_path}/lake")
    catalog.create_table("n.t", SCHEMA)
    statements(
        sqlite_file,
        "INSERT INTO iceberg_tables VALUES ('skerry', 'n', 'v', 'file:///v.json', NULL, 'VIEW');"
        "INSERT INTO iceberg_tables SELECT catalog_name, 'n', 'old', metadata_location, NULL, NULL FROM iceberg_tables "
        "WHERE table_name = 't';",
    )
    assert catalog.list_tables() == ["n.old", "n.t"]
    assert not catalog.table_exists("n.v")
    for act in (catalog.load_table, catalog.drop_table, lambda name: catalog.rename_table(name, "n.w")):
        with pytest.raises(NotFoundError):
            act("n.v")
    for act in (lambda: catalog.create_table("n.v", SCHEMA), lambda: catalog.rename_table("n.t", "n.v")):
        with pytest.raises(AlreadyExistsError):
            act()
    assert catalog.load_table("n.old").scan().count() == 0


def test_catalogs_of_one_database_do_not_see_each_other(uri, tmp_path):
    one, two = (skerry.connect(uri, warehouse=f"file://{tmp_path}/{name}", name=name) for name in ("one", "two"))
    one.create_table("n.t", SCHEMA).append(rows(1))
    two.create_table("n.t", SCHEMA).append(rows(1, 2))
    one.create_namespace("m")
    assert [catalog.load_table("n.t").scan().count() for catalog in (one, two)] == [1, 2]
    assert (one.list_namespaces(), two.list_namespaces()) == (["m", "n"], ["n"])
    one.drop_table("n.t")
    assert two.list_tables() == ["n.t"]


def test_namespaces_are_told_apart_exactly(uri):
    catalog = open_catalog("c", {"type": "sql", "uri": uri})
    for name in ("a_b.c", "A", "a%", "é.ü"):
        catalog.create_namespace(tuple(name.split(".")))
    assert catalog.namespace_exists(("a_b",))
    assert not any(catalog.namespace_exists((name,)) for name in ("axb", "a", "é.", "a_", "c"))
    assert catalog.list_namespaces() == [("A",), ("a%",), ("a_b",), ("é",)]
    assert catalog.list_namespaces(("a_b",)) == [("a_b", "c")]
    assert catalog.list_namespaces(("A",)) == []
    with pytest.raises(NotFoundError, match="no namespace 'a'"):
        catalog.list_namespaces(("a",))
    with pytest.raises(AlreadyExistsError):
        catalog.create_namespace(("a_b",))
    with pytest.raises(NotFoundError, match="no namespace 'a'"):
        catalog.list_tables(("a",))
    with pytest.raises(NotFoundError):
        catalog.namespace_properties(("a",))
    catalog.create_namespace(("p",), {"k": "v"})
    assert catalog.namespace_properties(("p",)) == {"k": "v"}
    assert catalog.namespace_properties(("A",)) == {"exists": "true"}
    catalog.close()


def test_names_and_locations_that_do_not_fit_are_refused(uri, tmp_path):
    catalog = open_catalog("c", {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}"})
    catalog.create_namespace(("n",))
    with pytest.raises(SchemaError, match="the namespace has 256 characters, SQL catalogs allow 255"):
        catalog.create_namespace(("n" * 256,))
    with pytest.raises(SchemaError, match="the table's name has 300 characters"):
        catalog.register_table(("n", "t" * 300), "file:///a")
    with pytest.raises(SchemaError, match="the location of the metadata file has 1001 characters"):
        catalog.register_table(("n", "t"), "f" * 1001)
    with pytest.raises(NotFoundError, match="no namespace 'm'"):
        catalog.register_table(("m", "t"), "file:///a")
    catalog.close()


def test_rows_that_no_name_can_express_hide_no_others(sqlite_file, tmp_path):
    """Older versions of Iceberg Java create tables without a namespace."""
    catalog = skerry.connect(tmp_path)
    catalog.create_table("n.t", SCHEMA)
    statements(
        sqlite_file,
        """INSERT INTO iceberg_tables VALUES ('skerry', '', 'a', 'file:///a', NULL, 'TABLE');
        INSERT INTO iceberg_tables VALUES ('skerry', 'q..w', 'b', 'file:///b', NULL, 'TABLE')""",
    )
    assert catalog.list_namespaces() == ["n", "q"]
    assert catalog.list_tables() == ["n.t"]
    assert catalog.list_tables("q") == []
    with pytest.raises(NotFoundError, match=r"no table 'n\.s'; did you mean 'n\.t'"):
        catalog.load_table("n.s")


def test_a_property_that_is_null_is_none(sqlite_file, tmp_path):
    """Iceberg Java's table of properties allows null."""
    statements(sqlite_file, JAVA_V0)
    statements(sqlite_file, "INSERT INTO iceberg_namespace_properties VALUES ('skerry', 'n', 'location', NULL)")
    catalog = skerry.connect(tmp_path)
    assert catalog.create_table("n.t", SCHEMA).location == f"file://{tmp_path}/n/t"
    assert open_catalog("skerry", catalog.properties).namespace_properties(("n",)) == {}
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert skerry.connect(tmp_path / "copy").relocate().tables[0].table == "n.t"


def test_a_table_without_a_warehouse_needs_a_location(sqlite_file, tmp_path, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__BARE__URI", f"sqlite:///{sqlite_file}")
    catalog = skerry.connect("bare")
    with pytest.raises(SchemaError, match="create the table with location="):
        catalog.create_table("n.t", SCHEMA)
    assert catalog.create_table("n.t", SCHEMA, location=f"file://{tmp_path}/t").location == f"file://{tmp_path}/t"


def test_a_table_that_could_not_be_added_leaves_no_file(sqlite_file, tmp_path, monkeypatch):
    catalog = skerry.connect(f"sqlite:///{sqlite_file}", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("n")

    def files():
        return list((tmp_path / "lake").rglob("*.json"))

    def failing(*_):
        raise sqlite3.OperationalError("disk I/O error")

    execute = SqlConnection.execute
    with monkeypatch.context() as patch:
        patch.setattr(
            SqlConnection,
            "execute",
            lambda self, text, *rest: failing() if text.startswith("INSERT") else execute(self, text, *rest),
        )
        with pytest.raises(StorageError, match="disk I/O error"):
            catalog.create_table("n.t", SCHEMA)
    assert files() == []
    with monkeypatch.context() as patch:
        patch.setattr(SqlConnection, "commit", failing)
        with pytest.raises(CommitUnknownError):
            catalog.create_table("n.t", SCHEMA)
    assert len(files()) == 1  # it may be in use


def test_threads_share_a_catalog(uri, tmp_path):
    catalog = skerry.connect(uri, warehouse=f"file://{tmp_path}")
    options = {"commit.retry.num-retries": "40", "commit.retry.min-wait-ms": "1"}
    catalog.create_table("n.t", SCHEMA, properties=options)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: catalog.load_table("n.t").append(rows(number)), range(8)))
    assert sorted(catalog.load_table("n.t").scan().to_arrow()["k"].to_pylist()) == [*range(8)]


def test_a_catalog_in_memory_is_shared_by_threads_and_cannot_be_opened_twice(tmp_path):
    catalog = skerry.connect("sqlite:///:memory:", warehouse=f"file://{tmp_path}")
    catalog.create_table("n.t", SCHEMA, properties={"commit.retry.num-retries": "40", "commit.retry.min-wait-ms": "1"})
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda number: catalog.load_table("n.t").append(rows(number)), range(6)))
    assert catalog.load_table("n.t").scan().count() == 6
    with pytest.raises(UnsupportedError, match="in memory"):
        _ = catalog.iceberg_catalog


@pytest.mark.service
def test_a_connection_that_broke_while_idle_is_replaced(postgres_url, monkeypatch):
    import psycopg

    monkeypatch.setattr("skerry.databases.sql_database._FRESH_S", 0.0)
    catalog = open_catalog("c", {"type": "sql", "uri": postgres_url})
    catalog.create_namespace(("n",))
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as other:
        ours = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        assert other.execute(f"SELECT pg_terminate_backend(pid, 5000) {ours}").fetchall() == [(True,)]
        catalog.create_namespace(("m",))
        assert len(other.execute(f"SELECT pid {ours}").fetchall()) == 1
    assert catalog.list_namespaces() == [("m",), ("n",)]
    catalog.close()


def test_a_file_that_was_replaced_is_opened_again(tmp_path):
    """An idle connection would still read the old file."""
    catalogs = {}
    for name in ("one", "two"):
        catalogs[name] = open_catalog("c", {"type": "sql", "uri": f"sqlite:///{tmp_path}/{name}.db"})
        catalogs[name].create_namespace((name,))
    assert catalogs["one"].list_namespaces() == [("one",)]
    os.replace(tmp_path / "two.db", tmp_path / "one.db")
    assert catalogs["one"].list_namespaces() == [("two",)]
    (tmp_path / "one.db").unlink()
    with pytest.raises(NotFoundError, match="no such table"):
        catalogs["one"].list_namespaces()


@pytest.mark.service
def test_a_process_that_forked_does_not_use_the_connection_of_its_parent(postgres_url):
    database = SqlDatabase(postgres_url)

    def backend():
        with database.reading() as connection:
            return connection.rows("SELECT pg_backend_pid()")[0][0]

    parent = backend()
    assert backend() == parent
    child = os.fork()
    if child == 0:  # no assertion here: it must end without pytest
        os._exit(0 if backend() != parent else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert backend() == parent
    database.close()


URLS = [
    "sqlite://",
    "sqlite:///:memory:",
    "sqlite:///relative/catalog.db",
    "sqlite:////absolute/ca%20ta%3Flog.db?timeout=3",
    "sqlite:///file:/a/b.db?mode=ro&uri=true",
    "postgresql://host/lake",
    "postgresql+psycopg://me:p%40ss%2Fword@host:5433/la%20ke?sslmode=require&options=-c%20x%3D1",
    "postgresql+psycopg2://me@[::1]:5432/lake",
    "postgresql:///lake?host=/var/run",
    "mysql+pymysql://me:pw@host/lake",
]


@pytest.mark.parametrize("text", URLS)
def test_addresses_mean_what_they_mean_to_sqlalchemy(text):
    url, ours = make_url(text), parse_sql_url(text)
    assert (ours.dialect, ours.driver or "") == (url.drivername.partition("+")[0], url.drivername.partition("+")[2])
    assert (ours.user, ours.password, ours.host, ours.port) == (url.username, url.password, url.host, url.port)
    assert ours.database == (url.database or "")
    assert dict(ours.options) == dict(url.query)


@pytest.mark.parametrize("folder", ["plain", "sp ace", "ü%41", "a?b#c", "d&e=f", "g+h@i:j"])
def test_the_address_of_a_folder_is_read_back(folder, tmp_path):
    (tmp_path / folder).mkdir()
    catalog = skerry.connect(tmp_path / folder)
    catalog.create_table("n.t", SCHEMA).append(rows(1))
    assert make_url(catalog.properties["uri"]).database == str(tmp_path / folder / "catalog.db")
    assert parse_sql_url(str(SqlUrl("sqlite", str(tmp_path / folder)))).database == str(tmp_path / folder)
    assert catalog.iceberg_catalog.load_table("n.t").scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("uri", ["catalog.db", "sqlite:/x", "postgresql://me:hush@host:port/x"])
def test_what_is_no_address_is_refused_without_its_password(uri):
    with pytest.raises(SchemaError) as caught:
        SqlCatalog("c", {"uri": uri})
    assert "hush" not in str(caught.value)


def test_options_of_sqlite_that_are_unknown_are_named(tmp_path):
    with pytest.raises(UnsupportedError, match="SQLite has no option 'tiemout'"):
        SqlCatalog("c", {"uri": f"sqlite:///{tmp_path}/c.db?tiemout=3"})
    with pytest.raises(UnsupportedError, match="timeout='soon' is not a number"):
        SqlCatalog("c", {"uri": f"sqlite:///{tmp_path}/c.db?timeout=soon"})
    for timeout in ("nan", "inf", "-1"):
        with pytest.raises(UnsupportedError, match=f"timeout='{timeout}' is not 0 to 1000000 s"):
            SqlCatalog("c", {"uri": f"sqlite:///{tmp_path}/c.db?timeout={timeout}"})


def test_a_database_that_must_not_be_changed(tmp_path):
    catalog = skerry.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_table("n.t", SCHEMA).append(rows(1))
    read_only = skerry.connect(f"sqlite:///file:{tmp_path}/c.db?mode=ro&uri=true", warehouse=f"file://{tmp_path}/lake")
    assert read_only.load_table("n.t").scan().count() == 1
    with pytest.raises(StorageError, match="readonly database"):
        read_only.create_namespace("m")
    with pytest.raises(StorageError, match="unable to open"):
        SqlCatalog("c", {"uri": f"sqlite:///file:{tmp_path}/d.db?mode=ro&uri=true"})


def test_databases_of_other_kinds_are_left_to_pyiceberg(monkeypatch):
    opened = []
    monkeypatch.setattr(PyIcebergCatalog, "__init__", lambda self, name, properties: opened.append(properties["uri"]))
    open_catalog("c", {"uri": "mysql+pymysql://me@host/lake", "type": "sql"})
    open_catalog("c", {"uri": "thrift://host:9083", "hive.kerberos-authentication": "true"})
    assert opened == ["mysql+pymysql://me@host/lake", "thrift://host:9083"]


def test_a_metadata_file_is_read_once(tmp_path, monkeypatch):
    """What a handle has loaded or committed is read again only after another writer's commit."""
    table = skerry.connect(tmp_path / "w").create_table("n.t", SCHEMA)
    other = skerry.connect(tmp_path / "w").load_table("n.t")
    read = []

    def recorded(storage, location):
        read.append(location)
        return read_metadata(storage, location)

    monkeypatch.setattr(sql, "read_metadata", recorded)
    for _ in range(3):
        table.append(rows(1))
    table.refresh()
    assert read == []
    assert other.refresh().scan().count() == 3
    other.append(rows(2))
    assert read == [table.metadata_location]
    assert table.refresh().scan().count() == 4
    assert read[1:] == [other.metadata_location]
