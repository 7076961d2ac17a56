"""What every method of a table stands on: its catalog, its name and the state at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

import pyarrow as pa

from skerry.catalog.backend import TableBackend
from skerry.errors import UnsupportedError
from skerry.table.history import MAIN

if TYPE_CHECKING:
    from skerry.catalog.catalog import Catalog

__all__ = ["TableHandle"]


class TableHandle:
    """A table's identity and settings. `skerry.catalog.Table` is put together from classes that extend this one.

    Args:
        catalog: The catalog that it was loaded from.
        backend: The table format's side of it.
    """

    def __init__(self, catalog: Catalog, backend: TableBackend) -> None:
        self._catalog = catalog
        self._backend = backend

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(
            "a table holds its catalog's connections and is not pickled: send its name, and load it from a catalog "
            "that is connected where it is wanted",
            location=self.name,
        )

    def __repr__(self) -> str:
        snapshot = self._backend.current_snapshot(MAIN)
        return f"Table({self.name!r}, format={self.format!r}, snapshot={snapshot.snapshot_id if snapshot else None})"

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return self._backend.name

    @property
    def format(self) -> str:
        """The table format."""
        return self._backend.format

    @property
    def format_version(self) -> int:
        """The version of the table format."""
        return self._backend.format_version

    @property
    def location(self) -> str:
        """The folder of the table's files."""
        return self._backend.location

    @property
    def metadata_location(self) -> str:
        """The metadata file of the state at hand."""
        return self._backend.metadata_location

    @property
    def schema(self) -> pa.Schema:
        """The current schema; fields carry their id in the metadata `PARQUET:field_id`."""
        return self._backend.schema

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return self._backend.properties

    @property
    def partition_by(self) -> list[str]:
        """The partition transforms, as `create_table` takes them."""
        return self._backend.partition_by

    @property
    def sort_by(self) -> list[str]:
        """The sort order, as `create_table` takes it."""
        return self._backend.sort_by

    @property
    def primary_key(self) -> list[str]:
        """The columns that identify a row (Iceberg's identifier fields, Paimon's primary key); empty if none do."""
        return self._backend.primary_key

    @property
    def catalog(self) -> Catalog:
        """The catalog that the table was loaded from."""
        return self._catalog

    @property
    def backend(self) -> TableBackend:
        """The table format's side of the table."""
        return self._backend

    @property
    def implementation(self) -> Any:
        """The table format's own object, for jobs that run elsewhere (skerry.spark)."""
        return self._backend.implementation

    def refresh(self) -> Self:
        """Load the newest state."""
        self._backend.refresh()
        return self
