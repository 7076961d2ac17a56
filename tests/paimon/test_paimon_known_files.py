"""Plans of a Paimon table that stays open: its metadata are read once, and every plan is what it would be."""

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.paimon.manifests.cache import MetadataCache
from skerry.paimon.manifests.manifest import DataFileMeta, FileKind, ManifestEntry
from skerry.paimon.planning import known_files, plan
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.simple_stats import SimpleStats
from skerry.storage import Storage
from torture import few_of

SCHEMA = pa.schema([("day", pa.int32()), ("k", pa.int64()), ("line", pa.string())])
KINDS = {
    "append": {},
    "partitioned": {"partition_by": ["day"]},
    "keyed": {"primary_key": ["k"], "properties": {"bucket": "2"}},
    "vectors": {"properties": {"deletion-vectors.enabled": "true"}},
    "partitioned-keys": {"partition_by": ["day"], "primary_key": ["day", "k"], "properties": {"bucket": "1"}},
}
WHERES = [
    None,
    "k = 17",
    "k IN (3, 44)",
    "day = 1",
    "day = 1 AND k > 50",
    "day = 9",
    "line = 'line 12'",
    "line > 'line 5' AND k < 30",
    "k > 1000",
]


def rows(first: int, count: int = 30) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table([[n % 3 for n in numbers], [*numbers], [f"line {n}" for n in numbers]], schema=SCHEMA)


def make(folder: Path, kind: str) -> skerry.Table:
    table = skerry.connect(folder).create_table("d.t", SCHEMA, format="paimon", **KINDS[kind])
    for first in (0, 30, 60):
        table.append(rows(first))
    return table


def check(table: skerry.Table, folder: Path, wheres: Sequence[str | None] = WHERES[1::3]) -> None:
    for where in wheres:
        fresh = skerry.connect(folder).load_table("d.t").scan(where=where)
        expected = fresh.to_arrow().to_pylist()
        steps = fresh.explain().plan.steps
        for _ in range(2):
            scan = table.scan(where=where)
            assert scan.to_arrow().to_pylist() == expected, where
            assert scan.count() == len(expected)
            assert scan.explain().plan.steps == steps
            assert [split.row_count for split in scan.plan()] == [split.row_count for split in fresh.plan()]


@pytest.mark.parametrize("kind", few_of(KINDS, "partitioned", "keyed", "vectors"))
def test_plans_are_what_they_would_be(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    check(table, tmp_path, WHERES)
    other = skerry.connect(tmp_path).load_table("d.t")
    other.delete("k IN (3, 61)")
    before = table.scan().count()
    assert before == 90  # as it was loaded
    table.refresh()
    check(table, tmp_path)
    assert table.scan().count() == 88
    table.upsert(rows(88, 4), on=table.primary_key or ["k"])
    check(table, tmp_path)
    state = table.handle.state
    assert state.remembered
    assert "remembered" not in pickle.loads(pickle.dumps(state)).__dict__  # tasks do not need it
    table.compact(full=True)
    check(table, tmp_path)


def test_metadata_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, "partitioned")
    table.create_index(["line"])
    for number in range(2):
        assert table.scan(where=f"line = 'line {number}'").count() == 1
    with monkeypatch.context() as patched:
        for name in ("read_manifest_list", "read_entries"):
            patched.setattr(plan, name, None)
        before = table.storage.metrics.counts()
        for number in range(20):
            assert table.scan(where=f"line = 'none {number}'").count() == 0
        assert table.storage.metrics.counts().requests == before.requests
    table.append(rows(200, 1))
    assert table.scan(where="line = 'line 200'").count() == 1


def test_of_many_files_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MOST_FILES", 2)
    assert known_files.MOST_FILES == 1024
    table = make(tmp_path, "append")
    check(table, tmp_path)
    assert table.handle.state.remembered[known_files.KnownFiles] is None


def test_indexes_that_are_built_are_found_at_once(tmp_path: Path) -> None:
    table = make(tmp_path, "append")
    table.set_properties({"skerry.index.line": "hash"})

    def steps() -> list[str]:
        return [step.name for step in table.scan(where="line = 'line 77'").explain().plan.steps]

    assert "rows by index" not in steps()
    table.index()
    assert "rows by index" in steps()
    check(table, tmp_path)


def test_a_table_of_the_same_name_made_at_the_same_time_has_its_own_schema(tmp_path: Path) -> None:
    found = []
    now = time.time_ns() + 60_000_000_000  # as if the clock stood still
    for name in ("a", "b"):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        PaimonTable.create(Storage(), str(tmp_path / "t"), pa.schema([(name, pa.int64())]))
        os.utime(tmp_path / "t" / "schema" / "schema-0", ns=(now, now))
        found += [PaimonTable.open(Storage(), str(tmp_path / "t")).schema.names for _ in range(2)]
    assert found == [["a"], ["a"], ["b"], ["b"]]


def test_records_of_wide_tables_take_no_more_room_than_there_is(tmp_path: Path) -> None:
    path = tmp_path / "manifest"
    path.write_bytes(b"x")
    cache = MetadataCache(1 << 20)
    stats = SimpleStats(bytes(8_000), bytes(8_000), (0,) * 1_000)
    file = DataFileMeta("f", 1, 1, value_stats=stats)
    for count, is_kept in ((1_000, True), (4_000, False)):  # 24 and 96 MB
        entries = [ManifestEntry(FileKind.ADD, b"", 0, 1, file)] * count
        cache.keep_records(Storage(), str(path), 1, entries)
        assert (cache.find_records(Storage(), str(path), 1) is not None) == is_kept
