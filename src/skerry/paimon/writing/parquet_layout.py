"""The layout of Paimon's rows in Parquet files: timestamps as INT96, and columns without dictionaries.

A dictionary of values that do not repeat is larger than the values, and takes longer to build than all else that the
encoder does. Ascending keys, and the sequence numbers beside them, are stored as differences, which takes half of the
time of compressing them, and half of their room; Java reads them since 1.1. What compression does not make smaller is
not compressed.

Spec: docs/formats/paimon.md § 8.2, § 8.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.metadata.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from skerry.parquet import annotate_timestamps
from skerry.storage import Storage
from skerry.table.files.evolution import map_fields
from skerry.table.files.file_output import ParquetOutput
from skerry.table.rows.schema import is_list

__all__ = ["PaimonParquetOutput"]

_INT64_DIGITS: Final = 18
"""Decimals of more digits are byte arrays of fixed length. If they have a dictionary, Java 1.4.2 finds nothing by `=`,
as it searches for other bytes; its own writers do not use dictionaries for them."""

_SAMPLED_ROWS: Final = 1 << 10
_COMPRESSED_ROWS: Final = 1 << 12
_LEAST_SHRINKING: Final = 0.9
_LEAST_DISTINCT: Final = 0.99
"""Of so many rows, drawn from some 50,000 values: a dictionary of those exceeds what the writer allows."""


class PaimonParquetOutput(ParquetOutput):
    """A Parquet file with the layout that Paimon Java expects.

    Timestamps of seven digits or more are INT96, since Java stores nanoseconds nowhere else, and all others are INT64,
    which Java's filters assume.

    Args:
        storage: Access to it.
        location: Its location, where no file must exist.
        schema: Its columns with field ids.
        first: Its first rows, which tell whether values repeat; None if they are not known.
        codec: How columns are compressed.
        level: The codec's level; None for its default.
        has_differences: Whether keys and sequence numbers are stored as differences.
        options: Those of PyArrow's writer.
    """

    def __init__(
        self,
        storage: Storage,
        location: str,
        schema: pa.Schema,
        first: pa.Table | None = None,
        *,
        codec: str = "zstd",
        level: int | None = None,
        has_differences: bool = True,
        **options: Any,
    ) -> None:
        leaves = list(_leaves(schema))
        differences = _differences(schema) if has_differences else []
        dictionaries = [leaf.path for leaf in leaves if leaf.path not in differences and _has_dictionary(leaf, first)]
        fixed = {leaf.path for leaf in leaves} - {*dictionaries, *differences}
        codecs = {leaf.path: codec for leaf in leaves}
        if codec != "none" and first is not None:
            codecs |= {
                path: "none" for path in fixed if path in first.column_names and not _shrinks(first.column(path))
            }
        compressed = [path for path, found in codecs.items() if found != "none"]
        nanoseconds = any(_is_nanoseconds(leaf.type) for leaf in leaves)
        timestamps = {leaf.index: _stored(leaf.type) for leaf in leaves if _is_short(leaf.type)} if nanoseconds else {}
        self._casts = [_of_timestamps(schema, _stored), _of_timestamps(schema, _number)] if timestamps else []
        super().__init__(
            storage,
            location,
            self._casts[-1] if timestamps else schema,
            edit_tail=(lambda tail: annotate_timestamps(tail, timestamps)) if timestamps else None,
            use_dictionary=dictionaries,
            column_encoding=dict.fromkeys(differences, "DELTA_BINARY_PACKED"),
            compression=codecs,
            compression_level={} if level is None else dict.fromkeys(compressed, level),
            store_decimal_as_integer=True,
            use_deprecated_int96_timestamps=nanoseconds,
            **{"write_page_index": SEQUENCE_NUMBER in schema.names, **options},  # keys are looked up in these files
        )

    def write(self, rows: pa.Table) -> None:
        """Write a row group."""
        for schema in self._casts:
            rows = rows.cast(schema)
        super().write(rows)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A primitive column.

    Args:
        index: Its index among all elements of Parquet's schema.
        path: Its path.
        type: Its type.
    """

    index: int
    path: str
    type: pa.DataType


