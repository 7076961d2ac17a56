"""Paimon schemas for data files that were written by another table format.

Paimon's readers find a column in a file by its name in the schema of that file. So such a schema has the table's
columns with the names and types that they have in the file, without those that the file lacks.

Spec: docs/formats/paimon.md § 2.5, § 8.2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.values.types import ArrayType, AtomicType, DataField, MapType, PaimonType, RowType, TypeRoot
from skerry.table.files.evolution import top_level
from skerry.table.rows.schema import FIELD_ID_KEY, is_list

__all__ = ["columns_in_file"]

_Path = tuple[str, ...]


def columns_in_file(
    columns: Sequence[DataField], stored: pa.Schema, *, file_format: str, partition_ids: Collection[int] = ()
) -> tuple[DataField, ...]:
    """The columns of a table as a file has them, in the table's order.

    Args:
        columns: The columns of the table.
        stored: The columns of the file, with field ids.
        file_format: The format of the file.
        partition_ids: Columns that are kept as in the table even if the file lacks them: readers take their values from
            the partition.

    Raises:
        SchemaError: A column has another type in the file than in the table.
        UnsupportedError: A column is stored in a way that Paimon's readers do not support, or a name is ambiguous.
    """
    found = top_level(stored)
    is_orc = file_format == "orc"
    result = []
    for column in columns:
        index = found.get(column.id)
        if column.id in partition_ids:
            result.append(column)
        elif index is not None:
            result.append(_column(column, stored.field(index), (column.name,), is_orc))
    names = [column.name for column in result]
    for name in names:
        if names.count(name) > 1:
            raise UnsupportedError(
                f"the file has another column of the name {name!r}, by which the table is now partitioned; rewrite it: "
                "compact(full=True)"
            )
    return tuple(result)


def _column(now: DataField, stored: pa.Field, path: _Path, is_orc: bool) -> DataField:
    return replace(now, name=stored.name, type=_type(now.type, stored.type, path, is_orc))


def _type(now: PaimonType, stored: pa.DataType, path: _Path, is_orc: bool) -> PaimonType:
    """The type of a column in a file, nullable as it is in the table."""
    match now:
        case RowType(members) if pa.types.is_struct(stored):
            ids = {(field.metadata or {}).get(FIELD_ID_KEY): field for field in stored}
            known = [(member, ids.get(str(member.id).encode())) for member in members]
            kept = tuple(
                _column(member, field, (*path, member.name), is_orc) for member, field in known if field is not None
            )
            if not kept:
                raise UnsupportedError(
                    f"{_named(path)} is a struct, of whose members the file has none that the table has; rewrite it: "
                    "compact(full=True)"
                )
            return replace(now, fields=kept)
        case ArrayType(element) if is_list(stored):
            return replace(now, element=_type(element, stored.value_type, (*path, "element"), is_orc))
        case MapType(key, value) if pa.types.is_map(stored):
            return replace(
                now,
                key=_type(key, stored.key_type, (*path, "key"), is_orc),
                value=_type(value, stored.item_type, (*path, "value"), is_orc),
            )
        case AtomicType():
            plain = stored.value_type if pa.types.is_dictionary(stored) else stored
            type_ = _atomic(now, plain, path, is_orc)
            if type_ is not None:
                return replace(type_, nullable=now.nullable)
    raise SchemaError(f"{_named(path)} is {stored} in the file, but {now} in the table")


def _named(path: _Path) -> str:
    return f"column {'.'.join(path)!r}"


_INT_SIZED = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())
_UNSIGNED = (pa.uint32(), pa.uint64())
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
_MOMENTS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_PLAIN = {
    TypeRoot.BOOLEAN: pa.types.is_boolean,
    TypeRoot.FLOAT: pa.types.is_float32,
    TypeRoot.DATE: pa.types.is_date32,
    TypeRoot.VARCHAR: lambda stored: any(is_text(stored) for is_text in _TEXTS),
    TypeRoot.VARBINARY: lambda stored: any(is_bytes(stored) for is_bytes in _BYTES),
}


def _atomic(now: AtomicType, stored: pa.DataType, path: _Path, is_orc: bool) -> AtomicType | None:
    """The primitive type of a column in a file; None if it is incompatible with the table's."""
    root = now.root
    if root in (TypeRoot.INT, TypeRoot.BIGINT):
        if stored in _UNSIGNED:
            raise UnsupportedError(
                f"{_named(path)} is {stored} in the file, which Paimon's readers would read as signed"
            )
        if stored in _INT_SIZED:
            return AtomicType(TypeRoot.INT)
        return now if stored == pa.int64() and root is TypeRoot.BIGINT else None
    if root is TypeRoot.DOUBLE:
        narrow = AtomicType(TypeRoot.FLOAT) if pa.types.is_float32(stored) else None
        return now if pa.types.is_float64(stored) else narrow
    if root is TypeRoot.DECIMAL:
        fits = pa.types.is_decimal(stored) and stored.scale == now.scale and stored.precision <= now.precision
        return replace(now, precision=stored.precision) if fits else None
    if root in _MOMENTS:
        return _moment(now, stored, path, is_orc)
    if root is TypeRoot.BINARY:
        return now if pa.types.is_fixed_size_binary(stored) and stored.byte_width == now.length else None
    is_same = _PLAIN.get(root)
    return now if is_same is not None and is_same(stored) else None


def _moment(now: AtomicType, stored: pa.DataType, path: _Path, is_orc: bool) -> AtomicType | None:
    if pa.types.is_date32(stored) and now.root is TypeRoot.TIMESTAMP:
        return AtomicType(TypeRoot.DATE)
    if not pa.types.is_timestamp(stored):
        return None
    if is_orc:  # whose timestamps always have nanoseconds
        return now
    if stored.unit == "ns":
        raise UnsupportedError(
            f"{_named(path)} has nanoseconds in the file, or Parquet's old type INT96, which Paimon's readers would "
            "misread; rewrite it: compact(full=True)"
        )
    return now if stored.unit == "us" else replace(now, precision=3)
