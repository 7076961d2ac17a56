"""Searching a column for words: what is common to the formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from skerry.amudai.indexes.text_queries import Query, Words, matching_values, parse_query, terms_of
from skerry.amudai.indexes.tokenizers import Tokenizer
from skerry.errors import NotFoundError, SchemaError
from skerry.table.indexes.building import WantedIndex
from skerry.table.indexes.conditions import WordCondition
from skerry.table.indexes.definitions import IndexKind, index_definitions
from skerry.table.rows.schema import field_id, nearest

__all__ = ["WordSearch"]


@dataclass(frozen=True)
class WordSearch:
    """A search for words in a column.

    Args:
        column: The column.
        query: The words.
        tokenizer: What a word is.
    """

    column: pa.Field
    query: str
    tokenizer: str

    @classmethod
    def of(cls, schema: pa.Schema, properties: Mapping[str, str], column: str, query: str) -> WordSearch:
        """Check a search of a table; words are those of the column's index.

        Raises:
            NotFoundError: There is no such column.
            SchemaError: It does not hold strings, or the query lacks something.
        """
        parse_query(query)
        if column not in schema.names:
            raise NotFoundError(f"no column {column!r} to search{nearest(column, schema.names)}")
        found = schema.field(column)
        if not (pa.types.is_string(found.type) or pa.types.is_large_string(found.type)):
            raise SchemaError(f"column {column!r} is {found.type}: only strings have words")
        for definition in index_definitions(properties):
            if definition.column == column and definition.kind is IndexKind.TEXT:
                return cls(found, query, definition.tokenizer)
        return cls(found, query, Tokenizer.UNICODE_WORD)

    @property
    def condition(self) -> WordCondition:
        """The condition with which an index helps."""
        return WordCondition(WantedIndex(field_id(self.column), IndexKind.TEXT, self.tokenizer), self.query)

    def read_schema(self, wanted: pa.Schema) -> pa.Schema:
        """The columns to read for some columns: those and the searched one."""
        return wanted if self.column.name in wanted.names else wanted.append(self.column)

    @property
    def is_one_word(self) -> bool:
        """Whether it is for one word, which an index finds without further rows."""
        return isinstance(self.parsed, Words) and len(terms_of(self.parsed, Tokenizer(self.tokenizer))) == 1

    @cached_property
    def parsed(self) -> Query:
        """The query."""
        return parse_query(self.query)

    def matching(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that have the words."""
        values = batch.column(self.column.name).cast(pa.large_binary())
        flags = matching_values(self.parsed, values, Tokenizer(self.tokenizer), matches_case=False)
        return batch.filter(pa.array(flags))

    @staticmethod
    def table(batches: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int | None) -> pa.Table:
        """Columns of batches, up to a limit of rows; further batches are not asked for."""
        found: list[pa.RecordBatch] = []
        left = limit
        for batch in batches if limit != 0 else ():
            if batch.num_rows:
                rows = batch.select(schema.names)
                found.append(rows if left is None else rows.slice(0, left))
                left = None if left is None else left - found[-1].num_rows
            if left == 0:
                break
        return pa.Table.from_batches(found, schema)
