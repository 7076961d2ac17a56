"""Applying of updates to table metadata, for catalogs that leave it to their clients.

Spec: Iceberg REST specification, `TableUpdate`; Iceberg spec, Table Metadata Fields, Row Lineage.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec

from skerry.errors import ConflictError, SchemaError, UnsupportedError
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.snapshot import MAIN_BRANCH, MetadataLogEntry, SnapshotLogEntry
from skerry.iceberg.metadata.sort_order import SortOrder
from skerry.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from skerry.iceberg.metadata.table_metadata import SUPPORTED_VERSIONS, VERSION_WITH_ROW_IDS, TableMetadata
from skerry.iceberg.metadata.table_updates import (
    LAST_ADDED,
    AddEncryptionKeyUpdate,
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssignUUIDUpdate,
    RemoveEncryptionKeyUpdate,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemovePropertiesUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

__all__ = ["PREVIOUS_VERSIONS_PROPERTY", "apply_updates"]

PREVIOUS_VERSIONS_PROPERTY: Final = "write.metadata.previous-versions-max"
_PREVIOUS_VERSIONS: Final = 100
_WHOLE_NUMBER: Final = re.compile(r"\d{1,10}", re.ASCII)

Update = TypeVar("Update", bound=TableUpdate)
_Apply = Callable[["_State", Any], None]
_APPLY: dict[type[TableUpdate], _Apply] = {}


def apply_updates(
    base: TableMetadata,
    updates: Iterable[TableUpdate],
    *,
    metadata_location: str | None,
    now_ms: int | None = None,
) -> TableMetadata:
    """The metadata after some updates; `base` itself if they change nothing.

    Args:
        base: The state before.
        updates: The updates, one after the other.
        metadata_location: The metadata file of `base`, which the log names afterwards; None without one.
        now_ms: The time, in milliseconds since 1970; that of the clock if None.

    Raises:
        ConflictError: An update contradicts what another writer did: it refers to something that is gone, or takes a
            number that is taken.
        SchemaError: An update cannot be applied to any state.
        UnsupportedError: The format version or kind of update is not supported.
    """
    state = _State(base, int(time.time() * 1000) if now_ms is None else now_ms)
    for update in updates:
        apply = _APPLY.get(type(update))
        if apply is None:
            raise UnsupportedError(f"updates of kind {update.action!r} are not supported")
        apply(state, update)
    if state.metadata == base:
        return base
    after = state.metadata
    if state.updated_ms is None:
        after = replace(after, last_updated_ms=max(state.now_ms, base.last_updated_ms))
    return after if metadata_location is None else _logged(after, metadata_location, base.last_updated_ms)


def _logged(metadata: TableMetadata, location: str, timestamp_ms: int) -> TableMetadata:
    """Metadata whose log names the previous metadata file.

    Spec: Iceberg properties, `write.metadata.previous-versions-max`.
    """
    text = metadata.properties.get(PREVIOUS_VERSIONS_PROPERTY, "").strip()
    limit = max(1, int(text)) if _WHOLE_NUMBER.fullmatch(text) else _PREVIOUS_VERSIONS
    log = (*metadata.metadata_log, MetadataLogEntry(metadata_file=location, timestamp_ms=timestamp_ms))
    return replace(metadata, metadata_log=log[-limit:])


@dataclass
class _State:
    """The metadata between two updates, and what the ones before have added."""

    metadata: TableMetadata
    now_ms: int
    updated_ms: int | None = None
    added_schema: int | None = None
    added_spec: int | None = None
    added_order: int | None = None
    added_snapshots: set[int] = field(default_factory=set)

    def change(self, **fields: Any) -> None:
        self.metadata = replace(self.metadata, **fields)


def _applies(kind: type[Update]) -> Callable[[Callable[[_State, Update], None]], Callable[[_State, Update], None]]:
    def register(apply: Callable[[_State, Update], None]) -> Callable[[_State, Update], None]:
        _APPLY[kind] = apply
        return apply

    return register


@_applies(AssignUUIDUpdate)
def _assign_uuid(state: _State, update: AssignUUIDUpdate) -> None:
    known = state.metadata.table_uuid
    if known is not None and known != update.uuid:
        raise ConflictError(f"the table has the uuid {known} and cannot get {update.uuid}", retryable=False)
    state.change(table_uuid=update.uuid)


@_applies(UpgradeFormatVersionUpdate)
def _upgrade(state: _State, update: UpgradeFormatVersionUpdate) -> None:
    now, wanted = state.metadata.format_version, update.format_version
    if wanted not in SUPPORTED_VERSIONS:
        raise UnsupportedError(f"format version {wanted} is not supported")
    if wanted < now:
        raise ConflictError(f"the table has format version {now} and cannot be downgraded to {wanted}", retryable=False)
    if wanted == now:
        return
    if now == 1:
        numbered = tuple(msgspec.structs.replace(one, sequence_number=0) for one in state.metadata.snapshots)
        state.change(last_sequence_number=0, snapshots=numbered)
    row_ids = {"next_row_id": 0} if wanted >= VERSION_WITH_ROW_IDS else {}
    state.change(format_version=wanted, **row_ids)


@_applies(AddSchemaUpdate)
def _add_schema(state: _State, update: AddSchemaUpdate) -> None:
    metadata = state.metadata
    schema = update.schema
    known = metadata.schema_by_id(schema.schema_id)
    if known is None:
        last = max(metadata.last_column_id, schema.highest_field_id, update.last_column_id or 0)
        state.change(schemas=(*metadata.schemas, schema), last_column_id=last)
    elif known != schema:
        raise ConflictError(f"another writer added schema {schema.schema_id}")
    state.added_schema = schema.schema_id


@_applies(SetCurrentSchemaUpdate)
def _set_schema(state: _State, update: SetCurrentSchemaUpdate) -> None:
    number = _number("schema", update.schema_id, state.added_schema)
    if state.metadata.schema_by_id(number) is None:
        raise ConflictError(f"there is no schema {number}")
    state.change(current_schema_id=number)


@_applies(AddPartitionSpecUpdate)
def _add_spec(state: _State, update: AddPartitionSpecUpdate) -> None:
    metadata = state.metadata
    spec: PartitionSpec = update.spec
    known = metadata.specs().get(spec.spec_id)
    if known is None:
        last = max(metadata.last_partition_id, spec.last_assigned_field_id)
        state.change(partition_specs=(*metadata.partition_specs, spec), last_partition_id=last)
    elif known != spec:
        raise ConflictError(f"another writer added partition spec {spec.spec_id}")
    state.added_spec = spec.spec_id


@_applies(SetDefaultSpecUpdate)
def _set_spec(state: _State, update: SetDefaultSpecUpdate) -> None:
    number = _number("partition spec", update.spec_id, state.added_spec)
    if number not in state.metadata.specs():
        raise ConflictError(f"there is no partition spec {number}")
    state.change(default_spec_id=number)


@_applies(AddSortOrderUpdate)
def _add_sort_order(state: _State, update: AddSortOrderUpdate) -> None:
    order: SortOrder = update.sort_order
    known = state.metadata.sort_order_by_id(order.order_id)
    if known is None:
        state.change(sort_orders=(*state.metadata.sort_orders, order))
    elif known != order:
        raise ConflictError(f"another writer added sort order {order.order_id}")
    state.added_order = order.order_id


@_applies(SetDefaultSortOrderUpdate)
def _set_sort_order(state: _State, update: SetDefaultSortOrderUpdate) -> None:
    number = _number("sort order", update.sort_order_id, state.added_order)
    if state.metadata.sort_order_by_id(number) is None:
        raise ConflictError(f"there is no sort order {number}")
    state.change(default_sort_order_id=number)


@_applies(AddSnapshotUpdate)
def _add_snapshot(state: _State, update: AddSnapshotUpdate) -> None:
    metadata, snapshot = state.metadata, update.snapshot
    if metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
        raise ConflictError(f"snapshot {snapshot.snapshot_id} exists already")
    changed: dict[str, Any] = {"snapshots": (*metadata.snapshots, snapshot), "last_updated_ms": snapshot.timestamp_ms}
    if metadata.format_version > 1:
        last = metadata.last_sequence_number
        if (snapshot.sequence_number or 0) <= last:
            raise ConflictError(f"another writer took sequence number {last}")
        changed["last_sequence_number"] = snapshot.sequence_number
    if metadata.format_version >= VERSION_WITH_ROW_IDS:
        first = metadata.next_row_id or 0
        if snapshot.first_row_id is None or snapshot.first_row_id < first:
            raise ConflictError(f"another writer took the row ids before {first}")
        changed["next_row_id"] = snapshot.first_row_id + (snapshot.added_rows or 0)
    state.change(**changed)
    state.updated_ms = snapshot.timestamp_ms
    state.added_snapshots.add(snapshot.snapshot_id)


@_applies(SetSnapshotRefUpdate)
def _set_ref(state: _State, update: SetSnapshotRefUpdate) -> None:
    metadata, ref = state.metadata, update.ref
    if metadata.refs.get(update.ref_name) == ref:
        return
    snapshot = metadata.snapshot_by_id(ref.snapshot_id)
    if snapshot is None:
        raise ConflictError(f"{update.type} {update.ref_name!r} cannot refer to snapshot {ref.snapshot_id}: it is gone")
    changed: dict[str, Any] = {"refs": {**metadata.refs, update.ref_name: ref}}
    if update.ref_name == MAIN_BRANCH:
        is_added = ref.snapshot_id in state.added_snapshots
        state.updated_ms = snapshot.timestamp_ms if is_added else max(state.now_ms, metadata.last_updated_ms)
        entry = SnapshotLogEntry(snapshot_id=ref.snapshot_id, timestamp_ms=state.updated_ms)
        changed |= {
            "current_snapshot_id": ref.snapshot_id,
            "snapshot_log": (*metadata.snapshot_log, entry),
            "last_updated_ms": state.updated_ms,
        }
    state.change(**changed)


@_applies(RemoveSnapshotsUpdate)
def _remove_snapshots(state: _State, update: RemoveSnapshotsUpdate) -> None:
    metadata = state.metadata
    expired = set(update.snapshot_ids)
    for name, ref in metadata.refs.items():
        if ref.snapshot_id in expired:
            raise ConflictError(f"{ref.snapshot_ref_type} {name} now names snapshot {ref.snapshot_id}")
    if not all(metadata.snapshot_by_id(number) is not None for number in expired):
        raise ConflictError("a snapshot was removed by another writer")

    def remaining(entries: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(entry for entry in entries if entry.snapshot_id not in expired)

    state.change(
        snapshots=remaining(metadata.snapshots),
        statistics=remaining(metadata.statistics),
        partition_statistics=remaining(metadata.partition_statistics),
        snapshot_log=_without_gaps(metadata.snapshot_log, expired),
    )


def _without_gaps(log: Sequence[SnapshotLogEntry], expired: set[int]) -> tuple[SnapshotLogEntry, ...]:
    """The remaining history: entries before a removed snapshot would seem to have lasted longer.

    Spec: Iceberg spec, Table Metadata Fields, `snapshot-log`.
    """
    gaps = [index for index, entry in enumerate(log) if entry.snapshot_id in expired]
    return tuple(log[gaps[-1] + 1 :] if gaps else log)


@_applies(RemoveSnapshotRefUpdate)
def _remove_ref(state: _State, update: RemoveSnapshotRefUpdate) -> None:
    refs = {name: ref for name, ref in state.metadata.refs.items() if name != update.ref_name}
    current = {"current_snapshot_id": None} if update.ref_name == MAIN_BRANCH else {}
    state.change(refs=refs, **current)


@_applies(SetLocationUpdate)
def _set_location(state: _State, update: SetLocationUpdate) -> None:
    state.change(location=update.location)


@_applies(SetPropertiesUpdate)
def _set_properties(state: _State, update: SetPropertiesUpdate) -> None:
    state.change(properties={**state.metadata.properties, **update.updates})


@_applies(RemovePropertiesUpdate)
def _remove_properties(state: _State, update: RemovePropertiesUpdate) -> None:
    gone = set(update.removals)
    state.change(properties={name: value for name, value in state.metadata.properties.items() if name not in gone})


@_applies(SetStatisticsUpdate)
def _set_statistics(state: _State, update: SetStatisticsUpdate) -> None:
    file: StatisticsFile = update.statistics
    state.change(statistics=(*_others(state.metadata.statistics, file.snapshot_id), file))


@_applies(RemoveStatisticsUpdate)
def _remove_statistics(state: _State, update: RemoveStatisticsUpdate) -> None:
    state.change(statistics=_others(state.metadata.statistics, update.snapshot_id))


@_applies(SetPartitionStatisticsUpdate)
def _set_partition_statistics(state: _State, update: SetPartitionStatisticsUpdate) -> None:
    file: PartitionStatisticsFile = update.partition_statistics
    state.change(partition_statistics=(*_others(state.metadata.partition_statistics, file.snapshot_id), file))


@_applies(RemovePartitionStatisticsUpdate)
def _remove_partition_statistics(state: _State, update: RemovePartitionStatisticsUpdate) -> None:
    state.change(partition_statistics=_others(state.metadata.partition_statistics, update.snapshot_id))


def _others(files: Iterable[Any], snapshot_id: int) -> tuple[Any, ...]:
    return tuple(file for file in files if file.snapshot_id != snapshot_id)


@_applies(RemovePartitionSpecsUpdate)
def _remove_specs(state: _State, update: RemovePartitionSpecsUpdate) -> None:
    metadata, gone = state.metadata, set(update.spec_ids)
    if metadata.default_spec_id in gone:
        raise ConflictError(f"partition spec {metadata.default_spec_id} is the one for new files")
    state.change(partition_specs=tuple(spec for spec in metadata.partition_specs if spec.spec_id not in gone))


@_applies(RemoveSchemasUpdate)
def _remove_schemas(state: _State, update: RemoveSchemasUpdate) -> None:
    metadata, gone = state.metadata, set(update.schema_ids)
    if metadata.current_schema_id in gone:
        raise ConflictError(f"schema {metadata.current_schema_id} is the current one")
    state.change(schemas=tuple(schema for schema in metadata.schemas if schema.schema_id not in gone))


@_applies(AddEncryptionKeyUpdate)
def _add_key(state: _State, update: AddEncryptionKeyUpdate) -> None:
    key = update.encryption_key
    known = tuple(one for one in state.metadata.encryption_keys if one.key_id != key.key_id)
    state.change(encryption_keys=(*known, key))


@_applies(RemoveEncryptionKeyUpdate)
def _remove_key(state: _State, update: RemoveEncryptionKeyUpdate) -> None:
    known = state.metadata.encryption_keys
    state.change(encryption_keys=tuple(key for key in known if key.key_id != update.key_id))


def _number(what: str, number: int, added: int | None) -> int:
    """The id that an update means, which may stand for the last added one."""
    if number != LAST_ADDED:
        return number
    if added is None:
        raise SchemaError(f"no {what} was added that could become the one for new files")
    return added
