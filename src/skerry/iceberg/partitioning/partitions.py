"""Partition specs: parsed from text, applied to batches, written as folders.

Spec: Iceberg spec, Partitioning, Partition Transforms.
"""

from __future__ import annotations

import base64
import datetime
import re
import urllib.parse
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.metadata.arrow_schema import to_arrow_type
from skerry.iceberg.metadata.partition_spec import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from skerry.iceberg.metadata.types import GeographyType, GeometryType, NestedField, StructType
from skerry.iceberg.partitioning.transforms import apply, parse_transform, result_type, unquote
from skerry.storage import bounded_name
from skerry.table.rows.schema import FIELD_ID_KEY, nearest
from skerry.table.rows.values import is_uuid, physical_value

__all__ = [
    "column_of",
    "human_value",
    "number_tuples",
    "partition_columns",
    "partition_path",
    "partition_spec",
    "partition_type",
    "source_column",
    "split_by_partition",
]

_ALIAS = re.compile(r'(?P<transform>.+?)\s+as\s+(?P<name>"(?:[^"]|"")+"|[^\s(),"]+)\s*', re.IGNORECASE | re.DOTALL)
_SUFFIXES: dict[type, str] = {
    BucketTransform: "_bucket",
    TruncateTransform: "_trunc",
    YearTransform: "_year",
    MonthTransform: "_month",
    DayTransform: "_day",
    HourTransform: "_hour",
    VoidTransform: "_null",
    IdentityTransform: "",
}


# Making specs --------------------------------------------------------------------------------------------------------


def partition_spec(schema: Schema, fields: Iterable[str], *, spec_id: int = 0) -> PartitionSpec:
    """The partition spec of a list of transforms in text form.

    Args:
        schema: The table's schema.
        fields: Transforms as `skerry.iceberg.partitioning.transforms.parse_transform` reads them, each with an optional
            `… as name`; without it the name is Iceberg's: `ts_day`, `id_bucket`, `s_trunc`, or the column itself.
        spec_id: Id of the spec.

    Raises:
        SchemaError: An unknown column or transform, one that does not apply, or two equal fields.
        UnsupportedError: The identity of a fixed column: Iceberg Java (1.12) fails on manifests with such values.
    """
    result: list[PartitionField] = []
    names: set[str] = set()
    seen: set[tuple[int, str]] = set()
    for text in fields:
        alias = _ALIAS.fullmatch(text)
        unnamed = alias["transform"] if alias else text
        column, transform = parse_transform(unnamed)
        source = source_column(schema, column)
        values = result_type(transform, to_arrow_type(source.field_type, path=(column,)))
        if pa.types.is_fixed_size_binary(values) and not isinstance(transform, VoidTransform):
            raise UnsupportedError(
                f"{text!r}: Iceberg Java cannot read partitions by {values}; use bucket(16, {column})"
            )
        name = unquote(alias["name"]) if alias else column + _SUFFIXES[type(transform)]
        if (source.field_id, _family(transform)) in seen:
            raise SchemaError(f"{text!r}: column {column!r} is partitioned in this way already")
        in_the_way = name != column and _has_column(schema, name)
        if name in names or in_the_way or (name == column and not isinstance(transform, IdentityTransform)):
            raise SchemaError(f"{text!r}: the name {name!r} is taken; give it another with `{unnamed} as …`")
        names.add(name)
        seen.add((source.field_id, _family(transform)))
        result.append(PartitionField(source.field_id, PARTITION_FIELD_ID_START + len(result), transform, name))
    return PartitionSpec(*result, spec_id=spec_id)


def _family(transform: Transform) -> str:
    timed = (YearTransform, MonthTransform, DayTransform, HourTransform)
    return "time" if isinstance(transform, timed) else str(transform)


def _has_column(schema: Schema, name: str) -> bool:
    return name in schema.column_names


def source_column(schema: Schema, name: str) -> NestedField:
    """The primitive column of that dotted name, which may be in structs but not in lists or maps.

    Raises:
        SchemaError: There is no such column; the message suggests the nearest name.
    """
    columns = dict(_columns(schema.fields, ""))
    if name not in columns:
        raise SchemaError(f"no column {name!r} to partition or sort by{nearest(name, columns)}")
    found = columns[name]
    if isinstance(found.field_type, GeometryType | GeographyType):
        raise SchemaError(
            f"column {name!r} of type {found.field_type} cannot partition or sort a table",
            rule="Iceberg spec, Partition Transforms",
        )
    return found


