"""`scan.fallback-branch`: partitions that a branch does not have are read from another one, as Paimon Java does."""

from __future__ import annotations

import datetime
import json
import pickle
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, java_rows

from skerry.errors import NotFoundError, SchemaError, UnsupportedError
from skerry.migration.paimon_to_iceberg import plan_iceberg
from skerry.paimon.evolution.schema_evolution import ChangeOptions, commit_schema
from skerry.paimon.handle import PaimonHandle
from skerry.paimon.planning.planned_splits import SplitUnion
from skerry.paimon.reading.changes import changes
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.statistics.column_statistics import FreshnessState

SCHEMA = pa.schema([pa.field("day", pa.string()), pa.field("id", pa.int64()), pa.field("text", pa.string())])
KEYS = pa.schema([field.with_nullable(field.name == "text") for field in SCHEMA])
OPTION = "scan.fallback-branch"
KEYED: dict[str, Any] = {"primary_key": ["day", "id"], "properties": {"bucket": "1"}}
SHAPES = ["append", "keyed", "rt"]
"""Both branches append or keyed; or an append table that falls back to a keyed branch."""


def rows(day: str | None, *ids: int, text: str = "m") -> pa.Table:
    return pa.table({"day": [day] * len(ids), "id": ids, "text": [f"{text}{i}" for i in ids]}, schema=SCHEMA)


def make(path: Path, shape: str = "append", *, sets_option: bool = True) -> PaimonTable:
    """A table with a branch `rt` that it falls back to, both without rows."""
    schema, how = (KEYS, KEYED) if shape == "keyed" else (SCHEMA, {})
    table = PaimonTable.create(Storage(), str(path), schema, partition_by=["day"], **how)
    table.create_branch("rt")
    if shape == "rt":
        own = path / "branch" / "branch-rt" / "schema" / "schema-0"
        changed = json.loads(own.read_text())
        changed |= {"id": 1, "primaryKeys": ["day", "id"], "options": {"bucket": "2", "file.format": "orc"}}
        for field in changed["fields"][:2]:
            field["type"] += " NOT NULL"
        own.with_name("schema-1").write_text(json.dumps(changed))
    return set_option(table) if sets_option else table


def set_option(table: PaimonTable, branch: str = "rt") -> PaimonTable:
    commit_schema(table.handle.state, ChangeOptions({OPTION: branch}))
    table.handle.refresh()
    return table


def fill(table: PaimonTable) -> None:
    """Days 1 to 3, of which the branch has 2 to 4, some rows twice."""
    for day in ("d3", "d1", "d2"):
        table.append(rows(day, 1, 2))
    for day in ("d4", "d2", "d3"):
        table.append(rows(day, 2, 3, text="r"), ref="rt")
        table.append(rows(day, 3, 4, text="s"), ref="rt")
    table.delete("day = 'd2'")
    table.append(rows("d5", 9))
    table.delete("day = 'd5'")  # a partition that is gone
    table.append(rows("d5", 8, text="r"), ref="rt")


def in_order(rows: list[list[Any]]) -> list[list[Any]]:
    return sorted(rows, key=str)


def found(table: PaimonTable, **how: Any) -> list[list[Any]]:
    return in_order(java_rows(table.scan(**how).to_arrow()))


def expected(keyed: bool) -> list[list[Any]]:
    other = [[2, "r2"], [3, "s3"], [4, "s4"]] if keyed else [[2, "r2"], [3, "r3"], [3, "s3"], [4, "s4"]]
    own = [[day, i, f"m{i}"] for day in ("d1", "d3") for i in (1, 2)]
    return sorted([*own, *([day, *row] for day in ("d2", "d4") for row in other), ["d5", 8, "r8"]])


# ---- rows ----


