"""A catalog behind Iceberg's REST protocol: a server keeps names and metadata, and hands out credentials for files.

Spec: Iceberg REST specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    SchemaError,
    SkerryError,
    UnsupportedError,
)
from skerry.iceberg.catalogs import rest_views
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.records import (
    CatalogTable,
    CatalogView,
    Identifier,
    MetadataWrite,
    NewIcebergTable,
    NewView,
    TableCommit,
)
from skerry.iceberg.catalogs.rest_credentials import SIGNING, RemoteSigner, VendedCredentials, vended_options
from skerry.iceberg.catalogs.rest_planning import RestScanServer
from skerry.iceberg.catalogs.rest_server import RestServer, texts
from skerry.iceberg.metadata.json_records import encode_json, json_of
from skerry.iceberg.metadata.metadata_json import parse_metadata
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.storage import Storage
from skerry.storage.options import signs_remotely
from skerry.storage.renewing import RenewedCredentials, expires_at

if TYPE_CHECKING:
    from skerry.iceberg.metadata.requirements import TableRequirement
    from skerry.iceberg.metadata.state import TableState
    from skerry.iceberg.metadata.table_updates import TableUpdate

__all__ = ["RestCatalog"]

_NAMESPACES: Final = "namespaces"
_NAMESPACE: Final = "namespaces/{namespace}"
_TABLES: Final = "namespaces/{namespace}/tables"
_TABLE: Final = "namespaces/{namespace}/tables/{table}"
_REGISTER: Final = "namespaces/{namespace}/register"
_TRANSACTION: Final = "transactions/commit"
_RENAME: Final = "tables/rename"
_TOKEN: Final = "token"  # noqa: S105  the name of an option
_PLANNING: Final = "scan-planning-mode"
_MAX_PAGES: Final = 100_000


class RestCatalog(IcebergCatalog):
    """A catalog behind Iceberg's REST protocol.

    Args:
        name: Its name.
        properties: `uri`, `warehouse` and how to log in, under PyIceberg's names.

    Raises:
        AccessDeniedError: The server refuses.
        FormatError: It does not answer as the specification says.
        SchemaError: A property has no valid value.
        StorageError: It cannot be reached.
        UnsupportedError: A property asks for what is not supported.
    """

    def __init__(self, name: str, properties: Mapping[str, Any]) -> None:
        mode = str(properties.get("snapshot-loading-mode") or "all").lower()
        if mode != "all":  # files of snapshots that are not loaded would look like orphans
            raise UnsupportedError(f"snapshot-loading-mode={mode!r} is not supported: all snapshots are needed")
        self._server = RestServer(properties)
        super().__init__(name, self._server.properties)

    @property
    def writes_metadata(self) -> bool:
        """Whether commits write the new metadata file themselves."""
        return False

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """The namespaces directly below another."""
        query = {"parent": self._server.namespace_text(parent)} if parent else {}
        found: list[Identifier] = []
        for entry in self._pages(_NAMESPACES, "namespaces", query):
            if not isinstance(entry, list) or not entry or not all(isinstance(part, str) for part in entry):
                raise self._server.nonsense("a namespace is not a list of names")
            found.append(tuple(entry))
        return found

    def namespace_exists(self, namespace: Identifier) -> bool:
        """Whether there is such a namespace."""
        return self._exists(_NAMESPACE, self._names(namespace))

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace."""
        body = {"namespace": list(namespace), "properties": dict(properties or {})}
        try:
            self._server.call("POST", _NAMESPACES, body=body)
        except AlreadyExistsError:
            raise AlreadyExistsError(f"namespace {'.'.join(namespace)!r} already exists") from None

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace without tables, views and namespaces."""
        name = ".".join(namespace)
        try:
            self._server.call("DELETE", _NAMESPACE, names=self._names(namespace))
        except NotFoundError:
            raise NotFoundError(f"no namespace {name!r}") from None
        except AlreadyExistsError:  # status 409
            raise SchemaError(f"namespace {name!r} is not empty") from None

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """The properties of a namespace."""
        found = self._server.call("GET", _NAMESPACE, names=self._names(namespace))
        return texts(self._server.object(found, "the namespace"), "properties")

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """The tables of a namespace."""
        return self._identifiers(_TABLES, namespace)

    def _identifiers(self, endpoint: str, namespace: Identifier) -> list[Identifier]:
        """The tables or views of a namespace."""
        found: list[Identifier] = []
        for entry in self._pages(endpoint, "identifiers", {}, self._names(namespace)):
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str):
                raise self._server.nonsense("a table or view has no name")
            found.append((*namespace, name))
        return found

    def _pages(
        self, endpoint: str, key: str, query: Mapping[str, str], names: Mapping[str, str] | None = None
    ) -> Iterator[Any]:
        """The entries of a listing, which comes in pages."""
        size = self.properties.get("rest-page-size")
        page = {**query, **({"pageSize": str(size)} if size is not None else {})}
        seen: set[str] = set()
        while True:
            found = self._server.object(self._server.call("GET", endpoint, names=names, query=page), "a listing")
            entries = found.get(key)
            if not isinstance(entries, list):
                raise self._server.nonsense(f"a listing has no {key}")
            yield from entries
            token = found.get("next-page-token")
            if not token:
                return
            if not isinstance(token, str) or token in seen or len(seen) > _MAX_PAGES:
                raise self._server.nonsense("the pages of a listing do not end")
            seen.add(token)
            page["pageToken"] = token

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is a table of that name, even if its metadata cannot be read."""
        return self._exists(_TABLE, self._names(identifier[:-1], identifier[-1]))

    def _exists(self, endpoint: str, names: Mapping[str, str]) -> bool:
        method = "HEAD" if self._server.offers(f"HEAD /v1/{{prefix}}/{endpoint}") else "GET"
        try:
            self._server.call(method, endpoint, names=names)
        except NotFoundError:
            return False
        return True

    def load_table(self, identifier: Identifier, known: CatalogTable | None = None) -> CatalogTable:
        """Load a table's newest state."""
        try:
            found = self._server.call("GET", _TABLE, names=self._names(identifier[:-1], identifier[-1]))
        except NotFoundError:
            raise NotFoundError(f"no table {'.'.join(identifier)!r}") from None
        return self._table(identifier, found)

    def create_table(self, identifier: Identifier, table: NewIcebergTable) -> CatalogTable:
        """Create a table in a namespace that exists."""
        body = {
            "name": identifier[-1],
            "location": table.location.rstrip("/") if table.location else None,
            "schema": json_of(table.schema),
            "partition-spec": json_of(table.partition_spec),
            "write-order": json_of(table.sort_order),
            "stage-create": False,
            "properties": dict(table.properties),
        }
        sent = {key: value for key, value in body.items() if value is not None}
        name = ".".join(identifier)
        found = self._create(identifier, _TABLES, sent)
        try:
            return self._table(identifier, found)
        except SkerryError as error:
            raise CommitUnknownError(f"table {name!r} was created, but: {error}", location=name) from error

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Register an existing table by its metadata file."""
        body = {"name": identifier[-1], "metadata-location": metadata_location, "overwrite": False}
        self._create(identifier, _REGISTER, body)

    def _create(self, identifier: Identifier, endpoint: str, body: Any) -> Any:
        try:
            return self._server.call("POST", endpoint, names=self._names(identifier[:-1]), body=body)
        except AlreadyExistsError:
            raise AlreadyExistsError(f"table {'.'.join(identifier)!r} already exists") from None

    def rename_table(self, identifier: Identifier, to: Identifier) -> None:
        """Rename a table."""
        body = {"source": _identifier(identifier), "destination": _identifier(to)}
        try:
            self._server.call("POST", _RENAME, body=body)
        except AlreadyExistsError:
            raise AlreadyExistsError(f"table {'.'.join(to)!r} already exists") from None
        except NotFoundError as error:
            raise NotFoundError(f"no table {'.'.join(identifier)!r}, or {error.message}") from None

    def drop_table(self, identifier: Identifier, *, purge: bool = False) -> None:
        """Remove a table from the catalog.

        Args:
            identifier: The table.
            purge: Whether the server is to delete its files too.
        """
        names = self._names(identifier[:-1], identifier[-1])
        try:
            self._server.call("DELETE", _TABLE, names=names, query={"purgeRequested": str(purge).lower()})
        except NotFoundError:
            raise NotFoundError(f"no table {'.'.join(identifier)!r}") from None

    def commit_table(
        self,
        table: CatalogTable,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        write: MetadataWrite,
    ) -> CatalogTable:
        """Apply updates to a table's newest state, if it meets the requirements."""
        name = ".".join(table.identifier)
        names = self._names(table.identifier[:-1], table.identifier[-1])
        body = _change(table, requirements, updates)
        found = self._commit(_TABLE, body, [write], name, names=names, token=table.config.get(_TOKEN))
        try:
            metadata, location = self._state(found)
        except SkerryError as error:
            raise CommitUnknownError(f"the commit was accepted, but: {error}", location=name) from error
        return CatalogTable(table.identifier, metadata, location, table.config)

    def check_transactions(self) -> None:
        """Refuse commits of several tables if the server does not offer them."""
        if not self._server.offers(f"POST /v1/{{prefix}}/{_TRANSACTION}"):
            raise UnsupportedError(
                f"the server of catalog {self.name!r} does not offer to change several tables as one "
                f"(POST /v1/{{prefix}}/{_TRANSACTION})"
            )

    def commit_tables(self, commits: Sequence[TableCommit]) -> list[CatalogTable]:
        """Apply updates to several tables in one request; that it is all or none is the server's promise."""
        name = ", ".join(".".join(commit.table.identifier) for commit in commits)
        changes = [_change(commit.table, commit.requirements, commit.updates) for commit in commits]
        self._commit(_TRANSACTION, {"table-changes": changes}, [commit.write for commit in commits], name)
        try:
            return [self.load_table(commit.table.identifier) for commit in commits]
        except SkerryError as error:
            raise CommitUnknownError(f"the commit was accepted, but: {error}", location=name) from error

    def _commit(
        self,
        endpoint: str,
        body: Any,
        writes: Sequence[MetadataWrite],
        name: str,
        *,
        names: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Any:
        """Send a commit, and note whether it may have had an effect."""
        for write in writes:
            write.may_have_effect = True
        try:
            return self._server.call("POST", endpoint, names=names, body=body, token=token)
        except CommitUnknownError:
            raise
        except SkerryError as error:
            for write in writes:
                write.may_have_effect = False
            if isinstance(error, AlreadyExistsError):  # status 409: a requirement is not met
                raise ConflictError(error.message, location=name) from error
            error.location = error.location or name
            raise

    # ---- views ----

    def list_views(self, namespace: Identifier) -> list[Identifier]:
        """The views of a namespace; none of a server without views."""
        return self._identifiers(rest_views.VIEWS, namespace) if rest_views.offers_views(self._server) else []

    def load_view(self, identifier: Identifier) -> CatalogView:
        """Load a view's newest state."""
        return rest_views.load_view(self._server, identifier, self._view_names(identifier))

    def create_view(self, identifier: Identifier, new: NewView) -> CatalogView:
        """Create a view in a namespace that exists."""
        return rest_views.create_view(self._server, identifier, self._names(identifier[:-1]), new)

    def replace_view(self, view: CatalogView, new: NewView) -> CatalogView:
        """Give a view another definition."""
        return rest_views.replace_view(self._server, view, self._view_names(view.identifier), new)

    def rename_view(self, identifier: Identifier, to: Identifier) -> None:
        """Rename a view."""
        rest_views.rename_view(self._server, identifier, to)

    def drop_view(self, identifier: Identifier) -> None:
        """Remove a view from the catalog."""
        try:
            self._server.call("DELETE", rest_views.VIEW, names=self._view_names(identifier))
        except NotFoundError:
            raise NotFoundError(f"no view {'.'.join(identifier)!r}") from None

    def _view_names(self, identifier: Identifier) -> dict[str, str]:
        return {**self._names(identifier[:-1]), "view": quote(identifier[-1], safe="")}

    def _table(self, identifier: Identifier, found: Any) -> CatalogTable:
        """The table of an answer, with the credentials that it has for its files."""
        metadata, location = self._state(found)
        config = vended_options(found, metadata.location, location)
        if isinstance(signing := found.get("remote-signing-config"), dict):
            config[SIGNING] = encode_json(signing).decode()
        return CatalogTable(identifier, metadata, location, config)

    def storage_of(self, table: CatalogTable) -> Storage:
        """Access to a table's files; credentials that say when they expire are renewed before.

        Without any, this server signs requests to S3 if the configuration says so (`s3.remote-signing-enabled`).
        """
        storage = super().storage_of(table)
        if signs_remotely(storage.options):
            return Storage(storage.options, requests=RemoteSigner(self._server, table.identifier, table.config))
        if expires_at(table.config) is None:
            return storage
        locations = (table.metadata.location, table.metadata_location)
        source = VendedCredentials(self._server, table.identifier, locations, table.config.get(_TOKEN))
        return Storage(storage.options, renewed=RenewedCredentials(storage.options, source))

    def scan_server(self, identifier: Identifier, state: TableState) -> RestScanServer | None:
        """This server, if the table's configuration or the catalog's has it plan scans (`scan-planning-mode`).

        Raises:
            SchemaError: The property of how long to wait for a plan is not a positive number.
            UnsupportedError: The mode is unknown.
        """
        mode = state.config.get(_PLANNING) or self.properties.get(_PLANNING) or "client"
        match str(mode).strip().lower():
            case "client":
                return None
            case "server":
                locations = (state.metadata.location, state.metadata_location)
                return RestScanServer(self._server, identifier, locations, state.config.get(_TOKEN))
            case unknown:
                raise UnsupportedError(f"{_PLANNING}={unknown[:40]!r} is not supported, only client and server are")

    def _state(self, found: Any) -> tuple[TableMetadata, str]:
        answer = self._server.object(found, "a table")
        location = answer.get("metadata-location")
        if not isinstance(location, str):
            raise self._server.nonsense("a table has no metadata-location")
        try:
            return parse_metadata(answer.get("metadata"), "metadata"), location
        except (FormatError, UnsupportedError) as error:
            error.location = location
            raise

    def _names(self, namespace: Identifier, table: str | None = None) -> dict[str, str]:
        found = {"namespace": self._server.namespace_path(namespace)}
        return found if table is None else {**found, "table": quote(table, safe="")}

    def close(self) -> None:
        """Close idle connections."""
        self._server.close()


def _identifier(identifier: Identifier) -> dict[str, Any]:
    return {"namespace": list(identifier[:-1]), "name": identifier[-1]}


def _change(
    table: CatalogTable, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
) -> dict[str, Any]:
    """The change of a table in a request."""
    return {
        "identifier": _identifier(table.identifier),
        "requirements": json_of(tuple(requirements)),
        "updates": json_of(tuple(updates)),
    }
