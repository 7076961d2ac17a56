"""Partition evolution: fields are added, removed and renamed; existing files keep their spec.

Spec: Iceberg spec, Partition Evolution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from skerry.errors import SchemaError
from skerry.iceberg.metadata.partition_spec import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from skerry.iceberg.metadata.requirements import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertLastAssignedPartitionId,
)
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_updates import AddPartitionSpecUpdate, SetDefaultSpecUpdate, TableUpdate
from skerry.iceberg.metadata.transforms import (
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    VoidTransform,
    YearTransform,
)
from skerry.iceberg.operations import MetadataChange
from skerry.iceberg.partitioning.partitions import partition_spec
from skerry.table.rows.schema import nearest

__all__ = ["ChangeSpec", "SpecDraft", "SpecStep"]

_TIME_PARTS = (YearTransform, MonthTransform, DayTransform, HourTransform)


@dataclass
class SpecDraft:
    """A partition spec that is being changed.

    Args:
        schema: The table's schema.
        fields: The fields so far.
        known: Fields of all specs that the table ever had; an equal field gets its earlier id.
        last_id: The greatest partition field id that the table ever had.
        format_version: The table's.
    """

    schema: Schema
    fields: list[PartitionField]
    known: tuple[PartitionField, ...]
    last_id: int
    format_version: int
    added: set[int] = field(default_factory=set)

    def add(self, text: str) -> None:
        """Append a field.

        Args:
            text: A transform, optionally `… as name`, as `create_table(partition_by=…)` takes it.

        Raises:
            SchemaError: The column or transform does not fit, or the field or name already exists.
        """
        wanted = partition_spec(self.schema, [text]).fields[0]
        for other in self.fields:
            if other.sources == wanted.sources and _says_the_same(other.transform, wanted.transform):
                raise SchemaError(f"{text!r}: partition field {other.name!r} is the same")
        self._free(wanted.name, text)
        field_id = self._field_id(wanted)
        self.fields.append(replace(wanted, field_id=field_id))
        self.added.add(field_id)

    def remove(self, name: str) -> None:
        """Remove a field. In version 1 it is replaced by a void transform, which gives null.

        Spec: Iceberg spec, Partition Evolution: version 1 readers find partition values by position.
        """
        position = self._position(name)
        old = self.fields[position]
        if self.format_version > 1 or old.field_id in self.added:
            del self.fields[position]
        else:
            self.fields[position] = replace(old, transform=VoidTransform())

    def rename(self, name: str, to: str) -> None:
        """Rename a field; its values stay."""
        position = self._position(name)
        old = self.fields[position]
        if to == name:
            return
        if not to:
            raise SchemaError("a partition field needs a name")
        self._free(to, to)
        if to in self.schema.column_names:
            raise SchemaError(f"partition field {name!r} cannot be renamed: {to!r} is the name of a column")
        self.fields[position] = replace(old, name=to)

    def _position(self, name: str) -> int:
        names = [known.name for known in self.fields if not isinstance(known.transform, VoidTransform)]
        for position, known in enumerate(self.fields):
            if known.name == name and not isinstance(known.transform, VoidTransform):
                return position
        raise SchemaError(f"no partition field {name!r}{nearest(name, names)}")

    def _free(self, name: str, text: str) -> None:
        """Ensure that a name is free; a removed field that remains as void gives up its name."""
        for position, other in enumerate(self.fields):
            if other.name != name:
                continue
            if not isinstance(other.transform, VoidTransform):
                raise SchemaError(f"{text!r}: there is a partition field {name!r} already; name it with `… as name`")
            freed = f"{other.name}_{other.field_id}"
            self.fields[position] = replace(other, name=freed)

    def _field_id(self, wanted: PartitionField) -> int:
        in_use = {known.field_id for known in self.fields}
        for known in self.known:
            same = known.sources == wanted.sources and known.transform == wanted.transform
            if same and self.format_version > 1 and known.field_id not in in_use:
                return known.field_id
        self.last_id += 1
        return self.last_id


def _says_the_same(one: Transform, other: Transform) -> bool:
    return one == other or (isinstance(one, _TIME_PARTS) and isinstance(other, _TIME_PARTS))


SpecStep = Callable[[SpecDraft], None]
"""One change of a draft."""


@dataclass(frozen=True, slots=True)
class ChangeSpec:
    """Change the partition spec of new files.

    Args:
        steps: What to change, in this order.
    """

    steps: tuple[SpecStep, ...]

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change; a spec that the table had before is reused with its id.

        Raises:
            SchemaError: A change does not fit the schema or the partition spec as they are now.
        """
        metadata = base.metadata
        last_id = metadata.last_partition_id or PARTITION_FIELD_ID_START - 1
        known = tuple(field for spec in metadata.partition_specs for field in spec.fields)
        draft = SpecDraft(metadata.schema(), list(base.spec.fields), known, last_id, metadata.format_version)
        for step in self.steps:
            step(draft)
        fields = tuple(draft.fields)
        if fields == base.spec.fields:
            return None
        updates: list[TableUpdate] = []
        spec_id = next((spec.spec_id for spec in metadata.partition_specs if spec.fields == fields), None)
        if spec_id is None:
            spec_id = max(spec.spec_id for spec in metadata.partition_specs) + 1
            updates.append(AddPartitionSpecUpdate(spec=PartitionSpec(*fields, spec_id=spec_id)))
        updates.append(SetDefaultSpecUpdate(spec_id=spec_id))
        return MetadataChange(
            tuple(updates),
            (
                AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
                AssertLastAssignedPartitionId(last_assigned_partition_id=metadata.last_partition_id),
                AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
            ),
        )
