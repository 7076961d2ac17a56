"""Descriptors of indexes: what an index is of, and where its files are.

Spec: docs/formats/amudai-indexes.md § 2.1, § 3.1; Amudai book, chapter 6, Index Collection, Index Descriptor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from skerry.amudai.indexes.collations import Collation
from skerry.amudai.messages import IndexDescriptor
from skerry.amudai.shard.references import Reference, UrlRules, encode_data_ref
from skerry.amudai.values.any_value import Property, decode_properties, encode_properties
from skerry.errors import FormatError

__all__ = ["HASH_INDEX", "TEXT_INDEX", "Artifact", "HashDescription", "TextDescription", "decode_index", "encode_index"]

HASH_INDEX: Final = "field-hashing-index"
TEXT_INDEX: Final = "inverted-text-index-v1"
_COLLATION: Final = "collation"
_TOKENIZERS: Final = "tokenizers"
_TEXT_ARTIFACTS: Final = ("terms", "positions")
_MAX_PARTITIONS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Artifact:
    """A shard of an index that was written.

    Args:
        url: Its url against the root of the shard that is indexed.
        start: Where its metadata begins.
        end: Where its footer begins.
        size: Bytes of all its files.
    """

    url: str
    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class HashDescription:
    """A hash index.

    Args:
        schema_ids: The leaves whose values are keys.
        partitions: Its shards, in order; their number is a power of two.
    """

    schema_ids: tuple[int, ...]
    partitions: tuple[Reference, ...]


@dataclass(frozen=True, slots=True)
class TextDescription:
    """An inverted text index.

    Args:
        schema_ids: The leaves whose terms it has.
        tokenizers: The tokenizer of each; unknown names are possible, and there may be none at all.
        collation: Which terms are equal, and their order.
        terms: The shard of the terms.
        positions: The shard of the positions.
    """

    schema_ids: tuple[int, ...]
    tokenizers: tuple[str, ...]
    collation: Collation
    terms: Reference
    positions: Reference


def decode_index(
    message: IndexDescriptor, rules: UrlRules, *, location: str
) -> HashDescription | TextDescription | None:
    """Read a descriptor.

    Args:
        message: The descriptor.
        rules: How its urls are resolved.
        location: The file that it is in, for errors.

    Returns:
        What it describes; None if its type or collation is unknown.

    Raises:
        FormatError: It lacks files or properties, or has the wrong number of them.
        UnsupportedError: A url is absolute, and the caller has not allowed its folder.
    """
    ids = tuple(field.schema_ids[0] for field in message.indexed_fields if len(field.schema_ids) == 1)
    if message.index_type == HASH_INDEX:
        count = len(message.artifacts)
        if not 1 <= count <= _MAX_PARTITIONS or count & (count - 1):
            raise FormatError(
                f"a hash index of {count} partitions, expected a power of two",
                location=location,
                rule="docs/formats/amudai-indexes.md § 3.1",
            )
        return HashDescription(ids, tuple(rules.reference(each.data_ref) for each in message.artifacts))
    if message.index_type != TEXT_INDEX:
        return None
    found = {each.name: each.value for each in decode_properties(message.properties)}
    collation, tokenizers = found.get(_COLLATION), found.get(_TOKENIZERS, [])
    if len(message.artifacts) < len(_TEXT_ARTIFACTS) or not isinstance(collation, str):
        raise FormatError(
            f"a text index of {len(message.artifacts)} files with the collation {collation!r}, expected a name and the "
            "shards of terms and positions",
            location=location,
            rule="docs/formats/amudai-indexes.md § 2.1",
        )
    if collation not in set(Collation):
        return None
    names = tuple(each for each in tokenizers if isinstance(each, str)) if isinstance(tokenizers, list) else ()
    terms, positions = (rules.reference(each.data_ref) for each in message.artifacts[: len(_TEXT_ARTIFACTS)])
    return TextDescription(ids, names, Collation(collation), terms, positions)


def encode_index(
    schema_ids: Iterable[int],
    artifacts: Sequence[Artifact],
    *,
    collation: Collation | None = None,
    tokenizers: Iterable[str] = (),
) -> IndexDescriptor:
    """The descriptor of a text index if there is a collation, otherwise that of a hash index."""
    message = IndexDescriptor(index_type=HASH_INDEX if collation is None else TEXT_INDEX)
    if collation is not None:
        properties = [Property(_TOKENIZERS, [str(name) for name in tokenizers]), Property(_COLLATION, str(collation))]
        message.properties.extend(encode_properties(properties))
    for schema_id in schema_ids:
        message.indexed_fields.add(schema_ids=[schema_id])
    for ordinal, artifact in enumerate(artifacts):
        name = "" if collation is None else _TEXT_ARTIFACTS[ordinal]
        message.artifacts.add(name=name, data_ref=encode_data_ref(artifact.start, artifact.end, artifact.url))
    message.index_size = sum(artifact.size for artifact in artifacts)
    return message
