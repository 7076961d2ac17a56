"""Paimon's REST catalog: on a server of the tests' own, in turns with Paimon Java and pypaimon."""

from __future__ import annotations

import datetime
import pickle
import time

import pyarrow as pa
import pytest
from paimon_rest_server import TOKEN, PaimonRestServer, RefusedError

import skerry
from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    SchemaError,
    StorageError,
    UnsupportedError,
)
from skerry.http import retries

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
KEYED = {"primary_key": ["id"], "partition_by": ["bucket(2, id)"], "format": "paimon"}


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch):
    for name in ("_FIRST_PAUSE_S", "_LONGEST_PAUSE_S"):
        monkeypatch.setattr(retries, name, 0.0)


@pytest.fixture
def server(tmp_path):
    server = PaimonRestServer(tmp_path / "server")
    yield server
    server.close()


@pytest.fixture
def catalog(server):
    return connect(server)


def connect(server, **options):
    return skerry.connect(f"paimon+{server.uri}", warehouse="w h", **{"token": TOKEN, **options})


def rows(*ids, name="a"):
    return pa.table({"id": ids, "name": [name] * len(ids)}, SCHEMA)


def read(table):
    return sorted(list(row.values()) for row in table.scan().to_arrow().to_pylist())


def test_tables_are_kept_by_the_server(server, catalog):
    for name in ("a", "b", "ns"):
        catalog.create_namespace(name)
    table = catalog.create_table("ns.t", SCHEMA, **KEYED)
    table.append(rows(1, 2))
    table.delete("id = 2")
    table.upsert(rows(3))
    assert read(connect(server).load_table("ns.t")) == [[1, "a"], [3, "a"]]
    assert catalog.list_namespaces() == ["a", "b", "ns"]
    for name in ("u", "v"):
        catalog.create_table(f"ns.{name} &/ x".replace("/", ""), SCHEMA, **KEYED)
    assert catalog.list_tables("ns") == ["ns.t", "ns.u & x", "ns.v & x"]
    assert not catalog.table_exists("ns.w")
    renamed = catalog.rename_table("ns.t", "b.t")
    renamed.append(rows(4))
    assert [row[0] for row in read(catalog.load_table("b.t"))] == [1, 3, 4]
    assert renamed.statistics()["id"].ndv == 4  # an upper bound: 2 was deleted
    for work, error in (
        (lambda: catalog.create_namespace("a"), AlreadyExistsError),
        (lambda: catalog.create_table("b.t", SCHEMA, **KEYED), AlreadyExistsError),
        (lambda: catalog.rename_table("ns.u & x", "b.t"), AlreadyExistsError),
        (lambda: catalog.rename_table("ns.u & x", "none.t"), NotFoundError),
        (lambda: catalog.drop_table("b.t"), SchemaError),
        (lambda: catalog.load_table("ns.none"), NotFoundError),
        (lambda: catalog.create_table("a.b.c", SCHEMA, **KEYED), UnsupportedError),
        (lambda: catalog.create_table("ns.i", SCHEMA), UnsupportedError),
        (lambda: catalog.location_of("ns.x", format="paimon"), UnsupportedError),
    ):
        with pytest.raises(error):
            work()
    with pytest.raises(SchemaError, match="namespace 'b' is not empty"):
        catalog.drop_namespace("b")
    catalog.drop_table("b.t", purge=True)
    assert catalog.list_tables("b") == []
    catalog.drop_namespace("b")
    assert catalog.list_namespaces() == ["a", "ns"]


def test_schemas_change_by_steps(catalog):
    table = catalog.create_table("ns.t", SCHEMA, **KEYED)
    table.append(rows(1))
    with table.update_schema() as update:
        update.add_column("n", pa.int32(), doc="a number").rename_column("name", "label").move_first("n")
        update.update_column("label", doc="their name")
    with table.update_schema() as update:
        update.update_column("n", pa.int64()).add_column("more", pa.list_(pa.string())).move_after("n", "id")
    table.set_properties({"snapshot.num-retained.max": "20"})
    table.remove_properties("snapshot.num-retained.max")
    with table.update_schema() as update:
        update.delete_column("more")
    again = catalog.load_table("ns.t")
    assert again.schema.names == ["id", "n", "label"] == table.schema.names
    assert again.schema.field("n").type == pa.int64()
    again.append(pa.table({"id": [2], "n": [7], "label": ["b"]}, again.schema))
    assert sorted(again.scan().to_arrow().to_pylist(), key=str) == [
        {"id": 1, "n": None, "label": "a"},
        {"id": 2, "n": 7, "label": "b"},
    ]


