"""Name mappings: field ids for files that have none.

Spec: Iceberg spec, Column Projection, Name Mapping Serialization.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skerry.errors import FormatError
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.storage import decode_json

__all__ = ["MappedField", "NameMapping"]

_RULE: Final = "Iceberg spec, Name Mapping Serialization"
_NAMES: Final = frozenset({"field-id", "names", "fields"})


@dataclass(frozen=True, slots=True)
class MappedField:
    """A field and its names in files.

    Args:
        field_id: Its id; None if the names are of no field of the table.
        names: All names that it has in files.
        fields: The fields within it.
        unknown: Entries of its JSON object that this library does not know.
    """

    field_id: int | None
    names: tuple[str, ...]
    fields: tuple[MappedField, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def from_json(item: JsonObject) -> MappedField:
        """Read a field with those within it.

        Raises:
            FormatError: An entry is missing or of the wrong type.
        """
        return MappedField(
            item.integer("field-id", None),
            item.texts("names"),
            tuple(MappedField.from_json(one) for one in item.objects("fields")),
            item.unknown(_NAMES),
        )

    def to_json(self) -> dict[str, Any]:
        """The field as in metadata."""
        return {
            **({} if self.field_id is None else {"field-id": self.field_id}),
            "names": list(self.names),
            **({"fields": [one.to_json() for one in self.fields]} if self.fields else {}),
            **self.unknown,
        }


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The names of all columns in files without field ids.

    Args:
        fields: The top-level columns.
    """

    fields: tuple[MappedField, ...]

    @staticmethod
    def parse(text: str) -> NameMapping:
        """Parse the table property.

        Raises:
            FormatError: It is not a name mapping.
        """
        try:
            value = decode_json(text)
        except ValueError as error:
            raise FormatError(f"a name mapping must be JSON: {error}", rule=_RULE) from error
        item = JsonObject({"mapping": value}, rule=_RULE)
        try:
            return NameMapping(tuple(MappedField.from_json(one) for one in item.objects("mapping", required=True)))
        except RecursionError as error:
            raise FormatError("a name mapping is nested too deeply", rule=_RULE) from error

    def to_text(self) -> str:
        """The mapping as stored in the table property."""
        return json.dumps([one.to_json() for one in self.fields], ensure_ascii=False, separators=(",", ":"))

    def __iter__(self) -> Iterator[MappedField]:
        return iter(self.fields)
