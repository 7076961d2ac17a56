"""`skerry compact`: rewrite many small files as a few large ones."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from skerry.cli.display import count, print_json, size
from skerry.cli.options import (
    catalog_options,
    dry_run_option,
    json_option,
    open_table,
    ref_option,
    split_names,
    table_argument,
)
from skerry.table.work.progress import show_progress

if TYPE_CHECKING:
    from skerry.table.summaries import CompactSummary

__all__ = ["compact"]


@click.command()
@table_argument
@click.option("--where", metavar="CONDITION", help="Only files that may hold rows for which this is true.")
@click.option("--sort-by", multiple=True, metavar="COLUMN,COLUMN", help="Rewrite all files, sorted by these columns.")
@click.option(
    "--z-order", multiple=True, metavar="COLUMN,COLUMN", help="Rewrite all files, clustered along a Z-order curve."
)
@click.option(
    "--hilbert", multiple=True, metavar="COLUMN,COLUMN", help="Rewrite all files, clustered along a Hilbert curve."
)
@click.option(
    "--target-size", type=click.IntRange(min=1), metavar="BYTES", help="The target size of files; default: the table's."
)
@click.option(
    "--min-files", type=click.IntRange(min=2), default=5, help="Rewrite small files if a partition has this many."
)
@click.option("--keep-deletes", is_flag=True, help="Do not rewrite files only to apply their deletes.")
@click.option("--all", "full", is_flag=True, help="Rewrite every file.")
@ref_option
@dry_run_option
@catalog_options
@json_option
def compact(
    table: str,
    where: str | None,
    sort_by: tuple[str, ...],
    z_order: tuple[str, ...],
    hilbert: tuple[str, ...],
    target_size: int | None,
    min_files: int,
    keep_deletes: bool,
    full: bool,
    ref: str,
    dry_run: bool,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
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
            hilbert=split_names(hilbert) or None,
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