@pytest.mark.parametrize("peer", ["java_paimon", "pypaimon"])
def test_peers_share_the_server(request, server, catalog, peer):
    other = request.getfixturevalue(peer)
    options = {"metastore": "rest", "uri": server.uri, "warehouse": "w h", "token.provider": "bear", "token": TOKEN}
    other.catalog(options, ["create database", "ns"], ["create", "ns", "theirs"])
    other.catalog(options, ["write", "ns", "theirs", [["+I", [1, "peer"]]]])
    theirs = catalog.load_table("ns.theirs")
    theirs.append(rows(2, name="skerry"))
    ours = catalog.create_table("ns.ours", SCHEMA, **KEYED)
    ours.append(rows(1, 2, name="skerry"))
    ours.set_properties({"snapshot.num-retained.max": "20"})
    other.catalog(options, ["write", "ns", "ours", [["+I", [2, "peer"]]]])
    tables, found, again = other.catalog(options, ["tables", "ns"], ["read", "ns", "ours"], ["read", "ns", "theirs"])
    assert sorted(tables) == ["ours", "theirs"]
    assert sorted(found) == read(ours.refresh()) == [[1, "skerry"], [2, "peer"]]
    assert sorted(again) == read(theirs) == [[1, "peer"], [2, "skerry"]]
    other.catalog(
        options, ["set", "ns", "ours", "snapshot.num-retained.max", "30"], ["rename", "ns", "ours", "ns", "x"]
    )
    assert catalog.load_table("ns.x").properties["snapshot.num-retained.max"] == "30"
    other.catalog(options, ["drop", "ns", "theirs"])
    assert catalog.list_tables() == ["ns.x"]


def test_tags_and_branches_are_the_servers(server, catalog):
    table = catalog.create_table("ns.t", SCHEMA, **KEYED)
    table.append(rows(1))
    table.create_tag("one", max_ref_age=datetime.timedelta(hours=1))
    table.create_branch("side")
    table.append(rows(2), ref="side")
    table.create_branch("other")
    assert set(table.refs()) == {"main", "one", "side", "other", "branch-side", "branch-other"}
    assert sorted(table.scan(ref="side").to_arrow()["id"].to_pylist()) == [1, 2]
    assert read(table.refresh()) == [[1, "a"]]
    assert table.fast_forward("main", "side").snapshot_id == 2
    assert read(catalog.load_table("ns.t")) == [[1, "a"], [2, "a"]]
    with pytest.raises(UnsupportedError, match="only branch 'main'"):
        table.fast_forward("other", "side")
    with pytest.raises(AlreadyExistsError):
        table.create_tag("one")
    table.rollback(1)
    assert read(catalog.load_table("ns.t")) == [[1, "a"]]
    for name in ("one", "side", "other"):
        table.drop_ref(name)
    assert list(table.refs()) == ["main"]
    asked = {request.partition("/tables/")[2] for request in server.requests}
    assert {"t/tags", "t/branches", "t/branches/side/forward", "t/rollback", "t/tags/one"} <= asked


def test_two_writers_share_snapshots(server, catalog):
    table = catalog.create_table("ns.t", SCHEMA, **KEYED)
    other = connect(server).load_table("ns.t")
    for number in range(3):
        table.append(rows(number))
        other.append(rows(10 + number))
    assert [row[0] for row in read(table.refresh())] == [0, 1, 2, 10, 11, 12]
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == [1, 2, 3, 4, 5, 6]


def test_outcomes_of_commits(server, catalog):
    """What is certain not to have happened is cleaned up; what may have happened is looked up, or kept."""
    table = catalog.create_table("ns.t", SCHEMA, properties={"commit.max-retries": "0"}, **KEYED)
    table.append(rows(1))

    def files():
        return sorted(file.location for file in table.storage.list(table.location))

    def fails(status, *, after=False):
        def refuse(method, path):
            if path.endswith("/commit"):
                raise RefusedError(status, f"not with {TOKEN}")

        server.interfere, server.after = (lambda *_: None, refuse) if after else (refuse, lambda *_: None)

    before = files()
    for status in (400, 403, 404):
        fails(status)
        with pytest.raises(AccessDeniedError) as caught:
            table.append(rows(2))
        assert TOKEN not in str(caught.value)
        assert files() == before
    fails(409)
    with pytest.raises(ConflictError):
        table.append(rows(2))
    assert files() == before
    fails(500, after=True)
    table.append(rows(3))  # found by looking it up
    assert [row[0] for row in read(table.refresh())] == [1, 3]
    before = files()
    fails(500)
    with pytest.raises(CommitUnknownError):
        table.append(rows(4))
    assert len(files()) > len(before)
    fails(503)
    with pytest.raises(CommitUnknownError):
        table.append(rows(5))
    server.interfere = lambda *_: None
    table.append(rows(6))
    assert [row[0] for row in read(connect(server).load_table("ns.t"))] == [1, 3, 6]


