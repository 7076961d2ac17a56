"""Schema evolution: what becomes of rows, statistics and properties, what is refused, and what rivals do to it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.types import LongType
from rivals import SCHEMA, beaten_by, keys, metadata_json, path_of, peer, rows

import skerry
from skerry.errors import SchemaError

NESTED = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("place", pa.struct([("x", pa.float32()), ("y", pa.float32())])),
        ("tags", pa.list_(pa.struct([("name", pa.string())]))),
        ("scores", pa.map_(pa.string(), pa.struct([("points", pa.int32())]))),
        ("price", pa.decimal128(5, 2)),
    ]
)
NESTED_ROWS = pa.Table.from_pylist(
    [
        {
            "id": 1,
            "place": {"x": 0.5, "y": 1.5},
            "tags": [{"name": "a"}],
            "scores": {"k": {"points": 3}},
            "price": decimal.Decimal("1.25"),
        }
    ],
    NESTED,
)


@pytest.fixture
def warehouse(tmp_path):
    return tmp_path / "warehouse"


@pytest.fixture
def catalog(warehouse):
    return skerry.connect(warehouse)


@pytest.fixture
def table(catalog):
    made = catalog.create_table("d.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1"})
    made.append(rows(0, 10))
    return made


@pytest.fixture
def nested(catalog):
    made = catalog.create_table("d.n", NESTED, primary_key=["id"])
    made.append(NESTED_ROWS)
    return made


def ids(table):
    schema = table.handle.state.metadata.schema()
    return {name: schema.find_field(name).field_id for name in schema.column_names}


def freshness(table):
    return {name: str(column.freshness) for name, column in table.statistics().items()}


# What happens to rows and statistics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_change_at_once(catalog, warehouse, version):
    table = catalog.create_table("d.v", SCHEMA, format_version=version)
    table.append(rows(0, 10))
    with table.update_schema() as update:
        update.add_column("note", "string", doc="free text").add_column("n", LongType())
        update.rename_column("s", "word")
        update.update_column("k", pa.int64(), doc="the key")
        update.delete_column("d")
        update.move_first("note").move_after("n", "k").move_before("word", "n")
    assert table.schema.names == ["note", "k", "word", "n"]
    assert table.schema.field("k").type == pa.int64()
    table.append(pa.table({"note": ["x"], "k": [2**40], "word": ["w"], "n": [7]}))
    expected = [{"note": None, "k": k, "word": f"word {k % 7}", "n": None} for k in range(10)]
    expected.append({"note": "x", "k": 2**40, "word": "w", "n": 7})
    assert table.scan().to_arrow().sort_by("k").to_pylist() == expected
    assert peer(warehouse, "d.v").scan().to_arrow().sort_by("k").to_pylist() == expected
    metadata = metadata_json(table)
    assert [schema["schema-id"] for schema in metadata["schemas"]] == [0, 1]
    assert (metadata["current-schema-id"], metadata["last-column-id"]) == (1, 5)
    if version == 1:
        assert metadata["schema"]["schema-id"] == 1, "old readers go by it"


def test_statistics_follow_columns_by_id(table):
    with table.update_schema() as update:
        update.rename_column("s", "word").delete_column("d").add_column("new", pa.string())
        update.update_column("k", pa.int64())
    before = freshness(table)
    assert before == {
        "k": "absent: sketched before the column became int64; run analyze",
        "word": "fresh",
        "new": "fresh",  # no row has a value yet
    }
    assert table.freshness() == {name: column.freshness for name, column in table.statistics().items()}
    assert (table.statistics()["word"].ndv, table.statistics()["k"].ndv, table.statistics()["k"].sketch) == (
        7,
        None,
        None,
    )
    table.append(pa.table({"k": [100], "word": ["more"], "new": ["n"]}))
    assert (table.statistics()["word"].ndv, freshness(table)["word"]) == (8, "fresh")
    assert freshness(table)["k"].startswith("absent")
    assert (table.statistics()["new"].ndv, freshness(table)["new"]) == (1, "fresh")
    table.analyze()
    assert freshness(table) == dict.fromkeys(("k", "word", "new"), "fresh")
    assert (table.statistics()["k"].ndv, table.statistics()["new"].ndv) == (11, 1)


def test_a_promoted_column_that_was_analyzed_is_fresh_and_grows(table):
    table.update_schema().update_column("k", pa.int64()).commit()
    table.analyze()
    assert freshness(table)["k"] == "fresh"
    table.append(pa.table({"k": [5, 10], "s": ["a", "b"], "d": [None, None]}, schema=table.schema))
    assert (table.statistics()["k"].ndv, freshness(table)["k"]) == (11, "fresh")


def test_a_column_added_under_the_name_of_a_deleted_one_is_another(table, warehouse):
    with table.update_schema() as update:
        update.delete_column("s").add_column("s", pa.string())
    assert ids(table)["s"] == 4
    assert table.scan(columns=["s"]).to_arrow()["s"].null_count == 10
    assert peer(warehouse, "d.t").scan().to_arrow()["s"].null_count == 10
    assert (table.statistics()["s"].ndv, freshness(table)["s"]) == (0, "fresh")


def test_nested_columns(nested, warehouse):
    with nested.update_schema() as update:
        update.add_column("place.z", pa.float64()).rename_column("place.x", "lon").delete_column("place.y")
        update.add_column("tags.element.colour", pa.string()).add_column(["scores", "rank"], "int")
        update.update_column("scores.value.points", pa.int64()).update_column("place.lon", pa.float64())
        update.move_first("place.z").update_column("price", "decimal(10, 2)")
        update.add_column("extra", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]))
    expected = {
        "id": 1,
        "place": {"z": None, "lon": 0.5},
        "tags": [{"name": "a", "colour": None}],
        "scores": [("k", {"points": 3, "rank": None})],
        "price": decimal.Decimal("1.25"),
        "extra": None,
    }
    assert nested.scan().to_arrow().to_pylist() == [expected]
    assert peer(warehouse, "d.n").scan().to_arrow().to_pylist() == [expected]
    found = ids(nested)
    assert len(set(found.values())) == len(found)


def test_defaults(catalog, warehouse):
    table = catalog.create_table("d.v", SCHEMA, format_version=3)
    table.append(rows(0, 3))
    with table.update_schema() as update:
        update.add_column("n", pa.int32(), required=True, default_value=7)
        update.add_column("day", pa.date32(), default_value=dt.date(2021, 2, 3))
        update.add_column("at", pa.timestamp("us", "UTC"), default_value=dt.datetime(2021, 2, 3, 4, 5, tzinfo=dt.UTC))
        update.add_column("price", pa.decimal128(7, 2), default_value=decimal.Decimal("9.95"))
    (row,) = table.scan(columns=["n", "day", "at", "price"], limit=1).to_arrow().to_pylist()
    assert row == {
        "n": 7,
        "day": dt.date(2021, 2, 3),
        "at": dt.datetime(2021, 2, 3, 4, 5, tzinfo=dt.UTC),
        "price": decimal.Decimal("9.95"),
    }
    field = {f["name"]: f for f in metadata_json(table)["schemas"][-1]["fields"]}
    assert (field["day"]["initial-default"], field["n"]["write-default"], field["price"]["initial-default"]) == (
        "2021-02-03",
        7,
        "9.95",
    )
    with table.update_schema() as update:
        update.set_default_value("n", 8).rename_column("day", "date").update_column("n", pa.int64())
    table.append(rows(3, 5))
    assert sorted(table.scan(columns=["n"]).to_arrow()["n"].to_pylist()) == [7, 7, 7, 8, 8]
    assert {str(row) for row in table.scan(columns=["date"]).to_arrow()["date"].to_pylist()} == {"2021-02-03"}
    assert peer(warehouse, "d.v").metadata.schema().find_field("n").write_default == 8


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_defaults_that_json_does_not_have_are_refused(catalog, type_, value):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), format_version=3)
    with pytest.raises(SchemaError, match="column 'x': metadata cannot store the default"):
        table.update_schema().add_column("x", type_, default_value=value).commit()
    table.update_schema().add_column("x", type_).commit()
    with pytest.raises(SchemaError, match="column 'x': metadata cannot store the default"):
        table.update_schema().set_default_value("x", value).commit()


def test_defaults_of_nanoseconds(catalog, warehouse):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), format_version=3)
    table.append(pa.table({"k": [1]}))
    moment = np.datetime64("1969-12-31T23:59:59.000000001", "ns")
    with table.update_schema() as update:
        update.add_column("a", pa.timestamp("ns"), default_value=moment)
        update.add_column("b", pa.timestamp("ns", "UTC"), default_value=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    table = catalog.load_table("d.t")
    table.append(pa.table({"k": [2]}))
    found = catalog.load_table("d.t").scan().to_arrow()
    assert found["a"].cast(pa.int64()).to_pylist() == [moment.astype(int)] * 2
    assert found["b"].cast(pa.int64()).to_pylist() == [1_577_836_800 * 10**9] * 2
    assert table.scan(where="a < TIMESTAMP '1970-01-01'").count() == 2
    fields = metadata_json(table)["schemas"][-1]["fields"]
    assert [field.get("initial-default") for field in fields] == [
        None,
        "1969-12-31T23:59:59.000000001",
        "2020-01-01T00:00:00+00:00",
    ]


def test_a_nested_default_of_another_writer_is_kept_and_read(catalog):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), format_version=3)
    table.append(pa.table({"k": [1]}))
    table.update_schema().add_column("x", pa.list_(pa.int32())).commit()
    path, metadata = path_of(table.metadata_location), metadata_json(table)
    metadata["schemas"][-1]["fields"][1]["initial-default"] = [1, 2]
    path.write_text(json.dumps(metadata))
    table = catalog.load_table("d.t")
    table.append(pa.table({"k": [2], "x": pa.array([[3]], pa.list_(pa.int32()))}))
    table = catalog.load_table("d.t")
    assert metadata_json(table)["schemas"][-1]["fields"][1]["initial-default"] == [1, 2]
    assert sorted(table.scan(["k"]).to_arrow()["k"].to_pylist()) == [1, 2]
    assert table.scan(where="k = 2").to_arrow().to_pylist() == [{"k": 2, "x": [3]}]
    assert sorted(map(str, table.scan().to_arrow()["x"].to_pylist())) == ["[1, 2]", "[3]"]


def test_a_dates_default_becomes_a_timestamps(catalog):
    table = catalog.create_table("d.v", SCHEMA, format_version=3)
    table.append(rows(0, 3))
    table.update_schema().add_column("day", pa.date32(), default_value=dt.date(2021, 2, 3)).commit()
    table.update_schema().update_column("day", pa.timestamp("us")).commit()
    assert set(table.scan(columns=["day"]).to_arrow()["day"].to_pylist()) == {dt.datetime(2021, 2, 3)}


def test_union_by_name(nested):
    wider = pa.schema(
        [
            ("id", pa.int64()),
            ("place", pa.struct([("x", pa.float64()), ("z", pa.string())])),
            ("scores", pa.map_(pa.string(), pa.struct([("points", pa.int16()), ("rank", pa.int32())]))),
            ("more", pa.list_(pa.int32())),
        ]
    )
    nested.update_schema().union_by_name(wider).commit()
    schema = nested.schema
    assert schema.field("id").type == pa.int64()
    assert [field.name for field in schema.field("place").type] == ["x", "y", "z"]
    assert schema.field("place").type.field("x").type == pa.float64()
    assert schema.field("scores").type.item_type.field("points").type == pa.int32(), "wider already"
    assert schema.names[-1] == "more"
    location = nested.metadata_location
    nested.update_schema().union_by_name(wider).commit()
    assert nested.metadata_location == location
    with pytest.raises(SchemaError, match=r"column 'place.x' cannot change from double to string"):
        nested.update_schema().union_by_name(pa.schema([("place", pa.struct([("x", pa.string())]))])).commit()


def test_identifier_fields(nested, warehouse):
    assert nested.handle.state.metadata.schema().identifier_field_ids == (1,)
    nested.update_schema().rename_column("id", "key").commit()
    assert peer(warehouse, "d.n").metadata.schema().identifier_field_names() == {"key"}
    with pytest.raises(SchemaError, match="column 'key' identifies rows; set other identifier fields first"):
        nested.update_schema().delete_column("key").commit()
    with pytest.raises(SchemaError, match="column 'key' identifies rows and must stay required"):
        nested.update_schema().make_column_optional("key").commit()
    with nested.update_schema() as update:
        update.set_identifier_fields().make_column_optional("key").delete_column("key")
    assert nested.handle.state.metadata.schema().identifier_field_ids == ()
    for path, reason in (
        ("place.x", "its type is float"),
        ("price", "it is not required"),
        ("tags", "its type is list"),
    ):
        with pytest.raises(SchemaError, match=f"column '{path}' cannot identify rows: {reason}"):
            nested.update_schema().set_identifier_fields(path).commit()


def test_a_name_with_a_dot_is_a_list(table):
    table.update_schema().add_column(["a.b"], pa.int32()).commit()
    assert table.schema.names[-1] == "a.b"
    with pytest.raises(SchemaError, match=r"no struct 'c' for column 'c.d'; .* is written \['c.d'\]"):
        table.update_schema().add_column("c.d", pa.int32()).commit()
    table.update_schema().rename_column("a.b", "ab").commit()
    assert table.schema.names[-1] == "ab"


# What is refused -----------------------------------------------------------------------------------------------------

REFUSED = [
    (lambda u: u.add_column("s", pa.int32()), "column 's' already exists"),
    (lambda u: u.add_column("", pa.int32()), "a column needs a name"),
    (lambda u: u.add_column("n", pa.int32(), required=True), "column 'n' cannot be required: existing rows"),
    (lambda u: u.add_column("n", pa.int32(), default_value=1), "defaults need format version 3, the table has 2"),
    (lambda u: u.add_column("n", "timestamp_ns"), "type timestamp_ns needs format version 3, the table has 2"),
    (lambda u: u.add_column("n", "text"), "there is no Iceberg type 'text'"),
    (lambda u: u.add_column("n", pa.uint64()), "Arrow type uint64 cannot be stored"),
    (lambda u: u.add_column("k.n", pa.int32()), "column 'k' is not a struct"),
    (lambda u: u.delete_column("ss"), "no column 'ss'"),
    (
        lambda u: [u.delete_column(name) for name in ("k", "s", "d", "extra")][-1],
        "the last column of a table cannot be",
    ),
    (lambda u: u.rename_column("k", "s"), "column 'k' cannot be renamed: column 's' already exists"),
    (lambda u: u.rename_column("k", ""), "a column needs a name"),
    (lambda u: u.update_column("k", pa.int16()), None),
    (lambda u: u.update_column("k", pa.string()), "column 'k' cannot change from int to string"),
    (lambda u: u.update_column("d", pa.timestamp("us")), "column 'd' cannot change from date to timestamp"),
    (lambda u: u.update_column("k", required=True), "column 'k' cannot become required"),
    (lambda u: u.move_before("k", "k"), "column 'k' cannot be moved to 'k'"),
    (lambda u: u.set_identifier_fields("k"), "column 'k' cannot identify rows: it is not required"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=range(len(REFUSED)))
def test_changes_that_do_not_fit_change_nothing(table, change, message):
    location = table.metadata_location
    if message is None:
        change(table.update_schema()).commit()
    else:
        with pytest.raises(SchemaError, match=message):
            change(table.update_schema().add_column("extra", pa.int32())).commit()
    assert table.refresh().metadata_location == location


def test_nested_changes_that_do_not_fit(nested):
    for change, message in (
        (lambda u: u.delete_column("tags.element"), "is part of its type"),
        (lambda u: u.rename_column("scores.key", "x"), "is part of its type"),
        (lambda u: u.update_column("scores.key", required=False), "keys of map 'scores' cannot be changed"),
        (lambda u: u.delete_column("place.x").delete_column("place.y"), "the last column of struct 'place'"),
        (lambda u: u.move_after("place.x", "id"), "they are in different structs"),
        (lambda u: u.add_column("place.x", pa.int32()), "column 'place.x' already exists"),
    ):
        with pytest.raises(SchemaError, match=message):
            change(nested.update_schema()).commit()


def test_incompatible_changes_on_request(table):
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("k", required=True).set_identifier_fields("k")
    assert not table.schema.field("k").nullable
    assert keys(table) == [*range(10)]


def test_an_exception_in_the_block_commits_nothing(table):
    location = table.metadata_location

    def fail():
        with table.update_schema() as update:
            update.add_column("n", pa.int32())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert table.refresh().metadata_location == location


def test_columns_in_use_cannot_go(catalog):
    table = catalog.create_table("d.p", SCHEMA, partition_by=["day(d)", "bucket(4, k)"], sort_by=["s"])
    with pytest.raises(SchemaError, match="column 'd' is used by partition field 'd_day'; change that first"):
        table.update_schema().delete_column("d").commit()
    with pytest.raises(SchemaError, match="column 's' is used by the sort order; change that first"):
        table.update_schema().delete_column("s").commit()
    with pytest.raises(SchemaError, match="the name 'd_day' is used by a partition field"):
        table.update_schema().add_column("d_day", pa.int32()).commit()
    table.update_schema().update_column("k", pa.int64()).commit()
    table.append(pa.table({"k": [2**40], "s": ["x"], "d": [None]}, schema=table.schema))
    assert keys(table, where=f"k = {2**40}") == [2**40], "a bucket of the long is that of the int"


# Properties that name columns ----------------------------------------------------------------------------------------


def test_properties_follow_their_columns(catalog):
    table = catalog.create_table(
        "d.p",
        SCHEMA,
        properties={
            "skerry.statistics.columns": "k, s",
            "write.metadata.metrics.column.s": "counts",
            "write.metadata.metrics.column.d": "none",
        },
    )
    table.append(rows(0, 10))
    with table.update_schema() as update:
        update.rename_column("s", "word").delete_column("d").delete_column("k")
    assert {name: value for name, value in table.properties.items() if "column" in name} == {
        "skerry.statistics.columns": "word",
        "write.metadata.metrics.column.word": "counts",
    }
    table.append(pa.table({"word": ["x"]}))
    assert (table.statistics()["word"].ndv, freshness(table)["word"]) == (8, "fresh")


# Rivals --------------------------------------------------------------------------------------------------------------


def test_changes_are_made_to_the_schema_that_a_rival_left(catalog, table, warehouse, monkeypatch):
    rival = catalog.load_table("d.t")
    attempts = beaten_by(
        monkeypatch,
        lambda: rival.update_schema().add_column("theirs", pa.int32()).commit(),
        lambda: rival.update_schema().rename_column("s", "word").commit(),
    )
    with table.update_schema() as update:
        update.add_column("ours", pa.string()).move_first("ours")
    assert len(attempts) == 3
    assert table.schema.names == ["ours", "k", "word", "d", "theirs"]
    assert (ids(table)["theirs"], ids(table)["ours"]) == (4, 5), "no id is given twice"
    assert peer(warehouse, "d.t").schema().column_names == table.schema.names


def test_a_change_that_a_rival_made_impossible_is_refused(catalog, table, monkeypatch):
    rival = catalog.load_table("d.t")
    beaten_by(monkeypatch, lambda: rival.update_schema().rename_column("s", "word").commit())
    with pytest.raises(SchemaError, match="no column 's'"):
        table.update_schema().rename_column("s", "text").commit()
    assert table.refresh().schema.names == ["k", "word", "d"]


def test_the_same_column_added_by_two(catalog, table, monkeypatch):
    rival = catalog.load_table("d.t")
    beaten_by(monkeypatch, lambda: rival.update_schema().add_column("n", pa.int32()).commit())
    with pytest.raises(SchemaError, match="column 'n' already exists"):
        table.update_schema().add_column("n", pa.int32()).commit()


def test_an_append_while_the_schema_changes_keeps_its_rows(catalog, table, monkeypatch):
    rival = catalog.load_table("d.t")
    beaten_by(monkeypatch, lambda: rival.append(rows(10, 20)))
    table.update_schema().rename_column("k", "key").commit()
    assert sorted(table.refresh().scan(columns=["key"]).to_arrow()["key"].to_pylist()) == [*range(20)]
