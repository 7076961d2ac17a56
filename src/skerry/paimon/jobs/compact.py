"""Compaction: fewer files and sorted runs, the same rows.

The work is planned from metadata (`compact_plan`), bucket by bucket; every bucket is then processed by a task of its
own (`compact_tasks`), which can run anywhere, and all are committed together. Rows that others append meanwhile stay:
they are written to level 0, from which only the files known to the plan are taken. If others compacted, or deleted
rows, the buckets concerned are found by committing halves, and are planned and processed again; all others are in the
table by then.

Spec: docs/formats/paimon.md § 10.5.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from skerry.errors import CommitUnknownError, ConflictError
from skerry.paimon.change_request import ChangeRequest
from skerry.paimon.commit import retry_policy
from skerry.paimon.indexing import commit_indexed
from skerry.paimon.jobs.compact_row_ranges import retyped_indexes
from skerry.paimon.jobs.compact_tasks import BucketTask, CompactionRules, TaskResult, plan_compaction, run_task
from skerry.paimon.jobs.waiting_rows import place_waiting
from skerry.paimon.manifests.live_files import index_entries
from skerry.paimon.metadata.options import CoreOptions, LookupCompact
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.snapshots import find_snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.validation import check_rewritable
from skerry.paimon.operations import IndexChange, ReplaceFiles
from skerry.paimon.operations.conflicts import check_row_ranges
from skerry.paimon.operations.row_vectors import change_vectors
from skerry.paimon.recent_runs import recent_runs
from skerry.paimon.statistics.samples import delete_key
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.clustering import Clustering
from skerry.paimon.writing.layout import WriteLayout
from skerry.table.owned_files import OwnedFiles, after_publish, log_after_publish, owned_files
from skerry.table.summaries import CompactSummary
from skerry.table.work.tasks import JobProgress

__all__ = ["compact", "compact_due", "compact_invisible"]

_FULL: Final = "skerry.full-compaction"
"""The property of the snapshots that `full-compaction.delta-commits` has made."""


@dataclass(frozen=True, slots=True)
class _Done:
    """A task and its result."""

    task: BucketTask
    result: TaskResult

    @property
    def locations(self) -> Iterator[str]:
        return (location for file in self.result.written for location in file.locations)


@dataclass(frozen=True, slots=True)
class _Round:
    """The outcome of one attempt.

    Args:
        counts: What was committed.
        lost: Tasks whose files others have changed.
        conflict: The error by which that was found.
    """

    counts: CompactSummary
    lost: tuple[BucketTask, ...] = ()
    conflict: ConflictError | None = None


def compact(
    request: ChangeRequest,
    rules: CompactionRules,
    *,
    target_file_size: int | None = None,
    dry_run: bool = False,
    once: bool = False,
) -> CompactSummary:
    """Compact a branch.

    Args:
        request: The branch, and where tasks run.
        rules: Which buckets to compact.
        target_file_size: Target size of files in bytes; `target-file-size` if None.
        dry_run: Only report what would be done.
        once: Skip buckets that others have changed meanwhile.

    Raises:
        ConflictError: Others kept changing the files of all buckets.
        UnsupportedError: Rows of tables of this kind are not sorted; the message names the option.
    """
    request.background.wait()
    state = request.target.load()
    if rules.clustering is not None:
        check_rewritable(state.schema, "rows of such tables are not sorted", state.name)
    if not dry_run:
        state = place_waiting(request, state, rules.choose)
    tasks = plan_compaction(state, _layout(state, target_file_size), rules)
    if dry_run:
        return _planned(state, tasks)
    counts = CompactSummary(_id(state))
    waits = iter(()) if once else retry_policy(state).waits_s()
    while True:
        try:
            found = _Attempt(request, state, _layout(state, target_file_size), rules.clustering).run(tasks)
            counts = _added(counts, found.counts)
            wait = next(waits, None) if found.lost else None
            if wait is None:
                break
            time.sleep(wait)
            state = request.target.load()
            lost = replace(rules, buckets=frozenset(task.key for task in found.lost))
            tasks = plan_compaction(state, _layout(state, target_file_size), lost)
        except CommitUnknownError:
            raise
        except Exception as error:
            if not counts.groups:
                raise
            log_after_publish("compacting the other buckets", error)  # some are in the table
            break
    if found.conflict is not None and not counts.groups:
        raise found.conflict
    return replace(counts, conflicts=len(found.lost))


def compact_due(request: ChangeRequest, state: PaimonState) -> None:
    """Compact what is due after a commit, as every writer of Paimon does.

    These are the buckets that were written to and have too many sorted runs or, where compaction looks keys up, files
    of level 0; and all buckets after as many commits as `full-compaction.delta-commits` says. Tables with the option
    `write-only` are skipped, and a failure is not an error: the rows are in the table, and the next writer tries again.
    If the table allows it, the writer goes on meanwhile, up to `num-sorted-run.stop-trigger` runs in a bucket.

    Args:
        request: That of the commit: its `bucket_states` are those of the writer.
        state: The state after the commit.
    """
    if not state.schema.primary_keys or state.snapshot is None or state.options.write_only:
        return
    with after_publish("compacting what is due"):
        known = request.bucket_states.get(state.branch, BucketStates())
        bucket_states = request.bucket_states[state.branch] = known.at(state)
        properties: dict[str, str] = {}
        is_hidden = state.options.batch_reads_skip_level_0  # so that what another writer has left is done, too
        if _full_is_due(state):
            rules = CompactionRules(full=True)
            properties = {_FULL: "true"}
        else:
            touched = {
                key
                for key, files in bucket_states.levels.items()
                if key[1] != POSTPONE_BUCKET and (is_hidden or files != known.levels.get(key))
            }
            due = frozenset(key for key in touched if _is_due(state.options, bucket_states, key))
            rules = CompactionRules(buckets=due)
            if not due:
                return
        stop = state.options.stop_trigger
        waits = (
            is_hidden
            or state.options.commit_force_compact
            or any(bucket_states.run_count(*key) >= stop for key in rules.buckets or ())
        )
        own = replace(request, properties=properties, commit_id=None)
        if waits or rules.full or state.options.compacts_by_lookup or not state.options.compacts_in_background:
            compact(own, rules, once=not waits)
        elif not request.background.is_busy:
            request.background.start(functools.partial(_compact_apart, own.apart(state), rules))


def _compact_apart(request: ChangeRequest, rules: CompactionRules) -> None:
    with after_publish("compacting in the background"):
        compact(request, rules, once=True)


def compact_invisible(request: ChangeRequest) -> None:
    """Compact what readers skip until then, after a write that leaves all other compaction to jobs.

    Args:
        request: That of the commit; see `compact_due`.
    """
    state = request.target.newest
    if state is not None and state.options.batch_reads_skip_level_0:
        compact_due(request, state)


def _is_due(options: CoreOptions, bucket_states: BucketStates, key: tuple[bytes, int]) -> bool:
    if bucket_states.run_count(*key) >= options.compaction_trigger:
        return True
    if not options.compacts_by_lookup:
        return False
    is_gentle = options.lookup_compact is LookupCompact.GENTLE
    return bucket_states.levels[key][0] >= (options.lookup_compact_max_interval if is_gentle else 1)


def _full_is_due(state: PaimonState) -> bool:
    """Whether the last full compaction of a writer was as many commits ago as the options say, or has expired."""
    commits = state.options.full_compaction_delta_commits
    snapshot = state.snapshot
    if commits is None:
        return False
    while snapshot is not None:
        if (snapshot.properties or {}).get(_FULL) == "true":
            return False
        commits -= snapshot.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE)
        if not commits:
            return True
        if snapshot.id == 1:
            return False
        snapshot = find_snapshot(state.storage, state.paths, snapshot.id - 1)
    return True


def _layout(state: PaimonState, target_file_size: int | None) -> WriteLayout:
    layout = WriteLayout.of(state)
    if target_file_size is None:
        return layout
    options = {**layout.schema.options, "target-file-size": f"{target_file_size} b"}
    return replace(layout, schema=replace(layout.schema, options=options))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Tasks of one state, run and committed."""

    request: ChangeRequest
    state: PaimonState
    layout: WriteLayout
    clustering: Clustering | None = None

    def run(self, tasks: Sequence[BucketTask]) -> _Round:
        """Run tasks and commit them; files of tasks that could not be committed are removed."""
        with self.layout.owned_files({self.layout.bucket_folder(*task.key) for task in tasks}) as owned:
            return self._commit(_units(list(self._do(tasks, owned))), owned)

    def _do(self, tasks: Sequence[BucketTask], owned: OwnedFiles) -> Iterator[_Done]:
        total = sum(len(task.entries) for task in tasks)
        files = rows = size = 0
        work = functools.partial(run_task, self.state, self.layout, self.clustering)
        for task, result in zip(tasks, owned.map(self.request.executor, work, tasks), strict=True):
            yield _Done(task, result)
            files += len(task.entries)
            rows += sum(file.file.row_count for file in result.written if not file.is_changelog)
            size += task.size_bytes
            if self.request.progress is not None:
                self.request.progress(JobProgress("compact", files, total, rows, size))

    def _commit(self, units: Sequence[Sequence[_Done]], owned: OwnedFiles) -> _Round:
        """Commit units at once, or else halves of them; once one is in the table, conflicting ones are given up."""
        done = [one for unit in units for one in unit]
        try:
            return _Round(self._replace(done))
        except ConflictError as conflict:
            if conflict.retryable or not done:
                raise
            if len(units) == 1:
                return self._given_up(done, owned, conflict)
        half = len(units) // 2
        first = self._commit(units[:half], owned)
        try:
            second = self._commit(units[half:], owned)
        except CommitUnknownError:
            raise
        except Exception as error:
            if not first.counts.groups:
                raise
            log_after_publish("committing the other buckets", error)
            second = self._given_up([one for unit in units[half:] for one in unit], owned, None)
        counts = _added(first.counts, second.counts)
        return _Round(counts, (*first.lost, *second.lost), second.conflict or first.conflict)

    def _given_up(self, done: Sequence[_Done], owned: OwnedFiles, conflict: ConflictError | None) -> _Round:
        owned.remove(location for one in done for location in one.locations)
        return _Round(CompactSummary(None), tuple(one.task for one in done), conflict)

    def _replace(self, done: Sequence[_Done]) -> CompactSummary:
        """Replace files with new ones, in one commit."""
        layout, results = self.layout, [one.result for one in done]
        staying = {entry.file.file_name for result in results for entry in result.moved}
        removed = {entry.file.file_name for result in results for entry in result.removed} - staying
        gone = [key for one in done for key in one.task.vectors if key[2] in removed]
        deleted = {key: positions for result in results for key, positions in result.deleted.items()}
        names = {name for _, _, name in deleted}
        index = IndexChange()
        with owned_files(layout.storage) as created:
            if gone or deleted:
                index = change_vectors(layout, index_entries(self.state), deleted, gone, owned=created)
            check = None
            if self.state.options.data_evolution:
                replaced = [entry for result in results for entry in result.removed]
                check = functools.partial(check_row_ranges, self.state, replaced)
                outdated = retyped_indexes(self.state, replaced, index_entries(self.state))
                index = replace(index, removed=(*index.removed, *outdated))
            operation = ReplaceFiles(
                layout,
                [entry for result in results for entry in result.removed],
                [file for result in results for file in result.written],
                CommitKind.COMPACT,
                moved=[entry for result in results for entry in result.moved],
                index=index,
                kept=[entry for one in done for entry in one.task.older if entry.file.file_name in names],
                deletes={key[2]: delete_key(key[2], len(positions)) for key, positions in deleted.items()},
                check=check,
                properties=self.request.properties,
            )
            state = commit_indexed(operation, self.request.target)
        recent_runs().forget(
            layout.paths.data_file(layout.bucket_folder(entry.partition, entry.bucket), entry.file.file_name)
            for result in results
            for entry in result.removed
        )
        return _counts(state, done, index)


