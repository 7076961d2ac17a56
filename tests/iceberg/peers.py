"""Our records of metadata as PyIceberg's models."""

from __future__ import annotations

import json

from pyiceberg import partitioning, schema, transforms
from pyiceberg.table import sorting

from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.types import NestedField


def peer_schema(ours):
    return schema.Schema.model_validate_json(json.dumps(ours.to_json()))


def peer_type(ours):
    return peer_schema(schema_of(ours)).fields[0].field_type


def schema_of(type_):
    return Schema(NestedField(1_000_000, "c", type_))


def peer_transform(ours):
    return transforms.parse_transform(str(ours))


def peer_spec(ours):
    return partitioning.PartitionSpec.model_validate_json(json.dumps(ours.to_json()))


def peer_order(ours):
    return sorting.SortOrder.model_validate_json(json.dumps(ours.to_json()))
