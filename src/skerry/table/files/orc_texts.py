"""Texts of ORC's type CHAR, which PyArrow pads with spaces and Java reads without trailing ones.

Spec: ORC spec, File Tail, Type Information: types stand in pre-order, the root first.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.table.files.orc_times import protobuf_fields
from skerry.table.rows.nested_arrays import convert_elements, convert_entries

__all__ = ["padded_texts", "without_padding"]

_CHAR: Final = 17
_RULE: Final = "ORC spec, File Tail"


def padded_texts(schema: pa.Schema, tail: bytes) -> tuple[tuple[int, frozenset[int]], ...]:
    """Find the padded texts of a file.

    Args:
        schema: The file's columns.
        tail: Its tail, as returned by PyArrow.

    Returns:
        For each column its position among all types of the file, and the positions of the CHAR types in it.

    Raises:
        FormatError: The tail is not a valid message.
    """
    try:
        footer = dict(protobuf_fields(tail))[2]
        types = [dict(protobuf_fields(value)) for number, value in protobuf_fields(footer) if number == 4]
    except (IndexError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"the tail is not a valid message: {error}", rule=_RULE) from error
    padded = {index for index, type_ in enumerate(types) if type_.get(1, 0) == _CHAR}
    found, index = [], 1
    for field in schema:
        after = index + _count(field.type)
        found.append((index, frozenset(padded.intersection(range(index, after)))))
        index = after
    return tuple(found)


def _children(type_: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(type_):
        return [type_.key_type, type_.item_type]
    return [type_.field(index).type for index in range(type_.num_fields)]


def _count(type_: pa.DataType) -> int:
    return 1 + sum(_count(child) for child in _children(type_))


def without_padding(array: pa.Array, index: int, padded: frozenset[int]) -> pa.Array:
    """An array without the trailing spaces of its padded texts.

    Args:
        array: A column.
        index: Its position among all types of the file.
        padded: The positions of padded types.
    """
    type_ = array.type
    if padded.isdisjoint(range(index, index + _count(type_))):
        return array
    if index in padded:
        return pc.utf8_rtrim(array, characters=" ")
    indexes = [index + 1]
    for child in _children(type_)[:-1]:
        indexes.append(indexes[-1] + _count(child))
    if pa.types.is_struct(type_):
        members = [without_padding(array.field(index), start, padded) for index, start in enumerate(indexes)]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=array.is_null())
    if pa.types.is_map(type_):
        return convert_entries(
            array,
            lambda keys: without_padding(keys, indexes[0], padded),
            lambda items: without_padding(items, indexes[1], padded),
            type_,
        )
    return convert_elements(array, lambda values: without_padding(values, indexes[0], padded), type_)
