"""Publishing what tasks have written: each mode against a model, rivals, failures, and batches that come twice."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.errors import CommitUnknownError, ConflictError, SchemaError, SkerryError, StorageError, UnsupportedError
from skerry.iceberg.commit import IcebergTarget
from skerry.iceberg.jobs.publish import Publication, WriteMode, check_publication, owned_shares, publish, write_share
from skerry.iceberg.operations import StreamBatch
from skerry.table.commit import NotPublishedError
from skerry.table.merging import StagedRows

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("p", pa.int32())])


def rows(*keys, v="v"):
    return pa.table({"k": list(keys), "v": [v] * len(keys), "p": [k % 3 for k in keys]}, SCHEMA)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


@pytest.fixture
def table(catalog):
    made = catalog.create_table(
        "d.t",
        SCHEMA,
        partition_by=["p"],
        properties={"commit.retry.min-wait-ms": "1", "write.merge.mode": "merge-on-read"},
    )
    made.append(rows(*range(9)))
    return made


def content(table, **scan):
    return {row["k"]: row["v"] for row in table.refresh().scan(["k", "v"], **scan).to_arrow().to_pylist()}


def write(table, publication, *parts):
    """As tasks elsewhere do."""
    layout = table.handle.layout(ref=publication.ref)
    layout = pickle.loads(pickle.dumps(layout))
    shares = [write_share(layout, publication.mode, part.to_batches()) for part in parts]
    return layout, pickle.loads(pickle.dumps(shares))


def run(table, publication, *parts, **how):
    layout, shares = write(table, publication, *parts)
    return publish(table.handle, layout, shares, publication, **how)


def files_below(table):
    return {path for path in Path(table.location.removeprefix("file://"), "data").rglob("*") if path.is_file()}


UPSERT = Publication(WriteMode.UPSERT, on=("k",))
PARTITIONS = Publication(WriteMode.OVERWRITE_PARTITIONS)
ALL = [Publication(), Publication(WriteMode.OVERWRITE), PARTITIONS, UPSERT]


def expected(publication, before, new):
    if publication.mode is WriteMode.OVERWRITE:
        return new
    if publication.mode is WriteMode.OVERWRITE_PARTITIONS:
        touched = {k % 3 for k in new}
        return {k: v for k, v in before.items() if k % 3 not in touched} | new
    return before | new


@pytest.mark.parametrize("publication", ALL, ids=lambda publication: publication.mode.value)
def test_each_mode(table, publication):
    keys = (0, 3, 12) if publication.mode is not WriteMode.APPEND else (12, 15)
    before = content(table)
    assert run(table, publication, rows(*keys[:1], v="new"), rows(), rows(*keys[1:], v="new"))
    assert content(table) == expected(publication, before, dict.fromkeys(keys, "new"))
    assert len(table.snapshots()) == 2
    assert str(table.statistics()["k"].freshness) == "fresh"
    assert not {path for path in files_below(table) if path.suffix == ".arrows"}


def test_nothing_written(table):
    before = content(table)
    for publication in (Publication(), PARTITIONS, UPSERT):
        assert run(table, publication, rows())
        assert content(table) == before
        assert len(table.snapshots()) == 1
    run(table, Publication(WriteMode.OVERWRITE))
    assert content(table) == {}


def test_an_upsert_holds_keys_and_writes_packs(table, monkeypatch):
    """The process that publishes never has the other columns of all rows, and leaves none of the files of tasks."""
    read, packs = [], []

    def read_columns(self, columns):
        read.extend(columns)
        return whole(self, columns)

    def of_pack(self, pack):
        packs.append(pack.stop - pack.start)
        return batches(self, pack)

    whole, batches = StagedRows.read, StagedRows.of_pack
    monkeypatch.setattr(StagedRows, "read", read_columns)
    monkeypatch.setattr(StagedRows, "of_pack", of_pack)
    monkeypatch.setattr("skerry.table.merging.staged._LEAST_PACK_BYTES", 1)
    before = dict.fromkeys(range(9), "v")
    parts = [rows(*range(start, start + 50), v="new") for start in range(0, 200, 50)]
    assert run(table, UPSERT, *parts)
    assert set(read) == {"k"}
    assert packs == [50] * 4
    assert content(table) == before | dict.fromkeys(range(200), "new")
    assert not [path for path in files_below(table) if path.suffix == ".arrow"]


def test_columns_that_an_upsert_lacks_stay(table):
    run(table, UPSERT, pa.table({"k": [1, 100], "p": pa.array([1, 1], pa.int32())}))
    assert content(table) == dict.fromkeys(range(9), "v") | {100: None}


def test_a_branch_and_properties(table):
    table.create_branch("b")
    run(table, Publication(WriteMode.OVERWRITE, ref="b", properties={"by": "me"}), rows(50))
    assert content(table, ref="b") == {50: "v"}
    assert len(content(table)) == 9
    assert table.current_snapshot("b").summary["by"] == "me"


@pytest.mark.parametrize("publication", ALL, ids=lambda publication: publication.mode.value)
def test_rivals(catalog, table, publication, monkeypatch):
    rival = catalog.load_table("d.t")
    stage = IcebergTarget.stage

    def stage_late(self, base, change, files):
        monkeypatch.setattr(IcebergTarget, "stage", stage)
        rival.append(rows(21, 22, v="theirs"))
        return stage(self, base, change, files)

    monkeypatch.setattr(IcebergTarget, "stage", stage_late)
    before = content(table) | {21: "theirs", 22: "theirs"}
    run(table, publication, rows(30, 33, v="new"))
    assert content(table) == expected(publication, before, {30: "new", 33: "new"})


def test_partitions_of_an_older_spec_are_refused(table):
    table.update_spec().add_field("bucket(2, k)").commit()
    before = files_below(table)
    with pytest.raises(UnsupportedError, match="files of an older partition spec"):
        run(table, PARTITIONS, rows(1))
    assert files_below(table) == before
    table.compact(full=True)
    run(table, PARTITIONS, rows(1, v="new"))
    assert content(table)[1] == "new"


@pytest.mark.parametrize("publication", ALL, ids=lambda publication: publication.mode.value)
def test_what_is_left_after_failures(table, publication, monkeypatch):
    before = content(table)
    at_first = files_below(table)
    for error, seen in (
        (NotPublishedError(SkerryError("no")), SkerryError),
        (ConflictError("no", retryable=False), ConflictError),
        (CommitUnknownError("who knows"), CommitUnknownError),
        (StorageError("no answer"), CommitUnknownError),
    ):

        def fail(self, staged, error=error):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(IcebergTarget, "publish", fail)
            with pytest.raises(seen):
                run(table, publication, rows(30))
        assert (files_below(table) == at_first) == (seen is not CommitUnknownError)
        assert content(table) == before


def test_shares_of_failed_jobs(table):
    before = files_below(table)
    for publication in ALL:
        layout, shares = write(table, publication, rows(1), rows())
        assert len(files_below(table) - before) == 1
        with owned_shares(layout, shares) as owned:
            owned.remove()
        assert files_below(table) == before
    with pytest.raises(SchemaError):
        write(table, Publication(), pa.table({"k": ["x"]}))
    assert files_below(table) == before


# Streams -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("publication", ALL, ids=lambda publication: publication.mode.value)
def test_a_batch_that_comes_twice_is_committed_once(catalog, table, publication):
    assert run(table, publication, rows(30, v="a"), batch=StreamBatch("s", 0, "q"))
    once = content(table)
    summary = table.current_snapshot().summary
    assert (summary["skerry.stream-id"], summary["skerry.batch-id"]) == ("s", "0")
    assert summary["skerry.query-id"] == "q"
    files = files_below(table)
    restarted = skerry.connect(catalog.properties["warehouse"]).load_table("d.t")
    assert not run(restarted, publication, rows(30, v="b"), batch=StreamBatch("s", 0, "q"))
    assert content(table) == once
    assert files_below(table) == files
    assert run(table, publication, rows(33, v="c"), batch=StreamBatch("other", 0))
    assert run(table, publication, rows(36, v="d"), batch=StreamBatch("s", 1, "q"))
    assert not run(table, publication, rows(39, v="e"), batch=StreamBatch("s", 0, "q"))
    assert {33, 36} & set(content(table))
    assert 39 not in content(table)


def test_neither_expiry_nor_rollback_of_others_lets_a_batch_come_twice(table):
    assert run(table, Publication(), rows(30), batch=StreamBatch("s", 7))
    table.append(rows(31))
    table.expire_snapshots(older_than=dt.datetime.now(dt.UTC), keep_last=1)
    assert not run(table, Publication(), rows(30), batch=StreamBatch("s", 7))
    assert sorted(content(table)) == [*range(9), 30, 31]


def test_two_drivers_send_the_same_batch_at_once(catalog, table, monkeypatch):
    other = catalog.load_table("d.t")
    stage = IcebergTarget.stage

    def stage_late(self, base, change, files):
        monkeypatch.setattr(IcebergTarget, "stage", stage)
        assert run(other, Publication(), rows(30), batch=StreamBatch("s", 0))
        return stage(self, base, change, files)

    monkeypatch.setattr(IcebergTarget, "stage", stage_late)
    layout, shares = write(table, Publication(), rows(30))
    assert not publish(table.handle, layout, shares, Publication(), batch=StreamBatch("s", 0))
    assert table.refresh().scan(where="k = 30").count() == 1
    assert not any(Path(file.data_file.location.removeprefix("file://")).exists() for file in shares[0].files)


def test_arguments_without_sense(table):
    with pytest.raises(SchemaError, match="write mode 'replace' does not exist; use one of append, overwrite"):
        WriteMode.parse("replace")
    with pytest.raises(SchemaError, match="an upsert needs key columns"):
        check_publication(Publication(WriteMode.UPSERT))
    with pytest.raises(SchemaError, match="an upsert needs key columns"):
        run(table, Publication(WriteMode.UPSERT), rows(1))
    with pytest.raises(SchemaError, match="are only for an upsert"):
        Publication(on=("k",))
    with pytest.raises(SchemaError, match="a stream needs a name"):
        StreamBatch("", 0)
    table.set_properties({"skerry.stream.s": "x"})
    with pytest.raises(SchemaError, match="must be the number of a batch, found 'x'"):
        run(table, Publication(), rows(1), batch=StreamBatch("s", 0))


def test_tasks_with_few_rows_of_many_partitions_make_one_file_of_each(catalog, monkeypatch):
    table = catalog.create_table("d.many", SCHEMA, partition_by=["p"])
    parts = [
        pa.table({"k": range(task, 8_000, 8), "v": ["v"] * 1_000, "p": [k % 200 for k in range(1_000)]}, SCHEMA)
        for task in range(8)
    ]
    publication = Publication()
    layout, shares = write(table, publication, *parts)
    assert [len(share.files) for share in shares] == [0] * 8
    assert publish(table.handle, layout, shares, publication)
    files = table.refresh().files()
    assert len(files) == 200
    assert {str(Path(file.location)) for file in files} == {f"file:{path}" for path in map(str, files_below(table))}
    assert sorted(table.scan(["k"]).to_arrow()["k"].to_pylist()) == list(range(8_000))
    assert str(table.statistics()["k"].freshness) == "fresh"


def test_what_is_large_stays_with_its_task(catalog, monkeypatch):
    monkeypatch.setattr("skerry.iceberg.jobs.publish._FEW_BYTES", 2_000)
    table = catalog.create_table("d.skewed", SCHEMA, partition_by=["p"])
    parts = [pa.table({"k": range(900), "v": ["v"] * 900, "p": [min(k, 9) for k in range(900)]}, SCHEMA)] * 4
    publication = Publication()
    layout, shares = write(table, publication, *parts)
    assert [[file.data_file.partition for file in share.files] for share in shares] == [[(9,)]] * 4
    assert publish(table.handle, layout, shares, publication)
    assert len(table.refresh().files()) == 4 + 9
    assert table.scan().count() == 3_600


def test_rows_that_wait_go_with_a_write_that_fails(table):
    before = files_below(table)
    publication = Publication(WriteMode.OVERWRITE_PARTITIONS, ref="absent")
    layout, shares = write(table, Publication(WriteMode.OVERWRITE_PARTITIONS), rows(1, 2), rows(3))
    assert len(files_below(table)) == len(before) + 2
    with pytest.raises(SkerryError, match="absent"):
        publish(table.handle, layout, shares, publication)
    assert files_below(table) == before


def test_a_batch_that_comes_twice_leaves_nothing(table):
    publication = Publication()
    assert run(table, publication, rows(10), rows(11), batch=StreamBatch("s", 0))
    before = files_below(table)
    assert not run(table, publication, rows(10), rows(11), batch=StreamBatch("s", 0))
    assert files_below(table) == before
