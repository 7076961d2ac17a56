"""Indexes of Paimon tables: they never change what is found, only how much is opened for it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skerry
from skerry.errors import NotFoundError, SchemaError, UnsupportedError
from skerry.storage import Storage
from skerry.table.indexes import finding, publishing, registry
from torture import few_of

SCHEMA = pa.schema(
    [
        pa.field("trace", pa.string()),
        pa.field("user", pa.int32()),
        pa.field("small", pa.int8()),
        pa.field("line", pa.string()),
        pa.field("price", pa.float64()),
    ]
)
LINES = ["connection reset by 10.0.0.{}", "GET /health took {} ms", "Timeout while reading disk{}", None]
KINDS = {
    "append": ((), {}),
    "vectors": ((), {"deletion-vectors.enabled": "true"}),
    "tracked": ((), {"row-tracking.enabled": "true"}),
    "keyed": (("trace",), {"bucket": "2"}),
    "two-keys": (("user", "trace"), {"bucket": "1"}),
    "keyed-vectors": (("trace",), {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "dynamic": (("trace",), {}),
    "partial": (("trace",), {"bucket": "1", "merge-engine": "partial-update"}),
    "sums": (("trace",), {"bucket": "1", "merge-engine": "aggregation", "fields.user.aggregate-function": "sum"}),
}
WHERES = [
    "trace = 't61'",
    "trace IN ('t3', 't150', 'none')",
    "trace = 'none'",
    "user = 3",
    "user = 8",
    "small = -2",
    "user = 3 AND trace = 't3'",
    "trace = 't3' OR user = 1",
    "trace = 't100' AND line IS NOT NULL",
    "trace > 't99'",
    "line LIKE 'GET % took 61 %'",
    "line LIKE 'new wo%' AND user = 3",
    "contains(line, ' reset by ')",
]
QUERIES = ["reset", "TIMEOUT disk62", '"took 61"', "10.0.0.*", "health NOT 61", "nothing", "reset OR disk*"]


def rows(first, count=60, step=1):
    numbers = range(first, first + count, step)
    lines = [text and text.format(number) for number in numbers for text in [LINES[number % 4]]]
    users, smalls = [number % 7 for number in numbers], [number % 5 - 3 for number in numbers]
    return pa.table([[f"t{number}" for number in numbers], users, smalls, lines, [1.5] * len(users)], schema=SCHEMA)


def make(folder, kind="append"):
    keys, options = KINDS[kind]
    properties = {"bucket": "-1", **options} if keys else options
    catalog = skerry.connect(folder / "lake")
    made = catalog.create_table("logs.spans", SCHEMA, format="paimon", primary_key=list(keys), properties=properties)
    for first in (0, 60, 120):
        made.append(rows(first))
    return made


def assert_nothing_changes(table, wheres=WHERES):
    everything = table.scan().to_arrow()
    for where in wheres:
        found = table.scan(where=where)
        expected = sorted(map(str, _plain(everything, where)))
        assert sorted(map(str, found.to_arrow().to_pylist())) == expected, where
        assert found.count() == len(expected), where
    certain, possible = table.scan(where="user = 3").row_bounds()
    assert certain <= table.scan(where="user = 3").count() <= possible


def _plain(content, where):
    """The rows that match, decided on the values."""
    trace, user, small, line = (content[name] for name in ("trace", "user", "small", "line"))
    masks = {
        "trace = 't61'": pc.equal(trace, "t61"),
        "trace IN ('t3', 't150', 'none')": pc.is_in(trace, pa.array(["t3", "t150", "none"])),
        "trace = 'none'": pc.equal(trace, "none"),
        "user = 3": pc.equal(user, 3),
        "user = 8": pc.equal(user, 8),
        "small = -2": pc.equal(small, -2),
        "user = 3 AND trace = 't3'": pc.and_(pc.equal(user, 3), pc.equal(trace, "t3")),
        "trace = 't3' OR user = 1": pc.or_(pc.equal(user, 1), pc.equal(trace, "t3")),
        "trace = 't100' AND line IS NOT NULL": pc.and_(pc.equal(trace, "t100"), pc.is_valid(line)),
        "trace > 't99'": pc.greater(trace, "t99"),
        "line LIKE 'GET % took 61 %'": pc.match_like(line, "GET % took 61 %"),
        "line LIKE 'new wo%' AND user = 3": pc.and_(pc.match_like(line, "new wo%"), pc.equal(user, 3)),
        "contains(line, ' reset by ')": pc.match_substring(line, " reset by "),
    }
    return content.filter(masks[where]).to_pylist()


def found(table, query, **options):
    return sorted(table.search("line", query, columns=["trace"], **options)["trace"].to_pylist())


def folder_of(table):
    return Path(table.location.removeprefix("file://")) / registry.FOLDER


@pytest.mark.parametrize("kind", few_of(KINDS, "append", "tracked", "keyed", "keyed-vectors", "dynamic"))
def test_indexes_are_right_beside_every_change_of_rows(tmp_path, kind):
    table = make(tmp_path, kind)
    unindexed = {query: found(table, query) for query in QUERIES if "10." not in query}
    assert table.create_index(["trace", "user", "small"]).rows >= 180
    table.create_index(["line"], kind="text")
    assert {query: found(table, query) for query in unindexed} == unindexed
    table.append(rows(100, 90))  # indexes what it writes, and keyed tables have several records of a key
    assert all(index.indexed_files == index.files for index in table.indexes())
    assert_nothing_changes(table, WHERES[::3])
    if kind not in ("partial", "sums"):
        assert table.delete("trace IN ('t3', 't61')").deleted_rows == 2
        assert table.scan(where="trace = 't3'").count() == 0
        assert "t61" not in found(table, "took")
        new = rows(118, 4).set_column(3, SCHEMA.field("line"), pa.array(["new words"] * 4))
        table.upsert(new, on=table.primary_key or ["trace"])
        assert_nothing_changes(table, WHERES[1::2])
        assert found(table, "new") == ["t118", "t119", "t120", "t121"]
    table.compact(full=True)
    assert_nothing_changes(table)
    assert all(index.indexed_files == index.files for index in table.indexes())


def test_files_and_rows_are_left_out(tmp_path, monkeypatch):
    table = make(tmp_path)
    table.create_index(["trace"])
    (step,) = (step for step in table.scan(where="trace = 't61'").explain().plan.steps if step.name == "rows by index")
    assert (step.total, step.kept, step.total_rows, step.kept_rows) == (2, 1, 120, 1)  # bounds leave two
    assert "rows by index" not in str(table.scan(where="line = 'x'").explain())
    table.create_index(["line"], kind="text")
    plan = table.scan(where="line LIKE 'GET % took 61 %'").explain().plan
    assert [(step.kept, step.kept_rows) for step in plan.steps if step.name == "rows by index"] == [(1, 1)]
    opened = set()
    real = Storage.arrow_file

    def note(self, location):
        opened.add(location)
        return real(self, location)

    monkeypatch.setattr(Storage, "arrow_file", note)
    assert table.scan(where="trace = 't100'").to_arrow().num_rows == 1
    assert table.delete("trace = 't101'").deleted_rows == 1
    assert len({location for location in opened if location.endswith(".parquet")}) <= 2  # it, and its copy


def test_files_of_a_key_are_chosen_by_the_index_of_another_column(tmp_path):
    table = make(tmp_path, "two-keys")
    table.create_index(["trace"])
    explained = table.scan(where="trace = 't61'").explain()  # `user` comes first: keys have no bounds of `trace`
    assert len(explained.plan.splits.files) == 1
    assert "no row by the indexes" in str(explained)


def test_columns_are_found_by_id_and_options_follow_them(tmp_path):
    table = make(tmp_path)
    table.create_index(["trace", "user"])
    with table.update_schema() as update:
        update.rename_column("trace", "span")
        update.delete_column("user")
    assert [index.column for index in table.indexes()] == ["span"]
    with table.update_schema() as update:
        update.add_column("trace", pa.string())
        update.add_column("user", pa.int32())
    table.create_index(["user"])
    assert "rows by index" in str(table.scan(where="span = 't61'").explain())
    assert table.scan(where="span = 't61'").count() == 1
    assert table.scan(where="user = 3").count() == 0
    assert table.scan(where="trace = 't61'").count() == 0
    table.append(pa.table({"span": ["t61"], "user": [3], "small": [1], "line": [""], "price": [0.0], "trace": ["x"]}))
    assert (table.scan(where="span = 't61'").count(), table.scan(where="user = 3").count()) == (2, 1)


def test_a_column_of_another_type_is_not_looked_up_in_older_files(tmp_path):
    table = make(tmp_path)
    table.create_index(["user"])
    with table.update_schema() as update:
        update.update_column("user", pa.int64())
    assert table.scan(where="user = 3").count() == 26
    table.append(rows(180).set_column(1, "user", pa.array([3] * 60)))
    assert table.scan(where="user = 3").count() == 86


@pytest.mark.parametrize("damage", ["missing", "empty", "other"])
@pytest.mark.parametrize("what", ["pieces", "shards"])
def test_lost_indexes_cost_time_and_nothing_else(tmp_path, damage, what):
    table = make(tmp_path)
    table.create_index(["trace", "user", "small"])
    for file in [path for path in folder_of(table).rglob("*") if path.is_file()]:
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
    assert fresh.index().files == (3 if what == "pieces" else 0)


def test_pieces_are_put_together_and_orphans_removed(tmp_path):
    table = make(tmp_path)
    table.create_index(["trace"])
    for number in range(9):
        table.append(rows(200 + number, 1))
    listed = registry.listed_pieces(table.storage, table.location)
    assert len(listed) < 6 < len(list((folder_of(table) / "registry").iterdir()))
    assert table.indexes()[0].indexed_files == 12
    (folder_of(table) / "left-over.amudai.shard").write_bytes(b"x")
    table.remove_orphans(older_than_days=0)
    assert not (folder_of(table) / "left-over.amudai.shard").exists()
    assert len(list((folder_of(table) / "registry").iterdir())) == len(listed)
    assert table.indexes()[0].indexed_files == 12
    table.compact(full=True)
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    table.remove_orphans(older_than_days=0)
    assert len([file for file in folder_of(table).iterdir() if file.is_file()]) == 3  # of the compacted file
    assert table.indexes()[0].indexed_files == 1
    location = folder_of(table).parent
    table.catalog.drop_table("logs.spans", purge=True)
    assert not [file for file in location.rglob("*") if file.is_file()]


def test_expiry_takes_the_indexes_of_its_files_along(tmp_path, monkeypatch):
    table = make(tmp_path)
    table.create_index(["trace"])
    for number in range(4):
        table.append(rows(200 + number, 1))
    table.compact(full=True)
    table.append(rows(300, 1))

    def indexes():
        return {file for file in folder_of(table).iterdir() if file.is_file()}

    before, pieces = indexes(), sorted((folder_of(table) / "registry").iterdir())
    planned = table.expire_snapshots(keep_last=1, older_than=timedelta(0), dry_run=True)
    assert indexes() == before
    done = table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    assert {file.location for file in done.files} == {file.location for file in planned.files}
    assert len(before - indexes()) == sum("/_skerry/" in file.location for file in done.files) > 6
    assert sorted((folder_of(table) / "registry").iterdir()) == pieces  # their commits could fail yet
    assert table.indexes()[0].indexed_files == 2
    assert table.scan(where="trace = 't300'").count() == 1
    now = registry.time.time_ns()
    monkeypatch.setattr(registry.time, "time_ns", lambda: now + 25 * 3600 * 10**9)
    table.append(rows(301, 1))
    table.append(rows(302, 1))
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    left = sorted((folder_of(table) / "registry").iterdir())
    assert len(left) < len(pieces) + 2
    assert set(registry.listed_pieces(table.storage, table.location)) <= {f"registry/{path.name}" for path in left}
    assert table.indexes()[0].indexed_files == 4
    planned = table.remove_orphans(older_than_days=0)
    assert table.indexes()[0].indexed_files == 4


def test_a_file_that_cannot_be_indexed_is_left_to_a_job(tmp_path, monkeypatch, caplog):
    table = make(tmp_path)
    table.create_index(["trace"])

    def fail(_task):
        raise UnsupportedError("no index today")

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "build_index", fail)
        table.append(rows(180))
    assert "not indexed" in caplog.text
    assert [(index.files, index.indexed_files) for index in table.indexes()] == [(4, 3)]
    assert table.index().files == 1
    assert_nothing_changes(table)


def test_a_batch_that_is_there_leaves_no_index(tmp_path):
    table = make(tmp_path)
    table.create_index(["trace"])
    table.append(rows(180), stream="s", batch=1)
    before = sorted(folder_of(table).rglob("*"))
    table.append(rows(180), stream="s", batch=1)
    assert sorted(folder_of(table).rglob("*")) == before


def test_indexes_are_dropped_and_refused(tmp_path):
    table = make(tmp_path)
    table.create_index(["trace"])
    table.drop_index(["trace"])
    assert table.indexes() == []
    assert_nothing_changes(table)
    with pytest.raises(NotFoundError, match="column 'trace' has no index"):
        table.drop_index(["trace"])
    with pytest.raises(UnsupportedError, match="'price' of double has no hash index"):
        table.create_index(["price"])
    with pytest.raises(SchemaError, match="cannot be 'tree'"):
        table.set_properties({"skerry.index.trace": "tree"})
    with pytest.raises(NotFoundError, match="no column 'lines' to search"):
        table.search("lines", "a")
    stitched = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    made = table.catalog.create_table("logs.stitched", SCHEMA, format="paimon", properties=stitched)
    made.append(rows(0))
    with pytest.raises(UnsupportedError, match=r"data-evolution.enabled=true"):
        made.create_index(["trace"])
    made.append(rows(60))
    assert made.scan(where="trace = 't61'").count() == 1


def test_time_travel_and_branches(tmp_path):
    table = make(tmp_path)
    table.create_index(["trace"])
    table.create_branch("b")
    table.append(rows(180), ref="b")
    table.delete("trace = 't61'")
    assert table.scan(where="trace = 't61'").count() == 0
    assert table.scan(where="trace = 't61'", ref="b").count() == 1
    assert table.scan(where="trace = 't200'", ref="b").count() == 1
    assert table.scan(where="trace = 't61'", snapshot=3).count() == 1


def test_a_field_of_a_struct_and_a_column_of_its_path(tmp_path):
    inner = pa.struct([("a", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("s", inner), ("s.a", pa.string())])
    table = skerry.connect(tmp_path / "lake").create_table("a.b", schema, format="paimon")
    table.create_index(["id"])
    table.append(pa.table([range(40), [{"a": f"in{n}"} for n in range(40)], [f"top{n}" for n in range(40)]], schema))
    assert table.scan(["s"], where="id = 7").to_arrow().to_pylist() == [{"s": {"a": "in7"}}]
    assert table.scan(["s.a"], where="id = 7").to_arrow().to_pylist() == [{"s.a": "top7"}]
