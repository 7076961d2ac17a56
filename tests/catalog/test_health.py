"""`Table.health`: every check finds what is wrong, and the call that it names mends it."""

from __future__ import annotations

import os
import time

import pyarrow as pa
import pytest

import skerry
from skerry.table.statistics.column_statistics import ENABLED_ENVIRONMENT

FORMATS = ("iceberg", "paimon")
SCHEMA = pa.schema([pa.field("k", pa.int64()), ("part", pa.string())])
VECTORS = {
    "iceberg": {"write.delete.mode": "merge-on-read"},
    "paimon": {"deletion-vectors.enabled": "true"},
}


def rows(count, part="a", start=0):
    return pa.table({"k": range(start, start + count), "part": [part] * count}, SCHEMA)


def wrong(table, **options):
    return {finding.check: finding for finding in table.health(**options) if not finding.ok}


@pytest.fixture(params=FORMATS)
def table(request, tmp_path):
    catalog = skerry.connect(tmp_path / "warehouse")
    return catalog.create_table(
        "ns.t", SCHEMA, format=request.param, partition_by=["part"], properties=VECTORS[request.param]
    )


def mend(table, finding):
    """Run the call that a finding names."""
    assert finding.call.startswith("table.")
    eval(finding.call, {"table": table})


def test_a_new_table_and_one_with_a_few_rows_are_well(table):
    assert wrong(table) == {}
    table.append(rows(10))
    assert wrong(table) == {}
    checks = [finding.check for finding in table.health()]
    common = ["small_files", "delete_ratio", "skew", "expirable_snapshots", "metadata_size"]
    own = ["manifests"] if table.format == "iceberg" else []
    assert checks == [*common, *own, "stale_statistics", "missing_statistics", "orphans"]
    assert [finding.check for finding in table.health(orphans=False)] == checks[:-1]


def test_small_files_are_counted_per_partition_and_compacted(table):
    for number in range(6):
        table.append(rows(5, start=number))
    for number in range(4):
        table.append(rows(5, "b", start=number))
    found = wrong(table)
    assert set(found) == {"small_files"}
    assert (found["small_files"].number, found["small_files"].unit) == (6, "files")
    assert "6 of 10 data files" in str(found["small_files"])
    mend(table, found["small_files"])
    assert "small_files" not in wrong(table)


def test_deleted_rows_are_a_share_of_all(table):
    table.append(rows(100))
    table.delete("k < 8")
    assert "delete_ratio" not in wrong(table)
    table.delete("k >= 8 and k < 30")
    found = wrong(table)["delete_ratio"]
    assert found.number == pytest.approx(0.3)
    mend(table, found)
    assert "delete_ratio" not in wrong(table)


def test_skew_matters_where_files_are_not_small(table):
    for number, part in enumerate("bcdefghijklmnopqrstuvw"):
        table.append(rows(3, part, start=number))
    table.append(rows(50_000))
    assert "skew" not in wrong(table)
    name = {"iceberg": "write.target-file-size-bytes", "paimon": "target-file-size"}[table.format]
    table.set_properties({name: {"iceberg": "1000", "paimon": "1 kb"}[table.format]})
    found = wrong(table)["skew"]
    sizes = table.inspect.partitions()["total_data_file_size_in_bytes"].to_pylist()
    assert found.number == pytest.approx(max(sizes) / (sum(sizes) / len(sizes)))
    assert found.number > 10


def test_statistics_that_others_left_behind_are_found_and_caught_up(table, monkeypatch):
    monkeypatch.setenv(ENABLED_ENVIRONMENT, "0")
    table.append(rows(10))
    monkeypatch.delenv(ENABLED_ENVIRONMENT)
    found = wrong(table)
    assert set(found) == {"missing_statistics"}
    assert found["missing_statistics"].number == 2
    assert found["missing_statistics"].detail == "2 of 2 columns: k, part"
    mend(table, found["missing_statistics"])
    assert wrong(table) == {}
    monkeypatch.setenv(ENABLED_ENVIRONMENT, "0")
    table.append(rows(10, start=100))
    monkeypatch.delenv(ENABLED_ENVIRONMENT)
    found = wrong(table)
    assert set(found) == {"stale_statistics"}
    mend(table, found["stale_statistics"])
    assert wrong(table) == {}


def test_columns_that_are_not_to_be_sketched_are_not_missed(table):
    table.set_properties({"skerry.statistics.columns": "part"})
    table.append(rows(10))
    assert wrong(table) == {}


def test_snapshots_that_would_expire_are_counted(table):
    properties = {
        "iceberg": {"history.expire.max-snapshot-age-ms": "1"},
        "paimon": {"snapshot.time-retained": "1 ms", "snapshot.num-retained.min": "1"},
    }
    for number in range(4):
        table.append(rows(10, part=f"p{number}"))
    assert "expirable_snapshots" not in wrong(table)
    table.set_properties(properties[table.format])
    time.sleep(0.002)
    found = wrong(table)["expirable_snapshots"]
    assert (found.number, found.detail) == (3, "3 of 4 snapshots would expire now")
    assert table.expire_snapshots(dry_run=True).snapshot_ids == tuple(
        table.inspect.snapshots()["snapshot_id"].to_pylist()[:3]
    )
    mend(table, found)
    assert "expirable_snapshots" not in wrong(table)


def test_orphans_are_estimated_by_age(table, tmp_path):
    table.append(rows(10))
    folder = table.location.removeprefix("file://")
    for name, days in (("old.parquet", 4), ("new.parquet", 1)):
        left = os.path.join(folder, "data", name)
        os.makedirs(os.path.dirname(left), exist_ok=True)
        with open(left, "wb") as file:
            file.write(b"1234")
        os.utime(left, times=(time.time() - 86_400 * days,) * 2)
    found = wrong(table)
    assert set(found) == {"orphans"}
    assert found["orphans"].number == 1
    assert "about 1 files (4 B)" in found["orphans"].detail
    assert wrong(table, orphans=False) == {}
    mend(table, found["orphans"])
    assert wrong(table) == {}


def test_many_manifests_are_found(tmp_path):
    table = skerry.connect(tmp_path / "warehouse").create_table(
        "ns.t", SCHEMA, properties={"commit.manifest-merge.enabled": "false", "skerry.statistics.enabled": "false"}
    )
    for number in range(101):
        table.append(rows(1, start=number))
    found = wrong(table)
    assert found["manifests"].number == 101
    mend(table, found["manifests"])
    assert "manifests" not in wrong(table)
    assert table.inspect.manifests().num_rows == 1


def test_a_metadata_file_that_only_the_catalog_may_read_is_no_obstacle(tmp_path, monkeypatch):
    table = skerry.connect(tmp_path / "warehouse").create_table("ns.t", SCHEMA)
    table.append(rows(10))
    os.remove(table.metadata_location.removeprefix("file://"))
    found = {finding.check: finding for finding in table.health(orphans=False)}
    assert found["metadata_size"].number == sum(table.inspect.manifests()["length"].to_pylist())
    assert found["metadata_size"].detail.startswith("a metadata file, ")


def test_metadata_is_read_once(table):
    for number in range(3):
        table.append(rows(5, start=number))
    table = table.catalog.load_table("ns.t")
    table.health(orphans=False)  # manifests and sketches are cached where they may be
    before = table.storage.metrics.counts()
    table.health(orphans=False)
    requests = (table.storage.metrics.counts() - before).requests
    # Iceberg: size of the metadata file, three times the manifest list; Paimon: hints, snapshots and schema once,
    # both lists twice, three manifests, two statistics files
    assert requests <= {"iceberg": 8, "paimon": 26}[table.format]
