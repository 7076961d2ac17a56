"""Join ordering: finds the order whose intermediate results have the fewest rows in total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from skerry.planner.joins import JoinGraph
from skerry.planner.relations import Estimate, Relation

__all__ = ["BROADCAST_BYTES", "JoinPlan", "JoinStep", "Tree", "plan_joins"]

_EXHAUSTIVE = 10
"""Up to this number of inputs every order is considered; more are joined greedily."""
BROADCAST_BYTES = 10 << 20
"""Up to this number of bytes a side is worth sending to every worker (Spark's default)."""

Tree: TypeAlias = "str | tuple[Tree, Tree]"
"""An input's name, or two joined trees: probe side first, then the smaller one, which is the build side."""


@dataclass(frozen=True, slots=True)
class JoinStep:
    """One join.

    Args:
        left: The inputs of its larger side.
        right: The inputs of its smaller side, the build side of the hash table.
        on: The equated columns; none for a cross product.
        rows: Rows of the result.
        how: The basis of the estimate.
        broadcast: Whether the smaller side is small enough to be sent to every worker, by its upper bound.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    on: tuple[str, ...]
    rows: Estimate
    how: str
    broadcast: bool


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """How to join some inputs; `str()` formats it for people.

    Args:
        relations: The inputs with their estimates.
        steps: The joins, in order.
        tree: The tree of joins.
        rows: Rows of the whole join.
        assumptions: What had to be assumed for lack of fresh statistics.
        reordered: Whether the order could be chosen; outer joins keep theirs.
    """

    relations: tuple[Relation, ...]
    steps: tuple[JoinStep, ...]
    tree: Tree
    rows: Estimate
    assumptions: tuple[str, ...]
    reordered: bool = True

    def __str__(self) -> str:
        lines = []
        for relation in self.relations:
            where = f"  where {' AND '.join(relation.where)}" if relation.where else ""
            lines.append(f"  input {relation.name} ({relation.table or 'subquery'}): {relation.filtered} rows{where}")
        if not self.reordered and len(self.relations) > 1:
            lines.append("  order as written: outer joins")
        for number, step in enumerate(self.steps, 1):
            hint = ", broadcast the right side" if step.broadcast else ""
            lines.append(f"  join {number}: {' '.join(step.left)} × {' '.join(step.right)}: {step.rows} rows{hint}")
            lines.append(f"    on {' and '.join(step.on) or 'nothing'}{f' ({step.how})' if step.how else ''}")
        lines += [f"  assumed: {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)


def plan_joins(graph: JoinGraph, *, keep_order: bool = False) -> JoinPlan:
    """Choose an order.

    Args:
        graph: The inputs and what joins them.
        keep_order: Whether to keep the order of the query.
    """
    names = [relation.name for relation in graph.relations]
    if keep_order:
        tree: Tree = names[0]
        for name in names[1:]:
            tree = (tree, name)
    else:
        parts = [_best(graph, part) for part in _components(graph, names)]
        parts.sort(key=lambda part: graph.size(_inputs(part)).rows)
        tree = parts[0]
        for part in parts[1:]:
            tree = _joined(graph, tree, part)
    steps: list[JoinStep] = []
    _walk(graph, tree, steps)
    assumed = [*(text for relation in graph.relations for text in relation.assumptions), *graph.notes]
    rows = graph.size(frozenset(names))
    return JoinPlan(tuple(graph.relations), tuple(steps), tree, rows, tuple(dict.fromkeys(assumed)), not keep_order)


def _components(graph: JoinGraph, names: Sequence[str]) -> list[list[str]]:
    """Group inputs that are joined with each other, directly or indirectly."""
    groups = [{name} for name in names]
    for joined in graph.classes:
        members = {name for name, _ in joined.members}
        touching = [group for group in groups if group & members]
        groups = [group for group in groups if not group & members] + [set().union(*touching)]
    return [[name for name in names if name in group] for group in groups]


def _best(graph: JoinGraph, names: Sequence[str]) -> Tree:
    return _exhaustive(graph, names) if len(names) <= _EXHAUSTIVE else _greedy(graph, names)


def _exhaustive(graph: JoinGraph, names: Sequence[str]) -> Tree:
    """Dynamic programming over sets of inputs: the best tree of a set consists of the best trees of two halves."""
    count = len(names)
    sets = [frozenset(name for i, name in enumerate(names) if mask >> i & 1) for mask in range(1 << count)]
    neighbours = [0] * count
    for joined in graph.classes:
        mask = sum(1 << i for i, name in enumerate(names) if name in {member for member, _ in joined.members})
        for i in range(count):
            if mask >> i & 1:
                neighbours[i] |= mask
    reach = [0] * (1 << count)
    best: dict[int, tuple[float, Tree]] = {1 << i: (0.0, name) for i, name in enumerate(names)}
    for mask in range(1, 1 << count):
        lowest = (mask & -mask).bit_length() - 1
        reach[mask] = reach[mask & (mask - 1)] | neighbours[lowest]
        if mask in best:
            continue
        found: tuple[float, int, int] | None = None
        half = (mask - 1) & mask
        while half > mask ^ half:  # every split once
            other = mask ^ half
            if half in best and other in best and reach[half] & other:
                cost = best[half][0] + best[other][0]
                if found is None or cost < found[0]:
                    found = (cost, half, other)
            half = (half - 1) & mask
        if found is not None:
            cost, half, other = found
            tree = _joined(graph, best[half][1], best[other][1])
            best[mask] = (cost + graph.size(sets[mask]).rows, tree)
    return best[(1 << count) - 1][1]


def _greedy(graph: JoinGraph, names: Sequence[str]) -> Tree:
    """Repeatedly join the two trees whose join has the fewest rows."""
    trees: list[Tree] = list(names)
    while len(trees) > 1:
        pairs = [
            (graph.size(_inputs(a) | _inputs(b)).rows, i, j)
            for i, a in enumerate(trees)
            for j, b in enumerate(trees[:i])
            if graph.conditions(_inputs(a), _inputs(b))
        ]
        _, i, j = min(pairs)
        tree = _joined(graph, trees[i], trees[j])
        trees = [kept for number, kept in enumerate(trees) if number not in (i, j)] + [tree]
    return trees[0]


def _joined(graph: JoinGraph, a: Tree, b: Tree) -> Tree:
    """Join two trees, the one with fewer rows on the right."""
    return (a, b) if graph.size(_inputs(a)).rows >= graph.size(_inputs(b)).rows else (b, a)


def _inputs(tree: Tree) -> frozenset[str]:
    return frozenset((tree,)) if isinstance(tree, str) else _inputs(tree[0]) | _inputs(tree[1])


def _walk(graph: JoinGraph, tree: Tree, steps: list[JoinStep]) -> None:
    if isinstance(tree, str):
        return
    for side in tree:
        _walk(graph, side, steps)
    left, right = (_inputs(side) for side in tree)
    on = tuple(f"{a}.{column} = {b}.{other}" for (a, column), (b, other) in graph.conditions(left, right))
    width = sum(graph.by_name[name].row_bytes for name in right)
    steps.append(
        JoinStep(
            tuple(sorted(left)),
            tuple(sorted(right)),
            on,
            graph.size(left | right),
            graph.how(left, right),
            graph.size(right).upper * width <= BROADCAST_BYTES,
        )
    )
