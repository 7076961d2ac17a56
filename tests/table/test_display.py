"""What a notebook shows: tables, statistics, plans and results as HTML, in which names are text."""

from __future__ import annotations

import datetime
from html.parser import HTMLParser

import pyarrow as pa
import pytest

import skerry

HOSTILE = "<script>alert('x')</script>"


class Shape(HTMLParser):
    """The elements and the text of a fragment; every element is closed."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += f"{data}\n"


@pytest.fixture(scope="module", params=["iceberg", "paimon"])
def table(request, tmp_path_factory):
    rows = pa.table({"id": range(100), HOSTILE: ["a", None] * 50, "at": [datetime.datetime(2026, 1, 1)] * 100})
    catalog = skerry.connect(tmp_path_factory.mktemp("display"))
    table = catalog.create_table("a.t", rows.schema, format=request.param)
    table.append(rows)
    table.append(rows)
    return table


def shape(shown: object) -> Shape:
    found = Shape(shown._repr_html_())
    assert "script" not in found.tags
    return found


def test_a_table_shows_its_columns(table):
    found = shape(table)
    assert {"a.t", HOSTILE, "200", "int64"} <= set(found.text.splitlines())


def test_statistics_show_counts_bounds_and_freshness(table):
    known = table.statistics()
    found = shape(known)
    assert found.tags.count("tr") == 4
    assert {"100", "fresh"} <= set(found.text.splitlines())
    assert repr(known).splitlines()[1].split() == ["id", "100", "100", "100", "0", "fresh"]
    rows = known.to_arrow().to_pylist()
    assert [row["column"] for row in rows] == ["id", HOSTILE, "at"]
    assert (rows[0]["ndv"], rows[0]["min"], rows[0]["max"], rows[0]["freshness"]) == (100, "0", "99", "fresh")
    assert known.to_pandas().shape == (3, 9)
    with pytest.raises(KeyError, match="did you mean 'id'"):
        known["idd"]


def test_a_plan_shows_its_steps_and_reasons(table):
    scan = table.scan(where="id > 1000")
    found = shape(scan)
    assert found.tags == shape(scan.explain()).tags
    assert repr(scan.explain()).startswith("scan of a.t, snapshot ")
    assert any("id" in line and "1000" in line for line in found.text.splitlines())
    assert found.tags.count("tr") == 1 + len(scan.explain().plan.steps)


def test_lists_of_records_are_tables(table):
    snapshots = table.snapshots()
    assert snapshots == list(snapshots)
    assert shape(snapshots).tags.count("tr") == 3
    assert str(snapshots[0].snapshot_id) in shape(snapshots).text
    assert shape(table.health(orphans=False)).tags.count("tr") == 1 + len(table.health(orphans=False))
    assert "snapshot id" in shape(snapshots[0]).text
    assert "main" in shape(table.refs()["main"]).text
    header, first, second = repr(snapshots).splitlines()
    assert header.split() == ["snapshot", "committed", "operation", "rows", "statistics"]
    assert first.split()[::3] == [str(snapshots[0].snapshot_id), "append"]
    assert "200" in second.split()
    assert repr(table.health(orphans=False)).startswith("small_files: 0 of 2 data files")
    assert repr(table.indexes()) == "[]"
    none = type(snapshots)([], repr)
    assert repr(none) == "[]"
    assert "Snapshots (0)" in shape(none).text


def test_results_and_catalogs_are_shown(table):
    assert "rewritten files" in shape(table.compact(dry_run=True)).text
    assert "snapshot ids" not in shape(table.expire_snapshots(dry_run=True)).text.replace("snapshot ids\n0", "")
    assert "a" in shape(table.catalog).text.splitlines()
    assert repr(table.inspect).startswith("metadata tables: snapshots, history")


def test_joins_show_themselves(table):
    joinable = table.catalog.joinable("a.t", "id")
    assert "compared with 0 columns" in shape(joinable).text
    assert repr(joinable) == "column  distinct  has of this column  of it in this column"
    table.catalog.create_table("a.u", pa.schema([("id", pa.int64())]), if_not_exists=True).append({"id": range(50)})
    assert repr(table.catalog.joinable("a.t", "id")).splitlines()[1].split() == ["a.u", "id", "50", "50.0%", "100.0%"]
    plan = table.catalog.explain("SELECT 1 FROM a.t JOIN a.u ON t.id = u.id WHERE t.id < 7")
    found = shape(plan)
    assert found.tags.count("table") == 2
    assert "u.id = t.id" in found.text
    assert repr(plan) == str(plan)


def test_wide_tables_are_cut(tmp_path):
    schema = pa.schema([(f"c{number}", pa.int32()) for number in range(1000)])
    wide = skerry.connect(tmp_path).create_table("a.wide", schema)
    assert "and 900 more columns" in shape(wide).text
    assert len(wide._repr_html_()) < 30_000
    assert shape(wide.statistics()).tags.count("tr") == 101
