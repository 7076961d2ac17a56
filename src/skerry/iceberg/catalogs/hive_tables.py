"""Iceberg tables as a Hive metastore has them: columns, location, and parameters that name the metadata file.

Spec: Iceberg spec, Metastore Tables; docs/catalogs.md, Hive.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from skerry.databases.thrift_binary import Kind, Struct, integer, list_of, record, text, text_in, texts, texts_in
from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.iceberg.catalogs.hive_checksum import metadata_checksum, text_checksum
from skerry.iceberg.catalogs.records import Identifier
from skerry.iceberg.metadata.json_records import encode_json
from skerry.iceberg.metadata.table_metadata import DATA_KEY_LENGTH, TABLE_KEY_ID, TableMetadata
from skerry.iceberg.metadata.types import DecimalType, IcebergType, ListType, MapType, StructType

__all__ = [
    "METADATA_LOCATION",
    "check_against_metastore",
    "check_is_table",
    "hive_type",
    "is_iceberg",
    "metadata_location",
    "new_hive_table",
    "renamed",
    "updated_hive_table",
]

METADATA_LOCATION: Final = "metadata_location"
_PREVIOUS: Final = "previous_metadata_location"
_CHECKSUM: Final = "metadata_hash"
_KIND: Final = "table_type"
_HANDLER: Final = "storage_handler"
_MAX_PARAMETER: Final = 32672
"""Characters of a parameter that describes the table, as in Iceberg Java; longer ones are left out."""
_NAMES: Final = {"gc.enabled": "external.table.purge"}
"""Iceberg's properties that Hive calls otherwise."""
_OWNER: Final = "hive.metastore.table.owner"
_TOTALS: Final = {"total-data-files": "numFiles", "total-records": "numRows", "total-files-size": "totalSize"}
# fields of the structs of hive_metastore.thrift
_NAME, _DATABASE, _TABLE_OWNER, _CREATED, _ACCESSED, _RETENTION, _STORAGE = 1, 2, 3, 4, 5, 6, 7
_PARTITIONS, _PARAMETERS, _TABLE_TYPE = 8, 9, 12
_RULE: Final = "docs/encryption.md, The checksum in the metastore"
_HIVE_TYPES: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
    "timestamp_ns": "timestamp",
    "timestamptz_ns": "timestamp",
    "binary": "binary",
    "variant": "unknown",
}


