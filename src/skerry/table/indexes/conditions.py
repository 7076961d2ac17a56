"""Conditions with which indexes help."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.reading.shard_indexes import SoughtValues
from skerry.table.indexes.building import WantedIndex
from skerry.table.indexes.definitions import IndexKind
from skerry.table.predicate import Column, Comparison, In, Operator, Predicate
from skerry.table.rows.schema import field_id

if TYPE_CHECKING:
    from skerry.amudai import ShardFile

__all__ = ["Answers", "IndexCondition", "ValueCondition", "WordCondition", "key_values", "value_conditions"]

_LEAST: Final = 1000
_ROWS_PER_VALUE: Final = 64
"""Looking up a value costs about as much as reading so many rows."""
_PLAIN: Final = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
"""Values of other types have another form here than in an index."""


class Answers:
    """What indexes of several files have answered to a condition, which is asked for each of the files."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._known: dict[tuple[str, str], npt.NDArray[np.int64] | None] = {}

    def __reduce__(self) -> tuple[type[Answers], tuple[()]]:
        return Answers, ()  # locks stay where they are

    def get(
        self, root: str, column: str, ask: Callable[[], npt.NDArray[np.int64] | None]
    ) -> npt.NDArray[np.int64] | None:
        """The answer of an index, which is asked once.

        Args:
            root: The index.
            column: The column.
            ask: Asks it.
        """
        key = root, column
        with self._locks.setdefault(key, threading.Lock()):
            if key not in self._known:
                self._known[key] = None  # one that fails is not asked again
                self._known[key] = ask()
            return self._known[key]


class IndexCondition(Protocol):
    """A condition that rows satisfy only if an index says so."""

    @property
    def answers(self) -> Answers:
        """What indexes of several files have answered."""

    @property
    def wanted(self) -> WantedIndex:
        """The index that helps."""

    def is_worth(self, row_count: int) -> bool:
        """Whether an index of so many rows answers faster than reading them."""

    def rows(self, shard: ShardFile, column: str) -> npt.NDArray[np.int64] | None:
        """Ask the index of a column: int64[n], ascending; None if it leaves all rows."""


@dataclass(frozen=True, slots=True)
class ValueCondition:
    """A column whose value is one of several.

    Args:
        field_id: The column.
        values: The values.
    """

    field_id: int
    values: tuple[Any, ...]
    sought: SoughtValues = field(init=False, repr=False, compare=False)
    """The values as indexes look them up."""
    answers: Answers = field(default_factory=Answers, init=False, repr=False, compare=False)
    """See `IndexCondition.answers`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sought", SoughtValues(self.values))

    @property
    def wanted(self) -> WantedIndex:
        """The index that helps."""
        return WantedIndex(self.field_id, IndexKind.HASH)

    def is_worth(self, row_count: int) -> bool:
        """Whether an index of so many rows answers faster than reading them."""
        return len(self.values) <= max(_LEAST, row_count // _ROWS_PER_VALUE)

    def rows(self, shard: ShardFile, column: str) -> npt.NDArray[np.int64] | None:
        """See `IndexCondition.rows`."""
        return shard.rows_of_values(column, self.sought)


@dataclass(frozen=True, slots=True)
class WordCondition:
    """A column whose values have words, in any case.

    Args:
        wanted: The index that helps.
        query: The words, as `skerry.amudai.indexes.text_queries` reads them.
    """

    wanted: WantedIndex
    query: str
    answers: Answers = field(default_factory=Answers, init=False, repr=False, compare=False)
    """See `IndexCondition.answers`."""

    @property
    def field_id(self) -> int:
        """The column."""
        return self.wanted.field_id

    def is_worth(self, row_count: int) -> bool:
        """Whether an index of so many rows answers faster than reading them."""
        return True

    def rows(self, shard: ShardFile, column: str) -> npt.NDArray[np.int64] | None:
        """See `IndexCondition.rows`."""
        return shard.search_candidates(column, self.query)


def value_conditions(conjuncts: Iterable[Predicate]) -> tuple[ValueCondition, ...]:
    """The conditions with which hash indexes help: equality and IN of columns, and of fields of structs."""
    found = []
    for each in conjuncts:
        if isinstance(each, Comparison) and each.operator is Operator.EQ:
            values: tuple[Any, ...] = (each.value,)
        elif isinstance(each, In) and not each.negated:
            values = each.values
        else:
            continue
        if _is_plain(each.column):
            found.append(ValueCondition(each.column.field_id, values))
    return tuple(found)


def key_values(fields: Sequence[pa.Field], columns: Sequence[pa.Array]) -> tuple[ValueCondition, ...]:
    """The conditions with which hash indexes help to find rows by their keys.

    Args:
        fields: The table's fields of the key columns.
        columns: The keys, column by column, of the fields' types; a null is not part of any key.
    """
    return tuple(
        ValueCondition(field_id(field), tuple(pc.unique(values.drop_null()).to_pylist()))
        for field, values in zip(fields, columns, strict=True)
        if _is_plain(Column(field_id(field), (field.name,), field.type))
    )


def _is_plain(column: Column) -> bool:
    return column.inside is None and any(is_type(column.type) for is_type in _PLAIN)
