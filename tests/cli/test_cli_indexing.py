"""`skerry index` and `skerry search`: what they do and what they say."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app
from skerry.table.indexes import following

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


def test_search_counts(table):
    assert run("search", "d.t", "line", "reset", "--count") == "2\n"
    assert run("search", "d.t", "line", "reset NOT timeout", "--count", "--where", "k < 9", "--json") == (
        '{"table": "d.t", "rows": 1}\n'
    )
    assert run("search", "d.t", "line", "nothing", "--count") == "0\n"
    assert "exclude each other" in run("search", "d.t", "line", "reset", "--count", "--follow", code=2)


def test_words_stand_out_in_a_terminal(table, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    text = "x" * 150 + " and a Timeout in the middle of a long line"
    table.append(pa.table({"k": [9], "line": [text]}))
    shown = run("search", "d.t", "line", '"connection reset" OR time*')
    assert "\x1b[1;31mtimeout\x1b[0m: \x1b[1;31mconnection reset\x1b[0m by peer" in shown
    assert "x and a \x1b[1;31mTimeout\x1b[0m in the middle of a long line" in shown
    assert "…xxx" in shown
    assert "\x1b[1;31m" not in run("search", "d.t", "line", "reset", "--json")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_search_follows(table, tmp_path, monkeypatch, is_terminal):
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    new = iter(["disk reset", None, "nothing here", "another reset"])

    def commit_instead(_seconds):
        line = next(new, "end")
        if line == "end":
            raise KeyboardInterrupt
        if line is not None:
            other = skerry.connect(tmp_path / "warehouse").load_table("d.t")
            other.append(pa.table({"k": [7], "line": [line]}))

    monkeypatch.setattr(following.time, "sleep", commit_instead)
    result = CliRunner().invoke(app, ["search", "d.t", "line", "reset", "-f", "-n", "1"])
    if is_terminal:
        assert "another \x1b[1;31mreset\x1b[0m" in result.stdout
    else:
        assert result.stdout == f"k\tline\n2\t{LINES[2]}\n7\tdisk reset\n7\tanother reset\n"
