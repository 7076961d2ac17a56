"""The table properties that jobs, commits and scans obey, checked when they are set: no wrong value waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.cleaning.expiry import RetentionDefaults
from skerry.iceberg.evolution.known_properties import warn_of_unknown
from skerry.iceberg.manifest_changes import MergePolicy
from skerry.iceberg.manifests.manifest_list import manifest_codec
from skerry.iceberg.metadata.table_metadata import TABLE_KEY_ID, data_key_bytes
from skerry.iceberg.operations.change_mode import ChangeMode
from skerry.iceberg.operations.conflicts import Isolation
from skerry.iceberg.planning.splits import target_split_bytes
from skerry.iceberg.statistics.row_deletes import RowDeletePolicy
from skerry.iceberg.writing.file_writers import FileEncoding
from skerry.iceberg.writing.layout import check_layout_properties
from skerry.table.commit import RetryPolicy
from skerry.table.files.locations import OUTSIDE_PROPERTY
from skerry.table.indexes.definitions import INDEX_PREFIX, check_index_properties
from skerry.table.properties import BACKGROUND_PROPERTY, check_flag, whole_number
from skerry.table.statistics.settings import check_statistics_properties

__all__ = ["check_properties"]


_FLAGS: Final = (
    "gc.enabled",
    "write.wap.enabled",
    "write.metadata.delete-after-commit.enabled",
    "skerry.statistics.catch-up",
    OUTSIDE_PROPERTY,
)
_RULE: Final = "Iceberg spec, Encryption Keys"
_FILE_FORMATS: Final = ("write.format.default", "write.delete.format.default")
"""They decide which other properties count."""


def check_properties(
    properties: Mapping[str, str],
    schema: pa.Schema,
    before: Mapping[str, str] = MappingProxyType({}),
    *,
    why_not_encrypted: str | None = "a table is encrypted from its first file to its last, or not at all",
) -> None:
    """Refuse values that jobs, commits or scans could not obey, and warn of names that no engine obeys.

    Args:
        properties: The table's properties.
        schema: Its columns, with field ids.
        before: Its properties until now. Those that stay are not checked: another engine may obey them.
        why_not_encrypted: Why the table cannot be an encrypted one; None if it can.

    Raises:
        SchemaError: A property has an invalid value, or means nothing in Iceberg tables; the message names it.
        UnsupportedError: A table would become an encrypted one, or change its key; or it is encrypted, and what is
            asked for would not be.
    """
    _check_encryption(properties, before, why_not_encrypted)
    if any(name in properties and before.get(name) != properties[name] for name in _FILE_FORMATS):
        for deletes in (False, True):  # the codec of the new format counts from now on
            FileEncoding.from_properties(properties, deletes=deletes)
    properties = {
        name: value for name, value in properties.items() if before.get(name) != value or name in _FILE_FORMATS
    }
    if BACKGROUND_PROPERTY in properties:
        raise SchemaError(
            f"table property {BACKGROUND_PROPERTY} is of Paimon tables, whose writers compact them; Iceberg tables are "
            "compacted by compact()"
        )
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


def _check_encryption(properties: Mapping[str, str], before: Mapping[str, str], why_not_encrypted: str | None) -> None:
    if before and before.get(TABLE_KEY_ID) != properties.get(TABLE_KEY_ID):
        raise UnsupportedError(
            f"{TABLE_KEY_ID} cannot be set, changed or removed: a table is encrypted from its first file to its last",
            rule=_RULE,
        )
    if TABLE_KEY_ID not in properties:
        return
    if not before and why_not_encrypted is not None:
        raise UnsupportedError(f"{TABLE_KEY_ID} cannot be set: {why_not_encrypted}", rule=_RULE)
    if not before and properties.get("format-version", "2") in ("1", "2"):
        raise SchemaError("encrypted tables need format version 3: create_table(…, format_version=3)", rule=_RULE)
    data_key_bytes(properties)
    index = next((name for name in properties if name.startswith(INDEX_PREFIX) and name not in before), None)
    if index is not None:
        raise UnsupportedError(f"{index}: indexes are not encrypted, and not made for an encrypted table", rule=_RULE)
