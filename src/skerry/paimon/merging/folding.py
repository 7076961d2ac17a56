"""Applying an aggregate function to the values of each key one by one, where there is no kernel.

Spec: docs/formats/paimon.md § 10.4.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from skerry.paimon.merging.actions import Action, ActionArray
from skerry.paimon.merging.records import MergeOrder

__all__ = ["FoldFunction", "fold"]

_Value = TypeVar("_Value")


class FoldFunction(ABC, Generic[_Value]):
    """How values are added and retracted; None is null."""

    @abstractmethod
    def add(self, held: _Value | None, value: _Value | None) -> _Value | None:
        """The accumulated value after adding a value."""

    def add_reversed(self, held: _Value | None, value: _Value | None) -> _Value | None:
        """The accumulated value after adding an older value."""
        return self.add(value, held)

    @abstractmethod
    def take_back(self, held: _Value | None, value: _Value | None) -> _Value | None:
        """The accumulated value after retracting a value."""


def fold(
    function: FoldFunction[_Value], ordered: Sequence[_Value | None], order: MergeOrder, actions: ActionArray
) -> list[_Value | None]:
    """Fold the values of each key into one.

    Args:
        function: The function.
        ordered: Values of the records, in merge order.
        order: The boundaries of the keys in it.
        actions: int8[n] `Action` of each record, in merge order, on the column.
    """
    steps, starts = actions.tolist(), order.starts.tolist()
    results = []
    for first, end in itertools.pairwise(starts):
        held: _Value | None = None
        for place in range(first, end):
            held = _STEPS[steps[place]](function, held, ordered[place])
        results.append(held)
    return results


_STEPS: Final[dict[int, Callable[[FoldFunction[Any], Any, Any], Any]]] = {
    Action.SKIP: lambda function, held, value: held,
    Action.AGG: lambda function, held, value: function.add(held, value),
    Action.AGG_REVERSED: lambda function, held, value: function.add_reversed(held, value),
    Action.RETRACT: lambda function, held, value: function.take_back(held, value),
    Action.SET: lambda function, held, value: value,
    Action.SET_NULL: lambda function, held, value: None,
    Action.SET_RETRACT: lambda function, held, value: function.take_back(value, value),
}
