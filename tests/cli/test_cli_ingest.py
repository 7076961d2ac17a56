"""`skerry ingest` over the shared Spark session."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app

pytestmark = pytest.mark.spark


@pytest.fixture
def ingest(spark, tmp_path):
    (tmp_path / "raw").mkdir()

    def invoke(source, table, *arguments, code=0):
        warehouse = str(tmp_path / "warehouse")
        result = CliRunner().invoke(app, ["ingest", str(tmp_path / "raw" / source), table, "-w", warehouse, *arguments])
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    return invoke


def tables(folder):
    return skerry.connect(folder / "warehouse").list_tables()


def test_files_land_in_a_new_table_and_then_in_the_same(ingest, tmp_path):
    (tmp_path / "raw" / "a.csv").write_text("day,n\n2013-01-01,1\n2013-01-02,2\n")
    (tmp_path / "raw" / "b.tsv").write_text("day;n\n2013-01-03;x\n")
    said = ingest("a.csv", "ns.t", "--create", "--partition-by", "day", "--sort-by", "n", "--table-property", "a=b")
    assert said.startswith("appended 2 rows to ns.t: 2 files, ")
    table = skerry.connect(tmp_path / "warehouse").load_table("ns.t")
    assert (table.partition_by, table.properties["a"]) == (["day"], "b")
    assert table.sort_by[0].split()[0] == "n"
    (tmp_path / "raw" / "b.tsv").write_text("n;day\n3;2013-01-03\n")
    record = json.loads(ingest("b.tsv", "ns.t", "--json", "-f", "csv", "-o", "sep=;"))
    assert (record["table"], record["rows"], record["files"]) == ("ns.t", 1, 1)
    table.refresh()
    assert record["snapshot_id"] == table.current_snapshot().snapshot_id
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [1, 2, 3]
    assert {str(column.freshness) for column in table.statistics().values()} == {"fresh"}


def test_a_row_that_does_not_fit_is_named_and_nothing_lands(ingest, tmp_path):
    (tmp_path / "raw" / "a.csv").write_text("n\n1\n2\n")
    (tmp_path / "raw" / "bad.csv").write_text("n\n3\nfour\n")
    ingest("a.csv", "ns.t", "--create")
    said = ingest("bad.csv", "ns.t", code=1)
    assert said.count("\n") == 1
    for part in ("error: ", "bad.csv", "line 3", "'n'", "'four'"):
        assert part in said
    assert len(skerry.connect(tmp_path / "warehouse").load_table("ns.t").snapshots()) == 1


def test_a_table_that_nothing_landed_in_is_not_left_behind(ingest, tmp_path):
    (tmp_path / "raw" / "a.csv").write_text("n\n1\n")
    assert "no branch or tag 'nowhere'" in ingest("a.csv", "ns.t", "--create", "--ref", "nowhere", code=1)
    assert tables(tmp_path) == []


def test_mistakes_before_spark_starts(ingest, tmp_path, monkeypatch):
    (tmp_path / "raw" / "a.csv").write_text("n\n1\n")
    ingest("a.csv", "ns.table", "--create")
    assert ingest("a.csv", "ns.tabel", code=1) == (
        "error: no table 'ns.tabel'; did you mean 'ns.table'? (--create creates it)\n"
    )
    with monkeypatch.context() as patched:
        patched.setattr("skerry.spark.session", None)
        assert "file does not exist" in ingest("none.csv", "ns.table", code=1)
        (tmp_path / "raw" / "a.txt").write_text("n\n1\n")
        assert "the source's name does not show its format" in ingest("a.txt", "ns.table", code=1)
    assert "file does not exist" in ingest("none*.csv", "ns.table", code=1)
    assert "did you mean 'header'" in ingest("a.csv", "ns.table", "-o", "haeder=true", code=1)
