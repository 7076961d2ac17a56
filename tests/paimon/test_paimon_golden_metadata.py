"""The metadata of tables that Paimon's own writers wrote: all of it is read, and written again as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from golden_tables import SHIPPED, GoldenTable, golden_tables

from skerry.avro import read_columns, read_header
from skerry.paimon.manifests.index_manifest import encode_index_manifest, read_index_manifest
from skerry.paimon.manifests.manifest import encode_manifest, read_manifest
from skerry.paimon.manifests.manifest_list import encode_manifest_list, read_manifest_list, summarize
from skerry.paimon.metadata.schema import decode_schema, encode_schema
from skerry.paimon.metadata.snapshot import Snapshot, decode_snapshot, encode_snapshot
from skerry.paimon.metadata.snapshots import read_snapshot, snapshot_ids
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.tags import encode_tag, read_tags
from skerry.paimon.planning.plan import ScanPlanner
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.statistics.statistics_file import ColStats, StatisticsFile, encode_statistics
from skerry.storage import Storage

STORAGE = Storage()
TABLES = golden_tables()
each_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


def _snapshots(state: PaimonState) -> list[Snapshot]:
    return [read_snapshot(STORAGE, state.paths, number) for number in snapshot_ids(STORAGE, state.paths)]


def _without_nulls(value: Any) -> Any:
    """JSON without keys that say nothing: Python writers write them, Java does not."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None and key != "nullable"}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


_STATISTICS_KEYS = {
    "snapshot_id": "snapshotId",
    "schema_id": "schemaId",
    "merged_record_count": "mergedRecordCount",
    "merged_record_size": "mergedRecordSize",
}


@each_table
def test_documents_are_written_as_they_were_read(table: GoldenTable) -> None:
    root = Path(table.location)
    for path in root.glob("**/schema-*"):
        text = path.read_text()
        assert json.loads(encode_schema(decode_schema(text))) == _without_nulls(json.loads(text))
    for path in root.glob("**/snapshot-*"):
        text = path.read_text()
        assert json.loads(encode_snapshot(decode_snapshot(text))) == _without_nulls(json.loads(text))
    for path in root.glob("statistics/*"):
        theirs = json.loads(path.read_text())
        columns = {
            name: ColStats(col_id=column["colId"], distinct_count=column["distinctCount"])
            for name, column in theirs["colStats"].items()
        }
        numbers = {name: theirs[key] for name, key in _STATISTICS_KEYS.items()}
        ours = json.loads(encode_statistics(StatisticsFile(**numbers, col_stats=columns)))
        assert ours == _like(ours, theirs)
    paths = table.state().paths
    for tag in read_tags(STORAGE, paths):
        theirs = json.loads(STORAGE.read(paths.tag(tag.name)))
        if "tagCreateTime" in theirs:
            theirs["tagCreateTime"][-1] -= theirs["tagCreateTime"][-1] % 1_000  # Python knows no nanoseconds
        assert json.loads(encode_tag(tag)) == _without_nulls(theirs)


def _same(ours: bytes, theirs: bytes, *, java: bool) -> None:
    """The same records; of Java's files the same Avro schema, too."""
    found, expected = read_columns(ours), read_columns(theirs)
    if java:
        assert read_header(ours).schema_json == read_header(theirs).schema_json
        assert found.to_pylist() == expected.to_pylist()
        return
    for one, other in zip(found.to_pylist(), expected.to_pylist(), strict=True):
        assert one == _like(one, other)


def _like(one: Any, other: Any) -> Any:
    """A record without the fields that another one does not have."""
    return {key: _like(one[key], other[key]) for key in one} if isinstance(one, dict) else other


@each_table
def test_manifests_are_written_as_they_were_read(table: GoldenTable) -> None:
    state = table.state()
    java = table.case["writer"] == "java" and not table.name.startswith("mixed")
    done: set[str] = set()
    for snapshot in _snapshots(state):
        lists = (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
            (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
        )
        for name, size in lists:
            if name is None:
                continue
            location = state.paths.manifest(name)
            manifests = read_manifest_list(STORAGE, location, size=size)
            _same(encode_manifest_list(manifests), STORAGE.read(location), java=java)
            for manifest in manifests:
                if manifest.file_name in done:
                    continue
                done.add(manifest.file_name)
                place = state.paths.manifest(manifest.file_name)
                entries = read_manifest(STORAGE, place, size=manifest.file_size)
                _same(encode_manifest(entries), STORAGE.read(place), java=java)
                fields = state.schema.partition_fields
                assert summarize(manifest.file_name, manifest.file_size, entries, fields) == manifest
        if snapshot.index_manifest is not None:
            location = state.paths.manifest(snapshot.index_manifest)
            _same(encode_index_manifest(read_index_manifest(STORAGE, location)), STORAGE.read(location), java=java)


@each_table
def test_plans_have_the_rows_that_snapshots_count(table: GoldenTable) -> None:
    state = table.state()
    for snapshot in _snapshots(state):
        found = ScanPlanner(state.at(snapshot)).plan(snapshot)
        hidden = sum(
            step.total_rows - step.kept_rows
            for step in found.steps
            if step.total_rows is not None and step.kept_rows is not None
        )
        assert found.tasks.row_count + hidden == snapshot.total_record_count
        for split in found.splits:
            for file in split.files:
                assert Path(file.location).stat().st_size == file.file_size


def _ordered(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_) and not pa.types.is_binary(type_) and not pa.types.is_floating(type_)


@pytest.mark.parametrize(
    "table", [table for table in TABLES if table.folder.parent == SHIPPED], ids=lambda table: table.name
)
def test_bounds_of_every_type_leave_the_rows_beyond_them(table: GoldenTable) -> None:
    state, expected = table.state(), table.expected("expected.parquet")
    for name in [field.name for field in expected.schema if _ordered(field.type)]:
        known = expected.column(name).drop_null().combine_chunks()
        if not len(known):
            continue
        value = known.take(pc.sort_indices(known))[len(known) * 3 // 4]
        found = scan(state, where=pc.field(name) > value)
        assert found.count() == expected.filter(pc.field(name) > value).num_rows, str(found.predicate)
