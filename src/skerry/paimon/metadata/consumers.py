"""Consumers: how far readers of a table's changes have come, which expiry must respect.

Spec: docs/formats/paimon.md § 13.3.
"""

from __future__ import annotations

import json
from typing import Final

from skerry.errors import FormatError, NotFoundError
from skerry.paimon.metadata.file_names import checked_name, named_files
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.snapshot import decode_object
from skerry.storage import Storage

__all__ = ["find_consumer", "least_next_snapshot", "read_consumers", "write_consumer"]

_PREFIX: Final = "consumer-"
_KEY: Final = "nextSnapshot"


def read_consumers(storage: Storage, paths: TablePaths) -> dict[str, int]:
    """The next snapshot to be read by each consumer of a branch, by its name."""
    names = named_files(storage, paths.consumers, _PREFIX)
    found = ((name, find_consumer(storage, paths, name)) for name in names)
    return {name: snapshot_id for name, snapshot_id in found if snapshot_id is not None}


def find_consumer(storage: Storage, paths: TablePaths, name: str) -> int | None:
    """The next snapshot that a consumer will read; None if it does not exist.

    Raises:
        FormatError: The file is corrupt.
    """
    location = paths.consumer(checked_name(name, "consumer"))
    try:
        found = decode_object(storage.read(location), "consumer", location)
    except NotFoundError:
        return None
    snapshot_id = found.get(_KEY)
    if not isinstance(snapshot_id, int) or isinstance(snapshot_id, bool):
        raise FormatError(f"a consumer must have {_KEY!r}, found {snapshot_id!r:.40}", location=location)
    return snapshot_id


def least_next_snapshot(storage: Storage, paths: TablePaths) -> int | None:
    """The oldest snapshot that a consumer has yet to read; None if there are no consumers."""
    return min(read_consumers(storage, paths).values(), default=None)


def write_consumer(storage: Storage, paths: TablePaths, name: str, next_snapshot: int) -> None:
    """Record the next snapshot that a consumer will read."""
    location = paths.consumer(checked_name(name, "consumer"))
    storage.write(location, json.dumps({_KEY: next_snapshot}, indent=2).encode(), overwrite=True)
