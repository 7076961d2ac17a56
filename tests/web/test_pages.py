"""The pages of tables and files of both formats, and their JSON twins."""

from __future__ import annotations

import datetime
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from pages import Client

import skerry
from skerry.table.statistics.freshness import FRESH
from skerry.table.statistics.histogram import Histogram
from skerry.table.work.heartbeats import heartbeat, running_jobs
from skerry.table.work.tasks import JobProgress
from skerry.web import open_source
from skerry.web.app import application
from skerry.web.distribution import distribution_of

HOSTILE = '<script>alert("x")</script>'
TABLES = ("shop.orders", "shop.stock", "shop.shards", "shop.empty")
SCREENS = ("/table", "/statistics", "/plan", "/history", "/files", "/streams")


class Page(HTMLParser):
    """What a browser would see: scripts, links, handlers, and whether elements are closed."""

    VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[dict[str, str | None]] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "script":
            self.scripts.append(given)
        self.handlers += [name for name in given if name.startswith("on") or name == "style"]
        self.links += [given[name] or "" for name in ("href", "src", "action", "data-load") if name in given]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(text: str) -> Page:
    page = Page(text)
    assert page.scripts == [{"src": "/assets/skerry.js", "defer": None}]
    assert not page.handlers
    assert all(link.startswith(("/", "#content")) and not link.startswith("//") for link in page.links)
    return page


def test_the_catalog_lists_tables_and_their_state(client):
    answer = client.get("/")
    assert answer.status == 200
    check(answer.text)
    found = client.get("/catalog.json").json
    assert [line["table"] for line in found["tables"]] == sorted(TABLES)
    orders = next(line for line in found["tables"] if line["table"] == "shop.orders")
    assert (orders["rows"], orders["snapshots"]) == (1008, 3)


def test_search_finds_names(client):
    assert [line["table"] for line in client.get("/catalog.json", q="SHARD").json["tables"]] == ["shop.shards"]
    assert "no table has this in its name" in client.get("/", q=HOSTILE).text


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("screen", SCREENS)
def test_every_screen_shows_every_table(client, screen, table):
    answer = client.get(screen, t=table)
    assert answer.status == 200
    check(answer.text)
    assert HOSTILE not in answer.text
    twin = client.get(f"{screen}.json", t=table)
    assert (twin.status, twin.headers["content-type"]) == (200, "application/json")
    assert twin.json == client.get(screen, t=table, headers={"accept": "application/json"}).json


def test_hostile_names_are_text(client):
    page = client.get("/table", t="shop.orders").text
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;" in page
    missing = client.get("/table", t=HOSTILE)
    assert missing.status == 400  # not a name that a table can have
    check(missing.text)
    assert HOSTILE not in missing.text
    assert "docs/errors.md#" in missing.text


def test_files_add_up_to_the_table(client):
    found = client.get("/files.json", t="shop.orders").json
    assert found["rows"] == 1008
    assert found["data_files"] == len(found["files"]) == sum(number for _, number in found["sizes"])
    assert found["size_bytes"] == sum(line["size_bytes"] for line in found["files"])
    assert sum(line["rows"] for line in found["partitions"]) == 1008
    assert len(found["partitions"]) == found["partition_count"] == 3
    one = client.get("/files.json", t="shop.orders", partition="day=1").json
    assert {line["partition"] for line in one["files"]} == {"day=1"}


@pytest.mark.parametrize("format_", ["iceberg", "paimon"])
def test_files_overlap_as_their_bounds_say(tmp_path, format_):
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64()))])
    table = skerry.connect(tmp_path).create_table("a.t", schema, format=format_)
    for first in (0, 5, 10, 100):  # the first three overlap by a half
        table.append(pa.table({"k": range(first, first + 10), "s": ["x"] * 10}))
    client = Client(application(open_source(str(tmp_path), {})))
    found = client.get("/files.json", t="a.t", column="k").json["overlap"]
    assert (found["files"], found["without"], found["mean_files"], found["most_files"]) == (4, 0, 1.5, 2)
    assert len(found["ranges"]) == 4
    assert found["ranges"][0][0] == 0
    assert found["ranges"][-1][1] == 1
    assert client.get("/files.json", t="a.t", column="s").json["overlap"]["mean_files"] == 4
    assert client.get("/files.json", t="a.t").json["overlap"] is None
    page = client.get("/files", t="a.t", column="k").text
    check(page)
    assert "A value is in 1.5 files on average, in 2 at most, of 4." in page
    for column in ("l", "<none>"):
        assert client.get("/files.json", t="a.t", column=column).json["overlap"]["problem"]
        check(client.get("/files", t="a.t", column=column).text)


