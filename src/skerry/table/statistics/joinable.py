"""Joinable columns: which columns of many tables share values with a given one, from their sketches alone.

Two columns are compared only if equal values have equal hashes in both. A sketch hashes a value's bytes, so `int` and
`long` never match even if their numbers are equal, and `int` and `date` would seem to match: the kind of a column is
its type, ignoring what does not change the bytes (a decimal's precision, the length of fixed binary values).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.arguments import check_whole_number
from skerry.errors import NotFoundError, SchemaError
from skerry.table.records import aligned
from skerry.table.rows.schema import nearest
from skerry.table.statistics.column_statistics import FRESH, Freshness
from skerry.theta import ThetaSketch
from skerry.theta.overlap import Overlaps, PackedSketches, Probe, Proportion

__all__ = [
    "JoinableColumn",
    "JoinableColumns",
    "NotCompared",
    "SketchedColumn",
    "TableSketches",
    "find_joinable",
    "hashed_kind",
]


def hashed_kind(type_: pa.DataType) -> str:
    """The kind of a type: only columns of the same kind can be compared.

    Spec: Iceberg spec, Appendix D; docs/types.md, What is hashed.
    """
    if pa.types.is_decimal(type_):
        return f"decimal of scale {type_.scale}"
    if pa.types.is_fixed_size_binary(type_) or pa.types.is_binary(type_):
        return "binary"
    return str(type_)


@dataclass(frozen=True, slots=True)
class SketchedColumn:
    """A column with a fresh sketch.

    Args:
        name: Dotted name.
        type: Its type.
    """

    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A column that was left out.

    Args:
        table: The table's name.
        column: Dotted name; None for a whole table.
        reason: Why it was left out.
    """

    table: str
    column: str | None
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class TableSketches:
    """The fresh sketches of one table.

    Args:
        table: The table's name.
        columns: The sketched columns.
        sketches: Their sketches.
        missing: Columns of the table without a fresh sketch, and why.
        numbers: Indices of the columns of each kind.
    """

    table: str
    columns: tuple[SketchedColumn, ...]
    sketches: PackedSketches
    missing: tuple[NotCompared, ...] = ()
    numbers: dict[str, npt.NDArray[np.int64]] = field(init=False)

    def __post_init__(self) -> None:
        kinds: dict[str, list[int]] = {}
        for number, column in enumerate(self.columns):
            kinds.setdefault(hashed_kind(column.type), []).append(number)
        object.__setattr__(self, "numbers", {kind: np.array(found, np.int64) for kind, found in kinds.items()})

    def number_of(self, column: str) -> int:
        """The index of a column by name.

        Raises:
            NotFoundError: The column does not exist, or has no fresh sketch.
        """
        for number, known in enumerate(self.columns):
            if known.name == column:
                return number
        for without in self.missing:
            if without.column == column:
                raise NotFoundError(f"column {column!r} of {self.table} has no fresh sketch: {without.reason}")
        names = [known.name for known in self.columns] + [without.column or "" for without in self.missing]
        raise NotFoundError(f"no primitive column {column!r} in {self.table}{nearest(column, names)}")


@dataclass(frozen=True, slots=True)
class JoinableColumn:
    """A column that shares values with the given one.

    Args:
        table: Its table's name.
        column: Its dotted name.
        type: Its type.
        containment: The share of the given column's distinct values that it contains.
        contained: The share of its own distinct values that the given column contains.
        jaccard: Distinct values of both among distinct values of either.
        ndv: Its estimated number of distinct values.
        lower: Lower bound of `ndv`, two standard deviations.
        upper: Upper bound of `ndv`, two standard deviations.
        freshness: Always fresh: a column whose sketch is not is left out, and `JoinableColumns.not_compared` says so.
    """

    table: str
    column: str
    type: pa.DataType
    containment: Proportion
    contained: Proportion
    jaccard: Proportion
    ndv: float
    lower: float
    upper: float
    freshness: Freshness = FRESH


