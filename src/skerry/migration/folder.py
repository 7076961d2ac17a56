"""Turn a folder of Parquet files into a table, in place: which files, which columns, which partitions.

Nothing is rewritten and nothing is moved. Partition columns that only the folders name, as Hive and Spark write them
(`day=2024-01-01/`), become columns of the table whose values are those of the folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from urllib.parse import unquote

import pyarrow as pa

from skerry.errors import NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.jobs.add_files import file_schema
from skerry.parquet import read_metadata
from skerry.storage import FileStatus, Storage
from skerry.table.files.evolution import has_ids
from skerry.table.reachability import table_marker
from skerry.table.rows.schema import FIELD_ID_KEY
from skerry.table.rows.values import physical_value
from skerry.table.work.tasks import Executor, FileTask, JobProgress, ProgressCallback, ThreadExecutor

__all__ = ["Migration", "MigrationFile", "plan_migration", "read_schema"]

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ENDINGS = (".parquet", ".parq", ".pq")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class MigrationFile:
    """A file that becomes part of the table.

    Args:
        location: The file.
        size_bytes: Its size.
        partition: The values named by its folders, as text, by column; None for null.
    """

    location: str
    size_bytes: int
    partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Migration:
    """The table that a folder becomes.

    Args:
        files: Its files.
        schema: The columns of all files, and those named by folders.
        partition_by: The columns named by folders, outermost first.
        from_folders: Those of them that no file has.
    """

    files: tuple[MigrationFile, ...]
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    from_folders: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The total size of the files."""
        return sum(file.size_bytes for file in self.files)

    def constants(self, schema: pa.Schema, ids: Mapping[str, int]) -> dict[str, dict[int, object]]:
        """By location and field id, the physical values of columns that are named by folders and in no file.

        Args:
            schema: The table's schema.
            ids: Field ids of its top-level columns.
        """
        return {
            file.location: {
                ids[name]: _value(schema.field(name).type, file.partition[name]) for name in self.from_folders
            }
            for file in self.files
        }


def read_schema(task: FileTask) -> tuple[pa.Schema, int]:
    """The columns of a file, and how many rows it has.

    Raises:
        FormatError: It is corrupt, or not Parquet.
    """
    footer = read_metadata(task.storage, task.location)
    return file_schema(footer).remove_metadata(), footer.arrow.num_rows


def plan_migration(
    storage: Storage, folder: str, *, executor: Executor | None = None, progress: ProgressCallback | None = None
) -> Migration:
    """Inspect a folder.

    Files and folders whose names begin with `_` or `.` are not data, as everywhere around Hive and Spark. Files without
    rows are left out.

    Args:
        storage: Access to it.
        folder: The folder.
        executor: Runs the tasks that read footers; threads of this process by default.
        progress: Called after every footer.

    Raises:
        FormatError: A file is corrupt.
        NotFoundError: There are no files, or no rows in them.
        SchemaError: Files differ in their columns or in how their folders are named.
        UnsupportedError: The folder is a table already, or contains files that are not Parquet.
    """
    files = [_partitioned(folder, status) for status in _data_files(storage, folder)]
    if not files:
        raise NotFoundError("there are no Parquet files in the folder", location=folder)
    partition_by = tuple(files[0].partition)
    for file in files:
        if tuple(file.partition) != partition_by:
            raise SchemaError(
                f"folders name the columns {list(file.partition)} of one file but {list(partition_by)} of another, "
                f"{files[0].location}",
                location=file.location,
            )
    tasks = [FileTask(file.location, storage) for file in files]
    found: list[tuple[pa.Schema, int]] = []
    for schema in (executor or ThreadExecutor()).map(read_schema, tasks):
        found.append(schema)
        if progress is not None:
            progress(JobProgress("read footers", len(found), len(files)))
    files = [file for file, (_, rows) in zip(files, found, strict=True) if rows]
    schemas = [schema for schema, rows in found if rows]
    if not files:
        raise NotFoundError("the files in the folder have no rows", location=folder)
    merged = _merged(schemas, files)
    missing = tuple(name for name in partition_by if name not in merged.names)
    for name in set(partition_by).difference(missing):
        if not all(name in schema.names for schema in schemas):
            raise SchemaError(f"column {name!r}, which is named by folders, is in some of the files but not in others")
    return Migration(tuple(files), _with_columns(merged, missing, files), partition_by, missing)


