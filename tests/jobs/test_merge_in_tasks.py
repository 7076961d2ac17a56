"""Merges whose rows are left in files by tasks: the same outcome as in one process, and small tasks."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry import Delete, Insert, Update
from skerry.errors import SchemaError
from skerry.table.merging import LocalRows, staged

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("x", pa.int64()), ("s", pa.string())])
MERGE = {"write.merge.mode": "merge-on-read"}
TABLES = {
    "version 2": {"format-version": "2", **MERGE},
    "version 3": {"format-version": "3", **MERGE},
    "copies": {"format-version": "3", "write.merge.mode": "copy-on-write"},
}
CLAUSES = {
    "rows": {"when_matched": "update", "when_not_matched": "insert"},
    "kept columns": {"when_matched": Update({"x": "source.x + target.x"}), "when_not_matched": Insert()},
    "conditions": {
        "when_matched": [Delete("source.x % 5 = 0"), Update(where="source.x > target.x"), Update({"s": "'old'"})],
        "when_not_matched": Insert(where="source.x % 2 = 0"),
        "when_not_matched_by_source": [Delete("target.k < 20"), Update({"s": "'alone'"}, where="target.k < 40")],
    },
    "deletes": {"when_matched": Delete()},
    "inserts": {"when_not_matched": "insert"},
}


class Processes:
    """Runs tasks as other processes would get them, and counts their bytes."""

    def __init__(self):
        self.sizes = []

    def map(self, function, tasks):
        for task in tasks:
            sent = pickle.dumps((function, task))
            self.sizes.append(len(sent))
            work, copied = pickle.loads(sent)
            yield pickle.loads(pickle.dumps(work(copied)))


def rows(keys, offset=0):
    keys = list(keys)
    return pa.table(
        {
            "k": keys,
            "p": [(k or 0) % 3 for k in keys],
            "x": [(k or 0) * 7 % 100 + offset for k in keys],
            "s": [f"{k}:{offset}" for k in keys],
        },
        SCHEMA,
    )


def found(table):
    return sorted(map(str, table.refresh().scan().to_arrow().to_pylist()))


@pytest.mark.parametrize("clauses", CLAUSES)
@pytest.mark.parametrize("kind", [*TABLES, "paimon"])
def test_outcome_is_the_same(tmp_path, monkeypatch, kind, clauses):
    monkeypatch.setattr(staged, "_BATCH_ROWS", 20)
    monkeypatch.setattr(staged, "_LEAST_PACK_BYTES", 2_000)
    catalog = skerry.connect(tmp_path)
    options = {"format": "paimon"} if kind == "paimon" else {"properties": TABLES[kind]}
    here, there = (catalog.create_table(f"d.{name}", SCHEMA, partition_by=["p"], **options) for name in ("a", "b"))
    for table in (here, there):
        table.append(rows(range(150)))
        table.append(rows([*range(150, 300), None]))
    source = rows([*range(100, 200), None, *range(290, 350)], offset=3)
    batches = pa.Table.from_batches(source.to_batches(max_chunksize=10))
    expected = here.merge(source, on="k", **CLAUSES[clauses])
    done = there.merge(LocalRows(batches), on="k", executor=Processes(), **CLAUSES[clauses])
    counts = ("inserted_rows", "updated_rows", "deleted_rows")
    assert [getattr(done, name) for name in counts] == [getattr(expected, name) for name in counts]
    assert found(there) == found(here)
    assert list(Path(tmp_path).rglob("*.arrow")) == []
    if kind == "version 3" and clauses != "deletes":
        ids = [table.scan(["k", "_row_id"], where="k < 300").to_arrow().sort_by("k") for table in (here, there)]
        assert ids[0].equals(ids[1])


def test_repeated_keys(tmp_path):
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, properties=TABLES["version 2"])
    table.append(rows(range(10)))
    twice = rows([3, 20, 3, 20, 4])
    with pytest.raises(SchemaError, match="k=3"):
        table.merge(LocalRows(twice), on="k", when_matched="update", executor=Processes())
    done = table.merge(LocalRows(twice), on="k", when_matched=Delete(), when_not_matched=Insert(), executor=Processes())
    assert (done.deleted_rows, done.inserted_rows) == (2, 2)
    assert list(Path(tmp_path).rglob("*.arrow")) == []


@pytest.mark.parametrize("version", ["version 2", "version 3"])
def test_tasks_stay_small(tmp_path, version):
    properties = {**TABLES[version], "skerry.statistics.row-deletes": "upper-bound"}  # samples have a size of their own
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, properties=properties)
    table.append(rows(range(40_000)))
    sizes = []
    for count in (500, 20_000):
        tasks = Processes()
        source = rows(range(20_000, 20_000 + count), offset=1)
        done = table.merge(LocalRows(source), on="k", when_matched="update", when_not_matched="insert", executor=tasks)
        assert done.updated_rows == count
        sizes.append(max(tasks.sizes))
    assert sizes[1] < sizes[0] + 1_000 < 10_000  # 20,000 rows are a megabyte


def test_tasks_of_rows_in_memory_get_the_columns_that_they_need(tmp_path):
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, properties=TABLES["version 2"])
    table.append(rows(range(1_000)))
    source = rows(range(1_000), offset=1).set_column(3, "s", pa.array(["wide" * 250] * 1_000))
    tasks = Processes()
    clauses = {"when_matched": Update(where="source.x > target.x"), "when_not_matched": "insert"}
    done = table.merge(source, on="k", executor=tasks, **clauses)
    assert done.updated_rows == 1_000
    assert max(tasks.sizes) < source.nbytes / 4
