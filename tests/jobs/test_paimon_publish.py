"""Publishing to Paimon tables what tasks have written: each mode against a model, rivals, batches that come twice."""

from __future__ import annotations

import itertools
import pickle
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from skerry.errors import CommitUnknownError, ConflictError, SchemaError, StorageError, UnsupportedError
from skerry.paimon.cleaning.reachable_table import ReachablePaimonTable
from skerry.paimon.commit import PaimonTarget
from skerry.paimon.evolution.schema_evolution import ChangeOptions, commit_schema
from skerry.paimon.jobs.publish import ShareLayout, owned_shares, publish, write_share
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.metadata.stream_marks import mark_location
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.connector.publication import Publication, WriteMode
from skerry.table.stream_batch import StreamBatch

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string()), pa.field("p", pa.int32(), False)])
WAITS = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
KEYED = {"primary_key": ["k", "p"], "partition_by": ["p"]}
TABLES = {
    "append": {"partition_by": ["p"]},
    "append in buckets": {"partition_by": ["p"], "properties": {"bucket": "2", "bucket-key": "k"}},
    "key": {**KEYED, "properties": {"bucket": "2"}},
    "key, dynamic buckets": {**KEYED, "properties": {"dynamic-bucket.target-row-num": "2"}},
    "key, changelog": {**KEYED, "properties": {"bucket": "2", "changelog-producer": "input"}},
    "key, ORC": {**KEYED, "properties": {"bucket": "1", "file.format": "orc"}},
}


def rows(*keys, v="v"):
    return pa.table({"k": list(keys), "v": [v] * len(keys), "p": [k % 3 for k in keys]}, SCHEMA)


def make(path, *, primary_key=(), partition_by=(), properties=None):
    return PaimonTable.create(
        Storage(),
        str(path / "t"),
        SCHEMA,
        primary_key=primary_key,
        partition_by=partition_by,
        properties={**WAITS, **(properties or {})},
    )


@pytest.fixture(params=TABLES.values(), ids=TABLES)
def table(tmp_path, request):
    made = make(tmp_path, **request.param)
    made.append(rows(*range(9)))
    return made


@pytest.fixture(params=["append", "key, dynamic buckets"])
def one_of_two(tmp_path, request):
    made = make(tmp_path, **TABLES[request.param])
    made.append(rows(*range(9)))
    return made


@pytest.fixture
def keyed(tmp_path):
    made = make(tmp_path, **TABLES["key"])
    made.append(rows(*range(9)))
    return made


def content(table, **scan):
    table.handle.refresh()
    return sorted((row["k"], row["v"]) for row in table.scan(["k", "v"], **scan).to_arrow().to_pylist())


def write(table, publication, *parts, owns_buckets=False):
    """As tasks elsewhere do."""
    layout = ShareLayout.of(table.handle, publication, owns_buckets=owns_buckets)
    layout = pickle.loads(pickle.dumps(layout))
    shares = [write_share(layout, publication.mode, part.to_batches()) for part in parts]
    return layout, pickle.loads(pickle.dumps(shares))


def run(table, publication, *parts, owns_buckets=False, **how):
    layout, shares = write(table, publication, *parts, owns_buckets=owns_buckets)
    return publish(table.handle, layout, shares, publication, **how)


def files_below(table):
    found = (path for path in Path(table.location).rglob("*") if path.is_file())
    return {path for path in found if path.suffix in (".parquet", ".orc", ".arrow") or path.name.startswith("index-")}


def live_files(table):
    return {entry.file.file_name for entry in live_entries(table.handle.refresh())}


UPSERT = Publication(WriteMode.UPSERT, on=("k", "p"))
PARTITIONS = Publication(WriteMode.OVERWRITE_PARTITIONS)
ALL = [Publication(), Publication(WriteMode.OVERWRITE), PARTITIONS, UPSERT]


def expected(table, publication, before, new):
    before = dict(before)
    if publication.mode is WriteMode.OVERWRITE:
        return sorted(new.items())
    if publication.mode is WriteMode.OVERWRITE_PARTITIONS:
        touched = {k % 3 for k in new}
        return sorted(({k: v for k, v in before.items() if k % 3 not in touched} | new).items())
    if publication.mode is WriteMode.APPEND and not table.primary_key:
        return sorted([*before.items(), *new.items()])
    return sorted((before | new).items())


