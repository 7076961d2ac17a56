"""Avro data files: read as a whole, and decoded column by column.

Spec: Iceberg spec, Appendix A, Avro.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from skerry.avro import read_batches, read_header
from skerry.avro.container import decode_blocks
from skerry.avro.schema import record_of
from skerry.encryption import KeyMetadata, decode_gcm_stream
from skerry.errors import UnsupportedError
from skerry.storage import Storage
from skerry.table.files.evolution import NameMapping, identify, top_level, with_ids
from skerry.table.files.stored_file import Part, StoredFile, reading, without_columns
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.rows.schema import FIELD_ID_KEY

__all__ = ["open_avro"]

_MEMORY_PER_BYTE = 4
"""Roughly how much larger the rows are in memory, including the file itself."""


def open_avro(
    storage: Storage, location: str, wanted: pa.Schema, names: NameMapping | None, key: KeyMetadata | None = None
) -> StoredFile:
    """Read a file; see `skerry.table.files.parquet_file.open_parquet`."""
    with reading(location, "avro"):
        data = storage.read(location)
        if key is not None:
            data = decode_gcm_stream(data, key, location=location)
        header = read_header(data, location=location)
        record = record_of(header.schema)
        if record is None:
            raise UnsupportedError("an Avro file whose values are not records has no columns", location=location)
        fields = [(field.name, field.field_id) for field in record.fields]
        stored = pa.schema([pa.field(name, pa.null(), metadata=_metadata(number)) for name, number in fields])
        schema = identify(stored, names)
        ids = top_level(wanted)
        columns = tuple(schema.field(index).name for number, index in top_level(schema).items() if number in ids)
        blocks = decode_blocks(memoryview(data), header, location=location)
        row_count = sum(block.records for block in blocks)
        part = Part(0, 0, row_count, 0, len(data) * _MEMORY_PER_BYTE)
        return _AvroFile(location, data, None if schema is stored else names, columns, (part,))


def _metadata(number: int | None) -> dict[bytes, bytes] | None:
    return None if number is None else {FIELD_ID_KEY: str(number).encode()}


@dataclass(frozen=True)
class _AvroFile:
    """A file in memory.

    Args:
        location: The file.
        data: Its bytes.
        names: Field ids by name, if the file itself has none.
        columns: The wanted columns of the top record.
        parts: A single part, the whole file.
    """

    location: str
    data: bytes
    names: NameMapping | None
    columns: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def row_count(self) -> int:
        return self.parts[0].row_count

    def metrics(self, column: Column) -> FieldMetrics | None:
        return None

    def batches(self, part: Part, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not self.columns:
            yield from without_columns(part.row_count, batch_rows)
            return
        with reading(self.location, "avro"):
            for decoded in read_batches(self.data, self.columns, location=self.location):
                batch = decoded
                if self.names is not None:
                    batch = pa.RecordBatch.from_arrays(batch.columns, schema=with_ids(batch.schema, self.names))
                for start in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(start, batch_rows)
