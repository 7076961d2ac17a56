"""The file index of a data file, built while it is written: embedded in the manifest if small, else in a separate file.

Spec: docs/formats/paimon.md § 12.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from skerry.paimon.file_index import encode_container
from skerry.paimon.file_index.builders import index_builders
from skerry.paimon.metadata.index_settings import IndexSettings
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import name as file_name

__all__ = ["INDEX_SUFFIX", "FileIndexWriter"]

INDEX_SUFFIX: Final = ".index"


class FileIndexWriter:
    """Builds the file index of one data file.

    Args:
        layout: Layout of the table's files.
        indexes: The indexes to build; those of the options `file-index.…` if None.
        schema: The schema of the data file; the table's if None.
    """

    def __init__(
        self, layout: WriteLayout, indexes: Sequence[IndexSettings] | None = None, schema: TableSchema | None = None
    ) -> None:
        self._layout = layout
        self._indexes = layout.indexes if indexes is None else indexes
        self._builders = index_builders(self._indexes, (schema or layout.schema).fields_by_name)

    def update(self, rows: pa.Table) -> None:
        """Add the values of rows."""
        for column, builders in self._builders.items():
            for builder in builders:
                builder.update(rows.column(column))

    def finish(self, location: str, *, redundant: bytes = b"") -> tuple[tuple[str, ...], bytes | None]:
        """Write the index to a file, or return it for the manifest.

        Args:
            location: The index file, which is written only if the index is too large for the manifest.
            redundant: Bytes that distinguish it from others; if there are any, even a file without indexes gets some.

        Returns:
            Names of the files written beside the data file, and the index for the manifest.
        """
        if not self._builders:
            return (), encode_container({}, redundant) if redundant else None
        columns: dict[str, dict[str, bytes | None]] = {}
        waiting = {column: iter(builders) for column, builders in self._builders.items()}
        for one in self._indexes:
            columns.setdefault(one.name, {})[one.type] = next(waiting[one.column]).finish()
        data = encode_container(columns, redundant)
        if len(data) <= self._layout.options.file_index_in_manifest_threshold:
            return (), data
        self._layout.storage.write(location, data)
        return (file_name(location),), None
