"""The indexes of a shard: which there are, and which rows they leave for a condition.

Spec: docs/formats/amudai-indexes.md; Amudai book, chapter 6, Index Collection, Index Descriptor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.indexes.descriptors import HashDescription, TextDescription, decode_index
from skerry.amudai.indexes.hash_keys import has_keys, keys_of_values
from skerry.amudai.messages import IndexDescriptor
from skerry.amudai.reading.hash_index import HashIndexReader
from skerry.amudai.reading.shard_metadata import ShardMetadata
from skerry.amudai.reading.text_index import TextIndexReader
from skerry.amudai.shard.framing import decode_protobuf
from skerry.amudai.shard.schema import DataType
from skerry.amudai.values.shredding import shred_column
from skerry.bitmaps.position_sets import intersection, union
from skerry.errors import SkerryError
from skerry.filters import Alternatives, Comparison
from skerry.storage import Storage, redact

__all__ = ["ShardIndexes", "SoughtValues", "TextSearch"]

_Rows = npt.NDArray[np.int64]
_Keys = npt.NDArray[np.uint64]
_EQUALITY = ("=", "==", "in")


@dataclass(frozen=True, slots=True)
class _Scope:
    """The rows that an index is of, and the index: the whole shard, or a stripe of it."""

    first_row: int
    row_count: int
    schema_ids: tuple[int, ...]
    reader: HashIndexReader | TextIndexReader
    tokenizers: tuple[str, ...] = ()

    @property
    def has_keys(self) -> bool:
        """Whether it is a hash index."""
        return isinstance(self.reader, HashIndexReader)


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A text index that covers all rows of a shard.

    Args:
        reader: The index.
        tokenizer: The name of the leaf's tokenizer; empty if the index does not say.
        matches_case: Whether its terms differ by case.
    """

    reader: TextIndexReader
    tokenizer: str
    matches_case: bool


