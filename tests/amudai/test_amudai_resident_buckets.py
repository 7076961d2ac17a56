"""Partitions of hash indexes: kept in memory they find what they do when they are read; mixed up they are not used."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry import amudai
from skerry.amudai.indexes.hash_buckets import build_partition
from skerry.amudai.reading import resident_buckets
from skerry.amudai.reading.shard_indexes import SoughtValues
from skerry.storage import Storage


def test_partitions_that_are_asked_often_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [n % 5000 for n in range(6000)]
    table = pa.table({"id": [f"{n:08}" for n in range(6000)], "twice": pa.array(numbers, pa.int32())})
    path = tmp_path / "log.amudai.shard"
    amudai.write_table(table, path, indexes=[amudai.HashIndex(["id"]), amudai.HashIndex(["twice"])])
    storage = Storage()

    def find(column: str, values: list[Any], shard: amudai.ShardFile) -> list[int] | None:
        rows = shard.rows_of_values(column, SoughtValues(values))
        return None if rows is None else rows.tolist()

    shard = amudai.ShardFile(path, storage=storage)
    for n in range(60):
        assert find("id", [f"{n:08}"], shard) == [n]
        assert find("twice", [n], shard) == [n, n + 5000]
    before = storage.metrics.requests
    assert find("id", ["00000077", "none", "00005999"], shard) == [77, 5999]
    assert find("twice", [*range(900, 1100), -1], shard) == [*range(900, 1100), *range(5900, 6000)]
    assert storage.metrics.requests == before
    used = resident_buckets._memory.used
    assert used > 0
    monkeypatch.setattr(resident_buckets, "_CAPACITY", used)  # no room for another
    other = amudai.ShardFile(path, storage=storage)
    for n in range(60):
        assert find("id", [f"{n:08}"], other) == [n]
    assert resident_buckets._memory.used == used
    del shard
    gc.collect()
    assert resident_buckets._memory.used < used


def test_memory_is_given_back_by_a_thread_that_holds_the_lock() -> None:
    """The collector may run, and an owner end, while the thread counts."""
    memory = resident_buckets._Memory()
    assert memory.take(100)
    with memory._lock:
        memory.free(60)
    assert memory.used == 40


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 9), st.integers(0, 20)), max_size=60), st.data())
def test_resident_buckets_find_what_was_put_in(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    keys = np.array([key for key, _ in pairs], np.uint64)
    (column,) = build_partition(keys, np.array([row for _, row in pairs], np.int64), 1, 0).columns
    buckets = column.combine_chunks()
    hashes, lists = buckets.flatten().flatten()
    resident = resident_buckets.ResidentBuckets(
        buckets.offsets.to_numpy().astype(np.int64),
        hashes.to_numpy(),
        lists.offsets.to_numpy().astype(np.int64),
        lists.flatten().to_numpy().astype(np.int64),
    )
    wanted = sorted(data.draw(st.sets(st.sampled_from([key for key, _ in pairs] or [1]) | st.integers(0, 2**64 - 1))))
    found = resident.find(np.array(wanted, np.uint64))
    assert found is not None
    expected = [(place, row) for place, key in enumerate(wanted) for row in sorted({r for k, r in pairs if k == key})]
    assert list(zip(*(each.tolist() for each in found), strict=True)) == expected


def test_partitions_that_changed_places_are_not_believed(tmp_path: Path) -> None:
    table = pa.table({"id": [f"{n:08}" for n in range(6000)]})
    path = tmp_path / "log.amudai.shard"
    written = amudai.write_table(table, path, indexes=[amudai.HashIndex(["id"])])
    first, second = map(Path, written.index_files)
    assert (first.name.split(".")[1], second.name.split(".")[1]) == ("part0", "part1")
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    shard = amudai.ShardFile(path)
    for each in table["id"].to_pylist()[:20]:
        assert shard.read(filters=[("id", "=", each)], columns=["id"])["id"].to_pylist() == [each]
