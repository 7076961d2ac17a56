"""Writing of row-level deletes: position deletes (version 2), deletion vectors (version 3), equality deletes.

Written files belong to no table until a commit adds them (`skerry.iceberg.operations.RowDelta`).

Spec: Iceberg spec, Row-level Deletes; Puffin spec, `deletion-vector-v1`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.encryption import encode_gcm_stream, encode_key_metadata, new_file_key
from skerry.errors import SchemaError
from skerry.iceberg.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from skerry.iceberg.manifests.references import FILE_PATH_ID
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.partitioning.partitions import split_by_partition
from skerry.iceberg.writing.file_writers import FileEncoding, FileWriter
from skerry.iceberg.writing.layout import FileLayout
from skerry.iceberg.writing.metrics import MetricsKind, MetricsMode
from skerry.iceberg.writing.row_metrics import RowMetrics
from skerry.puffin import PuffinWriter
from skerry.puffin.deletion_vector import BLOB_TYPE, CARDINALITY, REFERENCED_DATA_FILE, encode_deletion_vector
from skerry.storage import Storage, join
from skerry.table.files.data_file import DataFile
from skerry.table.files.row_deletes import distinct_positions
from skerry.table.owned_files import give_up
from skerry.table.rows.metadata_columns import POSITION
from skerry.table.rows.schema import FIELD_ID_KEY, field_id, leaves

__all__ = [
    "POSITION_DELETES",
    "FileDeletes",
    "describe_position_file",
    "write_deletion_vectors",
    "write_equality_deletes",
    "write_position_deletes",
    "write_position_file",
]

POS_ID = 2147483545

POSITION_DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID_KEY: str(FILE_PATH_ID).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID_KEY: str(POS_ID).encode()}),
    ]
)
"""The columns of a position delete file.

