"""How rows that tasks have written become rows of a table, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from skerry.errors import SchemaError
from skerry.table.history import MAIN

__all__ = ["Publication", "WriteMode"]


class WriteMode(Enum):
    """What becomes of the rows that are there."""

    APPEND = "append"
    """They stay; in a table with a primary key, those that have the key of a new row give way to it."""
    OVERWRITE = "overwrite"
    """They go."""
    OVERWRITE_PARTITIONS = "overwrite-partitions"
    """Those of the partitions go that new rows fall into."""
    UPSERT = "upsert"
    """Those that have the key of a new row become it."""

    @classmethod
    def parse(cls, text: str) -> WriteMode:
        """Read a mode.

        Raises:
            SchemaError: There is no such mode.
        """
        try:
            return cls(text.strip().lower())
        except ValueError:
            choices = ", ".join(mode.value for mode in cls)
            raise SchemaError(f"there is no way to write {text!r}; there is {choices}") from None


@dataclass(frozen=True, slots=True)
class Publication:
    """How written rows are published.

    Args:
        mode: What becomes of the rows that are there.
        ref: The branch.
        on: The key columns of an upsert; none where the table has a primary key.
        blind: Whether an upsert deletes by key without looking for the rows.
        properties: Further entries of the snapshot summary.
    """

    mode: WriteMode = WriteMode.APPEND
    ref: str = MAIN
    on: tuple[str, ...] = ()
    blind: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on and self.mode is not WriteMode.UPSERT:
            raise SchemaError("key columns (on) belong to an upsert")
