"""A catalog in a Hive metastore, shared with Iceberg's HiveCatalog of Spark, Trino and others.

A table is a table of the metastore whose parameters name its metadata file. A commit writes the next metadata file,
takes the lock of the table, and replaces the parameters if they still name the file that the commit builds on.

Spec: Iceberg spec, Metastore Tables.
"""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from skerry.databases.hive_metastore import (
    ACQUIRED,
    EXISTS,
    INVALID,
    MISSING,
    WAITING,
    HiveMetastore,
    MetastoreError,
    UnansweredError,
)
from skerry.databases.thrift_binary import Struct, integer, text, text_in, texts, texts_in
from skerry.errors import (
    AlreadyExistsError,
    CatalogLockedError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SchemaError,
    SkerryError,
    StorageError,
    UnsupportedError,
)
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.hive_tables import (
    METADATA_LOCATION,
    check_against_metastore,
    check_is_table,
    is_iceberg,
    metadata_location,
    new_hive_table,
    renamed,
    updated_hive_table,
)
from skerry.iceberg.catalogs.metadata_files import (
    kept_storage,
    metadata_after,
    new_metadata_location,
    read_metadata,
    write_metadata,
)
from skerry.iceberg.catalogs.records import CatalogTable, Identifier, MetadataWrite, NewIcebergTable
from skerry.iceberg.metadata.metadata_json import decode_metadata, inflate_metadata
from skerry.storage import Storage, join, redact
from skerry.table.owned_files import owned_files
from skerry.table.properties import whole_number
from skerry.table.sending import Sending

if TYPE_CHECKING:
    from skerry.iceberg.metadata.requirements import TableRequirement
    from skerry.iceberg.metadata.table_metadata import TableMetadata
    from skerry.iceberg.metadata.table_updates import TableUpdate

__all__ = ["HiveCatalog"]

_LOCKING: Final = "engine.hive.lock-enabled"
_LOCK_TIMEOUT: Final = "iceberg.hive.lock-timeout-ms"
_LOCK_TIMEOUT_MS: Final = 180_000
_POLL_S: Final = 0.05
_MAX_POLL_S: Final = 5.0
_HOLD_S: Final = 120.0
"""How long after a lock was given a change may be sent: metastores take locks away after five minutes of silence."""
_MODIFIED: Final = "The table has been modified"
"""What the server says if a parameter is not what `expected_parameter_value` says."""
_NOT_COMPARED: Final = "Cannot update parameter with JDO"
"""What the server says if it could compare parameters, and is not configured to."""
_NAMES: Final = 2


