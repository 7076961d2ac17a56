"""Options that say what a writer does beside its rows: look-ups, records for deletes, tags and marks."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, java_rows

from skerry.errors import UnsupportedError
from skerry.paimon.jobs.publish import ShareLayout, publish, write_share
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.connector.publication import Publication, WriteMode

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False), ("x", pa.int64())]
)


def make(path: Path, keys: tuple[str, ...] = ("id", "day"), **options: str) -> PaimonTable:
    properties = {"bucket": "1"} if keys else {}
    return PaimonTable.create(
        Storage(),
        str(path),
        SCHEMA,
        primary_key=keys,
        partition_by=["day"],
        properties={**properties, **{name.replace("__", "."): text for name, text in options.items()}},
    )


def rows(*days: str) -> pa.Table:
    return pa.table({"id": list(range(len(days))), "day": list(days), "x": [1] * len(days)}, schema=SCHEMA)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_compaction_by_lookup_without_changelog_merges_as_java(
    engine: str, java_paimon: JavaPaimon, tmp_path: Path
) -> None:
    chance = random.Random(engine)
    options = {"force-lookup": "true", "merge-engine": engine, "num-sorted-run.compaction-trigger": "3"}
    if engine == "aggregation":
        options["fields.x.aggregate-function"] = "sum"
    table = make(tmp_path / "ours", **options)
    make(tmp_path / "twin", **options)
    for step in range(5):
        told = [[chance.randrange(9), "a", chance.choice([None, 1, 2])] for _ in range(chance.randrange(1, 9))]
        java_paimon.write(tmp_path / "twin", told, compaction="some")
        if step == 2:
            java_paimon.write(tmp_path / "ours", told, compaction="some")
        else:
            table.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in told], SCHEMA))
    twin = sorted(java_paimon.read(tmp_path / "twin"), key=repr)
    assert sorted(java_rows(table.refresh().scan().to_arrow()), key=repr) == twin
    assert sorted(java_paimon.read(tmp_path / "ours"), key=repr) == twin
    assert all(file["level"] > 0 for file in table.inspect.files().to_pylist())


def test_deleted_partitions_can_have_records(tmp_path: Path) -> None:
    for by_records in ("true", "false"):
        options = {"delete.force-produce-changelog": by_records, "changelog-producer": "input"}
        table = make(tmp_path / by_records, **options)
        table.append(rows("a", "a", "b"))
        before = table.current_snapshot().snapshot_id
        table.delete("day = 'a'")
        assert table.scan().to_arrow()["day"].to_pylist() == ["b"]
        assert table.changes(before).to_arrow()["_change_type"].to_pylist() == ["DELETE"] * 2
        kinds = [snapshot.summary["commit-kind"] for snapshot in table.snapshots()]
        assert kinds == ["APPEND", "APPEND" if by_records == "true" else "OVERWRITE"]
    appended = make(tmp_path / "append", (), **{"delete.force-produce-changelog": "true"})
    appended.append(rows("a", "b"))
    appended.delete("day = 'a'")
    assert appended.scan().count() == 1


def test_batch_commits_move_the_tag_of_their_day(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "batch", "tag.num-retained-max": "2", "tag.default-time-retained": "3 d"}
    table = make(tmp_path / "t", **options)
    table.append(rows("a"))
    for name in ("batch-write-2020-01-02", "batch-write-2020-01-01", "mine"):
        table.create_tag(name)
    table.append(rows("b"))
    table.append(rows("c"), stream="stream", batch=1)  # is not one of a batch job
    today = f"batch-write-{datetime.now():%Y-%m-%d}"
    found = {name: ref for name, ref in table.refs().items() if name != "main"}
    assert sorted(found) == ["batch-write-2020-01-02", today, "mine"]
    assert (found[today].snapshot_id, found[today].max_ref_age) == (2, timedelta(days=3))
    table.set_properties({"tag.batch.customized-name": "newest"})
    table.append(rows("d"))
    assert table.refs()["newest"].snapshot_id == table.current_snapshot().snapshot_id


def test_batch_jobs_mark_their_partitions(tmp_path: Path) -> None:
    table = make(tmp_path / "t", (), **{"partition.end-input-to-done": "true"})
    table.append(rows("a", "b"))
    marks = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.rglob("_SUCCESS")}
    assert set(marks) == {"day=a", "day=b"}
    assert all(mark["creationTime"] == mark["modificationTime"] for mark in marks.values())
    assert abs(marks["day=a"]["creationTime"] / 1000 - datetime.now(UTC).timestamp()) < 60
    (tmp_path / "t" / "day=a" / "_SUCCESS").write_text('{"creationTime": 5, "modificationTime": 6}')
    (tmp_path / "t" / "day=b" / "_SUCCESS").write_text("damaged")
    table.append(rows("a", "b"))
    table.append(rows("c"), stream="stream", batch=1)
    table.compact(full=True)
    marks = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.rglob("_SUCCESS")}
    assert set(marks) == {"day=a", "day=b"}
    assert marks["day=a"]["creationTime"] == 5
    assert marks["day=b"]["creationTime"] > 1 << 40
    table.remove_orphans(older_than=datetime.now(UTC) + timedelta(days=1))
    assert len(list(tmp_path.rglob("_SUCCESS"))) == 2
    table.set_properties({"partition.mark-done-action": "success-file,done-partition"})
    with pytest.raises(UnsupportedError, match="mark-done-action=done-partition with"):
        table.append(rows("a"))
    table.set_properties({"partition.end-input-to-done": "false"})
    table.append(rows("a"))  # nobody is told anything, as in Java


def test_jobs_of_engines_expire_partitions(tmp_path: Path) -> None:
    options = {"partition.expiration-time": "1 d", "partition.expiration-check-interval": "0 s"}
    options |= {"partition.timestamp-formatter": "yyyyMMdd", "write-only": "true"}
    table = make(tmp_path / "t", (), **options)
    publication = Publication(WriteMode.APPEND)
    layout = ShareLayout.of(table.handle, publication)
    share = write_share(layout, publication.mode, rows("20200101", "30200101").to_batches())
    assert publish(table.handle, layout, [share], publication)
    assert table.refresh().scan().to_arrow()["day"].to_pylist() == ["30200101"]
    table.append(rows("20200101"), stream="stream", batch=1)
    assert table.refresh().scan().count() == 1


def test_writers_wait_for_compaction_if_they_are_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def note(*_: Any, once: bool, **__: Any) -> None:
        seen.append(once)

    monkeypatch.setattr("skerry.paimon.jobs.compact.compact", note)
    table = make(tmp_path / "t", **{"commit.force-compact": "true", "num-sorted-run.compaction-trigger": "2"})
    table.append(rows("a"))
    table.append(rows("a"))
    assert seen == [False]
