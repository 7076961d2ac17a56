"""Aggregate functions over single values without a kernel: decimals, joined strings, sketches, bitmaps.

Spec: docs/formats/paimon.md § 10.4.
"""

from __future__ import annotations

import decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.bitmaps import positions_from_roaring32, roaring32_from_positions
from skerry.errors import FormatError, UnsupportedError
from skerry.paimon.merging.actions import ActionArray
from skerry.paimon.merging.folding import FoldFunction, fold
from skerry.paimon.merging.records import MergeOrder

__all__ = ["Decimals", "JoinedStrings", "RoaringBitmaps", "ThetaSketches", "fold_values"]

_EXACT: Final = decimal.Context(prec=200, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.DivisionByZero])
_COMPACT_DIGITS: Final = 18


def fold_values(function: FoldFunction[Any], values: pa.Array, order: MergeOrder, actions: ActionArray) -> pa.Array:
    """Fold the values of each key into one.

    Args:
        function: The function.
        values: The values of the records.
        order: The order in which they are merged.
        actions: int8[n] `Action` of each record, in merge order, on the column.

    Returns:
        One value of the same type for each key.

    Raises:
        FormatError: A value is not what the function needs.
        UnsupportedError: The result does not fit the type.
    """
    ordered = values.take(pa.array(order.rows)).to_pylist()
    return pa.array(fold(function, ordered, order, actions), values.type)


class _WithoutRetraction(FoldFunction[Any]):
    """Functions whose values cannot be retracted; callers refuse retractions beforehand."""

    def take_back(self, held: Any, value: Any) -> Any:
        """See `FoldFunction`."""
        raise UnsupportedError("the aggregate function does not support retractions")


class Decimals(FoldFunction[Any]):
    """Sums or products of decimals.

    Args:
        type_: Their type.
        is_product: Whether to multiply.
    """

    def __init__(self, type_: pa.Decimal128Type, *, is_product: bool) -> None:
        self._type = type_
        self._unit = decimal.Decimal((0, (1,), -type_.scale))
        self._is_product = is_product

    def add(self, held: Any, value: Any) -> Any:
        """See `FoldFunction`."""
        if held is None or value is None:
            return value if held is None else held
        return self._fitted(_EXACT.multiply(held, value) if self._is_product else _EXACT.add(held, value))

    def take_back(self, held: Any, value: Any) -> Any:
        """See `FoldFunction`."""
        if value is None or (held is None and self._is_product):
            return held
        if not self._is_product:
            return self._fitted(_EXACT.subtract(held or decimal.Decimal(0), value))
        try:
            return self._fitted(_EXACT.divide(held, value))
        except decimal.DecimalException as error:
            raise FormatError(
                f"{value} cannot be retracted from the product {held}", rule="docs/formats/paimon.md § 10.4"
            ) from error

    def _fitted(self, number: decimal.Decimal) -> decimal.Decimal | None:
        """A number rounded half up to the type's scale, as Java does; null beyond its precision."""
        rounded = number.quantize(self._unit, decimal.ROUND_HALF_UP, decimal.Context(prec=200))
        if rounded and rounded.adjusted() + 1 + self._type.scale > self._type.precision:
            if self._type.precision <= _COMPACT_DIGITS and not self._is_product:
                # Java's result has more digits than its type
                raise UnsupportedError(f"the sum {rounded} does not fit {self._type}")
            return None
        return rounded


class JoinedStrings(_WithoutRetraction):
    """Joins strings, skipping empty ones (`listagg`).

    Args:
        delimiter: The separator.
        distinct: Whether duplicates are skipped.
    """

    def __init__(self, delimiter: str, *, distinct: bool) -> None:
        self._delimiter = delimiter
        self._distinct = distinct

    def add(self, held: Any, value: Any) -> Any:
        """See `FoldFunction`."""
        if not held or not value:
            return value if held is None or (not held and value) else held
        if not self._distinct:
            return held + self._delimiter + value
        separator = self._delimiter or " "
        known = set(held.split(separator))
        joined = [held]
        for part in value.split(separator):
            if part and part not in known:
                known.add(part)
                joined.append(part)
        return self._delimiter.join(joined)


class ThetaSketches(_WithoutRetraction):
    """Unions of Theta sketches (`theta_sketch`)."""

    def add(self, held: Any, value: Any) -> Any:
        """See `FoldFunction`."""
        from skerry.theta import ThetaSketch, union  # loaded only by the few tables with such columns

        if held is None or value is None:
            return value if held is None else held
        return union([ThetaSketch.deserialize(held), ThetaSketch.deserialize(value)]).serialize()


class RoaringBitmaps(_WithoutRetraction):
    """Unions of 32-bit Roaring bitmaps (`rbm32`)."""

    def add(self, held: Any, value: Any) -> Any:
        """See `FoldFunction`."""
        if held is None or value is None:
            return value if held is None else held
        return roaring32_from_positions(np.union1d(positions_from_roaring32(held), positions_from_roaring32(value)))
