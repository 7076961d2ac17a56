"""Writers keep the trees of primary-key tables in shape, as Paimon's own writers do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skerry.errors import SchemaError, StorageError
from skerry.paimon.evolution.schema_evolution import ChangeOptions, commit_schema
from skerry.paimon.jobs.compact_tasks import run_task
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.table import PaimonTable
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.storage import Storage
from skerry.table.work.background import BackgroundWork

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def make(path: Path, **options: str) -> PaimonTable:
    properties = {"bucket": "1", **options}
    return PaimonTable.create(Storage(), str(path), SCHEMA, primary_key=["id"], properties=properties)


def data(ids: Sequence[int], text: str) -> pa.Table:
    return pa.table({"id": ids, "text": [f"{text}{i}" for i in ids]}, schema=SCHEMA)


def run_count(table: PaimonTable) -> int:
    levels = [entry.file.level for entry in live_entries(table.handle.refresh())]
    return levels.count(0) + len({level for level in levels if level})


@pytest.mark.parametrize(
    ("options", "appends"),
    [({}, 50), ({"bucket": "-1"}, 12), ({"num-sorted-run.compaction-trigger": "3"}, 12)],
    ids=["fixed", "dynamic", "early"],
)
def test_files_stay_few_over_many_appends(tmp_path: Path, options: dict[str, str], appends: int) -> None:
    table = make(tmp_path / "t", **options)
    trigger = int(options.get("num-sorted-run.compaction-trigger", "5"))
    expected = {}
    for number in range(appends):
        ids = range(number * 3, number * 3 + 10)
        made = table.append(data(ids, f"{number}-"))
        assert made is not None
        assert made.operation == "append"
        expected |= {i: f"{number}-{i}" for i in ids}
        assert run_count(table) < trigger
        bucket_states = table.handle._bucket_states["main"].at(table.handle.state)
        assert bucket_states == BucketStates.of(table.handle.state)
        assert bucket_states.run_count(*next(iter(bucket_states.max_sequence))) == run_count(table)
    assert len(live_entries(table.handle.state)) < trigger
    rows = table.scan().to_arrow().to_pydict()
    assert dict(zip(rows["id"], rows["text"], strict=True)) == expected


def test_upserts_too(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for number in range(12):
        table.upsert(data(range(5), f"{number}-"))
        assert run_count(table) < 5
    assert sorted(table.scan(["text"]).to_arrow()["text"].to_pylist()) == [f"11-{i}" for i in range(5)]


def test_batches_of_streams_too(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    changes = make(tmp_path / "c", **{"changelog-producer": "lookup"})
    for number in range(12):
        rows = data(range(5), f"{number}-")
        assert table.append(rows, stream="rows", batch=number).applied
        before = changes.current_snapshot()
        records = rows.append_column("op", pa.array(["c"] * 5))
        assert changes.apply_changes(records, on=["id"], op="op", stream="changes", batch=number).applied
        assert run_count(table) < 5
        assert run_count(changes) < 5
        if before is not None:  # the changelog is there at once: both images of each row
            assert changes.changes(before.snapshot_id).to_arrow().num_rows == 10
    for written in (table, changes):
        assert sorted(written.scan(["text"]).to_arrow()["text"].to_pylist()) == [f"11-{i}" for i in range(5)]


def test_only_what_was_written_to(tmp_path: Path) -> None:
    table = make(tmp_path / "t", **{"bucket": "8", "write-only": "true"})
    for number in range(7):
        table.append(data(range(40), f"{number}-"))
    assert run_count(table) == 8 * 7
    other = PaimonTable.open(Storage(), str(tmp_path / "t"))
    commit_schema(other.handle.state, ChangeOptions({}, ("write-only",)))
    other.handle.refresh()
    other.append(data([1], "new"))
    by_bucket: dict[int, list[int]] = {}
    for entry in live_entries(other.handle.refresh()):
        by_bucket.setdefault(entry.bucket, []).append(entry.file.level)
    assert sorted(map(len, by_bucket.values())) == [1, 7, 7, 7, 7, 7, 7, 7]


def test_an_append_never_fails_because_of_it(tmp_path: Path, monkeypatch: Any) -> None:
    table = make(tmp_path / "t")
    for number in range(4):
        table.append(data(range(5), f"{number}-"))

    def fail(*_: Any) -> Any:
        raise StorageError("the disk is full")

    monkeypatch.setattr("skerry.paimon.jobs.compact.run_task", fail)
    made = table.append(data([7], "last"))
    assert made is not None
    assert made.snapshot_id == table.handle.state.snapshot.id == 5
    monkeypatch.undo()
    assert run_count(table) == 5
    table.append(data([8], "next"))
    assert run_count(table) == 1
    assert table.scan().count() == 7


def test_writers_wait_for_compaction_from_a_number_of_runs_on(tmp_path: Path, monkeypatch: Any) -> None:
    table = make(tmp_path / "t", **{"num-sorted-run.compaction-trigger": "2", "num-sorted-run.stop-trigger": "4"})
    lost: list[bool] = []

    def lose(*_: Any, once: bool, **__: Any) -> Any:
        lost.append(once)
        raise StorageError("a rival was faster")

    monkeypatch.setattr("skerry.paimon.jobs.compact.compact", lose)
    for number in range(4):
        table.append(data(range(5), f"{number}-"))
    assert lost == [True, True, False]


BACKGROUND = {"num-sorted-run.compaction-trigger": "2", "skerry.compaction.background": "true"}


class Gate:
    """Holds compactions back until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        monkeypatch.setattr("skerry.paimon.jobs.compact.run_task", self._pass)

    def _pass(self, *arguments: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            assert self.opened.wait(60)
        return run_task(*arguments)


def test_a_writer_goes_on_while_buckets_are_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    table = make(tmp_path / "t", **BACKGROUND)
    for number in range(4):  # one less than the default stop trigger, 2 + 3
        table.append(data(range(5), f"{number}-"))
        assert run_count(table) == number + 1
    gate.opened.set()
    table.compact()  # what is under way first
    assert run_count(table) == 1
    assert [snapshot.operation for snapshot in table.snapshots()] == ["append"] * 4 + ["replace"] * 2
    assert table.scan().to_arrow().to_pydict() == {"id": [*range(5)], "text": [f"3-{i}" for i in range(5)]}


def test_a_writer_waits_for_the_background_if_there_are_too_many_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    table = make(tmp_path / "t", **{**BACKGROUND, "num-sorted-run.stop-trigger": "3"})
    wait = BackgroundWork.wait

    def open_and_wait(work: BackgroundWork) -> None:
        if work.is_busy:
            gate.opened.set()
        wait(work)

    monkeypatch.setattr(BackgroundWork, "wait", open_and_wait)
    for number in range(3):
        assert not gate.opened.is_set()
        table.append(data(range(5), f"{number}-"))
    assert gate.opened.is_set()
    assert run_count(table) == 1


def test_a_failure_in_the_background_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise StorageError("the disk is full")

    monkeypatch.setattr("skerry.paimon.jobs.compact.run_task", fail)
    table = make(tmp_path / "t", **BACKGROUND)
    for number in range(2):
        table.append(data(range(5), f"{number}-"))
    table.handle._background.wait()
    assert "compacting in the background failed: StorageError: the disk is full" in caplog.text
    monkeypatch.undo()
    table.append(data(range(5), "next"))
    table.handle._background.wait()
    assert run_count(table) == 1


ENDING = """
import sys, time
import pyarrow as pa
import skerry.paimon.jobs.compact as compact
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.work.background import BackgroundWork

def late(*arguments, run=compact.run_task):
    time.sleep(0.3)
    return run(*arguments)

compact.run_task = late
table = PaimonTable.open(Storage(), sys.argv[1])
for number in range(2):
    table.append(pa.table({"id": [1, 2], "text": [str(number)] * 2}))
"""


def test_a_process_waits_for_the_background_before_it_ends(tmp_path: Path) -> None:
    table = make(tmp_path / "t", **BACKGROUND)
    done = subprocess.run([sys.executable, "-c", ENDING, table.location], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert run_count(table) == 1


def test_only_a_flag_allows_the_background(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"skerry\.compaction\.background"):
        make(tmp_path / "t", **{"skerry.compaction.background": "perhaps"})
