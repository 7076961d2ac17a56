"""File indexes that are written: byte for byte those of Paimon Java, and used by its readers and by ours."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, java_rows

from skerry.paimon.file_index import decode_container
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.table import PaimonTable
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import Storage

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("t1", pa.int8()),
        ("t2", pa.int16()),
        ("t4", pa.int32()),
        ("t8", pa.int64()),
        ("f4", pa.float32()),
        ("f8", pa.float64()),
        ("b", pa.bool_()),
        ("st", pa.string()),
        ("da", pa.date32()),
        ("ti", pa.time32("ms")),
        ("de", pa.decimal128(12, 2)),
        ("s3", pa.timestamp("ms")),
        ("s6", pa.timestamp("us")),
        ("mp", pa.map_(pa.string(), pa.int32())),
    ]
)
MOMENT = datetime.datetime(2026, 2, 28, 12, 30, 15)
NOTHING = dict.fromkeys(SCHEMA.names)


def some_rows(count: int) -> pa.Table:
    found = []
    for row in range(count):
        number = row * 7 % 40 - 12
        full = {
            "n": row * 7 % 20,
            "t1": number,
            "t2": number * 300,
            "t4": number * 70_000,
            "t8": number << 40,
            "f4": number / 4,
            "f8": -0.0 if number == 0 else number / 8,
            "b": row % 3 == 0,
            "st": f"{number % 17}é",
            "da": datetime.date(1970, 1, 1) + datetime.timedelta(days=number),
            "ti": datetime.time(1 + number % 3, 2, 3),
            "de": decimal.Decimal(number * 25).scaleb(-2),
            "s3": MOMENT + datetime.timedelta(milliseconds=number),
            "s6": MOMENT + datetime.timedelta(microseconds=number),
            "mp": [("a", row % 13), ("b", None)] if row % 2 else [("c", row)],
        }
        found.append(NOTHING if row % 11 == 5 else full)
    return pa.Table.from_pylist(found, SCHEMA)


def indexes_of(table: PaimonTable) -> list[bytes]:
    """The file index of every file, wherever it is."""
    state = table.refresh().handle.state
    layout, found = WriteLayout.of(state), []
    for entry in live_entries(state):
        if entry.file.embedded_index is not None:
            found.append(entry.file.embedded_index)
        folder = layout.bucket_folder(entry.partition, entry.bucket)
        found += [table.storage.read(f"{folder}/{name}") for name in entry.file.extra_files]
    return found


def make(path: Path, schema: pa.Schema, properties: Mapping[str, str], **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), schema, properties=properties, **how)


ROWS_OF = ("t1", "t2", "t4", "t8", "da", "ti", "s3", "s6", "de")
INDEXES = {
    **{f"bitmap {name}": ("bitmap", name, {}) for name in ("n", "t1", "t2", "t4", "b", "da", "ti")},
    "bitmap st": ("bitmap", "st", {"index-block-size": "64 b"}),
    "bitmap 1": ("bitmap", "n", {"version": "1"}),
    "bitmap blocks": ("bitmap", "n", {"index-block-size": "40 b"}),
    **{f"bsi {name}": ("bsi", name, {}) for name in ROWS_OF},
    **{f"range-bitmap {name}": ("range-bitmap", name, {}) for name in (*ROWS_OF, "st", "f4", "f8", "b")},
    "range-bitmap chunks": ("range-bitmap", "st", {"chunk-size": "20 b"}),
    "range-bitmap t8 chunks": ("range-bitmap", "t8", {"chunk-size": "33 b"}),
    "map": ("bitmap", "mp[a]", {"version": "2"}),
    "map range-bitmap": ("range-bitmap", "mp[a]", {}),
    "bloom": ("bloom-filter", "st", {"items": "50"}),
}
ASCENDING = ("n", "b", "mp[a]")
"""Columns whose bitmaps Java's hash map gives in ascending order: those of small numbers."""


@pytest.mark.spark
@pytest.mark.parametrize("what", INDEXES)
def test_indexes_are_those_of_java(tmp_path: Path, java_paimon: JavaPaimon, what: str) -> None:
    kind, column, options = INDEXES[what]
    properties = {
        f"file-index.{kind}.columns": column,
        "bucket": "-1",
        **{f"file-index.{kind}.{column}.{name}": text for name, text in options.items()},
    }
    ours, theirs = (make(tmp_path / name, SCHEMA, properties) for name in ("ours", "theirs"))
    rows = some_rows(70)
    ours.append(rows)
    java_paimon.write(theirs.location, [list(row.values()) for row in rows.to_pylist()])
    assert java_rows(theirs.refresh().scan().to_arrow()) == java_rows(rows)
    (found,), (wanted,) = indexes_of(ours), indexes_of(theirs)
    if kind != "bitmap" or column in ASCENDING:
        assert found == wanted
        return
    # the same bitmaps, in the order of a hash map
    assert len(found) == len(wanted)
    mine, other = (decode_container(data)[column]["bitmap"] for data in (found, wanted))
    assert mine is not None
    assert other is not None
    assert bytes(mine.data[:10]) == bytes(other.data[:10])