def hive_type(type_: IcebergType) -> str:
    """The type of a column in the metastore, which Hive shows and no reader of Iceberg looks at."""
    if isinstance(type_, StructType):
        return f"struct<{','.join(f'{field.name}:{hive_type(field.field_type)}' for field in type_.fields)}>"
    if isinstance(type_, ListType):
        return f"array<{hive_type(type_.element_type)}>"
    if isinstance(type_, MapType):
        return f"map<{hive_type(type_.key_type)},{hive_type(type_.value_type)}>"
    if isinstance(type_, DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    name = str(type_)
    if name.startswith(("fixed", "geometry", "geography")):
        return "binary"
    return _HIVE_TYPES.get(name, "string")


def is_iceberg(table: Struct) -> bool:
    """Whether a table of the metastore is one of Iceberg."""
    return texts_in(table, _PARAMETERS).get(_KIND, "").upper() == "ICEBERG"


def check_is_table(table: Struct, identifier: Identifier) -> None:
    """Refuse what is in the metastore, and is no table of Iceberg.

    Raises:
        SchemaError: It is something else.
    """
    if not is_iceberg(table):
        kind = texts_in(table, _PARAMETERS).get(_KIND) or text_in(table, _TABLE_TYPE) or "unknown"
        raise SchemaError(f"{'.'.join(identifier)!r} is no Iceberg table: the metastore says {kind!r}")


def metadata_location(table: Struct, identifier: Identifier) -> str:
    """The metadata file of a table.

    Raises:
        FormatError: It has none.
        SchemaError: It is no Iceberg table.
    """
    check_is_table(table, identifier)
    found = texts_in(table, _PARAMETERS).get(METADATA_LOCATION)
    if not found:
        raise FormatError(f"the metastore has no {METADATA_LOCATION} for table {'.'.join(identifier)!r}")
    return found


def check_against_metastore(table: Struct, metadata: TableMetadata, data: bytes, location: str) -> None:
    """Check that metadata is what its writer told the metastore, if the table is encrypted.

    Args:
        table: The table in the metastore.
        metadata: What its metadata file says.
        data: The text of that file, not compressed.
        location: That file.

    Raises:
        FormatError: It was changed.

    Spec: docs/encryption.md, The checksum in the metastore.
    """
    parameters = texts_in(table, _PARAMETERS)
    key_id = parameters.get(TABLE_KEY_ID)
    if key_id is None:
        return
    checksum = parameters.get(_CHECKSUM)
    if checksum and checksum not in (text_checksum(data), metadata_checksum(metadata)):
        raise FormatError(
            "the metadata file was changed: its checksum is not that in the metastore", location=location, rule=_RULE
        )
    for name in (TABLE_KEY_ID, DATA_KEY_LENGTH):
        expected, found = parameters.get(name), metadata.properties.get(name)
        if expected != found:
            raise FormatError(
                f"the metadata file was changed: its property {name} is {found!r}, in the metastore it is {expected!r}",
                location=location,
                rule=_RULE,
            )


def new_hive_table(identifier: Identifier, metadata: TableMetadata, location: str, user: str) -> Struct:
    """A table that the metastore does not have yet.

    Args:
        identifier: Its database and name.
        metadata: Its metadata.
        location: The metadata file.
        user: Who creates it.
    """
    now = int(time.time())
    table: Struct = {
        _NAME: text(identifier[1]),
        _DATABASE: text(identifier[0]),
        _TABLE_OWNER: text(metadata.properties.get(_OWNER, user)),
        _CREATED: integer(now),
        _ACCESSED: integer(now),
        _RETENTION: integer(2**31 - 1),
        _PARTITIONS: list_of(Kind.STRUCT, []),
        _PARAMETERS: texts({"EXTERNAL": "TRUE"}),
        _TABLE_TYPE: text("EXTERNAL_TABLE"),
    }
    return updated_hive_table(table, {}, metadata, location, None)


def updated_hive_table(
    table: Struct, before: Mapping[str, str], metadata: TableMetadata, location: str, previous: str | None
) -> Struct:
    """A table after a commit; what we do not know of it stays.

    Args:
        table: The table in the metastore.
        before: The properties of the table before the commit.
        metadata: Its metadata afterwards.
        location: The metadata file afterwards.
        previous: The metadata file before.

    Raises:
        UnsupportedError: The key of an encrypted table would be changed or taken away.
    """
    if before.get(TABLE_KEY_ID) != metadata.properties.get(TABLE_KEY_ID) and (TABLE_KEY_ID in before or previous):
        raise UnsupportedError(f"{TABLE_KEY_ID} of a table cannot be changed", rule=_RULE)
    is_for_hive = metadata.properties.get("engine.hive.enabled", "").lower() == "true"
    parameters = texts_in(table, _PARAMETERS)
    for name in before:
        if name not in metadata.properties:
            parameters.pop(_NAMES.get(name, name), None)
    for name in ("COLUMN_STATS_ACCURATE", _HANDLER, _CHECKSUM):
        parameters.pop(name, None)
    own = {_NAMES.get(name, name): value for name, value in metadata.properties.items() if name.lower() != _OWNER}
    parameters |= own | {
        **({} if metadata.table_uuid is None else {"uuid": str(metadata.table_uuid)}),
        _KIND: "ICEBERG",
        METADATA_LOCATION: location,
        "DO_NOT_UPDATE_STATS": "true",
    }
    if previous is not None:
        parameters[_PREVIOUS] = previous
    if is_for_hive:
        parameters[_HANDLER] = "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"
    if TABLE_KEY_ID in metadata.properties:
        checksum = metadata_checksum(metadata)
        parameters |= {} if checksum is None else {_CHECKSUM: checksum}
    _describe(parameters, metadata)
    return {
        **table,
        _STORAGE: record(_storage(metadata, is_for_hive=is_for_hive)),
        _PARAMETERS: texts(parameters),
    }


def renamed(table: Struct, identifier: Identifier) -> Struct:
    """A table under another name."""
    return {**table, _NAME: text(identifier[1]), _DATABASE: text(identifier[0])}


def _describe(parameters: dict[str, str], metadata: TableMetadata) -> None:
    """Set the parameters by which other programs see a table without its metadata file."""
    snapshot, spec, order = metadata.current_snapshot(), metadata.spec(), metadata.sort_order()
    summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary
    shown: dict[str, Callable[[], str] | None] = {
        "current-schema": lambda: encode_json(metadata.schema()).decode(),
        "current-snapshot-id": None if snapshot is None else lambda: str(snapshot.snapshot_id),
        "current-snapshot-timestamp-ms": None if snapshot is None else lambda: str(snapshot.timestamp_ms),
        "current-snapshot-summary": None
        if snapshot is None
        else lambda: encode_json({name: value for name, value in summary.items() if name != "operation"}).decode(),
        "default-partition-spec": None if spec.is_unpartitioned() else lambda: encode_json(spec).decode(),
        "default-sort-order": None if order.is_unsorted else lambda: encode_json(order).decode(),
        "snapshot-count": lambda: str(len(metadata.snapshots)),
    }
    for name, value in shown.items():
        parameters.pop(name, None)
        if value is not None and len(written := value()) <= _MAX_PARAMETER:
            parameters[name] = written
    for name, hive_name in _TOTALS.items():
        if name in summary:
            parameters[hive_name] = str(summary[name])


def _storage(metadata: TableMetadata, *, is_for_hive: bool) -> Struct:
    columns = []
    for field in metadata.schema().fields:
        column = {1: text(field.name), 2: text(hive_type(field.field_type))}
        columns.append(column | ({3: text(field.doc)} if field.doc else {}))
    if is_for_hive:
        package = "org.apache.iceberg.mr.hive.HiveIceberg"
        classes = f"{package}InputFormat", f"{package}OutputFormat", f"{package}SerDe"
    else:
        package = "org.apache.hadoop.mapred.File"
        serde = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
        classes = f"{package}InputFormat", f"{package}OutputFormat", serde
    return {
        1: list_of(Kind.STRUCT, columns),
        2: text(metadata.location),
        3: text(classes[0]),
        4: text(classes[1]),
        5: (Kind.BOOL, 0),
        6: integer(0),
        7: record({2: text(classes[2]), 3: texts({})}),
        8: list_of(Kind.STRING, []),
        9: list_of(Kind.STRUCT, []),
        10: texts({}),
    }
