"""Building the index of a data file: a shard over its indexed columns, and the shards of the indexes.

The column chunks of a Parquet file are the shard's data; nothing is copied. For files of other formats, and for fields
of structs, the shard has no values.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from skerry import amudai
from skerry.amudai.writing.row_indexes import write_row_indexes
from skerry.amudai.writing.shard_writer import WrittenShard
from skerry.storage import Storage, join, name, parent
from skerry.table.files.data_file import DataFile
from skerry.table.files.evolution import NameMapping, identify, names_of, plan_conversion, prune, top_level
from skerry.table.files.stored_file import StoredFile, check_row_count
from skerry.table.files.stored_files import open_stored
from skerry.table.indexes.collecting import collected_keys
from skerry.table.indexes.definitions import IndexKind
from skerry.table.indexes.registry import FOLDER, IndexedColumn, IndexedFile

__all__ = ["INDEXED_FORMATS", "IndexTask", "WantedIndex", "build_index", "new_index_name"]

_PARQUET: Final = "parquet"
INDEXED_FORMATS: Final = (_PARQUET, "orc", "avro", "amudai")
"""The formats of data files that can be indexed."""
_BATCH_ROWS: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index that a data file is to have.

    Args:
        field_id: The column.
        kind: What it finds.
        tokenizer: What a word is; empty where there are no words.
    """

    field_id: int
    kind: IndexKind
    tokenizer: str = ""


@dataclass(frozen=True, slots=True)
class IndexTask:
    """A data file to index; small and picklable.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        data_file: The file.
        wanted: The indexes.
        columns: The table's columns that have these indexes.
        names: Field ids by name, for files without ids; None refuses such files.
    """

    storage: Storage
    table: str
    data_file: DataFile
    wanted: tuple[WantedIndex, ...]
    columns: pa.Schema
    names: NameMapping | None = None


def new_index_name(suffix: str) -> str:
    """A name in `FOLDER` that no other file has."""
    return f"{uuid.uuid4()}{suffix}"


def build_index(task: IndexTask) -> IndexedFile | None:
    """Index a file.

    Returns:
        What the registry says of it; None if it has none of the columns.

    Raises:
        FormatError: The file is damaged.
        NotFoundError: It does not exist.
        UnsupportedError: It uses features that are not supported.
    """
    is_flat = top_level(task.columns).keys() >= {each.field_id for each in task.wanted}
    return _index_chunks(task) if is_flat and task.data_file.file_format == _PARQUET else _index_values(task)


def _index_chunks(task: IndexTask) -> IndexedFile | None:
    """Index a Parquet file whose column chunks are the values of the shard."""
    location = task.data_file.location
    with task.storage.arrow_file(location) as source:
        schema = identify(pq.read_schema(source), task.names)
    present = _present(task, {number: schema.field(place).name for number, place in top_level(schema).items()})
    if not present:
        return None
    written = amudai.write_over_parquet(
        [location],
        _new_root(task),
        columns=list(dict.fromkeys(column for _, column in present)),
        indexes=_indexes(present, location),
        statistics=False,
        allowed_locations=[parent(location)],
        storage=task.storage,
    )
    return _described(task, written, present)


def _index_values(task: IndexTask) -> IndexedFile | None:
    """Index the values of a file, which the shard does not have."""
    file = task.data_file
    stored = open_stored(task.storage, file.location, file.file_format, task.columns, task.names)
    check_row_count(stored.row_count, file.record_count, file.location)
    parts = _tables(stored, {each.field_id for each in task.wanted})
    first = next(parts, None)
    if first is None:
        return None
    paths = {number: ".".join(path) for path, number in names_of(first.schema).items() if number is not None}
    present = _present(task, paths)
    if not present or len(set(paths.values())) < len(paths):  # names with dots may make paths alike
        return None
    written = write_row_indexes(
        chain([first], parts), first.schema, _new_root(task), _indexes(present, file.location), storage=task.storage
    )
    return _described(task, written, present)


def _tables(stored: StoredFile, ids: Collection[int]) -> Iterator[pa.Table]:
    """The rows of a file, part by part, with some columns, and fields of structs."""
    convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    schema = pa.schema([])
    for part in stored.parts:
        batches = []
        for batch in stored.batches(part, _BATCH_ROWS):
            if convert is None:
                schema = prune(batch.schema, ids)
                convert = plan_conversion(batch.schema, schema)
            batches.append(convert(batch))
        if convert is not None:
            yield pa.Table.from_batches(batches, schema)


def _present(task: IndexTask, names: Mapping[int, str]) -> list[tuple[WantedIndex, str]]:
    """The wanted indexes of columns that a file has, with their names in it."""
    return [(each, names[each.field_id]) for each in task.wanted if each.field_id in names]


def _new_root(task: IndexTask) -> str:
    return join(task.table, FOLDER, new_index_name(".amudai.shard"))


def _described(task: IndexTask, written: WrittenShard, present: Sequence[tuple[WantedIndex, str]]) -> IndexedFile:
    return IndexedFile(
        IndexedFile.relative(task.data_file.location, task.table),
        task.data_file.file_size_bytes,
        name(written.location),
        tuple(name(file) for file in written.index_files),
        written.size_bytes + sum(task.storage.size(file) for file in written.index_files),
        tuple(IndexedColumn(each.field_id, column, each.kind, each.tokenizer) for each, column in present),
    )


def _indexes(present: Sequence[tuple[WantedIndex, str]], location: str) -> list[amudai.HashIndex | amudai.TextIndex]:
    hashed = [column for each, column in present if each.kind is IndexKind.HASH]
    texts = {column: each.tokenizer for each, column in present if each.kind is IndexKind.TEXT}
    found: list[amudai.HashIndex | amudai.TextIndex] = []
    if hashed:
        found.append(amudai.HashIndex(hashed, keys=collected_keys(location)))
    if texts:
        found.append(amudai.TextIndex(texts))
    return found
