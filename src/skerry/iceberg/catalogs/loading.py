"""Load the newest state of a table from its catalog."""

from __future__ import annotations

from skerry.errors import UnsupportedError
from skerry.iceberg.catalogs.base import CatalogTable, IcebergCatalog, Identifier
from skerry.iceberg.metadata.state import TableState
from skerry.storage import Storage, allowed_locations

__all__ = ["load_state", "read_back", "state_of"]

ENCRYPTION_PROPERTY = "encryption.key-id"


def read_back(catalog: IcebergCatalog, identifier: Identifier) -> TableState:
    """Load a table's newest state over a fresh connection, as any other process would see it.

    A connection whose commit failed may still see uncommitted data.

    Raises:
        SkerryError: As `load_state`.
    """
    catalog.close()  # connections are reopened when needed
    return load_state(catalog, identifier)


def load_state(catalog: IcebergCatalog, identifier: Identifier) -> TableState:
    """Load a table's newest state.

    Raises:
        CatalogLockedError: Another process has locked the catalog's database.
        FormatError: Its metadata file is corrupt.
        NotFoundError: The catalog has no such table, or its metadata file is missing.
        SkerryError: The catalog cannot be reached.
        UnsupportedError: It is encrypted, or of an unknown format version.
    """
    table = catalog.load_table(identifier)
    name = ".".join(identifier)
    if ENCRYPTION_PROPERTY in table.metadata.properties:
        raise UnsupportedError(
            "encrypted tables are not supported", location=name, rule="Iceberg spec, Encryption Keys"
        )
    storage = catalog.storage_of(table).allowing(allowed_locations(catalog.properties))
    return state_of(table, storage)


def state_of(table: CatalogTable, storage: Storage) -> TableState:
    """A table's state as its catalog gave it.

    Args:
        table: The catalog's table.
        storage: Access to its files.
    """
    return TableState(".".join(table.identifier), table.metadata, table.metadata_location, storage, table.config)
