"""Columns of variants from Python values and JSON, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from skerry.variant.columns import variants
from skerry.variant.decoding import decode_variant
from skerry.variant.encoding import VariantEncoder
from skerry.variant.json_text import parse_json, to_json
from skerry.variant.values import VARIANT

__all__ = ["as_json", "as_values", "from_json", "from_values"]


def from_values(values: Iterable[Any]) -> pa.StructArray:
    """A column of variants from Python values.

    Args:
        values: None for a null; else what `encode_variant` takes. A variant null inside a column is
            `Typed(Primitive.NULL, None)`.

    Raises:
        SchemaError: No variant can hold a value.
        UnsupportedError: A value nests too deeply.
    """
    encoder = VariantEncoder()
    return _column(None if value is None else encoder.encode(value) for value in values)


def from_json(texts: Iterable[Any]) -> pa.StructArray:
    """A column of variants from JSON documents.

    Args:
        texts: Text, or None for a null, also as an Arrow array.

    Raises:
        SchemaError: A text is no JSON, or repeats a name in an object.
        UnsupportedError: A document nests too deeply.
    """
    encoder = VariantEncoder()
    if isinstance(texts, pa.Array | pa.ChunkedArray):
        texts = texts.to_pylist()
    return _column(None if text is None else parse_json(text, encoder) for text in texts)


def as_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The Python values of a column of variants, None for nulls and for variant nulls; see `decode_variant`.

    Raises:
        FormatError: A variant breaks a rule of the format.
        SchemaError: The column does not hold variants.
        UnsupportedError: A value has an unknown type, or nests too deeply.
    """
    return _each(column, decode_variant)


def as_json(column: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """A column of variants as JSON documents, null for nulls.

    Raises:
        FormatError: A variant breaks a rule of the format.
        SchemaError: The column does not hold variants.
        UnsupportedError: A value has an unknown type, or nests too deeply.
    """
    return pa.array(_each(column, to_json), pa.string())


def _column(pairs: Iterable[tuple[bytes, bytes] | None]) -> pa.StructArray:
    return pa.array([pair and {"metadata": pair[0], "value": pair[1]} for pair in pairs], VARIANT)


def _each(column: pa.Array | pa.ChunkedArray, convert: Callable[[bytes, bytes], Any]) -> list[Any]:
    found: list[Any] = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        variants(chunk)
        found += [None if row is None else convert(row["metadata"], row["value"]) for row in chunk.to_pylist()]
    return found
