"""Row-level deletes and samples: what is known afterwards is what sketching everything again would tell, for less."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.iceberg.statistics.samples import read_sample
from skerry.storage import Storage
from skerry.table.files.row_reader import RowReader
from skerry.table.statistics.column_statistics import FreshnessState
from torture import examples

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("s", pa.string()), ("x", pa.float64())])
PROPERTIES = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}


def rows(ks, p=0):
    ks = [*ks]
    columns = {"k": ks, "p": [p] * len(ks), "s": [None if k % 13 == 0 else f"s{k % 40}" for k in ks]}
    return pa.table({**columns, "x": [float("nan") if k % 5 == 0 else k % 7 / 2 for k in ks]}, schema=SCHEMA)


def make(folder, groups=128, **more):
    properties = {**PROPERTIES, "skerry.statistics.max-groups": str(groups), **more}
    return skerry.connect(folder).create_table("d.t", SCHEMA, properties=properties)


def known(table):
    """By field id, threshold, hashes that occur, and for each file the hashes of its group."""
    state = table.handle.state
    groups = read_sample(state, state.snapshot()).groups
    per_file = {
        (field_id, file): column.group(row).hashes.tolist()
        for field_id, column in groups.columns.items()
        for row, group in enumerate(groups.groups)
        for file in group.files
    }
    unions = {field_id: column.union().hashes.tolist() for field_id, column in groups.columns.items()}
    return unions, per_file, [group.exact for group in groups.groups], sum(group.row_count for group in groups.groups)


def assert_as_if_sketched_again(table):
    assert {column.freshness.state for column in table.statistics().values()} == {FreshnessState.FRESH}
    unions, per_file, exact, count = known(table)
    assert all(exact)
    assert count == table.scan().count()
    table.analyze(full=True)
    full_unions, full_per_file, _, full_count = known(table)
    assert count == full_count
    for field_id, hashes in full_unions.items():
        limit = (hashes or [0])[-1]  # a full analyze may know more hashes, never others
        assert [found for found in unions[field_id] if found <= limit] == hashes[: len(unions[field_id])]
    if len(per_file) == len(full_per_file):
        for place, hashes in per_file.items():
            assert set(hashes) <= set(full_per_file[place])


@settings(max_examples=examples(10))
@given(
    st.lists(st.integers(5, 60), min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from(["k", "s", "mod"]), st.integers(0, 70)), min_size=1, max_size=3),
    st.sampled_from([1, 2, 128]),
    st.sampled_from(["2", "3"]),
)
def test_random_deletes(tmp_path_factory, sizes, deletes, groups, version):
    table = make(tmp_path_factory.mktemp("t"), groups, **{"format-version": version})
    start = 0
    for size in sizes:
        table.append(rows(range(start, start + size)))
        start += size // 2  # values are in several files
    for kind, number in deletes:
        conditions = {"k": f"k = {number}", "s": f"s = 's{number % 40}'", "mod": f"k IN ({number}, {number + 3}, 1)"}
        table.delete(conditions[kind])
        if table.scan().count():
            assert {column.freshness.state for column in table.statistics().values()} == {FreshnessState.FRESH}
    if table.scan().count():
        assert_as_if_sketched_again(table)


@pytest.mark.parametrize("groups", [1, 128])
def test_more_values_than_a_sample_holds(tmp_path, groups):
    table = make(tmp_path, groups)
    for start in range(0, 40_000, 10_000):
        table.append(rows(range(start, start + 10_000)))
    generator = np.random.default_rng(3)
    for _ in range(3):
        keys = generator.integers(0, 40_000, 300).tolist()
        table.delete(f"k IN ({', '.join(map(str, keys))})")
        state = table.handle.state
        sample = read_sample(state, state.snapshot()).groups
        assert all(group.exact for group in sample.groups)
        alive = table.scan(["k"]).to_arrow().column("k").combine_chunks()
        every = skerry.theta.Sample(1 << 20).update(alive).hashes
        column = sample.columns[1]
        assert column.union().hashes.tolist() == every[every < column.theta].tolist()
    found = table.statistics()["k"]
    assert found.lower <= len(alive) <= found.upper


def test_updates_and_deletes_in_one_merge(tmp_path):
    table = make(tmp_path)
    table.append(rows(range(100)))
    table.append(rows(range(80, 200), p=1))
    table.upsert(rows([5, 90, 500], p=2), on=["k", "p"])
    table.upsert(rows([5, 90], p=1), on=["k", "p"])
    assert_as_if_sketched_again(table)


def test_deletes_that_lie_in_few_parts_of_a_file_read_those_alone(tmp_path, monkeypatch):
    table = make(tmp_path, **{"write.parquet.row-group-size-bytes": "4096"})
    batches = rows(range(10_000)).to_batches(max_chunksize=1000)
    table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches))
    (file,) = table.files()
    parts = pq.ParquetFile(file.location.removeprefix("file://")).num_row_groups
    assert parts >= 10
    read: list[int] = []
    real = RowReader._read

    def recording(self, work, limit):
        read.append(work.part.index)
        return real(self, work, limit)

    monkeypatch.setattr(RowReader, "_read", recording)
    table.delete("k IN (4007, 4008)")
    assert len(table.files()) == 1
    found, taken, *searched = read
    assert found == taken > 0  # the rows are found, and read
    assert searched == [*range(parts)]  # only k is looked through: the other columns' values are in the same part again
    assert_as_if_sketched_again(table)


def test_files_of_other_groups_are_not_opened(tmp_path, monkeypatch):
    table = make(tmp_path)
    for start in range(0, 500, 100):
        table.append(rows(range(start, start + 100)))
    opened: set[str] = set()
    real = Storage.arrow_file

    def recording(self, location):
        opened.add(location)
        return real(self, location)

    monkeypatch.setattr(Storage, "arrow_file", recording)
    table.delete("k = 250")
    assert len(opened) == 1
    assert_as_if_sketched_again(table)


def test_a_rival_that_merges_groups_leaves_an_upper_bound(tmp_path, monkeypatch):
    """What was looked up holds for the group as it was; in another one the value may still be."""
    from skerry.iceberg.jobs import row_changes

    table = make(tmp_path, groups=2)
    table.append(rows(range(100)))
    table.append(rows(range(50, 150)))
    real = row_changes.subtract_deleted

    def with_rival(*arguments):
        found = real(*arguments)
        other = skerry.connect(tmp_path).load_table("d.t")
        other.append(rows(range(60, 160)))
        return found

    monkeypatch.setattr(row_changes, "subtract_deleted", with_rival)
    table.set_properties({"write.delete.isolation-level": "snapshot"})
    table.delete("k = 75")
    monkeypatch.undo()
    content = table.scan().to_arrow()
    for name, column in table.refresh().statistics().items():
        values = content.column(name).drop_null().to_pylist()
        truth = len({value for value in values if value == value})
        expected = FreshnessState.UPPER_BOUND if name == "k" else FreshnessState.FRESH
        assert column.freshness.state is expected, (name, column)
        assert column.lower <= truth + (name == "x") <= column.upper, (name, truth, column)  # x has NaN
    table.analyze()
    assert {column.freshness.state for column in table.statistics().values()} == {FreshnessState.FRESH}
