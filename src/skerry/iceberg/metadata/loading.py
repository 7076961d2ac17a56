"""Load the newest state of a table from its catalog."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table as CatalogTable

from skerry.errors import NotFoundError, SkerryError, UnsupportedError
from skerry.iceberg.metadata.file_io import table_storage
from skerry.iceberg.metadata.reading import metadata_errors
from skerry.iceberg.metadata.state import TableState
from skerry.storage import allowed_locations

__all__ = ["in_memory", "load_state", "read_back"]

ENCRYPTION_PROPERTY = "encryption.key-id"


def read_back(catalog: Catalog, identifier: tuple[str, ...]) -> TableState:
    """Load a table's newest state over a fresh connection, as any other process would see it.

    A connection whose commit failed may still see uncommitted data.

    Raises:
        SkerryError: As `load_state`.
    """
    engine = getattr(catalog, "engine", None)
    if engine is None or not in_memory(engine.url):
        catalog.close()  # closes idle connections, which are reopened when needed
    return load_state(catalog, identifier)


def in_memory(url: Any) -> bool:
    """Whether a SQL catalog's database disappears with its connection."""
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def load_state(catalog: Catalog, identifier: tuple[str, ...]) -> TableState:
    """Load a table's newest state.

    Raises:
        CatalogLockedError: Another process has locked the catalog's database.
        FormatError: Its metadata file is corrupt.
        NotFoundError: The catalog has no such table, or its metadata file is missing.
        SkerryError: The catalog cannot be reached.
        UnsupportedError: It is encrypted, or of an unknown format version.
    """
    name = ".".join(identifier)
    try:
        with metadata_errors():
            table = catalog.load_table(identifier)
    except NoSuchTableError:
        raise NotFoundError(f"no table {name!r}") from None
    except SkerryError:
        raise
    except Exception as error:
        raise SkerryError(f"the catalog failed: {type(error).__name__}: {error}", location=name) from error
    return _state(name, table, catalog)


def _state(name: str, table: CatalogTable, catalog: Catalog) -> TableState:
    if ENCRYPTION_PROPERTY in table.metadata.properties:
        raise UnsupportedError(
            "encrypted tables are not supported", location=name, rule="Iceberg spec, Encryption Keys"
        )
    storage = table_storage(table, catalog.properties).allowing(allowed_locations(catalog.properties))
    return TableState(name, table.metadata, table.metadata_location, storage, table)