def test_a_table_without_its_files_shows_why_and_the_rest(tmp_path):
    table = skerry.connect(tmp_path).create_table("a.t", pa.schema([("a", "int64")]))
    table.append([{"a": 1}])
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    client = Client(application(open_source(str(tmp_path), {})))
    page = client.get("/table", t="a.t")
    assert page.status == 200
    check(page.text)
    assert "cannot be read: " in page.text
    found = client.get("/table.json", t="a.t").json
    assert (found["head"]["rows"], found["sample"]) == (1, [])
    assert ".parquet" in found["sample_problem"]


def test_a_broken_table_hides_no_other(tmp_path):
    catalog = skerry.connect(tmp_path)
    schema = pa.schema([("a", "int64")])
    for name in ("a.good", "a.bad"):
        catalog.create_table(name, schema)
    broken = catalog.load_table("a.bad").metadata_location.removeprefix("file://")
    Path(broken).write_text("{")
    client = Client(application(open_source(str(tmp_path), {})))
    lines = client.get("/catalog.json").json["tables"]
    assert [bool(line["problem"]) for line in lines] == [True, False]
    assert client.get("/").status == 200
    assert client.get("/table", t="a.bad").status == 400


def test_only_files_of_the_table_are_opened(client, tmp_path):
    for path in ("/etc/passwd", "../../../etc/passwd", "data/../../../../etc/passwd", "file:///etc/passwd", "", "."):
        answer = client.get("/file", t="shop.orders", path=path)
        assert answer.status in (400, 404), path
        assert "root:" not in answer.text


@pytest.mark.parametrize("parameter", ["-1", "x", "1" * 30, "٣"])
def test_wrong_numbers_are_named(client, parameter):
    assert client.get("/files", t="shop.orders", page=parameter).status == 404
    path = client.get("/files.json", t="shop.orders").json["files"][0]["path"]
    assert client.get("/file", t="shop.orders", path=path, at=parameter).status == 404


def test_a_file_opens_down_to_its_bytes(client):
    path = client.get("/files.json", t="shop.orders").json["files"][0]["path"]
    tree = client.get("/file.json", t="shop.orders", path=path).json["part"]
    assert [part["kind"] for part in tree["children"]] == ["magic", "row group", "footer", "trailer"]
    assert tree["children"][1]["children"][0]["name"] == "id"
    check(client.get("/file", t="shop.orders", path=path).text)
    chunk = client.get("/file.json", t="shop.orders", path=path, at="1.0").json
    assert [each["kind"] for each in chunk["way"]] == ["Parquet file", "row group"]
    pages = chunk["part"]["children"]
    assert sum(page["values"] for page in pages if page["kind"] == "data page") == chunk["part"]["values"]
    leaf = client.get("/file.json", t="shop.orders", path=path, at="0").json
    assert bytes.fromhex(leaf["bytes"]) == b"PAR1"
    assert "50 41 52 31" in client.get("/file", t="shop.orders", path=path, at="0").text


def test_a_table_by_its_folder_and_a_file_alone_are_served(warehouse, client):
    folder = warehouse / "shop" / "orders"
    alone = Client(application(open_source(str(folder), {})))
    lines = alone.get("/catalog.json").json["tables"]
    assert len(lines) == 1
    assert alone.get("/table", t=lines[0]["table"]).status == 200
    assert alone.get("/table", t="other").status == 404
    file = next(folder.rglob("*.parquet"))
    one = Client(application(open_source(str(file), {})))
    assert one.get("/").status == 200
    assert one.get("/file.json").json["file"].endswith(file.name)
    assert one.get("/file.json", path="/etc/passwd").json["file"].endswith(file.name)


def test_a_plan_says_what_is_read_and_why_not_the_rest(client):
    found = client.get("/plan.json", t="shop.orders", where="day = 1 and id < 100", count="yes").json
    assert found["rows"] == 36  # ids up to 9 are there twice
    assert (found["files"], found["total_rows"]) == (found["steps"][1]["kept"], 1008)
    assert any("day" in reason for step in found["steps"] for reason, _ in step["dropped"])
    assert [line["path"] for line in found["read"]]
    wrong = client.get("/plan", t="shop.orders", where="day + 1 <")
    assert wrong.status == 200
    assert 'class="problem"' in wrong.text
    check(wrong.text)


