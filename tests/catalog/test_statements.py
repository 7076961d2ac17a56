"""SQL statements that change tables of both formats; what DuckDB does with the same statements is the reference."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import skerry
from skerry.errors import AlreadyExistsError, FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError

COLUMNS = "(id BIGINT NOT NULL, name VARCHAR, price DECIMAL(9, 2), sold TIMESTAMP)"
FORMATS = {"iceberg": "", "paimon": "USING paimon"}
# Statements that DuckDB runs, too, in their order.
STATEMENTS = [
    "INSERT INTO shop.sales VALUES (1, 'a', 1.5, '2024-01-31 12:00:00'), (2, 'b', 20, NULL), (3, NULL, 3, NULL)",
    "INSERT INTO shop.sales (name, id) SELECT upper(name), id + 10 FROM shop.sales WHERE id < 3",
    "INSERT INTO shop.sales BY NAME SELECT 7 AS id, 'seven' AS name",
    "UPDATE shop.sales SET price = price * 1.1, name = coalesce(name, 'none') WHERE id <= 3",
    "UPDATE shop.sales AS s SET name = s.name || '!' WHERE s.id IN (SELECT max(id) FROM shop.sales)",
    "DELETE FROM shop.sales WHERE name LIKE '%!' OR price > (SELECT avg(price) FROM shop.sales)",
    """MERGE INTO shop.sales AS t USING (SELECT 1 AS id, 'x' AS name, 9.99 AS price UNION ALL SELECT 99, 'new', 1) AS s
       ON t.id = s.id
       WHEN MATCHED AND s.price > t.price THEN UPDATE SET price = s.price + t.price
       WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, lower(s.name))
       WHEN NOT MATCHED BY SOURCE AND t.id = 7 THEN DELETE""",
    "ALTER TABLE shop.sales ADD COLUMN note VARCHAR",
    "ALTER TABLE shop.sales RENAME COLUMN name TO title",
    "INSERT INTO shop.sales VALUES (5, 'five', 5, NULL, 'n')",
    "ALTER TABLE shop.sales DROP COLUMN sold",
    "DELETE FROM shop.sales WHERE id = 99",
]


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


@pytest.mark.parametrize("format_", FORMATS)
def test_statements_leave_the_rows_that_duckdb_leaves(catalog, format_):
    catalog.sql("CREATE SCHEMA shop")
    catalog.sql(f"CREATE TABLE shop.sales {COLUMNS} {FORMATS[format_]}")
    assert catalog.load_table("shop.sales").format == format_
    query = "SELECT * FROM shop.sales ORDER BY id"
    with duckdb.connect() as duck:
        duck.execute("CREATE SCHEMA shop")
        duck.execute(f"CREATE TABLE shop.sales {COLUMNS}")
        for statement in STATEMENTS:
            duck.execute(statement)
            catalog.sql(statement)
            expected = duck.sql(query).to_arrow_table()
            found = catalog.sql(query)
            assert found.schema.names == expected.schema.names, statement
            assert found.to_pylist() == expected.to_pylist(), statement


def test_what_was_done_is_a_row(catalog):
    made = catalog.sql(
        "CREATE TABLE a.t PARTITIONED BY (bucket(4, id)) AS SELECT 1 AS id, 'x' AS s UNION ALL SELECT 2, 'y'"
    )
    assert made.to_pylist() == [{"done": "table a.t created", "inserted_rows": 2}]
    assert catalog.load_table("a.t").partition_by == ["bucket(4, id)"]
    assert catalog.sql("INSERT INTO a.t VALUES (3, 'z')").to_pylist() == [{"inserted_rows": 1}]
    counts = {"inserted_rows": 0, "updated_rows": 1, "deleted_rows": 0}
    assert catalog.sql("UPDATE a.t SET s = 'q' WHERE id = 3").to_pylist() == [counts]
    assert catalog.sql("DELETE FROM a.t WHERE id = 3").to_pylist() == [{**counts, "updated_rows": 0, "deleted_rows": 1}]
    assert (
        catalog.sql("SHOW TABLES").to_pylist() == catalog.sql("show tables from a;").to_pylist() == [{"table": "a.t"}]
    )
    assert catalog.sql("SHOW SCHEMAS").to_pylist() == [{"namespace": "a"}]
    assert catalog.sql("DESCRIBE a.t").to_pylist()[0] == {"column": "id", "type": "INTEGER", "nullable": True}
    catalog.sql("CREATE VIEW a.v AS SELECT s FROM a.t")
    assert catalog.sql("SHOW VIEWS").to_pylist() == [{"view": "a.v"}]
    assert catalog.sql("DESCRIBE a.v").to_pylist()[0]["column"] == "s"
    catalog.sql("DROP VIEW a.v")
    catalog.sql("ALTER TABLE a.t SET TBLPROPERTIES ('comment' = 'all of it')")
    catalog.sql("ALTER TABLE a.t ALTER COLUMN id TYPE BIGINT")
    catalog.sql("ALTER TABLE a.t RENAME TO u")
    table = catalog.load_table("a.u")
    assert table.properties["comment"] == "all of it"
    assert table.schema.field("id").type == pa.int64()
    assert catalog.sql("TRUNCATE a.u").to_pylist()[0]["deleted_rows"] == 2
    assert catalog.sql("CREATE TABLE IF NOT EXISTS a.u (x INT)").to_pylist() == [{"done": "table a.u existed"}]
    catalog.sql("DROP TABLE a.u")
    catalog.sql("DROP TABLE IF EXISTS a.u")
    assert catalog.list_tables() == []
    catalog.sql("CREATE NAMESPACE IF NOT EXISTS a")
    assert catalog.sql("DROP SCHEMA a").to_pylist() == [{"done": "a dropped"}]
    catalog.sql("DROP DATABASE IF EXISTS a")
    assert catalog.list_namespaces() == []


@pytest.mark.parametrize("format_", FORMATS)
def test_queries_travel_in_time(catalog, format_):
    catalog.sql(f"CREATE TABLE a.t (id BIGINT) {FORMATS[format_]}")
    table = catalog.load_table("a.t")
    first = table.append(pa.table({"id": [1]}))
    table.create_tag("one")
    table.append(pa.table({"id": [2]}))
    version = first.snapshot_id
    time = first.timestamp.strftime("%Y-%m-%d %H:%M:%S.%f")
    for past in (
        f"VERSION AS OF {version}",
        "VERSION AS OF 'one'",
        f"TIMESTAMP AS OF '{time}'",
        f"TIMESTAMP AS OF TIMESTAMP '{time}'",
    ):
        found = catalog.sql(f"SELECT t.id FROM a.t FOR {past} AS t WHERE t.id > 0").to_pylist()
        assert found == [{"id": 1}], past
        both = catalog.sql(
            f"SELECT count(*) AS n FROM a.t LEFT JOIN a.t FOR {past} AS old ON old.id = t.id WHERE old.id IS NULL"
        )
        assert both.to_pylist() == [{"n": 1}], past
    assert "t as of ref:one" in str(catalog.explain("SELECT * FROM a.t FOR VERSION AS OF 'one'").sql)
    with pytest.raises(NotFoundError, match="7"):
        catalog.sql("SELECT * FROM a.t FOR VERSION AS OF 7")
    with pytest.raises(SchemaError, match=r"a\.t as of timestamp 'noon': expected a time such as"):
        catalog.sql("SELECT * FROM a.t FOR TIMESTAMP AS OF 'noon'")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("INSERT INTO a.t VALUES (1)", SchemaError, "rows have 1 values for 2 columns"),
        ("INSERT INTO a.t (id) SELECT 1, 2", SchemaError, "the query gives 2 columns for 1: id"),
        ("INSERT INTO a.t (idd) VALUES (1)", SchemaError, "no column 'idd' in the table; there are: id, s"),
        ("INSERT INTO a.t VALUES ('x', 'y')", SchemaError, "the rows do not fit the table: Conversion Error"),
        ("INSERT OR REPLACE INTO a.t VALUES (1, 'y')", UnsupportedError, "in INSERT is not supported in SQL"),
        ("INSERT INTO a.t VALUES (1, 'y') RETURNING id", UnsupportedError, "RETURNING in INSERT is not supported"),
        ("UPDATE a.t SET s = u.s FROM a.u AS u", UnsupportedError, "in UPDATE is not supported in SQL"),
        ("UPDATE a.t SET z = 1", SchemaError, "the table has no column 'z'"),
        ("UPDATE a.t SET id = soundex(s)", UnsupportedError, r"function SOUNDEX\(\) is not supported"),
        ("DELETE FROM a.nothing", NotFoundError, "no table 'a.nothing'"),
        ("DELETE FROM a.t WHERE EXISTS (SELECT 1)", UnsupportedError, "EXISTS in a condition"),
        ("DELETE FROM a.t WHERE id = (SELECT id FROM a.t)", SchemaError, "must give one row, found 2"),
        ("DELETE FROM a.t WHERE id IN (SELECT * FROM read_csv('/etc/passwd'))", SkerryError, "table functions are not"),
        ("MERGE INTO a.t USING a.t AS s ON t.id > s.id WHEN MATCHED THEN DELETE", UnsupportedError, "of the same name"),
        ("CREATE OR REPLACE TABLE a.t (id INT)", UnsupportedError, "CREATE OR REPLACE TABLE is not supported"),
        ("CREATE TABLE a.t (id INT)", AlreadyExistsError, "a.t"),
        ("CREATE TABLE a.n (id INT CHECK (id > 0))", UnsupportedError, "CHECK"),
        ("CREATE TABLE a.n", FormatError, "needs columns or AS SELECT"),
        ("CREATE INDEX i ON a.t (id)", UnsupportedError, "INDEX"),
        ("DROP TABLE a.nothing", NotFoundError, "no table 'a.nothing'"),
        ("SELECT 1; DELETE FROM a.t", FormatError, "expected one query, found 2 statements"),
        ("COPY a.t TO 'x.csv'", UnsupportedError, "expected a query, found COPY"),
    ],
)
def test_what_a_statement_cannot_do_is_said_and_changes_nothing(catalog, text, error, message):
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64()), ("s", pa.string())]))
    table.append(pa.table({"id": [1, 2], "s": ["a", "b"]}))
    with pytest.raises(error, match=message):
        catalog.sql(text)
    assert catalog.list_tables() == ["a.t"]
    assert catalog.load_table("a.t").current_snapshot().snapshot_id == table.current_snapshot().snapshot_id


def test_texts_of_others_only_read(catalog):
    catalog.sql("CREATE TABLE a.t AS SELECT 1 AS id")
    assert catalog.sql("SELECT * FROM a.t", read_only=True).num_rows == 1
    assert catalog.sql("SHOW TABLES", read_only=True).num_rows == 1
    for text in ("DELETE FROM a.t", "DROP TABLE a.t", "INSERT INTO a.t VALUES (2)", "CREATE SCHEMA b"):
        with pytest.raises(UnsupportedError, match=r"expected a query, found [A-Z]+, which changes tables"):
            catalog.sql(text, read_only=True)
    assert catalog.load_table("a.t").scan().count() == 1
