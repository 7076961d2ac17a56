"""Predicates on rows: parsed from SQL, PyArrow expressions or filters, evaluated on rows or on metrics of files.

`parse` reads SQL text, a PyArrow expression or filters in lists, and binds it to a schema; `row_mask` tests rows;
`evaluate` says from metrics alone which of many files (or manifests, partitions, row groups) may contain matching rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, UnsupportedError
from skerry.filters import Filters, as_expression, parse_comparisons
from skerry.table.predicate.arrow import parse_expression, row_mask
from skerry.table.predicate.binding import bind
from skerry.table.predicate.nodes import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    And,
    Column,
    Comparison,
    Constant,
    Holds,
    In,
    IntersectsExtent,
    IsMinusZero,
    IsNaN,
    IsNull,
    Operator,
    Or,
    Predicate,
    StartsWith,
    columns_of,
    conjunction,
    conjuncts_of,
    disjunction,
)
from skerry.table.predicate.pruning import FieldMetrics, Verdict, evaluate
from skerry.table.predicate.sql import parse_condition

__all__ = [
    "ALWAYS_FALSE",
    "ALWAYS_TRUE",
    "And",
    "Column",
    "Comparison",
    "Constant",
    "FieldMetrics",
    "Holds",
    "In",
    "IntersectsExtent",
    "IsMinusZero",
    "IsNaN",
    "IsNull",
    "Operator",
    "Or",
    "Predicate",
    "StartsWith",
    "Verdict",
    "columns_of",
    "conjunction",
    "conjuncts_of",
    "disjunction",
    "evaluate",
    "parse",
    "row_mask",
]


def parse(where: str | Filters | Predicate | None, schema: pa.Schema) -> Predicate:
    """Parse a condition and bind it to the columns of a schema.

    Args:
        where: SQL text as after WHERE (see `skerry.table.predicate.sql.parse_condition`), a PyArrow expression, lists
            of `(column, operator, value)` (see `skerry.filters`; they mean what the expression made from them means),
            a predicate (returned unchanged), or None for every row.
        schema: Fields carry `PARQUET:field_id`.

    Returns:
        The predicate that holds exactly for the rows for which the condition is true: for text by SQL's rules, for an
        expression by PyArrow's. They differ for NaN, which is the greatest value in SQL and compares false in PyArrow,
        and for numbers compared with a float column, which are converted to its type in SQL but not in PyArrow.

    Raises:
        FormatError: The text is not a condition.
        SchemaError: A column does not exist (the message proposes the nearest), or a literal does not fit its column.
        UnsupportedError: The condition uses a feature that is not supported; the message names it and its position.
    """
    if where is None:
        return ALWAYS_TRUE
    if isinstance(where, Predicate):
        return where
    try:
        if isinstance(where, str):
            return bind(parse_condition(where), schema, text=where)
        if isinstance(where, list | tuple):
            where = as_expression(parse_comparisons(where), schema)
        if isinstance(where, pc.Expression):
            return bind(parse_expression(where), schema, ieee=True)
    except RecursionError:
        raise UnsupportedError("the condition is nested too deeply") from None
    raise SchemaError(
        "a condition must be SQL text, a PyArrow expression or a list of (column, operator, value), "
        f"found {type(where).__name__}"
    )
