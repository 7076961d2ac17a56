"""Queries over a catalog: what they give, in which order, over which scans, and how they fail."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.catalog import Catalog
from skerry.errors import FormatError, MissingDependencyError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.variant import VARIANT, from_values

N = 3000
TABLES = {
    "flights": {
        "tailnum": pa.array([f"N{i % 200:03}" if i % 50 else None for i in range(N)]),
        "carrier": pa.array([f"C{i % 8}" for i in range(N)]),
        "Delay": pa.array([i % 100 - 20 for i in range(N)], pa.int64()),
        "day": pa.array(np.arange(N) % 365, pa.int32()).cast(pa.date32()),
    },
    "planes": {
        "tailnum": pa.array([f"N{i:03}" for i in range(0, 300, 2)]),
        "seats": pa.array([50 + i for i in range(150)], pa.int32()),
    },
    "airlines": {"carrier": pa.array([f"C{i}" for i in range(10)]), "name": pa.array([f"Air {i}" for i in range(10)])},
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    made = skerry.connect(tmp_path_factory.mktemp("warehouse"))
    for name, columns in TABLES.items():
        rows = pa.table(columns)
        made.create_table(f"nyc.{name}", rows.schema).append(rows)
    return made


QUERIES = [
    "SELECT * FROM nyc.flights",
    "SELECT count(*) n FROM nyc.flights",
    "SELECT carrier, Delay AS Late FROM nyc.flights WHERE delay > 70 AND carrier IN ('C1', 'C2')",
    (
        "SELECT f.carrier, sum(p.seats) s FROM nyc.flights f, nyc.planes p, nyc.airlines a "
        "WHERE f.tailnum = p.tailnum AND a.carrier = f.carrier AND a.name <> 'Air 3' GROUP BY ALL"
    ),
    "SELECT count(*) n FROM nyc.flights f JOIN nyc.planes p USING (tailnum) JOIN nyc.airlines a USING (carrier)",
    (
        "SELECT count(*) n FROM nyc.airlines a "
        "JOIN nyc.flights f ON a.carrier = f.carrier AND f.day < DATE '1970-03-01' "
        "JOIN nyc.planes p ON p.tailnum = f.tailnum AND p.seats > f.Delay"
    ),
    "SELECT p.tailnum, f.delay FROM nyc.planes p LEFT JOIN nyc.flights f ON f.tailnum = p.tailnum AND f.Delay = 3",
    "SELECT count(*) n FROM nyc.planes p LEFT JOIN nyc.flights f ON f.tailnum = p.tailnum WHERE f.carrier IS NULL",
    (
        "WITH busy AS (SELECT tailnum, count(*) n FROM nyc.flights GROUP BY 1 HAVING count(*) > 10) "
        "SELECT b1.tailnum, b1.n, b2.n AS m FROM busy b1, busy b2, nyc.planes p "
        "WHERE b1.tailnum = b2.tailnum AND p.tailnum = b1.tailnum"
    ),
    "SELECT a.name FROM nyc.airlines a WHERE NOT EXISTS (SELECT 1 FROM nyc.flights f WHERE f.carrier = a.carrier)",
    (
        "SELECT count(*) n FROM nyc.flights f, nyc.planes p "
        "WHERE (f.tailnum = p.tailnum AND f.Delay = 1 AND p.seats < 90) "
        "OR (f.tailnum = p.tailnum AND f.Delay = 2 AND p.seats > 100)"
    ),
    "SELECT tailnum FROM nyc.flights WHERE carrier = 'C1' UNION SELECT tailnum FROM nyc.planes",
    "SELECT count(*) n FROM nyc.airlines a, nyc.airlines b",
    "SELECT a.carrier, x.seats FROM nyc.airlines a, (SELECT max(seats) AS seats FROM nyc.planes) x ORDER BY 1 LIMIT 3",
    "SELECT count(*) n FROM nyc.flights WHERE tailnum NOT LIKE '%7%' OR tailnum IS NULL",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_what_duckdb_gives(catalog: Catalog, query: str) -> None:
    peer = duckdb.connect()
    peer.execute("CREATE SCHEMA nyc")
    for name, columns in TABLES.items():
        peer.register("rows", pa.table(columns))
        peer.execute(f"CREATE TABLE nyc.{name} AS FROM rows")
    found, expected = catalog.sql(query), peer.sql(query).to_arrow_table()
    assert found.column_names == expected.column_names
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


def test_joins_are_ordered_by_what_sketches_say(catalog: Catalog) -> None:
    query = QUERIES[3].replace("a.name <> 'Air 3'", "a.name = 'Air 3'")
    plan = catalog.explain(query)
    (select,) = plan.selects
    assert len(select.joins.steps) == 2
    rows = {relation.name: relation.filtered for relation in select.joins.relations}
    assert (rows["f"].rows, rows["f"].lower, rows["f"].upper) == (N, N, N)
    assert rows["a"].rows == pytest.approx(1)
    # half of the flights have a plane, one of eight airlines of flights is kept, but none of its flights has a plane
    assert sum(i % 200 % 2 == 0 and i % 50 != 0 and i % 8 == 3 for i in range(N)) == catalog.sql(query).num_rows == 0
    assert select.joins.rows.rows < 5  # 150 if these were independent
    assert select.joins.rows.lower <= select.joins.rows.rows <= select.joins.rows.upper
    text = str(plan)
    assert "join 2:" in text
    assert "nyc.flights" in plan.sql
    assert "broadcast the right side" in text


def test_only_needed_columns_are_read_and_conditions_go_with_the_scan(catalog: Catalog) -> None:
    from skerry.catalog.queries.querying import QueryPlanning
    from skerry.planner.query import parse_query

    planning = QueryPlanning(catalog)
    query = parse_query(QUERIES[2], planning.schema)
    scan = planning.scan(query.uses[0])
    assert scan.schema.names == ["carrier", "Delay"]
    assert "70" in str(scan.predicate)
    kept = parse_query(QUERIES[7], planning.schema)
    assert [use.where for use in kept.uses] == [[], []]  # IS NULL after an outer join asks for rows without a partner


def test_what_is_not_fresh_is_not_used(tmp_path: Path) -> None:
    catalog = skerry.connect(tmp_path)
    rows = pa.table({"k": np.arange(1000), "v": np.arange(1000)})
    for name in ("ns.a", "ns.b"):
        catalog.create_table(name, rows.schema, properties={"skerry.statistics.enabled": "false"}).append(rows)
    text = str(catalog.explain("SELECT count(*) FROM ns.a, ns.b WHERE a.k = b.k AND a.v = 3"))
    assert "assumed: a.k: assumed to be a key or a reference to it (absent" in text
    assert 'assumed: a: "v" = …: 10% of rows (distinct count absent' in text


def test_plan_joins_without_sql(catalog: Catalog) -> None:
    plan = catalog.plan_joins(
        {"f": "nyc.flights", "p": "nyc.planes"}, [("f.tailnum", "p.tailnum")], where={"f": "Delay >= 30"}
    )
    truth = sum(i % 100 - 20 >= 30 and i % 200 % 2 == 0 and i % 50 != 0 for i in range(N))
    assert plan.rows.rows == pytest.approx(truth, rel=0.1)
    assert plan.steps[0].how == "contained 49% and 64%"
    short = catalog.plan_joins(["nyc.flights", "nyc.planes"], [("flights.tailnum", "planes.tailnum")])
    assert [relation.name for relation in short.relations] == ["flights", "planes"]
    with pytest.raises(SchemaError, match=r"expected name\.column"):
        catalog.plan_joins(["nyc.flights"], [("x.y", "flights.carrier")])
    with pytest.raises(SchemaError, match="a condition names 'z'"):
        catalog.plan_joins(["nyc.flights"], [], where={"z": "a = 1"})


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT FROM WHERE", FormatError, "not a valid SQL query"),
        ("COPY nyc.flights TO 'x'", UnsupportedError, "expected a query, found COPY"),
        ("SELECT 1; SELECT 2", FormatError, "found 2 statements"),
        ("SELECT * FROM nyc.flihgts", NotFoundError, "did you mean 'nyc.flights'"),
        ("SELECT nothing FROM nyc.flights", SchemaError, "nothing"),
        ("SELECT carrier FROM nyc.flights, nyc.airlines", SchemaError, "carrier"),
        ("SELECT * FROM read_csv('/etc/passwd')", UnsupportedError, "table functions"),
        ("SELECT carrier + 1 FROM nyc.airlines", SkerryError, "DuckDB refused"),
    ],
)
def test_what_is_wrong_is_named(catalog: Catalog, query: str, error: type[SkerryError], message: str) -> None:
    with pytest.raises(error, match=message):
        catalog.sql(query)


def test_without_duckdb_the_extra_is_named(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingDependencyError, match=r"skerry\[duckdb\]"):
        catalog.sql("SELECT 1 FROM nyc.flights")


@pytest.mark.parametrize("format_", ["iceberg", "paimon"])
def test_values_inside_of_variants_come_from_the_scan(tmp_path: Path, format_: str) -> None:
    """DuckDB never sees the variants: their paths are columns of the scans, and conditions on them are pushed."""
    catalog = skerry.connect(tmp_path)
    how = {"format_version": 3, "properties": {"write.parquet.shred-variants": "true"}} if format_ == "iceberg" else {}
    inside = pa.struct([("The V", VARIANT), ("Deep", pa.struct([("v", VARIANT)]))])
    schema = pa.schema([("id", pa.int64()), ("Event", VARIANT), ("S", inside)])
    events = catalog.create_table("w.events", schema, format=format_, **how)
    values = [{"kind": "view", "ms": 12}, {"kind": "buy", "ms": 340}, {"kind": "view", "ms": 1}, None]
    variants = from_values(values)
    deep = pa.StructArray.from_arrays([variants], fields=list(inside.field("Deep").type))
    inside_of = pa.StructArray.from_arrays([variants, deep], fields=list(inside))
    events.append(pa.table({"id": [1, 2, 3, 4], "Event": variants, "S": inside_of}, schema=schema))
    get = "variant_get(e.event, '$.ms', 'long')"
    query = f"SELECT variant_get(event, '$.kind', 'string') AS kind, sum({get}) AS ms FROM w.events e WHERE {get} > 5"
    assert catalog.sql(f"{query} GROUP BY 1 ORDER BY 1").to_pylist() == [
        {"kind": "buy", "ms": 340},
        {"kind": "view", "ms": 12},
    ]
    shown = str(catalog.explain(query))
    assert "value_" not in shown
    assert "where VARIANT_GET(\"Event\", '$.ms', 'long') > 5" in shown
    joined = f"SELECT a.id, b.id AS other FROM w.events a JOIN w.events b ON {get.replace('e.', 'a.')} + 11 = "
    joined += (
        f"try_{get.replace('e.', 'b.')} WHERE EXISTS (SELECT 1 FROM w.events e WHERE e.id = {get.replace('e.', 'a.')})"
    )
    assert catalog.sql(joined).to_pylist() == [{"id": 3, "other": 1}]
    catalog.create_view("w.kinds", "SELECT id, variant_get(event, '$.kind', 'string') AS kind FROM w.events")
    assert catalog.sql("SELECT kind FROM w.kinds WHERE id = 2")["kind"].to_pylist() == ["buy"]
    for name in ('s."the v"', "e.S.deep.v"):
        below = query.replace("e.event", name).replace("(event", f"({name}")
        assert sorted(catalog.sql(f"{below} GROUP BY 1")["ms"].to_pylist()) == [12, 340]
        assert 'where VARIANT_GET("S"."' in str(catalog.explain(below))
    for wrong in ("variant_get(event, '$.ms', id) FROM w.events", "try_variant_get(id, '$.ms', 'int') FROM w.events"):
        with pytest.raises(UnsupportedError, match="variant_get takes a column of variants of a table"):
            catalog.sql(f"SELECT {wrong}")
    with pytest.raises(SchemaError, match="no type of a value in a variant"):
        catalog.sql("SELECT variant_get(event, '$.ms', 'nonsense') FROM w.events")
