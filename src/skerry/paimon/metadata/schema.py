"""Schema files: the columns, keys and options of a table since some moment.

Spec: docs/formats/paimon.md § 2.1; Paimon spec, Schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.paimon.metadata.snapshot import decode_object
from skerry.paimon.values.arrow_types import arrow_field, to_arrow_schema
from skerry.paimon.values.types import AtomicType, DataField, TypeRoot, decode_field, encode_field, field_ids
from skerry.table.rows.schema import FIELD_ID_KEY, nearest

__all__ = [
    "KEY_PREFIX",
    "LINEAGE_FIELDS",
    "ROW_ID",
    "SCHEMA_VERSION",
    "SEQUENCE_NUMBER",
    "VALUE_KIND",
    "DataField",
    "TableSchema",
    "decode_schema",
    "encode_schema",
]

SCHEMA_VERSION: Final = 3
_RULE = "docs/formats/paimon.md § 2.1"

KEY_PREFIX: Final = "_KEY_"
SEQUENCE_NUMBER: Final = "_SEQUENCE_NUMBER"
VALUE_KIND: Final = "_VALUE_KIND"
ROW_ID: Final = "_ROW_ID"
_KEY_ID: Final = 1_073_741_823
_SEQUENCE_NUMBER_ID: Final = 2_147_483_646
_VALUE_KIND_ID: Final = 2_147_483_645
_ROW_ID_ID: Final = 2_147_483_642

LINEAGE_FIELDS: Final = {
    ROW_ID: DataField(_ROW_ID_ID, ROW_ID, AtomicType(TypeRoot.BIGINT, nullable=False)),
    SEQUENCE_NUMBER: DataField(_SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, AtomicType(TypeRoot.BIGINT)),
}
"""The columns with which rewritten files keep the ids of rows and the snapshots that wrote them. A null sequence number
stands for the greatest one that the manifest has for the file.

Spec: docs/formats/paimon.md § 8.8.
"""


@dataclass(frozen=True)
class TableSchema:
    """A table's columns, keys and options.

    Args:
        id: Its number; file `schema-<id>`.
        fields: The columns.
        highest_field_id: The largest id that a column ever had, members of ROWs included.
        partition_keys: Names of the columns that the table is partitioned by.
        primary_keys: Names of the columns that identify a row, partition keys included; empty in append tables.
        options: The table's options.
        comment: The table's description.
        time_millis: When the schema was created, in milliseconds since 1970.
        version: Version of the file's layout.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    version: int = SCHEMA_VERSION

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow, with field ids; elements, keys and values have those that Java gives them."""
        return to_arrow_schema(self.fields)

    @cached_property
    def fields_by_name(self) -> Mapping[str, DataField]:
        """The columns by name."""
        return {column.name: column for column in self.fields}

    def field(self, name: str) -> DataField:
        """The column of that name.

        Raises:
            SchemaError: It does not exist.
        """
        found = self.fields_by_name.get(name)
        if found is None:
            raise SchemaError(f"no column {name!r}{nearest(name, self.fields_by_name)}")
        return found

    def fields_of(self, names: tuple[str, ...]) -> tuple[DataField, ...]:
        """The columns of those names, in their order."""
        return tuple(self.field(name) for name in names)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without the partition keys: what identifies a row within its partition."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns that determine a row's bucket: `bucket-key`, else the trimmed primary key."""
        text = self.options.get("bucket-key", "")
        named = tuple(part.strip() for part in text.split(",") if part.strip())
        return named or self.trimmed_primary_keys

    @property
    def is_cross_partition(self) -> bool:
        """Whether a key may move between partitions, since a partition key is not in the primary key."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The columns of the partition keys."""
        return self.fields_of(self.partition_keys)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """The columns of the trimmed primary key."""
        return self.fields_of(self.trimmed_primary_keys)

    @cached_property
    def key_arrow_fields(self) -> tuple[pa.Field, ...]:
        """The columns `_KEY_…` of primary-key files."""
        return tuple(
            _system_field(KEY_PREFIX + column.name, arrow_field(column).type, _KEY_ID + column.id)
            for column in self.key_fields
        )

    def file_schema(self, *, thin: bool = False) -> pa.Schema:
        """The columns of data files: in primary-key tables, those of the table follow keys, sequence number and kind.

        Args:
            thin: Whether the keys are omitted (`data-file.thin-mode`).

        Spec: docs/formats/paimon.md § 8.5.
        """
        if not self.primary_keys:
            return self.arrow_schema
        return pa.schema([*(() if thin else self.key_arrow_fields), *SYSTEM_FIELDS, *self.arrow_schema])


