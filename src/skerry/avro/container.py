"""The frame of an Avro file: header, blocks of records between sync markers, and the codecs of blocks.

    file   = magic metadata sync-marker (count size records sync-marker)*

Spec: Avro spec, Object Container Files.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skerry.avro.schema import AvroType, decode_schema
from skerry.compression import compress_zstd, decompress_deflate, decompress_zstd
from skerry.errors import FormatError, UnsupportedError

__all__ = [
    "MAGIC",
    "Block",
    "Header",
    "decode_block",
    "decode_blocks",
    "decode_header",
    "encode_block",
    "encode_header",
    "encode_long",
]

MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_RULE: Final = "Avro spec, Object Container Files"


@dataclass(frozen=True, slots=True)
class Header:
    """What the head of a file says.

    Args:
        schema_json: The schema of the records, as it is in the file.
        codec: The codec of the blocks: `null`, `deflate`, `snappy`, `zstandard`, or one that is not known here.
        metadata: All entries of the header, those of Avro (`avro.schema`, `avro.codec`) included.
        sync_marker: The 16 bytes after each block.
        size: Bytes of the header; the first block begins there.
    """

    schema_json: str
    codec: str
    metadata: Mapping[str, bytes]
    sync_marker: bytes
    size: int

    @property
    def schema(self) -> AvroType:
        """The schema, decoded at each call.

        Raises:
            FormatError: It is not a schema.
            UnsupportedError: It contains itself, or is too large.
        """
        return decode_schema(self.schema_json)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of records.

    Args:
        records: Number of records.
        offset: Where its (compressed) records start in the file.
        size: Bytes of its (compressed) records.
    """

    records: int
    offset: int
    size: int


def decode_header(data: memoryview, *, location: str | None = None) -> Header:
    """Decode the head of a file.

    Args:
        data: The file, or enough of its beginning.
        location: The file, for messages.

    Returns:
        The header. Its schema is not decoded, its codec may be unknown.

    Raises:
        FormatError: The bytes are not the head of an Avro file.

    Spec: Avro spec, Object Container Files.
    """
    magic = bytes(data[: len(MAGIC)])
    if magic != MAGIC:
        raise FormatError(
            f"not an Avro file: expected magic {MAGIC.hex()}, found {magic.hex() or 'no bytes'}",
            location=location,
            offset=0,
            rule=_RULE,
        )
    cursor = _Cursor(data, len(MAGIC), location)
    metadata: dict[str, bytes] = {}
    while number := cursor.read_long("number of metadata entries"):
        if number < 0:
            cursor.read_long("size of metadata")
        for _ in range(abs(number)):
            start = cursor.position
            try:
                key = cursor.read_bytes("metadata key").decode("utf-8")
            except UnicodeDecodeError as error:
                raise cursor.error("metadata key is not UTF-8", start) from error
            metadata[key] = cursor.read_bytes(f"metadata entry {key!r}")
    sync_marker = cursor.take(_SYNC_BYTES, "sync marker")
    if "avro.schema" not in metadata:
        raise cursor.error("header has no entry 'avro.schema'", cursor.position)
    try:
        schema_json = metadata["avro.schema"].decode("utf-8")
        codec = metadata.get("avro.codec", b"").decode("utf-8") or "null"
    except UnicodeDecodeError as error:
        raise cursor.error("header entry 'avro.schema' or 'avro.codec' is not UTF-8", cursor.position) from error
    return Header(schema_json, codec, metadata, sync_marker, cursor.position)


def decode_blocks(data: memoryview, header: Header, *, location: str | None = None) -> Iterator[Block]:
    """Walk the blocks of a file, checking that each is followed by the sync marker and the last by nothing.

    Args:
        data: The whole file.
        header: Its header.
        location: The file, for messages.

    Yields:
        The blocks in order. The bytes of each are there; how many records they can hold is not checked.

    Raises:
        FormatError: A count or size is impossible, a marker is wrong, or the file ends within a block.

    Spec: Avro spec, Object Container Files.
    """
    cursor = _Cursor(data, header.size, location)
    while cursor.position < len(data):
        start = cursor.position
        records = cursor.read_long("number of records")
        if records < 0:
            raise cursor.error(f"block has {records} records, expected at least 0", start)
        start = cursor.position
        size = cursor.read_long("size of a block")
        offset = cursor.position
        if not 0 <= size <= len(data) - offset - _SYNC_BYTES:
            room = max(0, len(data) - offset - _SYNC_BYTES)
            raise cursor.error(f"block has {size} bytes, expected 0 to {room} before the end of the file", start)
        cursor.position += size
        start = cursor.position
        if cursor.take(_SYNC_BYTES, "sync marker") != header.sync_marker:
            raise cursor.error("block is not followed by the sync marker of the header", start)
        yield Block(records, offset, size)


def decode_block(
    data: memoryview, block: Block, codec: str, *, max_bytes: int, location: str | None = None
) -> bytes | memoryview:
    """Decompress the records of a block.

    Args:
        data: The whole file.
        block: The block.
        codec: The codec of the header.
        max_bytes: The most bytes that the records may take.
        location: The file, for messages.

    Returns:
        The records; a view of `data` where they are not compressed.

    Raises:
        FormatError: The bytes are not in that codec, or the records take more than `max_bytes`.
        UnsupportedError: The codec is not known here.

    Spec: Avro spec, Required Codecs, Optional Codecs.
    """
    _, decompress = _codec(codec, location)
    try:
        return decompress(data[block.offset : block.offset + block.size], max_bytes)
    except FormatError as error:
        raise FormatError(
            f"block in codec {codec}: {error.message}",
            location=location,
            offset=block.offset + (error.offset or 0),
            rule=error.rule or "Avro spec, Required Codecs, Optional Codecs",
        ) from error


