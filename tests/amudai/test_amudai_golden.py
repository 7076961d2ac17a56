"""Every shard that the reference wrote reads as the table it was written from, in every way there is to read it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from golden_shards import GoldenShard, assert_same_values, golden_shards

from skerry.amudai.reading.shard_file import ShardFile, read_table
from skerry.storage import Storage

pytestmark = pytest.mark.parametrize("shard", golden_shards(), ids=lambda shard: shard.name)


def _assert_same(actual: pa.Table, expected: pa.Table) -> None:
    assert actual.column_names == expected.column_names
    assert actual.num_rows == expected.num_rows
    for name in expected.column_names:
        assert_same_values(actual[name], expected[name], name)


def test_whole(shard: GoldenShard) -> None:
    table = read_table(shard.path)
    table.validate(full=True)
    _assert_same(table, shard.expected())
    file = ShardFile(shard.path)
    assert table.schema == file.schema
    assert table.num_rows == file.num_rows


def test_projection(shard: GoldenShard) -> None:
    expected = shard.expected()
    names = expected.column_names[::-2]
    file = ShardFile(shard.path)
    _assert_same(file.read(columns=names, use_threads=False), expected.select(names))
    for name in names[:3]:
        _assert_same(file.read(columns=[name]), expected.select([name]))
    nothing = file.read(columns=[])
    assert (nothing.num_rows, nothing.num_columns) == (expected.num_rows, 0)


def test_filter(shard: GoldenShard) -> None:
    expected = shard.expected()
    kept = np.zeros(expected.num_rows, np.bool_)
    for name in expected.column_names:
        column = expected[name]
        is_plain = (
            pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_float64(column.type)
        )
        if not is_plain or column.null_count == len(column) or expected.schema.field(name).metadata:
            continue
        value = column.drop_null()[len(column.drop_null()) // 2].as_py()
        found = read_table(shard.path, filters=[(name, "=", value)])
        kept = np.array([other == value for other in column.to_pylist()])
        _assert_same(found, expected.filter(pa.array(kept)))
        below = np.array([other is not None and other < value for other in column.to_pylist()])
        _assert_same(read_table(shard.path, filters=[(name, "<", value)]), expected.filter(pa.array(below)))
        break


@pytest.mark.parametrize("batch_size", [1000, 70_001])
def test_batches(shard: GoldenShard, batch_size: int) -> None:
    expected = shard.expected()
    file = ShardFile(shard.path)
    batches = list(file.iter_batches(batch_size))
    assert all(0 < batch.num_rows <= batch_size for batch in batches)
    table = pa.Table.from_batches(batches, schema=file.schema)
    if expected.num_columns:
        _assert_same(table, expected)


def test_rows_by_position(shard: GoldenShard) -> None:
    expected = shard.expected()
    if expected.num_rows == 0:
        return
    expected = expected.select(expected.column_names[:20])
    rows = np.random.default_rng(7).integers(0, expected.num_rows, 40)
    rows[:3] = [expected.num_rows - 1, 0, 0]
    found = ShardFile(shard.path).take(rows, columns=expected.column_names)
    for name in expected.column_names:
        values = expected[name].to_pylist()
        picked = pa.chunked_array([pa.array([values[row] for row in rows], expected[name].type)])
        assert_same_values(found[name], picked, name)


def test_stripes(shard: GoldenShard) -> None:
    expected = shard.expected()
    storage = Storage()
    file = ShardFile(shard.path, storage=storage)
    assert [stripe.record_offset for stripe in file.metadata.stripes] == [
        sum(stripe.record_count for stripe in file.metadata.stripes[:i]) for i in range(file.num_stripes)
    ]
    if file.num_stripes == 0:
        return
    last = file.metadata.stripes[-1]
    _assert_same(file.read(stripes=[last.ordinal]), expected.slice(last.record_offset))
