"""Load the newest state of a table from its catalog."""

from __future__ import annotations

from typing import Final

from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.records import CatalogTable, Identifier
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_metadata import TABLE_KEY_ID
from skerry.storage import Storage, allowed_locations

__all__ = ["decrypting_state", "load_state", "read_back", "state_of", "table_of"]

_WITHOUT_KEY: Final = "the table has encrypted files, and no encryption.key-id any more: it is only read"


def read_back(catalog: IcebergCatalog, identifier: Identifier) -> TableState:
    """Load a table's newest state over a fresh connection, as any other process would see it.

    A connection whose commit failed may still see uncommitted data.

    Raises:
        SkerryError: As `load_state`.
    """
    catalog.close()  # connections are reopened when needed
    return load_state(catalog, identifier)


def load_state(catalog: IcebergCatalog, identifier: Identifier, known: TableState | None = None) -> TableState:
    """Load a table's newest state.

    Args:
        catalog: The catalog that holds it.
        identifier: Namespace parts and table name.
        known: A state of the same table in the same catalog, whose metadata is not read again if it is the newest.

    Raises:
        CatalogLockedError: Another process has locked the catalog's database.
        FormatError: Its metadata file is corrupt.
        NotFoundError: The catalog has no such table, or its metadata file is missing.
        SkerryError: The catalog cannot be reached.
        UnsupportedError: It is of an unknown format version.
    """
    table = catalog.load_table(identifier, None if known is None else table_of(known, identifier))
    return decrypting_state(catalog, table, catalog.storage_of(table).allowing(allowed_locations(catalog.properties)))


def decrypting_state(catalog: IcebergCatalog, table: CatalogTable, storage: Storage) -> TableState:
    """A table's state, whose storage has what decrypts its files if they are encrypted.

    Args:
        catalog: The catalog that holds it.
        table: The catalog's table.
        storage: Access to its files.
    """
    if table.metadata.is_encrypted:
        from skerry.iceberg.encryption.table_keys import TableKeys

        keys = TableKeys(".".join(table.identifier), table.metadata, catalog.key_ring)
        reason = catalog.why_not_encrypted()
        if reason is None and TABLE_KEY_ID not in table.metadata.properties:
            reason = _WITHOUT_KEY
        storage = storage.with_keys(keys, read_only=reason)
    return state_of(table, storage)


def state_of(table: CatalogTable, storage: Storage) -> TableState:
    """A table's state as its catalog gave it.

    Args:
        table: The catalog's table.
        storage: Access to its files.
    """
    return TableState(".".join(table.identifier), table.metadata, table.metadata_location, storage, table.config)


def table_of(state: TableState, identifier: Identifier) -> CatalogTable:
    """A state as the catalog's table that it is of."""
    return CatalogTable(identifier, state.metadata, state.metadata_location, state.config)
