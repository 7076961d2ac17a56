"""The metadata tables of a Paimon table; see `skerry.table.inspection.inspect.Inspect`.

Spec: docs/formats/paimon.md § 3.1, § 5; Paimon documentation, System Tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError, NotFoundError
from skerry.paimon.handle import PaimonHandle
from skerry.paimon.manifests.deletion_vectors import find_vector
from skerry.paimon.manifests.index_manifest import DeletionVectorMeta
from skerry.paimon.manifests.live_files import snapshot_manifests
from skerry.paimon.manifests.manifest_list import ManifestFileMeta, read_manifest_list
from skerry.paimon.metadata.branches import branch_names
from skerry.paimon.metadata.paths import MAIN_BRANCH
from skerry.paimon.metadata.snapshot import Snapshot, decode_object
from skerry.paimon.metadata.snapshots import find_snapshot, snapshot_ids
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.tags import read_tags
from skerry.paimon.metadata.time_travel import state_at_ref, state_at_snapshot
from skerry.paimon.planning.entry_columns import live_rows
from skerry.paimon.planning.file_tables import FileTables, is_added, read_all
from skerry.paimon.reading.row_tables import ROW_TABLES, row_table
from skerry.paimon.records import described_snapshot
from skerry.paimon.statistics.samples import statistics_locations
from skerry.paimon.system_tables import (
    OF_ONE_SNAPSHOT,
    SYSTEM_TABLES,
    file_columns,
    newest,
    sums,
    system_fields,
    system_table,
    table_of_files,
)
from skerry.paimon.values.binary_reading import decode_rows
from skerry.puffin import PuffinReader
from skerry.storage import is_local
from skerry.storage import name as file_name
from skerry.table.history import Ref
from skerry.table.inspection.columns import (
    HISTORY,
    MANIFEST_SUMMARIES,
    PARTITION_COUNTS,
    PARTITION_UPDATES,
    POSITION_DELETES,
    PROPERTIES,
    REFS,
    SNAPSHOTS,
    STATISTICS,
)
from skerry.table.inspection.inspect import Inspect, RowRequest, properties_table, rows_table
from skerry.table.inspection.partitions import count_partitions, number_groups
from skerry.table.rows.row_stream import BoundedStream
from skerry.table.rows.schema import leaves
from skerry.table.work.read_ahead import WorkPool, default_threads

__all__ = ["PaimonInspect"]

_SNAPSHOTS: Final = (
    *(field for field in SNAPSHOTS if field.name != "manifest_list"),
    pa.field("schema_id", pa.int64()),
    pa.field("commit_user", pa.string()),
    pa.field("commit_identifier", pa.int64()),
    pa.field("commit_kind", pa.string()),
    pa.field("base_manifest_list", pa.string()),
    pa.field("delta_manifest_list", pa.string()),
    pa.field("changelog_manifest_list", pa.string()),
    pa.field("total_record_count", pa.int64()),
    pa.field("delta_record_count", pa.int64()),
    pa.field("changelog_record_count", pa.int64()),
    pa.field("watermark", pa.int64()),
)
_MANIFESTS: Final = (
    pa.field("content", pa.int32(), nullable=False),
    pa.field("path", pa.string(), nullable=False),
    pa.field("length", pa.int64(), nullable=False),
    pa.field("added_data_files_count", pa.int64()),
    pa.field("deleted_data_files_count", pa.int64()),
    pa.field("partition_summaries", MANIFEST_SUMMARIES),
    pa.field("list", pa.string(), nullable=False),
    pa.field("schema_id", pa.int64()),
    *(pa.field(name, pa.int32()) for name in ("min_bucket", "max_bucket", "min_level", "max_level")),
    *(pa.field(name, pa.int64()) for name in ("min_row_id", "max_row_id")),
)
_PARTITION_COUNTS: Final = tuple(field for field in PARTITION_COUNTS if not field.name.startswith("equality"))
_STATIC: Final = {
    "snapshots": _SNAPSHOTS,
    "history": HISTORY,
    "refs": REFS,
    "properties": PROPERTIES,
    "statistics": STATISTICS,
    "manifests": _MANIFESTS,
}
_COLUMN_STATISTICS: Final = "column-statistics"
"""The type shown for the entries of Paimon's own statistics files, which are no blobs."""
_EXISTING, _ADDED, _DELETED = range(3)


