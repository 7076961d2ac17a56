"""`skerry refs` and `skerry expire`: what they change, and what they print."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app
from skerry.cli.options import moment_of


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    made = skerry.connect(tmp_path).create_table("d.t", pa.schema([("k", pa.int64())]))
    for k in range(3):
        made.append(pa.table({"k": [k]}))
    return made


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_branches_and_tags(table):
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    assert run("refs", "tag", "d.t", "first", "--at", ids[0]) == f"d.t: tag first at snapshot {ids[0]}\n"
    assert run("refs", "branch", "d.t", "work", "--at", "first") == f"d.t: branch work at snapshot {ids[0]}\n"
    assert "branch 'work' already exists" in run("refs", "branch", "d.t", "work", code=1)
    run("refs", "branch", "d.t", "work", "--replace")
    assert {name: ref.snapshot_id for name, ref in table.refresh().refs().items()} == {
        "main": ids[2],
        "first": ids[0],
        "work": ids[2],
    }
    table.set_retention("work", max_ref_age=dt.timedelta(days=2), min_snapshots_to_keep=4)
    head, *listed = [line.split("\t") for line in run("refs", "ls", "d.t").splitlines()]
    assert head == ["ref", "kind", "snapshot", "max_age_s", "max_snapshot_age_s", "min_snapshots"]
    assert listed[1:] == [
        ["first", "tag", str(ids[0]), "", "", ""],
        ["work", "branch", str(ids[2]), "172800.0", "", "4"],
    ]
    assert json.loads(run("refs", "ls", "d.t", "--json"))[0]["ref"] == "main"
    assert run("refs", "drop", "d.t", "work") == "d.t: dropped work\n"
    assert "no branch or tag 'work'" in run("refs", "drop", "d.t", "work", code=1)


def test_moving_branches(table):
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    table.create_branch("ahead")
    assert run("refs", "rollback", "d.t", ids[1]) == f"d.t: branch main at snapshot {ids[1]}\n"
    shown = json.loads(run("refs", "cherry-pick", "d.t", ids[2], "--json"))
    assert shown == {"table": "d.t", "ref": "main", "snapshot": ids[2]}
    run("refs", "rollback", "d.t", table.snapshots()[0].timestamp.isoformat())
    assert table.refresh().scan().count() == 1
    run("refs", "fast-forward", "d.t", "ahead")
    assert table.refresh().scan().count() == 3
    staged = table.append(pa.table({"k": [9]}), staged=True, snapshot_properties={"wap.id": "job"})
    assert run("refs", "publish", "d.t", "job") == f"d.t: branch main at snapshot {staged.snapshot_id}\n"
    assert f"branch 'main' has snapshot {staged.snapshot_id} already" in run("refs", "publish", "d.t", "job", code=1)
    table.refresh().append(pa.table({"k": [10]}), ref="ahead")
    assert "cannot be fast-forwarded" in run("refs", "fast-forward", "d.t", "ahead", code=3)
    assert "has no snapshot from" in run("refs", "rollback", "d.t", "10w", code=1)


def test_expiry(table):
    assert run("expire", "d.t") == "d.t: nothing to do\n"
    told = run("expire", "d.t", "--older-than", "0s", "--keep-last", "2", "--dry-run")
    assert told.startswith("d.t: 1 snapshots would expire, 2 files (")
    assert told.endswith(" would be deleted\n")
    assert len(table.refresh().snapshots()) == 3
    shown = json.loads(run("expire", "d.t", "--older-than", "0s", "--json"))
    assert [file["kind"] for file in shown["files"]].count("manifest list") == 2
    assert shown["size_bytes"] == sum(file["size_bytes"] for file in shown["files"])
    assert (len(shown["snapshots"]), shown["refs"], shown["dry_run"], shown["kept_outside"]) == (2, [], False, [])
    assert table.refresh().scan().count() == 3
    assert "'yesterday' is neither a time" in run("expire", "d.t", "--older-than", "yesterday", code=2)


def test_points_in_time():
    before = dt.datetime.now(dt.UTC)
    week_ago = moment_of("7d", "x")
    assert before <= week_ago + dt.timedelta(days=7) <= dt.datetime.now(dt.UTC)
    assert moment_of("90m", "x") >= before - dt.timedelta(minutes=90)
    assert moment_of("2026-01-02T03:04:05+00:00", "x") == dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert moment_of("2026-01-02", "x").utcoffset() is not None
