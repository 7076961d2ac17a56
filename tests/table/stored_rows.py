"""Data files and delete files for tests of reading, and a reader of the plainest kind."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from skerry.iceberg.writing.file_writers import FileEncoding, FileWriter
from skerry.puffin import PuffinWriter
from skerry.puffin.deletion_vector import BLOB_TYPE, encode_deletion_vector
from skerry.storage import Storage
from skerry.table.files.data_file import DataFile, DeleteFile, DeleteKind
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.rows.metadata_columns import with_metadata_columns

FORMATS = ("parquet", "orc", "avro")


def field(name, type_, field_id, *, nullable=True):
    return pa.field(name, type_, nullable=nullable, metadata={b"PARQUET:field_id": str(field_id).encode()})


POSITIONS = pa.schema(
    [field("file_path", pa.string(), 2147483546, nullable=False), field("pos", pa.int64(), 2147483545, nullable=False)]
)


def write_rows(path, table, file_format="parquet", *, group_rows=None):
    """Write a file with field ids, in row groups of so many rows where the format has them."""
    if file_format == "orc" and group_rows is not None:
        attributes = [f.with_metadata({b"iceberg.id": f.metadata[b"PARQUET:field_id"]}) for f in table.schema]
        with orc.ORCWriter(str(path), stripe_size=1024, batch_size=64) as writer:
            for start in range(0, table.num_rows, group_rows):
                writer.write(table.slice(start, group_rows).cast(pa.schema(attributes)))
        return
    if file_format == "parquet" and not table.num_rows:
        pq.write_table(table, path)
        return
    writer = FileWriter(
        FileEncoding(file_format, {"orc": "zlib", "avro": "deflate"}.get(file_format, "zstd")),
        Storage(),
        str(path),
        table.schema,
    )
    for start in range(0, table.num_rows, group_rows or max(table.num_rows, 1)):
        writer.write(table.slice(start, group_rows))
    writer.close({})


def data_task(path, table, file_format="parquet", *, group_rows=None, **fields):
    write_rows(path, table, file_format, group_rows=group_rows)
    return FileScanTask(
        DataFile(str(path), file_format, table.num_rows, Path(path).stat().st_size, spec_id=3),
        **{"matches_all": True, **fields},
    )


def position_deletes(path, pairs, file_format="parquet", *, group_rows=None, **fields):
    table = pa.table([[str(p) for p, _ in pairs], [n for _, n in pairs]], schema=POSITIONS)
    write_rows(path, table, file_format, group_rows=group_rows)
    size = Path(path).stat().st_size
    return DeleteFile(DeleteKind.POSITIONS, str(path), file_format, len(pairs), size, **fields)


def deletion_vector(path, data_file, positions):
    writer = PuffinWriter()
    writer.add_region(b"something else")
    blob = writer.add_blob(
        BLOB_TYPE,
        encode_deletion_vector(np.array(sorted(positions), np.int64)),
        fields=[2147483645],
        snapshot_id=-1,
        sequence_number=-1,
        compression_codec=None,
    )
    size, _ = writer.write(str(path), storage=Storage())
    return DeleteFile(
        DeleteKind.VECTOR,
        str(path),
        "puffin",
        len(positions),
        size,
        referenced_data_file=str(data_file),
        content_offset=blob.offset,
        content_size_bytes=blob.length,
    )


def key_deletes(path, table, ids, file_format="parquet", **fields):
    write_rows(path, table, file_format)
    size = Path(path).stat().st_size
    return DeleteFile(DeleteKind.KEYS, str(path), file_format, table.num_rows, size, equality_ids=tuple(ids), **fields)


def reader(schema, *, columns=None, predicate=None, read=None, **options):
    """A reader of some columns of a table (metadata columns included) that has all of them."""
    known = with_metadata_columns(schema)
    wanted = schema if columns is None else pa.schema([known.field(name) for name in columns])
    extra = {} if predicate is None else {"predicate": predicate}
    needed = wanted if read is None else pa.schema([known.field(name) for name in read])
    return RowReader(Storage(), wanted, needed, columns=schema, **extra, **options)


def rows_of(found, tasks, **options):
    return pa.Table.from_batches(found.batches(tasks, **options), schema=found.schema).to_pylist()


# The plain twin: dictionaries and loops ------------------------------------------------------------------------------


def key_value(value):
    """What equality deletes compare: null like any value, NaN like itself, -0.0 other than 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def plain_read(rows, *, positions=(), keys=()):
    """Rows with their positions, without those of deleted positions and of deleted keys.

    Args:
        rows: Dictionaries, in the order of the file.
        positions: Deleted ones.
        keys: Pairs of column names and deleted rows.
    """
    gone = set(positions)
    for names, deleted in keys:
        values = {tuple(key_value(row[name]) for name in names) for row in deleted}
        gone |= {n for n, row in enumerate(rows) if tuple(key_value(row[name]) for name in names) in values}
    return [(n, row) for n, row in enumerate(rows) if n not in gone]


def chunks(items, size):
    items = iter(items)
    while part := list(itertools.islice(items, size)):
        yield part
