"""`skerry compact`: rewrite many small files as a few large ones."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.cli.display import count, print_json, size
from skerry.cli.options import AsJson, DryRun, Properties, Ref, TableName, Warehouse, open_table, split_names
from skerry.table.work.progress import show_progress

if TYPE_CHECKING:
    from skerry.table.summaries import CompactSummary

__all__ = ["compact"]


def compact(
    table: TableName,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help="Only files that may hold rows for which this is true."),
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        typer.Option("--sort-by", metavar="COLUMN,COLUMN", help="Rewrite all files, sorted by these columns."),
    ] = None,
    z_order: Annotated[
        list[str] | None,
        typer.Option("--z-order", metavar="COLUMN,COLUMN", help="Rewrite all files, clustered along a Z-order curve."),
    ] = None,
    target_size: Annotated[
        int | None,
        typer.Option("--target-size", metavar="BYTES", min=1, help="The target size of files; default: the table's."),
    ] = None,
    min_files: Annotated[int, typer.Option(min=2, help="Rewrite small files if a partition has this many.")] = 5,
    keep_deletes: Annotated[
        bool, typer.Option("--keep-deletes", help="Do not rewrite files only to apply their deletes.")
    ] = False,
    full: Annotated[bool, typer.Option("--all", help="Rewrite every file.")] = False,
    ref: Ref = "main",
    dry_run: DryRun = False,
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite many data files as a few, with their deletes applied.

    Rows and statistics stay the same. If no file is worth rewriting, nothing is done.
    """
    opened = open_table(table, warehouse, properties)
    with show_progress("plan") as progress:
        summary = opened.compact(
            where,
            sort_by=split_names(sort_by) or None,
            z_order=split_names(z_order) or None,
            target_file_size_bytes=target_size,
            min_input_files=min_files,
            min_deletes=None if keep_deletes else 1,
            full=full,
            ref=ref,
            dry_run=dry_run,
            progress=progress,
        )
    if as_json:
        print_json({"table": opened.name, **dataclasses.asdict(summary)})
    else:
        _print_summary(opened.name, summary)


def _print_summary(name: str, summary: CompactSummary) -> None:
    would = "would be " if summary.dry_run else ""
    reasons = ", ".join(f"{number} for {reason}" for reason, number in summary.reasons.items())
    if not (summary.rewritten_files or summary.removed_delete_files):
        print(f"{name}: nothing to do")
    else:
        into = "" if summary.dry_run else f" into {count(summary.added_files)} ({size(summary.added_bytes)})"
        print(
            f"{name}: {count(summary.rewritten_files)} files ({size(summary.rewritten_bytes)}) {would}"
            f"rewritten{into}, in {count(summary.groups)} groups{f' ({reasons})' if reasons else ''}; "
            f"{count(summary.removed_delete_files)} delete files {would}removed"
        )
    if summary.conflicts:
        print(f"{count(summary.conflicts)} groups were left unchanged: other writers kept changing their rows")
