"""Searching a column for words: what is common to the formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.indexes.text_queries import Query, Words, found_spans, matching_values, parse_query, terms_of
from skerry.amudai.indexes.tokenizers import Tokenizer
from skerry.errors import NotFoundError, SchemaError
from skerry.table.files.evolution import merge_columns, plan_conversion
from skerry.table.indexes.building import WantedIndex
from skerry.table.indexes.conditions import WordCondition
from skerry.table.indexes.definitions import IndexKind, index_definitions
from skerry.table.rows.schema import Leaf, leaves, nearest

__all__ = ["WordSearch"]


@dataclass(frozen=True)
class WordSearch:
    """A search for words in a column.

    Args:
        column: The top-level column.
        leaf: The column, or a field within it.
        query: The words.
        tokenizer: What a word is.
    """

    column: pa.Field
    leaf: Leaf
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
        known = {leaf.name: leaf for leaf in leaves(schema)}
        if column not in known and column not in schema.names:
            raise NotFoundError(f"no column {column!r} to search{nearest(column, [*schema.names, *known])}")
        found = known.get(column)
        kind = schema.field(column).type if found is None else found.type
        if found is None or not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise SchemaError(f"column {column!r} is {kind}: only strings have words")
        outer = schema.field(found.path[0])
        for definition in index_definitions(properties):
            if definition.column == column and definition.kind is IndexKind.TEXT:
                return cls(outer, found, query, definition.tokenizer)
        return cls(outer, found, query, Tokenizer.UNICODE_WORD)

    @property
    def condition(self) -> WordCondition:
        """The condition with which an index helps."""
        return WordCondition(WantedIndex(self.leaf.field_id, IndexKind.TEXT, self.tokenizer), self.query)

    def read_schema(self, wanted: pa.Schema) -> pa.Schema:
        """The columns to read for some columns: those and the searched one."""
        return merge_columns(wanted, pa.schema([self.column]))

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
        values = batch.column(self.column.name)
        if len(self.leaf.path) > 1:
            values = pc.struct_field(values, self.leaf.path[1:])
        values = values.cast(pa.large_binary())
        flags = matching_values(self.parsed, values, Tokenizer(self.tokenizer), matches_case=False)
        return batch.filter(pa.array(flags))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the words are in a text, in characters; see `skerry.amudai.indexes.text_queries.found_spans`."""
        return found_spans(self.parsed, text, Tokenizer(self.tokenizer), matches_case=False)

    @staticmethod
    def table(batches: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int | None) -> pa.Table:
        """Columns of batches, up to a limit of rows; further batches are not asked for."""
        found: list[pa.RecordBatch] = []
        left = limit
        convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
        for batch in batches if limit != 0 else ():
            if batch.num_rows:
                convert = convert or plan_conversion(batch.schema, schema)
                rows = convert(batch)
                found.append(rows if left is None else rows.slice(0, left))
                left = None if left is None else left - found[-1].num_rows
            if left == 0:
                break
        return pa.Table.from_batches(found, schema)
