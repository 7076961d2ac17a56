"""Schema evolution: converts columns of a file to the current schema, by field id, with promotions and defaults.

A file has the names, order and nesting of the schema at the time it was written. Columns are identified by field id, so
that a renamed column is found, and a column that took the name of a dropped one is not mistaken for it.

Spec: Iceberg spec, Schema Evolution, Column Projection, Name Mapping Serialization.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.files.variant_paths import paths_of, positions_of
from skerry.table.rows.default_arrays import nested_default, repeated
from skerry.table.rows.nested_arrays import convert_elements, convert_entries
from skerry.table.rows.schema import FIELD_ID_KEY, is_list
from skerry.table.rows.values import arrow_storage, is_uuid
from skerry.variant import VARIANT, is_variant
from skerry.variant.assembling import assemble

__all__ = [
    "FileNames",
    "NameMapping",
    "TableNames",
    "all_ids",
    "column_positions",
    "count_leaves",
    "has_ids",
    "identify",
    "map_fields",
    "match_leaves",
    "merge_columns",
    "names_of",
    "plan_conversion",
    "prune",
    "top_level",
    "with_ids",
]

NameMapping: TypeAlias = Mapping[tuple[str, ...], int]
"""Field ids by path of names, for files without ids. List elements are called `element`, map entries `key` and
`value`."""


class FileNames(dict[tuple[str, ...], int]):
    """A name mapping that applies to a file even if it has ids: some formats find columns by name only."""


class TableNames(dict[tuple[str, ...], int]):
    """What replaces a name mapping in a table without one, as in Iceberg Java.

    Columns of ORC and Avro files have the table's names. Columns of Parquet files are identified by position: the first
    has field id 1, and so on, as if columns had only ever been appended to the table's schema.

    Args:
        schema: The table's columns, with field ids.
    """

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__({path: number for path, number in names_of(schema).items() if number is not None})
        self.schema = schema

    def by_position(self, stored: pa.Schema) -> NameMapping:
        """The field ids of a Parquet file's columns by position, nested ones included."""
        found: dict[tuple[str, ...], int] = {}
        known = {_id(field): field for field in self.schema}

        def walk(source: pa.DataType, target: pa.DataType, path: _Path) -> None:
            if _is_same_kind(source, target):
                for (name, child), (_, match) in zip(_children(source), _children(target), strict=False):
                    number = _id(match)
                    if number is not None:
                        found[(*path, name)] = number
                    walk(child.type, match.type, (*path, name))

        for position, field in enumerate(stored, 1):
            if position in known:
                found[(field.name,)] = position
                walk(field.type, known[position].type, (field.name,))
        return found


_Path: TypeAlias = tuple[str, ...]
_Convert: TypeAlias = Callable[[pa.Array], pa.Array]


# Ids ----------------------------------------------------------------------------------------------------------------


def _id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID_KEY, b"")
    return int(text) if text.isdigit() else None


def _children(type_: pa.DataType) -> list[tuple[str, pa.Field]]:
    """Nested fields with the names used in name mappings, in the order of Parquet's columns."""
    if pa.types.is_struct(type_):
        return [(field.name, field) for field in type_]
    if pa.types.is_map(type_):
        return [("key", type_.key_field), ("value", type_.item_field)]
    return [("element", type_.value_field)] if is_list(type_) else []


def all_ids(schema: pa.Schema) -> frozenset[int]:
    """The field ids of all columns, nested ones included."""

    def walk(field: pa.Field) -> Iterator[int]:
        number = _id(field)
        if number is not None:
            yield number
        for _, child in _children(field.type):
            yield from walk(child)

    return frozenset(number for field in schema for number in walk(field))


def has_ids(schema: pa.Schema) -> bool:
    """Whether any column carries a field id."""
    return bool(all_ids(schema))


def with_ids(schema: pa.Schema, mapping: NameMapping) -> pa.Schema:
    """The schema of a file with exactly the ids that a name mapping assigns to its columns."""

    def give(field: pa.Field, path: _Path) -> pa.Field:
        children = [give(child, (*path, name)) for name, child in _children(field.type)]
        field = field.with_type(_with_children(field.type, children)) if children else field
        return field.with_metadata({FIELD_ID_KEY: str(mapping[path]).encode()} if path in mapping else None)

    return pa.schema([give(field, (field.name,)) for field in schema], metadata=schema.metadata)


def names_of(schema: pa.Schema) -> dict[tuple[str, ...], int | None]:
    """The fields of a schema at every level by path, with their ids: a name mapping of those that have one."""

    def walk(field: pa.Field, path: _Path) -> Iterator[tuple[_Path, int | None]]:
        yield path, _id(field)
        for name, child in _children(field.type):
            yield from walk(child, (*path, name))

    return dict(found for field in schema for found in walk(field, (field.name,)))


