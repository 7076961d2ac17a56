"""The true rows of a planned query: of its inputs after their conditions, and of its joins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.planner.explanation import SelectPlan
    from skerry.planner.relations import Relation

__all__ = ["CountedSelect", "count_select"]


@dataclass(frozen=True, slots=True)
class CountedSelect:
    """The true rows of a SELECT, in the order of its plan; None where a subquery takes part, or an outer join.

    Args:
        relations: Rows of each input after the conditions on it alone.
        steps: Rows of each join.
    """

    relations: tuple[int | None, ...]
    steps: tuple[int | None, ...]


def count_select(run: Callable[[str], pa.Table], select: SelectPlan) -> CountedSelect:
    """Run the inputs and joins of a SELECT for their numbers of rows; this reads the tables, once for each number.

    Args:
        run: Runs a query over the tables of the plan.
        select: The plan.

    Raises:
        MissingDependencyError: DuckDB is not installed (`skerry[duckdb]`).
        SkerryError: A table cannot be read.
    """
    plan = select.joins
    by_name = {relation.name: relation for relation in plan.relations}

    def count(names: Collection[str]) -> int | None:
        inputs = [by_name[name] for name in sorted(names)]
        if any(relation.table is None for relation in inputs) or (len(inputs) > 1 and not plan.reordered):
            return None
        joined = [on for step in plan.steps if {*step.left, *step.right} <= {*names} for on in step.on]
        return int(run(_counting(inputs, joined)).column(0)[0].as_py())

    return CountedSelect(
        tuple(count({name}) for name in by_name),
        tuple(count({*step.left, *step.right}) for step in plan.steps),
    )


def _counting(inputs: Sequence[Relation], joined: Sequence[str]) -> str:
    """The query that counts a join of inputs, each with its own conditions."""
    chosen = []
    for relation in inputs:
        name = ".".join(map(_quoted, (relation.table or "").split(".")))
        where = f" WHERE {' AND '.join(f'({text})' for text in relation.where)}" if relation.where else ""
        chosen.append(f"(SELECT * FROM {name}{where}) AS {_quoted(relation.name)}")  # noqa: S608  parts of a parsed query
    on = f" WHERE {' AND '.join(joined)}" if joined else ""
    return f"SELECT count(*) FROM {', '.join(chosen)}{on}"  # noqa: S608  parts of a parsed query


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
