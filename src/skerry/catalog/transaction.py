"""`catalog.transaction()`: changes of several tables that become visible together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from skerry.catalog.names import identifier_of
from skerry.errors import UnsupportedError
from skerry.table.table import Table

if TYPE_CHECKING:
    from skerry.catalog.iceberg_tables import IcebergTables
    from skerry.iceberg.transaction import IcebergTransaction

__all__ = ["Transaction", "Transactional"]


class Transaction:
    """The tables of a transaction; made by `Catalog.transaction`.

    Args:
        load: Loads a table whose changes are staged.
    """

    def __init__(self, load: Callable[[str], Table]) -> None:
        self._load = load

    def load_table(self, name: str) -> Table:
        """Load a table. What is changed through it is staged, and visible only through it until the transaction ends.

        Args:
            name: `namespace.table`.

        Raises:
            NotFoundError: There is no table of that name.
            SkerryError: The transaction has ended.
            UnsupportedError: It is a Paimon table.
        """
        return self._load(name)


class Transactional:
    """Transactions of a catalog."""

    _iceberg: IcebergTables | None

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Change several Iceberg tables, and publish all changes as one when the block ends.

        `with catalog.transaction() as tx:` stages what is done to the tables that `tx.load_table` gives: rows,
        branches, schemas and other settings, not upkeep. If the block ends by an exception, nothing is published and
        what was written is deleted. After a conflict with another writer everything is applied to the newest states
        and published again, as often as `commit.retry.num-retries` says.

        A folder, SQLite and PostgreSQL publish in one transaction of the database. A REST server is asked to publish
        all or nothing; that it does is its promise.

        Raises:
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            ConflictError: Other writers were faster each time, or changed rows that the transaction has read; nothing
                was published.
            UnsupportedError: The catalog changes one table at a time.
        """
        return _transaction(self)


@contextmanager
def _transaction(catalog: Any) -> Iterator[Transaction]:
    if catalog._iceberg is None:  # noqa: SLF001  of a base class of this module
        raise UnsupportedError(
            "a folder of Paimon tables cannot publish changes of several tables as one: each is committed by a file of "
            "its own"
        )
    from skerry.iceberg.transaction import iceberg_transaction

    with iceberg_transaction(catalog._iceberg.catalog) as changes:  # noqa: SLF001
        yield Transaction(lambda name: _load(catalog, changes, name))


def _load(catalog: Any, changes: IcebergTransaction, name: str) -> Table:
    identifier = identifier_of(name)
    if catalog._known(name) is not catalog._iceberg:  # noqa: SLF001
        raise UnsupportedError(
            f"table {name!r} is a Paimon table: a transaction changes Iceberg tables only, because a commit to a "
            "Paimon table is a file of that table alone"
        )
    return changes.table(identifier, catalog)
