"""Deleted rows of data files: position delete files, deletion vectors and equality delete files, each read once.

A position delete file may cover many data files. Each of its row groups is read when the first data file that its
statistics allow is read, once for all of them, and kept split by data file as far as memory allows.

Spec: Iceberg spec, Row-level Deletes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.encryption import decode_key_metadata, read_gcm_range
from skerry.errors import FormatError, SchemaError
from skerry.puffin.deletion_vector import decode_deletion_vector
from skerry.storage import Storage, is_relative
from skerry.table.files.data_file import DeleteFile, DeleteKind
from skerry.table.files.evolution import NameMapping, column_positions, plan_conversion, prune, top_level
from skerry.table.files.row_deletes_keys import KeyDeletes
from skerry.table.files.scan_task import FileScanTask
from skerry.table.files.stored_file import Part, StoredFile, reading
from skerry.table.files.stored_files import open_stored
from skerry.table.predicate import Column
from skerry.table.rows.schema import FIELD_ID_KEY
from skerry.table.work.read_ahead import SharedCache

__all__ = ["RowDeletes", "deleted_positions", "distinct_positions", "read_positions", "read_vector"]

_Positions: TypeAlias = npt.NDArray[np.int64]

_FILE_PATH: Final = 2147483546
_POS: Final = 2147483545
_PATHS: Final = pa.dictionary(pa.int32(), pa.string())  # a path is repeated in many rows
_POSITION_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", _PATHS, nullable=False, metadata={FIELD_ID_KEY: str(_FILE_PATH).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID_KEY: str(_POS).encode()}),
    ]
)
_POSITION_NAMES: Final[NameMapping] = {("file_path",): _FILE_PATH, ("pos",): _POS}
_RULE: Final = "Iceberg spec, Position Delete Files"
_KEY_RULE: Final = "Iceberg spec, Equality Delete Files"
_BATCH_ROWS: Final = 1 << 17
_CACHE_BYTES: Final = 256 << 20
_MAX_OPEN_FILES: Final = 64
_NONE: Final = np.zeros(0, np.int64)


def deleted_positions(storage: Storage, task: FileScanTask) -> _Positions:
    """The rows of a task's data file that position delete files and deletion vectors delete.

    Args:
        storage: Access to the delete files.
        task: The task; even for a part of a file, all positions of the file are returned.

    Returns:
        int64[n] Positions in the file, ascending and distinct.

    Raises:
        FormatError: A delete file is corrupt, or deletes rows that the data file does not have.
        NotFoundError: One is missing.
    """
    return RowDeletes(storage).positions(task)


def read_positions(storage: Storage, delete: DeleteFile) -> dict[str, _Positions]:
    """All rows that a file of positions deletes, by data file.

    Raises:
        FormatError: The file is corrupt, or not a position delete file.
        NotFoundError: It is missing.
    """
    file = _open_positions(storage, delete)
    found: dict[str, list[_Positions]] = {}
    for part in file.file.parts:
        for path, positions in file.read(part).items():
            found.setdefault(path, []).append(positions)
    return {path: distinct_positions(*parts) for path, parts in found.items()}


def read_vector(storage: Storage, delete: DeleteFile) -> _Positions:
    """All rows that a deletion vector deletes.

    Raises:
        FormatError: The vector is corrupt, or not where it should be.
        NotFoundError: Its file is missing.
    """
    offset, size = delete.content_offset, delete.content_size_bytes
    if offset is None or size is None or offset < 0 or not 0 <= size <= delete.file_size_bytes - offset:
        raise FormatError(
            f"a deletion vector of {size} bytes at {offset} in a file of {delete.file_size_bytes}",
            location=delete.location,
            rule="Iceberg spec, Deletion Vectors",
        )
    if delete.key_metadata is None:
        blob = storage.read_range(delete.location, offset, size)
    else:
        key = decode_key_metadata(delete.key_metadata, location=delete.location)
        blob = read_gcm_range(storage, delete.location, key, offset, size)
    return decode_deletion_vector(blob, cardinality=delete.record_count, location=delete.location, offset=offset)


def distinct_positions(*parts: _Positions) -> _Positions:
    """int64[n] Distinct positions in ascending order; a view if one part already has that form.

    Ascending parts are merged, which takes a fraction of the time of `np.unique`.
    """
    positions = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if len(positions) > 1 and not (positions[1:] > positions[:-1]).all():
        positions = np.sort(positions, kind="stable")
        is_new = np.ones(len(positions), bool)
        np.not_equal(positions[1:], positions[:-1], out=is_new[1:])
        positions = positions[is_new]
    return positions


class RowDeletes:
    """The deletes of a scan's tasks; may be used by many threads.

    Args:
        storage: Access to the delete files.
        columns: Every column that equality deletes may compare, with field ids.
        names: Field ids by name, for equality delete files without ids.
        cache_bytes: How much of the decoded deletes may be kept.
    """

    def __init__(
        self,
        storage: Storage,
        columns: pa.Schema | None = None,
        names: NameMapping | None = None,
        *,
        cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        self._storage = storage
        self._columns = columns if columns is not None else pa.schema([])
        self._names = names
        self._cache = SharedCache(cache_bytes)
        self._open_weight = cache_bytes // _MAX_OPEN_FILES

    # ---- positions ----

    def positions(self, task: FileScanTask) -> _Positions:
        """Positions of a task's rows that delete files and vectors name; see `deleted_positions`."""
        found: list[_Positions] = []
        for delete in task.deletes:
            if delete.kind is DeleteKind.POSITIONS:
                found += self._of_file(delete, task.data_file.location)
            elif delete.kind is DeleteKind.VECTOR:
                found.append(self._of_vector(delete, task.data_file.location))
        if not found:
            return _NONE
        positions = found[0] if len(found) == 1 else np.concatenate(found)
        positions = distinct_positions(positions)
        _check_range(positions, task)
        return positions

    def _of_vector(self, delete: DeleteFile, data_file: str) -> _Positions:
        if delete.referenced_data_file != data_file:
            raise FormatError(
                f"the deletion vector belongs to {delete.referenced_data_file}, not to {data_file}",
                location=delete.location,
                offset=delete.content_offset,
                rule="Iceberg spec, Deletion Vectors",
            )
        key = (delete.location, delete.content_offset)
        return self._cache.get(key, lambda: read_vector(self._storage, delete), lambda positions: positions.nbytes)

    def _of_file(self, delete: DeleteFile, data_file: str) -> Iterator[_Positions]:
        if delete.referenced_data_file not in (None, data_file):
            raise FormatError(
                f"the delete file belongs to {delete.referenced_data_file}, not to {data_file}",
                location=delete.location,
                rule=_RULE,
            )
        key: tuple[Any, ...] = (delete.location,)
        opened = self._cache.get(key, lambda: _open_positions(self._storage, delete), lambda _: self._open_weight)
        may_be_relative = self._storage.base is not None
        for part in opened.file.parts if may_be_relative else opened.parts_of(data_file):
            by_file = self._cache.get((*key, part.index), partial(opened.read, part), _size_of)
            if may_be_relative and any(map(is_relative, by_file)):
                raise FormatError("relative locations of data files", location=delete.location, rule=_RULE)
            if data_file in by_file:
                yield by_file[data_file]

    # ---- keys ----

    def keys(self, task: FileScanTask) -> list[KeyDeletes]:
        """Indexes of the equality deletes that apply to a task's data file, one for each set of columns.

        Raises:
            FormatError: A delete file is corrupt.
            NotFoundError: One is missing.
            SchemaError: One compares columns that the table never had, or that it lacks itself.
        """
        by_columns: dict[frozenset[int], list[DeleteFile]] = {}
        for delete in task.deletes:
            if delete.kind is DeleteKind.KEYS:
                by_columns.setdefault(frozenset(delete.equality_ids), []).append(delete)
        return [self._keys_of(ids, deletes) for ids, deletes in by_columns.items()]

    def _keys_of(self, ids: frozenset[int], deletes: list[DeleteFile]) -> KeyDeletes:
        locations = tuple(sorted(delete.location for delete in deletes))

        def index() -> KeyDeletes:
            schema = self._key_schema(ids, deletes[0].location)
            rows = [
                self._cache.get((ids, delete.location), partial(self._read_keys, delete, schema), _table_size)
                for delete in deletes
            ]
            return KeyDeletes.of(pa.concat_tables(rows))

        return self._cache.get((ids, locations), index, lambda keys: keys.nbytes)

    def _key_schema(self, ids: frozenset[int], location: str) -> pa.Schema:
        missing = ids - column_positions(self._columns).keys()
        if missing or not ids:
            raise SchemaError(
                f"equality deletes compare columns {sorted(ids)}, but the table never had {sorted(missing)}",
                location=location,
                rule=_KEY_RULE,
            )
        return prune(self._columns, ids)

    def _read_keys(self, delete: DeleteFile, schema: pa.Schema) -> pa.Table:
        file = _open(self._storage, delete, schema, self._names)
        batches = []
        with reading(delete.location, delete.file_format):
            for part in file.parts:
                for batch in file.batches(part, _BATCH_ROWS):
                    missing = column_positions(schema).keys() - column_positions(batch.schema).keys()
                    if missing:
                        raise SchemaError(f"the delete file lacks the columns {sorted(missing)} that it compares")
                    batches.append(plan_conversion(batch.schema, schema)(batch))
        return pa.Table.from_batches(batches, schema=schema)


