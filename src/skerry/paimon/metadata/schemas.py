"""The folder of schema files: listing them, finding the newest, adding one.

Spec: docs/formats/paimon.md § 1.1, § 2.1; Paimon spec, Schema.
"""

from __future__ import annotations

import time
from typing import Final

from skerry.errors import FormatError, NotFoundError
from skerry.paimon.metadata.numbered_files import numbered_files
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.published_file import publish_file
from skerry.paimon.metadata.schema import TableSchema, decode_schema, encode_schema
from skerry.storage import Storage, local_path
from skerry.table.work.remembered import Remembered, version_of

__all__ = ["create_schema", "latest_schema", "read_schema", "schema_ids"]

_PREFIX = "schema-"


def schema_ids(storage: Storage, paths: TablePaths) -> list[int]:
    """The ids of the schemas of a branch, ascending; empty if the branch does not exist."""
    return numbered_files(storage, paths.schemas, _PREFIX)


def latest_schema(storage: Storage, paths: TablePaths) -> TableSchema:
    """The newest schema of a branch.

    Raises:
        NotFoundError: The table or branch does not exist.
        FormatError: The file is corrupt.
        UnsupportedError: Its version, or a type in it, is unknown.
    """
    ids = schema_ids(storage, paths)
    if not ids:
        raise NotFoundError("the Paimon table or branch does not exist: it has no schema file", location=paths.schemas)
    return read_schema(storage, paths, ids[-1])


def read_schema(storage: Storage, paths: TablePaths, schema_id: int) -> TableSchema:
    """The schema of an id.

    Raises:
        NotFoundError: It does not exist.
        FormatError: The file is corrupt.
        UnsupportedError: Its version, or a type in it, is unknown.
    """
    location = paths.schema(schema_id)
    version = _settled_version(storage, location)
    known = None if version is None else _KNOWN.find((location, version))
    if known is not None:
        return known
    schema = decode_schema(storage.read(location), location=location)
    if schema.id != schema_id:
        raise FormatError(f"the schema's id is {schema.id}, expected {schema_id} by its file name", location=location)
    return schema if version is None else _KNOWN.keep((location, version), schema)


def _settled_version(storage: Storage, location: str) -> tuple[int, int] | None:
    """The version of a local file; None of one so new that another file of its name could have the same."""
    found = None if local_path(location) is None else version_of(storage, location)
    return found if isinstance(found, tuple) and found[0] < time.time_ns() - _CLOCK_NS else None


_CLOCK_NS: Final = 100_000_000
"""Longer than the clocks of file systems stand still: many count in ticks of up to 10 ms."""
_KNOWN: Final[Remembered[tuple[str, object], TableSchema]] = Remembered(256)
"""Schemas in local files, which this process read last; elsewhere, a dropped table's name may come again."""


def create_schema(storage: Storage, paths: TablePaths, schema: TableSchema) -> None:
    """Add a schema, unless another writer was first.

    Raises:
        CommitUnknownError: It may or may not have been added.
        ConflictError: A schema of that id exists.
    """
    publish_file(storage, paths.schema(schema.id), encode_schema(schema), f"schema {schema.id}")
