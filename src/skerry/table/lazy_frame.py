"""A table as a lazy frame of Polars, whose conditions, columns and limit become those of a scan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from skerry.errors import MissingDependencyError, SkerryError

if TYPE_CHECKING:
    import polars

    from skerry.table.table_scan import TableScan

__all__ = ["lazy_frame"]

_COMPARISONS: Final = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NAN_IS_LARGEST: Final = (">", ">=")


class _Scans(Protocol):
    """What a lazy frame asks of a table."""

    def __call__(
        self, columns: list[str] | None, where: str | None, *, parameters: list[Any] | None, limit: int | None
    ) -> TableScan: ...


def lazy_frame(scan: _Scans, schema: pa.Schema, name: str) -> polars.LazyFrame:
    """A lazy frame over scans.

    Args:
        scan: Makes a scan.
        schema: The columns of a scan of all of them.
        name: What plans call it.

    Raises:
        MissingDependencyError: Polars is not installed.
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise MissingDependencyError("lazy() needs the package polars") from error

    def read(
        columns: list[str] | None, predicate: polars.Expr | None, rows: int | None, batch_rows: int | None
    ) -> Iterator[polars.DataFrame]:
        wanted = None if columns is None else list(columns)
        needed = wanted
        if wanted is not None and predicate is not None:
            needed = wanted + [found for found in predicate.meta.root_names() if found not in wanted]
        condition = None if predicate is None else _condition(predicate, schema)
        limit = rows if predicate is None else None
        for batch in _scan(scan, needed, condition, limit).to_batches():
            frame = pl.DataFrame(pl.from_arrow(batch))
            if predicate is not None:  # what the condition cannot say
                frame = frame.filter(predicate)
            if wanted is not None:
                frame = frame.select(wanted)
            if rows is not None:
                frame = frame.head(rows)
                rows -= frame.height
            yield frame
            if rows == 0:
                return

    columns = pl.DataFrame(pl.from_arrow(schema.empty_table())).schema
    return register_io_source(read, schema=columns, explain_name="SKERRY", explain_detail=name)


def _scan(scan: _Scans, columns: list[str] | None, condition: _Condition | None, limit: int | None) -> TableScan:
    """A scan with a condition; without it where the values of the condition do not fit the columns."""
    if condition is not None:
        try:
            return scan(columns, condition.sql, parameters=condition.values, limit=limit)
        except SkerryError:
            pass
    return scan(columns, None, parameters=None, limit=limit)


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition that is true of every row of which an expression is.

    Args:
        sql: Its text.
        values: The values of its parameters.
        is_exact: Whether it is true of no other row, so that it may be negated.
    """

    sql: str
    values: list[Any]
    is_exact: bool = True


def _condition(predicate: polars.Expr, schema: pa.Schema) -> _Condition | None:
    """The part of an expression that scans understand; None if there is none.

    Polars does not promise the form of its serialized expressions: what is not as expected is left to Polars.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the form, see above
            tree = json.loads(predicate.meta.serialize(format="json"))
        return _translated(tree, schema)
    except Exception:  # noqa: BLE001  whatever Polars raises for expressions that it cannot serialize
        return None


def _translated(node: Any, schema: pa.Schema) -> _Condition | None:
    if not isinstance(node, dict) or len(node) != 1:
        return None
    ((kind, content),) = node.items()
    if kind == "Column" and pa.types.is_boolean(schema.field(content).type):
        return _Condition(_quoted(content), [])
    if kind == "BinaryExpr":
        return _binary(content, schema)
    return _function(content, schema) if kind == "Function" else None


def _binary(content: dict[str, Any], schema: pa.Schema) -> _Condition | None:
    left, operator, right = content["left"], content["op"], content["right"]
    if operator in ("And", "LogicalAnd", "Or", "LogicalOr"):
        sides = [_translated(left, schema), _translated(right, schema)]
        found = [side for side in sides if side is not None]
        both = len(found) == 2
        if not found or (not both and operator.endswith("Or")):
            return None
        if not both:
            return _Condition(found[0].sql, found[0].values, is_exact=False)
        word = " OR " if operator.endswith("Or") else " AND "
        values = [*found[0].values, *found[1].values]
        return _Condition(word.join(f"({side.sql})" for side in found), values, all(side.is_exact for side in found))
    sign = _COMPARISONS.get(operator)
    if sign is None:
        return None
    if "Column" in right:
        left, right, sign = right, left, _MIRRORED[sign]
    if "Column" not in left or "Literal" not in right:
        return None
    value = _literal(right)
    return None if value is None else _compared(left["Column"], sign, value, schema)


def _compared(name: str, sign: str, value: Any, schema: pa.Schema) -> _Condition:
    column = _quoted(name)
    if pa.types.is_floating(schema.field(name).type) and sign in _NAN_IS_LARGEST:
        return _Condition(f"{column} {sign} ? OR {column} IS NAN", [value], is_exact=False)
    return _Condition(f"{column} {sign} ?", [value])


def _function(content: dict[str, Any], schema: pa.Schema) -> _Condition | None:
    inputs, function = content["input"], content["function"]
    if function == {"Boolean": "Not"}:
        inner = _translated(inputs[0], schema)
        return _Condition(f"NOT ({inner.sql})", inner.values) if inner is not None and inner.is_exact else None
    if "Column" not in inputs[0]:
        return None
    column = _quoted(inputs[0]["Column"])
    values = [_literal(node) for node in inputs[1:]]
    match function:
        case {"Boolean": "IsNull"}:
            return _Condition(f"{column} IS NULL", [])
        case {"Boolean": "IsNotNull"}:
            return _Condition(f"{column} IS NOT NULL", [])
        case {"StringExpr": "StartsWith"} if isinstance(values[0], str):
            return _Condition(f"starts_with({column}, ?)", values)
        case {"Boolean": {"IsBetween": {"closed": "Both"}}} if None not in values:
            low = _compared(inputs[0]["Column"], ">=", values[0], schema)
            return _Condition(f"({low.sql}) AND {column} <= ?", values, low.is_exact)
        case {"Boolean": {"IsIn": {"nulls_equal": False}}} if values[0] and None not in values[0]:
            marks = ", ".join("?" * len(values[0]))
            return _Condition(f"{column} IN ({marks})", list(values[0]))
    return None


def _literal(node: Any) -> Any:
    """The value of a literal, a list for a list; None if it is null or Python's type would lose digits."""
    import polars as pl

    series = pl.select(pl.Expr.deserialize(json.dumps(node).encode(), format="json")).to_series()
    type_ = series.dtype.inner if isinstance(series.dtype, pl.List) else series.dtype
    if isinstance(type_, pl.Datetime | pl.Duration) and type_.time_unit == "ns":
        return None
    value = series.to_list()[0]
    return None if isinstance(value, float) and value != value else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
