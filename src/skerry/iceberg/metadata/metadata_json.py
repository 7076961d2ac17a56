"""Metadata files: the JSON of table metadata, read strictly where a wrong reading would lose rows.

Fields that the specification does not know are kept and written back. Lists that are null are empty, as in Iceberg
Java.

Spec: Iceberg spec, Table Metadata Fields, Table Metadata and Snapshots, Appendix E.
"""

from __future__ import annotations

import functools
import gzip
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from skerry.compression import decompress_gzip, decompress_zstd
from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.json_records import (
    JsonRecord,
    decode_fields,
    decode_json,
    decode_record,
    decode_records,
    encode_json,
    have_unknown,
    read_records,
)
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import (
    MAIN_BRANCH,
    MetadataLogEntry,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    SnapshotRefType,
)
from skerry.iceberg.metadata.sort_order import UNSORTED_SORT_ORDER, SortOrder
from skerry.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from skerry.iceberg.metadata.table_metadata import (
    NO_SNAPSHOT,
    RULE,
    SUPPORTED_VERSIONS,
    VERSION_WITH_ROW_IDS,
    EncryptedKey,
    TableMetadata,
)

__all__ = ["GZIP_SUFFIX", "decode_metadata", "encode_metadata", "inflate_metadata", "parse_metadata"]

GZIP_SUFFIX: Final = ".gz.metadata.json"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_MAX_JSON_BYTES: Final = 16 << 20
_MAX_JSON_EXPANSION: Final = 32
"""Compressed metadata may expand by this factor plus 16 MiB; writers stay below a factor of 20."""
_IDS: Final = range(-(2**63), 2**64)
"""Ids of snapshots; a test table of DuckDB has one above 2^63, which Iceberg Java refuses."""
_KNOWN: Final = frozenset(
    {
        "format-version",
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schema",
        "schemas",
        "current-schema-id",
        "partition-spec",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "properties",
        "current-snapshot-id",
        "snapshots",
        "snapshot-log",
        "metadata-log",
        "sort-orders",
        "default-sort-order-id",
        "refs",
        "statistics",
        "partition-statistics",
        "next-row-id",
        "encryption-keys",
    }
)

_SCHEMAS: Final = "schemas"
_MAX_KEPT_BYTES: Final = 1 << 20
"""Longer texts of schemas are parsed each time."""

_MANY: Final[dict[str, type[JsonRecord]]] = {
    "snapshots": Snapshot,
    "snapshot-log": SnapshotLogEntry,
    "metadata-log": MetadataLogEntry,
    "statistics": StatisticsFile,
    "partition-statistics": PartitionStatisticsFile,
}

Record = TypeVar("Record", bound=JsonRecord)


def inflate_metadata(data: bytes, *, location: str | None = None) -> bytes:
    """The text of a metadata file, compressed or not.

    Raises:
        FormatError: It is compressed and damaged, or expands too much.
    """
    limit = _MAX_JSON_BYTES + _MAX_JSON_EXPANSION * len(data)
    try:
        if data[: len(_GZIP_MAGIC)] == _GZIP_MAGIC:
            return decompress_gzip(data, max_bytes=limit)
        if data[: len(_ZSTD_MAGIC)] == _ZSTD_MAGIC:
            return decompress_zstd(data, max_bytes=limit)
    except FormatError as error:
        error.location = location
        raise
    return data


def decode_metadata(data: bytes, *, location: str | None = None) -> TableMetadata:
    """Read the bytes of a metadata file.

    Args:
        data: The JSON text, compressed or not.
        location: The file, for messages.

    Raises:
        FormatError: It is not table metadata, or contradicts itself.
        UnsupportedError: Its format version or a type is not supported.
    """
    try:
        return parse_metadata(_decode(inflate_metadata(data)))
    except FormatError as error:
        error.location = location
        error.message = f"this is not table metadata: {error.message}"
        raise
    except UnsupportedError as error:
        error.location = location
        raise


