"""`skerry inspect TABLE …`, `skerry health`, and variants as `skerry scan` prints them."""

from __future__ import annotations

import decimal
import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app
from skerry.variant import VARIANT, Primitive, Typed, from_values


@pytest.fixture(params=["iceberg", "paimon"])
def run(request, tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    catalog = skerry.connect(tmp_path / "warehouse")
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), format=request.param)
    for number in range(6):
        table.append(pa.table({"k": [number]}))
        if number == 1:
            table.create_tag("two")

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    return invoke


def test_metadata_tables_are_printed_like_rows(run):
    lines = run("inspect", "d.t", "files", "-c", "record_count,content").splitlines()
    assert lines == ["record_count\tcontent", *["1\t0"] * 6]
    assert len(run("inspect", "d.t", "files", "--ref", "two", "-c", "content").splitlines()) == 1 + 2
    assert len(run("inspect", "d.t", "manifests", "-n", "3").splitlines()) == 1 + 3
    (file,) = [
        json.loads(line)
        for line in run(
            "inspect", "d.t", "files", "--json", "--where", "readable_metrics.k.lower_bound = 4"
        ).splitlines()
    ]
    assert file["readable_metrics"]["k"]["upper_bound"] == 4
    assert run("inspect", "d.t", "refs", "--where", "type = 'TAG'", "-c", "name").splitlines() == ["name", "two"]


def test_wrong_names_are_one_line(run):
    assert "no metadata table 'file'; did you mean 'files'?" in run("inspect", "d.t", "file", code=1)
    assert "did you mean 'file_path'?" in run("inspect", "d.t", "files", "-c", "file_pat", code=1)
    assert "no table 'd.u'" in run("inspect", "d.u", "files", code=1)


def test_health_names_what_is_wrong_first(run, monkeypatch):
    first, *others = json.loads(run("health", "d.t", "--json"))
    assert (first["check"], first["ok"], first["number"], first["call"]) == ("small_files", False, 6, "table.compact()")
    assert first["why"]
    assert all(other["ok"] for other in others)
    assert others[-1]["check"] == "orphans"
    assert json.loads(run("health", "d.t", "--no-orphans", "--json"))[-1]["check"] == "missing_statistics"
    lines = run("health", "d.t").splitlines()
    assert lines[0] == "check\tok\tnumber\tunit\tlimit\tdetail\twhy\tcall"
    assert lines[1].startswith("small_files\tfalse\t6\tfiles\t0\t6 of 6 data files")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("health", "d.t")
    assert "`skerry compact`" in shown
    assert "table.analyze()" not in shown  # advice only where it is wanted
    assert f"1 of {1 + len(others)} checks want something done" in shown


def test_variants_are_printed_as_json(tmp_path):
    def printed(*options):
        result = CliRunner().invoke(app, ["scan", "ns.v", "-w", str(tmp_path), *options])
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    values = [{"a": decimal.Decimal("1.50"), "b": [None, 2.5]}, None, Typed(Primitive.TIMESTAMP_NTZ_NS, 5)]
    schema = pa.schema([("id", pa.int64()), ("v", VARIANT)])
    table = skerry.connect(tmp_path).create_table("ns.v", schema, format_version=3)
    table.append(pa.table([pa.array([1, 2, 3]), from_values(values)], schema=schema))
    objects = [json.loads(line) for line in printed("--json")]
    assert [row["v"] for row in sorted(objects, key=lambda row: row["id"])] == [
        {"a": "1.50", "b": [None, 2.5]},
        None,
        "1970-01-01 00:00:00.000000005",
    ]
    assert sorted(printed()) == ['1\t{"a":1.50,"b":[null,2.5]}', "2\t", '3\t"1970-01-01 00:00:00.000000005"', "id\tv"]
