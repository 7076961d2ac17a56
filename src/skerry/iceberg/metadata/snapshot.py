"""Snapshots, their log, and the branches and tags that refer to them.

Spec: Iceberg spec, Snapshots, Snapshot References, Table Metadata Fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from skerry.iceberg.metadata.json_records import Int, JsonRecord, Long

__all__ = [
    "MAIN_BRANCH",
    "MetadataLogEntry",
    "Operation",
    "Snapshot",
    "SnapshotId",
    "SnapshotLogEntry",
    "SnapshotRef",
    "SnapshotRefType",
]

MAIN_BRANCH = "main"

SnapshotId = int
"""The id of a snapshot, checked where snapshots are read; others refer to these."""


class Operation(StrEnum):
    """What a snapshot did. Spec: Iceberg spec, Snapshots, `operation`."""

    APPEND = "append"
    REPLACE = "replace"
    OVERWRITE = "overwrite"
    DELETE = "delete"


class SnapshotRefType(StrEnum):
    """The kind of a reference."""

    BRANCH = "branch"
    TAG = "tag"


class Snapshot(JsonRecord, frozen=True, kw_only=True):
    """A state of the table's rows.

    Args:
        snapshot_id: Its id.
        parent_snapshot_id: The snapshot that it was made from; None if it was the first.
        sequence_number: Its place in the order of all commits; None in version 1.
        timestamp_ms: When it was created, in milliseconds since 1970.
        manifest_list: Its manifest list; None in old tables of version 1, which have `manifests`.
        manifests: Locations of its manifests, in old tables of version 1.
        summary: What it changed, with its `operation`.
        schema_id: The schema that was current.
        first_row_id: The row id of the first row in its new manifests (version 3).
        added_rows: The number of row ids that it assigned (version 3).
        key_id: The key that its manifest list's key is encrypted with.
    """

    snapshot_id: SnapshotId
    parent_snapshot_id: SnapshotId | None = None
    sequence_number: Long | None = None
    timestamp_ms: Long
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    summary: Mapping[str, str | int | float | bool | None] | None = None
    schema_id: Int | None = None
    first_row_id: Long | None = None
    added_rows: Long | None = None
    key_id: str | None = None

    @property
    def operation(self) -> Operation | None:
        """What it did; None if it is not recorded, as in old tables of version 1, or unknown."""
        name = None if self.summary is None else self.summary.get("operation")
        return _OPERATIONS.get(name) if isinstance(name, str) else None


_OPERATIONS = {operation.value: operation for operation in Operation}


class SnapshotLogEntry(JsonRecord, frozen=True, kw_only=True):
    """When a snapshot became the current one.

    Args:
        snapshot_id: The snapshot.
        timestamp_ms: The time, in milliseconds since 1970.
    """

    snapshot_id: SnapshotId
    timestamp_ms: Long


class MetadataLogEntry(JsonRecord, frozen=True, kw_only=True):
    """An earlier metadata file.

    Args:
        metadata_file: Its location.
        timestamp_ms: The state's `last-updated-ms`.
    """

    metadata_file: str
    timestamp_ms: Long


class SnapshotRef(JsonRecord, frozen=True, kw_only=True):
    """A branch or tag.

    Args:
        snapshot_id: The snapshot that it refers to.
        snapshot_ref_type: Branch or tag.
        min_snapshots_to_keep: How many snapshots of a branch are kept, however old.
        max_snapshot_age_ms: How old snapshots of a branch may become.
        max_ref_age_ms: How old the reference itself may become.
    """

    snapshot_id: SnapshotId
    snapshot_ref_type: SnapshotRefType = msgspec.field(name="type")
    min_snapshots_to_keep: Int | None = None
    max_snapshot_age_ms: Long | None = None
    max_ref_age_ms: Long | None = None