@pytest.mark.parametrize("table", ["shop.orders", "shop.stock", "shop.shards"])
def test_a_plan_lists_the_files_of_each_format(client, table):
    found = client.get("/plan.json", t=table).json
    assert len(found["read"]) == found["files"] == found["total_files"]
    for line in found["read"]:
        assert client.get("/file", t=table, path=line["path"]).status == 200


def test_statistics_say_how_certain_and_how_fresh_they_are(client):
    found = client.get("/statistics.json", t="shop.orders").json
    by_name = {line["column"]: line for line in found["columns"]}
    assert by_name["day"]["lower"] == by_name["day"]["ndv"] == by_name["day"]["upper"] == 3
    assert by_name["id"]["freshness"] == "fresh"
    some = client.get("/statistics.json", t="shop.orders", where="day = 2").json
    assert {line["column"]: line["ndv"] for line in some["columns"]}["day"] == 1
    assert client.get("/statistics.json", t="shop.orders", where="nothing = 2").json["problem"]


def test_a_column_is_told_by_snapshot_partition_and_partner(client):
    found = client.get("/statistics.json", t="shop.orders", column="id").json
    assert [line["partition"] for line in found["partitions"]] == ["day=0", "day=1", "day=2"]
    assert sum(line["ndv"] for line in found["partitions"]) == pytest.approx(999)
    assert [past["ndv"] for past in found["past"]][-1] == 999  # entries that nothing needs are dropped
    assert "shop.shards" in {line["table"] for line in found["joinable"]}
    page = client.get("/statistics", t="shop.orders", column="id").text
    check(page)
    assert "columns that can be joined with id" in page
    assert page.count("stroke-width=") == len(found["joinable"])


@pytest.mark.parametrize(("screen", "given"), [("/statistics", {}), ("/plan", {"where": "id > 990"}), ("/files", {})])
@pytest.mark.parametrize("table", ["shop.orders", "shop.stock"])
def test_what_takes_long_of_many_files_follows(source, monkeypatch, table, screen, given):
    monkeypatch.setattr("skerry.web.later._MANY_FILES", 0)
    client = Client(application(replace(source, _remembered={})))  # nobody has looked before
    first = client.get(screen, t=table, **given).text
    assert re.search(r"The metadata of \d files is being read", first)
    assert "<table" not in first
    (rest,) = [link for link in check(first).links if link.startswith(f"{screen}/rest?")]
    assert f'href="{screen}?t={table}' in first  # for those without scripts
    assert "<table" in client.get(screen, t=table, **given, **{"at-once": "yes"}).text
    part = client.get(rest).text
    assert "<table" in part
    assert f"{screen}/rest" not in part
    whole = client.get(screen, t=table, **given).text
    assert part in whole
    assert "being read" not in whole
    assert client.get(f"{screen}.json", t=table, **given).json


def test_a_fragment_says_what_is_wrong(client):
    assert "no column" in client.get("/plan/rest", t="shop.orders", where="nothing = 1").text
    answer = client.get("/statistics/rest", t="shop.nothing").text
    assert "problem" in answer
    assert "shop.nothing" in answer


def test_sizes_that_no_snapshot_tells_follow(client):
    page = check(client.get("/").text)
    for path in ("/size", "/data-files"):
        assert [link for link in page.links if link.startswith(f"{path}?")] == [f"{path}?t=shop.stock"]
    totals = client.get("/size.json", t="shop.stock").json
    files = client.get("/files.json", t="shop.stock").json
    assert totals == {"size_bytes": sum(line["size_bytes"] for line in files["files"]), "files": files["data_files"]}
    assert client.get("/data-files", t="shop.stock").text == f"<span>{totals['files']}</span>"


def test_views_are_named(tmp_path):
    catalog = skerry.connect(tmp_path)
    catalog.create_table("a.t", pa.schema([("k", pa.int64())]))
    catalog.create_view("a.few", "SELECT * FROM a.t WHERE k < 10")
    client = Client(application(open_source(str(tmp_path), {})))
    assert client.get("/catalog.json").json["views"] == ["a.few"]
    assert client.get("/catalog.json", q="t").json["views"] == []
    assert "a.few" in client.get("/").text