def encode_header(schema_json: str, codec: str, metadata: Mapping[str, bytes], sync_marker: bytes) -> bytes:
    """Encode the head of a file.

    Raises:
        UnsupportedError: The codec is not known here.
    """
    _codec(codec, None)
    entries = {"avro.schema": schema_json.encode(), "avro.codec": codec.encode(), **metadata}
    parts = [MAGIC, encode_long(len(entries))]
    for key, value in entries.items():
        name = key.encode()
        parts += [encode_long(len(name)), name, encode_long(len(value)), value]
    return b"".join([*parts, encode_long(0), sync_marker])


def encode_block(records: int, data: bytes, codec: str, sync_marker: bytes) -> bytes:
    """Encode a block of `count` records, whose bytes are `data`."""
    compress, _ = _codec(codec, None)
    stored = compress(data)
    return b"".join([encode_long(records), encode_long(len(stored)), stored, sync_marker])


def encode_long(value: int) -> bytes:
    """Encode a 64-bit integer as zigzag varint.

    Spec: Avro spec, Primitive Types: int, long.
    """
    rest = (value << 1) ^ (value >> 63)
    result = bytearray()
    while rest > 0x7F:
        result.append(rest & 0x7F | 0x80)
        rest >>= 7
    result.append(rest)
    return bytes(result)


class _Cursor:
    """A place in a file, and checked reading from there on."""

    def __init__(self, data: memoryview, position: int, location: str | None) -> None:
        self.data = data
        self.position = position
        self.location = location

    def error(self, problem: str, offset: int) -> FormatError:
        return FormatError(f"Avro file: {problem}", location=self.location, offset=offset, rule=_RULE)

    def take(self, size: int, what: str) -> bytes:
        taken = bytes(self.data[self.position : self.position + size])
        if len(taken) < size:
            raise self.error(f"ends within its {what}", len(self.data))
        self.position += size
        return taken

    def read_long(self, what: str) -> int:
        value = shift = 0
        start = position = self.position
        for byte in self.data[start : start + 10]:
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                self.position = position
                return (value >> 1) ^ -(value & 1)
            shift += 7
        if position - start < 10:
            raise self.error(f"ends within its {what}", position)
        raise self.error(f"{what} does not fit 64 bits", start)

    def read_bytes(self, what: str) -> bytes:
        start = self.position
        size = self.read_long(f"size of {what}")
        if not 0 <= size <= len(self.data) - self.position:
            room = len(self.data) - self.position
            raise self.error(f"{what} has {size} bytes, expected 0 to {room} before the end of the file", start)
        return self.take(size, what)


# --- Codecs -----------------------------------------------------------------------------------------------------------

_DEFLATE_WINDOW_BITS: Final = -15  # a bare stream, without the header and checksum of zlib
_DEFLATE_CHECKSUM_BYTES: Final = 4
_SNAPPY_CHECKSUM_BYTES: Final = 4
_SNAPPY_MAX_EXPANSION: Final = 64
_snappy: Final = pa.Codec("snappy")


def _store(data: bytes) -> bytes:
    return data


def _load(data: memoryview, max_bytes: int) -> memoryview:
    if len(data) > max_bytes:
        raise FormatError(f"{len(data)} bytes of records, expected at most {max_bytes}")
    return data


def _deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=_DEFLATE_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def _inflate(data: memoryview, max_bytes: int) -> bytes:
    """Inflate; bytes of zlib's checksum that some writers leave after the stream (PyIceberg: three) are ignored."""
    content, trailing = decompress_deflate(data, max_bytes=max_bytes)
    if trailing > _DEFLATE_CHECKSUM_BYTES:
        raise FormatError(f"deflate stream is followed by {trailing} other bytes", offset=len(data) - trailing)
    return content


def _snappy_compress(data: bytes) -> bytes:
    return _snappy.compress(data, asbytes=True) + zlib.crc32(data).to_bytes(_SNAPPY_CHECKSUM_BYTES, "big")


def _snappy_decompress(data: memoryview, max_bytes: int) -> bytes:
    stream, checksum = data[:-_SNAPPY_CHECKSUM_BYTES], data[-_SNAPPY_CHECKSUM_BYTES:]
    size = shift = 0
    for byte in stream[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise FormatError("snappy data without its size", offset=0, rule="Snappy format, Preamble")
    limit = min(max_bytes, _SNAPPY_MAX_EXPANSION * len(stream))
    if size > limit:
        raise FormatError(f"snappy data of {len(stream)} bytes claims {size} bytes, expected at most {limit}", offset=0)
    try:
        content: bytes = _snappy.decompress(stream, size, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"snappy data is damaged: {error}") from error
    if zlib.crc32(content) != int.from_bytes(checksum, "big"):
        raise FormatError("snappy data does not have its checksum", offset=len(stream))
    return content


def _zstd_decompress(data: memoryview, max_bytes: int) -> bytes:
    return decompress_zstd(data, max_bytes=max_bytes)


_Compress = Callable[[bytes], bytes]
_Decompress = Callable[[memoryview, int], "bytes | memoryview"]
_CODECS: Final[dict[str, tuple[_Compress, _Decompress]]] = {
    "null": (_store, _load),
    "deflate": (_deflate, _inflate),
    "snappy": (_snappy_compress, _snappy_decompress),
    "zstandard": (compress_zstd, _zstd_decompress),
}


def _codec(name: str, location: str | None) -> tuple[_Compress, _Decompress]:
    codec = _CODECS.get(name)
    if codec is None:
        raise UnsupportedError(
            f"Avro codec {name!r}, expected one of {', '.join(_CODECS)}",
            location=location,
            rule="Avro spec, Required Codecs, Optional Codecs",
        )
    return codec
