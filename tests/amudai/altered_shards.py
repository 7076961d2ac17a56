"""Shards taken apart, altered, and sealed again with right checksums: what no writer makes, a reader must answer."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry import amudai
from skerry.amudai.blocks import encode_block_map
from skerry.amudai.encodings.codes import Profile
from skerry.amudai.messages import (
    DataRef,
    DataRefArray,
    EncodedBuffer,
    FieldDescriptor,
    ShardDirectory,
    ShardProperties,
    StripeFieldDescriptor,
    StripeList,
    UrlList,
)
from skerry.amudai.shard.checksum import checksum
from skerry.amudai.shard.directory import encode_directory
from skerry.amudai.shard.framing import decode_message, encode_message
from skerry.amudai.shard.references import encode_data_ref
from skerry.amudai.shard.schema import Schema
from skerry.amudai.shard.schema_layout import decode_schema, encode_schema


@dataclass
class Parts:
    """A single-file shard in pieces. References into `data` stay what they are, as new pieces are appended."""

    data: bytearray
    directory: ShardDirectory
    schema: Schema
    stripes: StripeList
    fields: list[list[StripeFieldDescriptor | None]]
    shard_fields: list[FieldDescriptor | None]
    properties: ShardProperties
    urls: UrlList
    footer: Callable[[ShardDirectory], bytes] = field(default=encode_directory)

    def descriptor(self, name: str, stripe: int = 0) -> StripeFieldDescriptor:
        found = self.fields[stripe][self.schema.field(name).schema_id]
        assert found is not None
        return found

    def buffers(self, name: str) -> dict[int, EncodedBuffer]:
        return {buffer.kind: buffer for buffer in self.descriptor(name).encodings[0].native.buffers}

    def add(self, data: bytes) -> DataRef:
        self.data += bytes(-len(self.data) % 64)
        start = len(self.data)
        self.data += data
        return encode_data_ref(start, len(self.data))

    def add_numbers(
        self, kind: int, values: npt.NDArray[Any], block_values: int = 1000, has_checksums: bool = True, **flags: Any
    ) -> EncodedBuffer:
        """A buffer of blocks of numbers that are not encoded."""
        parts = [values[start : start + block_values] for start in range(0, len(values), block_values)]
        blocks = [plain_block(part.tobytes(), has_checksums=has_checksums) for part in parts]
        body = b"".join(blocks)
        body += bytes(-len(body) % 16)
        counts, sizes = np.array([len(part) for part in parts]), np.array([len(block) for block in blocks])
        block_map = encode_block_map(counts, sizes)
        reference = self.add(body + block_map)
        end = reference.range.end
        buffer = EncodedBuffer(kind=kind, buffer=reference, block_count=len(blocks), **flags)
        buffer.block_checksums = has_checksums
        buffer.block_map.CopyFrom(encode_data_ref(end - len(block_map), end))
        return buffer

    def read(self, reference: DataRef) -> bytes:
        return bytes(self.data[reference.range.start : reference.range.end])

    def seal(self, path: Path) -> str:
        for stripe, fields in zip(self.stripes.stripes, self.fields, strict=True):
            stripe.field_list_ref.CopyFrom(self._list(fields))
        directory = self.directory
        directory.field_list_ref.CopyFrom(self._list(self.shard_fields))
        directory.schema_ref.CopyFrom(self.add(encode_schema(self.schema)))
        directory.stripe_list_ref.CopyFrom(self.add(encode_message(self.stripes)))
        directory.properties_ref.CopyFrom(self.add(encode_message(self.properties)))
        directory.url_list_ref.CopyFrom(self.add(encode_message(self.urls)))
        path.write_bytes(bytes(self.data) + self.footer(directory))
        return str(path)

    def _list(self, messages: list[Any]) -> DataRef:
        array = DataRefArray()
        for message in messages:
            reference = encode_data_ref(0, 0) if message is None else self.add(encode_message(message))
            array.url.append("")
            array.start.append(reference.range.start)
            array.end.append(reference.range.end)
        return self.add(encode_message(array))


def take_apart(path: str) -> Parts:
    """The parts of a shard whose references all lie in its root."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<I", data[-12:-8])
    directory = decode_message(ShardDirectory, data[-12 - 8 - length : -12])

    def read(kind: Any, reference: DataRef) -> Any:
        return decode_message(kind, data[reference.range.start : reference.range.end])

    def read_list(kind: Any, reference: DataRef) -> list[Any]:
        array = read(DataRefArray, reference)
        pairs = zip(array.start, array.end, strict=True)
        return [read(kind, encode_data_ref(start, end)) if end > start else None for start, end in pairs]

    schema = decode_schema(memoryview(data[directory.schema_ref.range.start : directory.schema_ref.range.end]))
    stripes = read(StripeList, directory.stripe_list_ref)
    return Parts(
        bytearray(data[: -12 - 8 - length]),
        directory,
        schema,
        stripes,
        [read_list(StripeFieldDescriptor, stripe.field_list_ref) for stripe in stripes.stripes],
        read_list(FieldDescriptor, directory.field_list_ref),
        read(ShardProperties, directory.properties_ref) if directory.HasField("properties_ref") else ShardProperties(),
        read(UrlList, directory.url_list_ref),
    )


def written(table: pa.Table, path: Path, **options: Any) -> Parts:
    """The parts of a shard of a table, written without encodings unless told otherwise."""
    options.setdefault("profile", Profile.PLAIN)
    amudai.write_table(table, path, **options)
    return take_apart(str(path))


def plain_block(values: bytes, *, has_checksums: bool = True) -> bytes:
    """A block of values that are not encoded and all there."""
    body = struct.pack("<IIH", 0, len(values) + 2, 1) + values
    body += bytes(-(len(body) + 4 * has_checksums) % 8)
    return body + struct.pack("<I", checksum(body)) if has_checksums else body


def bitmap(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return np.packbits(flags, bitorder="little")
