"""Views: named queries of a catalog, kept as Iceberg keeps them."""

from __future__ import annotations

import sqlite3
import threading

import pyarrow as pa
import pytest
from pyiceberg.view.metadata import ViewMetadata as PyIcebergView

import skerry
from skerry.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    NotFoundError,
    SchemaError,
    SkerryError,
    UnsupportedError,
)
from skerry.iceberg.metadata.json_records import decode_json, encode_json
from skerry.iceberg.metadata.view_metadata import decode_view, encode_view, parse_view
from skerry.storage import Storage

SALES = pa.table({"Item": ["a", "b", "a", "c"], "amount": [1, 2, 3, 4]})
PRICES = pa.table({"item": ["a", "b"], "price": [0.5, 2.0]})


@pytest.fixture
def catalog(tmp_path):
    found = skerry.connect(tmp_path / "lake")
    found.create_table("shop.sales", SALES.schema).append(SALES)
    found.create_table("shop.prices", PRICES.schema, format="paimon", primary_key=["item"]).append(PRICES)
    return found


def rows(catalog, sql):
    return catalog.sql(sql).to_pylist()


def test_a_view_stands_for_its_query(catalog):
    view = catalog.create_view(
        "shop.totals", "SELECT Item, sum(amount)::BIGINT AS total FROM sales GROUP BY Item", properties={"owner": "me"}
    )
    assert view.schema.names == ["Item", "total"]
    assert view.schema.types == [pa.string(), pa.int64()]
    assert (view.properties, view.definition.namespace, len(view.history)) == ({"owner": "me"}, "shop", 1)
    assert catalog.list_views() == catalog.list_views("shop") == ["shop.totals"]
    assert catalog.list_tables() == ["shop.prices", "shop.sales"]
    assert rows(catalog, "SELECT * FROM shop.totals ORDER BY total, item") == [
        {"Item": "b", "total": 2},
        {"Item": "a", "total": 4},
        {"Item": "c", "total": 4},
    ]
    joined = (
        "SELECT t.ITEM AS i, total * price AS sum FROM shop.totals t JOIN shop.prices p ON t.item = p.item ORDER BY i"
    )
    assert rows(catalog, joined) == [{"i": "a", "sum": 2.0}, {"i": "b", "sum": 4.0}]
    assert rows(catalog, "SELECT x, y FROM shop.totals AS v(x, y) WHERE y = 2") == [{"x": "b", "y": 2}]
    assert "shop.sales" in str(catalog.explain(joined))


def test_views_of_views_with_names_of_their_own(catalog):
    catalog.create_namespace("other")
    catalog.create_view("shop.big", "WITH sales AS (SELECT * FROM shop.sales WHERE amount > 1) SELECT * FROM sales")
    catalog.create_view("other.names", "SELECT DISTINCT b.item AS name FROM shop.big b")
    catalog.create_view("other.all", "SELECT name FROM names UNION ALL SELECT item FROM shop.prices ORDER BY 1")
    assert [row["name"] for row in rows(catalog, "FROM other.all")] == ["a", "a", "b", "b", "c"]
    assert rows(catalog, "WITH names AS (SELECT 1 AS one) SELECT * FROM names, other.names AS n LIMIT 1")[0]["one"] == 1
    assert rows(catalog, "SELECT count(*) AS n FROM other.names a JOIN other.names b ON a.name = b.name") == [{"n": 3}]


def test_dialects_are_kept_and_translated(catalog):
    queries = {"Spark": "SELECT `Item`, collect_list(amount) AS l FROM sales GROUP BY `Item`", "trino": "SELECT 1 AS x"}
    view = catalog.create_view("shop.lists", queries)
    assert view.queries == {"spark": queries["Spark"], "trino": queries["trino"]}
    assert {row["Item"]: sorted(row["l"]) for row in rows(catalog, "FROM shop.lists")} == {
        "a": [1, 3],
        "b": [2],
        "c": [4],
    }
    location = view.metadata_location
    found = decode_json(Storage().read(location))
    found["versions"][0]["representations"] = [{"type": "sql", "dialect": "klingon", "sql": "nuq"}, {"type": "plan"}]
    Storage().write(location, encode_json(found), overwrite=True)
    assert catalog.load_view("shop.lists").queries == {"klingon": "nuq"}
    with pytest.raises(UnsupportedError, match=r"view 'shop\.lists' is written in klingon, which is not supported"):
        catalog.sql("FROM shop.lists")


