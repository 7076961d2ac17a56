"""Branches, tags, roll-back and expiry of Paimon tables: what is kept, what goes, and what the peers see of it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, PyPaimon

from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SchemaError,
    StorageError,
)
from skerry.paimon.jobs.expire import ExpiryRule, plan_expired
from skerry.paimon.metadata.consumers import write_consumer
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def make(path: Path, **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), SCHEMA, **how)


def data(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "text": [f"x{i}" for i in ids]}, schema=SCHEMA)


def ids(table: PaimonTable, **how: Any) -> list[int]:
    return sorted(table.scan(**how).to_arrow()["id"].to_pylist())


def files(path: Path) -> set[str]:
    return {str(found.relative_to(path)) for found in path.rglob("*") if found.is_file()}


def snapshot(number: int, millis: int) -> Snapshot:
    return Snapshot(
        id=number,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user="u",
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=millis,
    )


@pytest.mark.parametrize(
    ("rule", "wanted", "gone"),
    [
        (ExpiryRule(1, 100, 0), None, 0),
        (ExpiryRule(1, 100, 1000), None, 9),
        (ExpiryRule(3, 100, 1000), None, 7),
        (ExpiryRule(1, 100, 45), None, 4),
        (ExpiryRule(1, 2, 0), None, 8),
        (ExpiryRule(1, 100, 1000), 5, 4),
        (ExpiryRule(20, 100, 1000), None, 0),
    ],
)
def test_which_snapshots_go(rule: ExpiryRule, wanted: int | None, gone: int) -> None:
    snapshots = [snapshot(number, number * 10) for number in range(1, 11)]
    assert [found.id for found in plan_expired(snapshots, rule, wanted)] == list(range(1, gone + 1))


@pytest.mark.spark
@pytest.mark.parametrize("how", [{}, {"primary_key": ["id"], "properties": {"bucket": "1"}}], ids=["append", "key"])
def test_expiry(tmp_path: Path, pypaimon: PyPaimon, java_paimon: JavaPaimon, how: dict[str, Any]) -> None:
    table = make(tmp_path / "t", **how)
    for number in range(4):
        table.append(data(number, number + 100))
    table.create_tag("kept", 2)
    table.delete("id = 3")
    table.compact(full=True)
    newest = ids(table)
    dry = table.expire_snapshots(keep_last=1, older_than=timedelta(0), dry_run=True)
    before = files(tmp_path / "t")
    plan = table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    assert plan == replace(dry, dry_run=False)
    assert plan.snapshot_ids == tuple(range(1, table.handle.state.snapshot.id))
    after = files(tmp_path / "t")
    assert {str(Path(file.location).relative_to(tmp_path / "t")) for file in plan.files} >= {
        name for name in before - after if not name.startswith("snapshot/")
    }
    assert (tmp_path / "t" / "snapshot" / "EARLIEST").read_text() == str(table.handle.state.snapshot.id)
    assert ids(table) == newest
    assert ids(table, ref="kept") == [0, 1, 100, 101]
    assert sorted(pypaimon.read(tmp_path / "t")["id"].to_pylist()) == newest
    assert sorted(row[0] for row in java_paimon.read(tmp_path / "t")) == newest
    tagged = java_paimon.read(tmp_path / "t", options={"scan.tag-name": "kept"})
    assert sorted(row[0] for row in tagged) == [0, 1, 100, 101]
    with pytest.raises(NotFoundError):
        ids(table, snapshot=1)
    assert table.expire_snapshots(keep_last=1, older_than=timedelta(0)).snapshot_ids == ()


def test_expiry_leaves_nothing_behind(tmp_path: Path) -> None:
    """After all but the newest snapshot are gone, only what it reaches is left."""
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "2"})
    for number in range(6):
        table.append(data(*range(number * 3, number * 3 + 9)))
        if number % 2:
            table.compact(full=True)
    expected = ids(table)
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    names = {
        kind: [name for name in files(tmp_path / "t") if name.startswith(kind)]
        for kind in ("bucket", "manifest/manifest-", "snapshot/snapshot-", "skerry", "statistics")
    }
    assert len(names["bucket"]) == 2
    assert len(names["snapshot/snapshot-"]) == len(names["skerry"]) == len(names["statistics"]) == 1
    assert ids(table) == expected


def test_consumers_hold_expiry(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for number in range(5):
        table.append(data(number))
    write_consumer(Storage(), table.handle.state.paths, "reader", 3)
    assert table.expire_snapshots(keep_last=1, older_than=timedelta(0)).snapshot_ids == (1, 2)


def test_options_and_moments(tmp_path: Path) -> None:
    table = make(tmp_path / "t", properties={"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"})
    for number in range(5):
        table.append(data(number))
    long_ago = datetime.datetime(2000, 1, 1)
    assert table.expire_snapshots(older_than=long_ago, dry_run=True).snapshot_ids == ()
    assert table.expire_snapshots().snapshot_ids == (1, 2)
    with pytest.raises(SchemaError, match="keep_last"):
        table.expire_snapshots(keep_last=0)


@pytest.mark.spark
def test_branches(tmp_path: Path, pypaimon: PyPaimon, java_paimon: JavaPaimon) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "1"})
    table.append(data(1))
    table.create_branch("dev")
    table.append(data(2), ref="dev")
    table.append(data(3))
    assert ids(table) == [1, 3]
    assert ids(table, ref="dev") == [1, 2]
    assert sorted(row[0] for row in java_paimon.read(table.location, branch="dev")) == [1, 2]
    assert sorted(pypaimon.read(table.location, branch="dev")["id"].to_pylist()) == [1, 2]
    assert [(ref.name, ref.kind) for ref in table.refs().values()] == [
        ("main", "branch"),
        ("branch-dev", "tag"),
        ("dev", "branch"),
    ]
    with pytest.raises(ConflictError):
        table.fast_forward("main", "dev")
    table.delete("id = 1", ref="dev")
    table.compact(ref="dev", full=True)
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    assert ids(table, ref="dev") == [2]
    table.drop_ref("dev")
    assert list(table.refs()) == ["main"]
    with pytest.raises(NotFoundError, match="no branch"):
        table.append(data(4), ref="dev")


def test_what_is_left_of_a_branch_that_was_dropped_in_part_is_an_orphan(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.append(data(1))
    before = files(tmp_path / "t")
    table.create_branch("dev")
    table.append(data(2), ref="dev")
    (tmp_path / "t/branch/branch-dev/schema/schema-0").unlink()
    table.drop_ref("branch-dev")  # the tag at its begin
    table.remove_orphans(older_than=timedelta(0))
    assert files(tmp_path / "t") == before
    assert ids(table) == [1]


def test_expiry_of_main_leaves_branches_alone(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.append(data(1))
    table.create_branch("dev")
    table.overwrite(data(9))
    table.append(data(2), ref="dev")
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    assert ids(table, ref="dev") == [1, 2]
    assert ids(table) == [9]


def test_fast_forward(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.append(data(1))
    table.create_branch("dev")
    table.append(data(2), ref="dev")
    table.append(data(3), ref="dev")
    assert table.fast_forward("main", "dev").snapshot_id == 3
    table.handle.refresh()
    assert ids(table) == [1, 2, 3]


@pytest.mark.parametrize("step", ["fast_forward", "rollback"])
def test_a_move_that_fails_half_way_is_said_to_be_unknown_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    table = make(tmp_path / "t")
    table.append(data(1))
    table.create_branch("dev")
    for number in 2, 3:
        table.append(data(number), ref="dev")

    def move() -> int:
        found = table.fast_forward("main", "dev") if step == "fast_forward" else table.rollback(1, ref="dev")
        return found.snapshot_id

    changed = []

    def fail_at_the_second(method: Callable[..., Any], self: Storage, target: Any, *more: Any, **how: Any) -> Any:
        if "/snapshot-" in str(target):
            changed.append(target)
            if len(changed) == 2:
                raise StorageError("no luck")
        return method(self, target, *more, **how)

    name = "write" if step == "fast_forward" else "delete"
    monkeypatch.setattr(Storage, name, partialmethod(partial(fail_at_the_second, getattr(Storage, name))))
    with pytest.raises(CommitUnknownError, match="may or may not"):
        move()
    assert len(changed) == 2
    assert move() == (3 if step == "fast_forward" else 1)
    assert ids(table) == ([1, 2, 3] if step == "fast_forward" else [1])


def test_names_are_taken_once(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.create_branch("early")
    with pytest.raises(NotFoundError, match="no snapshot yet"):
        table.create_tag("t1")
    table.append(data(1))
    table.create_tag("t1")
    with pytest.raises(AlreadyExistsError):
        table.create_tag("t1")
    with pytest.raises(AlreadyExistsError):
        table.create_branch("t1")
    with pytest.raises(AlreadyExistsError):
        table.create_tag("early")
    with pytest.raises(SchemaError, match="is a tag"):
        table.append(data(2), ref="t1")
    table.append(data(2))
    table.create_tag("t1", replace=True)
    assert table.refs()["t1"].snapshot_id == 2
    table.append(data(7), ref="early")
    assert ids(table, ref="early") == [7]
    table.drop_ref("t1")
    with pytest.raises(NotFoundError, match="no branch or tag 't1'"):
        table.drop_ref("t1")
    with pytest.raises(SchemaError, match="main"):
        table.drop_ref("main")


@pytest.mark.spark
def test_rollback(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "1", "write-only": "true"})
    for number in range(5):
        table.append(data(number))
    table.create_tag("later", 4)
    before = files(tmp_path / "t" / "bucket-0")
    assert table.rollback(2).snapshot_id == 2
    table.handle.refresh()
    assert ids(table) == [0, 1]
    assert ids(table, ref="later") == [0, 1, 2, 3]
    assert len(before) - len(files(tmp_path / "t" / "bucket-0")) == 1
    assert sorted(row[0] for row in java_paimon.read(table.location)) == [0, 1]
    table.append(data(50))
    assert ids(table) == [0, 1, 50]
    moment = datetime.datetime.fromtimestamp(table.handle.snapshots()[0].time_millis / 1000, datetime.UTC)
    assert table.rollback(moment).snapshot_id == 1
    with pytest.raises(NotFoundError):
        table.rollback(99)
