"""`skerry sql`: statements from an option, a pipe and a prompt."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app
from skerry.cli.reading.queries import _Completer


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    made = skerry.connect(tmp_path / "warehouse")
    rows = pa.table({"id": [1, 2], "name": ["a;b", 'say "x", twice']})
    made.create_table("shop.sales", rows.schema).append(rows)
    return made


def run(*arguments, code=0, text=None):
    result = CliRunner().invoke(app, ["sql", *arguments], input=text)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_one_statement_in_the_formats_that_programs_read(catalog):
    query = "SELECT name, id FROM shop.sales ORDER BY id"
    assert run("-c", query) == 'name\tid\na;b\t1\nsay "x", twice\t2\n'
    assert run("-c", query, "--csv") == 'name,id\na;b,1\n"say ""x"", twice",2\n'
    assert [json.loads(line)["id"] for line in run("-c", query, "--json").splitlines()] == [1, 2]


def test_many_statements_from_a_pipe(catalog):
    script = (
        "UPDATE shop.sales SET name = 'c;d' WHERE id = 1; -- a comment;\nSELECT name FROM shop.sales WHERE id = 1;\n"
    )
    assert run(text=script) == "inserted_rows\tupdated_rows\tdeleted_rows\n0\t1\t0\nname\nc;d\n"
    assert "expected a query, found DELETE" in run("-c", "DELETE FROM shop.sales", "--read-only", code=1)
    assert catalog.load_table("shop.sales").scan().count() == 2
    assert "did you mean 'shop.sales'" in run("-c", "SELECT * FROM shop.sale", code=1)


def test_a_prompt_completes_and_goes_on_after_an_error(catalog, tmp_path):
    completer = _Completer(catalog)
    assert completer.choices("sho", "SELECT * FROM sho") == ["shop.sales", "show tables"]
    assert completer.choices("na", "SELECT na FROM shop.sales") == ["name"]
    assert completer.choices("SEL", "SEL") == ["SELECT"]

    outer, inner = pty.openpty()
    command = [sys.executable, "-c", "from skerry.cli.app import app; app()", "sql", "-w", str(tmp_path / "warehouse")]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment)
    os.close(inner)
    os.write(outer, b"SELECT * FROM shop.none;\nSELECT count(*) AS n\nFROM shop.sales;\n\\q\n")
    output = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(outer, 1 << 16):
            output += part
    os.close(outer)
    assert process.wait(60) == 0, output
    assert b"error: no table 'shop.none'" in output
    assert b"1 row" in output or b"2" in output.rpartition(b"FROM shop.sales;")[2]
    assert "SELECT count(*) AS n" in (tmp_path / "skerry" / "sql_history").read_text()


def test_rows_of_files_are_appended_and_updated_without_spark(catalog, tmp_path):
    (tmp_path / "more.csv").write_text("id,name,score\n3,c,1.5\n")
    source = str(tmp_path / "more.csv")

    def call(*arguments, code=0):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    assert "the table has no column 'score'" in call("append", "shop.sales", source, code=1)
    assert call("append", "shop.sales", source, "--evolve") == "shop.sales: 1 rows appended\n"
    for command in (["append", "shop.new", source], ["ingest", source, "shop.new", "--local"]):
        assert "no table 'shop.new'" in (said := call(*command, code=1))
        assert "--create creates it" in said
    assert call("append", "shop.new", source, "--create") == "shop.new: 1 rows appended\n"
    assert json.loads(call("append", "shop.new", source, "--json")) == {"table": "shop.new", "rows": 1}
    assert call("ingest", source, "shop.more", "--local", "--create") == "shop.more: 1 rows appended\n"
    call("ingest", source, "shop.parts", "--local", "--create", "--partition-by", "id")
    assert catalog.load_table("shop.parts").partition_by == ["id"]
    assert "goes without" in call("ingest", source, "shop.new", "--local", "--format", "csv", code=2)
    assert call("update", "shop.new", "--set", "score=score * 2", "--set", "name='z'", "--where", "id = 3").startswith(
        "shop.new: 2 updated"
    )
    assert catalog["shop.new"].to_arrow().to_pylist() == [{"id": 3, "name": "z", "score": 3.0}] * 2
