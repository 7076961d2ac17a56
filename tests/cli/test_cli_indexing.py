"""`skerry index` and `skerry search`: what they do and what they say."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app

LINES = ["connection reset", "GET /health", "timeout: connection reset by peer", "disk full"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    catalog = skerry.connect(tmp_path / "warehouse")
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64()), ("line", pa.string())]))
    for first in (0, 2):
        table.append(pa.table({"k": [first, first + 1], "line": LINES[first : first + 2]}))
    return table


def run(*arguments, code=0):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_index(table):
    assert run("index", "d.t") == "d.t: 0 data files indexed (0 B)\n"
    done = run("index", "d.t", "-c", "k").splitlines()
    assert done[0].startswith("d.t: 2 data files indexed (")
    assert done[1:] == ["  k (hash): 2 of 2 files"]
    done = json.loads(run("index", "d.t", "-c", "line", "--kind", "text", "--json"))
    assert (done["table"], done["files"], done["rows"]) == ("d.t", 2, 4)
    assert [(each["column"], each["kind"], each["indexed_files"]) for each in done["indexes"]] == [
        ("k", "hash", 2),
        ("line", "text", 2),
    ]
    assert "  line (text, unicode-word): 2 of 2 files" in run("index", "d.t")
    assert "no column 'lines' to index; did you mean 'line'?" in run("index", "d.t", "-c", "lines", code=1)
    assert "trie" in run("index", "d.t", "-c", "k", "--kind", "trie", code=2)


@pytest.mark.parametrize("is_indexed", [False, True])
def test_search(table, is_indexed):
    if is_indexed:
        table.create_index(["line"], kind="text")
    found = run("search", "d.t", "line", "connection reset")
    assert found == f"k\tline\n2\t{LINES[2]}\n0\t{LINES[0]}\n"
    assert run("search", "d.t", "line", "reset NOT timeout", "-c", "k") == "k\n0\n"
    assert run("search", "d.t", "line", '"connection reset"', "-n", "1", "--where", "k < 2", "--json") == (
        '{"k": 0, "line": "connection reset"}\n'
    )
    assert run("search", "d.t", "line", "nothing") == "k\tline\n"
    assert "lacks a word" in run("search", "d.t", "line", "a OR", code=1)
