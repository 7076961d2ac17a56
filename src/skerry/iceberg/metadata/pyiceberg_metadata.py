"""Writing of table metadata through PyIceberg's catalogs, which refuse version 3 and omit parts of version 1.

A catalog that keeps metadata files itself (SQL, Glue, Hive, DynamoDB, BigQuery) writes them through a method that
`install` replaces on one instance. A REST catalog's server writes them itself.

Spec: Iceberg spec, Table Metadata Fields, Row Lineage: `next-row-id`.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV3
from pyiceberg.typedef import IcebergBaseModel

__all__ = ["encode_metadata", "install", "next_row_id", "with_legacy_fields"]

AnyCatalog = TypeVar("AnyCatalog", bound=Catalog)

# method of the catalog -> whether it may replace a file
_WRITERS = {"_write_metadata": False, "_write_metadata_no_exist_check": True}


def install(catalog: AnyCatalog) -> AnyCatalog:
    """Make a catalog write metadata that follows the specification, including version 3.

    Args:
        catalog: Any PyIceberg catalog; a second call changes nothing.

    Returns:
        The same catalog.
    """
    for name, overwrite in _WRITERS.items():
        if hasattr(type(catalog), name) and name not in vars(catalog):
            setattr(catalog, name, functools.partial(_write_metadata, overwrite=overwrite))
    return catalog


def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str, *, overwrite: bool = False) -> None:
    output = io.new_output(metadata_path)
    if not isinstance(metadata, TableMetadataV3):
        ToOutputFile.table_metadata(with_legacy_fields(metadata), output, overwrite=overwrite)
        return
    data = Compressor.get_compressor(metadata_path).bytes_compressor()(encode_metadata(metadata))
    with output.create(overwrite=overwrite) as stream:
        stream.write(data)


def with_legacy_fields(metadata: TableMetadata) -> TableMetadata:
    """Metadata of version 1 with current `schema` and `partition-spec` fields, which older readers use.

    Spec: Iceberg spec, Table Metadata Fields (version 1).
    """
    if not isinstance(metadata, TableMetadataV1):
        return metadata
    fields = [field.model_dump() for field in metadata.spec().fields]
    return metadata.model_copy(update={"schema_": metadata.schema(), "partition_spec": fields})


def encode_metadata(metadata: TableMetadataV3) -> bytes:
    """Table metadata of version 3 as JSON, with its required `next-row-id`.

    Spec: Iceberg spec, Appendix C, Table Metadata and Snapshots.
    """
    complete = metadata.model_copy(update={"next_row_id": next_row_id(metadata)})
    return IcebergBaseModel.model_dump_json(complete).encode()


def next_row_id(metadata: Any) -> int:
    """The next unassigned row id; PyIceberg omits it from the metadata of tables that it creates.

    Spec: Iceberg spec, Row Lineage.
    """
    if metadata.next_row_id is not None:
        return int(metadata.next_row_id)
    return max(
        ((snapshot.first_row_id or 0) + (snapshot.added_rows or 0) for snapshot in metadata.snapshots), default=0
    )