def _open(storage: Storage, delete: DeleteFile, columns: pa.Schema, names: NameMapping | None) -> StoredFile:
    key_metadata = delete.key_metadata
    return open_stored(storage, delete.location, delete.file_format, columns, names, key_metadata=key_metadata)


def _table_size(rows: pa.Table) -> int:
    return int(rows.nbytes)


def _check_range(positions: _Positions, task: FileScanTask) -> None:
    rows = task.data_file.record_count
    for position in positions[[0, -1]].tolist() if len(positions) else ():
        if not 0 <= position < rows:
            raise FormatError(
                f"row {position} is deleted, the file has {rows} rows", location=task.data_file.location, rule=_RULE
            )


# Position delete files ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PositionFile:
    """A position delete file and, for each of its parts, bounds of the data files in it."""

    location: str
    file_format: str
    file: StoredFile
    lower: tuple[str | None, ...]
    upper: tuple[str | None, ...]

    def parts_of(self, data_file: str) -> Iterator[Part]:
        """The parts that may contain deletes of a data file."""
        for part, lower, upper in zip(self.file.parts, self.lower, self.upper, strict=True):
            if (lower is None or lower <= data_file) and (upper is None or data_file <= upper):
                yield part

    def read(self, part: Part) -> dict[str, _Positions]:
        """The positions in a part by data file, ascending if the file is ordered as the specification requires."""
        found: dict[str, list[_Positions]] = {}
        with reading(self.location, self.file_format):
            for batch in self.file.batches(part, _BATCH_ROWS):
                for path, positions in _group(batch, self.location):
                    found.setdefault(path, []).append(positions)
        return {path: parts[0] if len(parts) == 1 else np.concatenate(parts) for path, parts in found.items()}


