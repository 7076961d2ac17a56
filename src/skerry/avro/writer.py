"""Writing Avro files. fastavro encodes records; columns, and the file around them, are encoded here."""

from __future__ import annotations

import functools
import io
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.avro.container import encode_block, encode_header
from skerry.avro.encoding import encode_rows
from skerry.errors import SchemaError

__all__ = ["ContainerEncoder", "write_container"]

_BLOCK_BYTES: Final = 64 * 1024
_BATCH_ROWS: Final = 16 * 1024


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
        block_bytes: A block ends with the record that reaches this many bytes.

    Returns:
        The file.

    Raises:
        SchemaError: The schema is none, or a record does not fit it.
        UnsupportedError: The codec is not known.

    Spec: Avro spec, Object Container Files.
    """
    encoder = ContainerEncoder(schema, metadata=metadata, codec=codec)
    return b"".join([encoder.header, *encoder.encode(records, block_bytes=block_bytes)])


class ContainerEncoder:
    """Makes an Avro file piece by piece: its header, then blocks of records.

    Args:
        schema: As `write_container` takes it.
        metadata: Entries of the header beside Avro's own.
        codec: `null`, `deflate`, `snappy` or `zstandard`.

    Attributes:
        header: The bytes that the file begins with.

    Raises:
        SchemaError: The schema is none.
        UnsupportedError: The codec is not known.
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | str,
        *,
        metadata: Mapping[str, str | bytes] | None = None,
        codec: str = "deflate",
    ) -> None:
        import fastavro  # costs a tenth of a second, and reading does without it

        schema_json = schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"))
        self._schema = _parsed(schema_json)
        self._write_record = fastavro.schemaless_writer
        self._codec = codec
        self._sync_marker = os.urandom(16)
        self._records = 0
        entries = {key: value.encode() if isinstance(value, str) else value for key, value in (metadata or {}).items()}
        self.header = encode_header(schema_json, codec, entries, self._sync_marker)

    def encode(self, records: Iterable[Mapping[str, Any]], *, block_bytes: int = _BLOCK_BYTES) -> Iterator[bytes]:
        """Encode records as blocks.

        Args:
            records: One mapping for each record, by field name.
            block_bytes: A block ends with the record that reaches this many bytes.

        Raises:
            SchemaError: A record does not fit the schema.
        """
        buffer = io.BytesIO()
        pending = 0
        for record in records:
            try:
                self._write_record(buffer, self._schema, record)
            except _RECORD_ERRORS as error:
                raise SchemaError(f"record {self._records} does not fit the Avro schema: {error}") from error
            self._records += 1
            pending += 1
            if buffer.tell() >= block_bytes:
                yield encode_block(pending, buffer.getvalue(), self._codec, self._sync_marker)
                buffer = io.BytesIO()
                pending = 0
        if pending:
            yield encode_block(pending, buffer.getvalue(), self._codec, self._sync_marker)

    def encode_columns(self, rows: pa.Table, *, block_bytes: int = _BLOCK_BYTES) -> Iterator[bytes]:
        """Encode the rows of a table as blocks; many times as fast as one record after the other.

        Args:
            rows: Columns as `skerry.avro.encoding.encode_rows` takes them, in the order of the schema.
            block_bytes: A block ends with the record that reaches this many bytes.

        Raises:
            SchemaError: A column that is not nullable has a null.
            UnsupportedError: A type has no encoding here.
        """
        for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
            data, starts = encode_rows(batch)
            first = 0
            while first < batch.num_rows:
                stop = int(np.searchsorted(starts, starts[first] + block_bytes))
                stop = min(max(stop, first + 1), batch.num_rows)
                block = data[starts[first] : starts[stop]].tobytes()
                yield encode_block(stop - first, block, self._codec, self._sync_marker)
                first = stop


@functools.lru_cache(maxsize=64)
def _parsed(schema_json: str) -> Any:
    """A schema as fastavro takes it; a commit writes several files of the same few schemas."""
    import fastavro

    try:
        return fastavro.parse_schema(json.loads(schema_json))
    except (ValueError, KeyError, TypeError, AttributeError, fastavro.schema.SchemaParseException) as error:
        raise SchemaError(f"not an Avro schema: {error}") from error


_RECORD_ERRORS: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, IndexError, struct.error)
