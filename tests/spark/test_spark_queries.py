"""`skerry.spark.sql`: names of tables in a query are those of a catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import skerry
import skerry.spark
from skerry.errors import NotFoundError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def test_names_are_found_wherever_they_stand(spark: SparkSession, tmp_path: Path) -> None:
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
    grouped = skerry.spark.sql(session, "select k, count(*) from d.t group by k", tmp_path / "warehouse")
    assert "rowCount=3" in grouped._jdf.queryExecution().optimizedPlan().stats().toString()
