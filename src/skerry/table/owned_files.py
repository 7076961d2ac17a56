"""Ownership of files written for a commit: which work owns them, and when they may be deleted.

A file written for a commit belongs to the work that wrote it until a publish step names it. This module is the only
place that deletes such files, by one protocol:

1. Work that writes files does so in an `owned_files` block. If the block ends by an exception of any kind, its files
   are deleted, unless a publish step has named them; after a `CommitUnknownError` all are kept. Tasks that write
   files are started with `OwnedFiles.map`, so that none of them is still running by then.
2. Before the first byte is sent that could publish a snapshot, the commit loop creates a `PublishStep` with all files
   that the snapshot names. From then on these files are kept, however the step ends: an interrupt after the catalog
   has accepted the commit must not delete files that the table refers to.
3. Only proof that the step has had no effect, and never will have, withdraws it: a conflict or refusal of the store or
   catalog, or a table that has moved on without the change. Then its files may be deleted again.

When in doubt, files are kept. If they belong to no table they are orphans, which `remove_orphans` deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from skerry.errors import CommitUnknownError
from skerry.storage import Storage, name, parent
from skerry.table.work.tasks import Executor
from skerry.table.work.telemetry import LOG, working

__all__ = ["OwnedFiles", "PublishStep", "after_publish", "give_up", "log_after_publish", "log_failures", "owned_files"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_open: set[OwnedFiles] = set()
"""The blocks that have not ended, of all threads: a publish step passes the files that it names to all of them."""


class OwnedFiles:
    """Files that belong to the work of one block, until a publish step names them.

    A step names files by the last segment of their location, because writers use unique names. If two files have the
    same name nevertheless, both are kept.

    Args:
        storage: The storage of the files.
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
        """Whether a publish step has begun that was created for these files alone: all of them are kept."""
        return self._step is not None

    def add(self, *locations: str) -> None:
        """Own files, whether they are already written or about to be."""
        self._locations.update(dict.fromkeys(locations))
        if self._step is not None:
            self._step.name(locations)

    def hand_over(self, to: OwnedFiles) -> None:
        """Let another block own the files that were added one by one."""
        to.add(*self._locations)
        self._locations.clear()

    def add_folder(self, folder: str, is_ours: Callable[[str], bool] | None = None) -> None:
        """Own the files that a folder contains when the block ends.

        Args:
            folder: The folder.
            is_ours: Whether a file of this name was written in this block; None if all files of the folder were.
        """

        def found() -> Iterable[str]:
            listed = (status.location for status in self._storage.list(folder))
            return [location for location in listed if is_ours is None or is_ours(name(location))]

        self._sources.append(found)

    def add_found(self, source: Callable[[], Iterable[str]]) -> None:
        """Own the files that a function finds when the block ends; its errors are only logged."""
        self._sources.append(source)

    def map(self, executor: Executor, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run tasks that write files; none of them is still running when files are deleted."""
        job = executor.map(function, tasks)
        self._jobs.append(job)
        return job

    def end_jobs(self) -> None:
        """End the tasks that are running or waiting."""
        for job in self._jobs:
            close = getattr(job, "close", None)
            if close is not None:
                with log_failures("a job did not end"):
                    close()

    def unpublish(self) -> None:
        """Record that the table to which files were published is gone, so that they may be deleted after all."""
        self._named.clear()
        if self._step is not None:
            self._step.withdraw()

    def remove(self, locations: Iterable[str] | None = None) -> None:
        """Delete files that no publish step has named; files that cannot be deleted are left behind.

        Args:
            locations: The files; all owned ones if None.
        """
        self.end_jobs()
        if self.may_be_published:
            return
        found = dict.fromkeys(self._locations if locations is None else locations)
        for source in self._sources if locations is None else ():
            with log_failures("files that belong to no table were not found"):
                found.update(dict.fromkeys(source()))
        gone = [location for location in found if name(location) not in self._named]
        if gone:
            failed = log_failures("files that belong to no table were not deleted")
            with failed, working(parent(gone[0]), f"deleted {len(gone)} files that belong to no table", "clean up"):
                self._storage.delete(gone)


@contextmanager
def owned_files(storage: Storage, *folders: str) -> Iterator[OwnedFiles]:
    """Own the files written inside; if the block ends by an exception, those that no publish step named are deleted.

    Args:
        storage: The storage of the files.
        folders: Folders in which only this block writes: every file in them is owned.
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
    """Delete the files of a writer that failed before it could hand them over."""
    files = OwnedFiles(storage)
    files.add(*locations)
    files.remove()


class PublishStep:
    """A step that may publish files from now on, however it ends.

    Args:
        locations: Files that the step makes a table refer to.
        attempt: Files written for this step alone: they are kept or deleted together.
    """

    def __init__(self, locations: Iterable[str], attempt: OwnedFiles) -> None:
        self._attempt = attempt
        self._newly_named: list[tuple[OwnedFiles, set[str]]] = []
        attempt._step = self
        self.name([*locations, *attempt._locations])

    def name(self, locations: Iterable[str]) -> None:
        """Record further files that the step may publish."""
        names = set(map(name, locations))
        for files in tuple(_open):
            new = names - files._named
            if files is not self._attempt and new:
                self._newly_named.append((files, new))
                files._named |= new

    def withdraw(self) -> None:
        """Record that the step has had no effect and never will have: its files may be deleted."""
        for files, new in self._newly_named:
            files._named -= new
        self._attempt._step = None


@contextmanager
def after_publish(work: str) -> Iterator[None]:
    """Run work that follows a publish step: its failure is logged and does not become an error of the commit.

    Args:
        work: Describes the work, for the log: "deleting old metadata files".
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001  written to the log
        log_after_publish(work, error)


def log_after_publish(work: str, error: Exception) -> None:
    """Log a failure after a publish step, of which the caller sees the success."""
    LOG.warning("the commit succeeded; %s failed: %s: %s", work, type(error).__name__, error)


@contextmanager
def log_failures(what: str) -> Iterator[None]:
    """Log and ignore a failure of work that is not essential: cleaning up, sketching ahead of a commit.

    Args:
        what: The consequence, for the log: "files that belong to no table were not deleted".
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001  written to the log
        LOG.warning("%s: %s: %s", what, type(error).__name__, error)
