"""Changes of several tables of a REST catalog: what is sent, and what each answer says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from scripted_server import Reply, failure
from table_server import ENDPOINTS, TRANSACTION, Tables, table_server

import skerry
from skerry.errors import AccessDeniedError, CommitUnknownError, ConflictError, SkerryError, UnsupportedError
from skerry.http import retries

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(retries, "_FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(retries, "_LONGEST_PAUSE_S", 0.0)


@pytest.fixture
def tables(tmp_path):
    return Tables(
        tmp_path / "w", ("a", "b"), SCHEMA, {"commit.retry.min-wait-ms": "1", "commit.retry.num-retries": "2"}
    )


def rows(*ids):
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def connect(server):
    return skerry.connect(f"rest+{server.uri}")


def append_to_both(catalog, number=1):
    with catalog.transaction() as tx:
        tx.load_table("n.a").append(rows(number))
        tx.load_table("n.b").append(rows(number, number + 1))


def ids(catalog, name):
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


def files_below(folder):
    return {str(path) for path in Path(folder).rglob("*") if path.is_file() and path.name != "catalog.db"}


def sent(server):
    return [request.json for request in server.seen("POST", "/transactions/commit")]


def test_one_request_changes_all_tables(tables):
    with table_server(tables) as server:
        catalog = connect(server)
        append_to_both(catalog)
        assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1], [1, 2])
        for name, count in (("n.a", 1), ("n.b", 2)):
            statistics = catalog.load_table(name).statistics()["id"]
            assert (str(statistics.freshness), statistics.ndv) == ("fresh", count)
        (body,) = sent(server)
        assert len(server.seen("POST")) == 1
    assert [change["identifier"] for change in body["table-changes"]] == [
        {"namespace": ["n"], "name": "a"},
        {"namespace": ["n"], "name": "b"},
    ]
    for change in body["table-changes"]:
        assert [entry["type"] for entry in change["requirements"]] == ["assert-table-uuid", "assert-ref-snapshot-id"]
        assert [entry["action"] for entry in change["updates"]] == [
            "add-snapshot",
            "set-snapshot-ref",
            "set-statistics",
        ]


def test_several_changes_of_a_table_require_only_its_first_state(tables):
    with table_server(tables) as server:
        catalog = connect(server)
        with catalog.transaction() as tx:
            table = tx.load_table("n.a")
            table.append(rows(1))
            table.append(rows(2))
            table.set_properties(owner="me")
        (body,) = sent(server)
        assert ids(catalog, "n.a") == [1, 2]
        assert catalog.load_table("n.a").properties["owner"] == "me"
    (change,) = body["table-changes"]
    refs = [entry["snapshot-id"] for entry in change["requirements"] if entry["type"] == "assert-ref-snapshot-id"]
    assert refs == [None]


def test_a_conflict_redoes_the_whole(tables, tmp_path):
    with table_server(tables) as server:
        catalog, rival = connect(server), connect(server)
        with catalog.transaction() as tx:
            tx.load_table("n.a").append(rows(1))
            tx.load_table("n.b").append(rows(1))
            rival.load_table("n.b").append(rows(7))
        assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1], [1, 7])
        assert len(sent(server)) == 2
        for name in ("n.a", "n.b"):
            assert len(catalog.load_table(name).files()) == len(
                list((tmp_path / "w" / "n" / name[-1]).rglob("*.parquet"))
            )


@pytest.mark.parametrize("config", [{}, {"idempotency-key-lifetime": "PT5M"}], ids=["", "key"])
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, SkerryError),
        (401, AccessDeniedError),
        (403, AccessDeniedError),
        (404, SkerryError),
        (409, ConflictError),
        (419, AccessDeniedError),
        *((status, CommitUnknownError) for status in (408, 500, 502, 503, 504)),
    ],
)
def test_what_a_status_says(tables, tmp_path, status, error, config):
    before = files_below(tmp_path)
    tables.fail = lambda *_: failure(status)
    with table_server(tables, **config) as server:
        catalog = connect(server)
        with pytest.raises(error):
            append_to_both(catalog)
        attempts = len(sent(server))
        assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([], [])
    if error is CommitUnknownError:
        assert attempts == (5 if config else 1)
        assert len([path for path in files_below(tmp_path) - before if path.endswith(".parquet")]) == 2
    else:
        assert attempts == (3 if status == 409 else 1)
        assert files_below(tmp_path) == before


@pytest.mark.parametrize("reply", [failure(500), failure(504), Reply(raw=(b"HTTP/1.1 204 No",)), failure(409)])
def test_a_transaction_whose_answer_was_lost_is_read_back(tables, reply):
    def done(changes, apply):
        apply(changes)
        return reply

    tables.fail = done
    with table_server(tables) as server:
        catalog = connect(server)
        append_to_both(catalog)
        assert len(sent(server)) == 1
        assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1], [1, 2])


@pytest.mark.parametrize("status", [500, 409])
def test_a_server_that_breaks_its_promise_is_named(tables, tmp_path, status):
    before = files_below(tmp_path)

    def half(changes, apply):
        apply(changes[:1])
        return failure(status)

    tables.fail = half
    with table_server(tables) as server:
        catalog = connect(server)
        with pytest.raises(CommitUnknownError, match=r"published the changes of n\.a; those of n\.b are not visible"):
            append_to_both(catalog)
        assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([1], [])
    assert len([path for path in files_below(tmp_path) - before if path.endswith(".parquet")]) == 2


def test_a_server_that_was_faster_elsewhere_proves_that_nothing_happened(tables):
    rivals = []

    def lost(*_):
        if not rivals:
            rivals.append(connect(server))
            tables.fail = lambda *_: None
            for name in ("n.a", "n.b"):
                rivals[0].load_table(name).append(rows(7))
                rivals[0].load_table(name).append(rows(8))
        return failure(500)

    with table_server(tables) as server:
        catalog = connect(server)
        for name in ("n.a", "n.b"):
            catalog.load_table(name).append(rows(0))
        tables.fail = lost
        append_to_both(catalog)
        assert (ids(catalog, "n.a"), ids(catalog, "n.b")) == ([0, 1, 7, 8], [0, 1, 2, 7, 8])


def test_a_server_that_does_not_offer_them(tables, tmp_path):
    before = files_below(tmp_path)
    with table_server(tables, endpoints=[name for name in ENDPOINTS if name != TRANSACTION]) as server:
        catalog = connect(server)
        with pytest.raises(UnsupportedError, match="does not offer to change several tables as one"):
            append_to_both(catalog)
    assert files_below(tmp_path) == before


@pytest.mark.service
def test_nessie(rest_catalog, monkeypatch):
    """Nessie 0.99 has the endpoint, but does not list it: the test says so instead."""
    from skerry.iceberg.catalogs.rest_server import RestServer

    refusing = skerry.connect(f"rest+{rest_catalog.uri}", warehouse=rest_catalog.warehouse)
    with pytest.raises(UnsupportedError, match="does not offer to change several tables as one"):
        refusing.transaction().__enter__()
    offers = RestServer.offers
    monkeypatch.setattr(RestServer, "offers", lambda self, endpoint: endpoint == TRANSACTION or offers(self, endpoint))

    def connect():
        return skerry.connect(f"rest+{rest_catalog.uri}", warehouse=rest_catalog.warehouse)

    catalog, rival = connect(), connect()
    for name in ("two.a", "two.b"):
        catalog.create_table(name, SCHEMA).append(rows(0))
    with catalog.transaction() as tx:
        tx.load_table("two.a").append(rows(1))
        tx.load_table("two.a").delete("id = 0")
        tx.load_table("two.b").append(rows(1))
    assert (ids(rival, "two.a"), ids(rival, "two.b")) == ([1], [0, 1])
    with catalog.transaction() as tx:
        tx.load_table("two.a").append(rows(2))
        tx.load_table("two.b").append(rows(2))
        rival.load_table("two.b").append(rows(7))
    assert (ids(rival, "two.a"), ids(rival, "two.b")) == ([1, 2], [0, 1, 2, 7])
    for name, count in (("two.a", 2), ("two.b", 4)):
        statistics = rival.load_table(name).statistics()["id"]
        assert (str(statistics.freshness), statistics.ndv) == ("fresh", count)
    with pytest.raises(ConflictError), catalog.transaction() as tx:  # noqa: PT012  the block is what fails
        tx.load_table("two.a").append(rows(3))
        tx.load_table("two.b").delete("id = 0")
        rival.load_table("two.b").delete("id = 0")
    assert (ids(rival, "two.a"), ids(rival, "two.b")) == ([1, 2], [1, 2, 7])
