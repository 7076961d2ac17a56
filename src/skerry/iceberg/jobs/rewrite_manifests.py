"""Rewrite a table's manifests: fewer of them, and the files of a partition side by side."""

from __future__ import annotations

from collections.abc import Mapping

from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.manifests.snapshot_manifests import read_manifests
from skerry.iceberg.metadata.state import MAIN
from skerry.iceberg.operations import RewriteManifests
from skerry.table.owned_files import after_publish
from skerry.table.summaries import ManifestSummary

__all__ = ["rewrite_manifests"]


def rewrite_manifests(
    table: IcebergHandle,
    *,
    full: bool = False,
    ref: str = MAIN,
    dry_run: bool = False,
    properties: Mapping[str, str] | None = None,
) -> ManifestSummary:
    """Rewrite manifests of a partition spec if there are more of them than their total size needs.

    Args:
        table: The table; refreshed first.
        full: Whether to rewrite manifests even if they are few enough.
        ref: The branch.
        dry_run: Only plan.
        properties: Further entries of the snapshot summary.

    Raises:
        ConflictError: Other writers won every race.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: A table property has an invalid value.
    """
    operation = RewriteManifests(ref, full, properties or {})
    state = table.refresh()
    plan = operation.plan(state)
    snapshot = state.branch(ref)
    added = []
    if plan.rewritten and not dry_run:
        committed = table.commit(operation)
        snapshot = committed.branch(ref)
        assert snapshot is not None, "a rewrite of manifests creates a snapshot"
        with after_publish("counting the new manifests"):
            listed = read_manifests(committed.storage, snapshot)
            added = [manifest for manifest in listed if manifest.added_snapshot_id == snapshot.snapshot_id]
    return ManifestSummary(
        snapshot.snapshot_id if snapshot is not None else None,
        len(plan.rewritten),
        sum(manifest.manifest_length for manifest in plan.rewritten),
        len(added),
        sum(manifest.manifest_length for manifest in added),
        len(plan.kept),
        dry_run,
    )
