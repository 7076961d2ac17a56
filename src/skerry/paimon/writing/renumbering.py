"""Assigning other sequence numbers to the records of written files, because another writer was first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc

from skerry.avro import read_batches, read_columns
from skerry.errors import FormatError
from skerry.paimon.manifests.manifest import FileSource
from skerry.paimon.metadata.options import FileFormat
from skerry.paimon.metadata.schema import KEY_PREFIX, SEQUENCE_NUMBER
from skerry.paimon.writing.data_files import BucketFiles, WrittenDataFile
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import Storage

__all__ = ["read_own_file", "renumbered"]


def renumbered(layout: WriteLayout, file: WrittenDataFile, shift: int) -> Sequence[WrittenDataFile]:
    """Rewrite a file of a primary-key table with sequence numbers greater by `shift`.

    The samples of its rows are kept.
    """
    rows = read_own_file(layout, file)
    position = rows.schema.get_field_index(SEQUENCE_NUMBER)
    numbers = pc.add(rows.column(position), pa.scalar(shift, pa.int64()))
    rows = rows.set_column(position, rows.schema.field(position), numbers)
    files = BucketFiles(layout, file.bucket, source=FileSource.APPEND, is_changelog=file.is_changelog, sketches=False)
    try:
        files.write(rows)
        written = files.close()
    except BaseException:
        files.abort()
        raise
    return [replace(found, samples=file.samples if len(written) == 1 else {}) for found in written]


def read_own_file(layout: WriteLayout, file: WrittenDataFile) -> pa.Table:
    """The records of a file written with this layout, keys included."""
    encoding = layout.encoding(file.file.level, is_changelog=file.is_changelog)
    stored = layout.file_schema
    try:
        rows = _READ[encoding.file_format](layout.storage, file.location).select(stored.names).cast(stored)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"the file cannot be read back: {error}", location=file.location) from error
    if layout.options.thin_mode:
        schema = layout.schema.file_schema()
        names = [name if name in stored.names else name.removeprefix(KEY_PREFIX) for name in schema.names]
        rows = pa.table([rows.column(name) for name in names], schema)
    return rows


def _read_parquet(storage: Storage, location: str) -> pa.Table:
    with storage.arrow_file(location) as source:
        return pq.ParquetFile(source).read()


def _read_orc(storage: Storage, location: str) -> pa.Table:
    with storage.arrow_file(location) as source:
        return orc.ORCFile(source).read()


def _read_avro(storage: Storage, location: str) -> pa.Table:
    data = storage.read(location)
    batches = list(read_batches(data, location=location))
    return pa.Table.from_batches(batches or [read_columns(data, location=location)])


def _read_amudai(storage: Storage, location: str) -> pa.Table:
    from skerry.amudai import read_table  # loads protobuf and other modules that few tables need

    return read_table(location, storage=storage)


_READ: Final[dict[FileFormat, Callable[[Storage, str], pa.Table]]] = {
    FileFormat.PARQUET: _read_parquet,
    FileFormat.ORC: _read_orc,
    FileFormat.AVRO: _read_avro,
    FileFormat.AMUDAI: _read_amudai,
}
