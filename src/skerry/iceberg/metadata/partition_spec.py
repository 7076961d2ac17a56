"""Partition specs: how partition values are derived from columns.

Spec: Iceberg spec, Partitioning, Appendix C, Partition Evolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.transforms import Transform, parse_transform

__all__ = [
    "PARTITION_FIELD_ID_START",
    "UNPARTITIONED_PARTITION_SPEC",
    "PartitionField",
    "PartitionSpec",
    "partition_fields",
    "source_ids",
]

PARTITION_FIELD_ID_START: Final = 1000
"""The first id of partition fields; those of version 1 that have none are numbered from here."""

_FIELD_NAMES: Final = frozenset({"source-id", "source-ids", "field-id", "transform", "name"})
_SPEC_NAMES: Final = frozenset({"spec-id", "fields"})


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field of partition tuples.

    Args:
        source_id: The id of the column that it is derived from, the first one of several.
        field_id: Its own id, unique among all specs of the table.
        transform: How it is derived.
        name: Its name.
        source_ids: The ids of all columns of a transform with several arguments; else empty.
        unknown: Entries of its JSON object that this library does not know.
    """

    source_id: int
    field_id: int
    transform: Transform
    name: str
    source_ids: tuple[int, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def sources(self) -> tuple[int, ...]:
        """The ids of the columns that it is derived from."""
        return self.source_ids or (self.source_id,)

    @staticmethod
    def from_json(item: JsonObject, *, default_id: int | None = None) -> PartitionField:
        """Read a field.

        Args:
            item: Its object.
            default_id: The id of a field that has none, in version 1; None where there must be one.

        Raises:
            FormatError: An entry is missing or of the wrong type.
        """
        first, all_ids = source_ids(item)
        return PartitionField(
            first,
            item.integer("field-id", *(() if default_id is None else (default_id,))),
            parse_transform(item.text("transform")),
            item.text("name"),
            all_ids,
            item.unknown(_FIELD_NAMES),
        )

    def to_json(self) -> dict[str, Any]:
        """The field as in metadata."""
        sources = {"source-ids": list(self.source_ids)} if self.source_ids else {"source-id": self.source_id}
        return {
            **sources,
            "field-id": self.field_id,
            "transform": str(self.transform),
            "name": self.name,
            **self.unknown,
        }

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.sources))
        return f"{self.field_id}: {self.name}: {self.transform}({arguments})"


def source_ids(item: JsonObject) -> tuple[int, tuple[int, ...]]:
    """The source of a partition field or sort field: the first column's id, and all ids if there are several.

    Raises:
        FormatError: There is none.

    Spec: Iceberg spec, Appendix C, Partition Specs: `source-ids` of version 3.
    """
    if item.value.get("source-ids") is None:
        return item.integer("source-id"), ()
    several = item.integers("source-ids")
    if not several:
        raise item.error("source-ids", "is empty")
    return several[0], several if len(several) > 1 else ()


@dataclass(frozen=True, slots=True, init=False)
class PartitionSpec:
    """The fields of the partition tuples of some of a table's files.

    Args:
        fields: The fields, in their order.
        spec_id: Its id.
        unknown: Entries of its JSON object that this library does not know.
    """

    fields: tuple[PartitionField, ...]
    spec_id: int
    unknown: Mapping[str, Any] = field(compare=False, repr=False)

    def __init__(self, *fields: PartitionField, spec_id: int = 0, unknown: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "spec_id", spec_id)
        object.__setattr__(self, "unknown", unknown or {})

    @staticmethod
    def from_json(item: JsonObject) -> PartitionSpec:
        """Read a spec; one of version 1 without an id has 0, and its fields without ids are numbered.

        Raises:
            FormatError: An entry is missing or of the wrong type, or two fields have the same id.
        """
        fields = partition_fields(item, "fields")
        return PartitionSpec(*fields, spec_id=item.integer("spec-id", 0), unknown=item.unknown(_SPEC_NAMES))

    def to_json(self) -> dict[str, Any]:
        """The spec as in metadata."""
        return {"spec-id": self.spec_id, "fields": [one.to_json() for one in self.fields], **self.unknown}

    def is_unpartitioned(self) -> bool:
        """Whether it has no fields."""
        return not self.fields

    @property
    def last_assigned_field_id(self) -> int:
        """The greatest id of its fields; 999 without fields."""
        return max((known.field_id for known in self.fields), default=PARTITION_FIELD_ID_START - 1)


UNPARTITIONED_PARTITION_SPEC: Final = PartitionSpec(spec_id=0)


def partition_fields(item: JsonObject, name: str) -> tuple[PartitionField, ...]:
    """Read an array of partition fields, as in a spec, in metadata of version 1 and in manifests.

    Args:
        item: The object that has the array.
        name: The array's name.

    Raises:
        FormatError: It is missing, an entry is missing or of the wrong type, or two fields have the same id.
    """
    fields = tuple(
        PartitionField.from_json(one, default_id=PARTITION_FIELD_ID_START + number)
        for number, one in enumerate(item.objects(name, required=True))
    )
    if len({known.field_id for known in fields}) < len(fields):
        raise item.error(name, "two partition fields have the same id")
    return fields