def test_a_view_is_replaced_renamed_and_dropped(catalog):
    first = catalog.create_view("shop.v", "SELECT Item FROM sales")
    with pytest.raises(AlreadyExistsError, match="replace=True"):
        catalog.create_view("shop.v", "SELECT 1 AS one")
    second = catalog.create_view("shop.v", "SELECT 1 AS one", replace=True, properties={"a": "b"})
    assert [version.queries["duckdb"] for version in second.history] == ["SELECT Item FROM sales", "SELECT 1 AS one"]
    assert second.metadata_location != first.metadata_location
    assert catalog.create_view("shop.v", "SELECT 1 AS one", replace=True) == second
    for number in range(2, 15):
        last = catalog.create_view("shop.v", f"SELECT {number} AS one", replace=True)
    assert [version.version_id for version in last.history] == list(range(6, 16))
    assert rows(catalog, "FROM shop.v") == [{"one": 14}]
    renamed = catalog.rename_view("shop.v", "shop.w")
    assert (renamed.name, catalog.list_views(), catalog.view_exists("shop.v")) == ("shop.w", ["shop.w"], False)
    with pytest.raises(AlreadyExistsError, match=r"'shop\.sales' already exists"):
        catalog.rename_view("shop.w", "shop.sales")
    catalog.drop_view("shop.w")
    assert catalog.list_views() == []


def test_names_are_taken_once(catalog):
    catalog.create_view("shop.v", "SELECT 1 AS one")
    for name in ("shop.sales", "shop.prices"):
        with pytest.raises(AlreadyExistsError, match="already exists"):
            catalog.create_view(name, "SELECT 1 AS one", replace=True)
    with pytest.raises(AlreadyExistsError, match="already exists"):
        catalog.create_table("shop.v", SALES.schema)
    with pytest.raises(NotFoundError, match=r"no table 'shop\.v'"):
        catalog.load_table("shop.v")
    with pytest.raises(NotFoundError, match=r"no table 'shop\.v'"):
        catalog.drop_table("shop.v")
    assert catalog.view_exists("shop.v")


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT nothing FROM sales", SchemaError, "nothing"),
        ("SELECT * FROM nothing", NotFoundError, r"no table 'shop\.nothing'"),
        ("SELECT * FROM v", NotFoundError, r"no table 'shop\.v'"),
        ("DELETE FROM sales", UnsupportedError, "expected a query, found DELETE"),
        ("SELECT 1 AS a; SELECT 2 AS a", FormatError, "expected one query, found 2"),
        ("SELECT FROM WHERE", FormatError, "not a valid SQL query"),
        ("SELECT * FROM read_text('/etc/passwd')", UnsupportedError, "table functions are not supported"),
        ("SELECT 1 AS a, 2 AS a", SchemaError, "the name is used twice"),
        ("SELECT INTERVAL 1 DAY AS i", SchemaError, "column 'i'"),
        ({}, SchemaError, "a view has one query in each of one or more dialects, found none"),
        ({"spark": "SELECT 1", "SPARK": "SELECT 2"}, SchemaError, "found spark, SPARK"),
        (7, SchemaError, "sql must be a query"),
        ({"klingon": "nuq"}, UnsupportedError, "is written in klingon"),
    ],
)
def test_what_is_no_view_is_refused(catalog, sql, error, message):
    with pytest.raises(error, match=message):
        catalog.create_view("shop.v", sql)
    assert catalog.list_views() == []


def test_views_that_came_to_refer_to_each_other(catalog):
    catalog.create_view("shop.a", "SELECT 1 AS x")
    catalog.create_view("shop.b", "SELECT x FROM a")
    with pytest.raises(SchemaError, match=r"shop\.a → shop\.b → shop\.a"):
        catalog.create_view("shop.a", "SELECT x FROM b", replace=True)
    assert rows(catalog, "FROM shop.b") == [{"x": 1}]
    catalog.create_view("shop.v0", "SELECT 1 AS x")
    for number in range(1, 12):
        catalog.create_view(f"shop.v{number}", f"SELECT x FROM v{number - 1}")
    text = "SELECT a.x FROM v{0} a JOIN v{0} b ON a.x = b.x JOIN v{0} c ON b.x = c.x"
    catalog.create_view("shop.v1", text.format(0), replace=True)
    for number in range(2, 6):
        catalog.create_view(f"shop.v{number}", text.format(number - 1), replace=True)
    with pytest.raises(UnsupportedError, match="more than 1000 views"):
        catalog.create_view("shop.v6", text.format(5), replace=True)


