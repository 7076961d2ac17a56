"""A change of a schema as a REST catalog is told it: the steps that lead from one schema to the next.

Spec: docs/formats/paimon.md § 16.2; Paimon Java, `SchemaChange`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from skerry.errors import UnsupportedError
from skerry.paimon.metadata.schema import DataField, TableSchema
from skerry.paimon.values.types import encode_type

__all__ = ["schema_changes"]


def schema_changes(before: TableSchema, after: TableSchema) -> list[dict[str, Any]]:
    """The steps from a schema to the next, in the JSON of the protocol.

    Raises:
        UnsupportedError: A column changed within a ROW, ARRAY or MAP.
    """
    steps: list[dict[str, Any]] = [
        {"action": "removeOption", "key": name} for name in before.options if name not in after.options
    ]
    steps += [
        {"action": "setOption", "key": name, "value": text}
        for name, text in after.options.items()
        if before.options.get(name) != text
    ]
    if before.comment != after.comment:
        steps.append({"action": "updateComment", "comment": after.comment})
    old = {field.id: field for field in before.fields}
    new = {field.id: field for field in after.fields}
    steps += [_of(field, "dropColumn") for number, field in old.items() if number not in new]
    names = [field.name for number, field in old.items() if number in new]
    for field in after.fields:
        was = old.get(field.id)
        if was is None:
            names.append(field.name)
            steps.append(
                _of(field, "addColumn", dataType=encode_type(field.type), comment=field.description, move=None)
            )
            continue
        names[names.index(was.name)] = field.name
        steps += _changed(was, field)
    wanted = [field.name for field in after.fields]
    for place, name in enumerate(wanted):
        if names[place] != name:
            names.remove(name)
            names.insert(place, name)
            move = {"fieldName": name, "referenceFieldName": wanted[place - 1] if place else None}
            steps.append({"action": "updateColumnPosition", "move": {**move, "type": "AFTER" if place else "FIRST"}})
    return steps


def _changed(was: DataField, now: DataField) -> list[dict[str, Any]]:
    """The steps for a column that stays."""
    steps = []
    if was.name != now.name:
        steps.append(_of(was, "renameColumn", newName=now.name))
    kind = replace(now.type, nullable=was.type.nullable)
    if kind != was.type:
        if not isinstance(encode_type(kind), str):
            raise UnsupportedError(
                f"column {now.name!r}: changes within a {type(kind).__name__.removesuffix('Type').upper()} are not "
                "supported by skerry's client of Paimon's REST catalog"
            )
        steps.append(_of(now, "updateColumnType", newDataType=encode_type(kind), keepNullability=True))
    if was.type.nullable != now.type.nullable:
        steps.append(_of(now, "updateColumnNullability", newNullability=now.type.nullable))
    if was.description != now.description:
        steps.append(_of(now, "updateColumnComment", newComment=now.description))
    return steps


def _of(field: DataField, action: str, **more: Any) -> dict[str, Any]:
    return {"action": action, "fieldNames": [field.name], **more}
