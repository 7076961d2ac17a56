"""Publish indexes of data files."""

from __future__ import annotations

from dataclasses import dataclass, replace

from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_updates import SetPropertiesUpdate
from skerry.iceberg.operations.change import MetadataChange, SnapshotChange
from skerry.table.commit import Operation
from skerry.table.indexes.definitions import PIECES_PROPERTY
from skerry.table.indexes.registry import piece_names

__all__ = ["RegisteredIndexes", "WithIndexes"]


@dataclass(frozen=True, slots=True)
class RegisteredIndexes:
    """Enter a piece of the index registry.

    Args:
        piece: Its name.
        files: Locations of the piece and of the indexes that were built for it.
        replaced: Names of the pieces that it contains.
    """

    piece: str
    files: tuple[str, ...]
    replaced: frozenset[str] = frozenset()

    def update(self, base: TableState) -> SetPropertiesUpdate:
        """The update of the table's properties: pieces that others have entered meanwhile stay."""
        names = [name for name in piece_names(base.properties) if name not in self.replaced and name != self.piece]
        return SetPropertiesUpdate(updates={PIECES_PROPERTY: ",".join([*names, self.piece])})

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change."""
        return MetadataChange((self.update(base),), files=self.files)


@dataclass(frozen=True, slots=True)
class WithIndexes:
    """An operation together with the indexes of the data files that it adds.

    Args:
        operation: The operation.
        indexes: The indexes.
    """

    operation: Operation[TableState, SnapshotChange | MetadataChange]
    indexes: RegisteredIndexes

    def apply(self, base: TableState) -> SnapshotChange | MetadataChange | None:
        """Decide the change; None if the operation changes nothing."""
        change = self.operation.apply(base)
        if change is None:
            return None
        updates = (*change.updates, self.indexes.update(base))
        return replace(change, updates=updates, files=(*change.files, *self.indexes.files))
