"""Incoming data: anything with the Arrow C stream interface becomes batches of exactly the table's types.

Columns are matched by name, in any order, at every depth. A conversion that keeps every value happens silently: wider
integers, other layouts of the same values (dictionaries, large and view types), other units when nothing is cut off.
Everything else is an error that names the column and, for a value, its row: nothing is rounded, cut or guessed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, SkerryError
from skerry.table.rows.default_arrays import decode_default, repeated
from skerry.table.rows.nested_arrays import convert_elements, convert_entries
from skerry.table.rows.schema import NULL_DEFAULT_KEY, WRITE_DEFAULT_KEY, is_list, nearest
from skerry.table.rows.sources import open_source
from skerry.table.rows.value_limits import plan_check
from skerry.table.rows.values import is_uuid
from skerry.variant import check, is_variant
from skerry.wkb import shapes_of

__all__ = ["conform", "open_batches", "open_stream"]

_MAX_ROWS = 2**20
_MAX_BYTES = 2**30  # string and binary hold at most 2 GiB per array

_Convert = Callable[[pa.Array], pa.Array]
_Path = tuple[str, ...]


def conform(data: Any, schema: pa.Schema, *, keep_dictionaries: bool = False) -> pa.RecordBatchReader:
    """Read data as batches of a table's schema.

    Args:
        data: A PyArrow table, batch, reader, dataset or scanner, any object with the Arrow C stream or array interface
            (Polars, pandas, DuckDB, …), or what `open_source` opens: records, columns, the name of a file. It is read
            as a stream; a batch is split where it is very large.
        schema: The table's schema. Optional columns missing from the data become null or their write default.
        keep_dictionaries: Leave dictionary-encoded top-level columns encoded (with int32 indices), from which Parquet
            writers and sketches profit; the values are converted to the table's type.

    Returns:
        A reader whose schema is `schema`, apart from dictionary types. Errors in the types are raised here, errors in
        a value when its batch is read.

    Raises:
        SchemaError: Unknown or duplicate columns (the nearest name is proposed), missing or null required columns,
            types or values that do not fit.
    """
    reader = open_stream(data, schema)
    sources = _match(list(reader.schema), list(schema), ())
    fields = list(schema)
    converts: list[_Convert] = []
    for position, (source, target) in enumerate(zip(sources, schema, strict=True)):
        keeps = keep_dictionaries and plan_check(target) is None
        if source is not None and keeps and pa.types.is_dictionary(reader.schema.field(source).type):
            fields[position] = target.with_type(pa.dictionary(pa.int32(), target.type))
            converts.append(_plan_dictionary(reader.schema.field(source).type, target, (target.name,), keep=True))
        else:
            converts.append(_plan_field(_field_at(reader.schema, source), target, (target.name,)))
    result = pa.schema(fields, metadata=schema.metadata)
    return pa.RecordBatchReader.from_batches(result, _batches(reader, sources, converts, result))


def has_types(data: Any) -> bool:
    """Whether data says what its columns are: it has an Arrow interface."""
    arrow = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    return arrow or any(callable(getattr(data, name, None)) for name in ("scanner", "to_reader"))


def open_stream(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Open any data as a stream, without conversion: see `conform`.

    Args:
        data: The data.
        schema: The types of columns by name, for values that have none of their own.

    Raises:
        SchemaError: It has no Arrow interface.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)]).to_reader()
    if callable(getattr(data, "scanner", None)):  # a pyarrow dataset
        data = data.scanner()
    if callable(getattr(data, "to_reader", None)):
        return data.to_reader()
    opened = open_source(data, schema)
    if opened is not None:
        return opened
    raise SchemaError(
        f"data of type {type(data).__name__} cannot be read: expected an object with the Arrow C stream interface "
        "(a PyArrow table, Polars or pandas frame, DuckDB relation, …), records, or the name of a file"
    )


def open_batches(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader | None:
    """Open batches of one schema as a stream; None if there is no batch, and so no schema."""
    remaining = iter(batches)
    first = next(remaining, None)
    if first is None:
        return None
    return pa.RecordBatchReader.from_batches(first.schema, itertools.chain((first,), remaining))


def _batches(
    reader: pa.RecordBatchReader, sources: list[int | None], converts: list[_Convert], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    row = 0
    for whole in reader:
        parts = max(-(-whole.num_rows // _MAX_ROWS), -(-whole.nbytes // _MAX_BYTES), 1)
        step = max(-(-whole.num_rows // parts), 1)
        for start in range(0, whole.num_rows, step):
            batch = whole.slice(start, step)
            columns = []
            for source, convert, target in zip(sources, converts, schema, strict=True):
                column = pa.nulls(batch.num_rows) if source is None else batch.column(source)
                columns.append(_convert(column, convert, target.name, row))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            row += batch.num_rows


class _NullFoundError(Exception):
    """A null in a required column; `column` is the dotted name."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


