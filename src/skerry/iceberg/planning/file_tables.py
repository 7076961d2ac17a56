"""The files of manifests as a table: in the columns of Iceberg's metadata tables, only those that were asked for.

Spec: Iceberg spec, Manifest Entry Fields, Data File Fields; Iceberg documentation, Inspecting tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.iceberg.manifests.avro_schemas import DATA_FILE_FIELDS, arrow_type
from skerry.iceberg.manifests.cache import shared_cache
from skerry.iceberg.manifests.file_batch import conform_partition
from skerry.iceberg.manifests.manifest import EntryStatus
from skerry.iceberg.manifests.manifest_list import ManifestFile
from skerry.iceberg.manifests.reader import COLUMNS
from skerry.iceberg.manifests.snapshot_manifests import spec_of
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.partitioning.partitions import number_tuples, partition_type
from skerry.iceberg.planning.file_metrics import FILE_METRICS, file_metrics
from skerry.storage import is_local
from skerry.table.inspection.columns import constant, metrics_type
from skerry.table.rows.schema import field_id, leaves
from skerry.table.work.read_ahead import WorkPool, default_threads, read_ahead

__all__ = ["FileTables"]

_AHEAD_BYTES: Final = 4 << 20
_WAVE_FILES: Final = 8192
"""Files whose columns are put together at a time."""

_HIDDEN: Final = ("block_size_in_bytes", "key_metadata")  # the latter may hold a file's key
_KEY_METADATA: Final = pa.field("key_metadata", pa.binary())
_FILE_TYPES: Final = {field.name: arrow_type(field.type) for field in DATA_FILE_FIELDS if field.type is not None}
_FILE_NAMES: Final = (
    "content",
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    *(name for name in _FILE_TYPES if name not in ("content", "file_path", "file_format", *_HIDDEN)),
)
"""The columns of `files` besides `readable_metrics`; those of data files as in manifests."""
_ENTRY_TYPES: Final = {
    "status": pa.int32(),
    "snapshot_id": pa.int64(),
    "sequence_number": pa.int64(),
    "file_sequence_number": pa.int64(),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """Entries of one manifest."""

    manifest: ManifestFile
    entries: pa.RecordBatch


class FileTables:
    """The files of a table's manifests.

    Args:
        state: The table.
    """

    def __init__(self, state: TableState) -> None:
        self._state = state

    # ---- columns ----

    @cached_property
    def file_fields(self) -> list[pa.Field]:
        """The columns of files besides `readable_metrics`; `partition` only if a spec has fields."""
        own = {"partition": self.partition, "spec_id": pa.int32()}
        names = [name for name in _FILE_NAMES if name != "partition" or self.partition.num_fields]
        return [pa.field(name, own.get(name) or _FILE_TYPES[name]) for name in names]

    @cached_property
    def entry_fields(self) -> list[pa.Field]:
        """The columns of entries besides `readable_metrics`."""
        return [
            *(pa.field(name, type_) for name, type_ in _ENTRY_TYPES.items()),
            pa.field("data_file", pa.struct(self.file_fields)),
        ]

    @cached_property
    def metrics_field(self) -> pa.Field:
        """The column `readable_metrics`: of the primitive columns of the current schema."""
        return pa.field("readable_metrics", metrics_type(leaves(self._state.schema)))

    @cached_property
    def partition(self) -> pa.StructType:
        """The type of `partition`: the fields of all specs, in the order of their ids."""
        return pa.struct([field.remove_metadata() for field in self.partition_fields])

    @property
    def partition_fields(self) -> list[pa.Field]:
        """The fields of `partition`, with their ids."""
        names = [field.name for field in self._partition_fields.values()]
        return [
            field.with_name(field.name if names.count(field.name) == 1 else f"{field.name}_{key}")
            for key, field in self._partition_fields.items()
        ]

    @cached_property
    def _partition_fields(self) -> dict[int, pa.Field]:
        """The partition fields of all specs by id, each named and typed as in the newest spec that has it."""
        found: dict[int, pa.Field] = {}
        specs = self._state.metadata.specs()
        for spec_id in sorted(specs, reverse=True):
            for field in partition_type(self._state.schema_with(specs[spec_id]), specs[spec_id]):
                key = field_id(field)
                known = found.get(key)
                if known is None or pa.types.is_null(known.type):
                    found[key] = field
                elif known.type != field.type and not pa.types.is_null(field.type):  # of a promoted column
                    both = [pa.schema([one.with_name("")]) for one in (known, field)]
                    wider = pa.unify_schemas(both, promote_options="permissive").field(0).type
                    found[key] = known.with_type(wider)
        return {key: found[key] for key in sorted(found)}

    # ---- entries of manifests ----

    def live(self, manifests: Iterable[ManifestFile], columns: Sequence[str]) -> pa.Table:
        """The live files of manifests.

        Args:
            manifests: The manifests; those that cannot have any are not read.
            columns: Of `file_fields`, `entry_fields` and `metrics_field`; what the others need is not decoded. Readers
                of the files ask for `key_metadata`, which is never shown.

        Raises:
            FormatError: A manifest is corrupt.
            NotFoundError: One is missing.
        """
        found = [manifest for manifest in manifests if manifest.has_live_files]
        return self._table(found, columns, live=True)

    def live_once(self, manifests: Iterable[ManifestFile], columns: Sequence[str]) -> pa.Table:
        """The live files of manifests of several snapshots, each once; see `live`."""
        identity = ("file_path", "content_offset")
        files = self.live(manifests, tuple(dict.fromkeys((*columns, *identity))))
        groups = number_tuples([files.column(name) for name in identity], files.num_rows)
        first = np.unique(groups, return_index=True)[1]
        return files if len(first) == files.num_rows else files.take(pa.array(first))

    def entries(self, manifests: Iterable[ManifestFile], columns: Sequence[str]) -> pa.Table:
        """The entries of manifests, deleted ones included; see `live`."""
        return self._table(list(manifests), columns, live=False)

    def _table(self, manifests: Sequence[ManifestFile], columns: Sequence[str], *, live: bool) -> pa.Table:
        known = (*self.file_fields, *self.entry_fields, self.metrics_field, _KEY_METADATA)
        fields = {field.name: field for field in known}
        batches = [
            pa.RecordBatch.from_arrays(
                [self._column(wave, fields[name]) for name in columns],
                schema=pa.schema([fields[name] for name in columns]),
            )
            for wave in self._waves(manifests, columns, live)
        ]
        return pa.Table.from_batches(batches, pa.schema([fields[name] for name in columns]))

    def _waves(self, manifests: Sequence[ManifestFile], columns: Sequence[str], live: bool) -> Iterator[list[_Part]]:
        """The entries of manifests, each decoded once in threads, some thousand entries together."""
        wanted = {"status", "record_count", *columns}
        wanted |= set(FILE_METRICS) if "readable_metrics" in wanted else set()
        wanted |= {field.name for field in self.file_fields} if "data_file" in wanted else set()
        names = [name for name in COLUMNS if name in wanted]
        cache, storage = shared_cache(), self._state.storage

        def read(manifest: ManifestFile) -> _Part:
            entries = cache.read(storage, manifest, names)
            if live:
                is_live = pc.not_equal(entries.column("status"), int(EntryStatus.DELETED))
                entries = entries if pc.all(is_live).as_py() else entries.filter(is_live)
            return _Part(manifest, entries)

        wave: list[_Part] = []
        with WorkPool(default_threads(), "inspect", is_local=is_local(self._state.metadata.location)) as pool:
            for part in read_ahead(pool, read, manifests, lambda found: max(found.manifest_length, 1), _AHEAD_BYTES):
                if wave and sum(one.entries.num_rows for one in wave) + part.entries.num_rows > _WAVE_FILES:
                    yield wave
                    wave = []
                wave.append(part)
        if wave:
            yield wave

    def _column(self, wave: Sequence[_Part], field: pa.Field) -> pa.Array:
        """One column of the files of some manifests."""
        match field.name:
            case "readable_metrics":
                metrics = [part.entries.select(FILE_METRICS) for part in wave]
                return file_metrics(pa.concat_batches(metrics), leaves(self._state.schema))
            case "data_file":
                return pa.StructArray.from_arrays(
                    [self._column(wave, child) for child in field.type], fields=list(field.type)
                )
            case "partition":
                return pa.concat_arrays([self._partitions_of(part) for part in wave])
            case "spec_id":
                parts = [(part.manifest.partition_spec_id, part.entries.num_rows) for part in wave]
                return pa.concat_arrays([constant(spec_id, field.type, count) for spec_id, count in parts])
        return pa.concat_arrays([part.entries.column(field.name) for part in wave]).cast(field.type)

    def _partitions_of(self, part: _Part) -> pa.StructArray:
        """The partition values of a manifest's files, in the fields of all specs."""
        spec = spec_of(self._state.metadata, part.manifest)
        own = conform_partition(part.entries.column("partition"), spec, part.manifest.manifest_path)
        values = {field_id(field): own.field(number) for number, field in enumerate(own.type)}
        fields = list(self.partition)
        columns = [
            values[key].cast(field.type) if key in values else pa.nulls(len(own), field.type)
            for key, field in zip(self._partition_fields, fields, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=fields)
