"""`skerry changes`: print what happened to the rows of a table between two snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skerry.cli.display import is_terminal
from skerry.cli.options import catalog_options, columns_option, json_option, open_table, split_names, table_argument
from skerry.cli.rows import TERMINAL_ROWS, print_rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["changes"]


@click.command()
@table_argument
@click.option("--from", "start", metavar="SNAPSHOT|REF", help="Changes after this snapshot; default: all.")
@click.option("--to", "end", metavar="SNAPSHOT|REF", help="Changes up to this snapshot; default: the current one.")
@click.option("--where", metavar="CONDITION", help="Only rows for which this SQL condition is true.")
@columns_option
@click.option("--on", multiple=True, metavar="COLUMN,COLUMN", help="Columns that identify a row.")
@click.option("--limit", "-n", type=click.IntRange(min=0), help="At most this many; default in a terminal: 20.")
@catalog_options
@json_option
def changes(
    table: str,
    start: str | None,
    end: str | None,
    where: str | None,
    columns: tuple[str, ...],
    on: tuple[str, ...],
    limit: int | None,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print the rows that were inserted, updated and deleted between two snapshots.

    Only files that have changed are read. With --on, or columns that identify rows, an update is printed as the row
    before and after.
    """
    opened = open_table(table, warehouse, properties)
    found = opened.changes(
        _snapshot(start), _snapshot(end), columns=split_names(columns) or None, where=where, on=split_names(on) or None
    )
    if as_json or not is_terminal():
        print_rows(found if limit is None else _first(found.to_batches(), limit), as_json=as_json, at_most=None)
        return
    rows = _first(found.to_batches(), TERMINAL_ROWS + 1 if limit is None else limit)
    if not columns:  # what happened is told first: not all columns have room
        rows = rows.select(sorted(rows.column_names, key=lambda name: name != "_change_type"))
    print_rows(rows, as_json=False, at_most=TERMINAL_ROWS if limit is None else None)


def _snapshot(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text


def _first(reader: pa.RecordBatchReader, rows: int) -> pa.Table:
    """The first rows of a stream, of which no more is read."""
    import pyarrow as pa

    found = list[pa.RecordBatch]()
    while rows > 0 and (batch := next(reader, None)) is not None:
        found.append(batch.slice(0, rows))
        rows -= batch.num_rows
    return pa.Table.from_batches(found, reader.schema)
