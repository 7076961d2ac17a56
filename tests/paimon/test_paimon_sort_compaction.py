"""Sort compaction of append tables: the same rows, in files that share no range."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, java_rows

import skerry.spark
from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.jobs import compact
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.rows.external_sort import sorted_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("day", pa.string()), ("x", pa.int64()), ("y", pa.int64()), ("word", pa.string())])
SMALL = {"sort-spill-buffer-size": "64 kb"}


def rows(count: int, seed: int, days: str = "a") -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "day": random.choice(list(days), count),
            "x": pa.array(random.permutation(count), mask=random.random(count) < 0.01),
            "y": random.permutation(count),
            "word": [f"word {number % 97}" for number in random.permutation(count)],
        },
        schema=SCHEMA,
    )


def make(path: Path, **options: str) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), SCHEMA, partition_by=["day"], properties=options)


def bag(table: PaimonTable, *columns: str) -> list[str]:
    return sorted(map(repr, table.refresh().scan([*SCHEMA.names, *columns]).to_arrow().to_pylist()))


def spans(table: PaimonTable, column: str) -> list[tuple[int, int]]:
    """Least and greatest value of each file."""
    read = (PaimonTable.open(Storage(), table.location).scan([column, "_file"]).to_arrow()).group_by("_file")
    found = read.aggregate([(column, "min"), (column, "max")])
    return sorted(zip(found[f"{column}_min"].to_pylist(), found[f"{column}_max"].to_pylist(), strict=True))


def touched(table: PaimonTable, column: str) -> float:
    """The share of all files that a condition on one value reads, on average."""
    found = spans(table, column)
    return sum(sum(low <= value <= high for low, high in found) for value in range(0, 4000, 100)) / 40 / len(found)


@pytest.mark.parametrize("options", [{}, SMALL], ids=["in memory", "spilled"])
def test_files_share_no_range_and_rows_keep_their_ids(options: dict[str, str], tmp_path: Path) -> None:
    table = make(tmp_path / "t", **{"row-tracking.enabled": "true"}, **options)
    for seed in range(3):
        table.append(rows(4000, seed))
    before, counts = bag(table, "_row_id"), {name: found.ndv for name, found in table.statistics().items()}
    done = table.compact(sort_by=["x desc", "y"], target_file_size_bytes=20_000)
    assert done.reasons == {"asked for": 1}
    assert done.added_files > 3
    found = spans(table, "x")
    assert all(high <= low for (_, high), (low, _) in itertools.pairwise(found))
    assert bag(table, "_row_id") == before
    assert {name: found.ndv for name, found in table.statistics().items()} == counts


@pytest.mark.parametrize("curve", ["z_order", "hilbert"])
def test_a_curve_narrows_several_columns(curve: str, tmp_path: Path) -> None:
    table = make(tmp_path / "t", **{"deletion-vectors.enabled": "true"})
    for seed in range(3):
        table.append(rows(4000, seed))
    table.delete("y < 400")
    before = bag(table)
    done = table.compact(**{curve: ["x", "y"]}, target_file_size_bytes=15_000)
    assert done.removed_delete_files == 3
    assert bag(table) == before
    assert touched(table, "x") < 0.7  # 1 if rows are in no order
    assert touched(table, "y") < 0.7


def test_whole_partitions_are_chosen_and_rivals_keep_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path / "t")
    table.append(rows(3000, 1, "abc"))
    table.append(rows(3000, 2, "abc"))
    rival = PaimonTable.open(Storage(), table.location)
    planned = compact.plan_compaction

    def late(*arguments: object) -> object:
        monkeypatch.setattr(compact, "plan_compaction", planned)
        tasks = planned(*arguments)
        rival.append(rows(100, 3, "a"))
        rival.delete("x < 10 AND day = 'b'")
        return tasks

    monkeypatch.setattr(compact, "plan_compaction", late)
    done = table.compact("day <> 'c'", sort_by=["word"])
    assert (done.groups, done.conflicts) == (2, 0)
    assert bag(table) == bag(rival)
    assert len(spans(table, "x")) == 1 + 1 + 1 + 2  # of a also the rival's, of c all as they were


def test_what_cannot_be_sorted_is_refused(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("list", pa.list_(pa.int32())))
    table = PaimonTable.create(Storage(), str(tmp_path / "t"), schema)
    for how, message in [
        ({"sort_by": ["x"], "z_order": ["x", "y"]}, "only one of sort_by, z_order and hilbert can be given"),
        ({"sort_by": []}, "sort_by needs a column"),
        ({"sort_by": ["q desc"]}, "no column 'q'"),
        ({"z_order": ["x"]}, "a curve takes 2 to 8 different columns, found 1"),
        ({"sort_by": ["list"]}, r"column 'list' of type list<.*> cannot be sorted by"),
    ]:
        with pytest.raises(SchemaError, match=message):
            table.compact(**how)
    for name, keys, options, message in [
        ("k", ["x", "day"], {"bucket": "1"}, "rows of a primary-key table are sorted by their key"),
        ("b", [], {"bucket": "2", "bucket-key": "x"}, "rows of a table with buckets keep the order"),
    ]:
        columns = SCHEMA.set(1, pa.field("x", pa.int64(), nullable=False)).set(
            0, pa.field("day", pa.string(), nullable=False)
        )
        other = PaimonTable.create(Storage(), str(tmp_path / name), columns, primary_key=keys, properties=options)
        with pytest.raises(UnsupportedError, match=message):
            other.compact(sort_by=["x"])


def test_no_rows_are_in_order() -> None:
    schema = pa.schema([("x", pa.int64())])
    assert list(sorted_batches([], [], lambda _: None, key_schema=schema, most_rows=0, file_bytes=1)) == []


@pytest.mark.spark
def test_executors_sort_and_java_reads(spark: SparkSession, java_paimon: JavaPaimon, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for seed in range(2):
        table.append(rows(1000, seed, "ab"))
    table.compact(z_order=["x", "word"], executor=skerry.spark.executor(spark))
    found = java_paimon.read(table.location)
    assert sorted(map(repr, found)) == sorted(map(repr, java_rows(table.scan().to_arrow())))
    assert len(spans(table, "x")) == 2
