"""A data file that is in no table, as a table of its own: its metadata is made from the file's, in memory."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from skerry.amudai import ShardFile
from skerry.errors import SkerryError, UnsupportedError
from skerry.iceberg.catalogs.memory import MemoryCatalog
from skerry.iceberg.evolution.schema_evolution import NAME_MAPPING_PROPERTY, name_mapping
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs.add_files import file_schema
from skerry.iceberg.metadata.arrow_schema import to_iceberg_schema
from skerry.iceberg.metadata.creation import new_table_metadata
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.sort_order import UNSORTED_SORT_ORDER
from skerry.iceberg.metadata.table_metadata import SUPPORTED_VERSIONS
from skerry.iceberg.operations.append import AppendFiles
from skerry.iceberg.table import IcebergTable
from skerry.iceberg.writing.layout import FileLayout
from skerry.parquet import read_metadata
from skerry.storage import Storage, name
from skerry.table.files.data_file import DataFile
from skerry.table.files.evolution import has_ids
from skerry.table.files.locations import OUTSIDE_PROPERTY
from skerry.table.statistics.written_file import WrittenFile

__all__ = ["open_file"]

_VERSION: Final = max(SUPPORTED_VERSIONS)
"""The format version with all types."""


def open_file(location: str, properties: Mapping[str, Any], reason: str) -> IcebergTable | None:
    """A table of one snapshot with one file. Nothing but the file's metadata is read.

    Args:
        location: A Parquet file or an Amudai shard.
        properties: Storage options.
        reason: Why it cannot be changed, for messages.

    Returns:
        The table; None if there is no such file by its first bytes, or nothing can be read there.

    Raises:
        FormatError: The file is corrupt.
        SchemaError: A column has a type that Iceberg lacks, or a name or field id is used twice.
        UnsupportedError: It is a shard with records marked as deleted.
    """
    storage = Storage(properties)
    kind = _kind(storage, location)
    if kind is None:
        return None
    file = kind(storage, location)
    columns = pa.schema([column.with_nullable(True) for column in file.schema])
    schema = to_iceberg_schema(columns, format_version=_VERSION)
    settings = {
        "format-version": str(_VERSION),
        OUTSIDE_PROPERTY: "true",
        **({} if has_ids(columns) else {NAME_MAPPING_PROPERTY: name_mapping(schema)}),
    }
    folder = f"memory://{uuid.uuid4()}/{name(location)}"
    fresh = new_table_metadata(schema, PartitionSpec(), UNSORTED_SORT_ORDER, folder, settings)
    metadata = replace(fresh, schemas=(schema,), last_column_id=schema.highest_field_id)  # with the file's ids
    catalog = MemoryCatalog(metadata, properties, reason)
    handle = IcebergHandle(catalog, catalog.identifier)
    entry = file.entry(handle.layout())
    if entry.record_count:
        handle.commit(AppendFiles.of([WrittenFile(entry)]))
    catalog.seal()
    return IcebergTable(IcebergHandle(catalog, catalog.identifier))


class _ParquetFile:
    """A Parquet file, by its footer."""

    def __init__(self, storage: Storage, location: str) -> None:
        self._location = location
        self._metadata = read_metadata(storage, location)
        self.schema = file_schema(self._metadata)

    def entry(self, layout: FileLayout) -> DataFile:
        """What a manifest says of it."""
        return layout.data_file(self._location, self._metadata.arrow, self._metadata.file_size_bytes)


class _Shard:
    """An Amudai shard, by its directory. Its statistics are read with its stripes."""

    def __init__(self, storage: Storage, location: str) -> None:
        self._location = location
        self._size_bytes = storage.size(location)
        shard = ShardFile(location, storage=storage, file_size=self._size_bytes)
        if shard.metadata.directory.deleted_record_count:
            raise UnsupportedError("a shard with records marked as deleted is not a data file", location=location)
        self.schema = shard.schema
        self._rows = shard.num_rows

    def entry(self, layout: FileLayout) -> DataFile:
        """What a manifest says of it."""
        return DataFile(self._location, "amudai", self._rows, self._size_bytes, layout.spec.spec_id)


_KINDS: Final[Mapping[bytes, type[_ParquetFile | _Shard]]] = {b"PAR1": _ParquetFile, b"amud": _Shard}
"""What a file of a kind begins with."""


def _kind(storage: Storage, location: str) -> type[_ParquetFile | _Shard] | None:
    try:
        return _KINDS.get(bytes(storage.read_range(location, 0, 4)))
    except SkerryError:
        return None
