"""`format("skerry")`: rows through Python workers, sketched on the way, committed once by the driver."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skerry
import skerry.spark

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [("k", pa.int64()), ("s", pa.string()), ("tags", pa.list_(pa.string())), ("x", pa.float64()), ("day", pa.date32())]
)
COLUMNS = [
    "id as k",
    "concat('s', id % 7) as s",
    "array(cast(id % 3 as string)) as tags",
    "id / 2 as x",
    "date_add(date'2024-01-01', cast(id % 3 as int)) as day",
]


@pytest.fixture
def table(tmp_path):
    catalog = skerry.connect(tmp_path / "warehouse")
    return catalog.create_table("d.t", SCHEMA, partition_by=["day"])


@pytest.fixture
def session(spark):
    skerry.spark.register(spark)
    return spark


def write(frame, table, tmp_path, mode="append", **options):
    writer = frame.write.format("skerry").mode(mode).option("catalog", str(tmp_path / "warehouse"))
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(table)


def read(session, tmp_path, **options):
    reader = session.read.format("skerry").option("catalog", str(tmp_path / "warehouse"))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load("d.t")


def files_below(tmp_path):
    return {path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()}


def test_a_session_can_be_registered_while_another_one_is_active(session, table, tmp_path):
    table.append(pa.table({"k": [1], "s": ["a"], "tags": [["t"]], "x": [1.0], "day": [None]}, SCHEMA))
    other = session.newSession()
    other.createDataFrame([(1,)], "a int")  # makes it the active one
    skerry.spark.register(other)
    third = session.newSession()
    skerry.spark.register(third)
    assert read(third, tmp_path).count() == 1


def test_rows_and_statistics_of_all_tasks_arrive_in_one_commit(session, table, tmp_path):
    write(session.range(0, 3000, 1, 3).selectExpr(*COLUMNS), "d.t", tmp_path)
    table.refresh()
    assert len(table.snapshots()) == 1
    assert len(table.files()) == 3  # one per day: what three tasks have little of is put together
    statistics = table.statistics()
    assert [(name, column.ndv, str(column.freshness)) for name, column in statistics.items()] == [
        ("k", 3000, "fresh"),
        ("s", 7, "fresh"),
        ("x", 3000, "fresh"),
        ("day", 3, "fresh"),
    ]
    rows = read(session, tmp_path)
    assert rows.count() == 3000
    expected = session.range(3000).selectExpr(*COLUMNS)
    assert rows.exceptAll(expected.select(rows.columns)).count() == 0


def test_reading_columns_conditions_and_snapshots(session, table, tmp_path):
    table.append(pa.table({"k": [1, 2], "s": ["a", "b"]}))
    first = table.current_snapshot().snapshot_id
    table.append(pa.table({"k": [3], "s": ["c"]}))
    assert [row.asDict() for row in read(session, tmp_path, columns="s", where="k >= 2").orderBy("s").collect()] == [
        {"s": "b"},
        {"s": "c"},
    ]
    assert read(session, tmp_path, snapshot=str(first)).count() == 2


def keys(table):
    return sorted(table.refresh().scan(["k"]).to_arrow()["k"].to_pylist())


def test_ways_to_write(session, table, tmp_path):
    write(session.range(9).selectExpr(*COLUMNS), "d.t", tmp_path)
    second_day = session.range(100, 109).selectExpr(*COLUMNS).where("day = date'2024-01-02'")
    write(second_day, "d.t", tmp_path, "overwrite", operation="overwrite-partitions")
    assert keys(table) == [k for k in range(9) if k % 3 != 1] + [k for k in range(100, 109) if k % 3 == 1]
    changed = session.range(3, 12, 3).selectExpr("id as k", "'new' as s")
    write(changed, "d.t", tmp_path, operation="upsert", on="k", **{"snapshot-property.by": "me"})
    updated = table.refresh().scan(["k"], "s = 'new'").to_arrow()["k"].to_pylist()
    assert sorted(updated) == [3, 6, 9]
    assert table.scan(["x"], "k = 3").to_arrow()["x"].to_pylist() == [1.5], "columns that are not given stay"
    assert table.current_snapshot().summary["by"] == "me"
    write(session.range(2).selectExpr(*COLUMNS), "d.t", tmp_path, "overwrite")
    assert keys(table) == [0, 1]
    assert str(table.statistics()["k"].freshness) == "fresh"


def test_an_empty_table_and_an_empty_frame(session, table, tmp_path):
    assert read(session, tmp_path).collect() == []
    write(session.range(0).selectExpr(*COLUMNS), "d.t", tmp_path)
    assert table.refresh().current_snapshot() is None


@pytest.mark.parametrize(
    ("options", "mode", "message"),
    [
        ({"operation": "upsert"}, "append", "an upsert needs key columns"),
        ({"operation": "overwrite"}, "append", "operation overwrite goes with mode"),
        ({"operation": "upsert", "on": "k"}, "overwrite", "operation upsert goes with mode"),
        ({"rfe": "main"}, "append", "has no option 'rfe'; did you mean 'ref'"),
        ({"ref": "mian"}, "append", "no branch or tag 'mian'; did you mean 'main'"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_written(session, table, tmp_path, options, mode, message):
    before = files_below(tmp_path)
    with pytest.raises(Exception, match=message):
        write(session.range(5).selectExpr(*COLUMNS), "d.t", tmp_path, mode, **options)
    assert files_below(tmp_path) == before


def test_wrong_columns_and_tables_are_answered_with_the_nearest(session, table, tmp_path):
    with pytest.raises(Exception, match="did you mean 'k'"):
        write(session.range(5).selectExpr("id as K2"), "d.t", tmp_path)
    with pytest.raises(Exception, match=r"no table 'd\.u'; did you mean 'd\.t'"):
        write(session.range(5).selectExpr("id as k"), "d.u", tmp_path)


def test_a_failed_task_leaves_the_table_and_its_folder_as_they_were(session, table, tmp_path):
    before = files_below(tmp_path)
    # one task: what another one closes while Spark is still stopping it stays, in a folder that no snapshot names
    frame = session.range(0, 100, 1, 1).selectExpr(
        "if(id = 99, raise_error('the source broke'), id) as k", "concat('s', id) as s"
    )
    with pytest.raises(Exception, match="the source broke"):
        write(frame, "d.t", tmp_path)
    assert files_below(tmp_path) == before
    assert table.refresh().current_snapshot() is None


def test_a_failed_commit_leaves_nothing_when_that_is_known(session, table, tmp_path):
    """The table is dropped while the tasks write: the commit finds none."""
    from skerry.spark.data_source.source import SkerryDataSource

    options = {"catalog": str(tmp_path / "warehouse"), "path": "d.t"}
    frame = session.range(9).selectExpr(*COLUMNS)
    writer = SkerryDataSource(options).writer(frame.schema, overwrite=False)
    message = writer.write(iter(frame.toArrow().to_batches()))
    written = files_below(tmp_path)
    table.catalog.drop_table("d.t")
    with pytest.raises(skerry.errors.NotFoundError):
        writer.commit([message])
    writer.abort([message])
    assert not {path for path in written & files_below(tmp_path) if path.suffix == ".parquet"}


def test_an_unknown_outcome_keeps_the_files_through_the_abort_that_follows(session, table, tmp_path, monkeypatch):
    from skerry.iceberg.handle import IcebergHandle
    from skerry.spark.data_source.source import SkerryDataSource

    options = {"catalog": str(tmp_path / "warehouse"), "path": "d.t"}
    frame = session.range(9).selectExpr(*COLUMNS)
    writer = SkerryDataSource(options).writer(frame.schema, overwrite=False)
    message = writer.write(iter(frame.toArrow().to_batches()))
    written = files_below(tmp_path)

    def unknown(self, operation):
        raise skerry.errors.CommitUnknownError("connection lost")

    monkeypatch.setattr(IcebergHandle, "commit", unknown)
    with pytest.raises(skerry.errors.CommitUnknownError):
        writer.commit([message])
    writer.abort([message])
    assert written <= files_below(tmp_path)
