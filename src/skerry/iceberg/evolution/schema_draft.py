"""A mutable schema draft: columns are found by name and edited by field id, at every depth.

Spec: Iceberg spec, Schema Evolution, Default values, Identifier Field IDs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.iceberg.metadata.arrow_schema import DOC_KEY, to_arrow_type, to_iceberg_type
from skerry.iceberg.metadata.default_values import checked_default
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.schema import Schema, assign_fresh_schema_ids
from skerry.iceberg.metadata.type_json import type_from_json
from skerry.iceberg.metadata.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    UnknownType,
    children_of,
    parse_type,
)
from skerry.table.rows.metadata_columns import check_new_names
from skerry.table.rows.schema import nearest
from skerry.table.rows.values import physical_value
from skerry.variant import is_variant
from skerry.wkb import shapes_type

__all__ = ["Path", "SchemaDraft"]

Path = str | Sequence[str]
"""A column: its name, a dotted path into structs, or the path as a sequence, for names that contain dots."""

_VERSION_WITH_DEFAULTS = 3
_DAY_NS = 86_400_000_000_000
_WIDER: dict[type[IcebergType], tuple[type[IcebergType], ...]] = {
    IntegerType: (LongType,),
    FloatType: (DoubleType,),
}
_WIDER_FROM_3: dict[type[IcebergType], tuple[type[IcebergType], ...]] = {
    **_WIDER,
    DateType: (TimestampType, TimestampNanoType),
}


class SchemaDraft:
    """A schema that is being changed.

    Args:
        schema: The initial schema.
        last_column_id: The greatest field id that the table ever had.
        format_version: The table's.
        allow_incompatible: Whether existing rows may violate the schema: a required column without default, or an
            optional one that becomes required.
    """

    def __init__(
        self, schema: Schema, last_column_id: int, format_version: int, *, allow_incompatible: bool = False
    ) -> None:
        self.fields: tuple[NestedField, ...] = schema.fields
        self.identifier: tuple[int, ...] = tuple(schema.identifier_field_ids)
        self._last_id = last_column_id
        self._version = format_version
        self._allow_incompatible = allow_incompatible

    def find(self, path: Path) -> NestedField:
        """Find the column of a path.

        Raises:
            SchemaError: There is no such column.
        """
        return self._trail(path)[-1]

    def add(
        self, path: Path, type_: pa.DataType | IcebergType | str, doc: str | None, required: bool, default: Any
    ) -> None:
        """Add a column as the last of its struct."""
        parent, name = self._parent(path)
        siblings = self.fields if parent is None else _members(parent)
        if any(field.name == name for field in siblings):
            raise SchemaError(f"column {_written(path)!r} already exists")
        if not name:
            raise SchemaError("a column needs a name")
        if required and default is None and not self._allow_incompatible:
            raise SchemaError(
                f"column {_written(path)!r} cannot be required: existing rows have no value for it; give a default "
                "(format version 3), or allow incompatible changes"
            )
        if parent is None:
            check_new_names([name])
        number = self._next_id()
        new_type: Any = assign_fresh_schema_ids(self._iceberg_type(path, type_), self._next_id)
        value = self._default(path, new_type, default)
        field = NestedField(number, name, new_type, required, doc, initial_default=value, write_default=value)
        if parent is None:
            self.fields = (*self.fields, field)
        else:
            self._replace(parent.field_id, lambda old: _with_members(old, (*_members(old), field)))

    def delete(self, path: Path) -> None:
        """Delete a column with all nested fields."""
        trail = self._trail(path)
        field = trail[-1]
        gone = {field.field_id, *_ids_below(field.field_type)}
        if gone.intersection(self.identifier):
            raise SchemaError(f"column {_written(path)!r} identifies rows; set other identifier fields first")
        self._edit_siblings(trail, lambda siblings: tuple(f for f in siblings if f.field_id != field.field_id))

    def rename(self, path: Path, name: str) -> None:
        """Rename a column within its struct."""
        trail = self._trail(path)
        field = trail[-1]
        if not name:
            raise SchemaError("a column needs a name")
        if len(trail) == 1:
            check_new_names([name])

        def renamed(siblings: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
            if any(other.name == name and other.field_id != field.field_id for other in siblings):
                raise SchemaError(f"column {_written(path)!r} cannot be renamed: column {name!r} already exists")
            return tuple(replace(f, name=name) if f.field_id == field.field_id else f for f in siblings)

        self._edit_siblings(trail, renamed)

    def update(
        self, path: Path, type_: pa.DataType | IcebergType | str | None, required: bool | None, doc: str | None
    ) -> None:
        """Change a column's type (promotion), whether it is required, or its doc."""
        field = self.find(path)
        changes: dict[str, Any] = {}
        if type_ is not None:
            wanted = self._iceberg_type(path, type_)
            if wanted != field.field_type:
                self._check_promotion(path, field.field_type, wanted)
                changes["field_type"] = wanted
                for name in ("initial_default", "write_default"):
                    changes[name] = _promoted(getattr(field, name), field.field_type, wanted)
        if required is not None and required != field.required:
            if required and not self._allow_incompatible:
                raise SchemaError(
                    f"column {_written(path)!r} cannot become required: existing rows may have nulls in it; allow "
                    "incompatible changes if you know that they have none"
                )
            if not required and field.field_id in self.identifier:
                raise SchemaError(f"column {_written(path)!r} identifies rows and must stay required")
            changes["required"] = required
        if doc is not None:
            changes["doc"] = doc
        if changes:
            self._replace(field.field_id, lambda old: replace(old, **changes))

    def set_default(self, path: Path, value: Any) -> None:
        """Set the default that writers use for missing values; None removes it. Existing rows do not change."""
        field = self.find(path)
        if value is None and field.required:
            raise SchemaError(f"column {_written(path)!r} is required and needs a default")
        default = self._default(path, field.field_type, value)
        self._replace(field.field_id, lambda old: replace(old, write_default=default))

    def move(self, path: Path, index_of: Callable[[list[NestedField], NestedField], int]) -> None:
        """Move a column within its struct.

        Args:
            path: The column.
            index_of: Computes its new index among the others.
        """
        trail = self._trail(path)
        field = trail[-1]

        def moved(siblings: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
            others = [other for other in siblings if other.field_id != field.field_id]
            position = index_of(others, field)
            return (*others[:position], field, *others[position:])

        self._edit_siblings(trail, moved)

    def position_of(
        self, path: Path, other: Path, *, offset: int = 0
    ) -> Callable[[list[NestedField], NestedField], int]:
        """The index of `other` among the siblings of `path`.

        Args:
            path: The column that moves.
            other: The column that it is placed before.
            offset: 1 to place it after that column.

        Raises:
            SchemaError: They are in different structs, or the same column.
        """
        target = self.find(other)

        def index_of(others: list[NestedField], field: NestedField) -> int:
            for position, candidate in enumerate(others):
                if candidate.field_id == target.field_id:
                    return position + offset
            raise SchemaError(
                f"column {_written(path)!r} cannot be moved to {_written(other)!r}: they are in different structs"
            )

        return index_of

    def identify(self, paths: Sequence[Path]) -> None:
        """Set the columns that identify a row; none to clear them.

        Spec: Iceberg spec, Identifier Field IDs.
        """
        found = []
        for path in paths:
            trail = self._trail(path)
            field = trail[-1]
            reason = None
            unfit = FloatType | DoubleType | GeometryType | GeographyType
            if not field.field_type.is_primitive or isinstance(field.field_type, unfit):
                reason = f"its type is {field.field_type}"
            elif not all(step.required for step in trail):
                reason = "it is not required"
            elif not all(isinstance(step.field_type, StructType) for step in trail[:-1]):
                reason = "it is in a list or map"
            if reason is not None:
                raise SchemaError(f"column {_written(path)!r} cannot identify rows: {reason}")
            found.append(field.field_id)
        self.identifier = tuple(dict.fromkeys(found))

    def unite(self, schema: pa.Schema) -> None:
        """Add columns of another schema that this one lacks, and widen those that are wider there."""
        self._unite((), schema)

    def _unite(self, prefix: tuple[str, ...], fields: Iterable[pa.Field]) -> None:
        for field in fields:
            path = (*prefix, field.name)
            trail = _descend_parts(self.fields, list(path))
            if trail is None:
                self.add(path, shapes_type(field), _doc(field), required=False, default=None)
                continue
            found = trail[-1]
            if pa.types.is_nested(field.type) and not is_variant(field.type):
                if type(found.field_type) is not type(to_iceberg_type(field.type, format_version=self._version)):
                    raise SchemaError(f"column {_written(path)!r} is {found.field_type}, not {field.type}")
                self._unite(path, _arrow_children(field.type))
                continue
            wanted = self._iceberg_type(path, shapes_type(field))
            if wanted != found.field_type and not self._may_promote(wanted, found.field_type):
                self._check_promotion(path, found.field_type, wanted)
                self.update(path, wanted, None, None)

    # Finding and editing ---------------------------------------------------------------------------------------------

    def _trail(self, path: Path) -> list[NestedField]:
        """The fields from the top-level column down to the one of a path."""
        found = _descend(self.fields, path) if isinstance(path, str) else _descend_parts(self.fields, list(path))
        if found is None:
            known = [".".join(names) for names in _all_paths(self.fields)]
            raise SchemaError(f"no column {_written(path)!r}{nearest(_written(path), known)}")
        return found

    def _parent(self, path: Path) -> tuple[NestedField | None, str]:
        """The struct of a new column, None for the row itself, and its name."""
        if not isinstance(path, str):
            parts = list(path)
            return (self._struct(parts[:-1]) if len(parts) > 1 else None), parts[-1] if parts else ""
        parent, dot, name = path.rpartition(".")
        if not dot:
            return None, path
        if _descend(self.fields, parent) is None:
            raise SchemaError(
                f"no struct {parent!r} for column {path!r}; a name that contains a dot is written [{path!r}]"
            )
        return self._struct(parent), name

    def _struct(self, path: Path) -> NestedField:
        """The field that contains new members; a list or map stands for its element or value."""
        field = self.find(path)
        if isinstance(field.field_type, ListType):
            field = field.field_type.element_field
        elif isinstance(field.field_type, MapType):
            field = field.field_type.value_field
        if not isinstance(field.field_type, StructType):
            raise SchemaError(f"column {_written(path)!r} is not a struct and cannot contain columns")
        return field

    def _edit_siblings(
        self, trail: Sequence[NestedField], edit: Callable[[tuple[NestedField, ...]], tuple[NestedField, ...]]
    ) -> None:
        """Replace the fields of the struct that contains the last field of `trail`."""
        if len(trail) == 1:
            remaining = edit(self.fields)
            if not remaining:
                raise SchemaError("the last column of a table cannot be deleted")
            self.fields = remaining
            return
        parent = trail[-2]
        if not isinstance(parent.field_type, StructType):
            raise SchemaError(
                f"{trail[-1].name!r} of {parent.name!r} is part of its type: it cannot be renamed, moved or deleted"
            )

        def edited(old: NestedField) -> NestedField:
            members = edit(_members(old))
            if not members:
                raise SchemaError(f"the last column of struct {old.name!r} cannot be deleted; delete the struct")
            return _with_members(old, members)

        self._replace(parent.field_id, edited)

    def _replace(self, field_id: int, edit: Callable[[NestedField], NestedField]) -> None:
        self.fields = tuple(_replaced(field, field_id, edit) for field in self.fields)

    # Types and values ------------------------------------------------------------------------------------------------

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _iceberg_type(self, path: Path, type_: pa.DataType | IcebergType | str) -> IcebergType:
        if isinstance(type_, pa.DataType):
            return to_iceberg_type(type_, format_version=self._version)
        if isinstance(type_, str):
            try:
                type_ = parse_type(type_)
            except (FormatError, UnsupportedError) as error:
                raise SchemaError(f"column {_written(path)!r}: there is no Iceberg type {type_!r}") from error
        elif not isinstance(type_, IcebergType):
            type_ = _foreign_type(path, type_)
        try:
            Schema(NestedField(1, "_", type_)).check_format_version(self._version)
        except SchemaError as error:
            raise SchemaError(f"column {_written(path)!r}: {error.message}", rule=error.rule) from error
        return type_

    def _default(self, path: Path, type_: IcebergType, value: Any) -> Any:
        if value is None:
            return None
        if self._version < _VERSION_WITH_DEFAULTS:
            raise SchemaError(
                f"column {_written(path)!r}: defaults need format version {_VERSION_WITH_DEFAULTS}, the table has "
                f"{self._version}; upgrade it first"
            )
        if isinstance(type_, StructType | ListType | MapType):
            raise UnsupportedError(
                f"column {_written(path)!r}: a column of type {type_} cannot have a default: Iceberg Java (1.12) does "
                "not open such a table; give defaults to the fields of structs"
            )
        if not type_.is_primitive or isinstance(type_, UnknownType | GeometryType | GeographyType):
            raise SchemaError(f"column {_written(path)!r}: a column of type {type_} cannot have a default")
        return checked_default(type_, value, _written(path))

    def _check_promotion(self, path: Path, before: IcebergType, after: IcebergType) -> None:
        if not self._may_promote(before, after):
            raise SchemaError(
                f"column {_written(path)!r} cannot change from {before} to {after}",
                rule="Iceberg spec, Schema Evolution",
            )

    def _may_promote(self, before: IcebergType, after: IcebergType) -> bool:
        """Spec: Iceberg spec, Schema Evolution (valid type promotions)."""
        wider = _WIDER_FROM_3 if self._version >= _VERSION_WITH_DEFAULTS else _WIDER
        if isinstance(before, DecimalType) and isinstance(after, DecimalType):
            return before.scale == after.scale and before.precision < after.precision
        if isinstance(before, UnknownType):
            return bool(after.is_primitive)
        return isinstance(after, wider.get(type(before), ()))


def _promoted(value: Any, before: IcebergType, after: IcebergType) -> Any:
    """Convert a default to the wider type."""
    if value is None or not isinstance(before, DateType):
        return value
    moment = physical_value(to_arrow_type(before), value) * (
        _DAY_NS if isinstance(after, TimestampNanoType) else _DAY_NS // 1000
    )
    return physical_value(to_arrow_type(after), moment)


def _doc(field: pa.Field) -> str | None:
    text = (field.metadata or {}).get(DOC_KEY)
    return None if text is None else text.decode()


def _arrow_children(type_: pa.DataType) -> list[pa.Field]:
    """Members of a struct; elements, keys and values under Iceberg's names for them."""
    if pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [type_.key_field.with_name("key"), type_.item_field.with_name("value")]
    return [type_.value_field.with_name("element")]


def _foreign_type(path: Path, type_: Any) -> IcebergType:
    """The type that a type of PyIceberg stands for."""
    try:
        found = JsonObject({"type": json.loads(type_.model_dump_json())}, rule="Iceberg spec, Schemas and Data Types")
        return type_from_json(found.value["type"], found, "type")
    except (AttributeError, TypeError, ValueError, FormatError, UnsupportedError) as error:
        raise SchemaError(f"column {_written(path)!r}: {type_!r} is not a type") from error


def _written(path: Path) -> str:
    return path if isinstance(path, str) else ".".join(path)


def _members(field: NestedField) -> tuple[NestedField, ...]:
    return children_of(field.field_type)


def _with_members(field: NestedField, members: tuple[NestedField, ...]) -> NestedField:
    return replace(field, field_type=_rebuilt(field.field_type, members))


def _ids_below(type_: IcebergType) -> Iterator[int]:
    for child in children_of(type_):
        yield child.field_id
        yield from _ids_below(child.field_type)


def _all_paths(fields: Sequence[NestedField]) -> Iterator[tuple[str, ...]]:
    for field in fields:
        yield (field.name,)
        for below in _all_paths(_members(field)):
            yield (field.name, *below)


def _descend(fields: Sequence[NestedField], path: str) -> list[NestedField] | None:
    """Find a column by its dotted path; a column with that literal name takes precedence."""
    for field in fields:
        if field.name == path:
            return [field]
    for field in fields:
        if path.startswith(f"{field.name}."):
            below = _descend(_members(field), path[len(field.name) + 1 :])
            if below is not None:
                return [field, *below]
    return None


def _descend_parts(fields: Sequence[NestedField], parts: list[str]) -> list[NestedField] | None:
    for field in fields:
        if parts and field.name == parts[0]:
            if len(parts) == 1:
                return [field]
            below = _descend_parts(_members(field), parts[1:])
            return None if below is None else [field, *below]
    return None


def _replaced(field: NestedField, field_id: int, edit: Callable[[NestedField], NestedField]) -> NestedField:
    """Edit the field of that id within a field, at any depth."""
    if field.field_id == field_id:
        return edit(field)
    type_ = field.field_type
    if isinstance(type_, MapType) and field_id in (type_.key_id, *_ids_below(type_.key_type)):
        raise SchemaError(f"keys of map {field.name!r} cannot be changed", rule="Iceberg spec, Schema Evolution")
    if field_id not in _ids_below(type_):
        return field
    members = [_replaced(child, field_id, edit) for child in children_of(type_)]
    return replace(field, field_type=_rebuilt(type_, members))


def _rebuilt(type_: IcebergType, members: Sequence[NestedField]) -> IcebergType:
    if isinstance(type_, ListType):
        element = members[0]
        return replace(type_, element_type=element.field_type, element_required=element.required)
    if isinstance(type_, MapType):
        key, value = members
        return replace(type_, key_type=key.field_type, value_type=value.field_type, value_required=value.required)
    return StructType(*members, unknown=type_.unknown if isinstance(type_, StructType) else None)
