"""The metadata tables of an Iceberg table; see `skerry.table.inspection.inspect.Inspect`.

Manifests are decoded to columns, only those that were asked for, and each manifest once.

Spec: Iceberg spec, Table Metadata Fields, Manifest Lists, Manifests; Iceberg documentation, Inspecting tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import AccessDeniedError, FormatError, NotFoundError
from skerry.iceberg.cleaning.expiry import ExpireSnapshots
from skerry.iceberg.jobs.compact_plan import SMALL, CompactRules
from skerry.iceberg.manifests.manifest import FileContent
from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifests.snapshot_manifests import read_manifests, spec_of
from skerry.iceberg.manifests.summary import summary_of
from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.operations.rewrite_manifests import RewriteManifests
from skerry.iceberg.partitioning.partitions import human_value, number_tuples, partition_type
from skerry.iceberg.planning.file_tables import FileTables
from skerry.iceberg.writing.layout import DEFAULT_TARGET_FILE_SIZE_BYTES
from skerry.storage import is_local
from skerry.table.files.data_file import DeleteFile, DeleteKind
from skerry.table.files.row_deletes import read_positions, read_vector
from skerry.table.history import MAIN
from skerry.table.inspection.columns import (
    HISTORY,
    MANIFEST_SUMMARIES,
    MOMENT,
    PARTITION_COUNTS,
    PARTITION_UPDATES,
    POSITION_DELETES,
    PROPERTIES,
    REFS,
    SNAPSHOTS,
    STATISTICS,
)
from skerry.table.inspection.inspect import Inspect, properties_table, rows_table
from skerry.table.inspection.partitions import count_partitions
from skerry.table.inspection.upkeep import Upkeep
from skerry.table.properties import whole_number
from skerry.table.rows.schema import leaves
from skerry.table.rows.values import decode_value
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.work.read_ahead import WorkPool, default_threads

__all__ = ["IcebergInspect", "upkeep"]

_RULE: Final = "Iceberg spec, Data File Fields"
_METADATA_LOG: Final = (
    pa.field("timestamp", MOMENT, nullable=False),
    pa.field("file", pa.string(), nullable=False),
    pa.field("latest_snapshot_id", pa.int64()),
    pa.field("latest_schema_id", pa.int32()),
    pa.field("latest_sequence_number", pa.int64()),
)
_MANIFESTS: Final = (
    pa.field("content", pa.int32(), nullable=False),
    pa.field("path", pa.string(), nullable=False),
    pa.field("length", pa.int64(), nullable=False),
    pa.field("partition_spec_id", pa.int32(), nullable=False),
    pa.field("added_snapshot_id", pa.int64()),
    *(
        pa.field(f"{done}_{kind}_files_count", pa.int32())
        for kind in ("data", "delete")
        for done in ("added", "existing", "deleted")
    ),
    pa.field("partition_summaries", MANIFEST_SUMMARIES),
)
_DELETE_COLUMNS: Final = (
    "content",
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
    "key_metadata",
)
_STATIC: Final = {
    "snapshots": SNAPSHOTS,
    "history": HISTORY,
    "refs": REFS,
    "properties": PROPERTIES,
    "metadata_log": _METADATA_LOG,
    "statistics": STATISTICS,
    "manifests": _MANIFESTS,
}


class IcebergInspect(Inspect):
    """The metadata tables of an Iceberg table.

    Args:
        state: The table.
    """

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._tables = FileTables(state)

    @property
    def _format(self) -> str:
        return "iceberg"

    # ---- columns ----

    def _fields(self, name: str) -> Iterable[pa.Field]:
        if name in _STATIC:
            return _STATIC[name]
        tables = self._tables
        if name == "entries":
            return [*tables.entry_fields, tables.metrics_field]
        partition = [pa.field("partition", tables.partition)] if tables.partition.num_fields else []
        spec = pa.field("spec_id", pa.int32())
        if name == "partitions":
            own = [*partition, spec] if partition else []
            return [*own, *PARTITION_COUNTS, *PARTITION_UPDATES, pa.field("last_updated_snapshot_id", pa.int64())]
        if name == "position_deletes":
            return [*POSITION_DELETES[:2], *partition, spec, *POSITION_DELETES[2:]]
        return [*tables.file_fields, tables.metrics_field]

    # ---- rows ----

    def _read(self, name: str, columns: tuple[str, ...], snapshot: int | None, ref: str | None) -> pa.Table:
        metadata = self._state.metadata
        match name:
            case "snapshots":
                return self._snapshots()
            case "history":
                return self._history()
            case "refs":
                return self._refs()
            case "properties":
                return properties_table(self._state.properties)
            case "metadata_log":
                return self._metadata_log()
            case "statistics":
                return self._statistics()
            case "all_files":
                with WorkPool(default_threads(), "inspect", is_local=is_local(self._state.metadata.location)) as pool:
                    listed = pool.in_order(lambda found: read_manifests(self._state.storage, found), metadata.snapshots)
                    manifests = {manifest.manifest_path: manifest for found in listed for manifest in found}
                return self._tables.live_once(manifests.values(), columns)
        manifests_of = self._manifests_of(snapshot, ref)
        match name:
            case "files":
                return self._tables.live(manifests_of, columns)
            case "entries":
                return self._tables.entries(manifests_of, columns)
            case "manifests":
                return self._manifests(manifests_of)
            case "partitions":
                return self._partitions(manifests_of)
        return self._position_deletes(manifests_of)

    def _manifests_of(self, snapshot: int | None, ref: str | None) -> list[ManifestFile]:
        state = self._state
        found = state.snapshot(ref or MAIN) if snapshot is None else state.snapshot_by_id(snapshot)
        return [] if found is None else read_manifests(state.storage, found)

    def _snapshots(self) -> pa.Table:
        rows = []
        for found in sorted(
            self._state.metadata.snapshots, key=lambda one: (one.sequence_number or 0, one.timestamp_ms)
        ):
            operation = found.operation
            rows.append(
                (
                    found.timestamp_ms,
                    found.snapshot_id,
                    found.parent_snapshot_id,
                    None if operation is None else operation.value,
                    found.manifest_list,
                    list(summary_of(found).items()),
                )
            )
        return rows_table(rows, SNAPSHOTS)

    def _history(self) -> pa.Table:
        metadata = self._state.metadata
        line = {found.snapshot_id for found in ancestors(metadata, self._state.snapshot())}
        rows = []
        for entry in metadata.snapshot_log:
            found = metadata.snapshot_by_id(entry.snapshot_id)
            parent = None if found is None else found.parent_snapshot_id
            rows.append((entry.timestamp_ms, entry.snapshot_id, parent, entry.snapshot_id in line))
        return rows_table(rows, HISTORY)

    def _refs(self) -> pa.Table:
        rows = [
            (
                name,
                ref.snapshot_ref_type.value.upper(),
                ref.snapshot_id,
                ref.max_ref_age_ms,
                ref.min_snapshots_to_keep,
                ref.max_snapshot_age_ms,
            )
            for name, ref in self._state.metadata.refs.items()
        ]
        return rows_table(sorted(rows, key=lambda row: (row[0] != MAIN, row[0])), REFS)

    def _metadata_log(self) -> pa.Table:
        metadata = self._state.metadata
        files = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
        rows = []
        for moment, file in (*files, (metadata.last_updated_ms, self._state.metadata_location)):
            current = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= moment]
            found = metadata.snapshot_by_id(current[-1]) if current else None
            known = (None, None, None) if found is None else (found.snapshot_id, found.schema_id, found.sequence_number)
            rows.append((moment, file, *known))
        return rows_table(rows, _METADATA_LOG)

    def _statistics(self) -> pa.Table:
        names = {leaf.field_id: leaf.name for leaf in leaves(self._state.schema)}
        rows: list[tuple[object, ...]] = []
        for file in self._state.metadata.statistics:
            head = (file.snapshot_id, file.statistics_path, file.file_size_in_bytes, file.file_footer_size_in_bytes)
            rows += [
                (
                    *head,
                    blob.type,
                    blob.snapshot_id,
                    blob.sequence_number,
                    list(blob.fields),
                    [names.get(number) for number in blob.fields],
                    sorted((blob.properties or {}).items()),
                )
                for blob in file.blob_metadata
            ] or [(*head, *[None] * 6)]
        return rows_table(rows, STATISTICS)

    def _manifests(self, manifests: Sequence[ManifestFile]) -> pa.Table:
        rows = []
        for found in manifests:
            counts = (found.added_files_count, found.existing_files_count, found.deleted_files_count)
            none = (0, 0, 0)
            is_data = found.content is ManifestContent.DATA
            rows.append(
                (
                    int(found.content),
                    found.manifest_path,
                    found.manifest_length,
                    found.partition_spec_id,
                    found.added_snapshot_id,
                    *(counts if is_data else none),
                    *(none if is_data else counts),
                    self._summaries(found),
                )
            )
        return rows_table(rows, _MANIFESTS)

    def _summaries(self, manifest: ManifestFile) -> list[dict[str, Any]]:
        """Partition summaries, with bounds as the folders of partitions have them."""
        spec = spec_of(self._state.metadata, manifest)
        types = partition_type(self._state.schema_with(spec), spec).types
        return [
            {
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower_bound": _text(field.transform, type_, summary.lower_bound),
                "upper_bound": _text(field.transform, type_, summary.upper_bound),
            }
            for field, type_, summary in zip(spec.fields, types, manifest.partitions, strict=False)
        ]

    # ---- what files add up to ----

    def _partitions(self, manifests: Iterable[ManifestFile]) -> pa.Table:
        is_partitioned = self._tables.partition.num_fields > 0
        names = ["content", "spec_id", "record_count", "file_size_in_bytes", "snapshot_id"]
        files = self._tables.live(manifests, [*names, "partition"] if is_partitioned else names)
        keys = files.column("partition").combine_chunks().flatten() if is_partitioned else []
        groups = number_tuples(keys, files.num_rows)
        first = np.unique(groups, return_index=True)[1]
        found = dict(count_partitions(files, groups, len(first)))
        if is_partitioned:
            specs = np.zeros(len(first), np.int32)
            np.maximum.at(specs, groups, files.column("spec_id").to_numpy())
            found["partition"] = files.column("partition").combine_chunks().take(pa.array(first))
            found["spec_id"] = pa.array(specs)
        when = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in self._state.metadata.snapshots}
        ids = files.column("snapshot_id").to_pylist()
        moments = np.array([when.get(number, -1) for number in ids], np.int64)
        newest = np.lexsort((moments, groups))[np.searchsorted(np.sort(groups), np.arange(len(first)), "right") - 1]
        moment = moments[newest]
        found["last_updated_at"] = pa.array(moment, pa.int64(), mask=moment < 0).cast(MOMENT)
        newest_ids = [ids[row] if ids[row] in when else None for row in newest.tolist()]
        found["last_updated_snapshot_id"] = pa.array(newest_ids, pa.int64())
        schema = self.schema("partitions")
        return pa.Table.from_arrays([found[name] for name in schema.names], schema=schema)

    def _position_deletes(self, manifests: Iterable[ManifestFile]) -> pa.Table:
        schema = self.schema("position_deletes")
        kept = [name for name in ("partition", "spec_id") if name in schema.names]
        found = [manifest for manifest in manifests if manifest.content is ManifestContent.DELETES]
        files = self._tables.live(found, (*_DELETE_COLUMNS, *kept))
        files = files.filter(pc.equal(files.column("content"), int(FileContent.POSITION_DELETES)))
        rows = files.select(_DELETE_COLUMNS).to_pylist()
        with WorkPool(default_threads(), "inspect", is_local=is_local(self._state.metadata.location)) as pool:
            read = list(pool.in_order(self._deleted_by, rows))
        pairs = [(row, path, positions) for row, of in enumerate(read) for path, positions in sorted(of.items())]
        counts = [len(positions) for _, _, positions in pairs]
        pair = pa.array(np.repeat(np.arange(len(pairs)), counts))
        file = pa.array(np.repeat(np.array([row for row, _, _ in pairs], np.int64), counts))
        columns = {name: files.column(name).take(file) for name in kept}
        columns["file_path"] = pa.array([path for _, path, _ in pairs], pa.string()).take(pair)
        columns["pos"] = pa.array(np.concatenate([np.zeros(0, np.int64), *(positions for _, _, positions in pairs)]))
        columns["delete_file_path"] = files.column("file_path").take(file)
        for name in ("content_offset", "content_size_in_bytes"):
            columns[name] = files.column(name).take(file)
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _deleted_by(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The positions that a delete file or deletion vector deletes, by data file."""
        location, is_vector = row["file_path"], row["file_format"].lower() == "puffin"
        delete = DeleteFile(
            DeleteKind.VECTOR if is_vector else DeleteKind.POSITIONS,
            location,
            row["file_format"].lower(),
            row["record_count"],
            row["file_size_in_bytes"],
            referenced_data_file=row["referenced_data_file"],
            content_offset=row["content_offset"],
            content_size_bytes=row["content_size_in_bytes"],
            key_metadata=row["key_metadata"],
        )
        if is_vector:
            for name in ("content_offset", "content_size_in_bytes", "referenced_data_file"):
                if row[name] is None:
                    raise FormatError(f"a deletion vector has no {name}", location=location, rule=_RULE)
            return {row["referenced_data_file"]: read_vector(self._state.storage, delete)}
        return read_positions(self._state.storage, delete)


