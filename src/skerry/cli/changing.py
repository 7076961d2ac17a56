"""`skerry delete` and `skerry upsert`: changing the rows of a table."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skerry.cli.display import count, print_json
from skerry.cli.options import AsJson, Properties, Ref, TableName, Warehouse, open_table, split_names
from skerry.table.work.progress import show_progress

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.table.summaries import RowChanges

__all__ = ["delete", "upsert"]


def delete(
    table: TableName,
    where: Annotated[
        str, typer.Option("--where", metavar="CONDITION", help="The rows for which this SQL condition is true.")
    ],
    ref: Ref = "main",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell how many rows there are.")] = False,
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Delete rows.

    Data files are written anew or marked, as the table property write.delete.mode says; files all of whose rows go are
    dropped unread.
    """
    opened = open_table(table, warehouse, properties)
    if dry_run:
        rows = opened.scan(where=where, ref=ref).count()
        print_json({"table": opened.name, "rows": rows}) if as_json else print(
            f"{opened.name}: {count(rows)} rows would be deleted"
        )
        return
    with show_progress("find") as watcher:
        done = opened.delete(where, ref=ref, progress=watcher)
    _print(opened.name, done, as_json)


def upsert(
    table: TableName,
    source: Annotated[
        Path,
        typer.Argument(exists=True, help="A file or folder of Parquet, ORC, Arrow, CSV or JSON lines, by its ending."),
    ],
    on: Annotated[list[str], typer.Option("--on", metavar="COLUMN,COLUMN", help="The key columns.")],
    blind: Annotated[
        bool, typer.Option("--blind", help="Do not look at the table: delete keys whether they are there or not.")
    ] = False,
    ref: Ref = "main",
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Update the rows that have the keys of new rows, and insert the others.

    The new rows are held in memory. Data files are written anew or marked, as the table property write.merge.mode says.
    """
    opened = open_table(table, warehouse, properties)
    with show_progress("match") as watcher:
        done = opened.upsert(_read(source, opened.schema), split_names(on), blind=blind, ref=ref, progress=watcher)
    _print(opened.name, done, as_json)


def _print(name: str, done: RowChanges, as_json: bool) -> None:
    if as_json:
        print_json({"table": name, **dataclasses.asdict(done)})
        return
    counts = {"inserted": done.inserted_rows, "updated": done.updated_rows, "deleted": done.deleted_rows}
    rows = ", ".join(f"{count(number)} {what}" for what, number in counts.items() if number) or "nothing to change"
    looked = "" if done.updated_rows is not None else " (of what they replace, nothing was looked at)"
    print(
        f"{name}: {rows}{looked}; {count(done.added_files)} files and {count(done.added_delete_files)} delete files "
        f"written, {count(done.removed_files)} files removed"
    )


_ENDINGS = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
}


def _read(source: Path, schema: pa.Schema) -> Any:
    """The rows of a file, or of all files of a folder that have the ending of its first."""
    from pyarrow import csv, dataset

    from skerry.errors import FormatError, UnsupportedError

    first = source if source.is_file() else next((path for path in sorted(source.rglob("*")) if path.is_file()), source)
    kind = _ENDINGS.get(first.suffix.lower())
    if kind is None:
        raise UnsupportedError(f"files named *{first.suffix} are not read; use one of {', '.join(_ENDINGS)}")
    try:
        if kind == "csv":  # its text is read as the table's types
            convert = csv.ConvertOptions(
                column_types={field.name: field.type for field in schema}, strings_can_be_null=True
            )
            return dataset.dataset(source, format=dataset.CsvFileFormat(convert_options=convert)).to_table()
        return dataset.dataset(source, format=kind).to_table()
    except (OSError, ValueError) as error:  # what PyArrow raises
        raise FormatError(f"the source cannot be read: {error}", location=str(source)) from error
