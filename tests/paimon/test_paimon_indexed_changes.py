"""Row changes of indexed Paimon tables: they read the pages of the rows, and change what they would without."""

from __future__ import annotations

import functools
import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.storage.local import LocalFiles
from skerry.table.indexes import conditions
from torture import few_of

ROWS, FILES = 20_000, 4
SCHEMA = pa.schema([("trace", pa.string()), ("user", pa.int64()), ("line", pa.string())])
INDEXED = {"skerry.index.trace": "hash", "skerry.index.user": "hash"}
CLAUSES: dict[str, Any] = {"when_matched": "update", "when_not_matched": "insert"}
KINDS = {"append": {}, "tracked": {"row-tracking.enabled": "true"}, "vectors": {"deletion-vectors.enabled": "true"}}


def trace(number: int) -> str:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


def rows(numbers: Any, line: str = "line of {}") -> pa.Table:
    numbers = list(numbers)
    columns = [[trace(n) for n in numbers], [n * 7919 % 4000 for n in numbers], [line.format(n) for n in numbers]]
    return pa.table(columns, schema=SCHEMA)


@functools.cache
def file_rows(number: int) -> pa.Table:
    return rows(range(number * ROWS, (number + 1) * ROWS))


def make(folder: Path, *, indexed: bool = True, kind: str = "vectors") -> skerry.Table:
    properties = {**KINDS[kind], **(INDEXED if indexed else {})}
    table = skerry.connect(folder).create_table("d.t", SCHEMA, format="paimon", properties=properties)
    for number in range(FILES):
        table.append(file_rows(number))
    return table


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts what is read of data files, in bytes, by file."""
    opened: dict[str, int] = {}

    def note(location: str, count: int) -> None:
        name = location.rpartition("/")[2]
        if name.startswith("data-") and name.endswith(".parquet"):
            opened[name] = opened.get(name, 0) + count

    class Counting(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            count = super().readinto(buffer)
            note(str(self.name), count or 0)
            return count

        def read(self, size: int | None = -1) -> Any:
            data = super().read(-1 if size is None else size)
            note(str(self.name), len(data or b""))
            return data

    def ranges(self: LocalFiles, location: Any, ranges: Any, _real: Any = LocalFiles.read_ranges) -> Any:
        note(location.path, sum(length for _, length in ranges))
        return _real(self, location, ranges)

    def tail(self: LocalFiles, location: Any, length: int, _real: Any = LocalFiles.read_tail) -> Any:
        note(location.path, length)
        return _real(self, location, length)

    monkeypatch.setattr(LocalFiles, "arrow_file", lambda _, location: pa.PythonFile(Counting(location.path), "r"))
    monkeypatch.setattr(LocalFiles, "read_ranges", ranges)
    monkeypatch.setattr(LocalFiles, "read_tail", tail)
    return opened


def content(table: skerry.Table) -> list[str]:
    return sorted(map(str, table.scan().to_arrow().to_pylist()))


def test_changes_open_the_files_and_read_the_pages_of_their_rows(tmp_path: Path, reading: dict[str, int]) -> None:
    tables = [make(tmp_path / str(indexed), indexed=indexed) for indexed in (True, False)]
    changes = {
        "delete": lambda table: table.delete(f"trace IN ('{trace(3)}', '{trace(17_001)}')"),
        "update": lambda table: table.update({"user": "user + 1"}, f"trace = '{trace(45_000)}'"),
        "upsert": lambda table: table.upsert(rows([100, 101, 25_000], "new {}"), on="trace"),
        "merge": lambda table: table.merge(rows([70_000], "merged {}"), on="trace", **CLAUSES),
    }
    for name, change in changes.items():
        read = []
        for table in tables:
            before = {file.location.rpartition("/")[2] for file in table.files()}
            reading.clear()
            change(table)
            read.append({file: count for file, count in reading.items() if file in before})
        assert len(read[0]) == (2 if name == "upsert" else 1), name
        assert sum(read[1].values()) > 5 * sum(read[0].values()), name
    assert content(tables[0]) == content(tables[1])


@pytest.mark.parametrize("kind", few_of(KINDS, "vectors", "tracked"))
def test_many_keys_are_looked_up(
    tmp_path: Path, kind: str, reading: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "_ROWS_PER_VALUE", 8)  # as if files were larger
    tables = [make(tmp_path / str(indexed), indexed=indexed, kind=kind) for indexed in (True, False)]
    chosen = np.random.default_rng(1).permutation(2 * ROWS)[:1_500].tolist()
    for change in ("upsert", "merge"):
        read = []
        for table in tables:
            reading.clear()
            before = {file.location.rpartition("/")[2] for file in table.files()}
            clauses = CLAUSES if change == "merge" else {}
            done = getattr(table, change)(rows([*chosen, 900_000], f"{change} {{}}"), on="trace", **clauses)
            assert (done.updated_rows, done.inserted_rows) == ((1_500, 1) if change == "upsert" else (1_501, 0))
            read.append({file for file in reading if file in before})
        assert len(read[0]) < len(read[1]), change
    assert content(tables[0]) == content(tables[1])
