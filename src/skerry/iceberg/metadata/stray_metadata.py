"""Metadata files in a table's folder that the catalog's state does not name: may one of them be somebody's state?

Most are the past: states that the metadata log has forgotten, attempts that lost a race. But a folder may also hold a
state that is newer than what the catalog says (a writer is about to commit it, another catalog has the table too), or
one of another table (a table was dropped and made again). What those reach must not be deleted.

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
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from skerry.errors import FormatError, NotFoundError
from skerry.iceberg.metadata.file_io import inflate_metadata
from skerry.storage import Storage
from skerry.table.work.tasks import FileTask

__all__ = ["StrayMetadata", "decode_json", "possible_states", "read_stray", "read_table_metadata"]


@dataclass(frozen=True, slots=True)
class StrayMetadata:
    """What a metadata file says of itself.

    Args:
        location: Where it lies.
        table_uuid: Its table; None in old files of version 1.
        last_updated_ms: When that state was made.
    """

    location: str
    table_uuid: str | None
    last_updated_ms: int


def decode_json(data: bytes) -> Any:
    """The JSON of a metadata file, compressed or not.

    Raises:
        FormatError: It is none, nests too deeply, or is compressed and damaged, or holds far more than its bytes.
    """
    try:
        return json.loads(inflate_metadata(data))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is not JSON: {error}") from error


def read_stray(task: FileTask) -> StrayMetadata | None:
    """Look at a metadata file; None if it is gone, or no metadata of a table (cut short, say) and so nobody's state."""
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
    """Those metadata files that may be the state of a table which the catalog does not know.

    Args:
        strays: What metadata files say of themselves.
        table_uuid: The table that the catalog has.
        last_updated_ms: When its state was made.

    Returns:
        Locations: states of the table that are newer, and the newest state of every other table.
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
    """Read a metadata file whole.

    Raises:
        FormatError: It is none that skerry can read.
        NotFoundError: It is gone.
    """
    try:
        return TableMetadataUtil.parse_obj(decode_json(storage.read(location)))
    except (FormatError, ModelError, ValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        problem = " ".join(str(error).split())[:300]
        raise FormatError(f"this state of the table cannot be read: {problem}", location=location) from error
