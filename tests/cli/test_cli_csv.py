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
        (b"a\n1\n", ("-o", "sep=§"), "option 'sep' is '§', expected one character of ASCII"),
        (b"a\n1\n", ("-o", "decimal=٫"), "option 'decimal' is '٫', expected one character"),
        (b"a\n1\n", ("-o", "dateFormat=dd.QQ"), "'dd.QQ' is not a pattern such as dd.MM.yyyy"),
        (b"a,day\n1,31.12.24\n", ("-o", "dateFormat=dd.MM.yy"), "'yy' is unknown"),
        (b"a,day\n1,5 Jan 2024\n", ("-o", "dateFormat=d MMM yyyy"), "'MMM' is unknown"),
        (b"a,day\r1,someday\r", (), "column 'day' of line 2 has 'someday', expected date32[day]"),
        (b"a,day\n1,2024-01-05T10:00\n", ("-o", "dateFormat=dd.MM.yyyy"), "column 'day' has a time of day"),
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


def test_files_of_a_folder_have_the_columns_of_the_first(run, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.csv").write_text("a;b\n1;2\n")
    (folder / "b.csv").write_text("b;a\n3;4\n")
    (folder / "c.csv").write_text("a\n5\n")
    run("append", "d.t", "files", "--create")
    assert rows_of("d.t").to_pylist() == [{"a": 1, "b": 2}, {"a": 4, "b": 3}, {"a": 5, "b": None}]
    (folder / "d.csv").write_text("a,b\n6,7\n")
    assert "'d.csv' has the column 'a,b', which 'a.csv' lacks; fields are taken to end at ';'" in run(
        "append", "d.t", "files", code=1
    )
    (folder / "d.csv").write_text("a;c\n6;7\n")
    assert "'d.csv' has the column 'c', which 'a.csv' lacks" in run("append", "d.u", "files", "--create", code=1)
    assert rows_of("d.t").num_rows == 3


def test_dates_that_are_written_with_times(run, tmp_path):
    run("create", "d.t", "a bigint", "day date")
    (tmp_path / "a.csv").write_text("a,day\n1,31.12.2024 10:11\n2,05.01.69 00:00\n")
    run("append", "d.t", "a.csv", "-o", "dateFormat=dd.MM.yyyy HH:mm", "-o", "timestampFormat=%d.%m.%y %H:%M")
    (tmp_path / "a.csv").write_text("a,day\n3,5 Jan 68\n")
    run("append", "d.t", "a.csv", "-o", "dateFormat=%d %b %y")
    assert sorted(rows_of("d.t")["day"].to_pylist()) == [
        dt.date(1969, 1, 5),
        dt.date(2024, 12, 31),
        dt.date(2068, 1, 5),
    ]
