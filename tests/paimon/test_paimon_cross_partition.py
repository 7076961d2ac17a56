"""Tables whose keys move between partitions: one row per key, as Paimon Java has it after the same history."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, java_rows

import skerry
from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.change_request import redo_after_conflicts
from skerry.paimon.jobs import key_places
from skerry.paimon.jobs.append import append_batches, commit_rows, known_buckets
from skerry.paimon.jobs.publish import ShareLayout, publish, write_share
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.table import PaimonTable
from skerry.paimon.writing import cross_partition
from skerry.paimon.writing.cross_partition import CrossPartitionKeys
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.table_writers import KIND_COLUMN, write_rows
from skerry.storage import Storage
from skerry.table.connector.publication import Publication, WriteMode
from torture import few_of

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        ("day", pa.string()),
        ("x", pa.int64()),
        ("text", pa.string()),
    ]
)
ENGINES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "deduplicate": ({}, ("+I", "+U", "-D", "-U")),
    "partial-update": ({"merge-engine": "partial-update"}, ("+I", "+U")),
    "aggregation": ({"merge-engine": "aggregation", "fields.x.aggregate-function": "sum"}, ("+I", "+U")),
    "first-row": ({"merge-engine": "first-row", "changelog-producer": "lookup"}, ("+I",)),
}
SMALL = {"dynamic-bucket.target-row-num": "3"}


def make(path: Path, **options: str) -> PaimonTable:
    return PaimonTable.create(
        Storage(),
        str(path),
        SCHEMA,
        primary_key=["id", "region"],
        partition_by=["region", "day"],
        properties={**SMALL, **options},
    )


def random_rows(chance: random.Random, most: int) -> pa.Table:
    rows = [
        {
            "id": chance.randrange(12),
            "region": chance.choice("ab"),
            "day": chance.choice(["1", "2", "3", None]),
            "x": chance.choice([None, 1, 2, 30]),
            "text": chance.choice([None, "ä", "b"]),
        }
        for _ in range(chance.randrange(1, most))
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def append_kinds(table: PaimonTable, rows: pa.Table, kinds: list[str]) -> None:
    numbers = pa.array([["+I", "-U", "+U", "-D"].index(kind) for kind in kinds], pa.int8())
    request = table.handle.request()
    batches = rows.append_column(KIND_COLUMN, numbers).combine_chunks().to_batches()
    redo_after_conflicts(request, lambda state: append_batches(request, state, batches))
    table._keep(request)


def table_rows(table: PaimonTable) -> list[list[Any]]:
    return sorted(java_rows(table.scan().to_arrow()), key=repr)


def by_key(rows: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(row["id"], row["region"]): row for row in rows.to_pylist()}


@pytest.mark.spark
@pytest.mark.parametrize("engine", few_of(ENGINES, "deduplicate", "partial-update"))
def test_rows_are_those_of_java_for_the_same_history(engine: str, java_paimon: JavaPaimon, tmp_path: Path) -> None:
    options, kinds = ENGINES[engine]
    chance = random.Random(engine)
    ours, twin = tmp_path / "ours", tmp_path / "twin"
    for path in (ours, twin):
        make(path, **options)
    table = PaimonTable.open(Storage(), str(ours))
    for step in range(3):
        rows = random_rows(chance, 30)
        told = [chance.choice(kinds) if chance.random() < 0.5 else "+I" for _ in range(rows.num_rows)]
        values = [list(row.values()) for row in rows.to_pylist()]
        compaction = "some" if engine == "first-row" else None
        java_paimon.write(twin, values, kinds=told, compaction=compaction)
        if step == 1:  # the other engine continues, and the index of keys is outdated
            java_paimon.write(ours, values, kinds=told, compaction=compaction)
        else:
            append_kinds(table, rows, told)
    table.refresh()
    assert table_rows(table) == sorted(java_paimon.read(twin), key=repr) == sorted(java_paimon.read(ours), key=repr)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The snapshots whose keys were read."""
    read: list[int] = []

    class Counted(CrossPartitionKeys):
        def __init__(self, layout: WriteLayout, state: PaimonState) -> None:
            super().__init__(layout, state)
            read.append(0 if state.snapshot is None else state.snapshot.id)

    monkeypatch.setattr(key_places, "CrossPartitionKeys", Counted)
    return read


