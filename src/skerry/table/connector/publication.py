"""How rows written by tasks are published, for all table formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from skerry.arguments import checked_texts
from skerry.errors import SchemaError
from skerry.table.history import MAIN

__all__ = ["Publication", "WriteMode"]


class WriteMode(Enum):
    """What happens to existing rows."""

    APPEND = "append"
    """They are kept; in a table with a primary key, new rows replace those with the same key."""
    OVERWRITE = "overwrite"
    """They are removed."""
    OVERWRITE_PARTITIONS = "overwrite-partitions"
    """Those in the partitions of the new rows are removed."""
    UPSERT = "upsert"
    """Those with the same key as a new row are replaced by it."""

    @classmethod
    def parse(cls, text: str) -> WriteMode:
        """Parse a mode.

        Raises:
            SchemaError: The mode does not exist.
        """
        try:
            return cls(text.strip().lower())
        except ValueError:
            choices = ", ".join(mode.value for mode in cls)
            raise SchemaError(f"write mode {text!r} does not exist; use one of {choices}") from None


@dataclass(frozen=True, slots=True)
class Publication:
    """How written rows are published.

    Args:
        mode: What happens to existing rows.
        ref: The branch.
        on: The key columns of an upsert; empty if the table has a primary key.
        blind: Whether an upsert deletes by key without looking for the rows.
        properties: Further entries of the snapshot summary.
    """

    mode: WriteMode = WriteMode.APPEND
    ref: str = MAIN
    on: tuple[str, ...] = ()
    blind: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_texts("snapshot_properties", self.properties)
        if self.on and self.mode is not WriteMode.UPSERT:
            raise SchemaError("key columns (on) are only for an upsert")
