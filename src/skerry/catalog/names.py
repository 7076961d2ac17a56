"""Names of namespaces and tables, and choices by name."""

from __future__ import annotations

from collections.abc import Sequence

from skerry.errors import SchemaError, UnsupportedError
from skerry.table.schema import nearest

__all__ = ["check_choice", "identifier_of", "parts_of"]


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a dotted name.

    Raises:
        SchemaError: One of them is empty.
    """
    parts = tuple(name.split("."))
    if not all(parts):
        raise SchemaError(f"{name!r} is no name: a part between dots is empty")
    return parts


def identifier_of(name: str) -> tuple[str, ...]:
    """The parts of a table's name: its namespace, then its own.

    Raises:
        SchemaError: It is no `namespace.table`.
    """
    parts = parts_of(name)
    if len(parts) < 2:
        raise SchemaError(f"a table name is namespace.table, found {name!r}")
    return parts


def check_choice(option: str, value: str, known: Sequence[str]) -> None:
    """Refuse a value that is none of those known.

    Raises:
        UnsupportedError: It is none; the message proposes the nearest.
    """
    if value not in known:
        raise UnsupportedError(f"{option}={value!r} is not supported{nearest(value, known)}")
