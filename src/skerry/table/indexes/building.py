"""Building the index of a data file: a shard over its indexed columns, and the shards of the indexes.

The column chunks of the Parquet file are the shard's data; nothing is copied.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from skerry import amudai
from skerry.storage import Storage, join, name, parent
from skerry.table.files.data_file import DataFile
from skerry.table.files.evolution import NameMapping, identify, top_level
from skerry.table.indexes.collecting import collected_keys
from skerry.table.indexes.definitions import IndexKind
from skerry.table.indexes.registry import FOLDER, IndexedColumn, IndexedFile

__all__ = ["IndexTask", "WantedIndex", "build_index", "new_index_name"]


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
    """A Parquet file to index; small and picklable.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        data_file: The file.
        wanted: The indexes.
        names: Field ids by name, for files without ids; None refuses such files.
    """

    storage: Storage
    table: str
    data_file: DataFile
    wanted: tuple[WantedIndex, ...]
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
    location = task.data_file.location
    with task.storage.arrow_file(location) as source:
        schema = identify(pq.read_schema(source), task.names)
    places = top_level(schema)
    present = [(each, schema.field(places[each.field_id]).name) for each in task.wanted if each.field_id in places]
    if not present:
        return None
    written = amudai.write_over_parquet(
        [location],
        join(task.table, FOLDER, new_index_name(".amudai.shard")),
        columns=list(dict.fromkeys(column for _, column in present)),
        indexes=_indexes(present, location),
        statistics=False,
        allowed_locations=[parent(location)],
        storage=task.storage,
    )
    sizes = written.size_bytes + sum(task.storage.size(file) for file in written.index_files)
    return IndexedFile(
        IndexedFile.relative(location, task.table),
        task.data_file.file_size_bytes,
        name(written.location),
        tuple(name(file) for file in written.index_files),
        sizes,
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
