"""Statistics entries of the metadata are thinned with every commit, and nothing that anyone needs is lost."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.errors import CommitUnknownError
from skerry.storage import Storage
from skerry.table.work.remembered import Remembered

NO_LOG = {"write.metadata.previous-versions-max": "3"}


def rows(start, stop):
    return pa.table(
        {
            "k": pa.array(range(start, stop), pa.int64()),
            "s": pa.array([f"s{key % 7}" for key in range(start, stop)], pa.string()),
        }
    )


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def make(catalog, commits, properties=None):
    table = catalog.create_table("d.t", rows(0, 0).schema, properties=properties or {})
    for number in range(commits):
        table.append(rows(10 * number, 10 * number + 10))
    return table


def entries(table):
    """The snapshots with an entry."""
    return [file.snapshot_id for file in table.refresh().handle.state.metadata.statistics]


def puffins(table):
    return {path.name for path in Path(table.location.removeprefix("file://"), "metadata").glob("*.stats")}


def named(table):
    """The statistics files that existing metadata files name."""
    found = set()
    for path in Path(table.location.removeprefix("file://"), "metadata").glob("*.metadata.json"):
        text = path.read_text()
        found |= {name for name in puffins(table) if name in text}
    return found


def check_fresh(table, distinct, ref="main"):
    table.refresh()
    found = table.statistics()["k"]
    assert str(found.freshness) == "fresh"
    assert found.ndv == found.lower == found.upper == distinct


def test_one_entry_is_left_of_a_line_of_commits(catalog):
    table = make(catalog, 12)
    assert entries(table) == [table.current_snapshot().snapshot_id]
    check_fresh(table, 120)
    assert len(puffins(table)) == 12, "earlier metadata files name the others"


def test_a_statistics_file_goes_with_the_last_metadata_file_that_names_it(catalog):
    table = make(catalog, 12, NO_LOG)
    metadata = list(Path(table.location.removeprefix("file://"), "metadata").glob("*.metadata.json"))
    assert len(metadata) == 4
    assert puffins(table) == named(table)
    assert len(puffins(table)) == 4


def test_a_writer_that_knows_nothing_of_earlier_commits_deletes_the_same(catalog, monkeypatch):
    monkeypatch.setattr("skerry.iceberg.old_metadata._NAMED", Remembered(0))
    table = make(catalog, 12, NO_LOG)
    assert puffins(table) == named(table)
    assert len(puffins(table)) == 4


def test_nothing_is_deleted_if_the_table_says_so(catalog):
    table = make(catalog, 6, {**NO_LOG, "write.metadata.delete-after-commit.enabled": "false"})
    assert len(puffins(table)) == 6
    assert puffins(table) == named(table)


def test_a_warm_writer_reads_no_earlier_metadata(catalog, monkeypatch):
    table = make(catalog, 6, NO_LOG)
    reads = []
    real = Storage.read

    def read(self, location, *arguments, **options):
        reads.append(location)
        return real(self, location, *arguments, **options)

    monkeypatch.setattr(Storage, "read", read)
    before = table.metadata_location
    table.append(rows(60, 70))
    assert {location for location in reads if location.endswith(".metadata.json")} <= {before}


def test_nothing_is_deleted_after_an_unknown_outcome(catalog, monkeypatch):
    table = make(catalog, 6, NO_LOG)
    before = puffins(table)
    published = type(table.handle.catalog).commit_table

    def lose_the_answer(self, *arguments):
        published(self, *arguments)
        raise CommitUnknownError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(type(table.handle.catalog), "commit_table", lose_the_answer)
        patch.setattr("skerry.iceberg.commit.read_back", lambda *arguments: 1 / 0)
        with pytest.raises(CommitUnknownError):
            table.append(rows(60, 70))
    assert before < puffins(table)
    check_fresh(table, 70)


def test_branches_tags_and_staged_snapshots_keep_their_entries(catalog):
    table = make(catalog, 3)
    tagged = table.current_snapshot().snapshot_id
    table.create_tag("then")
    table.create_branch("audit")
    table.append(rows(30, 40), ref="audit")
    table.append(rows(40, 50), ref="audit")
    staged = table.append(rows(50, 60), staged=True).snapshot_id
    table.append(rows(60, 70))
    table.append(rows(70, 80))
    heads = {tagged, staged, table.refs()["audit"].snapshot_id, table.current_snapshot().snapshot_id}
    assert set(entries(table)) == heads
    table.cherry_pick(staged)
    check_fresh(table, 60)
    table.set_current_snapshot(table.refs()["audit"].snapshot_id)
    check_fresh(table, 50)
    table.set_current_snapshot(tagged)
    check_fresh(table, 30)


@pytest.mark.parametrize("cold", [False, True])
def test_a_rollback_finds_the_statistics_of_that_day(catalog, tmp_path, cold):
    table = make(catalog, 8)
    line = [snapshot.snapshot_id for snapshot in table.snapshots()]
    if cold:
        table = skerry.connect(tmp_path / "warehouse").load_table("d.t")
    table.rollback(line[2])
    check_fresh(table, 30)
    assert set(entries(table)) == {line[2], line[-1]}, "the tip that was left can be returned to"
    table.append(rows(30, 45))
    check_fresh(table, 45)
    table.set_current_snapshot(line[-1])
    check_fresh(table, 80)
    table.create_tag("fifth", line[4])
    assert line[4] in entries(table)


def test_a_rollback_to_what_no_metadata_file_names_any_more_is_not_called_fresh(catalog):
    table = make(catalog, 8, NO_LOG)
    table.rollback(table.snapshots()[0].snapshot_id)
    assert str(table.refresh().freshness()["k"]).startswith("absent")
    table.analyze()
    check_fresh(table, 10)


def test_a_column_that_only_an_older_entry_has_keeps_it(catalog):
    table = make(catalog, 2)
    first = table.current_snapshot().snapshot_id
    table.set_properties({"skerry.statistics.columns": "k"})
    table.append(rows(20, 30))
    table.append(rows(30, 40))
    assert entries(table) == [first, table.current_snapshot().snapshot_id], "other engines find s there"
    table.set_properties({"skerry.statistics.columns": "all"})
    table.analyze()
    table.append(rows(40, 50))
    assert entries(table) == [table.current_snapshot().snapshot_id]


def test_expiry_deletes_thinned_files_of_expired_snapshots_alone(catalog):
    table = make(catalog, 8)
    line = [snapshot.snapshot_id for snapshot in table.snapshots()]
    soon = datetime.now(UTC) + timedelta(seconds=1)
    table.expire_snapshots(keep_last=3, older_than=soon)
    assert len(puffins(table)) == 3
    table.remove_orphans(older_than=soon)
    assert len(puffins(table)) == 3
    table.rollback(line[-2])
    check_fresh(table, 70)
