"""Creating a table: its first schema.

Spec: docs/formats/paimon.md § 2, § 14.3; Paimon spec, Schema.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from skerry.errors import AlreadyExistsError, ConflictError, SchemaError
from skerry.paimon.metadata.option_values import parse_list
from skerry.paimon.metadata.options import CoreOptions
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.schemas import create_schema, schema_ids
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.validation import check_options
from skerry.paimon.values.arrow_types import VECTOR_KEY, to_paimon_fields
from skerry.paimon.values.types import field_ids
from skerry.storage import Storage
from skerry.table.rows.schema import LARGE_OBJECT_KEY, nearest

__all__ = ["create_table", "first_schema"]


def first_schema(
    columns: pa.Schema,
    *,
    partition_by: Sequence[str] = (),
    primary_key: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> TableSchema:
    """The schema of a new table.

    Args:
        columns: Its columns.
        partition_by: Names of the partition keys.
        primary_key: Names of the columns that identify a row; they are not nullable.
        properties: The table's options.
        comment: The table's description.

    Raises:
        SchemaError: A column or key does not fit; the message names it.
        UnsupportedError: An option is not supported; the message names it.
    """
    fields = to_paimon_fields(_with_types(columns, properties or {}))
    names = [field.name for field in fields]
    for what, keys in (("partition_by", partition_by), ("primary_key", primary_key)):
        if isinstance(keys, str):
            raise SchemaError(f"{what} must be a list of columns, found {keys!r}")
        for key in keys:
            if key not in names:
                raise SchemaError(f"{what}: no column {key!r}{nearest(key, names)}")
        if len(set(keys)) < len(keys):
            raise SchemaError(f"{what}: a column is named twice in {list(keys)}")
    fields = tuple(
        replace(field, type=replace(field.type, nullable=False)) if field.name in primary_key else field
        for field in fields
    )
    schema = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=max((number for field in fields for number in field_ids(field)), default=-1),
        partition_keys=tuple(partition_by),
        primary_keys=tuple(primary_key),
        options=dict(properties or {}),
        comment=comment,
        time_millis=int(time.time() * 1000),
    )
    check_options(schema)
    return schema


_TYPE_OPTIONS: Final = {"blob-field": LARGE_OBJECT_KEY, "vector-field": VECTOR_KEY}


def _with_types(columns: pa.Schema, options: Mapping[str, str]) -> pa.Schema:
    """The columns with the types that options give them: bytes as BLOB, lists of a fixed length as VECTOR.

    Raises:
        SchemaError: An option names an unknown column.
    """
    for option, mark in _TYPE_OPTIONS.items():
        for name in parse_list(options.get(option, "")):
            index = columns.get_field_index(name)
            if index < 0:
                raise SchemaError(
                    f"option {option} names {name!r}, which is not a column{nearest(name, columns.names)}"
                )
            field = columns.field(index)
            columns = columns.set(index, field.with_metadata({**(field.metadata or {}), mark: b"true"}))
    return columns


def create_table(storage: Storage, location: str, schema: TableSchema, *, name: str) -> PaimonState:
    """Write the first schema of a table.

    Raises:
        AlreadyExistsError: The table already exists.
    """
    paths = CoreOptions(schema.options).paths(location)
    if schema_ids(storage, paths):
        raise AlreadyExistsError(f"table {name!r} already exists", location=location)
    try:
        create_schema(storage, paths, schema)
    except ConflictError as error:
        raise AlreadyExistsError(f"table {name!r} already exists", location=location) from error
    return PaimonState(name, location, storage, schema, None)
