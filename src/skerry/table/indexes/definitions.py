"""Which columns of a table are indexed, and how: table properties `skerry.index.<column>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa

from skerry.errors import NotFoundError, SchemaError, UnsupportedError
from skerry.table.rows.schema import leaves, nearest

__all__ = [
    "GLOBAL_KIND",
    "INDEX_PREFIX",
    "PIECES_PROPERTY",
    "IndexDefinition",
    "IndexKind",
    "check_index_properties",
    "index_definitions",
]

INDEX_PREFIX: Final = "skerry.index."
"""Properties of this prefix and a column's name say how the column is indexed: `hash`, `text`, `text:unicode-log`."""
PIECES_PROPERTY: Final = "skerry.indexes"
"""Table property: names of the pieces of the index registry, separated by commas; the newest is last."""
GLOBAL_KIND: Final = "btree"
"""The kind of an index that is part of a table's format, and that no property asks for."""
_TOKENIZERS: Final = ("unicode-word", "unicode-log", "trivial")


class IndexKind(StrEnum):
    """What an index finds."""

    HASH = "hash"
    """The rows of a value."""
    TEXT = "text"
    """The rows that have a word."""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """An indexed column.

    Args:
        column: Its name; that of a field of a struct after a dot.
        kind: What the index finds.
        tokenizer: What a word is; empty where there are no words.
    """

    column: str
    kind: IndexKind
    tokenizer: str = ""

    @property
    def value(self) -> str:
        """The value of the table property."""
        return f"{self.kind}:{self.tokenizer}" if self.tokenizer else str(self.kind)

    @property
    def property(self) -> str:
        """The name of the table property."""
        return f"{INDEX_PREFIX}{self.column}"

    @classmethod
    def parse(cls, column: str, value: str) -> IndexDefinition:
        """Read the value of a property.

        Raises:
            SchemaError: It is not a kind, or not a tokenizer.
        """
        kind, _, tokenizer = value.strip().partition(":")
        if kind not in set(IndexKind) or (tokenizer and (kind != IndexKind.TEXT or tokenizer not in _TOKENIZERS)):
            raise SchemaError(
                f"an index of {column!r} cannot be {value!r}: expected hash, text, or text: and one of "
                f"{', '.join(_TOKENIZERS)}"
            )
        return cls(column, IndexKind(kind), tokenizer or (_TOKENIZERS[0] if kind == IndexKind.TEXT else ""))

    def field_id(self, schema: pa.Schema) -> int:
        """The field id of the column, or of the field of structs that names after dots lead to.

        Raises:
            NotFoundError: There is no such column.
            UnsupportedError: Its type cannot be indexed, or several have its name.
        """
        found = [leaf for leaf in leaves(schema) if leaf.name == self.column]
        if len(found) > 1:
            raise UnsupportedError(f"{self.column!r} names several columns, of which none can be indexed")
        if not found and self.column not in schema.names:
            known = [*schema.names, *(leaf.name for leaf in leaves(schema))]
            raise NotFoundError(f"no column {self.column!r} to index{nearest(self.column, known)}")
        kind = found[0].type if found else schema.field(self.column).type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        others = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_binary, pa.types.is_large_binary)
        if not is_text and (self.kind is IndexKind.TEXT or not any(is_type(kind) for is_type in others)):
            expected = "strings" if self.kind is IndexKind.TEXT else "strings, binaries, integers and booleans"
            raise UnsupportedError(f"column {self.column!r} of {kind} has no {self.kind} index, only {expected} have")
        return found[0].field_id


def index_definitions(properties: Mapping[str, str]) -> tuple[IndexDefinition, ...]:
    """The indexed columns of a table, by name.

    Raises:
        SchemaError: A property has an invalid value.
    """
    names = sorted(name for name in properties if name.startswith(INDEX_PREFIX))
    return tuple(IndexDefinition.parse(name.removeprefix(INDEX_PREFIX), properties[name]) for name in names)


def check_index_properties(properties: Mapping[str, str], schema: pa.Schema) -> None:
    """Refuse properties that index nothing.

    Raises:
        NotFoundError: A column does not exist.
        SchemaError: A value is invalid.
        UnsupportedError: A column cannot be indexed so.
    """
    for definition in index_definitions(properties):
        definition.field_id(schema)
