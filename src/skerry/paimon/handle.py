"""A Paimon table as jobs work on it: its newest known state, its branches and tags, and commits to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import pyarrow as pa

from skerry.paimon.change_request import ChangeRequest
from skerry.paimon.commit import PaimonTarget, retry_policy
from skerry.paimon.metadata.authority import FILES, Authority
from skerry.paimon.metadata.creation import create_table, first_schema
from skerry.paimon.metadata.fallback_branch import fallback_state
from skerry.paimon.metadata.paths import MAIN_BRANCH
from skerry.paimon.metadata.state import CommitFollower, PaimonState, load_state
from skerry.paimon.operations import TableChange
from skerry.paimon.refs import TableRefs
from skerry.storage import Storage
from skerry.storage import name as folder_name
from skerry.table.commit import Operation, commit
from skerry.table.work.tasks import Executor, ProgressCallback, ThreadExecutor

__all__ = ["PaimonHandle"]


class PaimonHandle(TableRefs):
    """One Paimon table in a folder.

    Args:
        state: A state of its main branch.
    """

    # ---- creating and opening ----

    @classmethod
    def create(
        cls,
        storage: Storage,
        location: str,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        primary_key: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Create a table.

        Args:
            storage: Access to its files.
            location: Its folder.
            schema: Its columns.
            partition_by: Names of the partition keys.
            primary_key: Names of the columns that identify a row.
            properties: Its options, by Paimon's names.
            comment: Its description.
            name: Its name, for messages; the folder's if None.

        Raises:
            AlreadyExistsError: The table already exists.
            SchemaError: A column, key or option does not fit.
            UnsupportedError: An option is not supported; the message names it.
        """
        made = first_schema(
            schema, partition_by=partition_by, primary_key=primary_key, properties=properties, comment=comment
        )
        return cls(create_table(storage, location, made, name=name or folder_name(location)))

    @classmethod
    def open(
        cls,
        storage: Storage,
        location: str,
        *,
        name: str | None = None,
        authority: Authority = FILES,
        follower: CommitFollower | None = None,
    ) -> Self:
        """Load a table.

        Args:
            storage: Access to its files.
            location: Its folder.
            name: Its name, for messages; the folder's if None.
            authority: Who decides which snapshot or schema comes next.
            follower: What happens after commits.

        Raises:
            NotFoundError: It does not exist.
        """
        return cls(load_state(storage, location, table=name, authority=authority, follower=follower))

    def commit(self, operation: Operation[PaimonState, TableChange], *, ref: str = MAIN_BRANCH) -> PaimonState:
        """Commit an operation through the one commit loop.

        Raises:
            ConflictError: Other writers won every race, or the operation does not fit what they did.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        """
        state = commit(operation, self._target(ref), retry_policy)
        if ref == MAIN_BRANCH:
            self.state = state
        return state

    def request(
        self,
        ref: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: ProgressCallback | None = None,
    ) -> ChangeRequest:
        """A request for jobs that change rows; pass it to `keep` afterwards to see what they did."""
        return ChangeRequest(
            self._target(ref),
            dict(snapshot_properties or {}),
            bucket_states=self._bucket_states,
            keys=self._keys,
            background=self._background,
            executor=executor or ThreadExecutor(),
            progress=progress,
        )

    def keep(self, request: ChangeRequest) -> PaimonState:
        """Adopt the newest state that a request has seen, so that later work need not read it again."""
        state = request.target.newest or request.target.load()
        if state.branch == MAIN_BRANCH:
            self.state = state
        return state

    def _target(self, ref: str) -> PaimonTarget:
        if ref != MAIN_BRANCH:
            self.check_branch(ref)
        return PaimonTarget(self.state, ref)

    @property
    def version(self) -> str:
        """Identifies the current rows: the state, and that of the branch that it falls back to."""
        fallback = fallback_state(self.state)
        return self.state.version if fallback is None else f"{self.state.version} {fallback.version}"
