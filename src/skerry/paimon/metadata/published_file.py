"""Files whose presence is a fact of its own: a snapshot, a schema. One writer creates each; nobody writes it again."""

from __future__ import annotations

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SkerryError,
)
from skerry.storage import Storage

__all__ = ["holds", "publish_file"]


def publish_file(storage: Storage, location: str, data: bytes, what: str) -> None:
    """Create a file, and sort the outcomes.

    A store that lost the answer to a request sends it again, and then finds what it has written itself.

    Args:
        storage: Where it lies.
        location: The file.
        data: Its content.
        what: What it is, for messages.

    Raises:
        AccessDeniedError: It may not be created.
        CommitUnknownError: It may or may not have been created.
        ConflictError: Another writer has created it with another content.
    """
    try:
        storage.write(location, data)
    except AlreadyExistsError as error:
        ours = holds(storage, location, data)
        if ours is None:
            raise _unknown(what, location, error) from error
        if not ours:
            raise ConflictError(f"{what} was made by another writer", location=location) from error
    except AccessDeniedError:
        raise
    except Exception as error:
        if not holds(storage, location, data):
            raise _unknown(what, location, error) from error


def _unknown(what: str, location: str, error: Exception) -> CommitUnknownError:
    return CommitUnknownError(f"{what} may or may not have been made: {error}", location=location)


def holds(storage: Storage, location: str, data: bytes) -> bool | None:
    """Whether a file is there with just these bytes, and so not another writer's; None if that cannot be known."""
    try:
        return bytes(storage.read(location)) == data
    except NotFoundError:
        return False
    except SkerryError:
        return None
