"""Compaction of Paimon tables: planned like Paimon Java, the same rows afterwards, in all readers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, PyPaimon, java_rows

from skerry.errors import UnsupportedError
from skerry.paimon.jobs.compact_plan import SortedRun, TreeShape, plan_full, plan_universal, sorted_runs
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.manifests.manifest import DataFileMeta, FileSource
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from torture import few_of

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("text", pa.string())])


def make(path: Path, **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), SCHEMA, **how)


def data(ids: list[int], text: str) -> pa.Table:
    return pa.table({"id": ids, "part": [i % 2 for i in ids], "text": [f"{text}{i}" for i in ids]}, schema=SCHEMA)


def plain(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def run(level: int, size: int, name: str = "f", sequence: int = 0) -> SortedRun:
    file = DataFileMeta(name, size, 1, level=level, min_sequence_number=sequence, max_sequence_number=sequence)
    return SortedRun(level, (file,))


# Plans ---------------------------------------------------------------------------------------------------------------

SHAPE = TreeShape(trigger=3, size_ratio=1, max_size_amplification=200, num_levels=4)


def planned(*runs: SortedRun, shape: TreeShape = SHAPE) -> tuple[int, int, bool] | None:
    unit = plan_universal(runs, shape)
    return None if unit is None else (len(unit.runs), unit.output_level, unit.drops_deletes)


def test_few_runs_stay() -> None:
    assert planned() is None
    assert planned(run(0, 1), run(3, 1)) is None


def test_all_runs_when_the_oldest_is_small_beside_the_others() -> None:
    assert planned(run(0, 10), run(0, 11), run(3, 10)) == (3, 3, True)
    assert planned(run(0, 10), run(0, 30), run(3, 20)) is None  # 40 on top of 20 is not above 200 %


def test_newest_runs_of_about_one_size() -> None:
    assert planned(run(0, 10), run(0, 10), run(3, 1000)) == (2, 2, False)
    assert planned(run(0, 10), run(0, 10), run(2, 20), run(3, 1000)) == (3, 2, False)


def test_too_many_runs() -> None:
    assert planned(run(0, 1), run(0, 10), run(2, 100), run(3, 1000)) == (2, 1, False)


def test_level_0_is_never_the_output() -> None:
    assert planned(run(0, 1), run(0, 1), run(0, 100), run(0, 100_000), shape=TreeShape(3, 1, 10**6, 4)) == (4, 3, True)
    assert planned(run(0, 1), run(0, 1), run(1, 100), run(3, 10**6), shape=TreeShape(3, 1, 10**6, 4)) == (3, 1, False)


def test_runs_of_files() -> None:
    files = [
        DataFileMeta("a", 1, 1, level=0, max_sequence_number=5),
        DataFileMeta("b", 1, 1, level=2),
        DataFileMeta("c", 1, 1, level=0, max_sequence_number=9),
        DataFileMeta("d", 1, 1, level=2),
        DataFileMeta("e", 1, 1, level=1),
    ]
    found = sorted_runs(files)
    assert [(one.level, [file.file_name for file in one.files]) for one in found] == [
        (0, ["c"]),
        (0, ["a"]),
        (1, ["e"]),
        (2, ["b", "d"]),
    ]


def test_full() -> None:
    assert plan_full([], SHAPE) is None
    assert plan_full([run(3, 5)], SHAPE) is None
    unit = plan_full([run(0, 5), run(3, 5)], SHAPE)
    assert unit is not None
    assert (unit.output_level, unit.drops_deletes) == (3, True)


# Primary keys --------------------------------------------------------------------------------------------------------

ENGINES = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.text.aggregate-function": "max"},
    "sequence field": {"sequence.field": "part"},
    "ORC": {"file.format": "orc"},
    "thin": {"data-file.thin-mode": "true"},
}


@pytest.mark.spark
@pytest.mark.parametrize("engine", few_of(ENGINES, "deduplicate", "partial-update", "aggregation"))
@pytest.mark.parametrize("full", [False, True], ids=["universal", "full"])
def test_rows_stay(tmp_path: Path, pypaimon: PyPaimon, java_paimon: JavaPaimon, engine: str, full: bool) -> None:
    chance = random.Random(7)
    properties = {"bucket": "2", "write-only": "true", **ENGINES[engine]}
    table = make(tmp_path / "t", primary_key=["id"], properties=properties)
    for number in range(12):
        table.append(data(sorted(chance.sample(range(60), 15)), f"{number:02}-"))
        before = plain(table.scan().to_arrow())
        counts = table.compact(full=full and number % 5 == 4)
        assert plain(table.scan().to_arrow()) == before
        if counts.added_files:
            assert table.handle.state.snapshot.commit_kind is CommitKind.COMPACT
    after = table.scan().to_arrow()
    assert sorted(java_paimon.read(tmp_path / "t")) == sorted(java_rows(after))
    assert plain(pypaimon.read(tmp_path / "t")) == plain(after)
    if full:
        table.compact(full=True)
        entries = live_entries(table.handle.state)
        assert {entry.file.level for entry in entries} == {5}
        assert {entry.file.file_source for entry in entries} == {FileSource.COMPACT}
        assert table.compact(full=True).added_files == 0


def test_deletes_vanish_at_the_bottom(tmp_path: Path) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "1"})
    table.append(data(list(range(20)), "a"))
    table.delete("id < 15")
    assert sum(entry.file.delete_row_count or 0 for entry in live_entries(table.handle.state)) == 15
    table.compact(full=True)
    (entry,) = live_entries(table.handle.state)
    assert (entry.file.row_count, entry.file.delete_row_count) == (5, 0)
    assert table.handle.state.snapshot.total_record_count == 5


def test_large_files_only_move(tmp_path: Path) -> None:
    options = {
        "bucket": "1",
        "target-file-size": "1 kb",
        "num-sorted-run.compaction-trigger": "2",
        "write-only": "true",
    }
    table = make(tmp_path / "t", primary_key=["id"], properties=options)
    for start in (0, 1000, 2000):
        table.append(data(list(range(start, start + 300)), "a"))
    names = {entry.file.file_name for entry in live_entries(table.handle.state)}
    counts = table.compact(full=True)
    assert (counts.moved_files, counts.added_files) == (len(names), 0)
    after = live_entries(table.handle.state)
    assert {entry.file.file_name for entry in after} == names
    assert {entry.file.level for entry in after} == {2}
    assert table.scan().count() == 900


@pytest.mark.spark
def test_in_turns_with_java(tmp_path: Path, java_paimon: JavaPaimon, pypaimon: PyPaimon) -> None:
    """We compact what Java wrote, and Java what we wrote."""
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "2"})
    expected: dict[int, tuple[Any, ...]] = {}
    chance = random.Random(3)
    for number in range(12):
        rows = data(sorted(chance.sample(range(50), 10)), f"{number}-")
        if number % 3 == 0:
            java_paimon.write(table.location, java_rows(rows), compaction="full" if number % 6 == 0 else None)
        elif number % 3 == 1:
            table.append(rows)
        else:
            pypaimon.write(table.location, rows)
        expected |= {row["id"]: tuple(row.values()) for row in rows.to_pylist()}
        if number % 4 == 3:
            gone = chance.choice(sorted(expected))
            table.delete(f"id = {gone}")
            del expected[gone]
            table.compact(full=number % 8 == 3)
        table.handle.refresh()
        assert plain(table.scan().to_arrow()) == sorted(expected.values())
        assert sorted(map(tuple, java_paimon.read(table.location))) == sorted(expected.values())


# Append tables -------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "id"}, {"deletion-vectors.enabled": "true"}])
def test_small_files_become_one(
    tmp_path: Path, java_paimon: JavaPaimon, pypaimon: PyPaimon, options: dict[str, str]
) -> None:
    table = make(tmp_path / "t", properties=options, partition_by=["part"])
    for number in range(6):
        table.append(data(list(range(number * 10, number * 10 + 10)), "a"))
    table.delete("id in (7, 8, 33)")
    expected = plain(table.scan().to_arrow())
    assert len(expected) == 57
    assert table.compact(dry_run=True).dry_run
    counts = table.compact()
    assert counts.rows == 57
    assert plain(table.scan().to_arrow()) == expected
    assert plain(pypaimon.read(tmp_path / "t")) == expected
    assert sorted(map(tuple, java_paimon.read(tmp_path / "t"))) == expected
    assert len(live_entries(table.handle.state)) == (4 if "bucket" in options else 2)
    assert index_entries(table.handle.state) == []
    assert table.compact().added_files == 0


def test_two_compactions_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from skerry.paimon.commit import PaimonTarget

    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "1", "write-only": "true"})
    for number in range(6):
        table.append(data(list(range(number, number + 10)), "a"))
    publish, waiting = PaimonTarget.publish, ["rival"]

    def late(target: PaimonTarget, staged: Any) -> Any:
        if waiting:
            waiting.clear()
            rival = PaimonTable.open(Storage(), table.location)
            rival.append(data([99], "r"))
            rival.compact(full=True)
        return publish(target, staged)

    monkeypatch.setattr(PaimonTarget, "publish", late)
    table.compact(full=True)
    assert table.scan().count() == 16
    assert len(live_entries(table.handle.state)) == 1
    assert len(list((tmp_path / "t" / "bucket-0").iterdir())) == 7 + 1


def test_only_some_partitions(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=["part"])
    for number in range(5):
        table.append(data([number * 2, number * 2 + 1], "a"))
    assert table.compact("part = 1").rewritten_files == 5
    assert len(live_entries(table.handle.state)) == 6
    with pytest.raises(UnsupportedError, match="partition keys"):
        table.compact("id = 1")
