"""The Avro schemas of manifests and manifest lists, for format versions 1, 2 and 3.

Each field is listed once, with the versions that have it and those that require it. Readers resolve fields by id, so
that older names (`added_data_files_count`) and fields added later do not matter.

Spec: Iceberg spec, Manifest Entry Fields, Data File Fields, Manifest Lists, Appendix A, Avro.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skerry.avro import decimal_bytes
from skerry.errors import FormatError, UnsupportedError
from skerry.table.rows.schema import FIELD_ID_KEY, field_id
from skerry.table.rows.values import is_uuid

__all__ = [
    "DATA_FILE_FIELDS",
    "ENTRY_FIELDS",
    "MANIFEST_FILE_FIELDS",
    "SUMMARY_FIELDS",
    "Field",
    "arrow_type",
    "avro_name",
    "avro_primitive",
    "check_version",
    "columns_by_id",
    "manifest_list_schema",
    "manifest_schema",
    "partition_names",
    "project",
]

_ALL = frozenset({1, 2, 3})
_V1 = frozenset({1})
_V2 = frozenset({2, 3})
_V3 = frozenset({3})
_NEVER: frozenset[int] = frozenset()

_RULE = "Iceberg spec, Manifests"

DATA_FILE_ID = 2
PARTITION_ID = 102
BLOCK_SIZE_ID = 105
SUMMARIES_ID = 507
_SUMMARY_ID = 508

BLOCK_SIZE_BYTES = 64 * 1024 * 1024
"""The value that version 1 requires for `block_size_in_bytes`, which is not read."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a manifest or manifest list.

    Args:
        id: Field id, by which readers find it.
        name: Name in the specification.
        type: Avro type.
        versions: Format versions that write it.
        required: Format versions that require it.
    """

    id: int
    name: str
    type: Any
    versions: frozenset[int] = _ALL
    required: frozenset[int] = _NEVER


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    fields = [
        {"name": "key", "type": "int", "field-id": key_id},
        {"name": "value", "type": value, "field-id": value_id},
    ]
    items = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": fields}
    return {"type": "array", "items": items, "logicalType": "map"}


def _list(element_id: int, element: Any) -> dict[str, Any]:
    return {"type": "array", "items": element, "element-id": element_id}


ENTRY_FIELDS = (
    Field(0, "status", "int", required=_ALL),
    Field(1, "snapshot_id", "long", required=_V1),
    Field(3, "sequence_number", "long", _V2),
    Field(4, "file_sequence_number", "long", _V2),
    Field(DATA_FILE_ID, "data_file", None, required=_ALL),
)
"""Fields of `manifest_entry`; the type of `data_file` depends on the partition spec."""

DATA_FILE_FIELDS = (
    Field(134, "content", "int", _V2, _V2),
    Field(100, "file_path", "string", required=_ALL),
    Field(101, "file_format", "string", required=_ALL),
    Field(PARTITION_ID, "partition", None, required=_ALL),
    Field(103, "record_count", "long", required=_ALL),
    Field(104, "file_size_in_bytes", "long", required=_ALL),
    Field(BLOCK_SIZE_ID, "block_size_in_bytes", "long", _V1, _V1),
    Field(108, "column_sizes", _map(117, 118, "long")),
    Field(109, "value_counts", _map(119, 120, "long")),
    Field(110, "null_value_counts", _map(121, 122, "long")),
    Field(137, "nan_value_counts", _map(138, 139, "long")),
    Field(125, "lower_bounds", _map(126, 127, "bytes")),
    Field(128, "upper_bounds", _map(129, 130, "bytes")),
    Field(131, "key_metadata", "bytes"),
    Field(132, "split_offsets", _list(133, "long")),
    Field(135, "equality_ids", _list(136, "int"), _V2),
    Field(140, "sort_order_id", "int"),
    Field(142, "first_row_id", "long", _V3),
    Field(143, "referenced_data_file", "string", _V2),
    Field(144, "content_offset", "long", _V3),
    Field(145, "content_size_in_bytes", "long", _V3),
)
"""Fields of `data_file`; the type of `partition` depends on the partition spec."""

SUMMARY_FIELDS = (
    Field(509, "contains_null", "boolean", required=_ALL),
    Field(518, "contains_nan", "boolean"),
    Field(510, "lower_bound", "bytes"),
    Field(511, "upper_bound", "bytes"),
)
"""Fields of `field_summary`."""

MANIFEST_FILE_FIELDS = (
    Field(500, "manifest_path", "string", required=_ALL),
    Field(501, "manifest_length", "long", required=_ALL),
    Field(502, "partition_spec_id", "int", required=_ALL),
    Field(517, "content", "int", _V2, _V2),
    Field(515, "sequence_number", "long", _V2, _V2),
    Field(516, "min_sequence_number", "long", _V2, _V2),
    Field(503, "added_snapshot_id", "long", required=_ALL),
    Field(504, "added_files_count", "int", required=_V2),
    Field(505, "existing_files_count", "int", required=_V2),
    Field(506, "deleted_files_count", "int", required=_V2),
    Field(512, "added_rows_count", "long", required=_V2),
    Field(513, "existing_rows_count", "long", required=_V2),
    Field(514, "deleted_rows_count", "long", required=_V2),
    Field(SUMMARIES_ID, "partitions", None),
    Field(519, "key_metadata", "bytes"),
    Field(520, "first_row_id", "long", _V3),
)
"""Fields of `manifest_file`."""


def manifest_schema(partition: pa.Schema, format_version: int) -> dict[str, Any]:
    """The Avro schema of a manifest.

    Args:
        partition: The partition tuple: one field per field of the spec, with its id and result type.
        format_version: 1, 2 or 3.

    Returns:
        The schema as Avro's JSON, in Python objects.

    Spec: Iceberg spec, Manifests, Appendix A, Avro.
    """
    names = partition_names(partition)
    # Avro refers to types by name: a fixed or decimal type is declared at its first use
    declared: set[str] = set()
    fields = [
        _field(field_id(field), name, avro_primitive(field.type, declared), required=False, original=field.name)
        for name, field in zip(names, partition, strict=True)
    ]
    tuple_type = {"type": "record", "name": "r102", "fields": fields}
    data_file = _record("r2", DATA_FILE_FIELDS, format_version, {PARTITION_ID: tuple_type})
    return _record("manifest_entry", ENTRY_FIELDS, format_version, {DATA_FILE_ID: data_file})


def manifest_list_schema(format_version: int) -> dict[str, Any]:
    """The Avro schema of a manifest list, as Avro's JSON in Python objects.

    Spec: Iceberg spec, Manifest Lists, Appendix A, Avro.
    """
    summaries = _list(_SUMMARY_ID, _record("r508", SUMMARY_FIELDS, format_version, {}))
    return _record("manifest_file", MANIFEST_FILE_FIELDS, format_version, {SUMMARIES_ID: summaries})


def _record(name: str, fields: tuple[Field, ...], version: int, types: dict[int, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            _field(field.id, field.name, types.get(field.id, field.type), required=version in field.required)
            for field in fields
            if version in field.versions
        ],
    }


def _field(id_: int, name: str, type_: Any, *, required: bool, original: str | None = None) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": type_}
    if not required:
        # Avro does not allow a union of null with null
        field |= {"type": type_ if type_ == "null" else ["null", type_], "default": None}
    if original is not None and original != name:
        field["iceberg-field-name"] = original
    return field | {"field-id": id_}


# Partition tuples ----------------------------------------------------------------------------------------------------


def avro_name(name: str) -> str:
    """A valid Avro name: other characters become `_x` and their code, as in Iceberg Java.

    Spec: Avro spec, Names.
    """
    escaped = re.sub(r"[^A-Za-z0-9_]", lambda found: f"_x{ord(found[0]):X}", name)
    return f"_{escaped}" if not escaped or escaped[0].isdigit() else escaped


def partition_names(partition: pa.Schema) -> list[str]:
    """The Avro names of a partition tuple's fields, all different."""
    names: list[str] = []
    for field in partition:
        name = avro_name(field.name)
        names.append(f"{name}_{field_id(field)}" if name in names else name)
    return names


