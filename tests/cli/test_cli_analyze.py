"""`skerry analyze` and `skerry stats --where`."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app
from skerry.table.statistics.column_statistics import ENABLED_ENVIRONMENT


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    catalog = skerry.connect(tmp_path / "warehouse")
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), partition_by=["truncate(10, k)"])
    table.append(pa.table({"k": [*range(20)]}))
    monkeypatch.setenv(ENABLED_ENVIRONMENT, "0")
    table.append(pa.table({"k": [*range(20, 30)]}))
    monkeypatch.delenv(ENABLED_ENVIRONMENT)

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    return invoke


def test_it_says_what_it_read(run):
    assert "1 columns of snapshot " in (said := run("analyze", "d.t"))
    assert said.endswith(" sketched; 1 files (10 rows) read\n")
    assert json.loads(run("analyze", "d.t", "--json"))["files"] == 0
    assert json.loads(run("analyze", "d.t", "--full", "--json"))["files"] == 3
    assert "no primitive column 'q'" in run("analyze", "d.t", "--columns", "q", code=1)


def test_statistics_of_some_rows(run):
    run("analyze", "d.t")
    (k,) = json.loads(run("stats", "d.t", "--where", "k < 20", "--json"))
    assert (k["distinct"], k["state"]) == (20, "fresh")
    (k,) = json.loads(run("stats", "d.t", "--where", "k < 15", "--json"))
    assert (k["lower"], k["distinct"], k["upper"], k["state"]) == (10, 20, 20, "upper bound")
