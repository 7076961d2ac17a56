"""Indexes of tables: they never change what is found, only how much is opened for it."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry import amudai
from skerry.amudai.fields import parquet_columns
from skerry.amudai.fields.parquet_columns import find_pages
from skerry.amudai.writing import external_parquet
from skerry.errors import NotFoundError, SchemaError, UnsupportedError
from skerry.iceberg import indexing
from skerry.parquet import page_rows, read_metadata, read_page_places
from skerry.storage import file_key
from skerry.storage.local import LocalSink
from skerry.table.indexes import building, collecting, finding, publishing, registry
from skerry.table.indexes.definitions import IndexKind
from skerry.table.indexes.registry import FOLDER
from skerry.table.rows.schema import field_id

LINES = ["connection reset by 10.0.0.{}", "GET /health took {} ms", "Timeout while reading disk{}", None]
SCHEMA = pa.schema(
    [
        pa.field("trace", pa.string()),
        pa.field("user", pa.int32()),
        pa.field("line", pa.string()),
        pa.field("price", pa.float64()),
    ]
)


def rows(first: int, count: int = 60) -> pa.Table:
    numbers = range(first, first + count)
    lines = [text and text.format(number) for number in numbers for text in [LINES[number % 4]]]
    return pa.table(
        [[f"t{number}" for number in numbers], [number % 7 for number in numbers], lines, [1.5] * count],
        schema=SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path) -> skerry.Table:
    made = skerry.connect(tmp_path / "lake").create_table("logs.spans", SCHEMA)
    for first in (0, 60, 120):
        made.append(rows(first))
    return made


COLUMNS = [*SCHEMA.names, "_file", "_pos"]
WHERES = [
    "trace = 't61'",
    "trace IN ('t3', 't150')",
    "trace = 'none'",
    "user = 3",
    "user = 3 AND trace = 't3'",
    "trace = 't3' OR user = 1",
    "trace = 't100' AND line IS NOT NULL",
    "trace > 't99'",
    "line LIKE 'GET % took 61 %'",
    "line LIKE '%disk%' AND trace > 't1'",
    "starts_with(line, 'Timeout while re')",
    "contains(line, ' reset by ') AND user = 3",
]
QUERIES = ["reset", "TIMEOUT disk62", '"took 61"', "10.0.0.*", "health NOT 61", "nothing", "reset OR disk*"]


def folder_of(table: skerry.Table) -> Path:
    return Path(table.location.removeprefix("file://"))


def plain(table: skerry.Table, where: str) -> list[dict[str, Any]]:
    """The rows that match, found without indexes."""
    scan = table.scan(COLUMNS, where=where)
    files, reader = scan.plan(), scan.row_reader()
    return [row for batch in reader.batches(files) for row in batch.to_pylist()]


def assert_nothing_changes(table: skerry.Table) -> None:
    for where in WHERES:
        expected = plain(table, where)
        assert table.scan(COLUMNS, where=where).to_arrow().to_pylist() == expected, where
        assert table.scan(where=where).count() == len(expected), where
        assert sorted(map(str, table.scan(["trace"], where=where).to_arrow()["trace"].to_pylist())) == sorted(
            row["trace"] for row in expected
        )


def found(table: skerry.Table, query: str, **options: Any) -> list[str]:
    return table.search("line", query, columns=["trace"], **options)["trace"].to_pylist()


def test_an_index_leaves_the_files_that_have_the_value(table):
    summary = table.create_index(["trace", "user"])
    assert (summary.files, summary.rows) == (3, 180)
    assert summary.size_bytes > 0
    assert_nothing_changes(table)
    explained = table.scan(where="trace = 't61'").explain()
    assert "files by index" in str(explained)
    (step,) = (step for step in explained.plan.steps if step.name == "files by index")
    assert (step.total, step.kept, step.total_rows, step.kept_rows) == (2, 1, 120, 1)  # bounds leave two
    assert "files by index" not in str(table.scan(where="line = 'x'").explain())


@pytest.mark.parametrize("columns", [None, ["user"]])
def test_the_plan_says_how_many_pages_an_index_leaves(tmp_path, columns):
    ids = [f"t{n}" for n in range(40_000)]
    table = skerry.connect(tmp_path).create_table(
        "d.t", pa.schema([("trace", pa.string()), ("user", pa.int64())]), properties={"skerry.index.trace": "hash"}
    )
    table.append(pa.table({"trace": ids, "user": range(40_000)}))
    groups, pages = table.scan(columns, where="trace = 't777'").explain().plan.steps[-2:]
    assert (groups.name, groups.total, groups.kept) == ("row groups by statistics", 1, 1)
    assert (pages.name, pages.kept, pages.total_rows, pages.kept_rows) == ("pages by index", 2, 40_000, 1)
    assert pages.total > 2


def test_words_of_a_condition_leave_the_rows_that_have_them(table):
    table.create_index(["line"], kind="text")
    steps = {}
    for where in ("line LIKE 'GET % took 61 %'", "contains(line, ' reset by ')", "line LIKE '%took 61%'"):
        steps[where] = [
            (step.kept, step.kept_rows)
            for step in table.scan(where=where).explain().plan.steps
            if step.name == "files by index"
        ]
        assert (
            table.scan(where=where)
            .to_arrow()
            .equals(pa.Table.from_pylist(plain(table, where)).select(SCHEMA.names).cast(SCHEMA))
        )
    assert list(steps.values()) == [[(1, 1)], [(3, 45)], [(1, 1)]]
    assert "files by index" not in str(table.scan(where="line LIKE '%took%'").explain())


def test_rows_are_read_page_by_page(tmp_path):
    schema = pa.schema([("trace", pa.string()), ("line", pa.string())])
    table = skerry.connect(tmp_path).create_table("a.b", schema, properties={"skerry.index.trace": "hash"})
    numbers = np.random.default_rng(1).integers(0, 256, (100_000, 16), dtype=np.uint8)
    traces = [number.tobytes().hex() for number in numbers]
    table.append(pa.table({"trace": traces, "line": [trace[::-1] for trace in traces]}))
    (file,) = table.files()
    scan = table.scan(["_pos", "line"], where=f"trace = '{traces[77_777]}'")
    before = table.storage.metrics.counts()
    assert scan.to_arrow().to_pylist() == [{"_pos": 77_777, "line": traces[77_777][::-1]}]
    read = table.storage.metrics.counts() - before
    assert read.bytes_read < file.file_size_bytes / 4


def test_a_look_up_decodes_a_page_of_each_column_in_the_calling_thread(tmp_path, monkeypatch):
    schema = pa.schema([("trace", pa.string()), ("line", pa.string()), ("day", pa.int32())])
    table = skerry.connect(tmp_path).create_table("a.b", schema, properties={"skerry.index.trace": "hash"})
    for first in (0, 20_000):
        traces = [f"{7919 * number % 100_003:05}" for number in range(first, first + 20_000)]
        table.append(pa.table({"trace": traces, "line": [trace * 8 for trace in traces], "day": [3] * 20_000}))
    for trace in ("00003", *(f"{7919 * number % 100_003:05}" for number in range(0, 40_000, 997))):
        table.scan(where=f"trace = '{trace}'").to_arrow()  # now hash indexes are in memory, and page indexes known
    pages: list[int] = []
    decompress = page_rows.decompress_pages
    monkeypatch.setattr(page_rows, "decompress_pages", lambda *of: (pages.append(len(of[0])), decompress(*of))[1])
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread for one row"))
    before = table.storage.metrics.counts()
    wanted = f"{7919 * 30_001 % 100_003:05}"
    found = table.scan(where=f"trace = '{wanted}'").to_arrow()
    assert found.to_pylist() == [{"trace": wanted, "line": wanted * 8, "day": 3}]
    read = table.storage.metrics.counts() - before
    assert pages == [3]
    assert read.requests <= 3
    assert read.bytes_read < 3 * 20_000


def test_small_pages_reach_the_file_together(tmp_path, monkeypatch):
    schema = pa.schema([("trace", pa.string()), ("line", pa.string())])
    table = skerry.connect(tmp_path).create_table("a.b", schema, properties={"skerry.index.trace": "hash"})
    written: list[int] = []
    write = LocalSink.write
    monkeypatch.setattr(LocalSink, "write", lambda sink, data: (written.append(len(data)), write(sink, data))[1])
    numbers = np.random.default_rng(5).integers(0, 256, (40_000, 16), dtype=np.uint8)
    texts = [number.tobytes().hex() for number in numbers]
    table.append(pa.table({"trace": texts, "line": texts}))
    (file,) = table.files()
    chunks = read_metadata(table.storage, file.location).row_groups[0].chunks
    places = [read_page_places(table.storage, file.location, chunk) for chunk in chunks]
    pages = sum(len(each.offsets) for each in places)
    assert pages > 120, "pages have about 16 KiB"
    assert max(int(each.sizes.max()) for each in places) < 16 << 10
    assert len(written) < pages, "a page is a header and a body, which would be two calls; small files are among them"
    for chunk, place in zip(chunks, places, strict=True):
        data = memoryview(table.storage.read_range(file.location, chunk.offset, chunk.size_bytes))
        found = find_pages(data, chunk.offset, chunk.value_count, location=file.location)
        assert found.page_count == len(place.offsets)
        monkeypatch.setattr(parquet_columns, "_usual_pages", lambda *_: None)
        walked = find_pages(data, chunk.offset, chunk.value_count, location=file.location)
        monkeypatch.undo()
        assert str(walked) == str(found), "one by one, and by a kernel"


def test_row_ids_of_single_rows(tmp_path):
    table = skerry.connect(tmp_path).create_table("a.b", SCHEMA, format_version=3)
    for first in (0, 60):
        table.append(rows(first))
    table.create_index(["trace"])
    table.delete("user = 3")
    ids = ["trace", "_row_id", "_last_updated_sequence_number"]
    whole = {row["trace"]: row for row in table.scan(ids).to_arrow().to_pylist()}
    for number in (0, 3, 61, 119):
        found = table.scan(ids, where=f"trace = 't{number}'").to_arrow().to_pylist()
        assert found == [row for row in [whole.get(f"t{number}")] if row]


def test_indexes_are_listed_and_dropped(table):
    table.create_index(["trace"])
    table.create_index(["line"], kind="text", tokenizer="unicode-log")
    table.append(rows(180))  # indexes what it writes
    listed = {index.column: index for index in table.indexes()}
    assert [(index.kind, index.tokenizer, index.files, index.indexed_files) for index in listed.values()] == [
        ("text", "unicode-log", 4, 4),
        ("hash", None, 4, 4),
    ]
    assert table.properties["skerry.index.line"] == "text:unicode-log"
    assert_nothing_changes(table)
    assert table.index() == skerry.IndexSummary()
    table.drop_index(["trace"])
    assert [index.column for index in table.indexes()] == ["line"]
    with pytest.raises(NotFoundError, match="column 'trace' has no index"):
        table.drop_index(["trace"])


def test_search_finds_words_newest_first(table):
    unindexed = {query: found(table, query) for query in QUERIES if "10." not in query}
    assert unindexed["reset"][:2] == ["t120", "t124"]
    assert len(unindexed["reset"]) == 45
    assert unindexed['"took 61"'] == ["t61"]
    table.create_index(["line"], kind="text")
    for query, expected in unindexed.items():
        assert found(table, query) == expected, query
        assert found(table, query, limit=4) == expected[:4]
    assert found(table, "reset", where="user = 3") == ["t136", "t164", "t80", "t108", "t24", "t52"]
    whole = table.search("line", "reset", limit=1)
    assert whole.schema.names == SCHEMA.names
    first = table.snapshots()[0].snapshot_id
    assert set(found(table, "reset", snapshot=first)) == {f"t{number}" for number in range(0, 60, 4)}


def test_a_search_with_another_tokenizer_than_the_index_does_not_use_it(table):
    table.create_index(["line"], kind="text", tokenizer="trivial")
    assert found(table, "reset") == []
    assert found(table, '"connection reset by 10.0.0.4"') == ["t4"]
    table.set_properties({"skerry.index.line": "text:unicode-log"})
    assert len(found(table, "reset")) == 45
    assert found(table, "10.0.0.4") == ["t4"]
    assert table.index().files == 3
    assert found(table, "10.0.0.4") == ["t4"]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_indexes_are_right_beside_every_change_of_rows(table, mode):
    table.set_properties({"write.delete.mode": mode, "write.merge.mode": mode})
    table.create_index(["trace", "user"])
    table.create_index(["line"], kind="text")
    table.delete("trace IN ('t3', 't61')")
    assert_nothing_changes(table)
    assert table.scan(where="trace = 't3'").count() == 0
    assert "t61" not in found(table, "took")
    table.upsert(rows(118, 4).set_column(2, SCHEMA.field("line"), pa.array(["new words"] * 4)), on="trace")
    assert_nothing_changes(table)
    assert sorted(found(table, "new")) == ["t118", "t119", "t120", "t121"]
    table.compact(full=True)
    assert_nothing_changes(table)
    table.index()
    assert_nothing_changes(table)
    assert sorted(found(table, "new")) == ["t118", "t119", "t120", "t121"]


def test_columns_are_found_by_id(table):
    table.create_index(["trace"])
    with table.update_schema() as update:
        update.rename_column("trace", "span")
        update.add_column("trace", pa.string())
    assert table.scan(where="span = 't61'").count() == 1
    assert "files by index" in str(table.scan(where="span = 't61'").explain())
    assert table.scan(where="trace = 't61'").count() == 0
    assert table.scan(where="trace IS NULL").count() == 180
    assert [index.column for index in table.indexes()] == ["span"]  # the property has the new name
    table.append(rows(180).rename_columns(["span", "user", "line", "price"]))
    assert [(index.files, index.indexed_files) for index in table.indexes()] == [(4, 4)]
    with table.update_schema() as update:
        update.delete_column("span")
    assert table.indexes() == []
    with table.update_schema() as update:
        update.add_column("span", pa.string())
    table.create_index(["span"])
    assert table.scan(where="span = 't61'").count() == 0
    assert table.scan(where="span IS NULL").count() == 240


def test_another_engine_keeps_the_indexes(table):
    table.create_index(["trace"])
    other = table.catalog.iceberg_catalog.load_table("logs.spans")
    other.append(rows(180))
    table.refresh()
    assert_nothing_changes(table)
    assert table.indexes()[0].indexed_files == 3
    assert table.index().files == 1
    assert_nothing_changes(table)
    other.refresh().delete("trace in ('t3', 't200')")  # rewrites two files
    other.refresh().upsert(rows(61, 1).set_column(1, SCHEMA.field("user"), pa.array([100], pa.int32())), ["trace"])
    table.refresh()
    assert_nothing_changes(table)
    assert table.scan(where="trace = 't3'").count() == 0
    assert table.scan(where="trace = 't61'").to_arrow()["user"].to_pylist() == [100]
    assert table.indexes()[0].indexed_files < table.indexes()[0].files
    plain_sum = duckdb.sql(f'SELECT sum("user") FROM read_parquet({[file.location for file in table.files()]})')
    assert plain_sum.fetchall()[0][0] == sum(table.scan(["user"]).to_arrow()["user"].to_pylist())
    lacking = table.indexes()[0].files - table.indexes()[0].indexed_files
    assert table.index().files == lacking
    assert_nothing_changes(table)


@pytest.mark.parametrize("damage", ["missing", "empty", "other"])
@pytest.mark.parametrize("what", ["pieces", "shards"])
def test_lost_indexes_cost_time_and_nothing_else(table, damage, what):
    table.create_index(["trace", "user"])
    table.create_index(["line"], kind="text")
    expected = {query: found(table, query) for query in QUERIES}
    folder = folder_of(table) / FOLDER
    for file in folder.iterdir():
        if (file.suffix == ".json") != (what == "pieces"):
            continue
        content = file.read_bytes()
        file.unlink()
        if damage != "missing":
            file.write_bytes(b"" if damage == "empty" else content[: len(content) // 2] + b"\n")
    registry._pieces.clear()
    registry._registries.clear()
    finding._open.clear()
    fresh = table.catalog.load_table("logs.spans")
    assert_nothing_changes(fresh)
    for query, names in expected.items():
        if "10." not in query:
            assert found(fresh, query) == names, query
    assert fresh.index().files == (3 if what == "pieces" else 0)


def test_orphan_removal_keeps_what_is_named_and_takes_the_rest(table):
    table.create_index(["trace"])
    folder = folder_of(table) / FOLDER
    (folder / "left-over.amudai.shard").write_bytes(b"x")
    before = {file.name for file in folder.iterdir()}
    table.remove_orphans(older_than_days=0)
    assert before - {file.name for file in folder.iterdir()} == {"left-over.amudai.shard"}
    table.compact(full=True)
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    table.remove_orphans(older_than_days=0)
    # the pieces, and the index of the file that compaction wrote
    left = [file.name for file in folder.iterdir() if not file.name.endswith(".json")]
    assert sorted(name.split(".", 1)[1] for name in left) == [
        "amudai.shard",
        "part0.amudai.shard",
        "part1.amudai.shard",
    ]
    assert table.indexes()[0].indexed_files == 1
    assert_nothing_changes(table)
    location = folder_of(table)
    table.catalog.drop_table("logs.spans", purge=True)
    assert not [file for file in location.rglob("*") if file.is_file()]


def test_pieces_are_put_together(table):
    table.create_index(["trace"])
    for number in range(9):
        table.append(rows(200 + number, 1))
        table.index()
    assert len(table.properties["skerry.indexes"].split(",")) < 9
    assert table.indexes()[0].indexed_files == 12
    assert_nothing_changes(table)


def test_a_commit_that_is_repeated_keeps_what_others_have_registered(table, monkeypatch):
    table.create_index(["trace"])
    other = table.catalog.load_table("logs.spans")
    register = indexing.register

    def register_late(*arguments: Any) -> Any:
        monkeypatch.setattr(indexing, "register", register)
        registered = register(*arguments)
        other.append(rows(180))
        return registered

    monkeypatch.setattr(indexing, "register", register_late)
    table.append(rows(240))
    assert [(index.files, index.indexed_files) for index in table.indexes()] == [(5, 5)]
    assert_nothing_changes(table)


def test_rows_are_committed_if_they_cannot_be_indexed(table, monkeypatch, caplog):
    table.create_index(["trace"])

    def fail(_task: Any) -> Any:
        raise UnsupportedError("no index today")

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "build_index", fail)
        table.append(rows(180))
    assert "not indexed" in caplog.text
    assert [(index.files, index.indexed_files) for index in table.indexes()] == [(4, 3)]
    assert table.index().files == 1
    assert_nothing_changes(table)


def test_a_batch_that_is_there_leaves_no_index(table):
    table.create_index(["trace"])
    assert table.append(rows(180), stream="s", batch=1)
    before = sorted((folder_of(table) / FOLDER).iterdir())
    table.append(rows(180), stream="s", batch=1)
    assert sorted((folder_of(table) / FOLDER).iterdir()) == before
    assert table.scan(where="trace = 't200'").count() == 1


def test_two_writers_index_at_once(table):
    other = table.catalog.load_table("logs.spans")
    table.create_index(["trace"])
    assert other.index() == skerry.IndexSummary()  # refreshed first
    table.append(rows(180))
    assert other.create_index(["user"]).files == 4
    table.refresh()
    assert all(index.indexed_files == 4 for index in table.indexes() if index.column == "user")
    assert_nothing_changes(table)


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        (["tracer"], {}, NotFoundError, "no column 'tracer' to index; did you mean 'trace'"),
        (["price"], {}, UnsupportedError, "'price' of double has no hash index"),
        (["user"], {"kind": "text"}, UnsupportedError, "only strings have"),
        (["trace"], {"kind": "tree"}, SchemaError, "cannot be 'tree': expected hash, text"),
        (["trace"], {"tokenizer": "trivial"}, SchemaError, "cannot be 'hash:trivial'"),
        ("trace", {}, SchemaError, "columns"),
    ],
)
def test_indexes_that_cannot_be(table, columns, options, error, message):
    with pytest.raises(error, match=message):
        table.create_index(columns, **options)
    assert table.indexes() == []


def test_bad_searches(table):
    with pytest.raises(NotFoundError, match="no column 'lines' to search"):
        table.search("lines", "a")
    with pytest.raises(SchemaError, match="'user' is int32: only strings"):
        table.search("user", "a")
    with pytest.raises(SchemaError, match="lacks a word"):
        table.search("line", "a OR")
    with pytest.raises(SchemaError, match="no word that the tokenizer"):
        table.search("line", "-")


def test_an_append_hashes_the_rows_that_it_has(table, monkeypatch):
    """The index of a file that this process has written is the one that is made from the file."""
    table.create_index(["trace", "user"])
    before = {file.location for file in table.files()}
    decoded: list[int] = []
    decode = external_parquet.decode_column_pages
    monkeypatch.setattr(
        external_parquet, "decode_column_pages", lambda *pages, **how: decoded.append(1) or decode(*pages, **how)
    )
    table.append(rows(180, 50))
    assert not decoded
    assert not collecting._collected
    assert_nothing_changes(table)
    (file,) = (file for file in table.files() if file.location not in before)
    folder = str(folder_of(table))
    known = registry.registered_files(table.storage, folder, registry.piece_names(table.properties))
    (entry,) = known[file_key(file.location)]
    columns = table.schema
    wanted = tuple(building.WantedIndex(field_id(columns.field(name)), IndexKind.HASH) for name in ("trace", "user"))
    again = building.build_index(building.IndexTask(table.storage, folder, file, wanted, columns))
    assert decoded
    contents = [
        [amudai.read_table(f"{folder}/{FOLDER}/{part}")["bucket"].to_pylist() for part in each.parts]
        for each in (entry, again)
    ]
    assert contents[0] == contents[1]


def test_rows_that_a_column_lacks_are_hashed_as_those_of_the_file(table):
    table.create_index(["trace"])
    table.append(rows(180, 3).set_column(0, SCHEMA.field("trace"), pa.array([None, "t180", ""])))
    assert_nothing_changes(table)
    assert table.scan(where="trace = ''").count() == 1
    assert table.scan(where="trace = 't180'").count() == 1


@pytest.mark.parametrize("table_format", ["iceberg", "paimon"])
def test_advice_counts_what_an_index_would_have_left_out(tmp_path, table_format):
    table = skerry.connect(tmp_path / "lake").create_table("logs.spans", SCHEMA, format=table_format)
    for first in (0, 1, 2, 3):  # each value of `trace` in one file, of `user` in all, and bounds leave all
        numbers = [0, *range(first, 4000, 4), 3999]
        table.append(
            pa.table([[f"t{n}" for n in numbers], [n % 7 for n in numbers], ["x"] * 1002, [0.5] * 1002], SCHEMA)
        )
    asked = ["trace = 't2001'", "trace IN ('t5', 't6') AND user = 3", "line = 'x'", "price > 1", "trace = 'zzz'"]
    before = table.storage.metrics.counts().files_opened
    advice = table.advise_indexes(asked)
    assert [each.column for each in advice] == ["trace", "line", "user"]
    trace, line, user = advice
    assert isinstance(trace, skerry.IndexAdvice)
    assert (trace.conditions, trace.files) == (3, 8)  # bounds leave no file to the last one
    assert 4 <= trace.skipped_files <= 6
    assert trace.read_bytes / 2 < trace.skipped_bytes < trace.read_bytes
    assert (user.conditions, user.skipped_files, user.skipped_bytes) == (1, 0, 0)
    assert (line.conditions, line.skipped_files) == (1, 0)
    assert trace.size_bytes == 12 * 4008
    assert table.storage.metrics.counts().files_opened - before <= 4 * len(asked)  # footers
    table.create_index(["trace"])
    found = {each.column: each for each in table.advise_indexes(asked)}
    assert "trace" not in found
    assert table.advise_indexes([]) == []
    with pytest.raises(SchemaError, match="tracer"):
        table.advise_indexes(["tracer = 'a'"])
