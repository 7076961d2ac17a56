"""Changing the values of Avro files record by record; schema and header stay as they are."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skerry.avro.container import decode_block, decode_blocks, decode_header
from skerry.avro.reader import MAX_BLOCK_BYTES, MAX_BLOCK_EXPANSION, read_batches
from skerry.avro.writer import ContainerEncoder
from skerry.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["rewrite_records"]


def rewrite_records(data: Buffer, change: Callable[[dict[str, Any]], None], *, location: str | None = None) -> bytes:
    """Change the records of an Avro file.

    Args:
        data: The whole file.
        change: Changes a record in place; values of logical types are plain numbers and bytes.
        location: The file, for messages.

    Returns:
        The new file, with the schema, the codec and the metadata of the old one.

    Raises:
        FormatError: The bytes break a rule of Avro.
        UnsupportedError: As `read_batches`.

    Spec: Avro spec, Object Container Files.
    """
    view = memoryview(data).cast("B")
    header = decode_header(view, location=location)
    for _ in read_batches(
        view, location=location
    ):  # finds counts that the bytes do not bear out; fastavro believes them
        pass
    own = {key: value for key, value in header.metadata.items() if not key.startswith("avro.")}
    encoder = ContainerEncoder(header.schema_json, metadata=own, codec=header.codec)

    def changed() -> Iterator[dict[str, Any]]:
        for record in _records(view, location):
            change(record)
            yield record

    return b"".join([encoder.header, *encoder.encode(changed())])


def _records(view: memoryview, location: str | None) -> Iterator[dict[str, Any]]:
    import fastavro  # as in the writer

    header = decode_header(view, location=location)
    schema = fastavro.parse_schema(_plain(json.loads(header.schema_json)))
    for block in decode_blocks(view, header, location=location):
        max_bytes = MAX_BLOCK_BYTES + MAX_BLOCK_EXPANSION * block.size
        data = decode_block(view, block, header.codec, max_bytes=max_bytes, location=location)
        stream = io.BytesIO(data)
        for _ in range(block.records):
            try:
                record = fastavro.schemaless_reader(stream, schema, None)
            except Exception as error:  # any error of fastavro's for bytes that do not match the schema
                raise FormatError(
                    f"an Avro record cannot be read: {error}", location=location, offset=block.offset
                ) from error
            if not isinstance(record, dict):
                raise FormatError("the file is not one of Avro records", location=location)
            yield record


def _plain(schema: Any) -> Any:
    """A schema without logical types, whose values are read as they are stored."""
    if isinstance(schema, list):
        return [_plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: value if key == "default" else _plain(value) for key, value in schema.items() if key != "logicalType"}
