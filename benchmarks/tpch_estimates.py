"""Estimated rows of every join of TPC-H's queries beside true rows, and the queries' results beside DuckDB's own.

The tables are made once by tpchgen-cli in `.cache/`, landed in a warehouse there, and not analyzed: the sketches come
with the append. For every join of the order that `explain` chooses, the true number of rows is counted by DuckDB over
the Parquet files: all conditions that concern the tables joined so far. The q-error is the larger of estimate / true
and true / estimate (of at least one row each). 1, 4, 6 and 22 join no tables in a FROM clause.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

import skerry
from skerry.catalog import Catalog
from skerry.catalog.queries.querying import QueryPlanning
from skerry.planner import JoinGraph
from skerry.planner.query import Block, parse_query

sys.path.insert(0, str(Path(__file__).parent))
from figures import figure
from tpch_data import CACHE, TABLES, make_files
from tpch_queries import QUERIES


def make_tables(scale: str, folder: Path = CACHE) -> tuple[Path, Catalog]:
    """The Parquet files and a catalog of the same tables, made once."""
    files = make_files(scale, folder)
    catalog = skerry.connect(files / "warehouse")
    for name in TABLES:
        if not catalog.table_exists(f"tpch.{name}"):
            rows = pq.read_table(files / f"{name}.parquet")
            catalog.create_table(f"tpch.{name}", rows.schema).append(rows)
    return files, catalog


def connect_peer(files: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB with the Parquet files as tables."""
    peer = duckdb.connect()
    for name in TABLES:
        peer.execute(f"create view {name} as select * from '{files}/{name}.parquet'")
    return peer


def in_catalog(sql: str) -> str:
    """The query with tables named as the catalog names them."""
    tables = "|".join(TABLES)
    return re.sub(rf"(\bfrom |, |join )({tables})\b(?!\.)", r"\1tpch.\2", sql)


def conjuncts_of(where: Any) -> list[Any]:
    """The conditions that a WHERE joins by AND."""
    if where is None:
        return []
    return list(where.this.flatten()) if where.this.key == "and" else [where.this]


def inputs_of(condition: Any, select: Any) -> set[str]:
    """The inputs of a SELECT that one of its conditions names, whatever SELECTs within it call their own."""
    from sqlglot import exp

    names = set()
    for column in condition.find_all(exp.Column):
        inner = column.find_ancestor(exp.Select)
        if inner is select or column.table not in {table.alias_or_name for table in inner.find_all(exp.Table)}:
            names.add(column.table)
    return names


def true_rows(peer: duckdb.DuckDBPyConnection, block: Block, graph: JoinGraph, names: frozenset[str]) -> int:
    """Count what some inputs of a SELECT have when joined by all that the query says of them, or implies."""
    inputs = []
    for source in block.sources:
        if source.name in names and source.use is not None:
            where = " AND ".join(f"({condition})" for condition in source.filters) or "true"
            inputs.append(f'(SELECT * FROM {source.use.key} WHERE {where}) AS "{source.name}"')
    conditions = ["true"]
    for joined in graph.classes:
        members = [f'"{name}"."{column}"' for name, column in joined.members if name in names]
        conditions += [f"{members[0]} = {other}" for other in members[1:]]
    where = block.select.args.get("where")
    for condition in conjuncts_of(where):
        if inputs_of(condition, block.select) & set(graph.by_name) <= names:
            conditions.append(f"({condition.sql(dialect='duckdb')})")
    sql = f"SELECT count(*) FROM {', '.join(inputs)} WHERE {' AND '.join(conditions)}"
    ((count,),) = peer.execute(sql).fetchall()
    return int(count)


def refers_outside(block: Block) -> bool:
    """Whether a SELECT is correlated with one around it."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import build_scope

    scope = build_scope(block.select.copy())
    own = {source.name for source in block.sources}
    return scope is None or any(column.table not in own for column in scope.columns if isinstance(column, exp.Column))


def joins_of(catalog: Catalog, peer: Any, number: int) -> list[tuple[str, float, int]]:
    """Every join of a query's SELECTs: the inputs, estimated and true rows."""
    planning = QueryPlanning(catalog)
    query = parse_query(in_catalog(QUERIES[number]), planning.schema)
    for use in query.uses:
        peer.execute(f"create or replace view {use.key} as select * from {use.table.removeprefix('tpch.')}")
    results: dict[int, Any] = {}
    found = []
    for block in query.blocks:
        graph, plan, result = planning.select(block, results)
        results[id(block)] = result
        if not block.free or any(source.use is None for source in block.sources) or refers_outside(block):
            continue  # such a join has no number of rows of its own
        for step in plan.steps:
            names = frozenset((*step.left, *step.right))
            found.append((" ".join(sorted(names)), step.rows.rows, true_rows(peer, block, graph, names)))
    return found


def results(catalog: Catalog, peer: duckdb.DuckDBPyConnection, number: int) -> tuple[list[list[str]], list[list[str]]]:
    """A query's rows by `Catalog.sql` and by DuckDB alone; of each value the first ten characters."""
    ours = catalog.sql(in_catalog(QUERIES[number])).to_pylist()
    theirs = peer.sql(QUERIES[number]).to_arrow_table().to_pylist()
    cut = [[[str(value)[:10] for value in row.values()] for row in rows] for rows in (ours, theirs)]
    return cut[0], cut[1]


def q_error(estimate: float, true: float) -> float:
    """The greater of estimate / true and true / estimate, of at least one row each."""
    low, high = sorted((max(estimate, 1.0), max(true, 1.0)))
    return high / low


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="0.1")
    options = parser.parse_args()
    files, catalog = make_tables(options.scale)
    peer = connect_peer(files)
    errors = []
    for number in QUERIES:
        rows, expected = results(catalog, peer, number)
        print(f"query {number}: {len(rows)} rows, {'as' if rows == expected else 'NOT as'} DuckDB's own")
        for names, estimate, true in joins_of(catalog, peer, number):
            errors.append(error := q_error(estimate, true))
            print(f"  {error:8.2f}  estimated {estimate:12,.0f}  true {true:10,}  {names}")
    quantiles = statistics.quantiles(errors, n=10)
    median, worst = statistics.median(errors), max(errors)
    figure("median q-error", median, unit="×")
    figure("q-error that 90 % are below", quantiles[-1], unit="×")
    print(f"{len(errors)} joins: median q-error {median:.2f}, 90 % below {quantiles[-1]:.2f}, worst {worst:.1f}")


if __name__ == "__main__":
    main()
