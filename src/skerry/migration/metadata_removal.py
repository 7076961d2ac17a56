"""Removal of a Paimon table's metadata, so that its files can belong to another table."""

from __future__ import annotations

from contextlib import suppress

from skerry.errors import AlreadyExistsError, ConflictError
from skerry.paimon.metadata.schemas import schema_ids
from skerry.paimon.metadata.snapshots import snapshot_ids
from skerry.paimon.metadata.state import PaimonState

__all__ = ["MetadataRemoval"]


class MetadataRemoval:
    """Removes a table's metadata in two steps: first its schemas, which makes it disappear, then its snapshots.

    Data files, manifests and everything else stay where they are.

    Args:
        state: The state of the table whose files were handed over.
    """

    def __init__(self, state: PaimonState) -> None:
        self._state = state
        self._schemas: dict[str, bytes] = {}

    def check(self) -> None:
        """Refuse to continue if the table has changed.

        Raises:
            ConflictError: Another writer has committed.
            NotFoundError: The table is gone.
        """
        state = self._state
        now = state.newest()
        before, after = ((one.schema.id, one.snapshot.id if one.snapshot is not None else 0) for one in (state, now))
        if before != after:
            raise ConflictError(
                f"another writer committed snapshot {after[1]} with schema {after[0]} in the meantime; stop all "
                "writers and try again",
                location=state.name,
            )

    def hide(self) -> None:
        """Remove the schemas, so that readers and writers no longer find the table.

        Raises:
            ConflictError: Another writer was faster; the table is unchanged.
        """
        storage, paths = self._state.storage, self._state.paths
        self.check()
        locations = [paths.schema(number) for number in schema_ids(storage, paths)]
        self._schemas = {location: storage.read(location) for location in locations}
        storage.delete(locations)
        try:
            self._check_snapshots()
        except ConflictError:
            self.restore()
            raise

    def restore(self) -> None:
        """Restore the removed schemas."""
        for location, data in sorted(self._schemas.items(), reverse=True):
            with suppress(AlreadyExistsError):
                self._state.storage.write(location, data)
        self._schemas = {}

    def finish(self) -> None:
        """Delete the snapshots.

        Raises:
            ConflictError: A writer that had loaded the table before has committed another snapshot, which stays.
        """
        self._check_snapshots()
        storage, paths = self._state.storage, self._state.paths
        storage.delete([file.location for file in storage.list_folder(paths.snapshots).files])

    def _check_snapshots(self) -> None:
        known = self._state.snapshot.id if self._state.snapshot is not None else 0
        newer = [number for number in snapshot_ids(self._state.storage, self._state.paths) if number > known]
        if newer:
            raise ConflictError(
                f"a writer committed snapshot {newer[0]} while the table was migrated: its rows are in "
                f"{self._state.paths.snapshot(newer[0])} and not in the new table",
                location=self._state.name,
                retryable=False,
            )
