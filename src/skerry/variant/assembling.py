"""Shredded variants put together again.

A column is assembled from its leaves up: the values of each shredded field become encoded values, those of the fields
of an object one object, and so on; each step handles all rows.

Spec: Parquet spec, VariantShredding.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.variant.building import build_arrays, build_objects, write_strings
from skerry.variant.columns import Dictionaries, Flags, Longs, Spans, flags_of, offsets_from, raise_on
from skerry.variant.values import (
    ARROW_TYPES,
    MAX_DEPTH,
    NULL_VALUE,
    VARIANT,
    BasicType,
    Primitive,
    decimal_type,
    is_bytes,
)

__all__ = ["assemble", "check_bytes", "either", "encode_leaf", "encode_objects"]

_RULE: Final = "Parquet spec, VariantShredding.md"
_MAX_DIGITS: Final = 38
_DECIMAL_BYTES: Final = {Primitive.DECIMAL4: 4, Primitive.DECIMAL8: 8, Primitive.DECIMAL16: 16}
_NONE: Final = np.empty(0, np.uint8)


def assemble(array: pa.StructArray) -> pa.StructArray:
    """A column of a Parquet file as variants.

    Args:
        array: Structs of `metadata` and `value`, `typed_value` or both.

    Returns:
        A column of type `VARIANT`, null where the struct is null.

    Raises:
        FormatError: The bytes break a rule of the format.
        SchemaError: The structs have other fields.
        UnsupportedError: A type is not one of those that the format shreds.
    """
    value, typed, metadata = (_child(array, name) for name in ("value", "typed_value", "metadata"))
    if metadata is None or (value is None and typed is None):
        raise SchemaError(f"a variant is stored as {array.type}, expected metadata with value or typed_value")
    for name, found in (("metadata", metadata), ("value", value)):
        check_bytes(name, found)
    valid = flags_of(array)
    if not (valid <= flags_of(metadata)).all():
        raise FormatError("a variant has no metadata", rule=_RULE)
    if typed is not None:
        if array.null_count:
            metadata = pc.if_else(pa.array(valid), metadata, None)
        spans = _encode(value, typed, Dictionaries.of(metadata), valid, 0)
        value = _fill(spans, valid & ~spans.present).to_arrow()
    elif value is not None and value.null_count:
        value = pc.if_else(pc.and_(pa.array(valid), value.is_null()), NULL_VALUE, value)
    mask = pa.array(~valid) if array.null_count else None
    value, metadata = (_required(found, valid) for found in (value, metadata))
    return pa.StructArray.from_arrays([value, metadata], fields=list(VARIANT), mask=mask)


def check_bytes(name: str, array: pa.Array | None) -> None:
    """Refuse a column of a file that ought to hold encoded values or dictionaries.

    Raises:
        FormatError: It holds something else.
    """
    if array is not None and not is_bytes(array.type):
        raise FormatError(f"{name} of a variant is stored as {array.type}, expected binary", rule=_RULE)


def _required(array: pa.Array, valid: Flags) -> pa.Array:
    """An array of a field that is never null by itself."""
    array = array.cast(pa.binary())
    return array if valid.all() else array.fill_null(b"")


def _child(array: pa.StructArray, name: str) -> pa.Array | None:
    index = array.type.get_field_index(name)
    return None if index < 0 else array.field(index)


def _fill(spans: Spans, where: Flags) -> Spans:
    """The values, with a variant null at some places."""
    if not where.any():
        return spans
    at = np.where(where, np.array([[len(spans.data)], [len(spans.data) + 1]]), spans.at)
    return Spans(np.append(spans.data, np.frombuffer(NULL_VALUE, np.uint8)), at)


def _encode(
    value: pa.Array | None, typed: pa.Array | None, dictionaries: Dictionaries, within: Flags, depth: int
) -> Spans:
    """The values of a pair of columns, encoded; absent where both are null.

    Args:
        value: Encoded values.
        typed: Shredded values.
        dictionaries: The dictionary of each row.
        within: bool[n], where what is around them is not null: elsewhere they are anything.
        depth: Levels above them.
    """
    if depth > MAX_DEPTH:
        raise UnsupportedError(f"a variant is shredded deeper than {MAX_DEPTH} levels")
    plain = None if value is None else Spans.of(value).only(within)
    if typed is None:
        assert plain is not None
        return plain
    if pa.types.is_struct(typed.type):
        return _encode_objects(plain, typed, dictionaries, within, depth)
    if pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
        encoded = _encode_lists(typed, dictionaries, within, depth)
    else:
        encoded = encode_leaf(typed).only(within)
    if plain is None:
        return encoded
    if (plain.present & encoded.present).any():
        raise FormatError("a variant has a value and a typed_value that is no object", rule=_RULE)
    return either(encoded, plain)


def either(first: Spans, second: Spans) -> Spans:
    """The values of the first, where there is one, otherwise those of the second."""
    if not second.present.any():
        return first
    if not first.present.any():
        return second
    at = np.where(second.present, second.at + len(first.data), first.at)
    return Spans(np.concatenate((first.data, second.data)), at)


# Objects and arrays -------------------------------------------------------------------------------------------------


def _encode_objects(
    rest: Spans | None, typed: pa.StructArray, dictionaries: Dictionaries, within: Flags, depth: int
) -> Spans:
    """Objects of shredded fields, and of the fields that are not shredded."""
    present = flags_of(typed) & within
    if rest is not None:
        others = rest.only(present)
        if (others.present & (others.first_bytes & 3 != BasicType.OBJECT)).any():
            raise FormatError("a variant has a typed_value that is an object, and a value that is none", rule=_RULE)
    else:
        others = Spans(_NONE, np.full((2, len(typed)), -1))
    names = [typed.type.field(index).name for index in range(typed.type.num_fields)]
    if len(set(names)) < len(names):
        raise FormatError(f"a variant has two shredded fields of one name: {names}", rule=_RULE)
    columns = []
    for index in sorted(range(len(names)), key=lambda index: names[index].encode()):
        columns.append((names[index], _encode_field(typed.field(index), dictionaries, present, depth)))
    built = encode_objects(columns, others, present, dictionaries)
    return built if rest is None else either(built, rest.only(~present))


def _encode_field(field: pa.Array, dictionaries: Dictionaries, within: Flags, depth: int) -> Spans:
    """The values of a group of value and typed_value."""
    if not pa.types.is_struct(field.type):
        raise FormatError(f"a shredded field is stored as {field.type}, expected value and typed_value", rule=_RULE)
    value, typed = _child(field, "value"), _child(field, "typed_value")
    if value is None and typed is None:
        raise FormatError(f"a shredded field is stored as {field.type}, expected value or typed_value", rule=_RULE)
    check_bytes("value", value)
    return _encode(value, typed, dictionaries, within & flags_of(field), depth + 1)


def encode_objects(columns: list[tuple[str, Spans]], rest: Spans, present: Flags, dictionaries: Dictionaries) -> Spans:
    """Write objects of some fields, and of all fields of other objects that have other names.

    Args:
        columns: Names and values of fields, in the order of the names' bytes.
        rest: Objects with further fields.
        present: bool[n], where there is an object.
        dictionaries: The dictionary of each.

    Raises:
        FormatError: A dictionary lacks the name of a field.
    """
    bases = np.cumsum([0, *(len(spans.data) for _, spans in columns)])
    fields = np.empty((2, len(columns), len(rest)), np.int64)
    for index, (_, spans) in enumerate(columns):
        fields[:, index] = np.where(spans.at < 0, -1, spans.at + bases[index])
    data = np.concatenate([_NONE, *(spans.data for _, spans in columns)])
    ids = [dictionaries.ids_of(name.encode()) for name, _ in columns]
    known = np.stack([*dictionaries.at, *ids])
    largest = int((rest.at[1] - rest.at[0]).max(initial=0))
    # a field takes an id and an offset at least: values can overlap, which is found out after they were counted
    entries = np.empty((len(columns) + largest // 2 + 1, 4), np.int64)
    offsets = np.zeros(len(rest) + 1, np.int64)
    offsets[1:] = present

    def build(offsets: Longs, out: Any) -> int:
        return int(
            build_objects(
                data, fields, known, dictionaries.codes, rest.data, rest.at, dictionaries.data, entries, offsets, out
            )
        )

    return _built(build, offsets, present)


def _built(build: Callable[[Longs, Any], int], offsets: Longs, present: Flags) -> Spans:
    """Call a kernel for the sizes of values, and then for their bytes."""
    raise_on(build(offsets, np.empty(0, np.uint8)))
    offsets = offsets_from(offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    if len(out):
        raise_on(build(offsets, out))
    return Spans.between(out, offsets, present)


def _encode_lists(typed: pa.Array, dictionaries: Dictionaries, within: Flags, depth: int) -> Spans:
    present = flags_of(typed) & within
    lengths = pc.list_value_length(typed).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    # a slice rather than `flatten`, which cannot copy UUIDs; null lists have no elements in files
    first, last = (typed.offsets[at].as_py() for at in (0, -1)) if len(typed) else (0, 0)
    elements = typed.values.slice(first, last - first)
    if len(elements) != int(lengths.sum()):
        elements = typed.flatten()
    rows = np.repeat(np.arange(len(typed)), lengths)
    encoded = _encode_field(elements, dictionaries.take(rows), present[rows], depth)
    encoded = _fill(encoded, ~encoded.present)
    counts = np.where(flags_of(typed), lengths, -1)  # where it is within nothing, its elements are skipped

    def build(offsets: Longs, out: Any) -> int:
        return int(build_arrays(encoded.data, encoded.at, counts, offsets, out))

    return _built(build, np.zeros(len(typed) + 1, np.int64), present).only(present)


# Primitive values ---------------------------------------------------------------------------------------------------


def encode_leaf(typed: pa.Array) -> Spans:
    """Values of a shredded column, encoded.

    Spec: Parquet spec, VariantShredding.md, Shredded Value Types.
    """
    if isinstance(typed, pa.ExtensionArray):
        typed = typed.storage
    type_ = typed.type
    present = flags_of(typed)
    if pa.types.is_null(type_):
        return Spans(_NONE, np.full((2, len(typed)), -1))
    if pa.types.is_boolean(type_):
        values = typed.fill_null(False).to_numpy(zero_copy_only=False)
        return _fixed(np.where(values, Primitive.TRUE << 2, Primitive.FALSE << 2).astype(np.uint8), None, present)
    if pa.types.is_decimal128(type_) and type_.precision <= _MAX_DIGITS and 0 <= type_.scale <= _MAX_DIGITS:
        primitive = decimal_type(type_.precision)
        head = np.empty((len(typed), 2), np.uint8)
        head[:] = (primitive << 2, type_.scale)
        return _fixed(head, _physical(typed, 16)[:, : _DECIMAL_BYTES[primitive]], present)
    if _is_text(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return _strings(Spans.of(typed), Primitive.STRING if _is_text(type_) else Primitive.BINARY)
    found = Primitive.UUID if type_ == pa.binary(16) else ARROW_TYPES.get(type_)
    if found is None:
        raise UnsupportedError(f"variants shredded as {type_}", rule=_RULE)
    values = _physical(typed, type_.bit_width // 8)
    return _fixed(np.full(len(typed), found << 2, np.uint8), values, present)


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _physical(array: pa.Array, width: int) -> Any:
    """uint8[n, width], the bytes of values of a fixed width."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros((len(array), width), np.uint8)
    return np.frombuffer(data, np.uint8, len(array) * width, array.offset * width).reshape(-1, width)


def _fixed(head: Any, values: Any, present: Flags) -> Spans:
    """Values of one size: headers, and what follows them."""
    rows = head[:, None] if head.ndim == 1 else head
    if values is not None:
        rows = np.concatenate((rows, values), axis=1)
    return Spans.between(rows.reshape(-1), np.arange(len(present) + 1, dtype=np.int64) * rows.shape[1], present)


def _strings(texts: Spans, type_: Primitive) -> Spans:
    def build(offsets: Longs, out: Any) -> int:
        return int(write_strings(texts.data, texts.at, int(type_), offsets, out))

    return _built(build, np.zeros(len(texts) + 1, np.int64), texts.present)
