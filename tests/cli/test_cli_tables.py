"""Tables by the command line: created, altered, renamed, dropped, replaced and compared; at any width."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli import options
from skerry.cli.app import app
from skerry.cli.wording import in_commands

UTC = dt.UTC


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    return invoke


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


@pytest.mark.parametrize("format_", ["iceberg", "paimon"])
def test_a_table_from_beginning_to_end(run, catalog, format_):
    columns = ("id bigint not null", "price decimal(10, 2)", "tags varchar[]", '"at day" date')
    said = run("create", "shop.sales", *columns, "--format", format_, "--table-property", "comment=first")
    assert said == f"shop.sales: {format_} table with 4 columns\n"
    run("create", "shop.sales", "id bigint", "--if-not-exists")
    assert "already exists" in run("create", "shop.sales", "id bigint", code=1)
    table = catalog["shop.sales"]
    assert table.schema.names == ["id", "price", "tags", "at day"]
    assert table.schema.field("price").type == pa.decimal128(10, 2)
    assert pa.types.is_list(table.schema.field("tags").type)
    assert not table.schema.field("id").nullable
    run(
        "alter",
        "shop.sales",
        "--drop",
        "tags",
        "--rename",
        "at day=day",
        "--add",
        "n int",
        "--type",
        "price=decimal(12,2)",
    )
    run("set", "shop.sales", "comment=second", "--unset", "none", code=1)
    assert run("set", "shop.sales", "comment=second") == "shop.sales: 1 properties set, 0 removed\n"
    assert table.refresh().schema.names == ["id", "price", "day", "n"]
    assert table.properties["comment"] == "second"
    run("create", "old", "--namespace")
    assert run("rename", "shop.sales", "old.sales") == "shop.sales renamed to old.sales\n"
    if format_ == "paimon":
        assert "--purge drops it with its files" in run("drop", "old.sales", code=1)
    assert run("drop", "old.sales", "--purge") == "old.sales dropped\n"
    run("drop", "old.sales", "--if-exists")
    run("drop", "old", "--namespace")
    assert catalog.list_tables() == []
    assert "old" not in catalog.list_namespaces()


def test_partitions_order_and_version(run, catalog):
    run("create", "shop.sales", "id bigint", "at timestamp", "--partition-by", "month(at)", "--format-version", "1")
    run("alter", "shop.sales", "--format-version", "2")
    run("alter", "shop.sales", "--drop-partition", "at_month", "--partition-by", "day(at)", "--sort-by", "id")
    table = catalog["shop.sales"]
    assert (table.partition_by, table.sort_by, table.format_version) == (["day(at)"], ["id asc nulls first"], 2)


def test_mistakes_of_definitions(run, tmp_path):
    assert "is not a type such as bigint" in run("create", "a.t", "id bignum", code=2)
    assert "is not a column with its type" in run("create", "a.t", "id", code=2)
    assert "or --like FILE" in run("create", "a.t", code=2)
    assert "say what to change" in run("alter", "a.t", code=2)
    assert "give properties as KEY=VALUE" in run("set", "a.t", code=2)
    assert "not both" in run("drop", "a.t", "--view", "--namespace", code=2)
    pq.write_table(pa.table({"k": [1], "s": [{"x": 1}]}), tmp_path / "rows.parquet")
    assert run("create", "a.t", "--like", tmp_path / "rows.parquet") == "a.t: iceberg table with 2 columns\n"


def test_rows_are_replaced_and_compared(run, catalog, tmp_path):
    run("create", "a.t", "k bigint", "s varchar")
    (tmp_path / "one.csv").write_text("k,s\n1,a\n2,b\n")
    (tmp_path / "two.csv").write_text("k,s\n2,c\n")
    run("append", "a.t", tmp_path / "one.csv")
    run("refs", "tag", "a.t", "before")
    assert run("overwrite", "a.t", tmp_path / "two.csv", "--where", "k = 2").startswith("a.t: 1 inserted, 1 deleted;")
    found = [json.loads(line) for line in run("changes", "a.t", "--from", "before", "--on", "k", "--json").splitlines()]
    assert [(row["k"], row["s"], row["_change_type"]) for row in found] == [
        (2, "b", "UPDATE_BEFORE"),
        (2, "c", "UPDATE_AFTER"),
    ]
    assert len(run("changes", "a.t", "-n", "1").splitlines()) == 2
    assert run("changes", "a.t", "--from", "before", "--to", "before").splitlines()[1:] == []
    (tmp_path / "bad.csv").write_text("k,s\n1,a\nx\n")
    assert "cannot be read" in run("append", "a.u", tmp_path / "bad.csv", "--create", code=1)
    assert catalog.list_tables() == ["a.t"]


def test_a_broken_table_can_be_dropped(run, catalog, tmp_path):
    for name in ("bad", "good"):
        run("create", f"a.{name}", "k bigint")
    for path in tmp_path.glob("warehouse/a/bad/metadata/*"):
        path.unlink()
    run("drop", "a.bad")
    assert catalog.list_tables() == ["a.good"]


@pytest.fixture
def wide(catalog):
    """A table with long names."""
    schema = pa.schema(
        [("identifier", pa.int64()), ("departure_time", pa.timestamp("us")), ("s", pa.list_(pa.string()))]
    )
    table = catalog.create_table("nyc_airlines.flights_of_2013", schema, partition_by=["month(departure_time)"])
    table.append(
        pa.table({"identifier": range(9), "departure_time": [dt.datetime(2013, 1, 1)] * 9, "s": [None] * 9}, schema)
    )
    table.delete("identifier = 3")
    table.create_tag("release_of_november_2026")
    return table.name


@pytest.mark.parametrize(
    "command",
    [
        ["ls"], ["show", "schema"], ["show", "snapshots"], ["show", "files"], ["show", "refs"], ["show", "properties"],
        ["stats"], ["health"], ["scan"], ["changes"], ["refs"], ["inspect", "files"], ["joinable", "identifier"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_tables_fit_in_sixty_columns(run, wide, monkeypatch, command):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    verb, *rest = command
    arguments = {"ls": [], "refs": ["ls", wide]}.get(verb, [wide, *rest])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", run(verb, *arguments))
    assert [line for line in shown.splitlines() if len(line) > 60] == []
    assert (verb == "changes") == ("_change_type" in shown)


def test_times_are_in_utc_in_and_out():
    assert options.moment_of("2026-01-02T03:00:00", "x") == dt.datetime(2026, 1, 2, 3, tzinfo=UTC)
    east = dt.timezone(dt.timedelta(hours=2))
    assert skerry.cli.display.moment(dt.datetime(2026, 1, 2, 3, tzinfo=east)) == "2026-01-02 01:00:00"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("a Paimon table is its folder: purge=True drops it", "a Paimon table is its folder: --purge drops it"),
        ("drop_table('a.t', purge=True) deletes the rest", "`skerry drop a.t --purge` deletes the rest"),
        ("rewrite it: compact(full=True)", "rewrite it: `skerry compact --all`"),
        ("as text; run analyze(full=True)", "as text; run `skerry analyze --full`"),
        (
            "needs a warehouse folder: connect('sqlite:///x', warehouse='…')",
            "needs a warehouse folder: add -p warehouse=…",
        ),
        ("table.compact()", "`skerry compact`"),
        ("catalog.relocate() or `skerry relocate`", "`skerry relocate`"),
        ("x = 'purge'", "x = 'purge'"),
    ],
)
def test_hints_are_commands_and_options(message, said):
    assert in_commands(message) == said


def test_a_warehouse_is_not_made_by_a_slip(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skerry.catalog.connection.configured_names", lambda: ["production"])
    with pytest.raises(skerry.errors.NotFoundError, match=r"did you mean 'production'.*connect\('\./productoin'\)"):
        skerry.connect("productoin")
    said = run("create", "a.t", "k bigint", "-w", "productoin", code=1)
    assert "did you mean 'production'" in said
    assert "-w ./productoin makes a folder" in said
    (tmp_path / "warehouse").mkdir()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(options.sys, "stdin", type("Terminal", (), {"isatty": staticmethod(lambda: True)})())
    asked = []

    def confirm(question, **how):
        asked.append(question)
        raise options.click.Abort

    monkeypatch.setattr(options.click, "confirm", confirm)
    with pytest.raises(options.click.Abort):
        options.open_catalog("warehuose", (), create=True)
    assert asked == ["There is no warehouse 'warehuose'; did you mean 'warehouse'?. Create it?"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["warehouse"]
    skerry.connect("./productoin")


def test_warnings_are_one_line(tmp_path):
    command = "from skerry.cli import main; main()"
    made = skerry.connect(tmp_path).create_table("a.t", pa.schema([("k", pa.int64())]))
    done = subprocess.run(
        [sys.executable, "-c", command, "set", made.name, "write.delet.mode=x", "-w", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    said = "warning: nothing obeys the table property 'write.delet.mode'; did you mean 'write.delete.mode'?\n"
    assert done.stderr == said
