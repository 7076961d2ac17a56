"""Conversions of a row stream, shared by scans and changes of both table formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

from skerry.arguments import check_instance
from skerry.errors import MissingDependencyError

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

__all__ = ["BoundedStream", "RowStream"]


class RowStream(ABC):
    """Rows that are read on demand; everything that reads Arrow streams takes them (Polars, DuckDB, `Table.append`)."""

    @abstractmethod
    def to_batches(self) -> pa.RecordBatchReader:
        """Read the rows as a stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Read the rows into a PyArrow table."""
        return self.to_batches().read_all()

    def to_pandas(self) -> pandas.DataFrame:
        """Read the rows into a pandas frame.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401  PyArrow's message does not say what is missing for whom
        except ImportError as error:
            raise MissingDependencyError("to_pandas() needs the package pandas") from error
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Read the rows into a Polars frame.

        Raises:
            MissingDependencyError: Polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise MissingDependencyError("to_polars() needs the package polars") from error
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Read the rows into a DuckDB relation.

        Args:
            connection: The connection that queries it; DuckDB's default one if None.

        Raises:
            MissingDependencyError: DuckDB is not installed.
            SchemaError: `connection` is something else.
        """
        try:
            import duckdb
        except ImportError as error:
            raise MissingDependencyError("to_duckdb() needs the package duckdb") from error
        if connection is not None:
            check_instance("connection", connection, duckdb.DuckDBPyConnection, "a connection of DuckDB")
        return (connection or duckdb.default_connection()).from_arrow(self.to_arrow())


class BoundedStream(RowStream):
    """Rows that are read on demand, and whose number is known approximately before."""

    @abstractmethod
    def row_bounds(self) -> tuple[int, int]:
        """The least and the most rows that it can deliver, from metadata alone."""
