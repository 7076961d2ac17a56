"""What a catalog does with queries and views; see `skerry.catalog.Catalog`."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from skerry._version import __version__
from skerry.arguments import checked_texts
from skerry.catalog.names import TableName, check_new_name, identifier_of, parts_of
from skerry.catalog.namespaces import Namespaces
from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SchemaError,
    SkerryError,
    UnsupportedError,
)
from skerry.table.rows.schema import nearest

if TYPE_CHECKING:
    from skerry.catalog.iceberg_tables import IcebergTables
    from skerry.catalog.view import View
    from skerry.iceberg.catalogs.base import IcebergCatalog
    from skerry.iceberg.catalogs.records import NewView
    from skerry.planner.explanation import QueryPlan
    from skerry.planner.ordering import JoinPlan
    from skerry.table.table import Table

__all__ = ["QueryableCatalog"]

_DIALECT: Final = "duckdb"
_TRIES: Final = 3


class QueryableCatalog(Namespaces):
    """Queries over the tables of a catalog, and views, which are queries with a name.

    Views are kept as Iceberg's are, and may read tables of both formats.
    """

    _iceberg: IcebergTables | None

    @property
    @abstractmethod
    def name(self) -> str:
        """The catalog's name."""

    @abstractmethod
    def load_table(self, name: TableName) -> Table:
        """Load a table."""

    def __getitem__(self, name: TableName) -> Table:
        """The table of a name, as `load_table`: `catalog["nyc.flights"]`."""
        return self.load_table(name)

    @abstractmethod
    def table_exists(self, name: TableName) -> bool:
        """Whether there is a table of that name."""

    def list_views(self, namespace: str | None = None) -> list[str]:
        """Names of all views, or of those in one namespace, in alphabetical order.

        Raises:
            NotFoundError: There is no such namespace.
        """
        namespaces = self._namespaces(namespace)
        if self._iceberg is None:
            return []
        found = []
        for wanted in namespaces:
            try:
                found += [".".join(view) for view in self._iceberg.catalog.list_views(parts_of(wanted))]
            except NotFoundError:  # a namespace of Paimon tables, or dropped in the meantime
                continue
        return sorted(found)

    def load_view(self, name: str) -> View:
        """Load a view.

        Raises:
            FormatError: Its metadata is corrupt.
            NotFoundError: There is no view of that name; the message suggests the nearest.
        """
        from skerry.catalog.view import view_of

        identifier = identifier_of(name)
        if self._iceberg is not None:
            try:
                return view_of(name, self._iceberg.catalog.load_view(identifier), self.name)
            except NotFoundError as error:
                if error.location is not None:  # of a file
                    raise
        raise NotFoundError(f"no view {name!r}{nearest(name, self.list_views())}")

    def view_exists(self, name: str) -> bool:
        """Whether there is a view of that name."""
        try:
            self.load_view(name)
        except NotFoundError as error:
            return error.location is not None
        return True

    def create_view(
        self,
        name: str,
        sql: str | Mapping[str, str],
        *,
        dialect: str = _DIALECT,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> View:
        """Create a view: a query that `sql` puts in the place of the view's name.

        Args:
            name: `namespace.view`; tables that the query names without a namespace are in the view's.
            sql: The query, or the same query in several dialects by their names. Spark uses only the dialect `spark`,
                Trino only `trino`; `Catalog.sql` uses `duckdb`, or else translates one of the others.
            dialect: The dialect of a single query.
            replace: Whether a view of that name gets this definition; the older ones are kept in its history.
            properties: Properties of the view, added to those that it has.

        Returns:
            The view.

        Raises:
            AlreadyExistsError: There is a table of that name, or a view, and `replace` is false.
            CommitUnknownError: It may or may not have been done.
            ConflictError: Other processes have changed the view each time.
            FormatError: The text is not a query.
            MissingDependencyError: DuckDB is not installed (`skerry[duckdb]`); it tells the types of the columns.
            NotFoundError: A table of the query does not exist.
            SchemaError: A column does not exist, has a type that Iceberg lacks, or a name is taken twice.
            UnsupportedError: The catalog has no views, the dialect is unknown, or the statement is not a query.
        """
        check_new_name(name)
        identifier = identifier_of(name)
        queries = _queries(sql, dialect)
        kept = checked_texts("properties", properties)
        catalog = self._view_store()
        if self.table_exists(name):
            raise AlreadyExistsError(f"table {name!r} already exists")
        new = self._new_view(name, queries, kept)
        if not catalog.namespace_exists(identifier[:-1]):
            catalog.create_namespace(identifier[:-1])
        for turn in range(_TRIES):
            try:
                known = catalog.load_view(identifier)
            except NotFoundError as error:
                if error.location is not None:
                    raise
                catalog.create_view(identifier, new)
                break
            if not replace:
                raise AlreadyExistsError(f"view {name!r} already exists; replace=True gives it another definition")
            try:
                catalog.replace_view(known, new)
                break
            except ConflictError:
                if turn == _TRIES - 1:
                    raise
        try:
            return self.load_view(name)
        except SkerryError as error:
            raise CommitUnknownError(f"view {name!r} was created, but cannot be loaded: {error}") from error

    def rename_view(self, name: str, to: str) -> View:
        """Rename a view.

        Raises:
            AlreadyExistsError: The new name is taken.
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such view, or no such namespace to move to.
        """
        check_new_name(to)
        if self.table_exists(to) or self.view_exists(to):
            raise AlreadyExistsError(f"table or view {to!r} already exists")
        self.load_view(name)
        self._view_store().rename_view(identifier_of(name), identifier_of(to))
        try:
            return self.load_view(to)
        except SkerryError as error:
            raise CommitUnknownError(f"view {name!r} was renamed, but cannot be loaded: {error}") from error

    def drop_view(self, name: str) -> None:
        """Remove a view from the catalog; its metadata files stay.

        Raises:
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such view.
        """
        if not self.view_exists(name):
            raise NotFoundError(f"no view {name!r}{nearest(name, self.list_views())}")
        self._view_store().drop_view(identifier_of(name))

    def explain(self, sql: str) -> QueryPlan:
        """Plan a query without running it: rows after conditions and joins with their bounds, and the order of joins.

        Selectivities come from partitions, bounds, null counts and sketches, sizes of joins from the intersection of
        sketches. Only fresh sketches are used; assumptions made instead are listed in the plan.

        Args:
            sql: A query in DuckDB's dialect over tables and views named `namespace.table`, or
                `"namespace.table$files"`.

        Returns:
            The plan; `str()` formats it.

        Raises:
            FormatError: The text is not a query.
            NotFoundError: There is no such table.
            SchemaError: A column does not exist or is ambiguous.
            UnsupportedError: It is another kind of statement, or uses something that is not planned.
        """
        from skerry.catalog.queries.querying import explain_query  # only loaded when it is used

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
        from skerry.catalog.queries.querying import plan_table_joins

        return plan_table_joins(self, tables, on, where)

    def _view_store(self) -> IcebergCatalog:
        if self._iceberg is None:
            raise UnsupportedError("views need a catalog of Iceberg tables; this one has Paimon tables only")
        return self._iceberg.catalog

    def _new_view(self, name: str, queries: Mapping[str, str], properties: Mapping[str, str]) -> NewView:
        from skerry.catalog.queries.querying import view_schema
        from skerry.iceberg.catalogs.records import NewView
        from skerry.iceberg.metadata.arrow_schema import to_iceberg_schema
        from skerry.iceberg.metadata.view_metadata import SqlRepresentation, ViewVersion

        representations = tuple(SqlRepresentation(dialect, sql) for dialect, sql in queries.items())
        namespace = identifier_of(name)[:-1]
        columns = view_schema(self, name, queries, namespace)
        version = ViewVersion(
            0,
            int(time.time() * 1000),
            0,
            representations,
            namespace,
            summary={"engine-name": "skerry", "engine-version": __version__},
        )
        return NewView(to_iceberg_schema(columns, format_version=3), version, properties)


def _queries(sql: str | Mapping[str, str], dialect: str) -> dict[str, str]:
    """Queries by dialect, in lower case.

    Raises:
        SchemaError: There is none, or two in one dialect.
    """
    if not isinstance(sql, str | Mapping):
        raise SchemaError(f"sql must be a query, or queries by the names of their dialects, found {sql!r}")
    found = checked_texts("sql", {dialect: sql} if isinstance(sql, str) else sql)
    queries = {name.lower(): text for name, text in found.items()}
    if not queries or len(queries) < len(found):
        raise SchemaError(f"a view has one query in each of one or more dialects, found {', '.join(found) or 'none'}")
    return queries