@pytest.mark.parametrize("shape", SHAPES)
def test_partitions_of_two_branches(tmp_path: Path, shape: str) -> None:
    table = make(tmp_path / "t", shape)
    fill(table)
    wanted = expected(keyed=shape != "append")
    assert found(table) == wanted
    assert table.scan().count() == len(wanted)
    assert table.scan([]).to_arrow().num_rows == len(wanted)
    for where, keep in (
        ("day = 'd2'", lambda row: row[0] == "d2"),
        ("day > 'd2' and id = 2", lambda row: row[0] > "d2" and row[1] == 2),
        ("text = 'r2'", lambda row: row[2] == "r2"),
        ("text = 'm1' or day = 'd4'", lambda row: row[2] == "m1" or row[0] == "d4"),
        ("id = 4 and day in ('d1', 'd3')", lambda row: False),  # which the branch has, but in partitions of main
    ):
        assert found(table, where=where) == [row for row in wanted if keep(row)], where
        assert table.scan(where=where).count() == sum(map(keep, wanted)), where
    for limit in (0, 1, 4, len(wanted) - 1, 100):
        assert table.scan(limit=limit).to_arrow().num_rows == table.scan(limit=limit).count() == min(limit, len(wanted))
    certain, possible = table.scan().row_bounds()
    assert certain <= len(wanted) <= possible
    assert found(table, ref="rt") == found(PaimonTable(PaimonHandle(table.handle.branch_state("rt"))))


def test_splits_are_read_apart(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "rt")
    fill(table)
    scan = table.scan()
    splits = scan.plan()
    assert isinstance(splits, SplitUnion)
    assert [split.branch for split in splits] == ["main"] * 2 + ["rt"] * 5
    assert [splits[i] for i in range(-7, 0)] == splits[:] == list(splits)
    with pytest.raises(IndexError):
        splits[7]
    reader = pickle.loads(pickle.dumps(scan.row_reader()))
    parts = [batch for split in splits for batch in reader.batches([split])]
    assert sorted(java_rows(pa.Table.from_batches(parts))) == expected(keyed=True)
    told = str(scan.explain())
    assert "rt: files by partition" in told
    assert "partition that is read from another branch" in told
    assert f"{len(scan.splits().files)} files" in told


def test_tables_without_partitions(tmp_path: Path) -> None:
    table = PaimonTable.create(Storage(), str(tmp_path / "t"), SCHEMA)
    table.create_branch("rt")
    set_option(table).append(rows("r", 1), ref="rt")
    assert found(table) == [["r", 1, "m1"]]
    table.append(rows("m", 2))
    assert found(table) == [["m", 2, "m2"]]
    table.delete("true")
    assert found(table) == [["r", 1, "m1"]]


