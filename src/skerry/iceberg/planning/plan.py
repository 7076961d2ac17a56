"""Scan planning: from the manifest list to the data files that may contain matching rows.

Manifests are pruned by the partition summaries of the manifest list, their files by partition values and then by column
metrics, each step for all of them at once on the columns of the manifest. Only remaining files become objects.

Spec: Iceberg spec, Scan Planning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.iceberg.manifests.cache import ManifestCache, shared_cache
from skerry.iceberg.manifests.file_batch import FileBatch
from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifests.map_columns import METRIC_COLUMNS
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.partitioning.projection import project
from skerry.iceberg.planning.delete_index import DELETE_COLUMNS, Assignment, DeleteIndex, no_deletes
from skerry.iceberg.planning.file_pruning import (
    FILE_COLUMNS,
    STEPS,
    FilePruner,
    Pruned,
    ReadManifest,
    live_files,
    waves,
)
from skerry.iceberg.planning.known_files import MAX_KNOWN_FILES, KnownFiles, with_kept_metrics
from skerry.iceberg.planning.metrics import summary_metrics
from skerry.iceberg.planning.planned_files import PlannedFiles
from skerry.storage import Storage, is_local, is_within
from skerry.table.files.locations import outside_folder
from skerry.table.files.scan_task import ScanPlan, ScanStep, sum_steps
from skerry.table.predicate import Predicate, evaluate
from skerry.table.work.read_ahead import WorkPool, read_ahead

__all__ = ["ScanPlanner"]


_Mask: TypeAlias = npt.NDArray[np.bool_]
_AHEAD_BYTES = 4 << 20
"""Encoded size of the manifests that may be decoded and wait to be pruned."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The manifests of a snapshot.

    Args:
        manifests: All with live files.
        kept: Those that may match by their summaries.
        data: Those of data files among them.
        dropped: Why how many of the others with data files cannot match.
        is_local: Whether they lie in the local file system.
    """

    manifests: Sequence[ManifestFile]
    kept: Sequence[ManifestFile]
    data: Sequence[ManifestFile]
    dropped: Counter[str]
    is_local: bool


@dataclass(frozen=True)
class ScanPlanner:
    """Plans the scans of one snapshot's files.

    Args:
        table: The table's name, for messages.
        storage: Access to manifests.
        roots: Folders that must contain the table's files; None allows any location.
        schema: The schema of the scan.
        specs: All partition specs of the table by id.
        conjuncts: Predicates that matching rows satisfy, all of them.
        defaults: Physical values by field id, for columns that files may lack.
        threads: The number of manifests read in parallel.
        cache: The cache of decoded manifests.
    """

    table: str
    storage: Storage
    roots: tuple[str, ...] | None
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    conjuncts: tuple[Predicate, ...]
    defaults: Mapping[int, Any]
    threads: int = 1
    cache: ManifestCache = field(default_factory=shared_cache, repr=False)

    def plan(self, snapshot: Snapshot | None) -> ScanPlan[PlannedFiles]:
        """Find the data files that may contain matching rows.

        Args:
            snapshot: The snapshot; None for a table without snapshots.

        Raises:
            FormatError: A manifest list or manifest is corrupt.
            NotFoundError: One of them is missing.
            SkerryError: A file is outside of the table's folders.
            UnsupportedError: Files are encrypted.
        """
        if snapshot is None:
            deletes = no_deletes()
            return ScanPlan(PlannedFiles((), deletes.files, deletes.assign(()), self.defaults), ())
        chosen = self._choose(snapshot)
        with self._pool(chosen) as pool:
            deletes = self._deletes(pool, chosen)
            parts = list(self._prune_files(pool, chosen.data, deletes))
        tasks = self._assigned(parts, deletes)
        steps = [_manifest_step(chosen)]
        steps += [sum_steps([part.steps[number] for part in parts], name) for number, name in enumerate(STEPS)]
        if any(manifest.content is ManifestContent.DELETES for manifest in chosen.manifests):
            steps.append(_delete_step(deletes, tasks.assignment))
        return ScanPlan(tasks, tuple(steps))

    def stream(self, snapshot: Snapshot | None) -> Iterator[PlannedFiles]:
        """The files of `plan`, some thousand at a time: no more than these and the delete files are in memory.

        Args:
            snapshot: The snapshot; None for a table without snapshots.

        Raises:
            SkerryError: As `plan`.
        """
        if snapshot is None:
            return
        chosen = self._choose(snapshot)
        with self._pool(chosen) as pool:
            deletes = self._deletes(pool, chosen)
            for part in self._prune_files(pool, chosen.data, deletes):
                if part.batch.files.num_rows:
                    yield self._assigned([part], deletes)

    def known_files(self, snapshot: Snapshot) -> KnownFiles | None:
        """All files of a snapshot, for plans with conditions that are known later.

        Args:
            snapshot: The snapshot.

        Returns:
            None if there are more than `MAX_KNOWN_FILES`.

        Raises:
            SkerryError: As `plan`.
        """
        chosen = self._choose(snapshot)
        counts = [file for each in chosen.data for file in (each.added_files_count, each.existing_files_count)]
        if sum(MAX_KNOWN_FILES + 1 if count is None else count for count in counts) > MAX_KNOWN_FILES:
            return None
        with self._pool(chosen) as pool:
            deletes = self._deletes(pool, chosen)
            pruner = FilePruner(self.schema, (), deletes.key_columns)
            columns = (*FILE_COLUMNS, *METRIC_COLUMNS)

            def read(manifest: ManifestFile) -> ReadManifest:
                return ReadManifest(manifest, self.read_files(manifest, columns))

            found = [*waves(read_ahead(pool, read, chosen.data, _weight, _AHEAD_BYTES))]
        specs = [self.spec(wave[0].file.partition_spec_id) for wave in found]
        parts = [pruner.prune(wave, spec) for wave, spec in zip(found, specs, strict=True)]
        for part in parts:
            self.check_locations(part.batch.files.column("file_path"))
        live = [with_kept_metrics(pruner.live(wave, spec)) for wave, spec in zip(found, specs, strict=True)]
        return KnownFiles(self.schema, tuple(live), [*self._assigned(parts, deletes)])

    # ---- manifests ----

    def _choose(self, snapshot: Snapshot) -> _Chosen:
        """The manifests of a snapshot that may have files with matching rows."""
        named = snapshot.manifests or () if snapshot.manifest_list is None else (snapshot.manifest_list,)
        self.check_locations(pa.array(named, pa.string()))
        manifests = [file for file in self.cache.manifests(self.storage, snapshot) if file.has_live_files]
        kept, dropped = self._prune_manifests(manifests)
        self.check_locations(pa.array([manifest.manifest_path for manifest in kept], pa.string()))
        data = [manifest for manifest in kept if manifest.content is ManifestContent.DATA]
        return _Chosen(manifests, kept, data, dropped, all(map(is_local, named)))

    def _pool(self, chosen: _Chosen) -> WorkPool:
        return WorkPool(self.threads, "plan", is_local=chosen.is_local)

    def _prune_manifests(self, manifests: Sequence[ManifestFile]) -> tuple[list[ManifestFile], Counter[str]]:
        """The manifests that may match by their summaries, and why the other data manifests cannot."""
        reasons: dict[int, str] = {}
        for spec_id in {manifest.partition_spec_id for manifest in manifests}:
            spec = self.spec(spec_id)
            rows = [row for row, manifest in enumerate(manifests) if manifest.partition_spec_id == spec_id]
            lookup = summary_metrics(spec, [manifests[row] for row in rows])
            for conjunct in self.conjuncts:
                verdict = evaluate(project(conjunct, self.schema, spec), lookup, len(rows))
                for row, may in zip(rows, verdict.may.tolist(), strict=True):
                    if not may:
                        reasons.setdefault(row, f"partitions without {conjunct}")
        kept = [manifest for row, manifest in enumerate(manifests) if row not in reasons]
        return kept, Counter(
            reason for row, reason in reasons.items() if manifests[row].content is ManifestContent.DATA
        )

    def spec(self, spec_id: int) -> PartitionSpec:
        """The partition spec of that id.

        Raises:
            FormatError: The table has none.
        """
        if spec_id not in self.specs:
            raise FormatError(
                f"a manifest has partition spec {spec_id}, which the table does not have", location=self.table
            )
        return self.specs[spec_id]

    def check_locations(self, locations: pa.Array) -> None:
        """Refuse files outside the table's folders: metadata from another writer could refer to any location.

        Raises:
            SkerryError: One is there.
        """
        if self.roots is None:
            return
        inside = np.zeros(len(locations), bool)
        plain = ~_may_climb(locations)
        for root in self.roots:
            inside |= plain & pc.starts_with(locations, root.rstrip("/") + "/").to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(~inside).tolist():
            location = self.storage.resolved(locations[row].as_py())
            if not any(is_within(root, location) for root in self.roots):
                raise outside_folder(location, "property")

    # ---- files ----

    def _deletes(self, pool: WorkPool, chosen: _Chosen) -> DeleteIndex:
        """The delete files that can apply to files of the data manifests."""
        young = _young_enough(chosen.kept, chosen.data)
        old = list(read_ahead(pool, self._read_deletes, young, _weight, _AHEAD_BYTES))
        return DeleteIndex(old, self.schema) if old else no_deletes()

    def _assigned(self, parts: Sequence[Pruned], deletes: DeleteIndex) -> PlannedFiles:
        """The files that remain, with their delete files."""
        batches = tuple(part.batch for part in parts)
        assignment = deletes.assign(batches)
        self._check_deletes(deletes, assignment)
        return PlannedFiles(batches, deletes.files, assignment, self.defaults)

    def read_files(self, manifest: ManifestFile, columns: Sequence[str]) -> pa.RecordBatch:
        """The entries of a manifest, including deleted ones.

        Args:
            manifest: The manifest.
            columns: Which columns, of `skerry.iceberg.manifests.reader.COLUMNS`.

        Raises:
            FormatError: It is corrupt.
            NotFoundError: There is no such file.
            UnsupportedError: It is encrypted, or its version is unknown.
        """
        return self.cache.read(self.storage, manifest, columns)

    def _read_deletes(self, manifest: ManifestFile) -> FileBatch:
        spec = self.spec(manifest.partition_spec_id)
        return live_files(self.read_files(manifest, DELETE_COLUMNS), spec, manifest.manifest_path)

    def _prune_files(self, pool: WorkPool, manifests: Sequence[ManifestFile], deletes: DeleteIndex) -> Iterator[Pruned]:
        """The files that remain; manifests are decoded in threads while earlier ones are pruned."""
        pruner = FilePruner(self.schema, self.conjuncts, deletes.key_columns)
        ids = pruner.metric_ids
        fits = self.cache.fits(manifests, len(self.schema.fields))

        def read(manifest: ManifestFile) -> ReadManifest:
            entries = self.cache.read_metrics(self.storage, manifest, FILE_COLUMNS, ids, may_keep_all=fits)
            return ReadManifest(manifest, entries)

        for wave in waves(read_ahead(pool, read, manifests, _weight, _AHEAD_BYTES)):
            found = pruner.prune(wave, self.spec(wave[0].file.partition_spec_id))
            self.check_locations(found.batch.files.column("file_path"))
            yield found

    def _check_deletes(self, deletes: DeleteIndex, assignment: Assignment) -> None:
        """Refuse delete files that must not be read, if they are needed."""
        self.check_locations(deletes.files.column("file_path").take(pa.array(np.unique(assignment.rows))))


def _may_climb(locations: pa.Array) -> _Mask:
    """Which locations contain parts that might leave a folder: those are checked one by one."""
    _, offsets, content = locations.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[locations.offset, locations.offset + len(locations)]].tolist()
    joined = content[first:last].to_pybytes() if content is not None else b""
    if not any(part in joined for part in (b"/..", b"\\", b"\0")):  # much faster than row by row
        return np.zeros(len(locations), bool)
    odd = pc.match_substring_regex(locations, r"/\.\.(/|$)|\\|\x00")
    return np.asarray(odd.to_numpy(zero_copy_only=False))


# Manifests ----------------------------------------------------------------------------------------------------------


def _weight(manifest: ManifestFile) -> int:
    return max(manifest.manifest_length, 1)


def _young_enough(kept: Sequence[ManifestFile], data: Sequence[ManifestFile]) -> list[ManifestFile]:
    """The delete manifests that can apply to data files: no delete applies to files younger than itself."""
    ages = [manifest.min_sequence_number or 0 for manifest in data]
    return [
        manifest
        for manifest in kept
        if manifest.content is ManifestContent.DELETES and ages and (manifest.sequence_number or 0) >= min(ages)
    ]


# Steps --------------------------------------------------------------------------------------------------------------


def _manifest_step(chosen: _Chosen) -> ScanStep:
    every = [manifest for manifest in chosen.manifests if manifest.content is ManifestContent.DATA]
    counts = len(every), len(chosen.data), _row_count(every), _row_count(chosen.data)
    return ScanStep("manifests by partition", *counts, tuple(chosen.dropped.items()))


def _delete_step(deletes: DeleteIndex, assignment: Assignment) -> ScanStep:
    total, kept = deletes.files.num_rows, len(np.unique(assignment.rows))
    dropped = (("no file that remains", total - kept),) if total > kept else ()
    return ScanStep("delete files", total, kept, None, None, dropped)


def _row_count(manifests: Iterable[ManifestFile]) -> int | None:
    counts = [(manifest.added_rows_count, manifest.existing_rows_count) for manifest in manifests]
    if any(count is None for pair in counts for count in pair):
        return None
    return sum(added + existing for added, existing in counts if added is not None and existing is not None)
