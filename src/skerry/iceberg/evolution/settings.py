"""Changes of a table's settings: properties, sort order, format version.

Spec: Iceberg spec, Table Metadata Fields, Sorting, Appendix E.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from skerry.errors import NotFoundError, SchemaError
from skerry.iceberg.evolution.property_checks import check_properties
from skerry.iceberg.metadata.requirements import AssertCurrentSchemaId, AssertDefaultSortOrderId
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_updates import (
    AddSortOrderUpdate,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    SetDefaultSortOrderUpdate,
    SetPropertiesUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from skerry.iceberg.operations import MetadataChange
from skerry.iceberg.partitioning.sorting import sort_order
from skerry.iceberg.writing.file_writers import AMUDAI, wants_shards
from skerry.table.commit import RetryPolicy
from skerry.table.rows.schema import nearest

__all__ = ["ChangeProperties", "ChangeSortOrder", "Upgrade"]

_LATEST_VERSION = 3
# Names that Iceberg derives from the metadata and never stores as properties, with what changes them.
_RESERVED = {
    "format-version": "upgrade(format_version)",
    "uuid": "nothing",
    "snapshot-count": "nothing",
    "current-snapshot-summary": "a commit",
    "current-snapshot-id": "a commit",
    "current-snapshot-timestamp-ms": "a commit",
    "current-schema": "update_schema()",
    "default-partition-spec": "update_spec()",
    "default-sort-order": "update_sort_order()",
}


@dataclass(frozen=True, slots=True)
class ChangeProperties:
    """Set and remove table properties.

    Args:
        updates: Values to set.
        removals: Names to remove.
    """

    updates: Mapping[str, str]
    removals: tuple[str, ...] = ()

    def retry(self, base: TableState) -> RetryPolicy:
        """How to retry the change: as the properties say once it is made, so that a wrong value can be removed."""
        try:
            return RetryPolicy.from_properties(self._made_to(base))
        except SchemaError:
            return RetryPolicy()

    def _made_to(self, base: TableState) -> dict[str, str]:
        kept = {name: value for name, value in base.properties.items() if name not in self.removals}
        return {**kept, **self.updates}

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change; None if nothing changes.

        Raises:
            NotFoundError: A property to remove is not set.
            SchemaError: A name is reserved, or a property that skerry uses has an invalid value.
        """
        for name in self.updates:
            if name in _RESERVED:
                raise SchemaError(f"{name!r} cannot be set as a property; {_RESERVED[name]} changes it")
        before = base.properties
        for name in self.removals:
            if name not in before:
                raise NotFoundError(f"no table property {name!r}{nearest(name, before)}", location=base.name)
        after = self._made_to(base)
        if wants_shards(after) and not wants_shards(before):
            raise SchemaError(
                "write.format.default cannot become amudai: other engines fail on a table that contains a shard; "
                f"create a table with file_format={AMUDAI!r}",
                location=base.name,
            )
        check_properties(after, base.schema, before)
        updates: list[TableUpdate] = []
        changed = {name: value for name, value in self.updates.items() if before.get(name) != value}
        if self.removals:
            updates.append(RemovePropertiesUpdate(removals=tuple(self.removals)))
        if changed:
            updates.append(SetPropertiesUpdate(updates=changed))
        return MetadataChange(tuple(updates)) if updates else None


@dataclass(frozen=True, slots=True)
class ChangeSortOrder:
    """Set the sort order of new files.

    Args:
        fields: The order as `skerry.iceberg.partitioning.sorting.sort_order` reads it; none for unsorted files.
    """

    fields: tuple[str, ...]

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change; an order that the table had before is reused with its id.

        Raises:
            SchemaError: A column or transform does not fit.
        """
        metadata = base.metadata
        next_id = max((known.order_id for known in metadata.sort_orders), default=0) + 1
        wanted = sort_order(metadata.schema(), self.fields, order_id=next_id)
        if wanted.fields == metadata.sort_order().fields:
            return None
        known = next((known for known in metadata.sort_orders if known.fields == wanted.fields), None)
        added = () if known is not None else (AddSortOrderUpdate(sort_order=wanted),)
        order_id = known.order_id if known is not None else wanted.order_id
        return MetadataChange(
            (*added, SetDefaultSortOrderUpdate(sort_order_id=order_id)),
            (
                AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id),
                AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
            ),
        )


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Upgrade the format version.

    Data files and manifests stay as they are. From version 3 on rows have ids: `next-row-id` begins at 0, and older
    files get theirs from the next snapshot. A table of version 1 that has no identity gets one.

    Args:
        format_version: 2 or 3.
    """

    format_version: int

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change; None if the table has that version.

        Raises:
            SchemaError: The version is unknown, or lower than the table's.
        """
        now = base.metadata.format_version
        if self.format_version not in range(1, _LATEST_VERSION + 1):
            raise SchemaError(f"format_version must be 1 to {_LATEST_VERSION}, found {self.format_version!r}")
        if self.format_version < now:
            raise SchemaError(f"the table has format version {now} and cannot be downgraded to {self.format_version}")
        if self.format_version == now:
            return None
        upgrade = UpgradeFormatVersionUpdate(format_version=self.format_version)
        if base.metadata.table_uuid is None:  # optional in version 1 only
            return MetadataChange((AssignUUIDUpdate(uuid=uuid.uuid4()), upgrade))
        return MetadataChange((upgrade,))
