"""The table properties that commits and expiry obey, checked when they are set: no wrong value waits for a commit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from skerry.iceberg.cleaning.expiry import RetentionDefaults
from skerry.iceberg.manifest_changes import MergePolicy
from skerry.iceberg.writing.layout import check_layout_properties
from skerry.table.commit import RetryPolicy
from skerry.table.statistics.settings import check_statistics_properties

__all__ = ["check_properties"]


_FILE_FORMATS: Final = ("write.format.default", "write.delete.format.default")
"""They decide which other properties count."""


def check_properties(
    properties: Mapping[str, str], schema: pa.Schema, before: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Refuse values that commits, writers or expiry could not obey.

    Args:
        properties: The table's properties.
        schema: Its columns, with field ids.
        before: Its properties until now. Those that stay are not checked: another engine may obey them.

    Raises:
        SchemaError: A property has an invalid value; the message names it.
    """
    properties = {
        name: value for name, value in properties.items() if before.get(name) != value or name in _FILE_FORMATS
    }
    check_statistics_properties(properties, schema)
    check_layout_properties(properties, schema)
    RetryPolicy.from_properties(properties)
    MergePolicy.from_properties(properties)
    RetentionDefaults.from_properties(properties)
