"""Converting the stored columns of a data file to columns of the table: physical types and changes of the schema.

A file's columns have the names of its own schema; the field id gives the column of the table. The conversion leads from
the Arrow type of the file via the Paimon type that its column had to the current one.

Spec: docs/formats/paimon.md § 2.5, § 8.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.casts import plan_cast
from skerry.paimon.values.types import (
    ArrayType,
    AtomicType,
    MapType,
    MultisetType,
    PaimonType,
    RowType,
    TypeRoot,
    VectorType,
)
from skerry.table.rows.nested_arrays import convert_elements, convert_entries
from skerry.table.rows.schema import FIELD_ID_KEY, is_list
from skerry.variant.assembling import assemble

__all__ = ["plan_column"]

_Convert: TypeAlias = Callable[[pa.Array], pa.Array]


def plan_column(
    stored: pa.DataType, then: PaimonType, now: PaimonType, target: pa.DataType, path: tuple[str, ...]
) -> _Convert:
    """Plan the conversion of a file's column to the table's column.

    Args:
        stored: The Arrow type by which the file is read.
        then: The column's type in the schema of the file.
        now: Its type in the schema of the scan.
        target: The Arrow type to return: that of `now`, or with only some members of structs.
        path: The column, for messages.

    Raises:
        SchemaError: The stored type is not that of the file's schema.
        UnsupportedError: The type has changed in a way that is not supported.
    """
    then, now = _plain(then), _plain(now)
    match then, now:
        case AtomicType(), AtomicType():
            return _plan_atomic(stored, then, now, target, path)
        case VectorType(), VectorType() if then.element.root is now.element.root and then.length == now.length:
            return _plan_vector(stored, then, target, path)
        case RowType(), RowType():
            return _plan_row(stored, then, now, target, path)
        case ArrayType(), ArrayType():
            return _plan_array(stored, then, now, target, path)
        case MapType(), MapType():
            return _plan_map(stored, then, now, target, path)
    raise UnsupportedError(f"column {'.'.join(path)!r} changes from {then} to {now}, which is not supported")


def _plain(type_: PaimonType) -> PaimonType:
    return type_.as_map if isinstance(type_, MultisetType) else type_


def _mismatch(stored: pa.DataType, then: PaimonType, path: tuple[str, ...]) -> SchemaError:
    return SchemaError(f"column {'.'.join(path)!r} is {stored} in the file, expected {then} by its schema")


def _plan_atomic(
    stored: pa.DataType, then: AtomicType, now: AtomicType, target: pa.DataType, path: tuple[str, ...]
) -> _Convert:
    if then.root is TypeRoot.VARIANT and now.root is TypeRoot.VARIANT:
        if not pa.types.is_struct(stored):
            raise _mismatch(stored, then, path)
        return assemble
    logical = arrow_type(then)
    restore = _plan_restore(stored, logical)
    if restore is None:
        raise _mismatch(stored, then, path)
    try:
        cast = plan_cast(then, now)
    except UnsupportedError as error:
        error.message = f"column {'.'.join(path)!r}: {error.message}"
        raise
    if logical == target and stored == logical:
        return cast if then != now else _unchanged
    return lambda array: cast(restore(array))


def _unchanged(array: pa.Array) -> pa.Array:
    return array


def _plan_restore(stored: pa.DataType, logical: pa.DataType) -> _Convert | None:
    """Convert from the stored Arrow type to that of the column's type; None if the types do not match."""
    if stored == logical:
        return _unchanged
    if pa.types.is_dictionary(stored):
        inner = _plan_restore(stored.value_type, logical)
        return None if inner is None else lambda array: inner(array.dictionary_decode())
    if pa.types.is_timestamp(logical):
        return _plan_timestamp(stored, logical)
    if pa.types.is_time32(logical) and stored == pa.int32():
        return lambda array: array.view(logical)
    kinds = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_time, pa.types.is_floating, pa.types.is_date)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    bytes_ = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    for kind in kinds:
        if kind(stored) and kind(logical):
            return lambda array: array.cast(logical)
    for family in (texts, bytes_):
        if any(kind(stored) for kind in family) and any(kind(logical) for kind in family):
            return lambda array: array.cast(logical)
    return None


def _plan_timestamp(stored: pa.DataType, logical: pa.DataType) -> _Convert | None:
    """The numbers of a timestamp stay; formats differ in how they record its zone."""
    if not pa.types.is_timestamp(stored):
        return None
    unit = pa.timestamp(stored.unit)
    return lambda array: array.view(unit).cast(pa.timestamp(logical.unit)).view(logical)


# Nested types -------------------------------------------------------------------------------------------------------


def _plan_row(stored: pa.DataType, then: RowType, now: RowType, target: pa.DataType, path: tuple[str, ...]) -> _Convert:
    if not pa.types.is_struct(stored):
        raise _mismatch(stored, then, path)
    old, new = {field.id: field for field in then.fields}, {field.id: field for field in now.fields}
    steps: list[tuple[int | None, _Convert | None, pa.DataType]] = []
    for wanted in target:
        number = int(wanted.metadata[FIELD_ID_KEY])
        was = old.get(number)
        index = stored.get_field_index(was.name) if was is not None else -1
        convert = None
        if was is not None and index >= 0:
            convert = plan_column(
                stored.field(index).type, was.type, new[number].type, wanted.type, (*path, wanted.name)
            )
        steps.append((index if index >= 0 else None, convert, wanted.type))

    def convert_all(array: pa.StructArray) -> pa.Array:
        members = [
            pa.nulls(len(array), type_) if index is None or step is None else step(array.field(index))
            for index, step, type_ in steps
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(target), mask=mask)

    return convert_all


def _plan_array(
    stored: pa.DataType, then: ArrayType, now: ArrayType, target: pa.DataType, path: tuple[str, ...]
) -> _Convert:
    if not is_list(stored):
        raise _mismatch(stored, then, path)
    convert = plan_column(stored.value_type, then.element, now.element, target.value_type, (*path, "element"))
    return lambda array: convert_elements(array, convert, target)


def _plan_vector(stored: pa.DataType, then: VectorType, target: pa.DataType, path: tuple[str, ...]) -> _Convert:
    if not is_list(stored):
        raise _mismatch(stored, then, path)
    convert = plan_column(stored.value_type, then.element, then.element, target.value_type, (*path, "element"))
    return lambda array: convert_elements(array, convert, target)


def _plan_map(stored: pa.DataType, then: MapType, now: MapType, target: pa.DataType, path: tuple[str, ...]) -> _Convert:
    """Maps; Avro files store those whose keys are not strings as lists of records of key and value."""
    if pa.types.is_map(stored):
        entry = pa.struct([stored.key_field, stored.item_field])
    elif is_list(stored) and pa.types.is_struct(stored.value_type) and stored.value_type.num_fields == 2:
        entry = stored.value_type
    else:
        raise _mismatch(stored, then, path)
    convert_keys = plan_column(entry.field(0).type, then.key, now.key, target.key_type, (*path, "key"))
    convert_items = plan_column(entry.field(1).type, then.value, now.value, target.item_type, (*path, "value"))
    return lambda array: convert_entries(array, convert_keys, convert_items, target)
