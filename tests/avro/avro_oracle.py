"""Records of an Avro file by fastavro, record by record: the slow twin of the columnar decoder."""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

import fastavro
import pyarrow as pa
import zstandard


def read_long(stream: io.BytesIO) -> int:
    value = shift = 0
    while True:
        byte = stream.read(1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)


def decompress(data: bytes, codec: str) -> bytes:
    if codec == "deflate":
        return zlib.decompress(data, -15)
    if codec == "zstandard":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    if codec == "snappy":
        stream = io.BytesIO(data)
        size = shift = 0
        while True:
            byte = stream.read(1)[0]
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    return data


def read_records(data: bytes) -> list[Any]:
    """All records; codecs are undone here, as fastavro needs further packages for some."""
    stream = io.BytesIO(data[4:])
    metadata = {}
    while count := read_long(stream):
        if count < 0:
            read_long(stream)
        for _ in range(abs(count)):
            key = stream.read(read_long(stream)).decode()
            metadata[key] = stream.read(read_long(stream))
    stream.read(16)
    schema = fastavro.parse_schema(json.loads(metadata["avro.schema"]))
    records = []
    while stream.tell() < len(data) - 4:
        count, size = read_long(stream), read_long(stream)
        block = io.BytesIO(decompress(stream.read(size), metadata.get("avro.codec", b"null").decode()))
        stream.read(16)
        records += [fastavro.schemaless_reader(block, schema, None) for _ in range(count)]
        assert not block.read()
    return records


def as_arrow_shows(value: Any, schema: Any) -> Any:
    """A value of fastavro as `pyarrow`'s `to_pylist` shows the decoded column: maps as pairs."""
    if isinstance(schema, list):
        if value is None:
            return None
        return as_arrow_shows(value, next(branch for branch in schema if branch != "null"))
    if not isinstance(schema, dict):
        return value
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return as_arrow_shows(value, kind)
    if kind == "record":
        return {entry["name"]: as_arrow_shows(value[entry["name"]], entry["type"]) for entry in schema["fields"]}
    if kind == "map":
        return [(key, as_arrow_shows(item, schema["values"])) for key, item in value.items()]
    if kind == "array":
        items = [as_arrow_shows(item, schema["items"]) for item in value]
        if schema.get("logicalType") == "map":
            return [(item["key"], item["value"]) for item in items]
        return items
    return value