def _convert(column: pa.Array, convert: _Convert, name: str, first_row: int) -> pa.Array:
    try:
        return convert(column)
    except (pa.ArrowException, _NullFoundError):
        row = _first_failing(column, convert)
        try:
            return convert(column.slice(row, 1))
        except _NullFoundError as error:
            raise SchemaError(f"column {error.column!r} is required, but null in row {first_row + row}") from None
        except pa.ArrowException as error:
            raise SchemaError(
                f"column {name!r}, row {first_row + row}: value {_shown(column[row])} does not fit: {error}"
            ) from error


def _first_failing(column: pa.Array, convert: _Convert) -> int:
    """The first row that cannot be converted, by bisection: every longer prefix fails too."""
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            convert(column.slice(0, middle))
            good = middle
        except (pa.ArrowException, _NullFoundError):
            bad = middle
    return bad - 1


def _shown(scalar: pa.Scalar) -> str:
    try:
        text = str(scalar)
    except (OverflowError, ValueError):  # a timestamp beyond Python's years
        text = str(scalar.value)
    return text if len(text) <= 60 else text[:57] + "…"


# Matching names ------------------------------------------------------------------------------------------------------


def _match(source: list[pa.Field], target: list[pa.Field], path: _Path) -> list[int | None]:
    """The position of the source of every target field; None if it is missing and optional."""
    wanted = [field.name for field in target]
    known = set(wanted)
    places: dict[str, int] = {}
    for place, field in enumerate(source):
        name = field.name
        if name in places:
            raise SchemaError(f"column {'.'.join((*path, name))!r} is in the data twice")
        if name not in known:
            raise SchemaError(f"the table has no column {'.'.join((*path, name))!r}{nearest(name, wanted)}")
        places[name] = place
    for field in target:
        if field.name not in places and not field.nullable and WRITE_DEFAULT_KEY not in (field.metadata or {}):
            raise SchemaError(f"required column {'.'.join((*path, field.name))!r} is missing from the data")
    return [places.get(name) for name in wanted]


def _field_at(fields: Any, position: int | None) -> pa.Field | None:
    return None if position is None else fields.field(position)


# Conversions, planned from the types before any row is read ---------------------------------------------------------


def _plan_field(source: pa.Field | None, target: pa.Field, path: _Path) -> _Convert:
    """Plan the conversion of a column to the target field, including its check for nulls."""
    if source is None:
        default = (target.metadata or {}).get(WRITE_DEFAULT_KEY)
        return functools.partial(_fill, target.type, default)
    convert = _plan_values(source, target, path)
    if target.nullable:
        return convert
    name = ".".join(path)

    def required(array: pa.Array) -> pa.Array:
        converted = convert(array)
        if converted.null_count:
            raise _NullFoundError(name)
        return converted

    return required


def _plan_values(source: pa.Field, target: pa.Field, path: _Path) -> _Convert:
    """Plan the conversion of values to the target field: its type, its limits, its default for nulls."""
    _check_shapes(source, target, path)
    convert, check = _plan(source.type, target.type, path), plan_check(target)
    metadata = target.metadata or {}
    default = metadata.get(WRITE_DEFAULT_KEY) if NULL_DEFAULT_KEY in metadata and target.nullable else None
    if check is None and default is None:
        return convert

    def within(array: pa.Array) -> pa.Array:
        converted = convert(array)
        if check is not None:
            check(converted)
        if default is not None and converted.null_count:
            converted = converted.fill_null(_fill(target.type, default, converted[:1])[0])
        return converted

    return within


