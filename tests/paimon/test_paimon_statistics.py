"""Statistics of Paimon tables stay fresh through commits, and other engines read them."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, PyPaimon

from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.statistics.samples import FOLDER, statistics_locations
from skerry.paimon.table import PaimonTable
from skerry.puffin import PuffinReader
from skerry.storage import Storage
from skerry.table.statistics.column_statistics import FreshnessState
from skerry.theta import ThetaSketch

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("text", pa.string())])


def make(path: Path, **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), SCHEMA, **how)


def data(ids: Any, text: str, kinds: int = 7) -> pa.Table:
    ids = list(ids)
    return pa.table(
        {"id": ids, "part": [i % 3 for i in ids], "text": [f"{text}{i % kinds}" for i in ids]}, schema=SCHEMA
    )


def states(table: PaimonTable) -> dict[str, str]:
    return {name: str(found.freshness).split(":")[0] for name, found in table.statistics().items()}


def counts(table: PaimonTable) -> dict[str, int]:
    return {name: round(found.ndv or 0) for name, found in table.statistics().items()}


FRESH = dict.fromkeys(SCHEMA.names, "fresh")


def test_appends_stay_fresh(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=["part"])
    table.append(data(range(100), "a"))
    table.append(data(range(50, 150), "b"))
    assert states(table) == FRESH
    assert counts(table) == {"id": 150, "part": 3, "text": 14}
    found = table.statistics()
    assert (found["id"].min, found["id"].max, found["id"].null_count) == (0, 149, 0)
    (location,) = statistics_locations(table.handle.state, table.handle.state.snapshot)
    assert location is not None
    reader = PuffinReader(location, storage=Storage())
    sketches = [ThetaSketch.deserialize(blob) for blob in reader.read_blobs(reader.blobs)]
    assert [round(sketch.estimate()) for sketch in sketches] == [150, 3, 14]


@pytest.mark.spark
def test_java_reads_the_counts(tmp_path: Path, java_paimon: JavaPaimon, pypaimon: PyPaimon) -> None:
    for name, how in {"append": {}, "key": {"primary_key": ["id"], "properties": {"bucket": "1"}}}.items():
        table = make(tmp_path / name, **how)
        table.append(data(range(100), "a"))
        table.append(data(range(100, 120), "b"))
        found = java_paimon.statistics(table.location)
        assert found is not None
        assert found["snapshotId"] == 2
        assert found["mergedRecordCount"] == 120
        size = sum(path.stat().st_size for path in Path(table.location).rglob("bucket-*/data-*"))
        assert size / 2 < found["mergedRecordSize"] < 4 * size  # by the files of the last commit
        ndv = {column: stats["distinctCount"] for column, stats in found["colStats"].items()}
        assert ndv == {"id": 120, "part": 3, "text": 14}
        assert [row["mergedRecordCount"] for row in java_paimon.system(table.location, "statistics")] == [120]
        assert len(java_paimon.read(table.location)) == 120
        assert pypaimon.read(table.location).num_rows == 120


def test_rewritten_rows_stay_fresh(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for number in range(4):
        table.append(data(range(number * 10, number * 10 + 10), f"{number}"))
    table.delete("id < 15")
    assert states(table) == FRESH
    assert counts(table)["id"] == 25
    table.compact(full=True)
    assert states(table) == FRESH
    assert counts(table)["id"] == 25


def test_vectors_bound_from_above(tmp_path: Path) -> None:
    table = make(tmp_path / "t", properties={"deletion-vectors.enabled": "true"})
    table.append(data(range(100), "a"))
    table.append(data(range(200, 300), "a"))
    table.delete("id < 10")
    assert states(table) == {"id": "upper bound", "part": "fresh", "text": "fresh"}
    assert counts(table)["id"] == 200
    summary = table.analyze()
    assert (summary.files, summary.rows) == (1, 90)
    assert table.handle.state.snapshot.commit_kind is CommitKind.ANALYZE
    assert states(table) == FRESH
    assert counts(table)["id"] == 190


def test_upserts_bound_values_from_above(tmp_path: Path) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "1"})
    table.append(data(range(100), "a", 50))
    assert states(table) == FRESH
    table.append(data(range(50), "b", 50))
    assert states(table) == {"id": "fresh", "part": "fresh", "text": "upper bound"}
    assert counts(table)["text"] == 100
    table.compact(full=True)
    assert states(table) == FRESH
    assert counts(table)["text"] == 100
    table.append(data(range(50, 100), "b", 50))
    assert states(table)["text"] == "upper bound"
    table.compact(full=True)
    assert counts(table) == {"id": 100, "part": 3, "text": 50}
    table.delete("id < 40")
    assert states(table)["id"] == "upper bound"
    table.compact(full=True)
    assert states(table) == FRESH
    assert counts(table)["id"] == 60


def test_foreign_rows_make_it_stale(tmp_path: Path, pypaimon: PyPaimon) -> None:
    table = make(tmp_path / "t")
    table.append(data(range(100), "a"))
    pypaimon.write(table.location, data(range(100, 150), "b"))
    table.handle.refresh()
    assert set(states(table).values()) == {"stale"}
    table.append(data(range(150, 160), "c"))
    assert set(states(table).values()) == {"stale"}
    summary = table.analyze()
    assert (summary.files, summary.rows) == (1, 50)
    assert states(table) == FRESH
    assert counts(table) == {"id": 160, "part": 3, "text": 21}
    assert table.analyze().files == 0


def test_foreign_rows_in_a_bucket(tmp_path: Path, pypaimon: PyPaimon) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "2"})
    table.append(data(range(100), "a"))
    pypaimon.write(table.location, data(range(50, 150), "b"))
    table.handle.refresh()
    assert set(states(table).values()) == {"stale"}
    table.analyze()
    assert states(table) == FRESH
    assert counts(table) == {"id": 150, "part": 3, "text": 14}


def test_conditions(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=["part"])
    table.append(data(range(99), "a"))
    found = table.statistics("part = 1")
    assert found["id"].freshness.state is FreshnessState.FRESH
    assert round(found["id"].ndv or 0) == 33
    found = table.statistics("part = 1 and id < 50")
    assert found["id"].freshness.state is FreshnessState.UPPER_BOUND


def test_aggregates_are_not_sketched(tmp_path: Path) -> None:
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.text.aggregate-function": "listagg"}
    table = make(tmp_path / "t", primary_key=["id"], properties=options)
    table.append(data(range(10), "a"))
    assert states(table) == {"id": "fresh", "part": "absent", "text": "absent"}
    table.analyze()
    assert states(table) == FRESH


def test_switched_off(tmp_path: Path) -> None:
    table = make(tmp_path / "t", properties={"skerry.statistics.enabled": "false"})
    table.append(data(range(10), "a"))
    assert table.handle.state.snapshot.properties is None
    assert set(states(table).values()) == {"absent"}
    assert not (tmp_path / "t" / FOLDER).exists()


def test_expiry_takes_old_statistics(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for number in range(4):
        table.append(data(range(number, number + 3), "a"))
    assert len(list((tmp_path / "t" / FOLDER).iterdir())) == 4
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    assert len(list((tmp_path / "t" / FOLDER).iterdir())) == 1
    assert len(list((tmp_path / "t" / "statistics").iterdir())) == 1
    assert states(table) == FRESH


HISTORIES = {
    "append": {},
    "vectors": {"properties": {"deletion-vectors.enabled": "true"}},
    "key": {"primary_key": ["id"], "properties": {"bucket": "2", "num-sorted-run.compaction-trigger": "3"}},
    "sequence": {"primary_key": ["id"], "properties": {"bucket": "1", "sequence.field": "text"}},
}


@pytest.mark.parametrize("how", HISTORIES.values(), ids=HISTORIES)
@pytest.mark.parametrize("seed", range(3))
def test_fresh_means_true(tmp_path: Path, how: dict[str, Any], seed: int) -> None:
    """After any history: what is called fresh is exact, and what is called an upper bound is one."""
    chance = random.Random(seed)
    table = make(tmp_path / "t", **how)
    for _ in range(14):
        start = chance.randrange(40)
        step = chance.choice(["append", "append", "upsert", "delete", "compact", "analyze"])
        if step == "append":
            table.append(data(range(start, start + 15), chance.choice("abc")))
        elif step == "upsert":
            ids = range(start, start + 5)
            if (
                how.get("primary_key")
                or len({*table.scan(["id"]).to_arrow()["id"].to_pylist()}) == table.scan().count()
            ):
                table.upsert(data(ids, chance.choice("abc")), on="id")
        elif step == "delete":
            table.delete(f"id between {start} and {start + 4}")
        elif step == "compact":
            table.compact(full=chance.random() < 0.5)
        else:
            table.analyze()
        rows = table.scan().to_arrow()
        for name, found in table.statistics().items():
            true = len(set(rows[name].to_pylist()))
            if found.freshness.is_fresh:
                assert round(found.ndv or 0) == true, (step, name)
            elif found.freshness.state is FreshnessState.UPPER_BOUND:
                assert (found.ndv or 0) >= true
            else:
                assert found.freshness.state is FreshnessState.ABSENT
