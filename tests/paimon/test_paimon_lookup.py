"""Rows by primary key, against what a scan of the whole table gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skerry
from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from torture import examples

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
        ("amount", pa.int64()),
        ("text", pa.string()),
        ("inside", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)
TABLES: dict[str, dict[str, Any]] = {
    "fixed buckets": {"primary_key": ["id"], "properties": {"bucket": "3"}},
    "a bucket key, partitioned": {
        "primary_key": ["part", "id"],
        "partition_by": ["part"],
        "properties": {"bucket": "2", "bucket-key": "id", "file.format": "orc"},
    },
    "dynamic buckets": {
        "primary_key": ["part", "id"],
        "partition_by": ["part"],
        "properties": {"dynamic-bucket.target-row-num": "10"},
    },
    "partial-update": {
        "primary_key": ["id", "part"],
        "properties": {"bucket": "1", "merge-engine": "partial-update", "fields.amount.sequence-group": "text"},
    },
    "aggregation": {
        "primary_key": ["id", "part"],
        "properties": {
            "bucket": "2",
            "merge-engine": "aggregation",
            "fields.amount.aggregate-function": "sum",
            "file.format": "avro",
        },
    },
    "ignored deletes": {
        "primary_key": ["id"],
        "properties": {"bucket": "1", "rowkind.field": "text", "ignore-delete": "true", "write-only": "true"},
    },
}


def rows_of(chance: random.Random, kind: str, count: int) -> pa.Table:
    texts = ["+I", "+U", "-D"] if kind == "ignored deletes" else [None, "", "a", "слово"]
    rows = [
        {
            "id": number,
            "part": "p" if kind == "fixed buckets" else chance.choice("pqr"),
            "amount": chance.choice([None, 1, 5]),
            "text": chance.choice(texts),
            "inside": chance.choice([None, {"a": number, "b": None}]),
        }
        for number in chance.sample(range(80), count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("kind", TABLES)
def test_rows_are_those_of_a_scan(tmp_path: Path, kind: str) -> None:
    chance = random.Random(kind)
    how = TABLES[kind]
    table = PaimonTable.create(Storage(), str(tmp_path / "t"), SCHEMA, **how)
    names = how["primary_key"]
    for step in range(examples(4, 5)):
        table.append(rows_of(chance, kind, 25))
        if step == 2 and "ignore-delete" not in how["properties"]:
            table.compact(full=True)
        before = table.current_snapshot()
        told = [tuple(row[name] for name in names) for row in table.scan().to_arrow().to_pylist()]
        others = [tuple(row[name] for name in names) for row in ({"id": 1000, "part": "z"}, {"id": 7, "part": "p"})]
        asked = [*chance.sample([*told, *told], 9), *others]
        columns = chance.choice([None, ["text", *names], ["inside.b", *names]])
        by_key = {tuple(row[name] for name in names): row for row in table.scan(columns).to_arrow().to_pylist()}
        expected = [by_key[key] for key in asked if key in by_key]
        keys: list[Any] = [
            asked,
            [dict(zip(names, key, strict=True)) for key in asked],
            pa.Table.from_pylist([dict(zip(names, key, strict=True)) for key in asked]),
        ]
        if len(names) == 1:
            keys.append([key for (key,) in asked])
        for form in keys:
            found = table.lookup(form, columns)
            assert found.to_pylist() == expected
            assert found.schema == table.scan(columns).schema
    assert before is not None
    first = table.snapshots()[0].snapshot_id
    earliest = table.scan(snapshot=first).to_arrow().to_pylist()
    asked = [tuple(row[name] for name in names) for row in earliest]
    assert table.lookup(asked, snapshot=first).to_pylist() == earliest
    assert table.lookup([]).num_rows == 0


def test_deleted_rows_branches_and_later_schemas(tmp_path: Path) -> None:
    table = PaimonTable.create(Storage(), str(tmp_path / "t"), SCHEMA, **TABLES["fixed buckets"])
    table.append(rows_of(random.Random(1), "fixed buckets", 80))
    table.create_branch("old")
    table.delete("id < 40")
    assert table.lookup(range(0, 80, 10), ["id"]).column("id").to_pylist() == [40, 50, 60, 70]
    assert table.lookup([0, 79], ["id"], ref="old").column("id").to_pylist() == [0, 79]
    with table.update_schema() as update:
        update.rename_column("text", "words")
        update.add_column("more", pa.int32())
    table.append(table.scan(where="id = 41").to_arrow().set_column(5, "more", pa.array([9], pa.int32())))
    assert table.lookup([41, 42], ["more", "id"]).to_pylist() == [{"more": 9, "id": 41}, {"more": None, "id": 42}]


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    table = PaimonTable.create(Storage(), str(tmp_path / "t"), SCHEMA, **TABLES["dynamic buckets"])
    assert table.lookup([("p", 1)]).num_rows == 0  # before the first commit
    table.append(rows_of(random.Random(1), "dynamic buckets", 5))
    for keys, said in (
        ("p", "must be a list of keys"),
        (5, "must be a list of keys"),
        ([5], "a key has the fields part, id"),
        ([("p", "q")], "does not fit column 'id'"),
        ([("p", None)], "id"),
        ([{"part": "p"}], "a key has the fields part, id"),
        (pa.table({"id": [1]}), "part"),
    ):
        with pytest.raises(SchemaError, match=said):
            table.lookup(keys)
    append = PaimonTable.create(Storage(), str(tmp_path / "u"), SCHEMA)
    with pytest.raises(SchemaError, match="the table has none"):
        append.lookup([1])
    catalog = skerry.connect(tmp_path / "warehouse")
    with pytest.raises(UnsupportedError, match="scan with a condition"):
        catalog.create_table("n.t", SCHEMA).lookup([1])


def test_a_fallback_branch(tmp_path: Path) -> None:
    how = TABLES["a bucket key, partitioned"]
    table = PaimonTable.create(Storage(), str(tmp_path / "t"), SCHEMA, **how)
    table.create_branch("rt")
    table.set_properties({"scan.fallback-branch": "rt"})
    rows = rows_of(random.Random(4), "dynamic buckets", 40)
    table.append(rows, ref="rt")
    parts = [part == "p" for part in rows.column("part").to_pylist()]
    table.append(rows.filter(pa.array(parts)).slice(0, 3))
    every = table.scan().to_arrow().to_pylist()
    keys = [(row["part"], row["id"]) for row in rows.to_pylist()]
    found = table.lookup(keys).to_pylist()
    assert sorted(found, key=str) == sorted(every, key=str)
    assert len(found) < len(keys)
