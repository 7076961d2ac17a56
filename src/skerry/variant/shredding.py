"""Variants shredded: values of the types that a column mostly has become columns of their own.

Spec: Parquet spec, VariantShredding.md.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.variant.assembling import either, encode_objects
from skerry.variant.building import EMPTY_OBJECT_BYTES
from skerry.variant.columns import Dictionaries, Flags, Spans, flags_of, raise_on, variants
from skerry.variant.getting import find_path
from skerry.variant.layout import take_elements
from skerry.variant.primitives import NO_TYPE, Words, read_words, to_array
from skerry.variant.values import BasicType, Primitive

__all__ = ["shred", "stored_type"]

_INTEGERS: Final = (Primitive.INT8, Primitive.INT16, Primitive.INT32, Primitive.INT64)
_EXACT_NUMBERS: Final = (*_INTEGERS, Primitive.DECIMAL4, Primitive.DECIMAL8, Primitive.DECIMAL16)
_ACCEPTED: Final[dict[pa.DataType, tuple[Primitive, ...]]] = {
    pa.bool_(): (Primitive.TRUE, Primitive.FALSE),
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), _INTEGERS),
    pa.float32(): (Primitive.FLOAT,),
    pa.float64(): (Primitive.DOUBLE,),
    pa.date32(): (Primitive.DATE,),
    pa.time64("us"): (Primitive.TIME_NTZ,),
    pa.timestamp("us", "UTC"): (Primitive.TIMESTAMP,),
    pa.timestamp("us"): (Primitive.TIMESTAMP_NTZ,),
    pa.timestamp("ns", "UTC"): (Primitive.TIMESTAMP_NS,),
    pa.timestamp("ns"): (Primitive.TIMESTAMP_NTZ_NS,),
    pa.string(): (Primitive.STRING,),
    pa.binary(): (Primitive.BINARY,),
    pa.uuid(): (Primitive.UUID,),
}
"""What each type stores: values of one kind, which come back as they were but for the width of whole numbers."""


def stored_type(type_: pa.DataType) -> pa.StructType:
    """The Arrow type of variants that are shredded.

    Args:
        type_: What is shredded, as a plain type: `struct<id: int64, tags: list<string>>`.

    Raises:
        SchemaError: The format cannot shred a type.
    """
    metadata = pa.field("metadata", pa.binary(), nullable=False)
    return pa.struct([metadata, *_group(type_)])


def _group(type_: pa.DataType) -> list[pa.Field]:
    return [pa.field("value", pa.binary()), pa.field("typed_value", _typed_value(type_))]


def _typed_value(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        if not type_.num_fields:
            raise SchemaError("variants cannot be shredded as objects without fields")
        return pa.struct([pa.field(field.name, pa.struct(_group(field.type)), nullable=False) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", pa.struct(_group(type_.value_type)), nullable=False))
    _accepted(type_)
    return type_


def _accepted(type_: pa.DataType) -> tuple[Primitive, ...]:
    found = _EXACT_NUMBERS if pa.types.is_decimal128(type_) else _ACCEPTED.get(type_)
    if found is None:
        raise SchemaError(f"variants cannot be shredded as {type_}")
    return found


def shred(array: pa.StructArray, type_: pa.DataType) -> pa.StructArray:
    """Shred a column of variants.

    Args:
        array: The column.
        type_: What is shredded, as a plain type; values of other types stay encoded.

    Returns:
        A column of `stored_type(type_)`.

    Raises:
        FormatError: A variant breaks a rule of the format.
        SchemaError: The array does not hold variants, or the format cannot shred a type.
    """
    stored = stored_type(type_)
    spans, dictionaries = variants(array)
    value, typed = _shred(spans, dictionaries, type_)
    metadata = array.field(array.type.get_field_index("metadata")).cast(pa.binary())
    valid = flags_of(array)
    if array.null_count:
        metadata = metadata.fill_null(b"")
    mask = None if valid.all() else pa.array(~valid)
    return pa.StructArray.from_arrays([metadata, value.to_arrow(), typed], fields=list(stored), mask=mask)


def _shred(spans: Spans, dictionaries: Dictionaries, type_: pa.DataType) -> tuple[Spans, pa.Array]:
    """What stays encoded, and what is shredded."""
    if pa.types.is_struct(type_):
        return _shred_objects(spans, dictionaries, type_)
    if pa.types.is_list(type_):
        return _shred_lists(spans, dictionaries, type_)
    words = read_words(spans)
    types = np.where(words.are(_accepted(type_)), words.types, np.uint8(NO_TYPE))
    typed = to_array(Words(words.data, words.words, words.scales, types), type_)
    return spans.only(~flags_of(typed)), typed


def _shred_objects(spans: Spans, dictionaries: Dictionaries, type_: pa.StructType) -> tuple[Spans, pa.Array]:
    is_object = spans.present & (spans.first_bytes & 3 == BasicType.OBJECT)
    objects = spans.only(is_object)
    members, fields = [], list(_typed_value(type_))
    for wanted, group in zip(type_, fields, strict=True):
        found = find_path(objects, dictionaries, (wanted.name,))
        members.append(_group_array(*_shred(found, dictionaries, wanted.type), group.type))
    nothing = Spans(np.empty(0, np.uint8), np.full((2, len(spans)), -1))
    names = sorted((field.name for field in type_), key=str.encode)
    rest = encode_objects([(name, nothing) for name in names], objects, is_object, dictionaries)
    rest = rest.only(rest.at[1] - rest.at[0] > EMPTY_OBJECT_BYTES)
    mask = None if is_object.all() else pa.array(~is_object)
    typed = pa.StructArray.from_arrays(members, fields=fields, mask=mask)
    return either(rest, spans.only(~is_object)), typed


def _shred_lists(spans: Spans, dictionaries: Dictionaries, type_: pa.ListType) -> tuple[Spans, pa.Array]:
    lengths = np.empty(len(spans), np.int64)
    count = raise_on(take_elements(spans.data, spans.at, lengths, np.empty((2, 0), np.int64)))
    elements = np.empty((2, count), np.int64)
    raise_on(take_elements(spans.data, spans.at, lengths, elements))
    is_array: Flags = lengths >= 0
    lengths = np.maximum(lengths, 0)
    rows = np.repeat(np.arange(len(spans)), lengths)
    stored = _typed_value(type_)
    group = _group_array(
        *_shred(Spans(spans.data, elements), dictionaries.take(rows), type_.value_type), stored.value_type
    )
    offsets = np.zeros(len(spans) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = None if is_array.all() else pa.array(~is_array)
    typed = pa.ListArray.from_arrays(pa.array(offsets), group, type=stored, mask=mask)
    return spans.only(~is_array), typed


def _group_array(value: Spans, typed: pa.Array, type_: pa.StructType) -> pa.Array:
    return pa.StructArray.from_arrays([value.to_arrow(), typed], fields=list(type_))
