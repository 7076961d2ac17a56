"""Iceberg schemas in ORC files: types that ORC lacks, and field ids as type attributes.

Spec: Iceberg table spec, Appendix A, ORC.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.table.schema import FIELD_ID_KEY
from skerry.table.values import is_uuid

__all__ = ["check_times", "orc_schema"]


def orc_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of an ORC file for a table's schema; PyArrow writes field metadata as attributes of ORC types.

    Columns of the type unknown, which have no values, are left out.

    Raises:
        UnsupportedError: A nested field is of that type.
    """
    return pa.schema([_field(field) for field in schema if not pa.types.is_null(field.type)])


def check_times(rows: pa.Table) -> None:
    """Refuse what PyArrow's ORC writer gets wrong: parts of seconds before 1970, whose nanoseconds it writes negative.

    Other readers find such times a second earlier.

    Raises:
        UnsupportedError: A column has such a time; the message names it.
    """
    for field, column in zip(rows.schema, rows.columns, strict=True):
        for times in (times for chunk in column.chunks for times in _times(chunk)):
            values = times.cast(pa.int64()).drop_null().to_numpy()
            early = values[values < 0]
            wrong = early[early % {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[times.type.unit] != 0]
            if len(wrong):
                example = pa.scalar(int(wrong[0]), pa.int64()).cast(times.type)
                raise UnsupportedError(
                    f"column {field.name!r} has {example}: times before 1970 that are no whole seconds cannot be "
                    "written to ORC files, because other readers would find another time there; write Parquet or Avro"
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


def _field(field: pa.Field) -> pa.Field:
    if pa.types.is_null(field.type):
        raise UnsupportedError(f"ORC files cannot hold field {field.name!r} of type unknown")
    attributes = {"iceberg.id": field.metadata[FIELD_ID_KEY].decode(), "iceberg.required": _text(not field.nullable)}
    type_, own = _stored(field.type)
    return pa.field(field.name, type_, nullable=field.nullable, metadata={**attributes, **own})


def _text(value: bool) -> str:
    return "true" if value else "false"


def _stored(type_: pa.DataType) -> tuple[pa.DataType, dict[str, str]]:
    """The Arrow type that PyArrow writes as the right ORC type, and the attributes that tell the rest."""
    if pa.types.is_struct(type_):
        return pa.struct([_field(child) for child in type_]), {}
    if pa.types.is_list(type_):
        return pa.list_(_field(type_.value_field)), {}
    if pa.types.is_map(type_):
        return pa.map_(_field(type_.key_field), _field(type_.item_field)), {}
    if pa.types.is_time64(type_):
        return pa.int64(), {"iceberg.long-type": "TIME"}
    if pa.types.is_int64(type_):
        return type_, {"iceberg.long-type": "LONG"}
    if pa.types.is_timestamp(type_):
        return type_, {"iceberg.timestamp-unit": {"us": "MICROS", "ns": "NANOS"}[type_.unit]}
    if is_uuid(type_):
        return pa.binary(), {"iceberg.binary-type": "UUID"}
    if pa.types.is_fixed_size_binary(type_):
        return pa.binary(), {"iceberg.binary-type": "FIXED", "iceberg.length": str(type_.byte_width)}
    if pa.types.is_binary(type_):
        return type_, {"iceberg.binary-type": "BINARY"}
    return type_, {}
