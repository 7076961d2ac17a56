"""Our published sketches beside those that Iceberg's `compute_table_stats` makes of the same rows.

And the rules by which other engines find ours.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataUtil

import skerry
from skerry import puffin, theta

pytestmark = pytest.mark.spark

THETA = "apache-datasketches-theta-v1"
STANDARD = {THETA, "deletion-vector-v1"}
UTC = datetime.UTC
N = 6000  # more than a published sketch holds

NUMBERS = np.arange(N)
MOMENTS = pa.array(NUMBERS * 1_000_003 - 10**9)
# Every type that Spark's connector has; what it lacks (times of day, nanoseconds) is in tests/theta/test_theta_java.py.
COLUMNS: dict[str, pa.Array] = {
    "flag": pa.array([None if n % 7 == 0 else n % 2 == 0 for n in range(N)]),
    "i": pa.array(NUMBERS - 3000, pa.int32()),
    "l": pa.array(NUMBERS * (1 << 40) - (1 << 50)),
    "f": pa.array([float("nan") if n % 5 == 0 else -0.0 if n % 5 == 1 else n / 4 for n in range(N)], pa.float32()),
    "x": pa.array([float("nan") if n % 5 == 0 else 0.0 if n % 5 == 1 else -n / 4 for n in range(N)]),
    "small": pa.array([Decimal(n % 300 - 150).scaleb(-2) for n in range(N)], pa.decimal128(9, 2)),
    "wide": pa.array([Decimal(n * 10**30 - 10**33) for n in range(N)], pa.decimal128(38, 0)),
    "day": pa.array(NUMBERS - 100, pa.int32()).cast(pa.date32()),
    "at": MOMENTS.cast(pa.timestamp("us", "UTC")),
    "local": MOMENTS.cast(pa.timestamp("us")),
    "s": pa.array([None if n % 11 == 0 else "" if n % 11 == 1 else f"grüße {n} 🐧" for n in range(N)]),
    "raw": pa.array([None if n % 11 == 0 else n.to_bytes(3, "big") for n in range(N)], pa.binary()),
    "fixed": pa.array([n.to_bytes(3, "big") for n in range(N)], pa.binary(3)),
    "u": pa.array([n.to_bytes(16, "big") for n in range(N)], pa.binary(16)).cast(pa.uuid()),
    "none": pa.nulls(N, pa.int64()),
}
ROWS = pa.table(COLUMNS)


def sketches_of(statistics: Any) -> dict[int, theta.ThetaSketch]:
    reader = puffin.read(statistics["statistics-path"])
    return {blob.fields[0]: theta.ThetaSketch.deserialize(reader.read_blob(blob)) for blob in reader.blobs}


def metadata_of(table: Any) -> dict[str, Any]:
    return json.loads(Path(re.sub("^file:(//)?", "", table.refresh().metadata_location)).read_text())


def test_blobs_of_iceberg_java_and_ours_are_one_set(iceberg_spark: Callable[[str | Path], Any], tmp_path: Path) -> None:
    table = skerry.connect(tmp_path).create_table("d.t", ROWS.schema)
    table.append(ROWS.slice(0, 2500))
    table.append(ROWS.slice(2500))
    ours = sketches_of(metadata_of(table)["statistics"][-1])
    spark = iceberg_spark(tmp_path)
    spark.sql("call skerry.system.compute_table_stats(table => 'd.t')").collect()
    metadata = metadata_of(table)
    (registered,) = [s for s in metadata["statistics"] if s["snapshot-id"] == metadata["current-snapshot-id"]]
    theirs = sketches_of(registered)
    assert "iceberg" in puffin.read(registered["statistics-path"]).properties["created-by"].lower()
    assert ours.keys() == theirs.keys() == set(range(1, len(COLUMNS) + 1))
    for field_id, name in enumerate(COLUMNS, 1):
        mine, other = ours[field_id], theirs[field_id]
        if name == "u":  # a text to Spark, and so to the procedure: not what the specification says
            assert not np.isin(mine.hashes, other.hashes).any()
            continue
        limit = min(mine.theta, other.theta)
        assert np.array_equal(mine.hashes[mine.hashes < limit], other.hashes[other.hashes < limit]), name
        both = theta.union([mine, other])
        assert both.estimate() == pytest.approx(mine.estimate(), rel=0.05), name
        assert mine.is_estimating or (both.estimate() == mine.estimate() == other.estimate()), name
    # what they have computed counts as fresh to us, and is united with what we add
    assert all(str(column.freshness) == "fresh" for column in table.statistics().values())
    table.append(ROWS.slice(0, 10))
    united = sketches_of(metadata_of(table)["statistics"][-1])
    assert all(united[key].estimate() == pytest.approx(ours[key].estimate(), rel=0.05) for key in united)
    assert ours.keys() - united.keys() <= {[*COLUMNS].index("u") + 1}


def test_the_connector_finds_our_counts(iceberg_spark: Callable[[str | Path], Any], tmp_path: Path) -> None:
    table = skerry.connect(tmp_path).create_table("d.t", ROWS.schema)
    table.append(ROWS)
    spark = iceberg_spark(tmp_path)
    told = spark.table("skerry.d.t")._jdf.queryExecution().optimizedPlan().stats().attributeStats().toString()
    ndv = {
        blob["fields"][0]: blob["properties"]["ndv"] for blob in metadata_of(table)["statistics"][-1]["blob-metadata"]
    }
    for field_id, name in enumerate(COLUMNS, 1):
        if name != "none":
            (found,) = re.findall(rf"(?<!\w){name}#\d+L? -> ColumnStat\(Some\((\d+)\)", told)
            assert found == ndv[field_id], name


def trino_finds(metadata: dict[str, Any], snapshot_id: int) -> dict[int, int]:
    """By Trino's rules: of each field the `ndv` of the newest statistics among the snapshot and its ancestors."""
    by_snapshot = {file["snapshot-id"]: file for file in metadata["statistics"]}
    parents = {snapshot["snapshot-id"]: snapshot.get("parent-snapshot-id") for snapshot in metadata["snapshots"]}
    found: dict[int, int] = {}
    current: int | None = snapshot_id
    while current is not None:
        for blob in by_snapshot.get(current, {"blob-metadata": ()})["blob-metadata"]:
            if blob["type"] == THETA and len(blob["fields"]) == 1 and "ndv" in blob["properties"]:
                found.setdefault(blob["fields"][0], int(blob["properties"]["ndv"]))
        current = parents.get(current)
    return found


