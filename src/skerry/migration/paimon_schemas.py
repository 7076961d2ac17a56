"""The columns, partitions and properties of an Iceberg table in a Paimon append table.

Paimon finds a column in a file by the name that it has in the file's schema, Iceberg by field id. So files that have
other columns than the table, or other names for them, get schemas of their own. What Paimon would read differently from
Iceberg is refused.

Spec: Iceberg spec, Column Projection; docs/formats/paimon.md § 2, § 8.2.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from skerry.errors import SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.transforms import IdentityTransform, VoidTransform
from skerry.iceberg.reading.scan import scan
from skerry.migration.foreign_columns import columns_in_file
from skerry.paimon.metadata.options import CoreOptions
from skerry.paimon.metadata.partition_names import partition_texts
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.validation import check_options, check_readable
from skerry.paimon.values.arrow_types import arrow_type, identified_fields
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.values.simple_stats import EMPTY_ROW
from skerry.paimon.values.types import ArrayType, DataField, MapType, PaimonType, RowType, field_ids
from skerry.paimon.writing.file_writers import FileEncoding
from skerry.storage import Storage, is_within
from skerry.table.files.evolution import NameMapping
from skerry.table.files.locations import OUTSIDE_PROPERTY
from skerry.table.files.scan_task import FileScanTask
from skerry.table.files.stored_file import check_row_count
from skerry.table.files.stored_files import read_columns
from skerry.table.rows.schema import field_id, is_list, nearest
from skerry.table.rows.values import is_uuid
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback
from skerry.variant import is_variant
from skerry.wkb import WkbType, shapes_type

__all__ = [
    "ColumnsTask",
    "file_schemas",
    "partition_keys",
    "partition_rows",
    "read_all_columns",
    "read_file_columns",
    "table_options",
    "table_schema",
]

_PATHS_OPTION: Final = "data-file.external-paths"
_VECTORS_OPTION: Final = "deletion-vectors.enabled"
_FILE_FORMATS: Final = ("parquet", "orc", "avro", "amudai")


# Columns -------------------------------------------------------------------------------------------------------------

_REFUSED: Final = (
    (pa.types.is_time, "Iceberg's files contain microseconds where Paimon's contain milliseconds"),
    (is_uuid, "Paimon has no such type"),
    (is_variant, "Paimon tables with variants are not supported"),
    (lambda type_: isinstance(type_, WkbType), "Paimon has no such type"),
    (pa.types.is_null, "Paimon has no type for columns without values"),
    (
        lambda type_: pa.types.is_timestamp(type_) and type_.unit == "ns",
        "Paimon's files store nanoseconds differently",
    ),
)


def _columns(state: TableState) -> tuple[DataField, ...]:
    """The columns in Paimon's types.

    Raises:
        UnsupportedError: A type has no counterpart that reads the same files; the column is named.
    """
    for path, type_ in _types(list(state.schema), ()):
        for is_refused, reason in _REFUSED:
            if is_refused(type_):
                raise UnsupportedError(f"column {path!r} of type {type_}: {reason}", location=state.name)
    return identified_fields(state.schema)


def _types(fields: Iterable[pa.Field], path: tuple[str, ...]) -> Iterator[tuple[str, pa.DataType]]:
    """The primitive types with their dotted paths."""
    for column in fields:
        names, type_ = (*path, column.name), column.type
        if pa.types.is_struct(type_) and not is_variant(type_):
            yield from _types(type_, names)
        elif pa.types.is_map(type_):
            yield from _types((type_.key_field.with_name("key"), type_.item_field.with_name("value")), names)
        elif is_list(type_):
            yield from _types((type_.value_field.with_name("element"),), names)
        else:
            yield ".".join(names), shapes_type(column)


def table_schema(state: TableState, keys: Sequence[str], options: Mapping[str, str]) -> TableSchema:
    """The schema of the Paimon table; its id is not known yet.

    Args:
        state: The Iceberg table.
        keys: The partition keys.
        options: The table's options.

    Raises:
        SchemaError: A column, key or option does not fit.
        UnsupportedError: A column's type has no counterpart that reads the same files, or an option is not supported.
    """
    columns = _columns(state)
    ids = (number for column in columns for number in field_ids(column))
    schema = TableSchema(
        id=0,
        fields=columns,
        highest_field_id=max([state.metadata.last_column_id, *ids]),
        partition_keys=tuple(keys),
        options=dict(options),
        comment=state.properties.get("comment"),
        time_millis=int(time.time() * 1000),
    )
    if "primary-key" in options or CoreOptions(options).bucket != -1:
        raise UnsupportedError(
            "an Iceberg table becomes an append table without buckets; leave out the options bucket and primary-key",
            location=state.name,
        )
    check_options(schema)
    check_readable(schema)
    return schema


# Options -------------------------------------------------------------------------------------------------------------

_CODECS: Final = {"uncompressed": "none"}


def table_options(state: TableState, tasks: Sequence[FileScanTask], wanted: Mapping[str, str]) -> dict[str, str]:
    """Options of the Paimon table: counterparts of the Iceberg table's properties, and the given options.

    Raises:
        SchemaError: An option is incompatible with the table's deleted rows.
        UnsupportedError: Paimon cannot name the folder of the files.
    """
    options = {key: value for key, value in state.properties.items() if key.startswith("skerry.")}
    options |= {"bucket": "-1", **_format_options(state.properties)}
    has_deletes = any(task.deletes for task in tasks)
    if has_deletes:
        options[_VECTORS_OPTION] = "true"
    options |= wanted
    if has_deletes and not CoreOptions(options).deletion_vectors:
        raise SchemaError(f"option {_VECTORS_OPTION} must be true: rows of the table are deleted", location=state.name)
    is_open = options.get(OUTSIDE_PROPERTY, "false").lower() == "true"
    if tasks and not is_open and _PATHS_OPTION not in options:
        options[_PATHS_OPTION] = ",".join(_roots(state, tasks))
    return options


def _format_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Options for the format of new files, as far as Paimon supports it."""
    file_format = properties.get("write.format.default", "parquet").lower()
    if file_format not in _FILE_FORMATS:
        return {}
    options = {"file.format": file_format}
    codec = properties.get(f"write.{file_format}.compression-codec", "").lower()
    if codec:
        with_codec = {**options, "file.compression": _CODECS.get(codec, codec)}
        with suppress(SchemaError):  # one of the formats may support fewer codecs
            FileEncoding.from_options(CoreOptions(with_codec))
            options = with_codec
    return options


