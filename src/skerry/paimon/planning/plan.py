"""Scan planning: from the manifest lists of a snapshot to the files that can hold matching rows.

Manifests are pruned by the statistics of their partitions, entries by partition; then DELETE entries cancel ADD
entries. The rest is pruned by bucket, by keys, by values, by file indexes. All of it works on columns, for all files at
once; only the files of a requested split become records.

Rows of one key may be in several files. Statistics of keys apply to a file by itself, those of values only if no other
file has the same keys: such files form sections, and a section is kept or pruned as a whole.

Spec: docs/formats/paimon.md § 9.2, § 9.3; Paimon Java, `KeyValueFileStoreScan`, `AppendOnlyFileStoreScan`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from skerry.paimon.manifests.manifest import ENTRY_SCHEMA, read_entries
from skerry.paimon.manifests.manifest_list import ManifestFileMeta, read_manifest_list
from skerry.paimon.manifests.metadata_file import stats_struct
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.entry_columns import ReadEntries, partition_codes, stats_metrics
from skerry.paimon.planning.entry_pruning import EntryPruner
from skerry.paimon.planning.known_files import MOST_FILES, KnownFiles
from skerry.paimon.planning.planned_splits import PaimonPlan, PlannedFiles, PlannedSplits
from skerry.paimon.planning.sections import Sections
from skerry.paimon.values.simple_stats import stats_record
from skerry.storage import is_local
from skerry.table.files.scan_task import ScanStep
from skerry.table.predicate import Predicate, evaluate
from skerry.table.work.read_ahead import WorkPool, read_ahead

if TYPE_CHECKING:
    from skerry.table.indexes.conditions import IndexCondition

__all__ = ["ScanPlanner"]

_ASKED: Final = "planned"
"""Key of what is remembered of a state that was planned once."""
_AHEAD_BYTES: Final = 4 << 20
"""Maximum encoded size of the manifests that are decoded ahead of those before them."""


@dataclass(frozen=True)
class ScanPlanner:
    """Plans a read of a table.

    Args:
        state: The table, with the schema of the scan.
        conjuncts: Predicates that matching rows satisfy one and all, bound to that schema.
        threads: Number of manifests and index files that are read in parallel.
        elsewhere: Partitions (rows with arity) that are read from another branch instead.
        list_partitions: Whether a plan lists the partitions.
        level: Only files of this level are read; all if None.
        sought: Conditions that matching rows satisfy, too, and with which the table's indexes help.
        remembers: Whether files are kept for later plans of the same state, whose steps then leave out those of
            manifests and partitions.
    """

    state: PaimonState
    conjuncts: tuple[Predicate, ...] = ()
    threads: int = 1
    elsewhere: frozenset[bytes] = frozenset()
    list_partitions: bool = False
    level: int | None = None
    sought: tuple[IndexCondition, ...] = ()
    remembers: bool = False

    def plan(self, snapshot: Snapshot | None) -> PaimonPlan:
        """Find the files that can hold matching rows of a snapshot.

        Args:
            snapshot: The snapshot; None for a table without any.

        Raises:
            FormatError: Metadata is corrupt.
            NotFoundError: A file of the metadata is missing.
            SkerryError: A file is outside the table's folder.
            UnsupportedError: Files are of a kind that is not supported.
        """
        if snapshot is None:
            return self._empty()
        lists = [
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ]
        with WorkPool(self.threads, "plan", is_local=is_local(self.state.location)) as pool:
            pruner = EntryPruner(
                self.state, self.conjuncts, snapshot, pool, [], self.elsewhere, self.level, self.sought
            )
            known = self._known(lists, snapshot, pool) if self.remembers else None
            if known is not None:
                return pruner.plan_known(known, list_partitions=self.list_partitions)
            found, step = self._read(lists, snapshot, pool)
            pruner.steps.append(step)
            return pruner.plan(found, list_partitions=self.list_partitions)

    def _known(self, lists: Sequence[tuple[str, int | None]], snapshot: Snapshot, pool: WorkPool) -> KnownFiles | None:
        """The files of the state, from the second plan on; None if there are many."""
        remembered = self.state.remembered
        if KnownFiles not in remembered:
            if _ASKED not in remembered:
                remembered[_ASKED] = True
                return None
            found, _ = replace(self, conjuncts=())._read(lists, snapshot, pool)  # noqa: SLF001  of the same class
            known = EntryPruner(self.state, (), snapshot, pool).known(found)
            remembered[KnownFiles] = known if known.live.entries.num_rows <= MOST_FILES else None
        found_files: KnownFiles | None = remembered[KnownFiles]
        return found_files

    def plan_delta(self, snapshot: Snapshot) -> PaimonPlan:
        """Find the files that the commit of a snapshot added, each to be read without merging.

        Raises:
            FormatError: As `plan`, as do the following.
        """
        return self._plan_added([(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)], snapshot)

    def plan_changelog(self, snapshot: Snapshot) -> PaimonPlan:
        """Find the changelog files of a snapshot, each to be read without merging; none if it has no changelog."""
        if snapshot.changelog_manifest_list is None:
            return self._empty()
        return self._plan_added([(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)], snapshot)

    def _plan_added(self, lists: Sequence[tuple[str, int | None]], snapshot: Snapshot) -> PaimonPlan:
        with WorkPool(self.threads, "plan", is_local=is_local(self.state.location)) as pool:
            found, step = self._read(lists, snapshot, pool)
            return EntryPruner(self.state, self.conjuncts, snapshot, pool, [step]).plan_added(found)

    def _empty(self) -> PaimonPlan:
        nothing = pa.RecordBatch.from_pylist([], schema=ENTRY_SCHEMA)
        files = PlannedFiles(nothing, (), np.zeros(0, np.int64), np.zeros(0, bool))
        sections = Sections.of_files(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return PaimonPlan(PlannedSplits(files, sections, np.zeros(1, np.int64), None, 0), ())

    # ---- manifests ----

    def _read(
        self, lists: Sequence[tuple[str, int | None]], snapshot: Snapshot, pool: WorkPool
    ) -> tuple[ReadEntries, ScanStep]:
        """The entries of the manifests that can contain matching rows, including deleted files."""
        storage, paths = self.state.storage, self.state.paths
        manifests = [
            manifest
            for name, size in lists
            for manifest in read_manifest_list(storage, paths.manifest(name), size=size)
        ]
        kept, reasons = self._prune_manifests(manifests)
        step = ScanStep("manifests by partition", len(manifests), len(kept), None, None, tuple(reasons.items()))

        def read(manifest: ManifestFileMeta) -> pa.RecordBatch:
            return read_entries(storage, paths.manifest(manifest.file_name), size=manifest.file_size)

        batches = list(read_ahead(pool, read, kept, lambda manifest: manifest.file_size, _AHEAD_BYTES))
        nothing = pa.RecordBatch.from_pylist([], schema=ENTRY_SCHEMA)
        entries = pa.concat_batches(batches) if len(batches) > 1 else [*batches, nothing][0]
        location = paths.snapshot(snapshot.id)
        fields = self.state.schema.partition_fields
        partitions = partition_codes(entries.column("_PARTITION"), fields, location=location)
        return ReadEntries(entries, partitions), step

    def _prune_manifests(self, manifests: Sequence[ManifestFileMeta]) -> tuple[list[ManifestFileMeta], Counter[str]]:
        """The manifests whose statistics allow matching rows, and why the others are excluded."""
        if not self.conjuncts or not self.state.schema.partition_keys or not manifests:
            return list(manifests), Counter()
        stats = pa.array([stats_record(manifest.partition_stats) for manifest in manifests], stats_struct())
        lookup = stats_metrics(stats, self.state.schema.partition_fields, np.full(len(manifests), -1, np.int64))
        reasons: Counter[str] = Counter()
        alive = np.full(len(manifests), True)
        for conjunct in self.conjuncts:
            may = evaluate(conjunct, lookup, len(manifests)).may
            lost = int(np.count_nonzero(alive & ~may))
            if lost:
                reasons[f"partitions without {conjunct}"] += lost
            alive &= may
        return [manifest for manifest, is_alive in zip(manifests, alive.tolist(), strict=True) if is_alive], reasons
