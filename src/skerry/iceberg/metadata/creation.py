"""Metadata of a new table: its columns, partition fields and sort order with fresh ids.

Spec: Iceberg spec, Table Metadata Fields, Column IDs.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.metadata.partition_spec import PARTITION_FIELD_ID_START, PartitionSpec
from skerry.iceberg.metadata.schema import Schema, assign_fresh_schema_ids
from skerry.iceberg.metadata.sort_order import UNSORTED_SORT_ORDER, SortOrder
from skerry.iceberg.metadata.table_metadata import SUPPORTED_VERSIONS, VERSION_WITH_ROW_IDS, TableMetadata
from skerry.iceberg.metadata.types import IcebergType, StructType, children_of

__all__ = ["FORMAT_VERSION_PROPERTY", "new_table_metadata"]

FORMAT_VERSION_PROPERTY = "format-version"
"""Names the version of a new table among its properties, where it is not stored."""
_USUAL_VERSION = "2"


def new_table_metadata(
    schema: Schema, spec: PartitionSpec, sort_order: SortOrder, location: str, properties: Mapping[str, str]
) -> TableMetadata:
    """The metadata of a table without snapshots.

    Args:
        schema: Its columns; their ids are counted from 1 again.
        spec: How it is partitioned.
        sort_order: How its files are sorted.
        location: Its folder.
        properties: Its properties, `format-version` among them.

    Raises:
        SchemaError: A field refers to a column that does not exist, or a type needs a later version.
        UnsupportedError: The format version is unknown.
    """
    text = str(properties.get(FORMAT_VERSION_PROPERTY, _USUAL_VERSION))
    version = int(text) if text.isdecimal() else 0
    if version not in SUPPORTED_VERSIONS:
        raise UnsupportedError(f"format version {text} is not supported; supported are 1, 2 and 3")
    schema.check_format_version(version)
    fresh = _struct(assign_fresh_schema_ids(schema.as_struct()))
    ids = dict(zip(_ids(schema.as_struct()), _ids(fresh), strict=True))
    new_schema = Schema(*fresh.fields, identifier_field_ids=[ids[number] for number in schema.identifier_field_ids])
    new_spec = PartitionSpec(
        *(
            replace(
                part,
                source_id=_source(ids, part.source_id),
                source_ids=tuple(_source(ids, number) for number in part.source_ids),
                field_id=PARTITION_FIELD_ID_START + position,
            )
            for position, part in enumerate(spec.fields)
        )
    )
    keys = [
        replace(
            key,
            source_id=_source(ids, key.source_id),
            source_ids=tuple(_source(ids, number) for number in key.source_ids),
        )
        for key in sort_order.fields
    ]
    order = SortOrder(*keys) if keys else UNSORTED_SORT_ORDER
    return TableMetadata(
        format_version=version,
        table_uuid=uuid.uuid4(),
        location=location,
        last_updated_ms=int(time.time() * 1000),
        last_column_id=new_schema.highest_field_id,
        schemas=(new_schema,),
        current_schema_id=new_schema.schema_id,
        partition_specs=(new_spec,),
        default_spec_id=new_spec.spec_id,
        last_partition_id=new_spec.last_assigned_field_id,
        properties={name: value for name, value in properties.items() if name != FORMAT_VERSION_PROPERTY},
        sort_orders=(order,),
        default_sort_order_id=order.order_id,
        next_row_id=0 if version >= VERSION_WITH_ROW_IDS else None,
    )


def _struct(type_: IcebergType) -> StructType:
    assert isinstance(type_, StructType), "a struct keeps its kind"
    return type_


def _ids(type_: IcebergType) -> Iterator[int]:
    """The ids of the fields within a type, in an order that does not depend on them."""
    for child in children_of(type_):
        yield child.field_id
        yield from _ids(child.field_type)


def _source(ids: Mapping[int, int], number: int) -> int:
    found = ids.get(number)
    if found is None:
        raise SchemaError(f"a partition or sort field refers to field {number}, which the schema does not have")
    return found
