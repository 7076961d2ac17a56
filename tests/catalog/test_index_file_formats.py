"""Indexes of tables whose data files are not Parquet, in both formats."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skerry
from skerry.storage import Storage
from skerry.table.indexes.registry import FOLDER

SCHEMA = pa.schema(
    [
        pa.field("trace", pa.string()),
        pa.field("user", pa.int32()),
        pa.field("flag", pa.bool_()),
        pa.field("line", pa.string()),
    ]
)
KINDS = [("iceberg", "orc"), ("iceberg", "avro"), ("paimon", "orc"), ("paimon", "avro"), ("iceberg", "amudai")]
KINDS.append(("paimon", "amudai"))


def rows(first: int, count: int = 40) -> pa.Table:
    numbers = range(first, first + count)
    lines = [None if number % 5 == 0 else f"request {number} took {number % 3} ms" for number in numbers]
    users = [None if number % 11 == 0 else number % 7 for number in numbers]
    return pa.table(
        [[f"t{number}" for number in numbers], users, [number % 2 == 0 for number in numbers], lines], schema=SCHEMA
    )


def make(folder: Path, kind: str, file_format: str) -> skerry.Table:
    table = skerry.connect(folder / "lake").create_table("a.b", SCHEMA, format=kind, file_format=file_format)
    for first in (0, 40, 80):
        table.append(rows(first))
    return table


CONDITIONS = {
    "trace = 't61'": lambda rows: pc.equal(rows["trace"], "t61"),
    "trace IN ('t3', 't110', 'none')": lambda rows: pc.is_in(rows["trace"], pa.array(["t3", "t110", "none"])),
    "user = 3 AND flag = true": lambda rows: pc.and_(pc.equal(rows["user"], 3), rows["flag"]),
    "user = 9": lambda rows: pc.equal(rows["user"], 9),
    "line LIKE 'request 4%took 1 ms'": lambda rows: pc.match_like(rows["line"], "request 4%took 1 ms"),
}


def check(table: skerry.Table) -> None:
    everything = table.scan().to_arrow()
    for where, mask in CONDITIONS.items():
        expected = everything.filter(mask(everything)).sort_by("trace")
        assert table.scan(where=where).to_arrow().sort_by("trace").equals(expected), where
        assert table.scan(where=where).count() == expected.num_rows
    words = pc.fill_null(pc.match_substring_regex(everything["line"], r"\btook 2\b"), False)
    found = table.search("line", '"took 2"', columns=["trace"])["trace"].to_pylist()
    assert sorted(found) == sorted(everything.filter(words)["trace"].to_pylist())


def left(table: skerry.Table, where: str) -> list[tuple[int, int | None]]:
    steps = table.scan(where=where).explain().plan.steps
    return [(step.kept, step.kept_rows) for step in steps if step.name.endswith("by index")]


@pytest.mark.parametrize(("kind", "file_format"), KINDS)
def test_files_and_rows_are_found(tmp_path: Path, kind: str, file_format: str) -> None:
    table = make(tmp_path, kind, file_format)
    assert table.create_index(["trace", "user", "flag"]).files == 3
    table.create_index(["line"], kind="text")
    table.append(rows(120))  # indexes what it writes
    assert {(index.files, index.indexed_files) for index in table.indexes()} == {(4, 4)}
    check(table)
    assert left(table, "trace = 't61'") == [(1, 1)]
    assert left(table, "line LIKE 'request 61 %'") == [(1, 1)]
    assert left(table, "user = 9") in ([(0, 0)], [])  # bounds leave no file if there are some
    assert table.delete("trace IN ('t3', 't61')").deleted_rows == 2
    table.upsert(rows(62, 2).set_column(3, SCHEMA.field("line"), pa.array(["took 2 minutes"] * 2)), on=["trace"])
    check(table)
    first = min(table.snapshots(), key=lambda each: each.snapshot_id if kind == "paimon" else each.timestamp)
    old = table.scan(where="trace = 't3'", snapshot=first.snapshot_id)
    assert old.count() == 1
    table.compact(full=True)
    assert {(index.files - index.indexed_files) for index in table.indexes()} == {0}
    check(table)


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_rows_of_a_shard_are_read_block_by_block(tmp_path: Path, kind: str) -> None:
    schema = pa.schema([("trace", pa.string()), ("line", pa.string())])
    table = skerry.connect(tmp_path).create_table("a.b", schema, format=kind, file_format="amudai")
    table.set_properties({"skerry.index.trace": "hash"})
    traces = [random_bytes.hex() for random_bytes in map(random.Random(1).randbytes, [16] * 60_000)]
    table.append(pa.table({"trace": traces, "line": [trace[::-1] for trace in traces]}))
    size = sum(file.stat().st_size for file in tmp_path.rglob("*.amudai*") if FOLDER not in file.parts)
    scan = table.scan(["line"], where=f"trace = '{traces[47_777]}'")
    before = table.storage.metrics.counts()
    assert scan.to_arrow().to_pylist() == [{"line": traces[47_777][::-1]}]
    assert (table.storage.metrics.counts() - before).bytes_read < size / 4


def test_files_without_the_value_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: set[str] = set()
    real = Storage.arrow_file

    def note(self: Storage, location: str, *arguments: Any) -> Any:
        opened.add(location)
        return real(self, location, *arguments)

    for kind in ("iceberg", "paimon"):
        table = make(tmp_path / kind, kind, "orc")
        table.create_index(["trace"])
        opened.clear()
        with monkeypatch.context() as patched:
            patched.setattr(Storage, "arrow_file", note)
            assert table.scan(where="trace = 't55'").to_arrow().num_rows == 1  # by bounds in two files
        assert len([file for file in opened if file.endswith(".orc")]) == 1
