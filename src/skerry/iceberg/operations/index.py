"""Publish indexes of data files."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_updates import SetPropertiesUpdate
from skerry.iceberg.operations.change import MetadataChange
from skerry.table.indexes.definitions import PIECES_PROPERTY
from skerry.table.indexes.registry import piece_names

__all__ = ["RegisterIndexes"]


@dataclass(frozen=True, slots=True)
class RegisterIndexes:
    """Enter a piece of the index registry.

    Args:
        piece: Its name.
        files: Locations of the piece and of the indexes that were built for it.
        replaces: Names of the pieces that it contains.
    """

    piece: str
    files: tuple[str, ...]
    replaces: frozenset[str] = frozenset()

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change: pieces that others have entered meanwhile stay."""
        names = [name for name in piece_names(base.properties) if name not in self.replaces and name != self.piece]
        update = SetPropertiesUpdate(updates={PIECES_PROPERTY: ",".join([*names, self.piece])})
        return MetadataChange((update,), files=self.files)
