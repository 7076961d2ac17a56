"""The statistics of one input of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from skerry.planner.joined_samples import SampledInput
from skerry.table.statistics.column_statistics import ColumnStatistics

__all__ = ["EXACTLY_ONE", "Estimate", "Relation", "row_bytes"]

_TEXT_BYTES = 16
"""Assumed size of a value of variable length."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated number of rows.

    Args:
        rows: The best estimate.
        lower: A lower bound, as far as statistics show.
        upper: An upper bound, as far as statistics show.
    """

    rows: float
    lower: float
    upper: float

    @classmethod
    def exactly(cls, rows: float) -> Estimate:
        """A number that is known exactly."""
        return cls(rows, rows, rows)

    def times(self, rows: float, lower: float | None = None, upper: float | None = None) -> Estimate:
        """Multiply the estimate by a factor, which may have its own bounds."""
        return Estimate(
            self.rows * rows,
            self.lower * (rows if lower is None else lower),
            self.upper * (rows if upper is None else upper),
        )

    def at_most(self, rows: float) -> Estimate:
        """Limit the estimate to a maximum."""
        return Estimate(min(self.rows, rows), min(self.lower, rows), min(self.upper, rows))

    def __str__(self) -> str:
        if self.lower == self.upper:
            return f"{self.rows:,.0f}"
        return f"{self.rows:,.0f} [{self.lower:,.0f} … {self.upper:,.0f}]"


EXACTLY_ONE = Estimate.exactly(1.0)


@dataclass(frozen=True, slots=True)
class Relation:
    """One input of a query, a table or the result of a subquery, under the name that the query gives it.

    Args:
        name: Its name in the query.
        table: The table's name; None for a subquery.
        rows: Rows before the query's conditions.
        filtered: Rows that the conditions on this input alone leave.
        columns: Statistics of its columns, by name.
        types: Their types, by name.
        where: These conditions.
        row_bytes: Approximate memory of a row of the needed columns.
        assumptions: What had to be assumed about it.
        sampled: Its sampled rows, if it is a table that has some.
    """

    name: str
    table: str | None
    rows: Estimate
    filtered: Estimate
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    row_bytes: float = float(_TEXT_BYTES)
    assumptions: tuple[str, ...] = ()
    sampled: SampledInput | None = None

    def fresh(self, column: str) -> ColumnStatistics | None:
        """The statistics of a column if its distinct count may be used."""
        found = self.columns.get(column)
        return found if found is not None and found.freshness.is_fresh and found.ndv is not None else None


def row_bytes(types: Mapping[str, pa.DataType]) -> float:
    """Approximate memory of a row of columns of these types."""
    total = 0.0
    for type_ in types.values():
        try:
            total += type_.bit_width / 8
        except ValueError:
            total += _TEXT_BYTES
    return max(total, 1.0)
