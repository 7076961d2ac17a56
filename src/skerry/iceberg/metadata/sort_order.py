"""Sort orders: how the rows of data files are sorted.

Spec: Iceberg spec, Sorting, Appendix C.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.partition_spec import source_ids
from skerry.iceberg.metadata.transforms import Transform, parse_transform

__all__ = ["UNSORTED_SORT_ORDER", "UNSORTED_SORT_ORDER_ID", "NullOrder", "SortDirection", "SortField", "SortOrder"]

_FIELD_NAMES: Final = frozenset({"source-id", "source-ids", "transform", "direction", "null-order"})
_ORDER_NAMES: Final = frozenset({"order-id", "fields"})


class SortDirection(enum.Enum):
    """Whether small or great values come first."""

    ASC = "asc"
    DESC = "desc"


class NullOrder(enum.Enum):
    """Whether nulls come before or after all values."""

    NULLS_FIRST = "nulls-first"
    NULLS_LAST = "nulls-last"


@dataclass(frozen=True, slots=True)
class SortField:
    """One key of a sort order.

    Args:
        source_id: The id of the column, the first one of several.
        transform: What is compared of its values.
        direction: Whether small or great results come first.
        null_order: Where nulls come.
        source_ids: The ids of all columns of a transform with several arguments; else empty.
        unknown: Entries of its JSON object that this library does not know.
    """

    source_id: int
    transform: Transform
    direction: SortDirection
    null_order: NullOrder
    source_ids: tuple[int, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def sources(self) -> tuple[int, ...]:
        """The ids of the columns that it is derived from."""
        return self.source_ids or (self.source_id,)

    @staticmethod
    def from_json(item: JsonObject) -> SortField:
        """Read a field.

        Raises:
            FormatError: An entry is missing, of the wrong type or not one of the known words.
        """
        first, all_ids = source_ids(item)
        direction, nulls = item.text("direction").lower(), item.text("null-order").lower()
        if direction not in _DIRECTIONS:
            raise item.unexpected("direction", "asc or desc")
        if nulls not in _NULL_ORDERS:
            raise item.unexpected("null-order", "nulls-first or nulls-last")
        return SortField(
            first,
            parse_transform(item.text("transform")),
            _DIRECTIONS[direction],
            _NULL_ORDERS[nulls],
            all_ids,
            item.unknown(_FIELD_NAMES),
        )

    def to_json(self) -> dict[str, Any]:
        """The field as in metadata."""
        sources = {"source-ids": list(self.source_ids)} if self.source_ids else {"source-id": self.source_id}
        return {
            **sources,
            "transform": str(self.transform),
            "direction": self.direction.value,
            "null-order": self.null_order.value,
            **self.unknown,
        }


_DIRECTIONS: Final = {direction.value: direction for direction in SortDirection}
_NULL_ORDERS: Final = {order.value: order for order in NullOrder}


@dataclass(frozen=True, slots=True, init=False)
class SortOrder:
    """The order of rows in data files.

    Args:
        fields: The keys, the first one compared first; none for unsorted rows.
        order_id: Its id; 0 is that of the unsorted order.
        unknown: Entries of its JSON object that this library does not know.
    """

    fields: tuple[SortField, ...]
    order_id: int
    unknown: Mapping[str, Any] = field(compare=False, repr=False)

    def __init__(self, *fields: SortField, order_id: int = 1, unknown: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "order_id", order_id)
        object.__setattr__(self, "unknown", unknown or {})

    @staticmethod
    def from_json(item: JsonObject) -> SortOrder:
        """Read a sort order.

        Raises:
            FormatError: An entry is missing, of the wrong type or not one of the known words.
        """
        fields = [SortField.from_json(one) for one in item.objects("fields", required=True)]
        return SortOrder(*fields, order_id=item.integer("order-id"), unknown=item.unknown(_ORDER_NAMES))

    def to_json(self) -> dict[str, Any]:
        """The order as in metadata."""
        return {"order-id": self.order_id, "fields": [one.to_json() for one in self.fields], **self.unknown}

    @property
    def is_unsorted(self) -> bool:
        """Whether it has no fields."""
        return not self.fields


UNSORTED_SORT_ORDER_ID: Final = 0
UNSORTED_SORT_ORDER: Final = SortOrder(order_id=UNSORTED_SORT_ORDER_ID)
