"""Expiry and purge: exactly the files that nothing reaches any more are gone, and nothing else, whatever goes wrong."""

from __future__ import annotations

import datetime as dt
import json
import shutil

import pyarrow.parquet as pq
import pytest
from orphan_samples import thinned
from rivals import SCHEMA, Elsewhere, beaten_by, files_below, keys, path_of, peer, rows

import skerry
from skerry.errors import FormatError, NotFoundError, SchemaError, StorageError
from skerry.iceberg.cleaning.expiry import ExpireSnapshots, RetentionDefaults
from skerry.iceberg.jobs import expire
from skerry.iceberg.manifests.manifest_list import read_manifest_list
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.metadata.statistics_file import PartitionStatisticsFile
from skerry.iceberg.metadata.table_updates import SetPartitionStatisticsUpdate
from skerry.iceberg.operations import MetadataChange
from skerry.paimon.jobs import expire as paimon_expiry
from skerry.storage import Storage
from skerry.table.table_files import FileKind


@pytest.fixture
def warehouse(tmp_path):
    return tmp_path / "warehouse"


@pytest.fixture
def catalog(warehouse):
    return skerry.connect(warehouse)


@pytest.fixture
def table(catalog):
    made = catalog.create_table("d.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1"})
    for start in range(0, 50, 10):
        made.append(rows(start, start + 10))
    return made


def now():
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)


