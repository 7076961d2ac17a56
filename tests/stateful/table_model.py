"""What a table must hold, as plain dictionaries: the oracle of the state machine.

Rows are kept by the value of their key column and, within a row, by column, so that renaming or dropping a column
changes no row. Every snapshot remembers the rows and the columns of its time.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

KEY = "id"

Row = Mapping[int, Any]
"""Values by column number; a column that is not in it has the column's default."""
Named = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """A column; `number` stays what it is through every change of name."""

    number: int
    name: str
    type: pa.DataType
    default: Any = None


@dataclass(frozen=True, slots=True)
class Version:
    """The rows at one time, with the columns of that time."""

    columns: tuple[ModelColumn, ...]
    rows: Mapping[int, Row] = field(default_factory=dict)

    def column(self, name: str) -> ModelColumn:
        return next(column for column in self.columns if column.name == name)

    def named(self, row: Row) -> Named:
        return {column.name: row.get(column.number, column.default) for column in self.columns}

    def named_rows(self) -> list[Named]:
        return [self.named(row) for row in self.rows.values()]

    def numbered(self, named: Named) -> Row:
        return {self.column(name).number: value for name, value in named.items()}

    def with_rows(self, rows: Iterable[Named]) -> Version:
        """Add rows, or replace those of the same key."""
        return dataclasses.replace(self, rows={**self.rows, **{row[KEY]: self.numbered(row) for row in rows}})

    def without(self, condition: Callable[[Named], bool]) -> Version:
        kept = {key: row for key, row in self.rows.items() if not condition(self.named(row))}
        return dataclasses.replace(self, rows=kept)

    def with_columns(self, columns: Iterable[ModelColumn]) -> Version:
        return dataclasses.replace(self, columns=tuple(columns))

    def arrow(self, rows: Iterable[Named]) -> pa.Table:
        """Rows as the table takes them."""
        schema = pa.schema([pa.field(column.name, column.type) for column in self.columns])
        return pa.Table.from_pylist(list(rows), schema)

    def content(self) -> Counter[tuple[Any, ...]]:
        """The rows, in a form in which equal ones are equal."""
        return content_of(self.named_rows(), [column.name for column in self.columns])

    def distinct(self, name: str) -> int:
        """How many values a column has as sketches count them: nulls and empty strings do not count."""
        column = self.column(name)
        values = (row.get(column.number, column.default) for row in self.rows.values())
        return len({comparable(value) for value in values if value not in (None, "")})


def comparable(value: Any) -> Any:
    """A value that equals itself, NaN too."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def content_of(rows: Iterable[Named], names: Iterable[str]) -> Counter[tuple[Any, ...]]:
    """How often each row is there."""
    names = list(names)
    return Counter(tuple(comparable(row[name]) for name in names) for row in rows)


@dataclass
class TableModel:
    """Branches and snapshots of one table.

    Args:
        version: The rows and columns of every branch's tip, by branch.
        tips: The snapshot of every branch, None before the first.
        snapshots: What each snapshot that has not expired holds, in the order in which they were made: their ids are
            random, and a history must be the same when it is run again.
        parents: The snapshot before each.
        tags: Snapshots by tag.
    """

    version: dict[str, Version]
    tips: dict[str, int | None] = field(default_factory=lambda: {"main": None})
    snapshots: dict[int, Version] = field(default_factory=dict)
    parents: dict[int, int | None] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)

    def commit(self, branch: str, snapshot_id: int | None, version: Version) -> None:
        """A change was made; it made a snapshot unless there was nothing to do."""
        self.version[branch] = version
        if snapshot_id != self.tips[branch]:
            assert snapshot_id is not None
            self.parents[snapshot_id] = self.tips[branch]
            self.tips[branch] = snapshot_id
            self.snapshots[snapshot_id] = version

    def alter(self, change: Callable[[Version], Version]) -> None:
        """Change the columns: all branches share the table's schema, snapshots keep theirs."""
        self.version = {branch: change(version) for branch, version in self.version.items()}

    def ancestors(self, snapshot_id: int | None) -> list[int]:
        """A snapshot and those before it that have not expired, newest first."""
        found = []
        while snapshot_id is not None and snapshot_id in self.snapshots:
            found.append(snapshot_id)
            snapshot_id = self.parents[snapshot_id]
        return found
