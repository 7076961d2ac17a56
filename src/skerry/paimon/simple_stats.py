"""Statistics of a file's columns as manifests hold them.

Spec: `formats/paimon.md` § 5, SimpleStats.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EMPTY_ROW", "EMPTY_STATS", "SimpleStats"]

EMPTY_ROW = bytes(12)
"""A row without fields with its arity, as manifests hold it."""


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minima, maxima and null counts of some columns.

    Args:
        min_values: A row of minima with its arity in front; a null is an unknown one.
        max_values: Likewise, of maxima.
        null_counts: Nulls by column, each None if unknown; None if there are no counts at all.
    """

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] | None = ()


EMPTY_STATS = SimpleStats()
"""Those of no columns."""
