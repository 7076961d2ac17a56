"""Writing Avro files. Records are encoded by fastavro, the file around them is made here."""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from skerry.avro.container import encode_block, encode_header
from skerry.errors import SchemaError

__all__ = ["write_container"]

_BLOCK_BYTES: Final = 64 * 1024


def write_container(
    schema: Mapping[str, Any] | str,
    records: Iterable[Mapping[str, Any]],
    *,
    metadata: Mapping[str, str | bytes] | None = None,
    codec: str = "deflate",
    block_bytes: int = _BLOCK_BYTES,
) -> bytes:
    """Make an Avro file.

    Args:
        schema: Avro schema; it goes into the file as it is, attributes such as `field-id` included.
        records: One mapping for each record, by field name. Logical types take what fastavro takes for them (date,
            datetime, Decimal, or the plain number).
        metadata: Entries of the header beside Avro's own.
        codec: `null`, `deflate`, `snappy` or `zstandard`.
        block_bytes: A block ends with the record that reaches so many bytes.

    Returns:
        The file.

    Raises:
        SchemaError: The schema is none, or a record does not fit it.
        UnsupportedError: The codec is not known.

    Spec: Avro 1.12, "Object Container Files".
    """
    import fastavro  # costs a tenth of a second, and reading does without it

    schema_json = schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"))
    try:
        parsed = fastavro.parse_schema(json.loads(schema_json))
    except (ValueError, KeyError, TypeError, AttributeError, fastavro.schema.SchemaParseException) as error:
        raise SchemaError(f"not an Avro schema: {error}") from error
    entries = {key: value.encode() if isinstance(value, str) else value for key, value in (metadata or {}).items()}
    sync_marker = os.urandom(16)
    parts = [encode_header(schema_json, codec, entries, sync_marker)]
    buffer = io.BytesIO()
    pending = 0
    for i, record in enumerate(records):
        try:
            fastavro.schemaless_writer(buffer, parsed, record)
        except _RECORD_ERRORS as error:
            raise SchemaError(f"record {i} does not fit the Avro schema: {error}") from error
        pending += 1
        if buffer.tell() >= block_bytes:
            parts.append(encode_block(pending, buffer.getvalue(), codec, sync_marker))
            buffer = io.BytesIO()
            pending = 0
    if pending:
        parts.append(encode_block(pending, buffer.getvalue(), codec, sync_marker))
    return b"".join(parts)


_RECORD_ERRORS: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, IndexError, struct.error)
