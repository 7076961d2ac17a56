"""The files that a table consists of, by what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["FileKind", "TableFile"]


class FileKind(Enum):
    """The role of a file in a table."""

    DATA = "data"
    DELETES = "deletes"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    INDEX = "index"
    STATISTICS = "statistics"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table.

    Args:
        location: Its location.
        kind: Its role.
        size_bytes: Its size.
    """

    location: str
    kind: FileKind
    size_bytes: int