def _data_files(storage: Storage, folder: str) -> Iterable[FileStatus]:
    found = sorted(storage.list(folder), key=lambda status: status.location)
    root = len(folder.rstrip("/"))
    for status in found:
        marker = table_marker(status.location)
        if marker is not None:
            raise UnsupportedError(
                f"the folder already contains a table of format {marker[0].value}", location=marker[1]
            )
        segments = status.location[root:].strip("/").split("/")
        if any(segment.startswith((".", "_")) for segment in segments):
            continue
        if not segments[-1].lower().endswith(_ENDINGS):
            raise UnsupportedError(
                f"the folder contains a file that is not Parquet by its name; expected {', '.join(_ENDINGS)}",
                location=status.location,
            )
        yield status


def _partitioned(folder: str, status: FileStatus) -> MigrationFile:
    """A file with the partition values named by its folders."""
    segments = status.location[len(folder.rstrip("/")) :].strip("/").split("/")[:-1]
    partition: dict[str, str | None] = {}
    for segment in segments:
        key, separator, value = segment.partition("=")
        if not separator:
            continue
        column = unquote(key)
        if column in partition:
            raise SchemaError(f"folders name column {column!r} twice", location=status.location)
        partition[column] = None if value == _NULL else unquote(value)
    return MigrationFile(status.location, status.size_bytes, partition)


def _merged(schemas: Sequence[pa.Schema], files: Sequence[MigrationFile]) -> pa.Schema:
    """The columns of all files, none of them required.

    Raises:
        SchemaError: A column has incompatible types, or only some files have field ids.
    """
    with_ids = [has_ids(schema) for schema in schemas]
    if any(with_ids) and not all(with_ids):
        raise SchemaError(
            "the file has no field ids, but others in the folder do", location=files[with_ids.index(False)].location
        )
    merged = schemas[0]
    for schema, file in zip(schemas, files, strict=True):
        if schema == merged:
            continue
        try:
            merged = pa.unify_schemas([merged, schema], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise SchemaError(
                f"the file's columns are incompatible with those of other files: {error}", location=file.location
            ) from None
    return pa.schema([column.with_nullable(True) for column in merged])


def _with_columns(schema: pa.Schema, names: Sequence[str], files: Sequence[MigrationFile]) -> pa.Schema:
    """The schema with the columns named by folders, in the narrowest type that fits all of their values."""
    columns = list(schema)
    last_id = _last_id(schema)
    for number, name in enumerate(names, 1):
        values = [file.partition[name] for file in files]
        metadata = {FIELD_ID_KEY: str(last_id + number).encode()} if last_id else None
        columns.append(pa.field(name, _type(values), metadata=metadata))
    return pa.schema(columns)


def _last_id(schema: pa.Schema) -> int:
    """The largest field id at any depth; 0 if there are none."""
    largest = 0
    fields = list(schema)
    while fields:
        column = fields.pop()
        text = (column.metadata or {}).get(FIELD_ID_KEY, b"")
        largest = max(largest, int(text) if text.isdigit() else 0)
        fields += [column.type.field(index) for index in range(column.type.num_fields)]
    return largest


def _type(values: Iterable[str | None]) -> pa.DataType:
    known = [value for value in values if value is not None]
    if known and all(_INTEGER.fullmatch(value) for value in known):
        return pa.int32() if all(-(2**31) <= int(value) < 2**31 for value in known) else pa.int64()
    if known and all(map(_is_date, known)):
        return pa.date32()
    return pa.string()


def _is_date(value: str) -> bool:
    if not _DATE.fullmatch(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _value(type_: pa.DataType, text: str | None) -> object:
    """The value named by a folder, as a physical value of the column.

    Raises:
        SchemaError: It is not a value of the column's type.
    """
    if text is None:
        return None
    try:
        parsed = date.fromisoformat(text) if pa.types.is_date(type_) else pa.scalar(text).cast(type_).as_py()
        return physical_value(type_, parsed)
    except (ValueError, pa.ArrowException, SkerryError) as error:
        raise SchemaError(f"a folder names the value {text!r}, which is not a valid {type_}: {error}") from None
