"""Changelogs by compaction: the same records as Paimon Java writes for the same history, row by row with kinds."""

from __future__ import annotations

import datetime
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, java_rows
from pyarrow import orc

from skerry.paimon.manifests.live_files import live_entries, read_manifests
from skerry.paimon.manifests.manifest_list import read_manifest_list
from skerry.paimon.metadata.snapshots import find_snapshot
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.rows.changes import ChangeType
from torture import TORTURE, examples

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("kind", pa.string()),
        ("version", pa.int32()),
        ("text", pa.string()),
        ("x", pa.float64()),
        ("list", pa.list_(pa.int32())),
    ]
)
KINDS = {
    ChangeType.INSERT.value: "+I",
    ChangeType.UPDATE_BEFORE.value: "-U",
    ChangeType.UPDATE_AFTER.value: "+U",
    ChangeType.DELETE.value: "-D",
}
NO_TRIGGER = {"num-sorted-run.compaction-trigger": "100", "num-levels": "4"}
ALL_KINDS = ("+I", "+U", "-D", "-U")
ENGINES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "deduplicate": ({}, ALL_KINDS),
    "sequence": ({"sequence.field": "version"}, ALL_KINDS),
    "partial-update": ({"merge-engine": "partial-update"}, ("+I", "+U")),
    "removing": ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, ("+I", "-D")),
    "groups": (
        {
            "merge-engine": "partial-update",
            "fields.version.sequence-group": "text,x",
            "fields.x.aggregate-function": "sum",
        },
        ALL_KINDS,
    ),
    "aggregation": (
        {
            "merge-engine": "aggregation",
            "fields.x.aggregate-function": "sum",
            "fields.list.aggregate-function": "collect",
            "fields.version.aggregate-function": "max",
            "fields.version.ignore-retract": "true",
        },
        ALL_KINDS,
    ),
    "aggregation, removing": (
        {
            "merge-engine": "aggregation",
            "aggregation.remove-record-on-delete": "true",
            "fields.x.aggregate-function": "sum",
        },
        ("+I", "+U", "-D"),
    ),
    "first-row": ({"merge-engine": "first-row", "ignore-delete": "true"}, ALL_KINDS),
}
PRODUCERS: dict[str, dict[str, str]] = {
    "full-compaction": {},
    "lookup": {},
    "lookup, vectors": {"deletion-vectors.enabled": "true"},
}
SHAPES = ("-100", "1000000")
"""Values of `compaction.size-ratio`: with them the shape of a tree does not depend on sizes, which differ."""
COMPARISONS = [
    {},
    # Java compares lists as objects, which differ by where they come from
    {"changelog-producer.row-deduplicate": "true", "changelog-producer.row-deduplicate-ignore-fields": "list"},
    {
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "kind,version,list",
    },
]


def make(path: Path, producer: str, **options: str) -> PaimonTable:
    properties = {"bucket": "1", "changelog-producer": producer, **options}
    return PaimonTable.create(Storage(), str(path), SCHEMA, primary_key=["id"], properties=properties)