_FIELDS: Final = sorted(_KNOWN)


def _kind_of(name: str) -> Any:
    """What a field is decoded as at first."""
    if name in _MANY:
        return tuple[_MANY[name], ...]  # type: ignore[valid-type]
    return msgspec.Raw if name == _SCHEMAS else Any


_Fields: Final = msgspec.defstruct(
    "_Fields",
    [(name.replace("-", "_"), _kind_of(name), None) for name in _FIELDS],
    rename="kebab",
    forbid_unknown_fields=True,
)


def _decode(data: bytes) -> dict[str, Any]:
    """The fields of a metadata file; records that are many are made from the text directly."""
    whole = decode_record(_Fields, data)
    if whole is not None:
        fields = zip(_FIELDS, msgspec.structs.astuple(whole), strict=True)
        found = {name: value for name, value in fields if value is not None}
        text = found.get(_SCHEMAS)
        schemas = None if text is None else _schemas_of(text)
        if schemas is not None and not any(have_unknown(found[name]) for name in _MANY if name in found):
            return {**found, _SCHEMAS: schemas}
    found = {}
    for name, text in decode_fields(data).items():
        kind = _MANY.get(name)
        records = decode_records(kind, text) if kind is not None else _schemas_of(text) if name == _SCHEMAS else None
        found[name] = decode_json(text) if records is None else records
    return found


def _schemas_of(text: Any) -> tuple[Schema, ...] | None:
    """Schemas, which hardly ever change between two metadata files; None if they are not valid."""
    data = bytes(text)
    if len(data) > _MAX_KEPT_BYTES:
        return None
    try:
        return _parsed_schemas(data)
    except SkerryError:
        return None  # parsing says what is wrong, after what comes before


@functools.lru_cache(maxsize=32)
def _parsed_schemas(text: bytes) -> tuple[Schema, ...]:
    return _schemas(JsonObject({_SCHEMAS: decode_json(text)}, "", RULE), is_first=False)


def encode_metadata(metadata: TableMetadata, location: str = "") -> bytes:
    """The bytes of a metadata file.

    Args:
        metadata: The metadata.
        location: The file, whose name says whether it is compressed.

    Spec: Iceberg spec, Table Metadata and Snapshots; Iceberg properties, `write.metadata.compression-codec`.
    """
    data = encode_json(metadata)
    return gzip.compress(data, mtime=0) if location.endswith(GZIP_SUFFIX) else data


def parse_metadata(value: Any, at: str = "") -> TableMetadata:
    """Read the decoded JSON of table metadata.

    Args:
        value: The decoded JSON.
        at: Its place in a larger document, for messages.

    Raises:
        FormatError: A field is missing or of another kind, or something does not exist that is referred to.
        UnsupportedError: The format version or a type is not supported.
    """
    found = JsonObject(value, at, RULE)
    version = found.integer("format-version")
    if version not in SUPPORTED_VERSIONS:
        raise UnsupportedError(
            f"format version {version} is not supported; supported are 1, 2 and 3",
            rule="Iceberg spec, Table Metadata Fields, `format-version`",
        )
    is_first = version == 1
    schemas = _schemas(found, is_first=is_first)
    specs = _specs(found, is_first=is_first)
    orders = _sort_orders(found, is_first=is_first)
    snapshots = _snapshots(found, version)
    current = _current_snapshot_id(found)
    last_partition_id = max(spec.last_assigned_field_id for spec in specs)
    metadata = TableMetadata(
        format_version=version,
        table_uuid=_uuid(found, is_first=is_first),
        location=found.text("location"),
        last_sequence_number=0 if is_first else found.long("last-sequence-number"),
        last_updated_ms=found.long("last-updated-ms"),
        last_column_id=found.integer("last-column-id"),
        schemas=schemas,
        current_schema_id=_integer(found, "current-schema-id", schemas[0].schema_id if is_first else None),
        partition_specs=specs,
        default_spec_id=_integer(found, "default-spec-id", specs[0].spec_id if is_first else None),
        last_partition_id=_integer(found, "last-partition-id", last_partition_id if is_first else None),
        properties=found.strings("properties"),
        current_snapshot_id=current,
        snapshots=snapshots,
        snapshot_log=_records(found, "snapshot-log", SnapshotLogEntry),
        metadata_log=_records(found, "metadata-log", MetadataLogEntry),
        sort_orders=orders,
        default_sort_order_id=_integer(found, "default-sort-order-id", orders[0].order_id if is_first else None),
        refs=_refs(found, current),
        statistics=_records(found, "statistics", StatisticsFile),
        partition_statistics=_records(found, "partition-statistics", PartitionStatisticsFile),
        next_row_id=_next_row_id(found, snapshots) if version >= VERSION_WITH_ROW_IDS else None,
        encryption_keys=_records(found, "encryption-keys", EncryptedKey),
        unknown=dict(found.unknown(_KNOWN)),
    )
    _check_references(found, metadata)
    return metadata


