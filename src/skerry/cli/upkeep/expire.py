"""`skerry expire`: remove old snapshots and the files that only they reference."""

from __future__ import annotations

import click

from skerry.cli.display import count, print_json, size
from skerry.cli.options import catalog_options, dry_run_option, json_option, moment_of, open_table, table_argument
from skerry.table.work.progress import show_progress

__all__ = ["expire"]


@click.command()
@table_argument
@click.option("--keep-last", type=click.IntRange(min=1), metavar="N", help="Keep each branch's newest N, however old.")
@click.option("--older-than", metavar="TIME|AGE", help="Only snapshots older than a time or an age such as 7d.")
@dry_run_option
@catalog_options
@json_option
def expire(
    table: str,
    keep_last: int | None,
    older_than: str | None,
    dry_run: bool,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Remove old snapshots, and delete the files that only they reference.

    Without options the table's properties history.expire.* decide; by default the newest snapshot of every branch and
    those of the last five days are kept. Tags keep the snapshots that they name.
    """
    opened = open_table(table, warehouse, properties)
    moment = None if older_than is None else moment_of(older_than, "--older-than")
    with show_progress("read metadata") as progress:
        summary = opened.expire_snapshots(keep_last=keep_last, older_than=moment, dry_run=dry_run, progress=progress)
    if as_json:
        print_json(
            {
                "table": opened.name,
                "dry_run": dry_run,
                "snapshots": summary.snapshot_ids,
                "refs": summary.refs,
                "size_bytes": summary.size_bytes,
                "files": [
                    {"file": file.location, "kind": file.kind.value, "size_bytes": file.size_bytes}
                    for file in summary.files
                ],
                "kept_outside": [file.location for file in summary.kept_outside],
            }
        )
        return
    if not summary.snapshot_ids and not summary.refs:
        print(f"{opened.name}: nothing to do")
        return
    would, expired = ("would be ", "would expire") if dry_run else ("", "expired")
    dropped = f", {', '.join(summary.refs)} {would}dropped" if summary.refs else ""
    outside = f"; {count(len(summary.kept_outside))} files elsewhere kept" if summary.kept_outside else ""
    print(
        f"{opened.name}: {count(len(summary.snapshot_ids))} snapshots {expired}{dropped}, "
        f"{count(len(summary.files))} files ({size(summary.size_bytes)}) {would}deleted{outside}"
    )
