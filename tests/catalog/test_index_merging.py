"""Small indexes of tables are merged: a look-up opens few, and finds what it found before."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skerry
from skerry import amudai
from skerry.storage import file_key
from skerry.table.indexes import finding, publishing, registry
from skerry.table.indexes.registry import FOLDER, IndexedFile
from torture import examples

SCHEMA = pa.schema([("trace", pa.string()), ("user", pa.int32()), ("line", pa.string())])
WORDS = ["reset", "Timeout", "disk", "took"]
APPENDS = examples(24)


def rows(number: int, count: int = 6) -> pa.Table:
    numbers = range(number * count, (number + 1) * count)
    lines = [f"{WORDS[each % 4]} of {each % 3}" for each in numbers]
    return pa.table([[f"t{each * 7919 % 10_007}" for each in numbers], [each % 5 for each in numbers], lines], SCHEMA)


def make(folder: Path, kind: str, appends: int, **options: Any) -> skerry.Table:
    table = skerry.connect(folder / "lake").create_table("a.b", SCHEMA, format=kind, **options)
    table.create_index(["trace", "user"])
    table.create_index(["line"], kind="text")
    for number in range(appends):
        table.append(rows(number))
    return table


def check(table: skerry.Table) -> None:
    everything = table.scan().to_arrow().to_pylist()
    for trace in ("t7919", "t5831", "none"):
        expected = [row for row in everything if row["trace"] == trace]
        assert table.scan(where=f"trace = '{trace}'").to_arrow().to_pylist() == expected
    found = table.scan(["trace"], where="user = 3 AND line LIKE 'Timeout %'").to_arrow()["trace"].to_pylist()
    wanted = [row["trace"] for row in everything if row["user"] == 3 and row["line"].startswith("Timeout ")]
    assert sorted(found) == sorted(wanted)
    assert sorted(table.search("line", '"disk of 1"')["trace"].to_pylist()) == sorted(
        row["trace"] for row in everything if row["line"] == "disk of 1"
    )


def entries(table: skerry.Table) -> list[IndexedFile]:
    pieces = registry.piece_names(table.properties) or registry.listed_pieces(table.storage, table.location)
    return [
        one for of_file in registry.registered_files(table.storage, table.location, pieces).values() for one in of_file
    ]


def opened(table: skerry.Table, monkeypatch: pytest.MonkeyPatch, where: str) -> int:
    """How many indexes a look-up opens."""
    locations: list[str] = []
    real = amudai.ShardFile
    finding._open.clear()
    with monkeypatch.context() as patched:
        patched.setattr(amudai, "ShardFile", lambda path, **how: locations.append(path) or real(path, **how))
        table.scan(where=where).to_arrow()
    return len(locations)


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_a_look_up_among_many_appends_opens_few_indexes(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, kind, APPENDS)
    assert {(each.files, each.indexed_files) for each in table.indexes()} == {(APPENDS, APPENDS)}
    before = opened(table, monkeypatch, "user = 3")
    assert before < min(APPENDS, 30)  # appends have merged the others
    check(table)
    assert table.index() == skerry.IndexSummary()
    assert opened(table, monkeypatch, "user = 3") <= min(before, 9)
    check(table)
    sizes = {each.column: each.size_bytes for each in table.indexes()}
    assert sizes["trace"] <= sum({each.root: each.size_bytes for each in entries(table)}.values())
    assert table.delete("user = 3").deleted_rows == len([one for one in range(6 * APPENDS) if one % 5 == 3])
    check(table)
    old = [each.snapshot_id for each in table.snapshots()][APPENDS // 2]
    assert table.scan(where="user = 3", snapshot=old).count() > 0
    table.index()
    check(table)


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_what_was_merged_is_an_orphan(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind, 17)
    table.index()
    folder = Path(table.location.removeprefix("file://")) / FOLDER
    named = {part for each in entries(table) for part in (each.root, *each.parts)}
    assert {file.name for file in folder.glob("*.amudai.shard")} > named
    table.remove_orphans(older_than_days=0)
    assert {file.name for file in folder.glob("*.amudai.shard")} == named
    check(table)
    table.compact(full=True)
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    table.remove_orphans(older_than_days=0)
    alive = {file_key(each.location(table.location)) for each in entries(table)}
    assert {(each.files, each.indexed_files) for each in table.indexes()} == {(1, 1)}
    assert len(alive) >= 1
    check(table)


def test_paimon_deletes_what_was_merged_when_snapshots_expire(tmp_path: Path) -> None:
    table = make(tmp_path, "paimon", 17)
    table.index()
    pieces = registry.listed_pieces(table.storage, table.location)
    named = {part for each in entries(table) for part in (each.root, *each.parts)}
    gone = registry.released_files(table.storage, table.location, set(), settled_s=0)
    assert not {location.rpartition("/")[2] for location in gone} & named
    folder = Path(table.location.removeprefix("file://")) / FOLDER
    for location in gone:
        Path(location.removeprefix("file://")).unlink()
    assert {file.name for file in folder.glob("*.amudai.shard")} == named
    assert registry.listed_pieces(table.storage, table.location) == pieces
    check(table)


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_compaction_merges_the_indexes_of_files_that_stay(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(publishing, "_MANY", 1000)
        table = make(tmp_path, kind, 9)
    assert len({each.root for each in entries(table)}) == 9
    table.compact(min_input_files=100, dry_run=True)
    assert len({each.root for each in entries(table)}) == 9
    assert table.compact(min_input_files=100).groups == 0
    assert len({each.root for each in entries(table)}) == 1
    check(table)


@pytest.mark.parametrize(("what", "damage"), [("root", "missing"), ("part", "cut")])
def test_an_index_that_cannot_be_merged_is_left(
    tmp_path: Path, damage: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(publishing, "_MANY", 1000)
        table = make(tmp_path, "iceberg", 10)
    (victim, *_) = entries(table)
    file = Path(table.location.removeprefix("file://")) / FOLDER / (victim.root if what == "root" else victim.parts[0])
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(content[: len(content) // 2])
    finding._open.clear()
    table.index()
    check(table)
    merged = {each.root for each in entries(table) if each.place is not None}
    assert len(merged) == (1 if what == "root" else 0)


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_indexes_from_before_and_after_a_change_of_types(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(publishing, "_MANY", 1000)
        table = make(tmp_path, kind, 5)
        with table.update_schema() as update:
            update.update_column("user", pa.int64())
        for number in range(5, 10):
            table.append(rows(number))
    table.index()
    table.index()
    assert not caplog.records
    assert len({each.root for each in entries(table)}) <= 3
    check(table)


def test_merged_entries_are_written_and_read(tmp_path: Path) -> None:
    table = make(tmp_path, "iceberg", 3)
    known = entries(table)
    places = [(0, 6), (6, 6), None]
    files = tuple(
        IndexedFile(each.file, each.file_size_bytes, "a.shard" if place else each.root, (), 5, each.columns, place)
        for each, place in zip(known, places, strict=True)
    )
    location = f"{table.location}/{FOLDER}/piece.json"
    table.storage.write(location, registry.encode_piece(registry.Piece(files)))
    assert registry.read_piece(table.storage, table.location, "piece.json").files == files
