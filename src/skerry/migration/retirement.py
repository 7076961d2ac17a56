"""Taking a table's metadata away, so that its files can be another table's."""

from __future__ import annotations

from contextlib import suppress

from skerry.errors import AlreadyExistsError, ConflictError
from skerry.paimon.metadata.schemas import schema_ids
from skerry.paimon.metadata.snapshots import snapshot_ids
from skerry.paimon.metadata.state import PaimonState, load_state

__all__ = ["Retirement"]


class Retirement:
    """Ends a table, in two steps: first it is no table any more, then its snapshots go.

    Data files, manifests and everything else stay where they are.

    Args:
        state: The table as it was when its files were given away.
    """

    def __init__(self, state: PaimonState) -> None:
        self._state = state
        self._schemas: dict[str, bytes] = {}

    def check(self) -> None:
        """Refuse to go on if the table is not what it was.

        Raises:
            ConflictError: Another writer has committed.
            NotFoundError: The table is gone.
        """
        state = self._state
        now = load_state(state.storage, state.location, table=state.name)
        before, after = ((one.schema.id, one.snapshot.id if one.snapshot is not None else 0) for one in (state, now))
        if before != after:
            raise ConflictError(
                f"another writer has committed snapshot {after[1]} with schema {after[0]} meanwhile; stop all writers, "
                "and try again",
                location=state.name,
            )

    def hide(self) -> None:
        """Take the schemas away: nobody finds the table any more.

        Raises:
            ConflictError: A writer was faster; the table is what it was.
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
        """Put the schemas back that are gone."""
        for location, data in sorted(self._schemas.items(), reverse=True):
            with suppress(AlreadyExistsError):
                self._state.storage.write(location, data)
        self._schemas = {}

    def finish(self) -> None:
        """Delete the snapshots.

        Raises:
            ConflictError: A writer that knew the table from before has committed one more, which stays.
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
