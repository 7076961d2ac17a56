"""Paimon tables as streams: every row and change once, through limits, restarts, compaction, expiry and rollback."""

from __future__ import annotations

import json
import pickle
import random
from datetime import timedelta

import pyarrow as pa
import pytest

from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.paimon.evolution.schema_evolution import ChangeSchema, commit_schema
from skerry.paimon.jobs.streaming import ChangelogTask, ComparedTask, PaimonOffset, PaimonStream
from skerry.paimon.metadata.consumers import read_consumers
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.connector.stream_choice import Limits, StreamChoice
from skerry.table.connector.stream_tasks import RowsTask

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
KEYED = {"primary_key": ["k"], "properties": {"bucket": "2"}}
LOOKUP = {"primary_key": ["k"], "properties": {"bucket": "2", "changelog-producer": "lookup"}}
LATER = {"primary_key": ["k"], "properties": {**LOOKUP["properties"], "write-only": "true"}}
FULL = {"primary_key": ["k"], "properties": {"bucket": "2", "changelog-producer": "full-compaction"}}
HOW = ["append", "records", "changelog files", "lookup", "lookup later", "full compaction"]
INPUT = {"primary_key": ["k"], "properties": {"bucket": "2", "changelog-producer": "input"}}


def rows(*keys, v="a"):
    return pa.table({"k": list(keys), "v": [v] * len(keys)}, SCHEMA)


def make(path, **how):
    return PaimonTable.create(Storage(), str(path / "t"), SCHEMA, **how)


def source(table, **how):
    """A stream as a process sees it that has just begun."""
    return PaimonStream(PaimonTable.open(Storage(), table.location).handle, StreamChoice(**how))


def elsewhere(offset):
    return PaimonOffset.decode(json.loads(json.dumps(offset.encode())))


