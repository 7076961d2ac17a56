"""Compaction and streams of tables whose files have columns of the same rows.

Spec: docs/formats/paimon.md § 8.10, § 10.5.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from skerry.errors import UnsupportedError
from skerry.paimon.jobs.compact import compact
from skerry.paimon.jobs.compact_tasks import CompactionRules
from skerry.paimon.jobs.streaming import PaimonStream
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.connector.stream_choice import StreamChoice

if TYPE_CHECKING:
    from paimon_peers import JavaPaimon, PyPaimon

EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
ALL = ["id", "name", "n", "_row_id"]


def make(tmp_path: Path, schema: pa.Schema = SCHEMA, name: str = "t", **options: str) -> PaimonTable:
    return PaimonTable.create(Storage(), str(tmp_path / name), schema, properties={**EVOLUTION, **options})


def opened(path: Path | str) -> PaimonTable:
    return PaimonTable.open(Storage(), str(path))


def some(first: int, count: int) -> pa.Table:
    return pa.table(
        [list(range(first, first + count)), [f"name {number % 5}" for number in range(count)], list(range(count))],
        schema=SCHEMA,
    )


def rows_of(table: PaimonTable, **how: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan(**{"columns": ALL, **how}).to_arrow().to_pylist()
    return found


def files_of(table: PaimonTable) -> list[tuple[Any, ...]]:
    """What the manifests say about files, but for names and sizes."""
    files = [entry.file for entry in live_entries(table.refresh().handle.state)]
    return sorted(
        (
            file.first_row_id,
            file.row_count,
            file.min_sequence_number,
            file.max_sequence_number,
            file.write_cols or (),
        )
        for file in files
    )


def evolved(tmp_path: Path, **options: str) -> PaimonTable:
    """Six ranges of rows, two of them with updated columns."""
    table = make(tmp_path, **options)
    for number in range(6):
        table.append(some(10 * number, 10))
    table.update({"n": "n + 100"}, where="id IN (3, 31, 35)")
    table.update({"name": "'x'"}, where="id = 33")
    return table


# Compaction ----------------------------------------------------------------------------------------------------------


def test_neighbours_become_one_file_and_rows_stay_the_same(tmp_path: Path) -> None:
    table = evolved(tmp_path, **VECTORS)
    table.delete("id IN (5, 31, 59)")
    table.create_index(["id"], kind="btree")
    before = rows_of(table)
    planned = table.compact(dry_run=True)
    assert (planned.groups, planned.rewritten_files, planned.reasons) == (1, 9, {"many small files": 1})
    done = table.compact()
    assert (done.rewritten_files, done.added_files, done.rows) == (9, 1, 60)
    assert rows_of(table) == before
    assert len(files_of(table)) == 1
    assert table.scan().count() == 57
    assert table.compact(full=True).groups == 0
    assert rows_of(table, where="id = 33") == [row for row in before if row["id"] == 33]
    assert [each.indexed_files for each in table.indexes()] == [1]
    assert str(table.statistics()["n"].freshness).startswith("stale")  # deleted rows are still in the file
    table.analyze()
    assert (str(table.statistics()["n"].freshness), table.statistics()["n"].ndv) == ("fresh", 12)
    table.delete("id = 6")
    table.update({"n": "-1"}, where="id > 57")
    assert [row["id"] for row in rows_of(table, where="n = -1")] == [58]
    assert table.scan().count() == 56


def test_counts_are_fresh_afterwards(tmp_path: Path) -> None:
    table = evolved(tmp_path)
    assert str(table.statistics()["n"].freshness).startswith("upper bound")
    table.compact()
    counts = {name: found.ndv for name, found in table.statistics().items()}
    assert counts == {"id": 60, "name": 6, "n": 13}
    assert str(table.statistics()["n"].freshness) == "fresh"


def test_only_what_is_due_is_rewritten(tmp_path: Path) -> None:
    table = make(tmp_path)
    for number in range(4):
        table.append(some(10 * number, 10))
    assert table.compact().groups == 0  # compaction.min.file-num is 5
    assert table.compact(min_input_files=4).added_files == 1
    table.append(some(40, 10))
    assert table.compact(full=True).rewritten_files == 2
    with pytest.raises(UnsupportedError, match="rows of such tables are not sorted"):
        table.compact(sort_by=["id"])


def test_an_index_of_a_column_that_was_retyped_goes(tmp_path: Path) -> None:
    table = make(tmp_path, pa.schema([("id", pa.int32()), ("n", pa.int64())]))
    for number in range(5):
        table.append(pa.table({"id": pa.array([number], pa.int32()), "n": [number]}))
    table.create_index(["id", "n"], kind="btree")
    table.update_schema().update_column("id", "BIGINT").commit()
    assert table.scan(where="id = 3").count() == 1
    table.compact()
    assert [each.column for each in table.indexes()] == ["n"]
    assert table.scan(where="id = 3").count() == 1
    table.create_index(["id"], kind="btree")
    assert table.scan(where="id = 3").count() == 1


def test_files_of_large_objects_stay(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("b", pa.large_binary()), ("n", pa.int64())])
    table = make(tmp_path, schema, **{"blob-field": "b", "blob-as-descriptor": "false"})
    for number in range(5):
        rows = {"id": [number, number + 10], "b": [b"x" * number, None], "n": [1, 2]}
        table.append(pa.table(rows, schema=schema))
    blobs = sorted(Path(table.location).rglob("*.blob"))
    before = rows_of(table, columns=["id", "b", "n", "_row_id"])
    done = table.compact()
    assert (done.rewritten_files, done.added_files) == (5, 1)
    assert rows_of(table, columns=["id", "b", "n", "_row_id"]) == before
    assert sorted(Path(table.location).rglob("*.blob")) == blobs
    table.update({"n": "5"}, where="id = 3")
    table.compact(full=True)
    assert rows_of(table, columns=["id", "b"]) == [{"id": row["id"], "b": row["b"]} for row in before]


@pytest.mark.parametrize("first", ["update", "compact"])
def test_an_update_and_a_compaction_conflict(tmp_path: Path, first: str) -> None:
    """The second one is done again: columns of a range that is no more would be lost."""
    table = evolved(tmp_path)
    request = table.handle.request()
    load, calls = request.target.load, []

    def load_then_change() -> Any:
        state = load()
        if not calls:
            calls.append(1)
            rival = opened(table.location)
            if first == "update":
                rival.update({"n": "77"}, where="id = 44")
            else:
                rival.compact()
        return state

    request.target.load = load_then_change  # type: ignore[method-assign]
    if first == "update":
        compact(request, CompactionRules())
    else:
        from skerry.paimon.jobs.merge import upsert

        upsert(request, pa.table({"id": [44], "name": ["u"], "n": [77]}, schema=SCHEMA), ("id",))
    found = rows_of(table.refresh())
    assert [row["n"] for row in found if row["id"] == 44] == [77]
    assert len(found) == 60
    table.compact(full=True)
    assert rows_of(table) == found


def test_random_histories(tmp_path: Path) -> None:
    for seed in range(3):
        chance = random.Random(seed)
        table = make(tmp_path, name=f"t{seed}", **VECTORS)
        expected: dict[int, dict[str, Any]] = {}
        fresh = 0
        stream = PaimonStream(table.handle, StreamChoice(changes=True, start="earliest"))
        told: dict[int, dict[str, Any]] = {}
        offset = stream.initial()
        for step in range(14):
            match chance.choice(["append", "append", "update", "delete", "compact", "full"]) if step > 1 else "append":
                case "append":
                    count = chance.randrange(1, 8)
                    table.append(some(fresh, count))
                    for number, row in enumerate(some(fresh, count).to_pylist()):
                        expected[fresh + number] = {**row, "_row_id": fresh + number}
                    fresh += count
                case "update":
                    low = chance.randrange(fresh)
                    table.update({"n": str(step)}, where=f"id >= {low} AND id < {low + 5}")
                    for number in range(low, low + 5):
                        if number in expected:
                            expected[number] = {**expected[number], "n": step}
                case "delete":
                    gone = chance.choice(sorted(expected))
                    table.delete(f"id = {gone}")
                    del expected[gone]
                case "compact":
                    table.compact(min_input_files=3)
                case _:
                    table.compact(full=True)
            assert rows_of(table) == list(expected.values())
            assert table.scan().count() == len(expected)
            if chance.random() < 0.5:
                end = stream.latest(offset)
                for task in stream.plan(offset, end):
                    for batch in task.batches():
                        apply(told, batch.to_pylist())
                offset = end
        applied: dict[int, dict[str, Any]] = {}
        apply(applied, table.changes().to_arrow().to_pylist())
        assert applied == {number: {**row} for number, row in without_ids(expected).items()}
        for task in stream.plan(offset, stream.latest(offset)):
            for batch in task.batches():
                apply(told, batch.to_pylist())
        assert told == without_ids(expected)


def without_ids(rows: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {number: {name: row[name] for name in SCHEMA.names} for number, row in rows.items()}


def apply(state: dict[int, dict[str, Any]], changed: list[dict[str, Any]]) -> None:
    """Apply changes to rows by id: each image that goes is that of the row announced before."""
    for row in changed:
        values = {name: row[name] for name in SCHEMA.names}
        if row["_change_type"] in ("DELETE", "UPDATE_BEFORE"):
            assert state.pop(row["id"]) == values
        else:
            assert row["id"] not in state
            state[row["id"]] = values


# Streams -------------------------------------------------------------------------------------------------------------


def test_a_stream_of_new_rows_refuses_updates_and_reads_appends(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(some(0, 3))
    stream = PaimonStream(table.handle, StreamChoice(start="earliest"))
    begin = stream.latest(stream.initial())
    table.append(some(3, 2))
    table.create_index(["id"], kind="btree")
    table.compact(full=True)
    end = stream.latest(begin)
    read = [row["id"] for task in stream.plan(begin, end) for batch in task.batches() for row in batch.to_pylist()]
    assert read == [3, 4]
    table.update({"n": "7"}, where="id = 1")
    with pytest.raises(UnsupportedError, match="deleted or changed rows"):
        stream.plan(end, stream.latest(end))
    skipping = PaimonStream(table.handle, StreamChoice(start="earliest", skip_changes=True))
    assert skipping.plan(end, skipping.latest(end)) == []


# Peers ---------------------------------------------------------------------------------------------------------------


def test_java_compacts_the_same_files(tmp_path: Path, java_paimon: JavaPaimon, pypaimon: PyPaimon) -> None:
    table = evolved(tmp_path)
    before = rows_of(table)
    shutil.copytree(table.location, tmp_path / "java")
    java_paimon.stitch(tmp_path / "java")
    table.compact()
    java = opened(tmp_path / "java")
    assert files_of(table) == files_of(java)
    assert rows_of(table) == rows_of(java) == before
    plain = [[row[name] for name in SCHEMA.names] for row in before]
    assert java_paimon.read(table.location) == plain
    assert [list(row.values()) for row in pypaimon.read(table.location).to_pylist()] == plain
    for each in (table, java):  # and on
        each.append(some(60, 10))
        each.update({"n": "7"}, where="id = 61 OR id = 1")
    java_paimon.stitch(java.location)
    table.compact()
    assert files_of(table) == files_of(java)
    assert rows_of(table) == rows_of(java)


def test_java_streams_the_same_appends(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    table = make(tmp_path)
    for number in range(3):
        table.append(some(10 * number, 3))
    table.compact(full=True)
    told = table.changes().to_arrow().to_pylist()
    assert [row[2:] for row in java_paimon.changelog(table.location)] == [
        [row[name] for name in SCHEMA.names] for row in told
    ]
