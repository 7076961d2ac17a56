"""The example's comparison finds what it is there to find."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "change_data"))

from check import DifferenceError, compare, compare_statistics, read_by_duckdb
from stream import ICEBERG, PAIMON, create_tables
from upkeep import look_after

import skerry

OTHERS = ("customer", "amount", "weight", "paid", "changed", "note")


def rows(*pairs):
    return pa.table({"id": [id_ for id_, _ in pairs], "status": [status for _, status in pairs]})


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (rows((1, "a"), (3, "b")), r"has 2 rows instead of 3: 1 lost \[2\], 0 too many \[\], 0 doubled"),
        (rows((1, "a"), (2, "a"), (2, "a"), (3, "b")), r"has 4 rows instead of 3: 0 lost .* 1 doubled"),
        (rows((1, "a"), (2, "a"), (4, "b")), r"has 3 rows instead of 3: 1 lost \[3\], 1 too many \[4\]"),
        (rows((1, "a"), (2, "x"), (3, "b")), r"has \{'id': 2, 'status': 'x'\} instead of \{'id': 2, 'status': 'a'\}"),
    ],
)
def test_differences_are_named(found, message):
    expected = rows((1, "a"), (2, "a"), (3, "b"))
    compare("t", expected, expected)
    with pytest.raises(DifferenceError, match=message):
        compare("t", found, expected)


def orders(ids, status, op):
    told = {"id": ids, "status": [status] * len(ids), "op": [op] * len(ids)}
    return pa.table(told | {name: pa.nulls(len(ids)) for name in OTHERS})


def test_counts_are_compared_with_the_rows(tmp_path):
    for table in create_tables(skerry.connect(tmp_path)):
        table.apply_changes(orders(list(range(100)), "new", "c"))
        table.apply_changes(orders(list(range(50)), "sent", "u"))
        assert look_after(table).startswith(table.name)
        found = read_by_duckdb(table)
        assert found.num_rows == 100
        compare_statistics(table, found)
        with pytest.raises(DifferenceError, match=r"\.id: 100 distinct values instead of 90"):
            compare_statistics(table, found.slice(0, 90))
    assert {ICEBERG, PAIMON} == set(skerry.connect(tmp_path).list_tables("shop"))
