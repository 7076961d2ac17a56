"""Rows that are found by words as commits add them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.table.arguments import SearchOptions
from skerry.table.indexes.word_search import WordSearch

if TYPE_CHECKING:
    from skerry.table.readable import ReadableTable

__all__ = ["follow"]

_NEW: Final = pa.array(["INSERT", "UPDATE_AFTER"])


def follow(table: ReadableTable, options: SearchOptions, every_s: float) -> Iterator[pa.Table]:
    """Find rows by words as they come; see `skerry.table.searchable.SearchableTable.follow`."""
    words = WordSearch.of(table.schema, table.properties, options.column, options.query)
    wanted = table.scan(options.columns, where=options.where).schema
    last = _current(table) if options.snapshot is None else options.snapshot
    return _follow(table, options, (words, wanted), last, every_s)


def _follow(
    table: ReadableTable,
    options: SearchOptions,
    what: tuple[WordSearch, pa.Schema],
    last: int | None,
    every_s: float,
) -> Iterator[pa.Table]:
    words, wanted = what
    columns = None if options.columns is None else [*dict.fromkeys([*options.columns, words.leaf.name])]
    while True:
        table.refresh()
        current = _current(table)
        if current is not None and current != last:
            changes = table.changes(last, current, columns=columns, where=options.where).to_batches()
            new = (batch.filter(pc.is_in(batch["_change_type"], _NEW)) for batch in changes)
            found = words.table(map(words.matching, new), wanted, options.limit)
            last = current
            if found.num_rows:
                yield found
        else:
            time.sleep(every_s)


def _current(table: ReadableTable) -> int | None:
    snapshot = table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id