def identify(schema: pa.Schema, mapping: NameMapping | None) -> pa.Schema:
    """The schema of a file with field ids: its own, or those of a name mapping.

    Returns:
        `schema` itself if its own ids apply.

    Raises:
        SchemaError: It has none, and there is no mapping.
    """
    if has_ids(schema) and not isinstance(mapping, FileNames):
        return schema
    if mapping is None:
        raise SchemaError("the file has no field ids, and the table has no schema.name-mapping.default")
    return with_ids(schema, mapping)


def map_fields(schema: pa.Schema, change: Callable[[pa.Field], pa.Field]) -> pa.Schema:
    """Apply a function to every field of a schema, nested ones first, and return the new schema."""

    def walk(field: pa.Field) -> pa.Field:
        children = [walk(child) for _, child in _children(field.type)]
        return change(field.with_type(_with_children(field.type, children)) if children else field)

    return pa.schema([walk(field) for field in schema], metadata=schema.metadata)


def top_level(schema: pa.Schema) -> dict[int, int]:
    """Positions of the columns in a schema, by field id; columns without one are left out."""
    return {number: index for index, field in enumerate(schema) if (number := _id(field)) is not None}


def merge_columns(first: pa.Schema, second: pa.Schema) -> pa.Schema:
    """A schema with the columns of both, including those in structs.

    Args:
        first: A schema with field ids.
        second: A schema with field ids; columns that only it has are appended, and may be null.
    """

    def merged(mine: list[pa.Field], other: list[pa.Field]) -> list[pa.Field]:
        others = {_id(field): field for field in other}
        result = []
        for field in mine:
            match = others.pop(_id(field), None)
            is_struct = match is not None and pa.types.is_struct(field.type) and not is_variant(field.type)
            if is_struct and pa.types.is_struct(match.type):
                field = field.with_type(pa.struct(merged(list(field.type), list(match.type))))
            result.append(field)
        return result + [field.with_nullable(True) for field in others.values()]

    return pa.schema(merged(list(first), list(second)), metadata=first.metadata)


def _with_children(type_: pa.DataType, children: list[pa.Field]) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct(children)
    if pa.types.is_map(type_):
        return pa.map_(*children)
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(children[0], type_.list_size)
    return pa.large_list(children[0]) if pa.types.is_large_list(type_) else pa.list_(children[0])


def prune(schema: pa.Schema, ids: Collection[int]) -> pa.Schema:
    """A schema without the columns that are not requested.

    Args:
        schema: A schema with field ids.
        ids: The requested columns. One with nested fields is kept whole, one in a struct with the structs around it.
    """

    def kept(field: pa.Field) -> pa.Field | None:
        if _id(field) in ids:
            return field
        below = [found for child in field.type if (found := kept(child))] if pa.types.is_struct(field.type) else []
        return field.with_type(pa.struct(below)) if below else None

    return pa.schema([found for field in schema if (found := kept(field))], metadata=schema.metadata)


# Which columns of a file --------------------------------------------------------------------------------------------


def match_leaves(source: pa.Schema, target: pa.Schema) -> list[tuple[int, pa.DataType | None]]:
    """The primitive columns of a file that must be read.

    Args:
        source: The file's schema with ids.
        target: The wanted columns with ids.

    Returns:
        Positions in depth-first order, which is the order of Parquet's columns, ascending; each with the requested
        type, or None if it is only read for the nulls around it.
    """
    leaves: list[tuple[int, pa.DataType | None]] = []
    position = 0

    def walk(field: pa.Field, wanted: pa.Field | None) -> None:
        nonlocal position
        children = _children(field.type)
        if not children:
            if wanted is not None:
                leaves.append((position, wanted.type))
            position += 1
            return
        before, first = len(leaves), position
        if wanted is not None and is_variant(wanted.type):
            leaves.extend((first + index, None) for index in positions_of(field.type, paths_of(wanted)))
            position += count_leaves(pa.schema([field]))
            return
        for (_, child), match in zip(
            children, _matches(field.type, None if wanted is None else wanted.type), strict=True
        ):
            walk(child, match)
        if wanted is not None and len(leaves) == before:
            leaves.append((first, None))  # some column must show where the struct is null

    for field, match in zip(source, _by_id(list(source), list(target)), strict=True):
        walk(field, match)
    return leaves


