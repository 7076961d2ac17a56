"""The history of columns: when each came, and what it was called before."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TypeAlias

from skerry.iceberg.table import IcebergTable
from skerry.table.table import Table

__all__ = ["column_histories"]

Columns: TypeAlias = dict[int, tuple[str, str]]
"""Names and types by field id."""


def column_histories(table: Table) -> dict[int, str]:
    """What happened to each column of the newest schema, by field id; nothing of those that never changed."""
    schemas = _iceberg_schemas(table) if isinstance(table, IcebergTable) else _paimon_schemas(table)
    said: dict[int, list[str]] = {}
    for (_, before), (number, after) in pairwise(schemas):
        for field_id, (name, type_) in after.items():
            told = said.setdefault(field_id, [])
            if field_id not in before:
                told.append(f"added in schema {number}")
                continue
            old_name, old_type = before[field_id]
            if old_name != name:
                told.append(f"{old_name} before schema {number}")
            if old_type != type_:
                told.append(f"{old_type} before schema {number}")
    return {field_id: ", ".join(told) for field_id, told in said.items() if told}


def _iceberg_schemas(table: IcebergTable) -> list[tuple[int, Columns]]:
    metadata = table.handle.state.metadata
    return [
        (schema.schema_id, {field.field_id: (field.name, str(field.field_type)) for field in schema.fields})
        for schema in sorted(metadata.schemas, key=lambda schema: schema.schema_id)
    ]


def _paimon_schemas(table: Table) -> list[tuple[int, Columns]]:
    rows = table.inspect.read("schemas").select(["schema_id", "fields"]).to_pylist()
    return [
        (row["schema_id"], {field["id"]: (field["name"], _type(field["type"])) for field in json.loads(row["fields"])})
        for row in sorted(rows, key=lambda row: row["schema_id"])
    ]


def _type(written: object) -> str:
    return written if isinstance(written, str) else json.dumps(written)
