"""The ancestors of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from skerry.errors import FormatError
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.table_metadata import TableMetadata

__all__ = ["ancestors", "is_ancestor"]


def ancestors(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, newest first, up to the first that has expired.

    Raises:
        FormatError: A snapshot is its own ancestor.
    """
    seen: set[int] = set()
    while snapshot is not None:
        if snapshot.snapshot_id in seen:
            raise FormatError(f"snapshot {snapshot.snapshot_id} is its own ancestor", location=metadata.location)
        seen.add(snapshot.snapshot_id)
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = metadata.snapshot_by_id(parent) if parent is not None else None


def is_ancestor(metadata: TableMetadata, snapshot: Snapshot | None, ancestor_id: int) -> bool:
    """Whether a snapshot is the snapshot of that id or descends from it."""
    return any(found.snapshot_id == ancestor_id for found in ancestors(metadata, snapshot))
