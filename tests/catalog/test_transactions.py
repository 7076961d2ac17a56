"""Changes of several tables that become visible together: conflicts, kills, unknown outcomes, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.databases.sql_database import SqlConnection
from skerry.errors import (
    CatalogLockedError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SchemaError,
    SkerryError,
    UnsupportedError,
)
from skerry.iceberg.catalogs.metadata_files import read_metadata

SCHEMA = pa.schema([("id", pa.int64())])
QUICK = {"commit.retry.min-wait-ms": "1"}
NAMES = ("n.a", "n.b", "n.c")


def rows(*ids):
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@pytest.fixture
def catalog(tmp_path):
    catalog = skerry.connect(tmp_path / "w")
    for name in NAMES:
        catalog.create_table(name, SCHEMA, properties=QUICK).append(rows(1, 2))
    return catalog


def ids(catalog, name):
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


def transact(catalog, change):
    with catalog.transaction() as tx:
        change(tx)


def files_below(folder):
    return {str(path) for path in Path(folder).rglob("*") if path.is_file() and path.name != "catalog.db"}


def failing_commits(monkeypatch, *, after=False, times=1, error=None):
    """COMMIT fails, before or after it took effect."""
    import sqlite3

    commit = SqlConnection.commit
    left = [times]

    def fail(connection):
        if not left[0]:
            return commit(connection)
        left[0] -= 1
        if after:
            commit(connection)
        raise error or sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(SqlConnection, "commit", fail)


def test_all_changes_are_published_as_one(catalog, tmp_path):
    other = skerry.connect(tmp_path / "w")
    before = other._iceberg.versions()
    with catalog.transaction() as tx:
        a, b = tx.load_table("n.a"), tx.load_table("n.b")
        assert tx.load_table("n.a") is a
        a.append(rows(3))
        a.append(rows(4))
        a.delete("id = 1")
        b.overwrite(rows(9))
        tx.load_table("n.c")
        assert sorted(a.scan().to_arrow()["id"].to_pylist()) == [2, 3, 4]
        assert b.scan().to_arrow()["id"].to_pylist() == [9]
        assert other._iceberg.versions() == before
    after = other._iceberg.versions()
    assert {name for name in NAMES if before[name] != after[name]} == {"n.a", "n.b"}
    assert (ids(other, "n.a"), ids(other, "n.b"), ids(other, "n.c")) == ([2, 3, 4], [9], [1, 2])
    assert [snapshot.operation for snapshot in other.load_table("n.a").snapshots()] == [
        "append",
        "append",
        "append",
        "overwrite",
    ]
    assert a.metadata_location == after["n.a"]
    assert sorted(a.refresh().scan().to_arrow()["id"].to_pylist()) == [2, 3, 4]
    for name, count in (("n.a", 3), ("n.b", 1), ("n.c", 2)):
        statistics = other.load_table(name).statistics()["id"]
        assert (str(statistics.freshness), statistics.ndv) == ("fresh", count)
    metadata_log = other.load_table("n.a").handle.state.metadata.metadata_log
    assert metadata_log[-1].metadata_file == before["n.a"]


def test_rows_schemas_branches_and_settings_in_one(catalog):
    with catalog.transaction() as tx:
        a, b = tx.load_table("n.a"), tx.load_table("n.b")
        a.update_schema().add_column("x", pa.int32()).commit()
        a.append(pa.table({"id": [3], "x": pa.array([7], pa.int32())}))
        a.create_branch("audit")
        a.append(pa.table({"id": [4], "x": pa.array([8], pa.int32())}), ref="audit")
        b.set_properties(owner="me")
        b.upsert(rows(2, 5), on=["id"])
        b.update_spec().add_field("bucket(4, id)").commit()
    a, b = catalog.load_table("n.a"), catalog.load_table("n.b")
    assert sorted(a.scan().to_arrow()["x"].to_pylist(), key=str) == [7, None, None]
    assert sorted(a.scan(ref="audit").to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    assert b.properties["owner"] == "me"
    assert b.partition_by == ["bucket(4, id)"]
    assert ids(catalog, "n.b") == [1, 2, 5]


def test_nothing_to_do(catalog, tmp_path):
    before = catalog._iceberg.versions()
    found = files_below(tmp_path)
    with catalog.transaction():
        pass
    with catalog.transaction() as tx:
        tx.load_table("n.a").delete("id = 77")
    assert catalog._iceberg.versions() == before
    assert files_below(tmp_path) == found


def test_an_exception_publishes_nothing_and_leaves_no_file(catalog, tmp_path):
    before, versions = files_below(tmp_path), catalog._iceberg.versions()

    def change(tx):
        tx.load_table("n.a").append(rows(3))
        tx.load_table("n.b").delete("id = 1")
        assert files_below(tmp_path) > before
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transact(catalog, change)
    assert files_below(tmp_path) == before
    assert catalog._iceberg.versions() == versions


def test_a_change_that_fails_can_be_left_out(catalog, tmp_path, monkeypatch):
    from skerry.iceberg import commit

    encode = commit.encode_manifest_list
    with catalog.transaction() as tx:
        table = tx.load_table("n.a")
        table.append(rows(3))
        before = files_below(tmp_path)

        def fail(*_arguments, **_options):
            raise OSError("disk full")

        monkeypatch.setattr(commit, "encode_manifest_list", fail)
        with pytest.raises(OSError, match="disk full"):
            table.append(rows(4))
        monkeypatch.setattr(commit, "encode_manifest_list", encode)
        assert files_below(tmp_path) == before
        tx.load_table("n.b").append(rows(5))
    assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1, 2, 3], [1, 2, 5])


def test_files_of_others_are_not_deleted_with_a_transaction(catalog, tmp_path):
    import pyarrow.parquet as pq

    folder = tmp_path / "w" / "n" / "a" / "data"
    given = Path(catalog.load_table("n.a").location.removeprefix("file://")) / "data" / "given.parquet"
    given.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows(8), given)

    def change(tx):
        tx.load_table("n.a").add_files([f"file://{given}"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transact(catalog, change)
    assert given.exists(), folder
    with catalog.transaction() as tx:
        tx.load_table("n.a").add_files([f"file://{given}"])
        tx.load_table("n.b").append(rows(3))
    assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1, 2, 8], [1, 2, 3])


def test_a_conflict_redoes_the_whole(catalog, tmp_path):
    rival = skerry.connect(tmp_path / "w")
    before = files_below(tmp_path)
    with catalog.transaction() as tx:
        tx.load_table("n.a").append(rows(3))
        tx.load_table("n.b").append(rows(4))
        tx.load_table("n.b").append(rows(5))
        tx.load_table("n.c").delete("id = 1")
        staged = {path for path in files_below(tmp_path) - before if "metadata" in path}
        rival.load_table("n.b").append(rows(100))
    assert ids(catalog, "n.a") == [1, 2, 3]
    assert ids(catalog, "n.b") == [1, 2, 4, 5, 100]
    assert ids(catalog, "n.c") == [2]
    assert not staged & files_below(tmp_path), "what the first attempt staged is gone"
    assert catalog.load_table("n.b").statistics()["id"].ndv == 5
    for name in NAMES:
        table = catalog.load_table(name)
        assert table.remove_orphans(older_than_days=0, dry_run=True).files == ()


def test_a_conflict_of_rows_publishes_nothing(catalog, tmp_path):
    rival = skerry.connect(tmp_path / "w")

    def change(tx):
        tx.load_table("n.a").append(rows(3))
        tx.load_table("n.b").delete("id = 1")
        rival.load_table("n.b").delete("id = 1")

    with pytest.raises(ConflictError) as caught:
        transact(catalog, change)
    assert not caught.value.retryable
    assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1, 2], [2])
    for name in NAMES:
        assert catalog.load_table(name).remove_orphans(older_than_days=0, dry_run=True).files == ()


def test_rows_that_were_read_after_a_change_of_the_transaction_itself_cannot_be_moved(catalog, tmp_path):
    rival = skerry.connect(tmp_path / "w")

    def change(tx):
        tx.load_table("n.a").append(rows(3))
        tx.load_table("n.a").delete("id = 3")
        tx.load_table("n.b").append(rows(3))
        rival.load_table("n.a").append(rows(100))

    with pytest.raises(ConflictError):
        transact(catalog, change)
    assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1, 2, 100], [1, 2])


def test_ids_of_columns_that_another_writer_has_taken(catalog, tmp_path):
    rival = skerry.connect(tmp_path / "w")

    def change(tx):
        table = tx.load_table("n.a")
        table.update_schema().add_column("x", pa.int32()).commit()
        table.append(pa.table({"id": [3], "x": pa.array([7], pa.int32())}))
        rival.load_table("n.a").update_schema().add_column("y", pa.int32()).commit()

    with pytest.raises(ConflictError, match="another writer changed columns"):
        transact(catalog, change)
    assert catalog.load_table("n.a").schema.names == ["id", "y"]
    assert ids(catalog, "n.a") == [1, 2]


def test_conflicts_are_not_repeated_for_ever(catalog, tmp_path, monkeypatch):
    rival = skerry.connect(tmp_path / "w")
    catalog.load_table("n.b").set_properties({"commit.retry.num-retries": "2"})
    lost = []
    replace = type(catalog._iceberg.catalog._tables).replace_locations

    def beaten(self, changes, sending):
        if len(changes) > 1:
            lost.append(len(changes))
            rival.load_table("n.a").append(rows(100))
        replace(self, changes, sending)

    monkeypatch.setattr(type(catalog._iceberg.catalog._tables), "replace_locations", beaten)

    def change(tx):
        tx.load_table("n.a").append(rows(3))
        tx.load_table("n.b").append(rows(3))

    with pytest.raises(ConflictError, match=r"gave up after 3 attempts"):
        transact(catalog, change)
    assert lost == [2, 2, 2]
    assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1, 2, 100, 100, 100], [1, 2])
    for name in NAMES:
        assert catalog.load_table(name).remove_orphans(older_than_days=0, dry_run=True).files == ()


def test_a_table_that_was_dropped_meanwhile(catalog, tmp_path):

    def change(tx):
        tx.load_table("n.a").append(rows(3))
        tx.load_table("n.b").append(rows(3))
        skerry.connect(tmp_path / "w").drop_table("n.b")

    with pytest.raises(NotFoundError):
        transact(catalog, change)
    assert ids(catalog, "n.a") == [1, 2]


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_whose_outcome_is_unknown_is_read_back(catalog, tmp_path, monkeypatch, after):
    before = files_below(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        failing_commits(patch, after=after)
        if after:
            with catalog.transaction() as tx:
                tx.load_table("n.a").append(rows(3))
                tx.load_table("n.b").append(rows(3))
        else:
            staged = set()

            def change(tx):
                tx.load_table("n.a").append(rows(3))
                tx.load_table("n.b").append(rows(3))
                staged.update(files_below(tmp_path) - before)

            with pytest.raises(CommitUnknownError):
                transact(catalog, change)
    if after:
        assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1, 2, 3], [1, 2, 3])
    else:
        assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1, 2], [1, 2])
        assert staged <= files_below(tmp_path), "nothing is deleted"
        assert len([path for path in files_below(tmp_path) - before if path.endswith(".metadata.json")]) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit()])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_at_commit_keeps_all_files(catalog, tmp_path, monkeypatch, error, after):
    with pytest.MonkeyPatch.context() as patch:
        failing_commits(patch, after=after, error=error)
        staged = set()

        def change(tx):
            tx.load_table("n.a").append(rows(3))
            tx.load_table("n.b").append(rows(3))
            staged.update(files_below(tmp_path))

        with pytest.raises(type(error)):
            transact(catalog, change)
    assert staged <= files_below(tmp_path)
    wanted = [1, 2, 3] if after else [1, 2]
    assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == (wanted, wanted)


def test_a_locked_catalog_changes_nothing(tmp_path):
    import sqlite3

    catalog = skerry.connect(f"sqlite:///{tmp_path}/c.db?timeout=0.05", warehouse=f"file://{tmp_path}/w")
    for name in ("n.a", "n.b"):
        catalog.create_table(name, SCHEMA, properties={"commit.retry.num-retries": "1", **QUICK}).append(rows(1))
    before = files_below(tmp_path)
    other = sqlite3.connect(tmp_path / "c.db", isolation_level=None)

    def change(tx):
        tx.load_table("n.a").append(rows(3))
        tx.load_table("n.b").append(rows(3))
        other.execute("BEGIN")
        other.execute("SELECT * FROM iceberg_tables").fetchone()

    with pytest.raises(CatalogLockedError, match=r"gave up after 2 attempts"):
        transact(catalog, change)
    other.close()
    assert files_below(tmp_path) == before
    assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1], [1])


def test_readers_see_all_or_nothing_while_writers_race(tmp_path):
    def connect():
        return skerry.connect(tmp_path / "w")

    catalog = connect()
    for name in ("n.a", "n.b"):
        catalog.create_table(name, SCHEMA, properties={"commit.retry.num-retries": "50", **QUICK}).append(rows(0))
    done = threading.Event()

    def write(first):
        mine = connect()
        for number in range(first, first + 5):
            with mine.transaction() as tx:
                for name in ("n.a", "n.b"):
                    tx.load_table(name).append(rows(number))

    def read():
        mine = connect()
        storage = mine.load_table("n.a").storage
        seen = set()
        while not done.is_set():
            found = mine._iceberg.versions()  # one query
            counts = []
            for name in ("n.a", "n.b"):
                metadata = read_metadata(storage, found[name])
                counts.append(metadata.current_snapshot().summary["total-records"])
            assert len(set(counts)) == 1, counts
            seen.add(counts[0])
        return seen

    with ThreadPoolExecutor(3) as pool:
        reader = pool.submit(read)
        writers = [pool.submit(write, first) for first in (100, 200)]
        for writer in writers:
            writer.result()
        done.set()
        assert reader.result() <= {str(count) for count in range(1, 12)}
    wanted = [0, *range(100, 105), *range(200, 205)]
    assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == (wanted, wanted)


KILLED = """
import os, sys
import pyarrow as pa
import skerry
from skerry.databases.sql_database import SqlConnection

