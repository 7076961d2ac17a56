"""The system tables that Paimon alone has, against those of Paimon's Java library."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace

import pyarrow as pa
import pytest

import skerry
from skerry.errors import NotFoundError, SchemaError, UnsupportedError
from skerry.paimon.metadata.consumers import write_consumer
from skerry.paimon.reading.row_tables import row_table

DAYS = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        ("name", pa.string()),
        ("n", pa.int32()),
    ]
)
ENGINES = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {"fields.n.aggregate-function": "sum", "fields.name.aggregate-function": "last_value"},
}


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def make(catalog, keys=("id", "day"), **properties):
    return catalog.create_table(
        "ns.t",
        SCHEMA,
        format="paimon",
        primary_key=list(keys),
        partition_by=["day", "bucket(2, id)"] if keys else ["day"],
        properties={"write-only": "true", **properties},
    )


def rows(ids, n=1):
    return pa.table(
        {"id": ids, "day": [DAYS[i % 2] for i in ids], "name": [f"n{i}" for i in ids], "n": [n] * len(ids)}, SCHEMA
    )


def path_of(table):
    return table.location.removeprefix("file://")


def of_java(java_paimon, table, name):
    """The rows of a system table as ours have them: days are days."""
    found = java_paimon.system(path_of(table), name)
    for row in found:
        if isinstance(row.get("day"), int):
            row["day"] = datetime.date(1970, 1, 1) + datetime.timedelta(row["day"])
        elif isinstance(row.get("day"), list):
            row["day"] = [datetime.date(1970, 1, 1) + datetime.timedelta(day) for day in row["day"]]
    return found


def ordered(found):
    return sorted(found, key=str)


@pytest.mark.parametrize("engine", ENGINES)
def test_records_have_the_kinds_that_java_shows(java_paimon, catalog, engine):
    table = make(catalog, **{"merge-engine": engine, **ENGINES[engine]})
    table.append(rows([1, 2, 3, 4, 5, 6]))
    table.append(rows([2, 3, 8], n=7))
    if engine != "aggregation":
        table.delete("id = 3 or id = 8")
    log = ordered(table.inspect.read("audit_log").to_pylist())
    assert log == ordered(of_java(java_paimon, table, "audit_log"))
    assert engine != "deduplicate" or {row["rowkind"] for row in log} == {"+I", "-D"}
    assert ordered(table.inspect.read("binlog").to_pylist()) == ordered(of_java(java_paimon, table, "binlog"))
    assert table.inspect.read("ro").num_rows == 0 == len(of_java(java_paimon, table, "ro"))
    table.compact("day = DATE '2026-01-01'", full=True)
    table.append(rows([2, 10]))
    optimized = ordered(table.inspect.read("read_optimized").to_pylist())
    assert optimized == ordered(of_java(java_paimon, table, "ro"))
    assert {row["id"] for row in optimized} <= {2, 4, 6, 8}
    assert len(optimized) >= 3
    assert ordered(table.inspect.read("audit_log").to_pylist()) == ordered(of_java(java_paimon, table, "audit_log"))


def test_append_tables_have_inserts(java_paimon, catalog):
    table = make(catalog, keys=())
    table.append(rows([1, 2, 3]))
    for name in ("audit_log", "ro", "binlog"):
        assert ordered(table.inspect.read(name).to_pylist()) == ordered(of_java(java_paimon, table, name))


def test_rows_have_the_ids_that_java_shows(java_paimon, catalog):
    table = make(catalog, keys=(), **{"row-tracking.enabled": "true", "bucket": "-1"})
    table.append(rows([1, 2, 3]))
    table.append(rows([4, 5, 6]))
    table.compact(full=True)
    found = ordered(table.inspect.read("row_tracking").to_pylist())
    assert found == ordered(of_java(java_paimon, table, "row_tracking"))
    assert sorted(row["_ROW_ID"] for row in found) == list(range(6))
    assert catalog.sql("""SELECT id FROM "ns.t$row_tracking" WHERE _ROW_ID = 4""").num_rows == 1
    with pytest.raises(UnsupportedError, match="row-tracking"):
        catalog.create_table("ns.u", SCHEMA, format="paimon").inspect.read("row_tracking")


def test_java_describes_the_table_alike(java_paimon, catalog):
    table = make(catalog, **{"merge-engine": "aggregation", **ENGINES["aggregation"]})
    table.append(rows([1, 2, 3]))
    table.create_tag("one")
    table.create_tag("two", max_ref_age=datetime.timedelta(hours=30))
    table.create_branch("side")
    with table.update_schema() as update:
        update.update_column("name", doc="their name").add_column("more", pa.list_(pa.string()))
    write_consumer(table.storage, table.handle.state.paths, "reader", 1)
    table.append(pa.table({**rows([3, 4]).to_pydict(), "more": [None, ["x"]]}, table.schema))
    inspect = table.inspect

    schemas = inspect.read("schemas").to_pylist()
    theirs = java_paimon.system(path_of(table), "schemas")
    assert len(schemas) == len(theirs) >= 2
    for ours, expected in zip(schemas, sorted(theirs, key=lambda row: row["schema_id"]), strict=True):
        for name in ("fields", "partition_keys", "primary_keys"):
            found = json.loads(ours[name]) if name == "fields" else ours[name]
            assert found == json.loads(expected[name])
        assert dict(ours["options"]) == json.loads(expected["options"])
        assert ours["schema_id"] == expected["schema_id"]
        assert local_millis(ours["update_time"]) == expected["update_time"][0]
    assert {row["key"]: row["value"] for row in inspect.read("options").to_pylist()} == {
        row["key"]: row["value"] for row in java_paimon.system(path_of(table), "options")
    }
    for ours, expected in zip(
        ordered(inspect.read("buckets").to_pylist()), java_paimon.system(path_of(table), "buckets"), strict=True
    ):
        assert f"{{{ours['partition']['day']}}}" == expected["partition"]
        assert local_millis(ours["last_update_time"]) == expected["last_update_time"][0]
        for name in ("bucket", "record_count", "file_size_in_bytes", "file_count"):
            assert ours[name] == expected[name]
    tags = ordered(inspect.read("tags").to_pylist())
    theirs = ordered(java_paimon.system(path_of(table), "tags"))
    assert [row["tag_name"] for row in tags] == [row["tag_name"] for row in theirs] == ["branch-side", "one", "two"]
    for ours, expected in zip(tags, theirs, strict=True):
        for name in ("snapshot_id", "schema_id", "record_count"):
            assert ours[name] == expected[name]
        assert local_millis(ours["commit_time"]) == expected["commit_time"][0]
        assert (ours["create_time"] is None) == (expected["create_time"] is None)
    assert tags[2]["time_retained"] == datetime.timedelta(hours=30)
    assert theirs[2]["time_retained"] == "PT30H"
    assert inspect.read("branches")["branch_name"].to_pylist() == [
        row["branch_name"] for row in java_paimon.system(path_of(table), "branches")
    ]
    assert inspect.read("consumers").to_pylist() == java_paimon.system(path_of(table), "consumers")
    fields = java_paimon.system(path_of(table), "aggregation_fields")
    for ours, expected in zip(inspect.read("aggregation_fields").to_pylist(), fields, strict=True):
        for name in ("function", "function_options"):
            assert f"[{', '.join(ours.pop(name))}]" == expected.pop(name)
        assert ours == expected
    ranges = {row["file_path"].rpartition("/")[2]: row for row in inspect.read("file_key_ranges").to_pylist()}
    theirs = java_paimon.system(path_of(table), "file_key_ranges")
    assert len(ranges) == len(theirs)
    for expected in theirs:
        ours = ranges[expected["file_path"].rpartition("/")[2]]
        assert [f"[{ours[key]['id']}]" for key in ("min_key", "max_key")] == [expected["min_key"], expected["max_key"]]
        assert f"{{{ours['partition']['day']}}}" == expected["partition"]
        for name in ("bucket", "schema_id", "level", "record_count", "file_size_in_bytes", "first_row_id"):
            assert ours[name] == expected[name]


def local_millis(moment):
    """Milliseconds of a point in time by the clock on the wall, as Java's TIMESTAMP has it."""
    local = moment.astimezone().replace(tzinfo=datetime.UTC)
    return round(local.timestamp() * 1000)


