"""The transforms of partition fields and sort fields, as metadata names them.

What they do to values is in `skerry.iceberg.partitioning.transforms`.

Spec: Iceberg spec, Partition Transforms, Appendix C.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from skerry.errors import FormatError

__all__ = [
    "BucketTransform",
    "DayTransform",
    "HourTransform",
    "IdentityTransform",
    "MonthTransform",
    "Transform",
    "TruncateTransform",
    "UnknownTransform",
    "VoidTransform",
    "YearTransform",
    "parse_transform",
]

_RULE: Final = "Iceberg spec, Partition Transforms"
_MAX_PARAMETER: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Transform:
    """Maps a column's values to those of a partition field. Equal ones are equal, whoever made them."""

    text: ClassVar[str] = ""
    """Its name in metadata, if it has no parameter."""
    preserves_order: ClassVar[bool] = False
    """Whether a greater value never has a smaller result."""

    def __str__(self) -> str:
        return self.text


# Transforms without a parameter are records by what they inherit.


class IdentityTransform(Transform):
    """The value itself."""

    __slots__ = ()
    text = "identity"
    preserves_order = True


class VoidTransform(Transform):
    """Always null."""

    __slots__ = ()
    text = "void"


class YearTransform(Transform):
    """Years since 1970."""

    __slots__ = ()
    text = "year"
    preserves_order = True


class MonthTransform(Transform):
    """Months since January 1970."""

    __slots__ = ()
    text = "month"
    preserves_order = True


class DayTransform(Transform):
    """Days since 1 January 1970."""

    __slots__ = ()
    text = "day"
    preserves_order = True


class HourTransform(Transform):
    """Hours since 1 January 1970."""

    __slots__ = ()
    text = "hour"
    preserves_order = True


@dataclass(frozen=True, slots=True)
class BucketTransform(Transform):
    """A hash modulo a number.

    Args:
        num_buckets: That number.
    """

    num_buckets: int

    def __str__(self) -> str:
        return f"bucket[{self.num_buckets}]"


@dataclass(frozen=True, slots=True)
class TruncateTransform(Transform):
    """The beginning of a text, or a number rounded down.

    Args:
        width: Its characters or bytes, or the number of whose multiples it is one.
    """

    width: int
    preserves_order = True

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


@dataclass(frozen=True, slots=True)
class UnknownTransform(Transform):
    """A transform that this library does not know: its partitions are read, but not pruned or written.

    Args:
        name: Its text in metadata.
    """

    name: str

    def __str__(self) -> str:
        return self.name


_BY_NAME: Final[dict[str, Transform]] = {
    kind.text: kind()
    for kind in (IdentityTransform, VoidTransform, YearTransform, MonthTransform, DayTransform, HourTransform)
}
_PARAMETRIC: Final[dict[str, type[BucketTransform | TruncateTransform]]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
}
_WITH_PARAMETER: Final = re.compile(r"(bucket|truncate)\[(\d{1,10})\]", re.ASCII)


def parse_transform(text: str) -> Transform:
    """Parse a transform as metadata names it: `identity`, `day`, `bucket[16]`; one that is not known is kept.

    Raises:
        FormatError: The number of `bucket` or `truncate` is not a positive 32-bit integer.
    """
    lower = text.lower()
    known = _BY_NAME.get(lower)
    if known is not None:
        return known
    found = _WITH_PARAMETER.fullmatch(lower)
    if found is None:
        return UnknownTransform(text)
    number = int(found[2])
    if not 0 < number <= _MAX_PARAMETER:
        raise FormatError(f"the transform {text!r} needs a positive 32-bit number", rule=_RULE)
    return _PARAMETRIC[found[1]](number)
