"""Sequence groups of the engine `partial-update`: columns that are updated together if their sequence fields are newer.

Spec: docs/formats/paimon.md § 10.3; Paimon documentation, Partial Update, Sequence Group.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from skerry.errors import SchemaError
from skerry.paimon.metadata.option_values import parse_list
from skerry.paimon.metadata.options import CoreOptions
from skerry.paimon.metadata.schema import TableSchema

__all__ = ["SequenceGroup", "sequence_groups"]

_PREFIX, _SUFFIX = "fields.", ".sequence-group"
_REMOVE_OPTION = "partial-update.remove-record-on-sequence-group"


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """A sequence group.

    Args:
        fields: The sequence fields, in the order in which they are compared.
        members: The other columns of the group.
        removes: Whether a -D of the group removes the whole row.
    """

    fields: tuple[str, ...]
    members: tuple[str, ...]
    removes: bool = False


def sequence_groups(schema: TableSchema, options: CoreOptions) -> tuple[SequenceGroup, ...]:
    """The sequence groups configured by a table's options.

    Args:
        schema: The columns.
        options: The options.

    Raises:
        SchemaError: A group names an unknown column, or one of the primary key or of another group.
    """
    removing = set(parse_list(options.options.get(_REMOVE_OPTION, "")))
    groups: list[SequenceGroup] = []
    taken: set[str] = set()
    for name, value in options.options.items():
        if not (name.startswith(_PREFIX) and name.endswith(_SUFFIX)):
            continue
        fields, members = parse_list(name[len(_PREFIX) : -len(_SUFFIX)]), parse_list(value)
        members = tuple(member for member in members if member not in fields)
        for column in (*fields, *members):
            _check(schema, name, column, taken)
        groups.append(SequenceGroup(fields, members, bool(removing.intersection(fields))))
    unknown = removing.difference(*(group.fields for group in groups))
    if unknown:
        raise SchemaError(f"option {_REMOVE_OPTION} names {min(unknown)!r}, which is not a field of a sequence group")
    return tuple(groups)


def _check(schema: TableSchema, option: str, column: str, taken: set[str]) -> None:
    schema.field(column)
    if column in schema.primary_keys:
        raise SchemaError(f"option {option} names {column!r}, which is part of the primary key")
    if column in taken:
        raise SchemaError(f"option {option} names {column!r}, which is in another sequence group")
    taken.add(column)


def group_of(groups: Collection[SequenceGroup], column: str) -> int | None:
    """Which group a column is in, sequence fields included."""
    for number, group in enumerate(groups):
        if column in group.fields or column in group.members:
            return number
    return None
