"""What conditions test: columns of a schema, and how they are compared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from skerry.variant.getting import name_of_type
from skerry.variant.paths import Path, normalized_path

__all__ = ["Column", "Operator"]


class Operator(Enum):
    """The six comparisons of a column with a value; the member's value is its SQL spelling."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def negated(self) -> Operator:
        """The comparison that is true exactly where this one is false (ignoring nulls)."""
        return _NEGATED[self]

    @property
    def flipped(self) -> Operator:
        """The comparison with exchanged sides: `3 < x` is `x > 3`."""
        return _FLIPPED[self]


_NEGATED = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.LE: Operator.GT,
    Operator.GT: Operator.LE,
    Operator.GE: Operator.LT,
}
_FLIPPED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the schema, or a field of a struct.

    Args:
        field_id: The field id, which survives renames.
        path: Names from the top-level column down.
        type: Its Arrow type; that of the values for a dictionary-encoded column, `WkbType` for one of shapes.
        inside: The path of a value inside of variants, None for the column itself. Then `field_id` is that of the
            column of variants, and `type` the one that the value is converted to.
    """

    field_id: int
    path: tuple[str, ...]
    type: pa.DataType
    inside: Path | None = None

    def __str__(self) -> str:
        name = ".".join('"' + name.replace('"', '""') + '"' for name in self.path)
        if self.inside is None:
            return name
        path = normalized_path(self.inside).replace("'", "''")
        return f"variant_get({name}, '{path}', '{name_of_type(self.type)}')"
