"""Landing tables and queries of a database through JDBC; SQLite's driver is in the JVM of the tests."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import skerry
from skerry.errors import MissingDependencyError, SchemaError, StorageError, UnsupportedError
from skerry.spark.writing.jdbc import JdbcConnection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with a table of 10 rows."""
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table orders (id integer not null, name text)")
        database.executemany("insert into orders values (?, ?)", [(number, f"n{number}") for number in range(10)])
    return f"jdbc:sqlite:{tmp_path}/shop.db"


@pytest.mark.spark
def test_a_table_and_a_query_are_landed(spark: SparkSession, url: str, tmp_path: Path) -> None:
    table = skerry.connect(tmp_path / "warehouse").create_table("t.orders", SCHEMA)
    assert skerry.spark.ingest(spark, "orders", table, format="jdbc", options={"url": url}).rows == 10
    query = "select id, name from orders where id < 3"
    assert skerry.spark.ingest(spark, query, table, format="jdbc", options={"url": url}).rows == 3
    assert table.scan().count() == 13
    assert table.statistics()["id"].ndv == 10
    assert skerry.spark.infer_schema(spark, "orders", format="jdbc", options={"url": url}).names == ["id", "name"]
    with pytest.raises(SchemaError, match="no column 'more'"):
        skerry.spark.ingest(spark, "select id, name as more from orders", table, format="jdbc", options={"url": url})


@pytest.mark.spark
def test_failures_tell_no_secrets(spark: SparkSession, url: str, tmp_path: Path) -> None:
    table = skerry.connect(tmp_path / "warehouse").create_table("t.orders", SCHEMA)
    secret = {"url": f"{url}?password=hunter2", "password": "hunter2"}
    with pytest.raises(StorageError, match="the database cannot be read: ") as caught:
        skerry.spark.ingest(spark, "customers_of_hunter2", table, format="jdbc", options=secret)
    assert "no such table: customers_of_***" in caught.value.message
    assert "hunter2" not in caught.value.message
    assert caught.value.__cause__ is None
    unknown = {"url": "jdbc:unknown://me:hunter2@host/db", "driver": "no.such.Driver"}
    with pytest.raises(MissingDependencyError, match="no JDBC driver for this URL"):
        skerry.spark.ingest(spark, "orders", table, format="jdbc", options=unknown)


def test_options_are_checked_by_name() -> None:
    with pytest.raises(UnsupportedError, match="there is no jdbc option 'fetchSizes'; did you mean 'fetchsize'"):
        JdbcConnection({"url": "jdbc:x:", "fetchSizes": "1"})
    with pytest.raises(UnsupportedError, match="'dbtable' cannot be set: the source is the table or query"):
        JdbcConnection({"url": "jdbc:x:", "dbtable": "a"})
    with pytest.raises(UnsupportedError, match="needs the option url"):
        JdbcConnection({})


def test_secrets_are_taken_out_of_texts_and_reprs() -> None:
    url = "jdbc:postgresql://me:in-url@host/db?user=me&password=in-query&sslpassword=in-ssl"
    connection = JdbcConnection({"url": url, "password": "in-option"})
    assert "in-" not in repr(connection)
    told = connection.redact(f"cannot open {url} with in-option")
    assert told == "cannot open jdbc:postgresql://me:***@host/db?user=me&password=***&sslpassword=*** with ***"