def _integer(found: JsonObject, name: str, default: int | None) -> int:
    return found.integer(name) if default is None else found.integer(name, default)


def _current_snapshot_id(found: JsonObject) -> int | None:
    number = found.value.get("current-snapshot-id")
    if number in (None, NO_SNAPSHOT):
        return None
    if type(number) is not int:
        found.long("current-snapshot-id")  # says what is wrong
    return number


def _schemas(found: JsonObject, *, is_first: bool) -> tuple[Schema, ...]:
    if is_first and not found.has(_SCHEMAS):
        return (Schema.from_json(found.object("schema")),)
    known = found.value.get(_SCHEMAS)
    if isinstance(known, tuple):  # by `_decode`
        return known
    schemas = tuple(Schema.from_json(one) for one in found.objects("schemas", required=True))
    _check_unique(found, "schemas", "schema-id", [schema.schema_id for schema in schemas])
    return schemas


def _specs(found: JsonObject, *, is_first: bool) -> tuple[PartitionSpec, ...]:
    if is_first and not found.has("partition-specs"):
        fields = {"fields": found.array("partition-spec")}
        return (PartitionSpec.from_json(JsonObject(fields, "partition-spec", found.rule)),)
    specs = tuple(PartitionSpec.from_json(one) for one in found.objects("partition-specs", required=True))
    _check_unique(found, "partition-specs", "spec-id", [spec.spec_id for spec in specs])
    return specs


def _sort_orders(found: JsonObject, *, is_first: bool) -> tuple[SortOrder, ...]:
    if is_first and not found.has("sort-orders"):
        return (UNSORTED_SORT_ORDER,)
    orders = tuple(SortOrder.from_json(one) for one in found.objects("sort-orders", required=True))
    _check_unique(found, "sort-orders", "order-id", [order.order_id for order in orders])
    return orders


_manifest_list_of: Final = attrgetter("manifest_list")
_sequence_number_of: Final = attrgetter("sequence_number")


def _snapshots(found: JsonObject, version: int) -> tuple[Snapshot, ...]:
    """The snapshots; those of version 1 in a later version have the sequence number 0.

    Spec: Iceberg spec, Appendix E.
    """
    snapshots = _records(found, "snapshots", Snapshot)
    ids = [snapshot.snapshot_id for snapshot in snapshots]
    for number, snapshot_id in enumerate(ids):
        if snapshot_id not in _IDS:
            raise found.error(f"snapshots[{number}].snapshot-id", f"expected 64 bits, found {snapshot_id}")
    for number, snapshot in enumerate(snapshots) if None in map(_manifest_list_of, snapshots) else ():
        if snapshot.manifest_list is None and snapshot.manifests is None:
            raise found.error(f"snapshots[{number}].manifest-list", "is missing")
    _check_unique(found, "snapshots", "snapshot-id", ids)
    if version > 1 and None in map(_sequence_number_of, snapshots):
        return tuple(
            msgspec.structs.replace(one, sequence_number=0) if one.sequence_number is None else one for one in snapshots
        )
    return snapshots


