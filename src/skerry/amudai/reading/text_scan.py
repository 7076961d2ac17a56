"""Finding rows by words: candidates by an index, then the values themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stripe_reader import StripeReader
from skerry.amudai.indexes.leaves import find_leaf, leaves_of_column
from skerry.amudai.indexes.text_queries import candidate_rows, matching_values, parse_query
from skerry.amudai.indexes.tokenizers import Tokenizer
from skerry.amudai.reading.scanning import ScanPlan, ThisThread
from skerry.amudai.reading.shard_indexes import ShardIndexes
from skerry.amudai.reading.shard_metadata import ShardMetadata
from skerry.amudai.reading.taking import split_by_stripe
from skerry.amudai.reading.text_index import TextIndexReader
from skerry.amudai.shard.schema import BasicType
from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError

__all__ = ["TextScan"]

_WINDOW_ROWS: Final = 1 << 17
"""Rows whose values are looked at together."""
_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of a leaf; a `TermIndex`."""

    reader: TextIndexReader
    schema_id: int

    def count(self, term: str, *, is_prefix: bool) -> int:
        return self.reader.count(term, self.schema_id, is_prefix=is_prefix)

    def rows(self, term: str, *, is_prefix: bool) -> _Rows:
        return self.reader.find(term, self.schema_id, is_prefix=is_prefix).all

    def among(self, rows: _Rows, term: str, *, is_prefix: bool) -> _Rows:
        return self.reader.among(rows, term, self.schema_id, is_prefix=is_prefix)


class TextScan:
    """A search in one column of a shard.

    Args:
        metadata: The shard.
        indexes: Its indexes.
        arrow: The Arrow schema of its columns.
        path: The path of the leaf.
        query: Words.

    Attributes:
        candidates: int64[n], ascending and distinct: the rows that an index leaves; None for all.

    Raises:
        NotFoundError: There is no such leaf.
        SchemaError: It does not hold strings, or the query lacks something.
    """

    def __init__(self, metadata: ShardMetadata, indexes: ShardIndexes, arrow: pa.Schema, path: str, query: str) -> None:
        self._metadata = metadata
        node = find_leaf(metadata.schema, path)
        if node.basic_type is not BasicType.STRING:
            raise SchemaError(f"{path!r} is {node.basic_type.name}: only strings have words")
        self._path = path
        self._query = parse_query(query)
        self._field = next(field for field in metadata.schema.fields if node in list(field.data_type.nodes()))
        self._plan = ScanPlan(metadata.schema, arrow, [self._field.name])
        self._tokenizer, self._matches_case = Tokenizer.UNICODE_WORD, False
        self.candidates: _Rows | None = None
        try:
            found = indexes.text_search(node)
            if found is not None and found.tokenizer in set(Tokenizer):
                self._tokenizer, self._matches_case = Tokenizer(found.tokenizer), found.matches_case
                self.candidates = candidate_rows(self._query, self._tokenizer, _Terms(found.reader, node.schema_id))
        except (FormatError, NotFoundError, UnsupportedError):
            self.candidates = None  # a lost or damaged index costs time, and nothing else

    def matches(self) -> Iterator[tuple[StripeReader, _Rows]]:
        """Matching rows, stripe by stripe and window by window.

        Yields:
            A stripe, and int64[n] positions in it, ascending; never none.
        """
        metadata = self._metadata
        parts: list[tuple[int, _Rows | None]] = [(stripe.ordinal, None) for stripe in metadata.stripes]
        if self.candidates is not None:
            parts = [*split_by_stripe(metadata, self.candidates)]
        for ordinal, rows in parts:
            (reader,) = metadata.stripe_readers([ordinal])
            reader.load_descriptors(self._plan.nodes())
            every = Selection.range(0, reader.row_count) if rows is None else Selection.of_positions(rows)
            living = self._plan.living(reader, every).positions()
            for start in range(0, len(living), _WINDOW_ROWS):
                window = living[start : start + _WINDOW_ROWS]
                found = window[self._matching(reader, window)]
                if len(found):
                    yield reader, found

    def _matching(self, reader: StripeReader, rows: _Rows) -> npt.NDArray[np.bool_]:
        table = self._plan.start(reader, Selection.of_positions(rows), ThisThread())()
        array = table.column(0).combine_chunks()
        leaf = next(each for each in leaves_of_column(self._field, array, 0) if each.path == self._path)
        values = leaf.column.values.cast(pa.large_binary())
        flags = matching_values(self._query, values, self._tokenizer, matches_case=self._matches_case)
        found = np.zeros(len(rows), bool)
        found[leaf.rows[flags]] = True
        return found
