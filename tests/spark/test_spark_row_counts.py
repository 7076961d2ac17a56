"""Row counts in Spark's plans: what conditions on a table leave together, by its sampled rows."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import skerry
import skerry.spark
from skerry.catalog import Catalog
from skerry.spark.reading.plan_nodes import nodes_of
from skerry.spark.reading.plan_statistics import ColumnSummary, PlanStatistics
from skerry.table.statistics import row_sampling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 20_000


@pytest.fixture(params=["iceberg", "paimon"])
def travels(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Trips whose city says the country, and whose notes and dates no bounds know."""
    seeds = itertools.count(1)
    monkeypatch.setattr(row_sampling, "_new_seed", lambda: next(seeds) << 40)
    random = np.random.default_rng(3)
    city = random.integers(0, 50, ROWS)
    began = random.integers(0, 1000, ROWS).astype(np.int32)
    trips = pa.table(
        {
            "city": city,
            "country": city // 10,
            "note": pa.array(np.where(random.random(ROWS) < 0.05, "a green day", "a grey day")),
            "began": pa.array(began, pa.date32()),
            "ended": pa.array(began + random.integers(-1, 9, ROWS).astype(np.int32), pa.date32()),
        }
    )
    cities = pa.table({"id": np.arange(50), "name": [f"city {number}" for number in range(50)]})
    catalog = skerry.connect(tmp_path, format=request.param)
    for name, rows in (("trips", trips), ("cities", cities)):
        catalog.create_table(f"t.{name}", rows.schema).append(rows)
    return catalog


def filtered_rows(frame: DataFrame, column: str) -> list[float]:
    """The rows that Spark expects of each filter on a column directly above files."""
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    filters = [plan.apply(node.number) for node in nodes_of(plan) if node.kind == "Filter"]
    return [float(str(node.stats().rowCount().get())) for node in filters if column in node.condition().sql()]


@pytest.mark.spark
@pytest.mark.parametrize(
    "where",
    ["city between 20 and 29 and country = 2", "note like '%green%'", "note like 'a%green%'", "ended < began"],
)
def test_filters_leave_what_samples_say(spark: SparkSession, travels: Catalog, where: str) -> None:
    query = f"select name from t.trips, t.cities where city = id and ({where})"
    true = travels.load_table("t.trips").scan(where=where).to_arrow().num_rows
    for _ in range(2):  # the second time, it is known
        frame = skerry.spark.sql(spark, query, travels)
        (found,) = filtered_rows(frame, where.split(maxsplit=1)[0])
        assert found == pytest.approx(true, rel=0.25)
    assert frame.count() == true


@pytest.mark.spark
def test_what_is_not_known_is_left_to_spark(spark: SparkSession, travels: Catalog) -> None:
    """A table under two conditions, and one whose condition has no translation."""
    both = "select 1 from t.trips a, t.trips b where a.city = b.city and a.note like '%green%' and b.note like '%grey%'"
    assert filtered_rows(skerry.spark.sql(spark, both, travels), "note") == [ROWS, ROWS]
    odd = "select 1 from t.trips, t.cities where city = id and note like '%green%' and reverse(note) > 'b'"
    assert filtered_rows(skerry.spark.sql(spark, odd, travels), "note") == [ROWS]


def test_statistics_of_more_and_fewer_rows() -> None:
    columns = {
        "key": ColumnSummary(distinct_count=1000, null_count=0),
        "kind": ColumnSummary(distinct_count=40, null_count=200),
        "none": ColumnSummary(),
    }
    before = PlanStatistics(1000, 8000, columns)
    fewer, more = before.times(0.02), before.times(3)
    assert (fewer.row_count, fewer.size_bytes, more.row_count) == (20, 160, 3000)
    assert [fewer.columns[name].distinct_count for name in columns] == [20, 20, None]
    assert [more.columns[name].distinct_count for name in columns] == [3000, 40, None]
    assert [fewer.columns[name].null_count for name in columns] == [0, 4, None]
    assert before.times(1) is before
