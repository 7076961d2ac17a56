"""Metadata files in a table's folder that the catalog's state does not name, but that may be in use.

Most are past: states that were dropped from the metadata log, attempts that lost a race. But a folder may also contain
a state that is newer than the catalog's (a writer is about to commit it, or another catalog has the table too), or one
of another table (a table was dropped and created again). Files that those reach must not be deleted.

Spec: Iceberg spec, Table Metadata Fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.iceberg.metadata import json_records
from skerry.iceberg.metadata.metadata_json import decode_metadata, inflate_metadata
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.storage import Storage
from skerry.table.work.tasks import FileTask

__all__ = ["StrayMetadata", "decode_json", "possible_states", "read_stray", "read_table_metadata"]


@dataclass(frozen=True, slots=True)
class StrayMetadata:
    """The identity and time of a metadata file.

    Args:
        location: The metadata file.
        table_uuid: Its table; None in old files of version 1.
        last_updated_ms: When that state was created.
    """

    location: str
    table_uuid: str | None
    last_updated_ms: int


def decode_json(data: bytes) -> Any:
    """The JSON of a metadata file, compressed or not.

    Raises:
        FormatError: It is not JSON, is nested too deeply, is compressed and damaged, or expands too much.
    """
    return json_records.decode_json(inflate_metadata(data))


def read_stray(task: FileTask) -> StrayMetadata | None:
    """Read a metadata file's identity; None if it is gone or not table metadata (truncated, for example)."""
    try:
        found = decode_json(task.storage.read(task.location))
    except (NotFoundError, FormatError):
        return None
    if not isinstance(found, dict) or "format-version" not in found:
        return None
    uuid, updated = found.get("table-uuid"), found.get("last-updated-ms")
    if not isinstance(updated, int) or not isinstance(uuid, str | None):
        return None
    return StrayMetadata(task.location, uuid.lower() if uuid else None, updated)


def possible_states(strays: Iterable[StrayMetadata], table_uuid: UUID | None, last_updated_ms: int) -> list[str]:
    """Those metadata files that may be a current state that the catalog does not know.

    Args:
        strays: The headers of metadata files.
        table_uuid: The table that the catalog has; None if it has no identity.
        last_updated_ms: When its state was created.

    Returns:
        Locations of newer states of the table, and of the newest state of every other table.
    """
    own = None if table_uuid is None else str(table_uuid)
    states: list[str] = []
    others: dict[str, StrayMetadata] = {}
    for stray in strays:
        if stray.table_uuid in (None, own):
            if stray.last_updated_ms > last_updated_ms:
                states.append(stray.location)
            continue
        known = others.setdefault(stray.table_uuid, stray)
        if stray.last_updated_ms > known.last_updated_ms:
            others[stray.table_uuid] = stray
    return [*states, *(stray.location for stray in others.values())]


def read_table_metadata(storage: Storage, location: str) -> TableMetadata:
    """Read a complete metadata file.

    Raises:
        FormatError: skerry cannot read it.
        NotFoundError: It is gone.
    """
    try:
        return decode_metadata(storage.read(location))
    except (FormatError, UnsupportedError) as error:
        raise FormatError(f"this state of the table cannot be read: {error}", location=location) from error