def reached(table) -> set[str]:
    """Every file that a table's metadata names, found by walking it anew."""
    state = table.handle.state
    metadata = state.metadata
    found = {state.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    found |= {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in read_manifest_list(state.storage, snapshot.manifest_list):
            found.add(manifest.manifest_path)
            found |= {
                entry.data_file.location for entry in read_manifest(state.storage, manifest).entries() if entry.is_live
            }
    written = json.loads(path_of(state.metadata_location).read_bytes())
    return {str(path_of(location)) for location in found} | thinned(written)


def test_only_what_remaining_snapshots_reach_is_left(table, warehouse, catalog):
    first = table.snapshots()[0].snapshot_id
    table.create_tag("first", first)
    table.create_branch("work", table.snapshots()[1].snapshot_id)
    table.append(rows(90, 95), ref="work")
    table.append(rows(95, 97), staged=True)
    table.set_current_snapshot(table.snapshots()[3].snapshot_id)
    before = files_below(warehouse)
    told = table.expire_snapshots(older_than=now(), dry_run=True)
    assert files_below(warehouse) == before
    done = table.expire_snapshots(older_than=now())
    assert (done.files, done.snapshot_ids, told.dry_run, done.dry_run) == (told.files, told.snapshot_ids, True, False)
    gone = {str(path_of(file.location)) for file in done.files}
    assert before - files_below(warehouse) == gone
    assert files_below(warehouse) == reached(table), "neither too much nor too little"
    assert done.size_bytes == sum(file.size_bytes for file in done.files) > 0
    # gone: the second to fourth snapshot of main, the fifth, the staged one; alive: first, tip of main, tip of work
    assert len(done.snapshot_ids) == 4
    assert {ref.snapshot_id for ref in table.refs().values()} == {
        snapshot.snapshot_id for snapshot in table.snapshots()
    }
    assert keys(table) == [*range(40)]
    assert keys(table, ref="first") == [*range(10)]
    assert keys(table, ref="work") == [*range(20), *range(90, 95)]
    assert str(table.statistics()["k"].freshness) == "fresh"
    assert peer(warehouse, "d.t").scan().to_arrow().num_rows == 40
    assert not done.kept_outside
    assert done.count(FileKind.DATA) == 2
    assert done.count(FileKind.MANIFEST_LIST) == 4
    assert done.count(FileKind.STATISTICS) == 4 + 3, "those of the three snapshots that were named again were copied"


def test_sizes_are_those_of_the_files(table):
    told = table.expire_snapshots(keep_last=2, older_than=now(), dry_run=True)
    assert told.files
    for file in told.files:
        assert path_of(file.location).stat().st_size == file.size_bytes


def test_data_that_a_later_snapshot_deleted_goes_with_the_last_snapshot_that_had_it(catalog, warehouse):
    table = catalog.create_table("d.x", SCHEMA, partition_by=["d"])
    table.append(rows(0, 30))
    theirs = peer(warehouse, "d.x")
    theirs.delete("d = '2020-01-01'")
    table.refresh()
    assert table.scan().count() == 20
    done = table.expire_snapshots(older_than=now())
    assert done.count(FileKind.DATA) == 1
    assert table.scan().count() == 20
    assert peer(warehouse, "d.x").scan().to_arrow().num_rows == 20


def test_ages_and_numbers_come_from_arguments_references_and_properties(table):
    state = table.handle.state
    times = [snapshot.timestamp_ms for snapshot in state.metadata.snapshots]
    day = 86_400_000

    def kept(operation, base=None):
        expired = set(operation.plan(base or table.handle.state).snapshot_ids)
        ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
        return [number for number, snapshot_id in enumerate(ids) if snapshot_id not in expired]

    assert kept(ExpireSnapshots(times[-1])) == [0, 1, 2, 3, 4], "five days by default"
    assert kept(ExpireSnapshots(times[-1] + 6 * day)) == [4]
    assert kept(ExpireSnapshots(times[-1] + 6 * day, keep_last=3)) == [2, 3, 4]
    assert kept(ExpireSnapshots(times[-1], older_than_ms=times[2])) == [2, 3, 4]
    table.set_properties(
        {"history.expire.min-snapshots-to-keep": "2", "history.expire.max-snapshot-age-ms": str(30 * day)}
    )
    assert kept(ExpireSnapshots(times[-1] + 6 * day)) == [0, 1, 2, 3, 4]
    assert kept(ExpireSnapshots(times[-1] + 31 * day)) == [3, 4]
    table.set_retention("main", max_snapshot_age=dt.timedelta(days=1), min_snapshots_to_keep=4)
    assert kept(ExpireSnapshots(times[-1] + 6 * day, keep_last=1)) == [1, 2, 3, 4], "what the branch says comes first"


def test_references_that_are_too_old_go_themselves(table):
    day = dt.timedelta(days=1)
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    table.create_tag("brief", ids[0], max_ref_age=day).create_tag("lasting", ids[1])
    table.create_branch("old", ids[2], max_ref_age=day)
    state = table.handle.state
    later = state.metadata.snapshots[-1].timestamp_ms + 2 * 86_400_000
    plan = ExpireSnapshots(later, older_than_ms=later).plan(state)
    assert plan.refs == ("brief", "old")
    assert set(plan.snapshot_ids) == {ids[0], ids[2], ids[3]}
    table.set_properties({"history.expire.max-ref-age-ms": "3600000"})
    plan = ExpireSnapshots(later, older_than_ms=later).plan(table.handle.state)
    assert plan.refs == ("brief", "lasting", "old")
    assert set(plan.snapshot_ids) == {*ids[:4]}, "main never goes"


@pytest.mark.parametrize("text", ["0", "-1", "two"])
def test_a_property_without_sense_is_named(text):
    with pytest.raises(SchemaError, match=r"history\.expire\.min-snapshots-to-keep must be a whole number above 0"):
        RetentionDefaults.from_properties({"history.expire.min-snapshots-to-keep": text})


def test_arguments_without_sense(table):
    with pytest.raises(SchemaError, match="keep_last must be a whole number above 0, found 0"):
        table.expire_snapshots(keep_last=0)


def test_metadata_is_read_wherever_the_executor_says(table, warehouse):
    executor = Elsewhere()
    done = table.expire_snapshots(keep_last=2, older_than=now(), executor=executor)
    assert executor.tasks == 5 + 5, "each manifest list and each manifest once"
    assert "storage" not in repr(done)
    assert files_below(warehouse) == reached(table)


def test_nothing_to_do_commits_nothing(table):
    location = table.metadata_location
    assert table.expire_snapshots().files == ()
    assert table.metadata_location == location


def test_the_history_has_no_gaps(table):
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    table.create_tag("keep", ids[1])
    moment = table.snapshots()[1].timestamp
    table.expire_snapshots(older_than=now())
    assert {snapshot.snapshot_id for snapshot in table.snapshots()} == {ids[1], ids[4]}
    assert [snapshot_id for _, snapshot_id in table.history()] == [ids[4]]
    with pytest.raises(NotFoundError, match="no snapshot was current at"):
        table.scan(as_of=moment)


# What must not be touched --------------------------------------------------------------------------------------------


def damage_list(table, index):
    path_of(table.handle.state.metadata.snapshots[index].manifest_list).write_bytes(b"not Avro at all")


def damage_manifest(table, index):
    state = table.handle.state
    manifest = read_manifest_list(state.storage, state.metadata.snapshots[index].manifest_list)[0]
    path = path_of(manifest.manifest_path)
    path.write_bytes(path.read_bytes()[:100] + bytes(len(path.read_bytes()) - 100))


@pytest.mark.parametrize("damage", [damage_list, damage_manifest])
@pytest.mark.parametrize("index", [0, -1], ids=["of an expired snapshot", "of a remaining snapshot"])
def test_metadata_that_cannot_be_read_stops_everything_first(table, warehouse, damage, index):
    if damage is damage_manifest and index == 0:
        table.rollback(table.snapshots()[2].snapshot_id)
        index = 3
    damage(table, index)
    before, location = files_below(warehouse), table.metadata_location
    with pytest.raises(FormatError):
        table.expire_snapshots(older_than=now())
    assert (files_below(warehouse), table.refresh().metadata_location) == (before, location)


def test_a_missing_manifest_list_stops_everything_first(table, warehouse):
    path_of(table.handle.state.metadata.snapshots[-1].manifest_list).unlink()
    before = files_below(warehouse)
    with pytest.raises(NotFoundError):
        table.expire_snapshots(older_than=now())
    assert files_below(warehouse) == before


def test_files_outside_of_the_table_stay(catalog, warehouse, tmp_path):
    table = catalog.create_table("d.x", SCHEMA, properties={"skerry.read.files-outside-location": "true"})
    outside = tmp_path / "elsewhere.parquet"
    pq.write_table(rows(0, 5), outside)
    table.add_files([str(outside)])
    table.append(rows(5, 10))
    table.rollback(table.snapshots()[0].snapshot_id)
    table.append(rows(10, 20))
    theirs = peer(warehouse, "d.x")
    theirs.overwrite(rows(20, 30))
    table.refresh()
    done = table.expire_snapshots(older_than=now())
    assert [file.location for file in done.kept_outside] == [str(outside)]
    assert outside.exists()
    assert keys(table) == [*range(20, 30)]


def test_one_file_under_two_spellings_is_one_file(catalog, warehouse):
    table = catalog.create_table("d.x", SCHEMA)
    folder = path_of(table.location) / "data"
    folder.mkdir()
    pq.write_table(rows(0, 5), folder / "f.parquet")
    first = table.add_files([f"file://{folder}/f.parquet"])
    table.create_branch("other", first.snapshot_id)
    theirs = peer(warehouse, "d.x")
    theirs.overwrite(rows(20, 30))
    table.refresh().drop_ref("other")
    table.add_files([f"file:{folder}//f.parquet"])
    done = table.expire_snapshots(older_than=now())
    assert (folder / "f.parquet").exists()
    assert done.count(FileKind.DATA) == 0
    assert keys(table) == [*range(5), *range(20, 30)]


def test_metadata_that_names_its_own_metadata_as_data_loses_nothing(catalog, warehouse):
    table = catalog.create_table("d.x", SCHEMA)
    table.append(rows(0, 5))
    current = path_of(table.metadata_location)
    hostile = table.handle.state.metadata.snapshots[0]
    table.handle.commit(
        _Register(
            SetPartitionStatisticsUpdate(
                partition_statistics=PartitionStatisticsFile(
                    snapshot_id=hostile.snapshot_id, statistics_path=f"file://{current}", file_size_in_bytes=1
                )
            )
        )
    )
    table.append(rows(5, 10))
    done = table.expire_snapshots(older_than=now())
    assert str(current) not in {str(path_of(file.location)) for file in done.files}
    assert current.exists()


class _Register:
    """Registers whatever it is given."""

    def __init__(self, update):
        self.update = update

    def apply(self, base):
        return MetadataChange((self.update,))


def test_partition_statistics_go_with_their_snapshot(table, warehouse):
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    for number in (0, 4):
        path = path_of(table.location) / "metadata" / f"partition-stats-{number}.parquet"
        pq.write_table(rows(0, 1), path)
        update = PartitionStatisticsFile(
            snapshot_id=ids[number], statistics_path=f"file://{path}", file_size_in_bytes=path.stat().st_size
        )
        table.handle.commit(_Register(SetPartitionStatisticsUpdate(partition_statistics=update)))
    done = table.expire_snapshots(older_than=now())
    names = {path_of(file.location).name for file in done.files}
    assert "partition-stats-0.parquet" in names
    assert "partition-stats-4.parquet" not in names
    assert files_below(warehouse) == reached(table)


@pytest.mark.parametrize("value", ["false", "no"])
def test_gc_disabled_means_no_deletes(table, catalog, warehouse, value):
    with catalog.iceberg_catalog.load_table("d.t").transaction() as transaction:
        transaction.set_properties({"gc.enabled": value})
    before = files_below(warehouse)
    with pytest.raises(SchemaError, match=rf"gc\.enabled is {value}: files of d.t may belong to other tables too"):
        table.expire_snapshots(older_than=now())
    with pytest.raises(SchemaError, match=rf"gc\.enabled is {value}"):
        catalog.drop_table("d.t", purge=True)
    assert files_below(warehouse) == before
    assert catalog.table_exists("d.t")


# Rivals --------------------------------------------------------------------------------------------------------------


def test_a_rival_append_during_expiry_loses_nothing(catalog, table, warehouse, monkeypatch):
    rival = catalog.load_table("d.t")
    attempts = beaten_by(monkeypatch, lambda: rival.append(rows(50, 60)))
    moment = now()
    table.expire_snapshots(keep_last=1, older_than=moment)
    assert len(attempts) == 2
    assert keys(table) == [*range(60)]
    assert files_below(warehouse) == reached(table)


def test_a_rival_that_tags_a_snapshot_keeps_it(catalog, table, warehouse, monkeypatch):
    rival = catalog.load_table("d.t")
    first = table.snapshots()[0].snapshot_id
    beaten_by(monkeypatch, lambda: rival.create_tag("mine", first))
    done = table.expire_snapshots(older_than=now())
    assert first not in done.snapshot_ids
    assert keys(table, ref="mine") == [*range(10)]
    assert files_below(warehouse) == reached(table)


def test_two_expiries_at_once(catalog, table, warehouse, monkeypatch):
    rival = catalog.load_table("d.t")
    moment = now()
    beaten_by(monkeypatch, lambda: rival.expire_snapshots(older_than=moment))
    table.expire_snapshots(older_than=moment)
    assert keys(table) == [*range(50)]
    assert files_below(warehouse) == reached(table)


def test_metadata_is_committed_before_the_first_file_is_deleted(table, warehouse, monkeypatch, caplog):
    expired = {snapshot.snapshot_id for snapshot in table.snapshots()[:-1]}

    def refuse(self, locations):
        raise StorageError("the store is gone")

    monkeypatch.setattr(Storage, "delete", refuse)
    summary = table.expire_snapshots(older_than=now())  # what has happened is not turned into an error
    assert set(summary.snapshot_ids) == expired
    assert summary.files == ()
    assert "deleting the files of expired snapshots failed: StorageError: the store is gone" in caplog.text
    assert not expired & {snapshot.snapshot_id for snapshot in table.refresh().snapshots()}
    assert keys(table) == [*range(50)]


# Purge ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [1, 2], ids=["while it plans", "after its commit"])
def test_another_one_expires_the_same_table(table, warehouse, monkeypatch, moment):
    """What the other one has deleted is not missed; nothing that is needed goes, and nothing else is left."""
    rival, inner, calls = skerry.connect(warehouse).load_table("d.t"), expire.unreached, []

    def late(*arguments):
        calls.append(arguments)
        if len(calls) == moment:
            rival.append(rows(50, 60))
            rival.expire_snapshots(keep_last=1, older_than=now())
        return inner(*arguments)

    monkeypatch.setattr(expire, "unreached", late)
    table.expire_snapshots(keep_last=3, older_than=now())
    assert keys(table.refresh()) == [*range(60)]
    assert len(table.snapshots()) == 1
    assert files_below(path_of(table.location)) == reached(table)


def test_paimon_tables_are_expired_by_two(catalog, warehouse, monkeypatch):
    table = catalog.create_table("d.p", SCHEMA, format="paimon")
    for start in range(0, 50, 10):
        table.append(rows(start, start + 10))
    rival, inner, calls = skerry.connect(warehouse).load_table("d.p"), paimon_expiry._only_in, []

    def late(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            rival.append(rows(50, 60))
            rival.expire_snapshots(keep_last=1, older_than=now())
            raise NotFoundError("a manifest is gone")
        return inner(*arguments)

    monkeypatch.setattr(paimon_expiry, "_only_in", late)
    table.expire_snapshots(keep_last=3, older_than=now())
    assert keys(table.refresh()) == [*range(60)]
    assert len(table.snapshots()) == 1


def test_purge_deletes_what_the_table_reaches_and_nothing_else(catalog, table, warehouse):
    table.create_branch("b")
    table.append(rows(50, 60), ref="b")
    stranger = path_of(table.location) / "data" / "not-mine.txt"
    stranger.write_text("hello")
    other = catalog.create_table("d.other", SCHEMA)
    other.append(rows(0, 5))
    catalog.drop_table("d.t", purge=True)
    assert catalog.list_tables() == ["d.other"]
    assert files_below(warehouse) == {str(stranger), *reached(other)}
    assert keys(other) == [*range(5)]


def test_purge_refuses_what_it_cannot_read_whole(catalog, table, warehouse):
    damage_list(table, 0)
    before = files_below(warehouse)
    with pytest.raises(FormatError):
        catalog.drop_table("d.t", purge=True)
    assert files_below(warehouse) == before
    assert catalog.table_exists("d.t")


def test_purge_leaves_other_tables_files(catalog, warehouse, tmp_path):
    owner = catalog.create_table("d.owner", SCHEMA)
    owner.append(rows(0, 5))
    borrower = catalog.create_table("d.borrower", SCHEMA, properties={"skerry.read.files-outside-location": "true"})
    borrower.add_files([file.location for file in owner.files()])
    assert keys(borrower) == [*range(5)]
    catalog.drop_table("d.borrower", purge=True)
    assert keys(owner) == [*range(5)]


def test_drop_without_purge_keeps_the_files(catalog, table, warehouse):
    before, location = files_below(warehouse), table.metadata_location
    catalog.drop_table("d.t")
    assert files_below(warehouse) == before
    assert keys(catalog.register_table("d.again", location)) == [*range(50)]


def test_a_table_replaced_by_another_of_its_name_is_noticed(catalog, table, warehouse):
    catalog.drop_table("d.t")
    shutil.rmtree(path_of(table.location))
    catalog.create_table("d.t", SCHEMA).append(rows(0, 3))
    before = files_below(warehouse)
    for change in (
        lambda: table.expire_snapshots(older_than=now()),
        lambda: table.append(rows(0, 1)),
        lambda: table.create_tag("x"),
        lambda: table.set_properties({"a": "b"}),
        table.refresh,
    ):
        with pytest.raises(NotFoundError, match=r"table 'd.t' was replaced by another one of that name: expected uuid"):
            change()
    assert files_below(warehouse) == before
