"""Publish indexes of data files."""

from __future__ import annotations

from dataclasses import dataclass, replace

from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_updates import SetPropertiesUpdate
from skerry.iceberg.operations.change import MetadataChange, SnapshotChange
from skerry.table.commit import Operation
from skerry.table.indexes.definitions import PIECES_PROPERTY
from skerry.table.indexes.publishing import WrittenPiece
from skerry.table.indexes.registry import piece_names

__all__ = ["RegisteredIndexes", "WithIndexes"]


@dataclass(frozen=True, slots=True)
class RegisteredIndexes:
    """Enter a piece of the index registry.

    Args:
        piece: The piece, as it was written.
    """

    piece: WrittenPiece

    def update(self, base: TableState) -> SetPropertiesUpdate:
        """The update of the table's properties: pieces that others have entered meanwhile stay."""
        gone = {*self.piece.replaced, self.piece.name}
        names = [name for name in piece_names(base.properties) if name not in gone]
        return SetPropertiesUpdate(updates={PIECES_PROPERTY: ",".join([*names, self.piece.name])})

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change."""
        return MetadataChange((self.update(base),), files=self.piece.files)


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
        return replace(change, updates=updates, files=(*change.files, *self.indexes.piece.files))
