"""Table metadata of versions 1, 2 and 3: one frozen record, whatever the version.

Spec: Iceberg spec, Table Metadata Fields, Table Metadata and Snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from skerry.errors import FormatError, SchemaError
from skerry.iceberg.metadata.json_records import JsonRecord, json_of
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef
from skerry.iceberg.metadata.sort_order import SortOrder
from skerry.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile

__all__ = [
    "DATA_KEY_LENGTH",
    "NO_SNAPSHOT",
    "RULE",
    "SUPPORTED_VERSIONS",
    "TABLE_KEY_ID",
    "VERSION_WITH_ROW_IDS",
    "EncryptedKey",
    "TableMetadata",
    "data_key_bytes",
]

SUPPORTED_VERSIONS: Final = (1, 2, 3)
RULE: Final = "Iceberg spec, Table Metadata Fields"
TABLE_KEY_ID: Final = "encryption.key-id"
"""The table property that names the table's key in the key management."""
DATA_KEY_LENGTH: Final = "encryption.data-key-length"
"""The table property that says how many bytes the keys of files have."""
NO_SNAPSHOT: Final = -1
"""Stands for no current snapshot in metadata of versions 1 and 2."""
VERSION_WITH_ROW_IDS: Final = 3
"""The first format version whose rows have ids."""


def data_key_bytes(properties: Mapping[str, str]) -> int | None:
    """How long the keys of a table's new files are, in bytes; None if they are not encrypted.

    Raises:
        SchemaError: There are no keys of that length.

    Spec: Iceberg properties, `encryption.data-key-length`.
    """
    if TABLE_KEY_ID not in properties:
        return None
    text = properties.get(DATA_KEY_LENGTH, "16").strip()
    if text not in ("16", "24", "32"):
        raise SchemaError(f"table property {DATA_KEY_LENGTH} must be 16, 24 or 32, found {text!r}")
    return int(text)


