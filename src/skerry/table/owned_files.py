"""Files that work has written for a commit: who owns them, and when they may be deleted.

A file that was written for a commit belongs to the work that wrote it until a publish step names it. There is one
protocol for that, and no other place deletes what it has written for a commit:

1. Work that writes files does so in an `owned_files` block. If the block ends by an exception, whichever that is, its
   files are deleted, unless a publish step has named them; after a `CommitUnknownError` all stay. Tasks that write
   files are started with `OwnedFiles.map`, so that none of them runs any more by then.
2. The commit loop makes a `PublishStep` of everything that a snapshot names before the first byte is sent that could
   publish it. These files stay from then on, however the step ends: an interrupt after the catalog has taken the commit
   must not delete what the table refers to.
3. Only proof that the step has had no effect, and never will have, withdraws it: a conflict or refusal of the store or
   catalog, or a table that has moved on without the change. Then its files may be deleted again.

When in doubt files stay. They are orphans if they belong to no table, and the removal of orphans takes them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from skerry.errors import CommitUnknownError
from skerry.storage import Storage, name
from skerry.table.work.tasks import Executor

__all__ = ["OwnedFiles", "PublishStep", "after_publish", "give_up", "log_after_publish", "owned_files", "passed_over"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_LOG = logging.getLogger("skerry")

_open: set[OwnedFiles] = set()
"""The blocks that have not ended: a publish step tells all of them what it names, whichever thread they are in."""


class OwnedFiles:
    """Files that belong to the work of one block, until a publish step names them.

    A step names files by the last segment of their location: writers give names that nobody else gives. Where two files
    have one name nevertheless, both stay.

    Args:
        storage: Where they lie.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._locations: dict[str, None] = {}
        self._sources: list[Callable[[], Iterable[str]]] = []
        self._jobs: list[Iterator[Any]] = []
        self._named: set[str] = set()
        self._step: PublishStep | None = None

    @property
    def may_be_published(self) -> bool:
        """Whether a publish step has begun that was made for these files alone: they stay, all of them."""
        return self._step is not None

    def add(self, *locations: str) -> None:
        """Own files, whether they are written already or about to be."""
        self._locations.update(dict.fromkeys(locations))
        if self._step is not None:
            self._step.name(locations)

    def add_folder(self, folder: str, is_ours: Callable[[str], bool] | None = None) -> None:
        """Own the files that lie in a folder when the block ends.

        Args:
            folder: The folder.
            is_ours: Of a file's name, whether it was written in this block; every file of the folder was if None.
        """

        def found() -> Iterable[str]:
            listed = (status.location for status in self._storage.list(folder))
            return [location for location in listed if is_ours is None or is_ours(name(location))]

        self._sources.append(found)

    def add_found(self, source: Callable[[], Iterable[str]]) -> None:
        """Own the files that a function finds when the block ends; what it raises is passed over."""
        self._sources.append(source)

    def map(self, executor: Executor, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run tasks that write files; none of them runs any more when files are deleted."""
        job = executor.map(function, tasks)
        self._jobs.append(job)
        return job

    def end_jobs(self) -> None:
        """End the tasks that still run or wait."""
        for job in self._jobs:
            close = getattr(job, "close", None)
            if close is not None:
                with passed_over("a job did not end"):
                    close()

    def unpublish(self) -> None:
        """Say that the table is gone which files were published to, so that they may be deleted after all."""
        self._named.clear()
        if self._step is not None:
            self._step.withdraw()

    def remove(self, locations: Iterable[str] | None = None) -> None:
        """Delete files that no publish step has named; what cannot be deleted is left behind.

        Args:
            locations: The files; all that are owned if None.
        """
        self.end_jobs()
        if self.may_be_published:
            return
        found = dict.fromkeys(self._locations if locations is None else locations)
        for source in self._sources if locations is None else ():
            with passed_over("files that belong to no table were not found"):
                found.update(dict.fromkeys(source()))
        gone = [location for location in found if name(location) not in self._named]
        if gone:
            with passed_over("files that belong to no table were not deleted"):
                self._storage.delete(gone)


@contextmanager
def owned_files(storage: Storage, *folders: str) -> Iterator[OwnedFiles]:
    """Own the files that are written inside; if it ends by an exception, those go that no publish step has named.

    Args:
        storage: Where they lie.
        folders: Folders to which nobody else writes: every file in them is owned.
    """
    files = OwnedFiles(storage)
    for folder in folders:
        files.add_folder(folder)
    _open.add(files)
    try:
        yield files
    except CommitUnknownError:
        files.end_jobs()
        raise
    except BaseException:
        files.remove()
        raise
    finally:
        _open.discard(files)


def give_up(storage: Storage, locations: Iterable[str]) -> None:
    """Delete what a writer has written and nobody knows of: it fails before it could hand its files over."""
    files = OwnedFiles(storage)
    files.add(*locations)
    files.remove()


class PublishStep:
    """A step that may publish files from now on, whatever becomes of it.

    Args:
        locations: Files that the step makes a table refer to.
        attempt: What was written for this step alone: it stays or goes as a whole.
    """

    def __init__(self, locations: Iterable[str], attempt: OwnedFiles) -> None:
        self._attempt = attempt
        self._told: list[tuple[OwnedFiles, set[str]]] = []
        attempt._step = self
        self.name([*locations, *attempt._locations])

    def name(self, locations: Iterable[str]) -> None:
        """Say of further files that the step may publish them."""
        names = set(map(name, locations))
        for files in tuple(_open):
            new = names - files._named
            if files is not self._attempt and new:
                self._told.append((files, new))
                files._named |= new

    def withdraw(self) -> None:
        """Say that the step has had no effect, and never will have: its files may be deleted."""
        for files, new in self._told:
            files._named -= new
        self._attempt._step = None


@contextmanager
def after_publish(work: str) -> Iterator[None]:
    """Do what follows a publish step: it may fail, but cannot turn the success into an error any more.

    Args:
        work: What is done, for the log: "deleting old metadata files".
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001  written to the log
        log_after_publish(work, error)


def log_after_publish(work: str, error: Exception) -> None:
    """Say in the log what failed after a publish step, where the caller gets to see the success."""
    _LOG.warning("the commit has happened; %s failed: %s: %s", work, type(error).__name__, error)


@contextmanager
def passed_over(what: str) -> Iterator[None]:
    """Pass over a failure of work that something else does not depend on: cleaning up, sketching ahead of a commit.

    Args:
        what: What has come of it, for the log: "files that belong to no table were not deleted".
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001  written to the log
        _LOG.warning("%s: %s: %s", what, type(error).__name__, error)