def test_a_copy_commits_through_the_server(server, catalog):
    handle = pickle.loads(pickle.dumps(catalog.create_table("ns.t", SCHEMA, **KEYED).handle))
    assert handle.state.authority.server.properties["prefix"] == "a b"
    assert TOKEN not in repr(handle.state)


def test_tasks_that_read_do_not_get_the_token(catalog):
    table = catalog.create_table("ns.t", SCHEMA, **KEYED)
    table.append(rows(1))
    scan = table.scan()
    task = pickle.dumps(scan.row_reader())
    assert TOKEN.encode() not in task
    assert [batch.num_rows for batch in pickle.loads(task).batches(scan.plan())] == [1]


def test_data_tokens_open_files_and_are_renewed(server, monkeypatch):
    server.data_token = {"s3.access-key": "key", "s3.secret-key": "hidden-secret", "s3.region": "r"}
    catalog = connect(server)
    table = catalog.create_table("ns.t", SCHEMA, **KEYED)
    assert table.storage.options["s3.access-key-id"] == "key"
    assert table.storage.renewed is not None
    assert "hidden-secret" not in repr(table.storage)
    time.sleep(0.6)  # the first lives for a second, and is renewed in the middle
    options, renew_at = table.storage.renewed.current()
    assert server.tokens == 2
    assert renew_at > time.time() + 1000
    assert options["s3.secret-access-key"] == "hidden-secret"
    server.data_token = {"fs.oss.accessKeyId": "k"}
    with pytest.raises(UnsupportedError, match=r"fs\.oss\.accessKeyId"):
        catalog.load_table("ns.t")


def test_wrong_logins_and_answers_are_named(server, catalog, monkeypatch):
    for options, error, message in (
        ({"token": "another-token"}, AccessDeniedError, "401"),
        ({"token.provider": "dlf"}, UnsupportedError, "dlf"),
        ({"token.provider": "bear", "token": ""}, SchemaError, "token"),
        ({"token": "a\nb"}, SchemaError, "token"),
        ({"header.x": "a\nb"}, SchemaError, r"header\.x"),
    ):
        with pytest.raises(error, match=message) as caught:
            connect(server, **options)
        assert "another-token" not in str(caught.value)
    with pytest.raises(SchemaError, match="warehouse"):
        skerry.connect(f"paimon+{server.uri}", token=TOKEN)
    with pytest.raises(StorageError, match="cannot be reached"):
        skerry.connect("paimon+http://127.0.0.1:9", token=TOKEN, warehouse="w")
    catalog.create_namespace("ns")
    for broken, path in (([1], "databases"), ({"databases": [1]}, "databases"), ({"tables": "t"}, "tables")):
        monkeypatch.setattr(
            PaimonRestServer,
            "answer",
            lambda self, method, at, query, body, b=broken, p=path: b if at.endswith(p) else {"databases": ["ns"]},
        )
        with pytest.raises(FormatError, match="protocol"):
            catalog.list_tables()


@pytest.mark.parametrize("kind", ["format-table", "object-table", "iceberg-table"])
def test_other_kinds_of_tables_are_refused_by_name(server, catalog, kind):
    catalog.create_namespace("ns")
    server._create("ns", "o", {"fields": [], "options": {"type": kind}})
    with pytest.raises(UnsupportedError, match=kind):
        catalog.load_table("ns.o")


@pytest.mark.parametrize(("file_format", "way"), [("parquet", r"catalog\.migrate"), ("csv", r"skerry\.spark\.ingest")])
def test_a_format_table_is_refused_with_its_folder_and_a_way(server, catalog, file_format, way):
    catalog.create_namespace("ns")
    server._create("ns", "o", {"fields": [], "options": {"type": "format-table", "file.format": file_format}})
    with pytest.raises(UnsupportedError, match=rf"a folder of {file_format} files without snapshots, /.*/o.*; .*{way}"):
        catalog.load_table("ns.o")