class EncryptedKey(JsonRecord, frozen=True, kw_only=True):
    """A key that other keys or metadata are encrypted with.

    Args:
        key_id: Its id.
        encrypted_key_metadata: The encrypted key and metadata, in Base64.
        encrypted_by_id: The key that it is encrypted with.
        properties: Further properties.

    Spec: Iceberg spec, Encryption Keys.
    """

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TableMetadata:
    """The state of a table, as its metadata file describes it.

    Args:
        format_version: 1, 2 or 3.
        table_uuid: The table's identity; None in some tables of version 1.
        location: The table's folder.
        last_sequence_number: The highest assigned sequence number; 0 in version 1.
        last_updated_ms: When this state was created, in milliseconds since 1970.
        last_column_id: The highest assigned field id.
        schemas: All schemas.
        current_schema_id: The id of the current one.
        partition_specs: All partition specs.
        default_spec_id: The id of the one for new files.
        last_partition_id: The highest assigned id of a partition field.
        properties: The table properties.
        current_snapshot_id: The tip of `main`; None without snapshots.
        snapshots: All snapshots that have not expired.
        snapshot_log: Which snapshots were current, and since when.
        metadata_log: Earlier metadata files.
        sort_orders: All sort orders.
        default_sort_order_id: The id of the one for new files.
        refs: Branches and tags by name.
        statistics: Statistics files of snapshots.
        partition_statistics: Partition statistics files of snapshots.
        next_row_id: The next unassigned row id (version 3).
        encryption_keys: Encrypted keys (version 3).
        unknown: Fields that the specification does not know, as JSON; they are written back.
    """

    format_version: int
    table_uuid: UUID | None
    location: str
    last_sequence_number: int = 0
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int
    last_partition_id: int
    properties: Mapping[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    sort_orders: tuple[SortOrder, ...]
    default_sort_order_id: int
    refs: Mapping[str, SnapshotRef] = field(default_factory=dict)
    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int | None = None
    encryption_keys: tuple[EncryptedKey, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)
    _snapshots_by_id: Mapping[int, Snapshot] | None = field(init=False, default=None, repr=False, compare=False)

    def schema(self) -> Schema:
        """The current schema."""
        return self._by_id(self.schema_by_id(self.current_schema_id), "current-schema-id", self.current_schema_id)

    def schema_by_id(self, schema_id: int) -> Schema | None:
        """The schema of that id, if there is one."""
        return next((found for found in self.schemas if found.schema_id == schema_id), None)

    def spec(self) -> PartitionSpec:
        """The partition spec for new files."""
        return self._by_id(self.specs().get(self.default_spec_id), "default-spec-id", self.default_spec_id)

    def specs(self) -> dict[int, PartitionSpec]:
        """All partition specs by id."""
        return {found.spec_id: found for found in self.partition_specs}

    def sort_order(self) -> SortOrder:
        """The sort order for new files."""
        found = self.sort_order_by_id(self.default_sort_order_id)
        return self._by_id(found, "default-sort-order-id", self.default_sort_order_id)

    def sort_order_by_id(self, order_id: int) -> SortOrder | None:
        """The sort order of that id, if there is one."""
        return next((found for found in self.sort_orders if found.order_id == order_id), None)

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that id, if there is one."""
        known = self._snapshots_by_id
        if known is None:  # most states between two updates are never asked
            known = {found.snapshot_id: found for found in self.snapshots}
            object.__setattr__(self, "_snapshots_by_id", known)
        return known.get(snapshot_id)

    def current_snapshot(self) -> Snapshot | None:
        """The tip of `main`; None without snapshots."""
        return None if self.current_snapshot_id is None else self.snapshot_by_id(self.current_snapshot_id)

    @property
    def is_encrypted(self) -> bool:
        """Whether any file of the table may be encrypted."""
        return (
            TABLE_KEY_ID in self.properties
            or bool(self.encryption_keys)
            or any(snapshot.key_id is not None for snapshot in self.snapshots)
        )

    def to_json(self) -> dict[str, Any]:
        """The object of a metadata file; that of version 1 also has the fields that older readers use.

        Spec: Iceberg spec, Table Metadata Fields.
        """
        absent = None if self.format_version >= VERSION_WITH_ROW_IDS else NO_SNAPSHOT
        written: dict[str, Any] = {
            "format-version": self.format_version,
            "table-uuid": None if self.table_uuid is None else str(self.table_uuid),
            "location": self.location,
            "last-sequence-number": self.last_sequence_number if self.format_version > 1 else None,
            "last-updated-ms": self.last_updated_ms,
            "last-column-id": self.last_column_id,
            "schema": self.schema().to_json() if self.format_version == 1 else None,
            "current-schema-id": self.current_schema_id,
            "schemas": json_of(self.schemas),
            "partition-spec": json_of(self.spec().fields) if self.format_version == 1 else None,
            "default-spec-id": self.default_spec_id,
            "partition-specs": json_of(self.partition_specs),
            "last-partition-id": self.last_partition_id,
            "default-sort-order-id": self.default_sort_order_id,
            "sort-orders": json_of(self.sort_orders),
            "properties": self.properties,
            "next-row-id": self.next_row_id,
            "encryption-keys": json_of(self.encryption_keys) or None,
        }
        return {
            **{name: value for name, value in written.items() if value is not None},
            "current-snapshot-id": absent if self.current_snapshot_id is None else self.current_snapshot_id,
            "refs": {name: ref.to_json() for name, ref in self.refs.items()},
            "snapshots": json_of(self.snapshots),
            "statistics": json_of(self.statistics),
            "partition-statistics": json_of(self.partition_statistics),
            "snapshot-log": json_of(self.snapshot_log),
            "metadata-log": json_of(self.metadata_log),
            **self.unknown,
        }

    @staticmethod
    def _by_id(found: Any, name: str, number: int) -> Any:
        if found is None:
            raise FormatError(f"{name}: there is no {number}", rule=RULE)
        return found