class HiveCatalog(IcebergCatalog):
    """A catalog in a Hive metastore.

    Args:
        name: Its name, for messages.
        properties: `uri` (`thrift://host:9083`) and `warehouse`; `ugi`, the user that the metastore is told, as
            PyIceberg takes it; `engine.hive.lock-enabled` and `iceberg.hive.lock-timeout-ms`.

    Raises:
        SchemaError: The address is no such one.
    """

    encrypts = True

    def __init__(self, name: str, properties: Mapping[str, Any]) -> None:
        super().__init__(name, properties)
        self.server = HiveMetastore(str(self.properties.get("uri", "")), self.properties.get("ugi"))
        self._files: Storage | None = None

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """The databases; there are none within another."""
        if parent:
            self.namespace_properties(parent)
            return []
        with _errors():
            return sorted((name,) for name in self.server.database_names())

    def namespace_exists(self, namespace: Identifier) -> bool:
        """Whether there is such a database."""
        try:
            self._database(namespace)
        except NotFoundError:
            return False
        return True

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Create a database."""
        if len(namespace) != 1:
            raise SchemaError(f"namespaces of a Hive metastore have one part, found {'.'.join(namespace)!r}")
        given = dict(properties or {})
        location = given.pop("location", None)
        if location is None and self.properties.get("warehouse"):
            location = join(str(self.properties["warehouse"]).rstrip("/"), f"{namespace[0]}.db")
        database: Struct = {1: text(namespace[0]), 4: texts(given), 6: text(_user()), 7: integer(1)}
        if "comment" in given:
            database[2] = text(given["comment"])
        if location is not None:
            database[3] = text(location)
        with _errors(changes=".".join(namespace)):
            self.server.create_database(database)

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace without tables and views."""
        self._database(namespace)
        with _errors(changes=".".join(namespace)):
            self.server.drop_database(namespace[0])

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """The properties of a namespace, its `location` among them."""
        found = self._database(namespace)
        location = text_in(found, 3)
        return texts_in(found, 4) | ({} if not location else {"location": location})

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """The Iceberg tables of a namespace."""
        self._database(namespace)
        with _errors():
            names = self.server.table_names(namespace[0])
            found = self.server.tables(namespace[0], names) if names else []
        return sorted((*namespace, text_in(table, 1) or "") for table in found if is_iceberg(table))

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is an Iceberg table of that name, even if its metadata cannot be read."""
        try:
            return is_iceberg(self._table(identifier))
        except NotFoundError:
            return False

    def load_table(self, identifier: Identifier, known: CatalogTable | None = None) -> CatalogTable:
        """Load a table's newest state; that of an encrypted one is checked against the metastore."""
        found = self._table(identifier)
        location = metadata_location(found, identifier)
        if known is not None and known.metadata_location == location:
            return known
        return CatalogTable(identifier, self._read(found, location), location)

    def create_table(self, identifier: Identifier, table: NewIcebergTable) -> CatalogTable:
        """Create a table in a namespace that exists."""
        from skerry.iceberg.metadata.creation import new_table_metadata  # not needed for reading

        folder = (table.location or self.default_location(identifier)).rstrip("/")
        if self._is_taken(identifier):
            raise AlreadyExistsError(f"table {'.'.join(identifier)!r} already exists")
        metadata = new_table_metadata(table.schema, table.partition_spec, table.sort_order, folder, table.properties)
        location, storage = new_metadata_location(metadata), self._storage()
        with owned_files(storage) as files:
            files.add(location)
            write_metadata(storage, location, metadata)
            with Sending(files) as sending:
                self._create(identifier, metadata, location, sending)
        return CatalogTable(identifier, metadata, location)

    def check_metadata(self, location: str) -> None:
        """Read a metadata file before the catalog refers to it."""
        read_metadata(self._storage(), location)

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Register an existing table by its metadata file."""
        self._create(identifier, read_metadata(self._storage(), metadata_location), metadata_location)

    def default_location(self, identifier: Identifier) -> str:
        """The folder of a new table: in that of its namespace."""
        folder = self.namespace_properties(identifier[:-1]).get("location") or self.properties.get("warehouse")
        if not folder:
            raise self._without_warehouse()
        return join(str(folder).rstrip("/"), identifier[-1])

    def rename_table(self, identifier: Identifier, to: Identifier) -> None:
        """Rename a table."""
        found = self._table(identifier)
        expected = metadata_location(found, identifier)
        self._database(to[:-1])
        if self._is_taken(to):
            raise AlreadyExistsError(f"table {'.'.join(to)!r} already exists")
        with _errors(changes=".".join(to)), self._locked(identifier, self._is_locking({})) as since:
            newest = self._table(identifier)
            if metadata_location(newest, identifier) != expected:
                raise ConflictError("another writer was first", location=".".join(identifier))
            self.server.alter_table(*_key(identifier), renamed(newest, to), _expecting(expected, since))

    def drop_table(self, identifier: Identifier) -> None:
        """Remove a table from the catalog; its files stay."""
        check_is_table(self._table(identifier), identifier)
        with _errors(changes=".".join(identifier)):
            self.server.drop_table(*_key(identifier))

    def commit_table(
        self,
        table: CatalogTable,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        write: MetadataWrite,
    ) -> CatalogTable:
        """Apply updates to a table's newest state, if it meets the requirements."""
        found = self._table(table.identifier)
        current = metadata_location(found, table.identifier)
        base = table.metadata if current == table.metadata_location else self._read(found, current)
        metadata = metadata_after(base, current, requirements, updates)
        if metadata == base:
            return CatalogTable(table.identifier, base, current, table.config)
        location, storage = new_metadata_location(metadata, current), self._storage()
        updated_hive_table(found, base.properties, metadata, location, current)  # refuses before anything is written
        write.files.add(location)
        write.location, write.predecessor = location, current
        write_metadata(storage, location, metadata)
        with self._locked(table.identifier, self._is_locking(base.properties)) as since:
            newest = self._table(table.identifier)
            if metadata_location(newest, table.identifier) != current:
                raise ConflictError("another writer was first", location=".".join(table.identifier))
            changed = updated_hive_table(newest, base.properties, metadata, location, current)
            if since is not None and time.monotonic() - since > _HOLD_S:
                raise ConflictError("the lock was held for too long", location=".".join(table.identifier))
            self._alter(table.identifier, changed, _expecting(current, since), write)
        return CatalogTable(table.identifier, metadata, location, table.config)

    def _alter(self, identifier: Identifier, changed: Struct, context: dict[str, str], write: MetadataWrite) -> None:
        """Replace a table, if what the server finds is what the context says.

        Raises:
            CommitUnknownError: It may or may not have been done.
            ConflictError: It names another one.
        """
        name = ".".join(identifier)
        write.may_have_effect = True
        try:
            self.server.alter_table(*_key(identifier), changed, context)
        except UnansweredError as error:
            if not error.may_have_effect:
                write.may_have_effect = False
                raise StorageError(error.message, location=name) from None
            raise CommitUnknownError(f"the commit may or may not have happened: {error}", location=name) from None
        except MetastoreError as error:
            if _NOT_COMPARED in error.message:
                write.may_have_effect = False
                raise UnsupportedError(
                    f"the metastore compares no parameters, so that its locks are needed: {_LOCKING}=true",
                    location=name,
                ) from None
            if _MODIFIED not in error.message:
                message = f"the commit may or may not have happened: the metastore says {error.message!r}"
                raise CommitUnknownError(message, location=name) from None
            write.may_have_effect = False
            raise ConflictError("another writer was first", location=name) from None

    def _create(
        self, identifier: Identifier, metadata: TableMetadata, location: str, sending: Sending | None = None
    ) -> None:
        table = new_hive_table(identifier, metadata, location, _user())
        if sending is not None:
            sending()
        with _errors(changes=".".join(identifier)):
            self.server.create_table(table)

    def _database(self, namespace: Identifier) -> Struct:
        if len(namespace) != 1:
            raise NotFoundError(f"no namespace {'.'.join(namespace)!r}")
        with _errors():
            return self.server.database(namespace[0])

    def _table(self, identifier: Identifier) -> Struct:
        if len(identifier) != _NAMES:
            raise NotFoundError(f"no table {'.'.join(identifier)!r}")
        with _errors(f"no table {'.'.join(identifier)!r}"):
            return self.server.table(*_key(identifier))

    def _is_taken(self, identifier: Identifier) -> bool:
        """Whether anything of that name is in the metastore."""
        with suppress(NotFoundError):
            self._table(identifier)
            return True
        return False

    def _read(self, table: Struct, location: str) -> TableMetadata:
        try:
            data = inflate_metadata(self._storage().read(location), location=location)
        except NotFoundError:
            raise NotFoundError("the table's metadata file is missing", location=location) from None
        metadata = decode_metadata(data, location=location)
        check_against_metastore(table, metadata, data, location)
        return metadata

    def _is_locking(self, properties: Mapping[str, str]) -> bool:
        found = properties.get(_LOCKING, self.properties.get(_LOCKING, "true"))
        return str(found).strip().lower() != "false"

    @contextmanager
    def _locked(self, identifier: Identifier, is_locking: bool) -> Iterator[float | None]:
        """Hold the lock of a table; yields since when.

        Raises:
            CatalogLockedError: Another program holds it for too long.
        """
        if not is_locking:
            yield None
            return
        number, since = self._lock(identifier)
        try:
            yield since
        finally:
            with suppress(SkerryError):  # the server takes it away when it has been silent for long
                self.server.unlock(number)

    def _lock(self, identifier: Identifier) -> tuple[int, float]:
        name = ".".join(identifier)
        timeout_s = (whole_number(self.properties, _LOCK_TIMEOUT, _LOCK_TIMEOUT_MS) or 0) / 1000
        until, pause_s = time.monotonic() + timeout_s, _POLL_S
        try:
            since = time.monotonic()
            number, state = self.server.lock(*_key(identifier), _user(), socket.gethostname())
            while state == WAITING and time.monotonic() < until:
                time.sleep(pause_s)
                pause_s = min(pause_s * 1.5, _MAX_POLL_S)
                since = time.monotonic()
                state = self.server.check_lock(number)[1]
        except (MetastoreError, UnansweredError) as error:
            raise StorageError(
                f"the metastore gives no lock ({error.message}); a server that compares parameters (Hive 2.3.10 and 4) "
                f"needs none: {_LOCKING}=false",
                location=name,
            ) from None
        if state == ACQUIRED:
            return number, since
        with suppress(SkerryError):
            self.server.unlock(number)
        raise CatalogLockedError(f"the table is locked by another program for {timeout_s:g} s", location=name)

    def _storage(self) -> Storage:
        """Access to metadata files; connections are kept as long as the options are the same."""
        self._files = kept_storage(self._files, self.properties)
        return self._files

    def close(self) -> None:
        """Close the connection."""
        self.server.close()


