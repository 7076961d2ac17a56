"""Deletion vectors of primary-key tables, and first-row tables: written here and by Java in turns on one table."""

from __future__ import annotations

import itertools
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, PyPaimon, java_rows

import skerry
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.planning.vector_locations import vector_locations
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.statistics.column_statistics import FreshnessState
from torture import TORTURE, examples, few_of

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("part", pa.int32(), nullable=False),
        ("amount", pa.int64()),
        ("text", pa.string()),
    ]
)
VECTORS = {"bucket": "2", "deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "3"}
KINDS: dict[str, dict[str, Any]] = {
    "32 bits": {"primary_key": ["id"], "properties": VECTORS},
    "64 bits, sequence": {
        "primary_key": ["id"],
        "properties": VECTORS | {"deletion-vectors.bitmap64": "true", "sequence.field": "amount"},
    },
    "lookup changelog": {"primary_key": ["id"], "properties": VECTORS | {"changelog-producer": "lookup"}},
    "dynamic buckets, partitions": {
        "primary_key": ["part", "id"],
        "partition_by": ["part"],
        "properties": VECTORS | {"bucket": "-1", "dynamic-bucket.target-row-num": "8"},
    },
    "partial-update": {"primary_key": ["id"], "properties": VECTORS | {"merge-engine": "partial-update"}},
    "aggregation": {
        "primary_key": ["id"],
        "properties": VECTORS
        | {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum", "file.format": "orc"},
    },
    "first-row": {"primary_key": ["id"], "properties": {"bucket": "2", "merge-engine": "first-row"}},
}
DELETING = ("32 bits", "dynamic buckets, partitions", "lookup changelog")
Row = tuple[Any, ...]


def make(path: Path, kind: str, **options: str) -> PaimonTable:
    how = KINDS[kind]
    return PaimonTable.create(Storage(), str(path), SCHEMA, **{**how, "properties": how["properties"] | options})


def new_rows(chance: random.Random) -> pa.Table:
    ids = chance.sample(range(60), chance.randrange(1, 20))
    rows = [
        {
            "id": number,
            "part": number % 2,
            "amount": chance.choice([None, *range(9)]),
            "text": chance.choice([None, "a", f"{chance.random()}"]),
        }
        for number in ids
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


class Model:
    """What a table holds, row by row."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.rows: dict[int, Row] = {}

    def add(self, rows: pa.Table) -> None:
        for row in (tuple(row.values()) for row in rows.to_pylist()):
            old = self.rows.get(row[0])
            if old is not None:
                row = self._merged(old, row)
            self.rows[row[0]] = row

    def _merged(self, old: Row, new: Row) -> Row:
        if self.kind == "first-row":
            return old
        if self.kind == "partial-update":
            return tuple(before if after is None else after for before, after in zip(old, new, strict=True))
        if self.kind == "aggregation":
            amount = old[2] if new[2] is None else new[2] if old[2] is None else old[2] + new[2]
            return (*new[:2], amount, old[3] if new[3] is None else new[3])
        if "sequence" in self.kind:  # nulls are the least
            return max(old, new, key=lambda row: (row[2] is not None, row[2] or 0, row is new))
        return new

    def delete(self, ids: range) -> None:
        for number in ids:
            self.rows.pop(number, None)


def check(table: PaimonTable, model: Model, step: str) -> None:
    """What must hold after every commit that compaction has followed."""
    table.refresh()
    rows = [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]
    assert {row[0]: row for row in rows} == model.rows, step
    assert len(rows) == len(model.rows), step
    assert table.scan().count() == len(rows), step
    keys = [{name: row[SCHEMA.names.index(name)] for name in table.primary_key} for row in rows[:5]]
    assert [tuple(row.values()) for row in table.lookup(keys).to_pylist()] == rows[:5], step
    check_counts(table, step)


def check_counts(table: PaimonTable, step: str) -> None:
    """Counts say truly how well they describe the rows that readers see."""
    rows = [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]
    for name, found in table.statistics().items():
        true = len({row[SCHEMA.names.index(name)] for row in rows} - {None})
        if found.freshness.state is FreshnessState.FRESH:
            assert round(found.ndv or 0) == true, (step, name)
        elif found.freshness.state is FreshnessState.UPPER_BOUND:
            assert round(found.ndv or 0) >= true, (step, name)


def _seeds() -> range:
    if not TORTURE:
        return range(1)
    first = random.SystemRandom().randrange(1 << 30)
    return range(first, first + max(int(os.environ.get("SKERRY_HISTORIES", "20")) // len(KINDS), 1))


@pytest.mark.parametrize("seed", _seeds())
@pytest.mark.parametrize("kind", KINDS)
def test_histories(tmp_path: Path, kind: str, seed: int) -> None:
    chance = random.Random(f"{kind} {seed}")
    table, model = make(tmp_path / "t", kind), Model(kind)
    past: dict[int, dict[int, Row]] = {}
    for number in range(examples(9, 14)):
        step = chance.choice(["append", "append", "upsert", "delete", "compact", "full", "merge"])
        if step in ("append", "upsert"):
            rows = new_rows(chance)
            getattr(table, step)(rows)
            model.add(rows)
        elif step in ("compact", "full"):
            table.compact(full=step == "full")
        elif kind in DELETING:
            start = chance.randrange(60)
            if step == "delete":
                table.delete(f"id between {start} and {start + 9}")
            else:
                source = pa.table({"id": list(range(start, start + 10))})
                table.merge(source, on="id", when_matched=skerry.Delete())
            model.delete(range(start, start + 10))
        check(table, model, f"{number} {step}")
        snapshot = table.current_snapshot()
        if snapshot is not None:
            past[snapshot.snapshot_id] = dict(model.rows)
    for snapshot_id, rows in past.items():
        found = table.scan(snapshot=snapshot_id).to_arrow().to_pylist()
        assert {row["id"]: tuple(row.values()) for row in found} == rows
    table.compact(full=True)
    check(table, model, "compacted")
    table.analyze()
    check(table, model, "analyzed")
    assert {known.freshness.state for known in table.statistics().values()} == {FreshnessState.FRESH}


def test_rows_are_invisible_until_they_are_compacted(tmp_path: Path) -> None:
    options = {"write-only": "true", "num-sorted-run.compaction-trigger": "9"}
    table, model = make(tmp_path / "t", "32 bits", **options), Model("32 bits")
    chance = random.Random(2)
    large = [{"id": number, "part": 0, "amount": None, "text": f"{chance.random()}"} for number in range(2000)]
    for number in range(4):
        rows = new_rows(chance) if number else pa.Table.from_pylist(large, SCHEMA)
        table.append(rows)
        model.add(rows)
        if number % 2:
            assert table.compact().reasons.keys() == {"files of level 0"}
            check(table, model, "compacted")
        else:
            assert {row["id"]: tuple(row.values()) for row in table.scan().to_arrow().to_pylist()} != model.rows
            check_counts(table, f"{number} invisible")
    state = table.handle.state
    assert state.snapshot is not None
    vectors = vector_locations(state, state.snapshot)
    assert vectors
    assert len({vector.location for vector in vectors.values()}) == len({(key[0], key[1]) for key in vectors})
    assert all(entry.file.level > 0 and not entry.file.delete_row_count for entry in live_entries(state))
    table.append(new_rows(chance).slice(0, 1))
    invisible = table.scan().to_arrow()
    table.delete("id >= 0")  # those that wait, too
    table.compact(full=True)
    assert invisible.num_rows
    assert table.scan().count() == 0


def test_merge_on_read_shows_level_0(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t", "32 bits", **{"deletion-vectors.merge-on-read": "true"}), Model("32 bits")
    chance = random.Random(5)
    for number in range(8):
        rows = new_rows(chance)
        table.append(rows)
        model.add(rows)
        check(table, model, str(number))
    table.compact(full=True)
    check(table, model, "compacted")


def test_large_files_that_replace_nothing_move_up(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "32 bits", bucket="1", **{"target-file-size": "1 kb"})
    rows = pa.Table.from_pylist([{"id": n, "part": 0, "amount": n, "text": str(n)} for n in range(500)], SCHEMA)
    table.append(rows)
    kinds = [snapshot.operation for snapshot in table.snapshots()]
    assert len(kinds) == 2
    state = table.handle.state
    assert state.snapshot is not None
    assert {entry.file.level for entry in live_entries(state)} == {3}  # the highest
    table.append(rows.slice(100, 50))
    assert table.scan().to_arrow().sort_by("id") == rows


@pytest.mark.parametrize("kind", ["32 bits", "first-row"])
def test_rivals_write_one_table(tmp_path: Path, kind: str) -> None:
    """Compactions that others were faster with are done again; nothing is lost, and nothing invisible."""
    table, model = make(tmp_path / "t", kind, **{"commit.max-retries": "50"}), Model(kind)
    told: list[list[pa.Table]] = []
    for writer in range(3):
        chance = random.Random(writer)
        rows = [new_rows(chance) for _ in range(5)]
        ids = [pa.array([100 * writer + number for number in part["id"].to_pylist()]) for part in rows]
        told.append([part.set_column(0, SCHEMA.field(0), found) for part, found in zip(rows, ids, strict=True)])

    def write(parts: list[pa.Table]) -> None:
        own = PaimonTable.open(Storage(), table.location)
        for part in parts:
            own.append(part)

    with ThreadPoolExecutor(len(told)) as pool:
        list(pool.map(write, told))
    for part in itertools.chain.from_iterable(told):
        model.add(part)
    table.refresh().compact()
    check(table, model, "all are done")


@pytest.mark.spark
@pytest.mark.parametrize(
    "kind", few_of(KINDS, "32 bits", "64 bits, sequence", "dynamic buckets, partitions", "aggregation")
)
def test_in_turns_with_java(tmp_path: Path, java_paimon: JavaPaimon, kind: str) -> None:
    """A twin that only Java writes holds the same rows after every step."""
    chance = random.Random(kind)
    table, model = make(tmp_path / "t", kind), Model(kind)
    twin = make(tmp_path / "twin", kind)
    vectors = 0
    for number in range(examples(8, 12)):
        rows = new_rows(chance)
        step = chance.choice(["ours", "ours", "java", "java, some", "java, full", "ours, full", "delete"])
        if step == "delete" and kind in DELETING:
            gone = range(start := chance.randrange(60), start + 9)
            old = [dict(zip(SCHEMA.names, row, strict=True)) for row in model.rows.values() if row[0] in gone]
            rows = pa.Table.from_pylist(old, SCHEMA)
            table.refresh().delete(f"id between {start} and {start + 8}")
            java_paimon.write(twin.location, java_rows(rows), kinds=["-D"] * rows.num_rows)
            model.delete(gone)
        else:
            java_paimon.write(twin.location, java_rows(rows))
            model.add(rows)
            if step.startswith("java"):
                how = {"java": None, "java, some": "some", "java, full": "full"}[step]
                java_paimon.write(table.location, java_rows(rows), compaction=how)
            else:
                table.refresh().append(rows)
                if step == "ours, full":
                    table.compact(full=True)
        check(table, model, f"{number} {step}")
        held = sorted(java_rows(table.scan().to_arrow()))
        assert sorted(java_paimon.read(table.location)) == held, (number, step)
        assert sorted(java_paimon.read(twin.location)) == held, (number, step)
        state = table.handle.state
        assert state.snapshot is not None
        vectors += len(vector_locations(state, state.snapshot))
    assert (vectors > 0) == (kind != "first-row")
    if kind == "lookup changelog":
        changes = [[change[1:] for change in java_paimon.changelog(path)] for path in (table.location, twin.location)]
        assert sorted(changes[0], key=str) == sorted(changes[1], key=str)


def test_pypaimon_reads_vectors_of_keys(tmp_path: Path, pypaimon: PyPaimon) -> None:
    table, model = make(tmp_path / "t", "32 bits"), Model("32 bits")
    chance = random.Random(8)
    for _ in range(6):
        rows = new_rows(chance)
        table.append(rows)
        model.add(rows)
    found = [tuple(row.values()) for row in pypaimon.read(table.location).to_pylist()]
    assert len(found) == len(model.rows)
    assert {row[0]: row for row in found} == model.rows
