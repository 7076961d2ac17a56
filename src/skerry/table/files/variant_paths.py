"""Columns of variants of which only some paths are looked at: of shredded ones, only the columns of these are read.

Spec: Parquet spec, VariantShredding.md, Objects: a reader need not read `value` where shredded fields are enough.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skerry.table.predicate import Column, Predicate, columns_of
from skerry.table.predicate.arrow import values_of
from skerry.table.rows.schema import FIELD_ID_KEY
from skerry.variant import is_variant
from skerry.variant.paths import Path

__all__ = ["PathValue", "count_columns", "only_paths", "paths_of", "positions_of", "schema_with", "with_values"]

_PATHS_KEY: Final = b"skerry:variant-paths"


@dataclass(frozen=True, slots=True)
class PathValue:
    """A value inside of variants as a column of the result.

    Args:
        name: The name of the column.
        column: Where the value is, and its type.
        place: The place of the column in the result.
    """

    name: str
    column: Column
    place: int


def only_paths(
    columns: pa.Schema, returned: pa.Schema, predicate: Predicate, values: Collection[Column] = ()
) -> pa.Schema:
    """Mark the columns of variants of which some paths are looked at, and nothing else is needed.

    Args:
        columns: The columns to read, with field ids.
        returned: Those of them that are returned.
        predicate: What is tested.
        values: What is returned of the insides of variants.
    """
    used = columns_of(predicate).union(values)
    if all(column.inside is None for column in used):
        return columns
    kept = {_id(field) for field in returned}
    fields = []
    for field in columns:
        paths = [column.inside for column in used if column.field_id == _number(field)]
        if is_variant(field.type) and paths and _id(field) not in kept and None not in paths:
            marks = {**field.metadata, _PATHS_KEY: json.dumps(paths).encode()}
            field = field.with_metadata(marks)
        fields.append(field)
    return pa.schema(fields, metadata=columns.metadata)


def _id(field: pa.Field) -> bytes | None:
    found: bytes | None = (field.metadata or {}).get(FIELD_ID_KEY)
    return found


def _number(field: pa.Field) -> int:
    text = _id(field) or b""
    return int(text) if text.isdigit() else -1


def paths_of(wanted: pa.Field) -> tuple[Path, ...] | None:
    """The paths that are looked at in a column of variants, None for all of it."""
    text = (wanted.metadata or {}).get(_PATHS_KEY)
    return None if text is None else tuple(tuple(path) for path in json.loads(text))


def positions_of(stored: pa.DataType, paths: Sequence[Path] | None) -> list[int]:
    """The primitive columns of a column of variants of a file that are read, ascending.

    Args:
        stored: Its type in the file.
        paths: The paths that are looked at, None for all.
    """
    if paths is None:
        return list(range(count_columns(stored)))
    found = set(_needed(stored, paths, 0))
    position = 0
    for field in stored if pa.types.is_struct(stored) else ():
        if field.name == "metadata" and not all(_is_shredded(stored, path) for path in paths):
            found.add(position)
        position += count_columns(field.type)
    return sorted(found)


def _is_shredded(group: pa.DataType, path: Path) -> bool:
    """Whether a path leads to a primitive column: its values need no names."""
    index = group.get_field_index("typed_value") if pa.types.is_struct(group) else -1
    if index < 0:
        return False
    typed = group.field(index).type
    if not path:
        return not pa.types.is_nested(typed)
    inside = typed.get_field_index(path[0]) if pa.types.is_struct(typed) and isinstance(path[0], str) else -1
    return inside >= 0 and _is_shredded(typed.field(inside).type, path[1:])


def _needed(group: pa.DataType, paths: Collection[Path], first: int) -> Iterator[int]:
    """What is needed of a pair of `value` and `typed_value`."""
    members = {field.name: field.type for field in group} if pa.types.is_struct(group) else {}
    typed = members.get("typed_value")
    if typed is None or not pa.types.is_struct(typed) or () in paths:
        yield from range(first, first + count_columns(group))
        return
    shredded = {field.name for field in typed}
    is_rest_needed = any(path[0] not in shredded for path in paths)
    position = first
    for name, type_ in members.items():
        if name == "value" and is_rest_needed:
            yield position
        if name == "typed_value":
            place = position
            for field in type_:
                deeper = [path[1:] for path in paths if path[0] == field.name]
                if deeper:
                    yield from _needed(field.type, deeper, place)
                place += count_columns(field.type)
        position += count_columns(type_)


def count_columns(type_: pa.DataType) -> int:
    """The primitive columns of a type."""
    if pa.types.is_struct(type_):
        return sum(count_columns(child.type) for child in type_)
    if pa.types.is_map(type_):
        return count_columns(type_.key_type) + count_columns(type_.item_type)
    return count_columns(type_.value_type) if pa.types.is_list(type_) or pa.types.is_large_list(type_) else 1


def schema_with(columns: pa.Schema, values: Iterable[PathValue]) -> pa.Schema:
    """Insert the columns of values into the others of a result."""
    for value in values:
        columns = columns.insert(value.place, pa.field(value.name, value.column.type))
    return columns


def with_values(batch: pa.RecordBatch, source: pa.RecordBatch, values: Iterable[PathValue]) -> pa.RecordBatch:
    """Insert values into a batch at their places.

    Args:
        batch: The other columns of the result.
        source: The same rows with the columns of variants.
        values: The values.
    """
    if not values:
        return batch
    arrays = list(batch.columns)
    for value in values:
        arrays.insert(value.place, values_of(value.column, source))
    return pa.RecordBatch.from_arrays(arrays, schema=schema_with(batch.schema, values))
