"""The table properties that commits and expiry obey, checked when they are set: no wrong value waits for a commit."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from skerry.iceberg.cleaning.expiry import RetentionDefaults
from skerry.iceberg.manifest_changes import MergePolicy
from skerry.iceberg.writing.layout import check_layout_properties
from skerry.table.commit import RetryPolicy
from skerry.table.statistics.settings import check_statistics_properties

__all__ = ["check_properties"]


def check_properties(properties: Mapping[str, str], schema: pa.Schema) -> None:
    """Refuse values that commits, writers or expiry could not obey.

    Args:
        properties: The table's properties.
        schema: Its columns, with field ids.

    Raises:
        SchemaError: A property has an invalid value; the message names it.
    """
    check_statistics_properties(properties, schema)
    check_layout_properties(properties, schema)
    RetryPolicy.from_properties(properties)
    MergePolicy.from_properties(properties)
    RetentionDefaults.from_properties(properties)
