"""Bloom filters of a data file, built while it is written: embedded in the manifest if small, else in a separate file.

Spec: docs/formats/paimon.md § 12.3.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.file_index import BloomFilterBuilder, encode_container
from skerry.paimon.file_index.bloom import TYPE
from skerry.paimon.values.types import AtomicType
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import name as file_name

__all__ = ["INDEX_SUFFIX", "IndexBuilder"]

INDEX_SUFFIX: Final = ".index"
_PREFIX: Final = f"file-index.{TYPE}"


class IndexBuilder:
    """Builds the file index of one data file.

    Args:
        layout: Layout of the table's files, with the options `file-index.bloom-filter.…`.

    Raises:
        SchemaError: An option names an unknown column, or is not a number.
        UnsupportedError: A column cannot have a filter.
    """

    def __init__(self, layout: WriteLayout) -> None:
        self._layout = layout
        listed = layout.schema.options.get(f"{_PREFIX}.columns", "")
        self._builders = {
            column: self._builder(column) for column in (part.strip() for part in listed.split(",")) if column
        }

    def update(self, rows: pa.Table) -> None:
        """Add the values of rows."""
        for column, builder in self._builders.items():
            builder.update(rows.column(column))

    def finish(self, location: str) -> tuple[tuple[str, ...], bytes | None]:
        """Write the index to a file, or return it for the manifest.

        Args:
            location: The data file.

        Returns:
            Names of the files written beside the data file, and the index for the manifest.
        """
        if not self._builders:
            return (), None
        data = encode_container({column: {TYPE: builder.finish()} for column, builder in self._builders.items()})
        if len(data) <= self._layout.options.file_index_in_manifest_threshold:
            return (), data
        self._layout.storage.write(location + INDEX_SUFFIX, data)
        return (file_name(location + INDEX_SUFFIX),), None

    def _builder(self, column: str) -> BloomFilterBuilder:
        if "[" in column:
            raise UnsupportedError(f"option {_PREFIX}.columns: filters of a map's keys ({column!r}) are not supported")
        type_ = self._layout.schema.field(column).type
        if not isinstance(type_, AtomicType):
            raise UnsupportedError(f"option {_PREFIX}.columns: column {column!r} of type {type_} cannot have filters")
        return BloomFilterBuilder(
            type_, int(self._number(column, "items", 1_000_000)), self._number(column, "fpp", 0.1)
        )

    def _number(self, column: str, option: str, default: float) -> float:
        name = f"{_PREFIX}.{column}.{option}"
        text = self._layout.schema.options.get(name)
        if text is None:
            return default
        try:
            return float(text)
        except ValueError:
            raise SchemaError(f"option {name} must be a number, found {text!r}") from None
