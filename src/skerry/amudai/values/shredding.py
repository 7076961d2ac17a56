"""Column shredding: one Arrow column becomes a sequence of values per node of its type.

What is below a null is not stored: items of null lists are dropped, fields of null structs and items of null lists
of a fixed size become null, values of variants that a union does not have as well.

Spec: docs/formats/amudai.md § 4.3; Amudai book, chapter 6, List Encoding, Map Encoding, Struct Encoding, Fixed Size
List Encoding, Union Encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.shard.schema import BasicType, DataType
from skerry.amudai.values.datetimes import encode_ticks, is_tick_type
from skerry.amudai.values.decimals import DECIMAL_BYTES, encode_decimals

__all__ = ["NodeColumn", "shred_column"]

_Valid = npt.NDArray[np.bool_] | None
_VIEWS: Final = (pa.string_view(), pa.binary_view())


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """The values of one node.

    Args:
        node: The node of the schema.
        positions: How many there are, null ones included.
        valid: bool[positions]; None if there are no nulls.
        values: Numbers[positions] of numeric nodes, DateTime's ticks and discriminators of unions among them;
            bool[positions] of booleans; strings or binaries (or views of them) or fixed_size_binary of nodes of bytes;
            int64[positions + 1] offsets of lists and maps; None for others.
        words: uint64[2 * positions] of decimals, integers of 128 bits that have their order; None if that is not known.
    """

    node: DataType
    positions: int
    valid: _Valid
    values: Any = None
    words: npt.NDArray[np.uint64] | None = None

    @property
    def null_count(self) -> int:
        """How many values are null."""
        return 0 if self.valid is None else self.positions - int(np.count_nonzero(self.valid))


def shred_column(node: DataType, array: pa.Array) -> Iterator[NodeColumn]:
    """Take a column apart.

    Args:
        node: What the column is stored as: a node made from the array's type, `skerry.amudai.values.types`.
        array: The values.

    Yields:
        The values of the node and of all nodes below it, in the order of their numbers.

    Raises:
        SchemaError: A date, timestamp or decimal cannot be stored exactly.
    """
    array = _plain(array)
    basic = node.basic_type
    if basic in (BasicType.LIST, BasicType.MAP):
        yield from _shred_lists(node, array)
    elif basic is BasicType.FIXED_SIZE_LIST:
        yield from _shred_fixed_lists(node, array)
    elif basic is BasicType.STRUCT:
        yield NodeColumn(node, len(array), _validity(array))
        for child, values in zip(node.children, array.flatten(), strict=True):
            yield from shred_column(child, values)
    elif basic is BasicType.UNION:
        yield from _shred_unions(node, array)
    elif basic is BasicType.BOOLEAN:
        yield NodeColumn(node, len(array), _validity(array), _booleans(array))
    elif node.is_numeric:
        yield _shred_numbers(node, array)
    elif node.is_decimal:
        yield _shred_decimals(node, array)
    else:
        yield NodeColumn(node, len(array), _validity(array), array)


def _plain(array: pa.Array) -> pa.Array:
    """The array without extension types, dictionaries and run ends."""
    while True:
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(kind):
            array = pa.DictionaryArray.from_arrays(array.indices, _without_views(array.dictionary)).dictionary_decode()
        elif pa.types.is_run_end_encoded(kind):
            array = pc.run_end_decode(array)
        else:
            return array


def _validity(array: pa.Array) -> _Valid:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def _booleans(array: pa.Array) -> npt.NDArray[np.bool_]:
    filled = array.fill_null(False) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _shred_numbers(node: DataType, array: pa.Array) -> NodeColumn:
    if is_tick_type(array.type):
        array = encode_ticks(array)
    dtype = array.type.to_pandas_dtype()
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return NodeColumn(node, len(array), _validity(array), np.zeros(len(array), dtype))
    values = np.frombuffer(buffer, dtype, len(array), array.offset * np.dtype(dtype).itemsize)
    return NodeColumn(node, len(array), _validity(array), values)


def _shred_decimals(node: DataType, array: pa.Array) -> NodeColumn:
    valid = _validity(array)
    if len(array) == 0:
        return NodeColumn(node, 0, None, pa.array([], pa.binary(DECIMAL_BYTES)), np.empty(0, np.uint64))
    if not pa.types.is_decimal(array.type):
        return NodeColumn(node, len(array), valid, array)
    encoded = encode_decimals(array)
    try:
        narrow = array if pa.types.is_decimal128(array.type) else array.cast(pa.decimal128(38, array.type.scale))
    except pa.ArrowInvalid:  # 34 digits and many zeros after them
        return NodeColumn(node, len(array), valid, encoded)
    words = np.frombuffer(narrow.buffers()[1], np.uint64, 2 * len(array), 16 * narrow.offset)
    return NodeColumn(node, len(array), valid, encoded, words)


def _shred_lists(node: DataType, array: pa.Array) -> Iterator[NodeColumn]:
    array = _as_list(array)
    yield NodeColumn(node, len(array), _validity(array), _list_offsets(array))
    items = _items(array)
    children = items.flatten() if node.basic_type is BasicType.MAP else [items]
    for child, values in zip(node.children, children, strict=True):
        yield from shred_column(child, values)


def _items(array: pa.Array) -> pa.Array:
    """The items of all lists, without those of null lists."""
    # where all lists are null, PyArrow builds an empty array, which it cannot do for types with extensions in them
    return array.values.slice(0, 0) if array.null_count == len(array) else array.flatten()


def _as_list(array: pa.Array) -> pa.Array:
    """Maps as lists of structs."""
    if not pa.types.is_map(array.type):
        return array
    return array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))


def _list_offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    """Where the items of each list begin among those of lists that are not null, and where the last end."""
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(pc.list_value_length(array).fill_null(0).to_numpy(), out=offsets[1:])
    return offsets


def _shred_fixed_lists(node: DataType, array: pa.Array) -> Iterator[NodeColumn]:
    valid = _validity(array)
    size = node.fixed_size
    items = array.values.slice(array.offset * size, len(array) * size)
    yield NodeColumn(node, len(array), valid)
    yield from shred_column(node.children[0], items if valid is None else _blank(items, np.repeat(valid, size)))


def _shred_unions(node: DataType, array: pa.Array) -> Iterator[NodeColumn]:
    numbers = np.zeros(128, np.uint8)
    numbers[array.type.type_codes] = np.arange(array.type.num_fields)
    _, codes, *others = array.buffers()
    chosen = numbers[np.frombuffer(codes, np.int8, len(array), array.offset)]
    yield NodeColumn(node, len(array), None, chosen)
    places: npt.NDArray[Any] = np.arange(len(array))
    if array.type.mode == "dense":
        places = np.frombuffer(others[0], np.int32, len(array), 4 * array.offset)
    for number, child in enumerate(node.children):
        yield from shred_column(child, _pick(array.field(number), places, chosen == number))


def _blank(array: pa.Array, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """The array with nulls where `valid` says so."""
    return _pick(array, np.arange(len(array)), valid)


def _pick(array: pa.Array, places: npt.NDArray[Any], wanted: npt.NDArray[np.bool_]) -> pa.Array:
    """The values at some places, null where they are not wanted."""
    return _without_views(array).take(pa.array(places, mask=~wanted))


def _without_views(array: pa.Array) -> pa.Array:
    """The array with offsets where it has views of strings or binaries, which PyArrow cannot take from."""
    kind = array.type
    if kind in _VIEWS:
        return array.cast(pa.large_binary())
    if not any(f"{view}" in str(kind) for view in _VIEWS):
        return array
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return pa.StructArray.from_arrays([_without_views(child) for child in array.flatten()], names, mask=mask)
    if pa.types.is_fixed_size_list(kind):
        items = array.values.slice(array.offset * kind.list_size, len(array) * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(_without_views(items), kind.list_size, mask=mask)
    if pa.types.is_union(kind):
        codes = np.frombuffer(array.buffers()[1], np.int8, len(array), array.offset)
        places = np.arange(len(array))
        if kind.mode == "dense":
            places = np.frombuffer(array.buffers()[2], np.int32, len(array), 4 * array.offset)
        children = [_pick(array.field(number), places, codes == code) for number, code in enumerate(kind.type_codes)]
        names = [kind.field(number).name for number in range(kind.num_fields)]
        return pa.UnionArray.from_sparse(pa.array(codes), children, names, kind.type_codes)
    if isinstance(kind, pa.BaseExtensionType):
        return _without_views(array.storage)
    array = _as_list(array)
    return pa.LargeListArray.from_arrays(pa.array(_list_offsets(array)), _without_views(_items(array)), mask=mask)
