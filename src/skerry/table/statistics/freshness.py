"""How well a statistic describes the current rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["ABSENT", "FRESH", "Freshness", "FreshnessState"]


class FreshnessState(Enum):
    """How well a statistic describes the table's current rows."""

    FRESH = "fresh"
    UPPER_BOUND = "upper bound"
    STALE = "stale"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Freshness:
    """A state and the reason for it; `str()` gives `fresh`, `upper bound: …`, `stale: …` or `absent: …`."""

    state: FreshnessState
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.state.value}: {self.reason}" if self.reason else self.state.value

    @property
    def is_fresh(self) -> bool:
        """Whether a planner may use the number as it is."""
        return self.state is FreshnessState.FRESH


FRESH = Freshness(FreshnessState.FRESH)
ABSENT = Freshness(FreshnessState.ABSENT)
