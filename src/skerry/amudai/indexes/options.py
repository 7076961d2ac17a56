"""What is indexed: `HashIndex` and `TextIndex`, as callers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from skerry.amudai.indexes.collations import Collation
from skerry.amudai.indexes.hash_keys import ColumnKeys, has_keys
from skerry.amudai.indexes.leaves import find_leaf
from skerry.amudai.indexes.tokenizers import Tokenizer
from skerry.amudai.shard.schema import BasicType, DataType, Schema
from skerry.arguments import check_list, check_whole_number
from skerry.errors import SchemaError, UnsupportedError

__all__ = ["HashIndex", "Index", "TextIndex", "indexed_leaves"]

MIN_PARTITIONS: Final = 2  # the reference cannot shift keys by 64 bits, which a single partition would need
_MAX_PARTITIONS: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class HashIndex:
    """An index that finds the rows of a value: equality and `in`.

    Example:
        amudai.write_table(table, "spans.amudai.shard", indexes=[amudai.HashIndex(["trace_id", "tags.item"])])

    Args:
        columns: The columns, or paths of values within them: names of nested fields after dots, `item` for items of
            lists. Floats, decimals, maps and unions cannot be indexed.
        partitions: How many shards hold the index: a power of two, from 2 to 1,024; by default as many as its size
            asks for.
        keys: The keys of columns that are known already, by name: a shard over Parquet files does not decode these
            columns for the index.

    Raises:
        SchemaError: An argument is none of these.
    """

    columns: Sequence[str]
    partitions: int | None = None
    keys: Mapping[str, ColumnKeys] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_list("columns", self.columns)
        check_whole_number("partitions", self.partitions, MIN_PARTITIONS)
        count = self.partitions
        if not self.columns:
            raise SchemaError("a hash index needs columns")
        if count is not None and (count > _MAX_PARTITIONS or count & (count - 1)):
            raise SchemaError(f"partitions must be a power of two up to {_MAX_PARTITIONS}, found {count}")


@dataclass(frozen=True, slots=True)
class TextIndex:
    """An index that finds the rows that have a word.

    Example:
        amudai.write_table(table, "log.amudai.shard", indexes=[amudai.TextIndex({"message": "unicode-log"})])

    Args:
        columns: The columns, or paths of values within them, with their tokenizers: `unicode-word`, `unicode-log` or
            `trivial`; a list of columns takes the first. Only strings can be indexed.
        collation: `unicode-case-insensitive` or `unicode-case-preserving`.

    Raises:
        SchemaError: An argument is none of these.
    """

    columns: Mapping[str, str] | Sequence[str]
    collation: str = Collation.CASE_INSENSITIVE

    def __post_init__(self) -> None:
        """Check the arguments."""
        if not isinstance(self.columns, Mapping):
            check_list("columns", self.columns)
        if not self.columns:
            raise SchemaError("a text index needs columns")
        for name, known in ((self.collation, Collation), *((name, Tokenizer) for name in self.tokenizers.values())):
            if name not in set(known):
                raise SchemaError(f"there is no {known.__name__.lower()} {name!r}, only {', '.join(known)}")

    @property
    def tokenizers(self) -> dict[str, str]:
        """The tokenizer of each column."""
        if isinstance(self.columns, Mapping):
            return dict(self.columns)
        return dict.fromkeys(self.columns, Tokenizer.UNICODE_WORD)


Index = HashIndex | TextIndex


def indexed_leaves(index: Index, schema: Schema) -> dict[str, DataType]:
    """The leaves that an index is of, by their paths.

    Raises:
        NotFoundError: There is no such leaf.
        UnsupportedError: Its values cannot be indexed so.
    """
    found = {path: find_leaf(schema, path) for path in index.columns}
    for path, node in found.items():
        if isinstance(index, TextIndex):
            if node.basic_type is not BasicType.STRING:
                raise UnsupportedError(f"{path!r} is {node.basic_type.name}: only strings have a text index")
        elif not has_keys(node):
            raise UnsupportedError(f"{path!r} is {node.basic_type.name}: its values cannot be keys of a hash index")
    return found