def test_values_of_a_column_are_spread_as_its_rows_are(tmp_path):
    numbers = [n * n for n in range(1000)]
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=n // 2) for n in range(1000)]
    rows = pa.table({"n": numbers, "day": days, "text": [f"{n:04}" for n in range(1000)], "same": [1] * 1000})
    skerry.connect(tmp_path).create_table("a.t", rows.schema).append(rows)
    client = Client(application(open_source(str(tmp_path), {})))

    def spread(column):
        return client.get("/statistics.json", t="a.t", column=column).json["distribution"]

    found = spread("n")
    width = 999 * 999 / 60
    true = [sum(width * at <= n < width * (at + 1) for n in numbers) / 1000 for at in range(60)]
    assert found["bars"] == pytest.approx(true, abs=0.01)
    assert found["quantiles"][::5] == pytest.approx([0, 500 * 500, 999 * 999], rel=0.02)
    assert (found["sampled_rows"], found["freshness"]) == (1000, "fresh")
    assert spread("day")["bars"] == pytest.approx([1 / 60] * 60, abs=0.005)
    assert spread("text")["bars"] == []
    assert spread("text")["quantiles"][0] == "0000"
    assert spread("same") is None
    page = client.get("/statistics", t="a.t", column="n").text
    check(page)
    assert "from 1,000 sampled rows" in page


def test_a_value_of_many_rows_is_one_bar():
    histogram = Histogram((0, 5, 5, 5, 10), 0.25, 0.0, 64, FRESH)
    found = distribution_of(histogram)
    assert found is not None
    assert sum(found.bars) == pytest.approx(1)
    assert max(found.bars) == found.bars[30] > 0.5
    assert distribution_of(None) is None


def test_two_snapshots_are_compared(client):
    snapshots = client.get("/history.json", t="shop.orders").json["snapshots"]
    assert [line["operation"] for line in snapshots] == ["overwrite", "append", "append"]
    newest, second, first = (line["snapshot_id"] for line in snapshots)
    answer = client.get("/history.json", t="shop.orders", **{"from": first, "to": second, "rows": "yes"}).json
    assert answer["difference"]["rows"] == {"INSERT": 10}
    assert (answer["difference"]["added_count"], answer["difference"]["removed_count"]) == (3, 0)
    answer = client.get("/history.json", t="shop.orders", **{"from": second, "to": newest, "rows": "yes"}).json
    assert answer["difference"]["rows"] == {"DELETE": 2}
    assert client.get("/history", t="shop.orders", **{"from": 1, "to": newest}).status == 404


def test_expiry_is_previewed_and_nothing_expires(client):
    before = client.get("/history.json", t="shop.orders").json["snapshots"]
    found = client.get("/history.json", t="shop.orders", expire="yes").json["expiry"]
    assert found["problem"] == ""
    assert client.get("/history.json", t="shop.orders").json["snapshots"] == before


def test_columns_remember_what_they_were(tmp_path):
    catalog = skerry.connect(tmp_path)
    for format_ in ("iceberg", "paimon"):
        table = catalog.create_table(f"a.{format_}", pa.schema([("old", "int32"), ("k", "string")]), format=format_)
        with table.update_schema() as update:
            update.rename_column("old", "new")
        with table.update_schema() as update:
            update.add_column("more", "string")
        client = Client(application(open_source(str(tmp_path), {})))
        lines = client.get("/table.json", t=f"a.{format_}").json["columns"]
        told = {line["column"]: line["history"] for line in lines}
        assert told == {"new": "old before schema 1", "k": "", "more": "added in schema 2"}


def test_wide_tables_are_paged(tmp_path):
    catalog = skerry.connect(tmp_path)
    wide = pa.table({f"c{number}": [number] for number in range(1000)})
    catalog.create_table("a.wide", wide.schema).append(wide)
    client = Client(application(open_source(str(tmp_path), {})))
    for screen in SCREENS:
        text = client.get(screen, t="a.wide", page=9).text
        assert len(text) < 200_000
        check(text)
    assert [line["column"] for line in client.get("/table.json", t="a.wide", page=9).json["columns"]][-1] == "c999"
    assert [line["column"] for line in client.get("/statistics.json", t="a.wide", page=9).json["columns"]][-1] == "c999"


@pytest.mark.parametrize("table", TABLES)
def test_metadata_files_open_too(client, table):
    found = client.get("/files.json", t=table).json["metadata"]
    assert {"metadata"} <= {file["kind"] for file in found}
    for file in found:
        tree = client.get("/file.json", t=table, path=file["path"]).json["part"]
        assert tree["kind"] in ("JSON file", "Avro file", "Puffin file", "Paimon hash index"), file
        check(client.get("/file", t=table, path=file["path"]).text)


