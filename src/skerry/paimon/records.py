"""Converts snapshots and files of Paimon tables to the records shared by all table formats."""

from __future__ import annotations

from typing import Final

from skerry.paimon.cleaning.reachability import FileUse, PaimonFile
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.snapshot import Snapshot as PaimonSnapshot
from skerry.table.history import Snapshot, of_millis
from skerry.table.table_files import FileKind, TableFile

__all__ = ["described_snapshot", "table_file"]

_OPERATIONS: Final = {
    CommitKind.APPEND: "append",
    CommitKind.COMPACT: "replace",
    CommitKind.OVERWRITE: "overwrite",
    CommitKind.ANALYZE: "replace",
}
_KINDS: Final = {
    FileUse.DATA: FileKind.DATA,
    FileUse.MANIFEST: FileKind.MANIFEST,
    FileUse.MANIFEST_LIST: FileKind.MANIFEST_LIST,
    FileUse.INDEX: FileKind.INDEX,
    FileUse.STATISTICS: FileKind.STATISTICS,
}


def described_snapshot(snapshot: PaimonSnapshot) -> Snapshot:
    """A snapshot with its counts as a summary."""
    summary = dict(snapshot.properties or {})
    for name, count in (
        ("total-records", snapshot.total_record_count),
        ("delta-records", snapshot.delta_record_count),
        ("changelog-records", snapshot.changelog_record_count),
        ("watermark", snapshot.watermark),
    ):
        if count is not None:
            summary[name] = str(count)
    summary |= {"commit-kind": snapshot.commit_kind.value, "commit-user": snapshot.commit_user}
    return Snapshot(
        snapshot_id=snapshot.id,
        parent_id=snapshot.id - 1 if snapshot.id > 1 else None,
        sequence_number=snapshot.id,
        timestamp=of_millis(snapshot.time_millis),
        operation=_OPERATIONS[snapshot.commit_kind],
        summary=summary,
        has_statistics=snapshot.statistics is not None,
    )


def table_file(file: PaimonFile) -> TableFile:
    """A file by its use in the table."""
    return TableFile(file.location, _KINDS[file.use], file.size_bytes)