@dataclass(frozen=True, slots=True)
class JoinableColumns(Sequence[JoinableColumn]):
    """The columns that share values with one, ordered by how many of its values they contain.

    Args:
        table: The given column's table.
        column: Its dotted name.
        ndv: Its estimated number of distinct values.
        columns: The matching columns.
        compared: How many columns it was compared with.
        not_compared: Columns and tables that were left out because they have no fresh sketches.
    """

    table: str
    column: str
    ndv: float
    columns: tuple[JoinableColumn, ...]
    compared: int
    not_compared: tuple[NotCompared, ...]

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, index: int) -> JoinableColumn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[JoinableColumn, ...]: ...
    def __getitem__(self, index: int | slice) -> JoinableColumn | tuple[JoinableColumn, ...]:
        return self.columns[index]

    def __iter__(self) -> Iterator[JoinableColumn]:
        return iter(self.columns)

    def __repr__(self) -> str:
        lines = [("column", "distinct", "has of this column", "of it in this column")]
        lines += [
            (
                f"{match.table} {match.column}",
                f"{match.ndv:,.0f}",
                f"{match.containment.estimate:.1%}",
                f"{match.contained.estimate:.1%}",
            )
            for match in self
        ]
        return aligned(lines, "<>>>")

    def _repr_html_(self) -> str:
        from skerry.markup import Column, element, table
        from skerry.table.display import framed

        columns = [
            Column[JoinableColumn]("column", lambda match: f"{match.table} · {match.column}"),
            Column[JoinableColumn]("distinct", lambda match: f"{match.ndv:,.0f}", right=True),
            Column[JoinableColumn]("has of this column", lambda match: f"{match.containment.estimate:.1%}", right=True),
            Column[JoinableColumn](
                "bounds",
                lambda match: f"{match.containment.lower:.1%} to {match.containment.upper:.1%}",
                right=True,
            ),
            Column[JoinableColumn]("of it in this column", lambda match: f"{match.contained.estimate:.1%}", right=True),
        ]
        left_out = f"; {len(self.not_compared):,} without fresh sketches were left out" if self.not_compared else ""
        compared = element("div", f"compared with {self.compared:,} columns{left_out}", class_="dim")
        return framed(
            f"Columns that share values with {self.table} · {self.column}", table(self, columns, caption=""), compared
        )


def find_joinable(
    table: str,
    column: str,
    tables: Iterable[TableSketches],
    *,
    min_containment: float = 0.1,
    limit: int | None = None,
    not_compared: Iterable[NotCompared] = (),
) -> JoinableColumns:
    """Compare one column with all others of its kind.

    Args:
        table: Name of its table, which must be among `tables`.
        column: Its dotted name.
        tables: The sketches of all tables.
        min_containment: Leave out columns with less containment both ways.
        limit: Maximum number of columns; all if None.
        not_compared: Known omissions, in addition to the columns missing from `tables`.

    Raises:
        NotFoundError: The column does not exist, or has no fresh sketch.
        SchemaError: `min_containment` is not a number from 0 to 1, or `limit` not a whole number above 0.
    """
    check_whole_number("limit", limit, 1)
    if not isinstance(min_containment, int | float) or not 0 <= min_containment <= 1:
        raise SchemaError(f"min_containment must be a number from 0 to 1, found {min_containment!r}")
    searched = list(tables)
    home = next(found for found in searched if found.table == table)
    number = home.number_of(column)
    asked = ThetaSketch.from_compact(home.sketches.sketch(number))
    kind = hashed_kind(home.columns[number].type)
    probe = Probe(asked.compact)
    candidates: list[tuple[float, float, TableSketches, int, Overlaps, int]] = []
    compared = 0
    for other in searched:
        numbers = other.numbers.get(kind)
        if numbers is None:
            continue
        found = probe.overlaps(other.sketches.take(numbers))
        containment, contained = found.containment(), found.containment_of_other()
        near = (found.in_both > 0) & (np.maximum(containment, contained) >= min_containment)
        if other is home:
            near &= numbers != number
        compared += len(numbers) - (other is home)
        for row in np.flatnonzero(near).tolist():
            candidates.append((containment[row], contained[row], other, int(numbers[row]), found, row))
    candidates.sort(key=lambda pair: (-pair[0], -pair[1], pair[2].table, pair[3]))
    left_out = [*not_compared, *(without for other in searched for without in other.missing)]
    return JoinableColumns(
        table,
        column,
        asked.estimate(),
        tuple(_describe(other, place, found, row) for _, _, other, place, found, row in candidates[:limit]),
        compared,
        tuple(left_out),
    )


def _describe(table: TableSketches, number: int, found: Overlaps, row: int) -> JoinableColumn:
    sketch = ThetaSketch.from_compact(table.sketches.sketch(number))
    containment, contained, jaccard = found.proportions(row)
    lower, upper = sketch.bounds(2)
    column = table.columns[number]
    return JoinableColumn(
        table.table, column.name, column.type, containment, contained, jaccard, sketch.estimate(), lower, upper
    )
