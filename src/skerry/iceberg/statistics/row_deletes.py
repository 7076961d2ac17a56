"""How the statistics follow when rows of data files are deleted, as the table's properties say."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from skerry.errors import SchemaError
from skerry.table.rows.schema import nearest

__all__ = ["RowDeletePolicy"]

DELETES_PROPERTY = "skerry.statistics.row-deletes"
"""Table property: how to update the statistics of files that lose rows."""


class RowDeletePolicy(Enum):
    """The values of `skerry.statistics.row-deletes`."""

    SKETCH = "sketch"
    """The remaining rows of touched files are sampled again before the commit: statistics stay fresh."""
    UPPER_BOUND = "upper-bound"
    """Nothing is read: counts become upper bounds until the table is analyzed or compacted."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RowDeletePolicy:
        """Read the table property.

        Raises:
            SchemaError: There is no such policy.
        """
        text = properties.get(DELETES_PROPERTY, cls.SKETCH.value).strip().lower()
        try:
            return cls(text)
        except ValueError:
            choices = nearest(text, (policy.value for policy in cls))
            raise SchemaError(f"table property {DELETES_PROPERTY} is {text!r}{choices}") from None
