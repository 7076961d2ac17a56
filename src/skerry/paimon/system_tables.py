"""The system tables that Paimon alone has, besides those of `skerry.table.inspection.inspect.METADATA_TABLES`.

Columns are named as in Paimon Java; keys are structs, lists are lists, and points in time have a zone.

Spec: docs/formats/paimon.md § 2.1, § 5.6, § 13; Paimon documentation, System Tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.manifests.live_files import index_entries
from skerry.paimon.metadata.branches import branch_names, on_branch
from skerry.paimon.metadata.consumers import read_consumers
from skerry.paimon.metadata.schemas import read_schema, schema_ids
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.tags import read_tags
from skerry.paimon.planning.file_tables import FileTables
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.types import encode_field
from skerry.table.inspection.columns import MOMENT, PROPERTIES
from skerry.table.inspection.inspect import properties_table, rows_table
from skerry.table.inspection.partitions import number_groups

__all__ = [
    "OF_ONE_SNAPSHOT",
    "SYSTEM_TABLES",
    "file_columns",
    "newest",
    "sums",
    "system_fields",
    "system_table",
    "table_of_files",
]


def _required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


_TEXTS: Final = pa.list_(pa.string())
_RANGE: Final = pa.struct(
    [
        _required("f0", pa.string()),
        _required("f1", pa.int32()),
        _required("f2", pa.int32()),
        pa.field("_CARDINALITY", pa.int64()),
    ]
)
_FIELDS: Final[Mapping[str, Sequence[pa.Field]]] = {
    "schemas": (
        _required("schema_id", pa.int64()),
        _required("fields", pa.string()),
        _required("partition_keys", _TEXTS),
        _required("primary_keys", _TEXTS),
        _required("options", pa.map_(pa.string(), pa.string())),
        pa.field("comment", pa.string()),
        _required("update_time", MOMENT),
    ),
    "options": PROPERTIES,
    "tags": (
        _required("tag_name", pa.string()),
        _required("snapshot_id", pa.int64()),
        _required("schema_id", pa.int64()),
        _required("commit_time", MOMENT),
        pa.field("record_count", pa.int64()),
        pa.field("create_time", pa.timestamp("ms")),
        pa.field("time_retained", pa.duration("ms")),
    ),
    "branches": (_required("branch_name", pa.string()), _required("create_time", MOMENT)),
    "consumers": (_required("consumer_id", pa.string()), _required("next_snapshot_id", pa.int64())),
    "aggregation_fields": (
        _required("field_name", pa.string()),
        _required("field_type", pa.string()),
        pa.field("function", _TEXTS),
        pa.field("function_options", _TEXTS),
        pa.field("comment", pa.string()),
    ),
    "table_indexes": (
        _required("bucket", pa.int32()),
        _required("index_type", pa.string()),
        _required("file_name", pa.string()),
        _required("file_size", pa.int64()),
        _required("row_count", pa.int64()),
        pa.field("dv_ranges", pa.list_(_RANGE)),
    ),
    "buckets": (
        _required("bucket", pa.int32()),
        _required("record_count", pa.int64()),
        _required("file_size_in_bytes", pa.int64()),
        _required("file_count", pa.int64()),
        pa.field("last_update_time", MOMENT),
    ),
}
_PARTITIONED: Final = ("table_indexes", "buckets")
_KEY_RANGES: Final = (
    *("bucket", "file_path", "file_format", "schema_id", "level", "record_count", "file_size_in_bytes"),
    *("min_key", "max_key", "first_row_id"),
)
SYSTEM_TABLES: Final = (*_FIELDS, "file_key_ranges")
OF_ONE_SNAPSHOT: Final = ("table_indexes", "buckets", "file_key_ranges")
"""Those that show one snapshot; the others are about the whole table."""


def system_fields(tables: FileTables, name: str) -> list[pa.Field]:
    """The columns of a system table; `partition` comes first where the table has partition keys."""
    known = {field.name: field for field in tables.file_fields}
    partition = [known["partition"]] if "partition" in known else []
    if name == "file_key_ranges":
        return [*partition, *(known[column] for column in _KEY_RANGES if column in known)]
    return [*(partition if name in _PARTITIONED else ()), *_FIELDS[name]]


def system_table(state: PaimonState, tables: FileTables, name: str) -> pa.Table:
    """A system table that is not made of data files.

    Args:
        state: The table, at the snapshot to show.
        tables: The columns of its files.
        name: One of `SYSTEM_TABLES`.

    Raises:
        FormatError: Metadata is corrupt.
        NotFoundError: A file of the metadata is missing.
    """
    made: dict[str, Callable[[PaimonState], list[tuple[object, ...]]]] = {
        "schemas": _schemas,
        "tags": _tags,
        "branches": _branches,
        "consumers": _consumers,
        "aggregation_fields": _aggregation_fields,
    }
    if name == "options":
        return properties_table(state.properties)
    if name == "table_indexes":
        return _table_indexes(state, system_fields(tables, name))
    return rows_table(made[name](state), _FIELDS[name])


def _schemas(state: PaimonState) -> list[tuple[object, ...]]:
    found = (read_schema(state.storage, state.paths, number) for number in schema_ids(state.storage, state.paths))
    return [
        (
            schema.id,
            json.dumps([encode_field(field) for field in schema.fields], ensure_ascii=False, separators=(",", ":")),
            schema.partition_keys,
            schema.primary_keys,
            list(schema.options.items()),
            schema.comment,
            schema.time_millis,
        )
        for schema in found
    ]


def _tags(state: PaimonState) -> list[tuple[object, ...]]:
    return [
        (
            tag.name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            tag.snapshot.time_millis,
            tag.snapshot.total_record_count,
            tag.create_time,
            tag.time_retained,
        )
        for tag in read_tags(state.storage, state.paths)
    ]


def _branches(state: PaimonState) -> list[tuple[object, ...]]:
    """The branches; a branch is created when its first schema is written."""
    rows: list[tuple[object, ...]] = []
    for branch in branch_names(state.storage, state.paths):
        files = state.storage.list_folder(on_branch(state.paths, branch).schemas).files
        rows.append((branch, min(file.modified for file in files)))
    return rows


def _consumers(state: PaimonState) -> list[tuple[object, ...]]:
    return sorted(read_consumers(state.storage, state.paths).items())


def _aggregation_fields(state: PaimonState) -> list[tuple[object, ...]]:
    """The columns, each with the options about it and their values."""
    rows: list[tuple[object, ...]] = []
    for column in state.schema.fields:
        prefix = f"fields.{column.name}."
        options = {name: text for name, text in state.schema.options.items() if name.startswith(prefix)}
        rows.append((column.name, str(column.type), list(options.values()), list(options), column.description))
    return rows


def _table_indexes(state: PaimonState, fields: Sequence[pa.Field]) -> pa.Table:
    """The index files of a snapshot: hashes of dynamic buckets, deletion vectors, global indexes."""
    entries = index_entries(state)
    vectors = [
        None
        if entry.deletion_vectors_ranges is None
        else [
            {"f0": one.data_file_name, "f1": one.offset, "f2": one.length, "_CARDINALITY": one.cardinality}
            for one in entry.deletion_vectors_ranges
        ]
        for entry in entries
    ]
    rows = [
        (entry.bucket, entry.index_type, entry.file_name, entry.file_size, entry.row_count, found)
        for entry, found in zip(entries, vectors, strict=True)
    ]
    table = rows_table(rows, _FIELDS["table_indexes"])
    if fields[0].name != "partition":
        return table
    keys = decode_rows([key.type for key in state.schema.partition_fields], [entry.partition for entry in entries])
    partition = pa.StructArray.from_arrays(keys, fields=list(fields[0].type))
    return table.add_column(0, fields[0], partition)


# ---- made of data files ----


def file_columns(tables: FileTables, name: str) -> tuple[str, ...]:
    """The columns of data files that a system table is made of; none if it is made of other metadata."""
    fields = system_fields(tables, name)
    if name == "file_key_ranges":
        return tuple(field.name for field in fields)
    if name != "buckets":
        return ()
    partition = [field.name for field in fields if field.name == "partition"]
    return (*partition, "bucket", "record_count", "file_size_in_bytes", "creation_time")


def table_of_files(tables: FileTables, name: str, files: pa.Table) -> pa.Table:
    """A system table that is made of data files.

    Args:
        tables: The columns of files.
        name: `buckets` or `file_key_ranges`.
        files: The data files of a snapshot, with the columns `file_columns`.
    """
    schema = pa.schema(system_fields(tables, name))
    if name == "file_key_ranges":
        return files.select(schema.names)
    files = files.combine_chunks()
    keys = [column for column in ("partition", "bucket") if column in schema.names]
    values: list[Any] = [_one(files.column("bucket"))]
    values += _one(files.column("partition")).flatten() if "partition" in keys else []
    groups = number_groups(values, files.num_rows)
    first = np.unique(groups, return_index=True)[1]
    found: dict[str, Any] = {column: files.column(column).take(pa.array(first)) for column in keys}
    for column in ("record_count", "file_size_in_bytes"):
        found[column] = pa.array(sums(files.column(column), groups, len(first)))
    found["file_count"] = pa.array(np.bincount(groups, minlength=len(first)).astype(np.int64))
    found["last_update_time"] = newest(files.column("creation_time"), groups, len(first))
    return pa.Table.from_arrays([found[column] for column in schema.names], schema=schema)


def _one(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks()


def sums(column: pa.ChunkedArray, groups: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """int64[count] The sums of a column by group; nulls are zero."""
    found = np.zeros(count, np.int64)
    np.add.at(found, groups, pc.fill_null(column, 0).to_numpy())
    return found


def newest(times: pa.ChunkedArray, groups: npt.NDArray[np.int64], count: int) -> pa.Array:
    """The newest of local times by group, as points in time; null where there is none."""
    moments = np.full(count, -1, np.int64)
    np.maximum.at(moments, groups, pc.fill_null(times.cast(pa.int64()), -1).to_numpy())
    local = pa.array(moments, pa.int64(), mask=moments < 0).cast(pa.timestamp("ms"))
    return pa.array([None if one is None else one.astimezone() for one in local.to_pylist()], MOMENT)