def test_java_shows_the_same_indexes(java_paimon, catalog):
    table = make(catalog, keys=(), **{"deletion-vectors.enabled": "true"})
    table.append(rows(range(6)))
    table.delete("id = 2 or id = 3")
    found = table.inspect.read("table_indexes").to_pylist()
    theirs = java_paimon.system(path_of(table), "table_indexes")
    assert len(found) == len(theirs) == 2
    by_name = {row["file_name"]: row for row in found}
    for expected in theirs:
        ours = by_name[expected["file_name"]]
        assert f"{{{ours['partition']['day']}}}" == expected["partition"]
        assert [list(one.values()) for one in ours["dv_ranges"]] == expected["dv_ranges"]
        for name in ("bucket", "index_type", "file_size", "row_count"):
            assert ours[name] == expected[name]


def test_queries_read_system_tables(catalog):
    table = make(catalog)
    table.append(rows([1, 2, 3, 4]))
    table.delete("id = 3")
    assert catalog.sql("""SELECT rowkind, id FROM "ns.t$audit_log" WHERE id > 2 ORDER BY id""").to_pylist() == [
        {"rowkind": "-D", "id": 3},
        {"rowkind": "+I", "id": 4},
    ]
    assert catalog.sql("""SELECT count(*) AS n FROM "ns.t$audit_log" WHERE rowkind = '-D'""").to_pylist() == [{"n": 1}]
    assert catalog.sql("""SELECT id FROM "ns.t$binlog" WHERE rowkind = '-D'""").to_pylist() == [{"id": [3]}]
    assert catalog.sql('SELECT count(*) AS n FROM "ns.t$ro"').to_pylist() == [{"n": 0}]
    assert catalog.sql('SELECT sum(record_count) AS n FROM "ns.t$buckets"').to_pylist() == [{"n": 5}]
    joined = catalog.sql(
        """SELECT s.schema_id, count(*) AS n FROM "ns.t$schemas" s JOIN "ns.t$snapshots" c USING (schema_id)
        GROUP BY 1"""
    )
    assert joined.to_pylist() == [{"schema_id": 0, "n": 2}]


