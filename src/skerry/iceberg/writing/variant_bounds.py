"""Metrics of columns of variants: counts, and bounds of their shredded fields.

Bounds are two variants, objects of the lower and upper bounds of fields by normalized path.

Spec: Iceberg spec, Bounds for Variant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from skerry.errors import FormatError
from skerry.iceberg.writing.bounds import truncate_lower, truncate_upper
from skerry.table.files.evolution import count_leaves
from skerry.table.files.variant_statistics import ShreddedLeaf, chunk_bounds, shredded_leaves
from skerry.table.predicate import Column
from skerry.table.rows.schema import FIELD_ID_KEY
from skerry.variant import VARIANT, Typed, encode_variant, is_variant, variant_get
from skerry.variant.decoding import split_metadata
from skerry.variant.paths import normalized_path

__all__ = ["VariantMetrics", "decode_bounds", "variant_metrics"]


@dataclass(frozen=True, slots=True)
class VariantMetrics:
    """Metrics of a column of variants.

    Args:
        values: The number of its rows.
        nulls: How many are null, None if unknown.
        lower: Lower bounds, serialised; None if there are none.
        upper: Upper bounds, serialised; None if there are none.
    """

    values: int
    nulls: int | None
    lower: bytes | None
    upper: bytes | None


def variant_metrics(
    metadata: pq.FileMetaData, schema: pa.Schema, lengths: Mapping[int, int | None]
) -> Iterator[tuple[int, VariantMetrics]]:
    """The metrics of all top-level columns of variants of a file, by field id.

    Args:
        metadata: Its footer.
        schema: The table's columns with field ids.
        lengths: By field id, the maximum code points of text and bytes of binary bounds, None for no limit; columns
            that are not in it have no bounds.
    """
    wanted = {_id(field): field for field in schema if is_variant(field.type)}
    if not wanted:
        return
    stored = metadata.schema.to_arrow_schema()
    for index, field in enumerate(stored):
        number = _id(field)
        if number not in wanted or number is None:
            continue
        position = _metadata_position(stored, index)
        values, nulls = 0, 0 if position is not None else None
        for group in range(metadata.num_row_groups if position is not None else 0):
            chunk = metadata.row_group(group).column(position)
            values += chunk.num_values
            known = chunk.statistics is not None and chunk.statistics.has_null_count
            nulls = nulls + chunk.statistics.null_count if known and nulls is not None else None
        lower = upper = None
        if number in lengths:
            lower, upper = _bounds(metadata, list(shredded_leaves(stored, index)), lengths[number])
        yield number, VariantMetrics(values or metadata.num_rows, nulls, lower, upper)


def _id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID_KEY, b"")
    return int(text) if text.isdigit() else None


def _metadata_position(stored: pa.Schema, index: int) -> int | None:
    """The position of the column `metadata` of a column of variants among the primitive columns."""
    names = stored.field(index).type
    if not pa.types.is_struct(names):
        return None
    before = pa.schema(list(stored)[:index])
    inside = names.get_field_index("metadata")
    return None if inside < 0 else count_leaves(before) + count_leaves(pa.schema(list(names)[:inside]))


def _bounds(
    metadata: pq.FileMetaData, leaves: list[ShreddedLeaf], length: int | None
) -> tuple[bytes | None, bytes | None]:
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    for leaf in leaves:
        chunks = [
            chunk_bounds(leaf, metadata.row_group(group), metadata.schema) for group in range(metadata.num_row_groups)
        ]
        known = [chunk for chunk in chunks if chunk is not None]
        present = [(least, greatest) for least, greatest in known if least is not None]
        if len(known) < len(chunks) or not present:
            continue
        type_ = present[0][0].type
        least, greatest = min(found.value for found, _ in present), max(found.value for _, found in present)
        if least == 0 and isinstance(least, float):
            least = math.copysign(0.0, -1)
        if length is not None and isinstance(least, str | bytes):
            least, greatest = truncate_lower(least, length), truncate_upper(greatest, length)
        name = normalized_path(leaf.path)
        lower[name] = Typed(type_, least)
        if greatest is not None:
            upper[name] = Typed(type_, greatest)
    return _serialised(lower), _serialised(upper)


def _serialised(bounds: dict[str, Any]) -> bytes | None:
    return b"".join(encode_variant(bounds)) if bounds else None


def decode_bounds(bounds: pa.Array, column: Column) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The bounds of a value inside of variants.

    Args:
        bounds: binary[n], serialised bounds of a column of variants; null where there are none.
        column: The value.

    Returns:
        array[n] of its type, null where there is no bound, or it is no value of the type; and bool[n], where there is
        one that is no floating-point number, so that no value is NaN.

    Raises:
        FormatError: The bytes are no such bounds.
    """
    rows: list[dict[str, bytes] | None] = []
    for data in bounds.to_pylist():
        if data is None:
            rows.append(None)
            continue
        metadata, value = split_metadata(data)
        rows.append({"value": value, "metadata": metadata})
    try:
        assert column.inside is not None
        name = normalized_path((normalized_path(column.inside),))
        variants = pa.array(rows, VARIANT)
        found = variant_get(variants, name, column.type)
        is_exact = variant_get(variants, name, pa.decimal128(38, 0)).is_valid()
        return found, is_exact.to_numpy(zero_copy_only=False)
    except FormatError as error:
        raise FormatError(f"bounds of a variant: {error.message}", rule="Iceberg spec, Bounds for Variant") from error
