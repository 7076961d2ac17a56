"""A table without a catalog: its newest metadata file is found in its folder, and nothing can be changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from skerry.errors import NotFoundError, UnsupportedError
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.metadata_files import read_metadata
from skerry.iceberg.catalogs.records import CatalogTable, Identifier, MetadataWrite, NewIcebergTable
from skerry.iceberg.metadata.newest_file import is_metadata_file, newest_metadata_file
from skerry.storage import (
    BASE_LOCATION,
    MOVED_FROM,
    MOVED_TO,
    Storage,
    file_key,
    is_relative,
    local_path,
    name,
    parent,
    redact,
)

if TYPE_CHECKING:
    from skerry.iceberg.metadata.requirements import TableRequirement
    from skerry.iceberg.metadata.table_metadata import TableMetadata
    from skerry.iceberg.metadata.table_updates import TableUpdate

__all__ = ["StaticCatalog"]

_METADATA_FOLDER: Final = "metadata"


class StaticCatalog(IcebergCatalog):
    """One table, by its location. It can be loaded, and nothing else.

    Args:
        location: The table's folder, whose newest metadata file counts, or a metadata file, which stays the same.
        properties: Storage options and allowed locations.
        reason: Why nothing can be changed, for messages.
    """

    def __init__(self, location: str, properties: Mapping[str, Any], reason: str) -> None:
        super().__init__("", properties)
        self.location = location
        self.reason = reason

    @property
    def identifier(self) -> Identifier:
        """The table's name: its folder's."""
        folder = self._folder
        return (name(folder if folder is not None else parent(self.location)),)

    def load_table(self, identifier: Identifier, known: CatalogTable | None = None) -> CatalogTable:
        """The table's state, as its folder shows it."""
        storage = Storage(self.properties)
        location = self.location if self._is_file else newest_metadata_file(storage, self.location)
        if location is None:
            raise NotFoundError(
                "no table is here: expected a folder with metadata/….metadata.json (Iceberg) or schema/schema-0 "
                "(Paimon), a metadata file, a Parquet file or a shard",
                location=redact(self.location),
            )
        metadata = read_metadata(storage, location)
        return CatalogTable(identifier, metadata, location, self._move(metadata) | self._base(metadata))

    def _base(self, metadata: TableMetadata) -> dict[str, str]:
        """The storage option for relative locations; a table whose own is relative names its files by that."""
        return {} if is_relative(metadata.location) else {BASE_LOCATION: metadata.location}

    def _move(self, metadata: TableMetadata) -> dict[str, str]:
        """Storage options that lead from where the table was when its metadata was written to where it is."""
        folder = self._folder
        if folder is None or "write.metadata.path" in metadata.properties or _is_same(folder, metadata.location):
            return {}
        return {MOVED_FROM: metadata.location, MOVED_TO: folder}

    @property
    def _is_file(self) -> bool:
        return is_metadata_file(self.location)

    @property
    def _folder(self) -> str | None:
        """The table's folder; None if the location is a metadata file elsewhere."""
        if not self._is_file:
            return self.location
        inside = parent(self.location)
        return parent(inside) if name(inside) == _METADATA_FOLDER else None

    def _refuse(self) -> NoReturn:
        raise UnsupportedError(self.reason, location=self.location)

    def commit_table(
        self,
        table: CatalogTable,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        write: MetadataWrite,
    ) -> CatalogTable:
        """Refused."""
        self._refuse()

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """None: the table is in no namespace."""
        return []

    def namespace_exists(self, namespace: Identifier) -> bool:
        """No."""
        return False

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Refused."""
        self._refuse()

    def drop_namespace(self, namespace: Identifier) -> None:
        """Refuse."""
        self._refuse()

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """Refused."""
        self._refuse()

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """None: the table is in no namespace."""
        return []

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether that is the table's name."""
        return identifier == self.identifier

    def create_table(self, identifier: Identifier, table: NewIcebergTable) -> CatalogTable:
        """Refused."""
        self._refuse()

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Refused."""
        self._refuse()

    def rename_table(self, identifier: Identifier, to: Identifier) -> None:
        """Refused."""
        self._refuse()

    def drop_table(self, identifier: Identifier) -> None:
        """Refused."""
        self._refuse()

    def close(self) -> None:
        """Nothing is open."""


def _is_same(one: str, other: str) -> bool:
    """Whether two locations denote the same folder, also through links."""
    if file_key(one) == file_key(other):
        return True
    one_path, other_path = local_path(one), local_path(other)
    if one_path is None or other_path is None:
        return False
    try:
        return Path(one_path).samefile(other_path)
    except OSError:
        return False
