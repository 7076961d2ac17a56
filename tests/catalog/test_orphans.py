"""Orphans: what nothing needs goes; whatever somebody may need stays, by whatever name, whoever writes meanwhile."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from orphan_samples import age, metadata_update, oracle, sweep
from rivals import SCHEMA, Elsewhere, files_below, keys, path_of, peer, rows

import skerry
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, StorageError, UnsupportedError
from skerry.iceberg.manifests.manifest_list import read_manifest_list
from skerry.iceberg.metadata.statistics_file import PartitionStatisticsFile
from skerry.iceberg.metadata.table_updates import SetPartitionStatisticsUpdate
from skerry.storage import Storage
from skerry.table.reachability import Aliases, TableKind, alias, table_marker


@pytest.fixture
def warehouse(tmp_path):
    return tmp_path / "warehouse"


@pytest.fixture
def catalog(warehouse):
    return skerry.connect(warehouse)


@pytest.fixture
def table(catalog):
    made = catalog.create_table("d.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1"})
    for start in range(0, 30, 10):
        made.append(rows(start, start + 10))
    return made


def litter(table, *names) -> set[str]:
    """Files that nothing needs, all of them old."""
    folder = path_of(table.location)
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left behind")
    age(folder)
    return set(map(str, paths))


def gone(summary) -> set[str]:
    return {str(path_of(file.location)) for file in summary.files}


LEFT = ("data/a.parquet", "data/d=1/b.parquet", "metadata/c-m0.avro", "x.tmp", "data/.0123.part", "data/_temporary/0/t")


def test_only_what_nothing_needs_and_is_old_goes(table, warehouse):
    left = litter(table, *LEFT)
    young = path_of(table.location) / "data" / "young.parquet"
    young.write_bytes(b"about to be committed")
    before = files_below(warehouse)
    told = sweep(table, dry_run=True)
    assert files_below(warehouse) == before
    done = sweep(table)
    assert gone(told) == gone(done) == left == before - files_below(warehouse)
    assert (told.dry_run, done.dry_run, done.size_bytes) == (True, False, len(left) * len(b"left behind"))
    assert (
        done.listed_files == len(before) == done.reached_files + len(left) + 1 - 1
    )  # young; the hint that is not there
    assert young.exists()
    assert (done.saved, done.kept_alike, done.kept_tables, done.logs) == ((), (), (), ())
    assert files_below(warehouse) - {str(young)} == oracle(table)
    assert sweep(table).files == ()
    assert gone(sweep(table, older_than_days=0)) == {str(young)}


def test_all_references_staged_snapshots_and_statistics_count(table, catalog, warehouse):
    first = table.snapshots()[0].snapshot_id
    table.create_tag("first", first).create_branch("work", first)
    table.append(rows(40, 50), ref="work")
    table.append(rows(50, 60), staged=True)
    table.rollback(table.snapshots()[1].snapshot_id)
    stats = path_of(table.location) / "metadata" / "partition-stats.parquet"
    pq.write_table(rows(0, 1), stats)
    registered = PartitionStatisticsFile(
        snapshot_id=first, statistics_path=f"file://{stats}", file_size_in_bytes=stats.stat().st_size
    )
    metadata_update(table, SetPartitionStatisticsUpdate(partition_statistics=registered))
    replaced = {path for path in files_below(warehouse) if path.endswith(".stats")} - oracle(table)
    assert len(replaced) == 2, "those of the tagged snapshot and of the one rolled back to were copied"
    left = litter(table, *LEFT)
    assert gone(sweep(table)) == left | replaced
    assert files_below(warehouse) == oracle(table)
    assert keys(table) == [*range(20)]
    assert keys(table, ref="work") == [*range(10), *range(40, 50)]
    assert str(table.statistics()["k"].freshness) == "fresh"
    assert peer(warehouse, "d.t").scan().to_arrow().num_rows == 20


def test_deletes_and_vectors_count(catalog, warehouse):
    for version in (2, 3):
        properties = {"write.delete.mode": "merge-on-read"}
        table = catalog.create_table(f"d.v{version}", SCHEMA, format_version=version, properties=properties)
        table.append(rows(0, 30))
        table.delete("k < 10")
        table.upsert(rows(25, 35), on=["k"], blind=True)
        left = litter(table, *LEFT)
        assert gone(sweep(table)) == left
        assert keys(table) == [*range(10, 35)]


def test_tasks_run_wherever_the_executor_says(table, warehouse):
    left = litter(table, *(f"data/p={number}/f.parquet" for number in range(80)))
    executor = Elsewhere()
    assert gone(sweep(table, executor=executor)) == left
    assert executor.tasks > 10
    assert files_below(warehouse) == oracle(table)


# Ways to write one location ------------------------------------------------------------------------------------------


SPELLINGS = {
    "no authority": lambda path: f"file:{path}",
    "three slashes": lambda path: f"file://{path}",
    "a plain path": str,
    "repeated slashes": lambda path: f"file://{path.parent}//{path.name}",
    "a dot": lambda path: f"file://{path.parent}/./{path.name}",
    "localhost": lambda path: f"file://localhost{path}",
    "percent-encoded": lambda path: f"file://{quote(str(path))}",
    "percent-encoded twice": lambda path: f"file://{quote(quote(str(path)))}",
    "upper case": lambda path: f"file://{str(path).upper()}",
    "a foreign scheme": lambda path: f"hdfs://namenode:8020{path}",
    "another bucket": lambda path: f"s3a://alias{path}",
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_live_file_is_alive_by_any_spelling(table, catalog, spelling):
    """Partition statistics stand for any file, because nothing reads them before the sweep."""
    path = path_of(table.location) / "data" / "dé=a b%" / "stats 1.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"needed")
    registered = PartitionStatisticsFile(
        snapshot_id=table.snapshots()[-1].snapshot_id, statistics_path=spelling(path), file_size_in_bytes=6
    )
    metadata_update(table, SetPartitionStatisticsUpdate(partition_statistics=registered))
    left = litter(table, "data/other.parquet")
    assert gone(sweep(table)) == left
    assert path.exists()


def test_a_linked_folder_hides_no_live_file(table, catalog, warehouse):
    """The metadata names the real folder, the listing goes through a link, or the other way round."""
    real = path_of(table.location)
    moved = real.parent / "moved"
    real.rename(moved)
    real.symlink_to(moved)
    left = litter(table, "data/other.parquet")
    assert gone(sweep(table)) == left
    shutil.rmtree(warehouse / "d")


def test_a_listing_through_a_link_shows_files_by_other_names(table, tmp_path):
    state = table.handle.state
    real = path_of(table.location)
    link = tmp_path / "link"
    link.symlink_to(real)
    moved = dataclasses.replace(state.metadata, location=f"file://{link}")
    left = litter(table, "data/other.parquet")
    done = sweep(table, metadata=moved)
    assert {Path(path).name for path in gone(done)} == {"other.parquet"}
    assert not Path(left.pop()).exists()
    assert len(done.kept_alike) == len(oracle(table))
    assert keys(table.refresh()) == [*range(30)]


def test_names_of_files_without_what_may_differ():
    expected = ("wh", "t", "data", "a b.parquet")
    for location in (
        "/wh/t/data/A b.parquet",
        "file:/wh//t/./data/a%20b.parquet",
        "s3://wh/wh/t/data/a%2520b.parquet",
        "abfss://c@acc.dfs.core.windows.net/wh/t/data/a%20b.parquet",
        "/wh/t%2Fdata/a b.parquet",
    ):
        assert alias(location) == expected
    assert alias("s3://b/e\u0301") == alias("s3://c/%C3%A9")
    aliases = Aliases(iter(["hdfs://n/wh/t/data/x", "s3://b/", ""]))
    assert aliases.find("/mnt/t", "/mnt/t/data/x")
    assert aliases.find("/mnt/t", "/mnt/t/x"), "in doubt it is kept"
    assert not aliases.find("/mnt", "/mnt/u/data/x")
    assert not aliases.find("/mnt/t", "/mnt/t/data/y")
    assert aliases.find("/mnt/t", "/mnt/t"), "a folder is no file below itself"


def test_hadoop_checksums_stay_with_their_files(table):
    folder = path_of(table.location)
    data = path_of(table.files()[0].location)
    beside = data.parent / f".{data.name}.crc"
    beside.write_bytes(b"crc")
    (folder / "metadata" / "version-hint.text").write_text("3")
    left = litter(table, "data/.other.parquet.crc", "data/.crc", "data/..crc")
    assert gone(sweep(table)) == left
    assert beside.exists()


# Whose files are they? -----------------------------------------------------------------------------------------------


def test_nothing_outside_of_the_folder_is_touched(table, catalog, tmp_path, warehouse):
    sibling = catalog.create_table("d.t2", SCHEMA)
    sibling.append(rows(0, 10))
    beside = path_of(table.location).parent / "t.parquet"
    beside.write_bytes(b"1")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "f.parquet").write_bytes(b"1")
    (path_of(table.location) / "data" / "link").symlink_to(elsewhere)
    age(warehouse)
    age(elsewhere)
    assert sweep(table).files == ()
    assert sweep(table, older_than_days=0).files == ()
    assert keys(sibling) == [*range(10)]


@pytest.mark.parametrize(
    ("marker", "kind"),
    [
        ("data/inner/metadata/00000-a.metadata.json", TableKind.ICEBERG),
        ("data/inner/metadata/v1.gz.metadata.json", TableKind.ICEBERG),
        ("data/inner/v1.metadata.json.gz", TableKind.ICEBERG),
        ("data/inner/_delta_log/00000000000000000000.json", TableKind.DELTA),
        ("data/inner/.hoodie/hoodie.properties", TableKind.HUDI),
        ("data/inner/snapshot/snapshot-1", TableKind.PAIMON),
        ("data/inner/schema/schema-0", TableKind.PAIMON),
    ],
)
def test_a_table_inside_of_the_folder_stays_whole(table, marker, kind):
    root = path_of(table.location)
    litter(table, marker, "data/inner/data/f.parquet", "data/innermost.parquet")
    assert table_marker(str(root / marker)) == (kind, str(root / "data/inner"))
    done = sweep(table)
    assert gone(done) == {str(root / "data/innermost.parquet")}
    assert [path_of(folder) for folder in done.kept_tables] == [root / "data/inner"]


@pytest.mark.parametrize("marker", ["_delta_log/0.json", ".hoodie/x", "snapshot/snapshot-3", "schema/schema-0"])
def test_a_folder_that_is_a_table_of_another_format_too_is_refused(table, warehouse, marker):
    litter(table, marker, "data/live-there.parquet")
    before = files_below(warehouse)
    with pytest.raises(UnsupportedError, match=r"is also a table of format"):
        sweep(table)
    assert files_below(warehouse) == before


def test_a_folder_with_other_tables_around_it_is_no_reason(table, warehouse):
    (warehouse / "d" / "_delta_log").mkdir()
    (warehouse / "d" / "_delta_log" / "0.json").write_text("{}")
    assert gone(sweep(table)) == set()


def test_a_table_that_was_made_anew_spares_the_one_before(catalog, warehouse):
    before = catalog.create_table("d.x", SCHEMA)
    before.append(rows(0, 10))
    metadata_location = before.metadata_location
    catalog.drop_table("d.x")
    after = catalog.create_table("d.x", SCHEMA)
    after.append(rows(10, 20))
    left = litter(after, *LEFT)
    assert gone(sweep(after)) == left
    again = catalog.register_table("d.again", metadata_location)
    assert keys(again) == [*range(10)]
    assert keys(after) == [*range(10, 20)]


def test_a_state_that_is_newer_than_the_catalogs_is_spared(table, catalog, warehouse):
    """Another catalog has the table too, and is ahead."""
    earlier = table.metadata_location
    other = skerry.connect(warehouse.parent / "other").register_table("d.t", earlier)
    other.append(rows(30, 40))
    other.delete("k < 10")
    left = litter(table, *LEFT)
    assert gone(sweep(table)) == left
    assert keys(other.refresh()) == [*range(10, 40)]


def test_a_newer_state_that_cannot_be_read_stops_everything(table, warehouse):
    strange = json.loads(path_of(table.metadata_location).read_text())
    strange |= {"format-version": 9, "last-updated-ms": strange["last-updated-ms"] + 1}
    (path_of(table.location) / "metadata" / "00009-x.metadata.json").write_text(json.dumps(strange))
    litter(table, *LEFT)
    before = files_below(warehouse)
    with pytest.raises(FormatError, match="this state of the table cannot be read"):
        sweep(table)
    assert files_below(warehouse) == before


@pytest.mark.parametrize("content", [b"", b'{"format-version": 2, "tab', b"[]", b"{}", b"\x1f\x8b\x08junk", b"\xff"])
def test_metadata_that_was_never_finished_is_nobodys(table, content):
    path = path_of(table.location) / "metadata" / "00009-x.metadata.json"
    path.write_bytes(content)
    age(path.parent)
    assert gone(sweep(table)) == {str(path)}


def test_a_newer_state_of_which_a_part_is_gone_is_nobodys(table, catalog, warehouse):
    other = skerry.connect(warehouse.parent / "other").register_table("d.t", table.metadata_location)
    other.append(rows(30, 40))
    snapshot = other.handle.state.snapshot()
    path_of(snapshot.manifest_list).unlink()
    age(warehouse)
    done = sweep(table)
    assert str(path_of(other.metadata_location)) in gone(done)
    assert files_below(warehouse) == oracle(table)


def test_a_folder_that_is_a_whole_store_is_refused(table):
    moved = dataclasses.replace(table.handle.state.metadata, location="memory://all")
    with pytest.raises(UnsupportedError, match="is a whole store"):
        sweep(table, metadata=moved)


def test_gc_disabled_means_no_deletes(table, warehouse):
    litter(table, *LEFT)
    table.set_properties({"gc.enabled": "false"})
    before = files_below(warehouse)
    for dry_run in (True, False):
        with pytest.raises(SchemaError, match=r"gc\.enabled is false"):
            sweep(table, dry_run=dry_run)
    assert files_below(warehouse) == before


# Failures ------------------------------------------------------------------------------------------------------------


def damaged(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes(len(data) - 100))


@pytest.mark.parametrize("damage", [damaged, Path.unlink])
@pytest.mark.parametrize("what", ["manifest list", "manifest"])
@pytest.mark.parametrize("index", [0, -1])
def test_metadata_that_cannot_be_read_stops_everything(table, warehouse, damage, what, index):
    state = table.handle.state
    location = state.metadata.snapshots[index].manifest_list
    if what == "manifest":
        location = read_manifest_list(state.storage, location)[0].manifest_path
    damage(path_of(location))
    litter(table, *LEFT)
    before = files_below(warehouse)
    with pytest.raises((FormatError, NotFoundError)):
        sweep(table)
    assert files_below(warehouse) == before


@pytest.mark.parametrize("method", ["list", "list_folder"])
def test_a_listing_that_fails_stops_everything(table, warehouse, monkeypatch, method):
    litter(table, *(f"data/p={number}/f.parquet" for number in range(40)))
    before = files_below(warehouse)
    work = getattr(Storage, method)

    def fail(self, location):
        if location.endswith(("data/p=7", "/data")):
            raise StorageError("the store failed", location=location)
        return work(self, location)

    monkeypatch.setattr(Storage, method, fail)
    with pytest.raises(StorageError):
        sweep(table)
    assert files_below(warehouse) == before


def test_a_delete_that_fails_says_how_far_it_came(table, warehouse, monkeypatch, tmp_path):
    left = litter(table, *LEFT)
    monkeypatch.setattr("skerry.jobs.orphans._BATCH", 2)
    delete, calls = Storage.delete, []

    def fail_later(self, locations):
        calls.append(1)
        if len(calls) == 3:
            raise StorageError("the store failed")
        delete(self, locations)

    monkeypatch.setattr(Storage, "delete", fail_later)
    with pytest.raises(StorageError, match="not all orphans were deleted"):
        sweep(table, log=str(tmp_path / "log"))
    assert len(left & files_below(warehouse)) == len(left) - 4
    (swept,) = (tmp_path / "log").glob("*-swept.jsonl")
    lines = [json.loads(line) for line in swept.read_text().splitlines()]
    assert {line["file"] for line in lines[1:]}.isdisjoint(f"file://{path}" for path in files_below(warehouse))
    assert lines[0]["files"] == 4


@pytest.mark.parametrize("days", [-1, float("nan"), float("inf"), "3", True])
def test_ages_without_sense(table, days):
    with pytest.raises(SchemaError, match="older_than_days must be a number from 0"):
        sweep(table, older_than_days=days)


def test_an_age_beyond_the_calendar(table):
    with pytest.raises(SchemaError, match="beyond the calendar"):
        sweep(table, older_than_days=1e8)


# Logs, and two phases ------------------------------------------------------------------------------------------------


def test_what_will_be_deleted_is_written_down_first(table, tmp_path, monkeypatch):
    left = litter(table, *LEFT)
    log = tmp_path / "log"
    delete = Storage.delete

    def look_first(self, locations):
        (marked,) = log.glob("d.t-*-marked.jsonl")
        head, *lines = map(json.loads, marked.read_text().splitlines())
        assert head["table"] == "d.t"
        assert (head["phase"], head["files"], head["size_bytes"]) == ("marked", len(left), 11 * len(left))
        assert {str(path_of(line["file"])) for line in lines} == left
        assert {(line["size_bytes"], line["fate"]) for line in lines} == {(11, "marked")}
        delete(self, locations)

    monkeypatch.setattr(Storage, "delete", look_first)
    done = sweep(table, log=str(log))
    marked, swept = map(Path, done.logs)
    assert [path.name.rpartition("-")[2] for path in (marked, swept)] == ["marked.jsonl", "swept.jsonl"]
    fates = {json.loads(line).get("fate") for line in swept.read_text().splitlines()[1:]}
    assert fates == {"deleted"}


def test_marking_and_sweeping_may_be_days_apart(table, tmp_path, warehouse):
    left = litter(table, *LEFT)
    log = sweep(table, dry_run=True, log=str(tmp_path / "log")).logs[0]
    later, touched = (path_of(table.location) / name for name in ("data/later.parquet", LEFT[0]))
    later.write_bytes(b"1")
    for path in (later, touched):
        os.utime(path, (time.time() - 40 * 86_400, time.time() - 40 * 86_400))
    done = sweep(table, marked=log)
    assert gone(done) == left - {str(touched)}, "only what was marked, and is as it was"
    assert later.exists()


def test_a_file_that_was_taken_up_since_it_was_marked_stays(table, tmp_path):
    path = path_of(table.location) / "data" / "late.parquet"
    pq.write_table(rows(100, 110), path)
    age(path.parent)
    log = sweep(table, dry_run=True, log=str(tmp_path / "log")).logs[0]
    table.add_files([str(path)])
    assert sweep(table, marked=log).files == ()
    assert keys(table) == [*range(30), *range(100, 110)]


def test_logs_without_sense_are_refused(table, catalog, tmp_path):
    with pytest.raises(SchemaError, match="would be orphans themselves"):
        sweep(table, log=f"{table.location}/log")
    with pytest.raises(NotFoundError):
        sweep(table, marked=str(tmp_path / "none"))
    litter(table, *LEFT)
    done = sweep(table, log=str(tmp_path / "log"))
    with pytest.raises(FormatError, match="this log of marked orphans is incomplete: phase 'swept'"):
        sweep(table, marked=done.logs[1])
    whole = Path(done.logs[0]).read_text().splitlines()
    for text in ("", "no json", '{"phase": "marked"}', "\n".join(whole[:-1])):
        (tmp_path / "bad.jsonl").write_text(text)
        with pytest.raises(FormatError, match="log of marked orphans"):
            sweep(table, marked=str(tmp_path / "bad.jsonl"))
    with pytest.raises(SchemaError, match=r"marks orphans of another table, d\.t"):
        sweep(catalog.create_table("d.other", SCHEMA), marked=done.logs[0])


# Rivals --------------------------------------------------------------------------------------------------------------


class Meanwhile:
    """An executor that lets others act before its tasks run, once."""

    def __init__(self, action):
        self.action = action

    def map(self, function, tasks):
        if tasks and self.action is not None:
            action, self.action = self.action, None
            action()
        return map(function, tasks)


def test_what_is_committed_while_the_folder_is_listed_stays(catalog, table, warehouse):
    rival = catalog.load_table("d.t")
    left = litter(table, *LEFT)

    def act():
        rival.append(rows(30, 40))
        rival.delete("k < 5")
        age(warehouse)

    assert gone(sweep(table, executor=Meanwhile(act))) == left
    assert keys(table) == [*range(5, 40)]
    assert files_below(warehouse) == oracle(table)


def test_an_old_file_that_is_taken_up_between_mark_and_sweep_is_saved(catalog, table, monkeypatch, tmp_path):
    path = path_of(table.location) / "data" / "late.parquet"
    pq.write_table(rows(100, 110), path)
    left = litter(table, "data/x.parquet", "data/y.parquet")
    rival = catalog.load_table("d.t")
    monkeypatch.setattr("skerry.jobs.orphans._BATCH", 1)
    write = Storage.write

    def add_meanwhile(self, location, data, **how):
        write(self, location, data, **how)
        if location.endswith("-marked.jsonl"):
            rival.add_files([str(path)])

    monkeypatch.setattr(Storage, "write", add_meanwhile)
    done = sweep(table, log=str(tmp_path / "log"))
    assert gone(done) == left
    assert [path_of(file.location) for file in done.saved] == [path]
    assert '"fate": "saved"' in Path(done.logs[1]).read_text()
    assert keys(table.refresh()) == [*range(30), *range(100, 110)]


def test_a_commit_that_comes_too_late_is_told(catalog, table, monkeypatch):
    path = path_of(table.location) / "data" / "late.parquet"
    pq.write_table(rows(100, 110), path)
    age(path.parent)
    rival = catalog.load_table("d.t")
    delete = Storage.delete

    def add_first(self, locations):
        monkeypatch.setattr(Storage, "delete", delete)
        rival.add_files([str(path)])
        delete(self, locations)

    monkeypatch.setattr(Storage, "delete", add_first)
    with pytest.raises(SkerryError, match=r"1 files that were older than the grace period were committed to d\.t"):
        sweep(table)


def test_a_table_that_was_replaced_meanwhile_is_left_alone(catalog, table, warehouse):
    litter(table, *LEFT)

    def replace():
        catalog.drop_table("d.t")
        catalog.create_table("d.t", SCHEMA)

    with pytest.raises(NotFoundError, match="was replaced by another one"):
        sweep(table, executor=Meanwhile(replace))
    assert all((path_of(table.location) / name).exists() for name in LEFT)


@pytest.mark.service
def test_objects_by_other_names_of_their_store(s3_server, tmp_path):
    """One bucket goes by s3, s3a and s3n; keys are literal; nothing outside of the table's prefix is listed."""
    bucket = s3_server.new_bucket()
    place = {"warehouse": f"s3://{bucket}/lake", **s3_server.options}
    catalog = skerry.connect(f"sqlite:///{tmp_path}/catalog.db", **place)
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 10))
    storage = table.handle.state.storage
    needed = [f"{table.location}/data/{name}" for name in ("a 1.stats", "b%202.stats", "c.stats")]
    dead = [f"{table.location}/data/d.parquet", f"{table.location}/data/x/y/z.parquet"]
    beside = [f"{table.location}2/data/e.parquet", f"s3://{bucket}/lake/d/f.parquet"]
    for location in (*needed, *dead, *beside):
        storage.write(location, b"1")
    for snapshot, location in zip(range(3), needed, strict=True):
        table.append(rows(10 + snapshot, 11 + snapshot))
        scheme = ("s3a", "s3n", "https")[snapshot]
        registered = PartitionStatisticsFile(
            snapshot_id=table.snapshots()[-1].snapshot_id,
            statistics_path=location.replace("s3://", f"{scheme}://", 1),
            file_size_in_bytes=1,
        )
        metadata_update(table, SetPartitionStatisticsUpdate(partition_statistics=registered))
    done = table.remove_orphans(older_than_days=0)
    assert sorted(file.location for file in done.files) == sorted(dead)
    assert [file.location for file in done.kept_alike] == [needed[2]], "https is a scheme that nobody can read here"
    for location in (*needed, *beside):
        assert storage.exists(location)
    assert keys(table) == [*range(13)]
