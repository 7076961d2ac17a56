"""Changelogs that outlive their snapshots: which expire, which files stay for them, and what Java reads and expires."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, java_rows

from skerry.errors import NotFoundError
from skerry.paimon.metadata.changelogs import changelog_ids, changes_list, keep_changelog
from skerry.paimon.metadata.consumers import write_consumer
from skerry.paimon.metadata.snapshots import snapshot_ids
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
RETAINED = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "changelog.num-retained.max": "8"}
TABLES: dict[str, dict[str, Any]] = {
    "lookup": {"primary_key": ["id"], "properties": {"bucket": "1", "changelog-producer": "lookup"}},
    "input": {"primary_key": ["id"], "properties": {"bucket": "1", "changelog-producer": "input"}},
    "none": {"primary_key": ["id"], "properties": {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}},
    "append": {},
}


def make(path: Path, how: dict[str, Any], **options: str) -> PaimonTable:
    properties = {**how.get("properties", {}), **RETAINED, **options}
    return PaimonTable.create(Storage(), str(path), SCHEMA, **{**how, "properties": properties})


def data(ids: list[int], text: str) -> pa.Table:
    return pa.table({"id": ids, "text": [f"{text}{i}" for i in ids]}, schema=SCHEMA)


def kept(table: PaimonTable) -> tuple[list[int], list[int]]:
    """The numbers of snapshots and of changelogs."""
    state = table.handle.refresh()
    return snapshot_ids(state.storage, state.paths), changelog_ids(state.storage, state.paths)


def changes(table: PaimonTable, start: int) -> list[tuple[Any, ...]]:
    names = ["_commit_snapshot_id", "_change_type", "id", "text"]
    return [tuple(row.values()) for row in table.changes(start).to_arrow().select(names).to_pylist()]


@pytest.mark.parametrize("how", TABLES.values(), ids=TABLES)
def test_changelogs_stay_readable_until_they_expire(tmp_path: Path, how: dict[str, Any]) -> None:
    table = make(tmp_path / "t", how)
    chance = random.Random(7)
    seen: list[tuple[Any, ...]] = []
    for number in range(9):
        table.append(data(chance.sample(range(12), 3), f"{number}-"))
        if how and number == 4:
            table.compact(full=True)
        last = table.handle.state.snapshot.id
        if seen:
            seen += changes(table, seen[-1][0])
        else:
            seen = changes(table, 0)
        done = table.expire_snapshots()
        snapshots, changelogs = kept(table)
        assert snapshots == list(range(max(last - 2, 1), last + 1))
        # the newest changelog stays, as in Java
        assert changelogs == [n for n in range(max(last - 7, 1), snapshots[0]) if n]
        assert all(number < snapshots[0] for number in done.changelog_ids)
        oldest = min([*changelogs, *snapshots])
        assert changes(table, oldest - 1) == [row for row in seen if row[0] >= oldest]
        if oldest > 1:
            with pytest.raises(NotFoundError, match="expired"):
                changes(table, oldest - 2)
        assert table.remove_orphans(older_than_days=0, dry_run=True).files == ()
    assert changes(table, oldest - 1)
    assert table.scan().count()
    table.copy_to(str(tmp_path / "copy"))
    copied = PaimonTable.open(Storage(), str(tmp_path / "copy"))
    assert kept(copied) == kept(table)
    assert changes(copied, oldest - 1) == changes(table, oldest - 1)


def test_a_tag_keeps_the_files_of_a_changelog_that_expires(tmp_path: Path) -> None:
    table = make(tmp_path / "t", TABLES["lookup"], **{"changelog.num-retained.max": "4"})
    for number in range(2):
        table.append(data([1, 2], f"{number}-"))
    table.create_tag("old")
    for number in range(2, 8):
        table.append(data([1, 2], f"{number}-"))
        table.expire_snapshots()
    assert table.scan(ref="old").to_arrow()["text"].to_pylist() == ["1-1", "1-2"]
    assert table.remove_orphans(older_than_days=0).files == ()
    assert kept(table) == ([14, 15, 16], [13])


def test_changelogs_of_branches_keep_their_files(tmp_path: Path) -> None:
    table = make(tmp_path / "t", TABLES["lookup"])
    table.append(data([1], "a"))
    table.create_branch("b")
    table.append(data([2], "b"), ref="b")
    state = table.handle.branch_state("b")
    assert state.snapshot is not None
    keep_changelog(state.storage, state.paths, state.snapshot)
    state.storage.delete([state.paths.snapshot(state.snapshot.id)])
    names = changes_list(state.schema, state.snapshot)
    table.remove_orphans(older_than_days=0)
    assert names is not None
    assert state.storage.exists(state.paths.manifest(names))


def test_an_older_run_is_repeated(tmp_path: Path) -> None:
    """A run that was killed may have left a changelog beside its snapshot."""
    table = make(tmp_path / "t", TABLES["lookup"])
    for number in range(4):
        table.append(data([1, 2], f"{number}-"))
    state = table.handle.state
    state.storage.write(state.paths.changelog(1), bytes(state.storage.read(state.paths.snapshot(1))))
    before = changes(table, 0)
    assert [file.location for file in table.remove_orphans(older_than_days=0, dry_run=True).files] == [
        state.paths.changelog(1)
    ]
    assert table.expire_snapshots(dry_run=True).snapshot_ids == (1, 2, 3, 4, 5)
    assert kept(table)[1] == [1]
    assert table.expire_snapshots().snapshot_ids == (1, 2, 3, 4, 5)
    assert kept(table) == ([6, 7, 8], [1, 2, 3, 4, 5])
    assert changes(table, 0) == before
    assert table.expire_snapshots().snapshot_ids == ()


@pytest.mark.parametrize("only", ["false", "true"])
def test_consumers_keep_what_they_have_yet_to_read(tmp_path: Path, only: str) -> None:
    table = make(tmp_path / "t", TABLES["lookup"], **{"consumer.changelog-only": only})
    state = table.handle.state
    write_consumer(state.storage, state.paths, "c", 4)
    for number in range(6):
        table.append(data([1, 2], f"{number}-"))
        table.expire_snapshots()
    assert kept(table) == ((list(range(10, 13)), list(range(4, 10))) if only == "true" else (list(range(4, 13)), [3]))
    assert len(changes(table, 3))


def test_age_counts_too(tmp_path: Path) -> None:
    options = {
        "snapshot.num-retained.max": "1000",
        "changelog.num-retained.max": "1000",
        "changelog.time-retained": "2 h",
    }
    table = make(tmp_path / "t", TABLES["lookup"], **options)
    for number in range(4):
        table.append(data([1], f"{number}-"))
    assert table.expire_snapshots().snapshot_ids == ()
    assert len(table.expire_snapshots(keep_last=2, older_than=future()).snapshot_ids) == 6
    assert kept(table) == ([7, 8], [1, 2, 3, 4, 5, 6])


def future() -> datetime.datetime:
    return datetime.datetime(2100, 1, 1)


# ---- beside Java ----


@pytest.mark.spark
@pytest.mark.parametrize("how", TABLES.values(), ids=TABLES)
def test_java_expires_the_same_and_reads_what_is_left(
    tmp_path: Path, java_paimon: JavaPaimon, how: dict[str, Any]
) -> None:
    """Three tables with one history: one expired by Java, one by us, one by both in turns."""
    chance = random.Random(str(how))
    tables = {name: make(tmp_path / name, how) for name in ("java", "ours", "both")}
    for number in range(8):
        rows = data(chance.sample(range(12), 3), f"{number}-")
        is_java = chance.random() < 0.5
        for name, table in tables.items():
            table.handle.refresh()
            table.append(rows)
            if name == "java" or (name == "both" and is_java):
                java_paimon.expire_by_options(table.location)
            else:
                table.expire_snapshots()
        assert kept(tables["java"]) == kept(tables["ours"]) == kept(tables["both"])
    start = min(kept(tables["java"])[1])
    expected = java_paimon.changelog(tables["java"].location, start)
    assert len({row[0] for row in expected}) > 3
    for table in tables.values():
        assert java_paimon.changelog(table.location, start) == expected
        assert [row[2:] for row in changes(table, start - 1)] == [tuple(row[2:]) for row in expected]
        assert java_rows(table.scan().to_arrow().sort_by("id")) == sorted(java_paimon.read(tables["java"].location))
