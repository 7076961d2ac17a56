"""Iceberg metadata that follows the commits of Paimon tables, for tables whose options ask for it.

Paimon tables know nothing of Iceberg: the catalog, which knows both, gives them this to call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.paimon.metadata.iceberg_storage import IcebergStorage

if TYPE_CHECKING:
    from skerry.paimon.metadata.state import PaimonState

__all__ = ["IcebergFollower"]


class IcebergFollower:
    """A `skerry.paimon.metadata.state.CommitFollower`; the code for it is loaded when a table needs it."""

    def check(self, state: PaimonState) -> None:
        """Refuse a table that Iceberg readers could not read."""
        storage = IcebergStorage.of(state.schema.options, state.location)
        if storage is not None:
            from skerry.migration.iceberg_mirror import check_mirrored

            check_mirrored(state, storage)

    def follow(self, state: PaimonState, *, moved: bool = False) -> None:
        """Write Iceberg metadata for a new state."""
        storage = IcebergStorage.of(state.schema.options, state.location)
        if storage is not None:
            from skerry.migration.iceberg_mirror import mirror

            mirror(state, storage, moved=moved)
