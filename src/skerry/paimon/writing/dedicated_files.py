"""Files of BLOB and VECTOR columns, written beside the file that has the other columns of the same rows.

Spec: docs/formats/paimon.md § 8.10, § 8.11.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from skerry.paimon.blob_streams import open_blob
from skerry.paimon.manifests.manifest import DataFileMeta, FileSource
from skerry.paimon.values.arrow_types import arrow_field
from skerry.paimon.values.blob_layout import (
    BLOB_MAGIC,
    NULL_LENGTH,
    OVERHEAD_BYTES,
    encode_index,
    encode_record_tail,
    is_descriptor,
)
from skerry.paimon.writing.file_writers import open_output
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import Sink, join
from skerry.table.owned_files import give_up

__all__ = ["BlobFiles", "VectorFiles"]

_COPIED_BYTES: Final = 1 << 20


class BlobFiles:
    """Writes the values of a BLOB column to files of about the target size.

    Args:
        layout: Layout of the table's files.
        folder: Their folder.
        column: The column.
    """

    def __init__(self, layout: WriteLayout, folder: str, column: str) -> None:
        self._layout = layout
        self._folder = folder
        self._column = column
        self._sink: Sink | None = None
        self._location = ""
        self._lengths: list[int] = []
        self._written: list[DataFileMeta] = []

    def write(self, rows: pa.Table) -> None:
        """Add values: bytes, or descriptors, whose bytes are copied without being held.

        Raises:
            FormatError: A descriptor reaches beyond the end of its file.
            NotFoundError: The file of a descriptor does not exist.
            SkerryError: It is where the table must not read.
        """
        for chunk in rows.column(self._column).chunks:
            for value in chunk:
                if self._sink is None:
                    self._sink = self._begin()
                buffer = value.as_buffer()
                self._lengths.append(NULL_LENGTH if buffer is None else self._put(self._sink, memoryview(buffer)))
                if self._sink.tell() >= self._layout.blob_target_file_size:
                    self._end()

    def close(self) -> list[DataFileMeta]:
        """Finish the last file, and describe all of them."""
        if self._sink is not None:
            self._end()
        return self._written

    def abort(self) -> None:
        """Remove everything that was written."""
        if self._sink is not None:
            self._sink.abort()
            self._sink = None
        give_up(self._layout.storage, (join(self._folder, file.file_name) for file in self._written))

    def _begin(self) -> Sink:
        name = f"{self._layout.options.data_file_prefix}{self._layout.new_name()}-0.blob"
        self._location = join(self._folder, name)
        return self._layout.storage.open_output(self._location)

    def _put(self, sink: Sink, value: memoryview) -> int:
        """Write the record of a value, and return its length."""
        sink.write(BLOB_MAGIC)
        crc, length = zlib.crc32(BLOB_MAGIC), 0
        for part in self._parts(value):
            sink.write(part)
            crc = zlib.crc32(part, crc)
            length += len(part)
        sink.write(encode_record_tail(length, crc))
        return length + OVERHEAD_BYTES

    def _parts(self, value: memoryview) -> Iterator[memoryview | bytes]:
        """The bytes of a value."""
        if not is_descriptor(value):
            yield value
            return
        stream = open_blob(self._layout, bytes(value))
        while part := stream.read(_COPIED_BYTES):
            yield part

    def _end(self) -> None:
        assert self._sink is not None
        sink, self._sink = self._sink, None
        try:
            sink.write(encode_index(np.array(self._lengths, np.int64)))
            size = sink.tell()
            sink.close()
        except BaseException:
            sink.abort()
            raise
        name = self._location.rpartition("/")[2]
        self._written.append(_meta(self._layout, name, size, len(self._lengths), (self._column,)))
        self._lengths = []


class VectorFiles:
    """Writes VECTOR columns to one file.

    Args:
        layout: Layout of the table's files.
        folder: Their folder.
        columns: The columns.
    """

    def __init__(self, layout: WriteLayout, folder: str, columns: tuple[str, ...]) -> None:
        self._layout = layout
        self._columns = columns
        encoding = layout.encoding(0)
        suffix = encoding.suffix(with_compression=False)
        self._name = f"{layout.options.data_file_prefix}{layout.new_name()}-0.vector{suffix}"
        schema = pa.schema([arrow_field(layout.schema.field(name)) for name in columns])
        self._output = open_output(encoding, layout.storage, join(folder, self._name), schema)
        self._row_count = 0

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        self._row_count += rows.num_rows
        self._output.write(rows.select(list(self._columns)))

    def close(self) -> list[DataFileMeta]:
        """Finish the file, and describe it."""
        size = self._output.close()
        return [_meta(self._layout, self._name, size, self._row_count, self._columns)]

    def abort(self) -> None:
        """Remove what was written."""
        self._output.abort()


def _meta(layout: WriteLayout, name: str, size: int, row_count: int, columns: tuple[str, ...]) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=row_count,
        schema_id=layout.schema.id,
        max_sequence_number=max(row_count - 1, 0),
        delete_row_count=0,
        file_source=FileSource.APPEND,
        value_stats_cols=(),
        write_cols=columns,
    )