@pytest.mark.parametrize("format_", ["iceberg", "paimon"])
def test_streams_are_told_by_their_batches(tmp_path, format_):
    catalog = skerry.connect(tmp_path)
    rows = pa.table({"id": [1, 2, 3]})
    table = catalog.create_table("a.t", rows.schema, format=format_)
    table.append(rows)
    for batch in range(4):
        table.append(rows.slice(0, 2), stream="clicks", batch=batch, query="q")
    client = Client(application(open_source(str(tmp_path), {})))
    (stream,) = client.get("/streams.json", t="a.t").json["streams"]
    assert (stream["last_batch"] - stream["batches"][0]["number"], stream["commits"], stream["rows"]) == (3, 4, 8)
    assert stream["interval_s"] >= 0
    check(client.get("/streams", t="a.t").text)


def test_jobs_that_run_are_shown_while_they_run(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_CACHE_DIR", str(tmp_path / "cache"))
    table = skerry.connect(tmp_path / "w").create_table("a.t", pa.schema([("k", pa.int64())]))
    client = Client(application(open_source(str(tmp_path / "w"), {})))
    times = iter([0.0, 0.5, 2.0, 2.0, 2.5])
    said = []
    with heartbeat("compact", table.location, said.append, lambda: next(times)) as beat:
        beat(JobProgress("read"))
        assert client.get("/streams.json", t="a.t").json["jobs"] == []  # not yet worth a file
        beat(JobProgress("write", 3, 7, 1000, 5000))
        beat(JobProgress("write", 4, 7, 1200, 6000))  # too soon for another
        (job,) = client.get("/streams.json", t="a.t").json["jobs"]
        assert (job["job"], job["step"], job["done_files"], job["process"]) == ("compact", "write", 3, os.getpid())
        page = client.get("/streams", t="a.t").text
        check(page)
        assert "Running on this machine" in page
        other = next((tmp_path / "cache" / "jobs").glob("*.json")).with_name("0-x.json")
        other.write_text("{")
        assert len(client.get("/streams.json", t="a.t").json["jobs"]) == 1
        assert running_jobs("file:///elsewhere") == []
    assert [progress.done_files for progress in said] == [0, 3, 4]
    assert client.get("/streams.json", t="a.t").json["jobs"] == []


def test_a_job_whose_process_is_gone_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(os, "getpid", lambda: 1 << 30)  # more than Linux allows
    with heartbeat("merge", "file:///t", None, iter([0.0, 9.0, 9.0]).__next__) as beat:
        beat(JobProgress("write"))
        assert list((tmp_path / "jobs").iterdir())
        assert running_jobs("file:///t") == []


def test_a_query_is_planned_and_not_run(client):
    sql = "SELECT count(*) FROM shop.orders o JOIN shop.stock s ON o.id = s.id WHERE o.day = 1"
    answer = client.get("/query", sql=sql)
    check(answer.text)
    assert answer.status == 200
    (select,) = client.get("/query.json", sql=sql).json["selects"]
    assert {each["table"] for each in select["joins"]["relations"]} == {"shop.orders", "shop.stock"}
    assert len(select["joins"]["steps"]) == 1
    assert client.get("/query.json", sql=sql).json["counted"] == []
    (counted,) = client.get("/query.json", sql=sql, count="yes").json["counted"]
    names = [each["name"] for each in select["joins"]["relations"]]
    assert dict(zip(names, counted["relations"], strict=True)) == {"o": 336, "s": 1000}
    assert counted["steps"] == [336]
    assert ">true</th>" in client.get("/query", sql=sql, count="yes").text
    assert ">true</th>" not in answer.text
    nested = "SELECT count(*) FROM (SELECT id FROM shop.orders GROUP BY id) o JOIN shop.stock s ON o.id = s.id"
    assert client.get("/query.json", sql=nested, count="yes").json["counted"][-1]["steps"] == [None]
    before = client.get("/history.json", t="shop.orders").json
    for wrong in ("DELETE FROM shop.orders", "DROP TABLE shop.orders", "SELEC 1", f"SELECT * FROM {HOSTILE}"):
        assert client.get("/query.json", sql=wrong).json["problem"], wrong
        check(client.get("/query", sql=wrong).text)
    assert client.get("/history.json", t="shop.orders").json == before
    check(client.get("/query").text)


def test_every_screen_has_a_picture_in_the_documentation():
    here = Path(__file__).parent
    taken = re.findall(r'^        \("(\w+)", f?"(/\w*)', (here / "make_screenshots.py").read_text(), re.MULTILINE)
    documented = (here.parents[1] / "docs/web.md").read_text()
    shown = re.findall(r"\(images/web-(\w+)\.png\)", documented)
    assert sorted(shown) == sorted(name for name, _ in taken)
    assert all((here.parents[1] / f"docs/images/web-{name}.png").is_file() for name in shown)
    assert {path for _, path in taken} == {"/", "/query", "/file", *SCREENS}