def _roots(state: TableState, tasks: Sequence[FileScanTask]) -> list[str]:
    """Those of the folders allowed by the Iceberg table that contain files."""
    roots = list(dict.fromkeys((state.metadata.location, state.data_folder)))
    wide = [root for root in roots if not any(is_within(other, root) for other in roots if other != root)]
    used = [root for root in wide if any(is_within(root, task.data_file.location) for task in tasks)]
    if any("," in root for root in used):
        raise UnsupportedError(
            f"option {_PATHS_OPTION} cannot name a folder with a comma; allow files anywhere: "
            f"properties={{{OUTSIDE_PROPERTY!r}: 'true'}}",
            location=state.name,
        )
    return used


# Partitions ----------------------------------------------------------------------------------------------------------

_UNPARTITIONED: Final = (
    "partition_by=[] makes a Paimon table without partitions, whose files are still pruned by their bounds"
)


def partition_keys(state: TableState, wanted: Sequence[str] | None, tasks: Sequence[FileScanTask]) -> list[str]:
    """The names of the partition keys.

    Raises:
        SchemaError: A given key is not a column.
        UnsupportedError: A file is not partitioned by the identity of all of them.
    """
    if isinstance(wanted, str):
        raise SchemaError(f"partition_by must be a list of columns, found {wanted!r}")
    columns = {column.name: field_id(column) for column in state.schema}
    if wanted is None:
        keys = _keys_of_spec(state)
    else:
        keys = list(wanted)
        for key in keys:
            if key not in columns:
                raise SchemaError(f"partition_by: no column {key!r}{nearest(key, columns)}")
    ids = [columns[key] for key in keys]
    for spec_id in sorted({task.data_file.spec_id for task in tasks}):
        missing = [key for key, number in zip(keys, ids, strict=True) if number not in _identities(state, spec_id)]
        if missing:
            file = next(task.data_file for task in tasks if task.data_file.spec_id == spec_id)
            raise UnsupportedError(
                f"the file is not partitioned by the identity of column {missing[0]!r}; {_UNPARTITIONED}",
                location=file.location,
            )
    for key, number in zip(keys, ids, strict=True):
        then = {state.column_types(schema.schema_id).get(number) for schema in state.metadata.schemas}
        if pa.date32() in then and pa.types.is_timestamp(state.schema.field(key).type):
            raise UnsupportedError(f"partition key {key!r} was a date before; {_UNPARTITIONED}", location=state.name)
        if pa.types.is_floating(state.schema.field(key).type):
            raise UnsupportedError(
                f"partition key {key!r} is floating-point: Iceberg keeps -0.0 and 0.0 in one partition, for which "
                f"Paimon would return only one of them; {_UNPARTITIONED}",
                location=state.name,
            )
    return keys


