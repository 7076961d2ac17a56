"""The interface through which a catalog accesses the tables of one format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.arguments import ColumnSource
from skerry.table.table import Table, TableCatalog

if TYPE_CHECKING:
    from skerry.table.statistics.joinable import TableSketches

__all__ = ["FILE_FORMATS", "NewTable", "TableStore", "arrow_schema"]

FILE_FORMATS: Final = ("parquet", "orc", "avro", "amudai")
"""File formats of data files, the default first."""


@dataclass(frozen=True, slots=True)
class NewTable:
    """Description of a new table: the arguments of `Catalog.create_table`.

    Args:
        schema: Its columns.
        file_format: Format of new data files.
        partition_by: Transforms.
        sort_by: Order of the rows in each file.
        primary_key: Columns that identify a row.
        properties: Table properties.
        location: The table's folder; None to let the catalog choose.
        format_version: Version of the table format; None for the default.

    Raises:
        SchemaError: There are no columns.
    """

    schema: pa.Schema
    file_format: str = "parquet"
    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()
    primary_key: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    format_version: int | None = None

    def __post_init__(self) -> None:
        if not self.schema.names:
            raise SchemaError("a table needs a column: the schema has none")


class TableStore(Protocol):
    """The tables of one format in a catalog. Names are dotted; the last part is the table's own."""

    def list_namespaces(self) -> list[str]:
        """All namespaces, nested ones dotted."""

    def create_namespace(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a namespace.

        Raises:
            AlreadyExistsError: It exists.
        """

    def drop_namespace(self, name: str) -> None:
        """Remove a namespace without tables.

        Raises:
            NotFoundError: There is no such namespace.
            SchemaError: It is not empty.
        """

    def list_tables(self, namespace: str) -> list[str]:
        """Names of the tables in a namespace; none if there is no such namespace."""

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name."""

    def location(self, name: str) -> str:
        """The folder of a new table of that name.

        Raises:
            UnsupportedError: It is chosen when the table is created.
        """

    def create(self, name: str, table: NewTable) -> None:
        """Create a table, and its namespace if it does not exist.

        Raises:
            AlreadyExistsError: There is a table of that name.
            SchemaError: A column, type, transform or property does not fit.
            UnsupportedError: The table format does not support an argument.
        """

    def load(self, name: str, catalog: TableCatalog | None = None) -> Table:
        """Load a table.

        Args:
            name: The table.
            catalog: The catalog that it is loaded from.

        Raises:
            NotFoundError: There is no table of that name (error without location), or a file of it is missing (with
                location).
        """

    def rename(self, name: str, to: str) -> None:
        """Rename a table.

        Raises:
            NotFoundError: There is no such table, or no such namespace to move to.
            AlreadyExistsError: The new name is taken.
        """

    def drop(self, name: str, *, purge: bool) -> None:
        """Remove a table from the catalog, and delete its files if requested.

        Raises:
            NotFoundError: There is no such table.
        """

    def versions(self) -> Mapping[str, str]:
        """The versions of tables by name; only if the catalog can list them all at once."""

    def sketches(self, name: str, known: tuple[str, TableSketches] | None) -> tuple[str, TableSketches]:
        """The version of a table and its fresh sketches.

        Args:
            name: The table.
            known: The previous result; returned if nothing has changed since.

        Raises:
            NotFoundError: As `load`.
        """


def arrow_schema(schema: ColumnSource) -> pa.Schema:
    """The schema of an argument that is one, or has one.

    Raises:
        SchemaError: It is neither.
    """
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "__arrow_c_schema__"):
        return pa.schema(schema)
    own = getattr(schema, "schema", None)
    if isinstance(own, pa.Schema):
        return own
    if hasattr(schema, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(schema).schema
    raise SchemaError(f"expected an Arrow schema or data with one, found {type(schema).__name__}")
