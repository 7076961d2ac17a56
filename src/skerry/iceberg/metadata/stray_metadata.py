"""Metadata files in a table's folder that the catalog's state does not name, but that may be in use.

Most are past: states that were dropped from the metadata log, attempts that lost a race. But a folder may also contain
a state that is newer than the catalog's (a writer is about to commit it, or another catalog has the table too), or one
of another table (a table was dropped and created again). Files that those reach must not be deleted.

Spec: Iceberg spec, Table Metadata Fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic import ValidationError as ModelError
from pyiceberg.exceptions import ValidationError

from skerry.errors import FormatError, NotFoundError
from skerry.iceberg.metadata.file_io import inflate_metadata
from skerry.iceberg.metadata.table_metadata import TableMetadata, TableMetadataUtil
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
    try:
        return json.loads(inflate_metadata(data))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is not JSON: {error}") from error


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


def possible_states(strays: Iterable[StrayMetadata], table_uuid: UUID, last_updated_ms: int) -> list[str]:
    """Those metadata files that may be a current state that the catalog does not know.

    Args:
        strays: The headers of metadata files.
        table_uuid: The table that the catalog has.
        last_updated_ms: When its state was created.

    Returns:
        Locations of newer states of the table, and of the newest state of every other table.
    """
    states: list[str] = []
    others: dict[str, StrayMetadata] = {}
    for stray in strays:
        if stray.table_uuid is None or stray.table_uuid == str(table_uuid):
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
        return TableMetadataUtil.parse_obj(decode_json(storage.read(location)))
    except (FormatError, ModelError, ValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        problem = " ".join(str(error).split())[:300]
        raise FormatError(f"this state of the table cannot be read: {problem}", location=location) from error
