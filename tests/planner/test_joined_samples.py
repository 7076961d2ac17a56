"""Joins of sampled rows: conditions on several inputs that go together, and values that many rows refer to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skerry
from skerry.catalog import Catalog
from skerry.planner import Estimate, JoinGraph, Relation
from skerry.planner.joined_samples import SampledInput
from skerry.planner.selectivity import damped, share_of_rows
from skerry.table.predicate import parse
from skerry.table.rows.schema import leaves
from skerry.table.statistics.histogram import SampledRows, share_within
from skerry.table.statistics.row_sample import ALL_ROWS, RowSample

ROWS = 200_000


def sampled(rows: pa.Table, where: str | None, *, of: int | None = None) -> tuple[pa.Schema, SampledRows]:
    """Rows as the sample of a table, of all its rows or of a number of them."""
    fields = [
        field.with_metadata({"PARQUET:field_id": str(number)}) for number, field in enumerate(rows.schema, start=1)
    ]
    values = rows.rename_columns([str(number) for number in range(1, len(fields) + 1)])
    count = len(rows)
    theta = ALL_ROWS if of is None else round(ALL_ROWS * count / of)
    sample = RowSample(
        theta,
        np.linspace(0, theta - 1, count).astype(np.uint32),
        np.ones(count, np.uint64),
        np.arange(count),
        values,
    )
    schema = pa.schema(fields)
    return schema, SampledRows(lambda: (sample, 0), leaves(schema))


def relation(name: str, rows: pa.Table, where: str | None = None, *, of: int | None = None) -> Relation:
    schema, found = sampled(rows, where, of=of)
    predicate = None if where is None else parse(where, schema)
    share = 1.0 if predicate is None else getattr(found.share_of(predicate), "share", 1.0)
    count = float(of or len(rows))
    types = dict(zip(schema.names, schema.types, strict=True))
    known = SampledInput(found, predicate, share, count, f"ns.{name}")
    whole = Estimate.exactly(count)
    return Relation(name, f"ns.{name}", whole, Estimate.exactly(count * share), {}, types, sampled=known)


keys = st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=1, max_size=12)


@given(st.lists(keys, min_size=2, max_size=4), st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_samples_of_all_rows_give_the_true_number(columns: list[list[int | None]], limits: list[int]) -> None:
    """Against a plain count; every table is joined with the one before by its key, and has a condition on a number."""
    tables = []
    for number, values in enumerate(columns):
        others = [None if value is None else (value * 3 + place) % 4 for place, value in enumerate(values)]
        keys = {"k": pa.array(values, pa.int64()), "l": pa.array(others, pa.int64())}
        tables.append(pa.table({**keys, "n": pa.array([(number + i) % 6 for i in range(len(values))])}))
    relations = [relation(f"t{i}", table, f"n <= {limits[i]}") for i, table in enumerate(tables)]
    equalities = [((f"t{i}", "l"), (f"t{i + 1}", "k")) for i in range(len(tables) - 1)]
    graph = JoinGraph.of(relations, equalities)
    rows: list[Mapping[str, Any]] = [row for row in tables[0].to_pylist() if row["n"] <= limits[0]]
    for limit, table in zip(limits[1:], tables[1:], strict=False):
        rows = [b for a in rows for b in table.to_pylist() if a["l"] == b["k"] is not None and b["n"] <= limit]
    assert graph.size(frozenset(graph.by_name)).rows == pytest.approx(len(rows), abs=1e-6)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Half of the sales are of product 7, and of each order all lines are sent some days after it."""
    rng = np.random.default_rng(4)
    catalog = skerry.connect(tmp_path_factory.mktemp("shop"))
    products = rng.integers(0, 1000, ROWS)
    products[rng.random(ROWS) < 0.5] = 7
    orders = np.arange(6_000)
    of_line = np.repeat(orders, 3)
    tables = {
        "products": {"id": np.arange(1000), "name": [f"p{i}" for i in range(1000)]},
        "sales": {"product": products, "amount": rng.random(ROWS)},
        "orders": {"id": orders, "day": orders // 10},
        "lines": {"order": of_line, "sent": of_line // 10 + rng.integers(1, 5, len(of_line))},
    }
    for name, columns in tables.items():
        rows = pa.table(columns)
        catalog.create_table(f"shop.{name}", rows.schema).append(rows)
    return catalog


def joined(catalog: Catalog, tables: list[str], on: tuple[str, str], **where: str) -> float:
    return catalog.plan_joins([f"shop.{name}" for name in tables], [on], where=where).rows.rows


def test_a_value_that_many_rows_refer_to(shop: Catalog) -> None:
    on = ("sales.product", "products.id")
    assert joined(shop, ["sales", "products"], on, products="name = 'p7'") == pytest.approx(ROWS / 2, rel=0.1)
    assert joined(shop, ["sales", "products"], on, products="name = 'p8'") < ROWS / 500


def test_conditions_on_two_tables_that_go_together(shop: Catalog) -> None:
    on = ("lines.order", "orders.id")
    late = joined(shop, ["lines", "orders"], on, orders="day < 300", lines="sent > 300")
    assert late < 400  # about 75; 4,500 if the two were independent
    early = joined(shop, ["lines", "orders"], on, orders="day < 300", lines="sent < 300")
    assert early == pytest.approx(9_000, rel=0.15)


def test_frequent_values_of_both_sides_multiply() -> None:
    ones = pa.table({"k": [1] * 900 + list(range(2, 102))})
    graph = JoinGraph.of([relation("a", ones, of=10_000), relation("b", ones)], [(("a", "k"), ("b", "k"))])
    assert graph.size(frozenset("ab")).rows == pytest.approx(10 * (900 * 900 + 100))


def test_a_table_does_not_meet_its_own_sample() -> None:
    rows = pa.table({"k": list(range(1000))})
    first, second = relation("a", rows, of=100_000), relation("b", rows, of=100_000)
    assert first.sampled is not None
    assert second.sampled is not None
    alone = SampledInput(second.sampled.sampled, None, 1.0, 100_000.0, "ns.a")
    second = Relation("b", "ns.a", second.rows, second.filtered, {}, second.types, sampled=alone)
    graph = JoinGraph.of([first, second], [(("a", "k"), ("b", "k"))])
    assert graph.size(frozenset("ab")).rows == pytest.approx(100_000)


def test_columns_that_samples_lack_change_nothing() -> None:
    rows = pa.table({"k": [1] * 100})
    graph = JoinGraph.of([relation("a", rows), relation("b", rows)], [(("a", "other"), ("b", "k"))])
    assert graph.size(frozenset("ab")).rows == pytest.approx(100)


def test_conditions_about_which_little_is_known_are_damped(tmp_path: Path) -> None:
    assert damped([0.1, 0.01]) == pytest.approx(0.01 * 0.1**0.5)
    assert damped([]) == 1.0
    table = pa.table({"a": list(range(1000)), "b": [value // 10 for value in range(1000)]})
    schema, found = sampled(table.slice(0, 0), None)
    assert found.share_of(parse("a < 5", schema)) is None
    catalog = skerry.connect(tmp_path)
    catalog.create_table("ns.t", table.schema).append(table)
    columns = {column.field_id: column for column in catalog.load_table("ns.t").statistics().values()}
    where = parse("a = 77 AND b = 7", catalog.load_table("ns.t").schema)
    assert share_of_rows(where, columns, 1000, []) == pytest.approx(0.001)  # all rows are in the sample


@given(st.integers(0, 31), st.floats(1e-9, 1.0))
def test_few_rows_correct_only_what_they_contradict(found: int, expected: float) -> None:
    share = share_within(found, 4096, expected)
    assert 0 < share <= max(expected, 0.02)
    if abs(expected - found / 4096) < 1 / 4096:
        assert share == expected
