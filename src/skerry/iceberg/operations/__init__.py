"""What can be done to an Iceberg table, each stated as an operation that the commit loop applies to the newest state.

An operation decides: `apply(base)` gives a `SnapshotChange` or a `MetadataChange`, or refuses because of conflicting
changes by other writers. It writes nothing; `skerry.iceberg.commit` turns the decision into manifests, a statistics
file and one catalog update.
"""

from __future__ import annotations

from skerry.iceberg.operations.append import AppendFiles, PublishSketches
from skerry.iceberg.operations.change import DeleteKey, MetadataChange, SnapshotChange
from skerry.iceberg.operations.once import Once, StreamBatch, last_batch
from skerry.iceberg.operations.rewrite_manifests import ManifestPlan, RewriteManifests
from skerry.iceberg.operations.row_level import OverwriteFiles, RewriteFiles, RowDelta

__all__ = [
    "AppendFiles",
    "DeleteKey",
    "ManifestPlan",
    "MetadataChange",
    "Once",
    "OverwriteFiles",
    "PublishSketches",
    "RewriteFiles",
    "RewriteManifests",
    "RowDelta",
    "SnapshotChange",
    "StreamBatch",
    "last_batch",
]
