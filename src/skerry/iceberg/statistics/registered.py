"""What a table's metadata says of its statistics: which snapshot has which sketches, and whether they are fresh.

A statistics file describes exactly one snapshot. A blob is fresh for it only if the file is registered for that
snapshot and the metadata's entry of the blob names that snapshot's id and sequence number; everything else is stale:
shown but never used. The files themselves are not read here.

Spec: Iceberg spec, Table Statistics.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa

from skerry.iceberg.manifests.summary import ENGINE_NAME, summary_of
from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.statistics_file import BlobMetadata, StatisticsFile
from skerry.iceberg.metadata.table_metadata import TABLE_KEY_ID, TableMetadata
from skerry.table.history import of_millis
from skerry.table.rows.schema import Leaf
from skerry.table.statistics.column_statistics import FRESH, Freshness, FreshnessState

__all__ = [
    "NDV",
    "SCHEMA_ID",
    "THETA_BLOB",
    "column_blobs",
    "freshness",
    "hashed_type",
    "is_fresh",
    "latest_blobs",
    "ndv_of",
    "since",
]

THETA_BLOB = "apache-datasketches-theta-v1"
NDV = "ndv"
SCHEMA_ID = "skerry.schema-id"


def column_blobs(file: StatisticsFile) -> Iterator[tuple[int, BlobMetadata]]:
    """The Theta sketches of single columns, with their field id."""
    for blob in file.blob_metadata:
        if blob.type == THETA_BLOB and len(blob.fields) == 1:
            yield blob.fields[0], blob


def is_fresh(blob: BlobMetadata, snapshot: Snapshot) -> bool:
    """Whether a blob was computed from exactly this snapshot.

    Snapshots of version 1 have no sequence number, and values of writers (Trino) in blobs mean nothing there.
    """
    number = snapshot.sequence_number or None
    return blob.snapshot_id == snapshot.snapshot_id and number in (None, blob.sequence_number)


def ndv_of(blob: BlobMetadata) -> int | None:
    """The distinct count in the blob's properties, None if there is none or it is not a number."""
    text = (blob.properties or {}).get(NDV, "")
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None


def hashed_type(state: TableState, snapshot: Snapshot, blob: BlobMetadata) -> pa.DataType | None:
    """The type of a column when it was sketched; None if it is no longer known.

    A snapshot has the schema of its commit. If it was analyzed after a schema change, the blob has the schema.
    """
    text = (blob.properties or {}).get(SCHEMA_ID, "")
    schema_id = int(text) if text.isdecimal() else snapshot.schema_id
    return state.column_types(schema_id).get(blob.fields[0])


def latest_blobs(state: TableState, snapshot: Snapshot) -> dict[int, tuple[Snapshot, BlobMetadata]]:
    """By column, the blob of the newest ancestor of `snapshot`, itself included, that has one."""
    entries = {file.snapshot_id for file in state.metadata.statistics}
    found: dict[int, tuple[Snapshot, BlobMetadata]] = {}
    for ancestor in ancestors(state.metadata, snapshot) if entries else ():
        file = state.statistics_file(ancestor.snapshot_id) if ancestor.snapshot_id in entries else None
        for field_id, blob in column_blobs(file) if file is not None else ():
            found.setdefault(field_id, (ancestor, blob))
    return found


def freshness(
    state: TableState, snapshot: Snapshot, column: Leaf, found: tuple[Snapshot, BlobMetadata] | None
) -> Freshness:
    """The freshness for `snapshot` of a column's newest blob, as found by `latest_blobs`."""
    metadata = state.metadata
    if found is None and TABLE_KEY_ID in metadata.properties:
        return Freshness(FreshnessState.ABSENT, "the table is encrypted, and files of statistics are not")
    if found is None:
        return Freshness(FreshnessState.ABSENT, "never sketched over all rows; run analyze")
    sketched, blob = found
    if hashed_type(state, sketched, blob) != column.type:
        return Freshness(FreshnessState.ABSENT, f"sketched before the column became {column.type}; run analyze")
    if sketched.snapshot_id != snapshot.snapshot_id:
        return Freshness(FreshnessState.STALE, since(metadata, snapshot, sketched))
    if not is_fresh(blob, snapshot):
        found_in = f"snapshot {blob.snapshot_id}, sequence number {blob.sequence_number}"
        expected = f"snapshot {snapshot.snapshot_id}, sequence number {snapshot.sequence_number or 0}"
        return Freshness(
            FreshnessState.STALE,
            f"computed from {found_in}; the current one is {expected}",
        )
    return FRESH


def since(metadata: TableMetadata, snapshot: Snapshot, sketched: Snapshot, covered_rows: int | None = None) -> str:
    """`3 snapshots by another writer since 2026-11-20 10:15:00Z, 2.1 % of rows not covered`.

    Args:
        metadata: The table's metadata.
        snapshot: The requested snapshot.
        sketched: The snapshot that was sketched.
        covered_rows: Rows that samples cover; None if only those before `sketched` are covered.
    """
    later = list(
        itertools.takewhile(lambda found: found.snapshot_id != sketched.snapshot_id, ancestors(metadata, snapshot))
    )
    foreign = all(summary_of(snap).get(ENGINE_NAME) != "skerry" for snap in later)
    moment = of_millis(sketched.timestamp_ms).strftime("%Y-%m-%d %H:%M:%SZ")
    text = f"{len(later)} snapshot{'s' * (len(later) != 1)}{' by another writer' if foreign else ''} since {moment}"
    total = _summary_number(snapshot, "total-records")
    if total:
        added = sum(_summary_number(snap, "added-records") or 0 for snap in later)
        missing = added if covered_rows is None else max(0, total - covered_rows)
        text += f", {min(1.0, missing / total):.1%} of rows not covered".replace("%", " %")
    if any(_summary_number(snap, "deleted-records") or _summary_number(snap, "added-delete-files") for snap in later):
        text += ", rows deleted"
    return text


def _summary_number(snapshot: Snapshot, key: str) -> int | None:
    text = summary_of(snapshot).get(key)
    return int(text) if text is not None and text.isdecimal() else None
