"""Commits to a Paimon table: a change becomes manifests, lists and one snapshot file that is created atomically.

A snapshot's name is its number, so that only one writer can create the file: `skerry.storage` creates it only if it
does not exist, atomically, on file systems and object stores alike. All other files of a commit have unique
names. After a lost race those files are removed; after an unknown outcome nothing is (`skerry.table.owned_files`).

Spec: docs/formats/paimon.md § 3.1, § 4; Paimon spec, Snapshot.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    StorageError,
)
from skerry.paimon.automatic_tags import tag_automatically
from skerry.paimon.done_partitions import mark_done, marks_done
from skerry.paimon.manifests.cache import shared_cache
from skerry.paimon.manifests.index_manifest import IndexManifestEntry, encode_index_manifest
from skerry.paimon.manifests.live_files import index_entries, live_entries, read_manifests, snapshot_manifests
from skerry.paimon.manifests.manifest import FileKind, FileSource, ManifestEntry, encode_manifest
from skerry.paimon.manifests.manifest_list import (
    ManifestFileMeta,
    encode_manifest_list,
    read_manifest_list,
    summarize,
)
from skerry.paimon.manifests.merging import ManifestSizes, cancelled_entries, plan_merging
from skerry.paimon.manifests.metadata_file import MetadataEncoding
from skerry.paimon.metadata.paths import MAIN_BRANCH
from skerry.paimon.metadata.schema import ROW_ID
from skerry.paimon.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
)
from skerry.paimon.metadata.snapshots import find_snapshot, snapshot_ids
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations.change import IndexChange, TableChange
from skerry.paimon.planning.row_sections import is_dedicated_name
from skerry.paimon.statistics.published import stage_statistics
from skerry.table.commit import NotPublishedError, RetryPolicy
from skerry.table.owned_files import OwnedFiles, after_publish

__all__ = ["PaimonTarget", "StagedCommit", "retry_policy"]

_MOST_ENTRIES = 20_000


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """What one attempt has written and is about to publish.

    Args:
        base: The state on which the attempt is based.
        snapshot: The new snapshot.
        named: Names or locations of the data, changelog and index files written for the change.
        partitions: The partitions (rows with arity) that get data files.
    """

    base: PaimonState
    snapshot: Snapshot
    named: tuple[str, ...]
    partitions: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class _Staging:
    """One attempt, which owns its files before it writes them."""

    base: PaimonState
    files: OwnedFiles
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    counts: dict[str, int] = field(default_factory=dict)

    def write(self, kind: str, data: bytes) -> str:
        """Write a file `<kind>-<uuid>-<n>` of the folder of manifests, and return its name."""
        number = self.counts.get(kind, 0)
        self.counts[kind] = number + 1
        name = f"{kind}-{self.id}-{number}"
        location = self.base.paths.manifest(name)
        self.files.add(location)
        self.base.storage.write(location, data)
        return name


def retry_policy(state: PaimonState) -> RetryPolicy:
    """How often a commit is retried, by the table's options.

    Spec: docs/formats/paimon.md § 4.1; Paimon documentation, Configurations, `commit.max-retries`,
    `commit.min-retry-wait`, `commit.max-retry-wait`, `commit.timeout`.
    """
    options = state.options
    return RetryPolicy(
        num_retries=options.commit_max_retries,
        min_wait_ms=options.commit_min_retry_wait_ms,
        max_wait_ms=options.commit_max_retry_wait_ms,
        total_timeout_ms=options.commit_timeout_ms or RetryPolicy().total_timeout_ms,
    )


class PaimonTarget:
    """A branch of a Paimon table as the commit loop sees it.

    Args:
        known: Any state of the table.
        branch: The branch.

    Attributes:
        newest: The newest state that was loaded or published; None before.
    """

    def __init__(self, known: PaimonState, branch: str) -> None:
        self.storage = known.storage
        self._known = known
        self._branch = branch
        self.newest: PaimonState | None = None

    def load(self) -> PaimonState:
        """The newest state.

        Raises:
            NotFoundError: The table or branch does not exist.
        """
        self.newest = self._known.newest(self._branch)
        return self.newest

    def stage(self, base: PaimonState, change: TableChange, files: OwnedFiles) -> StagedCommit:
        """Write manifests, manifest lists, index manifest and statistics of the new state."""
        return _stage(_Staging(base, files), change)

    def named_files(self, staged: StagedCommit) -> Iterable[str]:
        """The data, changelog and index files that the change adds."""
        return staged.named

    def publish(self, staged: StagedCommit) -> PaimonState:
        """Create the snapshot file, and classify the outcome: committed, conflict, refused, unknown."""
        base, snapshot = staged.base, staged.snapshot
        try:
            base.authority.create_snapshot(base.storage, base.paths, snapshot, base.snapshot)
        except AlreadyExistsError as error:
            # A store that lost the answer to a request repeats it, and then finds its own file.
            if self.find_published(staged) is None:
                raise CommitUnknownError(
                    f"snapshot {snapshot.id} existed, and no longer does: {error}", location=base.name
                ) from error
        except AccessDeniedError as error:
            with suppress(Exception):
                if (published := self.find_published(staged)) is not None:
                    return published
            raise NotPublishedError(error) from error.__cause__
        except StorageError as error:
            raise CommitUnknownError(
                f"snapshot {snapshot.id} may or may not have been created: {error}", location=base.name
            ) from error
        else:
            _check_succession(staged)
        with after_publish("the hint at the newest snapshot"):  # it saves others a listing, and may be wrong
            base.authority.note_newest(base.storage, base.paths, snapshot.id)
        return self._published(staged)

    def find_published(self, staged: StagedCommit) -> PaimonState | None:
        """Read back the snapshot that has the staged one's number.

        If there is none, the request may be under way, or the snapshot may have been created and expired.

        Raises:
            ConflictError: The snapshot is another writer's.
        """
        base = staged.base
        found = base.authority.find_snapshot(base.storage, base.paths, staged.snapshot.id)
        if found is None:
            return None
        own = decode_snapshot(encode_snapshot(staged.snapshot))
        if found.delta_manifest_list != own.delta_manifest_list or _who(found) != _who(own):
            raise ConflictError(f"snapshot {own.id} was created by another writer", location=staged.base.name)
        _check_succession(staged)
        return self._published(staged)

    def _published(self, staged: StagedCommit) -> PaimonState:
        """The new state, once metadata of other formats follows it."""
        self.newest = state = replace(staged.base, snapshot=staged.snapshot)
        with after_publish("creating tags"):
            tag_automatically(state)
        is_batch = staged.snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER
        if is_batch and staged.snapshot.commit_kind is not CommitKind.COMPACT and marks_done(state.schema.options):
            with after_publish("marking partitions as done"):
                mark_done(state, staged.partitions)
        if state.follower is not None and self._branch == MAIN_BRANCH:
            with after_publish("writing metadata of another format"):  # the next commit does it as well
                state.follower.follow(state)
        return state


def _check_succession(staged: StagedCommit) -> None:
    """Take back a snapshot whose number was free only because its first owner had expired or been rolled back.

    Snapshots expire in order and the newest never does, so that ours succeeds its base if the base still exists.

    Raises:
        ConflictError: Others have moved the branch on, or back; the snapshot is deleted.
        CommitUnknownError: It has been deleted by others, or others may have built on it.
    """
    base, number = staged.base, staged.snapshot.id
    if base.authority.compares_base:
        return
    if base.snapshot is not None and base.storage.exists(base.paths.snapshot(base.snapshot.id)):
        return
    ids = snapshot_ids(base.storage, base.paths)
    if number not in ids:
        raise CommitUnknownError(f"snapshot {number} was created, and has expired", location=base.name)
    if number + 1 in ids:
        is_beneath = _is_beneath(staged)
        if is_beneath is None:
            raise CommitUnknownError(f"snapshot {number + 1} may or may not build on {number}", location=base.name)
        if is_beneath:
            return
    elif ids == [number]:
        return
    base.storage.delete([base.paths.snapshot(number)])
    raise ConflictError(f"other writers have replaced the snapshots before {number}", location=base.name)


def _is_beneath(staged: StagedCommit) -> bool | None:
    """Whether the next snapshot builds on a staged one that was created; None if that cannot be known.

    Manifests have unique names. Where the next commit has merged them, files that ours has added are still in them.
    """
    state, own = staged.base, staged.snapshot
    after = find_snapshot(state.storage, state.paths, own.id + 1)
    if after is None:
        return None
    location = state.paths.manifest(after.base_manifest_list)
    inherited = read_manifest_list(state.storage, location, size=after.base_manifest_list_size)
    location = state.paths.manifest(own.delta_manifest_list)
    made = read_manifest_list(state.storage, location, size=own.delta_manifest_list_size)
    if {found.file_name for found in made} & {found.file_name for found in inherited}:
        return True
    entries = read_manifests(state, made)
    added, dropped = (
        {entry.file.file_name for entry in entries if entry.kind is kind} for kind in (FileKind.ADD, FileKind.DELETE)
    )
    added -= dropped  # a file that only changes its level was there before
    if not added:
        return None
    return any(entry.file.file_name in added for entry in read_manifests(state, inherited))


def _who(snapshot: Snapshot) -> tuple[str, int, CommitKind]:
    return snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind


# Staging -------------------------------------------------------------------------------------------------------------


def _stage(staging: _Staging, change: TableChange) -> StagedCommit:
    base, previous = staging.base, staging.base.snapshot
    snapshot_id = previous.id + 1 if previous is not None else 1
    entries, next_row_id = _with_row_ids(base, change, snapshot_id)
    base_manifests = _base_manifests(staging)
    base_list = _write_list(staging, base_manifests)
    delta_list = _write_list(staging, _write_manifests(staging, entries))
    changelog_list = _write_list(staging, _write_manifests(staging, change.changelog)) if change.changelog else None
    added, deleted = _rows(entries, FileKind.ADD), _rows(entries, FileKind.DELETE)
    snapshot = Snapshot(
        id=snapshot_id,
        schema_id=base.schema.id,
        base_manifest_list=base_list[0],
        base_manifest_list_size=base_list[1],
        delta_manifest_list=delta_list[0],
        delta_manifest_list_size=delta_list[1],
        changelog_manifest_list=changelog_list[0] if changelog_list is not None else None,
        changelog_manifest_list_size=changelog_list[1] if changelog_list is not None else None,
        index_manifest=_index_manifest(staging, change.index),
        commit_user=change.commit_id.user,
        commit_identifier=change.commit_id.identifier,
        commit_kind=change.kind,
        # never before its predecessor's, even if the writers' clocks disagree
        time_millis=max(int(time.time() * 1000), previous.time_millis if previous is not None else 0),
        total_record_count=_total_rows(base) + added - deleted,
        delta_record_count=added - deleted,
        changelog_record_count=sum(entry.file.row_count for entry in change.changelog) if change.changelog else None,
        watermark=_watermark(previous, change.watermark),
        properties=dict(change.properties) or None,
        next_row_id=next_row_id,
    )
    snapshot = stage_statistics(base, snapshot, change, staging.files)
    partitions = frozenset(entry.partition for entry in change.entries if entry.kind is FileKind.ADD)
    return StagedCommit(base, snapshot, tuple(_named(change)), partitions)


def _named(change: TableChange) -> Iterator[str]:
    for entry in (*change.entries, *change.changelog):
        if entry.kind is FileKind.ADD:
            yield from (entry.file.file_name, *entry.file.extra_files)
    yield from (entry.file_name for entry in change.index.added)
    yield from change.beside


def _rows(entries: Iterable[ManifestEntry], kind: FileKind) -> int:
    return sum(entry.file.row_count for entry in entries if entry.kind is kind)


def _total_rows(base: PaimonState) -> int:
    if base.snapshot is None:
        return 0
    if base.snapshot.total_record_count is not None:
        return base.snapshot.total_record_count
    return sum(entry.file.row_count for entry in live_entries(base))  # not recorded by old versions


def _watermark(previous: Snapshot | None, watermark: int | None) -> int | None:
    known = [found for found in (previous.watermark if previous is not None else None, watermark) if found is not None]
    return max(known, default=None)


def _with_row_ids(base: PaimonState, change: TableChange, snapshot_id: int) -> tuple[tuple[ManifestEntry, ...], int]:
    """The entries with the ids of new rows, and the id of the next row.

    Spec: docs/formats/paimon.md § 8.8.
    """
    next_row_id = (base.snapshot.next_row_id or 0) if base.snapshot is not None else 0
    if not base.options.row_tracking:
        return change.entries, next_row_id
    entries = []
    ordinary, ends = next_row_id, dict[tuple[str, ...], int]()
    for entry in change.entries:
        file = entry.file
        if entry.kind is FileKind.ADD and file.file_source is FileSource.APPEND:
            if ROW_ID not in (file.write_cols or ()):
                if file.first_row_id is None and is_dedicated_name(file.file_name):
                    columns = file.write_cols or ()  # each continues the rows of the ordinary file before it
                    file = replace(file, first_row_id=ends.get(columns, ordinary))
                    ends[columns] = ends.get(columns, ordinary) + file.row_count
                elif file.first_row_id is None:
                    file = replace(file, first_row_id=next_row_id)
                    ordinary, ends = next_row_id, {}
                    next_row_id += file.row_count
                file = replace(file, min_sequence_number=snapshot_id)
            # rows without a sequence number of their own have that of the file
            file = replace(file, max_sequence_number=snapshot_id)
        entries.append(replace(entry, file=file))
    return tuple(entries), next_row_id


def _write_list(staging: _Staging, manifests: Iterable[ManifestFileMeta]) -> tuple[str, int]:
    listed, base = tuple(manifests), staging.base
    data = encode_manifest_list(listed, MetadataEncoding.from_options(base.options))
    name = staging.write("manifest-list", data)
    shared_cache().keep_records(base.storage, base.paths.manifest(name), len(data), listed)
    return name, len(data)


def _write_manifests(staging: _Staging, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
    """Write entries as manifests; none for no entries."""
    base = staging.base
    written = []
    for start in range(0, len(entries), _MOST_ENTRIES):
        part = entries[start : start + _MOST_ENTRIES]
        data = encode_manifest(part, MetadataEncoding.from_options(base.options))
        written.append(summarize(staging.write("manifest", data), len(data), part, base.schema.partition_fields))
    return written


def _base_manifests(staging: _Staging) -> list[ManifestFileMeta]:
    """All manifests of the base, merged if there are too many or if they are too small."""
    base = staging.base
    if base.snapshot is None:
        return []
    result: list[ManifestFileMeta] = []
    for group in plan_merging(snapshot_manifests(base, base.snapshot), ManifestSizes.from_options(base.options)):
        if len(group) == 1:
            result += group
        else:
            result += _write_manifests(staging, cancelled_entries(read_manifests(base, group)))
    return result


def _index_manifest(staging: _Staging, change: IndexChange) -> str | None:
    """The name of the index manifest: that of the base if nothing changes."""
    base = staging.base
    if not change:
        return base.snapshot.index_manifest if base.snapshot is not None else None
    removed = {_index_key(entry) for entry in change.removed}
    kept = [entry for entry in index_entries(base) if _index_key(entry) not in removed]
    entries = [*kept, *change.added]
    if not entries:
        return None
    return staging.write("index-manifest", encode_index_manifest(entries, MetadataEncoding.from_options(base.options)))


def _index_key(entry: IndexManifestEntry) -> tuple[bytes, int, str, str]:
    return entry.partition, entry.bucket, entry.index_type, entry.file_name
