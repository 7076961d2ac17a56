"""The command line: what it prints where, what it answers to mistakes, and how it ends."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click import Context
from click.testing import CliRunner

import skerry
from skerry.cli.app import app
from skerry.cli.display import count, moment, size, to_json
from skerry.cli.options import split_names
from skerry.errors import CommitUnknownError, ConflictError, UnsupportedError
from skerry.table.work.progress import Pace, show_progress
from skerry.table.work.tasks import JobProgress

SKERRY = Path(sys.executable).with_name("skerry")
UTC = datetime.UTC
TIMES = [datetime.datetime(2013, 1, 1, n % 24, tzinfo=UTC) for n in range(30)]
ROWS = pa.table(
    {
        "n": pa.array(range(30), pa.int64()),
        "carrier": [None if n == 7 else "AA" if n % 2 else "B6" for n in range(30)],
        "delay": [n / 2 for n in range(30)],
        "time": pa.array(TIMES, pa.timestamp("us", "UTC")),
        "day": pa.array([datetime.date(2013, 1, 1 + n) for n in range(30)], pa.date32()),
        "note": [
            "tab\there",
            "line\nbreak",
            "back\\slash",
            *[f"note {n} of many words, long enough to be cut" for n in range(27)],
        ],
    }
)
ODD = pa.table(
    {
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "raw": pa.array([b"\x00\xff", None], pa.binary()),
        "id": pa.array([b"\x12" * 16, None], pa.binary(16)).cast(pa.uuid()),
        "tags": pa.array([["a", "b"], None], pa.list_(pa.string())),
        "place": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
        "ratio": pa.array([float("nan"), float("inf")], pa.float64()),
        "flag": [True, None],
    }
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warehouse")
    catalog = skerry.connect(folder)
    table = catalog.create_table("nyc.flights", ROWS.schema, partition_by=["carrier"], sort_by=["n"])
    table.append(ROWS.slice(0, 20))
    table.append(ROWS.slice(20))
    catalog.create_table("nyc.empty", ROWS.schema)
    catalog.create_table("other.odd", ODD.schema, properties={"skerry.statistics.enabled": "false"}).append(ODD)
    return folder


@pytest.fixture
def run(warehouse, monkeypatch):
    """Run a command in this process; returns what it printed to standard output."""
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(warehouse))
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    return invoke


@pytest.fixture
def look(run, monkeypatch):
    """Run a command as if in a terminal of some width; colours are taken off."""

    def invoke(*arguments, width=100):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))
        return re.sub(r"\x1b\[[0-9;]*m", "", run(*arguments))

    return invoke


def lines(text):
    return [line.split("\t") for line in text.splitlines()]


# ---- ls ----


def test_ls_marks_a_table_that_cannot_be_read(tmp_path):
    catalog = skerry.connect(tmp_path)
    for name in ("bad", "good"):
        catalog.create_table(f"a.{name}", ROWS.schema)
    for path in tmp_path.glob("a/bad/metadata/*"):
        path.unlink()
    done = CliRunner().invoke(app, ["ls", "-w", str(tmp_path)])
    assert done.exit_code == 0
    _, bad, good = done.output.splitlines()
    assert bad.startswith("a.bad\t")
    assert "cannot be read: the table's metadata file is missing" in bad
    assert good.startswith("a.good\t0\t")
    listed = json.loads(CliRunner().invoke(app, ["ls", "-w", str(tmp_path), "--json"]).output)
    assert [table["rows"] for table in listed] == [None, 0]


def test_ls_names_tables_with_rows_size_and_freshness(run):
    head, empty, flights, odd = lines(run("ls"))
    assert head == ["table", "rows", "size_bytes", "files", "updated", "statistics"]
    assert empty == ["nyc.empty", "0", "", "", "", "absent"]
    assert flights[0::5] == ["nyc.flights", "fresh"]
    assert flights[1] == "30"
    assert int(flights[2]) > 1000
    assert odd[5] == "absent"
    assert [row[0] for row in lines(run("ls", "other"))] == ["table", "other.odd"]


def test_ls_as_json(run):
    records = {record["table"]: record for record in json.loads(run("ls", "--json"))}
    assert records["nyc.flights"]["rows"] == 30
    assert records["nyc.flights"]["snapshots"] == 2
    assert records["nyc.empty"]["updated"] is None


def test_ls_in_a_terminal(look):
    shown = look("ls")
    assert re.search(r"table +rows +size +files +updated +statistics", shown)
    assert re.search(r"nyc\.flights +30 +[\d.]+ kB +\d +20\d\d-\d\d-\d\d \d\d:\d\d:\d\d +fresh", shown)


def test_ls_of_an_empty_catalog(tmp_path, look):
    skerry.connect(tmp_path)
    assert "no tables in" in look("ls", "-w", str(tmp_path))


# ---- show ----


def test_show_tells_everything_about_a_table(run):
    shown = run("show", "nyc.flights")
    assert "partitions\tcarrier\n" in shown
    assert "sorted by\tn" in shown
    assert "\nrows\t30\n" in shown
    assert re.search(r"\nsize_bytes\t\d+\nfiles\t5\nupdated\t[\d-]+T[\d:.]+Z\nstatistics\t", shown)
    head, _, rest = shown.partition("\n# schema\n")
    schema, _, rest = rest.partition("\n# snapshots\n")
    snapshots, _, files = rest.partition("\n# files\n")
    assert head.startswith("table\tnyc.flights\nformat\ticeberg version 2\nlocation\tfile://")
    assert lines(schema)[1:3] == [["1", "n", "int64", "true", ""], ["2", "carrier", "string", "true", ""]]
    assert [row[2:4] for row in lines(snapshots)[1:]] == [["append", "20"], ["append", "10"]]
    assert [row[-1] for row in lines(snapshots)[1:]] == ["", "main"]
    assert len(lines(files)) == 1 + 5


def test_show_one_section(run):
    assert [row[1] for row in lines(run("show", "nyc.flights", "schema"))] == ["column", *ROWS.column_names]
    assert lines(run("show", "nyc.flights", "refs"))[1][0] == "main"
    properties = dict(lines(run("show", "other.odd", "properties")))
    assert properties["skerry.statistics.enabled"] == "false"
    files = json.loads(run("show", "nyc.flights", "files", "--json"))
    assert sum(file["rows"] for file in files) == 30
    assert all(file["file"].startswith("data/") for file in files)


def test_show_as_json(run):
    shown = json.loads(run("show", "nyc.flights", "--json"))
    assert shown["partition_by"] == ["carrier"]
    assert [snapshot["rows"] for snapshot in shown["snapshots"]] == [20, 30]
    assert shown["snapshots"][1]["refs"] == ["main"]
    assert {"schema", "files", "properties", "refs"} < set(shown)


def test_show_in_a_terminal_is_short(look):
    shown = look("show", "nyc.flights")
    assert re.search(r"partitions +carrier\n", shown)
    assert re.search(r"carrier=AA/[0-9a-f]{8}….parquet", shown)
    assert "required" not in shown  # a column without a value is left out
    assert "… " not in shown


# ---- stats ----


def test_stats_of_every_column(run):
    head, *rows = lines(run("stats", "nyc.flights"))
    assert head == ["column", "distinct", "lower", "upper", "nulls", "min", "max", "freshness"]
    found = {row[0]: row[1:] for row in rows}
    assert found["n"] == ["30", "30", "30", "0", "0", "29", "fresh"]
    assert found["carrier"] == ["2", "2", "2", "1", "AA", "B6", "fresh"]
    assert found["day"][4:6] == ["2013-01-01", "2013-01-30"]
    assert found["time"][4] == "2013-01-01T00:00:00.000000Z"
    assert lines(run("stats", "other.odd", "-c", "price"))[1][6:] == [
        "1.50",
        "absent: never sketched over all rows; run analyze",
    ]


def test_stats_of_some_columns_as_json(run):
    records = json.loads(run("stats", "nyc.flights", "-c", "n,day", "-c", "carrier", "--json"))
    assert [record["column"] for record in records] == ["n", "day", "carrier"]
    assert records[0] == {
        "column": "n", "type": "int64", "distinct": 30, "lower": 30, "upper": 30, "nulls": 0, "min": 0, "max": 29,
        "freshness": "fresh", "state": "fresh", "reason": None,
    }  # fmt: skip


def test_stats_of_a_table_that_another_engine_appended_to_say_why(tmp_path, run):
    from pyiceberg.catalog.sql import SqlCatalog

    table = skerry.connect(tmp_path).create_table("ns.t", ROWS.schema)
    table.append(ROWS)
    peer = SqlCatalog("skerry", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    peer.load_table("ns.t").append(ROWS.slice(0, 3).cast(peer.load_table("ns.t").schema().as_arrow()))
    row = lines(run("stats", "ns.t", "-c", "n", "-w", str(tmp_path)))[1]
    assert row[-1].startswith("stale: 1 snapshot by another writer since 20")
    assert lines(run("ls", "-w", str(tmp_path)))[1][-1] == "stale"


def test_stats_in_a_narrow_terminal_cut_no_number(look):
    shown = look("stats", "nyc.flights", width=40)
    assert re.search(r"distinct +nulls +freshness", shown)
    assert re.search(r"^ *n +30 +0", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("width", "left_out"), [(20, "at least, at most, min, max"), (60, "at most, min, max"), (73, ""), (200, "")]
)
def test_stats_leave_out_the_columns_that_have_no_room(look, run, tmp_path, width, left_out):
    rows = pa.table({"identifier": [1, 2], "carrier_name": ["Alaska Airlines Inc.", "Virgin America"]})
    skerry.connect(tmp_path).create_table("a.t", rows.schema).append(rows)
    shown = look("stats", "a.t", "-w", str(tmp_path), width=width)
    header, identifier = shown.splitlines()[1], shown.splitlines()[3]
    assert header.split()[-1] == "freshness"
    assert identifier.split()[-1] == "fresh"
    assert max(map(len, shown.splitlines())) <= max(width, 43)
    said = re.search(r"no room for ([\w, ]+?) \(--json has all\)", " ".join(shown.split()))
    assert (said.group(1) if said else "") == left_out
    assert width < 200 or "Alaska Airlines" in shown


# ---- scan ----


def test_scan_into_a_pipe_is_tab_separated(run):
    rows = sorted(lines(run("scan", "nyc.flights"))[1:], key=lambda row: int(row[0]))
    assert len(rows) == 30
    assert rows[0] == ["0", "B6", "0", "2013-01-01T00:00:00.000000Z", "2013-01-01", "tab\\there"]
    assert rows[1][5] == "line\\nbreak"
    assert rows[2][5] == "back\\\\slash"
    assert rows[7][1] == ""


def test_scan_filters_chooses_and_limits(run):
    assert lines(run("scan", "nyc.flights", "--where", "n >= 28 AND carrier = 'AA'", "-c", "day,n")) == [
        ["day", "n"],
        ["2013-01-30", "29"],
    ]
    assert len(lines(run("scan", "nyc.flights", "-n", "5"))) == 6
    assert run("scan", "nyc.flights", "--count") == "30\n"
    assert json.loads(run("scan", "nyc.flights", "--where", "delay < 1", "--count", "--json")) == {"rows": 2}


def test_scan_of_an_earlier_state(run, warehouse):
    first, second = skerry.connect(warehouse).load_table("nyc.flights").snapshots()
    assert run("scan", "nyc.flights", "--count", "--snapshot", str(first.snapshot_id)) == "20\n"
    assert run("scan", "nyc.flights", "--count", "--ref", "main") == "30\n"
    later = (second.timestamp + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S")
    assert run("scan", "nyc.flights", "--count", "--as-of", later) == "30\n"
    assert "no snapshot was current at 2000-01-01" in run("scan", "nyc.flights", "--as-of", "2000-01-01", code=1)


def test_scan_as_json_has_one_object_per_line(run):
    rows = [json.loads(line) for line in run("scan", "other.odd", "--json").splitlines()]
    assert rows == [
        {
            "price": "1.50", "raw": "00ff", "id": "12121212-1212-1212-1212-121212121212", "tags": ["a", "b"],
            "place": {"x": 1}, "ratio": None, "flag": True,
        },
        {"price": None, "raw": None, "id": None, "tags": None, "place": None, "ratio": None, "flag": None},
    ]  # fmt: skip


def test_scan_of_odd_types_into_a_pipe(run):
    first, second = lines(run("scan", "other.odd"))[1:]
    assert first == ["1.50", "00ff", "12121212-1212-1212-1212-121212121212", '["a", "b"]', '{"x": 1}', "nan", "true"]
    assert second == ["", "", "", "", "", "inf", ""]


def test_scan_in_a_terminal_shows_some_rows_and_the_columns_that_fit(look):
    shown = look("scan", "nyc.flights", width=60)
    assert len(re.findall(r"^ *\d+ +(?:AA|B6|null)", shown, re.MULTILINE)) == 20
    assert "first 20 rows; --limit or a pipe gives more" in shown
    assert "2 of 6 columns hidden; choose with --columns" in shown
    assert max(len(line) for line in shown.splitlines()) <= 60
    whole = look("scan", "nyc.flights", "-n", "2", "-c", "note,n", width=200)
    assert "note 17 of many words, long enough to b…" in whole or "…" in whole
    assert "hidden" not in whole


def test_scan_explained(run, look):
    funnel = json.loads(run("scan", "nyc.flights", "--where", "carrier = 'AA'", "--explain", "--json"))
    assert funnel["where"] == "\"carrier\" = 'AA'"
    assert [step["kept"] for step in funnel["steps"]] == [2, 2, 2]
    assert funnel["steps"][1]["dropped"] == [{"reason": "partition without \"carrier\" = 'AA'", "count": 3}]
    assert "files by partition             2 of       5" in look(
        "scan", "nyc.flights", "--where", "carrier = 'AA'", "--explain"
    )


# ---- mistakes ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nyc.flight"], "error: no table 'nyc.flight'; did you mean 'nyc.flights'?\n"),
        (["stats", "nyc.flights", "-c", "carier"], "error: no primitive column 'carier'; did you mean 'carrier'?\n"),
        (["scan", "nyc.flights", "-c", "dealy"], "error: no column 'dealy'; did you mean 'delay'?\n"),
        (
            ["scan", "nyc.flights", "--where", "n > 3 and\n dealy > 1"],
            "error: no column 'dealy'; did you mean 'delay'? (character 12 of: n > 3 and dealy > 1)\n",
        ),
        (
            ["scan", "nyc.flights", "--ref", "mian"],
            "error: no branch or tag 'mian'; did you mean 'main'? (in nyc.flights)\n",
        ),
        (["ls", "nyk"], "error: no namespace 'nyk'; did you mean 'nyc'?\n"),
        (["show", "flights"], "error: a table name must have the form namespace.table, found 'flights'\n"),
    ],
)
def test_mistakes_are_answered_in_one_line_with_the_nearest_name(run, arguments, message):
    assert run(*arguments, code=1) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sho", "nyc.flights"], "Did you mean 'show'?"),
        (["scan", "nyc.flights", "--wher", "n > 1"], "--where"),
        (["show", "nyc.flights", "snapshot"], "'snapshots'"),
        (["scan"], "Missing argument"),
        (["scan", "nyc.flights", "-n", "-1"], "--limit"),
        (["scan", "nyc.flights", "--as-of", "yesterday"], "'yesterday' is neither a time"),
        (["ls", "-p", "s3.endpoint"], "'s3.endpoint' is not of the form KEY=VALUE"),
        (["ingest", "a.csv", "ns.t", "--partition-by", "day"], "needs --create"),
    ],
)
def test_wrong_usage_is_explained_and_ends_with_2(run, arguments, message):
    assert message in run(*arguments, code=2)


def test_a_warehouse_that_is_not_there_is_not_created(run, tmp_path):
    missing = tmp_path / "none"
    assert (
        run("ls", "-w", str(missing), code=1)
        == f"error: no warehouse at {missing}: it has no catalog.db; name one with -w or SKERRY_WAREHOUSE\n"
    )
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert "(--create creates it)" in run("ingest", str(tmp_path / "a.csv"), "ns.t", "-w", str(missing), code=1)
    assert not missing.exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [(UnsupportedError("x"), 1), (ConflictError("x"), 3), (CommitUnknownError("x"), 4), (KeyError("x"), 1)],
)
def test_exit_codes_tell_what_the_caller_can_do(run, monkeypatch, error, code):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("skerry.catalog.connect", fail)
    printed = run("ls", code=code)
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
    assert "Traceback" not in printed


# ---- the process ----


def test_the_command_in_a_process_of_its_own(warehouse):
    def skerry_(*arguments):
        return subprocess.run([SKERRY, *arguments], capture_output=True, text=True, check=False, env=environment)

    environment = {**os.environ, "SKERRY_WAREHOUSE": str(warehouse)}
    done = skerry_("scan", "nyc.flights", "--count")
    assert (done.returncode, done.stdout, done.stderr) == (0, "30\n", "")
    failed = skerry_("--debug", "show", "nyc.flight")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("Traceback")
    assert failed.stderr.endswith("\nerror: no table 'nyc.flight'; did you mean 'nyc.flights'?\n")
    assert skerry_("scan").returncode == 2
    assert skerry_("--version").stdout == f"skerry {skerry.__version__}\n"


def test_a_terminal_gets_the_place_of_an_error_in_the_catalogue(warehouse):
    outer, inner = os.openpty()
    done = subprocess.run([SKERRY, "show", "nyc.flight", "-w", warehouse], stderr=inner, check=False)
    os.close(inner)
    said = b"".join(iter(lambda: _read_terminal(outer), b"")).decode()
    os.close(outer)
    assert done.returncode == 1
    assert "docs/errors.md#notfounderror" in said.splitlines()[1]


def test_a_reader_that_stops_early_is_no_error(warehouse):
    command = f"{SKERRY} scan nyc.flights -w {warehouse} --json | head -n 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert json.loads(result.stdout)["carrier"] in ("AA", "B6", None)
    assert result.returncode in (0, 141)  # 30 rows may all have been written before the reader left
    assert result.stderr == ""


def test_help_loads_nothing_heavy():
    script = (
        "import sys; from skerry.cli.app import app; app(['--help'], standalone_mode=False); "
        "print([name for name in ('pyarrow', 'numpy', 'pyiceberg', 'numba', 'pyspark') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
    for command in app.list_commands(Context(app)):
        assert result.stdout.count(f"\n  {command} ") == 1
    assert "..." not in result.stdout.partition("Options:")[2]  # no summary is cut


def test_stats_load_neither_numba_nor_spark(warehouse):
    script = (
        "import sys; from skerry.cli.app import app; "
        f"app(['stats', 'nyc.flights', '-w', {str(warehouse)!r}], standalone_mode=False); "
        "print([name for name in ('numba', 'pyspark', 'duckdb', 'polars') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("skerry show nyc", "plain,nyc.flights"),
        ("skerry scan nyc.fli", "plain,nyc.flights"),
        ("skerry refs fast", "plain,fast-forward"),
        ("skerry inspect ./some", "file,./some"),
    ],
)
def test_the_shell_completes_names_of_tables_commands_and_files(warehouse, words, completed):
    environment = {
        **os.environ,
        "SKERRY_WAREHOUSE": str(warehouse),
        "_SKERRY_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": "2",
    }
    result = subprocess.run([SKERRY], capture_output=True, text=True, check=False, env=environment)
    assert completed in result.stdout.split()


def test_an_output_that_cannot_be_written_is_called_so(warehouse):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [SKERRY, "ls", "-w", warehouse], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "error: the output cannot be written: No space left on device\n")


def test_characters_that_the_output_lacks_are_replaced(warehouse):
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    query = "SELECT * FROM nyc.flights f, nyc.flights g WHERE f.carrier = g.carrier"
    command = [SKERRY, "explain", "-w", warehouse, query]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


# ---- parts ----


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_449, "99.4 kB"),
        (123_456, "123 kB"),
        (5_470_371, "5.5 MB"),
        (10**15, "1000 TB"),
    ],
)
def test_sizes(value, shown):
    assert size(value) == shown


def test_numbers_moments_and_names():
    assert (count(1234567), count(None)) == ("1,234,567", "")
    assert moment(None) == ""
    assert split_names(["a,b", 'c,"x,y"', "s.t"]) == ["a", "b", "c", "x,y", "s.t"]
    assert to_json({"t": datetime.time(1, 2), "x": [float("inf"), 1.5]}) == '{"t": "01:02:00", "x": [null, 1.5]}'


def test_the_pace_of_a_job_is_counted_per_step():
    now = [0.0]
    pace = Pace(lambda: now[0])
    assert pace.describe(JobProgress("write")) == ""
    now[0] = 2.0
    assert (
        pace.describe(JobProgress("write", done_rows=1_000_000, done_bytes=8_000_000))
        == "1,000,000 rows (500,000/s), 8.0 MB (4.0 MB/s)"
    )
    now[0] = 10.0
    pace.describe(JobProgress("sketch", total_files=8))
    now[0] = 12.0
    assert pace.describe(JobProgress("sketch", 3, 8, 300, 0)) == "300 rows (150/s), 3 of 8 files, about 3 s left"
    now[0] = 310.0
    assert pace.describe(JobProgress("sketch", 4, 8)) == "4 of 8 files, about 5 min left"
    assert pace.describe(JobProgress("sketch", 8, 8)) == "8 of 8 files"


def test_progress_is_shown_only_in_a_terminal():
    with show_progress("start") as progress:
        assert progress is None


def _read_terminal(master):
    """What is there to read; nothing when the other side is closed, which Linux says by an error."""
    try:
        return os.read(master, 100_000)
    except OSError:
        return b""


def test_progress_in_a_terminal():
    import pty

    script = (
        "from skerry.table.work.progress import show_progress; from skerry.table.work.tasks import JobProgress\n"
        "with show_progress('start') as watch:\n"
        "    watch(JobProgress('write', 1, 4, 5000, 10_000_000))\n"
        "print('done')"
    )
    master, slave = pty.openpty()
    result = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=slave, text=True, check=True)
    os.close(slave)
    shown = b"".join(iter(lambda: _read_terminal(master), b"")).decode()
    os.close(master)
    assert result.stdout == "done\n"
    assert "5,000 rows" in shown
    assert "1 of 4 files" in shown
