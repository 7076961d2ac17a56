"""What every method of a table stands on: its catalog, its name and the state at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pyarrow as pa

from skerry.iceberg.table import IcebergTable

if TYPE_CHECKING:
    from skerry.catalog.catalog import Catalog

__all__ = ["TableHandle"]


class TableHandle:
    """A table's identity and settings. `skerry.catalog.Table` is put together from classes that extend this one.

    Args:
        catalog: The catalog that it was loaded from.
        table: The table format's own object.
    """

    def __init__(self, catalog: Catalog, table: IcebergTable) -> None:
        self._catalog = catalog
        self._table = table

    def __repr__(self) -> str:
        snapshot = self._table.state.snapshot()
        return f"Table({self.name!r}, format={self.format!r}, snapshot={snapshot.snapshot_id if snapshot else None})"

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return self._table.state.name

    @property
    def format(self) -> str:
        """The table format."""
        return "iceberg"

    @property
    def format_version(self) -> int:
        """The version of the table format."""
        return int(self._table.state.metadata.format_version)

    @property
    def location(self) -> str:
        """The folder of the table's files."""
        return str(self._table.state.metadata.location)

    @property
    def metadata_location(self) -> str:
        """The metadata file of the state at hand."""
        return self._table.state.metadata_location

    @property
    def schema(self) -> pa.Schema:
        """The current schema; fields carry their id in the metadata `PARQUET:field_id`."""
        return self._table.state.schema

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return self._table.state.properties

    @property
    def partition_by(self) -> list[str]:
        """The partition transforms, as `create_table` takes them."""
        return self._table.partition_by

    @property
    def sort_by(self) -> list[str]:
        """The sort order, as `create_table` takes it."""
        return self._table.sort_by

    @property
    def catalog(self) -> Catalog:
        """The catalog that the table was loaded from."""
        return self._catalog

    @property
    def implementation(self) -> IcebergTable:
        """The table format's own object, for jobs that run elsewhere (skerry.spark)."""
        return self._table

    def refresh(self) -> Self:
        """Load the newest state."""
        self._table.refresh()
        return self
