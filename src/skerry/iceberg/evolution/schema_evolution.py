"""Schema evolution: changes recorded by name, applied to the newest schema when the commit succeeds.

A change says `rename a to b`, not `the schema is now this`, so that after a lost race it is applied to the other
writer's schema. Properties that name columns are updated for renamed and deleted columns.

Spec: Iceberg spec, Schema Evolution, Column Projection, Name Mapping Serialization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from skerry.errors import FormatError, SchemaError
from skerry.iceberg.evolution.schema_draft import SchemaDraft
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.name_mapping import MappedField, NameMapping
from skerry.iceberg.metadata.requirements import AssertCurrentSchemaId, AssertLastAssignedFieldId
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_updates import (
    AddSchemaUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from skerry.iceberg.metadata.transforms import Transform, UnknownTransform, VoidTransform
from skerry.iceberg.metadata.types import DateType, NestedField, children_of
from skerry.iceberg.operations import MetadataChange
from skerry.iceberg.partitioning.transforms import result_type
from skerry.iceberg.writing.file_writers import check_columns
from skerry.table.indexes.definitions import INDEX_PREFIX
from skerry.table.rows.schema import leaves
from skerry.table.statistics.column_statistics import COLUMNS_PROPERTY, ColumnRule, SketchPolicy

__all__ = ["NAME_MAPPING_PROPERTY", "ChangeSchema", "SchemaStep", "name_mapping"]

NAME_MAPPING_PROPERTY = "schema.name-mapping.default"
_COLUMN_PREFIXES = ("write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column.", INDEX_PREFIX)

SchemaStep = Callable[[SchemaDraft], None]
"""One change of a draft."""


@dataclass(frozen=True, slots=True)
class ChangeSchema:
    """Change the table's schema.

    Args:
        steps: What to change, in this order.
        allow_incompatible: Whether existing rows may violate the schema.
    """

    steps: tuple[SchemaStep, ...]
    allow_incompatible: bool = False

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change; a schema that the table had before is reused with its id.

        Raises:
            SchemaError: A change does not fit the schema, the partition spec or the sort order as they are now.
            UnsupportedError: The table's data files cannot hold a column's new type.
        """
        metadata = base.metadata
        before = metadata.schema()
        draft = SchemaDraft(
            before, metadata.last_column_id, metadata.format_version, allow_incompatible=self.allow_incompatible
        )
        for step in self.steps:
            step(draft)
        after = Schema(
            *draft.fields,
            schema_id=max(schema.schema_id for schema in metadata.schemas) + 1,
            identifier_field_ids=list(draft.identifier),
        )
        updates: list[TableUpdate] = []
        if not _is_same(before, after):
            _check_dependents(base, before, after)
            check_columns(to_arrow_schema(after), base.properties)
            known = next((schema for schema in metadata.schemas if _is_same(schema, after)), None)
            if known is None:
                updates.append(AddSchemaUpdate(schema=after))
            updates.append(SetCurrentSchemaUpdate(schema_id=known.schema_id if known is not None else after.schema_id))
            updates += _property_updates(base, before, after)
        if not updates:
            return None
        return MetadataChange(
            tuple(updates),
            (
                AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
                AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
            ),
        )


def _is_same(one: Schema, other: Schema) -> bool:
    return one.fields == other.fields and set(one.identifier_field_ids) == set(other.identifier_field_ids)


