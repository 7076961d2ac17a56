"""Searching a column for words: candidates by text indexes, then the values themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from skerry.amudai.indexes.text_queries import matching_values, parse_query
from skerry.amudai.indexes.tokenizers import Tokenizer
from skerry.errors import NotFoundError, SchemaError
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.reading.scan import scan
from skerry.table.arguments import Condition
from skerry.table.indexes.definitions import IndexKind, index_definitions
from skerry.table.indexes.finding import TableIndexes
from skerry.table.rows.schema import field_id, nearest

__all__ = ["search"]


def search(
    state: TableState,
    column: str,
    query: str,
    *,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    limit: int | None = None,
    snapshot: int | None = None,
    threads: int | None = None,
) -> pa.Table:
    """Find rows by words; see `skerry.table.searchable.SearchableTable.search`."""
    parsed = parse_query(query)
    wanted = scan(state, columns, where, snapshot=snapshot, threads=threads)
    searched = scan(state, None, where, snapshot=snapshot, threads=threads)
    if column not in searched.schema.names:
        raise NotFoundError(f"no column {column!r} to search{nearest(column, searched.schema.names)}")
    field = searched.schema.field(column)
    if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
        raise SchemaError(f"column {column!r} is {field.type}: only strings have words")
    tokenizer = _tokenizer(state, column)
    read = wanted.schema if column in wanted.schema.names else wanted.schema.append(field)
    reader = searched.row_reader(read)
    indexes = TableIndexes(state.storage, state.metadata.location, state.properties)
    found: list[pa.RecordBatch] = []
    left = limit
    for task in sorted(searched.plan(), key=lambda task: -(task.sequence_number or 0)):
        if left == 0:
            break
        rows = indexes.rows_of_words(task.data_file, field_id(field), tokenizer, query)
        if rows is not None and not len(rows):
            continue
        for batch in reader.batches([replace(task, rows=rows)]):
            values = batch.column(column).cast(pa.large_binary())
            flags = matching_values(parsed, values, Tokenizer(tokenizer), matches_case=False)
            matching = batch.filter(pa.array(flags)).select(wanted.schema.names)
            if not matching.num_rows:
                continue
            found.append(matching if left is None else matching.slice(0, left))
            left = None if left is None else left - found[-1].num_rows
            if left == 0:
                break
    return pa.Table.from_batches(found, wanted.schema)


def _tokenizer(state: TableState, column: str) -> str:
    for definition in index_definitions(state.properties):
        if definition.column == column and definition.kind is IndexKind.TEXT:
            return definition.tokenizer
    return Tokenizer.UNICODE_WORD
