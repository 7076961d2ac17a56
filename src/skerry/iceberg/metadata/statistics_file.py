"""Statistics files of snapshots, as metadata registers them.

Spec: Iceberg spec, Table Statistics, Partition Statistics.
"""

from __future__ import annotations

from skerry.iceberg.metadata.json_records import Int, JsonRecord, Long
from skerry.iceberg.metadata.snapshot import SnapshotId

__all__ = ["BlobMetadata", "PartitionStatisticsFile", "StatisticsFile"]


class BlobMetadata(JsonRecord, frozen=True, kw_only=True):
    """A blob of a statistics file.

    Args:
        type: Its type, known to us or not.
        snapshot_id: The snapshot that it was computed from.
        sequence_number: That snapshot's sequence number.
        fields: The columns that it is about.
        properties: Further properties.
    """

    type: str
    snapshot_id: SnapshotId
    sequence_number: Long
    fields: tuple[Int, ...]
    properties: dict[str, str] | None = None


class StatisticsFile(JsonRecord, frozen=True, kw_only=True):
    """A Puffin file with statistics of a snapshot.

    Args:
        snapshot_id: The snapshot.
        statistics_path: Its location.
        file_size_in_bytes: Its size.
        file_footer_size_in_bytes: The size of its footer.
        key_metadata: How it is encrypted, in Base64.
        blob_metadata: Its blobs.
    """

    snapshot_id: SnapshotId
    statistics_path: str
    file_size_in_bytes: Long
    file_footer_size_in_bytes: Long
    key_metadata: str | None = None
    blob_metadata: tuple[BlobMetadata, ...]


class PartitionStatisticsFile(JsonRecord, frozen=True, kw_only=True):
    """A file with statistics of the partitions of a snapshot.

    Args:
        snapshot_id: The snapshot.
        statistics_path: Its location.
        file_size_in_bytes: Its size.
    """

    snapshot_id: SnapshotId
    statistics_path: str
    file_size_in_bytes: Long