def _keys_of_spec(state: TableState) -> list[str]:
    columns = {field_id(column): column.name for column in state.schema}
    keys = []
    for part in state.spec.fields:
        if isinstance(part.transform, VoidTransform):
            continue
        if not isinstance(part.transform, IdentityTransform) or part.source_id not in columns:
            raise UnsupportedError(
                f"partition field {part.name!r} ({part.transform}) has no counterpart in Paimon, whose tables are "
                f"partitioned by columns; {_UNPARTITIONED}",
                location=state.name,
            )
        keys.append(columns[part.source_id])
    return keys


def _identities(state: TableState, spec_id: int) -> dict[int, int]:
    """The positions of columns in the partition tuples of a spec, by field id."""
    spec = state.metadata.specs()[spec_id]
    return {
        part.source_id: position
        for position, part in enumerate(spec.fields)
        if isinstance(part.transform, IdentityTransform)
    }


def partition_rows(state: TableState, schema: TableSchema, tasks: Sequence[FileScanTask]) -> list[bytes]:
    """The partition of every file as a row with arity.

    Raises:
        UnsupportedError: Paimon cannot partition by a column of such a type.
    """
    fields = schema.partition_fields
    if not fields:
        return [EMPTY_ROW] * len(tasks)
    positions = {spec_id: _identities(state, spec_id) for spec_id in {task.data_file.spec_id for task in tasks}}
    columns = []
    for key in fields:
        values = [task.data_file.partition[positions[task.data_file.spec_id][key.id]] for task in tasks]
        columns.append(pa.array(values, arrow_type(key.type)))
    rows = encode_rows([key.type for key in fields], columns).to_list()
    try:
        partition_texts(fields, sorted(set(rows)), legacy=CoreOptions(schema.options).legacy_partition_names)
    except UnsupportedError as error:
        error.message += f"; {_UNPARTITIONED}"
        raise
    return rows


# Schemas of files ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnsTask:
    """A file whose columns are read; picklable.

    Args:
        location: The file.
        file_format: Its format.
        names: Field ids by name, for a file without ids.
        storage: Access to it. It may hold credentials, and so is never printed.
    """

    location: str
    file_format: str
    names: NameMapping | None
    storage: Storage = field(repr=False)


def read_file_columns(task: ColumnsTask) -> tuple[pa.Schema, int]:
    """The columns of a file with field ids, and how many rows it has.

    Raises:
        SkerryError: As `skerry.table.files.stored_files.read_columns`; the file is named.
    """
    try:
        return read_columns(task.storage, task.location, task.file_format, task.names)
    except SkerryError as error:
        error.location = error.location or task.location
        raise


