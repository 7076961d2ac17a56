"""Indexes of new data files: built before a commit, and entered in the registry before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from skerry.paimon.commit import PaimonTarget, retry_policy
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import TableChange
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.table.commit import commit
from skerry.table.files.data_file import DataFile
from skerry.table.owned_files import log_failures, owned_files
from skerry.table.work.tasks import ThreadExecutor

__all__ = ["commit_indexed"]


class _FileOperation(Protocol):
    """An operation that publishes files written for it."""

    files: tuple[WrittenDataFile, ...]

    def apply(self, base: PaimonState) -> TableChange | None: ...


def commit_indexed(operation: _FileOperation, target: PaimonTarget) -> PaimonState:
    """Commit an operation; before that, index the data files that it adds.

    An index that cannot be built does not keep rows from being committed: its file is left to `index()`.

    Args:
        operation: The operation.
        target: The branch.

    Raises:
        ConflictError: As `skerry.table.commit.commit`, as do the following.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    state = target.newest or target.load()
    data_files = [file for file in operation.files if not file.is_changelog] if state.is_indexed else []
    if not data_files:
        return commit(operation, target, retry_policy)
    from skerry.paimon.index_files import index_task, indexed_table, register
    from skerry.table.indexes.publishing import build_indexes

    table = indexed_table(state)
    with owned_files(state.storage) as files:
        written: tuple[str, ...] = ()
        with log_failures("new data files were not indexed"):
            found = [index_task(state, _described(file), file.file.schema_id) for file in data_files]
            built = build_indexes(table, [task for task in found if task is not None], files, ThreadExecutor())
            if built:
                written = register(table, built, files)
        change = _Beside(operation, written)
        committed = commit(change, target, retry_policy)
        if change.has_nothing_to_do:
            files.remove()
        return committed


class _Beside:
    """An operation together with files that nothing refers to if it does nothing.

    Args:
        operation: The operation.
        files: Their locations.
    """

    def __init__(self, operation: _FileOperation, files: tuple[str, ...]) -> None:
        self._operation = operation
        self._files = files
        self.has_nothing_to_do = False

    def apply(self, base: PaimonState) -> TableChange | None:
        """Decide the change."""
        change = self._operation.apply(base)
        self.has_nothing_to_do = change is None
        return None if change is None else replace(change, beside=(*change.beside, *self._files))


def _described(file: WrittenDataFile) -> DataFile:
    suffix = file.file.file_name.rpartition(".")[2].lower()
    return DataFile(file.location, suffix, file.file.row_count, file.file.file_size)
