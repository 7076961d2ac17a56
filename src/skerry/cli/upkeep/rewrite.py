"""`skerry rewrite-manifests`, `rewrite-deletes`, `rewrite-file-indexes`: new metadata, deletes, indexes; same rows."""

from __future__ import annotations

import dataclasses

import click

from skerry.cli.display import count, print_json, size
from skerry.cli.options import catalog_options, dry_run_option, json_option, open_table, ref_option, table_argument
from skerry.table.work.progress import show_progress

__all__ = ["rewrite_deletes", "rewrite_file_indexes", "rewrite_manifests"]


@click.command()
@table_argument
@click.option("--all", "full", is_flag=True, help="Also rewrite well clustered manifests.")
@ref_option
@dry_run_option
@catalog_options
@json_option
def rewrite_manifests(
    table: str, full: bool, ref: str, dry_run: bool, warehouse: str, properties: tuple[str, ...], as_json: bool
) -> None:
    """Rewrite many manifests as a few, with the files of a partition together, so that planning reads less.

    Rows, data files and statistics stay the same.
    """
    opened = open_table(table, warehouse, properties)
    with show_progress("rewrite manifests"):
        summary = opened.rewrite_manifests(full=full, ref=ref, dry_run=dry_run)
    if as_json:
        print_json({"table": opened.name, **dataclasses.asdict(summary)})
        return
    if not summary.rewritten_manifests:
        print(f"{opened.name}: nothing to do")
        return
    would = "would be " if dry_run else ""
    into = "" if dry_run else f" into {count(summary.added_manifests)} ({size(summary.added_bytes)})"
    print(
        f"{opened.name}: {count(summary.rewritten_manifests)} manifests ({size(summary.rewritten_bytes)}) {would}"
        f"rewritten{into}; {count(summary.kept_manifests)} kept"
    )


@click.command()
@table_argument
@click.option(
    "--min-files",
    type=click.IntRange(min=2),
    default=2,
    help="Merge this many delete files of a data file or more; format version 3 ignores this.",
)
@ref_option
@dry_run_option
@catalog_options
@json_option
def rewrite_deletes(
    table: str, min_files: int, ref: str, dry_run: bool, warehouse: str, properties: tuple[str, ...], as_json: bool
) -> None:
    """Merge the delete files of each data file, and drop those that no data file needs.

    Data files are neither read nor written; `skerry compact` applies deletes to them.
    """
    opened = open_table(table, warehouse, properties)
    with show_progress("plan") as progress:
        summary = opened.rewrite_deletes(min_input_files=min_files, ref=ref, dry_run=dry_run, progress=progress)
    if as_json:
        print_json({"table": opened.name, **dataclasses.asdict(summary)})
        return
    if not (summary.rewritten_delete_files or summary.removed_delete_files):
        print(f"{opened.name}: nothing to do")
        return
    would = "would be " if dry_run else ""
    into = "" if dry_run else f" into {count(summary.added_delete_files)}"
    print(
        f"{opened.name}: {count(summary.rewritten_delete_files)} delete files of {count(summary.data_files)} "
        f"data files {would}rewritten{into}; {count(summary.removed_delete_files)} {would}dropped"
    )


@click.command()
@table_argument
@click.option("--where", metavar="CONDITION", help="Only these partitions: a condition on partition keys.")
@click.option("--all", "full", is_flag=True, help="Also read files that have these indexes.")
@ref_option
@dry_run_option
@catalog_options
@json_option
def rewrite_file_indexes(
    table: str,
    where: str | None,
    full: bool,
    ref: str,
    dry_run: bool,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Give data files the indexes that the table's options file-index.* ask for; Paimon tables only.

    Only the indexed columns are read, and no data file is written.
    """
    opened = open_table(table, warehouse, properties)
    with show_progress("rewrite file indexes") as progress:
        summary = opened.rewrite_file_indexes(where, full=full, ref=ref, dry_run=dry_run, progress=progress)
    if as_json:
        print_json({"table": opened.name, **dataclasses.asdict(summary)})
        return
    if not summary.data_files:
        print(f"{opened.name}: nothing to do")
        return
    would = "would be " if dry_run else ""
    print(
        f"{opened.name}: {count(summary.data_files)} data files ({size(summary.read_bytes)}) {would}indexed"
        f"{'' if dry_run else f', {count(summary.index_files)} of them by files of their own'}"
    )