def _units(done: Sequence[_Done]) -> list[list[_Done]]:
    """What can be committed separately: each task, except that tasks which share index files stay together."""
    shared: dict[tuple[bytes, int], list[_Done]] = {}
    units: list[list[_Done]] = []
    for one in done:
        if not one.task.vectors:
            units.append([one])
            continue
        if one.task.key not in shared:
            shared[one.task.key] = []
            units.append(shared[one.task.key])
        shared[one.task.key].append(one)
    return units


# Counts --------------------------------------------------------------------------------------------------------------


def _id(state: PaimonState) -> int | None:
    return state.snapshot.id if state.snapshot is not None else None


def _reasons(tasks: Iterable[BucketTask]) -> dict[str, int]:
    found: dict[str, int] = {}
    for task in tasks:
        found[task.reason.value] = found.get(task.reason.value, 0) + 1
    return found


def _planned(state: PaimonState, tasks: Sequence[BucketTask]) -> CompactSummary:
    return CompactSummary(
        _id(state),
        groups=len(tasks),
        rewritten_files=sum(len(task.entries) for task in tasks),
        rewritten_bytes=sum(task.size_bytes for task in tasks),
        removed_delete_files=sum(len(task.vectors) for task in tasks),
        reasons=_reasons(tasks),
        dry_run=True,
    )


