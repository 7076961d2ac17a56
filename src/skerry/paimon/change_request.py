"""Changes of a table: they are made on the newest state, repeated after conflicts, and committed with their files.

A conflict that the commit loop cannot resolve means that the work was done for an outdated state: rows have moved
to other buckets, or files that were rewritten no longer exist. Then everything is repeated on the new state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from skerry.errors import ConflictError
from skerry.paimon.commit import PaimonTarget, retry_policy
from skerry.paimon.indexing import commit_indexed
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import CommitId, TableChange
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.cross_partition import CrossPartitionKeys
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.table.owned_files import owned_files
from skerry.table.work.background import BackgroundWork
from skerry.table.work.tasks import Executor, ProgressCallback, ThreadExecutor

__all__ = ["ChangeRequest", "commit_files", "redo_after_conflicts"]

Result = TypeVar("Result")


class _FileOperation(Protocol):
    """An operation that publishes files written for it."""

    files: tuple[WrittenDataFile, ...]
    superseded: list[WrittenDataFile]
    was_done: bool

    def apply(self, base: PaimonState) -> TableChange | None: ...


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """Where and how rows are changed.

    Args:
        target: The branch.
        properties: The snapshot's properties.
        commit_id: Who commits what; a commit that already exists is not repeated.
        watermark: Event time that the rows have reached.
        bucket_states: The last known buckets by branch; kept by writers that write to a table repeatedly.
        keys: The last known places of all keys by branch, where keys move between partitions.
        background: Where compaction goes on while its writer does, if the table allows it.
        executor: Where files are read and written.
        progress: Called with the progress.
    """

    target: PaimonTarget
    properties: Mapping[str, str] = field(default_factory=dict)
    commit_id: CommitId | None = None
    watermark: int | None = None
    bucket_states: dict[str, BucketStates] = field(default_factory=dict)
    keys: dict[str, CrossPartitionKeys] = field(default_factory=dict)
    background: BackgroundWork = field(default_factory=BackgroundWork)
    executor: Executor = field(default_factory=ThreadExecutor)
    progress: ProgressCallback | None = None

    def apart(self, state: PaimonState) -> ChangeRequest:
        """A request for work beside the one that this is for, sharing nothing that changes.

        Args:
            state: A state of the branch.
        """
        return ChangeRequest(PaimonTarget(state, state.branch), self.properties)


def redo_after_conflicts(request: ChangeRequest, attempt: Callable[[PaimonState], Result]) -> Result:
    """Do work on the newest state, and repeat it when others have changed what it relied on.

    Raises:
        ConflictError: They did so on every attempt.
    """
    state = request.target.load()
    for wait in retry_policy(state).waits_s():
        try:
            return attempt(state)
        except ConflictError as error:
            if error.retryable:
                raise
        time.sleep(wait)
        state = request.target.load()
    return attempt(state)


def commit_files(request: ChangeRequest, operation: _FileOperation, indexes: Iterable[str] = ()) -> PaimonState:
    """Commit an operation, and remove the files that nothing refers to afterwards.

    Args:
        request: Where to.
        operation: The operation; its files are owned here.
        indexes: Index files written for it.

    Raises:
        ConflictError: Other writers won every race, or the operation conflicts with what they did.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    with owned_files(request.target.storage) as files:
        files.add(*indexes)
        files.add_found(lambda: _locations((*operation.files, *operation.superseded)))
        state = commit_indexed(operation, request.target)
        files.remove(None if operation.was_done else _locations(operation.superseded))
    return state


def _locations(files: Iterable[WrittenDataFile]) -> list[str]:
    return [location for file in files for location in file.locations]