class PaimonInspect(Inspect):
    """The metadata tables of a Paimon table: those of every format, and the system tables that Paimon alone has.

    These have the columns of Paimon Java's system tables, in Arrow's own types: keys are structs, lists are lists, and
    points in time have a zone. `audit_log`, `binlog`, `read_optimized` (or `ro`) and `row_tracking` are rows of the
    table, which `rows` gives as a stream.

    Args:
        handle: The table.
    """

    _own_tables: ClassVar = {name: name in OF_ONE_SNAPSHOT for name in SYSTEM_TABLES} | dict.fromkeys(ROW_TABLES, True)
    _row_tables: ClassVar = ROW_TABLES

    def __init__(self, handle: PaimonHandle) -> None:
        self._handle = handle
        self._state = handle.state

    @property
    def _format(self) -> str:
        return "paimon"

    # ---- columns ----

    def _fields(self, name: str) -> Iterable[pa.Field]:
        if name == "metadata_log":
            self._lacks("metadata_log", "the folders snapshot and schema have a file per change; see snapshots")
        if name in _STATIC:
            return _STATIC[name]
        tables = self._tables
        if name in ROW_TABLES:
            return row_table(self._state, name).schema
        if name in SYSTEM_TABLES:
            return system_fields(tables, name)
        if name == "entries":
            own = [pa.field("status", pa.int32()), pa.field("snapshot_id", pa.int64())]
            return [*own, pa.field("data_file", pa.struct(tables.file_fields)), tables.metrics_field]
        partition = [pa.field("partition", tables.partition)] if tables.partition.num_fields else []
        if name == "partitions":
            own = [pa.field("total_buckets", pa.int32()), pa.field("delete_row_count", pa.int64())]
            return [*partition, *_PARTITION_COUNTS, *PARTITION_UPDATES, *own]
        if name == "position_deletes":
            return [*POSITION_DELETES[:2], *partition, *POSITION_DELETES[2:]]
        return [*tables.file_fields, tables.metrics_field]

    @cached_property
    def _tables(self) -> FileTables:
        return FileTables(self._state)

    # ---- rows ----

    def _read(self, name: str, columns: tuple[str, ...], snapshot: int | None, ref: str | None) -> pa.Table:
        match name:
            case "snapshots":
                return self._snapshots()
            case "history":
                return self._history()
            case "refs":
                return rows_table([_ref(ref) for ref in self._handle.refs()], REFS)
            case "properties":
                return properties_table(self._state.properties)
            case "statistics":
                return self._statistics()
            case "all_files":
                return self._all_files(columns)
        state = self._state_at(snapshot, ref)
        if name in SYSTEM_TABLES:
            return self._system_table(state, name)
        match name:
            case "files":
                return self._files(state, columns)
            case "entries":
                return self._entries(state, columns)
            case "manifests":
                return self._manifests(state)
            case "partitions":
                return self._partitions(state)
        return self._position_deletes(state)

    def _rows(self, name: str, request: RowRequest) -> BoundedStream:
        if name not in ROW_TABLES:
            return super()._rows(name, request)
        return row_table(self._state_at(request.snapshot, request.ref), name, request)

    def _state_at(self, snapshot: int | None, ref: str | None) -> PaimonState:
        if snapshot is not None:
            return state_at_snapshot(self._state, snapshot)
        return self._state if ref is None else state_at_ref(self._state, ref)

    def _system_table(self, state: PaimonState, name: str) -> pa.Table:
        needed = file_columns(self._tables, name)
        if not needed:
            return system_table(state, self._tables, name)
        files = self._files(state, ("content", *needed))
        return table_of_files(self._tables, name, files.filter(pc.equal(files.column("content"), 0)))

    def _snapshots(self) -> pa.Table:
        rows = []
        for found in self._handle.snapshots():
            shown = described_snapshot(found)
            rows.append(
                (
                    found.time_millis,
                    found.id,
                    shown.parent_id,
                    shown.operation,
                    sorted(shown.summary.items()),
                    found.schema_id,
                    found.commit_user,
                    found.commit_identifier,
                    found.commit_kind.value,
                    found.base_manifest_list,
                    found.delta_manifest_list,
                    found.changelog_manifest_list,
                    found.total_record_count,
                    found.delta_record_count,
                    found.changelog_record_count,
                    found.watermark,
                )
            )
        return rows_table(rows, _SNAPSHOTS)

    def _history(self) -> pa.Table:
        rows = [
            (found.time_millis, found.id, described_snapshot(found).parent_id, True)
            for found in self._handle.snapshots()
        ]
        return rows_table(rows, HISTORY)

    def _statistics(self) -> pa.Table:
        """Paimon's own statistics files, an entry per column, and our Puffin files, a blob per column."""
        snapshots = self._handle.snapshots()
        locations: dict[str, None] = {}
        for found in snapshots:
            locations |= dict.fromkeys(self._statistics_files(found))
        with WorkPool(default_threads(), "inspect", is_local=is_local(self._state.location)) as pool:
            blobs = dict(zip(locations, pool.in_order(self._blobs, locations), strict=True))
        rows = [
            (found.id, location, *blob)
            for found in snapshots
            for location in self._statistics_files(found)
            for blob in blobs[location]
        ]
        return rows_table(rows, STATISTICS)

    def _statistics_files(self, snapshot: Snapshot) -> list[str]:
        own = [] if snapshot.statistics is None else [self._state.paths.statistics(snapshot.statistics)]
        return [*own, *statistics_locations(self._state, snapshot)[:1]]

    def _blobs(self, location: str) -> list[tuple[object, ...]]:
        """The rows of a statistics file, from its size on; none if it is gone."""
        storage = self._state.storage
        try:
            if location.endswith(".stats"):
                reader = PuffinReader(location, storage=storage)
                size = storage.size(location)
                return [
                    (
                        *(size, None, blob.type, blob.snapshot_id, blob.sequence_number, list(blob.fields)),
                        *(self._names(blob.fields), sorted(blob.properties.items())),
                    )
                    for blob in reader.blobs
                ]
            data = storage.read(location)
        except NotFoundError:
            return []
        found = decode_object(data, "statistics", location)
        columns = found.get("colStats") or {}
        if not isinstance(columns, dict) or not all(isinstance(column, dict) for column in columns.values()):
            raise FormatError("a statistics file's 'colStats' must be objects by name", location=location)
        number = found.get("snapshotId")
        table = {key: found[key] for key in ("mergedRecordCount", "mergedRecordSize") if key in found}
        return [
            (len(data), None, _COLUMN_STATISTICS, number, None, [column.get("colId")], [name], _texts(table | column))
            for name, column in columns.items()
        ]

    def _names(self, ids: Iterable[int]) -> list[str | None]:
        names = {leaf.field_id: leaf.name for leaf in leaves(self._state.arrow_schema)}
        return [names.get(number) for number in ids]

    def _manifests(self, state: PaimonState) -> pa.Table:
        rows = []
        for of_list, manifests in self._lists(state):
            for found, summaries in zip(manifests, self._summaries(state, manifests), strict=True):
                rows.append(
                    (
                        0,
                        state.paths.manifest(found.file_name),
                        found.file_size,
                        found.num_added_files,
                        found.num_deleted_files,
                        summaries,
                        of_list,
                        found.schema_id,
                        found.min_bucket,
                        found.max_bucket,
                        found.min_level,
                        found.max_level,
                        found.min_row_id,
                        found.max_row_id,
                    )
                )
        return rows_table(rows, _MANIFESTS)

    @staticmethod
    def _lists(state: PaimonState) -> Iterator[tuple[str, list[ManifestFileMeta]]]:
        """The manifests of a snapshot's lists, by the kind of list."""
        found = state.snapshot
        if found is None:
            return
        lists = (
            ("base", found.base_manifest_list, found.base_manifest_list_size),
            ("delta", found.delta_manifest_list, found.delta_manifest_list_size),
            ("changelog", found.changelog_manifest_list, found.changelog_manifest_list_size),
        )
        for kind, name, size in lists:
            if name is not None:
                yield kind, read_manifest_list(state.storage, state.paths.manifest(name), size=size)

    @staticmethod
    def _summaries(state: PaimonState, manifests: Sequence[ManifestFileMeta]) -> list[list[dict[str, Any]]]:
        """The statistics of the partition keys of manifests, bounds as text."""
        types = [field.type for field in state.schema.partition_fields]
        if not types:
            return [[] for _ in manifests]
        sides = [[getattr(one.partition_stats, side) for one in manifests] for side in ("min_values", "max_values")]
        lower, upper = ([column.cast(pa.string()).to_pylist() for column in decode_rows(types, side)] for side in sides)
        return [
            [
                {
                    "contains_null": _has_null(found, key),
                    "contains_nan": None,
                    "lower_bound": lower[key][row],
                    "upper_bound": upper[key][row],
                }
                for key in range(len(types))
            ]
            for row, found in enumerate(manifests)
        ]

    # ---- files ----

    def _files(self, state: PaimonState, columns: Sequence[str]) -> pa.Table:
        if state.snapshot is None:
            return self.schema("files").empty_table().select(columns)
        entries = read_all(state, snapshot_manifests(state, state.snapshot))
        live = entries.take(pa.array(live_rows(entries, location=state.paths.snapshot(state.snapshot.id))))
        return pa.concat_tables(
            [self._tables.data_files(state, live, columns), self._tables.deletion_vectors(state, columns)]
        )

    def _all_files(self, columns: Sequence[str]) -> pa.Table:
        """The files of all snapshots, tags and branches: of each run's first snapshot, and what later ones add."""
        wanted = tuple(dict.fromkeys((*columns, "file_path", "content_offset")))
        parts = [self.schema("all_files").empty_table().select(wanted)]
        storage, paths = self._state.storage, self._state.paths
        for branch in (MAIN_BRANCH, *branch_names(storage, paths)):
            own = self._state if branch == MAIN_BRANCH else self._state.newest(branch)
            found = [find_snapshot(storage, own.paths, number) for number in snapshot_ids(storage, own.paths)]
            runs = [
                [one for one in found if one is not None],
                *([tag.snapshot] for tag in read_tags(storage, own.paths)),
            ]
            for run in filter(None, runs):
                parts += self._of_run(own, run, wanted)
        files = pa.concat_tables(parts)
        keys = pc.binary_join_element_wise(
            files.column("file_path"), pc.fill_null(files.column("content_offset").cast(pa.string()), ""), "\0"
        )
        codes = keys.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        return files.take(pa.array(np.sort(np.unique(codes, return_index=True)[1])))

    def _of_run(self, own: PaimonState, run: Sequence[Snapshot], columns: Sequence[str]) -> Iterator[pa.Table]:
        """The files of consecutive snapshots."""
        indexes: set[str | None] = {None}
        for number, snapshot in enumerate(run):
            state = own.at(snapshot)
            if number == 0:
                yield self._files(state, columns)
                indexes.add(snapshot.index_manifest)
                continue
            location = state.paths.manifest(snapshot.delta_manifest_list)
            entries = read_all(
                state, read_manifest_list(state.storage, location, size=snapshot.delta_manifest_list_size)
            )
            yield self._tables.data_files(state, entries.filter(is_added(entries)), columns)
            if snapshot.index_manifest not in indexes:
                indexes.add(snapshot.index_manifest)
                yield self._tables.deletion_vectors(state, columns)

    def _entries(self, state: PaimonState, columns: Sequence[str]) -> pa.Table:
        fields = {field.name: field for field in self.schema("entries")}
        schema = pa.schema([fields[name] for name in columns])
        parts = [schema.empty_table()]
        for of_list, manifests in self._lists(state):
            if of_list == "changelog":
                continue
            assert state.snapshot is not None
            entries = read_all(state, manifests)
            of_commit = of_list == "delta"
            adds = _ADDED if of_commit else _EXISTING
            made = {
                "status": pa.array(np.where(np.asarray(is_added(entries)), adds, _DELETED).astype(np.int32)),
                "snapshot_id": pa.array([state.snapshot.id if of_commit else None] * entries.num_rows, pa.int64()),
            }
            if "data_file" in columns:
                files = self._tables.data_files(state, entries, [field.name for field in self._tables.file_fields])
                made["data_file"] = files.combine_chunks().to_struct_array().combine_chunks()
            if "readable_metrics" in columns:
                made["readable_metrics"] = self._tables.data_files(state, entries, ["readable_metrics"]).column(0)
            parts.append(pa.Table.from_arrays([made[name] for name in columns], schema=schema))
        return pa.concat_tables(parts)

    # ---- what files add up to ----

    def _partitions(self, state: PaimonState) -> pa.Table:
        has_keys = self._tables.partition.num_fields > 0
        numbers = ("content", "record_count", "file_size_in_bytes")
        own = ("total_buckets", "delete_row_count", "creation_time")
        files = self._files(state, (*numbers, *own, *(("partition",) if has_keys else ())))
        files = files.set_column(1, "record_count", pc.fill_null(files.column("record_count"), 0))
        keys = files.column("partition").combine_chunks().flatten() if has_keys else []
        groups = number_groups(keys, files.num_rows)
        first = np.unique(groups, return_index=True)[1]
        found = dict(count_partitions(files, groups, len(first)))
        if has_keys:
            found["partition"] = files.column("partition").combine_chunks().take(pa.array(first))
        deleted = sums(files.column("delete_row_count"), groups, len(first))
        buckets = np.full(len(first), np.iinfo(np.int32).min, np.int32)
        np.maximum.at(buckets, groups, pc.fill_null(files.column("total_buckets"), np.iinfo(np.int32).min).to_numpy())
        found["delete_row_count"] = pa.array(deleted)
        found["total_buckets"] = pa.array(buckets)
        found["last_updated_at"] = newest(files.column("creation_time"), groups, len(first))
        schema = self.schema("partitions")
        return pa.Table.from_arrays([found[name] for name in schema.names], schema=schema)

    def _position_deletes(self, state: PaimonState) -> pa.Table:
        schema = self.schema("position_deletes")
        kept = [name for name in ("partition",) if name in schema.names]
        named = ("referenced_data_file", "file_path", "content_offset", "content_size_in_bytes", "record_count")
        files = self._tables.deletion_vectors(state, (*named, *kept)) if state.snapshot is not None else None
        if files is None or not files.num_rows:
            return schema.empty_table()
        rows = files.select(named).to_pylist()
        with WorkPool(default_threads(), "inspect", is_local=is_local(state.location)) as pool:
            locations = list(dict.fromkeys(row["file_path"] for row in rows))
            data = dict(zip(locations, pool.in_order(state.storage.read, locations), strict=True))
        found = []
        for row in rows:
            location, offset = row["file_path"], row["content_offset"]
            name = file_name(row["referenced_data_file"])
            meta = DeletionVectorMeta(name, offset, row["content_size_in_bytes"], row["record_count"])
            found.append(find_vector(data[location], meta, location=location))
        file = pa.array(np.repeat(np.arange(len(found)), [len(positions) for positions in found]))
        columns = {name: files.column(name).take(file) for name in (*kept, "content_offset", "content_size_in_bytes")}
        columns["file_path"] = files.column("referenced_data_file").take(file)
        columns["delete_file_path"] = files.column("file_path").take(file)
        columns["pos"] = pa.array(np.concatenate(found))
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _has_null(manifest: ManifestFileMeta, key: int) -> bool | None:
    counts = manifest.partition_stats.null_counts
    count = counts[key] if counts is not None and key < len(counts) else None
    return None if count is None else count > 0


def _ref(ref: Ref) -> tuple[object, ...]:
    age = None if ref.max_ref_age is None else ref.max_ref_age // timedelta(milliseconds=1)
    return ref.name, ref.kind.upper(), ref.snapshot_id, age, None, None


def _texts(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The entries of a JSON object as texts."""
    return [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in found.items()]
