"""`skerry compact`: what it does and what it says."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    catalog = skerry.connect(tmp_path / "warehouse")
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), partition_by=["truncate(10, k)"])
    for k in range(6):
        table.append(pa.table({"k": [k, 10 + k]}))

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(app, ["compact", "d.t", *arguments])
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    return invoke


def test_it_says_what_it_would_do_and_did(run, tmp_path):
    assert "12 files" in run("--dry-run")
    assert "would be rewritten, in 2 groups (2 for many small files); 0 delete files would be removed" in run(
        "--dry-run"
    )
    assert "6 files" in run("--where", "k < 10")
    done = json.loads(run("--json"))
    assert (done["table"], done["rewritten_files"], done["added_files"], done["rows"]) == ("d.t", 6, 1, 6)
    assert run() == "d.t: nothing to do\n"
    table = skerry.connect(tmp_path / "warehouse").load_table("d.t")
    assert len(table.files()) == 2
    assert table.scan().count() == 12


def test_sorting_and_mistakes(run):
    assert "(2 for asked for)" in run("--sort-by", "k desc")
    assert "no column 'q'" in run("--sort-by", "q", code=1)
    assert "Invalid value for '--min-files'" in run("--min-files", "1", code=2)