def _key(identifier: Identifier) -> tuple[str, str]:
    """Database and name."""
    return identifier[0], identifier[1]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "skerry"


def _expecting(location: str, since: float | None) -> dict[str, str]:
    """What the server has to compare itself, where no lock keeps others away."""
    if since is not None:
        return {}
    return {"expected_parameter_key": METADATA_LOCATION, "expected_parameter_value": location}


@contextmanager
def _errors(missing: str = "", *, changes: str | None = None) -> Iterator[None]:
    """Translate what the metastore says.

    Args:
        missing: What is said of something that is not there.
        changes: What is changed; None if nothing is.
    """
    try:
        yield
    except UnansweredError as error:
        if changes is None or not error.may_have_effect:
            raise StorageError(f"the metastore does not answer: {redact(error.message)}") from None
        raise CommitUnknownError(
            f"the metastore may or may not have applied the change: {error.message}", location=changes
        ) from None
    except MetastoreError as error:
        kind = _KINDS.get(error.kind)
        if kind is not None:
            raise kind(missing or f"the metastore refuses: {error.message}") from None
        if changes is None:
            raise StorageError(f"the metastore failed: {error.message}") from None
        if _MODIFIED in error.message:
            raise ConflictError("another writer was first", location=changes) from None
        raise CommitUnknownError(
            f"the metastore may or may not have applied the change: {error.message}", location=changes
        ) from None


_KINDS: Final[Mapping[str, type[SkerryError]]] = {
    MISSING: NotFoundError,
    EXISTS: AlreadyExistsError,
    INVALID: SchemaError,
    "InvalidObjectException": SchemaError,
}
