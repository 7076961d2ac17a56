"""Streams whose checkpoint is lost, or whose name another query uses: no row is dropped without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.errors import StorageError, StreamNameError
from skerry.iceberg.commit import IcebergTarget
from skerry.paimon.commit import PaimonTarget
from skerry.paimon.metadata.stream_marks import mark_location, stream_user

TARGETS = {"iceberg": IcebergTarget, "paimon": PaimonTarget}


@pytest.fixture(params=list(TARGETS))
def table(request, tmp_path):
    catalog = skerry.connect(tmp_path / "warehouse")
    return catalog.create_table("d.t", pa.schema([("id", pa.int64())]), format=request.param)


def send(table, number, query, *, id=None, **how):
    rows = pa.table({"id": [number if id is None else id]})
    return table.append(rows, stream="/checkpoint", batch=number, query=query, **how).applied


def ids(table):
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_a_new_count_under_an_old_name_is_refused(table):
    assert [send(table, number, "a") for number in (0, 1, 1, 0)] == [True, True, False, False]
    for number in (0, 1):
        with pytest.raises(StreamNameError, match=f"batch {number} of stream '/checkpoint' of query b is refused"):
            send(table, number, "b", id=100)
    assert send(table, 2, "a")
    assert ids(table) == [0, 1, 2]


def test_two_writers_of_one_name_never_silence_each_other(table):
    assert send(table, 0, "a")
    with pytest.raises(StreamNameError):
        send(table, 0, "b", id=100)
    assert send(table, 1, "b", id=101)
    with pytest.raises(StreamNameError):
        send(table, 1, "a")
    assert not send(table, 1, "b", id=101)
    assert ids(table) == [0, 101]


def test_a_name_can_be_taken_over(table):
    for number in range(3):
        send(table, number, "a")
    assert send(table, 0, "b", id=100, take_over=True)
    assert not send(table, 0, "b", id=100, take_over=True)
    assert send(table, 1, "b", id=101)
    assert send(table, 2, "b", id=102)
    assert not send(table, 2, "b", id=102)
    with pytest.raises(StreamNameError, match="has batch 2 of query b"):
        send(table, 2, "a")
    assert send(table, 0, None, id=200, take_over=True)
    assert not send(table, 0, None, id=200, take_over=True)
    assert ids(table) == [0, 1, 2, 100, 101, 102, 200]


def test_a_stream_from_before_queries_were_noted_goes_on(table):
    assert send(table, 0, None)
    assert send(table, 1, None)
    assert not send(table, 1, "a", id=100)  # a restart sends the last batch again
    assert send(table, 2, "a")
    with pytest.raises(StreamNameError):
        send(table, 2, "b", id=100)
    assert ids(table) == [0, 1, 2]


def test_of_two_queries_at_once_one_has_the_name(table, monkeypatch):
    """In Iceberg tables the one that commits first, in Paimon tables the one that leaves its mark first."""
    target = TARGETS[table.format]
    stage = target.stage
    other = table.catalog.load_table("d.t")
    done = {}

    def attempt(handle, query, id):
        try:
            done[query] = send(handle, 0, query, id=id)
        except StreamNameError:
            done[query] = StreamNameError

    def stage_late(self, base, change, files):
        monkeypatch.setattr(target, "stage", stage)
        attempt(other, "b", 101)
        return stage(self, base, change, files)

    monkeypatch.setattr(target, "stage", stage_late)
    attempt(table, "a", 100)
    winner, loser = ("b", "a") if table.format == "iceberg" else ("a", "b")
    assert done == {winner: True, loser: StreamNameError}
    assert ids(table) == [{"a": 100, "b": 101}[winner]]
    assert not send(table, 0, winner)
    assert send(table, 1, winner)


def test_a_batch_that_fails_leaves_the_name_to_its_query(table, monkeypatch):
    assert send(table, 0, "a")

    def broken(self, base, change, files):
        raise StorageError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(TARGETS[table.format], "stage", broken)
        for number, how in (0, {"take_over": True}), (1, {}):
            with pytest.raises(StorageError):
                send(table, number, "b", id=100, **how)
    assert not send(table, 0, "a")
    assert send(table, 1, "a")
    assert ids(table) == [0, 1]


@pytest.mark.parametrize("table", ["paimon"], indirect=True)
def test_a_paimon_mark_from_before_that_was_not_finished(table):
    """A driver without ids of queries died right after its commit; its successor has one."""
    assert send(table, 0, None)
    mark = Path(mark_location(table.handle.state, "/checkpoint").removeprefix("file:"))
    said = json.loads(mark.read_text())
    assert said == {"stream": "/checkpoint", "batch": 0, "after": 0, "isPublished": True}
    mark.write_text(json.dumps(said | {"isPublished": False}))
    assert not send(table, 0, "a", id=100)
    mark.write_text(json.dumps(said | {"batch": 1, "after": 1, "isPublished": False}))
    assert send(table, 1, "a")
    assert json.loads(mark.read_text())["query"] == "a"
    users = [snapshot.commit_user for snapshot in table.handle.snapshots()]
    assert users == [stream_user("/checkpoint")] * 2
    assert not send(table, 1, "a")
    assert send(table, 2, "a")
    assert table.handle.snapshots()[-1].commit_user == stream_user("/checkpoint", "a")
    assert ids(table) == [0, 1, 2]