def _counts(state: PaimonState, done: Sequence[_Done], index: IndexChange) -> CompactSummary:
    results = [one.result for one in done]
    moved = {entry.file.file_name for result in results for entry in result.moved}
    rewritten = [entry for result in results for entry in result.removed if entry.file.file_name not in moved]
    added = [file.file for result in results for file in result.written if not file.is_changelog]
    return CompactSummary(
        _id(state),
        groups=len(done),
        rewritten_files=len(rewritten),
        rewritten_bytes=sum(entry.file.file_size for entry in rewritten),
        moved_files=len(moved),
        added_files=len(added),
        added_bytes=sum(file.file_size for file in added),
        rows=sum(file.row_count for file in added),
        removed_delete_files=sum(entry.row_count for entry in index.removed)
        - sum(entry.row_count for entry in index.added),
        reasons=_reasons(one.task for one in done),
    )


_SUMS = (
    "groups",
    "rewritten_files",
    "rewritten_bytes",
    "moved_files",
    "added_files",
    "added_bytes",
    "rows",
    "removed_delete_files",
)


def _added(left: CompactSummary, right: CompactSummary) -> CompactSummary:
    """The sum of two counts."""
    reasons = {why: left.reasons.get(why, 0) + right.reasons.get(why, 0) for why in {**left.reasons, **right.reasons}}
    sums = {name: getattr(left, name) + getattr(right, name) for name in _SUMS}
    return replace(left, snapshot_id=right.snapshot_id or left.snapshot_id, reasons=reasons, **sums)
