"""Metrics of columns over the live files of a table, beside the plain way: a Python object for each file."""

from __future__ import annotations

import decimal
import uuid
from datetime import UTC, date, datetime, time

import pyarrow as pa
import pytest

import skerry
from skerry.iceberg.manifests import cache
from skerry.iceberg.manifests.cache import shared_cache
from skerry.iceberg.planning.live_files import column_metrics, live_data_files
from skerry.iceberg.planning.live_metrics import live_metrics
from skerry.table.rows.schema import leaves

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("real", pa.float64()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("money", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("moment", pa.timestamp("us", "UTC")),
        ("clock", pa.time64("us")),
        ("key", pa.uuid()),
        ("place", pa.struct([("x", pa.float32()), ("tags", pa.list_(pa.string()))])),
    ]
)


def rows(first: int, last: int, *, empty: tuple[str, ...] = ()) -> pa.Table:
    found = [
        {
            "id": number,
            "flag": number % 2 == 0,
            "real": -0.0 if number == 3 else float("nan") if number == 7 else number - 4.5,
            "name": f"é{number}",
            "raw": bytes([number, 255]),
            "money": decimal.Decimal(number) / 4 - 2,
            "day": date(1969, 12, 28 + number % 4),
            "at": datetime(1900 + number, 1, 1),
            "moment": datetime(2200 - number, 1, 1, tzinfo=UTC),
            "clock": time(number % 24, 1),
            "key": uuid.UUID(int=(number % 3) << 126).bytes,
            "place": {"x": number / 2, "tags": ["a"] * (number % 3)},
        }
        for number in range(first, last)
    ]
    return pa.Table.from_pylist([{**row, **dict.fromkeys(empty)} for row in found], schema=SCHEMA)


@pytest.fixture
def table(tmp_path):
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, format_version=2)
    table.append(rows(0, 6))
    table.append(rows(6, 12, empty=("name", "real", "place")))
    return table


def check(table, wanted=None):
    state = table.handle.state
    snapshot = state.snapshot()
    columns = leaves(state.schema)
    files = [file for file in live_data_files(state, snapshot) if wanted is None or file.location in wanted]
    found = live_metrics(state, snapshot, columns, wanted)
    assert found == {column.field_id: column_metrics(files, column) for column in columns}
    return {column.name: found[column.field_id] for column in columns}


def test_all_types(table):
    found = check(table)
    assert (found["id"].min, found["id"].max, found["id"].null_count) == (0, 11, 0)
    assert (found["name"].min, found["name"].max, found["name"].null_count) == ("é0", "é5", 6)
    assert found["moment"].min == datetime(2189, 1, 1, tzinfo=UTC)


def test_removed_files_do_not_count(table):
    table.delete("id < 6")
    assert check(table)["id"].min == 6


def test_some_files(table):
    (kept,) = [file.location for file in live_data_files(table.handle.state, table.handle.state.snapshot())][:1]
    assert check(table, {kept})["id"].max - check(table, {kept})["id"].min == 5
    assert check(table, set())["id"].min is None


def test_metrics_that_files_lack_are_unknown(table):
    names = {"write.metadata.metrics.column.id": "none", "write.metadata.metrics.column.name": "counts"}
    table.set_properties(names)
    table.append(rows(12, 14))
    found = check(table)
    assert (found["id"].min, found["id"].null_count) == (None, None)
    assert (found["name"].max, found["name"].null_count) == (None, 6)
    table.update_schema().add_column("later", pa.int32()).commit()
    table.append(rows(14, 15).append_column("later", pa.array([5], pa.int32())))
    assert check(table)["later"].min is None


def test_a_manifest_is_read_once_and_the_next_call_reads_only_new_ones(table, monkeypatch):
    read = []
    original = cache.read_manifest
    monkeypatch.setattr(cache, "read_manifest", lambda *given: read.append(given[1].manifest_path) or original(*given))
    monkeypatch.setattr(cache.ManifestCache, "fits", lambda *_: False)  # as in tables of very many files
    shared_cache().clear()
    state = table.handle.state
    first = live_metrics(state, state.snapshot(), leaves(state.schema))
    assert len(read) == len(set(read)) == 2
    assert live_metrics(state, state.snapshot(), leaves(state.schema)) == first
    assert len(read) == 2
    table.append(rows(12, 14))
    state = table.handle.state
    read.clear()
    assert live_metrics(state, state.snapshot(), leaves(state.schema))[1].max == 13
    assert len(read) == 1


def test_a_promoted_column_is_compared_by_its_new_type(tmp_path):
    table = skerry.connect(tmp_path).create_table("d.t", pa.schema([("n", pa.int32())]))
    table.append(pa.table({"n": pa.array([-1, 5], pa.int32())}))
    assert (check(table)["n"].min, check(table)["n"].max) == (-1, 5)
    table.update_schema().update_column("n", pa.int64()).commit()
    table.append(pa.table({"n": [2**40]}))
    assert (check(table)["n"].min, check(table)["n"].max) == (-1, 2**40)


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_a_unique_column_has_no_more_values_than_rows(tmp_path, format):
    table = skerry.connect(tmp_path).create_table("d.t", pa.schema([("s", pa.string())]), format=format)
    table.append(pa.table({"s": [f"O-{number:06}" for number in range(20_000)] + [None] * 5}))
    found = table.statistics()["s"]
    assert found.sketch.estimate() > 20_000
    assert found.ndv == found.upper == 20_000
    assert found.lower < 20_000
    assert found.freshness.is_fresh
