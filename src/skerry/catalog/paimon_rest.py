"""The Paimon tables of a REST catalog.

Spec: docs/formats/paimon.md § 16.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from skerry.catalog.names import identifier_of, parts_of
from skerry.catalog.paimon_creation import new_paimon_schema
from skerry.catalog.stores import NewTable
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError, UnsupportedError
from skerry.paimon.catalogs.rest_authority import RestAuthority
from skerry.paimon.catalogs.rest_server import PaimonServer, texts
from skerry.paimon.catalogs.rest_tokens import DataTokens
from skerry.paimon.handle import PaimonHandle
from skerry.paimon.metadata.validation import MATERIALIZED
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.types import encode_field
from skerry.storage import Storage, absolute, allowed_locations
from skerry.storage.renewing import RenewedCredentials
from skerry.table.table import TableCatalog

if TYPE_CHECKING:
    from skerry.table.statistics.joinable import TableSketches

__all__ = ["RestPaimonTables"]

_DATA_TOKENS: Final = "data-token.enabled"
_TABLE: Final = "table"
_FORMAT_TABLE: Final = "format-table"
_INGEST: Final = "skerry.spark.ingest takes its rows over"
_WAYS: Final = {"parquet": f"catalog.migrate(name, folder) makes a table of its files, or {_INGEST}"}


class RestPaimonTables:
    """The methods of `skerry.catalog.stores.TableStore` on a server.

    Args:
        properties: Of the catalog; see `PaimonServer`.

    Raises:
        SkerryError: As `PaimonServer`.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._server = PaimonServer(properties)

    def list_namespaces(self) -> list[str]:
        """The databases."""
        return sorted(self._server.pages("databases", "databases"))

    def create_namespace(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a database."""
        if len(parts_of(name)) > 1:
            raise UnsupportedError(f"namespaces of Paimon tables do not nest: {name!r}")
        try:
            self._server.call("POST", "databases", body={"name": name, "options": dict(properties)})
        except AlreadyExistsError:
            raise AlreadyExistsError(f"namespace {name!r} already exists") from None

    def drop_namespace(self, name: str) -> None:
        """Remove a database without tables."""
        if self.list_tables(name):  # the server would drop them with it
            raise SchemaError(f"namespace {name!r} is not empty")
        try:
            self._server.call("DELETE", "databases", name)
        except NotFoundError:
            raise NotFoundError(f"no namespace {name!r}") from None

    def list_tables(self, namespace: str) -> list[str]:
        """Names of the tables in a namespace."""
        try:
            return sorted(f"{namespace}.{name}" for name in self._server.pages("tables", *self._tables(namespace)))
        except NotFoundError:
            return []

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        return len(identifier_of(name)) == 2 and self._find(name) is not None

    def location(self, name: str) -> str:
        """Refused: the server chooses it."""
        raise UnsupportedError("the catalog's server chooses the folder of a table when it is created")

    def create(self, name: str, table: NewTable) -> None:
        """Create a table."""
        database, own = self._split(name)
        schema = new_paimon_schema(table)
        if database not in self.list_namespaces():
            self.create_namespace(database, {})
        body = {
            "identifier": {"database": database, "object": own},
            "schema": {
                "fields": [encode_field(field) for field in schema.fields],
                "partitionKeys": list(schema.partition_keys),
                "primaryKeys": list(schema.primary_keys),
                "options": dict(schema.options) | ({"path": table.location} if table.location else {}),
                "comment": schema.comment,
            },
        }
        try:
            self._server.call("POST", *self._tables(database), body=body)
        except AlreadyExistsError:
            raise AlreadyExistsError(f"table {name!r} already exists") from None

    def load(self, name: str, catalog: TableCatalog | None = None) -> PaimonTable:
        """Load a table.

        Raises:
            NotFoundError: There is no table of that name.
            UnsupportedError: It is of a kind that is not supported.
        """
        found = self._find(name)
        if found is None:
            raise NotFoundError(f"no Paimon table {name!r}")
        database, own = self._split(name)
        schema, path, number = found.get("schema"), found.get("path"), found.get("id")
        if not isinstance(schema, dict) or not isinstance(path, str):
            raise self._server.nonsense("a table has no schema or no path")
        options = texts(schema, "options")
        kind = options.get("type", _TABLE).strip().lower()
        if kind == _FORMAT_TABLE:
            file_format = options.get("file.format", "parquet").strip().lower()
            raise UnsupportedError(
                f"table {name!r} is of type {kind!r}: a folder of {file_format} files without snapshots, {path}; "
                f"{_WAYS.get(file_format, _INGEST)}"
            )
        if kind not in (_TABLE, MATERIALIZED):
            raise UnsupportedError(f"table {name!r} is of type {kind!r}, which is not supported")
        authority = RestAuthority(self._server, database, own, number if isinstance(number, str) else None)
        storage = self._storage(database, own)
        return PaimonTable(PaimonHandle.open(storage, absolute(path), name=name, authority=authority), catalog)

    def rename(self, name: str, to: str) -> None:
        """Rename a table."""
        source, target = self._split(name), self._split(to)
        body = {
            part: {"database": database, "object": own}
            for part, (database, own) in (("source", source), ("destination", target))
        }
        try:
            self._server.call("POST", "tables", "rename", body=body)
        except NotFoundError as error:
            raise NotFoundError(f"no table {name!r}, or no namespace {target[0]!r}: {error.message}") from None
        except AlreadyExistsError:
            raise AlreadyExistsError(f"table {to!r} already exists") from None

    def drop(self, name: str, *, purge: bool) -> None:
        """Have the server drop a table; it deletes the files unless the table is external."""
        if not purge:
            raise SchemaError(
                "the server deletes the files of a dropped table: purge=True drops it with them", location=name
            )
        try:
            self._server.call("DELETE", *self._table(name))
        except NotFoundError:
            raise NotFoundError(f"no Paimon table {name!r}") from None

    def has_remains(self, name: str) -> bool:
        """False: the server cleans up."""
        return False

    def versions(self) -> dict[str, str]:
        """Empty: each table must be read."""
        return {}

    def sketches(self, name: str, known: tuple[str, TableSketches] | None) -> tuple[str, TableSketches]:
        """A table's newest snapshot and fresh sketches."""
        from skerry.paimon.statistics.sketches import table_sketches

        table = self.load(name)
        version = table.version
        return known if known is not None and known[0] == version else (version, table_sketches(table.handle.state))

    # ---- the server ----

    def _find(self, name: str) -> dict[str, Any] | None:
        try:
            return self._server.call("GET", *self._table(name))
        except NotFoundError:
            return None

    def _storage(self, database: str, own: str) -> Storage:
        options = {key: str(value) for key, value in self._server.properties.items()}
        allowed = allowed_locations(options)
        if options.get(_DATA_TOKENS, "false").strip().lower() != "true":
            return Storage(options, allowed)
        tokens = DataTokens(self._server, database, own)
        storage = Storage({**options, **tokens()}, allowed)
        return Storage(storage.options, allowed, RenewedCredentials(storage.options, tokens))

    @staticmethod
    def _tables(database: str) -> tuple[str, ...]:
        return "databases", database, "tables"

    def _table(self, name: str) -> tuple[str, ...]:
        database, own = self._split(name)
        return (*self._tables(database), own)

    @staticmethod
    def _split(name: str) -> tuple[str, str]:
        parts = identifier_of(name)
        if len(parts) > 2:
            raise UnsupportedError(f"namespaces of Paimon tables do not nest: {'.'.join(parts[:-1])!r}")
        return parts[0], parts[1]
