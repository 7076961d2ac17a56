"""Merging the indexes of several shards into one, without their values: keys and terms stay, rows get new numbers.

Spec: docs/formats/amudai-indexes.md § 2.4, § 2.5, § 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skerry.amudai.indexes.descriptors import HashDescription, TextDescription, decode_index, encode_index
from skerry.amudai.indexes.postings import Postings, sort_postings
from skerry.amudai.messages import IndexCollection, IndexDescriptor
from skerry.amudai.reading.hash_index import HashIndexReader
from skerry.amudai.reading.shard_file import ShardFile
from skerry.amudai.reading.text_index import TextIndexReader
from skerry.amudai.writing.index_files import WriteArtifact, write_hash_index, write_terms
from skerry.amudai.writing.row_indexes import write_without_values
from skerry.amudai.writing.shard_writer import WrittenShard
from skerry.errors import UnsupportedError
from skerry.storage import Storage

__all__ = ["IndexedRows", "group_alike", "merge_row_indexes"]

_Rows = npt.NDArray[np.int64]
_Description = HashDescription | TextDescription


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """A shard whose indexes are merged, and which of its rows stay.

    Args:
        shard: The shard.
        ranges: The first row and the number of rows of each range that stays, in order.
    """

    shard: ShardFile
    ranges: tuple[tuple[int, int], ...]

    @property
    def row_count(self) -> int:
        """How many rows stay."""
        return sum(count for _, count in self.ranges)

    def renumber(self, base: int, rows: _Rows) -> tuple[_Rows, npt.NDArray[np.bool_]]:
        """The new numbers of rows, from `base` on for the first that stays; and which rows stay."""
        firsts = np.array([first for first, _ in self.ranges], np.int64)
        counts = np.array([count for _, count in self.ranges], np.int64)
        shifts = base + np.cumsum(counts) - counts - firsts
        place = np.maximum(np.searchsorted(firsts, rows, "right") - 1, 0)
        stays = (rows >= firsts[place]) & (rows < firsts[place] + counts[place])
        return (rows + shifts[place])[stays], stays


def group_alike(sources: Sequence[IndexedRows]) -> list[list[int]]:
    """The places of sources that `merge_row_indexes` takes together: those with the same columns, and indexes of them.

    Args:
        sources: Shards.

    Raises:
        FormatError: An index is damaged.
    """
    groups: list[tuple[tuple[object, ...], list[int]]] = []
    for place, source in enumerate(sources):
        shape = _shape_of(source.shard, _described(source.shard))
        alike = next((places for known, places in groups if known == shape), None)
        if alike is None:
            groups.append((shape, [place]))
        else:
            alike.append(place)
    return [places for _, places in groups]


def merge_row_indexes(sources: Sequence[IndexedRows], location: str, *, storage: Storage) -> WrittenShard:
    """Write the indexes of rows of several shards as those of one shard without values.

    Args:
        sources: The shards, at least one. They must have the same columns, and indexes of them.
        location: The new root. Its rows are those of the first source, then those of the second, and so on.
        storage: Where to write.

    Raises:
        UnsupportedError: The shards have other columns or indexes than the first.
        FormatError: An index is damaged.
        NotFoundError: A file is missing.
    """
    first = sources[0].shard
    described = [_described(source.shard) for source in sources]
    shapes = [_shape_of(source.shard, found) for source, found in zip(sources, described, strict=True)]
    for source, shape in zip(sources, shapes, strict=True):
        if shape != shapes[0]:
            raise UnsupportedError("indexes of other columns cannot be merged", location=source.shard.metadata.shown)
    bases = np.cumsum([0, *(source.row_count for source in sources)]).tolist()

    def write(write_artifact: WriteArtifact) -> IndexCollection:
        messages = []
        for ordinal, description in enumerate(described[0]):
            parts = [
                _Part(storage, source, base, found[ordinal])
                for source, base, found in zip(sources, bases, described, strict=False)
            ]
            if isinstance(description, HashDescription):
                messages.append(_merge_keys(parts, description, write_artifact))
            else:
                messages.append(_merge_terms(parts, description, write_artifact))
        return IndexCollection(index_descriptors=messages)

    return write_without_values([bases[-1]], first.schema, location, write, storage=storage)


def _described(shard: ShardFile) -> list[_Description]:
    metadata = shard.metadata
    found = [decode_index(each, metadata.rules, location=metadata.shown) for each in metadata.indexes.index_descriptors]
    return [each for each in found if each is not None]


def _shape_of(shard: ShardFile, described: Sequence[_Description]) -> tuple[object, ...]:
    return (shard.schema, *map(_shape, described))


def _shape(description: _Description) -> tuple[object, ...]:
    """What indexes that can be merged have in common."""
    if isinstance(description, HashDescription):
        return (description.schema_ids,)
    return description.schema_ids, description.tokenizers, description.collation


@dataclass(frozen=True, slots=True)
class _Part:
    """An index of a source.

    Args:
        storage: Access to its files.
        source: The source.
        base: The new number of the source's first row.
        description: The index.
    """

    storage: Storage
    source: IndexedRows
    base: int
    description: _Description

    @property
    def total(self) -> int:
        """Rows of the source, also those that do not stay."""
        return int(self.source.shard.metadata.directory.total_record_count)


def _merge_keys(parts: Sequence[_Part], description: HashDescription, write_artifact: WriteArtifact) -> IndexDescriptor:
    keys, rows = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for part in parts:
        assert isinstance(part.description, HashDescription)
        found = HashIndexReader(part.storage, part.description, part.total).entries()
        numbers, stays = part.source.renumber(part.base, found[1])
        keys.append(found[0][stays])
        rows.append(numbers)
    return write_hash_index(np.concatenate(keys), np.concatenate(rows), description.schema_ids, write_artifact)


def _merge_terms(
    parts: Sequence[_Part], description: TextDescription, write_artifact: WriteArtifact
) -> IndexDescriptor:
    postings = []
    for part in parts:
        assert isinstance(part.description, TextDescription)
        found = TextIndexReader(part.storage, part.description, part.total).postings()
        rows, stays = part.source.renumber(part.base, found.rows)
        lengths = np.bincount(found.lists[stays], minlength=len(found.lengths)).astype(np.int64)
        postings.append(Postings(found.terms, found.schema_ids, found.possible, lengths, rows))
    merged, schema_ids = sort_postings(postings, description.collation)
    artifacts = write_terms(merged, [(0, schema_id) for schema_id in schema_ids], write_artifact)
    return encode_index(
        description.schema_ids, artifacts, collation=description.collation, tokenizers=description.tokenizers
    )
