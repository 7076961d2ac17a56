"""Writing the indexes of a shard: each collects the values of its columns stripe by stripe, and becomes shards.

Spec: docs/formats/amudai-indexes.md § 2, § 3.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.encodings.codes import Profile
from skerry.amudai.indexes.collations import Collation
from skerry.amudai.indexes.descriptors import Artifact, encode_index
from skerry.amudai.indexes.hash_buckets import build_partition, is_of_unique_keys
from skerry.amudai.indexes.hash_keys import keys_of_leaf
from skerry.amudai.indexes.leaves import Leaf, leaves_of_column
from skerry.amudai.indexes.options import MIN_PARTITIONS, HashIndex, Index, TextIndex, indexed_leaves
from skerry.amudai.indexes.term_lists import SortedTerms, TermLists
from skerry.amudai.indexes.term_pages import POSITION_SCHEMA, build_pages
from skerry.amudai.indexes.tokenizers import Tokenizer
from skerry.amudai.messages import IndexCollection, IndexDescriptor
from skerry.amudai.shard.schema import Schema

__all__ = ["IndexFiles", "WriteArtifact", "write_hash_index", "write_terms"]

WriteArtifact = Callable[[str], Callable[[pa.Table, Profile], Artifact]]
"""Names a shard, whose name ends with some text; gives what writes a table as that shard, in a profile."""
_PARTITION_KEYS: Final = 1 << 22
"""Keys that a partition has at most, unless the caller says how many partitions there are."""
_TERMS: Final = Profile.HIGH
_POSITIONS: Final = Profile.BALANCED
"""Smaller than in the profile `SMALL`, and written in less time; the reference has MinimalCompression for both."""


class _HashBuilder:
    def __init__(self, index: HashIndex, schema: Schema) -> None:
        known = index.keys
        self._leaves = indexed_leaves(index, schema)
        self._partitions = index.partitions
        found = [known[path] for path in self._leaves if path in known]
        self._wanted = [path for path in self._leaves if path not in known]
        self._keys = [each.keys for each in found]
        self._rows = [each.rows for each in found]

    def add(self, _stripe: int, leaves: dict[str, Leaf]) -> None:
        for path in self._wanted:
            keys, rows = keys_of_leaf(leaves[path])
            self._keys.append(keys)
            self._rows.append(rows)

    def write(self, write_artifact: WriteArtifact) -> IndexDescriptor:
        keys = np.concatenate([np.empty(0, np.uint64), *self._keys])
        rows = np.concatenate([np.empty(0, np.int64), *self._rows])
        ids = [node.schema_id for node in self._leaves.values()]
        return write_hash_index(keys, rows, ids, write_artifact, partitions=self._partitions)


class _TextBuilder:
    def __init__(self, index: TextIndex, schema: Schema) -> None:
        leaves = indexed_leaves(index, schema)
        ids = {path: leaves[path].schema_id for path in sorted(leaves, key=lambda path: leaves[path].schema_id)}
        self._ids = ids
        self._tokenizers = {path: Tokenizer(index.tokenizers[path]) for path in ids}
        self._collation = Collation(index.collation)
        self._lists = TermLists(self._collation)
        self._parts: list[tuple[int, int]] = []

    def add(self, stripe: int, leaves: dict[str, Leaf]) -> None:
        for path, schema_id in self._ids.items():
            leaf = leaves[path]
            self._lists.add(leaf.column.values.cast(pa.large_binary()), leaf.rows, self._tokenizers[path])
            self._lists.end_part()
            self._parts.append((stripe, schema_id))

    def write(self, write_artifact: WriteArtifact) -> IndexDescriptor:
        artifacts = write_terms(self._lists.finish(), self._parts, write_artifact)
        tokenizers = self._tokenizers.values()
        return encode_index(self._ids.values(), artifacts, collation=self._collation, tokenizers=tokenizers)


def write_hash_index(
    keys: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.int64],
    schema_ids: Sequence[int],
    write_artifact: WriteArtifact,
    *,
    partitions: int | None = None,
) -> IndexDescriptor:
    """Write the shards of a hash index.

    Args:
        keys: uint64[n], the keys.
        rows: int64[n], the row of each.
        schema_ids: The leaves whose values the keys are of.
        write_artifact: Writes a shard.
        partitions: How many shards; by default as many as the number of keys asks for.
    """
    count = partitions or max(MIN_PARTITIONS, 1 << (max(len(keys), 1) // _PARTITION_KEYS).bit_length())
    writers = [write_artifact(f"part{ordinal}") for ordinal in range(count)]

    def write(ordinal: int) -> Artifact:
        partition = build_partition(keys, rows, count, ordinal)
        # hashes and single rows are noise, which no cascade of encodings makes smaller; lists of rows are not
        profile = Profile.FAST if is_of_unique_keys(partition) else Profile.BALANCED
        return writers[ordinal](partition, profile)

    with ThreadPoolExecutor(min(os.cpu_count() or 1, count)) as pool:
        artifacts = list(pool.map(write, range(count)))
    return encode_index(schema_ids, artifacts)


def write_terms(
    found: SortedTerms, parts: Sequence[tuple[int, int]], write_artifact: WriteArtifact
) -> tuple[Artifact, Artifact]:
    """Write the shards of a text index: terms, and positions.

    Args:
        found: The terms.
        parts: Stripe and schema id of each part.
        write_artifact: Writes a shard.
    """
    positions = pa.table([pa.array(found.positions)], schema=POSITION_SCHEMA)
    return (
        write_artifact("terms")(build_pages(found, parts), _TERMS),
        write_artifact("positions")(positions, _POSITIONS),
    )


class IndexFiles:
    """The indexes of a shard that is being written.

    Args:
        schema: The shard's schema.
        indexes: What is indexed.

    Raises:
        NotFoundError: A column does not exist.
        UnsupportedError: A column cannot be indexed so.
    """

    def __init__(self, schema: Schema, indexes: Sequence[Index]) -> None:
        self._schema = schema
        self._builders = [
            _HashBuilder(index, schema) if isinstance(index, HashIndex) else _TextBuilder(index, schema)
            for index in indexes
        ]
        paths = {
            path
            for index in indexes
            for path in index.columns
            if not (isinstance(index, HashIndex) and path in index.keys)
        }
        self._columns = {
            place: wanted
            for place, field in enumerate(schema.fields)
            if (wanted := {path for path in paths if path == field.name or path.startswith(f"{field.name}.")})
        }

    @property
    def columns(self) -> Collection[int]:
        """The ordinals of the columns whose values are needed."""
        return self._columns.keys()

    def add(self, stripe: int, columns: Mapping[int, pa.Array], first_row: int) -> None:
        """Take in a stripe.

        Args:
            stripe: Its ordinal.
            columns: Columns by their ordinals, at least those that are indexed.
            first_row: The position of its first row in the shard.
        """
        leaves = {
            leaf.path: leaf
            for place, paths in self._columns.items()
            for leaf in leaves_of_column(self._schema.fields[place], columns[place], first_row)
            if leaf.path in paths
        }
        for builder in self._builders:
            builder.add(stripe, leaves)

    def write(self, write_artifact: WriteArtifact) -> IndexCollection | None:
        """Write the shards of all indexes.

        Returns:
            Their descriptors; None if there are no indexes.
        """
        if not self._builders:
            return None
        return IndexCollection(index_descriptors=[builder.write(write_artifact) for builder in self._builders])
