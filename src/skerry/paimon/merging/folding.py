"""How an aggregate function is applied to the values of each key, one by one, where no kernel does it.

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
    """How values are added and taken back; None is null."""

    @abstractmethod
    def add(self, held: _Value | None, value: _Value | None) -> _Value | None:
        """What is held after a value was added to it."""

    def add_reversed(self, held: _Value | None, value: _Value | None) -> _Value | None:
        """What is held after a value was added that comes before it."""
        return self.add(value, held)

    @abstractmethod
    def take_back(self, held: _Value | None, value: _Value | None) -> _Value | None:
        """What is held after a value was taken back from it."""


def fold(
    function: FoldFunction[_Value], ordered: Sequence[_Value | None], order: MergeOrder, actions: ActionArray
) -> list[_Value | None]:
    """Make one value of the values of each key.

    Args:
        function: How.
        ordered: Values of the records, in merge order.
        order: Where the keys are in it.
        actions: int8[n] What each record, in merge order, does to the column.
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
