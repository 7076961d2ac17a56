"""Conditions in Spark's SQL, said again in ours; where tables are named. No JVM is needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from skerry.errors import FormatError
from skerry.spark.reading.pushed_conditions import to_own_sql
from skerry.spark.reading.table_names import names_by_sqlglot
from skerry.table.predicate import parse

COLUMNS = {
    "a": pa.int64(),
    "q": pa.decimal128(9, 2),
    "p": pa.string(),
    "t": pa.timestamp("us", "UTC"),
    "n": pa.timestamp("us"),
    "d": pa.date32(),
    "b": pa.binary(),
    "f": pa.float64(),
    "co`l": pa.int32(),
    "x": pa.bool_(),
    "inner": pa.struct([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "20"})]),
}
SCHEMA = pa.schema(
    [pa.field(name, type_, metadata={"PARQUET:field_id": str(n)}) for n, (name, type_) in enumerate(COLUMNS.items(), 1)]
)


@pytest.mark.parametrize(
    ("spark", "own"),
    [
        (
            "(((t.d >= DATE '1995-01-01') AND (t.q < 24.50BD)) AND isnotnull(t.a))",
            "d >= DATE '1995-01-01' AND q < 24.50 AND a IS NOT NULL",
        ),
        ("((a IN (1L, -2L)) OR (5 < a))", "(a IN (1, -2) OR 5 < a)"),
        ("(NOT (p IN ('x', 'it\\'s \\\\')))", "(NOT p IN ('x', 'it''s \\'))"),
        ("startswith(o.p, 'ab')", "p LIKE 'ab%'"),
        ("startswith(o.p, 'a%b')", None),
        ("contains(o.p, 'a%b')", "contains(p, 'a%b')"),
        ("endswith(p, 'it\\'s')", "ends_with(p, 'it''s')"),
        ("p LIKE 'a%b_c'", "p LIKE 'a%b_c'"),
        ("(NOT p LIKE '%a%b')", "p NOT LIKE '%a%b'"),
        ("p LIKE 'a\\\\%b'", None),
        ("(a < a)", "a < a"),
        ("(f < f)", None),  # NaN
        ("(t.t > TIMESTAMP '2020-01-01 00:00:00.123')", "t > TIMESTAMP '2020-01-01 00:00:00.123+00:00'"),
        ("(n >= TIMESTAMP_NTZ '2020-01-01 00:00:00')", "n >= TIMESTAMP '2020-01-01 00:00:00'"),
        ("(b = X'10')", "b = X'10'"),
        ("((f = -1.5E-3D) AND (f > CAST('NaN' AS DOUBLE)))", "f = -1.5E-3"),
        ("(isnan(f) OR x)", "(f IS NAN OR x)"),
        ("(NOT x)", "(NOT x)"),
        ("(`we ird`.`co``l` IS NULL)", '"co`l" IS NULL'),
        ("(inner.a = 3L)", None),  # perhaps a field of the struct
        ("((a = 3L) OR (abs(a) = 4L))", None),  # one side alone would lose rows
        ("((a = 3L) AND (abs(a) = 4L))", "a = 3"),
        ("(NOT ((a = 3L) AND (abs(a) = 4L)))", None),
        ("(f > a)", None),
        ("(CAST(q AS DOUBLE) > 1.0D)", None),
        ("(a > scalarsubquery())", None),
        ("(q = CAST(3.00 AS DECIMAL(9,2)))", "q = 3.00"),
        ("(a = 'b')", None),
        ("no sql (", None),
    ],
)  # fmt: skip
def test_what_our_conditions_have_words_for_is_kept(spark: str, own: str | None) -> None:
    found = to_own_sql(spark, SCHEMA, "UTC")
    assert (found is None) == (own is None), found
    assert own is None or parse(found, SCHEMA) == parse(own, SCHEMA)


def test_moments_in_a_zone_with_summer_time() -> None:
    berlin = "Europe/Berlin"
    assert to_own_sql("(t > TIMESTAMP '2020-07-01 00:00:00')", SCHEMA, berlin) == (
        "(\"t\" > TIMESTAMP '2020-06-30 22:00:00+00:00')"
    )
    assert to_own_sql("(t > TIMESTAMP '2020-10-25 02:30:00')", SCHEMA, berlin) is None  # clocks show it twice
    assert to_own_sql("(t > TIMESTAMP '2020-07-01 00:00:00')", SCHEMA, "Nowhere/Land") is None


JOINED = "with T as (select k from d.u) select 1 from t join a.`b``c`.d"
NESTED = "select (select max(k) from d.u) + k from d.t tablesample (10 percent), range(3)"


@pytest.mark.parametrize(
    ("query", "places", "inner"),
    [
        ("select sum(k), 'ü😀 d.t' from `d`.`t ` as x join e", [("`d`.`t `", True), ("e", False)], set()),
        (JOINED, [("t", False), ("a.`b``c`.d", False), ("d.u", False)], {"t"}),
        (NESTED, [("d.t", False), ("d.u", False)], set()),
    ],
)
def test_tables_are_found_without_a_jvm(query: str, places: list[tuple[str, bool]], inner: set[str]) -> None:
    found, names = names_by_sqlglot(query)
    assert [(query[place.start : place.stop], place.has_alias) for place in found] == places
    assert names == inner
    assert found[0].parts[0] == places[0][0].split(".")[0].strip("`")


def test_what_is_no_query_is_said() -> None:
    with pytest.raises(FormatError, match="not a valid SQL query"):
        names_by_sqlglot("select from from where (")
