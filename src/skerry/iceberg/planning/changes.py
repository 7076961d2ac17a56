"""The files that one commit added, removed, or deleted rows of.

They are determined from the manifests that the commit wrote. The others are only read to find the data files to which
its deletes apply.

Spec: Iceberg spec, Manifests (status, snapshot_id), Scan Planning.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import NotFoundError
from skerry.iceberg.manifests.file_batch import FileBatch, conform_partition
from skerry.iceberg.manifests.manifest import EntryStatus
from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifests.map_columns import METRIC_COLUMNS
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.manifests.snapshot_manifests import read_manifests
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.planning.delete_index import DELETE_COLUMNS, DeleteIndex
from skerry.iceberg.planning.metrics import column_metrics
from skerry.iceberg.planning.plan import ScanPlanner
from skerry.iceberg.planning.planned_files import TASK_COLUMNS, PlannedFiles
from skerry.storage import is_local
from skerry.table.files.scan_task import FileScanTask
from skerry.table.predicate import Predicate, evaluate
from skerry.table.work.read_ahead import WorkPool

__all__ = ["ChangePlanner", "CommitChanges", "TouchedFile"]

_DATA_COLUMNS = ("status", "snapshot_id", "partition", *TASK_COLUMNS, *METRIC_COLUMNS)
_Choice: TypeAlias = Callable[[pa.RecordBatch], pa.BooleanArray]


@dataclass(frozen=True, slots=True)
class TouchedFile:
    """A data file that stayed, while some of its rows were deleted (or came back).

    Args:
        before: The file with its deletes before the commit.
        after: The file with its deletes after the commit.
    """

    before: FileScanTask
    after: FileScanTask


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """The changes of one commit.

    Args:
        removed: Removed data files, with their deletes before the commit.
        touched: Remaining data files whose deletes changed.
        added: New data files, with their deletes.
        pushed: A condition that every requested row satisfies, so that others need not be read.
    """

    removed: Sequence[FileScanTask]
    touched: Sequence[TouchedFile]
    added: Sequence[FileScanTask]
    pushed: tuple[Predicate, ...]


@dataclass(frozen=True)
class ChangePlanner:
    """Plans the reads of commits.

    Args:
        planner: The planner of scans with the schema of the result.
        where: Predicates that requested rows satisfy, all of them.
        of_pairs: Those of them that both or neither image of an update satisfies: if rows were removed and added, only
            these can be applied before the images are paired.
    """

    planner: ScanPlanner
    where: tuple[Predicate, ...]
    of_pairs: tuple[Predicate, ...]

    def plan(self, snapshot: Snapshot, parent: Snapshot | None) -> CommitChanges:
        """Determine the changes of a commit.

        Args:
            snapshot: The snapshot that it created.
            parent: The snapshot before; None for the table's first.

        Raises:
            FormatError: Metadata is corrupt.
            NotFoundError: A metadata file is missing, or the snapshot has no parent although it was not the table's
                first: its ancestors have expired.
            SkerryError: A file is outside of the table's folders.
            UnsupportedError: A file is encrypted.
        """
        listed = read_manifests(self.planner.storage, snapshot)
        of_parent = read_manifests(self.planner.storage, parent) if parent is not None else ()
        own = [file for file in listed if file.added_snapshot_id == snapshot.snapshot_id]
        id_ = snapshot.snapshot_id
        if parent is None and any(_is_older(file, id_) for file in listed):
            raise NotFoundError(
                f"the parent of snapshot {id_} has expired, so that its changes are unknown: changes can be read "
                "from the oldest snapshot on",
                location=self.planner.table,
            )
        added = self._files(own, ManifestContent.DATA, lambda files: _by(files, id_, EntryStatus.ADDED))
        removed = self._files(own, ManifestContent.DATA, lambda files: _by(files, id_, EntryStatus.DELETED))
        before = functools.cache(lambda: self._live_deletes(of_parent))
        after = functools.cache(lambda: self._live_deletes(listed))
        touched = self._touched(listed, own, id_)
        may_pair = (added or touched) and (removed or touched)
        pushed = self.of_pairs if may_pair else self.where
        return CommitChanges(
            removed=self._tasks(self._pruned(removed, pushed), before),
            touched=self._pairs(self._pruned(touched, pushed), before, after),
            added=self._tasks(self._pruned(added, pushed), after),
            pushed=pushed,
        )

    # ---- files ----

    def _files(self, manifests: Iterable[ManifestFile], content: ManifestContent, choose: _Choice) -> list[FileBatch]:
        """Chosen files of manifests; batches without files are left out."""
        wanted = [manifest for manifest in manifests if manifest.content is content]
        if not wanted:
            return []
        with WorkPool(self.planner.threads, "plan", is_local=is_local(wanted[0].manifest_path)) as pool:
            batches = pool.in_order(lambda manifest: self._read(manifest, choose), wanted)
            return [batch for batch in batches if batch.files.num_rows]

    def _read(self, file: ManifestFile, choose: _Choice) -> FileBatch:
        is_data = file.content is ManifestContent.DATA
        columns = _DATA_COLUMNS if is_data else ("snapshot_id", *DELETE_COLUMNS)
        spec = self.planner.spec(file.partition_spec_id)
        files = read_manifest(self.planner.storage, file, columns).table
        index = files.schema.get_field_index("partition")
        files = files.set_column(
            index, "partition", conform_partition(files.column("partition"), spec, file.manifest_path)
        )
        files = files.filter(choose(files))
        self.planner.check_locations(files.column("file_path"))
        return FileBatch(spec, files, np.zeros(files.num_rows, bool))

    def _live_deletes(self, manifests: Iterable[ManifestFile]) -> DeleteIndex:
        live = [file for file in manifests if file.has_live_files]
        return DeleteIndex(self._files(live, ManifestContent.DELETES, _is_live), self.planner.schema)

    def _touched(self, listed: Sequence[ManifestFile], own: Sequence[ManifestFile], id_: int) -> list[FileBatch]:
        """Data files older than the commit to which its deletes apply, or whose deletes it removed."""
        indexes = []
        for status in (EntryStatus.ADDED, EntryStatus.DELETED):
            choose = functools.partial(_by, snapshot_id=id_, status=status)
            if deletes := self._files(own, ManifestContent.DELETES, choose):
                indexes.append(DeleteIndex(deletes, self.planner.schema))
        if not indexes:
            return []
        old = self._files(
            [file for file in listed if file.has_live_files],
            ManifestContent.DATA,
            lambda files: pc.and_not(_is_live(files), _by(files, id_, EntryStatus.ADDED)),
        )
        hits = [np.zeros(batch.files.num_rows, bool) for batch in old]
        for index in indexes:
            offsets = index.assign(_with_keys(old, index)).offsets
            starts = np.cumsum([0, *(len(hit) for hit in hits)])
            for hit, start in zip(hits, starts.tolist(), strict=False):
                hit |= np.diff(offsets[start : start + len(hit) + 1]) > 0
        return _kept(old, hits)

    def _pruned(self, batches: Sequence[FileBatch], conjuncts: Iterable[Predicate]) -> list[FileBatch]:
        """Files that may match by their metrics."""
        hits = [np.ones(batch.files.num_rows, bool) for batch in batches]
        for batch, hit in zip(batches, hits, strict=True):
            metrics = column_metrics(batch.files)
            for conjunct in conjuncts:
                hit &= evaluate(conjunct, metrics, len(hit)).may
        return _kept(batches, hits)

    # ---- tasks ----

    def _tasks(self, batches: Sequence[FileBatch], deletes: Callable[[], DeleteIndex]) -> Sequence[FileScanTask]:
        if not batches:
            return ()
        index = deletes()
        with_keys = _with_keys(batches, index)
        return PlannedFiles(tuple(with_keys), index.files, index.assign(with_keys), self.planner.defaults)

    def _pairs(
        self,
        batches: Sequence[FileBatch],
        before: Callable[[], DeleteIndex],
        after: Callable[[], DeleteIndex],
    ) -> Sequence[TouchedFile]:
        return [
            TouchedFile(old, new)
            for old, new in zip(self._tasks(batches, before), self._tasks(batches, after), strict=True)
        ]


def _is_older(file: ManifestFile, snapshot_id: int) -> bool:
    """Whether a manifest has files from before a snapshot."""
    return file.has_live_files and (file.added_snapshot_id != snapshot_id or bool(file.existing_files_count))


def _is_live(files: pa.RecordBatch) -> pa.BooleanArray:
    return pc.not_equal(files.column("status"), int(EntryStatus.DELETED))


def _by(files: pa.RecordBatch, snapshot_id: int, status: EntryStatus) -> pa.BooleanArray:
    """The files that a commit added or removed; files that it only kept in a manifest are neither."""
    return pc.fill_null(
        pc.and_(pc.equal(files.column("snapshot_id"), snapshot_id), pc.equal(files.column("status"), int(status))),
        False,
    )


def _with_keys(batches: Sequence[FileBatch], index: DeleteIndex) -> list[FileBatch]:
    """Batches with the metrics that the index compares."""
    result = []
    for batch in batches:
        metrics = column_metrics(batch.files)
        keys = {column.field_id: found for column in index.key_columns if (found := metrics(column)) is not None}
        result.append(replace(batch, keys=keys))
    return result


def _kept(batches: Sequence[FileBatch], hits: Sequence[npt.NDArray[np.bool_]]) -> list[FileBatch]:
    """The files selected by masks."""
    return [
        FileBatch(batch.spec, batch.files.filter(pa.array(hit)), batch.matches_all[hit])
        for batch, hit in zip(batches, hits, strict=True)
        if hit.any()
    ]