def _system_field(name: str, type_: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, type_, nullable=False, metadata={FIELD_ID_KEY: str(number).encode()})


SYSTEM_FIELDS: Final = (
    _system_field(SEQUENCE_NUMBER, pa.int64(), _SEQUENCE_NUMBER_ID),
    _system_field(VALUE_KIND, pa.int8(), _VALUE_KIND_ID),
)
"""Sequence number and kind, which primary-key files have between keys and values."""


def decode_schema(data: bytes | str, *, location: str | None = None) -> TableSchema:
    """Decode a schema file.

    Args:
        data: The file.
        location: Its location, for messages.

    Raises:
        FormatError: It is not a valid schema.
        UnsupportedError: Its version is unknown, or a column's type is not supported.

    Spec: docs/formats/paimon.md § 2.1.
    """
    found = decode_object(data, "schema", location)
    try:
        schema = _schema_of(found)
        _check(schema)
    except (FormatError, UnsupportedError) as error:
        error.location = location
        raise
    return schema


def _schema_of(found: Mapping[str, Any]) -> TableSchema:
    version = found.get("version", 1)
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        raise UnsupportedError(f"schema version {version!r:.40} is not supported, expected 1 to {SCHEMA_VERSION}")
    fields = found.get("fields")
    if not isinstance(fields, list):
        raise FormatError("a schema must have a list of fields", rule=_RULE)
    options = found.get("options") or {}
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise FormatError("a schema's options must be texts by name", rule=_RULE)
    comment = found.get("comment")
    return TableSchema(
        id=_number(found, "id"),
        fields=tuple(decode_field(column) for column in fields),
        highest_field_id=_number(found, "highestFieldId"),
        partition_keys=_names(found, "partitionKeys"),
        primary_keys=_names(found, "primaryKeys"),
        options=_with_old_defaults(options, version),
        comment=comment if isinstance(comment, str) else None,
        time_millis=_number(found, "timeMillis", 0),
        version=SCHEMA_VERSION,
    )


def _with_old_defaults(options: dict[str, str], version: int) -> dict[str, str]:
    """Options for the current version: defaults of older versions are made explicit."""
    if version < 2:
        options = {"bucket": "1", **options}
    if version < SCHEMA_VERSION:
        options = {"file.format": "orc", **options}
    return options


def _number(found: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = found.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 2**63:
        raise FormatError(f"a schema's {key!r} must be a number, found {value!r:.40}", rule=_RULE)
    return value


def _names(found: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = found.get(key) or []
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise FormatError(f"a schema's {key!r} must be a list of names", rule=_RULE)
    return tuple(value)


def _check(schema: TableSchema) -> None:
    """Refuse invalid schemas.

    Raises:
        FormatError: A name or id is used twice, or a key is not a column.
    """
    names = [column.name for column in schema.fields]
    ids = [number for column in schema.fields for number in field_ids(column)]
    if len(set(names)) < len(names):
        raise FormatError(f"two columns have the name {max(names, key=names.count)!r}", rule=_RULE)
    if len(set(ids)) < len(ids):
        raise FormatError(f"two columns have the id {max(ids, key=ids.count)}", rule=_RULE)
    if ids and max(ids) > schema.highest_field_id:
        raise FormatError(f"field id {max(ids)} is greater than highestFieldId {schema.highest_field_id}", rule=_RULE)
    for what, keys in (("partition", schema.partition_keys), ("primary", schema.primary_keys)):
        for name in keys:
            if name not in schema.fields_by_name:
                raise FormatError(f"the {what} key names {name!r}, which is not a column", rule=_RULE)


def encode_schema(schema: TableSchema) -> bytes:
    """The content of a schema's file."""
    found: dict[str, Any] = {
        "version": schema.version,
        "id": schema.id,
        "fields": [encode_field(column) for column in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        found["comment"] = schema.comment
    found["timeMillis"] = schema.time_millis
    return json.dumps(found, indent=2, ensure_ascii=False).encode()
