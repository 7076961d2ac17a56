"""TPC-H's 22 queries in Spark over `skerry.spark.sql`, beside the Iceberg connector with its own fresh statistics.

Of every join in the optimized plans the estimated rows are held against the true ones: the q-error is the greater of
estimate/true and true/estimate, both at least 1. Then the queries run both ways, taking turns. Tables are made once by
`tpchgen-cli` under `.cache/`, by default at scale factor 0.1; the connector's own catalog holds a second copy of them,
over which it has run `compute_table_stats`.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import skerry
import skerry.spark
from figures import figure
from skerry.catalog import Catalog
from skerry.errors import SkerryError
from tpch_data import CACHE, TABLES, make_files
from tpch_queries import QUERIES as JOINING_QUERIES
from tpch_queries import REVENUE

THREADS = 2
QUERIES = {
    **JOINING_QUERIES,
    1: f"""select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum({REVENUE}),
        sum({REVENUE} * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*) from lineitem
        where l_shipdate <= date '1998-12-01' - interval '90' day
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    4: """select o_orderpriority, count(*) from orders where o_orderdate >= date '1993-07-01'
        and o_orderdate < date '1993-07-01' + interval '3' month and exists (
            select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
        group by o_orderpriority order by o_orderpriority""",
    6: """select sum(l_extendedprice * l_discount) from lineitem where l_shipdate >= date '1994-01-01'
        and l_shipdate < date '1994-01-01' + interval '1' year and l_discount between 0.05 and 0.07
        and l_quantity < 24""",
    22: """select code, count(*), sum(c_acctbal) from (
            select substring(c_phone, 1, 2) as code, c_acctbal from customer
            where substring(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17') and c_acctbal > (
                select avg(c_acctbal) from customer where c_acctbal > 0.00
                and substring(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17'))
            and not exists (select * from orders where o_custkey = c_custkey)) as custsale
        group by code order by code""",
}


def make_tables(spark: SparkSession, files: Path, warehouse: Path) -> Catalog:
    catalog = skerry.connect(warehouse)
    for name in TABLES:
        source = files / f"{name}.parquet"
        skerry.spark.ingest(spark, source, catalog.create_table(f"tpch.{name}", pq.read_schema(source)))
    return catalog


def joins(plan: Any) -> Iterator[Any]:
    """The joins of a plan, the outermost first."""
    if plan.getClass().getSimpleName() == "Join":
        yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from joins(children.apply(index))


def estimated(plan: Any) -> float:
    """The rows that Spark expects; without a row count its size says, as it does for choosing broadcasts."""
    stats = plan.stats()
    if stats.rowCount().isDefined():
        return float(stats.rowCount().get())
    output = plan.output()
    width = 8 + sum(output.apply(index).dataType().defaultSize() for index in range(output.size()))
    return float(stats.sizeInBytes()) / width


def q_errors(frame: DataFrame) -> list[float]:
    spark = frame.sparkSession
    found = []
    for join in joins(frame._jdf.queryExecution().optimizedPlan()):
        rows = spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, join).count()
        pair = max(estimated(join), 1.0), max(float(rows), 1.0)
        found.append(max(pair) / min(pair))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    work = CACHE / "tpch-spark"
    shutil.rmtree(work, ignore_errors=True)
    files = make_files(given.scale)
    spark = skerry.spark.session(
        master=f"local[{THREADS}]",
        iceberg_catalog=work / "iceberg",
        config={"spark.sql.shuffle.partitions": str(THREADS)},
    )
    catalog = make_tables(spark, files, work / "skerry")
    make_tables(spark, files, work / "iceberg")
    peer = spark.newSession()
    for table in TABLES:
        peer.sql(f"call skerry.system.compute_table_stats(table => 'tpch.{table}')").collect()
    peer.sql("use skerry.tpch")
    ways: dict[str, Callable[[int], DataFrame]] = {
        "skerry": lambda number: skerry.spark.sql(spark, QUERIES[number], catalog, namespace="tpch"),
        "Iceberg connector": lambda number: peer.sql(QUERIES[number]),
    }
    errors: dict[str, list[float]] = {name: [] for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in sorted(QUERIES):
        line = []
        rows = {name: make(number).collect() for name, make in ways.items()}  # the JVM warms up
        if len({len(found) for found in rows.values()}) > 1:
            raise SkerryError(f"query {number} gives other rows")
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(given.rounds):
            for name, make in list(ways.items())[:: 1 if turn % 2 else -1]:
                begin = time.perf_counter()
                make(number).collect()
                times[name].append(time.perf_counter() - begin)
        for name, make in ways.items():
            found = q_errors(make(number))
            errors[name] += found
            seconds[name].append(statistics.median(times[name]))
            worst = f", q-errors {' '.join(f'{error:.3g}' for error in found)}" if found else ""
            line.append(f"{name} {seconds[name][-1]:.2f} s{worst}")
        print(f"query {number}: " + "; ".join(line), flush=True)
    figure("all queries", *(sum(seconds[name]) for name in ways))
    figure("median q-error", *(errors[name] for name in ways), unit="×")
    for name in ways:
        print(
            f"{name}: median q-error of {len(errors[name])} joins {statistics.median(errors[name]):.3g}, "
            f"greatest {max(errors[name]):.3g}; all queries {sum(seconds[name]):.1f} s"
        )
    spark.stop()


if __name__ == "__main__":
    main()
