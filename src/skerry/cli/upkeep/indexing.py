"""`skerry index`, `skerry search`: index the columns of a table, and find rows by words."""

from __future__ import annotations

import dataclasses
import sys

import click

from skerry.cli.display import count, is_terminal, print_json, size
from skerry.cli.options import (
    catalog_options,
    columns_option,
    json_option,
    open_table,
    split_names,
    table_argument,
)
from skerry.cli.rows import TERMINAL_ROWS, print_rows
from skerry.table.work.progress import show_progress

__all__ = ["index", "search"]


@click.command()
@table_argument
@click.option("--columns", "-c", multiple=True, metavar="NAME,NAME", help="Index these columns, too.")
@click.option(
    "--kind", type=click.Choice(["hash", "text", "btree"]), default="hash", help="By value, words, or ranges."
)
@click.option(
    "--tokenizer",
    type=click.Choice(["unicode-word", "unicode-log", "trivial"]),
    help="What a word is; unicode-word if not given.",
)
@catalog_options
@json_option
def index(
    table: str,
    columns: tuple[str, ...],
    kind: str,
    tokenizer: str | None,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Build the indexes that data files lack, those of other writers too.

    Later commits of skerry index what they write.
    """
    opened = open_table(table, warehouse, properties)
    with show_progress("index") as progress:
        if columns:
            summary = opened.create_index(split_names(columns), kind=kind, tokenizer=tokenizer, progress=progress)
        else:
            summary = opened.index(progress=progress)
    indexes = opened.indexes()
    if as_json:
        listed = [dataclasses.asdict(each) for each in indexes]
        print_json({"table": opened.name, **dataclasses.asdict(summary), "indexes": listed})
        return
    print(f"{opened.name}: {count(summary.files)} data files indexed ({size(summary.size_bytes)})")
    for each in indexes:
        kind = each.kind if each.tokenizer is None else f"{each.kind}, {each.tokenizer}"
        print(f"  {each.column} ({kind}): {count(each.indexed_files)} of {count(each.files)} files")


@click.command()
@table_argument
@click.argument("column", help="A column of texts; a.b is a field of a struct.")
@click.argument("query", help="Words, as described above.")
@click.option("--where", metavar="CONDITION", help="Only rows for which this SQL condition is true, too.")
@columns_option
@click.option("--limit", "-n", type=click.IntRange(min=0), help="At most this many rows; default in a terminal: 20.")
@click.option("--snapshot", type=int, help="Search this snapshot.")
@click.option("--count", "counts", is_flag=True, help="Print how many rows there are.")
@click.option("--follow", "-f", "follows", is_flag=True, help="Go on with the rows that later commits add.")
@catalog_options
@json_option
def search(
    table: str,
    column: str,
    query: str,
    where: str | None,
    columns: tuple[str, ...],
    limit: int | None,
    snapshot: int | None,
    counts: bool,
    follows: bool,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print rows whose COLUMN has words, those of the newest files first; in a terminal the words stand out.

    QUERY has words that must all be there, "phrases" in double quotes, AND, OR, NOT, brackets, and pre* for words that
    begin so. A text index makes it fast (skerry index TABLE -c COLUMN --kind text).
    """
    opened = open_table(table, warehouse, properties)
    if counts and follows:
        raise click.UsageError("--count and --follow exclude each other")
    if counts:
        number = opened.search_count(column, query, where=where, snapshot=snapshot)
        print_json({"table": opened.name, "rows": number}) if as_json else print(count(number))
        return
    from skerry.table.indexes.word_search import WordSearch

    only_some = limit is None and is_terminal() and not as_json
    chosen = split_names(columns) or None
    words = WordSearch.of(opened.schema, opened.properties, column, query)
    marks = {words.leaf.name: words.spans}
    later = opened.follow(column, query, columns=chosen, where=where) if follows else ()
    found = opened.search(
        column,
        query,
        columns=chosen,
        where=where,
        limit=TERMINAL_ROWS + 1 if only_some else limit,
        snapshot=snapshot,
    )
    print_rows(found, as_json=as_json, at_most=TERMINAL_ROWS if only_some else None, marks=marks)
    for new in later:
        print_rows(new, as_json=as_json, at_most=None, marks=marks, header=False)
        sys.stdout.flush()