warehouse, place, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
catalog = skerry.connect(warehouse)
commit, change, seen = SqlConnection.commit, SqlConnection.change, []

def dying_commit(connection):
    if place == "before commit":
        os._exit(9)
    commit(connection)
    os._exit(9)

def dying_change(connection, statement, parameters=()):
    found = change(connection, statement, parameters)
    if statement.startswith("UPDATE") and place == "between tables":
        os._exit(9)
    return found

with catalog.transaction() as tx:
    for name in ("n.a", "n.b", "n.c"):
        tx.load_table(name).append(pa.table({"id": [number]}))
    SqlConnection.commit, SqlConnection.change = dying_commit, dying_change
"""


@pytest.mark.parametrize("place", ["between tables", "before commit", "after commit"])
def test_a_process_that_is_killed_leaves_all_or_nothing(catalog, tmp_path, place):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "w"), place, "7"]
    ended = subprocess.run(command, env=environment, check=False, capture_output=True)
    assert ended.returncode == 9, ended.stderr
    wanted = [1, 2, 7] if place == "after commit" else [1, 2]
    assert [ids(catalog, name) for name in NAMES] == [wanted] * 3
    with catalog.transaction() as tx:
        for name in NAMES:
            tx.load_table(name).append(rows(8))
    assert [ids(catalog, name) for name in NAMES] == [[*wanted, 8]] * 3


@pytest.mark.service
def test_postgresql(postgres_url, tmp_path):
    catalog = skerry.connect(postgres_url, warehouse=f"file://{tmp_path}")
    rival = skerry.connect(postgres_url, warehouse=f"file://{tmp_path}")
    for name in ("n.a", "n.b"):
        catalog.create_table(name, SCHEMA, properties=QUICK).append(rows(1))
    with catalog.transaction() as tx:
        tx.load_table("n.b").append(rows(3))
        tx.load_table("n.a").append(rows(3))
        rival.load_table("n.b").append(rows(100))
    assert (ids(rival, "n.a"), ids(rival, "n.b")) == ([1, 3], [1, 3, 100])
    with pytest.MonkeyPatch.context() as patch:

        def cut(connection):
            connection.raw.close()
            connection.execute("COMMIT")

        patch.setattr(SqlConnection, "commit", cut)

        def change(tx):
            tx.load_table("n.a").append(rows(4))
            tx.load_table("n.b").append(rows(4))

        with pytest.raises(CommitUnknownError):
            transact(catalog, change)
    assert (ids(rival, "n.a"), ids(rival, "n.b")) == ([1, 3], [1, 3, 100])


def test_upkeep_and_streams_are_refused(catalog):
    refused = [
        lambda table: table.compact(),
        lambda table: table.analyze(),
        lambda table: table.rewrite_manifests(),
        lambda table: table.rewrite_deletes(),
        lambda table: table.expire_snapshots(keep_last=1),
        lambda table: table.remove_orphans(older_than_days=0),
        lambda table: table.connector(),
        lambda table: table.cherry_pick(1),
        lambda table: table.publish("w"),
        lambda table: table.append(rows(1), stream="s", batch=1),
    ]
    before = catalog._iceberg.versions()
    with catalog.transaction() as tx:
        for act in refused:
            with pytest.raises(UnsupportedError, match="cannot be part of a transaction over several tables"):
                act(tx.load_table("n.a"))
        with pytest.raises(SchemaError):
            tx.load_table("n.a").append(pa.table({"other": [1]}))
    assert catalog._iceberg.versions() == before


def test_a_transaction_that_has_ended(catalog):
    with catalog.transaction() as tx:
        table = tx.load_table("n.a")
        table.append(rows(3))
    for act in (lambda: tx.load_table("n.a"), lambda: table.append(rows(4))):
        with pytest.raises(SkerryError, match="the transaction has ended"):
            act()
    assert ids(catalog, "n.a") == [1, 2, 3]


def test_a_transaction_that_failed_leaves_nothing_in_its_tables(catalog):
    with suppress(KeyError), catalog.transaction() as tx:
        table = tx.load_table("n.a")
        table.append(rows(3))
        raise KeyError
    assert table.refresh().scan().to_arrow()["id"].to_pylist() == [1, 2]


def test_what_cannot_be_in_one(catalog, tmp_path):
    catalog.create_table("n.p", SCHEMA, format="paimon")

    def change(tx):
        tx.load_table("n.a").append(rows(3))
        tx.load_table("n.p").append(rows(3))

    with pytest.raises(UnsupportedError, match=r"'n\.p' is a Paimon table: a tr"):
        transact(catalog, change)
    assert ids(catalog, "n.a") == [1, 2]
    paimon = skerry.connect("memory://bucket/w")
    with pytest.raises(UnsupportedError, match="a folder of Paimon tables cannot publish"), paimon.transaction():
        pass
    with pytest.raises(NotFoundError, match=r"no table 'n\.x'"), catalog.transaction() as tx:
        tx.load_table("n.x")


def test_a_catalog_that_changes_one_table_at_a_time(tmp_path):
    options = {"py-catalog-impl": "pyiceberg.catalog.sql.SqlCatalog", "uri": f"sqlite:///{tmp_path}/c.db"}
    from skerry.catalog.catalog import Catalog
    from skerry.catalog.iceberg_tables import IcebergTables
    from skerry.iceberg.catalogs.opening import open_catalog

    theirs = open_catalog("theirs", {**options, "warehouse": f"file://{tmp_path}"})
    catalog = Catalog("theirs", {}, IcebergTables(theirs), None)
    with pytest.raises(UnsupportedError, match="'theirs' changes one table at a time"), catalog.transaction():
        pass
