"""One published state of a Paimon table: its newest schema and snapshot, and their origin."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from skerry.paimon.metadata.authority import FILES, Authority
from skerry.paimon.metadata.options import CoreOptions
from skerry.paimon.metadata.paths import MAIN_BRANCH, TablePaths
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.schemas import latest_schema, read_schema
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.storage import Storage, name
from skerry.table.indexes.definitions import INDEX_PREFIX

__all__ = ["CommitFollower", "PaimonState", "load_state"]


class CommitFollower(Protocol):
    """What a catalog does after every commit to `main`: writes metadata of another format. It is picklable."""

    def check(self, state: PaimonState) -> None:
        """Refuse a table that it cannot follow; raises `SchemaError` or `UnsupportedError`."""
        ...

    def follow(self, state: PaimonState, *, moved: bool = False) -> None:
        """Do it for a new state.

        Args:
            state: The state.
            moved: Whether it may be an older one than before.
        """
        ...


@dataclass(frozen=True)
class PaimonState:
    """A branch of a table as it was loaded, immutable.

    Args:
        name: The table's name, for messages.
        location: The table's folder.
        storage: Access to the table's files.
        schema: The newest schema, which may be newer than the snapshot.
        snapshot: The newest snapshot; None before the first commit.
        branch: The branch.
        authority: Who decides which snapshot or schema comes next.
        follower: What happens after commits; None if nothing does.
    """

    name: str
    location: str
    storage: Storage = field(repr=False)
    schema: TableSchema
    snapshot: Snapshot | None
    branch: str = MAIN_BRANCH
    authority: Authority = field(default=FILES, repr=False, compare=False)
    follower: CommitFollower | None = field(default=None, repr=False, compare=False)

    @cached_property
    def options(self) -> CoreOptions:
        """The table's options, typed."""
        return CoreOptions(self.schema.options)

    @cached_property
    def remembered(self) -> dict[Hashable, Any]:
        """What layers above know of this state, and would find out again: it never changes."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "remembered"}

    @property
    def properties(self) -> dict[str, str]:
        """The table's options as texts."""
        return dict(self.schema.options)

    @property
    def is_indexed(self) -> bool:
        """Whether options ask for indexes that files can have: a position must be a row, not a part of one."""
        return not self.options.data_evolution and any(name.startswith(INDEX_PREFIX) for name in self.schema.options)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The newest schema as Arrow, with field ids."""
        return self.schema.arrow_schema

    @cached_property
    def paths(self) -> TablePaths:
        """The locations of the table's files."""
        return self.options.paths(self.location, self.branch)

    @property
    def version(self) -> str:
        """Distinguishes the state from others of the branch, whose snapshots can have had the same number."""
        snapshot = self.snapshot
        of_snapshot = f"{snapshot.id} {snapshot.commit_user} {snapshot.time_millis}" if snapshot is not None else ""
        return f"{self.schema.id} {of_snapshot}"

    def schema_by_id(self, schema_id: int) -> TableSchema:
        """A schema of the branch; schema files never change, so each is read once.

        Raises:
            NotFoundError: It does not exist.
            FormatError: The file is corrupt.
        """
        found = self._schemas.get(schema_id)
        if found is None:
            found = self._schemas[schema_id] = read_schema(self.storage, self.paths, schema_id)
        return found

    @cached_property
    def _schemas(self) -> dict[int, TableSchema]:
        return {self.schema.id: self.schema}

    def newest(self, branch: str | None = None) -> PaimonState:
        """The newest state of a branch, of this one if None.

        Raises:
            NotFoundError: The table or branch does not exist.
            FormatError: The schema or snapshot file is corrupt.
        """
        return load_state(
            self.storage,
            self.location,
            branch=self.branch if branch is None else branch,
            table=self.name,
            authority=self.authority,
            follower=self.follower,
        )

    def for_reading(self) -> PaimonState:
        """The same state without the catalog's authority, whose login tasks that only read need not have."""
        if self.authority is FILES:
            return self
        state = replace(self, authority=FILES)
        state._schemas.update(self._schemas)  # noqa: SLF001  of the same class
        return state

    def at(self, snapshot: Snapshot) -> PaimonState:
        """The state at a snapshot of this branch: with the schema that was the newest then."""
        state = replace(self, snapshot=snapshot, schema=self.schema_by_id(snapshot.schema_id))
        state._schemas.update(self._schemas)  # noqa: SLF001  of the same class
        return state


def load_state(
    storage: Storage,
    location: str,
    *,
    branch: str = MAIN_BRANCH,
    table: str | None = None,
    authority: Authority = FILES,
    follower: CommitFollower | None = None,
) -> PaimonState:
    """Load the newest state of a branch.

    Args:
        storage: Access to the table's files.
        location: The table's folder.
        branch: The branch.
        table: The table's name; that of its folder if None.
        authority: Who decides which snapshot or schema comes next.
        follower: What happens after commits.

    Raises:
        NotFoundError: The table or branch does not exist.
        FormatError: The schema or snapshot file is corrupt.
        UnsupportedError: Their version is unknown.
    """
    paths = TablePaths(location, branch)
    schema = latest_schema(storage, paths)
    newest = authority.latest_snapshot(storage, paths)
    return PaimonState(table or name(location), location, storage, schema, newest, branch, authority, follower)
