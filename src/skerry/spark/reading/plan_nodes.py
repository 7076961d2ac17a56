"""The nodes of a plan in the JVM, by one call instead of several for every node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from skerry.errors import SkerryError

__all__ = ["PlanNode", "nodes_of"]

_LINE = re.compile(r"((?:[: ]  )*(?:[:+]- )?)(.*) \(.*\)")


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node of a plan.

    Args:
        number: Its number, by which `apply` of the plan returns it.
        kind: Its kind: "Filter".
        parent: The node above, also that of a subquery; None for the root.
        is_subquery: Whether it is the root of a subquery of its parent, not a child.
    """

    number: int
    kind: str
    parent: PlanNode | None
    is_subquery: bool


def nodes_of(plan: Any) -> list[PlanNode]:
    """The nodes of a plan and of its subqueries, each after its parent.

    Args:
        plan: A logical plan of the JVM, parsed or optimized.

    Raises:
        SkerryError: The session truncates the text of plans.
    """
    lines = _kinds(plan).splitlines()
    if plan.apply(len(lines) - 1) is None or plan.apply(len(lines)) is not None:
        raise SkerryError("the plan of the query is too long for the setting spark.sql.maxPlanStringLength")
    nodes: list[PlanNode] = []
    above: list[tuple[int, PlanNode]] = []
    for number, line in enumerate(lines):
        found = _LINE.fullmatch(line)
        if found is None:
            raise SkerryError(f"the plan of the query has a line that is not understood: {line}")
        depth = len(found[1]) // 3
        while above and above[-1][0] >= depth:
            above.pop()
        parent_depth, parent = above[-1] if above else (-1, None)
        node = PlanNode(number, found[2], parent, depth > parent_depth + 1)
        nodes.append(node)
        above.append((depth, node))
    return nodes


def _kinds(plan: Any) -> str:
    """The tree of a plan with the kind of each node alone: expressions may contain ends of lines."""
    choices = (False, False, 0, True)  # not verbose, no suffix, no fields, ids of operators instead
    try:
        return str(plan.treeString(*choices, False))
    except Py4JError:  # before Spark could print columns of the output
        return str(plan.treeString(*choices))