def _open_positions(storage: Storage, delete: DeleteFile) -> _PositionFile:
    file = _open(storage, delete, _POSITION_SCHEMA, _POSITION_NAMES)
    metrics = file.metrics(Column(_FILE_PATH, ("file_path",), pa.string()))
    unknown = (None,) * len(file.parts)
    lower, upper = unknown, unknown
    if metrics is not None:
        lower, upper = tuple(metrics.lower.to_pylist()), tuple(metrics.upper.to_pylist())
    return _PositionFile(delete.location, delete.file_format, file, lower, upper)


def _group(batch: pa.RecordBatch, location: str) -> Iterator[tuple[str, _Positions]]:
    """Split the rows of a position delete file by data file."""
    columns = top_level(batch.schema)
    if not {_FILE_PATH, _POS} <= columns.keys():
        raise FormatError("a position delete file lacks file_path or pos", location=location, rule=_RULE)
    paths, rows = batch.column(columns[_FILE_PATH]), batch.column(columns[_POS])
    if not pa.types.is_integer(rows.type):
        raise FormatError(f"a position delete file has rows of type {rows.type}", location=location, rule=_RULE)
    path_type = paths.type.value_type if pa.types.is_dictionary(paths.type) else paths.type
    if not (pa.types.is_string(path_type) or pa.types.is_large_string(path_type)):
        raise FormatError(f"a position delete file has paths of type {path_type}", location=location, rule=_RULE)
    if paths.null_count:  # they name no file, and Iceberg Java ignores them
        named = paths.is_valid()
        paths, rows = paths.filter(named), rows.filter(named)
    if rows.null_count:
        raise FormatError("a position delete file has a null in pos", location=location, rule=_RULE)
    if not pa.types.is_dictionary(paths.type):
        paths = paths.dictionary_encode()
    positions = rows.cast(pa.int64()).to_numpy()
    names = paths.dictionary.to_pylist()
    codes = paths.indices.to_numpy()
    if len(codes) and not (codes.min() >= 0 and codes.max() < len(names)):
        raise FormatError("file_path has values that its dictionary lacks", location=location, rule=_RULE)
    ends = np.flatnonzero(np.diff(codes)) + 1
    if len(ends) >= len(names):  # not ordered by data file, as the specification requires
        order = np.argsort(codes, kind="stable")
        codes, positions = codes[order], positions[order]
        ends = np.flatnonzero(np.diff(codes)) + 1
    for start, group in zip([0, *ends.tolist()], np.split(positions, ends), strict=True):
        if len(group):
            yield names[codes[start]], group


def _size_of(by_file: dict[str, _Positions]) -> int:
    return sum(positions.nbytes + 2 * len(path) + 200 for path, positions in by_file.items())