class SoughtValues:
    """Values that are looked up in the hash indexes of many shards; their keys are computed once.

    Args:
        values: The values, Python's.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = [value.as_py() if isinstance(value, pa.Scalar) else value for value in values]
        self._keys: dict[tuple[object, ...], _Keys | None] = {}

    def keys(self, node: DataType, kind: pa.DataType, path: str) -> _Keys | None:
        """The keys of the values in a column, uint64[n], ascending and distinct; None if one has no place there.

        Args:
            node: The leaf in the shard.
            kind: Its Arrow type.
            path: Its path.
        """
        shape = path, node.basic_type, node.signed, kind
        if shape not in self._keys:
            self._keys[shape] = self._computed(node, kind, path) if has_keys(node) else None
        return self._keys[shape]

    def _computed(self, node: DataType, kind: pa.DataType, path: str) -> _Keys | None:
        try:
            array = pa.array(self._values, kind)
            if array.null_count or array.to_pylist() != self._values:
                return None  # PyArrow cuts what does not fit, a time from a date, say
            (column,) = shred_column(node, array)
        except (pa.ArrowException, SkerryError, TypeError, ValueError, OverflowError):
            return None
        return np.unique(keys_of_values(path, column))


class ShardIndexes:
    """The indexes of a shard, opened when they are needed.

    Args:
        metadata: The shard.
        storage: Where to read from.
        beside: Locations of files that hold descriptors of further indexes of the shard, a bare `IndexDescriptor` each.
        allowed_locations: Folders into which absolute urls may lead.
    """

    def __init__(
        self,
        metadata: ShardMetadata,
        storage: Storage,
        beside: Sequence[str] = (),
        allowed_locations: Iterable[str] = (),
    ) -> None:
        self._metadata = metadata
        self._storage = storage
        self._beside = tuple(beside)
        self._allowed = tuple(allowed_locations)
        self._hashed: dict[int, list[_Scope]] = {}

    @cached_property
    def _scopes(self) -> list[_Scope]:
        metadata = self._metadata
        total = int(metadata.directory.total_record_count)
        found = list(self._of_shard(metadata.indexes.index_descriptors, total))
        for location in self._beside:
            data = self._storage.read(location)
            message = decode_protobuf(IndexDescriptor, data, location=redact(location))
            found += self._described([message], 0, total)
        for stripe in metadata.stripes:
            messages = metadata.stripe_indexes(stripe.ordinal).index_descriptors
            found += self._described(messages, stripe.record_offset, stripe.record_count)
        return found

    def _of_shard(self, messages: Iterable[IndexDescriptor], total: int) -> Iterator[_Scope]:
        yield from self._described(messages, 0, total)
        nodes = [field.data_type for field in self._metadata.schema.fields]
        for described in self._metadata.descriptors(nodes):
            if described is not None and described.HasField("indexes"):
                yield from self._described(described.indexes.index_descriptors, 0, total)

    def _described(self, messages: Iterable[IndexDescriptor], first_row: int, row_count: int) -> Iterator[_Scope]:
        for message in messages:
            found = decode_index(message, self._metadata.rules, location=self._metadata.shown)
            if isinstance(found, HashDescription):
                of_hash = HashIndexReader(self._storage, found, row_count, self._allowed)
                yield _Scope(first_row, row_count, found.schema_ids, of_hash)
            elif isinstance(found, TextDescription):
                of_text = TextIndexReader(self._storage, found, row_count, self._allowed)
                yield _Scope(first_row, row_count, found.schema_ids, of_text, found.tokenizers)

    def text_search(self, node: DataType) -> TextSearch | None:
        """The text index of a leaf in the whole shard, if there is one.

        Raises:
            FormatError: A descriptor is damaged.
        """
        total = int(self._metadata.directory.total_record_count)
        for scope in self._scopes:
            if (
                isinstance(scope.reader, TextIndexReader)
                and scope.row_count == total
                and node.schema_id in scope.schema_ids
            ):
                place = scope.schema_ids.index(node.schema_id)
                tokenizer = scope.tokenizers[place] if place < len(scope.tokenizers) else ""
                return TextSearch(scope.reader, tokenizer, scope.reader.matches_case)
        return None

    def candidates(
        self, alternatives: Alternatives, columns: Mapping[str, tuple[DataType, pa.DataType]]
    ) -> _Rows | None:
        """Rows of the shard that may match a filter.

        Args:
            alternatives: The filter: an *or* of *and* of comparisons.
            columns: Its columns by name: the node in the shard and the Arrow type.

        Returns:
            int64[n], ascending and distinct; None if no index helps.
        """
        try:
            parts = [self._of_group(group, columns) for group in alternatives]
        except SkerryError:
            return None  # a lost or damaged index costs time, and nothing else
        rows: list[_Rows] = []
        for part in parts:
            if part is None:
                return None
            rows.append(part)
        return union(rows)

    def _of_group(
        self, group: Iterable[Comparison], columns: Mapping[str, tuple[DataType, pa.DataType]]
    ) -> _Rows | None:
        found: _Rows | None = None
        for comparison in group:
            if comparison.operator not in _EQUALITY or comparison.column not in columns:
                continue
            node, kind = columns[comparison.column]
            values = list(comparison.value) if comparison.has_several else [comparison.value]
            part = self.rows_of_values(node, kind, node.name, SoughtValues(values))
            if part is not None:
                found = part if found is None else intersection(found, part)
        return found

    def rows_of_values(self, node: DataType, kind: pa.DataType, path: str, values: SoughtValues) -> _Rows | None:
        """Rows of the shard that may have one of some values.

        Args:
            node: The leaf.
            kind: Its Arrow type.
            path: Its path.
            values: The values.

        Returns:
            int64[n], ascending and distinct; None if no hash indexes cover all rows.

        Raises:
            FormatError, NotFoundError, UnsupportedError: An index is damaged, or lost.
        """
        covering = self._with_keys(node.schema_id)
        keys = values.keys(node, kind, path) if covering else None
        if keys is None:
            return None
        rows = [
            scope.reader.find(keys)[1] + scope.first_row
            for scope in covering
            if isinstance(scope.reader, HashIndexReader)
        ]
        return rows[0] if len(rows) == 1 and len(rows[0]) <= 1 else union(rows)

    def _with_keys(self, schema_id: int) -> list[_Scope]:
        """The hash indexes of a column that together are of all rows; none if rows are missing."""
        found = self._hashed.get(schema_id)
        if found is None:
            scopes = [scope for scope in self._scopes if scope.has_keys and schema_id in scope.schema_ids]
            found = _covering(scopes, int(self._metadata.directory.total_record_count))
            self._hashed[schema_id] = found
        return found


def _covering(scopes: list[_Scope], total: int) -> list[_Scope]:
    """Indexes that together are of all rows, without those of rows that others have, too; none if rows are missing."""
    chosen, stop = [], 0
    for scope in sorted(scopes, key=lambda scope: (scope.first_row, -scope.row_count)):
        if scope.first_row > stop:
            return []
        if scope.first_row + scope.row_count > stop:
            chosen.append(scope)
            stop = scope.first_row + scope.row_count
    return chosen if stop == total else []