def _check_shapes(source: pa.Field, target: pa.Field, path: _Path) -> None:
    """Refuse shapes in another reference system than the column's, or with other edges; plain bytes have none."""
    wanted, found = shapes_of(target), shapes_of(source)
    if wanted is None or found is None:
        return
    if found.crs is not None and wanted.crs is not None and _plain_crs(found.crs) != _plain_crs(wanted.crs):
        raise SchemaError(
            f"column {'.'.join(path)!r} is in the reference system {found.crs} in the data, but in {wanted.crs} in the "
            "table; transform it first"
        )
    if found.edges != wanted.edges:
        raise SchemaError(
            f"column {'.'.join(path)!r} has {found.edges} edges in the data, but {wanted.edges} ones in the table"
        )


def _plain_crs(crs: str) -> str:
    """A reference system by one name: in well-known binary x is the longitude in both."""
    return "OGC:CRS84" if crs.upper() == "EPSG:4326" else crs.upper()


def _fill(type_: pa.DataType, default: bytes | None, array: pa.Array) -> pa.Array:
    if default is None:
        return pa.nulls(len(array), type_)
    return repeated(decode_default(type_, default), len(array))


def _plan(source: pa.DataType, target: pa.DataType, path: _Path) -> _Convert:
    if pa.types.is_dictionary(source):
        return _plan_dictionary(source, pa.field("", target), path, keep=False)
    if pa.types.is_run_end_encoded(source):
        decoded = _plan(source.value_type, target, path)
        return lambda array: decoded(pc.run_end_decode(array))
    if isinstance(source, pa.ExtensionType) and shapes_of(pa.field("", source)) is not None:
        stored = _plan(source.storage_type, target, path)
        return lambda array: stored(array.storage)
    if pa.types.is_null(source):
        return lambda array: pa.nulls(len(array), target)
    if is_variant(target):
        return _plan_variant(source, target, path)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _plan_struct(source, target, path)
    if is_list(source) and is_list(target):
        return _plan_list(source, target, path)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _plan_map(source, target, path)
    if source == target:
        return lambda array: array
    for accepts, convert in _CONVERSIONS:
        if accepts(source, target):
            return functools.partial(convert, target)
    hint = _hint(source, target)
    raise SchemaError(f"column {'.'.join(path)!r} is {source} in the data, but {target} in the table{hint}")


def _plan_dictionary(source: pa.DictionaryType, target: pa.Field, path: _Path, *, keep: bool) -> _Convert:
    convert = _plan(source.value_type, target.type, path)

    def decode(array: pa.DictionaryArray) -> pa.Array:
        try:
            values = convert(array.dictionary)
        except pa.ArrowException:
            # a value that does not fit may be in the dictionary only, and in no row
            values, indices = convert(array.dictionary_decode()), pa.array(np.arange(len(array)), mask=_nulls(array))
        else:
            indices = array.indices
        if not target.nullable and (indices.null_count or values.take(indices).null_count):
            raise _NullFoundError(".".join(path))
        return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), values) if keep else values.take(indices)

    return decode


def _plan_struct(source: pa.StructType, target: pa.StructType, path: _Path) -> _Convert:
    wanted = [target.field(index) for index in range(target.num_fields)]
    positions = _match([source.field(index) for index in range(source.num_fields)], wanted, path)
    plans = [
        _plan_values(source.field(position), field, (*path, field.name))
        if position is not None
        else _plan_field(None, field, (*path, field.name))
        for position, field in zip(positions, wanted, strict=True)
    ]

    def convert(array: pa.StructArray) -> pa.Array:
        members = []
        # what is in members of null structs is not checked
        given = array.flatten() if array.null_count else [array.field(index) for index in range(array.type.num_fields)]
        for position, plan, field in zip(positions, plans, wanted, strict=True):
            member = plan(array if position is None else given[position])
            # a member may be null where its struct is
            if not field.nullable and pc.any(pc.and_(member.is_null(), array.is_valid())).as_py():
                raise _NullFoundError(".".join((*path, field.name)))
            members.append(member if field.nullable else _without_nulls(member))
        return pa.StructArray.from_arrays(members, fields=wanted, mask=array.is_null())

    return convert


def _plan_variant(source: pa.DataType, target: pa.StructType, path: _Path) -> _Convert:
    names = [field.name for field in source] if pa.types.is_struct(source) else []
    if sorted(names) != ["metadata", "value"]:
        raise SchemaError(
            f"column {'.'.join(path)!r} is {source} in the data, but variant in the table; make variants of values "
            "with skerry.variant.from_values, or of JSON with skerry.variant.from_json"
        )
    convert = _plan_struct(source, target, path)

    def checked(array: pa.Array) -> pa.Array:
        converted = convert(array)
        try:
            check(converted)
        except SkerryError as error:
            raise pa.ArrowInvalid(error.message) from None
        return converted

    return checked


