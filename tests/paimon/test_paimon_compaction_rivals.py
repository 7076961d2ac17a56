"""Compaction beside other writers: what they changed is done again, nothing else; and nothing is left of failures."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skerry
from skerry.errors import ConflictError, SkerryError
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.work.tasks import JobProgress, ThreadExecutor

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("text", pa.string())])


def make(path: Path, **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), SCHEMA, **how)


def data(ids: Sequence[int], text: str) -> pa.Table:
    return pa.table({"id": ids, "part": [i % 4 for i in ids], "text": [f"{text}{i}" for i in ids]}, schema=SCHEMA)


def plain(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def stray_files(table: PaimonTable) -> set[str]:
    """Data and index files in the folder that no snapshot ever named."""
    named: set[str] = set()
    for snapshot in table.handle.snapshots():
        state = table.handle.state.at(snapshot)
        named |= {entry.file.file_name for entry in live_entries(state)}
        named |= {entry.file_name for entry in index_entries(state)}
    files = Path(table.location).rglob("*")
    names = {file.name for file in files if file.is_file() and file.parent.name != "manifest"}
    return {name for name in names if name.startswith(("data-", "index-"))} - named


class Interrupted:
    """An executor whose tasks travel as bytes, and that lets somebody else act when all of them are done."""

    def __init__(self, act: Callable[[], Any], times: int = 1) -> None:
        self._act = act
        self._times = times
        self.rounds: list[int] = []

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        self.rounds.append(len(tasks))
        function, sent = pickle.loads(pickle.dumps((function, list(tasks))))
        results = pickle.loads(pickle.dumps([function(task) for task in sent]))
        if self._times:
            self._times -= 1
            self._act()
        yield from results


def test_only_the_lost_bucket_is_done_again(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true"}
    table = make(tmp_path / "t", primary_key=["id", "part"], partition_by=["part"], properties=options)
    for number in range(6):
        table.append(data(range(40), f"{number}-"))
    rival = PaimonTable.open(Storage(), str(tmp_path / "t"))

    def compact_one() -> None:
        assert rival.compact("part = 2", full=True).groups == 1
        rival.append(data([2, 3], "late"))

    executor = Interrupted(compact_one)
    told: list[JobProgress] = []
    counts = table.compact(full=True, executor=executor, progress=told.append)
    assert executor.rounds == [4, 1]  # the late rows make the rival's bucket worth another go
    assert (counts.groups, counts.conflicts) == (4, 0)
    assert told[3] == JobProgress("compact", 24, 24, 40, told[3].done_bytes)
    expected = {i: (i, i % 4, f"5-{i}") for i in range(40)} | {2: (2, 2, "late2"), 3: (3, 3, "late3")}
    assert plain(table.scan().to_arrow()) == sorted(expected.values())
    levels = sorted((entry.partition[-8], entry.file.level) for entry in live_entries(table.handle.state))
    assert levels == [(0, 5), (1, 5), (2, 5), (3, 0), (3, 5)]
    assert stray_files(table) == set()
    assert str(table.statistics()["text"].freshness).startswith("upper bound: 1 of 5 groups")


def test_appends_are_no_rivals(tmp_path: Path) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "2", "write-only": "true"})
    for number in range(5):
        table.append(data(range(10), f"{number}-"))
    rival = PaimonTable.open(Storage(), str(tmp_path / "t"))
    executor = Interrupted(lambda: rival.append(data([1], "late")))
    counts = table.compact(executor=executor)
    assert (executor.rounds, counts.groups, counts.conflicts) == ([2], 2, 0)
    assert plain(table.scan(where="id <= 1").to_arrow()) == [(0, 0, "4-0"), (1, 1, "late1")]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_deletes_meanwhile_stay(tmp_path: Path, vectors: str) -> None:
    table = make(tmp_path / "t", partition_by=["part"], properties={"deletion-vectors.enabled": vectors})
    for number in range(5):
        table.append(data(range(number * 8, number * 8 + 8), ""))
    table.delete("id in (5, 6)")
    rival = PaimonTable.open(Storage(), str(tmp_path / "t"))
    executor = Interrupted(lambda: rival.delete("id in (1, 9)"))
    counts = table.compact(full=True, executor=executor)
    assert executor.rounds == [4, 1]
    assert counts.groups == 4
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == [i for i in range(40) if i not in (1, 5, 6, 9)]
    assert len(live_entries(table.handle.state)) == 4
    assert index_entries(table.handle.state) == []
    assert stray_files(table) == set()


def test_rivals_again_and_again(tmp_path: Path) -> None:
    options = {"commit.max-retries": "2", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
    table = make(tmp_path / "t", partition_by=["part"], properties=options)
    for number in range(3):
        table.append(data(range(number * 100, number * 100 + 60), ""))
    rival = PaimonTable.open(Storage(), str(tmp_path / "t"))
    gone = iter(range(0, 60, 4))
    one = Interrupted(lambda: rival.delete(f"id = {next(gone)}"), times=100)
    counts = table.compact("part in (0, 1)", full=True, executor=one)
    assert (one.rounds, counts.groups, counts.conflicts) == ([2, 1, 1], 1, 1)
    all_of_them = Interrupted(lambda: rival.delete(f"id = {next(gone)}"), times=100)
    before = table.handle.state.snapshot.id
    with pytest.raises(ConflictError, match="removed by another writer"):
        table.compact("part = 0", full=True, executor=all_of_them)
    assert table.handle.refresh().snapshot.id == before + 3
    assert table.scan().count() == 180 - 6
    assert stray_files(table) == set()


class Failing(ThreadExecutor):
    """Fails when some results are in and others are not."""

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        done = [function(task) for task in tasks]
        yield done[0]
        raise SkerryError("a worker is gone")


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=["part"])
    for number in range(3):
        table.append(data(range(number * 100, number * 100 + 60), ""))
    with pytest.raises(SkerryError, match="a worker is gone"):
        table.compact(full=True, executor=Failing())
    assert stray_files(table) == set()
    assert table.compact(full=True, dry_run=True).reasons == {"asked for": 4}
    assert table.compact(full=True).added_files == 4


def test_a_rivals_change_is_seen_after_a_compaction_dropped_its_sequence_numbers(tmp_path: Path) -> None:
    """A full compaction drops delete records, so that the bucket's greatest sequence number falls."""
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "1", "write-only": "true"})
    table.append(data(range(4), "old"))
    table.delete("id >= 2")  # delete records with the greatest sequence numbers
    rival = PaimonTable.open(Storage(), str(tmp_path / "t"))

    def compact_and_change() -> None:
        assert rival.compact(full=True).groups == 1
        assert rival.delete("id = 0").deleted_rows == 1

    update = skerry.Update({"text": "source.text"})
    done = table.merge(data([0], "new"), on="id", when_matched=update, executor=Interrupted(compact_and_change))
    assert done.updated_rows == 0  # the first attempt updated a row that the rival has deleted
    assert table.scan().to_arrow().column("id").to_pylist() == [1]