def test_replacements_at_once_are_all_kept(catalog):
    catalog.create_view("shop.v", "SELECT -1 AS n")
    lost = []

    def replace(number):
        own = skerry.connect(catalog.properties["warehouse"])
        try:
            own.create_view("shop.v", f"SELECT {number} AS n", replace=True)
        except ConflictError:
            lost.append(number)

    threads = [threading.Thread(target=replace, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = {int(version.queries["duckdb"].split()[1]) for version in catalog.load_view("shop.v").history}
    assert kept == {-1, *range(4)} - set(lost)
    folder = catalog.load_view("shop.v").location
    assert len(list(Storage().list(folder))) == len(kept)  # an attempt that lost the race left no file


def test_a_catalog_of_an_older_program_has_no_views(tmp_path):
    with sqlite3.connect(tmp_path / "old.db") as database:
        database.execute(
            "CREATE TABLE iceberg_tables (catalog_name VARCHAR, table_namespace VARCHAR, table_name VARCHAR, "
            "metadata_location VARCHAR, previous_metadata_location VARCHAR, "
            "PRIMARY KEY (catalog_name, table_namespace, table_name))"
        )
        database.execute(
            "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR, namespace VARCHAR, "
            "property_key VARCHAR, property_value VARCHAR, PRIMARY KEY (catalog_name, namespace, property_key))"
        )
    old = skerry.connect(f"sqlite:///{tmp_path}/old.db", warehouse=str(tmp_path))
    old.create_table("d.t", SALES.schema)
    assert old.list_views() == []
    with pytest.raises(UnsupportedError, match="schema_version='v1'"):
        old.create_view("d.v", "SELECT * FROM t")
    new = skerry.connect(f"sqlite:///{tmp_path}/old.db", warehouse=str(tmp_path), schema_version="v1")
    new.create_view("d.v", "SELECT * FROM t")
    assert (new.list_tables(), new.list_views()) == (["d.t"], ["d.v"])


# Metadata files -----------------------------------------------------------------------------------------------------

METADATA = {
    "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
    "format-version": 1,
    "location": "s3://bucket/warehouse/default.db/event_agg",
    "current-version-id": 2,
    "properties": {"comment": "daily event counts"},
    "versions": [
        {
            "version-id": number,
            "timestamp-ms": 1573518431292 + number,
            "schema-id": number,
            "default-catalog": "prod",
            "default-namespace": ["default"],
            "summary": {"engine-name": "Spark", "engineVersion": "3.3.2"},
            "representations": [
                {
                    "type": "sql",
                    "sql": "SELECT COUNT(1), CAST(event_ts AS DATE) FROM events GROUP BY 2",
                    "dialect": "spark",
                }
            ],
        }
        for number in (1, 2)
    ],
    "schemas": [
        {
            "schema-id": number,
            "type": "struct",
            "fields": [
                {"id": 1, "name": f"event_count_{number}", "required": False, "type": "int", "doc": "Count of events"},
                {"id": 2, "name": "event_date", "required": False, "type": "date"},
            ],
        }
        for number in (1, 2)
    ],
    "version-log": [
        {"timestamp-ms": 1573518431292, "version-id": 1},
        {"timestamp-ms": 1573518981593, "version-id": 2},
    ],
}


def changed(path, value):
    """The metadata with something else, or nothing, at a place."""
    found = decode_json(encode_json(METADATA))
    place = found
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return found


def test_metadata_is_kept_to_the_last_field():
    found = changed(["x-new"], {"a": [1]}) | {"versions": changed(["versions", 1, "x-more"], 7)["versions"]}
    found["versions"][0]["representations"].append({"type": "substrait", "plan": "…"})
    metadata = decode_view(encode_json(found))
    assert decode_json(encode_view(metadata)) == found
    assert metadata.schema.column_names == ["event_count_2", "event_date"]
    assert metadata.current_version.representations[0].dialect == "spark"


def test_pyiceberg_reads_what_we_write(catalog):
    view = catalog.create_view("shop.v", {"duckdb": "SELECT Item FROM sales", "spark": "SELECT Item FROM sales"})
    text = Storage().read(view.metadata_location)
    read = PyIcebergView.model_validate_json(text)
    assert read.view_uuid
    assert [(one.root.dialect, one.root.sql) for one in read.versions[0].representations] == list(view.queries.items())
    assert read.schemas[0].column_names == ["Item"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format-version"], 2, "format version 2 of views"),
        (["format-version"], None, "format-version: is missing"),
        (["view-uuid"], 5, "view-uuid: expected a string"),
        (["current-version-id"], 3, "there is no version 3"),
        (["versions", 0, "version-id"], 2, "versions: there are two of number 2"),
        (["versions", 0, "schema-id"], 9, "version 1 has schema 9, which is missing"),
        (["versions", 0, "representations"], [], "a view has no query"),
        (["versions", 0, "representations", 0, "sql"], None, r"representations\[0\]\.sql: is missing"),
        (["versions"], {}, "versions: expected an array"),
        (["schemas", 0, "schema-id"], 2, "schemas: there are two of number 2"),
        (["schemas", 0, "fields", 0, "type"], "nothing", "nothing"),
        (["version-log"], [7], r"version-log\[0\]: expected an object"),
        (["properties"], {"a": 1}, r"properties\.a: expected a string"),
    ],
)
def test_metadata_that_contradicts_itself_is_refused(path, value, message):
    with pytest.raises(SkerryError, match=message):
        parse_view(changed(path, value))


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"{", b"[" * 100_000])
def test_bytes_that_are_no_metadata_are_refused(catalog, data):
    view = catalog.create_view("shop.v", "SELECT 1 AS one")
    Storage().write(view.metadata_location, data, overwrite=True)
    with pytest.raises(FormatError) as caught:
        catalog.sql("FROM shop.v")
    assert caught.value.location == view.metadata_location
    Storage().delete([view.metadata_location])
    with pytest.raises(NotFoundError, match="the view's metadata file is missing"):
        catalog.load_view("shop.v")
    catalog.drop_view("shop.v")