@pytest.mark.parametrize("publication", ALL, ids=lambda publication: publication.mode.value)
def test_each_mode(table, publication):
    before = content(table)
    assert run(table, publication, rows(0, v="new"), rows(), rows(3, 12, v="new"))
    assert content(table) == expected(table, publication, before, dict.fromkeys((0, 3, 12), "new"))
    assert len(table.handle.snapshots()) == 2
    assert not {path for path in files_below(table) if path.suffix == ".arrow"}


def test_sketches_come_with_the_rows(one_of_two):
    table = one_of_two
    run(table, Publication(WriteMode.OVERWRITE), rows(*range(100)), rows(*range(100, 250)))
    found = table.statistics()["k"]
    assert (found.ndv, str(found.freshness)) == (250, "fresh")


def test_no_two_records_of_a_bucket_have_one_number(table):
    """Whatever rows came in which task: later tasks are behind earlier ones."""
    run(table, Publication(), *(rows(0, 3, 6, 9, v=f"task {task}") for task in range(3)))
    ranges = {}
    for entry in live_entries(table.handle.refresh()):
        key = entry.partition, entry.bucket
        ranges.setdefault(key, []).append((entry.file.min_sequence_number, entry.file.max_sequence_number))
    if table.primary_key or table.handle.state.options.bucket > 0:
        for found in ranges.values():
            found.sort()
            assert all(last < first for (_, last), (first, _) in itertools.pairwise(found))
    if table.primary_key:
        assert dict(content(table))[0] == "task 2"


def test_tasks_that_own_their_buckets_write_them(keyed):
    layout, shares = write(keyed, Publication(), rows(0, 3, v="a"), rows(1, 4, v="b"), owns_buckets=True)
    assert all(share.files and not share.shuffle_files for share in shares)
    assert publish(keyed.handle, layout, shares, Publication())
    assert content(keyed) == sorted((dict.fromkeys(range(9), "v") | {0: "a", 3: "a", 1: "b", 4: "b"}).items())
    written = {file.file.file_name for share in shares for file in share.files}
    assert written <= live_files(keyed)


def test_buckets_that_several_tasks_claim_to_own_are_put_in_order(keyed):
    for publication in (Publication(), PARTITIONS):
        run(keyed, publication, *(rows(0, 6, v=f"task {task}") for task in range(4)), owns_buckets=True)
        assert {k: v for k, v in content(keyed) if k in (0, 6)} == dict.fromkeys((0, 6), "task 3")
    assert {path.name for path in files_below(keyed)} >= live_files(keyed)
    keyed.expire_snapshots(keep_last=1, older_than=timedelta(0))
    assert {path.name for path in files_below(keyed)} == live_files(keyed), "what was written again is removed"


def test_nothing_written(table):
    before = content(table)
    for publication in (Publication(), PARTITIONS, UPSERT):
        assert run(table, publication, rows())
        assert content(table) == before
        assert len(table.handle.snapshots()) == 1
    run(table, Publication(WriteMode.OVERWRITE))
    assert content(table) == []


def test_a_branch_and_properties(one_of_two):
    table = one_of_two
    table.create_branch("b")
    run(table, Publication(WriteMode.OVERWRITE, ref="b", properties={"by": "me"}), rows(50))
    assert content(table, ref="b") == [(50, "v")]
    assert len(content(table)) == 9
    assert table.handle.current_snapshot("b").properties["by"] == "me"


@pytest.mark.parametrize("publication", ALL, ids=lambda publication: publication.mode.value)
def test_rivals(table, publication, monkeypatch):
    rival = PaimonTable.open(Storage(), table.location)
    stage = PaimonTarget.stage

    def stage_late(self, base, change, files):
        monkeypatch.setattr(PaimonTarget, "stage", stage)
        rival.append(rows(21, 22, v="theirs"))
        return stage(self, base, change, files)

    before = content(table)
    monkeypatch.setattr(PaimonTarget, "stage", stage_late)
    keys = (0, 21) if table.primary_key else (0, 24)  # an append table knows no keys of its own
    run(table, publication, rows(*keys, v="ours"))
    theirs = sorted([*before, (21, "theirs"), (22, "theirs")])
    assert content(table) == expected(table, publication, theirs, dict.fromkeys(keys, "ours"))