def read(stream, start, end):
    tasks = pickle.loads(pickle.dumps(stream.plan(elsewhere(start), elsewhere(end))))
    batches = [batch for task in tasks for batch in task.batches()]
    assert all(batch.schema.equals(stream.schema) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def drained(stream, at=None):
    """The rows of each batch until nothing is new, and where the stream is then."""
    at = stream.initial() if at is None else at
    found = []
    while (end := stream.latest(at)) != at:
        found.append(read(stream, at, end))
        at = end
    return found, at


def keys(batches):
    return [sorted(row["k"] for row in batch) for batch in batches]


def told(batches):
    return [sorted((row["_change_type"], row["k"], row["v"]) for row in batch) for batch in batches]


@pytest.fixture
def table(tmp_path):
    made = make(tmp_path)
    for k in range(3):
        made.append(rows(k))
    return made


def test_what_is_there_first_then_what_comes(table):
    stream = source(table)
    found, at = drained(stream)
    assert keys(found) == [[0, 1, 2]]
    assert stream.plan(at, at) == []
    table.append(rows(3))
    table.compact(full=True)
    table.append(rows(4, 5))
    found, at = drained(source(table), at)
    assert keys(found) == [[3, 4, 5]]
    table.compact(full=True)
    assert [batch for batch in drained(source(table), at)[0] if batch] == [], "compaction tells nothing"


@pytest.mark.parametrize("limits", [Limits(files=1), Limits(snapshots=1), Limits(2, 2)])
def test_limits_and_restarts(table, limits):
    found, at = drained(source(table, limits=limits))
    for k in range(3, 8):
        table.append(rows(k))
        if k == 5:
            table.compact(full=True)
    more, _ = drained(source(table, limits=limits), elsewhere(at))
    assert sorted(k for batch in keys([*found, *more]) for k in batch) == list(range(8))
    if limits.files is not None:
        assert all(len(batch) <= limits.files for batch in keys([*found, *more]))
    if limits.snapshots == 1:
        assert len(more) >= 5


def test_what_was_there_at_first_is_read_in_parts_whatever_happens_meanwhile(table):
    stream = source(table, limits=Limits(files=1))
    at = stream.latest(stream.initial())
    first = keys([read(stream, stream.initial(), at)])
    table.append(rows(3))
    table.compact(full=True)
    rest, _ = drained(source(table, limits=Limits(files=1)), elsewhere(at))
    assert sorted(k for batch in [*first, *keys(rest)] for k in batch) == [0, 1, 2, 3]
    assert len(rest) >= 3


def test_where_a_stream_starts(table, tmp_path):
    assert drained(source(table, start="latest"))[0] == []
    assert keys(drained(source(table, start="1"))[0]) == [[1, 2]]
    with pytest.raises(NotFoundError, match="no snapshot 9"):
        source(table, start="9").initial()
    with pytest.raises(SchemaError, match="a stream starts at earliest, latest or a snapshot's id, found 'x'"):
        source(table, start="x").initial()
    empty = make(tmp_path / "empty")
    stream = source(empty, start="latest")
    at = stream.initial()
    assert drained(stream, at) == ([], at)
    empty.append(rows(1))
    assert keys(drained(stream, at)[0]) == [[1]]
    assert keys(drained(source(empty))[0]) == [[1]]


def test_columns_conditions_and_columns_that_come_later(table):
    stream = source(table, columns=("k",), where="k >= 1")
    found, at = drained(stream)
    assert found == [[{"k": 1}, {"k": 2}]]
    commit_schema(
        table.handle.refresh(), ChangeSchema((lambda draft: draft.add(("n",), pa.int32(), None, False, None),), False)
    )
    table.handle.refresh()
    table.append(pa.table({"k": [0, 5], "v": ["x", "y"], "n": pa.array([1, 2], pa.int32())}))
    assert drained(source(table, columns=("k",), where="k >= 1"), at)[0] == [[{"k": 5}]]
    assert drained(source(table, where="k = 5"), at)[0] == [[{"k": 5, "v": "y", "n": 2}]]


def test_commits_that_change_rows_end_a_stream_of_new_rows(table):
    stream = source(table)
    _, at = drained(stream)
    table.overwrite(rows(10), "k = 0")
    with pytest.raises(UnsupportedError, match="snapshot 4 deleted or changed rows"):
        drained(stream, at)
    table.append(rows(11))
    assert keys(drained(source(table, skip_changes=True), at)[0]) == [[11]]
    assert told(drained(source(table, changes=True), at)[0]) == [
        [("DELETE", 0, "a"), ("INSERT", 10, "a"), ("INSERT", 11, "a")]
    ]


def test_an_overwrite_of_nothing_only_adds(tmp_path):
    table = make(tmp_path)
    stream = source(table)
    at = stream.initial()
    table.overwrite(rows(1, 2))
    assert keys(drained(stream, at)[0]) == [[1, 2]]
    at = drained(stream)[1]
    table.overwrite(rows(3), "k = 99")
    assert keys(drained(stream, at)[0]) == [[3]]


@pytest.mark.parametrize("how", [KEYED, INPUT], ids=["records", "changelog files"])
def test_changes_by_key(tmp_path, how):
    table = make(tmp_path, **how)
    with pytest.raises(UnsupportedError, match="read changes"):
        source(table)
    table.append(rows(1, 2, 3))
    table.append(rows(3, v="b"))
    stream = source(table, changes=True)
    found, at = drained(stream)
    assert told(found) == [[("INSERT", 1, "a"), ("INSERT", 2, "a"), ("INSERT", 3, "b")]], "as it is now, merged"
    table.append(rows(2, 4, v="b"))
    table.compact(full=True)
    table.delete("k = 1")
    (batch,), at = drained(source(table, changes=True), at)
    assert told([batch]) == [[("DELETE", 1, "a"), ("INSERT", 2, "b"), ("INSERT", 4, "b")]]
    assert {(row["_change_ordinal"], row["_commit_snapshot_id"]) for row in batch} == {(0, 3), (1, 5)}
    table.overwrite(rows(2, 9, v="c"))
    (batch,), at = drained(source(table, changes=True), at)
    assert told([batch]) == [
        [
            *(("DELETE", k, v) for k, v in ((3, "b"), (4, "b"))),
            ("INSERT", 9, "c"),
            ("UPDATE_AFTER", 2, "c"),
            ("UPDATE_BEFORE", 2, "b"),
        ]
    ]


def test_tasks_are_of_three_kinds(tmp_path):
    table = make(tmp_path, **KEYED)
    table.append(rows(*range(20)))
    stream = source(table, changes=True)
    start = stream.initial()
    table.append(rows(1, v="b"))
    first = stream.latest(start)
    table.append(rows(2, v="b"))
    table.overwrite(rows(3))
    last = stream.latest(first)
    assert {type(task) for task in stream.plan(start, first)} == {RowsTask}
    assert [type(task) for task in stream.plan(first, last)] == [ChangelogTask, ComparedTask]
    assert "Storage" not in repr(stream.plan(start, last)), "it may hold credentials"


def test_what_has_expired_ends_a_stream_and_a_consumer_keeps_it(table):
    stream = source(table, consumer="me")
    _, at = drained(stream)
    stream.commit(at)
    assert read_consumers(table.handle.state.storage, table.handle.state.paths) == {"me": 4}
    for k in (3, 4, 5):
        table.append(rows(k))
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    found, at = drained(stream, at)
    assert keys(found) == [[3, 4, 5]]
    stream.commit(at)
    table.append(rows(6))
    for k in (7, 8):
        table.append(rows(k))
    stream.commit(drained(stream, at)[1])
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    with pytest.raises(NotFoundError, match="snapshot 7, which the stream has not read yet, has expired"):
        drained(source(table), at)


def test_other_tables_and_pasts_are_refused(table, tmp_path):
    stream = source(table)
    _, at = drained(stream)
    table.rollback(2)
    with pytest.raises(NotFoundError, match="snapshot 3, which the stream has reached, is no longer in the table"):
        stream.latest(at)
    table.append(rows(7))
    with pytest.raises(NotFoundError, match="it was rolled back"):
        stream.plan(at, at)
    other = make(tmp_path / "other")
    with pytest.raises(NotFoundError, match="was replaced by another one"):
        source(other).latest(at)


@pytest.mark.parametrize("offset", [{}, {"table": 1}, {"table": "t", "snapshot": "1"}, {"table": "t", "commit": 5}])
def test_offsets_that_are_none(offset):
    with pytest.raises(FormatError, match="not a valid offset of a stream of a Paimon table"):
        PaimonOffset.decode(offset)


@pytest.mark.parametrize("how", [{}, KEYED, INPUT, LOOKUP, LATER, FULL], ids=HOW)
@pytest.mark.parametrize("seed", range(2))
def test_changes_read_in_any_batches_give_the_table(tmp_path, how, seed):
    """Random histories, read in random batches with restarts: what is told adds up to what is there."""
    chance = random.Random(seed)
    table = make(tmp_path, **how)
    stream = source(
        table, changes=True, on=("k",), limits=Limits(chance.choice([None, 1, 3]), chance.choice([None, 1]))
    )
    at = stream.initial()
    seen = {}

    for number in range(14):
        step = chance.choice(["append", "delete", "overwrite", "replace", "compact", "read", "read", "restart"])
        if step == "append":
            table.append(rows(number, number + 100, v=f"{number}"))
        elif step == "delete":
            table.delete(f"k < {number}")
        elif step == "overwrite":
            table.overwrite(rows(number + 200, v=f"{number}"), f"k = {number + 99}")
        elif step == "replace":
            table.overwrite(rows(number + 98, number + 99, number + 300, v=f"{number}"))
        elif step == "compact":
            table.compact(full=True)
        elif step == "restart":
            stream, at = source(table, changes=True, on=("k",), limits=stream.choice.limits), elsewhere(at)
        else:
            end = stream.latest(at)
            if end != at:
                apply_in_order(read(stream, at, end), seen)
                at = end
    table.compact(full=True)
    for batch in drained(stream, at)[0]:
        apply_in_order(batch, seen)
    table.handle.refresh()
    assert seen == {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


def apply_in_order(batch, seen):
    for row in sorted(batch, key=lambda row: (row["_change_ordinal"], row["_change_type"] != "DELETE")):
        if row["_change_type"] == "DELETE":
            seen.pop(row["k"], None)
        elif row["_change_type"] in ("INSERT", "UPDATE_AFTER"):
            seen[row["k"]] = row["v"]


def test_branches(table):
    table.create_branch("b")
    stream = source(table, ref="b")
    found, at = drained(stream)
    assert keys(found) == [[0, 1, 2]]
    assert at.table == stream.identity
    table.append(rows(9))
    table.append(rows(3), ref="b")
    assert keys(drained(source(table, ref="b"), at)[0]) == [[3]]
