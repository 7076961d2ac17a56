"""Paimon tables whose data files are Amudai shards: what is done to them comes out as in tables of Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.amudai import ShardFile
from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage


def _rows(first: int, count: int, factor: int = 1) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": pa.array([None if n % 7 == 2 else f"name {n % 50}" for n in numbers], pa.string()),
            "at": pa.array(numbers * 61_000_000 * factor + 1_600_000_000_000_000).cast(pa.timestamp("us")),
            "ratio": pa.array(numbers * factor / 7),
            "tags": pa.array([[str(n)] * (n % 3) for n in numbers], pa.list_(pa.string())),
            "part": pa.array([f"p{n % 3}" for n in numbers]),
        }
    )


@pytest.fixture(params=["append", "keys"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[PaimonTable, PaimonTable]:
    """The same table twice: of shards, and of Parquet files."""
    keys = ["id", "part"] if request.param == "keys" else []
    made = [
        PaimonTable.create(
            Storage(),
            str(tmp_path / file_format),
            _rows(0, 1).schema,
            partition_by=["part"],
            primary_key=keys,
            properties={"file.format": file_format, **({"bucket": "2"} if keys else {})},
            name=f"d.{file_format}",
        )
        for file_format in ("amudai", "parquet")
    ]
    for table in made:
        table.append(_rows(0, 900))
        table.append(_rows(450, 900, 2))
    return made[0], made[1]


def _assert_alike(tables: tuple[PaimonTable, PaimonTable], where: str | None = None) -> None:
    found, expected = (table.scan(where=where).to_arrow() for table in tables)
    order = [("id", "ascending"), ("ratio", "ascending")]
    assert found.schema == expected.schema
    assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()
    assert found.num_rows == tables[0].scan(where=where).count()


@pytest.mark.parametrize("where", [None, "id = 500", "part = 'p1' AND ratio > 100", "name IS NULL AND id > 700"])
def test_scans(tables: tuple[PaimonTable, PaimonTable], where: str | None) -> None:
    _assert_alike(tables, where)


def test_changes_and_compaction(tables: tuple[PaimonTable, PaimonTable]) -> None:
    for table in tables:
        table.delete("id >= 100 AND id < 300")
    _assert_alike(tables)
    for table in tables:
        table.compact()
    _assert_alike(tables)
    _assert_alike(tables, "id < 400")


def test_files_are_shards(tables: tuple[PaimonTable, PaimonTable]) -> None:
    locations = {
        file.location
        for split in tables[0].scan().plan()
        for section in split.sections
        for run in section.runs
        for file in run
    }
    assert locations
    for location in locations:
        assert location.endswith(".amudai")
        assert ShardFile(location).num_rows > 0


def test_other_tables_get_no_shards(tmp_path: Path) -> None:
    table = skerry.connect(tmp_path).create_table("d.t", pa.schema([("id", pa.int64())]), format="paimon")
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    with pytest.raises(SchemaError, match=r"file.format cannot become amudai"):
        table.set_properties({"file.format": "amudai"})


def test_columns_that_no_shard_holds_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("clock", pa.time32("ms"))])
    table = skerry.connect(tmp_path).create_table("d.t", schema, format="paimon", file_format="amudai")
    with pytest.raises(UnsupportedError, match=r"column 'clock': a shard cannot hold time32\[ms\]"):
        table.append(pa.table({"id": [1], "clock": pa.array([1], pa.time32("ms"))}))
    assert table.scan().count() == 0
