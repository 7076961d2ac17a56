"""The moment from which a file may be named by its catalog."""

from __future__ import annotations

from typing import Final, Self

from skerry.errors import AlreadyExistsError, CatalogLockedError, ConflictError, NotFoundError
from skerry.table.owned_files import OwnedFiles, PublishStep

__all__ = ["Sending"]

_WITHOUT_EFFECT: Final = (AlreadyExistsError, CatalogLockedError, ConflictError, NotFoundError)
"""Errors by which a catalog proves that nothing was changed."""


class Sending:
    """A change to the database that names a file: once it is sent, the file is kept unless it failed.

    Args:
        files: Owns the file.
    """

    def __init__(self, files: OwnedFiles) -> None:
        self._files = files
        self._step: PublishStep | None = None

    def __call__(self) -> None:
        """Note that the change is about to be sent."""
        self._step = PublishStep((), self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, _WITHOUT_EFFECT) and self._step is not None:
            self._step.withdraw()
