"""Paimon's rows in ORC files: field ids as type attributes, and what PyArrow's writer must not be given.

Spec: `formats/paimon.md` § 8.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.table.schema import FIELD_ID_KEY

__all__ = ["check_times", "orc_schema"]


def orc_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of an ORC file; PyArrow writes field metadata as attributes of ORC types."""
    return pa.schema([_field(field) for field in schema])


def _field(field: pa.Field) -> pa.Field:
    metadata = {"paimon.id": field.metadata[FIELD_ID_KEY].decode()}
    return pa.field(field.name, _stored(field.type), nullable=field.nullable, metadata=metadata)


def _stored(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([_field(child) for child in type_])
    if pa.types.is_list(type_):
        return pa.list_(_field(type_.value_field))
    if pa.types.is_map(type_):
        return pa.map_(_field(type_.key_field), _field(type_.item_field))
    return pa.int32() if pa.types.is_time32(type_) else type_


def check_times(rows: pa.Table) -> None:
    """Refuse times that other readers of ORC files find somewhere else, or not at all.

    PyArrow writes parts of seconds before 1970 with negative nanoseconds: Paimon Java fails on parts of a millisecond,
    and in the second before 1970 it reads other times than were written.

    Raises:
        UnsupportedError: A column has such a time; the message names it.

    Spec: `formats/paimon.md` § 8, ORC pitfalls.
    """
    for field, column in zip(rows.schema, rows.columns, strict=True):
        for times in (times for chunk in column.chunks for times in _times(chunk)):
            per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[times.type.unit]
            values = times.cast(pa.int64()).drop_null().to_numpy()
            early = values[values < 0]
            is_wrong = (early > -per_second) | (early % max(per_second // 1000, 1) != 0)
            if is_wrong.any():
                example = pa.scalar(int(early[is_wrong][0]), pa.int64()).cast(times.type)
                raise UnsupportedError(
                    f"column {field.name!r} has {example}: such times before 1970 cannot be written to ORC files, "
                    "because other readers would find another time there; write Parquet"
                )


def _times(array: pa.Array) -> Iterator[pa.Array]:
    """The timestamps in an array, however deep."""
    type_ = array.type
    if pa.types.is_timestamp(type_):
        yield array
    elif pa.types.is_struct(type_):
        for child in array.flatten():
            yield from _times(child)
    elif pa.types.is_list(type_):
        yield from _times(array.flatten())
    elif pa.types.is_map(type_) and len(array):
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        for child in (array.keys, array.items):
            yield from _times(child.slice(start, stop - start))
