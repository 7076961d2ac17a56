"""TPC-H at a small scale: joins as our planner and Spark's, with our statistics, estimate them, beside true rows.

Data and queries are always the same: `tpchgen-cli` draws them from the specification's seeds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import pytest

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
import tpch_estimates  # noqa: E402
import tpch_spark  # noqa: E402

sys.path.remove(BENCHMARKS)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skerry.catalog import Catalog

SCALE = "0.01"
IN_SPARK = (3, 5, 10, 12)


@pytest.fixture(scope="session")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Catalog]:
    return tpch_estimates.make_tables(SCALE, tmp_path_factory.mktemp("tpch"))


def test_queries_in_our_order_give_what_duckdb_gives(tpch: tuple[Path, Catalog]) -> None:
    files, catalog = tpch
    peer = tpch_estimates.connect_peer(files)
    for number in tpch_estimates.QUERIES:
        ours, theirs = tpch_estimates.results(catalog, peer, number)
        assert ours == theirs, number


def test_our_planner_estimates_joins(tpch: tuple[Path, Catalog]) -> None:
    files, catalog = tpch
    peer = tpch_estimates.connect_peer(files)
    errors = [
        tpch_estimates.q_error(estimate, true)
        for number in tpch_estimates.QUERIES
        for _, estimate, true in tpch_estimates.joins_of(catalog, peer, number)
    ]
    assert len(errors) >= 40
    assert median(errors) <= 1.5
    assert max(errors) < 100
    assert quantiles(errors, n=10)[-1] <= 8  # tables are tiny here, and so are samples: 4 at scale 0.1


@pytest.mark.spark
def test_spark_estimates_joins_by_our_statistics(tpch: tuple[Path, Catalog], spark: SparkSession) -> None:
    import skerry.spark

    files, catalog = tpch
    peer = tpch_estimates.connect_peer(files)
    errors: list[float] = []
    for number in IN_SPARK:
        query = tpch_spark.QUERIES[number]
        frame: Any = skerry.spark.sql(spark, query, catalog, namespace="tpch")
        errors += tpch_spark.q_errors(frame)
        assert frame.count() == len(peer.sql(query).fetchall()), number
    assert len(errors) >= 10
    assert median(errors) <= 2
