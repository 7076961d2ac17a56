"""The namespaces of a catalog; see `skerry.catalog.Catalog`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from skerry.arguments import check_text, checked_texts
from skerry.catalog.names import check_new_name
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError
from skerry.table.rows.schema import nearest

if TYPE_CHECKING:
    from skerry.catalog.stores import TableStore

__all__ = ["Namespaces"]

_NAMED = 3


class Namespaces:
    """Namespaces, which the tables of both formats share."""

    @property
    @abstractmethod
    def _stores(self) -> Sequence[TableStore]:
        """The tables by format."""

    @abstractmethod
    def list_tables(self, namespace: str | None = None) -> list[str]:
        """Names of tables."""

    @abstractmethod
    def list_views(self, namespace: str | None = None) -> list[str]:
        """Names of views."""

    def list_namespaces(self) -> list[str]:
        """All namespaces, nested ones dotted, in alphabetical order."""
        return sorted({name for store in self._stores for name in store.list_namespaces()})

    def _namespaces(self, namespace: str | None) -> list[str]:
        """The namespace that was asked for, or all of them.

        Raises:
            NotFoundError: There is no such namespace.
        """
        check_text("namespace", namespace)
        known = self.list_namespaces()
        if namespace is None:
            return known
        if namespace not in known:
            raise NotFoundError(f"no namespace {namespace!r}{nearest(namespace, known)}")
        return [namespace]

    def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> None:
        """Create a namespace.

        Args:
            name: Its name; nested ones dotted.
            properties: Its properties, where the catalog keeps them.
            if_not_exists: Whether nothing is done if it exists, instead of an error.

        Raises:
            AlreadyExistsError: It exists.
            SchemaError: The name cannot be used in folders and URLs.
        """
        check_new_name(name, kind="namespace")
        if name in self.list_namespaces():
            if if_not_exists:
                return
            raise AlreadyExistsError(f"namespace {name!r} already exists")
        self._stores[0].create_namespace(name, checked_texts("properties", properties))

    def drop_namespace(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a namespace that holds nothing.

        Args:
            name: Its name; nested ones dotted.
            if_exists: Whether nothing is done if there is none, instead of an error.

        Raises:
            CommitUnknownError: It may or may not have been done.
            NotFoundError: There is no such namespace.
            SchemaError: It holds tables, views, namespaces or, as a folder of Paimon tables, other files.
        """
        check_text("name", name)
        known = self.list_namespaces()
        if name not in known:
            if if_exists:
                return
            raise NotFoundError(f"no namespace {name!r}{nearest(name, known)}")
        below = [other for other in known if other.startswith(f"{name}.")]
        if held := [*self.list_tables(name), *self.list_views(name), *below]:
            more = f" and {len(held) - _NAMED:,} more" if len(held) > _NAMED else ""
            raise SchemaError(f"namespace {name!r} is not empty: it holds {', '.join(held[:_NAMED])}{more}")
        for store in self._stores:
            if name in store.list_namespaces():
                store.drop_namespace(name)
