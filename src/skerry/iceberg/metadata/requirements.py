"""What a commit requires of the metadata that it changes.

Spec: Iceberg REST specification, `TableRequirement`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from skerry.errors import ConflictError
from skerry.iceberg.metadata.json_records import json_of
from skerry.iceberg.metadata.table_metadata import TableMetadata

__all__ = [
    "AssertCreate",
    "AssertCurrentSchemaId",
    "AssertDefaultSortOrderId",
    "AssertDefaultSpecId",
    "AssertLastAssignedFieldId",
    "AssertLastAssignedPartitionId",
    "AssertRefSnapshotId",
    "AssertTableUUID",
    "TableRequirement",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequirement:
    """A condition that a table's metadata must satisfy."""

    type: ClassVar[str]

    def check(self, metadata: TableMetadata | None) -> None:
        """Check it.

        Args:
            metadata: The newest state; None if there is no table.

        Raises:
            ConflictError: It is not satisfied: another writer was first.
        """
        if metadata is None:
            raise ConflictError("the table does not exist")
        self._check(metadata)

    def _check(self, metadata: TableMetadata) -> None:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """The requirement as a catalog receives it."""
        fields = {part.name.replace("_", "-"): getattr(self, part.name) for part in dataclasses.fields(self)}
        return {"type": self.type, **{name: json_of(value) for name, value in fields.items()}}


def _require(what: str, expected: object, found: object) -> None:
    if expected != found:
        raise ConflictError(f"{what} has changed: expected {expected}, found {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertCreate(TableRequirement):
    """There is no table of that name."""

    type = "assert-create"

    def check(self, metadata: TableMetadata | None) -> None:
        """Check it.

        Raises:
            ConflictError: There is one.
        """
        if metadata is not None:
            raise ConflictError("the table already exists")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertTableUUID(TableRequirement):
    """The table is the same.

    Args:
        uuid: Its identity.
    """

    type = "assert-table-uuid"
    uuid: UUID

    def _check(self, metadata: TableMetadata) -> None:
        _require("the table's uuid", self.uuid, metadata.table_uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertRefSnapshotId(TableRequirement):
    """A branch or tag has not changed.

    Args:
        ref: Its name.
        snapshot_id: Its snapshot; None if it does not exist.
    """

    type = "assert-ref-snapshot-id"
    ref: str
    snapshot_id: int | None = None

    def _check(self, metadata: TableMetadata) -> None:
        known = metadata.refs.get(self.ref)
        found = None if known is None else known.snapshot_id
        _require(f"branch or tag {self.ref!r}", self.snapshot_id, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertLastAssignedFieldId(TableRequirement):
    """No field ids were assigned.

    Args:
        last_assigned_field_id: The highest one.
    """

    type = "assert-last-assigned-field-id"
    last_assigned_field_id: int

    def _check(self, metadata: TableMetadata) -> None:
        _require("the last assigned field id", self.last_assigned_field_id, metadata.last_column_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertCurrentSchemaId(TableRequirement):
    """The current schema is the same.

    Args:
        current_schema_id: Its id.
    """

    type = "assert-current-schema-id"
    current_schema_id: int

    def _check(self, metadata: TableMetadata) -> None:
        _require("the current schema", self.current_schema_id, metadata.current_schema_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertLastAssignedPartitionId(TableRequirement):
    """No ids of partition fields were assigned.

    Args:
        last_assigned_partition_id: The highest one.
    """

    type = "assert-last-assigned-partition-id"
    last_assigned_partition_id: int

    def _check(self, metadata: TableMetadata) -> None:
        _require("the last assigned partition id", self.last_assigned_partition_id, metadata.last_partition_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertDefaultSpecId(TableRequirement):
    """The partition spec for new files is the same.

    Args:
        default_spec_id: Its id.
    """

    type = "assert-default-spec-id"
    default_spec_id: int

    def _check(self, metadata: TableMetadata) -> None:
        _require("the default partition spec", self.default_spec_id, metadata.default_spec_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertDefaultSortOrderId(TableRequirement):
    """The sort order for new files is the same.

    Args:
        default_sort_order_id: Its id.
    """

    type = "assert-default-sort-order-id"
    default_sort_order_id: int

    def _check(self, metadata: TableMetadata) -> None:
        _require("the default sort order", self.default_sort_order_id, metadata.default_sort_order_id)
