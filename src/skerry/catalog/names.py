"""Checks of the names of namespaces and tables, and of arguments that select by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from skerry.arguments import check_text
from skerry.errors import SchemaError, UnsupportedError
from skerry.storage import bounded_name
from skerry.table.rows.schema import nearest

__all__ = ["TableName", "check_choice", "check_new_name", "dotted", "folder_names", "identifier_of", "parts_of"]

TableName: TypeAlias = str | tuple[str, ...]
"""A table's name, `namespace.table`, or its parts."""
_MAX_NAME_BYTES: Final = 200
"""For a namespace and a table's own name: file systems limit a folder's name to 255 bytes, S3 a key to 1024."""
_PAIMON_SUFFIX: Final = ".db"
_NO_NAME: Final = re.compile("[\x00-\x1f\x7f-\x9f/\ud800-\udfff]")
_UNSAFE: Final = re.compile(r"[\x20\"#%&*:;<>?\[\\\]^`{|}]")
"""Characters that some engines do not take literally in a location, as a URL, a path or a pattern."""


def dotted(name: TableName) -> str:
    """The name of a table with dots, from such a name or from its parts.

    Raises:
        SchemaError: It is neither.
    """
    if isinstance(name, tuple | list):
        if not name or not all(isinstance(part, str) and part and "." not in part for part in name):
            raise SchemaError(
                f"a name in parts is one of texts without dots, as in ('namespace', 'table'), found {name!r}"
            )
        return ".".join(name)
    return name


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a dotted name.

    Raises:
        SchemaError: It is not a string, a part is empty, or it has a null character or half a surrogate pair.
    """
    if not isinstance(name, str):
        raise SchemaError(f"a name must be a string such as 'namespace.table', found {type(name).__name__}: {name!r}")
    check_text("a name", name)
    parts = tuple(name.split("."))
    if not all(parts):
        raise SchemaError(f"{name!r} is not a valid name: a part between dots is empty")
    return parts


def identifier_of(name: str) -> tuple[str, ...]:
    """The parts of a table's name: its namespace, then its own.

    Raises:
        SchemaError: It is not of the form `namespace.table`.
    """
    parts = parts_of(name)
    if len(parts) < 2:
        raise SchemaError(f"a table name must have the form namespace.table, found {name!r}")
    return parts


def check_new_name(name: str, *, kind: str = "table") -> None:
    """Refuse a name that cannot be part of a folder or a URL. Names of existing tables are not checked.

    Args:
        name: The dotted name.
        kind: `table` or `namespace`.

    Raises:
        SchemaError: A table has no namespace; or a part is empty, is too long, begins or ends with white space (which
            PyIceberg cuts off), or has a slash, a control character or half a surrogate pair.
    """
    found = _NO_NAME.search(name) if isinstance(name, str) else None
    if found is not None:
        raise SchemaError(f"{name!r} cannot name a {kind}: {found.group()!r} is not allowed in folders and URLs")
    parts = identifier_of(name) if kind == "table" else parts_of(name)
    if any(part != part.strip() for part in parts):
        raise SchemaError(f"{name!r} cannot name a {kind}: a part begins or ends with white space")
    for text in (".".join(parts[:-1]), parts[-1]) if kind == "table" else (name,):
        if (size := len(text.encode())) > _MAX_NAME_BYTES:
            raise SchemaError(f"a name has at most {_MAX_NAME_BYTES} bytes, found {size}: {text[:40]!r}…")


def folder_names(identifier: Sequence[str]) -> tuple[str, str] | None:
    """The folders of an Iceberg table's namespace and of the table, if its name cannot be used literally.

    Returns:
        The two names, percent-encoded; None if the catalog's own choice works. A namespace `a.db` would share the
        folder of the Paimon tables of `a`.
    """
    namespace, own = ".".join(identifier[:-1]), identifier[-1]
    if not _UNSAFE.search(namespace + own) and not namespace.endswith(_PAIMON_SUFFIX):
        return None
    return _encoded(namespace).replace(".", "%2E"), _encoded(own)


def _encoded(text: str) -> str:
    return bounded_name(_UNSAFE.sub(lambda found: f"%{ord(found.group()):02X}", text), _MAX_NAME_BYTES)


def check_choice(option: str, value: str, known: Sequence[str]) -> None:
    """Refuse an unknown value of an option.

    Raises:
        UnsupportedError: It is unknown; the message suggests the nearest.
    """
    if value not in known:
        raise UnsupportedError(f"{option}={value!r} is not supported{nearest(value, known)}")
