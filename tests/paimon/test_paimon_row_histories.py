"""Random histories of tables with row ids, with rewritten files and with files of some columns: rows, ids and counts.

`make test` runs the same few each time; SKERRY_TORTURE=1 many new ones.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest

import skerry
from skerry.paimon.table import PaimonTable

if TYPE_CHECKING:
    from pathlib import Path

Row: TypeAlias = dict[str, Any]
TORTURE = "SKERRY_TORTURE" in os.environ
SEEDS = [int(time.time()) + number for number in range(200)] if TORTURE else [3, 16]
STEPS = 10

CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "s = 'a'": lambda row: row["s"] == "a",
    "s = 'x' AND n = 1": lambda row: row["s"] == "x" and row["n"] == 1,
    "n IS NULL": lambda row: row["n"] is None,
    "id > 5": lambda row: row["id"] > 5,
}


class History:
    """A table, and its rows and their ids as they must be."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.evolves = self.rng.random() < 0.7
        self.has_vectors = self.rng.random() < 0.5
        self.schema = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("s", pa.string()), ("n", pa.int32())])
        options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": str(self.has_vectors).lower()}
        if self.evolves:
            options["data-evolution.enabled"] = "true"
            if self.rng.random() < 0.5:
                options["blob-field"] = "b"
                self.schema = self.schema.append(pa.field("b", pa.large_binary()))
        table = skerry.connect(folder).create_table(
            "db.t", self.schema, format="paimon", partition_by=self.rng.choice([[], ["p"]]), properties=options
        )
        assert isinstance(table, PaimonTable)
        self.table = table
        self.rows: dict[int, Row] = {}
        self.ids: dict[int, int] = {}
        self.following = 0

    def new_rows(self, count: int) -> list[Row]:
        rows = []
        for _ in range(count):
            values = {
                "id": self.following,
                "p": self.rng.randrange(2),
                "s": self.rng.choice("abc"),
                "n": self.rng.choice([None, 1, 2]),
                "b": self.rng.choice([None, b"", b"x" * self.rng.randrange(99)]),
            }
            rows.append({name: values[name] for name in self.schema.names})
            self.following += 1
        return rows

    def data(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, self.schema)

    def append(self) -> None:
        rows = self.new_rows(self.rng.randrange(1, 6))
        self.table.append(self.data(rows))
        self.rows |= {row["id"]: row for row in rows}

    def merge(self) -> None:
        chosen = self.rng.sample(sorted(self.rows), min(len(self.rows), self.rng.randrange(4)))
        rows = [{**self.rows[number], "s": self.rng.choice("xyz")} for number in chosen] + self.new_rows(1)
        if "b" in self.schema.names or self.rng.random() < 0.5:
            update = skerry.Update({"s": "source.s"})
            self.table.merge(self.data(rows), on="id", when_matched=update, when_not_matched=skerry.Insert())
        else:
            self.table.upsert(self.data(rows), on=["id"])
        self.rows |= {row["id"]: row for row in rows}

    def delete(self) -> None:
        if self.evolves and not self.has_vectors:
            return
        where = self.rng.choice(list(CONDITIONS))
        self.table.delete(where)
        self.rows = {number: row for number, row in self.rows.items() if not CONDITIONS[where](row)}

    def maintain(self) -> None:
        if self.evolves or self.rng.random() < 0.5:
            self.table.analyze()
        else:
            self.table.compact(full=self.rng.random() < 0.5)

    def check(self) -> None:
        found = {}
        for row in self.table.scan(columns=[*self.schema.names, "_row_id"]).to_arrow().to_pylist():
            if row.get("b") is not None:
                row["b"] = self.table.open_blob(row["b"]).read()
            row_id = row.pop("_row_id")
            assert self.ids.setdefault(row["id"], row_id) == row_id
            assert row["id"] not in found
            found[row["id"]] = row
        assert found == self.rows
        least, most = self.table.scan().row_bounds()
        assert least <= len(self.rows) == self.table.scan().count() <= most
        for where, holds in CONDITIONS.items():
            assert self.table.scan(where=where).count() == sum(map(holds, self.rows.values()))
        for name, counted in self.table.statistics().items():
            distinct = len({row[name] for row in self.rows.values()} - {None})
            if str(counted.freshness).startswith("fresh"):
                assert counted.ndv == distinct
            elif str(counted.freshness).startswith("upper bound"):
                assert counted.ndv is not None
                assert counted.ndv >= distinct
            if counted.null_count is not None:
                assert counted.null_count == sum(row[name] is None for row in self.rows.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_ids_and_counts_of_random_histories(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    history.append()
    for _ in range(STEPS):
        history.rng.choice([history.append, history.merge, history.merge, history.delete, history.maintain])()
        history.check()
