"""Compare the tables with PostgreSQL's: every row as DuckDB and Spark read it, every column's distinct count.

    python check.py postgresql://user@host/database warehouse/

A mark is written into the source first, and waited for in the tables: then all changes before it have come. Nobody
may change the source meanwhile.
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Sequence

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from stream import ICEBERG, PAIMON
from workload import TABLE, mark

import skerry
import skerry.spark
from skerry.catalog import Table
from skerry.table.statistics.column_statistics import FreshnessState

__all__ = [
    "DifferenceError",
    "catch_up",
    "compare",
    "compare_statistics",
    "main",
    "read_by_duckdb",
    "read_by_spark",
    "read_source",
]


class DifferenceError(Exception):
    """A table is not what its source is."""


def read_source(connection: psycopg.Connection, schema: pa.Schema) -> pa.Table:
    """The rows of the source, by id."""
    cursor = connection.execute(f"SELECT * FROM {TABLE} ORDER BY id")
    names = [column.name for column in cursor.description]
    columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    by_name = dict(zip(names, columns, strict=True))
    return pa.table([pa.array(by_name[field.name], field.type) for field in schema], names=schema.names)


def read_by_duckdb(table: Table) -> pa.Table:
    """The rows of a table, by id, through DuckDB."""
    return table.scan().to_duckdb().order("id").to_arrow_table()


def read_by_spark(spark: SparkSession, table: Table) -> pa.Table:
    """The rows of a table, by id, through Spark's own reader of Parquet files, as far as that can read them."""
    return skerry.spark.read(spark, table).orderBy("id").toArrow()


def wait_for(table: Table, sign: str, seconds: float) -> None:
    """Wait until a table has a mark.

    Raises:
        TimeoutError: It did not come.
    """
    deadline = time.monotonic() + seconds
    while table.refresh().scan(["status"], where="id = 0").to_arrow()["status"].to_pylist() != [sign]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{table.name} does not have the mark {sign!r} after {seconds:.0f} s")
        time.sleep(0.1)


def compare(name: str, found: pa.Table, expected: pa.Table) -> None:
    """Refuse rows that differ from the source's; both by id.

    Raises:
        DifferenceError: They do; the message names the first of them.
    """
    found = found.select(expected.column_names).cast(expected.schema)
    if found.equals(expected):
        return
    if found.num_rows != expected.num_rows or found["id"] != expected["id"]:
        lost = sorted(set(expected["id"].to_pylist()) - set(found["id"].to_pylist()))
        ids = found["id"].to_pylist()
        more = sorted(set(ids) - set(expected["id"].to_pylist()))
        raise DifferenceError(
            f"{name} has {found.num_rows:,} rows instead of {expected.num_rows:,}: {len(lost):,} lost {lost[:5]}, "
            f"{len(more):,} too many {more[:5]}, {len(ids) - len(set(ids)):,} doubled"
        )
    for row, other in zip(found.to_pylist(), expected.to_pylist(), strict=True):
        if row != other:
            raise DifferenceError(f"{name} has {row} instead of {other}")


def compare_statistics(table: Table, rows: pa.Table, *, fresh: bool = True) -> None:
    """Compare the published distinct counts with the true ones.

    Args:
        table: The table.
        rows: Its rows.
        fresh: Whether all counts must be fresh; else they may also say that they are upper bounds.

    Raises:
        DifferenceError: A count is not what it says it is, within the error of a sketch of 4,096 hashes.
    """
    for name, known in table.statistics().items():
        exact = pc.count_distinct(rows[name], mode="only_valid").as_py()
        if rows[name].type == pa.string() and "" in rows[name].unique().to_pylist():
            exact -= 1  # Theta sketches do not count empty texts
        state = known.freshness.state
        if state not in (FreshnessState.FRESH, FreshnessState.FRESH if fresh else FreshnessState.UPPER_BOUND):
            raise DifferenceError(f"{table.name}.{name}: its distinct count is {known.freshness}")
        margin = 0 if exact < 4096 else exact * 5 / 4096**0.5  # five standard deviations
        if known.ndv < exact - margin or (known.freshness.is_fresh and known.ndv > exact + margin):
            raise DifferenceError(f"{table.name}.{name}: {known.ndv:,.0f} distinct values instead of {exact:,}")


def catch_up(connection: psycopg.Connection, tables: Sequence[Table], seconds: float = 120) -> float:
    """Write a mark into the source, wait until all tables have it, and return how many seconds that took."""
    sign, begun = f"mark {uuid.uuid4()}", time.monotonic()
    mark(connection, sign)
    for table in tables:
        wait_for(table, sign, begun + seconds - time.monotonic())
    return time.monotonic() - begun


def main() -> None:
    """Compare tables with their source."""
    parser = argparse.ArgumentParser(description="Compare tables with the PostgreSQL table they follow.")
    parser.add_argument("url", help="the database")
    parser.add_argument("warehouse")
    arguments = parser.parse_args()
    catalog = skerry.connect(arguments.warehouse)
    tables = [catalog.load_table(name) for name in (ICEBERG, PAIMON)]
    spark = skerry.spark.session("check", master="local[2]")
    with psycopg.connect(arguments.url, autocommit=True) as connection:
        print(f"caught up after {catch_up(connection, tables):.1f} s")
        rows = read_source(connection, tables[0].schema)
    for table in tables:
        compare(f"{table.name}, read by DuckDB,", read_by_duckdb(table), rows)
        compare(f"{table.name}, read by Spark,", read_by_spark(spark, table), rows)
        compare_statistics(table, rows, fresh=False)
        counts = ", ".join(f"{name} {known.ndv:,.0f}" for name, known in table.statistics().items())
        print(f"{table.name}: {rows.num_rows:,} rows are equal; distinct values: {counts}")


if __name__ == "__main__":
    main()
