"""The aggregate functions of columns: which exist, for which types, and how they merge a column.

Spec: docs/formats/paimon.md § 10.4; Paimon documentation, Aggregation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.merging.actions import Action, ActionArray
from skerry.paimon.merging.elements import (
    Collected,
    MergedMaps,
    NestedKeys,
    NestedRows,
    fold_elements,
    fold_nested_rows,
)
from skerry.paimon.merging.order_keys import encode_order_keys
from skerry.paimon.merging.picks import Pick, pick_records
from skerry.paimon.merging.records import MergeOrder
from skerry.paimon.merging.sums import fold_numbers
from skerry.paimon.merging.values import Decimals, JoinedStrings, RoaringBitmaps, ThetaSketches, fold_values
from skerry.paimon.metadata.option_values import parse_bool, parse_int, parse_list
from skerry.paimon.metadata.options import CoreOptions

__all__ = ["AggregateFunction", "ColumnFunction", "column_function"]


class AggregateFunction(Enum):
    """Values of `fields.<column>.aggregate-function`."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    MIN = "min"
    LAST_VALUE = "last_value"
    LAST_NON_NULL_VALUE = "last_non_null_value"
    FIRST_VALUE = "first_value"
    FIRST_NON_NULL_VALUE = "first_non_null_value"
    FIRST_NOT_NULL_VALUE = "first_not_null_value"
    """Former name of the previous one."""
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    LISTAGG = "listagg"
    COLLECT = "collect"
    MERGE_MAP = "merge_map"
    MERGE_MAP_WITH_KEYTIME = "merge_map_with_keytime"
    NESTED_UPDATE = "nested_update"
    NESTED_PARTIAL_UPDATE = "nested_partial_update"
    THETA_SKETCH = "theta_sketch"
    RBM32 = "rbm32"
    PRIMARY_KEY = "primary_key"


Fold = Callable[[pa.Array, MergeOrder, ActionArray], pa.Array]
"""Merges the values of each key into one."""

_UNSUPPORTED: Final = {
    "hll_sketch": "HyperLogLog sketches are not supported",
    "rbm64": "64-bit bitmaps have a layout that only Java's library can read",
}
_RETRACTABLE: Final = frozenset(
    {
        AggregateFunction.SUM,
        AggregateFunction.PRODUCT,
        AggregateFunction.COLLECT,
        AggregateFunction.MERGE_MAP,
        AggregateFunction.NESTED_UPDATE,
        AggregateFunction.LAST_VALUE,
        AggregateFunction.LAST_NON_NULL_VALUE,
        AggregateFunction.PRIMARY_KEY,
    }
)
_PICKS: Final = {
    AggregateFunction.LAST_VALUE: Pick.LAST,
    AggregateFunction.LAST_NON_NULL_VALUE: Pick.LAST_NON_NULL,
    AggregateFunction.FIRST_VALUE: Pick.FIRST,
    AggregateFunction.FIRST_NON_NULL_VALUE: Pick.FIRST_NON_NULL,
    AggregateFunction.FIRST_NOT_NULL_VALUE: Pick.FIRST_NON_NULL,
    AggregateFunction.MAX: Pick.GREATEST,
    AggregateFunction.BOOL_OR: Pick.GREATEST,
    AggregateFunction.MIN: Pick.LEAST,
    AggregateFunction.BOOL_AND: Pick.LEAST,
    AggregateFunction.PRIMARY_KEY: Pick.KEY,
}
_BOOLEAN: Final = (AggregateFunction.BOOL_AND, AggregateFunction.BOOL_OR)
_IGNORED_RETRACTION: Final = np.arange(len(Action), dtype=np.int8)
_IGNORED_RETRACTION[Action.RETRACT] = Action.SKIP
_IGNORED_RETRACTION[Action.SET_RETRACT] = Action.SET


@dataclass(frozen=True, slots=True, eq=False)
class ColumnFunction:
    """The aggregate function of one column.

    Args:
        column: The column.
        function: The function.
        fold: Its implementation.
        ignores_retraction: Whether retractions are ignored
            (`fields.<column>.ignore-retract`).
    """

    column: str
    function: AggregateFunction
    fold: Fold
    ignores_retraction: bool = False

    def merge(self, values: pa.Array, order: MergeOrder, actions: ActionArray) -> pa.Array:
        """Merge the values of each key into one.

        Args:
            values: The values of the records.
            order: The order in which they are merged.
            actions: int8[n] `Action` of each record, in merge order, on the column.

        Returns:
            One value for each key, of the same type.

        Raises:
            UnsupportedError: A retraction is merged that the function does not support.
        """
        if self.ignores_retraction:
            actions = _IGNORED_RETRACTION[actions]
        elif self.function not in _RETRACTABLE and np.isin(actions, (Action.RETRACT, Action.SET_RETRACT)).any():
            raise UnsupportedError(
                f"aggregate function {self.function.value} of column {self.column!r} does not support "
                f"retractions, but a -U or -D is merged; set fields.{self.column}.ignore-retract to ignore it"
            )
        return self.fold(values, order, actions)


def column_function(column: pa.Field, name: str, options: CoreOptions) -> ColumnFunction:
    """The aggregate function of a column.

    Args:
        column: The column.
        name: The function.
        options: The table's options, some of which are the function's.

    Raises:
        SchemaError: The function does not fit the column's type, or an option is not valid.
        UnsupportedError: The function is unknown or not supported.
    """
    try:
        function = AggregateFunction(name)
    except ValueError:
        reason = _UNSUPPORTED.get(name, f"supported: {', '.join(known.value for known in AggregateFunction)}")
        raise UnsupportedError(
            f"aggregate function {name} of column {column.name!r} is not supported; {reason}"
        ) from None
    text = options.field(column.name, "ignore-retract")
    ignores = text is not None and parse_bool(f"fields.{column.name}.ignore-retract", text)
    return ColumnFunction(column.name, function, _fold_of(function, column, options), ignores)


