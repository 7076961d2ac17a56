"""Copy a table to another location: rewritten metadata under names that depend on nothing but the old ones.

The same copy made again finds what is complete, writes the rest, and goes on with newer states. Metadata files come
last: before, nobody can open the copy. Nothing of the original is changed.

Spec: Iceberg spec, Paths in Metadata: file paths are absolute.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from skerry.errors import AlreadyExistsError, ConflictError, NotFoundError, SchemaError, UnsupportedError
from skerry.iceberg.cleaning.reachability import FileReader
from skerry.iceberg.metadata.newest_file import is_metadata_file
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.stray_metadata import read_stray
from skerry.iceberg.relocation.names import NewNames
from skerry.iceberg.relocation.table import read_json, relocate_table, rewrite_metadata
from skerry.iceberg.writing.file_writers import FileEncoding
from skerry.storage import Moves, Storage, file_key, join, name
from skerry.table.copying import CopiedFile, CopyRequest, CopySummary, another_file, copy_files, outside, refuse_overlap
from skerry.table.files.locations import OUTSIDE_PROPERTY
from skerry.table.reachability import FileKey, TableKind, table_marker
from skerry.table.table_files import FileKind
from skerry.table.work.tasks import FileTask

__all__ = ["copy_table", "renamed_metadata"]

_NAMES: Final = uuid.UUID("6f1cf8a2-7d1f-4b8e-9c55-6d6f4d0f4e0b")
"""The namespace of names of rewritten files."""
_PATH_PROPERTIES: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
_KEPT_DATA: Final = {OUTSIDE_PROPERTY: "true"}
_SHARED_DATA: Final = {"gc.enabled": "false"}


@dataclass(slots=True)
class _CopyNames(NewNames):
    """Names of the files of a copy.

    Args:
        request: What was asked for.
        mapping: Where files go and what is done with them, as a text: names of rewritten files depend on it.
        present: The sizes of files that are in their place already.
        copied_before: Files of the original that an earlier copy has, whether its place can be listed or not.
        files: What the copy consists of, by its locations.
    """

    request: CopyRequest = field(kw_only=True)
    mapping: str = field(kw_only=True)
    present: Mapping[FileKey, int] = field(kw_only=True)
    copied_before: frozenset[FileKey] = field(kw_only=True)
    files: dict[str, CopiedFile] = field(default_factory=dict)

    def now(self, location: str) -> str:
        """The location of a file in the copy.

        Raises:
            UnsupportedError: It is outside the table's folder, and nothing says where it goes.
        """
        if location in self.renamed:
            return self.renamed[location]
        found = self.storage.resolved(location)
        if self.keeps_data or self.move.concerns(found):
            return NewNames.now(self, found)
        raise outside("a file of the table is outside its folder", location)

    def unique(self, old: str) -> uuid.UUID:
        """The same for the same file and mapping."""
        return uuid.uuid5(_NAMES, f"{self.mapping}\n{old}")

    def size_of(self, new: str, old: str) -> int | None:
        """The size of a file that is in its place already; None if it is to be written.

        Raises:
            NotFoundError: An earlier copy should have written it.
        """
        size = self.present.get(file_key(new))
        if size is not None or file_key(old) not in self.copied_before:
            return size
        if self.request.dry_run:
            return 0
        raise NotFoundError(
            f"snapshot {self.request.from_snapshot} was not copied to {self.request.location} like this: a file is "
            "missing there. Leave from_snapshot= out, then whatever is missing is copied",
            location=new,
        )

    def note(self, old: str, new: str, kind: FileKind, size_bytes: int, *, is_new: bool) -> None:
        """Take note of a rewritten file."""
        self.files[new] = CopiedFile(old, new, kind, size_bytes, is_new=is_new, is_rewritten=True)

    def carry(self, old: str, kind: FileKind, size_bytes: int) -> str:
        """Take note of a file that is copied as it is; returns its location in the copy."""
        new = NewNames.now(self, old) if kind is FileKind.STATISTICS and self.keeps_data else self.now(old)
        if new in self.files or new == old:
            return new
        if kind is FileKind.STATISTICS and not self.storage.exists(old):
            return new  # others forget what they had: it is missing in the copy, too
        size = self.size_of(new, old)
        found = CopiedFile(old, new, kind, size_bytes, is_new=size is None)
        if size is not None and size != size_bytes and self.present:
            expected = self.storage.size(old)
            if size != expected:
                raise another_file(found, size, expected)
        self.files[new] = found
        return new

    def write(self, new: str, data: bytes, old: str, kind: FileKind) -> int:
        """Write a rewritten file, unless it is in its place; returns its size."""
        size = self.size_of(new, old)
        is_new = size is None
        if size is None:
            size = len(data)
            if not self.dry_run:
                try:
                    self.target.write(new, data)
                except AlreadyExistsError:  # another copy has written the same since the folder was listed
                    size, is_new = self.target.size(new), False
        self.note(old, new, kind, size, is_new=is_new)
        return size

    def before_publishing(self, metadata_files: Iterable[str]) -> None:
        """Copy the files, so that they are there before metadata files name them.

        Raises:
            ConflictError: The copy was changed since it was made.
        """
        replaced = self.request.replaced
        if replaced is not None and replaced not in metadata_files:
            raise ConflictError(
                "the table of that name is not an earlier copy of this table, or was changed since it was copied, or "
                "so long ago that this table does not know that state any more; drop it from its catalog (without "
                "purge) and copy again: files that are there are not copied twice",
                location=replaced,
                retryable=False,
            )
        plain = [file for file in self.files.values() if not file.is_rewritten]
        for file in copy_files(plain, self.storage, self.request):
            self.files[file.target] = file


def copy_table(state: TableState, request: CopyRequest) -> CopySummary:
    """Copy one state of a table: all of its snapshots, branches, tags, its history and statistics.

    Args:
        state: The table.
        request: What is asked for.

    Raises:
        AlreadyExistsError: Other files are in the place of the copy.
        ConflictError: The copy was changed since it was made.
        FormatError: A file is corrupt.
        NotFoundError: A file is missing: expired in the meantime, or not copied before as the request says.
        SchemaError: The copy overlaps the table.
        UnsupportedError: Files are outside the table's folder; or the table is encrypted.
    """
    source = str(state.metadata.location)
    storage, location = state.storage, request.location
    refuse_overlap(storage.actual_location(source), location)
    metadata = read_json(storage, state.metadata_location)
    properties = metadata.setdefault("properties", {})
    if state.metadata.is_encrypted:
        raise UnsupportedError("encrypted tables cannot be copied", location=state.metadata_location)
    moves = request.moves(source)
    for key in _PATH_PROPERTIES:
        if properties.get(key) and not moves.concerns(properties[key]):
            raise outside(f"table property {key} names a folder outside the table's", properties[key])
    if request.keep_data:
        properties |= _KEPT_DATA | (_SHARED_DATA if request.shares_data else {})
    present = request.present()
    _refuse_other_table(request, present, state)
    folder = properties.get("write.metadata.path") or join(source, "metadata")
    names = _CopyNames(
        storage,
        request.storage,
        moves,
        moves(folder),
        FileEncoding.from_properties(properties, deletes=True),
        request.dry_run,
        keeps_data=request.keep_data,
        rewrites_vectors=True,
        request=request,
        mapping=json.dumps([moves.folders, request.keep_data, request.shares_data]),
        present=present,
        copied_before=_copied_before(state, request),
    )
    new = rewrite_metadata(names, state.metadata_location, metadata)
    current = state.snapshot()
    return CopySummary(
        state.metadata_location,
        None if current is None else current.snapshot_id,
        metadata["location"],
        new,
        tuple(names.files.values()),
        request.dry_run,
    )


def renamed_metadata(storage: Storage, metadata_location: str, prefixes: Mapping[str, str]) -> str:
    """Write metadata for a table whose files were copied or moved by another program, in its new folder.

    Args:
        storage: Access to the files where they are now.
        metadata_location: Its metadata file, where it is now.
        prefixes: Folders that the metadata names, with the folders where their files are.

    Returns:
        The new metadata file.

    Raises:
        FormatError: A file is corrupt.
        NotFoundError: A file is missing.
        SchemaError: The table's folder is in none of the folders.
        UnsupportedError: The table is encrypted.
    """
    moves = Moves(tuple(prefixes.items()))
    location = read_json(storage, metadata_location)["location"]
    if not moves.concerns(location):
        raise SchemaError(f"the metadata says that the table is at {location}, which is in none of the prefixes")
    return relocate_table(storage.following(moves), metadata_location, moves).metadata_location


def _refuse_other_table(request: CopyRequest, present: Mapping[FileKey, int], state: TableState) -> None:
    """Refuse to write into the folder of another table.

    Raises:
        AlreadyExistsError: There is one.
    """
    if not present:
        return
    metadata_files: list[str] = []
    for file in request.storage.list(request.location):
        marker = table_marker(file.location)
        if marker is None or file_key(marker[1]) != file_key(request.location):
            continue
        if marker[0] is not TableKind.ICEBERG:
            raise AlreadyExistsError(f"a table of {marker[0].value} is in the folder", location=request.location)
        metadata_files.append(file.location)
    newest = max(filter(is_metadata_file, metadata_files), key=name, default=None)
    stray = None if newest is None else read_stray(FileTask(newest, request.storage))
    own = None if state.metadata.table_uuid is None else str(state.metadata.table_uuid)
    if stray is not None and stray.table_uuid != own:
        raise AlreadyExistsError("another table is in the folder", location=stray.location)


def _copied_before(state: TableState, request: CopyRequest) -> frozenset[FileKey]:
    """The files of the snapshots up to the one that was copied before.

    Raises:
        NotFoundError: The table does not have it.
    """
    if request.from_snapshot is None:
        return frozenset()
    last = state.metadata.snapshot_by_id(request.from_snapshot)
    if last is None:
        raise NotFoundError(
            f"the table has no snapshot {request.from_snapshot} any more; leave from_snapshot= out, then the folder of "
            "the copy is listed to find what is new"
        )
    before = [snapshot for snapshot in state.metadata.snapshots if _order(snapshot) <= _order(last)]
    reader = FileReader(request.executor, state.storage)
    lists, manifests = reader.lists(before)
    found = {*lists, *manifests, *reader.live(manifests)}
    numbers = {snapshot.snapshot_id for snapshot in before}
    if request.dry_run:  # statistics are registered after their snapshot, perhaps after it was copied
        found |= {file_key(file.statistics_path) for file in state.metadata.statistics if file.snapshot_id in numbers}
        found |= {
            file_key(entry.metadata_file)
            for entry in state.metadata.metadata_log
            if entry.timestamp_ms <= last.timestamp_ms
        }
    return frozenset(found)


def _order(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.sequence_number or 0, snapshot.timestamp_ms
