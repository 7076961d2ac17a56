"""Committing each batch of a stream to a Paimon table exactly once, even if it is sent repeatedly.

A batch is committed under a user name that is unique to its query, with its number as the commit identifier. That is
Paimon's convention, and its other engines understand it. It works as long as the snapshot exists. So that the expiry of
snapshots cannot let a batch in twice, a mark in the table's folder records how far the stream has come
(`skerry.paimon.metadata.stream_marks`), and for which query.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from skerry.errors import CommitUnknownError, SkerryError
from skerry.paimon.change_request import ChangeRequest
from skerry.paimon.commit import PaimonTarget, StagedCommit
from skerry.paimon.metadata.snapshots import earliest_id
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.stream_marks import (
    StreamMark,
    delete_mark,
    mark_location,
    read_mark,
    stream_user,
    write_mark,
)
from skerry.paimon.operations import CommitId, TableChange
from skerry.paimon.operations.lookup import find_commit
from skerry.table.owned_files import OwnedFiles, after_publish
from skerry.table.stream_batch import LastBatch, StreamBatch, has_batch

__all__ = ["commit_once"]

_STREAM, _BATCH, _QUERY = "skerry.stream-id", "skerry.batch-id", "skerry.query-id"


def commit_once(request: ChangeRequest, batch: StreamBatch, work: Callable[[ChangeRequest], object]) -> bool:
    """Do work that makes one commit, unless the table has the batch.

    Args:
        request: The branch.
        batch: The batch.
        work: Does it with another request, whose commits are the batch's. If its commit turns out to exist already,
            what it has written is removed as after any other failure.

    Returns:
        Whether it was done now.

    Raises:
        CommitUnknownError: The outcome is unknown: that of this attempt, or of an earlier one whose snapshot may have
            expired since.
        StreamNameError: The stream's name belongs to another query; nothing was done.
        SkerryError: Any error of the work; nothing was committed.
    """
    state = request.target.load()  # before the mark is read: writers set marks before they commit
    before = mark = read_mark(state, batch.stream)
    if _is_there(state, before, batch):
        return False
    if mark is None or not _is_of(mark, batch):
        after = state.snapshot.id if state.snapshot is not None else 0
        mark = StreamMark(batch.stream, batch.number, after, query=batch.query)
        write_mark(state, mark)
    said = {**request.properties, _STREAM: batch.stream, _BATCH: str(batch.number)}
    if batch.query is not None:
        said[_QUERY] = batch.query
    once = _OnceTarget(request.target, state, mark)
    try:
        work(replace(request, target=once, properties=said))
    except _BatchIsThereError:
        return False
    except CommitUnknownError:
        raise
    except SkerryError:
        if mark is not before:  # no other writer tried it, and this attempt provably failed
            with suppress(SkerryError):
                _restore(state, mark, before)
        raise
    request.target.newest = once.newest
    with after_publish("marking the batch"):  # its snapshot records it for a while
        write_mark(state, replace(mark, is_published=True, query=batch.query))
    return True


def _restore(state: PaimonState, mark: StreamMark, before: StreamMark | None) -> None:
    """Restore the previous mark, unless another query has set its own meanwhile."""
    if read_mark(state, mark.stream) != mark:
        return
    if before is None:
        delete_mark(state, mark.stream)
    else:
        write_mark(state, before)


def _commit_id(mark: StreamMark) -> CommitId:
    return CommitId(stream_user(mark.stream, mark.query), mark.batch)


def _is_of(mark: StreamMark, batch: StreamBatch) -> bool:
    """Whether a mark is that of a batch; a mark without a query may be, unless the query takes the name over.

    A stream name that is taken over may reach a number that the previous query has already marked.
    """
    return mark.batch == batch.number and (mark.query == batch.query or (mark.query is None and not batch.takes_over))


def _is_there(state: PaimonState, mark: StreamMark | None, batch: StreamBatch) -> bool:
    """Whether the table has a batch, or a later one of its query.

    Raises:
        CommitUnknownError: It was tried, and snapshots that have expired since may include its own.
        StreamNameError: The stream's name belongs to another query.
    """
    if mark is None or not has_batch(LastBatch(mark.batch, mark.query), batch, state.name):
        return False
    if mark.is_published or mark.batch > batch.number:
        return True
    if find_commit(state, _commit_id(mark), after=mark.after) is not None:
        return True
    earliest = earliest_id(state.storage, state.paths)
    if earliest is not None and earliest > mark.after + 1:
        raise CommitUnknownError(
            f"batch {batch.number} of stream {batch.stream!r} was tried after snapshot {mark.after}, and snapshots up "
            f"to {earliest - 1} have expired since: whether it is in the table cannot be known. If its rows are there, "
            'set "isPublished" to true in the file named here; if not, delete that file',
            location=mark_location(state, batch.stream),
        )
    return False


class _BatchIsThereError(SkerryError):
    """Another writer has committed the batch meanwhile; nothing refers to what was written for it."""


class _OnceTarget(PaimonTarget):
    """A branch in which every commit is committed as one batch of a stream."""

    def __init__(self, target: PaimonTarget, state: PaimonState, mark: StreamMark) -> None:
        super().__init__(state, state.branch)
        self._commit_id = _commit_id(mark)
        self._after = mark.after

    def stage(self, base: PaimonState, change: TableChange, files: OwnedFiles) -> StagedCommit:
        """Stage a change under the stream's name.

        Raises:
            _BatchIsThereError: The table has the batch.
        """
        if find_commit(base, self._commit_id, after=self._after) is not None:
            raise _BatchIsThereError(f"batch {self._commit_id.identifier} is there already", location=base.name)
        return super().stage(base, replace(change, commit_id=self._commit_id), files)
