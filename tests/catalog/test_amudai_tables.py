"""Tables whose data files are Amudai shards: every operation does to them what it does to a table of Parquet files."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry import amudai
from skerry.errors import SchemaError, UnsupportedError

ROWS = 3000
GENERATOR = np.random.default_rng(11)


def _rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    times = numbers * 60_000_000 + 1_600_000_000_000_000
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": pa.array([None if n % 11 == 3 else f"name {n % 97}" for n in numbers], pa.string()),
            "amount": pa.array([Decimal(int(n)) / 4 for n in numbers], pa.decimal128(12, 2)),
            "price": pa.array(np.where(numbers % 13 == 5, np.nan, numbers / 7)),
            "at": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "day": pa.array((numbers % 400).astype(np.int32)).cast(pa.date32()),
            "flag": pa.array([None if n % 5 == 0 else bool(n % 2) for n in numbers], pa.bool_()),
            "tags": pa.array(
                [[f"t{k}" for k in range(n % 3)] if n % 4 else None for n in numbers], pa.list_(pa.string())
            ),
            "place": pa.array([{"x": int(n), "y": f"{n % 9}"} for n in numbers]),
            "key": pa.array([bytes([n % 256] * 16) for n in numbers], pa.binary(16)),
        }
    )


@pytest.fixture(params=["bucket(2, id)", "day"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    """The same table twice: of shards, and of Parquet files. Row groups are small, so that shards have stripes."""
    catalog = skerry.connect(tmp_path)
    partition = [] if request.param == "day" else [request.param]
    made = [
        catalog.create_table(
            f"d.{file_format}",
            _rows(0, 1).schema,
            file_format=file_format,
            partition_by=partition,
            properties={"write.parquet.row-group-size-bytes": "60000"},
        )
        for file_format in ("amudai", "parquet")
    ]
    for table in made:
        # a batch is the least that a row group, or a stripe, is made of
        table.append(pa.Table.from_batches(_rows(0, ROWS).to_batches(max_chunksize=300)))
    return made[0], made[1]


def _assert_alike(tables: tuple[Any, Any], where: str | None = None, columns: list[str] | None = None) -> None:
    found, expected = (table.scan(where=where, columns=columns).to_arrow().sort_by("id") for table in tables)
    assert found.schema == expected.schema
    assert [repr(row) for row in found.to_pylist()] == [repr(row) for row in expected.to_pylist()]
    assert tables[0].scan(where=where).count() == tables[1].scan(where=where).count()


def _assert_same_statistics(tables: tuple[Any, Any]) -> None:
    found, expected = (table.statistics() for table in tables)
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        assert (found[name].ndv, found[name].freshness) == (column.ndv, column.freshness), name
        assert (found[name].null_count, found[name].min, found[name].max) == (
            column.null_count,
            column.min,
            column.max,
        ), name


@pytest.mark.parametrize(
    "where",
    [
        None,
        "id = 1234",
        "id BETWEEN 100 AND 200 AND name LIKE 'name 1%'",
        "amount > 700.25 OR price IS NAN",
        "at >= '2020-09-15 00:00:00+00:00'",
        "day < '1970-02-01' AND flag",
        "place.x = 17",
        "name IS NULL",
        "key = X'11111111111111111111111111111111'",
    ],
)
def test_scans(tables: tuple[Any, Any], where: str | None) -> None:
    _assert_alike(tables, where)
    _assert_alike(tables, where, ["id", "tags"])


def test_statistics(tables: tuple[Any, Any]) -> None:
    _assert_same_statistics(tables)


def test_changing_rows(tables: tuple[Any, Any]) -> None:
    for table in tables:
        table.delete("id < 100 OR name = 'name 7'")
        table.upsert(_rows(90, 40), on=["id"])
        table.overwrite(_rows(200, 5), where="id >= 200 AND id < 300")
    _assert_alike(tables)
    _assert_same_statistics(tables)
    for table in tables:
        table.set_properties({f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")})
        table.delete("id > 2900 AND flag")
        table.upsert(_rows(2000, 50), on=["id"])
    _assert_alike(tables)
    _assert_alike(tables, "id > 1990 AND id < 2100")
    assert any(task.deletes for task in tables[0].scan().plan())
    deletes = {delete.file_format for task in tables[0].scan().plan() for delete in task.deletes}
    assert deletes == {"parquet"}
    for table in tables:
        table.compact()
    _assert_alike(tables)
    assert not any(task.deletes for task in tables[0].scan().plan())


def test_evolution(tables: tuple[Any, Any]) -> None:
    for table in tables:
        with table.update_schema() as update:
            update.rename_column("name", "label")
            update.add_column("note", pa.string())
            update.delete_column("flag")
            update.rename_column(("place", "x"), "easting")
        table.append(pa.table({"id": pa.array([9000], pa.int64()), "note": ["new"], "label": ["name 3"]}))
    _assert_alike(tables)
    _assert_alike(tables, "label = 'name 3' AND place.easting IS NOT NULL")
    _assert_alike(tables, "note IS NOT NULL")


def test_changes_and_time_travel(tables: tuple[Any, Any]) -> None:
    found = []
    for table in tables:
        first = table.snapshots()[0].snapshot_id
        table.delete("id < 10")
        table.append(_rows(ROWS, 3))
        changes = table.changes(first, table.snapshots()[-1].snapshot_id)
        rows = changes.to_arrow() if hasattr(changes, "to_arrow") else changes
        found.append(sorted(zip(rows["_change_type"].to_pylist(), rows["id"].to_pylist(), strict=True)))
        assert table.scan(snapshot=first).count() == ROWS
    assert found[0] == found[1]
    assert len(found[0]) == 13


def test_files_are_shards_with_field_ids(tables: tuple[Any, Any]) -> None:
    table = tables[0]
    for task in table.scan().plan():
        file = task.data_file
        assert file.location.endswith(".amudai.shard")
        assert file.file_format == "amudai"
        shard = amudai.ShardFile(file.location.removeprefix("file://"))
        assert len(file.split_offsets) == shard.num_stripes > 1
        assert list(file.split_offsets) == shard.metadata.stripe_offsets()
        ids = {field.name: field.metadata[b"PARQUET:field_id"] for field in shard.schema}
        assert ids == {field.name: field.metadata[b"PARQUET:field_id"] for field in table.schema}


def test_stripes_are_skipped_and_tasks_are_stripes(tables: tuple[Any, Any]) -> None:
    table, other = tables
    for one, where in ((table, "id < 50"), (table, "at < '2020-09-13 13:00:00+00:00'"), (table, "day = '1970-03-03'")):
        explained = str(one.scan(where=where).explain())
        assert "row groups by statistics" in explained
    (step,) = [
        line for line in str(table.scan(where="id < 50").explain()).splitlines() if "row groups by statistics" in line
    ]
    left, of = (int(text) for text in step.split()[4:7:2])
    assert left < of
    for each in (table, other):
        each.set_properties({"read.split.target-size": "20000"})
    assert len(table.scan().plan().split(20_000)) >= 4
    _assert_alike(tables)


def test_other_tables_get_no_shards(tmp_path: Path) -> None:
    catalog = skerry.connect(tmp_path)
    table = catalog.create_table("d.t", pa.schema([("id", pa.int64())]))
    with pytest.raises(SchemaError, match=r"write.format.default cannot become amudai: .*file_format='amudai'"):
        table.set_properties({"write.format.default": "amudai"})
    amudai.write_table(pa.table({"id": pa.array([1], pa.int64())}), tmp_path / "one.amudai.shard")
    with pytest.raises(skerry.errors.SkerryError):
        table.add_files([str(tmp_path / "one.amudai.shard")])
    assert table.scan().count() == 0


def test_a_table_may_leave_shards_behind(tmp_path: Path) -> None:
    catalog = skerry.connect(tmp_path)
    table = catalog.create_table("d.t", pa.schema([("id", pa.int64())]), file_format="amudai")
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    table.set_properties({"write.format.default": "parquet"})
    table.append(pa.table({"id": pa.array([3], pa.int64())}))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    with pytest.raises(SchemaError, match="cannot become amudai"):
        table.set_properties({"write.format.default": "amudai"})
    table.compact(full=True)
    assert {task.data_file.file_format for task in table.scan().plan()} == {"parquet"}


def test_columns_that_no_shard_holds_are_refused(tmp_path: Path) -> None:
    catalog = skerry.connect(tmp_path)
    schema = pa.schema([("id", pa.int64()), ("clock", pa.time64("us"))])
    with pytest.raises(UnsupportedError, match=r"column 'clock': a shard cannot hold time64\[us\]"):
        catalog.create_table("d.t", schema, file_format="amudai")
    table = catalog.create_table("d.t", schema.remove(1), file_format="amudai")
    with (
        pytest.raises(UnsupportedError, match=r"column 'clock': a shard cannot hold time64\[us\]"),
        table.update_schema() as update,
    ):
        update.add_column("clock", pa.time64("us"))


@pytest.mark.parametrize("profile", [profile.value for profile in amudai.Profile])
def test_the_profile_is_a_property(tmp_path: Path, profile: str) -> None:
    catalog = skerry.connect(tmp_path)
    table = catalog.create_table(
        "d.t", _rows(0, 1).schema, file_format="amudai", properties={"write.amudai.profile": profile}
    )
    table.append(_rows(0, 500))
    assert table.scan().to_arrow().num_rows == 500
    with pytest.raises(SchemaError, match=r"write.amudai.profile must be one of plain, fast, balanced, high, small"):
        table.set_properties({"write.amudai.profile": "fat"}).append(_rows(0, 1))


def test_moments_are_exact(tmp_path: Path) -> None:
    catalog = skerry.connect(tmp_path)
    table = catalog.create_table("d.t", pa.schema([("t", pa.timestamp("us"))]), file_format="amudai")
    moments = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999), None]
    table.append(pa.table({"t": pa.array(moments, pa.timestamp("us"))}))
    assert table.scan().to_arrow()["t"].to_pylist() == moments
    assert table.scan(where="t < '0001-01-02'").count() == 1
