"""Manifest metrics of a data file's columns, from the Parquet footer.

Does not import PyIceberg, so that tasks on executors stay light. A bound is only ever omitted or widened, never
guessed: statistics that are missing, or of another order or type, yield none.

Spec: Iceberg spec, Data File Fields, Field-level Metrics and Statistics; Iceberg properties,
`write.metadata.metrics.*`.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.writing.bounds import encode_bounds
from skerry.iceberg.writing.variant_bounds import VariantMetrics, variant_metrics
from skerry.table.files.data_file import DataFile
from skerry.table.files.parquet_statistics import bound_of, extent_of
from skerry.table.properties import whole_number
from skerry.table.rows.schema import FIELD_ID_KEY, is_list, nearest
from skerry.table.rows.values import is_uuid
from skerry.variant import is_variant
from skerry.wkb import PLANAR, Shapes, shapes_of

__all__ = ["MetricsKind", "MetricsMode", "metrics_modes", "parquet_data_file"]

_DEFAULT_PROPERTY = "write.metadata.metrics.default"
_COLUMN_PROPERTY = "write.metadata.metrics.column."
_LIMIT_PROPERTY = "write.metadata.metrics.max-inferred-column-defaults"
_LIMIT = 100


class MetricsKind(Enum):
    """Which of a column's metrics are kept."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """Which of a column's metrics are kept.

    Args:
        kind: Nothing, counts, or counts with bounds.
        length: For truncated bounds, their maximum code points (strings) or bytes (binary); otherwise None.
    """

    kind: MetricsKind
    length: int | None = None

    @classmethod
    def parse(cls, text: str, *, property_name: str) -> MetricsMode:
        """Parse `none`, `counts`, `full` or `truncate(16)`.

        Raises:
            SchemaError: The text is none of these.
        """
        lowered = text.strip().lower()
        truncate = re.fullmatch(r"truncate\((\d{1,9})\)", lowered)
        if truncate is not None and int(truncate[1]) > 0:
            return cls(MetricsKind.TRUNCATE, int(truncate[1]))
        if lowered in ("none", "counts", "full"):
            return cls(MetricsKind(lowered))
        choices = ("none", "counts", "full", "truncate(16)")
        raise SchemaError(f"table property {property_name} is {text!r}{nearest(lowered, choices)}")

    @property
    def has_bounds(self) -> bool:
        """Whether bounds are kept."""
        return self.kind in (MetricsKind.TRUNCATE, MetricsKind.FULL)


_NONE = MetricsMode(MetricsKind.NONE)
_TRUNCATE_16 = MetricsMode(MetricsKind.TRUNCATE, 16)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of a Parquet file or of a table: its dotted name, its id, and whether it is nested in lists or maps."""

    name: str
    field_id: int | None
    type: pa.DataType
    repeated: bool
    shapes: Shapes | None = None


