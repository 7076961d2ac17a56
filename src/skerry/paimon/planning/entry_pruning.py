"""From the entries of manifests to a plan: which are live, which can hold matching rows, which are read together.

Spec: docs/formats/paimon.md § 9.3, § 9.4.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError
from skerry.paimon.manifests.manifest import FileKind
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.bucket_pruning import BucketPruner
from skerry.paimon.planning.bucket_sections import (
    bucket_numbers,
    file_sections,
    keeps_values,
    merge_sections,
    pack_sections,
)
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.entry_columns import ReadEntries, live_rows, partition_metrics
from skerry.paimon.planning.file_locations import bucket_folders, check_locations
from skerry.paimon.planning.file_pruning import FilePruner, index_sources
from skerry.paimon.planning.hash_pruning import buckets_with_hashes
from skerry.paimon.planning.known_files import KnownFiles
from skerry.paimon.planning.planned_splits import PaimonPlan, PlannedFiles, PlannedSplits
from skerry.paimon.planning.row_id_pruning import RowIdPruner
from skerry.paimon.planning.row_sections import row_sections
from skerry.paimon.planning.sections import KeyRanges, Sections, key_ranges
from skerry.paimon.planning.splits import VectorLocation
from skerry.paimon.planning.vector_locations import VectorKey, vector_locations
from skerry.paimon.values.byte_spans import Longs
from skerry.table.files.scan_task import ScanStep
from skerry.table.predicate import Predicate, evaluate
from skerry.table.work.read_ahead import WorkPool

if TYPE_CHECKING:
    from skerry.paimon.planning.table_indexes import IndexLookup
    from skerry.table.indexes.conditions import IndexCondition

__all__ = ["EntryPruner"]

_Mask = npt.NDArray[np.bool_]
_RULE: Final = "docs/formats/paimon.md § 7.4"
_BY_KEYS: Final = "files by index of keys"
_BY_ROWS: Final = "rows by index"


@dataclass
class EntryPruner:
    """Makes one plan.

    Args:
        state: The table, with the schema of the scan.
        conjuncts: Predicates that matching rows satisfy one and all.
        snapshot: The snapshot to read.
        pool: Threads that read index files.
        steps: The steps so far.
        elsewhere: Partitions that are read from another branch instead.
        level: Only files of this level are read; all if None.
        sought: Conditions that matching rows satisfy, too, and with which the table's indexes help.
    """

    state: PaimonState
    conjuncts: tuple[Predicate, ...]
    snapshot: Snapshot
    pool: WorkPool
    steps: list[ScanStep] = field(default_factory=list)
    elsewhere: frozenset[bytes] = frozenset()
    level: int | None = None
    sought: tuple[IndexCondition, ...] = ()

    @property
    def location(self) -> str:
        """The snapshot's file, for messages."""
        return self.state.paths.snapshot(self.snapshot.id)

    def plan(self, found: ReadEntries, *, list_partitions: bool = False) -> PaimonPlan:
        """Plan a read of all rows of the snapshot.

        Args:
            found: The entries of its manifests.
            list_partitions: Whether the plan lists the partitions.

        Raises:
            FormatError: Metadata is corrupt.
            SkerryError: A file is outside the table's folder.
            UnsupportedError: Files are of a kind that is not supported.
        """
        live = self._live(found)
        return self._plan_live(live, vector_locations(self.state, self.snapshot), None, list_partitions=list_partitions)

    def known(self, found: ReadEntries) -> KnownFiles:
        """What is to be kept of the live files of all partitions; see `plan`."""
        live = self._live(found)
        return KnownFiles(live, vector_locations(self.state, self.snapshot), self._pruner(live, None))

    def plan_known(self, known: KnownFiles, *, list_partitions: bool = False) -> PaimonPlan:
        """Plan a read of files that were kept; see `plan`."""
        may, _ = self._partition_may(known.live)
        live = known.live.take(np.flatnonzero(may[known.live.partitions.codes]))
        return self._plan_live(live, known.vectors, known, list_partitions=list_partitions)

    def _plan_live(
        self,
        live: ReadEntries,
        vectors: Mapping[VectorKey, VectorLocation],
        known: KnownFiles | None,
        *,
        list_partitions: bool,
    ) -> PaimonPlan:
        partitions = self._present(live) if list_partitions else frozenset()
        live = self._drop_levels(self._prune_buckets(live))
        return replace(self._sections(live, vectors, known), partitions=partitions)

    def plan_added(self, found: ReadEntries) -> PaimonPlan:
        """Plan a read of the added files, each by itself, or with others that have columns of its rows; see `plan`."""
        added = found.take(np.flatnonzero(found.numbers("_KIND") == FileKind.ADD))
        partition_may, _ = self._partition_may(added)
        live = self._checked(added.take(np.flatnonzero(partition_may[added.partitions.codes])))
        judge = self._pruner(live, None)
        if self.state.options.data_evolution:
            sections, _ = self._overlaps(live)
            verdict = judge.by_stitched_values(sections)
            return self._finish(live, sections.only(sections.any(verdict.may)), None, verdict.must, {})
        verdict = judge.by_keys() if self.state.schema.primary_keys else judge.by_values()
        rows = np.flatnonzero(verdict.may)
        reasons = [(f"bounds without {reason}", count) for reason, count in verdict.reasons]
        self.steps.append(_step("files by bounds", live, np.arange(live.entries.num_rows), rows, reasons))
        numbers = bucket_numbers(live.partitions.codes, live.numbers("_BUCKET"))[rows]
        sections = Sections.of_files(rows, numbers)
        return self._finish(live, sections, None, verdict.must & (not self.state.schema.primary_keys), {})

    # ---- entries ----

    def _partition_may(self, found: ReadEntries) -> tuple[_Mask, list[tuple[str, _Mask]]]:
        """bool[partitions] Which partitions can hold matching rows, and which cannot because of which conjunct."""
        partitions = found.partitions
        may = np.full(len(partitions.rows), True)
        reasons = []
        lookup = partition_metrics(self.state.schema.partition_fields, partitions.values)
        for conjunct in self.conjuncts:
            verdict = evaluate(conjunct, lookup, len(may)).may
            reasons.append((f"partition without {conjunct}", may & ~verdict))
            may &= verdict
        if self.elsewhere:
            taken = np.fromiter((row in self.elsewhere for row in partitions.rows), bool, len(may))
            reasons.append(("partition that is read from another branch", may & taken))
            may &= ~taken
        return may, reasons

    def _present(self, live: ReadEntries) -> frozenset[bytes]:
        """The partitions of live files that readers see."""
        codes = live.partitions.codes
        if self._hides_level_0:
            codes = codes[live.numbers("_LEVEL") > 0]
        rows = live.partitions.rows
        return frozenset(itertools.compress(rows, np.bincount(codes, minlength=len(rows)).tolist()))

    @property
    def _hides_level_0(self) -> bool:
        return bool(self.state.schema.primary_keys) and self.state.options.batch_reads_skip_level_0

    def _live(self, found: ReadEntries) -> ReadEntries:
        """The live files of the partitions that can hold matching rows."""
        signs = np.where(found.numbers("_KIND") == FileKind.ADD, 1, -1)
        counts = found.numbers("_ROW_COUNT") * signs
        codes = found.partitions.codes
        partition_may, reasons = self._partition_may(found)
        inside = partition_may[codes]
        inside_buckets = found.numbers("_BUCKET") != POSTPONE_BUCKET
        chosen = found.take(np.flatnonzero(inside & inside_buckets))
        live = self._checked(chosen.take(live_rows(chosen.entries, location=self.location)))
        dropped = [("not assigned to buckets yet", int(signs[inside & ~inside_buckets].sum()))]
        dropped += [(reason, int(signs[lost[codes]].sum())) for reason, lost in reasons]
        step = ScanStep(
            "files by partition",
            int(signs.sum()),
            live.entries.num_rows,
            int(counts.sum()),
            int(live.numbers("_ROW_COUNT").sum()),
            tuple((reason, count) for reason, count in dropped if count > 0),
        )
        self.steps.append(step)
        return live

    def _checked(self, live: ReadEntries) -> ReadEntries:
        """Check the locations and bucket counts of files.

        Raises:
            FormatError: A partition has files with different numbers of buckets.
        """
        check_locations(self.state, live.entries, self.location)
        totals = live.numbers("_TOTAL_BUCKETS")
        fixed = totals > 0
        pairs = np.unique(np.stack([live.partitions.codes[fixed], totals[fixed]], axis=1), axis=0)
        if len(np.unique(pairs[:, 0])) < len(pairs):
            raise FormatError(
                "a partition has files with different numbers of buckets", location=self.location, rule=_RULE
            )
        return live

    def _prune_buckets(self, live: ReadEntries) -> ReadEntries:
        """The files of buckets that can hold matching rows."""
        pruner = BucketPruner(self.state, self.conjuncts)
        may = pruner.may_hold(live.numbers("_BUCKET"), live.numbers("_TOTAL_BUCKETS"), live.numbers("_SCHEMA_ID"))
        rows = np.flatnonzero(may)
        if pruner.prunes:
            reasons = (("bucket without a matching key", len(may) - len(rows)),) if len(rows) < len(may) else ()
            self.steps.append(_step("files by bucket", live, np.arange(len(may)), rows, reasons))
        return live.take(rows)

    def _drop_levels(self, live: ReadEntries) -> ReadEntries:
        """The files that are visible: some tables hide level 0 until it is compacted, some reads want one level."""
        if self.level is not None:
            seen, why = live.numbers("_LEVEL") == self.level, "levels that are not compacted as far as possible"
        elif self._hides_level_0:
            seen, why = live.numbers("_LEVEL") > 0, "level 0, invisible until it is compacted"
        else:
            return live
        rows = np.flatnonzero(seen)
        lost = live.entries.num_rows - len(rows)
        reasons = ((why, lost),) if lost else ()
        self.steps.append(_step("files by level", live, np.arange(live.entries.num_rows), rows, reasons))
        return live.take(rows)

    # ---- files ----

    def _pruner(self, live: ReadEntries, known: KnownFiles | None) -> FilePruner:
        metrics = known.metrics if known is not None and live is known.live else None
        return FilePruner(self.state, self.conjuncts, live.entries, live.partitions, self.location, metrics)

    def _sections(
        self, live: ReadEntries, vectors: Mapping[VectorKey, VectorLocation], known: KnownFiles | None
    ) -> PaimonPlan:
        """Prune live files by keys, then sections of them by values and indexes."""
        options = self.state.options
        by_keys = self._pruner(live, known).by_keys()
        lookup = self._lookup()
        files = live.take(np.flatnonzero(by_keys.may))
        if lookup is not None:
            files = self._look_keys_up(lookup, files)
        sections, ranges = self._overlaps(files)
        pruner = self._pruner(files, known)
        verdict = pruner.by_stitched_values(sections) if options.data_evolution else pruner.by_values()
        whole_rows = keeps_values(options)
        kept = sections.only(sections.any(verdict.may) | (~sections.is_raw & (not whole_rows)))
        must = verdict.must.copy()
        if not whole_rows and not options.data_evolution:
            must[kept.rows[~kept.is_raw[kept.of_row]]] = False
        self._tell_bounds(live, files, kept, by_keys.reasons, verdict.reasons)
        kept = self._prune_hashes(files, kept)
        if self.conjuncts and options.row_tracking and len(kept):
            kept = self._prune_row_ids(files, kept)
        if self.conjuncts and options.file_index_read:
            kept = self._prune_indexes(pruner, files, kept, must)
        rows: Mapping[int, Positions] = {}
        if lookup is not None:
            kept, rows = self._look_values_up(lookup, files, kept, must)
        return self._finish(files, kept, ranges, must, vectors, rows)

    def _lookup(self) -> IndexLookup | None:
        """The table's indexes, if there are any."""
        if not ((self.conjuncts or self.sought) and self.state.is_indexed):
            return None
        from skerry.paimon.planning.table_indexes import IndexLookup

        return IndexLookup(self.state, self.conjuncts, self.pool, self.sought)

    def _look_keys_up(self, lookup: IndexLookup, files: ReadEntries) -> ReadEntries:
        """Files without those whose indexes have none of the keys."""
        every = np.arange(files.entries.num_rows)
        found = lookup.rows(files.entries, every, self._places(files), lookup.on_keys) if lookup.on_keys else {}
        empty = [number for number, rows in found.items() if not len(rows)]
        if not empty:
            return files
        left = np.delete(every, empty)
        self.steps.append(_step(_BY_KEYS, files, every, left, (("no row by the indexes", len(empty)),)))
        return files.take(left)

    def _look_values_up(
        self, lookup: IndexLookup, files: ReadEntries, sections: Sections, must: _Mask
    ) -> tuple[Sections, Mapping[int, Positions]]:
        """Sections of which indexes leave a row, and the rows that they leave of files that are not merged."""
        is_raw = sections.is_raw[sections.of_row]
        chosen = sections.rows[~must[sections.rows] & (is_raw | keeps_values(self.state.options))]
        found = lookup.rows(files.entries, np.sort(chosen), self._places(files), lookup.conditions)
        if not found:
            return sections, {}
        is_left = np.full(files.entries.num_rows, True)
        is_left[[number for number, rows in found.items() if not len(rows)]] = False
        left = sections.only(sections.any(is_left))
        raw = set(left.rows[left.is_raw[left.of_row]].tolist())
        rows = {number: rows for number, rows in found.items() if number in raw}
        counts = files.numbers("_ROW_COUNT")
        lost = len(sections.rows) - len(left.rows)
        self.steps.append(
            ScanStep(
                _BY_ROWS,
                len(sections.rows),
                len(left.rows),
                int(counts[sections.rows].sum()),
                sum(len(rows[number]) if number in rows else int(counts[number]) for number in left.rows.tolist()),
                (("no row by the indexes", lost),) if lost else (),
            )
        )
        return left, rows

    def _places(self, files: ReadEntries) -> tuple[Sequence[str], Longs]:
        return bucket_folders(self.state, files.partitions, files.numbers("_BUCKET"))

    def _prune_row_ids(self, files: ReadEntries, sections: Sections) -> Sections:
        """Sections without those in which global indexes find no row."""
        schema_ids = frozenset(files.numbers("_SCHEMA_ID").tolist())
        heads = sections.rows[sections.starts[:-1]]
        first = files.entries.column("_FIRST_ROW_ID").fill_null(-1).to_numpy(zero_copy_only=False)
        pruner = RowIdPruner(self.state, self.snapshot, self.conjuncts, schema_ids)
        may = pruner.may_hold(first[heads], files.numbers("_ROW_COUNT")[heads])
        if may is None:
            return sections
        left = sections.only(may)
        lost = len(sections.rows) - len(left.rows)
        reasons = (("rows that indexes do not find", lost),) if lost else ()
        self.steps.append(_step("files by global index", files, sections.rows, left.rows, reasons))
        return left

    def _overlaps(self, files: ReadEntries) -> tuple[Sections, KeyRanges | None]:
        """Sections of files, and their keys where they are merged."""
        schema, options = self.state.schema, self.state.options
        numbers = bucket_numbers(files.partitions.codes, files.numbers("_BUCKET"))
        if options.data_evolution:
            return row_sections(files.entries, numbers, location=self.location), None
        if not schema.primary_keys:
            order = files.numbers("_MIN_SEQUENCE_NUMBER") if options.bucket > 0 else None
            return file_sections(numbers, order), None
        entries = files.entries
        ranges = key_ranges(
            entries.column("_MIN_KEY"), entries.column("_MAX_KEY"), schema.key_fields, location=self.location
        )
        sections = merge_sections(
            entries, numbers, ranges, merged_already=options.batch_reads_skip_level_0, location=self.location
        )
        return sections, ranges

    def _tell_bounds(
        self,
        before: ReadEntries,
        files: ReadEntries,
        kept: Sections,
        by_keys: Sequence[tuple[str, int]],
        by_values: Sequence[tuple[str, int]],
    ) -> None:
        lost = files.entries.num_rows - len(kept.rows)
        dropped = [(f"keys without {reason}", count) for reason, count in by_keys]
        if sum(count for _, count in by_values) == lost:
            dropped += [(f"bounds without {reason}", count) for reason, count in by_values]
        elif lost:
            dropped.append(("bounds of all files of a section", lost))
        self.steps.append(
            ScanStep(
                "files by bounds",
                before.entries.num_rows,
                len(kept.rows),
                int(before.numbers("_ROW_COUNT").sum()),
                int(files.numbers("_ROW_COUNT")[kept.rows].sum()),
                tuple(dropped),
            )
        )

    def _prune_hashes(self, files: ReadEntries, sections: Sections) -> Sections:
        """Sections of the dynamic buckets whose indexes have a matching key."""
        state = self.state
        if not (state.schema.primary_keys and state.options.bucket == -1 and len(sections)):
            return sections
        hashes = BucketPruner(state, self.conjuncts).hashes(files.numbers("_SCHEMA_ID"))
        if hashes is None:
            return sections
        firsts = sections.rows[sections.starts[:-1]]
        rows = files.partitions.rows
        partitions = [rows[code] for code in files.partitions.codes[firsts].tolist()]
        pairs = list(zip(partitions, files.numbers("_BUCKET")[firsts].tolist(), strict=True))
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        places = np.array([numbers[pair] for pair in pairs], np.int64)
        sizes = np.zeros(len(numbers), np.int64)
        np.add.at(sizes, places, sections.sums(files.numbers("_FILE_SIZE")[sections.rows]))
        may = buckets_with_hashes(state, self.snapshot, list(numbers), sizes, hashes, self.pool)
        left = sections.only(may[places])
        lost = len(sections.rows) - len(left.rows)
        reasons = (("buckets that never had a matching key", lost),) if lost else ()
        self.steps.append(_step("files by hash index", files, sections.rows, left.rows, reasons))
        return left

    def _prune_indexes(self, pruner: FilePruner, files: ReadEntries, sections: Sections, must: _Mask) -> Sections:
        """Sections without the files whose indexes exclude all rows."""
        raw = sections.rows[sections.is_raw[sections.of_row]]
        rows = raw[~must[raw]]
        folders, folder_of = bucket_folders(self.state, files.partitions, files.numbers("_BUCKET"))
        sources = index_sources(files.entries, rows, folders, folder_of)
        if not sources:
            return sections
        empty = pruner.by_indexes(rows.tolist(), sources, self.pool)
        is_left = np.full(files.entries.num_rows, True)
        is_left[empty] = False
        left = sections.only(sections.any(is_left) | ~sections.is_raw)
        reasons = (("indexes", len(empty)),) if empty else ()
        self.steps.append(_step("files by index", files, sections.rows, left.rows, reasons))
        return left

    def _finish(
        self,
        files: ReadEntries,
        sections: Sections,
        ranges: KeyRanges | None,
        must: _Mask,
        vectors: Mapping[VectorKey, VectorLocation],
        left_rows: Mapping[int, Positions] | None = None,
    ) -> PaimonPlan:
        """The plan of the sections of some of the files, of which indexes leave some rows."""
        rows = np.sort(sections.rows)
        place = np.zeros(files.entries.num_rows, np.int64)
        place[rows] = np.arange(len(rows))
        kept = files.take(rows)
        folders, folder_of = bucket_folders(self.state, kept.partitions, kept.numbers("_BUCKET"))
        moved = replace(sections, rows=place[sections.rows])
        has_rows = None
        if self.state.options.data_evolution:
            has_rows = np.zeros(len(rows), np.bool_)
            has_rows[moved.rows[moved.starts[:-1]]] = True
        planned = PlannedFiles(
            kept.entries.select([name for name in kept.entries.schema.names if name not in _STATS]),
            folders,
            folder_of,
            must[rows],
            _by_row(kept.entries, vectors),
            has_rows,
            {int(place[number]): found for number, found in (left_rows or {}).items()},
        )
        options = self.state.options
        bounds = pack_sections(
            moved, kept.numbers("_FILE_SIZE"), options.split_target_size, options.split_open_file_cost
        )
        left = None if ranges is None else KeyRanges(ranges.lowest[rows], ranges.highest[rows])
        splits = PlannedSplits(planned, moved, bounds, left, self.snapshot.id, self.state.branch)
        return PaimonPlan(splits, tuple(self.steps))


_STATS: Final = ("_KEY_STATS", "_VALUE_STATS", "_VALUE_STATS_COLS", "_EMBEDDED_FILE_INDEX")


def _by_row(entries: pa.RecordBatch, vectors: Mapping[VectorKey, VectorLocation]) -> dict[int, VectorLocation]:
    """The deletion vectors of files, by row."""
    if not vectors:
        return {}
    columns = (entries.column(name).to_pylist() for name in ("_PARTITION", "_BUCKET", "_FILE_NAME"))
    keys = zip(*columns, strict=True)
    return {row: vectors[key] for row, key in enumerate(keys) if key in vectors}


def _step(name: str, before: ReadEntries, rows: Longs, kept: Longs, reasons: Sequence[tuple[str, int]]) -> ScanStep:
    counts = before.numbers("_ROW_COUNT")
    return ScanStep(name, len(rows), len(kept), int(counts[rows].sum()), int(counts[kept].sum()), tuple(reasons))
