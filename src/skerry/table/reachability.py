"""What cleaning needs from a table format: which files are referenced, and which listed files are another table's.

A format implements `ReachableTable`; listing, ages, marking and sweeping are shared (`skerry.jobs.orphans`). Locations
are compared by `skerry.storage.file_key`. Differences that no key can resolve (links, percent-encoding, case, another
name of the same bucket) are covered by `alias`, which errs on the side of keeping.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol
from urllib.parse import unquote

from skerry.storage import Storage, name, parent

__all__ = ["Aliases", "FileKey", "ReachableTable", "TableKind", "alias", "table_marker"]

DEFAULT_GRACE_DAYS = 3.0
"""How old a file must be to count as left behind: longer than any writer takes from its first file to its commit."""

FileKey = tuple[str, ...]
"""Identifies a file, however its location is spelled: `skerry.storage.file_key`."""


class TableKind(Enum):
    """Table formats that can be recognised in a folder."""

    ICEBERG = "Iceberg"
    PAIMON = "Paimon"
    DELTA = "Delta Lake"
    HUDI = "Hudi"


class ReachableTable(Protocol):
    """A table, as cleaning sees it."""

    @property
    def kind(self) -> TableKind:
        """Its format."""
        ...

    @property
    def kinds(self) -> frozenset[TableKind]:
        """Formats that `folders` look like: its own, and one whose metadata it has for other readers."""
        ...

    @property
    def name(self) -> str:
        """Its name, for messages."""
        ...

    @property
    def identity(self) -> str:
        """Distinguishes the table from one that takes its name later."""
        ...

    @property
    def location(self) -> str:
        """Its folder. Files elsewhere are never listed or deleted."""
        ...

    @property
    def storage(self) -> Storage:
        """The table's storage."""
        ...

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders that look like tables of the format (`table_marker`) but are this one: itself, its branches."""
        ...

    def newest(self) -> str:
        """Load the newest published state, and return its name: two states never share a name.

        Raises:
            NotFoundError: The table is gone.
            SchemaError: A property of the table forbids deleting its files.
        """
        ...

    def reached(self, markers: Sequence[str]) -> Mapping[FileKey, str]:
        """Locations of all files that the state loaded last needs, through all references, and of the state itself.

        Args:
            markers: Metadata files of the format that a listing found in the table's folders. The files that they
                reference are needed too if they are states that the catalog does not know: newer ones, or another
                table's.

        Raises:
            SkerryError: Something could not be read, so that nothing may be deleted.
        """
        ...


_MARKERS: tuple[tuple[TableKind, re.Pattern[str]], ...] = (
    (TableKind.ICEBERG, re.compile(r"(?P<folder>.*)/[^/]+\.metadata\.json(?:\.gz)?", re.DOTALL)),
    (TableKind.DELTA, re.compile(r"(?P<folder>.*?)/_delta_log/.*", re.DOTALL)),
    (TableKind.HUDI, re.compile(r"(?P<folder>.*?)/\.hoodie/.*", re.DOTALL)),
    (
        TableKind.PAIMON,
        re.compile(r"(?P<folder>.*)/(?:snapshot/(?:snapshot-\d+|LATEST|EARLIEST)|schema/schema-\d+)", re.DOTALL),
    ),
)


def table_marker(location: str) -> tuple[TableKind, str] | None:
    """The table that a metadata file belongs to, judged by its name: its format and its folder."""
    for kind, pattern in _MARKERS:
        match = pattern.fullmatch(location)
        if match is not None:
            folder = match["folder"]
            is_metadata = kind is TableKind.ICEBERG and name(folder) == "metadata"
            return kind, parent(folder) if is_metadata else folder
    return None


_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


def alias(location: str) -> FileKey:
    """The path segments of a location without anything that may differ between two names of one file.

    Ignored are scheme and authority, percent-encoding, case, Unicode forms, repeated slashes, and `.`.
    """
    path = _AUTHORITY.sub("", location, count=1)
    while (decoded := unquote(path)) != path:
        path = decoded
    path = unicodedata.normalize("NFC", path).casefold()
    return tuple(segment for segment in path.split("/") if segment not in ("", "."))


class Aliases:
    """Files that are needed but that a listing did not show under their names: it may show them under other names.

    Args:
        locations: Those files.
    """

    def __init__(self, locations: Iterator[str]) -> None:
        self._by_name: dict[str, list[FileKey]] = {}
        for location in locations:
            segments = alias(location)
            if segments:
                self._by_name.setdefault(segments[-1], []).append(segments)

    def find(self, root: str, location: str) -> bool:
        """Whether a file in a folder may be one of them: one of their paths ends like its path in the folder."""
        segments = alias(location)[len(alias(root)) :]
        if not segments:
            return True
        return any(known[-len(segments) :] == segments for known in self._by_name.get(segments[-1], ()))
