"""Expiring old snapshots, and deleting the files that only they need.

Snapshots are deleted first, oldest first, then their files: an interrupted run leaves files that nothing refers
to, and no snapshot without its files. What tags, branches and the remaining snapshots need is never deleted, and no
snapshot expires that a consumer has yet to read.

If the table's options keep changelogs longer, an expired snapshot leaves a file of its own in `changelog/`, until its
changelog expires by the same rules with other numbers.

Spec: docs/formats/paimon.md § 13.4, § 13.5.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from skerry.errors import NotFoundError, SchemaError, SkerryError
from skerry.paimon.cleaning.reachability import (
    FileUse,
    MetadataReader,
    PaimonFile,
    files_of_changes,
    kept_changelogs,
    kept_snapshots,
    reachable,
)
from skerry.paimon.metadata.changelogs import changelog_ids, changes_list, keep_changelog, read_changelog
from skerry.paimon.metadata.consumers import least_next_snapshot
from skerry.paimon.metadata.published_file import several_files
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.snapshots import find_snapshot, snapshot_ids, write_hint
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.records import table_file
from skerry.storage import file_key, is_within
from skerry.table.history import in_utc
from skerry.table.indexes.registry import released_files
from skerry.table.owned_files import after_publish
from skerry.table.summaries import ExpireSummary
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback
from skerry.table.work.telemetry import working

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
        """
        options = state.options
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

    @classmethod
    def of_changelogs(cls, state: PaimonState) -> ExpiryRule | None:
        """The rule for changelogs; None if they do not outlive their snapshots."""
        options = state.options
        if not options.changelogs_outlive_snapshots:
            return None
        before = int(time.time() * 1000) - options.changelog_time_retained_ms
        return cls(options.changelog_num_retained_min, options.changelog_num_retained_max, before)


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
        plan = _plan(state, ids, rule)
        if not (plan.snapshots or plan.changelogs):
            return ExpireSummary(dry_run=dry_run)
        try:
            files = _only_in(state, plan, executor)
            files += _indexes_of(state, files)
            break
        except NotFoundError:  # others may have expired it meanwhile
            if snapshot_ids(storage, paths) == ids:
                raise
    inside = tuple(file for file in files if is_within(state.location, file.location))
    outside = tuple(file for file in files if not is_within(state.location, file.location))
    summary = ExpireSummary(
        tuple(snapshot.id for snapshot in plan.snapshots),
        files=tuple(map(table_file, inside)),
        kept_outside=tuple(map(table_file, outside)),
        changelog_ids=plan.changelogs,
        dry_run=dry_run,
    )
    if not dry_run:
        _expire(state, plan)
        with after_publish("deleting the files of expired snapshots"):
            done = f"deleted {len(inside)} files of expired snapshots"
            with working(state.name, done, "delete", files=len(inside)):
                storage.delete([file.location for file in inside])
            if progress is not None:
                size = sum(file.size_bytes for file in inside)
                progress(JobProgress("delete", len(inside), len(inside), done_bytes=size))
    return summary


@dataclass(frozen=True, slots=True)
class _Plan:
    """What expires.

    Args:
        snapshots: The snapshots.
        kept: Those of them whose changelog is kept.
        changelogs: The numbers of expired snapshots whose changelog expires.
    """

    snapshots: tuple[Snapshot, ...] = ()
    kept: tuple[Snapshot, ...] = ()
    changelogs: tuple[int, ...] = ()


def _plan(state: PaimonState, ids: Sequence[int], rule: ExpiryRule) -> _Plan:
    storage, paths = state.storage, state.paths
    found = [find_snapshot(storage, paths, number) for number in ids]
    snapshots = [snapshot for snapshot in found if snapshot is not None]
    wanted = least_next_snapshot(storage, paths)
    gone = plan_expired(snapshots, rule, None if state.options.consumers_keep_changelogs_only else wanted)
    changelog_rule = ExpiryRule.of_changelogs(state)
    if changelog_rule is None:
        return _Plan(tuple(gone))
    older = [number for number in changelog_ids(storage, paths) if number not in ids]
    changelogs = [*(read_changelog(storage, paths, number) for number in older), *gone]
    # the newest one stays, as in Java
    most = {changelog.id for changelog in changelogs[:-1]}
    expired = plan_expired([*changelogs, *snapshots[len(gone) :]], changelog_rule, wanted)
    numbers = tuple(changelog.id for changelog in expired if changelog.id in most)
    return _Plan(tuple(gone), tuple(snapshot for snapshot in gone if snapshot.id not in numbers), numbers)


def _expire(state: PaimonState, plan: _Plan) -> None:
    """Delete the files of snapshots and changelogs, and keep the changelogs that outlive their snapshots."""
    storage, paths = state.storage, state.paths
    last = plan.snapshots[-1].id if plan.snapshots else plan.changelogs[-1]
    kept = {snapshot.id for snapshot in plan.kept}
    with several_files(f"snapshots and changelogs up to {last} may or may not have expired", paths.snapshots):
        for snapshot in plan.snapshots:
            if snapshot.id in kept:
                keep_changelog(storage, paths, snapshot)
            storage.delete([paths.snapshot(snapshot.id)])
        storage.delete([paths.changelog(number) for number in plan.changelogs])
    with suppress(SkerryError):  # a hint saves others a listing, and may be wrong
        if plan.snapshots:
            write_hint(storage, paths, plan.snapshots[-1].id + 1, earliest=True)
        if plan.kept:
            write_hint(storage, paths, plan.kept[-1].id, changelog=True)
        if plan.changelogs:
            write_hint(storage, paths, plan.changelogs[-1] + 1, earliest=True, changelog=True)


def _only_in(state: PaimonState, plan: _Plan, executor: Executor | None) -> list[PaimonFile]:
    """The files that only snapshots and changelogs that expire need."""
    reader = MetadataReader(state, lenient=True, executor=executor)
    needed = reachable(state, plan.snapshots, reader, mentioned=True)
    existing = set(changelog_ids(state.storage, state.paths))
    gone = [read_changelog(state.storage, state.paths, number) for number in plan.changelogs if number in existing]
    needed |= files_of_changes(state, _lists(state, gone), reader)
    strict = MetadataReader(state, executor=executor)
    for run in kept_snapshots(state, [snapshot.id for snapshot in plan.snapshots]):
        needed -= reachable(state, run, strict)
    needed -= files_of_changes(state, [*kept_changelogs(state, plan.changelogs), *_lists(state, plan.kept)], reader)
    return sorted(needed, key=lambda file: (file.use.value, file.location))


def _indexes_of(state: PaimonState, files: Sequence[PaimonFile]) -> list[PaimonFile]:
    """The indexes of data files that go, and pieces of their registry that newer ones contain."""
    gone = {file_key(file.location) for file in files if file.use is FileUse.DATA}
    released = released_files(state.storage, state.location, gone)
    return [PaimonFile(location, FileUse.INDEX, size) for location, size in sorted(released.items())]


def _lists(state: PaimonState, changelogs: Sequence[Snapshot]) -> list[str]:
    lists = (changes_list(state.schema, changelog) for changelog in changelogs)
    return [name for name in lists if name is not None]
