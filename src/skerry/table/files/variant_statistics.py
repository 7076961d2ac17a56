"""Minima and maxima of shredded fields of variants, from the statistics of Parquet column chunks.

They hold for a field where all its values are shredded, that is, where the column of its encoded values has nulls only.

Spec: Parquet spec, VariantShredding.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.table.files.evolution import top_level
from skerry.table.files.parquet_statistics import bound_of
from skerry.table.files.variant_paths import count_columns, paths_of
from skerry.table.rows.values import arrow_storage
from skerry.variant import VARIANT, Typed, encode_variant, variant_get
from skerry.variant.paths import Path
from skerry.variant.values import ARROW_TYPES, decimal_type

__all__ = ["ShreddedLeaf", "chunk_bounds", "empty_values", "shredded_leaves", "typed_values"]


@dataclass(frozen=True, slots=True)
class ShreddedLeaf:
    """A field of variants with a column of its own.

    Args:
        path: Its path.
        type: The Arrow type of its column.
        typed: The position of its column among the primitive ones of the file.
        value: The position of the column of its values that are not shredded, None if there is none.
    """

    path: Path
    type: pa.DataType
    typed: int
    value: int | None


def shredded_leaves(stored: pa.Schema, index: int) -> Iterator[ShreddedLeaf]:
    """The shredded fields of a column of variants; elements of arrays are not among them.

    Args:
        stored: The schema of the file.
        index: The place of the column in it.
    """
    position = sum(count_columns(field.type) for field in list(stored)[:index])

    def walk(group: pa.DataType, path: Path, start: int) -> Iterator[ShreddedLeaf]:
        if not pa.types.is_struct(group):
            return
        starts = {}
        for field in group:
            starts[field.name] = start
            start += count_columns(field.type)
        if "typed_value" not in starts:
            return
        typed = group.field(group.get_field_index("typed_value")).type
        if not pa.types.is_struct(typed):
            if not pa.types.is_nested(typed):
                yield ShreddedLeaf(path, typed, starts["typed_value"], starts.get("value"))
            return
        start = starts["typed_value"]
        for field in typed:
            yield from walk(field.type, (*path, field.name), start)
            start += count_columns(field.type)

    yield from walk(stored.field(index).type, (), position)


def empty_values(metadata: pq.FileMetaData, stored: pa.Schema, wanted: pa.Schema) -> set[int]:
    """Columns of values that are not shredded and need not be read: they have nulls only, and their field a column.

    Args:
        metadata: The footer of a file.
        stored: Its schema, with field ids.
        wanted: The columns that are read; the paths that are looked at are marked.

    Returns:
        Positions among the primitive columns of the file.
    """
    places = top_level(stored)
    found = set()
    for number, index in top_level(wanted).items():
        paths = paths_of(wanted.field(index))
        if paths and number in places:
            leaves = shredded_leaves(stored, places[number])
            found |= {leaf.value for leaf in leaves if leaf.value is not None and leaf.path in paths}
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    return {position for position in found if all(_has_nulls_only(group.column(position)) for group in groups)}


def _has_nulls_only(chunk: pq.ColumnChunkMetaData) -> bool:
    counted = chunk.statistics is not None and chunk.statistics.has_null_count
    return bool(counted and chunk.statistics.null_count >= chunk.num_values)


def chunk_bounds(leaf: ShreddedLeaf, group: pq.RowGroupMetaData, schema: pq.ParquetSchema) -> tuple[Any, Any] | None:
    """The minimum and maximum of a field in a row group.

    Returns:
        Both as `Typed`, or None for either if there is no value; None if they are not known.
    """
    if leaf.value is not None and not _has_nulls_only(group.column(leaf.value)):
        return None
    chunk = group.column(leaf.typed)
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return None
    if statistics.null_count == chunk.num_values:
        return None, None
    # UUIDs are not among them: engines order them differently
    primitive = decimal_type(leaf.type.precision) if pa.types.is_decimal128(leaf.type) else ARROW_TYPES.get(leaf.type)
    if primitive is None or not statistics.has_min_max:
        return None
    logical = json.loads(schema.column(leaf.typed).logical_type.to_json())
    wanted = pa.int64() if pa.types.is_integer(leaf.type) else leaf.type
    found = []
    for raw, upper in ((statistics.min_raw, False), (statistics.max_raw, True)):
        value = bound_of(wanted, raw, chunk.physical_type, logical, upper=upper)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        found.append(Typed(primitive, value))
    return found[0], found[1]


def typed_values(values: Iterable[Typed | None], type_: pa.DataType) -> pa.Array:
    """Bounds as an array of the storage of a type; null where there is none, or it is no value of the type."""
    rows = [None if value is None else encode_variant(value) for value in values]
    variants = pa.array([row and {"metadata": row[0], "value": row[1]} for row in rows], VARIANT)
    found = variant_get(variants, "$", type_)
    return found.cast(arrow_storage(type_)) if found.type != arrow_storage(type_) else found