def random_rows(chance: random.Random, kinds: tuple[str, ...], keys: int) -> pa.Table:
    rows = [
        {
            "id": chance.randrange(keys),
            "kind": chance.choice(kinds) if chance.random() < 0.4 else "+I",
            "version": chance.choice([None, 1, 2, 3]),
            "text": chance.choice([None, "a", "b", "ünï"]),
            "x": chance.choice([None, 0.0, -0.0, 1.5, 2.0]),
            "list": chance.choice([None, [], [1], [1, None, 2]]),
        }
        for _ in range(chance.randrange(1, 12))
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def changelog(table: PaimonTable, start: int = 0) -> list[list[Any]]:
    """Kind and values of all changes, as the Java peer gives them."""
    table.handle.refresh()
    rows = table.changes(start or None).to_arrow()
    kinds = rows["_change_type"].to_pylist()
    return [[KINDS[kind], *row] for kind, row in zip(kinds, java_rows(rows.select(SCHEMA.names)), strict=True)]


def as_java(rows: list[list[Any]]) -> list[list[Any]]:
    return [[float(value) if i == 5 and value is not None else value for i, value in enumerate(row)] for row in rows]


def seeds() -> range:
    return range(int(os.environ.get("SKERRY_HISTORIES", "20"))) if TORTURE else range(1)


def histories() -> list[tuple[str, str]]:
    """Which producers and engines; all of them in the long run."""
    found = [(p, e) for p in PRODUCERS for e in ENGINES if p == "lookup" or e != "first-row"]
    if TORTURE:
        return found
    few = {
        "full-compaction": ("deduplicate", "aggregation"),
        "lookup": ("deduplicate", "sequence", "removing", "groups", "first-row"),
        "lookup, vectors": ("deduplicate",),
    }
    return [(p, e) for p, e in found if e in few[p]]


# ---- beside Java ----


@pytest.mark.spark
@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize(("producer", "engine"), histories())
def test_java_writes_the_same_changelog(
    tmp_path: Path, java_paimon: JavaPaimon, producer: str, engine: str, seed: int
) -> None:
    """Three tables with one history: Java's, ours, and one that both write to in turns."""
    chance = random.Random(f"{producer} {engine} {seed}")
    options, kinds = ENGINES[engine]
    comparison = chance.choice(COMPARISONS)
    file_format = {"changelog-file.format": chance.choice(["parquet", "orc", "avro"])}
    shape = {**NO_TRIGGER, "compaction.size-ratio": chance.choice(SHAPES)}
    how = {**options, **shape, **comparison, **file_format, **PRODUCERS[producer], "rowkind.field": "kind"}
    tables = {name: make(tmp_path / name, producer.partition(",")[0], **how) for name in ("java", "ours", "both")}
    steps = examples(4, 6)
    for step in range(steps):
        rows = random_rows(chance, kinds, 10)
        full = producer == "full-compaction" and step > 0 and (step == steps - 1 or chance.random() < 0.4)
        is_java = chance.random() < 0.5
        for name, table in tables.items():
            if name == "java" or (name == "both" and is_java):
                java_paimon.write(table.location, java_rows(rows), compaction="full" if full else None)
            else:
                table.handle.refresh()
                table.append(rows)
                if full:
                    table.compact(full=True)
    expected = [row[1:] for row in java_paimon.changelog(tables["java"].location)]
    assert expected
    for name, table in tables.items():
        assert as_java(changelog(table)) == as_java(expected), name
        assert as_java([row[1:] for row in java_paimon.changelog(table.location)]) == as_java(expected), name
        assert sorted(map(repr, java_paimon.read(table.location))) == sorted(
            map(repr, java_paimon.read(tables["java"].location))
        )


# ---- what changes add up to ----

PLAIN = pa.schema([pa.field("id", pa.int64(), nullable=False), ("part", pa.int32()), ("n", pa.int64())])


@pytest.mark.parametrize("seed", range(int(os.environ.get("SKERRY_HISTORIES", "3"))))
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@pytest.mark.parametrize("producer", ["full-compaction", "lookup"])
def test_changes_add_up_to_the_table(tmp_path: Path, producer: str, engine: str, seed: int) -> None:
    """Every image is that of the row that was announced last, through overwrites, late compactions and expiry."""
    chance = random.Random(f"{producer} {engine} {seed}")
    properties = {"bucket": "1", "changelog-producer": producer, "merge-engine": engine, "num-levels": "4"}
    if engine == "partial-update":
        properties["partial-update.remove-record-on-delete"] = "true"
    if chance.random() < 0.5:
        properties |= {"write-only": "true"}
    table = PaimonTable.create(
        Storage(), str(tmp_path / "t"), PLAIN, primary_key=["id", "part"], partition_by=["part"], properties=properties
    )
    known: dict[int, tuple[Any, ...]] = {}
    read = 0

    def follow() -> None:
        nonlocal read
        for row in table.changes(read).to_arrow().to_pylist() if table.handle.refresh().snapshot else []:
            kind, values = row["_change_type"], (row["id"], row["part"], row["n"])
            if kind in (ChangeType.DELETE.value, ChangeType.UPDATE_BEFORE.value):
                assert known.pop(row["id"]) == values
            else:
                assert row["id"] not in known
                known[row["id"]] = values
        read = table.handle.state.snapshot.id if table.handle.state.snapshot else 0

    for number in range(20):
        ids = chance.sample(range(15), 4)
        rows = pa.table(
            {"id": ids, "part": [i % 2 for i in ids], "n": [chance.choice([None, number]) for _ in ids]}, PLAIN
        )
        step = chance.choice(["append", "append", "delete", "overwrite", "part", "compact", "full", "expire", "follow"])
        if step == "append":
            table.append(rows)
        elif step == "delete":
            table.delete(f"id < {chance.randrange(8)}")
        elif step == "overwrite":
            table.overwrite(rows)
        elif step == "part":
            table.delete(f"part = {chance.randrange(2)}")
        elif step == "expire":
            follow()
            table.expire_snapshots(keep_last=1, older_than=datetime.datetime(2100, 1, 1))
        elif step == "follow":
            follow()
        else:
            table.compact(full=step == "full")
    table.compact(full=True)
    follow()
    expected = [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]
    assert sorted(known.values(), key=repr) == sorted(expected, key=repr)


# ---- options ----


def records(rows: dict[int, tuple[str, float]], kind: str = "+I") -> pa.Table:
    values = [
        {"id": i, "kind": kind, "version": 1, "text": text, "x": x, "list": None} for i, (text, x) in rows.items()
    ]
    return pa.Table.from_pylist(values, SCHEMA)


def of_kinds(table: PaimonTable, start: int = 0) -> list[tuple[str, int, str]]:
    return [(row[0], row[1], row[4]) for row in changelog(table, start)]


def changelog_files(table: PaimonTable) -> list[Any]:
    """The entries of the changelog files of all snapshots."""
    state, found = table.handle.refresh(), []
    for snapshot in table.snapshots():
        name = find_snapshot(state.storage, state.paths, snapshot.snapshot_id).changelog_manifest_list
        if name is not None:
            found += read_manifests(state, read_manifest_list(state.storage, state.paths.manifest(name)))
    return found


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_files_of_changelogs(tmp_path: Path, producer: str) -> None:
    options = {
        "changelog-file.format": "orc",
        "changelog-file.compression": "zlib",
        "changelog-file.prefix": "log-",
        "changelog-file.stats-mode": "none",
    }
    table = make(tmp_path / "t", producer, **options, **{"full-compaction.delta-commits": "1"})
    table.append(records({1: ("a", 1.0), 2: ("b", 2.0)}))
    table.append(records({2: ("c", 2.0), 3: ("d", 3.0)}))
    entries = changelog_files(table)
    assert [entry.file.row_count for entry in entries] == [2, 3]
    for entry in entries:
        assert entry.file.file_name.startswith("log-")
        assert entry.file.file_name.endswith(".orc")
        assert entry.file.level == 5
        assert entry.file.value_stats_cols == ()
        stored = orc.ORCFile(tmp_path / "t" / "bucket-0" / entry.file.file_name)
        assert stored.compression == "ZLIB"
    counts = [snapshot.summary.get("changelog-records") for snapshot in table.snapshots()]
    assert counts == [None, "2", None, "3"]
    assert of_kinds(table) == [("+I", 1, "a"), ("+I", 2, "b"), ("-U", 2, "b"), ("+U", 2, "c"), ("+I", 3, "d")]
    assert {name: count.ndv for name, count in table.statistics().items()}["id"] == 3.0


def test_full_compaction_after_so_many_commits(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "full-compaction", **{"full-compaction.delta-commits": "3"})
    made = []
    for number in range(7):
        table.append(records({number: ("a", 1.0), 0: (f"{number}", 0.0)}))
        made.append(len(of_kinds(table)))
    assert made == [0, 0, 3, 3, 3, 3 + 5, 8]
    other = make(tmp_path / "u", "none", **{"full-compaction.delta-commits": "2"})
    for number in range(4):
        other.append(records({number: ("a", 1.0)}))
    assert [snapshot.operation for snapshot in other.snapshots()] == ["append", "append", "replace"] * 2


def test_gentle_compaction_waits_for_files_of_level_0(tmp_path: Path) -> None:
    gentle = {"lookup-compact": "gentle", "lookup-compact.max-interval": "3", **NO_TRIGGER}
    table = make(tmp_path / "t", "lookup", **gentle)
    made = []
    for number in range(6):
        table.append(records({number: ("a", 1.0)}))
        made.append(len(of_kinds(table)))
    assert made == [0, 0, 3, 3, 3, 6]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_write_only_tables_get_their_changelog_from_compaction(tmp_path: Path, producer: str) -> None:
    table = make(tmp_path / "t", producer, **{"write-only": "true"})
    for text in ("a", "b"):
        table.append(records({1: (text, 1.0), 2: (text, 2.0)}))
        assert of_kinds(table) == []
    table.compact(full=True)
    assert of_kinds(table) == [("+I", 1, "b"), ("+I", 2, "b")]
    table.delete("id = 1")
    planned = table.compact(dry_run=True)
    assert planned.reasons == ({"files of level 0": 1} if producer == "lookup" else {})
    table.compact(full=producer == "full-compaction")
    assert of_kinds(table)[2:] == [("-D", 1, "b")]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_older_rows_are_looked_up_in_every_level(tmp_path: Path, file_format: str) -> None:
    """Levels 3, 2 and 1 have rows of the same keys: that of the lowest one counts."""
    options = {**NO_TRIGGER, "compaction.size-ratio": "-100", "file.format": file_format}
    table = make(tmp_path / "t", "lookup", **options)
    for number in range(7):
        start = of_kinds(table)
        ids = range(number, 12, number + 1)
        table.append(records({i: (f"{number}-{i}", 1.0) for i in ids}))
        known = {i: text for kind, i, text in start if kind != "-U"}
        expected = []
        for i in ids:
            if i in known:
                expected += [("-U", i, known[i]), ("+U", i, f"{number}-{i}")]
            else:
                expected.append(("+I", i, f"{number}-{i}"))
        assert of_kinds(table)[len(start) :] == expected
    assert {entry.file.level for entry in live_entries(table.handle.refresh())} == {1, 2, 3}


@pytest.mark.parametrize("ignored", ["", "list,text"])
def test_equal_rows_are_left_out(tmp_path: Path, ignored: str) -> None:
    options = {"changelog-producer.row-deduplicate": "true"}
    if ignored:
        options["changelog-producer.row-deduplicate-ignore-fields"] = ignored
    table = make(tmp_path / "t", "lookup", **options)
    rows = [
        {"id": 1, "x": 0.0, "list": [1, None], "text": None},
        {"id": 2, "x": float("nan"), "list": None, "text": "a"},
        {"id": 3, "x": None, "list": [], "text": "a"},
        {"id": 4, "x": 1.0, "list": [1], "text": "a"},
        {"id": 5, "x": 1.0, "list": [1], "text": "a"},
    ]
    table.append(pa.Table.from_pylist(rows, SCHEMA))
    changed = [
        rows[0] | {"x": -0.0},
        rows[1],
        rows[2],
        rows[3] | {"list": [2]},
        rows[4] | {"text": None},
    ]
    table.append(pa.Table.from_pylist(changed, SCHEMA))
    updated = {i for kind, i, _ in of_kinds(table) if kind == "+U"}
    assert updated == ({2} if ignored else {2, 4, 5})


def test_large_files_move_and_are_in_the_changelog_all_the_same(tmp_path: Path) -> None:
    for producer in ("lookup", "full-compaction"):
        table = make(tmp_path / producer, producer, **{"target-file-size": "1 kb", "write-only": "true"})
        table.append(records({i: (f"{i:0100}", 1.0) for i in range(100)}))
        table.append(records({i: (f"{i:0100}", 2.0) for i in range(100, 200)}))
        files = len(table.files())
        done = table.compact(full=True)
        assert (done.moved_files, done.added_files) == (files, 0)
        assert files > 2
        assert [(kind, i) for kind, i, _ in of_kinds(table)] == [("+I", i) for i in range(200)]
