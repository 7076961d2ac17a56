"""Branches, tags, cherry-picks, staged writes and rollbacks.

What they move, what they refuse, and who still believes the statistics.
"""

from __future__ import annotations

import datetime as dt

import pytest
from rivals import SCHEMA, beaten_by, files_below, keys, metadata_json, peer, rows

import skerry
from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SchemaError,
)


@pytest.fixture
def warehouse(tmp_path):
    return tmp_path / "warehouse"


@pytest.fixture
def catalog(warehouse):
    return skerry.connect(warehouse)


@pytest.fixture
def table(catalog):
    made = catalog.create_table("d.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1"})
    made.append(rows(0, 10))
    return made


def rival_of(catalog):
    return catalog.load_table("d.t")


def freshness(table):
    return {name: str(column.freshness) for name, column in table.statistics().items()}


FRESH = dict.fromkeys(("k", "s", "d"), "fresh")


# Branches and tags ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_writes_to_a_branch_leave_main_alone(catalog, warehouse, version):
    table = catalog.create_table("d.v", SCHEMA, format_version=version)
    table.append(rows(0, 10))
    table.create_branch("work").create_tag("before")
    snapshot = table.append(rows(10, 30), ref="work")
    assert snapshot == table.current_snapshot("work")
    assert (keys(table), keys(table, ref="work"), keys(table, ref="before")) == (
        [*range(10)],
        [*range(30)],
        [*range(10)],
    )
    assert (
        table.current_snapshot().snapshot_id == table.refs()["main"].snapshot_id == table.refs()["before"].snapshot_id
    )
    assert freshness(table) == FRESH
    theirs = peer(warehouse, "d.v")
    assert theirs.scan(snapshot_id=theirs.metadata.refs["work"].snapshot_id).to_arrow().num_rows == 30
    assert theirs.scan().to_arrow().num_rows == 10


def test_references_tell_their_kind_and_retention(table, warehouse):
    day = dt.timedelta(days=1)
    table.create_branch("b", max_ref_age=9 * day, max_snapshot_age=2 * day, min_snapshots_to_keep=3)
    table.create_tag("a", max_ref_age=day)
    main, tag, branch = table.refs().values()
    assert (main.name, main.kind, tag.name, tag.kind, branch.name, branch.kind) == (
        "main",
        "branch",
        "a",
        "tag",
        "b",
        "branch",
    )
    assert (branch.max_ref_age, branch.max_snapshot_age, branch.min_snapshots_to_keep) == (9 * day, 2 * day, 3)
    assert tag.max_ref_age == day
    table.append(rows(10, 11), ref="b")
    assert list(table.refs().values())[2].min_snapshots_to_keep == 3, "a write keeps the branch's retention"
    assert peer(warehouse, "d.t").metadata.refs["b"].max_snapshot_age_ms == 2 * 86_400_000
    table.set_retention("b", min_snapshots_to_keep=5)
    assert list(table.refs().values())[2] == type(branch)("b", "branch", table.refs()["b"].snapshot_id, None, None, 5)


def test_what_cannot_be_a_reference(table):
    table.create_tag("v1").create_branch("b")
    with pytest.raises(AlreadyExistsError, match="tag 'v1' already exists"):
        table.create_tag("v1")
    with pytest.raises(SchemaError, match="'v1' is a tag and cannot become a branch"):
        table.create_branch("v1", replace=True)
    with pytest.raises(SchemaError, match="'main' is a branch and cannot be a tag"):
        table.create_tag("main", replace=True)
    with pytest.raises(NotFoundError, match="no snapshot 5; it may have expired"):
        table.create_branch("c", 5)
    with pytest.raises(NotFoundError, match="no branch or tag 'v2'; there are: b, main, v1"):
        table.create_branch("c", ref="v2")
    with pytest.raises(SchemaError, match="min_snapshots_to_keep must be a whole number above 0, found 0"):
        table.create_branch("c", min_snapshots_to_keep=0)
    with pytest.raises(SchemaError, match="an age must be at least a millisecond"):
        table.create_tag("c", max_ref_age=dt.timedelta(0))
    with pytest.raises(SchemaError, match="a tag refers to one snapshot"):
        table.set_retention("v1", min_snapshots_to_keep=2)
    with pytest.raises(SchemaError, match="is not a valid branch name"):
        table.create_branch(" ")
    assert set(table.refs()) == {"main", "v1", "b"}


def test_a_table_without_rows_has_nothing_to_name(catalog):
    with pytest.raises(NotFoundError, match="the table has no snapshot yet"):
        catalog.create_table("d.empty", SCHEMA).create_branch("b")