def _records(found: JsonObject, name: str, kind: type[Record]) -> tuple[Record, ...]:
    value = found.value.get(name)
    if isinstance(value, tuple):  # decoded as records
        return value
    return read_records(kind, found.array(name, []), found.path(name), found.rule)


def _refs(found: JsonObject, current: int | None) -> dict[str, SnapshotRef]:
    """Branches and tags; a table without any has `main` at its current snapshot."""
    named = found.object("refs", None)
    refs = {} if named is None else {name: SnapshotRef.from_json(named.object(name)) for name in named.value}
    if current is not None and MAIN_BRANCH not in refs:
        refs[MAIN_BRANCH] = SnapshotRef(snapshot_id=current, snapshot_ref_type=SnapshotRefType.BRANCH)
    return refs


def _uuid(found: JsonObject, *, is_first: bool) -> UUID | None:
    text = found.text("table-uuid", None) if is_first else found.text("table-uuid")
    try:
        return None if text is None else UUID(text)
    except ValueError:
        raise found.error("table-uuid", f"expected a UUID, found {text!r}") from None


def _next_row_id(found: JsonObject, snapshots: Iterable[Snapshot]) -> int:
    """The next unassigned row id; PyIceberg omits it from the metadata of tables that it creates.

    Spec: Iceberg spec, Row Lineage.
    """
    written = found.long("next-row-id", None)
    if written is not None:
        return written
    return max(((one.first_row_id or 0) + (one.added_rows or 0) for one in snapshots), default=0)


def _check_unique(found: JsonObject, name: str, key: str, ids: Sequence[int]) -> None:
    if not ids and name != "snapshots":
        raise found.error(name, "is empty")
    seen: set[int] = set()
    for number in ids if len(set(ids)) < len(ids) else ():
        if number in seen:
            raise found.error(name, f"two of them have the {key} {number}")
        seen.add(number)


def _check_references(found: JsonObject, metadata: TableMetadata) -> None:
    """Check what is referred to, as Iceberg Java does.

    Raises:
        FormatError: It does not exist.
    """
    if metadata.schema_by_id(metadata.current_schema_id) is None:
        raise found.error("current-schema-id", f"there is no schema {metadata.current_schema_id}")
    if metadata.default_spec_id not in metadata.specs():
        raise found.error("default-spec-id", f"there is no partition spec {metadata.default_spec_id}")
    if metadata.sort_order_by_id(metadata.default_sort_order_id) is None:
        raise found.error("default-sort-order-id", f"there is no sort order {metadata.default_sort_order_id}")
    current = metadata.current_snapshot_id
    if current is not None and metadata.snapshot_by_id(current) is None:
        raise found.error("current-snapshot-id", f"there is no snapshot {current}")
    for name, ref in metadata.refs.items():
        if metadata.snapshot_by_id(ref.snapshot_id) is None:
            raise found.error(f"refs.{name}", f"there is no snapshot {ref.snapshot_id}")
    main = metadata.refs.get(MAIN_BRANCH)
    if main is not None and main.snapshot_id != current:
        raise found.error(
            f"refs.{MAIN_BRANCH}", f"is snapshot {main.snapshot_id}, but current-snapshot-id is {current}"
        )
    last, snapshots = metadata.last_sequence_number, metadata.snapshots if metadata.format_version > 1 else ()
    for snapshot in snapshots if max(map(_sequence_number_of, snapshots), default=0) > last else ():
        if (snapshot.sequence_number or 0) > last:
            raise found.error(
                "last-sequence-number",
                f"is {last}, but snapshot {snapshot.snapshot_id} has {snapshot.sequence_number}",
            )
