"""Tables that consist of metadata alone: entries that tests make up, written as snapshots that planning can read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from plain_rows import array_of, with_arity

from skerry.paimon.manifests.index_manifest import IndexManifestEntry, encode_index_manifest
from skerry.paimon.manifests.manifest import DataFileMeta, FileKind, ManifestEntry, encode_manifest
from skerry.paimon.manifests.manifest_list import encode_manifest_list, summarize
from skerry.paimon.metadata.creation import create_table, first_schema
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot, encode_snapshot
from skerry.paimon.metadata.state import PaimonState, load_state
from skerry.paimon.planning.plan import ScanPlanner
from skerry.paimon.planning.planned_splits import PaimonPlan
from skerry.paimon.values.simple_stats import SimpleStats
from skerry.storage import Storage
from skerry.table.predicate import conjuncts_of, parse

STORAGE = Storage()
_names = itertools.count()


@dataclass
class MadeTable:
    """A table in a folder, and snapshots of made-up entries."""

    location: str
    columns: pa.Schema
    partition_by: Sequence[str] = ()
    primary_key: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    manifests: list[list[ManifestEntry]] = field(default_factory=list)

    def __post_init__(self) -> None:
        schema = first_schema(
            self.columns, partition_by=self.partition_by, primary_key=self.primary_key, properties=self.properties
        )
        self.state = create_table(STORAGE, self.location, schema, name="made")

    def row(self, names: Sequence[str], values: Mapping[str, Any]) -> bytes:
        return with_arity([self.state.schema.field(name).type for name in names], [values[name] for name in names])

    def entry(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        kind: FileKind = FileKind.ADD,
        bucket: int = 0,
        total: int | None = None,
        level: int = 0,
        stats: Sequence[str] | None = None,
        **meta: Any,
    ) -> ManifestEntry:
        """A file of these rows, all of one partition and, in primary-key tables, in the order of their keys.

        Args:
            stats: The columns that it has statistics of; None for all.
        """
        schema = self.state.schema
        keys = schema.trimmed_primary_keys
        described = schema.fields_by_name if stats is None else stats
        file = DataFileMeta(
            file_name=meta.pop("file_name", f"data-{next(_names)}.parquet"),
            file_size=meta.pop("file_size", 1000),
            row_count=len(rows),
            min_key=self.row(keys, rows[0]),
            max_key=self.row(keys, rows[-1]),
            key_stats=self.stats(keys, rows),
            value_stats=self.stats(tuple(described), rows),
            value_stats_cols=None if stats is None else tuple(stats),
            level=level,
            **{"delete_row_count": 0, "max_sequence_number": len(rows), **meta},
        )
        partition = self.row(schema.partition_keys, rows[0])
        return ManifestEntry(kind, partition, bucket, self.state.options.bucket if total is None else total, file)

    def stats(self, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> SimpleStats:
        bounds: list[dict[str, Any]] = [{}, {}]
        for name in names:
            known = [row[name] for row in rows if row[name] is not None]
            bounds[0][name], bounds[1][name] = min(known, default=None), max(known, default=None)
        counts = tuple(sum(row[name] is None for row in rows) for name in names)
        return SimpleStats(self.row(names, bounds[0]), self.row(names, bounds[1]), counts)

    def publish(
        self,
        base: Iterable[Sequence[ManifestEntry]],
        delta: Iterable[Sequence[ManifestEntry]] = (),
        *,
        index: Sequence[IndexManifestEntry] = (),
        changelog: Iterable[Sequence[ManifestEntry]] | None = None,
        schema_id: int | None = None,
    ) -> PaimonState:
        """Write a snapshot of manifests with these entries."""
        number = 1 if self.state.snapshot is None else self.state.snapshot.id + 1
        base_list, base_size = self._write_list(base)
        delta_list, delta_size = self._write_list(delta)
        changelog_list = changelog_size = index_name = None
        if changelog is not None:
            changelog_list, changelog_size = self._write_list(changelog)
        if index:
            index_name = f"index-manifest-{next(_names)}"
            STORAGE.write(self.state.paths.manifest(index_name), encode_index_manifest(index))
        snapshot = Snapshot(
            id=number,
            schema_id=self.state.schema.id if schema_id is None else schema_id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changelog_list,
            changelog_manifest_list_size=changelog_size,
            index_manifest=index_name,
            commit_user="test",
            commit_identifier=number,
            commit_kind=CommitKind.APPEND,
            time_millis=number,
        )
        STORAGE.write(self.state.paths.snapshot(number), encode_snapshot(snapshot))
        self.state = load_state(STORAGE, self.location)
        return self.state

    def _write_list(self, manifests: Iterable[Sequence[ManifestEntry]]) -> tuple[str, int]:
        metas = []
        for entries in manifests:
            name = f"manifest-{next(_names)}"
            data = encode_manifest(entries)
            STORAGE.write(self.state.paths.manifest(name), data)
            metas.append(summarize(name, len(data), entries, self.state.schema.partition_fields))
        data = encode_manifest_list(metas)
        name = f"manifest-list-{next(_names)}"
        STORAGE.write(self.state.paths.manifest(name), data)
        return name, len(data)


def plan(state: PaimonState, where: str | None = None, *, threads: int = 2) -> PaimonPlan:
    """The plan of a read of the newest snapshot."""
    return ScanPlanner(state, conjuncts_of(parse(where, state.arrow_schema)), threads).plan(state.snapshot)


def planned_names(found: PaimonPlan) -> list[str]:
    """Names of the files that are read."""
    return sorted(file.location.rpartition("/")[2] for split in found.splits for file in split.files)


def column(type_: Any, values: Sequence[Any]) -> pa.Array:
    return array_of(type_, values)
