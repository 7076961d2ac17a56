"""Which types include all values of others, so that a column can be changed to them without loss.

Spec: docs/formats/paimon.md § 2.5; Paimon Java, `DataTypeCasts` (implicit casts): without those that lose digits.
"""

from __future__ import annotations

from typing import Final

from skerry.paimon.values.types import MAX_LENGTH, AtomicType, PaimonType, TypeRoot

__all__ = ["is_text_of", "is_wider"]

_INTEGER_DIGITS: Final = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_INTEGERS: Final = tuple(_INTEGER_DIGITS)
_EXACT_IN: Final = {
    TypeRoot.FLOAT: (TypeRoot.TINYINT, TypeRoot.SMALLINT),
    TypeRoot.DOUBLE: (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.FLOAT),
}
_TEXT: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_WRITTEN: Final = (*_INTEGERS, TypeRoot.DECIMAL, TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP)
_TIMES: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.TIME)


def is_wider(old: PaimonType, new: PaimonType) -> bool:
    """Whether every value of a type is one of another, nulls aside.

    Args:
        old: The current type.
        new: The new type.
    """
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return str(old).removesuffix(" NOT NULL") == str(new).removesuffix(" NOT NULL")
    if old.root in _INTEGERS and new.root in _INTEGERS:
        return _INTEGERS.index(old.root) <= _INTEGERS.index(new.root)
    if new.root is TypeRoot.DECIMAL:
        if old.root is TypeRoot.DECIMAL:
            return old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale
        return old.root in _INTEGERS and _INTEGER_DIGITS[old.root] <= new.precision - new.scale
    if old.root in _EXACT_IN.get(new.root, ()):
        return True
    for family in (_TEXT, _BYTES):
        if old.root in family and new.root in family:
            return old.length <= new.length and not (old.root is family[1] and new.root is family[0])
    if old.root is not new.root:
        return False
    return old.root not in _TIMES or old.precision <= new.precision


def is_text_of(old: PaimonType, new: PaimonType) -> bool:
    """Whether a type is STRING, and the other one of numbers, days or times, whose texts say all of them."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    return new.root is TypeRoot.VARCHAR and new.length == MAX_LENGTH and old.root in _WRITTEN
