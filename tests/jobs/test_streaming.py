"""Reading a table as a stream: every row once, whatever the limits, restarts and writers."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections import Counter

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import skerry
from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.iceberg.jobs.streaming import CommitTask, StreamOffset, StreamSource
from skerry.table.connector.stream_choice import Limits, StreamChoice
from skerry.table.connector.stream_tasks import RowsTask

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def rows(*keys, v="v"):
    return pa.table({"k": list(keys), "v": [v] * len(keys)}, SCHEMA)


def make(folder, **options):
    catalog = skerry.connect(folder / "warehouse")
    properties = {"commit.retry.min-wait-ms": "1", "write.delete.mode": "merge-on-read"}
    return catalog.create_table("d.t", SCHEMA, format_version=2, properties=properties, **options)


@pytest.fixture
def table(tmp_path):
    made = make(tmp_path)
    for k in range(4):
        made.append(rows(k, k + 10))
    return made


def source(table, **how):
    return StreamSource(table.handle, StreamChoice(**how))


def elsewhere(offset):
    """An offset after a restart: all that is left of it is JSON."""
    return StreamOffset.decode(json.loads(json.dumps(offset.encode())))


def read(stream, start, end):
    """As tasks elsewhere do."""
    found = [
        pa.Table.from_batches(pickle.loads(pickle.dumps(task)).batches(), stream.schema)
        for task in stream.plan(start, end)
    ]
    return pa.concat_tables(found) if found else stream.schema.empty_table()


def drained(stream, start=None):
    """All batches from an offset on, and where they end."""
    start = start or stream.initial()
    batches = []
    while (end := stream.latest(elsewhere(start))) != start:
        batches.append(read(stream, elsewhere(start), elsewhere(end)))
        start = end
    return batches, start


def keys(batches):
    return sorted(k for batch in batches for k in batch["k"].to_pylist())


ALL = [0, 1, 2, 3, 10, 11, 12, 13]


def test_what_was_there_and_what_comes(table):
    stream = source(table)
    batches, at = drained(stream)
    assert (len(batches), keys(batches)) == (1, ALL)
    assert drained(stream, at)[0] == []
    table.append(rows(20))
    table.append(rows(21))
    batches, at = drained(stream, at)
    assert (len(batches), keys(batches)) == (1, [20, 21])
    table.compact(full=True)
    batches, at = drained(stream, at)
    assert keys(batches) == [], "compaction tells nothing"
    assert stream.schema == table.schema


@pytest.mark.parametrize("limits", [Limits(files=1), Limits(files=3), Limits(snapshots=1), Limits(2, 2)])
def test_limits_change_batches_and_no_rows(table, limits):
    stream = source(table, limits=limits)
    batches, at = drained(stream)
    assert keys(batches) == ALL
    assert len(batches) == (-(-4 // limits.files) if limits.files else 1)
    for k in range(20, 25):
        table.append(rows(k))
    batches, at = drained(stream, at)
    assert keys(batches) == [20, 21, 22, 23, 24]
    per_batch = min(limits.files or 9, limits.snapshots or 9)
    assert len(batches) == -(-5 // per_batch)


def test_a_commit_larger_than_the_limit_is_one_batch(table):
    stream = source(table, start="latest", limits=Limits(files=2))
    at = stream.initial()
    table.update_spec().add_field("k").commit()
    table.append(rows(*range(5)))
    batches, at = drained(stream, at)
    assert [batch.num_rows for batch in batches] == [5]


def test_where_a_stream_starts(table):
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    assert keys(drained(source(table, start=str(ids[1])))[0]) == [2, 3, 12, 13]
    latest = source(table, start="latest")
    at = latest.initial()
    table.append(rows(50))
    assert keys(drained(latest, at)[0]) == [50]
    with pytest.raises(NotFoundError, match="no snapshot 5"):
        source(table, start="5").initial()
    with pytest.raises(SchemaError, match="a stream starts at earliest, latest or a snapshot's id, found 'now'"):
        source(table, start="now").initial()


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_table_without_rows(tmp_path, start):
    table = make(tmp_path)
    stream = source(table, start=start)
    batches, at = drained(stream)
    assert (batches, at.snapshot) == ([], None)
    assert stream.plan(at, at) == []
    table.append(rows(1))
    assert keys(drained(stream, at)[0]) == [1]


def test_columns_and_conditions(table):
    stream = source(table, columns=("k",), where="k >= 2 and k < 13", limits=Limits(files=1))
    batches, at = drained(stream)
    assert keys(batches) == [2, 3, 10, 11, 12]
    assert stream.schema.names == ["k"]
    table.append(rows(5, 500))
    assert keys(drained(stream, at)[0]) == [5]


def test_a_branch_of_its_own(table):
    table.create_branch("b")
    stream = source(table, ref="b", start="latest")
    at = stream.initial()
    table.append(rows(100))
    table.append(rows(200), ref="b")
    assert keys(drained(stream, at)[0]) == [200]
    with pytest.raises(NotFoundError, match="no branch or tag 'c'"):
        source(table, ref="c", start="latest").initial()


def test_an_end_beyond_what_was_there_at_first(table):
    """After a restart the first end may be without limits."""
    stream = source(table, limits=Limits(files=1))
    part = stream.latest(stream.initial())
    table.append(rows(30))
    end = stream.latest(None)
    assert keys([read(stream, stream.initial(), part), read(stream, part, end)]) == [*ALL, 30]


def test_commits_that_change_rows_end_a_stream_of_new_rows(table):
    stream = source(table, start="latest")
    at = stream.initial()
    table.append(rows(20))
    table.delete("k = 1")
    with pytest.raises(UnsupportedError, match="deleted or changed rows"):
        drained(stream, at)
    table.append(rows(21))
    assert keys(drained(source(table, start=stream.choice.start, skip_changes=True), at)[0]) == [20, 21]


def test_changes(table):
    stream = source(table, changes=True, on=("k",))
    batches, at = drained(stream)
    assert Counter(batches[0]["_change_type"].to_pylist()) == {"INSERT": 8}
    table.delete("k in (0, 1)")
    table.upsert(rows(2, 30, v="new"), on=["k"])
    table.append(rows(40))
    end = stream.latest(at)
    kinds = [type(task) for task in stream.plan(at, end)]
    assert kinds == [CommitTask, CommitTask, RowsTask]
    found = sorted(
        (row["_change_ordinal"], row["_change_type"], row["k"], row["v"]) for row in read(stream, at, end).to_pylist()
    )
    assert found == [
        (0, "DELETE", 0, "v"),
        (0, "DELETE", 1, "v"),
        (1, "INSERT", 30, "new"),
        (1, "UPDATE_AFTER", 2, "new"),
        (1, "UPDATE_BEFORE", 2, "v"),
        (2, "INSERT", 40, "v"),
    ]
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()][-3:]
    assert set(read(stream, at, end)["_commit_snapshot_id"].to_pylist()) == set(ids)
    assert "storage" not in repr(stream.plan(at, end)[0])


def test_columns_that_came_later(table):
    stream = source(table, start="latest", changes=True)
    at = stream.initial()
    table.append(rows(20))
    table.update_schema().add_column("n", pa.int32()).commit()
    table.delete("k = 3")
    table.append(pa.table({"k": [21], "v": ["x"], "n": pa.array([7], pa.int32())}))
    found = pa.concat_tables(drained(source(table, changes=True), at)[0])
    assert {(row["k"], row["n"]) for row in found.to_pylist()} == {(20, None), (3, None), (21, 7)}


def test_history_that_is_gone_is_said(table):
    stream = source(table)
    at = drained(stream)[1]
    table.append(rows(20))
    table.append(rows(21))
    table.expire_snapshots(older_than=dt.datetime.now(dt.UTC), keep_last=1)
    with pytest.raises(NotFoundError, match="which the stream has reached, has expired or is not an ancestor"):
        stream.latest(at)
    table.append(rows(22))
    other = table.catalog.create_table("d.u", SCHEMA)
    with pytest.raises(NotFoundError, match="was replaced by another one"):
        source(other).latest(at)


def test_offsets_and_limits_without_sense():
    for offset in ({}, {"table": 1}, {"table": "x", "snapshot": "y"}, {"table": "x", "files": True}):
        with pytest.raises(FormatError, match="not a valid offset of a stream of an Iceberg table"):
            StreamOffset.decode(offset)
    for value in (0, -1, True, 1.5):
        with pytest.raises(SchemaError, match="the limit on files per batch must be at least 1"):
            Limits(files=value)


STEP = st.sampled_from(["append", "append", "delete", "upsert", "compact", "read", "restart"])


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=3, max_size=10), st.sampled_from([None, 1, 2]), st.sampled_from([None, 1]))
def test_changes_read_in_any_batches_give_the_table(tmp_path_factory, steps, files, snapshots):
    table = make(tmp_path_factory.mktemp("stream"))
    stream = source(table, changes=True, on=("k",), limits=Limits(files, snapshots))
    at, model = stream.initial(), Counter()

    def apply(batch):
        for row in batch.to_pylist():
            sign = -1 if row["_change_type"] in ("DELETE", "UPDATE_BEFORE") else 1
            model[row["k"], row["v"]] += sign

    for number, step in enumerate(steps, 1):
        if step == "append":
            table.append(rows(number, number + 100))
        elif step == "delete":
            table.delete(f"k < {number // 2}")
        elif step == "upsert":
            table.upsert(rows(number - 1, number + 50, v=f"new {number}"), on=["k"])
        elif step == "compact":
            table.compact(full=True)
        elif step == "restart":
            stream, at = source(table, changes=True, on=("k",), limits=stream.choice.limits), elsewhere(at)
        else:
            end = stream.latest(at)
            if end != at:
                apply(read(stream, at, end))
                at = end
    for batch in drained(stream, at)[0]:
        apply(batch)
    expected = Counter((row["k"], row["v"]) for row in table.refresh().scan().to_arrow().to_pylist())
    assert {key: count for key, count in model.items() if count} == dict(expected)
