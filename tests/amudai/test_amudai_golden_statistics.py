"""What the writer says of values is what the Rust reference says of them, but where it is meant otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from golden_shards import GoldenShard, assert_same_values, golden_shards

from skerry.amudai.encodings.codes import Profile
from skerry.amudai.fields.value_dictionary import decode_value_dictionary, encode_value_dictionary
from skerry.amudai.messages import BufferKind, EncodedBuffer, FieldDescriptor, StripeFieldDescriptor
from skerry.amudai.reading.shard_file import ShardFile, read_table
from skerry.amudai.shard.schema import BasicType, DataType
from skerry.amudai.statistics.descriptors import decode_statistics, merge_descriptors
from skerry.amudai.statistics.range_index import RangeIndex, decode_range_index
from skerry.amudai.values.shredding import shred_column
from skerry.amudai.values.types import schema_from_arrow
from skerry.amudai.writing.field_encoding import EncodedField, FieldOptions, encode_field
from skerry.amudai.writing.shard_writer import write_table

pytestmark = pytest.mark.parametrize("shard", golden_shards(), ids=lambda shard: shard.name)
_OPTIONS = FieldOptions(Profile.PLAIN, with_dictionary=False)
_PLAIN_PROFILE = FieldOptions(Profile.PLAIN, with_dictionary=False, with_index=False, with_filter=False)


def described(shard: GoldenShard) -> Iterator[tuple[DataType, StripeFieldDescriptor, EncodedField]]:
    """Every node of every stripe: as the reference describes it, and as our writer encodes it."""
    file, table = ShardFile(shard.path), shard.expected()
    schema = schema_from_arrow(table.schema)
    options = _PLAIN_PROFILE if shard.name == "profile-plain" else _OPTIONS
    for reader in file.metadata.stripe_readers():
        reader.load_descriptors(schema.nodes())
        for field, column in zip(schema.fields, table.columns, strict=True):
            rows = column.slice(reader.stripe.record_offset, reader.row_count)
            array = pa.concat_arrays(rows.chunks) if rows.num_chunks else pa.array([], rows.type)
            hidden = False
            for part in shred_column(field.data_type, array):
                message = reader.fields.descriptor(part.node)
                if message is not None and not hidden:
                    yield part.node, message, encode_field(part, options)
                # the reference counts what lies behind null structs, the writer does not keep it
                hidden |= part.node.basic_type is BasicType.STRUCT and part.null_count > 0
                # and it leaves out items of lists that it makes null at the end, which the writer keeps
                hidden |= part.node.basic_type is BasicType.FIXED_SIZE_LIST and shard.name == "fixed-list-cut-short"


def test_descriptors(shard: GoldenShard) -> None:
    for node, message, encoded in described(shard):
        theirs, ours = FieldDescriptor(), FieldDescriptor()
        theirs.CopyFrom(message.field)
        ours.CopyFrom(encoded.described)
        theirs.ClearField("dictionary_size")  # none is asked for here
        theirs.ClearField("custom_properties")
        if node.basic_type.is_bytes and not node.is_decimal:
            ours.ClearField("range_stats")  # the reference has none
        if theirs.floating_stats.nan_count:
            theirs.ClearField("constant_value")  # the reference loses the NaNs beside one number
            ours.ClearField("constant_value")
        assert ours == theirs, node


def test_merged_descriptors(shard: GoldenShard) -> None:
    file = ShardFile(shard.path)
    readers = file.metadata.stripe_readers()
    nodes = list(file.shard_schema.nodes())
    file.metadata.load_descriptors(readers, nodes)
    for node, theirs in zip(nodes, file.metadata.descriptors(nodes), strict=True):
        if theirs is None or theirs.position_count == 0:
            continue
        messages = [reader.fields.descriptor(node) for reader in readers]
        ours = merge_descriptors(node, [message.field for message in messages if message is not None])
        assert ours == theirs
        assert decode_statistics(node, ours) == decode_statistics(node, theirs)


def test_range_indexes(shard: GoldenShard) -> None:
    file = ShardFile(shard.path)
    for node, message, encoded in described(shard):
        theirs = [buffer for encoding in message.encodings for buffer in encoding.native.buffers]
        found = [_index(file, node, message.field.position_count, buffer) for buffer in theirs if is_index(buffer)]
        built = [stored for stored in encoded.buffers if is_index(stored.message)]
        assert len(found) == len(built)
        for their_index, stored in zip(found, built, strict=True):
            our_index = decode_range_index(stored.data, node, message.field.position_count)
            assert their_index.positions == our_index.positions
            for name in ("lows", "highs", "invalid_counts"):
                np.testing.assert_array_equal(getattr(our_index, name), getattr(their_index, name))


def is_index(buffer: EncodedBuffer) -> bool:
    return buffer.kind == BufferKind.RANGE_INDEX


def _index(file: ShardFile, node: DataType, positions: int, buffer: EncodedBuffer) -> RangeIndex:
    (data,) = file.metadata.files.read([file.metadata.rules.reference(buffer.buffer)])
    return decode_range_index(data, node, positions)


def test_value_dictionaries(shard: GoldenShard) -> None:
    file = ShardFile(shard.path)
    for reader in file.metadata.stripe_readers():
        nodes = list(file.shard_schema.nodes())
        reader.load_descriptors(nodes)
        for message in filter(None, map(reader.fields.descriptor, nodes)):
            for buffer in message.encodings[0].native.buffers:
                if buffer.kind == BufferKind.VALUE_DICTIONARY:
                    (data,) = file.metadata.files.read([file.metadata.rules.reference(buffer.buffer)])
                    dictionary = decode_value_dictionary(data)
                    assert dictionary.count == message.field.dictionary_size
                    assert encode_value_dictionary(dictionary) == bytes(data)


def test_the_content_survives_our_writer(shard: GoldenShard, tmp_path: Path) -> None:
    table = shard.expected()
    table = table.slice(0, 6000)
    write_table(table, tmp_path / "x.shard", stripe_rows=2500)
    read = read_table(tmp_path / "x.shard")
    assert read.schema.equals(table.schema, check_metadata=True)
    for name in table.column_names:
        assert_same_values(read[name], table[name], name)