def _columns(fields: Iterable[NestedField], prefix: str) -> Iterable[tuple[str, NestedField]]:
    for field in fields:
        if isinstance(field.field_type, StructType):
            yield from _columns(field.field_type.fields, f"{prefix}{field.name}.")
        elif field.field_type.is_primitive:
            yield prefix + field.name, field


def partition_type(schema: Schema, spec: PartitionSpec) -> pa.Schema:
    """The fields of a partition tuple: one optional field per field of the spec, with its id and result type.

    Raises:
        SchemaError: A column is no longer in the schema, but its type is needed.
    """
    return pa.schema(
        [
            pa.field(field.name, _result_type(schema, field), metadata={FIELD_ID_KEY: str(field.field_id).encode()})
            for field in spec.fields
        ]
    )


def _result_type(schema: Schema, field: PartitionField) -> pa.DataType:
    fixed = {BucketTransform: pa.int32(), YearTransform: pa.int32(), MonthTransform: pa.int32()}
    fixed |= {HourTransform: pa.int32(), DayTransform: pa.date32()}
    if type(field.transform) in fixed:
        return fixed[type(field.transform)]
    if isinstance(field.transform, VoidTransform) and _path(schema.fields, field.source_id) is None:
        return pa.null()  # of a column that was dropped
    try:
        source = schema.find_type(field.source_id)
    except SchemaError as error:
        raise SchemaError(f"partition field {field.name!r}: the schema has no column {field.source_id}") from error
    return result_type(field.transform, to_arrow_type(source, path=(field.name,)))


# Applying them -------------------------------------------------------------------------------------------------------


def partition_columns(schema: Schema, spec: PartitionSpec, batch: pa.RecordBatch | pa.Table) -> list[Any]:
    """The partition values of every row.

    Args:
        schema: The table's schema.
        spec: The partition spec.
        batch: Rows with the columns of `schema`.

    Returns:
        One array (for a table: chunked array) per field of the spec.
    """

    def values(field: PartitionField) -> Any:
        if isinstance(field.transform, VoidTransform):
            return pa.nulls(batch.num_rows, _result_type(schema, field))
        return apply(field.transform, column_of(schema, field.source_id, batch))

    return [values(field) for field in spec.fields]


def column_of(schema: Schema, field_id: int, batch: pa.RecordBatch | pa.Table) -> Any:
    """The column of rows that has a field id; null where a struct around it is null."""
    path = _path(schema.fields, field_id)
    if path is None:
        raise SchemaError(f"the schema has no column with id {field_id}")
    column = batch.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, column.type.get_field_index(name))
    return column


def _path(fields: Iterable[NestedField], field_id: int) -> list[str] | None:
    for field in fields:
        if field.field_id == field_id:
            return [field.name]
        if isinstance(field.field_type, StructType):
            below = _path(field.field_type.fields, field_id)
            if below is not None:
                return [field.name, *below]
    return None


