"""Everything that can be done to a Paimon table, in random order, against plain dictionaries.

`make test` does the same histories in every run; with SKERRY_TORTURE=1 there are new ones, as many as SKERRY_HISTORIES
says.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import PyPaimon

from skerry.errors import ConflictError, NotFoundError
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.statistics.column_statistics import FreshnessState
from torture import TORTURE, examples

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("text", pa.string()), ("x", pa.float64())])
STEPS = examples(14, 25)
TABLES: dict[str, dict[str, Any]] = {
    "append": {},
    "append, partitioned, vectors": {
        "partition_by": ["part"],
        "properties": {"deletion-vectors.enabled": "true", "manifest.merge-min-count": "3"},
    },
    "append in buckets": {"properties": {"bucket": "2", "bucket-key": "text"}},
    "key": {"primary_key": ["id"], "properties": {"bucket": "2", "num-sorted-run.compaction-trigger": "3"}},
    "key, vectors": {
        "primary_key": ["id"],
        "properties": {"bucket": "2", "num-sorted-run.compaction-trigger": "3", "deletion-vectors.enabled": "true"},
    },
    "key, partitioned, dynamic": {
        "primary_key": ["part", "id"],
        "partition_by": ["part"],
        "properties": {"dynamic-bucket.target-row-num": "4", "manifest.merge-min-count": "3"},
    },
    "key, lookup": {
        "primary_key": ["id"],
        "properties": {"bucket": "2", "changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "3"},
    },
    "key, full compaction": {
        "primary_key": ["id"],
        "properties": {"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"},
    },
    "key, Avro, changelog": {
        "primary_key": ["id"],
        "properties": {"bucket": "1", "file.format": "avro", "changelog-producer": "input"},
    },
}
Row = tuple[Any, ...]
Rows = dict[int, Row]


class Machine:
    """A table and what it must hold; rows are told apart by `id` in every table."""

    def __init__(self, path: Path, how: dict[str, Any], seed: int, peer: PyPaimon) -> None:
        self.chance = random.Random(seed)
        self.table = PaimonTable.create(Storage(), str(path), SCHEMA, **how)
        self.peer = peer
        self.is_keyed = bool(how.get("primary_key"))
        self.branches: dict[str, Rows] = {"main": {}}
        self.tags: dict[str, Rows] = {}
        self.past: dict[int, Rows] = {}
        self.names = 0
        self.copies = 0

    @property
    def rows(self) -> Rows:
        return self.branches["main"]

    def any_branch(self) -> str:
        return self.chance.choice(sorted(self.branches))

    def new_rows(self, ids: list[int]) -> Rows:
        return {
            number: (
                number,
                number % 3,
                self.chance.choice([None, "", "a", "слово" * 5]),
                self.chance.choice([None, 0.5, float("inf"), -0.0]),
            )
            for number in ids
        }

    def data(self, rows: Rows) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows.values()], SCHEMA)

    # ---- steps ----

    def append(self) -> None:
        branch = self.any_branch()
        known = self.branches[branch]
        ids = self.chance.sample(range(60), self.chance.randrange(1, 20))
        new = self.new_rows([number for number in ids if self.is_keyed or number not in known])
        self.table.append(self.data(new), ref=branch)
        known |= new

    def foreign_append(self) -> None:
        ids = self.chance.sample(range(60), 5)
        new = self.new_rows([number for number in ids if self.is_keyed or number not in self.rows])
        if new and "dynamic" not in str(self.table.properties):  # which pypaimon does not keep
            self.peer.write(self.table.location, self.data(new))
            self.branches["main"] |= new
            if self.is_keyed:
                self.table.refresh().compact()  # or vectors would hide the rows

    def upsert(self) -> None:
        branch = self.any_branch()
        new = self.new_rows(self.chance.sample(range(60), 6))
        self.table.upsert(self.data(new), on=self.table.primary_key or "id", ref=branch)
        self.branches[branch] |= new

    def delete(self) -> None:
        branch = self.any_branch()
        where, holds = self.condition()
        counts = self.table.delete(where, ref=branch)
        gone = [number for number, row in self.branches[branch].items() if holds(row)]
        for number in gone:
            del self.branches[branch][number]
        assert counts.deleted_rows in (len(gone), None)

    def overwrite(self) -> None:
        where, holds = self.condition()
        left = {number: row for number, row in self.rows.items() if not holds(row)}
        ids = self.chance.sample(range(60), 4)
        new = self.new_rows([number for number in ids if self.is_keyed or number not in left])
        self.table.overwrite(self.data(new), where)
        self.branches["main"] = left | new

    def condition(self) -> tuple[str, Callable[[Row], bool]]:
        start, part = self.chance.randrange(60), self.chance.randrange(3)
        return self.chance.choice(
            [
                (f"id between {start} and {start + 5}", lambda row: start <= row[0] <= start + 5),
                (f"part = {part}", lambda row: row[1] == part),
                ("text = 'a'", lambda row: row[2] == "a"),
                (f"part = {part} and x is null", lambda row: row[1] == part and row[3] is None),
            ]
        )

    def compact(self) -> None:
        self.table.compact(full=self.chance.random() < 0.5, min_input_files=2, ref=self.any_branch())

    def index(self) -> None:
        """Other indexes for new files, and perhaps for old ones."""
        kind = self.chance.choice(["bitmap", "range-bitmap", "bloom-filter"])
        columns = self.chance.choice(["text", "id,text"])
        threshold = self.chance.choice(["0 b", "1 mb"])
        self.table.set_properties(
            {f"file-index.{kind}.columns": columns, "file-index.in-manifest-threshold": threshold}
        )
        self.table.rewrite_file_indexes(full=self.chance.random() < 0.5, ref=self.any_branch())

    def table_index(self) -> None:
        """An index of rows by value or by word, of all files or only of those that follow; or one less."""
        known = [index.column for index in self.table.indexes()]
        kind = self.chance.choice(["hash", "text", "job", "drop"])
        if kind == "drop":
            self.table.drop_index(known[:1])
        elif kind == "job":
            self.table.index()
        else:
            self.table.create_index(["text"] if kind == "text" else ["id", "text"], kind=kind)

    def search(self) -> None:
        found = self.table.refresh().search("text", "a")["id"].to_pylist()
        assert sorted(found) == sorted(number for number, row in self.rows.items() if row[2] == "a")
        number = self.chance.randrange(60)
        expected = {number: self.rows[number]} if number in self.rows else {}
        assert self.read(where=f"id = {number}") == expected

    def analyze(self) -> None:
        self.table.analyze()

    def tag(self) -> None:
        if self.table.handle.refresh().snapshot is not None:
            self.names += 1
            self.table.create_tag(f"t{self.names}")
            self.tags[f"t{self.names}"] = dict(self.rows)

    def branch(self) -> None:
        self.names += 1
        self.table.create_branch(f"b{self.names}")
        self.branches[f"b{self.names}"] = dict(self.rows)

    def drop(self) -> None:
        name = self.chance.choice([*sorted(self.branches), *sorted(self.tags)])
        if name != "main":
            self.table.drop_ref(name)
            self.branches.pop(name, None)
            self.tags.pop(name, None)

    def expire(self) -> None:
        gone = self.table.expire_snapshots(keep_last=self.chance.randrange(1, 5), older_than=timedelta(0)).snapshot_ids
        for number in gone:
            self.past.pop(number, None)
            if number not in {tag.snapshot_id for tag in self.table.refs().values()}:
                with pytest.raises(NotFoundError):
                    self.table.scan(snapshot=number).count()

    def rollback(self) -> None:
        if self.past:
            number = self.chance.choice(sorted(self.past))
            self.table.rollback(number)
            self.branches["main"] = dict(self.past[number])
            self.past = {known: rows for known, rows in self.past.items() if known <= number}

    def copy(self) -> None:
        """To the same place until the copy cannot follow: its newest snapshot expired here, or was rolled back."""
        place = f"{self.table.location}-copy"
        try:
            self.table.copy_to(f"{place}{self.copies}")
        except ConflictError:
            self.copies += 1
            self.table.copy_to(f"{place}{self.copies}")
        copied = Machine.__new__(Machine)
        copied.table = PaimonTable.open(Storage(), f"{place}{self.copies}")
        for name, rows in {**self.branches, **self.tags}.items():
            assert copied.read(ref=name) == rows, name
        told = {name: (found.ndv, found.freshness.state) for name, found in self.table.statistics().items()}
        found = copied.table.statistics()
        assert {name: (known.ndv, known.freshness.state) for name, known in found.items()} == told

    # ---- what must hold ----

    def check(self, step: str) -> None:
        state = self.table.handle.refresh()
        if state.snapshot is not None:
            self.past[state.snapshot.id] = dict(self.rows)
        for name, rows in {**self.branches, **self.tags}.items():
            assert self.read(ref=name) == rows, (step, name)
            chosen = {id_: row for id_, row in rows.items() if row[2] == "a"}
            assert self.read(ref=name, where="text = 'a'") == chosen, (step, name)
        if self.past:
            number = self.chance.choice(sorted(self.past))
            assert self.read(snapshot=number) == self.past[number], (step, number)
        for name, found in self.table.statistics().items():
            values = [row[SCHEMA.get_field_index(name)] for row in self.rows.values()]
            true = len({value for value in values if value not in (None, "")})  # sketches take no empty text
            if found.freshness.state is FreshnessState.FRESH:
                assert round(found.ndv or 0) == true, (step, name)
            elif found.freshness.state is FreshnessState.UPPER_BOUND:
                assert round(found.ndv or 0) >= true, (step, name)

    def read(self, **how: Any) -> Rows:
        rows = [tuple(row.values()) for row in self.table.scan(**how).to_arrow().to_pylist()]
        found = {row[0]: row for row in rows}
        assert len(found) == len(rows)
        return found


WEIGHTS: dict[Callable[[Machine], None], int] = {
    Machine.append: 6,
    Machine.foreign_append: 2,
    Machine.upsert: 3,
    Machine.delete: 3,
    Machine.overwrite: 1,
    Machine.compact: 3,
    Machine.index: 2,
    Machine.table_index: 2,
    Machine.search: 2,
    Machine.analyze: 1,
    Machine.tag: 1,
    Machine.branch: 1,
    Machine.drop: 1,
    Machine.expire: 1,
    Machine.rollback: 1,
    Machine.copy: 2,
}


def _seeds() -> range:
    if not TORTURE:
        return range(1)  # of each table; `make torture HISTORIES=500` goes through as many, in all
    first = random.SystemRandom().randrange(1 << 30)
    return range(first, first + max(int(os.environ.get("SKERRY_HISTORIES", "20")) // len(TABLES), 1))


@pytest.mark.slow
@pytest.mark.parametrize("how", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("seed", _seeds())
def test_histories(tmp_path: Path, pypaimon: PyPaimon, how: dict[str, Any], seed: int) -> None:
    machine = Machine(tmp_path / "t", how, seed, pypaimon)
    steps, weights = list(WEIGHTS), list(WEIGHTS.values())
    for _ in range(STEPS):
        (step,) = machine.chance.choices(steps, weights)
        step(machine)
        machine.check(step.__name__)
    if machine.table.handle.state.snapshot is not None:
        rows = [tuple(row.values()) for row in pypaimon.read(tmp_path / "t").to_pylist()]
        assert {row[0]: row for row in rows} == machine.rows
        assert len(rows) == len(machine.rows)