def upkeep(state: TableState) -> Upkeep:
    """What the checks of a table's health need to know besides its metadata tables.

    Raises:
        SchemaError: A property has an invalid value.
    """
    rules = CompactRules(whole_number(state.properties, "write.target-file-size-bytes", DEFAULT_TARGET_FILE_SIZE_BYTES))
    expired = ExpireSnapshots(int(time.time() * 1000)).plan(state).snapshot_ids
    policy = SketchPolicy.from_properties(state.properties)
    return Upkeep(
        small_file_bytes=int(SMALL * rules.target_file_size_bytes),
        min_input_files=rules.min_input_files,
        beside=("spec_id",),
        snapshots=len(state.metadata.snapshots),
        expirable_snapshots=len(expired),
        metadata_bytes=_size_of_metadata(state),
        manifests_to_rewrite=len(RewriteManifests().plan(state).rewritten),
        split_partitions="table.update_spec().add_field('bucket(16, …)').commit()",
        sketched=frozenset(leaf.name for leaf in policy.columns(state.schema, created=True)),
    )


def _size_of_metadata(state: TableState) -> int | None:
    """The size of the metadata file; None if the catalog does not let others read it."""
    try:
        return state.storage.size(state.metadata_location)
    except (AccessDeniedError, NotFoundError):
        return None


def _text(transform: Any, type_: pa.DataType, bound: bytes | None) -> str | None:
    return None if bound is None else human_value(transform, type_, decode_value(type_, bound))
