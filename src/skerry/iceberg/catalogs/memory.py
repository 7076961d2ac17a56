"""A table whose metadata and manifests are in the memory of this process; its data files are anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skerry.iceberg.catalogs.metadata_files import metadata_after, new_metadata_location
from skerry.iceberg.catalogs.records import CatalogTable, Identifier, MetadataWrite
from skerry.iceberg.catalogs.static import StaticCatalog
from skerry.storage import READ_ONLY

if TYPE_CHECKING:
    from skerry.iceberg.metadata.requirements import TableRequirement
    from skerry.iceberg.metadata.table_metadata import TableMetadata
    from skerry.iceberg.metadata.table_updates import TableUpdate

__all__ = ["MemoryCatalog"]


class MemoryCatalog(StaticCatalog):
    """One table, which can be changed until it is sealed.

    Args:
        metadata: The table's first metadata; its location begins with `memory://`.
        properties: Storage options.
        reason: Why nothing can be changed once it is sealed, for messages.
    """

    def __init__(self, metadata: TableMetadata, properties: Mapping[str, Any], reason: str) -> None:
        super().__init__(metadata.location, properties, reason)
        self._table = CatalogTable(self.identifier, metadata, new_metadata_location(metadata))

    def seal(self) -> None:
        """From now on the table can be loaded, and nothing else."""
        self.properties[READ_ONLY] = self.reason

    def load_table(self, identifier: Identifier, known: CatalogTable | None = None) -> CatalogTable:
        """The table."""
        return self._table

    def commit_table(
        self,
        table: CatalogTable,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        write: MetadataWrite,
    ) -> CatalogTable:
        """Apply updates to the table, unless it is sealed."""
        if READ_ONLY in self.properties:
            self._refuse()
        old = self._table
        metadata = metadata_after(old.metadata, old.metadata_location, requirements, updates)
        location = new_metadata_location(metadata, old.metadata_location)
        write.location, write.predecessor, write.may_have_effect = location, old.metadata_location, True
        self._table = CatalogTable(old.identifier, metadata, location, old.config)
        return self._table
