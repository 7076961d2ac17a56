"""`skerry delete` and `skerry upsert`: what they do and what they say."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app

SCHEMA = pa.schema([("k", pa.int64()), ("day", pa.date32()), ("s", pa.string())])


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    table = skerry.connect(tmp_path / "warehouse").create_table(
        "d.t", SCHEMA, properties={"write.merge.mode": "merge-on-read"}
    )
    table.append(pa.table({"k": range(10), "s": ["old"] * 10}))

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    return invoke


def test_delete(run):
    assert run("delete", "d.t", "--where", "k > 6", "--dry-run") == "d.t: 3 rows would be deleted\n"
    assert json.loads(run("delete", "d.t", "--where", "k > 6", "--dry-run", "--json")) == {"table": "d.t", "rows": 3}
    assert run("delete", "d.t", "--where", "k > 6") == (
        "d.t: 3 deleted; 1 files and 0 delete files written, 1 files removed\n"
    )
    assert run("delete", "d.t", "--where", "k > 6") == (
        "d.t: nothing to change; 0 files and 0 delete files written, 0 files removed\n"
    )
    assert json.loads(run("delete", "d.t", "--where", "k = 1", "--json"))["deleted_rows"] == 1
    assert "no column 'q'" in run("delete", "d.t", "--where", "q = 1", code=1)
    assert "Missing option '--where'" in run("delete", "d.t", code=2)


def test_upsert(run, tmp_path):
    (tmp_path / "new.csv").write_text("k,day,s\n1,2024-01-02,new\n20,,\n")
    assert run("upsert", "d.t", tmp_path / "new.csv", "--on", "k") == (
        "d.t: 1 inserted, 1 updated; 1 files and 1 delete files written, 0 files removed\n"
    )
    found = run("scan", "d.t", "--where", "k in (1, 20)").splitlines()
    assert sorted(found[1:]) == ["1\t2024-01-02\tnew", "20\t\t"]
    pq.write_table(pa.table({"k": [2], "s": ["blind"], "day": pa.array([None], pa.date32())}), tmp_path / "b.parquet")
    assert "1 inserted (the rows that they replace were not read)" in run(
        "upsert", "d.t", tmp_path / "b.parquet", "--on", "k", "--blind"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(pa.table({"k": [2]}), folder / "1.parquet")
    pq.write_table(pa.table({"k": [30]}), folder / "2.parquet")
    done = json.loads(run("upsert", "d.t", folder, "--on", "k", "--json"))
    assert (done["updated_rows"], done["inserted_rows"]) == (1, 1)
    assert run("scan", "d.t", "--where", "k = 2").splitlines()[1] == "2\t\tblind"


def test_mistakes(run, tmp_path):
    (tmp_path / "new.xml").write_text("<k/>")
    assert "found .xml" in run("upsert", "d.t", tmp_path / "new.xml", "--on", "k", code=1)
    (tmp_path / "new.parquet").write_text("no")
    assert "cannot be read" in run("upsert", "d.t", tmp_path / "new.parquet", "--on", "k", code=1)
    (tmp_path / "new.csv").write_text("k,s\nx,y\n")
    assert "cannot be read" in run("upsert", "d.t", tmp_path / "new.csv", "--on", "k", code=1)
    (tmp_path / "new.csv").write_text("k,s\n1,y\n1,y\n")
    assert "several rows of the source have one key: k=1" in run(
        "upsert", "d.t", tmp_path / "new.csv", "--on", "k", code=1
    )
    assert "does not exist" in run("upsert", "d.t", tmp_path / "none.csv", "--on", "k", code=2)
