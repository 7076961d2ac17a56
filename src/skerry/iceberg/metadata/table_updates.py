"""Updates of table metadata, as commits send them to catalogs.

Spec: Iceberg REST specification, `TableUpdate`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

from skerry.iceberg.metadata.json_records import json_of
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import Snapshot, SnapshotRef, SnapshotRefType
from skerry.iceberg.metadata.sort_order import SortOrder
from skerry.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from skerry.iceberg.metadata.table_metadata import EncryptedKey

__all__ = [
    "LAST_ADDED",
    "AddEncryptionKeyUpdate",
    "AddPartitionSpecUpdate",
    "AddSchemaUpdate",
    "AddSnapshotUpdate",
    "AddSortOrderUpdate",
    "AssignUUIDUpdate",
    "RemoveEncryptionKeyUpdate",
    "RemovePartitionSpecsUpdate",
    "RemovePartitionStatisticsUpdate",
    "RemovePropertiesUpdate",
    "RemoveSchemasUpdate",
    "RemoveSnapshotRefUpdate",
    "RemoveSnapshotsUpdate",
    "RemoveStatisticsUpdate",
    "SetCurrentSchemaUpdate",
    "SetDefaultSortOrderUpdate",
    "SetDefaultSpecUpdate",
    "SetLocationUpdate",
    "SetPartitionStatisticsUpdate",
    "SetPropertiesUpdate",
    "SetSnapshotRefUpdate",
    "SetStatisticsUpdate",
    "TableUpdate",
    "UpgradeFormatVersionUpdate",
]

LAST_ADDED: Final = -1
"""Stands for the id of the schema, spec or order that an earlier update of the commit added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpdate:
    """A change of table metadata."""

    action: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The update as a catalog receives it."""
        fields = {part.name.replace("_", "-"): getattr(self, part.name) for part in dataclasses.fields(self)}
        return {"action": self.action, **{name: json_of(value) for name, value in fields.items() if value is not None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignUUIDUpdate(TableUpdate):
    """Gives the table its identity.

    Args:
        uuid: The identity.
    """

    action = "assign-uuid"
    uuid: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeFormatVersionUpdate(TableUpdate):
    """Upgrades the format version.

    Args:
        format_version: The new version.
    """

    action = "upgrade-format-version"
    format_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSchemaUpdate(TableUpdate):
    """Adds a schema.

    Args:
        schema: The schema.
        last_column_id: The highest assigned field id afterwards; deprecated, never below that of the schema.
    """

    action = "add-schema"
    schema: Schema
    last_column_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCurrentSchemaUpdate(TableUpdate):
    """Makes a schema the current one.

    Args:
        schema_id: Its id, or `LAST_ADDED`.
    """

    action = "set-current-schema"
    schema_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionSpecUpdate(TableUpdate):
    """Adds a partition spec.

    Args:
        spec: The spec.
    """

    action = "add-spec"
    spec: PartitionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefaultSpecUpdate(TableUpdate):
    """Makes a partition spec the one for new files.

    Args:
        spec_id: Its id, or `LAST_ADDED`.
    """

    action = "set-default-spec"
    spec_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSortOrderUpdate(TableUpdate):
    """Adds a sort order.

    Args:
        sort_order: The order.
    """

    action = "add-sort-order"
    sort_order: SortOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefaultSortOrderUpdate(TableUpdate):
    """Makes a sort order the one for new files.

    Args:
        sort_order_id: Its id, or `LAST_ADDED`.
    """

    action = "set-default-sort-order"
    sort_order_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSnapshotUpdate(TableUpdate):
    """Adds a snapshot, whose sequence number and row ids come after all others.

    Args:
        snapshot: The snapshot.
    """

    action = "add-snapshot"
    snapshot: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSnapshotRefUpdate(TableUpdate):
    """Creates, moves or changes a branch or tag.

    Args:
        ref_name: Its name.
        type: Branch or tag.
        snapshot_id: The snapshot that it refers to.
        max_ref_age_ms: How old it may become.
        max_snapshot_age_ms: How old snapshots of a branch may become.
        min_snapshots_to_keep: How many snapshots of a branch are kept, however old.
    """

    action = "set-snapshot-ref"
    ref_name: str
    type: SnapshotRefType
    snapshot_id: int
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None

    @property
    def ref(self) -> SnapshotRef:
        """The branch or tag."""
        return SnapshotRef(
            snapshot_id=self.snapshot_id,
            snapshot_ref_type=self.type,
            min_snapshots_to_keep=self.min_snapshots_to_keep,
            max_snapshot_age_ms=self.max_snapshot_age_ms,
            max_ref_age_ms=self.max_ref_age_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSnapshotsUpdate(TableUpdate):
    """Removes snapshots with their statistics, and history entries up to the last removed one.

    Args:
        snapshot_ids: Their ids.
    """

    action = "remove-snapshots"
    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSnapshotRefUpdate(TableUpdate):
    """Removes a branch or tag.

    Args:
        ref_name: Its name.
    """

    action = "remove-snapshot-ref"
    ref_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLocationUpdate(TableUpdate):
    """Sets the table's folder.

    Args:
        location: The folder.
    """

    action = "set-location"
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPropertiesUpdate(TableUpdate):
    """Sets table properties.

    Args:
        updates: The properties.
    """

    action = "set-properties"
    updates: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePropertiesUpdate(TableUpdate):
    """Removes table properties.

    Args:
        removals: Their names.
    """

    action = "remove-properties"
    removals: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStatisticsUpdate(TableUpdate):
    """Registers the statistics file of a snapshot, instead of an earlier one.

    Args:
        statistics: The file.
        snapshot_id: The snapshot; deprecated, the file names it.
    """

    action = "set-statistics"
    statistics: StatisticsFile
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveStatisticsUpdate(TableUpdate):
    """Removes the statistics file of a snapshot.

    Args:
        snapshot_id: The snapshot.
    """

    action = "remove-statistics"
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPartitionStatisticsUpdate(TableUpdate):
    """Registers the partition statistics file of a snapshot, instead of an earlier one.

    Args:
        partition_statistics: The file.
    """

    action = "set-partition-statistics"
    partition_statistics: PartitionStatisticsFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePartitionStatisticsUpdate(TableUpdate):
    """Removes the partition statistics file of a snapshot.

    Args:
        snapshot_id: The snapshot.
    """

    action = "remove-partition-statistics"
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePartitionSpecsUpdate(TableUpdate):
    """Removes partition specs that no file uses.

    Args:
        spec_ids: Their ids.
    """

    action = "remove-partition-specs"
    spec_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSchemasUpdate(TableUpdate):
    """Removes schemas that no snapshot uses.

    Args:
        schema_ids: Their ids.
    """

    action = "remove-schemas"
    schema_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddEncryptionKeyUpdate(TableUpdate):
    """Adds an encrypted key.

    Args:
        encryption_key: The key.
    """

    action = "add-encryption-key"
    encryption_key: EncryptedKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveEncryptionKeyUpdate(TableUpdate):
    """Removes an encrypted key.

    Args:
        key_id: Its id.
    """

    action = "remove-encryption-key"
    key_id: str
