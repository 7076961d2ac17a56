"""Writers keep the trees of primary-key tables in shape, as Paimon's own writers do."""

from __future__ import annotations

import datetime
import subprocess
import sys
import threading
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skerry.errors import SchemaError, StorageError
from skerry.paimon import recent_runs as module
from skerry.paimon.evolution.schema_evolution import ChangeOptions, commit_schema
from skerry.paimon.jobs import compact_tasks
from skerry.paimon.jobs.compact_tasks import run_task
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.reading import data_files
from skerry.paimon.recent_runs import recent_runs
from skerry.paimon.table import PaimonTable
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.storage import Storage
from skerry.table.work.background import BackgroundWork
from skerry.table.work.batch_cache import BatchCache

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


TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.timestamp("s")),
        ("ns", pa.timestamp("ns")),
        ("time", pa.time32("ms")),
        ("price", pa.decimal128(20, 3)),
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("list", pa.list_(pa.struct([("x", pa.float32()), ("day", pa.date32())]))),
        ("bytes", pa.binary()),
        ("text", pa.string()),
    ]
)


def typed_rows(first: int) -> pa.Table:
    rows = []
    for i in range(first, first + 60):
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=i - 40)
        nested = [{"x": i / 3, "day": at.date()}, None, {"x": None, "day": None}][: i % 4]
        row = [i, at, at, at.time(), Decimal(i) / 8, {"a": i, "b": None}, nested, b"\0" * (i % 3), f"t{i % 7}"]
        rows.append(
            dict(zip(TYPES.names, [row[0], *(None if i % 11 == 5 else value for value in row[1:])], strict=True))
        )
    return pa.Table.from_pylist(rows, schema=TYPES)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_what_was_just_written_is_not_read_again(tmp_path: Path, monkeypatch: Any, file_format: str) -> None:
    """And merges to the same rows and statistics, also after changes of the schema."""
    recent_runs().clear()
    opened: list[str] = []
    open_stored = data_files.open_stored
    monkeypatch.setattr(data_files, "open_stored", lambda *given: (opened.append(given[1]), open_stored(*given))[1])

    def history(name: str) -> tuple[Any, ...]:
        options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", "file.format": file_format}
        table = PaimonTable.create(
            Storage(), str(tmp_path / name), TYPES, primary_key=["id"], properties=options, partition_by=[]
        )
        for number in range(7):
            if number == 2:
                table.update_schema().rename_column("text", "word").add_column("new", pa.int32()).commit()
            if number == 5:
                table.delete("id < 50")
            rows = typed_rows(number * 20)
            if number >= 2:
                rows = rows.rename_columns([*TYPES.names[:-1], "word"]).append_column(
                    "new", pa.array([number] * 60, pa.int32())
                )
            table.append(rows)
        opened.clear()
        files = sorted((entry.file.level, entry.file.row_count) for entry in live_entries(table.handle.state))
        known = {name: (found.ndv, str(found.freshness)) for name, found in table.statistics().items()}
        return table.scan().to_arrow().sort_by("id").to_pylist(), files, known

    def read_by_compaction(name: str) -> tuple[int, tuple[Any, ...]]:
        found: list[str] = []
        with monkeypatch.context() as patch:
            plain = compact_tasks.run_task

            def watched(*given: Any) -> Any:
                before = len(opened)
                done = plain(*given)
                found.extend(opened[before:])
                return done

            patch.setattr("skerry.paimon.jobs.compact.run_task", watched)
            result = history(name)
        return len(found), result

    count, kept = read_by_compaction("kept")
    monkeypatch.setattr("skerry.paimon.reading.data_files.recent_runs", lambda: BatchCache(0))
    monkeypatch.setattr("skerry.paimon.recent_runs.recent_runs", lambda: BatchCache(0))
    all_files, read = read_by_compaction("read")
    assert kept == read
    assert (count, all_files) == (2, 9)  # what a full compaction wrote is kept on disk alone
    mine = list(recent_runs()._batches)
    live = {
        entry.file.file_name for entry in live_entries(PaimonTable.open(Storage(), str(tmp_path / "kept")).handle.state)
    }
    assert {key.rpartition("/")[2] for key in mine} <= live


def test_a_job_of_its_own_keeps_nothing(tmp_path: Path) -> None:
    recent_runs().clear()
    table = make(tmp_path / "t", **{"write-only": "true"})
    for number in range(3):
        table.append(data(range(5), f"{number}-"))
    table.compact()
    assert not recent_runs()._batches


@pytest.mark.parametrize(("limit", "kept"), [(None, 2), ("cache", 0), ("array", 0)])
def test_a_run_that_cannot_be_kept_is_not_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, kept: int
) -> None:
    cache = BatchCache(100 if limit == "cache" else 1 << 20)
    monkeypatch.setattr(module, "recent_runs", lambda: cache)
    if limit == "array":
        monkeypatch.setattr(module, "_ARRAY_BYTES", 100)
    gathered = []
    keep = module.RecentRows.keep
    monkeypatch.setattr(
        module.RecentRows, "keep", lambda rows, *given, **how: (gathered.append(rows._rows), keep(rows, *given, **how))
    )
    table = make(tmp_path / "t", **{"write-buffer-size": "64 gb"})
    for number in range(2):
        table.append(data(range(50), f"{number}-"))
    assert [rows is not None for rows in gathered] == [bool(kept)] * 2
    assert len(cache._batches) == kept


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
from skerry.table.work.batch_cache import BatchCache

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
