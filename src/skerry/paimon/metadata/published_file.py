"""Files whose existence publishes a snapshot or schema: each is created by one writer and never rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SkerryError,
    StorageError,
)
from skerry.storage import Storage

__all__ = ["holds", "publish_file", "several_files"]


def publish_file(storage: Storage, location: str, data: bytes, what: str) -> None:
    """Create a file, and classify the outcome.

    A store that lost the answer to a request repeats it, and then finds its own file.

    Args:
        storage: Access to the file.
        location: The file.
        data: Its content.
        what: Its name for messages.

    Raises:
        AccessDeniedError: It may not be created.
        CommitUnknownError: It may or may not have been created.
        ConflictError: Another writer has created it with another content.
        UnsupportedError: Nothing may be written there.
    """
    storage.check_writable(location)
    try:
        storage.write(location, data)
    except AlreadyExistsError as error:
        ours = holds(storage, location, data)
        if ours is None:
            raise _unknown(what, location, error) from error
        if not ours:
            raise ConflictError(f"{what} was created by another writer", location=location) from error
    except AccessDeniedError:
        raise
    except Exception as error:
        if not holds(storage, location, data):
            raise _unknown(what, location, error) from error


@contextmanager
def several_files(what: str, location: str) -> Iterator[None]:
    """Classify a failure while files change of which each one counts: a change that can be repeated.

    Args:
        what: What may have happened, for the message: "branch 'b' may or may not be deleted".
        location: The folder of the files.

    Raises:
        CommitUnknownError: The store failed.
    """
    try:
        yield
    except StorageError as error:
        raise CommitUnknownError(f"{what}: {error}; do it again", location=location) from error


def _unknown(what: str, location: str, error: Exception) -> CommitUnknownError:
    return CommitUnknownError(f"{what} may or may not have been created: {error}", location=location)


def holds(storage: Storage, location: str, data: bytes) -> bool | None:
    """Whether a file has exactly these bytes, and so is not another writer's; None if that cannot be determined."""
    try:
        return bytes(storage.read(location)) == data
    except NotFoundError:
        return False
    except SkerryError:
        return None
