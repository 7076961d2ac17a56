"""What a catalog of Iceberg tables can do, whatever keeps it: a database, a REST server, another library.

Errors are those of `skerry.errors`, by what they say about a change: `CommitUnknownError` if it may have happened, any
other error if it has not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from skerry.errors import NotFoundError, SchemaError, UnsupportedError
from skerry.storage import Storage, redact

if TYPE_CHECKING:
    from skerry.iceberg.catalogs.records import (
        CatalogTable,
        CatalogView,
        Identifier,
        MetadataWrite,
        NewIcebergTable,
        NewView,
        TableCommit,
    )
    from skerry.iceberg.encryption.table_keys import KeyRing
    from skerry.iceberg.metadata.requirements import TableRequirement
    from skerry.iceberg.metadata.state import TableState
    from skerry.iceberg.metadata.table_updates import TableUpdate
    from skerry.iceberg.planning.scan_server import ScanServer

__all__ = ["IcebergCatalog"]


class IcebergCatalog(ABC):
    """A catalog of Iceberg tables.

    Args:
        name: Its name; catalogs that share a database are told apart by it.
        properties: What it was opened with, and what its server added; may hold credentials.
    """

    encrypts: ClassVar[bool] = False
    """Whether Iceberg Java encrypts what it writes to encrypted tables of such a catalog."""

    def __init__(self, name: str, properties: Mapping[str, Any]) -> None:
        self.name = name
        self.properties: dict[str, Any] = dict(properties)
        self.key_ring: KeyRing | None = None
        """What decrypts the keys of encrypted tables; None if nobody does."""

    def why_not_encrypted(self) -> str | None:
        """Why encrypted tables are not written, and only read; None if they are."""
        if not self.encrypts:
            return (
                f"encrypted tables are only read in this kind of catalog ({type(self).__name__}), since other engines "
                "do not encrypt what they write to them there; those of a Hive metastore are written, see "
                "docs/encryption.md"
            )
        if self.key_ring is None:
            return "writing to an encrypted table needs a key management, connect(…, key_management=…)"
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, uri={redact(str(self.properties.get('uri', '')))!r})"

    @property
    def writes_metadata(self) -> bool:
        """Whether commits write the new metadata file themselves, as opposed to a server that does."""
        return True

    @property
    def keeps_warehouse(self) -> bool:
        """Whether the property `warehouse` is the folder that new tables are created in."""
        return False

    @property
    def is_private(self) -> bool:
        """Whether no other connection can open the same catalog."""
        return False

    @abstractmethod
    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """The namespaces directly below another; those at the top if there is no parent.

        Raises:
            NotFoundError: There is no such parent.
        """

    def all_namespaces(self) -> list[Identifier]:
        """All namespaces, at every depth."""
        found: dict[Identifier, None] = {}
        pending: list[Identifier] = [()]
        while pending:
            parent = pending.pop()
            below: list[Identifier] = []
            with suppress(NotFoundError):  # dropped in the meantime
                below = self.list_namespaces(parent)
            for namespace in below:
                if namespace not in found and len(namespace) > len(parent) and namespace[: len(parent)] == parent:
                    found[namespace] = None
                    pending.append(namespace)
        return sorted(found)

    @abstractmethod
    def namespace_exists(self, namespace: Identifier) -> bool:
        """Whether there is such a namespace."""

    @abstractmethod
    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace.

        Raises:
            AlreadyExistsError: It exists.
            CommitUnknownError: It may or may not have been done.
        """

    @abstractmethod
    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace without tables, views and namespaces.

        Raises:
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such namespace.
            SchemaError: It is not empty.
        """

    @abstractmethod
    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """The properties of a namespace.

        Raises:
            NotFoundError: There is no such namespace.
        """

    @abstractmethod
    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """The tables of a namespace.

        Raises:
            NotFoundError: There is no such namespace.
        """

    def metadata_locations(self) -> dict[Identifier, str]:
        """The metadata files of all tables; empty if the catalog cannot list them all at once."""
        return {}

    @abstractmethod
    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is a table of that name, even if its metadata cannot be read."""

    @abstractmethod
    def load_table(self, identifier: Identifier, known: CatalogTable | None = None) -> CatalogTable:
        """Load a table's newest state.

        Args:
            identifier: Namespace parts and table name.
            known: What was loaded or committed before. Where the catalog still names the same metadata file, which
                never changes, that is not read again.

        Raises:
            FormatError: Its metadata file is corrupt.
            NotFoundError: There is no table of that name (error without location), or its metadata file is missing
                (with location).
        """

    @abstractmethod
    def create_table(self, identifier: Identifier, table: NewIcebergTable) -> CatalogTable:
        """Create a table in a namespace that exists.

        Raises:
            AlreadyExistsError: There is a table or view of that name.
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such namespace.
        """

    def check_metadata(self, location: str) -> None:  # noqa: B027  a server has nothing to do here
        """Read a metadata file before the catalog refers to it; a server does so itself.

        Raises:
            FormatError: The file is not table metadata.
            NotFoundError: It is missing.
            UnsupportedError: Its format version is not supported.
        """

    @abstractmethod
    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Register an existing table by its metadata file, which was checked, in a namespace that exists.

        Raises:
            AlreadyExistsError: There is a table or view of that name.
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such namespace.
        """

    @property
    def can_replace_metadata(self) -> bool:
        """Whether `replace_metadata` is supported."""
        return False

    def replace_metadata(self, identifier: Identifier, old: str, new: str) -> None:
        """Make a table be what another metadata file says, which was checked, if it still is what one said.

        Args:
            identifier: The table.
            old: The metadata file that the catalog must name.
            new: The metadata file that it names afterwards.

        Raises:
            CatalogLockedError: Another process has locked the catalog; nothing was changed.
            CommitUnknownError: It may or may not have been done.
            ConflictError: The catalog names another metadata file.
            UnsupportedError: The catalog writes its metadata files itself.
        """
        raise UnsupportedError(
            f"catalog {self.name!r} cannot exchange the metadata file of a table in one step: a folder, SQLite or "
            "PostgreSQL can. Register the new file under another name, or drop the table (without purge) before"
        )

    def default_location(self, identifier: Identifier) -> str:
        """The folder that a new table of that name gets.

        Raises:
            NotFoundError: There is no such namespace.
            UnsupportedError: The catalog chooses it when the table is created.
        """
        raise UnsupportedError(f"catalog {self.name!r} chooses the folders of its tables: give the location")

    @staticmethod
    def _without_warehouse() -> SchemaError:
        return SchemaError(
            "the catalog has no warehouse, and the namespace no location: create the table with location="
        )

    @abstractmethod
    def rename_table(self, identifier: Identifier, to: Identifier) -> None:
        """Rename a table.

        Raises:
            AlreadyExistsError: The new name is taken.
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such table, or no such namespace to move to.
        """

    @abstractmethod
    def drop_table(self, identifier: Identifier) -> None:
        """Remove a table from the catalog; its files stay.

        Raises:
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such table.
        """

    @abstractmethod
    def commit_table(
        self,
        table: CatalogTable,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        write: MetadataWrite,
    ) -> CatalogTable:
        """Apply updates to a table's newest state, if it meets the requirements.

        Args:
            table: The state that the updates were decided on.
            requirements: What the newest state must meet.
            updates: What changes.
            write: Receives how far the commit has come, also if it ends with an exception.

        Returns:
            The new state.

        Raises:
            CatalogLockedError: Another process has locked the catalog; nothing was changed.
            CommitUnknownError: It may or may not have been done.
            ConflictError: The newest state does not meet the requirements, or another writer was faster.
            NotFoundError: There is no such table.
        """

    def check_transactions(self) -> None:
        """Refuse commits of several tables if the catalog cannot publish them as one.

        Raises:
            UnsupportedError: It cannot.
        """
        raise self._one_at_a_time()

    def commit_tables(self, commits: Sequence[TableCommit]) -> list[CatalogTable]:
        """Apply updates to several tables, to all or to none.

        Args:
            commits: The changes, one per table.

        Returns:
            The new states, in the same order.

        Raises:
            CatalogLockedError: Another process has locked the catalog; nothing was changed.
            CommitUnknownError: It may or may not have been done.
            ConflictError: The newest state of a table does not meet the requirements; nothing was changed.
            NotFoundError: There is no such table; nothing was changed.
            UnsupportedError: The catalog changes one table at a time.
        """
        raise self._one_at_a_time()

    def _one_at_a_time(self) -> UnsupportedError:
        return UnsupportedError(
            f"catalog {self.name!r} changes one table at a time and cannot publish changes of several as one: a "
            "folder, SQLite, PostgreSQL, or a REST server that offers transactions can"
        )

    # ---- views; a catalog that has none refuses to change them ----

    def list_views(self, namespace: Identifier) -> list[Identifier]:
        """The views of a namespace.

        Raises:
            NotFoundError: There is no such namespace.
        """
        return []

    def load_view(self, identifier: Identifier) -> CatalogView:
        """Load a view's newest state.

        Raises:
            FormatError: Its metadata is corrupt.
            NotFoundError: There is no view of that name.
        """
        raise NotFoundError(f"no view {'.'.join(identifier)!r}")

    def create_view(self, identifier: Identifier, new: NewView) -> CatalogView:
        """Create a view in a namespace that exists.

        Raises:
            AlreadyExistsError: There is a table or view of that name.
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such namespace.
            UnsupportedError: The catalog has no views.
        """
        raise self._without_views()

    def replace_view(self, view: CatalogView, new: NewView) -> CatalogView:
        """Give a view another definition; older ones are kept as versions.

        Args:
            view: The state that the definition replaces.
            new: The definition.

        Raises:
            CommitUnknownError: It may or may not have been done.
            ConflictError: Another process has changed the view.
            NotFoundError: There is no such view.
        """
        raise self._without_views()

    def rename_view(self, identifier: Identifier, to: Identifier) -> None:
        """Rename a view.

        Raises:
            AlreadyExistsError: The new name is taken.
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such view, or no such namespace to move to.
        """
        raise self._without_views()

    def drop_view(self, identifier: Identifier) -> None:
        """Remove a view from the catalog; its files stay.

        Raises:
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such view.
        """
        raise self._without_views()

    def _without_views(self) -> UnsupportedError:
        return UnsupportedError(f"views are not supported in this kind of catalog ({type(self).__name__})")

    def storage_of(self, table: CatalogTable) -> Storage:
        """Access to a table's files, with the options of the catalog and what it gave for the table.

        The table's own properties are no options: a writer of the table could redirect a reader's requests.
        """
        return Storage({**self.properties, **table.config})

    def scan_server(self, identifier: Identifier, state: TableState) -> ScanServer | None:
        """The server that wants to plan the scans of a table; None if clients do.

        Raises:
            UnsupportedError: The catalog asks for something else.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