def _children(field_: pa.Field, *, in_file: bool = False) -> list[tuple[str, pa.Field]]:
    type_ = field_.type
    if not pa.types.is_nested(type_) or (
        is_variant(type_) and not in_file
    ):  # a column of the table, but several of the file
        return []
    if pa.types.is_struct(type_):
        return [(type_.field(index).name, type_.field(index)) for index in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [("key", type_.key_field), ("value", type_.item_field)]
    return [("element", type_.value_field)] if is_list(type_) else []


def _leaves(field_: pa.Field, name: str, *, in_file: bool, repeated: bool = False) -> Iterator[_Leaf]:
    """The primitive columns below a field in the order in which Parquet stores them."""
    below = _children(field_, in_file=in_file)
    if not below:
        text = (field_.metadata or {}).get(FIELD_ID_KEY, b"")
        shapes = None if in_file else shapes_of(field_)
        yield _Leaf(name, int(text) if text.isdigit() else None, field_.type, repeated, shapes)
    repeated = repeated or not pa.types.is_struct(field_.type)
    for child_name, child in below:
        yield from _leaves(child, f"{name}.{child_name}", in_file=in_file, repeated=repeated)


def _all_leaves(schema: pa.Schema, *, in_file: bool = False) -> list[_Leaf]:
    return [leaf for field_ in schema for leaf in _leaves(field_, field_.name, in_file=in_file)]


# Which metrics -------------------------------------------------------------------------------------------------------


def metrics_modes(
    schema: pa.Schema, properties: Mapping[str, str], sort_ids: Collection[int] = ()
) -> dict[int, MetricsMode]:
    """The metrics modes of a table's columns.

    Args:
        schema: The table's schema with field ids.
        properties: The table's properties; `write.metadata.metrics.default`, `….column.<name>` and
            `….max-inferred-column-defaults` count.
        sort_ids: Field ids of the sort columns, which keep bounds unless a property forbids it.

    Returns:
        The mode by field id, for every primitive column, elements of lists and maps included.

    Raises:
        SchemaError: A property has an invalid value.
    """
    leaves = [leaf for leaf in _all_leaves(schema) if leaf.field_id is not None]
    if _DEFAULT_PROPERTY in properties:
        default = MetricsMode.parse(properties[_DEFAULT_PROPERTY], property_name=_DEFAULT_PROPERTY)
        with_default = {leaf.field_id for leaf in leaves}
    else:
        default = _TRUNCATE_16
        limit = _limit(properties)
        if sum(1 for _ in _all_fields(list(schema))) <= limit:
            with_default = {leaf.field_id for leaf in leaves}
        else:
            with_default = set(_first_ids(list(schema))[:limit])
    for_sorted = default if default.has_bounds else _TRUNCATE_16
    modes = {}
    for leaf in leaves:
        override = _COLUMN_PROPERTY + leaf.name
        assert leaf.field_id is not None
        if override in properties:
            modes[leaf.field_id] = MetricsMode.parse(properties[override], property_name=override)
        elif leaf.field_id in sort_ids:
            modes[leaf.field_id] = for_sorted
        else:
            modes[leaf.field_id] = default if leaf.field_id in with_default else _NONE
    return modes


def _limit(properties: Mapping[str, str]) -> int:
    return whole_number(properties, _LIMIT_PROPERTY, _LIMIT, least=0)


def _all_fields(fields: list[pa.Field]) -> Iterator[pa.Field]:
    for field_ in fields:
        yield field_
        yield from _all_fields([child for _, child in _children(field_)])


def _first_ids(fields: list[pa.Field]) -> list[int]:
    """Ids of primitive fields, those of a struct before those nested in them, as Iceberg counts for its limit."""
    ids = [int(field_.metadata[FIELD_ID_KEY]) for field_ in fields if not _children(field_)]
    for field_ in fields:
        ids += _first_ids([child for _, child in _children(field_)])
    return ids


# From the footer -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Column:
    """Metrics of a column over the row groups read so far."""

    size_bytes: int = 0
    values: int = 0
    nulls: int | None = 0
    lower: list[Any] | None = field(default_factory=list)
    upper: list[Any] | None = field(default_factory=list)


def parquet_data_file(
    location: str,
    metadata: pq.FileMetaData,
    file_size_bytes: int,
    schema: pa.Schema,
    modes: Mapping[int, MetricsMode],
    *,
    spec_id: int = 0,
    partition: tuple[Any, ...] = (),
    sort_order_id: int | None = None,
    nan_value_counts: Mapping[int, int] | None = None,
) -> DataFile:
    """The entry of a Parquet file for a manifest.

    Args:
        location: The file.
        metadata: Its footer.
        file_size_bytes: Its exact size.
        schema: The table's schema with field ids. Columns of the file are found by id, or by name in a file without any
            ids.
        modes: Which metrics to keep, by field id (`metrics_modes`); none for other ids.
        spec_id: The partition spec.
        partition: The partition, in physical values.
        sort_order_id: The sort order of the rows.
        nan_value_counts: NaNs by field id, which a footer does not contain.

    Raises:
        UnsupportedError: The columns of the file cannot be matched.

    Spec: Iceberg spec, Data File Fields.
    """
    table_leaves = {leaf.field_id: leaf for leaf in _all_leaves(schema) if leaf.field_id is not None}
    ids = _field_ids(location, metadata, table_leaves)
    wanted = {
        position: table_leaves[number]
        for position, number in enumerate(ids)
        if number in table_leaves and modes.get(number, _NONE).kind is not MetricsKind.NONE
    }
    columns = {position: _Column() for position in wanted}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for position, leaf in wanted.items():
            _add(columns[position], row_group.column(position), metadata.schema.column(position), leaf, modes)
    by_id = {leaf.field_id: columns[position] for position, leaf in wanted.items() if leaf.field_id is not None}
    counted = {number: column for number, column in by_id.items() if not table_leaves[number].repeated}
    bounds = {
        number: _encoded_bounds(table_leaves[number], column, modes[number].length)
        for number, column in counted.items()
        # Iceberg Java compares UUIDs as signed numbers, others and Parquet compare bytes: no bound holds for both
        if modes[number].has_bounds and not is_uuid(table_leaves[number].type)
    }
    variants = dict(variant_metrics(metadata, schema, {n: mode.length for n, mode in modes.items() if mode.has_bounds}))
    variants = {n: found for n, found in variants.items() if modes.get(n, _NONE).kind is not MetricsKind.NONE}
    with_counts: dict[int, _Column | VariantMetrics] = {**counted, **variants}
    bounds |= {number: (found.lower, found.upper) for number, found in variants.items()}
    return DataFile(
        location=location,
        file_format="parquet",
        record_count=metadata.num_rows,
        file_size_bytes=file_size_bytes,
        spec_id=spec_id,
        partition=partition,
        column_sizes={number: column.size_bytes for number, column in by_id.items()},
        value_counts={number: column.values for number, column in with_counts.items()},
        null_value_counts={number: column.nulls for number, column in with_counts.items() if column.nulls is not None},
        nan_value_counts={
            number: count
            for number, count in (nan_value_counts or {}).items()
            if number in counted and pa.types.is_floating(table_leaves[number].type)
        },
        lower_bounds={number: lower for number, (lower, _) in bounds.items() if lower is not None},
        upper_bounds={number: upper for number, (_, upper) in bounds.items() if upper is not None},
        split_offsets=_split_offsets(metadata),
        sort_order_id=sort_order_id,
    )


def _field_ids(location: str, metadata: pq.FileMetaData, table: Mapping[int, _Leaf]) -> list[int | None]:
    """The field id of every column of the file, None for columns that the table does not have."""
    try:
        leaves = _all_leaves(metadata.schema.to_arrow_schema(), in_file=True)
    except (pa.ArrowException, NotImplementedError) as error:
        raise UnsupportedError(f"the Parquet schema cannot be read: {error}", location=location) from error
    if len(leaves) != metadata.num_columns:
        raise UnsupportedError(
            f"the file has {metadata.num_columns} columns, but only {len(leaves)} in its Arrow schema",
            location=location,
        )
    if any(leaf.field_id is not None for leaf in leaves):
        return [leaf.field_id for leaf in leaves]
    by_name = {leaf.name: leaf.field_id for leaf in table.values()}
    return [by_name.get(leaf.name) for leaf in leaves]


def _add(
    column: _Column,
    chunk: pq.ColumnChunkMetaData,
    stored: pq.ColumnSchema,
    leaf: _Leaf,
    modes: Mapping[int, MetricsMode],
) -> None:
    column.size_bytes += chunk.total_compressed_size
    column.values += chunk.num_values
    if chunk.num_values == 0:
        return
    statistics = chunk.statistics
    known = statistics is not None and statistics.has_null_count
    column.nulls = column.nulls + statistics.null_count if known and column.nulls is not None else None
    assert leaf.field_id is not None
    if leaf.repeated or not modes[leaf.field_id].has_bounds:
        return
    if leaf.shapes is not None:
        _add_box(column, chunk)
        return
    if known and not statistics.has_min_max and statistics.null_count == chunk.num_values:
        return  # only nulls: nothing to bound
    lower = upper = None
    if statistics is not None and statistics.has_min_max and chunk.physical_type != "INT96":
        logical = json.loads(stored.logical_type.to_json())
        lower = bound_of(leaf.type, statistics.min_raw, chunk.physical_type, logical, upper=False)
        upper = bound_of(leaf.type, statistics.max_raw, chunk.physical_type, logical, upper=True)
        if _is_nan(lower) or _is_nan(upper):
            lower = upper = None
    column.lower = None if lower is None or column.lower is None else [*column.lower, lower]
    column.upper = None if upper is None or column.upper is None else [*column.upper, upper]


def _add_box(column: _Column, chunk: pq.ColumnChunkMetaData) -> None:
    """Bounds of shapes are points: the corners of the box that a chunk's geospatial statistics give."""
    box = extent_of(chunk)
    column.lower = None if box is None or column.lower is None else [*column.lower, box[:2]]
    column.upper = None if box is None or column.upper is None else [*column.upper, box[2:]]


def _encoded_bounds(leaf: _Leaf, column: _Column, length: int | None) -> tuple[bytes | None, bytes | None]:
    if leaf.shapes is None:
        return encode_bounds(leaf.type, column.lower, column.upper, length)
    if leaf.shapes.edges != PLANAR or not column.lower or not column.upper:
        return None, None
    lows, highs = zip(*column.lower, strict=True), zip(*column.upper, strict=True)
    return struct.pack("<2d", *map(min, lows)), struct.pack("<2d", *map(max, highs))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _split_offsets(metadata: pq.FileMetaData) -> tuple[int, ...]:
    """The offset of each row group; empty if they are not ascending."""
    offsets = []
    for group in range(metadata.num_row_groups):
        if metadata.row_group(group).num_rows == 0:
            continue
        first = metadata.row_group(group).column(0)
        dictionary = first.dictionary_page_offset if first.has_dictionary_page else None
        offsets.append(min(dictionary, first.data_page_offset) if dictionary else first.data_page_offset)
    ascending = all(left < right for left, right in itertools.pairwise(offsets))
    return tuple(offsets) if ascending else ()
