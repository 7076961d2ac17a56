"""Fields without children: numbers, booleans, strings, binaries; from blocks, dictionaries and constants.

Each function answers for the wanted positions only, as an Arrow array of the storage that the wanted type has.

Spec: docs/formats/amudai.md § 4.3, § 7; Amudai book, chapter 6, Primitive Fixed-Size Types Encoding, Primitive
Variable-Sized Encoding, Dictionary Encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.blocks import (
    Blocks,
    ByteValues,
    Numbers,
    decode_byte_values,
    decode_numbers,
    gather_byte_values,
    gather_fixed,
    take_numbers,
)
from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stored_field import StoredField
from skerry.amudai.fields.value_dictionary import ValueDictionary, decode_value_dictionary
from skerry.amudai.messages import BufferKind
from skerry.amudai.shard.schema import BasicType, DataType
from skerry.amudai.shard.shard_files import ShardFiles
from skerry.amudai.values.datetimes import decode_ticks, is_tick_type
from skerry.amudai.values.decimals import decode_decimals
from skerry.errors import FormatError, UnsupportedError
from skerry.storage import redact

__all__ = ["ColumnTooLongError", "read_bitmap", "read_bytes", "read_numbers", "read_offsets"]

_HIGH_BITS: Final = 0x8080_8080_8080_8080
_MAX_I32: Final = (1 << 31) - 1
_RULE: Final = "docs/formats/amudai.md § 4.3"
_UTF8_RULE: Final = "docs/formats/amudai.md § 4.1"
_DTYPES: Final[dict[tuple[BasicType, bool], Any]] = {
    (BasicType.INT8, True): np.int8,
    (BasicType.INT16, True): np.int16,
    (BasicType.INT32, True): np.int32,
    (BasicType.INT64, True): np.int64,
    (BasicType.INT8, False): np.uint8,
    (BasicType.INT16, False): np.uint16,
    (BasicType.INT32, False): np.uint32,
    (BasicType.INT64, False): np.uint64,
}
_OTHER_DTYPES: Final[dict[BasicType, Any]] = {
    BasicType.FLOAT32: np.float32,
    BasicType.FLOAT64: np.float64,
    BasicType.DATE_TIME: np.uint64,
    BasicType.UNION: np.uint8,
}


class ColumnTooLongError(Exception):
    """An array of the wanted type cannot hold the values; fewer rows must be read at once."""


def dtype_of(node: DataType) -> np.dtype[Any]:
    """The type of the numbers that a numeric node, or the discriminator of a union, is stored as."""
    if node.basic_type.is_integer:
        return np.dtype(_DTYPES[node.basic_type, node.signed])
    return np.dtype(_OTHER_DTYPES[node.basic_type])


def read_numbers(files: ShardFiles, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    """Read numbers, DateTime among them.

    Args:
        files: Where to read from.
        field: The field.
        selection: The wanted positions.
        target: An integer, floating point, date, timestamp or duration type.

    Returns:
        `target`[selection.count].

    Raises:
        FormatError: The field's buffers are damaged.
        UnsupportedError: They are stored in a way that cannot be read.
        SchemaError: A tick does not fit `target`.
    """
    dtype = dtype_of(field.node)
    dictionary = field.buffer(BufferKind.VALUE_DICTIONARY)
    if dictionary is not None:
        ids, placed, entries = _read_ids(files, field, selection)
        if entries.fixed_size != dtype.itemsize:
            raise _error(field, f"the dictionary has values of {entries.fixed_size} bytes, expected {dtype.itemsize}")
        values: npt.NDArray[Any] = entries.values.view(dtype)[ids]
        validity = _without_id(ids, entries.null_id)
    else:
        data = field.required(BufferKind.DATA)
        blocks, placed = data.read_blocks(files, selection, field.positions)
        numbers, placed = _numbers_of(blocks, dtype, placed, has_presence=data.embeds_presence)
        values, validity = numbers.values, numbers.validity
    found = _to_arrow(values, validity, target)
    return _with_presence(files, field, selection, placed.take_from(found))


def _numbers_of(
    blocks: Blocks, dtype: npt.DTypeLike, placed: Selection, *, has_presence: bool
) -> tuple[Numbers, Selection]:
    """Values that hold the wanted ones, and where these are among them: single ones, or those of whole blocks."""
    if not placed.is_range:
        taken = take_numbers(blocks, dtype, placed.positions(), has_presence=has_presence)
        if taken is not None:
            return taken, Selection.range(0, placed.count)
    return decode_numbers(blocks, dtype, has_presence=has_presence), placed


def _to_arrow(values: npt.NDArray[Any], validity: npt.NDArray[np.uint8] | None, target: pa.DataType) -> pa.Array:
    """Numbers and a bitmap as an array of a type with values of their width."""
    if is_tick_type(target):
        values = decode_ticks(values, target, _present(validity, len(values)))
    bits = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(target, len(values), [bits, pa.py_buffer(values)])


def _present(validity: npt.NDArray[np.uint8] | None, count: int) -> Callable[[], npt.NDArray[np.bool_]] | None:
    if validity is None:
        return None
    return lambda: np.unpackbits(validity, count=count, bitorder="little").view(np.bool_)


def _without_id(ids: npt.NDArray[np.uint32], null_id: int | None) -> npt.NDArray[np.uint8] | None:
    """A bitmap of the ids that do not mean null; None if no id does."""
    if null_id is None:
        return None
    present = ids != null_id
    return None if present.all() else np.packbits(present, bitorder="little")


def _read_ids(
    files: ShardFiles, field: StoredField, selection: Selection
) -> tuple[npt.NDArray[np.uint32], Selection, ValueDictionary]:
    """The ids of a field with a value dictionary, all in range."""
    buffer = field.required(BufferKind.VALUE_DICTIONARY)
    entries = decode_value_dictionary(buffer.read_whole(files), location=buffer.shown, offset=buffer.reference.start)
    if entries.basic_type is not field.node.basic_type:
        raise _error(field, f"the dictionary is of {entries.basic_type.name}, expected {field.node.basic_type.name}")
    data = field.required(BufferKind.DATA)
    blocks, placed = data.read_blocks(files, selection, field.positions)
    numbers, placed = _numbers_of(blocks, np.uint32, placed, has_presence=data.embeds_presence)
    ids = numbers.values
    if len(ids) and int(ids.max()) >= entries.count:
        raise _error(field, f"the dictionary has {entries.count} entries, an id is {int(ids.max())}")
    return ids, placed, entries


def read_bytes(files: ShardFiles, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    """Read strings, binaries, values of a fixed size and decimals.

    Args:
        files: Where to read from.
        field: The field.
        selection: The wanted positions.
        target: A string, binary or decimal type; of fixed size if the field is.

    Returns:
        `target`[selection.count].

    Raises:
        FormatError: The field's buffers are damaged, or a string is no UTF-8.
        UnsupportedError: They are stored in a way that cannot be read.
        SchemaError: A number does not fit `target`.
        ColumnTooLongError: There are too many bytes for `target`.
    """
    if field.node.basic_type in (BasicType.STRING, BasicType.BINARY):
        found = _read_variable(files, field, selection, target)
    else:
        found = _read_fixed(files, field, selection, target)
    return _with_presence(files, field, selection, found)


def _read_fixed(files: ShardFiles, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    size = 16 if field.node.basic_type is BasicType.GUID else field.node.fixed_size
    if field.buffer(BufferKind.VALUE_DICTIONARY) is not None:
        ids, placed, entries = _read_ids(files, field, selection)
        if entries.fixed_size != size:
            raise _error(field, f"the dictionary has values of {entries.fixed_size} bytes, expected {size}")
        stored = _stored_as(target, entries.values, None, entries.count)
        found = gather_fixed(ids, stored.nbytes // max(entries.count, 1), stored, null_id=entries.null_id)
        stored, validity, count = found.data, found.validity, len(ids)
    else:
        data = field.required(BufferKind.DATA)
        blocks, placed = data.read_blocks(files, selection, field.positions)
        found = decode_byte_values(blocks, size)
        validity, count = found.validity, blocks.value_count
        stored = _stored_as(target, found.data, validity, count)
    bits = None if validity is None else pa.py_buffer(validity)
    return placed.take_from(pa.Array.from_buffers(target, count, [bits, pa.py_buffer(stored)]))


def _stored_as(
    target: pa.DataType, values: npt.NDArray[np.uint8], validity: npt.NDArray[np.uint8] | None, count: int
) -> npt.NDArray[np.uint8]:
    """Values of a fixed size as Arrow stores the wanted type: as they are, or decimals as integers."""
    if not pa.types.is_decimal(target):
        return values
    return decode_decimals(values, target, _present(validity, count)).view(np.uint8)


def _read_variable(files: ShardFiles, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    is_large = bool(pa.types.is_large_string(target) or pa.types.is_large_binary(target))
    if field.buffer(BufferKind.VALUE_DICTIONARY) is not None:
        ids, placed, entries = _read_ids(files, field, selection)
        if entries.fixed_size != 0:
            raise _error(field, "the dictionary has values of a fixed size, expected strings or binaries")
        strings = _within_offsets(
            lambda dtype: gather_byte_values(
                _ids_of(ids, placed),
                np.require(entries.offsets, np.int64, "A"),
                entries.values,
                null_id=entries.null_id,
                offset_dtype=dtype,
            ),
            is_large,
            placed.count,
        )
        found = _variable_array(field, target, np.asarray(strings.offsets), strings.data, strings.validity)
    elif field.buffer(BufferKind.OFFSETS) is not None:
        return _read_separate(files, field, selection, target, is_large)
    else:
        data = field.required(BufferKind.DATA)
        blocks, placed = data.read_blocks(files, selection, field.positions)
        strings = _within_offsets(
            lambda dtype: decode_byte_values(blocks, None, offset_dtype=dtype), is_large, blocks.value_count
        )
        array = _variable_array(field, target, np.asarray(strings.offsets), strings.data, strings.validity)
        found = placed.take_from(array)
    return found


def _within_offsets(decode: Callable[[Any], ByteValues], is_large: bool, count: int) -> ByteValues:
    """Decode strings; if 32-bit offsets cannot hold their bytes, fewer rows must be read at once."""
    if is_large:
        return decode(np.int64)
    try:
        return decode(np.int32)
    except UnsupportedError as error:
        if count <= 1:
            raise
        raise ColumnTooLongError from error


def _ids_of(ids: npt.NDArray[np.uint32], placed: Selection) -> npt.NDArray[np.uint32]:
    if placed.is_range:
        return ids[placed.start : placed.stop]
    return ids[placed.positions()]


def _read_separate(
    files: ShardFiles, field: StoredField, selection: Selection, target: pa.DataType, is_large: bool
) -> pa.Array:
    """Strings whose bytes and offsets are two buffers."""
    edges, spans = read_offsets(files, field, selection)
    total = int(edges[-1]) if len(edges) else 0
    if not is_large and total > _MAX_I32:
        raise ColumnTooLongError
    data = field.required(BufferKind.DATA)
    if spans.count:
        length = data_length(files, field)
        if spans.stop > length:
            raise _error(field, f"offsets lead to byte {spans.stop} of {length}")
        blocks, placed = data.read_blocks(files, spans, length)
        values = decode_numbers(blocks, np.uint8, has_presence=False).values
        values = values[placed.start : placed.stop] if placed.is_range else values[placed.positions()]
    else:
        values = np.empty(0, np.uint8)
    offsets = edges if is_large else edges.astype(np.int32)
    return _variable_array(field, target, offsets, np.ascontiguousarray(values), None)


def data_length(files: ShardFiles, field: StoredField) -> int:
    """How many bytes a DATA buffer with separate offsets holds: what the last offset says."""
    buffer = field.required(BufferKind.OFFSETS)
    last = Selection.range(field.positions, field.positions + 1)
    blocks, placed = buffer.read_blocks(files, last, field.positions + 1)
    values = decode_numbers(blocks, np.uint64, has_presence=False).values
    return int(values[placed.start])


def _variable_array(
    field: StoredField,
    target: pa.DataType,
    offsets: npt.NDArray[Any],
    values: npt.NDArray[np.uint8],
    validity: npt.NDArray[np.uint8] | None,
) -> pa.Array:
    bits = None if validity is None else pa.py_buffer(validity)
    array = pa.Array.from_buffers(target, len(offsets) - 1, [bits, pa.py_buffer(offsets), pa.py_buffer(values)])
    if (pa.types.is_string(target) or pa.types.is_large_string(target)) and not _is_ascii(values):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _error(field, f"a string is not UTF-8: {error}", _UTF8_RULE) from error
    return array


def _is_ascii(values: npt.NDArray[np.uint8]) -> bool:
    words = values[: len(values) // 8 * 8].view(np.uint64)
    return not int(np.bitwise_or.reduce(words)) & _HIGH_BITS and values[len(words) * 8 :].tobytes().isascii()


def read_offsets(
    files: ShardFiles, field: StoredField, selection: Selection
) -> tuple[npt.NDArray[np.int64], Selection]:
    """Read the offsets of lists, maps, or strings whose bytes are in a buffer of their own.

    Args:
        files: Where to read from.
        field: The field.
        selection: The wanted positions.

    Returns:
        int64[selection.count + 1], where each item list begins within the items of the wanted positions; and those
        items, as positions of the child.

    Raises:
        FormatError: The buffer is damaged, or offsets do not rise from 0.
    """
    buffer = field.required(BufferKind.OFFSETS)
    edges = Selection.ranges(selection.starts, selection.stops + 1)
    blocks, placed = buffer.read_blocks(files, edges, field.positions + 1)
    found = decode_numbers(blocks, np.uint64, has_presence=False).values
    values = (
        found.view(np.int64)[placed.start : placed.stop]
        if placed.is_range
        else found.view(np.int64)[placed.positions()]
    )
    # where the wanted position i is among the values read: ranges of positions share an edge only if they touch
    lows = np.searchsorted(edges.starts, selection.starts, "right") - 1
    bases = np.cumsum(edges.stops - edges.starts) - (edges.stops - edges.starts)
    first = selection.starts - edges.starts[lows] + bases[lows]
    lengths = selection.stops - selection.starts
    places = Selection(first, first + lengths, selection.count).positions() if selection.count else first
    starts, stops = values[places], values[places + 1]
    if (selection.start == 0 and selection.count and starts[0] != 0) or (starts < 0).any() or (stops < starts).any():
        raise _error(field, "offsets do not rise from 0")
    if len(starts) > 1 and (starts[1:] < stops[:-1]).any():
        raise _error(field, "offsets do not rise")
    relative = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(stops - starts, out=relative[1:])
    return relative, Selection.ranges(starts, stops)


def read_bitmap(files: ShardFiles, field: StoredField, kind: int, selection: Selection) -> npt.NDArray[np.uint8]:
    """Read the flags of booleans or of presence.

    Args:
        files: Where to read from.
        field: The field.
        kind: Which buffer.
        selection: The wanted positions.

    Returns:
        uint8[ceil(selection.count / 8)], a bitmap of the wanted flags, least significant bit first.
    """
    buffer = field.required(kind)
    count = -(-field.positions // 8)
    spans = Selection.ranges(*_disjoint(selection.starts // 8, (selection.stops + 7) // 8))
    blocks, placed = buffer.read_blocks(files, spans, count)
    found = decode_numbers(blocks, np.uint8, has_presence=False).values
    packed = found[placed.start : placed.stop] if placed.is_range else found[placed.positions()]
    if selection.is_range and selection.start % 8 == 0:
        return np.ascontiguousarray(packed)
    flags = np.unpackbits(packed, bitorder="little")
    wanted = selection.positions()
    edges = np.append(0, np.cumsum(8 * (spans.stops - spans.starts)))
    places = np.searchsorted(8 * spans.starts, wanted, "right") - 1
    return np.packbits(flags[wanted - 8 * spans.starts[places] + edges[places]], bitorder="little")


def _disjoint(
    starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    apart = starts.copy()
    apart[1:] = np.maximum(starts[1:], stops[:-1])
    return apart, stops


def _with_presence(files: ShardFiles, field: StoredField, selection: Selection, array: pa.Array) -> pa.Array:
    """The array with nulls where a PRESENCE buffer beside the values says so, if there is one."""
    if field.buffer(BufferKind.PRESENCE) is None:
        return array
    bits = read_bitmap(files, field, BufferKind.PRESENCE, selection)
    present = pa.Array.from_buffers(pa.bool_(), len(array), [None, pa.py_buffer(bits)])
    places = pa.array(np.arange(len(array)), mask=~present.to_numpy(zero_copy_only=False))
    return array.take(places)


def _error(field: StoredField, problem: str, rule: str = _RULE) -> FormatError:
    return FormatError(
        f"field {field.node.name!r} (schema id {field.node.schema_id}): {problem}",
        location=redact(field.location),
        rule=rule,
    )
