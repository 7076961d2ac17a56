"""Views that Spark and we share, through the same database."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skerry
import skerry.spark
from skerry.errors import NotFoundError, UnsupportedError

pytestmark = pytest.mark.spark

ROWS = pa.table({"item": ["a", "b", "a", "c"], "amount": [1, 2, 3, 4]})


@pytest.fixture
def both(tmp_path, iceberg_spark):
    """A catalog with a table, and a session of Spark on the same catalog."""
    catalog = skerry.connect(tmp_path / "lake")
    catalog.create_table("shop.sales", ROWS.schema).append(ROWS)
    return catalog, iceberg_spark(tmp_path / "lake")


def test_we_read_what_spark_creates_and_replaces(both):
    catalog, session = both
    session.sql(
        "CREATE VIEW skerry.shop.totals (what COMMENT 'an item', total) TBLPROPERTIES ('owner' = 'us') AS "
        "SELECT item, sum(amount) FROM skerry.shop.sales GROUP BY item"
    )
    view = catalog.load_view("shop.totals")
    assert (view.schema.names, view.properties["owner"]) == (["what", "total"], "us")
    assert view.queries.keys() == {"spark"}
    expected = [{"what": "a", "total": 4}, {"what": "b", "total": 2}, {"what": "c", "total": 4}]
    assert catalog.sql("SELECT * FROM shop.totals ORDER BY what").to_pylist() == expected
    session.sql("USE skerry.shop")
    session.sql("CREATE OR REPLACE VIEW totals AS SELECT `item`, amount FROM sales WHERE amount > 2")
    found = catalog.sql("SELECT item, amount FROM shop.totals ORDER BY amount").to_pylist()
    assert found == [{"item": "a", "amount": 3}, {"item": "c", "amount": 4}]
    assert len(catalog.load_view("shop.totals").history) == 2
    session.sql("ALTER VIEW totals RENAME TO large")
    assert catalog.list_views() == ["shop.large"]
    session.sql("DROP VIEW large")
    assert catalog.list_views() == []


def test_spark_reads_what_we_create_and_replace(both):
    catalog, session = both
    text = "SELECT item AS what, amount * 2 AS twice FROM sales WHERE amount < 4"
    catalog.create_view("shop.twice", text, dialect="spark")
    wanted = [("a", 2), ("a", 6), ("b", 4)]
    assert sorted(tuple(row) for row in session.sql("SELECT * FROM skerry.shop.twice").collect()) == wanted
    catalog.create_view(
        "shop.twice", {"spark": "SELECT count(*) AS n FROM sales", "duckdb": "SELECT 4::BIGINT AS n"}, replace=True
    )
    assert [row.n for row in session.sql("SELECT n FROM skerry.shop.twice").collect()] == [4]
    assert {row.viewName for row in session.sql("SHOW VIEWS IN skerry.shop").collect()} >= {"twice"}
    catalog.rename_view("shop.twice", "shop.number")
    assert [row.n for row in session.sql("SELECT n FROM skerry.shop.number").collect()] == [4]
    catalog.drop_view("shop.number")
    assert session.sql("SHOW VIEWS IN skerry.shop").count() == 0


def test_queries_of_ours_on_spark_resolve_views(both):
    catalog, session = both
    catalog.create_view("shop.big", "SELECT item, amount FROM sales WHERE amount > 1", dialect="spark")
    catalog.create_view("shop.items", "SELECT DISTINCT item AS name FROM big")
    found = skerry.spark.sql(
        session, "SELECT i.name, b.amount FROM shop.items i JOIN shop.big b ON i.name = b.item", catalog
    )
    assert sorted(tuple(row) for row in found.collect()) == [("a", 3), ("b", 2), ("c", 4)]
    catalog.create_view("shop.odd", {"duckdb": "SELECT item FROM sales", "trino": "SELECT item FROM sales"})
    assert skerry.spark.sql(session, "SELECT count(*) AS n FROM shop.odd", catalog).first().n == 4


def test_a_view_reads_the_catalog_and_nothing_else(both):
    catalog, session = both
    duckdb = "SELECT 'x' AS s"
    for text in ("reflect('java.lang.System', 'getenv')", "`Java_Method` /* now */ ('java.lang.System', 'getenv')"):
        catalog.create_view("shop.bad", {"spark": f"SELECT {text} AS s", "duckdb": duckdb}, replace=True)
        with pytest.raises(UnsupportedError, match=r"view 'shop\.bad' calls .*: views cannot call Java"):
            skerry.spark.sql(session, "SELECT * FROM shop.bad", catalog)
    catalog.create_view("shop.bad", {"spark": "SELECT * FROM text.`/etc/passwd`", "duckdb": duckdb}, replace=True)
    with pytest.raises(NotFoundError):
        skerry.spark.sql(session, "SELECT * FROM shop.bad", catalog)
    session.sql("SELECT 'of the session' AS s").createOrReplaceTempView("mine")
    catalog.create_view("shop.bad", {"spark": "SELECT * FROM mine", "duckdb": duckdb}, replace=True)
    with pytest.raises(NotFoundError, match=r"shop\.mine"):
        skerry.spark.sql(session, "SELECT * FROM shop.bad", catalog)
