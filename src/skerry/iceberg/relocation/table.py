"""Rewrite the metadata files of a table, and all metadata that they refer to, for the files' new locations.

Spec: Iceberg spec, Table Metadata Fields.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import Any

from skerry.errors import FormatError, NotFoundError, SkerryError, UnsupportedError
from skerry.iceberg.metadata.stray_metadata import decode_json
from skerry.iceberg.relocation.manifests import Manifests
from skerry.iceberg.relocation.names import NewNames, Written
from skerry.iceberg.relocation.samples import relocate_statistics
from skerry.iceberg.writing.file_writers import FileEncoding
from skerry.storage import Move, Moves, Storage, join
from skerry.table.table_files import FileKind

__all__ = ["RelocatedTable", "concerns_table", "read_json", "relocate_table", "rewrite_metadata"]

_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class RelocatedTable:
    """A table's metadata in its new location.

    Args:
        metadata_location: The new metadata file, for the catalog.
        location: The table's folder.
        written: What was or would be written.
        outside: The table's files elsewhere, which keep their names.
    """

    metadata_location: str
    location: str
    written: Written
    outside: tuple[str, ...]


def concerns_table(storage: Storage, metadata_location: str, move: Move) -> bool:
    """Whether a table or its metadata is in the old location.

    Raises:
        FormatError: Its metadata file is corrupt.
        NotFoundError: It is missing.
    """
    return move.concerns(metadata_location) or move.concerns(read_json(storage, metadata_location)["location"])


def relocate_table(
    storage: Storage, metadata_location: str, move: Move | Moves, *, dry_run: bool = False
) -> RelocatedTable:
    """Write metadata with the present locations of a table's files, beside the old metadata.

    The files themselves were copied or moved before. Snapshots, their ids and numbers, the history and the statistics
    do not change.

    Args:
        storage: Reads files by their old names where they are now (`Storage` with `MOVED_FROM` and `MOVED_TO`), or at
            the old names.
        metadata_location: The table's metadata file, by its old name.
        move: From where to where.
        dry_run: Whether to read everything but write nothing.

    Raises:
        FormatError: A file is corrupt.
        NotFoundError: A file is missing.
        UnsupportedError: The table is encrypted.
    """
    metadata = read_json(storage, metadata_location)
    properties = metadata.get("properties") or {}
    if "encryption.key-id" in properties or metadata.get("encryption-keys"):
        raise UnsupportedError("encrypted tables cannot be relocated", location=metadata_location)
    folder = properties.get("write.metadata.path") or ""
    if not move.concerns(folder):
        folder = join(metadata["location"], "metadata")
    encoding = FileEncoding.from_properties(properties, deletes=True)
    names = NewNames(storage, storage, move, move(folder), encoding, dry_run)
    new = rewrite_metadata(names, metadata_location, metadata)
    return RelocatedTable(new, metadata["location"], names.written, tuple(sorted(names.outside)))


def rewrite_metadata(names: NewNames, metadata_location: str, metadata: dict[str, Any]) -> str:
    """Write the metadata of a table for the new locations of its files: the current metadata file last.

    Args:
        names: The table's old and new names.
        metadata_location: The current metadata file, by its old name.
        metadata: Its content, which is changed.

    Returns:
        The new metadata file.

    Raises:
        As `relocate_table`.
    """
    manifests = Manifests(names)
    for snapshot in metadata.get("snapshots") or []:
        if snapshot.get("manifest-list"):
            manifests.rewrite_list(snapshot["manifest-list"], snapshot["snapshot-id"])
        for manifest in snapshot.get("manifests") or []:
            manifests.rewrite_manifest(manifest)
    files: list[tuple[str, str, bytes]] = []
    for entry in metadata.get("metadata-log") or []:
        location = entry["metadata-file"]
        try:
            earlier = read_json(names.storage, location)
            _relocate(names, earlier)
        except (FormatError, NotFoundError):  # others read the table's history from it; nobody needs it
            continue
        names.renamed[location] = names.new_metadata(location)
        files.append((location, names.renamed[location], _packed(earlier)))
    _relocate(names, metadata)
    files.append((metadata_location, names.new_metadata(metadata_location), _packed(metadata)))
    names.before_publishing([new for _, new, _ in files])
    for old, new, packed in files:
        names.write(new, packed if ".gz." in new else gzip.decompress(packed), old, FileKind.METADATA)
        names.written.metadata_files += 1
    return files[-1][1]


def _packed(metadata: dict[str, Any]) -> bytes:
    """A metadata file, compressed: a hundred of them wait until what they refer to is in its place."""
    return gzip.compress(json.dumps(metadata, separators=(",", ":")).encode(), compresslevel=3, mtime=0)


def read_json(storage: Storage, location: str) -> dict[str, Any]:
    """The content of a metadata file.

    Raises:
        FormatError: It is not table metadata.
        NotFoundError: It is missing.
    """
    data = storage.read(location)
    try:
        metadata = decode_json(data)
        metadata["location"] + ""
    except (FormatError, *_UNREADABLE) as error:
        raise FormatError(f"this is not table metadata: {error}", location=location) from error
    return dict(metadata)


def _relocate(names: NewNames, metadata: dict[str, Any]) -> None:
    """Replace all locations in table metadata.

    Raises:
        FormatError: It is not table metadata.
    """
    try:
        metadata["location"] = names.move(metadata["location"])
        properties = metadata.get("properties") or {}
        for key, value in properties.items():
            if isinstance(value, str) and ("/" in value):
                properties[key] = names.move(value)
        for snapshot in metadata.get("snapshots") or []:
            if snapshot.get("manifest-list"):
                snapshot["manifest-list"] = names.now(snapshot["manifest-list"])
            if snapshot.get("manifests"):
                snapshot["manifests"] = [names.now(manifest) for manifest in snapshot["manifests"]]
        for entry in metadata.get("metadata-log") or []:
            entry["metadata-file"] = names.now(entry["metadata-file"])
        statistics = metadata.get("statistics") or []
        old = {file["snapshot-id"]: file["statistics-path"] for file in statistics}
        for file in statistics:
            relocate_statistics(names, file, old)
        for file in metadata.get("partition-statistics") or []:
            path, size = file["statistics-path"], file.get("file-size-in-bytes", 0)
            file["statistics-path"] = names.carry(path, FileKind.STATISTICS, size)
    except SkerryError:
        raise
    except _UNREADABLE as error:
        raise FormatError(f"this is not table metadata: {type(error).__name__}: {error}") from error
