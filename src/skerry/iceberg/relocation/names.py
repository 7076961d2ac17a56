"""Old and new names of a table's files, and the locations of new files."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from skerry.iceberg.writing.file_writers import FileEncoding
from skerry.storage import Move, Moves, Storage, join, name, parent
from skerry.table.statistics.file_groups import key_of
from skerry.table.statistics.table_sample import delete_name
from skerry.table.table_files import FileKind

__all__ = ["NewNames", "Written"]

_VERSION = re.compile(r"v?(\d+)")


@dataclass(slots=True)
class Written:
    """Counts of what was or would be written.

    Args:
        metadata_files: Metadata files.
        manifest_lists: Manifest lists.
        manifests: Manifests.
        delete_files: Position delete files.
        statistics_files: Statistics files with samples.
        size_bytes: Total bytes; in a dry run those of the old position delete files.
    """

    metadata_files: int = 0
    manifest_lists: int = 0
    manifests: int = 0
    delete_files: int = 0
    statistics_files: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class NewNames:
    """The present locations of the files of one table.

    Args:
        storage: Reads files by their old names where they are now.
        target: Writes the new ones.
        move: From where to where.
        folder: The folder for new metadata.
        deletes: The encoding of the table's delete files.
        dry_run: Whether nothing is written.
        keeps_data: Whether data and delete files keep their names, so that manifests stay as they are.
        rewrites_vectors: Whether files of deletion vectors are rewritten, whose footers name data files.

    Attributes:
        renamed: New locations of rewritten files, by their old location.
        statistics: Metadata of rewritten statistics files, by their old location.
        file_keys: By key of a data file's old location, that of the new one: see
            `skerry.table.statistics.file_groups.key_of`.
        delete_keys: By key of a delete file's or vector's old location, that of the new one.
        written: What was written.
        outside: Files outside of the moved folder, which keep their names.
    """

    storage: Storage = field(repr=False)
    target: Storage = field(repr=False)
    move: Move | Moves
    folder: str
    deletes: FileEncoding
    dry_run: bool
    keeps_data: bool = False
    rewrites_vectors: bool = False
    renamed: dict[str, str] = field(default_factory=dict)
    statistics: dict[str, dict[str, Any]] = field(default_factory=dict)
    file_keys: dict[int, int] = field(default_factory=dict)
    delete_keys: dict[int, int] = field(default_factory=dict)
    written: Written = field(default_factory=Written)
    outside: set[str] = field(default_factory=set)

    def now(self, location: str) -> str:
        """The present location of a file: its new name, or the old name in the new folder."""
        new = self.renamed.get(location)
        if new is None:
            new = self.move(location)
            if new == location:
                self.outside.add(location)
        return new

    def data_file(self, location: str) -> str:
        """As `now`, for a data file."""
        new = self.now(location)
        self.file_keys[key_of(location)] = key_of(new)
        return new

    def delete_file(self, old: str, new: str, content_offset: int | None) -> None:
        """Record the keys of a delete file, or of a vector in it."""
        self.delete_keys[key_of(delete_name(old, content_offset))] = key_of(delete_name(new, content_offset))

    def new_delete_file(self, old: str, suffix: str) -> str:
        """A name for the rewritten delete file: in its folder, if that was moved."""
        folder = parent(self.move(old))
        return join(folder if self.move.concerns(old) else self.folder, f"{self.unique(old)}-deletes.{suffix}")

    def unique(self, old: str) -> uuid.UUID:
        """What makes the name of a new file unique.

        Args:
            old: The file that it replaces.
        """
        return uuid.uuid4()

    def size_of(self, new: str, old: str) -> int | None:
        """The size of a rewritten file that is in its place already; None if it is to be written."""
        return None

    def carry(self, old: str, kind: FileKind, size_bytes: int) -> str:
        """The present location of a file whose content stays."""
        return self.now(old)

    def note(self, old: str, new: str, kind: FileKind, size_bytes: int, *, is_new: bool) -> None:
        """Take note of a rewritten file."""

    def write(self, new: str, data: bytes, old: str, kind: FileKind) -> int:
        """Write a new file.

        Args:
            new: Its location.
            data: Its content.
            old: The file that it replaces.
            kind: Its role.

        Returns:
            The size of the file.
        """
        self.written.size_bytes += len(data)
        if not self.dry_run:
            self.target.write(new, data)
        return len(data)

    def before_publishing(self, metadata_files: Iterable[str]) -> None:
        """Complete what metadata files refer to.

        Args:
            metadata_files: The new ones, which are written next.
        """

    def new_metadata(self, old: str) -> str:
        """A name for the rewritten metadata file: its number, from which later ones continue, and a new uuid."""
        number = _VERSION.match(name(old))
        packed = ".gz" if ".gz." in name(old) or old.endswith(".gz") else ""
        return join(self.folder, f"{int(number[1]) if number else 0:05d}-{self.unique(old)}{packed}.metadata.json")

    def new_file(self, suffix: str, old: str) -> str:
        """A name for a new file in the metadata folder."""
        return join(self.folder, f"{self.unique(old)}{suffix}")
