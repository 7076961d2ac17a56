"""The checksum of metadata that Hive's catalog keeps for encrypted tables, so that their metadata file is proved.

Iceberg Java hashes the text that its own writer gives for the metadata that it has read: fields in its order, without
those that it does not know.

Spec: docs/encryption.md, The checksum in the metastore.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from skerry.iceberg.metadata.json_records import decode_json, encode_json
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.iceberg.metadata.types import (
    BooleanType,
    DateType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

__all__ = ["metadata_checksum", "text_checksum"]

_TABLE: Final = (
    *("format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id"),
    *("schema", "current-schema-id", "schemas", "partition-spec", "default-spec-id", "partition-specs"),
    *("last-partition-id", "default-sort-order-id", "sort-orders", "properties", "current-snapshot-id"),
    *("next-row-id", "encryption-keys", "refs", "snapshots", "statistics", "partition-statistics"),
    *("snapshot-log", "metadata-log"),
)
_SCHEMA: Final = ("type", "schema-id", "identifier-field-ids", "fields")
_FIELD: Final = ("id", "name", "required", "type", "doc", "initial-default", "write-default")
_TYPES: Final = {
    "struct": ("type", "fields"),
    "list": ("type", "element-id", "element", "element-required"),
    "map": ("type", "key-id", "key", "value-id", "value", "value-required"),
}
_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "encryption-keys": ("key-id", "encrypted-key-metadata", "encrypted-by-id", "properties"),
    "partition-statistics": ("snapshot-id", "statistics-path", "file-size-in-bytes"),
    "snapshot-log": ("timestamp-ms", "snapshot-id"),
    "metadata-log": ("timestamp-ms", "metadata-file"),
}
_SNAPSHOT: Final = (
    *("sequence-number", "snapshot-id", "parent-snapshot-id", "timestamp-ms", "summary", "manifest-list"),
    *("schema-id", "first-row-id", "added-rows", "key-id"),
)
_REF: Final = ("snapshot-id", "type", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")
_STATISTICS: Final = (
    *("snapshot-id", "statistics-path", "file-size-in-bytes", "file-footer-size-in-bytes", "blob-metadata"),
)
_BLOB: Final = ("type", "snapshot-id", "sequence-number", "fields", "properties")
_SPEC: Final = ("spec-id", "fields")
_SPEC_FIELD: Final = ("name", "transform", "source-id", "field-id")
_ORDER: Final = ("order-id", "fields")
_ORDER_FIELD: Final = ("transform", "source-id", "direction", "null-order")
_SAME_DEFAULTS: Final = (BooleanType, IntegerType, LongType, StringType, DateType)
_ESCAPE: Final = re.compile(rb"\\(u[0-9a-f]{4}|.)")


def text_checksum(text: bytes) -> str:
    """The checksum of a metadata file's text, which is that of its metadata if Iceberg Java has written it."""
    return base64.b64encode(hashlib.sha256(text).digest()).decode()


def metadata_checksum(metadata: TableMetadata) -> str | None:
    """The checksum of metadata; None if Java's text for it is not known.

    That is so for default values other than truth values, whole numbers, texts and dates, and for transforms of several
    columns.
    """
    if not _has_known_text(metadata):
        return None
    written = _ordered(decode_json(encode_json(metadata)))
    return text_checksum(_ESCAPE.sub(_upper, encode_json(written)))


def _upper(found: re.Match[bytes]) -> bytes:
    """An escape as Jackson writes it: hexadecimal digits in capitals."""
    return b"\\u" + found[1][1:].upper() if found[1][:1] == b"u" else found[0]


def _has_known_text(metadata: TableMetadata) -> bool:
    fields = (field for schema in metadata.schemas for field in _fields(schema.as_struct()))
    if any(not isinstance(field.field_type, _SAME_DEFAULTS) for field in fields if _has_default(field)):
        return False
    if any(part.source_ids for spec in metadata.partition_specs for part in spec.fields):
        return False
    return not any(key.source_ids for order in metadata.sort_orders for key in order.fields)


def _has_default(field: NestedField) -> bool:
    return field.initial_default is not None or field.write_default is not None


def _fields(type_: IcebergType) -> Iterator[NestedField]:
    inside: Iterable[IcebergType] = ()
    if isinstance(type_, StructType):
        yield from type_.fields
        inside = (field.field_type for field in type_.fields)
    elif isinstance(type_, ListType):
        inside = (type_.element_type,)
    elif isinstance(type_, MapType):
        inside = (type_.key_type, type_.value_type)
    for each in inside:
        yield from _fields(each)


def _pick(found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: found[name] for name in names if found.get(name) is not None}


def _ordered(found: Mapping[str, Any]) -> dict[str, Any]:
    picked = {name: found[name] for name in _TABLE if name in found}
    for name, names in _LISTS.items():
        if name in picked:
            picked[name] = [_pick(one, names) for one in picked[name]]
    if "schema" in picked:
        picked["schema"] = _schema(picked["schema"])
    if "partition-spec" in picked:
        picked["partition-spec"] = [_pick(one, _SPEC_FIELD) for one in picked["partition-spec"]]
    return picked | {
        "schemas": [_schema(one) for one in picked["schemas"]],
        "partition-specs": [_with_fields(one, _SPEC, _SPEC_FIELD) for one in picked["partition-specs"]],
        "sort-orders": [_with_fields(one, _ORDER, _ORDER_FIELD) for one in picked["sort-orders"]],
        "refs": {name: _pick(one, _REF) for name, one in picked["refs"].items()},
        "snapshots": [_snapshot(one) for one in picked["snapshots"]],
        "statistics": [_statistics(one) for one in picked["statistics"]],
    }


def _with_fields(found: Mapping[str, Any], names: tuple[str, ...], of_fields: tuple[str, ...]) -> dict[str, Any]:
    return _pick(found, names) | {"fields": [_pick(one, of_fields) for one in found["fields"]]}


def _schema(found: Mapping[str, Any]) -> dict[str, Any]:
    return _pick(found, _SCHEMA) | {"fields": [_field(one) for one in found["fields"]]}


def _field(found: Mapping[str, Any]) -> dict[str, Any]:
    return _pick(found, _FIELD) | {"type": _type(found["type"])}


def _type(found: Any) -> Any:
    if isinstance(found, str):
        return found
    picked = _pick(found, _TYPES[found["type"]])
    if "fields" in picked:
        picked["fields"] = [_field(one) for one in picked["fields"]]
    return picked | {name: _type(picked[name]) for name in ("element", "key", "value") if name in picked}


def _snapshot(found: Mapping[str, Any]) -> dict[str, Any]:
    picked = _pick(found, _SNAPSHOT)
    if not picked.get("sequence-number"):
        picked.pop("sequence-number", None)
    summary = picked.get("summary")
    if summary is not None:
        picked["summary"] = {"operation": summary.get("operation"), **summary}
        if summary.get("operation") is None:
            del picked["summary"]
    return picked


def _statistics(found: Mapping[str, Any]) -> dict[str, Any]:
    picked = _pick(found, _STATISTICS)
    blobs = [_pick(one, _BLOB) for one in picked["blob-metadata"]]
    return picked | {
        "blob-metadata": [one if one.get("properties") else _pick(one, _BLOB[:-1]) for one in blobs],
    }