_PRIMITIVES: dict[pa.DataType, Any] = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
}


def avro_primitive(type_: pa.DataType, declared: set[str]) -> Any:
    """Avro type of a primitive value.

    Args:
        type_: Arrow type.
        declared: Named types that the schema has so far; this one is added.

    Raises:
        UnsupportedError: There is no such type.

    Spec: Iceberg spec, Appendix A, Avro (data type mappings).
    """
    if type_ in _PRIMITIVES:
        return _PRIMITIVES[type_]
    if pa.types.is_timestamp(type_):
        logical = {"us": "timestamp-micros", "ns": "timestamp-nanos"}[type_.unit]
        return {"type": "long", "logicalType": logical, "adjust-to-utc": type_.tz is not None}
    if is_uuid(type_):
        return _once({"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}, declared)
    if pa.types.is_fixed_size_binary(type_):
        return _once({"type": "fixed", "name": f"fixed_{type_.byte_width}", "size": type_.byte_width}, declared)
    if pa.types.is_decimal(type_):
        size = decimal_bytes(type_.precision)
        name = f"decimal_{type_.precision}_{type_.scale}"
        digits = {"precision": type_.precision, "scale": type_.scale}
        return _once({"type": "fixed", "name": name, "size": size, "logicalType": "decimal", **digits}, declared)
    raise UnsupportedError(f"Arrow type {type_} has no Avro type")


def _once(type_: dict[str, Any], declared: set[str]) -> Any:
    """A named type at its first use, its name after that."""
    if type_["name"] in declared:
        return type_["name"]
    declared.add(type_["name"])
    return type_


# Reading by field id -------------------------------------------------------------------------------------------------

_NEWEST_VERSION = 3
_ARROW = {"boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "string": pa.string(), "bytes": pa.binary()}


def arrow_type(type_: Any) -> pa.DataType:
    """The Arrow type in which a field of a manifest or manifest list is read."""
    if isinstance(type_, str):
        return _ARROW[type_]
    items = type_["items"]
    if type_.get("logicalType") == "map":
        return pa.map_(*(_ARROW[field["type"]] for field in items["fields"]))
    return pa.list_(_ARROW[items])


def check_version(metadata: Mapping[str, bytes], location: str | None) -> int:
    """The format version that a file's header states, 1 if it states none.

    Raises:
        FormatError: It is not a number.
        UnsupportedError: This version is not supported.
    """
    text = metadata.get("format-version", b"1").decode(errors="replace")
    if not text.isdigit():
        raise FormatError(f"format-version is {text!r}, expected a number", location=location, rule=_RULE)
    if not 1 <= int(text) <= _NEWEST_VERSION:
        raise UnsupportedError(f"format version {text} is not supported", location=location)
    return int(text)


def project(
    batch: pa.RecordBatch, fields: Iterable[Field], types: Mapping[int, pa.DataType], location: str | None
) -> dict[str, pa.Array]:
    """The requested fields of a decoded file, found by id, under our names and types; missing ones are null.

    Args:
        batch: Columns with field ids in their metadata.
        fields: The requested fields.
        types: Arrow types by id, of fields without a fixed type.
        location: The file, for messages.

    Raises:
        FormatError: A field has another type, or one that every version requires is missing or null.

    Spec: Iceberg spec, Column Projection: fields are selected by id; unknown ones are ignored.
    """
    found = columns_by_id(batch)
    result = {}
    for field in fields:
        type_ = types[field.id] if field.id in types else arrow_type(field.type)  # a struct without fields is falsy
        column = found.get(field.id)
        if column is None:
            column = pa.nulls(batch.num_rows, type_)
        try:
            result[field.name] = column if column.type == type_ else column.cast(type_)
        except (pa.ArrowException, NotImplementedError) as error:
            raise FormatError(
                f"field {field.name} is of type {column.type}, expected {type_}", location=location, rule=_RULE
            ) from error
        if type_ == pa.struct([]) and field.id in found and column.null_count:
            # BigQuery writes the empty partition of an unpartitioned table as null
            result[field.name] = pa.Array.from_buffers(type_, batch.num_rows, [None])
        if field.required >= _ALL and result[field.name].null_count:
            raise FormatError(
                f"field {field.name} is required, but missing or null in record {_first_null(result[field.name])}",
                location=location,
                rule=_RULE,
            )
    return result


def columns_by_id(batch: pa.RecordBatch) -> dict[int, pa.Array]:
    """The columns that carry a field id, by that id."""
    return {
        int(field.metadata[FIELD_ID_KEY]): column
        for field, column in zip(batch.schema, batch.columns, strict=True)
        if FIELD_ID_KEY in (field.metadata or {})
    }


def _first_null(column: pa.Array) -> int:
    return int(column.is_null().index(True).as_py())