@pytest.mark.spark
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("threshold", ["0 b", "1 mb"])
def test_filters_use_what_was_written(tmp_path: Path, java_paimon: JavaPaimon, keyed: bool, threshold: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int32()), ("b", pa.string())])
    properties = {
        "file-index.bitmap.columns": "a,b",
        "file-index.bsi.columns": "a",
        "file-index.range-bitmap.columns": "b",
        "file-index.in-manifest-threshold": threshold,
        **({"bucket": "1"} if keyed else {}),
    }
    table = make(tmp_path / "t", schema, properties, primary_key=["id"] if keyed else [])
    for first in (0, 100, 200):
        ids = range(first, first + 100)
        # all files have the same bounds, and two of them have each number
        numbers = [1000 if id_ % 100 == 99 else id_ // 200 + 2 * (id_ % 7) for id_ in ids]
        table.append(pa.table({"id": list(ids), "a": numbers, "b": [f"b{n}" for n in numbers]}, schema=schema))
    expected = table.scan().to_arrow().to_pylist()
    for name, value in (("a", 2), ("b", "b3"), ("a", 5), ("b", "b15")):
        literal = value if name == "a" else f"'{value}'"
        scan = table.scan(where=f"{name} = {literal}")
        wanted = [list(row.values()) for row in expected if row[name] == value]
        assert sorted(map(list, (row.values() for row in scan.to_arrow().to_pylist()))) == wanted
        assert sorted(java_paimon.read(table.location, equal={name: value})) == wanted
        (step,) = [step for step in scan.explain().plan.steps if step.name == "files by index"]
        assert step.total - step.kept == {2: 1, "b3": 2, 5: 2, "b15": 3}[value]


@pytest.mark.spark
@pytest.mark.parametrize("keyed", [False, True])
def test_old_files_get_indexes(tmp_path: Path, java_paimon: JavaPaimon, keyed: bool) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("p", pa.int32(), False), ("was", pa.string())])
    how = {"primary_key": ["id", "p"]} if keyed else {}
    own = {"bucket": "1"} if keyed else {"deletion-vectors.enabled": "true"}
    table = make(tmp_path / "t", schema, own, partition_by=["p"], **how)
    for number in range(4):
        ids = range(number * 10, number * 10 + 10)
        rows = pa.table({"id": list(ids), "p": [number % 2] * 10, "was": [f"x{i % 5}" for i in ids]}, schema=schema)
        table.append(rows)
    table.delete("id in (1, 33)")
    table.update_schema().rename_column("was", "b").commit()
    table.set_properties({"file-index.bitmap.columns": "b", "file-index.in-manifest-threshold": "0 b"})
    before, counts, fresh = table.scan().to_arrow(), table.statistics()["b"].ndv, table.freshness()

    assert table.rewrite_file_indexes(dry_run=True).data_files == len(live_entries(table.handle.state))
    first = table.rewrite_file_indexes("p = 0")
    left = table.rewrite_file_indexes(dry_run=True).data_files
    assert first.data_files == first.index_files == len(live_entries(table.handle.state)) - left > 0
    second = table.rewrite_file_indexes()
    assert second.data_files > 0
    assert table.rewrite_file_indexes().snapshot_id == second.snapshot_id
    assert table.scan().to_arrow() == before
    assert table.statistics()["b"].ndv == counts
    assert table.freshness() == fresh
    assert [decode_container(data)["was"].keys() for data in indexes_of(table)] == [{"bitmap"}] * len(
        live_entries(table.handle.state)
    )
    for value in ("x3", "x9"):
        wanted = sorted(list(row.values()) for row in before.to_pylist() if row["b"] == value)
        assert sorted(java_paimon.read(table.location, equal={"b": value})) == wanted
        assert (
            sorted(map(list, (r.values() for r in table.scan(where=f"b = '{value}'").to_arrow().to_pylist()))) == wanted
        )
    step = table.scan(where="b = 'x1a'").explain().plan.steps[-1]
    assert step.kept == 0 if not keyed else step.kept < step.total  # those with deletes are merged

    table.set_properties({"file-index.in-manifest-threshold": "1 mb"})
    assert table.rewrite_file_indexes(full=True).index_files == 0
    table.remove_properties("file-index.bitmap.columns")
    assert table.rewrite_file_indexes().data_files == len(live_entries(table.handle.state))
    assert not any(map(decode_container, indexes_of(table)))
    assert sorted(row[0] for row in java_paimon.read(table.location)) == sorted(before["id"].to_pylist())
    expired = table.expire_snapshots(keep_last=1, older_than=datetime.datetime.now(datetime.UTC))
    assert sum(file.location.endswith(".index") for file in expired.files) == first.index_files + second.index_files
    assert table.scan().to_arrow() == before
    assert sorted(row[0] for row in java_paimon.read(table.location)) == sorted(before["id"].to_pylist())


@pytest.mark.parametrize("partitioned", [False, True])
def test_dynamic_buckets_are_pruned_by_their_hashes(tmp_path: Path, partitioned: bool) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("p", pa.int32(), False), ("v", pa.string())])
    table = make(
        tmp_path / "t",
        schema,
        {"dynamic-bucket.target-row-num": "25", "write-only": "true"},
        primary_key=["id", "p"] if partitioned else ["id"],
        partition_by=["p"] if partitioned else [],
    )
    for v in ("old", "new"):
        ids = [2 * (number * 37 % 100) for number in range(100)]  # every bucket has some from everywhere
        data = {"id": ids, "p": [id_ // 2 % 2 for id_ in ids], "v": [f"{v}{id_}" for id_ in ids]}
        table.append(pa.table(data, schema))
    for wanted, kept in (([14], (2,)), ([14, 176], (2, 4)), ([15], (0,))):
        scan = table.scan(where=f"id in ({', '.join(map(str, wanted))}) and p < 2")
        assert set(scan.to_arrow()["v"].to_pylist()) == {f"new{id_}" for id_ in wanted if id_ != 15}
        (step,) = [step for step in scan.explain().plan.steps if step.name == "files by hash index"]
        assert step.total == 8
        assert step.kept in kept
    assert "hash index" not in str(table.scan(where="v = 'new14'").explain())