def test_rows_are_read_as_asked_for(catalog):
    table = make(catalog)
    table.append(rows(range(10)))
    first = table.current_snapshot().snapshot_id
    table.delete("id < 5")
    inspect = table.inspect
    log = inspect.rows("audit_log", columns=["name", "rowkind"], where="rowkind = '-D' AND id > 1", limit=2)
    assert log.to_arrow().schema.names == ["name", "rowkind"]
    assert log.to_arrow()["rowkind"].to_pylist() == ["-D"] * 2
    assert inspect.read("audit_log", columns=["rowkind"], snapshot=first)["rowkind"].to_pylist() == ["+I"] * 10
    assert inspect.rows("audit_log", limit=0).to_arrow().num_rows == 0
    assert log.row_bounds()[1] >= 2
    with pytest.raises(SchemaError, match="does not consist of the table's rows"):
        inspect.rows("files")
    with pytest.raises(SchemaError, match="takes neither snapshot nor ref"):
        inspect.read("tags", snapshot=first)
    with pytest.raises(NotFoundError, match="did you mean 'audit_log'"):
        inspect.read("audit_logs")
    iceberg = catalog.create_table("ns.i", SCHEMA)
    with pytest.raises(NotFoundError, match="no metadata table 'audit_log'"):
        iceberg.inspect.rows("audit_log")
    with pytest.raises(UnsupportedError, match="have no metadata_log"):
        inspect.read("metadata_log")


def test_columns_named_like_a_kind_are_refused(catalog):
    """Paimon does not create such tables; other writers may."""
    state = make(catalog).handle.state
    fields = [replace(field, name="rowkind") if field.name == "name" else field for field in state.schema.fields]
    with pytest.raises(SchemaError, match="reserved for a record's kind"):
        row_table(replace(state, schema=replace(state.schema, fields=tuple(fields))), "audit_log")
