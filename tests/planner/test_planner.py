"""Estimates and orders: selectivities, join sizes from sketches, what is assumed, and the best of all orders."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.planner import Estimate, JoinGraph, Relation, plan_joins
from skerry.planner.ordering import Tree
from skerry.planner.selectivity import ASSUMED_EQUALITY, ASSUMED_RANGE, selectivity
from skerry.table.predicate import parse
from skerry.table.statistics.column_statistics import FRESH, ColumnStatistics, Freshness, FreshnessState
from skerry.theta import ThetaSketch

STALE = Freshness(FreshnessState.STALE, "1 snapshot since yesterday")


def column(name: str, values: Any, *, freshness: Freshness = FRESH, field_id: int = 1) -> ColumnStatistics:
    array = pa.chunked_array([values]).combine_chunks()
    sketch = ThetaSketch().update(array)
    lower, upper = sketch.bounds(2)
    valid = [value for value in array.to_pylist() if value is not None]
    return ColumnStatistics(
        name, field_id, sketch.estimate(), lower, upper, array.null_count, min(valid), max(valid), freshness, sketch
    )


def share(where: str, values: pa.Array, *, freshness: Freshness = FRESH) -> tuple[float, list[str]]:
    schema = pa.schema([pa.field("x", values.type, metadata={"PARQUET:field_id": "1"})])
    assumptions: list[str] = []
    known = {1: column("x", values, freshness=freshness)}
    return selectivity(parse(where, schema), known, len(values), assumptions), assumptions


@pytest.mark.parametrize(
    ("where", "truth"),
    [
        ("x < 250", 0.25),
        ("x <= 249", 0.25),
        ("x >= 250 AND x < 500", 0.25),
        ("x BETWEEN 100 AND 199", 0.1),
        ("x > 998", 0.001),
        ("x < -5", 0.0),
        ("x = 7", 0.001),
        ("x = 5000", 0.0),
        ("x IN (1, 2, 3, 4000)", 0.003),
        ("x NOT IN (1, 2)", 0.998),
        ("x <> 7", 0.999),
        ("x < 100 OR x >= 900", 0.19),
        ("x IS NULL", 0.0),
        ("x IS NOT NULL", 1.0),
    ],
)
def test_shares_of_even_numbers(where: str, truth: float) -> None:
    found, assumptions = share(where, pa.array(range(1000)))
    assert found == pytest.approx(truth, abs=1e-9)
    assert assumptions == []


def test_shares_of_dates_texts_and_nulls() -> None:
    days = pa.array(range(3650), pa.int32()).cast(pa.date32())
    assert share("x >= DATE '1971-01-01' AND x < DATE '1972-01-01'", days)[0] == pytest.approx(0.1)
    names = pa.array([f"part-{number:04}" for number in range(1000)])
    assert share("x LIKE 'part-02%'", names)[0] == pytest.approx(0.1, rel=0.3)
    holes = pa.array([None, 1, 2, None])
    assert share("x IS NULL", holes)[0] == 0.5
    assert share("x = 1", holes)[0] == 0.25


def test_a_value_that_no_row_has_is_known_where_its_hash_would_be_kept() -> None:
    values = pa.array(np.arange(100_000) * 2)
    known = column("x", values)
    schema = pa.schema([pa.field("x", values.type, metadata={"PARQUET:field_id": "1"})])

    def may_occur(number: int) -> bool:
        return selectivity(parse(f"x = {number}", schema), {1: known}, len(values), []) > 0

    assert known.sketch is not None
    occurring = [may_occur(number) for number in range(1, 4000, 2)]
    assert 1 - np.mean(occurring) == pytest.approx(known.sketch.theta / 2**63, abs=0.02)
    assert all(may_occur(number) for number in range(0, 400, 2))


def test_nothing_stale_is_used_and_what_is_assumed_is_said() -> None:
    found, assumptions = share("x = 7", pa.array(range(1000)), freshness=STALE)
    assert found == ASSUMED_EQUALITY
    assert "stale: 1 snapshot since yesterday" in assumptions[0]
    schema = pa.schema([pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    told: list[str] = []
    assert selectivity(parse("x < 5", schema), {}, 100, told) == ASSUMED_RANGE
    assert "no bounds are known" in told[0]


# ---- joins ----


def relation(name: str, rows: float, columns: dict[str, Any], *, keep: float = 1.0, fresh: bool = True) -> Relation:
    found = {key: column(key, pa.array(values), freshness=FRESH if fresh else STALE) for key, values in columns.items()}
    types = {key: pa.array(values).type for key, values in columns.items()}
    return Relation(name, f"ns.{name}", Estimate.exactly(rows), Estimate.exactly(rows * keep), found, types)


def test_containment_is_measured_not_assumed() -> None:
    orders = relation("o", 100_000, {"customer": np.arange(20_000)})
    customers = relation("c", 30_000, {"id": np.arange(10_000, 40_000)})  # half of the orders' customers are unknown
    graph = JoinGraph.of([orders, customers], [(("o", "customer"), ("c", "id"))])
    found = graph.size(frozenset("oc"))
    assert found.lower < 50_000 < found.upper
    assert found.rows == pytest.approx(50_000, rel=0.1)
    assert plan_joins(graph).assumptions == ()
    plan = plan_joins(graph)
    assert plan.steps[0].right == ("c",)
    assert plan.steps[0].on == ("o.customer = c.id",)
    assert "contained" in plan.steps[0].how
    assert "join 1: o × c" in str(plan)


def test_sets_that_share_nothing_join_to_nothing() -> None:
    graph = JoinGraph.of(
        [relation("a", 1000, {"k": np.arange(1000)}), relation("b", 1000, {"k": np.arange(5000, 6000)})],
        [(("a", "k"), ("b", "k"))],
    )
    assert graph.size(frozenset("ab")) == Estimate(0, 0, 0)


def test_a_class_of_three_columns_is_intersected_once() -> None:
    inputs = [
        relation(name, 900, {"k": np.arange(start, start + 300)}) for name, start in (("a", 0), ("b", 100), ("c", 200))
    ]
    graph = JoinGraph.of(inputs, [(("a", "k"), ("b", "k")), (("b", "k"), ("c", "k")), (("a", "k"), ("c", "k"))])
    assert len(graph.classes) == 1
    assert graph.size(frozenset("abc")).rows == pytest.approx(100 * 3**3)  # 100 values in common, 3 rows each


def test_small_sets_beside_sampled_ones_are_taken_as_contained_and_that_is_said() -> None:
    large, small = relation("l", 10**6, {"k": np.arange(10**6)}), relation("s", 20, {"k": np.arange(20)})
    graph = JoinGraph.of([large, small], [(("l", "k"), ("s", "k"))])
    assert graph.size(frozenset("ls")).rows == pytest.approx(20, rel=0.1)
    assert "too few common hashes" in plan_joins(graph).assumptions[0]


def test_without_fresh_sketches_a_key_is_assumed_and_said() -> None:
    facts, keys = relation("f", 5000, {"k": np.arange(50)}, fresh=False), relation("d", 100, {"k": np.arange(100)})
    plan = plan_joins(JoinGraph.of([facts, keys], [(("f", "k"), ("d", "k"))]))
    assert plan.rows.rows == pytest.approx(5000)
    assert any("f.k: assumed to be a key or a reference to it (stale: 1 snapshot" in text for text in plan.assumptions)


def test_types_that_hash_differently_are_never_intersected() -> None:
    a, b = relation("a", 500, {"k": np.arange(500, dtype=np.int32)}), relation("b", 500, {"k": np.arange(500)})
    plan = plan_joins(JoinGraph.of([a, b], [(("a", "k"), ("b", "k"))]))
    assert plan.rows.rows == pytest.approx(500)
    assert "types hash differently" in plan.assumptions[0]


def test_composite_keys_are_not_taken_for_independent() -> None:
    supply = relation("ps", 8000, {"part": np.arange(2000), "supplier": np.arange(100)})
    lines = relation("l", 60_000, {"part": np.arange(2000), "supplier": np.arange(100)})
    on = [(("ps", name), ("l", name)) for name in ("part", "supplier")]
    plan = plan_joins(JoinGraph.of([supply, lines], on))
    assert plan.rows.rows == pytest.approx(60_000)
    assert plan.assumptions == ("(part, supplier) assumed to be a key of ps",)


# ---- order ----


def cost(graph: JoinGraph, tree: Tree) -> float:
    if isinstance(tree, str):
        return 0.0
    return sum(cost(graph, side) for side in tree) + graph.size(inputs(tree)).rows


def inputs(tree: Tree) -> frozenset[str]:
    return frozenset((tree,)) if isinstance(tree, str) else inputs(tree[0]) | inputs(tree[1])


def all_trees(names: frozenset[str]) -> list[Tree]:
    if len(names) == 1:
        return list(names)
    ordered = sorted(names)
    found: list[Tree] = []
    for size in range(1, len(ordered)):
        for part in itertools.combinations(ordered, size):
            if ordered[0] in part:
                left = frozenset(part)
                found += [(a, b) for a in all_trees(left) for b in all_trees(names - left)]
    return found


@given(
    rows=st.lists(st.integers(1, 5000), min_size=2, max_size=5),
    keeps=st.lists(st.sampled_from([1.0, 0.5, 0.01]), min_size=5, max_size=5),
    edges=st.lists(st.integers(0, 3), min_size=4, max_size=4),
)
@settings(deadline=None, max_examples=60, derandomize=True)
def test_no_order_without_products_costs_less(rows: list[int], keeps: list[float], edges: list[int]) -> None:
    names = "abcde"[: len(rows)]
    made = [
        relation(name, count, {f"k{i}": np.arange(max(1, count // (i + 1))) for i in range(5)}, keep=keep)
        for name, count, keep in zip(names, rows, keeps, strict=False)
    ]
    equalities = []
    for i in range(1, len(names)):  # a tree: every input is joined with an earlier one by a column of its own
        parent = names[edges[i - 1] % i]
        equalities.append(((parent, f"k{i}"), (names[i], f"k{i}")))
    graph = JoinGraph.of(made, equalities)
    plan = plan_joins(graph)
    assert inputs(plan.tree) == frozenset(names)

    def connected(tree: Tree) -> bool:
        if isinstance(tree, str):
            return True
        return bool(graph.conditions(inputs(tree[0]), inputs(tree[1]))) and all(connected(side) for side in tree)

    best = min(cost(graph, tree) for tree in all_trees(frozenset(names)) if connected(tree))
    assert cost(graph, plan.tree) == pytest.approx(best)
    assert all(step.on for step in plan.steps)
    assert plan.steps[-1].rows == plan.rows


def test_many_inputs_are_ordered_greedily() -> None:
    made = [relation("hub", 10_000, {f"k{i}": np.arange(100) for i in range(12)})]
    made += [relation(f"d{i:02}", 100, {"k": np.arange(100)}, keep=0.5) for i in range(12)]
    graph = JoinGraph.of(made, [(("hub", f"k{i}"), (f"d{i:02}", "k")) for i in range(12)])
    plan = plan_joins(graph)
    assert len(plan.steps) == 12
    assert all(step.on and step.broadcast for step in plan.steps)


def test_products_come_last_and_say_so() -> None:
    graph = JoinGraph.of(
        [
            relation("a", 10, {"k": np.arange(10)}),
            relation("b", 10, {"k": np.arange(10)}),
            relation("c", 5, {"x": [1]}),
        ],
        [(("a", "k"), ("b", "k"))],
    )
    plan = plan_joins(graph)
    assert [step.on for step in plan.steps][-1] == ()
    assert plan.rows.rows == pytest.approx(50)
    assert "on nothing" in str(plan)