def test_an_unknown_outcome_keeps_everything(one_of_two, monkeypatch):
    table = one_of_two
    layout, shares = write(table, Publication(), rows(30))
    before = files_below(table)

    def lost(self, staged):
        raise CommitUnknownError("connection lost")

    monkeypatch.setattr(PaimonTarget, "publish", lost)
    with pytest.raises(CommitUnknownError):
        publish(table.handle, layout, shares, Publication())
    assert before <= files_below(table)


def test_a_failed_commit_leaves_nothing(one_of_two, monkeypatch):
    table = one_of_two
    before = files_below(table)
    layout, shares = write(table, Publication(), rows(30))
    assert files_below(table) != before

    def broken(self, base, change, files):
        raise StorageError("no space left")

    monkeypatch.setattr(PaimonTarget, "stage", broken)
    with pytest.raises(StorageError):
        publish(table.handle, layout, shares, Publication())
    assert files_below(table) == before


def test_a_failed_task_leaves_nothing(table):
    before = files_below(table)
    layout = ShareLayout.of(table.handle, Publication())

    def broken():
        yield from rows(*range(30)).to_batches()
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        write_share(layout, WriteMode.APPEND, broken())
    with pytest.raises(SchemaError, match="column 'k'"):
        write_share(layout, WriteMode.APPEND, pa.table({"k": ["x"], "p": [1]}).to_batches())
    assert files_below(table) == before
    with owned_shares(layout, [write_share(layout, WriteMode.APPEND, rows(30).to_batches())]) as owned:
        owned.remove()
    assert files_below(table) == before


# Streams --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("publication", ALL, ids=lambda publication: publication.mode.value)
def test_batches_that_come_twice(one_of_two, publication):
    table = one_of_two
    assert run(table, publication, rows(30, v="a"), batch=StreamBatch("s", 0, "q"))
    after = content(table)
    restarted = PaimonTable.open(Storage(), table.location)
    files = files_below(table)
    assert not run(restarted, publication, rows(30, v="b"), batch=StreamBatch("s", 0, "q"))
    assert content(table) == after
    assert files_below(table) == files
    assert run(table, publication, rows(33, v="c"), batch=StreamBatch("other", 0))
    assert run(table, publication, rows(36, v="d"), batch=StreamBatch("s", 1, "q"))
    assert not run(table, publication, rows(39, v="e"), batch=StreamBatch("s", 0, "q"))
    assert 39 not in dict(content(table))
    newest = table.handle.snapshots()[-1]
    assert newest.commit_identifier == 1
    assert newest.properties["skerry.stream-id"] == "s"
    assert newest.properties["skerry.batch-id"] == "1"
    assert newest.properties["skerry.query-id"] == "q"


def expire(table):
    table.append(rows(60))
    table.append(rows(61))
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    assert len(table.handle.snapshots()) == 1


def test_a_batch_is_not_doubled_after_its_snapshot_has_expired(one_of_two):
    table = one_of_two
    assert run(table, Publication(), rows(30), batch=StreamBatch("s", 7))
    expire(table)
    assert not run(table, Publication(), rows(30), batch=StreamBatch("s", 7))
    assert [k for k, _ in content(table)].count(30) == 1
    assert run(table, Publication(), rows(31), batch=StreamBatch("s", 8))
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    marks = Path(mark_location(table.handle.state, "s"))
    assert marks.exists()
    assert str(marks) in ReachablePaimonTable(table.handle.state).reached(()).values(), "it is no orphan"


class _KilledError(BaseException):
    pass


def killed_after_commit(table, monkeypatch, *parts, batch):
    """The driver dies when the snapshot is there, before it can say so anywhere else."""
    publish_snapshot = PaimonTarget.publish

    def die(self, staged):
        publish_snapshot(self, staged)
        raise _KilledError

    layout, shares = write(table, Publication(), *parts)
    with monkeypatch.context() as patch:
        patch.setattr(PaimonTarget, "publish", die)
        with pytest.raises(_KilledError):
            publish(table.handle, layout, shares, Publication(), batch=batch)


def test_a_driver_that_dies_right_after_its_commit(one_of_two, monkeypatch):
    table = one_of_two
    killed_after_commit(table, monkeypatch, rows(30), batch=StreamBatch("s", 0))
    table.append(rows(40))
    assert not run(table, Publication(), rows(30), batch=StreamBatch("s", 0))
    assert [k for k, _ in content(table)].count(30) == 1
    assert run(table, Publication(), rows(31), batch=StreamBatch("s", 1))


