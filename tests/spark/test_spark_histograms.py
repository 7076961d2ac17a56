"""Histograms in Spark's plans: ranges of skewed columns are estimated by sampled rows, with no jar and no ANALYZE."""

from __future__ import annotations

import datetime
import itertools
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import skerry
import skerry.spark
from skerry.catalog import Catalog
from skerry.table.statistics import row_sampling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 40_000


@pytest.fixture(autouse=True)
def _same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = itertools.count(1)
    monkeypatch.setattr(row_sampling, "_new_seed", lambda: next(seeds) << 40)


def skewed() -> pa.Table:
    """Every type that Spark's histograms know, all of them far from evenly spread; and an even one."""
    random = np.random.default_rng(5)
    values = np.round(random.exponential(20, ROWS), 2)
    values[0] = 4000
    seconds = (values * 1_000_000).astype(np.int64) + 1_700_000_000_000_000
    return pa.table(
        {
            "i": pa.array(values.astype(np.int32), mask=np.arange(ROWS) % 4 == 3),
            "x": values,
            "p": pa.array([Decimal(f"{value:.2f}") for value in values], pa.decimal128(9, 2)),
            "day": pa.array(values.astype(np.int32) + 18_000, pa.date32()),
            "at": pa.array(seconds, pa.timestamp("us", "UTC")),
            "id": np.arange(ROWS),
        }
    )


def estimated_rows(frame: DataFrame) -> int:
    text = frame._jdf.queryExecution().optimizedPlan().stats().toString()
    found = re.search(r"rowCount=([\d.E+]+)", text)
    assert found is not None, text
    return int(Decimal(found[1]))


@pytest.mark.parametrize("format_", ["iceberg", "paimon"])
def test_ranges_of_skewed_columns_are_estimated(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    catalog: Catalog = skerry.connect(tmp_path / "warehouse")
    data = skewed()
    table = catalog.create_table("d.t", data.schema, format=format_)
    table.append(data)
    frame = skerry.spark.read(spark, table)
    day = datetime.date(1970, 1, 1) + datetime.timedelta(18_040)
    for where in ("i > 30", "x < 10", "p > 25.5", f"day > date '{day}'", "at < timestamp '2023-11-14 22:13:30Z'"):
        found = frame.where(where)
        assert estimated_rows(found) == pytest.approx(found.count(), rel=0.2), where
    assert estimated_rows(frame.where("id < 10000")) == pytest.approx(10_000, rel=0.01)  # by its bounds


def test_ingested_tables_have_histograms_too(spark: SparkSession, tmp_path: Path) -> None:
    catalog = skerry.connect(tmp_path / "warehouse")
    data = skewed()
    table = catalog.create_table("d.t", data.schema)
    skerry.spark.ingest(spark, spark.createDataFrame(data), table)
    assert str(table.statistics()["x"].histogram.freshness) == "fresh"
    found = skerry.spark.sql(spark, "select i from d.t where i > 30", catalog)
    assert estimated_rows(found) == pytest.approx(found.count(), rel=0.2)
