"""Metadata files of catalogs that keep only their locations: reading, writing, and the metadata after an update.

Spec: Iceberg spec, File System Tables, Metastore Tables.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pydantic import ValidationError as ModelError
from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3, new_table_metadata
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from skerry.errors import ConflictError, NotFoundError, SchemaError, SkerryError
from skerry.iceberg.catalogs.base import NewIcebergTable
from skerry.iceberg.metadata.file_io import inflate_metadata
from skerry.iceberg.metadata.pyiceberg_metadata import encode_metadata, with_legacy_fields
from skerry.iceberg.metadata.reading import unreadable
from skerry.storage import Storage, join

__all__ = [
    "decode_metadata",
    "metadata_after",
    "new_metadata",
    "new_metadata_location",
    "read_metadata",
    "write_metadata",
]

_VERSION: Final = re.compile(r"(\d{1,18})-[0-9a-fA-F-]{36}(?:\.\w+)?\.metadata\.json(?:\.\w+)?")


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
    return decode_metadata(inflate_metadata(data, location=location), location)


def decode_metadata(data: bytes, location: str) -> TableMetadata:
    """Decode the JSON of a metadata file.

    Raises:
        FormatError: It is not table metadata.
        UnsupportedError: Its format version is not supported.
    """
    try:
        return TableMetadataUtil.parse_raw(data.decode("utf-8"))
    except (ValidationError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise unreadable(error, location) from error


def write_metadata(storage: Storage, location: str, metadata: TableMetadata) -> None:
    """Write a new metadata file.

    Raises:
        AlreadyExistsError: There is one of that name.
    """
    if isinstance(metadata, TableMetadataV3):
        data = encode_metadata(metadata)
    else:
        data = with_legacy_fields(metadata).model_dump_json().encode()
    storage.write(location, data)


def new_metadata_location(metadata: TableMetadata, predecessor: str | None = None) -> str:
    """The name of a table's next metadata file: its folder, a number one higher than the last, a unique name."""
    folder = metadata.properties.get("write.metadata.path") or join(metadata.location, "metadata")
    found = None if predecessor is None else _VERSION.fullmatch(predecessor.rpartition("/")[2])
    number = int(found[1]) + 1 if found is not None else 0
    return join(folder.rstrip("/"), f"{number:05d}-{uuid.uuid4()}.metadata.json")


def new_metadata(table: NewIcebergTable, location: str) -> TableMetadata:
    """The metadata of a table that is created, with fresh ids.

    Raises:
        SchemaError: Its parts do not fit together.
    """
    with _refusals():
        return new_table_metadata(
            location=location,
            schema=table.schema,
            partition_spec=table.partition_spec,
            sort_order=table.sort_order,
            properties=dict(table.properties),
        )


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
        ConflictError: It does not meet a requirement.
        SchemaError: An update does not fit it.
    """
    with _refusals():
        for requirement in requirements:
            requirement.validate(metadata)
        return update_table_metadata(metadata, tuple(updates), metadata_location=location)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except SkerryError:
        raise
    except CommitFailedException as error:
        raise ConflictError(str(error)) from error
    except (ModelError, ValidationError, ValueError, KeyError, TypeError) as error:
        raise SchemaError(f"the table cannot be changed so: {' '.join(str(error).split())[:300]}") from error
