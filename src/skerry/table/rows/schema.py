"""Schemas of both table formats: Arrow schemas whose fields carry their field id.

The id is in the Arrow field metadata under `PARQUET:field_id`, which PyArrow reads from and writes to Parquet files.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.variant.values import is_variant
from skerry.wkb.fields import Shapes, shapes_of

__all__ = [
    "LARGE_OBJECT_KEY",
    "NULL_DEFAULT_KEY",
    "WRITE_DEFAULT_KEY",
    "Leaf",
    "empty_batch",
    "field_id",
    "is_list",
    "leaf",
    "leaves",
    "nearest",
]

FIELD_ID_KEY = b"PARQUET:field_id"
WRITE_DEFAULT_KEY = b"skerry:write_default"
"""Metadata key of the value that fills a column missing from the data, in single-value serialisation."""
LARGE_OBJECT_KEY = b"skerry:large_object"
"""Metadata key of columns whose values are read as descriptors, and neither compared nor counted."""
NULL_DEFAULT_KEY = b"skerry:default_for_null"
"""Metadata key of columns whose write default also replaces nulls in the data."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column, possibly inside structs, with one value per row.

    Args:
        name: Dotted name.
        field_id: Field id.
        type: Arrow type.
        path: Names from the top-level column down.
        shapes: What the shapes of a column of these have in common; their type is binary, but their bounds are points.
    """

    name: str
    field_id: int
    type: pa.DataType
    path: tuple[str, ...]
    shapes: Shapes | None = None

    @property
    def has_shapes(self) -> bool:
        """Whether the values are shapes as well-known binary."""
        return self.shapes is not None


def field_id(field: pa.Field) -> int:
    """The field id of an Arrow field.

    Raises:
        SchemaError: The field has no id.
    """
    try:
        return int(field.metadata[FIELD_ID_KEY])
    except (KeyError, TypeError, ValueError):
        raise SchemaError(f"column {field.name!r} has no field id") from None


def is_list(type_: pa.DataType) -> bool:
    """Whether a type is any of Arrow's list types."""
    return (
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
        or pa.types.is_list_view(type_)
        or pa.types.is_large_list_view(type_)
    )


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """An empty batch of a schema; PyArrow's `empty_table` fails on extension types inside lists, maps and structs."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def leaves(schema: pa.Schema) -> list[Leaf]:
    """All primitive columns, struct members included.

    Elements of lists and maps are not columns of the row, variants have no type that columns share, and large objects
    are not looked at.
    """
    known = _LEAVES.get(id(schema))
    if known is None or known[0] is not schema:
        found: list[Leaf] = []
        _find_leaves(schema, (), found)
        known = schema, tuple(found)
        if len(_LEAVES) >= _MOST_KNOWN:
            _LEAVES.clear()
        _LEAVES[id(schema)] = known
    return list(known[1])


def _find_leaves(fields: Iterable[pa.Field], outer: tuple[str, ...], found: list[Leaf]) -> None:
    for field in fields:
        type_, path = field.type, (*outer, field.name)
        if not pa.types.is_nested(type_):
            if LARGE_OBJECT_KEY not in (field.metadata or {}):
                found.append(Leaf(".".join(path), field_id(field), type_, path, shapes_of(field)))
        elif pa.types.is_struct(type_) and not is_variant(type_):
            _find_leaves(type_, path, found)


_MOST_KNOWN: Final = 32
_LEAVES: Final[dict[int, tuple[pa.Schema, tuple[Leaf, ...]]]] = {}
"""The leaves of schemas that were asked for last: commits ask many times for those of the same one."""


def leaf(schema: pa.Schema, name: str) -> Leaf:
    """The primitive column with a dotted name.

    Raises:
        SchemaError: It does not exist; the message proposes the nearest name.
    """
    known = leaves(schema)
    for candidate in known:
        if candidate.name == name:
            return candidate
    raise SchemaError(f"no primitive column {name!r}{nearest(name, (candidate.name for candidate in known))}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: `; did you mean 'x'?`, or the existing names."""
    names = sorted(set(known))
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    if close:
        return f"; did you mean {by_lower[close[0]]!r}?"
    if not names:
        return "; there are none"
    shown = ", ".join(names[:10])
    return f"; there are: {shown}{', …' if len(names) > 10 else ''}"
