"""What finding single rows by an index costs in requests and bytes, and that it finds the rows of an unindexed read."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.iceberg.manifests.cache import ManifestCache

ROWS = 30_000
SCHEMA = pa.schema([("trace", pa.string()), ("level", pa.string()), ("message", pa.string()), ("ts", pa.int64())])
INDEXED = {"skerry.index.trace": "hash", "skerry.index.message": "text"}


def lines(first: int, count: int = ROWS) -> pa.Table:
    random = np.random.default_rng(first)
    numbers = random.integers(0, 256, (count, 16), dtype=np.uint8)
    words = [f"word{number} of{number % 100}" for number in random.integers(0, 5000, count)]
    return pa.table(
        [
            [number.tobytes().hex() for number in numbers],
            [("INFO", "WARN")[number % 2] for number in range(count)],
            [f"{word} timeout reset" if row % 500 == 7 else f"{word} reset" for row, word in enumerate(words)],
            random.integers(0, 1 << 40, count),
        ],
        schema=SCHEMA,
    )


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> skerry.Table:
    """A table of one file in an object store."""
    catalog = skerry.connect(
        f"sqlite:///{tmp_path_factory.mktemp('costs')}/catalog.db", warehouse="memory://look-up-costs/lake"
    )
    table = catalog.create_table("logs.remote", SCHEMA, properties=INDEXED)
    table.append(lines(1))
    return table


def cost(table: skerry.Table, act: Any) -> Any:
    before = table.storage.metrics.counts()
    act()
    return table.storage.metrics.counts() - before


def test_a_value_in_an_object_store_costs_six_requests(remote):
    traces = remote.scan(["trace"]).to_arrow()["trace"].to_pylist()
    (file,) = remote.files()

    def look_up(place: int) -> None:
        (row,) = (
            remote.scan(["trace", "_pos", "level", "message"], where=f"trace = '{traces[place]}'")
            .to_arrow()
            .to_pylist()
        )
        assert row["_pos"] == place

    for place in range(4):  # both halves of the index are opened
        look_up(place)
    for place in (10_007, 19_003, 29_001):
        spent = cost(remote, lambda place=place: look_up(place))
        assert spent.requests <= 6
        assert spent.bytes_read < file.file_size_bytes  # ranges with less than a megabyte between them are one request
        assert spent.files_opened == 0
    spent = cost(remote, lambda: remote.scan(where="trace = 'none'").to_arrow())
    assert spent.requests <= 2  # of the index: no page of the file


def test_files_are_planned_once_for_many_values(remote):
    traces = remote.scan(["trace"], limit=5).to_arrow()["trace"].to_pylist()
    for trace in traces[:2]:
        assert remote.scan(where=f"trace = '{trace}'").to_arrow().num_rows == 1
    with patch.object(ManifestCache, "manifests", side_effect=AssertionError):
        for trace in traces:
            assert remote.scan(where=f"trace = '{trace}'").to_arrow().num_rows == 1
    remote.append(lines(9, 10))  # another state of the table
    (new,) = lines(9, 1)["trace"].to_pylist()
    assert [remote.scan(where=f"trace = '{new}'").to_arrow().num_rows for _ in range(3)] == [1, 1, 1]


def test_words_in_an_object_store_cost_a_few_requests(remote):
    remote.search("message", "timeout", columns=["ts"])
    spent = cost(remote, lambda: remote.search("message", "word77", columns=["ts", "level"]))
    assert spent.requests <= 8


def test_many_values_and_words_read_each_page_once(tmp_path):
    table = skerry.connect(tmp_path).create_table("logs.many", SCHEMA, properties=INDEXED)
    for first in (2, 3):
        table.append(lines(first, 20_000))
    traces = table.scan(["trace"]).to_arrow()["trace"].to_pylist()
    chosen = traces[::40]
    where = f"trace IN ({', '.join(map(repr, chosen))})"
    assert sorted(table.scan(["trace"], where=where).to_arrow()["trace"].to_pylist()) == sorted(chosen)
    spent = cost(table, lambda: table.scan(["trace"], where=where).to_arrow())
    sizes = sum(file.file_size_bytes for file in table.files())
    assert spent.bytes_read < 1.2 * sizes  # every page of one column, and the index
    assert spent.files_opened == 0
    columns = ["ts", "level", "trace"]
    assert table.search("message", '"timeout reset"', columns=columns).num_rows == 80
    whole = cost(table, lambda: table.search("message", "timeout", columns=columns))
    # values show that no row has the words in this order, before other columns are read
    spent = cost(table, lambda: table.search("message", '"reset timeout"', columns=columns))
    assert spent.bytes_read < whole.bytes_read / 2


VALUES = st.none() | st.sampled_from(["", "a", "é", "b" * 40]) | st.text(max_size=3)


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_rows_are_those_of_an_unindexed_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("equal")
    schema = pa.schema([("key", pa.string()), ("number", pa.int64()), ("text", pa.string())])
    properties = {"skerry.index.key": "hash", "skerry.index.number": "hash", "skerry.index.text": "text"}
    table = skerry.connect(folder).create_table(
        "a.b", schema, properties={**properties, "write.delete.mode": "merge-on-read"}
    )
    number = st.none() | st.integers(-2, 3)
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(
            st.lists(st.tuples(VALUES, number, st.none() | st.text("ab \n", max_size=8)), min_size=1, max_size=30)
        )
        table.append(pa.table([*zip(*rows, strict=True)], schema=schema))
    if data.draw(st.booleans()):
        table.delete(f"number = {data.draw(st.integers(-2, 3))}")
    keys = data.draw(st.lists(VALUES.filter(lambda value: value is not None), min_size=1, max_size=5))
    quoted = ", ".join("'" + key.replace("'", "''") + "'" for key in keys)
    columns = ["_file", "_pos", *schema.names]
    for where in (
        f"key IN ({quoted})",
        f"number = {data.draw(st.integers(-2, 3))}",
        f"key IN ({quoted}) AND number = 1",
    ):
        scan = table.scan(columns, where=where)
        expected = [row for batch in scan.row_reader().batches(scan.plan()) for row in batch.to_pylist()]
        for _ in range(3):  # what the table's files are is known from the second time on
            assert table.scan(columns, where=where).to_arrow().to_pylist() == expected
    for query in ("a", '"a b"', "a* NOT b"):
        found = table.search("text", query, columns=columns)
        texts = [(row["_file"], row["_pos"]) for row in found.to_pylist()]
        dropped = skerry.connect(folder).load_table("a.b")
        dropped.set_properties({"skerry.indexes": ""})
        again = dropped.search("text", query, columns=columns)
        assert texts == [(row["_file"], row["_pos"]) for row in again.to_pylist()]
        dropped.set_properties({"skerry.indexes": table.properties["skerry.indexes"]})