def test_what_cannot_be_known_is_said(one_of_two, monkeypatch):
    """The driver died right after its commit, and the snapshot has expired before it was started again."""
    table = one_of_two
    killed_after_commit(table, monkeypatch, rows(30), batch=StreamBatch("s", 0))
    expire(table)
    with pytest.raises(CommitUnknownError, match="whether it is in the table cannot be known") as raised:
        run(table, Publication(), rows(30), batch=StreamBatch("s", 0))
    mark = Path(raised.value.location)
    mark.write_text(mark.read_text().replace("false", "true"))
    assert not run(table, Publication(), rows(30), batch=StreamBatch("s", 0))
    assert run(table, Publication(), rows(31), batch=StreamBatch("s", 1))


def test_a_batch_that_failed_can_be_sent_again_whatever_has_expired(one_of_two, monkeypatch):
    table = one_of_two
    stage = PaimonTarget.stage

    def broken(self, base, change, files):
        raise StorageError("no space left")

    monkeypatch.setattr(PaimonTarget, "stage", broken)
    with pytest.raises(StorageError):
        run(table, Publication(), rows(30), batch=StreamBatch("s", 0))
    monkeypatch.setattr(PaimonTarget, "stage", stage)
    expire(table)
    assert run(table, Publication(), rows(30), batch=StreamBatch("s", 0))


def test_two_drivers_send_the_same_batch_at_once(one_of_two, monkeypatch):
    table = one_of_two
    other = PaimonTable.open(Storage(), table.location)
    stage = PaimonTarget.stage

    def stage_late(self, base, change, files):
        monkeypatch.setattr(PaimonTarget, "stage", stage)
        assert run(other, Publication(), rows(30), batch=StreamBatch("s", 0))
        return stage(self, base, change, files)

    layout, shares = write(table, Publication(), rows(30))
    monkeypatch.setattr(PaimonTarget, "stage", stage_late)
    assert not publish(table.handle, layout, shares, Publication(), batch=StreamBatch("s", 0))
    assert [k for k, _ in content(table)].count(30) == 1
    assert not any(Path(location).exists() for location in shares[0].locations)


# What makes no sense --------------------------------------------------------------------------------------------------


def test_arguments_without_sense(tmp_path, keyed):
    with pytest.raises(UnsupportedError, match="no blind upserts"):
        ShareLayout.of(keyed.handle, Publication(WriteMode.UPSERT, blind=True))
    with pytest.raises(UnsupportedError, match="upserted by that key only, not by k"):
        ShareLayout.of(keyed.handle, Publication(WriteMode.UPSERT, on=("k",)))
    with pytest.raises(SchemaError, match=r"several rows of the source have one key: k=30, p=0"):
        run(keyed, Publication(WriteMode.UPSERT), rows(30, 31), rows(30))
    append = make(tmp_path / "append", **TABLES["append"])
    with pytest.raises(SchemaError, match="an upsert needs key columns"):
        ShareLayout.of(append.handle, Publication(WriteMode.UPSERT))
    watched = make(tmp_path / "watched", **KEYED, properties={"bucket": "1", "commit.callbacks": "com.example.Watch"})
    with pytest.raises(UnsupportedError, match=r"commit\.callbacks=com\.example\.Watch"):
        ShareLayout.of(watched.handle, Publication())


def test_rows_for_another_number_of_buckets_are_refused_or_put_into_those_that_are_there(tmp_path):
    for name, how in TABLES.items():
        if "dynamic" in name or name == "append":
            continue
        table = make(tmp_path / name.replace(" ", "-"), **how)
        layout, shares = write(table, Publication(), rows(*range(30)))
        other = PaimonTable.open(Storage(), table.location)
        total = 5
        commit_schema(other.handle.refresh(), ChangeOptions({"bucket": str(total)}, ()))
        PaimonTable.open(Storage(), table.location).append(rows(*range(100, 130)))
        if table.primary_key:
            assert publish(table.handle, layout, shares, Publication())
            assert len(content(table)) == 60
        else:
            with pytest.raises(ConflictError, match="now has 5 buckets"):
                publish(table.handle, layout, shares, Publication())
