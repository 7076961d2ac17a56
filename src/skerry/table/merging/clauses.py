"""The clauses of a merge: what happens to a row of the table or of the source, and under which condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow.compute as pc

from skerry.errors import SchemaError

__all__ = ["Clause", "Clauses", "Delete", "Insert", "Update", "parse_clauses"]

Where: TypeAlias = "str | pc.Expression | None"


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """Change the row of the table.

    Args:
        values: New values by column; other columns stay unchanged. If None, every column that the source has gets the
            source's value. A value is SQL text that names a column (`"source.amount"`, `"target.amount"`) or
            writes a literal (`"'closed'"`, `"42"`, `"NULL"`), a PyArrow expression over `pc.field("source", "amount")`
            and `pc.field("target", "amount")`, or any other Python value as itself.
        where: Only rows for which this is true: SQL text or a PyArrow expression over the same columns.
    """

    values: Mapping[str, object] | None = None
    where: Where = None


@dataclass(frozen=True, slots=True, eq=False)
class Delete:
    """Delete the row of the table.

    Args:
        where: Only rows for which this is true.
    """

    where: Where = None


@dataclass(frozen=True, slots=True, eq=False)
class Insert:
    """Insert a row.

    Args:
        values: Values by column as in `Update`; other columns become null or their write default. If None, every column
            that the source has gets the source's value.
        where: Only rows of the source for which this is true.
    """

    values: Mapping[str, object] | None = None
    where: Where = None


Clause: TypeAlias = Update | Delete | Insert
Clauses: TypeAlias = "Clause | str | Sequence[Clause | str] | None"
"""One clause or several in order; `"update"`, `"delete"` and `"insert"` are short for clauses without arguments."""

_BY_NAME: dict[str, type[Clause]] = {"update": Update, "delete": Delete, "insert": Insert}


def parse_clauses(given: Clauses, parameter: str, allowed: Iterable[type[Clause]]) -> tuple[Clause, ...]:
    """The clauses of one parameter of a merge, in order.

    Args:
        given: As the caller wrote them.
        parameter: Its name, for messages.
        allowed: The clauses allowed there.

    Raises:
        SchemaError: A clause is something else, or follows one that leaves no rows for it.
    """
    parts = [] if given is None else [given] if isinstance(given, str | Clause) else list(given)
    names = {name: clause for name, clause in _BY_NAME.items() if clause in tuple(allowed)}
    clauses: list[Clause] = []
    for part in parts:
        clause = names[part.lower()]() if isinstance(part, str) and part.lower() in names else part
        if isinstance(clause, str) or not isinstance(clause, tuple(names.values())):
            choices = " or ".join(f'"{name}" or {kind.__name__}(…)' for name, kind in names.items())
            raise SchemaError(f"{parameter} takes {choices}, found {part!r}")
        if clauses and clauses[-1].where is None:
            raise SchemaError(f"{parameter}: a clause after one without a condition never applies")
        clauses.append(clause)
    return tuple(clauses)