def test_writing_needs_a_branch_that_exists(table, warehouse):
    table.create_tag("v1").create_branch("audit")
    before = files_below(warehouse)
    with pytest.raises(NotFoundError, match="no branch or tag 'audits'; did you mean 'audit'"):
        table.append(rows(10, 11), ref="audits")
    with pytest.raises(SchemaError, match="'v1' is a tag; only branches can be written to"):
        table.append(rows(10, 11), ref="v1")
    assert files_below(warehouse) == before, "nothing was written"


WRITES = {
    "append": lambda table, ref: table.append(rows(10, 11), ref=ref),
    "delete": lambda table, ref: table.delete("k = 3", ref=ref),
    "overwrite": lambda table, ref: table.overwrite(rows(10, 11), ref=ref),
    "upsert": lambda table, ref: table.upsert(rows(9, 11), on=["k"], ref=ref),
    "compact": lambda table, ref: table.compact(full=True, ref=ref),
    "add_files": lambda table, ref: table.add_files([f"{table.location}/x.parquet"], ref=ref),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_refuses_tags_and_branches_that_are_not_there(table, warehouse, write):
    table.create_tag("v1").create_branch("audit")
    before = files_below(warehouse)
    with pytest.raises(NotFoundError, match="no branch or tag 'audits'; did you mean 'audit'"):
        write(table, "audits")
    with pytest.raises(SchemaError, match="'v1' is a tag; only branches can be written to"):
        write(table, "v1")
    assert files_below(warehouse) == before


@pytest.mark.parametrize("name", ["append", "delete", "overwrite", "upsert"])
def test_every_write_to_a_branch_leaves_main_alone(table, name):
    table.create_branch("audit")
    WRITES[name](table, "audit")
    assert keys(table) == [*range(10)]
    assert keys(table, ref="audit") != [*range(10)]
    assert freshness(table) == FRESH


def test_replacing_and_dropping(table):
    first = table.refs()["main"].snapshot_id
    table.create_tag("v").create_branch("b")
    table.append(rows(10, 20))
    table.create_tag("v", replace=True)
    assert table.refs()["v"].snapshot_id == table.refs()["main"].snapshot_id != first
    table.drop_ref("b")
    table.drop_ref("v")
    assert set(table.refs()) == {"main"}
    with pytest.raises(NotFoundError, match="no branch or tag 'b'"):
        table.drop_ref("b")
    with pytest.raises(SchemaError, match="branch 'main' cannot be dropped"):
        table.drop_ref("main")
    assert len(table.snapshots()) == 2, "snapshots stay"


def test_two_writers_make_one_branch(catalog, table, monkeypatch):
    rival = rival_of(catalog)
    attempts = beaten_by(monkeypatch, lambda: rival.create_branch("b"))
    with pytest.raises(AlreadyExistsError, match="branch 'b' already exists"):
        table.create_branch("b")
    assert len(attempts) == 1


# Fast-forward and rollback -------------------------------------------------------------------------------------------


def test_fast_forward_brings_rows_and_statistics(table):
    table.create_branch("work")
    table.append(rows(10, 30), ref="work")
    snapshot = table.fast_forward("main", "work")
    assert snapshot.snapshot_id == table.refs()["main"].snapshot_id == table.refs()["work"].snapshot_id
    assert keys(table) == [*range(30)]
    assert (table.statistics()["k"].ndv, freshness(table)) == (30, FRESH)
    location = table.metadata_location
    table.fast_forward("main", "work")
    assert table.metadata_location == location, "nothing to do, nothing committed"


def test_fast_forward_of_branches_that_have_parted(table):
    table.create_branch("work")
    table.append(rows(10, 20), ref="work")
    table.append(rows(20, 30))
    with pytest.raises(
        ConflictError, match=r"'main' cannot be fast-forwarded to 'work'.*cherry-pick the new snapshots"
    ):
        table.fast_forward("main", "work")
    table.create_tag("v")
    with pytest.raises(SchemaError, match="'v' is a tag"):
        table.fast_forward("v", "main")
    with pytest.raises(NotFoundError, match="did you mean 'work'"):
        table.fast_forward("main", "wok")


def test_a_rival_that_commits_first_is_not_lost_to_a_fast_forward(catalog, table, monkeypatch):
    table.create_branch("work")
    table.append(rows(10, 20), ref="work")
    rival = rival_of(catalog)
    beaten_by(monkeypatch, lambda: rival.append(rows(20, 30)))
    with pytest.raises(ConflictError, match="cannot be fast-forwarded"):
        table.fast_forward("main", "work")
    assert keys(table.refresh()) == [*range(10), *range(20, 30)]


def test_rollback_by_id_and_by_time(table):
    first = table.current_snapshot()
    table.append(rows(10, 20))
    second = table.current_snapshot()
    table.append(rows(20, 30))
    assert table.rollback(second.snapshot_id) == second
    assert (keys(table), table.statistics()["k"].ndv, freshness(table)) == ([*range(20)], 20, FRESH)
    assert table.rollback(first.timestamp) == first
    assert keys(table) == [*range(10)]
    assert [snapshot for _, snapshot in table.history()][-2:] == [second.snapshot_id, first.snapshot_id]
    with pytest.raises(SchemaError, match="is not an ancestor of the tip of branch 'main'; set_current_snapshot moves"):
        table.rollback(second.snapshot_id)
    with pytest.raises(NotFoundError, match="has no snapshot from 1999"):
        table.rollback(dt.datetime(1999, 1, 1))
    with pytest.raises(NotFoundError, match="no snapshot 7"):
        table.rollback(7)
    assert table.set_current_snapshot(second.snapshot_id) == second
    table.append(rows(90, 95))
    assert (keys(table), freshness(table)) == ([*range(20), *range(90, 95)], FRESH)
    assert table.statistics()["k"].ndv == 25


def test_rolling_back_after_a_rival_goes_to_the_same_snapshot(catalog, table, monkeypatch):
    first = table.current_snapshot()
    table.append(rows(10, 20))
    rival = rival_of(catalog)
    attempts = beaten_by(monkeypatch, lambda: rival.append(rows(20, 30)))
    table.rollback(first.snapshot_id)
    assert len(attempts) == 2
    assert keys(table) == [*range(10)]
    assert len(table.snapshots()) == 3, "the rival's snapshot is still there"


# Cherry-pick ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_picked_append_is_united_with_the_branch(catalog, warehouse, version):
    table = catalog.create_table("d.v", SCHEMA, format_version=version, partition_by=["d"])
    table.append(rows(0, 10))
    table.create_branch("work")
    picked = table.append(rows(10, 30), ref="work")
    table.append(rows(30, 60))
    snapshot = table.cherry_pick(picked.snapshot_id)
    assert snapshot.operation == "append"
    assert snapshot.summary["source-snapshot-id"] == str(picked.snapshot_id)
    assert snapshot.summary["added-records"] == "20"
    assert snapshot.summary["total-records"] == "60"
    assert keys(table) == [*range(60)]
    assert (table.statistics()["k"].ndv, freshness(table)) == (60, FRESH)
    assert sorted(peer(warehouse, "d.v").scan().to_arrow()["k"].to_pylist()) == [*range(60)]
    with pytest.raises(AlreadyExistsError, match=f"has snapshot {picked.snapshot_id} already, as"):
        table.cherry_pick(picked.snapshot_id)
    if version == 3:
        metadata = metadata_json(table)
        current = next(s for s in metadata["snapshots"] if s["snapshot-id"] == snapshot.snapshot_id)
        assert (current["first-row-id"], current["added-rows"], metadata["next-row-id"]) == (60, 20, 80)


def test_a_pick_of_the_next_snapshot_moves_the_branch(table):
    table.create_branch("work")
    picked = table.append(rows(10, 30), ref="work")
    assert table.cherry_pick(picked.snapshot_id) == picked
    assert len(table.snapshots()) == 2
    with pytest.raises(AlreadyExistsError, match=f"has snapshot {picked.snapshot_id} already"):
        table.cherry_pick(picked.snapshot_id)


def test_a_pick_counts_the_picked_rows_and_not_those_that_it_was_made_on(table):
    first = table.current_snapshot()
    table.append(rows(100, 110))
    table.create_branch("work")
    picked = table.append(rows(10, 30), ref="work")
    table.rollback(first.snapshot_id)
    snapshot = table.cherry_pick(picked.snapshot_id)
    assert keys(table) == [*range(30)], "without the rows that the picked snapshot was made on"
    assert snapshot.has_statistics
    assert (table.statistics()["k"].ndv, freshness(table)) == (30, FRESH)


def test_a_pick_races_with_an_append(catalog, table, monkeypatch):
    table.create_branch("work")
    picked = table.append(rows(10, 30), ref="work")
    rival = rival_of(catalog)
    beaten_by(monkeypatch, lambda: rival.append(rows(30, 60)))
    snapshot = table.cherry_pick(picked.snapshot_id)
    assert snapshot.summary["source-snapshot-id"] == str(picked.snapshot_id), "no longer the next snapshot"
    assert (keys(table), table.statistics()["k"].ndv) == ([*range(60)], 60)


def test_a_pick_that_lost_to_the_same_pick_adds_nothing_twice(catalog, table, monkeypatch):
    table.create_branch("work")
    picked = table.append(rows(10, 30), ref="work")
    table.append(rows(30, 40))
    rival = rival_of(catalog)
    beaten_by(monkeypatch, lambda: rival.cherry_pick(picked.snapshot_id))
    with pytest.raises(AlreadyExistsError, match="already, as"):
        table.cherry_pick(picked.snapshot_id)
    assert keys(table.refresh()) == [*range(40)]


def test_only_appends_are_picked_onto_a_branch_that_moved_on(table, warehouse):
    table.create_branch("work")
    theirs = peer(warehouse, "d.t")
    theirs.overwrite(rows(500, 510), branch="work")
    deleting = table.refresh().refs()["work"].snapshot_id
    table.append(rows(10, 20))
    with pytest.raises(ConflictError, match="can only follow snapshot"):
        table.cherry_pick(next(s.snapshot_id for s in table.snapshots() if s.operation == "delete"))
    assert deleting in {snapshot.snapshot_id for snapshot in table.snapshots()}


# Write, audit, publish -----------------------------------------------------------------------------------------------


def test_staged_rows_are_seen_when_published(table, warehouse):
    staged = table.append(rows(10, 30), staged=True)
    wap_id = staged.summary["wap.id"]
    assert staged.has_statistics
    assert keys(table) == [*range(10)]
    assert keys(table, snapshot=staged.snapshot_id) == [*range(30)], "the audit"
    assert peer(warehouse, "d.t").scan().to_arrow().num_rows == 10
    assert table.publish(wap_id) == staged
    assert (keys(table), table.statistics()["k"].ndv, freshness(table)) == ([*range(30)], 30, FRESH)
    with pytest.raises(AlreadyExistsError):
        table.publish(wap_id)


def test_two_staged_writes_are_both_published(table):
    one = table.append(rows(10, 30), staged=True, snapshot_properties={"wap.id": "one"})
    table.append(rows(30, 60), staged=True, snapshot_properties={"wap.id": "two"})
    assert table.publish("two").summary["wap.id"] == "two"
    published = table.publish("one")
    assert published.summary["published-wap-id"] == "one"
    assert published.snapshot_id != one.snapshot_id
    assert (keys(table), table.statistics()["k"].ndv, freshness(table)) == ([*range(60)], 60, FRESH)
    with pytest.raises(AlreadyExistsError, match=r"already"):
        table.publish("one")
    with pytest.raises(NotFoundError, match=r"no snapshot has wap.id 'twice'; there are: one, two"):
        table.publish("twice")


def test_the_table_property_stages_every_write_that_has_an_id(table):
    table.set_properties({"write.wap.enabled": "true"})
    staged = table.append(rows(10, 20), snapshot_properties={"wap.id": "job 7"})
    assert staged.snapshot_id != table.refs()["main"].snapshot_id
    table.append(rows(20, 30))
    assert keys(table) == [*range(10), *range(20, 30)]
    table.publish("job 7")
    assert keys(table) == [*range(30)]
    table.append(rows(30, 31), staged=True, snapshot_properties={"wap.id": "job 7"})
    with pytest.raises(ConflictError, match="'job 7' belongs to several snapshots"):
        table.publish("job 7")


def test_one_wap_id_is_published_once_even_from_another_snapshot(catalog, table):
    table.append(rows(10, 20), staged=True, snapshot_properties={"wap.id": "x"})
    second = table.append(rows(20, 30), staged=True, snapshot_properties={"wap.id": "x"})
    first = next(s for s in table.snapshots() if s.summary.get("wap.id") == "x")
    table.cherry_pick(first.snapshot_id)
    with pytest.raises(AlreadyExistsError, match=r"wap.id 'x' was published to branch 'main' already, by snapshot"):
        table.cherry_pick(second.snapshot_id)


def test_an_unknown_outcome_of_a_metadata_change_is_found_in_the_log(catalog, table, monkeypatch):
    inner = table.handle.catalog
    commit_table = inner.commit_table
    rival = rival_of(catalog)

    def commit_and_fail(*arguments):
        monkeypatch.setattr(inner, "commit_table", commit_table)
        commit_table(*arguments)
        rival.set_properties({"other": "writer"})
        raise CommitUnknownError("the connection broke")

    monkeypatch.setattr(inner, "commit_table", commit_and_fail)
    table.create_tag("v1")
    assert "v1" in table.refs()
    assert table.properties["other"] == "writer"


def test_a_branch_begins_at_the_tip_that_is_newest_when_the_commit_succeeds(catalog, table, monkeypatch):
    rival = rival_of(catalog)
    attempts = beaten_by(monkeypatch, lambda: rival.append(rows(10, 20)), lambda: rival.append(rows(20, 30)))
    table.create_branch("b")
    assert len(attempts) == 3
    assert keys(table, ref="b") == [*range(30)]
