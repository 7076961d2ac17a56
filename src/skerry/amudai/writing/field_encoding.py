"""The values of one node of a stripe as encoded buffers and a descriptor.

Spec: docs/formats/amudai.md § 4.3, § 4.4; Amudai book, chapter 6, Data Encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.blocks import BuiltBuffer, encode_binary_buffer, encode_numeric_buffer
from skerry.amudai.encodings.codes import Profile
from skerry.amudai.encodings.plans import Plan
from skerry.amudai.fields.value_dictionary import encode_value_dictionary
from skerry.amudai.messages import BufferKind, EncodedBuffer, FieldDescriptor
from skerry.amudai.shard.schema import BasicType
from skerry.amudai.statistics.decimal_ranges import summarize_decimals
from skerry.amudai.statistics.range_index import RangeIndex, encode_range_index, index_numbers
from skerry.amudai.values.decimals import DECIMAL_BYTES
from skerry.amudai.values.shredding import NodeColumn
from skerry.amudai.writing.descriptions import (
    describe_booleans,
    describe_bytes,
    describe_decimals,
    describe_lists,
    describe_numbers,
    describe_structs,
    spans_of,
)
from skerry.amudai.writing.dictionaries import BuiltDictionary, build_dictionary
from skerry.arguments import check_instance, check_whole_number
from skerry.errors import SchemaError

__all__ = ["EncodedField", "FieldOptions", "StoredBuffer", "encode_field"]

_Flags = npt.NDArray[np.bool_] | None
_THOROUGH: Final = (Profile.HIGH, Profile.SMALL)
"""Profiles for which a dictionary and values one by one are both tried."""


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """How a column is encoded; every choice can be left to the writer.

    Example:
        amudai.write_table(table, path, field_options={"flight": amudai.FieldOptions(with_dictionary=True)})

    Args:
        profile: What encodings are chosen for, speed or size.
        plan: How the blocks of values (ids, if there is a dictionary) are encoded; chosen from samples if None.
        block_values: Number of values in a block; chosen by plan and profile if None.
        with_dictionary: Whether strings and binaries get a value dictionary; if None, when it makes them smaller.
        with_index: Whether numbers get a range index.
        with_filter: Whether strings and binaries of few distinct values get a Bloom filter.

    Raises:
        SchemaError: A choice has the wrong type.
    """

    profile: Profile = Profile.BALANCED
    plan: Plan | None = None
    block_values: int | None = None
    with_dictionary: bool | None = None
    with_index: bool = True
    with_filter: bool = True

    def __post_init__(self) -> None:
        if self.profile not in tuple(Profile):
            raise SchemaError(f"no profile {self.profile!r}, expected one of {', '.join(Profile)}")
        check_whole_number("block_values", self.block_values, 1)
        if self.plan is not None:
            check_instance("plan", self.plan, Plan, "a Plan")
        for name in ("with_dictionary", "with_index", "with_filter"):
            value = getattr(self, name)
            if not (name == "with_dictionary" and value is None):
                check_instance(name, value, bool, "true or false")


@dataclass(frozen=True, slots=True)
class StoredBuffer:
    """A buffer, ready to be written.

    Args:
        message: Its descriptor, still without references.
        data: Its bytes.
        map_bytes: How many of the last of them are the block map; 0 if there is none.
    """

    message: EncodedBuffer
    data: bytes
    map_bytes: int = 0


@dataclass(frozen=True, slots=True)
class EncodedField:
    """A node of a stripe, ready to be written.

    Args:
        described: The descriptor of its values.
        buffers: Its buffers in order; none if all values are the same.
    """

    described: FieldDescriptor
    buffers: Sequence[StoredBuffer] = field(default_factory=tuple)


def encode_field(column: NodeColumn, options: FieldOptions) -> EncodedField:
    """Encode and describe the values of a node."""
    node = column.node
    if node.basic_type in (BasicType.LIST, BasicType.MAP):
        return _encode_lists(column, options)
    if node.basic_type in (BasicType.STRUCT, BasicType.FIXED_SIZE_LIST):
        described = describe_structs(column.positions, column.null_count)
        return EncodedField(described, _presence(column.valid, options))
    if node.basic_type is BasicType.UNION:
        described = describe_structs(column.positions, 0)
        return EncodedField(described, [_numbers(column.values, None, options, has_presence=False)])
    if node.basic_type is BasicType.BOOLEAN:
        return _encode_booleans(column, options)
    if node.is_numeric:
        return _encode_numbers(column, options)
    if node.is_decimal:
        return _encode_decimals(column, options)
    return _encode_bytes(column, options)


def _encode_lists(column: NodeColumn, options: FieldOptions) -> EncodedField:
    lengths = np.diff(column.values)
    if column.valid is not None:
        lengths = lengths[column.valid]
    offsets = _numbers(column.values.view(np.uint64), None, options, kind=BufferKind.OFFSETS, has_presence=False)
    described = describe_lists(lengths, column.null_count)
    return EncodedField(described, [offsets, *_presence(column.valid, options)])


def _encode_booleans(column: NodeColumn, options: FieldOptions) -> EncodedField:
    bits = column.values if column.valid is None else column.values & column.valid
    described = describe_booleans(column.positions, column.null_count, int(np.count_nonzero(bits)))
    if described.HasField("constant_value"):
        return EncodedField(described)
    return EncodedField(described, [_bitmap(bits, BufferKind.DATA, options), *_presence(column.valid, options)])


def _encode_numbers(column: NodeColumn, options: FieldOptions) -> EncodedField:
    index = index_numbers(column.node.basic_type, column.values, column.valid) if column.positions else None
    described = describe_numbers(column.node, column.values, column.valid, index)
    if described.HasField("constant_value"):
        return EncodedField(described)
    buffers = [_numbers(column.values, column.valid, options), *_index(index, options)]
    return EncodedField(described, buffers)


def _encode_decimals(column: NodeColumn, options: FieldOptions) -> EncodedField:
    encoded = _fixed_values(column.values, DECIMAL_BYTES)
    summary = summarize_decimals(encoded, column.words, column.valid) if column.positions else None
    present = encoded if column.valid is None else encoded[column.valid]
    described = describe_decimals(present, column.null_count, summary)
    if described.HasField("constant_value"):
        return EncodedField(described)
    index = _index(summary.index if summary is not None else None, options)
    built = _dictionary(column, options)
    if built is not None:
        described.dictionary_size = built.dictionary.count
        return EncodedField(described, [*_by_dictionary(built, options), *index])
    return EncodedField(described, [_one_by_one(column, options), *index])


def _encode_bytes(column: NodeColumn, options: FieldOptions) -> EncodedField:
    node, values = column.node, column.values
    with_filter = options.with_filter or node.basic_type is BasicType.GUID
    built = _dictionary(column, options)
    if built is not None:
        described = describe_bytes(node, built.entries, column.null_count, counts=built.counts, with_filter=with_filter)
        if described.HasField("constant_value"):
            return EncodedField(described)
        by_dictionary = _by_dictionary(built, options)
        if options.profile in _THOROUGH and options.with_dictionary is None:
            one_by_one = _one_by_one(column, options)
            if len(one_by_one.data) < sum(len(stored.data) for stored in by_dictionary):
                return EncodedField(described, [one_by_one])
        described.dictionary_size = built.dictionary.count
        return EncodedField(described, by_dictionary)
    present = _as_large_binary(values)
    present = present.drop_null() if column.null_count else present
    described = describe_bytes(node, present, column.null_count, with_filter=with_filter)
    if described.HasField("constant_value"):
        return EncodedField(described)
    return EncodedField(described, [_one_by_one(column, options)])


def _one_by_one(column: NodeColumn, options: FieldOptions) -> StoredBuffer:
    fixed_size = column.node.fixed_size
    if fixed_size:
        return _binaries(None, _fixed_values(column.values, fixed_size).reshape(-1), column.valid, fixed_size, options)
    return _binaries(*_variable_values(column.values), column.valid, 0, options)


def _dictionary(column: NodeColumn, options: FieldOptions) -> BuiltDictionary | None:
    if options.with_dictionary is False or column.positions == column.null_count:
        return None
    return build_dictionary(
        column.node, column.values, keys=_short_decimals(column), is_forced=options.with_dictionary is True
    )


def _short_decimals(column: NodeColumn) -> pa.Array | None:
    """Decimals as integers of 64 bits, if all of them are: they are compared faster than 16 bytes."""
    if column.words is None:
        return None
    numbers = column.words[0::2].view(np.int64)
    if not np.array_equal(numbers >> 63, column.words[1::2].view(np.int64)):
        return None
    return pa.array(numbers, mask=None if column.valid is None else ~column.valid)


def _by_dictionary(built: BuiltDictionary, options: FieldOptions) -> list[StoredBuffer]:
    """Ids and entries."""
    entries = StoredBuffer(EncodedBuffer(kind=BufferKind.VALUE_DICTIONARY), encode_value_dictionary(built.dictionary))
    return [_numbers(built.ids, None, options, has_presence=False), entries]


def _numbers(
    values: npt.NDArray[Any],
    valid: _Flags,
    options: FieldOptions,
    *,
    kind: BufferKind = BufferKind.DATA,
    has_presence: bool = True,
) -> StoredBuffer:
    is_data = kind == BufferKind.DATA
    built = encode_numeric_buffer(
        values,
        valid,
        profile=options.profile,
        plan=options.plan if is_data else None,
        block_values=options.block_values if is_data else None,
    )
    return _stored(built, EncodedBuffer(kind=kind, embedded_presence=has_presence))


def _binaries(
    offsets: npt.NDArray[np.int64] | None,
    data: npt.NDArray[np.uint8],
    valid: _Flags,
    fixed_size: int,
    options: FieldOptions,
) -> StoredBuffer:
    built = encode_binary_buffer(
        offsets,
        data,
        valid,
        fixed_size=fixed_size or None,
        profile=options.profile,
        plan=options.plan,
        block_values=options.block_values,
    )
    return _stored(built, EncodedBuffer(kind=BufferKind.DATA, embedded_presence=True, embedded_offsets=True))


def _stored(built: BuiltBuffer, message: EncodedBuffer) -> StoredBuffer:
    message.block_count = built.block_count
    message.block_checksums = True
    return StoredBuffer(message, built.data, built.map_bytes)


def _bitmap(bits: npt.NDArray[np.bool_], kind: BufferKind, options: FieldOptions) -> StoredBuffer:
    return _numbers(np.packbits(bits, bitorder="little"), None, options, kind=kind, has_presence=False)


def _presence(valid: _Flags, options: FieldOptions) -> list[StoredBuffer]:
    return [] if valid is None else [_bitmap(valid, BufferKind.PRESENCE, options)]


def _index(index: RangeIndex | None, options: FieldOptions) -> list[StoredBuffer]:
    """The range index, unless there is nothing in it."""
    if index is None or not options.with_index or not index.has_values.any():
        return []
    message = EncodedBuffer(kind=BufferKind.RANGE_INDEX, block_count=0, buffer_id=0, packed_group_index=0)
    return [StoredBuffer(message, encode_range_index(index, options.profile))]


def _fixed_values(values: pa.Array, size: int) -> npt.NDArray[np.uint8]:
    """The bytes of a fixed_size_binary array, a view; uint8[n, size]."""
    if len(values) == 0:
        return np.empty((0, size), np.uint8)
    return np.frombuffer(values.buffers()[1], np.uint8, size * len(values), size * values.offset).reshape(-1, size)


def _as_large_binary(values: pa.Array) -> pa.Array:
    """The same values with wide offsets."""
    if not pa.types.is_fixed_size_binary(values.type):
        return values.cast(pa.large_binary())
    data = _fixed_values(values, values.type.byte_width)
    offsets = np.arange(0, data.size + 1, values.type.byte_width, dtype=np.int64)
    validity = values.is_valid().buffers()[1] if values.null_count else None
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def _variable_values(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets from 0 on and bytes of strings or binaries; null values are empty."""
    values = values.cast(pa.large_binary())
    offsets, data = spans_of(values)
    if values.null_count and np.diff(offsets)[values.is_null().to_numpy(zero_copy_only=False)].any():
        offsets, data = spans_of(values.fill_null(b""))
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]