def _leaves(schema: pa.Schema) -> Iterator[_Leaf]:
    """The primitive columns. Spec: Parquet spec, LogicalTypes.md, Lists, Maps: which groups are around them."""
    index = 0

    def walk(type_: pa.DataType, path: str) -> Iterator[_Leaf]:
        nonlocal index
        index += 1
        if pa.types.is_struct(type_):
            for child in type_:
                yield from walk(child.type, f"{path}.{child.name}")
        elif pa.types.is_map(type_):
            index += 1
            yield from walk(type_.key_type, f"{path}.key_value.key")
            yield from walk(type_.item_type, f"{path}.key_value.value")
        elif is_list(type_):
            index += 1
            yield from walk(type_.value_type, f"{path}.list.element")
        else:
            yield _Leaf(index, path, type_)

    for field in schema:
        yield from walk(field.type, field.name)


def _differences(schema: pa.Schema) -> list[str]:
    """The numbers by which rows of primary-key tables are ordered, and their sequence numbers."""
    if VALUE_KIND not in schema.names:
        return []
    keys = [name for name in schema.names if name.startswith(KEY_PREFIX)]
    ordered = [*keys, *(name.removeprefix(KEY_PREFIX) for name in keys), SEQUENCE_NUMBER]
    numbers = (pa.types.is_int32, pa.types.is_int64, pa.types.is_date32)
    return [name for name in ordered if any(is_type(schema.field(name).type) for is_type in numbers)]


def _has_dictionary(leaf: _Leaf, first: pa.Table | None) -> bool:
    if leaf.path.startswith(KEY_PREFIX) or leaf.path == SEQUENCE_NUMBER:
        return False
    if pa.types.is_decimal(leaf.type) and leaf.type.precision > _INT64_DIGITS:
        return False
    return first is None or leaf.path not in first.column_names or _repeats(first.column(leaf.path))


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether rows from the whole of a column share values; of few rows, yes."""
    if len(column) < _SAMPLED_ROWS:
        return True
    sampled = column.take(pa.array(np.linspace(0, len(column) - 1, _SAMPLED_ROWS).astype(np.int64)))
    return pc.count_distinct(sampled).as_py() < _LEAST_DISTINCT * (_SAMPLED_ROWS - sampled.null_count)


def _shrinks(column: pa.ChunkedArray) -> bool:
    """Whether values in the middle of a column take less room when they are compressed; of few values, yes."""
    if not pa.types.is_primitive(column.type) or pa.types.is_boolean(column.type) or len(column) < _SAMPLED_ROWS:
        return True
    sampled = column.slice((len(column) - _COMPRESSED_ROWS) // 2 if len(column) > _COMPRESSED_ROWS else 0)
    values = sampled.slice(0, _COMPRESSED_ROWS).combine_chunks()
    width = column.type.bit_width // 8
    data = memoryview(values.buffers()[1])[values.offset * width : (values.offset + len(values)) * width]
    return len(pa.compress(data, "zstd", asbytes=True)) < _LEAST_SHRINKING * len(data)


def _is_nanoseconds(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) and type_.unit == "ns"


def _is_short(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) and type_.unit != "ns"


def _stored(type_: pa.TimestampType) -> pa.TimestampType:
    """The Parquet type of a timestamp; Parquet has no seconds."""
    return pa.timestamp("ms", type_.tz) if type_.unit == "s" else type_


def _number(type_: pa.TimestampType) -> pa.DataType:
    return pa.int64()


def _of_timestamps(schema: pa.Schema, change: Callable[[pa.TimestampType], pa.DataType]) -> pa.Schema:
    """A schema with other types for timestamps of six digits or less."""
    return map_fields(schema, lambda field: field.with_type(change(field.type)) if _is_short(field.type) else field)