def pick(how: Pick, values: pa.Array, order: MergeOrder, actions: ActionArray) -> pa.Array:
    """Select one of the values of each key."""
    ranks = None
    if how in (Pick.GREATEST, Pick.LEAST):
        ranks = encode_order_keys([values], [True], java_floats=True).ranks()
    picks = pick_records(how, order, actions, np.asarray(values.is_valid()), ranks)
    missing = picks < 0
    return values.take(pa.array(picks, mask=missing if missing.any() else None))


def _fold_of(function: AggregateFunction, column: pa.Field, options: CoreOptions) -> Fold:
    if function in _PICKS:
        if function in _BOOLEAN and not pa.types.is_boolean(column.type):
            raise _misfit(function, column, "BOOLEAN")
        return partial(pick, _PICKS[function])
    return _FOLDS[function](function, column, options)


def _misfit(function: AggregateFunction, column: pa.Field, expected: str) -> SchemaError:
    return SchemaError(
        f"aggregate function {function.value} needs a column of type {expected}; {column.name!r} is {column.type}"
    )


def _numeric(function: AggregateFunction, column: pa.Field, options: CoreOptions) -> Fold:
    is_product = function is AggregateFunction.PRODUCT
    if pa.types.is_decimal(column.type):
        return partial(fold_values, Decimals(column.type, is_product=is_product))
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return partial(fold_numbers, is_product=is_product)
    raise _misfit(function, column, "number")


def _listagg(function: AggregateFunction, column: pa.Field, options: CoreOptions) -> Fold:
    if not pa.types.is_string(column.type):
        raise _misfit(function, column, "STRING")
    delimiter = options.field(column.name, "list-agg-delimiter")
    joined = JoinedStrings("," if delimiter is None else delimiter, distinct=_is_distinct(column, options))
    return partial(fold_values, joined)


def _collect(function: AggregateFunction, column: pa.Field, options: CoreOptions) -> Fold:
    if not pa.types.is_list(column.type):
        raise _misfit(function, column, "ARRAY")
    return partial(fold_elements, partial(Collected, distinct=_is_distinct(column, options)))


def _merge_map(function: AggregateFunction, column: pa.Field, options: CoreOptions) -> Fold:
    if not pa.types.is_map(column.type):
        raise _misfit(function, column, "MAP")
    if function is AggregateFunction.MERGE_MAP:
        return partial(fold_elements, MergedMaps)
    value = column.type.item_type
    if not pa.types.is_struct(value):
        raise _misfit(function, column, "MAP of ROWs")
    names = [member.name for member in value]
    time = options.field(column.name, "ts-field") or names[-1]
    if time not in names or not pa.types.is_string(value.field(time).type):
        raise SchemaError(f"aggregate function {function.value} of column {column.name!r} needs a string field as time")
    return partial(fold_elements, partial(MergedMaps, time_field=time))


def _nested(function: AggregateFunction, column: pa.Field, options: CoreOptions) -> Fold:
    if not (pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type)):
        raise _misfit(function, column, "ARRAY of ROWs")
    prefix = f"fields.{column.name}."
    limit = options.field(column.name, "count-limit")
    keys = NestedKeys(
        key=parse_list(options.field(column.name, "nested-key") or ""),
        sequence=parse_list(options.field(column.name, "nested-sequence-field") or ""),
        count_limit=2**31 - 1 if limit is None else parse_int(prefix + "count-limit", limit),
        null_strategy=(options.field(column.name, "nested-key-null-strategy") or "merge").lower(),
    )
    names = [member.name for member in column.type.value_type]
    unknown = [name for name in (*keys.key, *keys.sequence) if name not in names]
    if unknown:
        raise SchemaError(f"option {prefix}nested-key names {unknown[0]!r}, which the rows of the column do not have")
    if function is AggregateFunction.NESTED_UPDATE:
        return partial(fold_elements, partial(NestedRows, keys=keys))
    if not keys.key:
        raise SchemaError(f"aggregate function {function.value} of column {column.name!r} needs {prefix}nested-key")
    return partial(_patch, keys)


def _patch(keys: NestedKeys, values: pa.Array, order: MergeOrder, actions: ActionArray) -> pa.Array:
    return fold_nested_rows(values, keys, order, actions)


def _bytes(function: AggregateFunction, column: pa.Field, options: CoreOptions) -> Fold:
    if not pa.types.is_binary(column.type):
        raise _misfit(function, column, "VARBINARY")
    return partial(fold_values, ThetaSketches() if function is AggregateFunction.THETA_SKETCH else RoaringBitmaps())


def _is_distinct(column: pa.Field, options: CoreOptions) -> bool:
    text = options.field(column.name, "distinct")
    return text is not None and parse_bool(f"fields.{column.name}.distinct", text)


_FOLDS: Final[dict[AggregateFunction, Callable[[AggregateFunction, pa.Field, CoreOptions], Any]]] = {
    AggregateFunction.SUM: _numeric,
    AggregateFunction.PRODUCT: _numeric,
    AggregateFunction.LISTAGG: _listagg,
    AggregateFunction.COLLECT: _collect,
    AggregateFunction.MERGE_MAP: _merge_map,
    AggregateFunction.MERGE_MAP_WITH_KEYTIME: _merge_map,
    AggregateFunction.NESTED_UPDATE: _nested,
    AggregateFunction.NESTED_PARTIAL_UPDATE: _nested,
    AggregateFunction.THETA_SKETCH: _bytes,
    AggregateFunction.RBM32: _bytes,
}
