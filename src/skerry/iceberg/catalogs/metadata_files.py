"""Metadata files of catalogs that keep only their locations: reading, writing, and the metadata after an update.

Spec: Iceberg spec, File System Tables, Metastore Tables.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from skerry.errors import NotFoundError
from skerry.iceberg.metadata.metadata_json import GZIP_SUFFIX, decode_metadata, encode_metadata
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.storage import Storage, join

if TYPE_CHECKING:
    from skerry.iceberg.metadata.requirements import TableRequirement
    from skerry.iceberg.metadata.table_updates import TableUpdate

__all__ = [
    "kept_storage",
    "metadata_after",
    "metadata_name",
    "new_metadata_location",
    "read_metadata",
    "write_metadata",
]

_SUFFIX: Final = ".metadata.json"
_VERSION: Final = re.compile(r"(\d{1,18})-[0-9a-fA-F-]{36}(?:\.\w+)?\.metadata\.json(?:\.\w+)?")


def kept_storage(known: Storage | None, properties: Mapping[str, Any]) -> Storage:
    """Access to a catalog's metadata files; its connections are kept as long as the options are the same.

    Args:
        known: What was used last.
        properties: The catalog's properties now.
    """
    files = Storage(properties)
    return known if known is not None and known.options == files.options else files


def read_metadata(storage: Storage, location: str) -> TableMetadata:
    """Read a metadata file.

    Raises:
        FormatError: It is not table metadata.
        NotFoundError: It is missing.
        UnsupportedError: Its format version is not supported.
    """
    try:
        data = storage.read(location)
    except NotFoundError:
        raise NotFoundError("the table's metadata file is missing", location=location) from None
    return decode_metadata(data, location=location)


def write_metadata(storage: Storage, location: str, metadata: TableMetadata) -> None:
    """Write a new metadata file.

    Raises:
        AlreadyExistsError: There is one of that name.
    """
    storage.write(location, encode_metadata(metadata, location))


def new_metadata_location(metadata: TableMetadata, predecessor: str | None = None) -> str:
    """The location of a table's next metadata file."""
    folder = metadata.properties.get("write.metadata.path") or join(metadata.location, "metadata")
    codec = metadata.properties.get("write.metadata.compression-codec", "none").strip().lower()
    suffix = GZIP_SUFFIX if codec == "gzip" else _SUFFIX
    return join(folder.rstrip("/"), metadata_name(predecessor, suffix))


def metadata_name(predecessor: str | None, suffix: str = _SUFFIX) -> str:
    """The name of the next metadata file: a number one higher than the last, and unique.

    Args:
        predecessor: The last metadata file; None if there is none.
        suffix: How the name ends.
    """
    found = None if predecessor is None else _VERSION.fullmatch(predecessor.rpartition("/")[2])
    number = int(found[1]) + 1 if found is not None else 0
    return f"{number:05d}-{uuid.uuid4()}{suffix}"


def metadata_after(
    metadata: TableMetadata,
    location: str,
    requirements: Sequence[TableRequirement],
    updates: Sequence[TableUpdate],
) -> TableMetadata:
    """The metadata after updates.

    Args:
        metadata: The newest metadata.
        location: Its file, which becomes the newest entry of the metadata log.
        requirements: What it must meet.
        updates: What changes.

    Raises:
        ConflictError: It does not meet a requirement, or an update contradicts what another writer did.
        SchemaError: An update does not fit it.
        UnsupportedError: An update is not supported.
    """
    from skerry.iceberg.metadata.applying import apply_updates  # not needed for reading

    for requirement in requirements:
        requirement.check(metadata)
    return apply_updates(metadata, updates, metadata_location=location)
