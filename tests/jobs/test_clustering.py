"""Sorting and Z-order across files: every row once, in order, in files that share no range, in bounded memory."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import itertools
import pickle

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import skerry
from skerry.errors import SchemaError
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    StructType,
)
from skerry.iceberg.partitioning.partitions import column_of
from skerry.iceberg.partitioning.sorting import z_order_columns
from skerry.iceberg.reading.scan import scan
from skerry.iceberg.writing.clustering import Clustering, clustered
from skerry.table.rows import external_sort
from skerry.table.rows.values import decode_value
from skerry.table.rows.z_order import ZOrder, _interleave, _unfolded

SCHEMA = Schema(
    NestedField(1, "a", LongType(), required=False),
    NestedField(2, "b", DoubleType(), required=False),
    NestedField(3, "s", StringType(), required=False),
    NestedField(4, "p", StructType(NestedField(5, "d", DateType(), required=False)), required=False),
    NestedField(6, "m", DecimalType(9, 2), required=False),
    NestedField(7, "t", BooleanType(), required=False),
)


def plain_interleave(numbers, bits):
    text = "".join("".join(format(number, f"0{bits}b")[place] for number in numbers) for place in range(bits))
    return int(text, 2)


@given(st.lists(st.tuples(*[st.integers(0, 2**16 - 1)] * 3), min_size=1, max_size=20))
def test_bits_are_interleaved_like_the_plain_twin(rows):
    columns = [np.array(column, np.uint64) for column in zip(*rows, strict=True)]
    assert _interleave(columns, 16).tolist() == [plain_interleave(row, 16) for row in rows]


ROW = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | st.floats(),
        "s": st.none() | st.text(max_size=4),
        "p": st.none() | st.fixed_dictionaries({"d": st.none() | st.dates()}),
        "m": st.none() | st.decimals(-1000, 1000, places=2),
        "t": st.none() | st.booleans(),
    }
)
ARROW = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.float64()),
        ("s", pa.string()),
        ("p", pa.struct([("d", pa.date32())])),
        ("m", pa.decimal128(9, 2)),
        ("t", pa.bool_()),
    ]
)


@given(st.lists(ROW, max_size=30), st.lists(ROW, max_size=30))
def test_numbers_keep_the_order_of_values_and_nulls_come_first(sampled, others):
    sample, rows = (pa.Table.from_pylist(part, ARROW) for part in (sampled, others + sampled))
    curve = ZOrder.of([column_of(SCHEMA, number, sample) for number in (1, 2, 3, 5, 6, 7)])
    keys = curve.keys([column_of(SCHEMA, number, rows) for number in (1, 2, 3, 5, 6, 7)])
    assert len(keys) == len(rows)
    # a row that is nowhere above another one is not behind it
    for left, left_key in zip(rows.to_pylist(), keys.tolist(), strict=True):
        for right, right_key in zip(rows.to_pylist(), keys.tolist(), strict=True):
            if all(not_above(left[name], right[name]) for name in ARROW.names):
                assert left_key <= right_key


def not_above(left, right):
    if isinstance(left, dict) or isinstance(right, dict):
        left, right = (left or {}).get("d"), (right or {}).get("d")
    if left is None or right is None:
        return left is None
    if isinstance(left, float):
        bits = np.array([left, right]).view(np.int64)
        left, right = (bits ^ ((bits >> 63) & 0x7FFF_FFFF_FFFF_FFFF)).tolist()
    return left <= right


def test_columns_that_do_not_fit():
    assert z_order_columns(SCHEMA, ["p.d", "a"]) == (5, 1)
    for names in ([], ["a"], ["a", "a"]):
        with pytest.raises(SchemaError, match="a curve takes 2 to 8 different columns"):
            z_order_columns(SCHEMA, names)
    with pytest.raises(SchemaError, match="no column 'q'"):
        z_order_columns(SCHEMA, ["a", "q"])


# Compaction ----------------------------------------------------------------------------------------------------------


def rows(count, seed):
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "x": random.permutation(count),
            "y": random.permutation(count),
            "word": pa.array([f"word {number % 97}" for number in random.permutation(count)]),
            "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=int(n % 30)) for n in range(count)]),
            "price": pa.array([decimal.Decimal(int(n)) / 100 for n in range(count)], pa.decimal128(12, 2)),
        }
    )


@pytest.fixture
def table(tmp_path):
    catalog = skerry.connect(tmp_path / "warehouse")
    made = catalog.create_table("d.t", rows(1, 0).schema, format_version=3)
    for seed in range(4):
        made.append(rows(5000, seed))
    return made


@pytest.fixture
def small_ranges(monkeypatch):
    """So small that rows must be spilled."""
    plain = Clustering

    def make(reader, ids=(), **how):
        return plain(reader, ids, range_bytes=100_000, **how)

    monkeypatch.setattr("skerry.iceberg.jobs.compact.Clustering", make)


def content(table):
    return table.refresh().scan(["x", "y", "word", "day", "price", "_row_id"]).to_arrow().sort_by("_row_id")


def spans(table, name):
    """Lower and upper bound of a column in each file."""
    field = table.schema.field(name)
    number = int(field.metadata[b"PARQUET:field_id"])
    return [
        (decode_value(field.type, file.lower_bounds[number]), decode_value(field.type, file.upper_bounds[number]))
        for file in table.refresh().files()
    ]


def overlap(table, name):
    """The part of all files that a condition on one value reads, on average."""
    found = spans(table, name)
    return sum(sum(low <= value <= high for low, high in found) for value in range(0, 5000, 100)) / 50 / len(found)


@pytest.mark.parametrize("columns", [2, 3])
def test_a_hilbert_curve_makes_no_jumps(columns):
    """Every point of a cube is on it once, and the next one is a neighbour."""
    bits = 4 if columns == 2 else 3
    points = np.array(list(itertools.product(range(1 << bits), repeat=columns)), np.uint64)
    keys = _interleave(_unfolded(list(points.T), bits), bits)
    assert sorted(keys.tolist()) == list(range(len(points)))
    steps = np.abs(np.diff(points[np.argsort(keys)].astype(np.int64), axis=0))
    assert (steps.sum(axis=1) == 1).all()


def test_a_hilbert_curve_narrows_the_bounds_of_every_column(table):
    table.set_properties({"write.parquet.row-group-size-bytes": "16384"})
    before = content(table)
    table.compact(hilbert=["x", "y"], target_file_size_bytes=20_000)
    assert content(table) == before
    assert max(overlap(table, "x"), overlap(table, "y")) < 0.55


@pytest.mark.parametrize("size", ["large ranges", "small ranges"])
def test_z_order_narrows_the_bounds_of_every_column(table, request, size):
    if size == "small ranges":
        request.getfixturevalue("small_ranges")
    before, statistics = content(table), {name: found.ndv for name, found in table.statistics().items()}
    table.set_properties({"write.parquet.row-group-size-bytes": "16384"})
    done = table.compact(z_order=["x", "y"], target_file_size_bytes=20_000)
    assert done.reasons == {"asked for": 1}
    assert done.rows == 20_000
    assert done.added_files >= 8
    assert content(table) == before
    assert max(overlap(table, "x"), overlap(table, "y")) < 0.6
    assert {str(found.freshness) for found in table.statistics().values()} == {"fresh"}
    assert {name: found.ndv for name, found in table.statistics().items()} == statistics
    assert {file.sort_order_id for file in table.files()} <= {None, 0}


def test_sorting_goes_across_all_files_of_a_group(table, small_ranges):
    before = content(table)
    table.set_properties({"write.parquet.row-group-size-bytes": "16384"})
    done = table.compact(sort_by=["x desc", "word"], target_file_size_bytes=20_000)
    assert done.added_files >= 8
    assert content(table) == before
    found = sorted(spans(table, "x"))
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(found)), "files share no range"
    for task in table.scan().plan():
        xs = scan(table.handle.state, ["x"]).row_reader().batches([task])
        column = pa.Table.from_batches(xs)["x"]
        assert column.to_pylist() == sorted(column.to_pylist(), reverse=True)


def test_partitions_and_deletes_are_kept(tmp_path, small_ranges):
    catalog = skerry.connect(tmp_path / "w")
    table = catalog.create_table(
        "d.t",
        rows(1, 0).schema,
        partition_by=["day"],
        format_version=3,
        properties={"write.delete.mode": "merge-on-read"},
    )
    table.append(rows(3000, 1))
    table.append(rows(3000, 2))
    table.delete("y < 500")
    before = content(table)
    done = table.compact("day < DATE '2020-01-10'", z_order=["word", "price"])
    assert done.groups == 9
    assert content(table) == before
    assert done.removed_delete_files > 0


def test_rows_come_in_order_and_tasks_are_picklable(table):
    implementation = table.handle
    state = implementation.refresh()
    layout = implementation.layout(lineage=True)
    layout = dataclasses.replace(layout, presorted=True)
    tasks = list(scan(state).plan())
    ids = z_order_columns(layout.iceberg_schema, ["x", "word"])
    found = []
    for range_bytes in (1 << 30, 60_000):
        order = Clustering(scan(state, ["x", "word"], threads=1).row_reader(), ids, range_bytes)
        reader = scan(state, layout.file_schema.names, threads=1).row_reader()
        order, reader = pickle.loads(pickle.dumps((order, reader)))
        found.append(pa.Table.from_batches(clustered(order, layout, reader, tasks)))
    assert found[0] == found[1], "spilled or not"
    sample = scan(state, ["x", "word"]).to_arrow()
    curve = ZOrder.of([sample["x"], sample["word"]])
    keys = curve.keys([found[0]["x"], found[0]["word"]])
    assert (np.diff(keys.astype(object)) >= 0).all()


def test_a_sample_is_enough(table, monkeypatch):
    monkeypatch.setattr(external_sort, "_SAMPLE_ROWS", 50)
    before = content(table)
    table.compact(z_order=["x", "y"])
    assert content(table) == before


def test_all_rows_deleted_and_all_null(tmp_path):
    catalog = skerry.connect(tmp_path / "w")
    table = catalog.create_table(
        "d.t", pa.schema([("a", pa.int64()), ("b", pa.string())]), properties={"write.delete.mode": "merge-on-read"}
    )
    table.append(pa.table({"a": pa.nulls(5, pa.int64()), "b": pa.nulls(5, pa.string())}))
    assert table.compact(z_order=["a", "b"]).rows == 5
    assert table.scan().count() == 5


def test_both_at_once_make_no_sense(table):
    with pytest.raises(SchemaError, match="only one of sort_by, z_order and hilbert can be given"):
        table.compact(sort_by=["x"], z_order=["x", "y"])
    with pytest.raises(SchemaError, match="no column 'q'"):
        table.compact(z_order=["x", "q"], dry_run=True)