def read_all_columns(
    state: TableState, tasks: Sequence[FileScanTask], executor: Executor, progress: ProgressCallback | None
) -> list[pa.Schema]:
    """Read the footers of files.

    Args:
        state: The Iceberg table.
        tasks: The files.
        executor: Runs the tasks.
        progress: Called after every file.

    Returns:
        For every file its columns with field ids.

    Raises:
        FormatError: A file is corrupt, or its row count differs from the table's metadata.
        NotFoundError: One is missing.
        SchemaError: One has no field ids, and the table has no name mapping.
        UnsupportedError: One is encrypted, or PyArrow cannot read it.
    """
    names = scan(state).row_reader().names
    work = [ColumnsTask(task.data_file.location, task.data_file.file_format, names, state.storage) for task in tasks]
    found: list[pa.Schema] = []
    for task, (schema, rows) in zip(tasks, executor.map(read_file_columns, work), strict=True):
        check_row_count(rows, task.data_file.record_count, task.data_file.location)
        found.append(schema)
        if progress is not None:
            progress(JobProgress("read footers", len(found), len(tasks)))
    return found


def file_schemas(
    current: TableSchema, tasks: Sequence[FileScanTask], stored: Sequence[pa.Schema]
) -> tuple[list[TableSchema], list[int | None]]:
    """The schemas of files whose columns differ from the table's.

    Args:
        current: The table's schema.
        tasks: The files.
        stored: Their columns, with field ids.

    Returns:
        The schemas, numbered from 0, and for every file the one to read it with: None for the table's.

    Raises:
        SchemaError: A file's columns do not fit the table's.
        UnsupportedError: A file lacks a column that nevertheless has values in it, or stores one in another way.
    """
    partition_ids = {key.id for key in current.partition_fields}
    layouts: dict[tuple[str, bytes], tuple[DataField, ...]] = {}
    older: dict[tuple[DataField, ...], int] = {}
    ids: list[int | None] = []
    for task, schema in zip(tasks, stored, strict=True):
        key = task.data_file.file_format, schema.serialize().to_pybytes()
        try:
            if key not in layouts:
                layouts[key] = columns_in_file(
                    current.fields, schema, file_format=task.data_file.file_format, partition_ids=partition_ids
                )
            _check_missing(current, layouts[key], task)
        except SkerryError as error:
            error.location = error.location or task.data_file.location
            raise
        fields = layouts[key]
        ids.append(None if fields == current.fields else older.setdefault(fields, len(older)))
    return [replace(current, id=number, fields=fields) for fields, number in older.items()], ids


def _check_missing(current: TableSchema, fields: Sequence[DataField], task: FileScanTask) -> None:
    """Refuse a file that lacks a column with a default or a required column: Paimon would return nulls."""
    present = {number for column in fields for number in field_ids(column)}
    for path, member in _missing(current.fields, present, ()):
        if task.constants.get(member.id) is not None:
            raise UnsupportedError(
                f"the file lacks column {path!r}, whose values are only in the table's metadata; compact(full=True) "
                "writes them into files"
            )
        if not member.type.nullable:
            raise SchemaError(f"the file lacks column {path!r}, which is required")


def _missing(
    fields: Iterable[DataField], present: Collection[int], path: tuple[str, ...]
) -> Iterator[tuple[str, DataField]]:
    """The missing columns and members of ROWs, with their dotted names; members of a missing ROW are not listed."""
    for column in fields:
        names = (*path, column.name)
        if column.id not in present:
            yield ".".join(names), column
            continue
        types: list[tuple[PaimonType, tuple[str, ...]]] = [(column.type, names)]
        while types:
            type_, within = types.pop()
            match type_:
                case RowType(members):
                    yield from _missing(members, present, within)
                case ArrayType(element):
                    types.append((element, (*within, "element")))
                case MapType(key, value):
                    types += [(key, (*within, "key")), (value, (*within, "value"))]
