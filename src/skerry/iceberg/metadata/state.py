"""One published state of an Iceberg table: its metadata and its origin."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from skerry.errors import NotFoundError, SchemaError
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import Snapshot, SnapshotRefType
from skerry.iceberg.metadata.statistics_file import StatisticsFile
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.iceberg.metadata.transforms import VoidTransform
from skerry.storage import Storage, is_within, join
from skerry.table.files.locations import OUTSIDE_PROPERTY
from skerry.table.history import MAIN
from skerry.table.rows.schema import leaves, nearest

__all__ = ["MAIN", "TableState"]


@dataclass(frozen=True)
class TableState:
    """A table's metadata as loaded from the catalog, immutable.

    Args:
        name: Namespace and table name, dotted.
        metadata: The table's metadata.
        metadata_location: The metadata file.
        storage: Access to the table's files, with the credentials that the catalog vended for it.
        config: What the catalog gave for this table alone, such as temporary credentials.
    """

    name: str
    metadata: TableMetadata
    metadata_location: str
    storage: Storage = field(repr=False)
    config: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def schema(self) -> pa.Schema:
        """The current schema as Arrow, with field ids."""
        return to_arrow_schema(self.metadata.schema())

    @cached_property
    def remembered(self) -> dict[Hashable, Any]:
        """What layers above know of this state, and would find out again: it never changes."""
        return {}

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec for new files."""
        return self.metadata.spec()

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return dict(self.metadata.properties)

    @cached_property
    def metadata_folder(self) -> str:
        """The folder of metadata and statistics files (`write.metadata.path`, else `<location>/metadata`)."""
        return self.metadata.properties.get("write.metadata.path") or join(self.metadata.location, "metadata")

    @cached_property
    def data_folder(self) -> str:
        """The folder of data files (`write.data.path`, else `<location>/data`)."""
        return self.metadata.properties.get("write.data.path") or join(self.metadata.location, "data")

    @cached_property
    def roots(self) -> tuple[str, ...] | None:
        """The folders that must contain the table's files; None if the table allows any location."""
        if self.properties.get(OUTSIDE_PROPERTY, "false").lower() == "true":
            return None
        return tuple(dict.fromkeys((self.metadata.location, self.data_folder, self.metadata_folder)))

    @cached_property
    def readable_roots(self) -> tuple[str, ...] | None:
        """The folders from which files are read: the table's own, and those that the reader allows."""
        return None if self.roots is None else (*self.roots, *self.storage.allowed_locations)

    def statistics_file(self, snapshot_id: int) -> StatisticsFile | None:
        """The statistics file that is registered for a snapshot; one at a forbidden location is ignored.

        So is an encrypted one: nobody writes them so far.
        """
        for file in self.metadata.statistics:
            if file.snapshot_id == snapshot_id and file.key_metadata is None:
                roots = self.readable_roots
                is_inside = roots is None or any(is_within(root, file.statistics_path) for root in roots)
                return file if is_inside else None
        return None

    def column_types(self, schema_id: int | None) -> dict[int, pa.DataType]:
        """Types of the primitive columns by field id, in the schema of that id or in the current one."""
        types = self._column_types.get(schema_id)
        if types is None:
            known = self.metadata.schema() if schema_id is None else self.metadata.schema_by_id(schema_id)
            columns = leaves(to_arrow_schema(known)) if known is not None else []
            types = self._column_types[schema_id] = {column.field_id: column.type for column in columns}
        return types

    def retyped_columns(self, schema_ids: Iterable[int]) -> frozenset[int]:
        """Field ids of the current columns that some other schemas do not have with the same type."""
        current = self.metadata.current_schema_id
        now = self.column_types(current)
        return frozenset(
            field_id
            for schema_id in schema_ids
            if schema_id != current
            for field_id, type_ in now.items()
            if self.column_types(schema_id).get(field_id) != type_
        )

    @cached_property
    def _column_types(self) -> dict[int | None, dict[int, pa.DataType]]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    def schema_with(self, spec: PartitionSpec) -> Schema:
        """The newest schema that has all columns of a partition spec, which may have been dropped since."""
        fields = [field for field in spec.fields if not isinstance(field.transform, VoidTransform)]
        sources = [number for field in fields for number in field.sources]
        current = self.metadata.schema()
        older = sorted(self.metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
        for schema in (current, *older):
            if all(schema.find_column_name(number) is not None for number in sources):
                return schema
        return current

    def snapshot(self, ref: str = MAIN) -> Snapshot | None:
        """The snapshot at the tip of a branch or tag; None for a main branch without snapshots.

        Raises:
            NotFoundError: There is no such reference.
        """
        reference = self.metadata.refs.get(ref)
        if reference is None:
            if ref == MAIN:
                return None
            raise NotFoundError(
                f"no branch or tag {ref!r}{nearest(ref, {*self.metadata.refs, MAIN})}", location=self.name
            )
        return self.snapshot_by_id(reference.snapshot_id)

    def branch(self, ref: str) -> Snapshot | None:
        """The tip of a branch before writing to it; None for a main branch without snapshots.

        Raises:
            NotFoundError: There is no such reference.
            SchemaError: It is a tag.
        """
        reference = self.metadata.refs.get(ref)
        if reference is not None and reference.snapshot_ref_type is SnapshotRefType.TAG:
            raise SchemaError(f"{ref!r} is a tag; only branches can be written to or moved")
        return self.snapshot(ref)

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id.

        Raises:
            NotFoundError: The table has no such snapshot; it may have expired.
        """
        snapshot = self.metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise NotFoundError(f"no snapshot {snapshot_id}; it may have expired", location=self.name)
        return snapshot
