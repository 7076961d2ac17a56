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
from skerry.storage import Move, Storage, join

__all__ = ["RelocatedTable", "concerns_table", "relocate_table"]

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
    return move.concerns(metadata_location) or move.concerns(_read(storage, metadata_location)["location"])


def relocate_table(storage: Storage, metadata_location: str, move: Move, *, dry_run: bool = False) -> RelocatedTable:
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
    metadata = _read(storage, metadata_location)
    properties = metadata.get("properties") or {}
    if "encryption.key-id" in properties:
        raise UnsupportedError("encrypted tables cannot be relocated", location=metadata_location)
    folder = properties.get("write.metadata.path") or ""
    if not move.concerns(folder):
        folder = join(metadata["location"], "metadata")
    names = NewNames(storage, move, move(folder), FileEncoding.from_properties(properties, deletes=True), dry_run)
    manifests = Manifests(names)
    for snapshot in metadata.get("snapshots") or []:
        if snapshot.get("manifest-list"):
            manifests.rewrite_list(snapshot["manifest-list"], snapshot["snapshot-id"])
        for manifest in snapshot.get("manifests") or []:
            manifests.rewrite_manifest(manifest)
    for entry in metadata.get("metadata-log") or []:
        _rewrite_earlier(names, entry["metadata-file"])
    _relocate(names, metadata)
    new = names.new_metadata(metadata_location)
    _write(names, new, metadata)
    return RelocatedTable(new, metadata["location"], names.written, tuple(sorted(names.outside)))


def _read(storage: Storage, location: str) -> dict[str, Any]:
    data = storage.read(location)
    try:
        metadata = decode_json(data)
        metadata["location"] + ""
    except (FormatError, *_UNREADABLE) as error:
        raise FormatError(f"this is not table metadata: {error}", location=location) from error
    return dict(metadata)


def _rewrite_earlier(names: NewNames, location: str) -> None:
    """Rewrite an earlier metadata file, from which others read the table's history. A missing one is skipped."""
    try:
        metadata = _read(names.storage, location)
        _relocate(names, metadata)
    except (FormatError, NotFoundError):
        return
    new = names.new_metadata(location)
    _write(names, new, metadata)
    names.renamed[location] = new


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
            file["statistics-path"] = names.now(file["statistics-path"])
    except SkerryError:
        raise
    except _UNREADABLE as error:
        raise FormatError(f"this is not table metadata: {type(error).__name__}: {error}") from error


def _write(names: NewNames, location: str, metadata: dict[str, Any]) -> None:
    data = json.dumps(metadata, separators=(",", ":")).encode()
    names.write(location, gzip.compress(data) if ".gz." in location else data)
    names.written.metadata_files += 1
