"""The error tree: every exception that skerry raises on purpose, grouped by what the caller can do about it.

Each class takes its context as keyword fields with defaults, so that an instance survives pickling on its way back
from a Spark executor. A message says what is wrong, what was expected and found, where (location and byte offset)
and which rule of the format says so.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AccessDeniedError",
    "AlreadyExistsError",
    "CatalogLockedError",
    "CommitUnknownError",
    "ConflictError",
    "FormatError",
    "MissingDependencyError",
    "NotFoundError",
    "SchemaError",
    "SkerryError",
    "StorageError",
    "StreamNameError",
    "UnsupportedError",
]


class SkerryError(Exception):
    """Base of all errors raised by skerry.

    Args:
        message: What is wrong, with expected and found values.
        location: The file, table or URL concerned; never contains credentials.
        offset: Byte offset in that file.
        rule: The rule that is broken: a document and its section, as docs/formats/README.md lists them.
    """

    def __init__(
        self,
        message: str = "",
        *,
        location: str | None = None,
        offset: int | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.offset = offset
        self.rule = rule

    @property
    def help(self) -> str:
        """Where the documentation says why the error is raised and what to do: `docs/errors.md#schemaerror`."""
        name = next(each.__name__ for each in type(self).__mro__ if each.__name__ in __all__)
        return f"docs/errors.md#{name.lower()}"

    def __str__(self) -> str:
        text = self.message
        where = []
        if self.location is not None:
            where.append(f"in {self.location}")
        if self.offset is not None:
            where.append(f"at byte {self.offset}")
        if where:
            text += f" ({' '.join(where)})"
        if self.rule is not None:
            text += f" [{self.rule}]"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(cls: type[SkerryError], args: tuple[Any, ...], state: dict[str, Any]) -> SkerryError:
    error = cls(*args)
    error.__dict__.update(state)
    return error


class FormatError(SkerryError):
    """Bytes break the rules of their format: the file is corrupt, truncated or not what it claims to be."""


class UnsupportedError(SkerryError):
    """A feature that the format or engine allows but skerry does not support; the message names it."""


class SchemaError(SkerryError):
    """Columns, types or values do not match the table's schema, or it does not contain a name."""


class NotFoundError(SkerryError):
    """A table, snapshot, reference, column or file does not exist; the message proposes the nearest name."""


class AlreadyExistsError(SkerryError):
    """The name is already taken, and creating it would overwrite what exists."""


class StorageError(SkerryError):
    """A store could not be reached, timed out or refused a request; the data itself may be fine."""


class AccessDeniedError(StorageError):
    """A store refused the request: credentials are missing, wrong or lack a permission."""


class ConflictError(SkerryError):
    """Another writer committed first; nothing was changed.

    Args:
        retryable: Whether the same commit may be tried again. If not, it contradicts what the other writer did, and the
            work must be redone on the new state.
    """

    def __init__(self, message: str = "", *, retryable: bool = True, **context: Any) -> None:
        super().__init__(message, **context)
        self.retryable = retryable


class CatalogLockedError(ConflictError):
    """Another process kept the catalog's database locked for too long; nothing was changed. Try again later."""


class CommitUnknownError(SkerryError):
    """The outcome of a commit cannot be known: it may have happened. Nothing may be cleaned up after it."""


class StreamNameError(SkerryError):
    """The stream's name belongs to another query, whose batch numbers cannot be compared; nothing was written.

    Continue from that query's checkpoint, choose another name, or take the name over.
    """


class MissingDependencyError(SkerryError, ImportError):
    """An optional dependency is not installed; the message says which extra to install."""