def _by_id(source: list[pa.Field], target: list[pa.Field]) -> list[pa.Field | None]:
    """The target field of the same id for every source field."""
    targets = {_id(field): field for field in target}
    return [None if _id(field) is None else targets.get(_id(field)) for field in source]


def _matches(source: pa.DataType, target: pa.DataType | None) -> list[pa.Field | None]:
    """The counterpart of every nested field of a type; elements, keys and values need no ids."""
    children = [child for _, child in _children(source)]
    if target is None or not _is_same_kind(source, target):
        return [None] * len(children)
    targets = [child for _, child in _children(target)]
    return _by_id(children, targets) if pa.types.is_struct(source) else list(targets)


def _is_same_kind(source: pa.DataType, target: pa.DataType) -> bool:
    kinds = (pa.types.is_struct, pa.types.is_map, is_list)
    return any(is_kind(source) and is_kind(target) for is_kind in kinds)


def column_positions(schema: pa.Schema) -> dict[int, int]:
    """Positions, among the primitive columns of a file, of columns that have one value per row.

    Returns:
        Positions in depth-first order by field id.
    """
    positions: dict[int, int] = {}
    position = 0

    def walk(field: pa.Field, repeated: bool) -> None:
        nonlocal position
        children = _children(field.type)
        for _, child in children:
            walk(child, repeated or not pa.types.is_struct(field.type))
        if not children:
            number = _id(field)
            if number is not None and not repeated:
                positions[number] = position
            position += 1

    for field in schema:
        walk(field, False)
    return positions


def count_leaves(schema: pa.Schema) -> int:
    """The number of primitive columns of a schema."""

    def count(field: pa.Field) -> int:
        children = _children(field.type)
        return sum(count(child) for _, child in children) if children else 1

    return sum(count(field) for field in schema)


# Conversion ---------------------------------------------------------------------------------------------------------