def test_random_histories_have_one_row_per_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_partition, "_STEP_ROWS", 3)  # a key returns in another step, too
    chance = random.Random(7)
    table = make(tmp_path / "t", **{"num-sorted-run.compaction-trigger": "3"})
    want: dict[tuple[Any, ...], dict[str, Any]] = {}
    for step in range(12):
        rows = random_rows(chance, 12)
        match step % 4:
            case 0:
                table.delete("x = 30")
                want = {key: row for key, row in want.items() if row["x"] != 30}
            case 1:
                rows = pa.Table.from_pylist(list(by_key(rows).values()), SCHEMA)
                table.merge(rows, on=["id", "region"], when_matched=skerry.Update(), when_not_matched=skerry.Insert())
                want |= by_key(rows)
            case 2:
                rows = rows.set_column(1, SCHEMA.field(1), pa.array(["a"] * rows.num_rows))
                table.overwrite(rows, "region = 'a'")
                want = {key: row for key, row in want.items() if row["region"] != "a"} | by_key(rows)
            case _:
                table.append(rows)
                want |= by_key(rows)
        found = table.scan().to_arrow()
        assert by_key(found) == want
        assert found.num_rows == len(want)
    counts = {}
    for row in table.inspect.files().to_pylist():
        counts.setdefault(str(row["partition"]), set()).add(row["bucket"])
    assert any(len(buckets) > 1 for buckets in counts.values())
    table.compact(full=True)
    assert by_key(table.scan().to_arrow()) == want


def test_keys_are_read_once_until_another_writer_has_changed_rows(tmp_path: Path, built: list[int]) -> None:
    table = make(tmp_path / "t")
    rows = random_rows(random.Random(1), 20)
    table.append(rows)
    table.append(rows)
    table.compact(full=True)
    table.append(rows)
    assert built == [0]
    PaimonTable.open(Storage(), table.location).append(rows)
    assert built == [0, 4]
    table.append(rows)
    assert built == [0, 4, 5]
    with pytest.raises(SchemaError, match="too long for a folder name"):
        table.append(pa.Table.from_pylist([{"id": 1, "region": "a", "day": "x" * 300}], SCHEMA))
    table.append(rows)
    assert built == [0, 4, 5, 6]  # after a failure nothing is known about what was written


def test_a_writer_that_loses_a_race_writes_its_rows_anew(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    rival = PaimonTable.open(Storage(), table.location)
    first = pa.Table.from_pylist([{"id": 1, "region": "a", "day": "1", "x": 1}], SCHEMA)
    second = pa.Table.from_pylist([{"id": 1, "region": "a", "day": "2", "x": 2}], SCHEMA)
    done = []

    def racing(state: PaimonState) -> None:
        rows = second.append_column(KIND_COLUMN, pa.array([0], pa.int8())).to_batches()
        if not done:
            layout = WriteLayout.of(state)
            buckets, keys = known_buckets(request, state, layout)
            written = write_rows(layout, rows, buckets, keys)
            done.append(rival.append(first))
            commit_rows(request, layout, written, buckets, keys)
        append_batches(request, state, rows)

    request = table.handle.request()
    redo_after_conflicts(request, racing)
    assert table.refresh().scan().to_arrow().to_pylist() == second.to_pylist()


def test_batches_of_engines_keep_the_order_of_keys_across_partitions(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    publication = Publication(WriteMode.APPEND)
    layout = ShareLayout.of(table.handle, publication)
    rows = pa.Table.from_pylist(
        [{"id": 1, "region": "a", "day": day, "x": number} for number, day in enumerate("3212")], SCHEMA
    )
    share = write_share(layout, publication.mode, rows.to_batches(max_chunksize=1))
    assert publish(table.handle, layout, [share], publication)
    assert [(row["day"], row["x"]) for row in table.scan().to_arrow().to_pylist()] == [("2", 3)]
    with pytest.raises(UnsupportedError, match="single partitions of a table whose primary key lacks a partition key"):
        publish(
            table.handle,
            layout,
            [write_share(layout, WriteMode.OVERWRITE_PARTITIONS, rows.to_batches())],
            Publication(WriteMode.OVERWRITE_PARTITIONS),
        )
    table.overwrite(rows.slice(0, 2))
    assert [(row["day"], row["x"]) for row in table.scan().to_arrow().to_pylist()] == [("2", 1)]


def test_deletes_find_the_row_wherever_it_is(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.append(pa.Table.from_pylist([{"id": n, "region": "a", "day": str(n), "x": n} for n in range(3)], SCHEMA))
    records = pa.Table.from_pylist([{"id": 1, "region": "a", "op": "d"}, {"id": 7, "region": "a", "op": "d"}])
    table.apply_changes(records, on=["id", "region"])
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [0, 2]


def test_what_would_leave_two_rows_of_a_key_is_refused(tmp_path: Path) -> None:
    rows = random_rows(random.Random(1), 5)
    with pytest.raises(UnsupportedError, match="ignore-delete=true: a row whose key moves to another partition"):
        make(tmp_path / "a", **{"ignore-delete": "true"}).append(rows)
    table = make(tmp_path / "b", **{"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"})
    table.append(rows)
    with pytest.raises(UnsupportedError, match="merge-engine=partial-update: rows of a table whose primary key lacks"):
        table.delete("x > 0")
