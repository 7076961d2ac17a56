"""Building the indexes of one data file while it is written.

Spec: docs/formats/paimon.md § 12.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.file_index import bitmap, bloom, bsi, range_bitmap
from skerry.paimon.file_index.bloom import BloomFilterBuilder
from skerry.paimon.file_index.sorted_keys import KeyCollector, SortedKeys
from skerry.paimon.metadata.index_settings import IndexSettings
from skerry.paimon.values.types import AtomicType, DataField, MapType, TypeRoot

__all__ = ["IndexBuilder", "index_builders"]


class IndexBuilder(Protocol):
    """Builds one index."""

    def update(self, values: pa.ChunkedArray) -> None:
        """Add the values of rows."""
        ...

    def finish(self) -> bytes | None:
        """The index; None if it says no more than that there are no values."""
        ...


class _RowIndexBuilder:
    """Builds an index of rows, from all keys at once."""

    def __init__(self, type_: AtomicType, encode: Callable[[SortedKeys], bytes]) -> None:
        self._keys = KeyCollector(type_)
        self._encode = encode

    def update(self, values: pa.ChunkedArray) -> None:
        self._keys.update(values)

    def finish(self) -> bytes:
        return self._encode(self._keys.finish())


class _MapKeyBuilder:
    """Builds an index of the values that a map has for one key."""

    def __init__(self, key: str, values: IndexBuilder) -> None:
        self._key = pa.scalar(key)
        self._values = values

    def update(self, values: pa.ChunkedArray) -> None:
        self._values.update(pc.map_lookup(values, self._key, "first"))

    def finish(self) -> bytes | None:
        return self._values.finish()


def index_builders(settings: Sequence[IndexSettings], fields: Mapping[str, DataField]) -> dict[str, list[IndexBuilder]]:
    """A builder per index, by the column whose values it takes; in the order of the settings.

    Args:
        settings: The indexes.
        fields: The columns by name.

    Raises:
        SchemaError: A column is unknown, or an option has an invalid value.
        UnsupportedError: A type of index is unknown, or a column cannot have it.
    """
    found: dict[str, list[IndexBuilder]] = {}
    for one in settings:
        found.setdefault(one.column, []).append(_builder(one, fields))
    return found


def _builder(one: IndexSettings, fields: Mapping[str, DataField]) -> IndexBuilder:
    option = f"file-index.{one.type}.columns"
    kind = _KINDS.get(one.type)
    if kind is None:
        raise UnsupportedError(f"option {option}: known indexes are {', '.join(_KINDS)}")
    if one.column not in fields:
        raise SchemaError(f"option {option} names {one.column!r}, which is not a column")
    type_ = fields[one.column].type
    if one.key is not None:
        if not (isinstance(type_, MapType) and isinstance(type_.key, AtomicType) and type_.key.root in _TEXTS):
            raise UnsupportedError(f"option {option}: {one.name!r} needs a map with texts as keys, found {type_}")
        type_ = type_.value
    can_index, make = kind
    if not isinstance(type_, AtomicType) or not can_index(type_):
        raise UnsupportedError(f"option {option}: column {one.name!r} of type {type_} cannot have such an index")
    values = make(type_, one)
    return values if one.key is None else _MapKeyBuilder(one.key, values)


def _bloom(type_: AtomicType, one: IndexSettings) -> IndexBuilder:
    items = int(one.number("items", bloom.DEFAULT_ITEMS))
    return BloomFilterBuilder(type_, items, one.number("fpp", bloom.DEFAULT_FPP))


def _bitmap(type_: AtomicType, one: IndexSettings) -> IndexBuilder:
    version = one.integer("version", bitmap.VERSIONS[-1])
    if version not in bitmap.VERSIONS:
        raise SchemaError(f"option {one.option_name('version')} must be 1 or 2, found {version}")
    block_size = one.size_bytes("index-block-size", bitmap.BLOCK_BYTES)
    return _RowIndexBuilder(
        type_, lambda keys: bitmap.encode_bitmap_index(keys, version=version, block_size=block_size)
    )


def _bit_sliced(type_: AtomicType, one: IndexSettings) -> IndexBuilder:
    return _RowIndexBuilder(type_, bsi.encode_bit_sliced_index)


def _range_bitmap(type_: AtomicType, one: IndexSettings) -> IndexBuilder:
    chunk_size = one.size_bytes("chunk-size", range_bitmap.default_chunk_size(type_))
    return _RowIndexBuilder(type_, lambda keys: range_bitmap.encode_range_bitmap(keys, chunk_size))


_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_KINDS: Final[
    Mapping[str, tuple[Callable[[AtomicType], bool], Callable[[AtomicType, IndexSettings], IndexBuilder]]]
] = {
    bloom.TYPE: (bloom.can_index, _bloom),
    bitmap.TYPE: (bitmap.can_index, _bitmap),
    bsi.TYPE: (bsi.can_index, _bit_sliced),
    range_bitmap.TYPE: (range_bitmap.can_index, _range_bitmap),
}
