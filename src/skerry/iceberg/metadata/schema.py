"""Schemas: a table's columns with their ids, at every depth.

Spec: Iceberg spec, Schemas and Data Types, Appendix C.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from skerry.errors import FormatError, SchemaError
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.type_json import field_from_json, field_to_json
from skerry.iceberg.metadata.types import (
    DoubleType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UnknownType,
    children_of,
)

__all__ = ["Schema", "assign_fresh_schema_ids", "index_by_id"]

_RULE: Final = "Iceberg spec, Schemas and Data Types"
_NAMES: Final = frozenset({"type", "fields", "schema-id", "identifier-field-ids"})


@dataclass(frozen=True, init=False, eq=False)
class Schema:
    """The columns of a table. Schemas are equal if their columns are, whatever their ids.

    Args:
        fields: The columns, in their order.
        schema_id: The schema's id.
        identifier_field_ids: The ids of the columns that identify a row.
        unknown: Entries of its JSON object that this library does not know.

    Raises:
        SchemaError: Two columns have the same id or the same name, or one of type unknown is required.
    """

    fields: tuple[NestedField, ...]
    schema_id: int
    identifier_field_ids: tuple[int, ...]
    unknown: Mapping[str, Any] = field(repr=False)

    def __init__(
        self,
        *fields: NestedField,
        schema_id: int = 0,
        identifier_field_ids: Sequence[int] = (),
        unknown: Mapping[str, Any] | None = None,
    ) -> None:
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "schema_id", schema_id)
        object.__setattr__(self, "identifier_field_ids", tuple(identifier_field_ids))
        object.__setattr__(self, "unknown", unknown or {})
        self._check()

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @staticmethod
    def from_json(item: JsonObject) -> Schema:
        """Read a schema.

        Raises:
            FormatError: An entry is missing or of the wrong type, or columns contradict each other.
            UnsupportedError: A column's type is not known, or nested too deeply.
        """
        kind = item.text("type", "struct")
        if kind != "struct":
            raise item.unexpected("type", "struct")
        try:
            return Schema(
                *[field_from_json(one) for one in item.objects("fields", required=True)],
                schema_id=item.integer("schema-id", 0),
                identifier_field_ids=item.integers("identifier-field-ids"),
                unknown=item.unknown(_NAMES),
            )
        except SchemaError as error:
            raise FormatError(f"{item.at or 'the schema'}: {error.message}", rule=error.rule) from error

    def to_json(self) -> dict[str, Any]:
        """The schema as in metadata."""
        return {
            "type": "struct",
            "schema-id": self.schema_id,
            **({"identifier-field-ids": list(self.identifier_field_ids)} if self.identifier_field_ids else {}),
            "fields": [field_to_json(column) for column in self.fields],
            **self.unknown,
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self.fields == other.fields and self.identifier_field_ids == other.identifier_field_ids

    def __hash__(self) -> int:
        return hash((self.fields, self.identifier_field_ids))

    def __str__(self) -> str:
        return "table {\n" + "\n".join(f"  {column}" for column in self.fields) + "\n}"

    def as_struct(self) -> StructType:
        """The columns as the fields of a struct."""
        return StructType(*self.fields)

    def find_field(self, name_or_id: str | int) -> NestedField:
        """Find a field at any depth by its id or its dotted name.

        Raises:
            SchemaError: There is no such field.
        """
        number = self._ids_by_name.get(name_or_id) if isinstance(name_or_id, str) else name_or_id
        found = self._fields_by_id.get(number) if number is not None else None
        if found is None:
            raise SchemaError(f"the schema has no field {name_or_id!r}")
        return found

    def find_type(self, name_or_id: str | int) -> IcebergType:
        """Find the type of a field at any depth by its id or its dotted name.

        Raises:
            SchemaError: There is no such field.
        """
        return self.find_field(name_or_id).field_type

    def find_column_name(self, column_id: int) -> str | None:
        """The dotted name of a field at any depth; None if there is no such field."""
        return self._names_by_id.get(column_id)

    @property
    def column_names(self) -> list[str]:
        """The dotted names of the fields at every depth."""
        return list(self._ids_by_name)

    def identifier_field_names(self) -> list[str]:
        """The dotted names of the columns that identify a row."""
        return [self._names_by_id[number] for number in self.identifier_field_ids]

    @property
    def field_ids(self) -> set[int]:
        """The ids of the fields at every depth."""
        return set(self._fields_by_id)

    @property
    def highest_field_id(self) -> int:
        """The greatest id of a field at any depth; 0 without fields."""
        return max(self._fields_by_id, default=0)

    def check_format_version(self, format_version: int) -> None:
        """Check that tables of a format version may have these columns.

        Raises:
            SchemaError: They may not.

        Spec: Iceberg spec, Appendix E.
        """
        for found in self._fields_by_id.values():
            needed = found.field_type.format_version
            if needed > format_version:
                raise SchemaError(
                    f"type {found.field_type} needs format version {needed}, the table has {format_version}"
                )

    @cached_property
    def remembered(self) -> dict[str, Any]:
        """What layers above know of this schema, and would find out again: it never changes."""
        return {}

    @cached_property
    def _fields_by_id(self) -> dict[int, NestedField]:
        return index_by_id(self)

    @cached_property
    def _ids_by_name(self) -> dict[str, int]:
        return {name: number for number, name in self._names_by_id.items()}

    @cached_property
    def _names_by_id(self) -> dict[int, str]:
        return {found.field_id: name for name, found in _named(self.fields, "")}

    def _check(self) -> None:
        numbers: set[int] = set()
        names: set[str] = set()
        for name, found in _named(self.fields, ""):
            if found.field_id in numbers:
                raise SchemaError(f"field id {found.field_id} is used twice", rule=_RULE)
            if name in names:
                raise SchemaError(f"two fields have the name {name!r}", rule=_RULE)
            if found.required and isinstance(found.field_type, UnknownType):
                raise SchemaError(f"field {name!r} of type unknown cannot be required", rule=_RULE)
            numbers.add(found.field_id)
            names.add(name)
        if self.identifier_field_ids:
            self._check_identifier()

    def _check_identifier(self) -> None:
        """Check that identifier columns identify rows.

        Spec: Iceberg spec, Identifier Field IDs.
        """
        reachable = {found.field_id: found for found in _required(self.fields)}
        for number in self.identifier_field_ids:
            found = reachable.get(number)
            type_ = found.field_type if found is not None else None
            if type_ is None or not type_.is_primitive or isinstance(type_, FloatType | DoubleType):
                raise SchemaError(
                    f"field {number} cannot identify rows: it must be a required primitive column, neither floating "
                    "nor in a list, map or optional struct",
                    rule="Iceberg spec, Identifier Field IDs",
                )


def _named(fields: Sequence[NestedField], prefix: str) -> Iterator[tuple[str, NestedField]]:
    """The fields at every depth with their dotted names, those within a field after it."""
    for found in fields:
        name = prefix + found.name
        yield name, found
        children = children_of(found.field_type)
        if children:
            yield from _named(children, f"{name}.")


def _required(fields: Sequence[NestedField]) -> Iterator[NestedField]:
    """The required fields of required structs."""
    for found in fields:
        if found.required:
            yield found
            if isinstance(found.field_type, StructType):
                yield from _required(found.field_type.fields)


def index_by_id(schema_or_type: Schema | IcebergType) -> dict[int, NestedField]:
    """The fields at every depth by their ids."""
    fields = schema_or_type.fields if isinstance(schema_or_type, Schema) else children_of(schema_or_type)
    found: dict[int, NestedField] = {}
    for one in fields:
        if not one.field_type.is_primitive:
            found.update(index_by_id(one.field_type))
        found[one.field_id] = one
    return found


def assign_fresh_schema_ids(type_: IcebergType, next_id: Callable[[], int] | None = None) -> IcebergType:
    """A type with new ids for the fields within it: those of a struct first, then those within them.

    Args:
        type_: The type.
        next_id: Gives the next id; without it they are counted from 1.
    """
    take = next_id or itertools.count(1).__next__
    if isinstance(type_, StructType):
        numbers = [take() for _ in type_.fields]
        return StructType(
            *(
                replace(found, field_id=number, field_type=assign_fresh_schema_ids(found.field_type, take))
                for number, found in zip(numbers, type_.fields, strict=True)
            )
        )
    if isinstance(type_, ListType):
        number = take()
        return ListType(number, assign_fresh_schema_ids(type_.element_type, take), type_.element_required)
    if isinstance(type_, MapType):
        key, value = take(), take()
        key_type = assign_fresh_schema_ids(type_.key_type, take)
        return MapType(key, key_type, value, assign_fresh_schema_ids(type_.value_type, take), type_.value_required)
    return type_
