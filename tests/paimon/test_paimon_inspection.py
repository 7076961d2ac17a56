"""Metadata tables of Paimon tables against the system tables of Paimon's Java library."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from golden_tables import golden_tables

import skerry
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.date32(), nullable=False), ("name", pa.string())]
)


def rows(ids, day):
    return pa.table(
        {"id": ids, "day": [datetime.date(2026, 1, day)] * len(ids), "name": [f"n{i}" for i in ids]}, SCHEMA
    )


@pytest.mark.parametrize("keys", [["id", "day"], []])
def test_java_shows_the_same(java_paimon, tmp_path, keys):
    table = skerry.connect(tmp_path / "warehouse").create_table(
        "ns.t",
        SCHEMA,
        format="paimon",
        primary_key=keys,
        partition_by=["day", "bucket(2, id)"] if keys else ["day"],
        properties={} if keys else {"deletion-vectors.enabled": "true"},
    )
    table.append(rows([1, 2, 3], 1))
    table.append(rows([4, 5, 6, 7], 2))
    table.create_tag("two")
    table.delete("id = 2")
    table.compact("day = DATE '2026-01-01'", full=True)
    path = table.location.removeprefix("file://")
    inspect = table.inspect

    theirs = {row["file_path"].removeprefix("file:"): row for row in java_paimon.system(path, "files")}
    files = inspect.files()
    ours = {
        row["file_path"].removeprefix("file://"): row for row in files.filter(pc.equal(files["content"], 0)).to_pylist()
    }
    assert ours.keys() == theirs.keys()
    assert len(ours) >= 2
    for location, found in ours.items():
        expected = theirs[location]
        for name in ("record_count", "file_size_in_bytes", "level", "schema_id", "bucket", "file_source"):
            assert found[name] == expected[name], name
        assert found["file_format"].lower() == expected["file_format"]
        for name in ("min_sequence_number", "max_sequence_number"):
            assert found[name] == expected[name]
        assert _millis(found["creation_time"]) == expected["creation_time"][0]
        metrics = found["readable_metrics"]
        assert {name: column["null_value_count"] for name, column in metrics.items()} == _counts(
            expected["null_value_counts"]
        )
        for side in ("min", "max"):
            bound = {"min": "lower_bound", "max": "upper_bound"}[side]
            stats = _texts(expected[f"{side}_value_stats"])
            assert {name: str(column[bound]) for name, column in metrics.items() if name != "day"} == {
                name: value for name, value in stats.items() if name != "day"
            }
            if keys:
                assert str(found[f"{side}_key"]["id"]) == expected[f"{side}_key"].strip("[]")

    assert _shown(inspect.snapshots(), SNAPSHOT_COLUMNS) == _of(java_paimon.system(path, "snapshots"), SNAPSHOT_COLUMNS)
    times = [row["commit_time"][0] for row in java_paimon.system(path, "snapshots")]
    offset = datetime.datetime.now().astimezone().utcoffset()
    assert [
        _millis(moment) + int(offset.total_seconds() * 1000)
        for moment in inspect.snapshots()["committed_at"].to_pylist()
    ] == times

    theirs = {row["partition"]: row for row in java_paimon.system(path, "partitions")}
    for found in inspect.partitions().to_pylist():
        (expected,) = [
            row
            for text, row in theirs.items()
            if str(found["partition"]["day"]) in text
            or str((found["partition"]["day"] - datetime.date(1970, 1, 1)).days) in text
        ]
        assert found["record_count"] == expected["record_count"]
        assert found["file_count"] == expected["file_count"]
        assert found["total_data_file_size_in_bytes"] == expected["file_size_in_bytes"]
    assert inspect.partitions().num_rows == len(theirs) == 2

    theirs = {row["file_name"]: row for row in java_paimon.system(path, "manifests")}
    ours = {row["path"].rpartition("/")[2]: row for row in inspect.manifests().to_pylist()}
    assert ours.keys() == theirs.keys()
    for name, found in ours.items():
        expected = theirs[name]
        assert (found["length"], found["schema_id"]) == (expected["file_size"], expected["schema_id"])
        assert (found["added_data_files_count"], found["deleted_data_files_count"]) == (
            expected["num_added_files"],
            expected["num_deleted_files"],
        )

    tags = {row["tag_name"]: row["snapshot_id"] for row in java_paimon.system(path, "tags")}
    assert (
        {row["name"]: row["snapshot_id"] for row in inspect.refs().to_pylist() if row["type"] == "TAG"}
        == tags
        == {"two": 2}
    )
    options = {row["key"]: row["value"] for row in java_paimon.system(path, "options")}
    assert dict(zip(*inspect.properties().to_pydict().values(), strict=True)).items() <= options.items()
    if not keys:
        vectors = [row for row in java_paimon.system(path, "table_indexes") if row["index_type"] == "DELETION_VECTORS"]
        counted = sum(row["row_count"] for row in vectors)
        assert files.filter(pc.equal(files["content"], 1)).num_rows == counted


SNAPSHOT_COLUMNS = (
    "snapshot_id",
    "schema_id",
    "commit_user",
    "commit_identifier",
    "commit_kind",
    "base_manifest_list",
    "delta_manifest_list",
    "total_record_count",
    "delta_record_count",
)


def _shown(table, columns):
    return table.select(columns).to_pylist()


def _of(found, columns):
    return [{name: row[name] for name in columns} for row in found]


def _millis(moment):
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return round(moment.timestamp() * 1000)


def _texts(text):
    """Java's `{a=1, b=x}` as a dictionary."""
    return dict(part.split("=", 1) for part in text.strip("{}").split(", "))


def _counts(text):
    return {name: int(value) for name, value in _texts(text).items()}


@pytest.mark.parametrize("golden", golden_tables(), ids=lambda golden: golden.name)
def test_tables_of_other_writers_are_shown(golden):
    """All metadata tables; the files hold the records that the snapshot counts, and their bounds the rows."""
    table = PaimonTable.open(Storage(), golden.location)
    inspect = table.inspect
    for name in inspect.names:
        has_ids = table.properties.get("row-tracking.enabled") == "true"
        if name != "metadata_log" and (name != "row_tracking" or has_ids):
            found = inspect.read(name)
            found.validate(full=True)
            assert found.schema == inspect.schema(name)
    files = inspect.files()
    data = files.filter(pc.equal(files["content"], 0))
    assert (pc.sum(data["record_count"]).as_py() or 0) == table.handle.state.snapshot.total_record_count
    assert set(data["file_path"].to_pylist()) <= set(inspect.all_files(columns=["file_path"])["file_path"].to_pylist())
    metrics = data["readable_metrics"].combine_chunks()
    properties = table.properties
    if "scan.fallback-branch" in properties or properties.get("merge-engine") == "aggregation":
        return  # rows come from elsewhere, or are computed
    rows = table.scan().to_arrow()
    for number, field in enumerate(metrics.type):
        lower, upper = (metrics.field(number).field(side) for side in ("lower_bound", "upper_bound"))
        if len(data) and field.name in rows.schema.names and not lower.null_count and not upper.null_count:
            least, greatest = pc.min_max(rows[field.name]).as_py().values()
            assert pc.min(lower).as_py() <= least <= greatest <= pc.max(upper).as_py()
