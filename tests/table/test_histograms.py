"""Histograms and shares of conditions from sampled rows, in both formats, beside the rows themselves."""

import datetime
import itertools
import pickle

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.table.statistics import row_sampling

ROWS = 60_000
MERGE_ON_READ = {"skerry.statistics.row-deletes": "upper-bound", "write.delete.mode": "merge-on-read"}
KINDS = ["late train", "early bird", "on time", "train wreck"]


def skewed(count=ROWS, seed=3):
    """Delays: most are small, a few are large; every tenth is null. The even spread is wrong by an order."""
    random = np.random.default_rng(seed)
    delay = np.round(random.exponential(15, count)).astype(np.int64)
    delay[0] = 1300
    days = np.array(np.datetime64("2026-01-01") + (random.beta(2, 8, count) * 365).astype(int))
    kinds = np.array(["late train", "early bird", "on time", "train wreck"])[
        random.choice(4, count, p=[0.6, 0.1, 0.2, 0.1])
    ]
    return pa.table(
        {
            "delay": pa.array(delay, mask=np.arange(count) % 10 == 9),
            "hours": random.exponential(0.25, count),
            "day": pa.array(days, pa.date32()),
            "kind": kinds,
            "id": np.arange(count),
            "flag": delay > 3,
        }
    )


CONDITIONS = {
    "delay > 30": lambda rows: [value is not None and value > 30 for value in rows["delay"]],
    "delay BETWEEN 5 AND 10": lambda rows: [value is not None and 5 <= value <= 10 for value in rows["delay"]],
    "hours < 0.2": lambda rows: [value < 0.2 for value in rows["hours"]],
    "day < '2026-02-15'": lambda rows: [value < datetime.date(2026, 2, 15) for value in rows["day"]],
    "kind LIKE '%train%' OR delay > 60": lambda rows: [
        "train" in kind or (delay or 0) > 60 for kind, delay in zip(rows["kind"], rows["delay"], strict=True)
    ],
    "flag AND delay < 8": lambda rows: [
        flag and delay is not None and delay < 8 for flag, delay in zip(rows["flag"], rows["delay"], strict=True)
    ],
}


@pytest.fixture(autouse=True)
def _same_rows(monkeypatch):
    """Rows are chosen at random, but the same ones in every run."""
    seeds = itertools.count(1)
    monkeypatch.setattr(row_sampling, "_new_seed", lambda: next(seeds) << 40)


@pytest.fixture(params=["iceberg", "paimon"])
def catalog(request, tmp_path):
    found = skerry.connect(str(tmp_path))
    found.create_table("d.t", skewed(10).schema, format=request.param)
    return found


def estimate(catalog, where):
    (plan,) = catalog.explain(f"SELECT 1 FROM d.t WHERE {where}").selects
    return plan.rows.rows


def check(catalog, rows):
    columns = rows.to_pydict()
    for where, is_wanted in CONDITIONS.items():
        true = sum(is_wanted(columns))
        assert estimate(catalog, where) == pytest.approx(true, rel=0.2), where


def test_conditions_are_estimated_within_a_fifth(catalog):
    rows = skewed()
    table = catalog.load_table("d.t")
    for start in range(0, ROWS, ROWS // 4):
        table.append(rows.slice(start, ROWS // 4))
    check(catalog, rows)
    assert estimate(catalog, "delay > 200") < 100  # none was seen; the even spread says 50,000
    assert estimate(catalog, "id = 77") == pytest.approx(1, rel=0.2)  # of which the sketch knows more


def test_a_histogram_has_the_same_share_of_the_rows_in_every_bucket(catalog):
    rows = skewed()
    table = catalog.load_table("d.t")
    table.append(rows)
    known = table.statistics()
    histogram = known["hours"].histogram
    assert str(histogram.freshness) == "fresh"
    assert (histogram.bounds[0], histogram.bounds[-1]) == (known["hours"].min, known["hours"].max)
    assert list(histogram.bounds) == sorted(histogram.bounds)
    assert histogram.share * (len(histogram.bounds) - 1) + histogram.null_share == pytest.approx(1)
    values = np.sort(rows["hours"].to_numpy())
    ranks = np.searchsorted(values, histogram.bounds, "right") / ROWS
    shares = np.arange(len(histogram.bounds)) * histogram.share
    assert np.abs(ranks - shares)[1:].max() < 0.05
    assert known["delay"].histogram.null_share == pytest.approx(0.1, abs=0.03)
    assert isinstance(known["day"].histogram.bounds[5], datetime.date)
    assert known["kind"].histogram.bounds[1] in KINDS
    assert known["flag"].histogram is None
    assert pickle.loads(pickle.dumps(known["hours"])).histogram.sampled_rows == histogram.sampled_rows
    few = table.statistics("delay > 40")["delay"].histogram
    assert few.bounds[0] <= 41
    assert few.bounds[1] > 40


def test_deletes_and_compaction_take_rows_out_of_the_sample(catalog):
    rows = skewed()
    table = catalog.load_table("d.t")
    table.append(rows.slice(0, ROWS // 2))
    table.append(rows.slice(ROWS // 2))
    table.delete("delay < 6")
    left = rows.filter(pa.array([value is None or value >= 6 for value in rows["delay"].to_pylist()]))
    check(catalog, left)
    table.compact()
    check(catalog, left)
    assert str(catalog.load_table("d.t").statistics()["delay"].histogram.freshness) == "fresh"
    table.overwrite(rows.slice(0, 500))
    assert table.statistics()["id"].histogram.bounds == pytest.approx(np.linspace(0, 499, 32), abs=8)
    table.delete("id >= 0")
    assert table.statistics()["id"].histogram is None


def test_columns_follow_the_schema(catalog):
    table = catalog.load_table("d.t")
    table.append(skewed(5000))
    with table.update_schema() as change:
        change.rename_column("delay", "late").delete_column("hours").add_column("new", pa.int32())
    table = catalog.load_table("d.t")
    known = table.statistics()
    assert known["late"].histogram.bounds[0] == 0
    assert known["new"].histogram is None
    assert estimate(catalog, "late > 30") < 1000


def test_without_samples_there_is_no_histogram(tmp_path):
    catalog = skerry.connect(str(tmp_path))
    table = catalog.create_table("d.t", skewed(10).schema, properties={"skerry.statistics.row-sample": "false"})
    assert table.statistics()["delay"].histogram is None
    table.append(skewed(1000))
    assert table.statistics()["delay"].histogram is None
    assert estimate(catalog, "delay > 30") > 500  # by the even spread


def test_rows_that_others_have_added_or_deleted_are_said(tmp_path):
    catalog = skerry.connect(str(tmp_path))
    table = catalog.create_table("d.t", skewed(10).schema, properties=MERGE_ON_READ)
    table.append(skewed(1000))
    table.delete("delay > 40")
    freshness = str(table.statistics()["delay"].histogram.freshness)
    assert freshness == "stale: 1 file was not sampled, or lost rows since; run analyze(full=True) or compact"
    assert "sampled rows are like the others" in str(catalog.explain("SELECT 1 FROM d.t WHERE delay > 3"))
    table.analyze(full=True)
    assert str(table.statistics()["delay"].histogram.freshness) == "fresh"