def _without_nulls(array: pa.Array) -> pa.Array:
    """The array with arbitrary values for its nulls: a null struct hides them, but Parquet writers refuse nulls."""
    if not array.null_count:
        return array
    type_ = array.type
    if isinstance(type_, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(type_, _without_nulls(array.storage))
    if pa.types.is_struct(type_):
        fields = [type_.field(index) for index in range(type_.num_fields)]
        members = [array.field(index) for index in range(type_.num_fields)]
        members = [
            member if field.nullable else _without_nulls(member) for member, field in zip(members, fields, strict=True)
        ]
        return pa.StructArray.from_arrays(members, fields=fields)
    if pa.types.is_map(type_):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type_)
    if pa.types.is_fixed_size_list(type_):
        size = type_.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        return pa.FixedSizeListArray.from_arrays(values, type=type_)
    if is_list(type_):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=type_)
    return pa.Array.from_buffers(type_, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def _plan_list(source: pa.DataType, target: pa.DataType, path: _Path) -> _Convert:
    convert_values = _plan_field(source.value_field, target.value_field, (*path, "element"))
    return lambda array: convert_elements(array, convert_values, target)


def _plan_map(source: pa.MapType, target: pa.MapType, path: _Path) -> _Convert:
    convert_keys = _plan_field(source.key_field, target.key_field, (*path, "key"))
    convert_items = _plan_field(source.item_field, target.item_field, (*path, "value"))
    return lambda array: convert_entries(array, convert_keys, convert_items, target)


def _nulls(array: pa.Array) -> np.ndarray:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=bool)


# Primitive conversions that keep every value, or fail on the one they would change ----------------------------------


def _is_string(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def _is_binary(type_: pa.DataType) -> bool:
    return pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_)


def _cast(target: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(target)


def _integer_to_decimal(target: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal256(20 + target.scale, target.scale)).cast(target)


def _to_fixed(target: pa.DataType, array: pa.Array) -> pa.Array:
    if is_uuid(target):
        return _to_fixed(pa.binary(16), array).cast(target)
    if pa.types.is_fixed_size_binary(array.type):
        return array.cast(target)
    return array.cast(pa.binary()).cast(target)


_CONVERSIONS: tuple[tuple[Callable[[Any, Any], bool], Callable[[Any, Any], Any]], ...] = (
    (lambda source, target: pa.types.is_integer(source) and pa.types.is_integer(target), _cast),
    (lambda source, target: pa.types.is_integer(source) and pa.types.is_floating(target), _cast),
    (lambda source, target: pa.types.is_integer(source) and pa.types.is_decimal(target), _integer_to_decimal),
    (
        lambda source, target: (
            pa.types.is_floating(source) and pa.types.is_floating(target) and source.bit_width <= target.bit_width
        ),
        _cast,
    ),
    (lambda source, target: pa.types.is_decimal(source) and pa.types.is_decimal(target), _cast),
    (lambda source, target: pa.types.is_date(source) and pa.types.is_date(target), _cast),
    (lambda source, target: pa.types.is_time(source) and pa.types.is_time(target), _cast),
    (
        lambda source, target: (
            pa.types.is_timestamp(source)
            and pa.types.is_timestamp(target)
            and (source.tz is None) == (target.tz is None)
        ),
        _cast,
    ),
    (lambda source, target: _is_string(source) and _is_string(target), _cast),
    (
        lambda source, target: (_is_binary(source) or pa.types.is_fixed_size_binary(source)) and _is_binary(target),
        _cast,
    ),
    (
        lambda source, target: (
            (_is_binary(source) and pa.types.is_fixed_size_binary(target))
            or (_is_binary(source) and is_uuid(target))
            or (pa.types.is_fixed_size_binary(source) and source.byte_width == 16 and is_uuid(target))
        ),
        _to_fixed,
    ),
)


def _hint(source: pa.DataType, target: pa.DataType) -> str:
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return "; give it a time zone first" if source.tz is None else "; take its time zone off first"
    if pa.types.is_floating(source) and pa.types.is_float32(target):
        return "; values would be rounded, cast it first"
    return "; cast it first"
