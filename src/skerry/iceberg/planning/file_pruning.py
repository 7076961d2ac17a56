"""Pruning data files by partition values and by column metrics, many manifests at a time.

Spec: Iceberg spec, Scan Planning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError
from skerry.iceberg.manifests.file_batch import FileBatch, conform_partition
from skerry.iceberg.manifests.manifest import EntryStatus
from skerry.iceberg.manifests.manifest_list import ManifestFile
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.partitioning.projection import project
from skerry.iceberg.planning.metrics import MetricsLookup, column_metrics, partition_metrics
from skerry.iceberg.planning.planned_files import TASK_COLUMNS
from skerry.table.files.scan_task import ScanStep
from skerry.table.predicate import Column, FieldMetrics, Predicate, columns_of, evaluate

__all__ = ["FILE_COLUMNS", "STEPS", "FilePruner", "LiveFiles", "Pruned", "ReadManifest", "live_files", "waves"]

FILE_COLUMNS = (*TASK_COLUMNS, "status", "content", "partition")
"""The columns of manifests that pruning by partition needs."""

STEPS = ("files by partition", "files by bounds")
"""The steps that pruning reports, in this order."""

_WAVE_FILES = 8192
_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """A manifest's decoded entries, including deleted ones.

    Args:
        file: Its record in the manifest list.
        entries: Columns of `skerry.iceberg.manifests.reader.COLUMNS`.
    """

    file: ManifestFile
    entries: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of pruning some manifests.

    Args:
        batch: The files that remain.
        steps: How many files remained, by `STEPS`.
    """

    batch: FileBatch
    steps: tuple[ScanStep, ...]


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The live files of some manifests of one spec, and what is known of them.

    Args:
        batch: The files, with `FILE_COLUMNS`.
        partitions: The metrics of partition fields.
        columns: The metrics of columns.
    """

    batch: FileBatch
    partitions: MetricsLookup
    columns: MetricsLookup


def waves(manifests: Iterable[ReadManifest]) -> Iterator[list[ReadManifest]]:
    """Manifests that are pruned together: neighbours of the same spec and columns, up to some thousand files."""
    wave: list[ReadManifest] = []
    size = 0
    for manifest in manifests:
        rows = manifest.entries.num_rows
        if wave and not (size + rows <= _WAVE_FILES and _are_alike(wave[0], manifest)):
            yield wave
            wave, size = [], 0
        wave.append(manifest)
        size += rows
    if wave:
        yield wave


def _are_alike(one: ReadManifest, other: ReadManifest) -> bool:
    same_spec = one.file.partition_spec_id == other.file.partition_spec_id
    return same_spec and one.entries.schema.equals(other.entries.schema, check_metadata=True)


def live_files(entries: pa.RecordBatch, spec: PartitionSpec, location: str) -> FileBatch:
    """The files of a manifest that belong to the snapshot.

    Args:
        entries: Its entries; among their columns `status` and `partition`.
        spec: Its partition spec.
        location: The manifest, for messages.

    Raises:
        FormatError: The partition values do not fit the spec.
    """
    index = entries.schema.get_field_index("partition")
    batch = FileBatch(
        spec, entries.set_column(index, "partition", conform_partition(entries.column("partition"), spec, location))
    )
    is_live = batch.column("status") != EntryStatus.DELETED
    return batch if is_live.all() else FileBatch(spec, batch.files.filter(pa.array(is_live)))


@dataclass(frozen=True, slots=True)
class FilePruner:
    """Finds the files that may contain matching rows.

    Args:
        schema: The schema of the scan.
        conjuncts: Predicates that matching rows satisfy, all of them.
        keys: Columns whose metrics are kept for the remaining files, for equality deletes.
    """

    schema: Schema
    conjuncts: tuple[Predicate, ...]
    keys: Sequence[Column] = ()

    @property
    def needs_metrics(self) -> bool:
        """Whether column metrics are used."""
        return bool(self.conjuncts or self.keys)

    @property
    def metric_ids(self) -> frozenset[int]:
        """The columns whose metrics are used, by field id."""
        used = {column for conjunct in self.conjuncts for column in columns_of(conjunct)}
        return frozenset(column.field_id for column in (*used, *self.keys))

    def prune(self, wave: Sequence[ReadManifest], spec: PartitionSpec) -> Pruned:
        """Prune the files of manifests of one spec.

        Args:
            wave: The manifests; their entries have `FILE_COLUMNS`, and the metrics of `metric_ids` if these are needed.
            spec: Their partition spec.

        Raises:
            FormatError: One of the manifests is corrupt.
        """
        try:
            return self._prune(wave, spec)
        except FormatError as error:
            if len(wave) > 1:
                for manifest in wave:  # pruned alone, the corrupt one fails with its name in the message
                    self.prune([manifest], spec)
            location = error.location or wave[0].file.manifest_path
            raise FormatError(error.message, location=location, offset=error.offset, rule=error.rule) from error

    def _prune(self, wave: Sequence[ReadManifest], spec: PartitionSpec) -> Pruned:
        live = self.live(wave, spec)
        files, metrics = live.batch.files, live.columns
        alive, must, steps = self.judge(live)
        keys = {column.field_id: found for column in self.keys if (found := metrics(column)) is not None}
        if self.needs_metrics or not alive.all():  # also to release the metrics, which may share their memory
            files = files.filter(pa.array(alive))
            must, keys = must[alive], {key: _only(found, alive) for key, found in keys.items()}
        kept = FileBatch(spec, files.select(["partition", *TASK_COLUMNS]), must, keys)
        return Pruned(kept, steps)

    def live(self, wave: Sequence[ReadManifest], spec: PartitionSpec) -> LiveFiles:
        """The live files of manifests of one spec; `wave` and errors as for `prune`."""
        names = list(FILE_COLUMNS)
        parts = [manifest.entries.select(names) for manifest in wave]
        entries = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
        batch = live_files(entries, spec, wave[0].file.manifest_path)
        if batch.column("content").any():
            raise FormatError("a manifest of data files contains delete files", rule="Iceberg spec, Manifests")
        has_metrics = not set(wave[0].entries.schema.names) <= set(FILE_COLUMNS)
        metrics = column_metrics([_live(manifest.entries) for manifest in wave]) if has_metrics else _no_metrics
        return LiveFiles(batch, partition_metrics(spec, batch.files), metrics)

    def judge(self, live: LiveFiles) -> tuple[_Mask, _Mask, tuple[ScanStep, ScanStep]]:
        """Which files may have matching rows, which have no others, and what each of `STEPS` left."""
        rows = live.batch.column("record_count")
        projected = [project(conjunct, self.schema, live.batch.spec) for conjunct in self.conjuncts]
        alive = np.full(live.batch.files.num_rows, True)
        by_partition, alive, _ = self._judge("partition", projected, live.partitions, alive, rows)
        by_bounds, alive, must = self._judge("bounds", self.conjuncts, live.columns, alive, rows)
        return alive, must, (by_partition, by_bounds)

    def _judge(
        self,
        name: str,
        conjuncts: Sequence[Predicate],
        lookup: MetricsLookup,
        alive: _Mask,
        rows: npt.NDArray[np.int64],
    ) -> tuple[ScanStep, _Mask, _Mask]:
        """Which of the live files may match by their metrics, and which match in all rows."""
        before, must = alive, np.full(len(alive), True)
        reasons: list[tuple[str, int]] = []
        for conjunct, original in zip(conjuncts, self.conjuncts, strict=True):
            verdict = evaluate(conjunct, lookup, len(alive))
            lost = int(np.count_nonzero(alive & ~verdict.may))
            if lost:
                reasons.append((f"{name} without {original}", lost))
            alive, must = alive & verdict.may, must & verdict.must
        step = ScanStep(
            f"files by {name}",
            int(np.count_nonzero(before)),
            int(np.count_nonzero(alive)),
            int(rows[before].sum()),
            int(rows[alive].sum()),
            tuple(reasons),
        )
        return step, alive, must


def _live(entries: pa.RecordBatch) -> pa.RecordBatch:
    is_live = entries.column("status").to_numpy(zero_copy_only=False) != EntryStatus.DELETED
    return entries if is_live.all() else entries.filter(pa.array(is_live))


def _no_metrics(column: Column) -> FieldMetrics | None:
    return None


def _only(metrics: FieldMetrics, mask: _Mask) -> FieldMetrics:
    return FieldMetrics(
        metrics.lower.filter(pa.array(mask)),
        metrics.upper.filter(pa.array(mask)),
        metrics.null_counts[mask],
        metrics.nan_counts[mask],
        metrics.value_counts[mask],
    )
