"""Expire snapshots: remove them from the metadata, then delete the files that are no longer reachable.

The order makes it safe. First all metadata of old and remaining snapshots is read; anything unreadable ends the job
before it has changed anything. Then one commit removes the snapshots. Only then are files deleted: those that the
removed snapshots reach and no snapshot of the newest state does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime

from skerry.errors import NotFoundError
from skerry.iceberg.cleaning.expiry import ExpireSnapshots, refuse_kept_files
from skerry.iceberg.cleaning.reachability import (
    FileReader,
    keyed,
    manifest_files,
    metadata_files,
    replaced_statistics,
    statistics_files,
)
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.samples import read_sample
from skerry.iceberg.statistics.thinning import cut_off
from skerry.storage import file_key, is_within
from skerry.table.history import in_utc
from skerry.table.owned_files import after_publish, log_failures
from skerry.table.summaries import ExpireSummary
from skerry.table.table_files import TableFile
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor
from skerry.table.work.telemetry import working

__all__ = ["deletable", "expire_snapshots"]


def expire_snapshots(
    table: IcebergHandle,
    *,
    keep_last: int | None = None,
    older_than: datetime | None = None,
    dry_run: bool = False,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
) -> ExpireSummary:
    """Expire old snapshots; delete the files that only they reach, and replaced statistics files.

    Args:
        table: The table.
        keep_last: The number of newest snapshots of each branch to keep, however old; the table's property if None.
        older_than: Only snapshots from before this moment (UTC if it has no zone); the table's property if None.
        dry_run: Whether to only report what would be done.
        executor: Runs the tasks that read manifests; threads of this process by default.
        progress: Called with the progress.

    Raises:
        FormatError: Metadata is corrupt; nothing was changed.
        NotFoundError: A metadata file is missing; nothing was changed.
        SchemaError: An argument or property is invalid, or the table may share files with other tables.
        ConflictError: Other writers won every race; nothing was changed.
        UnsupportedError: Nothing can be written to the table.
    """
    if not dry_run:
        table.state.storage.check_writable(table.state.metadata_folder)
    operation = ExpireSnapshots(int(time.time() * 1000), keep_last, _milliseconds(older_than))
    before = table.refresh() if dry_run else _with_whole_samples(table, operation)
    reader = FileReader(executor or ThreadExecutor(), before.storage)
    while True:
        refuse_kept_files(before)
        plan = operation.plan(before)
        gone = [found for found in before.metadata.snapshots if found.snapshot_id in plan.snapshot_ids]
        staying = [found for found in before.metadata.snapshots if found.snapshot_id not in plan.snapshot_ids]
        try:
            files, outside = unreached(before, gone, before, staying, reader)
            break
        except NotFoundError:  # another writer may have expired it in the meantime
            newest = table.refresh()
            if newest.metadata_location == before.metadata_location:
                raise
            before = newest
    if dry_run:
        return ExpireSummary(_ids(gone), plan.refs, files, outside, dry_run)
    if not (gone or plan.refs):
        _delete(before, files, progress)
        return ExpireSummary(files=files, kept_outside=outside)
    after = table.commit(operation)
    files = outside = ()
    remaining = {snapshot.snapshot_id for snapshot in after.metadata.snapshots}
    gone = [found for found in gone if found.snapshot_id not in remaining]
    with after_publish("deleting the files of expired snapshots"):
        gone, (released, kept) = _released(table, before, gone, reader)
        _delete(table.state, released, progress)
        files, outside = released, kept
    refs = tuple(name for name in before.metadata.refs if name not in table.state.metadata.refs)
    return ExpireSummary(_ids(gone), refs, files, outside)


def _with_whole_samples(table: IcebergHandle, operation: ExpireSnapshots) -> TableState:
    """The table, after the statistics that continue those of snapshots about to expire were written whole."""
    state = table.refresh()
    refuse_kept_files(state)
    for snapshot_id in cut_off(state, operation.plan(state).snapshot_ids):
        with log_failures("the samples of a snapshot continue those of one that expires"):
            sample = read_sample(state, state.snapshot_by_id(snapshot_id))
            if sample is not None:
                sketches = {field_id: sample.groups.sketch(field_id) for field_id in sample.exact_columns}
                table.publish_sketches(snapshot_id, sketches, sample)
    return table.state


def _ids(snapshots: Iterable[Snapshot]) -> tuple[int, ...]:
    return tuple(snapshot.snapshot_id for snapshot in snapshots)


def _released(
    table: IcebergHandle, before: TableState, planned: Sequence[Snapshot], reader: FileReader
) -> tuple[list[Snapshot], tuple[tuple[TableFile, ...], tuple[TableFile, ...]]]:
    """The snapshots that are gone after the commit, and the files that are no longer reachable."""
    after = table.refresh()
    while True:
        remaining = {snapshot.snapshot_id for snapshot in after.metadata.snapshots}
        gone = [found for found in before.metadata.snapshots if found.snapshot_id not in remaining]
        own = [found for found in planned if found.snapshot_id not in remaining]
        try:
            return gone, unreached(before, gone, after, after.metadata.snapshots, reader)
        except NotFoundError:
            newest = table.refresh()
            if newest.metadata_location == after.metadata_location:
                # other writers expired some of them and delete their files; what the plan read is still known
                return own, unreached(before, own, after, after.metadata.snapshots, reader)
            after = newest


def _milliseconds(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    return int(in_utc(moment).timestamp() * 1000)


def unreached(
    before: TableState, gone: Sequence[Snapshot], after: TableState, staying: Iterable[Snapshot], reader: FileReader
) -> tuple[tuple[TableFile, ...], tuple[TableFile, ...]]:
    """The files that only some snapshots reach.

    Args:
        before: A state that has the expired snapshots.
        gone: The expired snapshots.
        after: A state that has the remaining snapshots.
        staying: The remaining snapshots.
        reader: Reads manifest lists and manifests.

    Returns:
        Those below the table's location, and those elsewhere.
    """
    staying = list(staying)
    replaced = keyed(replaced_statistics(after, staying))
    if not gone and not replaced:
        return (), ()
    lists, manifests = reader.lists(gone, before.storage)
    kept_lists, kept_manifests = reader.lists(staying, after.storage)
    manifests = {key: manifest for key, manifest in manifests.items() if key not in kept_manifests}
    ids = {snapshot.snapshot_id for snapshot in gone}
    statistics = keyed(file for owner, file in statistics_files(before.metadata) if owner in ids)
    found = reader.live(manifests) | manifest_files(manifests) | lists | statistics | replaced
    kept = {
        *reader.named(kept_manifests, found),
        *kept_manifests,
        *kept_lists,
        *keyed(file for owner, file in statistics_files(after.metadata) if owner not in ids),
        *map(file_key, metadata_files(after)),
    }
    return deletable(after, (file for key, file in found.items() if key not in kept))


def deletable(state: TableState, files: Iterable[TableFile]) -> tuple[tuple[TableFile, ...], tuple[TableFile, ...]]:
    """Split files into those below the table's location, which may be deleted, and those elsewhere."""
    inside: list[TableFile] = []
    outside: list[TableFile] = []
    for file in files:
        (inside if is_within(state.metadata.location, file.location) else outside).append(file)
    return tuple(inside), tuple(outside)


def _delete(state: TableState, files: Sequence[TableFile], progress: ProgressCallback | None) -> None:
    if not files:
        return
    with working(state.name, f"deleted {len(files)} files of expired snapshots", "delete", files=len(files)):
        state.storage.delete(file.location for file in files)
    if progress is not None:
        progress(JobProgress("delete", len(files), len(files), done_bytes=sum(file.size_bytes for file in files)))
