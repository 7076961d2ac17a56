"""Describe Iceberg tables from the arguments of `Catalog.create_table`."""

from __future__ import annotations

from typing import Final

from skerry.catalog.names import check_choice
from skerry.catalog.stores import FILE_FORMATS, NewTable
from skerry.errors import SchemaError
from skerry.iceberg.catalogs.records import NewIcebergTable
from skerry.iceberg.evolution.property_checks import check_properties
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema, to_iceberg_schema, with_identifier
from skerry.iceberg.partitioning.partitions import partition_spec
from skerry.iceberg.partitioning.sorting import sort_order
from skerry.iceberg.writing.file_writers import check_columns
from skerry.table.rows.metadata_columns import check_new_names

__all__ = ["new_iceberg_table"]

_VERSIONS: Final = (1, 2, 3)
_USUAL_VERSION: Final = 2


def new_iceberg_table(table: NewTable, location: str | None, *, why_not_encrypted: str | None) -> NewIcebergTable:
    """The description of a new table for its catalog.

    Args:
        table: The arguments.
        location: The table's folder; chosen by the catalog if None.
        why_not_encrypted: Why the catalog has no encrypted tables to write to; None if it has.

    Raises:
        SchemaError: A column, type, transform or property does not fit.
        UnsupportedError: The table format does not support an argument.
    """
    check_choice("file_format", table.file_format, FILE_FORMATS)
    version = _USUAL_VERSION if table.format_version is None else table.format_version
    if version not in _VERSIONS:
        raise SchemaError(f"format_version must be 1, 2 or 3, found {version!r}")
    check_new_names(table.schema.names)
    schema = with_identifier(to_iceberg_schema(table.schema, format_version=version), table.primary_key)
    settings = {"format-version": str(version), **table.properties}
    if table.file_format != FILE_FORMATS[0]:
        settings.setdefault("write.format.default", table.file_format)
    check_properties(settings, to_arrow_schema(schema), why_not_encrypted=why_not_encrypted)
    check_columns(to_arrow_schema(schema), settings)
    return NewIcebergTable(
        schema, partition_spec(schema, table.partition_by), sort_order(schema, table.sort_by), location, settings
    )
