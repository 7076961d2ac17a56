"""How a job changes rows: by rewriting data files, or by delete files beside them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from skerry.errors import SchemaError

__all__ = ["ChangeMode"]


class ChangeMode(Enum):
    """How rows are changed; the values of `write.delete.mode` and `write.merge.mode`."""

    COPY_ON_WRITE = "copy-on-write"
    """Data files are rewritten: slow to write, fast to read."""
    MERGE_ON_READ = "merge-on-read"
    """Delete files mark deleted rows: fast to write, but readers must apply them."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], action: str) -> ChangeMode:
        """Read the table property.

        Args:
            properties: The table's properties.
            action: Selects the property: `delete` or `merge`, as in `write.delete.mode`.

        Raises:
            SchemaError: There is no such mode.
        """
        name = f"write.{action}.mode"
        text = properties.get(name, cls.COPY_ON_WRITE.value).strip().lower()
        try:
            return cls(text)
        except ValueError:
            choices = " or ".join(mode.value for mode in cls)
            raise SchemaError(f"table property {name} must be {choices}, found {text!r}") from None
