"""`skerry joinable`: columns of the catalog that share values with a given one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.display import Field, count, print_records
from skerry.cli.options import catalog_options, json_option, open_catalog, table_argument

if TYPE_CHECKING:
    from skerry.table.statistics.joinable import JoinableColumn, JoinableColumns
    from skerry.theta.overlap import Proportion

__all__ = ["joinable"]


@click.command()
@table_argument
@click.argument("column", help="The column; a.b is a field of a struct.")
@click.option(
    "--min-containment",
    type=click.FloatRange(min=0.0, max=1.0),
    default=0.1,
    help="Leave out columns with less containment both ways.",
)
@click.option("--limit", "-n", type=click.IntRange(min=1), help="At most this many columns.")
@catalog_options
@json_option
def joinable(
    table: str,
    column: str,
    min_containment: float,
    limit: int | None,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Find columns of all tables that could be joined with a column, from sketches alone.

    Per column: the share of the given column's values that it contains, the share of its own values that the given
    column contains, the similarity of the two, each with bounds, and its distinct count.
    """
    found = open_catalog(warehouse, properties).joinable(table, column, min_containment=min_containment, limit=limit)
    print_records(
        [_describe(match) for match in found],
        [
            Field("table", "table", flexible=True),
            Field("column", "column", flexible=True),
            Field("type", "type", spare=True),
            Field("containment", "has of it", _share, right=True),
            Field("contained", "is in it", _share, right=True),
            Field("jaccard", "alike", _share, right=True, spare=True),
            Field("distinct", "distinct", count, right=True),
        ],
        as_json=as_json,
        title=f"{table}.{column}: about {round(found.ndv):,} distinct values",
        note=_note(found),
    )


def _describe(match: JoinableColumn) -> dict[str, Any]:
    shares = {"containment": match.containment, "contained": match.contained, "jaccard": match.jaccard}
    record: dict[str, Any] = {"table": match.table, "column": match.column, "type": str(match.type)}
    for name, share in shares.items():
        record |= _numbers(name, share)
    distinct = {
        "distinct": round(match.ndv),
        "distinct_lower": round(match.lower),
        "distinct_upper": round(match.upper),
    }
    return {**record, **distinct, "freshness": str(match.freshness)}


def _numbers(name: str, share: Proportion) -> dict[str, float]:
    found = {name: share.estimate, f"{name}_lower": share.lower, f"{name}_upper": share.upper}
    return {key: round(value, 6) for key, value in found.items()}


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _note(found: JoinableColumns) -> str:
    lines = [f"compared with {found.compared:,} columns of the same kind; bounds: --json"]
    reasons = Counter(without.reason for without in found.not_compared)
    lines += [f"left out {number:,}: {reason}" for reason, number in reasons.most_common(3)]
    return "\n".join(lines)
