"""`skerry scan`: print rows of a table."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skerry.cli.display import Field, count, is_terminal, print_json, print_records, to_json
from skerry.cli.options import AsJson, Columns, Properties, TableName, Warehouse, open_table, split_names

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.iceberg.reading.scan import Explanation

__all__ = ["scan"]

_TERMINAL_ROWS = 20
_MAX_CELL = 40
_COLUMN_GAP = 3


def scan(
    table: TableName,
    where: Annotated[
        str | None, typer.Option("--where", metavar="CONDITION", help="Only rows for which this SQL condition is true.")
    ] = None,
    columns: Columns = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, help="At most this many rows; default in a terminal: 20."),
    ] = None,
    snapshot: Annotated[int | None, typer.Option(help="Read this snapshot.")] = None,
    ref: Annotated[str | None, typer.Option(help="Read the tip of this branch or tag.")] = None,
    as_of: Annotated[
        datetime.datetime | None, typer.Option(metavar="TIME", help="Read the table as of this time (UTC).")
    ] = None,
    count_rows: Annotated[bool, typer.Option("--count", help="Print only the number of rows.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what would be read, and why the rest is skipped.")
    ] = False,
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Print rows of a table.

    A terminal shows a table, a pipe gets tab-separated values, and --json prints one object per line.
    """
    opened = open_table(table, warehouse, properties)
    only_some = limit is None and is_terminal() and not (as_json or count_rows or explain)
    described = opened.scan(
        split_names(columns) or None,
        where,
        limit=_TERMINAL_ROWS + 1 if only_some else limit,
        snapshot=snapshot,
        ref=ref,
        as_of=as_of,
    )
    if explain:
        explanation = described.explain()
        print_json(_funnel(explanation)) if as_json else print(explanation)
    elif count_rows:
        rows = described.count()
        print_json({"rows": rows}) if as_json else print(rows)
    elif as_json:
        for batch in described.to_batches():
            print("\n".join(to_json(row) for row in _objects(batch)))
    elif is_terminal():
        _print_table(described.to_arrow(), only_some)
    else:
        _print_plain(described.to_batches())


def _funnel(explanation: Explanation) -> dict[str, Any]:
    plan = explanation.plan
    return {
        "table": explanation.table,
        "snapshot": explanation.snapshot_id,
        "columns": list(explanation.columns),
        "where": explanation.where,
        "limit": explanation.limit,
        "steps": [
            {
                "step": step.name,
                "kept": step.kept,
                "total": step.total,
                "kept_rows": step.kept_rows,
                "total_rows": step.total_rows,
                "dropped": [{"reason": reason, "count": number} for reason, number in step.dropped],
            }
            for step in plan.steps
        ],
        "files": len(plan.tasks),
        "size_bytes": plan.tasks.size_bytes,
        "tasks": explanation.split_count,
    }


# ---- rows ----


def _objects(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows as JSON objects."""
    import pyarrow as pa

    columns = [
        column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column  # nanoseconds have no Python type
        for column in batch.columns
    ]
    for row in zip(*(column.to_pylist() for column in columns), strict=True):
        yield dict(zip(batch.schema.names, row, strict=True))


def _print_plain(batches: pa.RecordBatchReader) -> None:
    """Print tab-separated values, converting a whole column to text at a time."""
    import pyarrow.compute as pc

    print("\t".join(batches.schema.names))
    for batch in batches:
        columns = [pc.fill_null(_escaped(_as_text(column)), "") for column in batch.columns]
        print("\n".join(pc.binary_join_element_wise(*columns, "\t").to_pylist()))


def _as_text(column: pa.Array) -> pa.Array:
    """A column's values as text; nulls stay null."""
    import pyarrow as pa

    type_ = column.type
    if pa.types.is_string(type_):
        return column
    if pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        values = (None if value is None else to_json(value).strip('"') for value in column.to_pylist())
        return pa.array(values, pa.string())
    if isinstance(type_, pa.BaseExtensionType):
        return pa.array((None if value is None else str(value) for value in column.to_pylist()), pa.string())
    return column.cast(pa.string())


def _escaped(column: pa.Array) -> pa.Array:
    """Text with the characters escaped that would break a line of tab-separated values."""
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(column, r"[\\\t\n\r]")).as_py():
        return column
    for character, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        column = pc.replace_substring(column, character, escape)
    return column


def _print_table(rows: pa.Table, only_some: bool) -> None:
    """Print as many columns as fit the terminal."""
    import pyarrow as pa

    has_more = only_some and rows.num_rows > _TERMINAL_ROWS
    rows = rows.slice(0, _TERMINAL_ROWS).combine_chunks() if has_more else rows.combine_chunks()
    width = shutil.get_terminal_size().columns - _COLUMN_GAP - 1
    fields: list[Field] = []
    cells: list[list[str | None]] = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        texts = [_cut(value) for chunk in column.chunks for value in _as_text(chunk).to_pylist()]
        width -= max([len(name), *(len(value or "null") for value in texts)]) + _COLUMN_GAP
        if width < 0 and fields:
            break
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        fields.append(_value_field(str(len(fields)), name, is_number or pa.types.is_decimal(column.type)))
        cells.append(texts)
    hidden = rows.num_columns - len(fields)
    if hidden:
        fields.append(Field("…", "…"))
    records = [
        {str(number): value for number, value in enumerate(row)} | {"…": "…"} for row in zip(*cells, strict=True)
    ]
    notes = []
    if has_more:
        notes.append(f"first {_TERMINAL_ROWS} rows; --limit or a pipe gives more")
    if hidden:
        notes.append(f"{count(hidden)} of {count(rows.num_columns)} columns hidden; choose with --columns")
    print_records(records, fields, as_json=False, note="\n".join(notes))


def _value_field(key: str, title: str, right: bool) -> Field:
    return Field(
        key,
        title,
        show=lambda value: "null" if value is None else value,
        right=right,
        style=lambda record: "dim" if record[key] is None else "",
    )


def _cut(value: str | None) -> str | None:
    if value is None:
        return None
    line = value.replace("\n", "⏎").replace("\t", " ")
    return line if len(line) <= _MAX_CELL else line[: _MAX_CELL - 1] + "…"