def plan_conversion(
    source: pa.Schema, target: pa.Schema, constants: Mapping[int, Any] | None = None
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Plan the conversion of batches from one schema to another.

    Args:
        source: The batches' schema; columns without field id are ignored.
        target: The requested schema, with ids.
        constants: Physical values by field id for requested columns that the batches lack; null if not given.
            Columns of variants of which only some paths are looked at stay as they are stored.

    Returns:
        The conversion; columns that already fit are passed on unchanged.

    Raises:
        SchemaError: A type cannot be converted, or a required column is missing. The conversion itself raises
            it for a value that does not fit.
    """
    if source.equals(target, check_metadata=True):
        return lambda batch: batch
    constants = constants or {}
    found = {number: (index, source.field(index)) for number, index in top_level(source).items()}
    steps: list[tuple[int | None, str, _Convert]] = []
    for wanted in target:
        index, field = found.get(_id(wanted) or 0, (None, None))
        steps.append((index, wanted.name, _plan(field, wanted, (wanted.name,), constants)))

    is_stored = any(paths_of(field) is not None for field in target)

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for index, name, step in steps:
            try:
                arrays.append(step(pa.nulls(batch.num_rows) if index is None else batch.column(index)))
            except pa.ArrowException as error:
                raise SchemaError(f"column {name!r} holds a value that does not fit its type: {error}") from error
        if not arrays:  # a batch without columns would lose its row count
            return batch.select([]).replace_schema_metadata(target.metadata)
        if is_stored:
            fields = [field.with_type(array.type) for field, array in zip(target, arrays, strict=True)]
            return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=target.metadata))
        return pa.RecordBatch.from_arrays(arrays, schema=target)

    return convert


def _plan(source: pa.Field | None, target: pa.Field, path: _Path, constants: Mapping[int, Any]) -> _Convert:
    if source is None:
        return _plan_missing(target, path, constants)
    if _is_same(source, target):
        return lambda array: array
    if isinstance(source.type, pa.ExtensionType):  # registered by someone else: PyArrow reads shapes as geoarrow.wkb
        stored = _plan(source.with_type(source.type.storage_type), target, path, constants)
        return lambda array: stored(array.storage)
    if is_variant(target.type):
        return _plan_variant(source, target, path)
    if pa.types.is_struct(source.type) and pa.types.is_struct(target.type):
        return _plan_struct(source.type, target.type, path, constants)
    if pa.types.is_map(source.type) and pa.types.is_map(target.type):
        return _plan_map(source.type, target.type, path, constants)
    if is_list(source.type) and is_list(target.type):
        return _plan_list(source.type, target.type, path, constants)
    if pa.types.is_dictionary(source.type):
        convert = _plan(source.with_type(source.type.value_type), target, path, constants)
        return lambda array: convert(array.dictionary).take(array.indices)
    for accepts in _PROMOTIONS:
        if accepts(source.type, target.type):
            return lambda array: _cast(array, target.type)
    raise SchemaError(f"column {'.'.join(path)!r} is {source.type} in the file, but {target.type} in the table")


def _is_same(source: pa.Field, target: pa.Field) -> bool:
    """Whether arrays can be passed on unchanged: same type, and every nested name denotes the same column."""
    if source.type != target.type:
        return False
    if is_variant(target.type):
        return is_variant(source.type) and not any(child.nullable for child in source.type)
    matches = _matches(source.type, target.type)
    if any(match is None for match in matches):  # fields that are gone, and others of their names
        return False
    targets = [child for _, child in _children(target.type)]
    return matches == targets and all(
        _is_same(child, match) for (_, child), match in zip(_children(source.type), matches, strict=True)
    )


def _plan_missing(target: pa.Field, path: _Path, constants: Mapping[int, Any]) -> _Convert:
    value = constants.get(_id(target) or 0)
    if value is None and not target.nullable:
        raise SchemaError(f"required column {'.'.join(path)!r} is missing from the file and has no default")
    if value is None:
        return lambda array: pa.nulls(len(array), target.type)
    if pa.types.is_nested(target.type):
        default = nested_default(target, value, constants)
        return lambda array: repeated(default, len(array))
    scalar = pa.scalar(value, arrow_storage(target.type))
    return lambda array: _cast(pa.repeat(scalar, len(array)), target.type)


def _plan_struct(source: pa.StructType, target: pa.StructType, path: _Path, constants: Mapping[int, Any]) -> _Convert:
    positions = {_id(field): index for index, field in enumerate(source) if _id(field) is not None}
    steps = []
    for wanted in target:
        index = positions.get(_id(wanted))
        field = None if index is None else source.field(index)
        steps.append((index, _plan(field, wanted, (*path, wanted.name), constants)))

    def convert(array: pa.StructArray) -> pa.Array:
        members = [step(pa.nulls(len(array)) if index is None else array.field(index)) for index, step in steps]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(target), mask=mask)

    return convert


def _plan_variant(source: pa.Field, target: pa.Field, path: _Path) -> _Convert:
    if pa.types.is_null(source.type):
        return lambda array: pa.nulls(len(array), VARIANT)
    if not pa.types.is_struct(source.type):
        raise SchemaError(f"column {'.'.join(path)!r} is {source.type} in the file, but variant in the table")
    if paths_of(target) is not None:  # values are taken from it as it is
        return lambda array: array
    return assemble


def _plan_list(source: pa.DataType, target: pa.DataType, path: _Path, constants: Mapping[int, Any]) -> _Convert:
    convert_values = _plan(source.value_field, target.value_field, (*path, "element"), constants)
    return lambda array: convert_elements(array, convert_values, target)


def _plan_map(source: pa.MapType, target: pa.MapType, path: _Path, constants: Mapping[int, Any]) -> _Convert:
    convert_keys = _plan(source.key_field, target.key_field, (*path, "key"), constants)
    convert_items = _plan(source.item_field, target.item_field, (*path, "value"), constants)
    return lambda array: convert_entries(array, convert_keys, convert_items, target)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if is_uuid(target) and not is_uuid(array.type):
        return array.cast(pa.binary(16)).cast(target)
    return array.cast(target)


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def _is_bytes(type_: pa.DataType) -> bool:
    return pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_)


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(source.bit_width <= target.bit_width)


# The promotions of the specification, and other forms of the same values that writers use.
_PROMOTIONS: tuple[Callable[[pa.DataType, pa.DataType], bool], ...] = (
    lambda source, target: pa.types.is_integer(source) and pa.types.is_integer(target) and _widens(source, target),
    lambda source, target: pa.types.is_floating(source) and pa.types.is_floating(target) and _widens(source, target),
    lambda source, target: (
        pa.types.is_decimal(source)
        and pa.types.is_decimal(target)
        and source.scale == target.scale
        and source.precision <= target.precision
    ),
    lambda source, target: pa.types.is_date32(source) and pa.types.is_timestamp(target) and target.tz is None,
    lambda source, target: pa.types.is_timestamp(source) and pa.types.is_timestamp(target),
    lambda source, target: pa.types.is_time(source) and pa.types.is_time(target),
    lambda source, target: _is_text(source) and _is_text(target),
    lambda source, target: _is_bytes(source) and _is_bytes(target),
    lambda source, target: is_uuid(target) and pa.types.is_fixed_size_binary(source) and source.byte_width == 16,
    lambda source, target: pa.types.is_null(source),
)
