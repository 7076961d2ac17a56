"""CSV files as people have them: the separator is found, options tell the rest, and errors name the place."""

from __future__ import annotations

import datetime as dt
import gzip

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app

GERMAN = "näme;price;day;at;note\nJosé;2,5;01.02.2024;31.12.2024 10:11;k.A.\nx;;k.A.;;y\n"
OPTIONS = (
    *("-o", "decimal=,", "-o", "nullValue=k.A.", "-o", "encoding=latin1"),
    *("-o", "dateFormat=dd.MM.yyyy", "-o", "timestampFormat=%d.%m.%Y %H:%M"),
)
ROWS = [
    {
        "näme": "José",
        "price": 2.5,
        "day": dt.date(2024, 2, 1),
        "at": dt.datetime(2024, 12, 31, 10, 11),
        "note": None,
    },
    {"näme": "x", "price": None, "day": None, "at": None, "note": "y"},
]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    return invoke


def rows_of(name):
    return skerry.connect("warehouse").load_table(name).to_arrow()


def test_how_a_file_is_written_is_told_by_options(run, tmp_path):
    (tmp_path / "a.csv").write_bytes(GERMAN.encode("latin1"))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(GERMAN.encode("latin1")))
    run("append", "d.t", "a.csv", "--create", *OPTIONS)
    run("append", "d.t", "b.csv.gz", *OPTIONS)
    run("ingest", "b.csv.gz", "d.u", "--local", "--create", *OPTIONS)
    assert rows_of("d.t").to_pylist() == 2 * ROWS
    assert rows_of("d.u").to_pylist() == ROWS
    assert rows_of("d.t").schema.field("day").type == pa.date32()
    run("overwrite", "d.t", "a.csv", *OPTIONS)
    run("upsert", "d.t", "a.csv", "--on", "näme", *OPTIONS)
    assert sorted(rows_of("d.t").to_pylist(), key=str) == sorted(ROWS, key=str)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_first_line_tells_the_separator(run, tmp_path, separator):
    (tmp_path / "a.csv").write_text(f'"a,;b"{separator}c\n1{separator}2\n')
    run("append", "d.t", "a.csv", "--create")
    assert rows_of("d.t").to_pylist() == [{"a,;b": 1, "c": 2}]


def test_one_column_and_another_separator(run, tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    run("append", "d.t", "a.csv", "--create", "-o", "sep=,")
    assert rows_of("d.t").to_pylist() == [{"a;b": "1;2"}]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"a,day\n1,2024-01-05\n2,someday\n", (), "column 'day' of line 3 has 'someday', expected date32[day]"),
        (b"a,b\n1,2\n3\n", (), "Row #3: Expected 2 columns, got 1"),
        (b"a,a\n1,2\n", (), "'a.csv' cannot be read: CSV file contained multiple columns named a"),
        (b"a,caf\xe9\n1,2\n", (), "not encoded as utf8"),
        (b"c,b\nJos\xe9,2\n", (), "-o encoding=cp1252"),
        (b"a\n1\n", ("-o", "seperator=;"), "no option 'seperator' of CSV files; there are sep, decimal"),
        (b"a\n1\n", ("-o", "sep=;;"), "option 'sep' is ';;', expected one character"),
        (b"a\n1\n", ("-o", "encoding=klingon"), "option 'encoding' is 'klingon'"),
        (b"a\n1\n", ("-o", "dateFormat=dd.QQ"), "'dd.QQ' is not a pattern such as dd.MM.yyyy"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(run, tmp_path, content, options, message):
    run("create", "d.t", "a bigint", "day date")
    (tmp_path / "a.csv").write_bytes(content)
    assert message in run("append", "d.t", "a.csv", *options, code=1)
    assert run("scan", "d.t", "--count") == "0\n"


def test_options_are_for_csv_files(run, tmp_path):
    (tmp_path / "a.json").write_text('{"a": 1}\n')
    assert "options are of CSV files" in run("append", "d.t", "a.json", "--create", "-o", "sep=;", code=1)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"a": 1}\n'))
    run("append", "d.t", "a.json.gz", "--create")
    assert rows_of("d.t").to_pylist() == [{"a": 1}]
