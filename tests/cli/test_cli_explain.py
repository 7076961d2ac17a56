"""`skerry explain`: the plan of a query, for people and as JSON."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app

QUERY = "SELECT count(*) FROM d.facts f, d.names n WHERE f.k = n.k AND f.v < 50"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("warehouse")
    catalog = skerry.connect(made)
    for name, rows in (
        ("d.facts", pa.table({"k": [n % 10 for n in range(1000)], "v": [n // 10 for n in range(1000)]})),
        ("d.names", pa.table({"k": [*range(5)], "name": list("abcde")})),
    ):
        catalog.create_table(name, rows.schema).append(rows)
    return made


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(folder))

    def invoke(*arguments, code=0, text=None):
        result = CliRunner().invoke(app, arguments, input=text)
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    return invoke


def test_people_get_the_plan_as_the_catalog_lays_it_out(run, folder):
    assert run("explain", QUERY) == f"{skerry.connect(folder).explain(QUERY)}\n"
    assert run("explain", "-", text=QUERY) == run("explain", QUERY)


def test_programs_get_inputs_joins_and_bounds(run):
    plan = json.loads(run("explain", QUERY, "--json"))
    (select,) = plan["selects"]
    assert "d.facts" in plan["sql"]
    facts, names = select["inputs"]
    assert (facts["name"], facts["table"], facts["total_rows"]) == ("f", "d.facts", 1000)
    assert (facts["rows_lower"], facts["rows"], facts["rows_upper"]) == (0, 500, 1000)
    assert names["where"] == []
    (join,) = select["joins"]
    assert (join["left"], join["right"], join["on"], join["broadcast"]) == (["f"], ["n"], ["f.k = n.k"], True)
    assert join["rows"] == 250
    assert select["rows"] == 1


def test_an_upper_bound_that_nothing_tells_is_null(run):
    plan = json.loads(run("explain", "SELECT * FROM (VALUES (1)) AS x(k), d.names n WHERE x.k = n.k", "--json"))
    assert plan["selects"][-1]["rows_upper"] is None


def test_what_is_wrong_is_said_in_a_line(run):
    assert "did you mean 'd.facts'" in run("explain", "SELECT * FROM d.fact", code=1)
