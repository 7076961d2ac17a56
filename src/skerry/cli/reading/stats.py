"""`skerry stats`: column statistics and how fresh they are."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.display import Field, count, print_records, text
from skerry.cli.options import catalog_options, columns_option, json_option, open_table, split_names, table_argument

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.table.statistics.column_statistics import ColumnStatistics

__all__ = ["stats"]

_MAX_BOUND = 19
_COLOURS = {"fresh": "green", "upper bound": "yellow", "stale": "yellow", "absent": "dim"}


@click.command()
@table_argument
@columns_option
@click.option("--where", metavar="CONDITION", help="Only for rows for which this is true; no data is read.")
@catalog_options
@json_option
def stats(
    table: str, columns: tuple[str, ...], where: str | None, warehouse: str, properties: tuple[str, ...], as_json: bool
) -> None:
    """Show column statistics and how fresh they are.

    Per column: the distinct count with its bounds, nulls, minimum and maximum, and whether the count is fresh, an upper
    bound, stale or absent, and why.
    """
    from skerry.table.rows.schema import leaf, leaves

    opened = open_table(table, warehouse, properties)
    types = {found.name: found.type for found in leaves(opened.schema)}
    wanted = [leaf(opened.schema, name).name for name in split_names(columns) or types]
    statistics = opened.statistics(where)
    print_records(
        [_describe(statistics[name], types[name]) for name in wanted],
        [
            Field("column", "column"),
            Field("distinct", "distinct", count, right=True),
            Field("lower", "at least", count, right=True, spare=True),
            Field("upper", "at most", count, right=True, spare=True),
            Field("nulls", "nulls", count, right=True),
            Field("min", "min", _shortened, flexible=True, spare=True),
            Field("max", "max", _shortened, flexible=True, spare=True),
            Field("freshness", "freshness", flexible=True, style=lambda record: _COLOURS.get(record["state"], "")),
        ],
        as_json=as_json,
        note="at least, at most: with 95 % confidence; nulls, min and max: of the data files",
    )


def _describe(column: ColumnStatistics, type_: pa.DataType) -> dict[str, Any]:
    return {
        "column": column.column,
        "type": str(type_),
        "distinct": _whole(column.ndv),
        "lower": _whole(column.lower),
        "upper": _whole(column.upper),
        "nulls": column.null_count,
        "min": column.min,
        "max": column.max,
        "freshness": str(column.freshness),
        "state": column.freshness.state.value,
        "reason": column.freshness.reason or None,
    }


def _shortened(value: Any) -> str:
    """A bound in a terminal; times are in UTC."""
    shown = str(value.replace(tzinfo=None)) if isinstance(value, datetime.datetime) else text(value)
    return shown if len(shown) <= _MAX_BOUND else shown[: _MAX_BOUND - 1] + "…"


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
