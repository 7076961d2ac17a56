"""Conditions on groups, and columns that must be in the result of a SELECT, beside simulated and true numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.catalog import Catalog
from skerry.planner.groups import GroupCondition, share_of_groups

GROUPS = 40_000


@pytest.mark.parametrize("function", ["avg", "count", "sum"])
@pytest.mark.parametrize("is_above", [True, False])
@pytest.mark.parametrize("place", [0.02, 0.3, 0.9])
def test_shares_of_groups_are_those_of_random_ones(function: str, is_above: bool, place: float) -> None:
    random = np.random.default_rng(11)
    sizes = random.poisson(12, GROUPS)
    sizes[sizes == 0] = 1
    values = random.integers(0, 50, int(sizes.sum())).astype(np.float64)
    sums = np.add.reduceat(values, np.cumsum(sizes) - sizes)
    found = {"avg": sums / sizes, "count": sizes.astype(np.float64), "sum": sums}[function]
    limit = float(np.quantile(found, place)) + 0.5
    true = float((found > limit).mean()) if is_above else float((found < limit).mean())
    condition = GroupCondition(function, None if function == "count" else ("t", "x"), is_above, limit)
    share = share_of_groups(condition, pa.array(values[:4096]), len(values) / GROUPS)
    assert share == pytest.approx(true, abs=0.06)


def test_values_of_which_nothing_is_known() -> None:
    condition = GroupCondition("sum", ("t", "x"), is_above=True, value=3.0)
    assert share_of_groups(condition, None, 4.0) is None
    assert share_of_groups(condition, pa.array(["a", "b"]), 4.0) is None
    assert share_of_groups(condition, pa.array([], pa.int64()), 4.0) is None
    assert share_of_groups(condition, pa.array([0, 0]), 4.0) == 0.0
    assert share_of_groups(GroupCondition("avg", ("t", "x"), is_above=True, value=3.0), pa.array([5, 5]), 4.0) == 1.0


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """2,000 orders of 1 to 7 lines of up to 50 pieces, as in TPC-H; 100 customers, of whom 10 complain."""
    random = np.random.default_rng(5)
    catalog = skerry.connect(tmp_path_factory.mktemp("shop"))
    lines = np.repeat(np.arange(2_000), random.integers(1, 8, 2_000))
    tables = {
        "orders": pa.table({"id": np.arange(2_000), "customer": np.arange(2_000) % 100}),
        "lines": pa.table({"order": lines, "pieces": random.integers(1, 51, len(lines))}),
        "customers": pa.table({"id": np.arange(100), "complains": np.arange(100) % 10 == 0}),
    }
    for name, rows in tables.items():
        catalog.create_table(f"shop.{name}", rows.schema).append(rows)
    return catalog


@pytest.mark.parametrize(
    ("where", "factor"),
    [
        ('id IN (SELECT "order" FROM shop.lines GROUP BY "order" HAVING sum(pieces) > 150)', 1.5),
        ('id IN (SELECT "order" FROM shop.lines GROUP BY "order" HAVING 150 < sum(pieces) AND count(*) > 3)', 3),
        ("customer IN (SELECT id FROM shop.customers WHERE complains)", 1.01),
        ("customer NOT IN (SELECT id FROM shop.customers WHERE complains)", 1.01),
    ],
)
def test_members_of_results_are_estimated(shop: Catalog, where: str, factor: float) -> None:
    query = f"SELECT o.id FROM shop.orders AS o WHERE o.{where}"
    (true, estimate) = shop.sql(query).num_rows, shop.explain(query).selects[-1].rows.rows
    assert true / factor <= estimate <= true * factor
    assert "IN (SELECT" in str(shop.explain(query))


def test_what_refers_to_the_query_around_it_is_guessed(shop: Catalog) -> None:
    query = (
        "SELECT o.id FROM shop.orders AS o WHERE o.customer IN "
        "(SELECT c.id FROM shop.customers AS c WHERE c.id = o.id GROUP BY c.id HAVING min(c.complains))"
    )
    assert shop.sql(query).num_rows == 10
    assert shop.explain(query).selects[-1].rows.rows == 1_000
