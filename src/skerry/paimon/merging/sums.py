"""Sums and products of numbers, in Java arithmetic: integers wrap at their width, floats round at every step.

Spec: docs/formats/paimon.md § 10.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError
from skerry.kernels import kernel
from skerry.paimon.merging.actions import Action, ActionArray
from skerry.paimon.merging.records import MergeOrder

__all__ = ["fold_numbers"]

_AGG, _AGG_REVERSED, _RETRACT = Action.AGG.value, Action.AGG_REVERSED.value, Action.RETRACT.value
_SET, _SET_NULL, _SET_RETRACT = Action.SET.value, Action.SET_NULL.value, Action.SET_RETRACT.value


def fold_numbers(values: pa.Array, order: MergeOrder, actions: ActionArray, *, is_product: bool) -> pa.Array:
    """Add up, or multiply, the values of each key.

    Args:
        values: Integers or floats.
        order: The order in which records are merged.
        actions: int8[n] `Action` of each record, in merge order, on the column.
        is_product: Whether to multiply.

    Returns:
        One value of the same type for each key, null where there was none.

    Raises:
        FormatError: A 0 is retracted from a product.
    """
    type_ = values.type
    valid = np.asarray(values.is_valid()).view(np.uint8)
    has_value = np.empty(order.key_count, np.uint8)
    if pa.types.is_integer(type_):
        numbers: npt.NDArray[Any] = values.fill_null(0).to_numpy().astype(np.int64)
        results: npt.NDArray[Any] = np.empty(order.key_count, np.int64)
        failed = _fold_integers(
            int(is_product), 64 - type_.bit_width, order.rows, order.starts, actions, np.ascontiguousarray(valid),
            numbers, results, has_value,
        )  # fmt: skip
        if failed >= 0:
            raise FormatError("a 0 cannot be retracted from a product", rule="docs/formats/paimon.md § 10.4")
    else:
        fold = _FLOATS[type_.bit_width]
        numbers = np.ascontiguousarray(values.fill_null(0).to_numpy())
        results = np.empty(order.key_count, numbers.dtype)
        fold(
            int(is_product), order.rows, order.starts, actions, np.ascontiguousarray(valid), numbers, results, has_value
        )
    mask = has_value == 0
    return pa.array(results.astype(type_.to_pandas_dtype()), type_, mask=mask if mask.any() else None)


@kernel(
    "int64(int64, int64, int64[::1], int64[::1], int8[::1], uint8[::1], int64[::1], out int64[::1], out uint8[::1])"
)
def _fold_integers(
    is_product: int, shift: int, rows: Any, starts: Any, actions: Any, valid: Any, numbers: Any, results: Any, has: Any
) -> int:
    """Fold integers of 64 - shift bits; returns the record that divides by 0, or -1."""
    for key in range(len(starts) - 1):
        held = np.int64(0)
        holds = False
        for place in range(starts[key], starts[key + 1]):
            row, action = rows[place], actions[place]
            number, is_valid = numbers[row], valid[row] != 0
            if action == _SET or action == _SET_RETRACT:  # noqa: SIM109 - kernels have no tuples
                held, holds = number, is_valid
            elif action == _SET_NULL:
                holds = False
            elif (action == _AGG or action == _AGG_REVERSED) and is_valid:  # noqa: SIM109
                held = number if not holds else held * number if is_product else held + number
                holds = True
            if (action == _RETRACT or action == _SET_RETRACT) and is_valid:  # noqa: SIM109
                if not is_product:
                    held = held - number if holds else -number
                    holds = True
                elif holds:
                    if number == 0:
                        return row
                    # Java rounds towards 0
                    quotient = -held if number == -1 else held // number
                    if number != -1 and quotient < 0 and quotient * number != held:
                        quotient += 1
                    held = quotient
            held = (held << shift) >> shift
        results[key], has[key] = held, holds
    return -1


@kernel
def _fold_floats(
    is_product: int, rows: Any, starts: Any, actions: Any, valid: Any, numbers: Any, results: Any, has: Any
) -> None:
    for key in range(len(starts) - 1):
        held = numbers[0]
        holds = False
        for place in range(starts[key], starts[key + 1]):
            row, action = rows[place], actions[place]
            number, is_valid = numbers[row], valid[row] != 0
            if action == _SET or action == _SET_RETRACT:  # noqa: SIM109 - kernels have no tuples
                held, holds = number, is_valid
            elif action == _SET_NULL:
                holds = False
            elif (action == _AGG or action == _AGG_REVERSED) and is_valid:  # noqa: SIM109
                held = number if not holds else held * number if is_product else held + number
                holds = True
            if (action == _RETRACT or action == _SET_RETRACT) and is_valid:  # noqa: SIM109
                if not is_product:
                    held = held - number if holds else -number
                    holds = True
                elif holds:
                    held = held / number
        results[key], has[key] = held, holds


@kernel("void(int64, int64[::1], int64[::1], int8[::1], uint8[::1], float64[::1], out float64[::1], out uint8[::1])")
def _fold_doubles(
    is_product: int, rows: Any, starts: Any, actions: Any, valid: Any, numbers: Any, results: Any, has: Any
) -> None:
    _fold_floats(is_product, rows, starts, actions, valid, numbers, results, has)


@kernel("void(int64, int64[::1], int64[::1], int8[::1], uint8[::1], float32[::1], out float32[::1], out uint8[::1])")
def _fold_singles(
    is_product: int, rows: Any, starts: Any, actions: Any, valid: Any, numbers: Any, results: Any, has: Any
) -> None:
    _fold_floats(is_product, rows, starts, actions, valid, numbers, results, has)


_FLOATS: Final[dict[int, Callable[..., None]]] = {32: _fold_singles, 64: _fold_doubles}
