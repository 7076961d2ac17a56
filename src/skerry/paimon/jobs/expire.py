"""Expiring old snapshots, and deleting the files that only they need.

Snapshots are deleted first, oldest first, then their files: an interrupted run leaves files that nothing refers
to, and no snapshot without its files. What tags, branches and the remaining snapshots need is never deleted, and no
snapshot expires that a consumer has yet to read.

Spec: docs/formats/paimon.md § 13.4.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from skerry.errors import NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.paimon.cleaning.reachability import MetadataReader, PaimonFile, kept_changelogs, kept_snapshots, reachable
from skerry.paimon.metadata.consumers import least_next_snapshot
from skerry.paimon.metadata.published_file import several_files
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.snapshots import find_snapshot, snapshot_ids, write_hint
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.records import table_file
from skerry.storage import is_within
from skerry.table.history import in_utc
from skerry.table.owned_files import after_publish
from skerry.table.summaries import ExpireSummary
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback

__all__ = ["ExpiryRule", "expire_snapshots", "plan_expired"]


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """Which snapshots may expire.

    Args:
        keep_at_least: Number of newest snapshots that stay, at any age.
        keep_at_most: Number of snapshots beyond which the oldest expire, at any age.
        before_millis: Otherwise only snapshots from before this time expire, in milliseconds since 1970.
    """

    keep_at_least: int
    keep_at_most: int
    before_millis: int

    @classmethod
    def of(cls, state: PaimonState, keep_last: int | None, older_than: datetime | None) -> ExpiryRule:
        """The rule by a caller's arguments, and by the table's options for those that are not given.

        Raises:
            SchemaError: An argument or option is not valid.
            UnsupportedError: Changelogs are to be kept longer than snapshots.
        """
        options = state.options
        if (
            options.changelog_num_retained_max > options.snapshot_num_retained_max
            or options.changelog_num_retained_min > options.snapshot_num_retained_min
            or options.changelog_time_retained_ms > options.snapshot_time_retained_ms
        ):
            raise UnsupportedError(
                "options changelog.num-retained and changelog.time-retained: changelogs that outlive their snapshots "
                "are not written",
                location=state.name,
            )
        now = int(time.time() * 1000)
        before = now - options.snapshot_time_retained_ms
        if older_than is not None:
            before = int(in_utc(older_than).timestamp() * 1000)
        elif keep_last is not None:
            before = now + 1
        most = options.snapshot_num_retained_max if keep_last is None else 2**31 - 1
        least = options.snapshot_num_retained_min if keep_last is None else keep_last
        if keep_last is None and older_than is not None:
            least, most = 1, 2**31 - 1
        if least < 1 or most < least:
            raise SchemaError(f"options snapshot.num-retained: at least {least} and at most {most} is not a range")
        return cls(least, most, before)


def plan_expired(snapshots: Sequence[Snapshot], rule: ExpiryRule, next_wanted: int | None = None) -> list[Snapshot]:
    """The snapshots that expire: the oldest ones, up to the first that stays.

    Args:
        snapshots: All of a branch, ascending.
        rule: Which may expire.
        next_wanted: The first snapshot that a consumer has yet to read.
    """
    gone = []
    for place, snapshot in enumerate(snapshots):
        left = len(snapshots) - place
        if left <= rule.keep_at_least or (next_wanted is not None and snapshot.id >= next_wanted):
            break
        if left <= rule.keep_at_most and snapshot.time_millis >= rule.before_millis:
            break
        gone.append(snapshot)
    return gone


def expire_snapshots(
    state: PaimonState,
    rule: ExpiryRule,
    *,
    dry_run: bool = False,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
) -> ExpireSummary:
    """Expire the snapshots of a branch.

    Args:
        state: The branch.
        rule: Which may expire.
        dry_run: Only report what would expire.
        executor: Where manifests are read; threads of this process by default.
        progress: Called with the progress.

    Raises:
        CommitUnknownError: The store failed; some of the snapshots may have expired, and doing it again completes it.
        FormatError: Metadata is corrupt; nothing was changed.
        NotFoundError: A metadata file of a snapshot that stays is missing; nothing was changed.
    """
    storage, paths = state.storage, state.paths
    while True:
        ids = snapshot_ids(storage, paths)
        found = [find_snapshot(storage, paths, number) for number in ids]
        snapshots = [snapshot for snapshot in found if snapshot is not None]
        gone = plan_expired(snapshots, rule, least_next_snapshot(storage, paths))
        if not gone:
            return ExpireSummary(dry_run=dry_run)
        try:
            files = _only_in(state, gone, executor)
            break
        except NotFoundError:  # others may have expired it meanwhile
            if snapshot_ids(storage, paths) == ids:
                raise
    inside = tuple(file for file in files if is_within(state.location, file.location))
    outside = tuple(file for file in files if not is_within(state.location, file.location))
    summary = ExpireSummary(
        tuple(snapshot.id for snapshot in gone),
        files=tuple(map(table_file, inside)),
        kept_outside=tuple(map(table_file, outside)),
        dry_run=dry_run,
    )
    if not dry_run:
        with several_files(f"snapshots up to {gone[-1].id} may or may not have expired", paths.snapshots):
            for snapshot in gone:
                storage.delete([paths.snapshot(snapshot.id)])
        with suppress(SkerryError):  # a hint saves others a listing, and may be wrong
            write_hint(storage, paths, gone[-1].id + 1, earliest=True)
        with after_publish("deleting the files of expired snapshots"):
            storage.delete([file.location for file in inside])
            if progress is not None:
                size = sum(file.size_bytes for file in inside)
                progress(JobProgress("delete", len(inside), len(inside), done_bytes=size))
    return summary


def _only_in(state: PaimonState, gone: Sequence[Snapshot], executor: Executor | None) -> list[PaimonFile]:
    """The files that only certain snapshots need."""
    reader = MetadataReader(state, lenient=True, executor=executor)
    needed = reachable(state, gone, reader, mentioned=True)
    strict = MetadataReader(state, executor=executor)
    for run in kept_snapshots(state, [snapshot.id for snapshot in gone]):
        needed -= reachable(state, run, strict)
    for changelog in kept_changelogs(state):
        needed -= reachable(state, [changelog], reader, mentioned=True)
    return sorted(needed, key=lambda file: (file.use.value, file.location))
