"""Catalogs in SQL databases: what was acknowledged is there for everybody, and what failed has ended."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager

import pyarrow as pa
import pytest

import skerry
from skerry.databases.sql_database import SqlConnection
from skerry.errors import CatalogLockedError, CommitUnknownError

SCHEMA = pa.schema([("id", pa.int64())])
ONE_ATTEMPT = {"commit.retry.num-retries": "0"}


@pytest.fixture
def connect(tmp_path):
    def connect_again():
        return skerry.connect(f"sqlite:///{tmp_path}/catalog.db?timeout=0.05", warehouse=f"file://{tmp_path}/warehouse")

    return connect_again


@pytest.fixture
def catalog(connect):
    catalog = connect()
    catalog.create_table("n.t", SCHEMA, properties=ONE_ATTEMPT).append(pa.table({"id": [1, 2]}))
    return catalog


@contextmanager
def another_reader(tmp_path):
    """A process that reads for a long time, such as a backup: writers fail at COMMIT."""
    connection = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM iceberg_tables").fetchone()
        yield
    finally:
        connection.close()


@contextmanager
def another_writer(tmp_path, lock="IMMEDIATE"):
    connection = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    try:
        connection.execute(f"BEGIN {lock}")
        yield
    finally:
        connection.close()


@contextmanager
def failing_commits(*, after=False, error=None):
    """COMMIT fails, before or after it took effect."""
    commit = SqlConnection.commit

    def fail(connection):
        if after:
            commit(connection)
        raise error or sqlite3.OperationalError("disk I/O error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlConnection, "commit", fail)
        yield


def lock_is_free(tmp_path):
    with sqlite3.connect(tmp_path / "catalog.db", isolation_level=None, timeout=0) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("ROLLBACK")
    connection.close()
    return True


def ids(catalog):
    return sorted(catalog.load_table("n.t").scan().to_arrow()["id"].to_pylist())


CHANGES = {
    "append": lambda table: table.append(pa.table({"id": [3]})),
    "delete": lambda table: table.delete("id = 1"),
    "upsert": lambda table: table.upsert(pa.table({"id": [9]}), on=["id"]),
    "compact": lambda table: table.compact(full=True),
    "expire": lambda table: table.expire_snapshots(keep_last=1, older_than=table.snapshots()[-1].timestamp),
    "update_schema": lambda table: table.update_schema().add_column("x", pa.int32()).commit(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_not_acknowledged_when_its_commit_finds_the_catalog_locked(catalog, connect, tmp_path, change):
    table = catalog.load_table("n.t")
    table.append(pa.table({"id": [7]}))
    before = table.metadata_location
    with (
        another_reader(tmp_path),
        pytest.raises(CatalogLockedError, match=r"catalog locked by another process for 0\.05 s; nothing was changed"),
    ):
        CHANGES[change](table)
    assert lock_is_free(tmp_path)
    assert connect().load_table("n.t").metadata_location == before
    assert ids(connect()) == [1, 2, 7]
    CHANGES[change](table)
    assert connect().load_table("n.t").metadata_location == table.metadata_location != before


def test_a_commit_that_finds_the_catalog_locked_is_tried_again(catalog, tmp_path):
    table = catalog.load_table("n.t")
    table.set_properties({"commit.retry.num-retries": "3", "commit.retry.min-wait-ms": "1"})
    with another_reader(tmp_path), pytest.raises(CatalogLockedError, match=r"^gave up after 4 attempts: "):
        table.append(pa.table({"id": [3]}))


@pytest.mark.parametrize(
    "change",
    [
        lambda catalog: catalog.create_table("n.u", SCHEMA),
        lambda catalog: catalog.rename_table("n.t", "n.v"),
        lambda catalog: catalog.drop_table("n.t"),
        lambda catalog: catalog.create_namespace("m"),
        lambda catalog: catalog.register_table("n.u", catalog.load_table("n.t").metadata_location),
    ],
    ids=["create", "rename", "drop", "create_namespace", "register"],
)
def test_what_failed_does_not_keep_the_catalog_locked(catalog, connect, tmp_path, change):
    for rival in (another_reader, another_writer):
        with rival(tmp_path), pytest.raises(CatalogLockedError):
            change(catalog)
        assert lock_is_free(tmp_path)
    assert connect().list_tables() == ["n.t"]
    assert connect().list_namespaces() == ["n"]
    change(catalog)


def test_a_writer_waits_for_another_before_it_begins(catalog, tmp_path):
    with another_writer(tmp_path), pytest.raises(CatalogLockedError):
        catalog.load_table("n.t").append(pa.table({"id": [3]}))
    assert ids(catalog) == [1, 2]


def test_a_catalog_that_another_process_has_for_itself(catalog, connect, tmp_path):
    table = catalog.load_table("n.t")
    with another_writer(tmp_path, "EXCLUSIVE"):
        for read in (connect, catalog.list_tables, table.refresh, lambda: table.append(pa.table({"id": [3]}))):
            with pytest.raises(CatalogLockedError):
                read()
    assert ids(catalog) == [1, 2]


def test_a_commit_that_fails_otherwise_is_looked_up_over_a_fresh_connection(catalog, connect, tmp_path):
    table = catalog.load_table("n.t")
    with failing_commits(), pytest.raises(CommitUnknownError, match="disk I/O error"):
        table.append(pa.table({"id": [3]}))
    assert lock_is_free(tmp_path)
    assert ids(connect()) == [1, 2]
    with failing_commits(after=True):
        table.append(pa.table({"id": [4]}))
    assert ids(connect()) == ids(catalog) == [1, 2, 4]


def test_an_interrupt_at_commit_ends_the_transaction(catalog, connect, tmp_path):
    with failing_commits(error=KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        catalog.create_table("n.u", SCHEMA)
    assert lock_is_free(tmp_path)
    assert connect().list_tables() == catalog.list_tables() == ["n.t"]


@pytest.mark.usefixtures("catalog")
def test_the_journal_stays_a_file_that_is_gone_after_a_commit(tmp_path):
    """With a write-ahead log, a copied folder may lack the newest tables, and a read-only one cannot be opened."""
    assert [path.name for path in tmp_path.glob("catalog.db*")] == ["catalog.db"]
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


def test_a_database_in_memory_survives_a_failed_commit(tmp_path):
    catalog = skerry.connect("sqlite:///:memory:", warehouse=f"file://{tmp_path}")
    table = catalog.create_table("n.t", SCHEMA)
    with failing_commits(), pytest.raises(CommitUnknownError):
        table.append(pa.table({"id": [3]}))
    assert ids(catalog) == []


@pytest.mark.service
def test_postgresql(postgres_url, tmp_path, monkeypatch):
    import psycopg

    def connect():
        return skerry.connect(postgres_url, warehouse=f"file://{tmp_path}")

    catalog = connect()
    table = catalog.create_table("n.t", SCHEMA, properties=ONE_ATTEMPT)
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as other:

        def in_transaction():
            query = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
            return other.execute(query).fetchone()[0]

        # COMMIT itself fails
        other.execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$")
        other.execute(
            "CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON iceberg_tables "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        with pytest.raises(CommitUnknownError):
            table.append(pa.table({"id": [1]}))
        for change in (
            lambda: catalog.create_table("n.u", SCHEMA),
            lambda: catalog.rename_table("n.t", "n.v"),
        ):
            with pytest.raises(skerry.errors.SkerryError):
                change()
            assert in_transaction() == 0
        other.execute("DROP TRIGGER late ON iceberg_tables")
        assert connect().list_tables() == ["n.t"]
        assert ids(connect()) == []

        # a row stays locked
        impatient = skerry.connect(f"{postgres_url}?options=-clock_timeout%3D20ms", warehouse=f"file://{tmp_path}")
        waiting = impatient.load_table("n.t")
        with psycopg.connect(postgres_url.replace("+psycopg", "")) as holder:
            holder.execute("SELECT * FROM iceberg_tables FOR UPDATE")
            with pytest.raises(CatalogLockedError, match="for longer than lock_timeout; nothing was changed"):
                waiting.append(pa.table({"id": [1]}))

        # the connection breaks, before and after COMMIT
        def cut(connection):
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [connection.raw.info.backend_pid])

        commit = SqlConnection.commit
        monkeypatch.setattr(SqlConnection, "commit", lambda connection: (cut(connection), commit(connection)))
        with pytest.raises(CommitUnknownError):
            table.append(pa.table({"id": [2]}))
        assert ids(connect()) == []
        monkeypatch.setattr(
            SqlConnection,
            "commit",
            lambda connection: (commit(connection), cut(connection), connection.execute("SELECT 1")),
        )
        table.append(pa.table({"id": [3]}))
        assert in_transaction() == 0
    assert ids(connect()) == [3]
