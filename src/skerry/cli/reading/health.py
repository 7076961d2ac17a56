"""`skerry health`: what slows a table down or wastes space, and the call that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from skerry.cli.display import Field, count, is_terminal, print_records
from skerry.cli.options import catalog_options, json_option, open_table, table_argument
from skerry.cli.wording import in_commands

if TYPE_CHECKING:
    from skerry.table.inspection.health import Finding

__all__ = ["health"]


@click.command()
@table_argument
@click.option(
    "--orphans/--no-orphans",
    default=True,
    help="Estimate orphans, which lists the table's folder and reads all manifests.",
)
@catalog_options
@json_option
def health(table: str, orphans: bool, warehouse: str, properties: tuple[str, ...], as_json: bool) -> None:
    """Check a table: small files, deletes, skew, statistics, snapshots, metadata, orphans."""
    opened = open_table(table, warehouse, properties)
    found = opened.health(orphans=orphans)
    wrong = sum(not finding.ok for finding in found)
    print_records(
        [_record(finding, brief=is_terminal() and not as_json) for finding in found],
        [
            Field("check", "check", style=_style),
            Field("ok", "", lambda ok: "" if ok else "✗", style=_style),
            Field("number", "found", _number, right=True, style=_style),
            Field("unit", "unit", style=_style, spare=True),
            Field("limit", "limit", _number, right=True, style=_style, spare=True),
            Field("detail", "detail", flexible=True),
            Field("why", "why it matters", flexible=True, spare=True),
            Field("call", "what mends it", in_commands, flexible=True),
        ],
        as_json=as_json,
        note=f"{wrong} of {len(found)} checks want something done" if wrong else "nothing to do",
    )


def _record(finding: Finding, *, brief: bool) -> dict[str, Any]:
    """A finding; a brief one gives advice only where something is to be done."""
    advises = not (brief and finding.ok)
    return {
        "check": finding.check,
        "ok": finding.ok,
        "number": finding.number,
        "unit": finding.unit,
        "limit": finding.limit,
        "detail": finding.detail,
        "why": finding.why if advises else "",
        "call": finding.call if advises else "",
    }


def _style(record: Any) -> str:
    return "dim" if record["ok"] else "bold"


def _number(value: float) -> str:
    return count(int(value)) if value == int(value) else f"{value:.3g}"
