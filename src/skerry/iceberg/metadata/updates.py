"""Updates of table metadata that PyIceberg's catalogs do not apply, or not as the specification says.

Each class extends PyIceberg's update of that name, so that a REST catalog's server gets the same JSON; a catalog that
applies updates itself looks a handler up by class, and finds ours.

Spec: Iceberg spec, Table Metadata Fields, Row Lineage for Upgraded Tables.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV2, TableMetadataV3
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    UpgradeFormatVersionUpdate,
    _apply_table_update,
)

from skerry.iceberg.metadata.pyiceberg_metadata import next_row_id

__all__ = ["ExpireSnapshotsUpdate", "NextSnapshotUpdate", "UpgradeUpdate"]

_VERSIONS: dict[int, type[TableMetadataV2 | TableMetadataV3]] = {2: TableMetadataV2, 3: TableMetadataV3}


class NextSnapshotUpdate(AddSnapshotUpdate):
    """Adds a snapshot with a sequence number and row ids after all others."""


class UpgradeUpdate(UpgradeFormatVersionUpdate):
    """Upgrades the format version, also to 3."""


class ExpireSnapshotsUpdate(RemoveSnapshotsUpdate):
    """Removes snapshots, and history entries up to the last removed one."""


@_apply_table_update.register(NextSnapshotUpdate)
def _(update: NextSnapshotUpdate, base_metadata: TableMetadata, context: Any) -> TableMetadata:
    snapshot = update.snapshot
    if not isinstance(base_metadata, TableMetadataV1):
        last = base_metadata.last_sequence_number
        if (snapshot.sequence_number or 0) <= last:
            raise CommitFailedException(f"another writer took sequence number {last}")
    if isinstance(base_metadata, TableMetadataV3):
        first = next_row_id(base_metadata)
        if snapshot.first_row_id is None or snapshot.first_row_id < first:
            raise CommitFailedException(f"another writer took the row ids before {first}")
    add = _apply_table_update.dispatch(AddSnapshotUpdate)
    added: TableMetadata = add(update, base_metadata, context)
    return added


@_apply_table_update.register(UpgradeUpdate)
def _(update: UpgradeUpdate, base_metadata: TableMetadata, context: Any) -> TableMetadata:
    kind = _VERSIONS.get(update.format_version)
    if kind is None or update.format_version < base_metadata.format_version:
        raise CommitFailedException(f"cannot go from format version {base_metadata.format_version} to {kind}")
    if update.format_version == base_metadata.format_version:
        return base_metadata
    fields = {name: getattr(base_metadata, name) for name in kind.model_fields if hasattr(base_metadata, name)}
    fields["format_version"] = update.format_version
    if base_metadata.format_version == 1:
        fields["last_sequence_number"] = 0
        fields["snapshots"] = [
            snapshot.model_copy(update={"sequence_number": 0}) for snapshot in base_metadata.snapshots
        ]
    if update.format_version >= 3:
        fields["next_row_id"] = 0
    context.add_update(update)
    return kind.model_construct(**fields)


@_apply_table_update.register(ExpireSnapshotsUpdate)
def _(update: ExpireSnapshotsUpdate, base_metadata: TableMetadata, context: Any) -> TableMetadata:
    expired = set(update.snapshot_ids)
    for name, ref in base_metadata.refs.items():
        if ref.snapshot_id in expired:
            raise CommitFailedException(f"{ref.snapshot_ref_type} {name} now names snapshot {ref.snapshot_id}")
    if not expired <= {snapshot.snapshot_id for snapshot in base_metadata.snapshots}:
        raise CommitFailedException("a snapshot was removed by another writer")
    context.add_update(update)

    def remaining(entries: list[Any]) -> list[Any]:
        return [entry for entry in entries if entry.snapshot_id not in expired]

    return base_metadata.model_copy(
        update={
            "snapshots": remaining(base_metadata.snapshots),
            "statistics": remaining(base_metadata.statistics),
            "partition_statistics": remaining(base_metadata.partition_statistics),
            "snapshot_log": _without_gaps(base_metadata.snapshot_log, expired),
        }
    )


def _without_gaps(log: list[SnapshotLogEntry], expired: set[int]) -> list[SnapshotLogEntry]:
    """The remaining history: entries before a removed snapshot would seem to have lasted longer.

    Spec: Iceberg spec, Table Metadata Fields, `snapshot-log`.
    """
    gaps = [index for index, entry in enumerate(log) if entry.snapshot_id in expired]
    return log[gaps[-1] + 1 :] if gaps else log
