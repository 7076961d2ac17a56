"""What to shred, from a sample of a column.

A field is shredded if its values are of one kind, and if enough variants have it. Whole numbers of all widths are one
kind, with decimals among them all are decimals; a variant null is of every kind.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from skerry.variant.columns import variants
from skerry.variant.decoding import decode_variant
from skerry.variant.values import ARROW_TYPES, MAX_DIGITS, Primitive, Typed

__all__ = ["choose_shredding"]

_LEAST_SHARE: Final = 0.1
"""A field in fewer of the variants stays encoded; this limit and the next two are those of Iceberg Java."""
_MOST_FIELDS: Final = 300
_MOST_LEVELS: Final = 50

_TYPES: Final[dict[Primitive, pa.DataType]] = {
    Primitive.TRUE: pa.bool_(),
    Primitive.FALSE: pa.bool_(),
    Primitive.UUID: pa.uuid(),
    **{primitive: type_ for type_, primitive in ARROW_TYPES.items()},
}
_INTEGERS: Final = (Primitive.INT8, Primitive.INT16, Primitive.INT32, Primitive.INT64)
_OBJECT, _ARRAY, _INTEGER, _DECIMAL = "object", "array", "integer", "decimal"


def choose_shredding(array: pa.StructArray) -> pa.DataType | None:
    """The plain type that variants of a column are shredded as, None if they are not.

    Args:
        array: A sample of the column.

    Raises:
        FormatError: A variant breaks a rule of the format.
    """
    variants(array)
    seen = _Seen()
    for row in array:
        if row.is_valid:
            seen.add(decode_variant(row["metadata"].as_py(), row["value"].as_py(), typed=True), 0)
    return seen.type(seen.count)


@dataclass(slots=True)
class _Seen:
    """The values at one place of the variants.

    Args:
        count: How many, without nulls.
        kinds: Which kinds they have.
        width: The widest whole number.
        digits: Most digits before the point.
        scale: Most digits after the point.
        fields: What objects have.
        element: What arrays have.
    """

    count: int = 0
    kinds: set[Any] = field(default_factory=set)
    width: Primitive = Primitive.INT8
    digits: int = 0
    scale: int = 0
    fields: dict[str, _Seen] = field(default_factory=dict)
    element: _Seen | None = None

    def add(self, value: Any, depth: int) -> None:
        if isinstance(value, dict):
            self._add_kind(_OBJECT)
            if depth < _MOST_LEVELS:
                for name, found in value.items():
                    self.fields.setdefault(name, _Seen()).add(found, depth + 1)
        elif isinstance(value, list):
            self._add_kind(_ARRAY)
            if depth < _MOST_LEVELS:
                self._add_elements(value, depth + 1)
        elif value.type is not Primitive.NULL:
            self._add_primitive(value)

    def _add_kind(self, kind: Any) -> None:
        self.count += 1
        self.kinds.add(kind)

    def _add_elements(self, values: Iterable[Any], depth: int) -> None:
        self.element = self.element or _Seen()
        for value in values:
            self.element.add(value, depth)

    def _add_primitive(self, value: Typed) -> None:
        if value.type in _INTEGERS:
            self._add_kind(_INTEGER)
            self.width = max(self.width, value.type)
            self.digits = max(self.digits, len(str(abs(value.value))))
        elif isinstance(value.value, decimal.Decimal):
            self._add_kind(_DECIMAL)
            _, digits, exponent = value.value.as_tuple()
            assert isinstance(exponent, int)
            self.digits = max(self.digits, len(digits) + exponent)
            self.scale = max(self.scale, -exponent)
        else:
            self._add_kind(_TYPES[value.type])

    def type(self, total: int) -> pa.DataType | None:
        """What is shredded here; `total` is the number of variants."""
        if self.kinds == {_INTEGER}:
            return _TYPES[self.width]
        if self.kinds and self.kinds <= {_INTEGER, _DECIMAL}:
            precision = max(self.digits, 0) + self.scale
            return pa.decimal128(precision, self.scale) if precision <= MAX_DIGITS else None
        if self.kinds == {_OBJECT}:
            return self._object_type(total)
        if self.kinds == {_ARRAY}:
            element = self.element.type(total) if self.element is not None else None
            return None if element is None else pa.list_(element)
        kind = next(iter(self.kinds)) if len(self.kinds) == 1 else None
        return kind if isinstance(kind, pa.DataType) else None

    def _object_type(self, total: int) -> pa.DataType | None:
        often = [(name, seen) for name, seen in self.fields.items() if seen.count >= _LEAST_SHARE * total]
        often.sort(key=lambda found: (-found[1].count, found[0]))
        found = [(name, type_) for name, seen in often[:_MOST_FIELDS] if (type_ := seen.type(total)) is not None]
        return pa.struct(sorted(found, key=lambda one: one[0])) if found else None
