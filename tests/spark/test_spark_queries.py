"""`skerry.spark.sql`: names of tables in a query are those of a catalog."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import skerry
import skerry.spark
from skerry.errors import NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skerry.catalog import Catalog

pytestmark = pytest.mark.spark

QUERIES = {
    "select sum(t.k) from d.t": 6,
    "select sum(x.k) from d.t as x": 6,
    "select sum(k), 'ü😀 d.t' from d.t": 6,
    "select count(*) from d.t where k in (select k from d.u where k > 1)": 2,
    "select (select max(k) from d.u) + sum(k) from d.t": 10,
    "with t as (select k from d.u) select sum(t.k) + sum(other.k) from t join d.t as other on t.k = other.k": 10,
    "select count(*) from t join d.t other on t.k = other.k join u on u.k = t.k": 2,
    "select count(*) from (select * from d.t union all select * from `d`.`u`) both": 6,
    "select sum(v.n) from v join t on v.n = t.k": 3,
}


STATEMENTS = [
    "delete from d.t where k = 1",
    "insert into d.t values (2)",
    "with w as (select 1) insert into d.t select * from w",
    "update d.t set k = 2",
    "merge into d.t using d.u on t.k = u.k when matched then delete",
    "create table d.x as select * from d.t",
    "drop table d.t",
    "alter table d.t add column x int",
]


def test_names_are_found_wherever_they_stand(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    catalog = skerry.connect(tmp_path / "warehouse")
    for name, values in (("d.t", [1, 2, 3]), ("d.u", [2, 3, 4])):
        catalog.create_table(name, pa.schema([("k", pa.int64())])).append(pa.table({"k": values}))
    session = spark.newSession()
    session.createDataFrame([(1,), (2,)], "n bigint").createTempView("v")
    before = [view.name for view in session.catalog.listTables()]
    for query, expected in QUERIES.items():
        assert skerry.spark.sql(session, query, catalog, namespace="d").collect()[0][0] == expected, query
    assert [view.name for view in session.catalog.listTables()] == before
    with pytest.raises(NotFoundError, match=r"neither Spark nor the catalog has a table d\.tt"):
        skerry.spark.sql(session, "select * from d.tt", tmp_path / "warehouse")
    for statement in STATEMENTS:
        with pytest.raises(UnsupportedError, match=r"sql runs queries, .*rows are changed by table\.append, delete"):
            skerry.spark.sql(session, statement, catalog)
    for mistake in ("select x from d.t", "select k, count(*) from d.t group by k + 1", "select k + array(k) from d.t"):
        with pytest.raises(AnalysisException) as found:
            skerry.spark.sql(session, mistake, catalog)
        assert "SQLSTATE" in str(found.value)
        assert "\n" not in str(found.value)
    assert capfd.readouterr().err == ""
    grouped = skerry.spark.sql(session, "select k, count(*) from d.t group by k", tmp_path / "warehouse")
    assert "rowCount=3" in grouped._jdf.queryExecution().optimizedPlan().stats().toString()


@pytest.mark.parametrize("is_classic", [True, False], ids=["classic", "connect"])
def test_paths_are_no_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_classic: bool
) -> None:
    monkeypatch.setattr("skerry.spark.reading.queries.is_classic", lambda spark: is_classic)
    catalog = skerry.connect(tmp_path / "warehouse")
    (tmp_path / "x").write_text("a line\n")
    path = f"text.`{tmp_path}/x`"
    assert spark.sql(f"select * from {path}").count() == 1
    for query in (f"select * from {path}", f"select (select max(value) from {path})"):
        with pytest.raises(NotFoundError, match="neither Spark nor the catalog has a table"):
            skerry.spark.sql(spark, query, catalog)


def test_without_a_jvm_rows_are_the_same(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("queries", "native_scan"):
        monkeypatch.setattr(f"skerry.spark.reading.{module}.is_classic", lambda spark: False)  # as on Spark Connect
    catalog = skerry.connect(tmp_path / "warehouse")
    for name, values in (("d.t", [1, 2, 3]), ("d.u", [2, 3, 4])):
        catalog.create_table(name, pa.schema([("k", pa.int64())])).append(pa.table({"k": values}))
    session = spark.newSession()
    session.createDataFrame([(1,), (2,)], "n bigint").createTempView("v")
    for query, expected in QUERIES.items():
        assert skerry.spark.sql(session, query, catalog, namespace="d").collect()[0][0] == expected, query
    for statement in STATEMENTS:
        with pytest.raises(UnsupportedError, match="sql runs queries"):
            skerry.spark.sql(session, statement, catalog)
    joined = skerry.spark.sql(session, "select * from d.t join d.u on t.k = u.k", catalog)
    assert "strategy=broadcast" in joined._jdf.queryExecution().analyzed().toString()
    assert [view.name for view in session.catalog.listTables()] == ["v"]


# Files ---------------------------------------------------------------------------------------------------------------


def files_read(frame: DataFrame) -> int:
    """Files in the optimized plan of a query, those of its subqueries included."""

    def count(plan: Any) -> int:
        own = len(list(plan.relation().inputFiles())) if plan.nodeName() == "LogicalRelation" else 0
        parts = [plan.children(), plan.subqueries()]
        return own + sum(count(nested.apply(index)) for nested in parts for index in range(nested.size()))

    return count(frame._jdf.queryExecution().optimizedPlan())


@pytest.fixture
def days(tmp_path: Path) -> Catalog:
    """Four files of a day each, and a small table."""
    catalog = skerry.connect(tmp_path / "warehouse")
    schema = pa.schema([("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string())])
    table = catalog.create_table("d.days", schema, partition_by=["day"])
    for day in range(4):
        at = datetime.datetime(2024, 1, 1 + day, 12, tzinfo=datetime.UTC)
        table.append(pa.table({"day": [at.date()] * 10, "at": [at] * 10, "k": range(day * 10, day * 10 + 10),
                               "s": [f"{day}x"] * 10}, schema))  # fmt: skip
    catalog.create_table("d.few", pa.schema([("k", pa.int64())])).append(pa.table({"k": [7, 15]}))
    return catalog


PRUNED = {
    "select count(*) from days where day = date '2024-01-02'": (10, 1),
    "select count(*) from days where day >= date '2024-01-01' + interval 2 days": (20, 2),
    "select count(*) from (select * from days) x where x.k between 5 and 12 and x.s <> 'a{b}'": (8, 2),
    "select count(*) from days where s like '3%' or k = 1": (11, 2),
    "select count(*) from days where at < timestamp '2024-01-02 00:00:00'": (10, 1),
    "select count(*) from days where k in (1, 2) and s rlike 'x'": (2, 1),
    "select count(*) from days a join days b on a.k = b.k where a.k < 5": (5, 2),  # what is said of a holds for b
    "select count(*) from days a join days b on a.s = b.s where a.k < 5 and b.k > 38": (0, 4),
    "with x as (select * from days) select count(*) from x where k > 35 union all select count(*) from x where k < 3": (
        4,
        4,
    ),
    "select count(*) from few where k in (select k from days where day = date '2024-01-01')": (1, 2),
    "select count(*) from few left join days on few.k = days.k and days.k < 10": (2, 2),
    "select count(*) from days where k < (select max(k) from few)": (15, 5),
    "select count(*) from days where k is null": (0, 0),
    "select count(*) from days where abs(k) > 35": (4, 4),
    "select count(*) from days where k > 100": (0, 0),
}


def test_indexes_choose_files(spark: SparkSession, tmp_path: Path) -> None:
    catalog = skerry.connect(tmp_path / "warehouse")
    schema = pa.schema([("trace", pa.string()), ("k", pa.int64())])
    table = catalog.create_table("d.t", schema, properties={"skerry.index.trace": "hash"})
    for first in range(4):  # every file has the same bounds
        ks = [0, first, 1000]
        table.append(pa.table({"trace": [f"t{k}-{first}" for k in ks], "k": ks}, schema))
    query = "select k from d.t where trace = 't2-2'"
    chosen = skerry.spark.sql(spark, query, catalog)
    assert (chosen.collect(), files_read(chosen)) == ([(2,)], 1)
    where = "trace in ('t1-1', 't1000-3', 'none')"
    assert sorted(skerry.spark.read(spark, table, where=where).collect()) == [("t1-1", 1), ("t1000-3", 1000)]
    assert len(skerry.spark.read(spark, table, where=where).inputFiles()) == 2
    table.delete("trace = 't1000-1'")  # Python workers read the rest of this file
    assert sorted(skerry.spark.read(spark, table, where=where).collect()) == [("t1-1", 1), ("t1000-3", 1000)]
    skerry.spark.register(spark)
    source = spark.read.format("skerry").options(catalog=str(tmp_path / "warehouse"), where=where).load("d.t")
    assert sorted(source.collect()) == [("t1-1", 1), ("t1000-3", 1000)]
    assert source.rdd.getNumPartitions() == 2


def test_conditions_of_a_query_choose_files(spark: SparkSession, days: Catalog) -> None:
    for query, (expected, files) in PRUNED.items():
        found = skerry.spark.sql(spark, query, days, namespace="d")
        assert found.collect()[0][0] == expected, query
        assert files_read(found) == files, query
    few = skerry.spark.sql(spark, "select * from d.days where k < 10", days)
    assert "rowCount=10" in few._jdf.queryExecution().optimizedPlan().stats().toString()
    assert [view.name for view in spark.catalog.listTables()] == []


def test_rows_of_files_with_deletes_are_chosen_alike(spark: SparkSession, days: Catalog) -> None:
    table = days.load_table("d.days")
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("k in (3, 14)")
    for query, expected in (
        ("select count(*) from d.days", 38),
        ("select count(*) from d.days where k < 10", 9),
        ("select count(*) from d.days where day = date '2024-01-02' and k > 10", 8),
        ("select count(*) from d.days where day = date '2024-01-03'", 10),
    ):
        found = skerry.spark.sql(spark, query, days)
        assert found.collect()[0][0] == expected, query
    plan = found._jdf.queryExecution().executedPlan().toString()  # of one file without deletes
    assert "Scan parquet" in plan
    assert "ExistingRDD" not in plan


def test_points_in_time_are_those_of_the_sessions_zone(spark: SparkSession, days: Catalog) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    for text, expected in (("2024-01-02 03:59:59", 10), ("2024-01-02 04:00:00", 20)):
        query = f"select count(*) from d.days where at <= timestamp '{text}'"
        assert skerry.spark.sql(session, query, days).collect()[0][0] == expected


def test_a_table_that_has_changed_is_read_anew(spark: SparkSession, days: Catalog) -> None:
    query = "select count(*) from d.few where k < 100"
    assert skerry.spark.sql(spark, query, days).collect()[0][0] == 2
    days.load_table("d.few").append(pa.table({"k": [1, 200]}))
    assert skerry.spark.sql(spark, query, days).collect()[0][0] == 3
    days.load_table("d.few").overwrite(pa.table({"k": [5]}))
    assert skerry.spark.sql(spark, query, days).collect()[0][0] == 1


def test_a_query_asked_again_takes_few_calls(
    spark: SparkSession, days: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from py4j.clientserver import ClientServerConnection

    def send_command(self: Any, command: str) -> Any:
        if not command.startswith("m\n"):  # what was garbage collected here
            sent.append(command)
        return send(self, command)

    sent: list[str] = []
    send = ClientServerConnection.send_command
    monkeypatch.setattr(ClientServerConnection, "send_command", send_command)
    query = "select * from d.days, d.few where days.k = few.k and days.k < 10"
    skerry.spark.sql(spark, query, days)
    first = len(sent)
    skerry.spark.sql(spark, query, days)
    assert len(sent) - first < 0.6 * first
    assert len(sent) - first < 75  # nodes of plans are not asked one by one