def _check_dependents(base: TableState, before: Schema, after: Schema) -> None:
    """Refuse changes that break the partition spec or the sort order.

    Raises:
        SchemaError: One of them uses a column that is gone or whose new type would change its values.

    Spec: Iceberg spec, Schema Evolution: a promotion must not change the results of a partition transform.
    """
    used: list[tuple[int, Transform, str]] = []
    for field in base.spec.fields:
        used += [(number, field.transform, f"partition field {field.name!r}") for number in field.sources]
    for key in base.metadata.sort_order().fields:
        used += [(number, key.transform, "the sort order") for number in key.sources]
    types = {leaf.field_id: leaf.type for leaf in leaves(to_arrow_schema(after))}
    for source_id, transform, user in used:
        if isinstance(transform, VoidTransform):
            continue
        name = before.find_column_name(source_id)
        if source_id not in types:
            raise SchemaError(f"column {name!r} is used by {user}; change that first")
        was = before.find_type(source_id)
        is_known = not isinstance(transform, UnknownTransform)
        if is_known:
            result_type(transform, types[source_id])
        if was != after.find_type(source_id) and (isinstance(was, DateType) or not is_known):
            raise SchemaError(f"column {name!r} is used by {user}, whose values would change with its type")
    for column in after.fields:
        clash = next((field for field in base.spec.fields if field.name == column.name), None)
        if clash is not None and clash.source_id != column.field_id:
            raise SchemaError(f"the name {column.name!r} is used by a partition field; rename that first")


# Properties that name columns ----------------------------------------------------------------------------------------


def _property_updates(base: TableState, before: Schema, after: Schema) -> list[TableUpdate]:
    old_names = {leaf.field_id: leaf.name for leaf in leaves(to_arrow_schema(before))}
    new_names = {leaf.field_id: leaf.name for leaf in leaves(to_arrow_schema(after))}
    moved = {name: new_names.get(number) for number, name in old_names.items() if new_names.get(number) != name}
    properties = base.properties
    updates = dict(_mapping_update(properties, after))
    removals = []
    for prefix in _COLUMN_PREFIXES:
        for name, new_name in moved.items():
            if prefix + name in properties:
                removals.append(prefix + name)
                if new_name is not None:
                    updates[prefix + new_name] = properties[prefix + name]
    policy = SketchPolicy.from_properties(properties)
    if policy.rule is ColumnRule.LISTED and any(name in moved for name in policy.listed):
        listed = [moved.get(name, name) for name in policy.listed]
        updates[COLUMNS_PROPERTY] = ",".join(name for name in listed if name is not None)
    result: list[TableUpdate] = []
    if removals := [name for name in removals if name not in updates]:
        result.append(RemovePropertiesUpdate(removals=tuple(removals)))
    if updates:
        result.append(SetPropertiesUpdate(updates=updates))
    return result


def _mapping_update(properties: Mapping[str, str], schema: Schema) -> Iterator[tuple[str, str]]:
    text = properties.get(NAME_MAPPING_PROPERTY)
    if text is None:
        return
    try:
        known = NameMapping.parse(text)
    except FormatError as error:
        raise FormatError(f"table property {NAME_MAPPING_PROPERTY} cannot be read: {error}") from error
    updated = NameMapping(_mapped(schema.fields, known.fields))
    if updated != known:
        yield NAME_MAPPING_PROPERTY, updated.to_text()


def name_mapping(schema: Schema) -> str:
    """The name mapping of files with a schema's names and without field ids, as stored in the table property."""
    return NameMapping(_mapped(schema.fields, ())).to_text()


def _mapped(fields: Sequence[NestedField], known: Sequence[MappedField]) -> tuple[MappedField, ...]:
    """The mapping of fields: the names that each has so far, and its current one.

    A name stays with the field that had it first, even if that was deleted: in existing files without ids it means that
    field, and must not be read as another one. Iceberg Java gives the name to the new field.
    """
    before = {field.field_id: field for field in known}
    claimed = {name: field.field_id for field in known for name in field.names}
    result = []
    for field in fields:
        old = before.get(field.field_id)
        names = list(old.names) if old is not None else []
        if claimed.setdefault(field.name, field.field_id) == field.field_id and field.name not in names:
            names.append(field.name)
        nested = _mapped(children_of(field.field_type), old.fields if old is not None else ())
        if names:
            result.append(MappedField(field.field_id, tuple(names), nested, {} if old is None else old.unknown))
    current = {field.field_id for field in fields}
    return (*result, *(field for field in known if field.field_id not in current))
