"""Scan planning: from the manifest list to the data files that can hold wanted rows.

Manifests are pruned by the partition summaries of the manifest list, their files by partition values and then by column
metrics, each step for all of them at once on the columns of the manifest. Only a file that remains becomes an object.

Spec: Iceberg table spec, Scan Planning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.iceberg.manifest import EntryStatus
from skerry.iceberg.manifest_list import ManifestContent, ManifestFile, read_manifest_list
from skerry.iceberg.manifest_reader import Manifest, partition_tuples, read_manifest
from skerry.iceberg.planning_metrics import MetricsLookup, column_metrics, partition_metrics, summary_metrics
from skerry.iceberg.projection import project
from skerry.storage import Storage, is_within
from skerry.table.files import DataFile
from skerry.table.predicate import Predicate, evaluate
from skerry.table.scan import FileScanTask, ScanPlan, ScanStep

__all__ = ["OUTSIDE_PROPERTY", "ScanPlanner"]

OUTSIDE_PROPERTY = "skerry.read.files-outside-location"
"""Table property: whether files outside of the table's folder are read; false if not set."""

_Mask: TypeAlias = npt.NDArray[np.bool_]
_FILE_COLUMNS = (
    "status",
    "content",
    "file_path",
    "file_format",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "split_offsets",
    "sort_order_id",
    "key_metadata",
)
_METRIC_COLUMNS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class ScanPlanner:
    """Plans the scans of one snapshot's files.

    Args:
        table: The table's name, for messages.
        storage: Access to manifests.
        roots: Folders that the table's files must lie in; None allows every place.
        schema: The schema of the scan.
        specs: All partition specs of the table by id.
        conjuncts: Predicates that wanted rows fulfil one and all.
        defaults: Physical values by field id, for columns that files may lack.
        threads: How many manifests are read at a time.
    """

    table: str
    storage: Storage
    roots: tuple[str, ...] | None
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    conjuncts: tuple[Predicate, ...]
    defaults: Mapping[int, Any]
    threads: int = 1

    def plan(self, manifest_list: str) -> ScanPlan:
        """Find the data files that can hold wanted rows.

        Args:
            manifest_list: Location of the snapshot's manifest list.

        Raises:
            FormatError: A manifest list or manifest is corrupt.
            NotFoundError: One of them is missing.
            SkerryError: A file lies outside of the table's folders.
            UnsupportedError: Files are encrypted, or rows are deleted by delete files.
        """
        listed = read_manifest_list(self.storage, manifest_list)
        manifests = [manifest for manifest in listed if manifest.has_live_files]
        kept, reasons = self._prune_manifests(manifests)
        if any(manifest.content is ManifestContent.DELETES for manifest in kept):
            raise UnsupportedError("the snapshot has row-level deletes, which are not read yet", location=self.table)
        self._check_locations(pa.array([manifest.manifest_path for manifest in kept], pa.string()))
        with ThreadPoolExecutor(self.threads, thread_name_prefix="skerry-plan") as pool:
            parts = list(pool.map(self._plan_manifest, kept))
        data = [manifest for manifest in manifests if manifest.content is ManifestContent.DATA]
        first = ScanStep(
            "manifests by partition", len(data), len(kept), _row_count(data), _row_count(kept), tuple(reasons.items())
        )
        tasks = tuple(task for part in parts for task in part.tasks)
        return ScanPlan(tasks, (first, *_sum_steps([part.steps for part in parts])))

    # ---- manifests ----

    def _prune_manifests(self, manifests: Sequence[ManifestFile]) -> tuple[list[ManifestFile], Counter[str]]:
        """The manifests whose summaries leave room for wanted rows, and why the other data manifests do not."""
        reasons: dict[int, str] = {}
        for spec_id in {manifest.partition_spec_id for manifest in manifests}:
            spec = self._spec(spec_id)
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

    def _spec(self, spec_id: int) -> PartitionSpec:
        if spec_id not in self.specs:
            raise FormatError(
                f"a manifest is of partition spec {spec_id}, the table has no such spec", location=self.table
            )
        return self.specs[spec_id]

    def _check_locations(self, locations: pa.Array) -> None:
        """Refuse files outside of the table's folders: metadata that someone else wrote could point anywhere."""
        if self.roots is None:
            return
        inside = np.zeros(len(locations), bool)
        plain = ~pc.match_substring_regex(locations, r"\.\.|%|//.*//|\x00").to_numpy(zero_copy_only=False)
        for root in self.roots:
            inside |= plain & pc.starts_with(locations, root.rstrip("/") + "/").to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(~inside).tolist():
            location = locations[row].as_py()
            if not any(is_within(root, location) for root in self.roots):
                raise SkerryError(
                    "a file of the table lies outside of its folder; if that is meant, set the table property "
                    f"{OUTSIDE_PROPERTY}=true",
                    location=location,
                )

    # ---- files ----

    def _plan_manifest(self, file: ManifestFile) -> _Planned:
        columns = (*_FILE_COLUMNS, *(_METRIC_COLUMNS if self.conjuncts else ()))
        manifest = read_manifest(self.storage, file, columns)
        try:
            return self._plan_files(manifest)
        except FormatError as error:
            location = error.location or file.manifest_path
            raise FormatError(error.message, location=location, offset=error.offset, rule=error.rule) from error

    def _plan_files(self, manifest: Manifest) -> _Planned:
        spec = self._spec(manifest.file.partition_spec_id)
        files = manifest.table
        files = files.filter(pc.not_equal(files.column("status"), int(EntryStatus.DELETED)))
        if pc.any(pc.not_equal(files.column("content"), 0)).as_py():
            raise FormatError("a manifest of data files has delete files", location=manifest.file.manifest_path)
        projected = [project(conjunct, self.schema, spec) for conjunct in self.conjuncts]
        of_partition = partition_metrics(spec, files)
        by_partition, files, _ = self._prune_files(files, projected, of_partition, "partition")
        by_bounds, files, matches_all = self._prune_files(files, self.conjuncts, column_metrics(files), "bounds")
        tasks = tuple(self._tasks(files, matches_all, spec))
        return _Planned(tasks, (by_partition, by_bounds))

    def _prune_files(
        self, files: pa.RecordBatch, conjuncts: Sequence[Predicate], lookup: MetricsLookup, name: str
    ) -> tuple[ScanStep, pa.RecordBatch, _Mask]:
        """The files that metrics leave room in, and for each whether all its rows must be wanted."""
        alive, must = np.full(files.num_rows, True), np.full(files.num_rows, True)
        reasons: Counter[str] = Counter()
        for conjunct, original in zip(conjuncts, self.conjuncts, strict=True):
            verdict = evaluate(conjunct, lookup, files.num_rows)
            lost = int(np.count_nonzero(alive & ~verdict.may))
            reasons += Counter({f"{name} without {original}": lost})
            alive, must = alive & verdict.may, must & verdict.must
        rows = files.column("record_count").to_numpy(zero_copy_only=False)
        step = ScanStep(
            f"files by {name}",
            files.num_rows,
            int(np.count_nonzero(alive)),
            int(rows.sum()),
            int(rows[alive].sum()),
            tuple(reasons.items()),
        )
        return step, files if alive.all() else files.filter(pa.array(alive)), must[alive]

    def _tasks(self, files: pa.RecordBatch, matches_all: _Mask, spec: PartitionSpec) -> Iterator[FileScanTask]:
        if files.column("key_metadata").null_count < files.num_rows:
            raise UnsupportedError("encrypted data files are not supported", location=self.table)
        self._check_locations(files.column("file_path"))
        partitions = partition_tuples(files.column("partition"))
        identity = [
            (index, field.source_id)
            for index, field in enumerate(spec.fields)
            if isinstance(field.transform, IdentityTransform)
        ]
        names = ("file_path", "file_format", "record_count", "file_size_in_bytes", "split_offsets", "sort_order_id")
        columns = [files.column(name).to_pylist() for name in names]
        for partition, must, row in zip(partitions, matches_all.tolist(), zip(*columns, strict=True), strict=True):
            location, file_format, record_count, size_bytes, offsets, sort_order_id = row
            data_file = DataFile(
                location=location,
                file_format=file_format.lower(),
                record_count=record_count,
                file_size_bytes=size_bytes,
                spec_id=spec.spec_id,
                partition=partition,
                split_offsets=tuple(offsets or ()),
                sort_order_id=sort_order_id,
            )
            yield FileScanTask(data_file, must, {**self.defaults, **{key: partition[index] for index, key in identity}})


@dataclass(frozen=True, slots=True)
class _Planned:
    """What came of one manifest."""

    tasks: tuple[FileScanTask, ...]
    steps: tuple[ScanStep, ...]


# Steps --------------------------------------------------------------------------------------------------------------


def _row_count(manifests: Iterable[ManifestFile]) -> int | None:
    counts = [(manifest.added_rows_count, manifest.existing_rows_count) for manifest in manifests]
    if any(count is None for pair in counts for count in pair):
        return None
    return sum(added + existing for added, existing in counts if added is not None and existing is not None)


def _sum_steps(parts: Sequence[tuple[ScanStep, ...]]) -> tuple[ScanStep, ...]:
    """The steps of all manifests together."""
    total = []
    for steps in zip(*parts, strict=True):
        dropped: Counter[str] = Counter()
        for step in steps:
            dropped.update(dict(step.dropped))
        total.append(
            ScanStep(
                steps[0].name,
                sum(step.total for step in steps),
                sum(step.kept for step in steps),
                sum(step.total_rows or 0 for step in steps),
                sum(step.kept_rows or 0 for step in steps),
                tuple(dropped.items()),
            )
        )
    return tuple(total)