def test_places_are_told_where_both_branches_have_them(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    fill(table)
    places = table.scan(["_file", "_pos"]).to_arrow().to_pydict()
    assert len(set(zip(places["_file"], places["_pos"], strict=True))) == len(expected(keyed=False))
    with pytest.raises(SchemaError, match="_file"):
        make(tmp_path / "u", "rt").scan(["_file"])


# ---- the past ----


def test_the_past_of_both_branches(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.append(rows("d1", 1))
    early = table.handle.state.snapshot
    time.sleep(0.002)
    table.append(rows("d2", 1, text="r"), ref="rt")
    time.sleep(0.002)
    table.append(rows("d3", 1))
    middle = table.handle.state.snapshot
    time.sleep(0.002)
    table.append(rows("d4", 1, text="r"), ref="rt")
    assert early is not None
    assert middle is not None
    both = [["d1", 1, "m1"], ["d2", 1, "r1"], ["d3", 1, "m1"]]
    assert found(table) == [*both, ["d4", 1, "r1"]]
    assert found(table, snapshot=middle.id) == both
    moment = datetime.datetime.fromtimestamp(middle.time_millis / 1000, datetime.UTC)
    assert found(table, as_of=moment) == both
    assert found(table, snapshot=early.id) == both[:1]  # the branch had no snapshot
    table.create_tag("kept", middle.id)
    with pytest.raises(NotFoundError, match=r"tag 'kept' is not on branch 'rt'.*read by snapshot or as_of"):
        table.scan(ref="kept")
    tag = Path(table.location) / "branch" / "branch-rt" / "tag" / "tag-kept"
    tag.parent.mkdir(parents=True, exist_ok=True)
    tag.write_bytes((tag.parents[1] / "snapshot" / "snapshot-1").read_bytes())
    assert found(table, ref="kept") == both
    assert found(table, ref="rt") == [["d2", 1, "r1"], ["d4", 1, "r1"]]


# ---- what goes to one branch alone ----


def test_writes_changes_and_upkeep_are_of_one_branch(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.append(rows("d1", 1, 2))
    table.append(rows("d2", 1, 2, text="r"), ref="rt")
    table.delete("id = 2")
    assert found(table) == [["d1", 1, "m1"], ["d2", 1, "r1"], ["d2", 2, "r2"]]
    table.upsert(rows("d2", 1), on="id")
    assert found(table) == [["d2", 1, "m1"]]
    told = changes(table.handle.state, None, None).to_arrow()
    assert all(text.startswith("m") for text in told["text"].to_pylist())
    table.compact(full=True)
    table.expire_snapshots(keep_last=1, older_than=timedelta(0))
    assert found(table) == [["d2", 1, "m1"]]
    table.delete("true")
    assert found(table) == [["d2", 1, "r1"], ["d2", 2, "r2"]]
    with pytest.raises(UnsupportedError, match="partitions of that branch would be lost"):
        plan_iceberg(table.handle.state)
    with pytest.raises(SchemaError, match="s fallback branch; remove the option"):
        table.drop_ref("rt")


def test_statistics_tell_of_both_branches_what_files_say(tmp_path: Path) -> None:
    table = make(tmp_path / "t", sets_option=False)
    fill(table)
    assert table.freshness()["id"].is_fresh
    set_option(table)
    known = table.statistics()
    assert {found.freshness.state for found in known.values()} == {FreshnessState.ABSENT}
    assert "two branches (scan.fallback-branch=rt)" in str(table.freshness()["id"])
    assert [known["day"].min, known["day"].max] == ["d1", "d5"]
    assert [known["id"].min, known["id"].max, known["id"].null_count, known["id"].ndv] == [1, 8, 0, None]
    some = table.statistics("day = 'd4'")
    assert [some["id"].min, some["id"].max] == [2, 4]
    assert table.statistics("day = 'x'")["id"].min is None


def test_versions_tell_states_apart(tmp_path: Path) -> None:
    """By them frames are kept that belong to a state: snapshots alone do not tell of options and the other branch."""
    table = make(tmp_path / "t", sets_option=False)
    table.append(rows("d1", 1))
    seen = [table.version]
    set_option(table)
    seen.append(table.version)
    table.append(rows("d2", 1), ref="rt")
    seen.append(table.version)
    assert table.version == seen[-1]
    assert len(set(seen)) == 3


# ---- refusals ----


def test_branches_that_do_not_go_together(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    path = tmp_path / "t" / "branch" / "branch-rt" / "schema" / "schema-0"
    plain = json.loads(path.read_text())
    id_field = plain["fields"][1]
    for change, message in (
        ({"fields": [*plain["fields"][:2], {"id": 2, "name": "text", "type": "INT"}]}, "columns of branch 'main'"),
        ({"fields": [*plain["fields"][:2], {"id": 2, "name": "other", "type": "STRING"}]}, "2: text STRING"),
        ({"fields": [*plain["fields"][:2], {"id": 3, "name": "text", "type": "STRING"}]}, "3: text STRING"),
        ({"fields": [id_field, plain["fields"][0], plain["fields"][2]]}, "columns of branch 'main'"),
        ({"fields": plain["fields"][:2]}, "columns of branch 'main'"),
        ({"partitionKeys": []}, "partition keys of branch 'main'"),
        ({"options": {"scan.primary-branch": "main"}}, "scan.primary-branch"),
    ):
        path.write_text(json.dumps(plain | {"highestFieldId": 3} | change))
        with pytest.raises((SchemaError, UnsupportedError), match=message):
            table.scan()
    path.write_text(json.dumps(plain | {"options": {OPTION: "rt"}}))  # which a branch of a branch has
    assert table.scan().count() == table.scan(ref="rt").count() == 0
    keyed = make(tmp_path / "k", "keyed", sets_option=False)
    path = tmp_path / "k" / "branch" / "branch-rt" / "schema" / "schema-0"
    path.write_text(json.dumps(plain))
    with pytest.raises(SchemaError, match="nulls of branch 'main'"):
        set_option(keyed).scan()


@pytest.mark.parametrize(
    ("branch", "error", "message"),
    [
        ("tr", NotFoundError, "scan.fallback-branch=tr: the branch does not exist; there are: rt"),
        ("../../rt", SchemaError, "is not a valid branch name"),
    ],
)
def test_branches_that_are_not_there(tmp_path: Path, branch: str, error: type[Exception], message: str) -> None:
    table = make(tmp_path / "t", sets_option=False)
    table.append(rows("d1", 1))
    set_option(table, branch)
    for read in (table.scan, table.statistics, table.freshness):
        with pytest.raises(error, match=message):
            read()
    assert set_option(table, "main").scan().count() == 1


# ---- Java and Spark ----


@pytest.mark.spark
@pytest.mark.parametrize("shape", SHAPES)
def test_java_reads_the_same(tmp_path: Path, java_paimon: JavaPaimon, shape: str) -> None:
    """Java writes both branches, whose partitions begin in either order."""
    table = make(tmp_path / "t", shape)
    path = table.location
    none = None if shape == "append" else "d0"
    for branch, data in (
        ("rt", rows("d4", 2, 3, text="r")),
        (None, rows("d1", 1, 2)),
        (None, rows(none, 7)),
        ("rt", rows("d1", 3, 4, text="r")),
        ("rt", rows("d2", 5, 6, text="r")),
        (None, rows("d3", 1)),
        ("rt", rows("d4", 3, text="s")),
        ("rt", rows(none, 9, text="r")),
    ):
        java_paimon.write(path, java_rows(data), branch=branch)
        time.sleep(0.002)
        table.handle.refresh()
        assert found(table) == in_order(java_paimon.read(path))
    assert len(found(table)) == (9 if shape == "append" else 8)
    for equal in ({"day": "d1"}, {"day": "d4"}, {"id": 3}, {"day": "d1", "id": 3}, {"text": "r3"}):
        where = " and ".join(f"{name} = {value!r}" for name, value in equal.items())
        assert found(table, where=where) == in_order(java_paimon.read(path, equal=equal)), where
    for number in (1, 2, 3):
        then = java_paimon.read(path, options={"scan.snapshot-id": str(number)})
        assert found(table, snapshot=number) == in_order(then)
    table.delete("day = 'd1'")
    table.append(rows("d2", 8))
    assert found(table) == in_order(java_paimon.read(path))
    assert in_order(java_paimon.read(path, branch="rt")) == found(table, ref="rt")


@pytest.mark.spark
@pytest.mark.parametrize("merge_engine", ["deduplicate", "first-row"])
def test_partitions_whose_rows_wait_for_compaction(tmp_path: Path, java_paimon: JavaPaimon, merge_engine: str) -> None:
    """First-row tables hide level 0, with it whole partitions: the other branch is asked for them, as in Java."""
    table = make(tmp_path / "t", "keyed", sets_option=False)
    for folder in (tmp_path / "t", tmp_path / "t" / "branch" / "branch-rt"):
        path = folder / "schema" / "schema-0"
        schema = json.loads(path.read_text())
        schema["options"] |= {"merge-engine": merge_engine, "write-only": "true"}
        path.write_text(json.dumps(schema))
    table = set_option(PaimonTable.open(Storage(), table.location))
    java_paimon.write(table.location, java_rows(rows("d1", 1)))
    java_paimon.write(table.location, java_rows(rows("d2", 1)))
    for _ in range(2):
        java_paimon.write(table.location, java_rows(rows("d1", 2, text="r")), branch="rt")
    table.handle.refresh()
    assert found(table) == in_order(java_paimon.read(table.location))


@pytest.mark.spark
@pytest.mark.parametrize("shape", ["append", "rt"])
def test_spark_reads_the_same(tmp_path: Path, spark: Any, shape: str) -> None:
    import skerry
    import skerry.spark

    catalog = skerry.connect(str(tmp_path / "w"))
    catalog.create_namespace("d")
    table = make(tmp_path / "w" / "d.db" / "t", shape)
    fill(table)
    wanted = expected(keyed=shape == "rt")
    opened = catalog.load_table("d.t")
    assert sorted(map(list, skerry.spark.read(spark, opened).collect())) == wanted
    of_query = skerry.spark.sql(spark, "select * from d.t where id = 2", catalog).collect()
    assert sorted(map(list, of_query)) == [row for row in wanted if row[1] == 2]
    assert catalog.sql("select count(*) as n from d.t where day >= 'd2'").to_pylist() == [
        {"n": sum(row[0] >= "d2" for row in wanted)}
    ]
    table.append(rows("d9", 2, text="r"), ref="rt")  # which the frames of later queries have
    again = skerry.spark.sql(spark, "select * from d.t where id = 2", catalog).collect()
    assert len(again) == len(of_query) + 1
    wanted.append(["d9", 2, "r2"])
    skerry.spark.register(spark)
    frame = spark.read.format("skerry").option("catalog", str(tmp_path / "w")).load("d.t")
    assert sorted(map(list, frame.collect())) == wanted