def bodo_finds(metadata: dict[str, Any], snapshot_id: int) -> dict[int, int]:
    """By Bodo's rules: blobs of the snapshot's own file whose snapshot id and sequence number are the snapshot's."""
    (snapshot,) = [found for found in metadata["snapshots"] if found["snapshot-id"] == snapshot_id]
    return {
        blob["fields"][0]: int(blob["properties"]["ndv"])
        for file in metadata["statistics"]
        if file["snapshot-id"] == snapshot_id
        for blob in file["blob-metadata"]
        if blob["type"] == THETA
        and (blob["snapshot-id"], blob["sequence-number"]) == (snapshot_id, snapshot["sequence-number"])
    }


CHANGES: dict[str, Callable[[Any], Any]] = {
    "append": lambda table: table.append(pa.table({"k": range(100), "p": [n % 4 for n in range(100)]})),
    "merge-on-read delete": lambda table: table.delete("k < 10"),
    "overwrite": lambda table: table.overwrite(pa.table({"k": [1000], "p": [1]}), "p = 1"),
    "upsert": lambda table: table.upsert(pa.table({"k": [50, 2000], "p": [3, 3]}), on=["k"]),
    "compact": lambda table: table.compact(full=True),
    "analyze": lambda table: table.analyze(full=True),
}


@pytest.mark.parametrize("version", [2, 3])
def test_other_engines_rules_hold_after_every_change(tmp_path: Path, version: int) -> None:
    schema = pa.schema([("k", pa.int64()), ("p", pa.int64())])
    modes = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}
    table = skerry.connect(tmp_path).create_table(
        "d.t", schema, partition_by=["p"], properties=modes, format_version=version
    )
    for name, change in CHANGES.items():
        change(table)
        metadata = metadata_of(table)
        current = metadata["current-snapshot-id"]
        rows = table.scan().to_arrow()
        truth = {number: len(rows.column(number - 1).unique()) for number in (1, 2)}
        assert bodo_finds(metadata, current) == trino_finds(metadata, current) == truth, name
        for file in metadata["statistics"]:
            blobs = puffin.read(file["statistics-path"]).blobs
            assert {blob.type for blob in blobs} | {blob["type"] for blob in file["blob-metadata"]} <= STANDARD
            assert [(b.type, list(b.fields), b.snapshot_id, b.sequence_number) for b in blobs] == [
                (b["type"], b["fields"], b["snapshot-id"], b["sequence-number"]) for b in file["blob-metadata"]
            ]
        opened = StaticTable(("d", "t"), TableMetadataUtil.parse_obj(metadata), table.metadata_location, None, None)
        assert len(opened.metadata.statistics) == len(metadata["statistics"])