Spec: Iceberg spec, Position Delete Files, Reserved Field IDs."""

FileDeletes = tuple[DataFile, npt.NDArray[np.int64]]
"""A data file from planning, and int64[n] the positions of rows in it."""

_ROW_GROUP_ROWS = 1 << 18
_FULL = MetricsMode(MetricsKind.FULL)
# a vector is written before its snapshot has an id and a sequence number: the blob marks them as inherited
_INHERITED = -1


def write_position_deletes(layout: FileLayout, deletes: Iterable[FileDeletes]) -> list[ManifestEntry]:
    """Write position delete files, for tables of version 2.

    Args:
        layout: The table's layout; `deletes_by_partition` decides whether data files of a partition share one.
        deletes: Each data file once; positions in any order, duplicates count once.

    Returns:
        An entry for each file written, for `RowDelta.added_deletes`. An entry for one data file names it; for several,
        `RowDelta.referenced_files` must.

    Raises:
        SchemaError: A position is not in its file.

    Spec: Iceberg spec, Position Delete Files: rows are sorted by file_path, then pos.
    """
    groups: dict[tuple[Any, ...], list[FileDeletes]] = {}
    for file, positions in deletes:
        checked = _checked(file, positions)
        if len(checked):
            by_file = () if layout.deletes_by_partition else (file.location,)
            groups.setdefault((file.spec_id, *map(repr, file.partition), *by_file), []).append((file, checked))
    written: list[ManifestEntry] = []
    try:
        for group in groups.values():
            written.append(_write_positions(layout, sorted(group, key=lambda item: item[0].location.encode())))
    except BaseException:
        _remove(layout, written)
        raise
    return written


def _write_positions(layout: FileLayout, group: Sequence[FileDeletes]) -> ManifestEntry:
    first = group[0][0]
    data_file = write_position_file(
        layout.deletes,
        layout.storage,
        _new_location(layout, layout.deletes.file_format),
        [(file.location, positions) for file, positions in group],
        spec_id=first.spec_id,
        partition=first.partition,
    )
    return ManifestEntry(
        EntryStatus.ADDED,
        data_file,
        content=FileContent.POSITION_DELETES,
        referenced_data_file=first.location if len(group) == 1 else None,
    )


def write_position_file(
    encoding: FileEncoding,
    storage: Storage,
    location: str,
    deletes: Sequence[tuple[str, npt.NDArray[np.int64]]],
    *,
    spec_id: int = 0,
    partition: tuple[Any, ...] = (),
) -> DataFile:
    """Write one position delete file.

    Args:
        encoding: Its format.
        storage: Access to the location.
        location: Its location, which must not exist.
        deletes: Data files, ascending, each with its positions, ascending.
        spec_id: The partition spec.
        partition: The partition.

    Spec: Iceberg spec, Position Delete Files: rows are sorted by file_path, then pos.
    """
    writer = FileWriter(replace(encoding, ascending=("pos",)), storage, location, POSITION_DELETES)
    try:
        for rows in _position_tables(deletes):
            writer.write(rows)
        return writer.close({FILE_PATH_ID: _FULL, POS_ID: _FULL}, spec_id=spec_id, partition=partition)
    except BaseException:
        writer.abort()
        raise


def describe_position_file(
    file_format: str, location: str, size_bytes: int, deletes: Sequence[tuple[str, npt.NDArray[np.int64]]]
) -> DataFile:
    """The entry of a position delete file that is written already.

    Args:
        file_format: Its format.
        location: Its location.
        size_bytes: Its size.
        deletes: Its content, as `write_position_file` takes it.
    """
    metrics = RowMetrics(POSITION_DELETES)
    for rows in _position_tables(deletes):
        metrics.update(rows)
    modes = {FILE_PATH_ID: _FULL, POS_ID: _FULL}
    return metrics.data_file(location, file_format, size_bytes, modes, spec_id=0, partition=(), sort_order_id=None)


def _position_tables(deletes: Sequence[tuple[str, npt.NDArray[np.int64]]]) -> Iterator[pa.Table]:
    """The rows of a position delete file by row group: paths are long, and repeated for every row."""
    paths = pa.array([location for location, _ in deletes], pa.string())
    of_file = np.repeat(np.arange(len(deletes), dtype=np.int32), [len(positions) for _, positions in deletes])
    rows = np.concatenate([positions for _, positions in deletes])
    for start in range(0, len(rows), _ROW_GROUP_ROWS):
        stop = start + _ROW_GROUP_ROWS
        path = pa.DictionaryArray.from_arrays(of_file[start:stop], paths).dictionary_decode()
        yield pa.table([path, pa.array(rows[start:stop])], schema=POSITION_DELETES)


def write_deletion_vectors(layout: FileLayout, deletes: Iterable[FileDeletes]) -> list[ManifestEntry]:
    """Write deletion vectors, for tables of version 3: all of them in one Puffin file.

    Args:
        layout: The table's layout.
        deletes: Each data file once, with all its deleted positions: a data file has one vector, which replaces the
            previous one and position delete files.

    Returns:
        An entry for each data file that has deleted rows, for `RowDelta.added_deletes`.

    Raises:
        SchemaError: A position is not in its file, or a data file is named twice.

    Spec: Iceberg spec, Deletion Vectors; Puffin spec, `deletion-vector-v1`.
    """
    location = _new_location(layout, "puffin")
    writer = PuffinWriter()
    vectors = []
    seen: set[str] = set()
    for file, positions in deletes:
        checked = _checked(file, positions)
        if file.location in seen:
            raise SchemaError("a data file can have only one deletion vector, found two", location=file.location)
        seen.add(file.location)
        if not len(checked):
            continue
        blob = writer.add_blob(
            BLOB_TYPE,
            encode_deletion_vector(checked),
            fields=[POSITION],
            snapshot_id=_INHERITED,
            sequence_number=_INHERITED,
            compression_codec=None,
            properties={REFERENCED_DATA_FILE: file.location, CARDINALITY: str(len(checked))},
        )
        vectors.append((file, len(checked), blob))
    if not vectors:
        return []
    size, key_metadata = _write_puffin(layout, writer, location)
    return [
        ManifestEntry(
            EntryStatus.ADDED,
            DataFile(
                location,
                "puffin",
                count,
                size,
                spec_id=file.spec_id,
                partition=file.partition,
                key_metadata=key_metadata,
            ),
            content=FileContent.POSITION_DELETES,
            referenced_data_file=file.location,
            content_offset=blob.offset,
            content_size_bytes=blob.length,
        )
        for file, count, blob in vectors
    ]


def _write_puffin(layout: FileLayout, writer: PuffinWriter, location: str) -> tuple[int, bytes | None]:
    """Write a Puffin file, encrypted if the table is: its size, and the metadata of its key."""
    if layout.key_bytes is None:
        return writer.write(location, storage=layout.storage)[0], None
    key = new_file_key(layout.key_bytes)
    data = encode_gcm_stream(writer.finish()[0], key)
    layout.storage.write(location, data)
    return len(data), encode_key_metadata(replace(key, file_length=len(data)))


def write_equality_deletes(
    layout: FileLayout,
    batches: Iterable[pa.RecordBatch],
    field_ids: Sequence[int],
    *,
    spec: PartitionSpec | None = None,
) -> list[ManifestEntry]:
    """Write equality deletes, which delete all rows with their keys in older data files.

    Args:
        layout: The table's layout.
        batches: The keys, in columns of the table's names and types; for a partitioned spec with the source columns of
            partitions, which need not be part of the key.
        field_ids: The columns that are compared.
        spec: The partition spec; the table's if None. Keys of an unpartitioned spec apply to all partitions.

    Returns:
        An entry for each file written, one per partition.

    Raises:
        SchemaError: A column is missing, or not of a primitive type.

    Spec: Iceberg spec, Equality Delete Files.
    """
    chosen = spec or layout.spec
    schema = _key_schema(layout.schema, field_ids)
    parts: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[pa.RecordBatch]]] = {}
    for batch in batches:
        missing = [name for name in schema.names if name not in batch.schema.names]
        if missing:
            raise SchemaError(f"the keys lack column {missing[0]!r}", location=layout.table)
        if chosen.is_unpartitioned():
            shares = [((), batch)]
        else:
            shares = split_by_partition(layout.iceberg_schema, chosen, batch)
        for partition, rows in shares:
            if rows.num_rows:
                parts.setdefault(tuple(map(repr, partition)), (partition, []))[1].append(rows.select(schema.names))
    written: list[ManifestEntry] = []
    try:
        for partition, rows in parts.values():
            written.append(_write_keys(layout, schema, rows, field_ids, chosen.spec_id, partition))
    except BaseException:
        _remove(layout, written)
        raise
    return written


def _write_keys(
    layout: FileLayout,
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch],
    field_ids: Sequence[int],
    spec_id: int,
    partition: tuple[Any, ...],
) -> ManifestEntry:
    location = _new_location(layout, layout.deletes.file_format)
    writer = FileWriter(layout.deletes, layout.storage, location, schema)
    try:
        writer.write(pa.Table.from_batches(batches).cast(schema))
        modes = {leaf.field_id: _FULL for leaf in leaves(schema)}
        data_file = writer.close(modes, spec_id=spec_id, partition=partition)
    except BaseException:
        writer.abort()
        raise
    return ManifestEntry(
        EntryStatus.ADDED, data_file, content=FileContent.EQUALITY_DELETES, equality_ids=tuple(field_ids)
    )


def _key_schema(schema: pa.Schema, field_ids: Sequence[int]) -> pa.Schema:
    """The top-level columns that are compared, in the table's order."""
    if not field_ids:
        raise SchemaError("equality deletes compare at least one column")
    fields = [field for field in schema if field_id(field) in set(field_ids)]
    if len(fields) != len(set(field_ids)) or any(pa.types.is_nested(field.type) for field in fields):
        raise SchemaError(f"equality deletes compare top-level primitive columns, found field ids {list(field_ids)}")
    return pa.schema(fields)


def _checked(file: DataFile, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """int64[n] The positions, ascending and distinct."""
    distinct = distinct_positions(np.asarray(positions, np.int64))
    if len(distinct) and not 0 <= distinct[0] <= distinct[-1] < file.record_count:
        wrong = distinct[0] if distinct[0] < 0 else distinct[-1]
        raise SchemaError(f"row {wrong} cannot be deleted from {file.record_count} rows", location=file.location)
    return distinct


def _new_location(layout: FileLayout, extension: str) -> str:
    return join(layout.folder, f"{uuid.uuid4()}-deletes.{extension}")


def _remove(layout: FileLayout, written: Iterable[ManifestEntry]) -> None:
    give_up(layout.storage, (entry.data_file.location for entry in written))
