"""A catalog: named tables in namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyiceberg.catalog as pyiceberg_catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from skerry.catalog.iceberg_backend import IcebergBackend
from skerry.catalog.querying import explain_query, plan_table_joins, run_query
from skerry.catalog.sketch_index import SketchIndex
from skerry.catalog.table import Table
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.metadata_reading import check_metadata
from skerry.iceberg.partitions import partition_spec
from skerry.iceberg.schema import to_arrow_schema, to_iceberg_schema, with_identifier
from skerry.iceberg.sorting import sort_order
from skerry.iceberg.table import IcebergTable
from skerry.planner.explanation import QueryPlan
from skerry.planner.ordering import JoinPlan
from skerry.storage import redact
from skerry.table.joinable import JoinableColumns, find_joinable
from skerry.table.schema import nearest
from skerry.table.statistics import SketchPolicy

__all__ = ["Catalog"]


FORMATS = ("iceberg",)
FILE_FORMATS = ("parquet", "orc", "avro")


class Catalog:
    """Named tables in namespaces. Made by `skerry.connect`.

    Args:
        catalog: The PyIceberg catalog behind it.
    """

    def __init__(self, catalog: pyiceberg_catalog.Catalog) -> None:
        self._catalog = catalog
        self._sketch_index = SketchIndex(catalog)

    @property
    def name(self) -> str:
        """The catalog's name; Spark must configure the same catalog under the same name."""
        return str(self._catalog.name)

    @property
    def properties(self) -> dict[str, str]:
        """The catalog's properties; may hold credentials."""
        return dict(self._catalog.properties)

    def __repr__(self) -> str:
        uri = self._catalog.properties.get("uri")
        return f"Catalog({self.name!r}{f', uri={redact(uri)!r}' if uri else ''})"

    def list_namespaces(self) -> list[str]:
        """All namespaces, nested ones dotted, in alphabetical order."""

        def below(parent: tuple[str, ...]) -> list[str]:
            found = []
            for namespace in self._catalog.list_namespaces(parent) if parent else self._catalog.list_namespaces():
                parts = tuple(namespace)
                if len(parts) > len(parent) and parts[: len(parent)] == parent:
                    found += [".".join(parts), *(below(parts) if len(parts) > 1 or not parent else [])]
            return found

        with _catalog_errors():
            return sorted(set(below(())))

    def create_namespace(self, name: str, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace.

        Raises:
            AlreadyExistsError: It exists.
        """
        with _catalog_errors():
            self._catalog.create_namespace(_parts(name), dict(properties or {}))

    def list_tables(self, namespace: str | None = None) -> list[str]:
        """Names of all tables, or of those in one namespace, in alphabetical order.

        Raises:
            NotFoundError: There is no such namespace.
        """
        if namespace is not None and namespace not in (known := self.list_namespaces()):
            raise NotFoundError(f"no namespace {namespace!r}{nearest(namespace, known)}")
        namespaces = self.list_namespaces() if namespace is None else [namespace]
        with _catalog_errors():
            return sorted(".".join(table) for name in namespaces for table in self._catalog.list_tables(_parts(name)))

    def create_table(
        self,
        name: str,
        schema: pa.Schema | Any,
        *,
        format: str = "iceberg",
        file_format: str = "parquet",
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        primary_key: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        format_version: int = 2,
    ) -> Table:
        """Create a table; its namespace is created if need be.

        Args:
            name: `namespace.table`.
            schema: Arrow schema, or data that has one. Field ids (`PARQUET:field_id`) are kept if every field has one,
                else given.
            format: `iceberg`.
            file_format: What data files are written in, `parquet`, `orc` or `avro` (table property
                `write.format.default`).
            partition_by: Transforms: `col`, `year(ts)`, `month(ts)`, `day(ts)`, `hour(ts)`, `bucket(16, id)`,
                `truncate(10, s)`, `void(x)`.
            sort_by: Order of the rows in each file: `col`, `col desc`, `col asc nulls last`, transforms too.
            primary_key: Columns that identify a row (Iceberg's identifier fields).
            properties: Table properties; ours begin with `skerry.`.
            location: The table's folder; chosen by the catalog if None.
            format_version: Iceberg format version, 1 to 3.

        Raises:
            AlreadyExistsError: There is a table of that name.
            SchemaError: A column, type, transform or property does not fit.
            UnsupportedError: The format is not supported.
        """
        _choice("format", format, FORMATS)
        _choice("file_format", file_format, FILE_FORMATS)
        if format_version not in (1, 2, 3):
            raise SchemaError(f"format_version must be 1, 2 or 3, found {format_version!r}")
        identifier = _identifier(name)
        arrow_schema = _arrow_schema(schema)
        iceberg_schema = with_identifier(to_iceberg_schema(arrow_schema, format_version=format_version), primary_key)
        settings = {"format-version": str(format_version), **(properties or {})}
        if file_format != FILE_FORMATS[0]:
            settings.setdefault("write.format.default", file_format)
        SketchPolicy.from_properties(settings).check(to_arrow_schema(iceberg_schema))
        with _catalog_errors(name):
            if not self._catalog.namespace_exists(identifier[:-1]):
                self._create_namespace_unless_another_did(identifier[:-1])
            self._catalog.create_table(
                identifier,
                schema=iceberg_schema,
                location=location,
                partition_spec=partition_spec(iceberg_schema, partition_by),
                sort_order=sort_order(iceberg_schema, sort_by),
                properties=settings,
            )
        return self.load_table(name)

    def _create_namespace_unless_another_did(self, namespace: tuple[str, ...]) -> None:
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(namespace)

    def load_table(self, name: str) -> Table:
        """Load a table.

        Raises:
            NotFoundError: There is none of that name; the message proposes the nearest.
        """
        identifier = _identifier(name)
        with _catalog_errors(name):
            try:
                return Table(self, IcebergBackend(IcebergTable(self._catalog, identifier)))
            except NotFoundError as error:
                if error.location is not None:  # of a file
                    raise
                raise NotFoundError(f"no table {name!r}{nearest(name, self.list_tables())}") from None

    def table_exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        with _catalog_errors(name):
            return bool(self._catalog.table_exists(_identifier(name)))

    def rename_table(self, name: str, to: str) -> Table:
        """Give a table another name; its files stay where they are.

        Raises:
            NotFoundError: There is no such table, or no such namespace to move to.
            AlreadyExistsError: The new name is taken.
        """
        with _catalog_errors(name):
            self._catalog.rename_table(_identifier(name), _identifier(to))
        return self.load_table(to)

    def drop_table(self, name: str, *, purge: bool = False) -> None:
        """Take a table out of the catalog.

        Args:
            name: `namespace.table`.
            purge: Whether to delete its files too: those that its metadata reaches, below its location. Nothing is
                dropped if some metadata cannot be read, or if the table property `gc.enabled` is false.

        Raises:
            NotFoundError: There is no such table, or a metadata file is missing.
            FormatError: Metadata is corrupt.
            SchemaError: The table's files may be other tables' too.
        """
        table = self.load_table(name)

        def drop() -> None:
            with _catalog_errors(name):
                self._catalog.drop_table(_identifier(name))

        if purge:
            table.backend.purge(drop)
        else:
            drop()

    def register_table(self, name: str, metadata_path: str) -> Table:
        """Put a table into the catalog that exists already as files.

        Args:
            name: `namespace.table`.
            metadata_path: Location of its newest `…metadata.json`.

        Raises:
            AlreadyExistsError: There is a table of that name.
            FormatError: The file is no table metadata; nothing was registered.
            NotFoundError: There is no such file.
            UnsupportedError: It is of a format version that is not known.
        """
        identifier = _identifier(name)
        with _catalog_errors(name):
            check_metadata(self._catalog, metadata_path)
            if not self._catalog.namespace_exists(identifier[:-1]):
                self._create_namespace_unless_another_did(identifier[:-1])
            self._catalog.register_table(identifier, metadata_path)
        return self.load_table(name)

    # ---- across tables ----

    def joinable(
        self, table: str, column: str, *, min_containment: float = 0.1, limit: int | None = None
    ) -> JoinableColumns:
        """Find the columns of all tables that could be joined with one, from published sketches alone.

        No data file is read: of every table the metadata, and of its statistics file one range, the first time. Only
        fresh sketches are compared, and only columns whose equal values have equal hashes: `int` is never compared with
        `long`.

        Args:
            table: `namespace.table`.
            column: Dotted name of a primitive column.
            min_containment: Leave out columns of which less is contained in the other, whichever way.
            limit: Most columns; all if None.

        Returns:
            The columns found, those first that have most of the asked column's values; and what was left out, and why.

        Raises:
            NotFoundError: There is no such table or column, or the column has no fresh sketch.
        """
        names = self.list_tables()
        if table not in names:
            raise NotFoundError(f"no table {table!r}{nearest(table, names)}")
        with _catalog_errors():
            tables, broken = self._sketch_index.read(names)
        for without in broken:
            if without.table == table:
                raise NotFoundError(f"table {table!r} cannot be read: {without.reason}")
        return find_joinable(table, column, tables, min_containment=min_containment, limit=limit, not_compared=broken)

    def explain(self, sql: str) -> QueryPlan:
        """Plan a query without running it: rows after conditions and joins with their bounds, and the order of joins.

        Selectivities come from partitions, bounds, null counts and sketches, sizes of joins from the intersection of
        sketches. Only fresh sketches are used; what was assumed instead is told.

        Args:
            sql: A query in DuckDB's dialect over tables named `namespace.table`.

        Returns:
            The plan; `str()` lays it out.

        Raises:
            FormatError: The text is no query.
            NotFoundError: There is no such table.
            SchemaError: A column does not exist or is ambiguous.
            UnsupportedError: It is another statement, or uses what is not planned.
        """
        return explain_query(self, sql)

    def plan_joins(
        self,
        tables: Mapping[str, str] | Sequence[str],
        on: Sequence[tuple[str, str]],
        where: Mapping[str, str] | None = None,
    ) -> JoinPlan:
        """Plan joins of tables, as `explain` does, without SQL.

        Args:
            tables: Names of tables by the short names that `on` and `where` use; if only names are given, their last
                part is the short name.
            on: Pairs of equal columns, `("f.tailnum", "p.tailnum")`.
            where: Conditions by short name, on columns of that table without prefix.

        Raises:
            NotFoundError: There is no such table.
            SchemaError: A column or short name does not exist.
        """
        return plan_table_joins(self, tables, on, where)

    def sql(self, sql: str) -> pa.Table:
        """Run a query on DuckDB, with the joins in the order that `explain` tells.

        Tables are read by our scans: only the columns needed, and only what the conditions on each table leave.

        Args:
            sql: A query in DuckDB's dialect over tables named `namespace.table`.

        Returns:
            The result as Arrow.

        Raises:
            MissingDependencyError: DuckDB is not installed (`skerry[duckdb]`).
            SkerryError: DuckDB refused the query; also as `explain`.
        """
        return run_query(self, sql)


def _parts(name: str) -> tuple[str, ...]:
    parts = tuple(name.split("."))
    if not all(parts):
        raise SchemaError(f"{name!r} is no name: a part between dots is empty")
    return parts


def _identifier(name: str) -> tuple[str, ...]:
    parts = _parts(name)
    if len(parts) < 2:
        raise SchemaError(f"a table name is namespace.table, found {name!r}")
    return parts


def _choice(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UnsupportedError(f"{option}={value!r} is not supported{nearest(value, known)}")


def _arrow_schema(schema: Any) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "__arrow_c_schema__"):
        return pa.schema(schema)
    if isinstance(getattr(schema, "schema", None), pa.Schema):
        return schema.schema
    if hasattr(schema, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(schema).schema
    raise SchemaError(f"expected an Arrow schema or data with one, found {type(schema).__name__}")


@contextmanager
def _catalog_errors(name: str = "") -> Iterator[None]:
    """PyIceberg's exceptions as ours."""
    try:
        yield
    except SkerryError:
        raise
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise NotFoundError(str(error)) from None
    except TableAlreadyExistsError:
        raise AlreadyExistsError(f"table {name!r} exists already") from None
    except (NamespaceAlreadyExistsError, NamespaceNotEmptyError) as error:
        raise AlreadyExistsError(str(error)) from None
    except Exception as error:
        raise SkerryError(f"the catalog failed: {type(error).__name__}: {error}") from error
