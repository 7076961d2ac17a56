"""The table properties that jobs, commits and scans obey, checked when they are set: no wrong value waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.iceberg.cleaning.expiry import RetentionDefaults
from skerry.iceberg.evolution.known_properties import warn_of_unknown
from skerry.iceberg.manifest_changes import MergePolicy
from skerry.iceberg.manifests.manifest_list import manifest_codec
from skerry.iceberg.metadata.table_metadata import TABLE_KEY_ID
from skerry.iceberg.operations.change_mode import ChangeMode
from skerry.iceberg.operations.conflicts import Isolation
from skerry.iceberg.planning.splits import target_split_bytes
from skerry.iceberg.statistics.row_deletes import RowDeletePolicy
from skerry.iceberg.writing.file_writers import FileEncoding
from skerry.iceberg.writing.layout import check_layout_properties
from skerry.table.commit import RetryPolicy
from skerry.table.files.locations import OUTSIDE_PROPERTY
from skerry.table.indexes.definitions import check_index_properties
from skerry.table.properties import check_flag, whole_number
from skerry.table.statistics.settings import check_statistics_properties

__all__ = ["check_properties"]


_FLAGS: Final = (
    "gc.enabled",
    "write.wap.enabled",
    "write.metadata.delete-after-commit.enabled",
    "skerry.statistics.catch-up",
    OUTSIDE_PROPERTY,
)
_FILE_FORMATS: Final = ("write.format.default", "write.delete.format.default")
"""They decide which other properties count."""


def check_properties(
    properties: Mapping[str, str], schema: pa.Schema, before: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Refuse values that jobs, commits or scans could not obey, and warn of names that no engine obeys.

    Args:
        properties: The table's properties.
        schema: Its columns, with field ids.
        before: Its properties until now. Those that stay are not checked: another engine may obey them.

    Raises:
        SchemaError: A property has an invalid value; the message names it.
        UnsupportedError: A table that skerry writes would become an encrypted one.
    """
    if TABLE_KEY_ID in properties and before.get(TABLE_KEY_ID) != properties[TABLE_KEY_ID]:
        raise UnsupportedError(
            f"encrypted tables are read, and not written: {TABLE_KEY_ID} cannot be set, see docs/encryption.md",
            rule="Iceberg spec, Encryption Keys",
        )
    if any(name in properties and before.get(name) != properties[name] for name in _FILE_FORMATS):
        for deletes in (False, True):  # the codec of the new format counts from now on
            FileEncoding.from_properties(properties, deletes=deletes)
    properties = {
        name: value for name, value in properties.items() if before.get(name) != value or name in _FILE_FORMATS
    }
    warn_of_unknown(name for name in properties if name not in before)
    check_statistics_properties(properties, schema)
    check_index_properties(properties, schema)
    check_layout_properties(properties, schema)
    RetryPolicy.from_properties(properties)
    MergePolicy.from_properties(properties)
    RetentionDefaults.from_properties(properties)
    RowDeletePolicy.from_properties(properties)
    for action in ("delete", "merge"):
        ChangeMode.from_properties(properties, action)
        Isolation.from_properties(properties, action)
    for name in _FLAGS:
        check_flag(properties, name)
    manifest_codec(properties)
    target_split_bytes(properties)
    whole_number(properties, "write.metadata.previous-versions-max", None)