def split_by_partition(
    schema: Schema, spec: PartitionSpec, batch: pa.RecordBatch
) -> list[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """Group the rows of a batch by partition.

    Args:
        schema: The table's schema.
        spec: The partition spec.
        batch: Rows with the columns of `schema`.

    Returns:
        The partition tuple in physical values and the rows, in their order, per partition; partitions in the order of
        their first rows.
    """
    columns = partition_columns(schema, spec, batch)
    if not columns or not batch.num_rows:
        return [((), batch)] if batch.num_rows else []
    groups = number_tuples(columns, batch.num_rows)
    count = int(groups.max()) + 1
    order = np.argsort(groups.astype(np.uint16 if count <= 2**16 else np.int64), kind="stable")
    stops = np.cumsum(np.bincount(groups, minlength=count))
    starts = stops - np.bincount(groups, minlength=count)
    tuples = [tuple(physical_value(column.type, column[row]) for column in columns) for row in order[starts].tolist()]
    if count == 1:
        return [(tuples[0], batch)]
    rows = batch.take(pa.array(order))
    return [
        (values, rows.slice(start, stop - start))
        for values, start, stop in zip(tuples, starts.tolist(), stops.tolist(), strict=True)
    ]


def number_tuples(columns: Iterable[Any], count: int) -> npt.NDArray[np.int64]:
    """A number per tuple, counted from 0 in the order of first appearance.

    Args:
        columns: Arrays or chunked arrays of `count` values each: the fields of the tuples.
        count: The number of tuples.

    Returns:
        int64[count], equal for equal tuples. Nulls are equal to each other, all NaNs too; -0.0 and 0.0 are not.
    """
    groups = np.zeros(count, np.int64)
    for column in columns:
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        # renumbered after each step, so that the product stays far below 2^63
        groups, _ = _numbered(groups * (count + 1) + _numbered(values)[0])
    return groups


def _numbered(values: Any) -> tuple[npt.NDArray[np.int64], int]:
    """A number per value, counted from 0 in the order of first appearance, and how many there are.

    All NaNs are one value, -0.0 and 0.0 are two.
    """
    column = pa.array(values) if isinstance(values, np.ndarray) else values
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy(zero_copy_only=False).astype(np.float64)
        bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
        column = pa.array(bits, mask=np.asarray(column.is_null()))
    elif is_uuid(column.type):
        column = column.storage
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


# Writing them as folders ---------------------------------------------------------------------------------------------

_MAX_FOLDER_BYTES = 200  # file systems allow 255
_MAX_PATH_BYTES = 400  # S3 allows 1024 for the whole key


def partition_path(schema: Schema, spec: PartitionSpec, values: tuple[Any, ...]) -> str:
    """The folder of a partition, readable: `ts_day=2013-01-01/id_bucket=3`.

    Readers take partition values from manifests; the path is for people, and keeps files of a partition together.

    Args:
        schema: The table's schema.
        spec: The partition spec.
        values: Physical values, one per field of the spec.

    Returns:
        One folder per field, escaped as Iceberg Java escapes them. A value too long for a folder's name is truncated
        and ends in a digest of the whole; folders that would make the path too long are combined into one in the same
        way.
    """
    folders = []
    for field, result, value in zip(spec.fields, partition_type(schema, spec), values, strict=True):
        folder = f"{_escape(field.name)}={_escape(human_value(field.transform, result.type, value))}"
        folders.append(bounded_name(folder, _MAX_FOLDER_BYTES))
    kept = 0
    while kept < len(folders) and len("/".join(folders[: kept + 1])) <= _MAX_PATH_BYTES:
        kept += 1
    if kept < len(folders):
        kept = max(0, kept - 1)
        folders[kept:] = [bounded_name("+".join(folders[kept:]), _MAX_FOLDER_BYTES)]
    return "/".join(folders)


def _escape(text: str) -> str:
    return urllib.parse.quote_plus(text, safe="*").replace("~", "%7E")


def human_value(transform: Transform, type_: pa.DataType, value: Any) -> str:
    """The text of a physical partition value for people: `2013-01` for a month; `null`."""
    if value is None:
        return "null"
    by_transform = _HUMAN_TRANSFORMS.get(type(transform))
    if by_transform is not None:
        return by_transform(value)
    if pa.types.is_date32(type_):
        return _human_day(value)
    if pa.types.is_time(type_):
        return _human_time(value)
    if pa.types.is_timestamp(type_):
        days, nanoseconds = divmod(value * (1000 if type_.unit == "us" else 1), 86_400_000_000_000)
        zone = "" if type_.tz is None else "+00:00"
        return f"{_human_day(days)}T{_human_clock(nanoseconds)}{zone}"
    if is_uuid(type_):
        return str(uuid.UUID(bytes=value))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _human_day(days: int) -> str:
    if -719_162 <= days <= 2_932_896:  # the years 1 to 9999
        return str(datetime.date.fromordinal(719_163 + days))
    return str(np.datetime64(days, "D"))


def _human_month(months: int) -> str:
    return f"{1970 + months // 12:04d}-{months % 12 + 1:02d}"


def _human_hour(hours: int) -> str:
    return f"{_human_day(hours // 24)}-{hours % 24:02d}"


def _human_time(microseconds: int) -> str:
    """Format like Java's LocalTime: no zero seconds, fractions of three or six digits."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if seconds % 60 or fraction:
        text += f":{seconds % 60:02d}"
    if fraction % 1000:
        return f"{text}.{fraction:06d}"
    return f"{text}.{fraction // 1000:03d}" if fraction else text


def _human_clock(nanoseconds: int) -> str:
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:09d}".rstrip("0") if fraction else text


_HUMAN_TRANSFORMS: dict[type, Callable[[int], str]] = {
    YearTransform: lambda years: f"{1970 + years:04d}",
    MonthTransform: _human_month,
    DayTransform: _human_day,
    HourTransform: _human_hour,
}
