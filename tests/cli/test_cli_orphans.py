"""`skerry remove-orphans`: what it does and what it says."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    table = skerry.connect(tmp_path / "warehouse").create_table("d.t", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1, 2]}))
    return table


@pytest.fixture
def orphan(table, tmp_path):
    path = tmp_path / "warehouse" / "d" / "t" / "data" / "dead.parquet"
    path.write_bytes(b"12345")
    os.utime(path, (0, 0))
    return path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["remove-orphans", "d.t", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_it_says_what_it_would_do_and_did(table, orphan, tmp_path):
    told = run("--dry-run").splitlines()
    assert told == [f"file://{orphan}\t5", told[-1]]
    assert told[-1].startswith("d.t: 1 of ")
    assert told[-1].endswith("files (5 B) would be deleted")
    marked = json.loads(run("--dry-run", "--json", "--log", str(tmp_path / "log")))
    assert (marked["files"][0]["size_bytes"], marked["files"][0]["modified"][:4]) == (5, "1970")
    assert orphan.exists()
    done = run("--marked", marked["logs"][0])
    assert "(5 B) deleted" in done
    assert not orphan.exists()
    assert json.loads(run("--json"))["files"] == []
    assert table.scan().count() == 2


def test_what_stays_is_told(table, orphan, tmp_path):
    inner = orphan.parent / "inner" / "metadata"
    inner.mkdir(parents=True)
    (inner / "v1.metadata.json").write_text("{}")
    assert f"other tables inside: file://{inner.parent}" in run()


def test_mistakes(table):
    assert "Invalid value for '--older-than-days'" in run("--older-than-days", "-1", code=2)
    assert "does not exist" in run("--marked", "/no/such", code=1)
