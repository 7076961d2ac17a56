"""Conditions: what each notation is bound to, what is refused and how, and what metrics decide."""

from __future__ import annotations

import datetime
import math
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.table.predicate import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    And,
    Comparison,
    FieldMetrics,
    Operator,
    columns_of,
    conjunction,
    disjunction,
    evaluate,
    parse,
    row_mask,
)


def field(name, type_, field_id):
    return pa.field(name, type_, metadata={b"PARQUET:field_id": str(field_id).encode()})


SCHEMA = pa.schema(
    [
        field("x", pa.int32(), 1),
        field("f", pa.float32(), 2),
        field("d", pa.float64(), 3),
        field("s", pa.string(), 4),
        field("dt", pa.date32(), 5),
        field("ts", pa.timestamp("us"), 6),
        field("tz", pa.timestamp("us", "UTC"), 7),
        field("ns", pa.timestamp("ns"), 8),
        field("u", pa.uuid(), 9),
        field("b", pa.binary(), 10),
        field("fixed", pa.binary(2), 11),
        field("dec", pa.decimal128(9, 2), 12),
        field("flag", pa.bool_(), 13),
        field("t", pa.time64("us"), 14),
        field("a", pa.struct([field("b", pa.int64(), 16), field("C d", pa.string(), 17)]), 15),
        field("code", pa.dictionary(pa.int32(), pa.string()), 18),
        field("tags", pa.list_(pa.field("element", pa.string(), metadata={b"PARQUET:field_id": b"20"})), 19),
        field("Mixed", pa.int64(), 21),
        field("mixed", pa.int64(), 22),
        field("interval", pa.int64(), 23),
    ]
)

BOUND = [
    # integers compare with any number exactly
    ("x > 3.5", '"x" > 3'),
    ("x >= 3.5", '"x" > 3'),
    ("x < 3.5", '"x" <= 3'),
    ("x <= -3.5", '"x" <= -4'),
    ("x = 3.5", "FALSE"),
    ("NOT x = 3.5", '"x" IS NOT NULL'),
    ("x = 3.0", '"x" = 3'),
    ("x = 3e0", '"x" = 3'),
    ("x > 2147483648", '"x" > 2147483647'),
    ("x <= 2147483648", '"x" <= 2147483647'),
    ("x > -2147483649", '"x" IS NOT NULL'),
    ("x < -1e30", "FALSE"),
    ("x = '5'", '"x" = 5'),
    ("5 <= x", '"x" >= 5'),
    ("x == - 5", '"x" = -5'),
    ("x != +.5e1", '"x" <> 5'),
    # three-valued logic
    ("x = NULL", "FALSE"),
    ("NOT x = NULL", "FALSE"),
    ("x IN (1, NULL)", '"x" = 1'),
    ("x NOT IN (1, NULL)", "FALSE"),
    ("x IN (3, 1, 1, 2.5)", '"x" IN (1, 3)'),
    ("x NOT IN (2.5)", '"x" IS NOT NULL'),
    ("NOT (x IN (1, 2) OR s IS NULL)", '"x" NOT IN (1, 2) AND "s" IS NOT NULL'),
    ("x NOT BETWEEN 1 AND 5", '"x" < 1 OR "x" > 5'),
    ("NOT NOT x = 1", '"x" = 1'),
    ("x IS NOT DISTINCT FROM NULL", '"x" IS NULL'),
    ("x <=> 1", '"x" = 1 AND "x" IS NOT NULL'),
    ("x IS DISTINCT FROM 1", '"x" <> 1 OR "x" IS NULL'),
    ("TRUE", "TRUE"),
    ("NULL", "FALSE"),
    ("1 = 1 AND x = 1", '"x" = 1'),
    ("'a' > 'b'", "FALSE"),
    ("NULL IS NULL", "TRUE"),
    ("flag", '"flag" = TRUE'),
    ("NOT flag", '"flag" = FALSE'),
    ("flag IS NOT TRUE", '"flag" <> TRUE OR "flag" IS NULL'),
    ("(x = 1 OR x = 2) AND s = 'a' OR flag", '("x" = 1 OR "x" = 2) AND "s" = \'a\' OR "flag" = TRUE'),
    # NaN is the greatest value
    ("d = 'NaN'", 'isnan("d")'),
    ("d < 'nan'", 'NOT isnan("d")'),
    ("d <= 'NaN'", '"d" IS NOT NULL'),
    ("d > 'NaN'", "FALSE"),
    ("d IN (1, 'NaN')", 'isnan("d") OR "d" = 1.0'),
    ("d NOT IN (1, 'NaN')", 'NOT isnan("d") AND "d" <> 1.0'),
    ("d IS NOT NAN", 'NOT isnan("d")'),
    ("isnan(d)", 'isnan("d")'),
    ("d > 'Infinity'::DOUBLE", "\"d\" > 'Infinity'"),
    # a literal takes the column's type
    ("f = 3.14", '"f" = 3.140000104904175'),
    ("f < 1e39", '"f" <= 3.4028234663852886e+38'),
    ("dec = 1.005", "FALSE"),
    ("dec > 1.005", '"dec" > 1.00'),
    ("dec < 1e20", '"dec" <= 9999999.99'),
    ("dt > '2020-01-01 12:00'", "\"dt\" > DATE '2020-01-01'"),
    ("dt >= TIMESTAMP '2020-01-01 12:00:00'", "\"dt\" > DATE '2020-01-01'"),
    ("dt = DATE '0044-03-15'", "\"dt\" = DATE '0044-03-15'"),
    ("dt > '-0044-03-15'", "\"dt\" > DATE '-0044-03-15'"),
    ("dt < '12345-01-01'", "\"dt\" < DATE '12345-01-01'"),
    ("ts >= DATE '2020-01-01'", "\"ts\" >= TIMESTAMP '2020-01-01 00:00:00'"),
    ("ts < '2020-01-01 00:00:00.0000005'", "\"ts\" <= TIMESTAMP '2020-01-01 00:00:00'"),
    ("ns = '2020-01-01 00:00:00.000000005'", "\"ns\" = TIMESTAMP '2020-01-01 00:00:00.000000005'"),
    ("ns < '2300-01-01'", "\"ns\" <= TIMESTAMP '2262-04-11 23:47:16.854775807'"),
    ("tz = '2020-01-01T00:30:00+02:00'", "\"tz\" = TIMESTAMPTZ '2019-12-31 22:30:00+00:00'"),
    ("tz = '2020-01-01 00:00Z'", "\"tz\" = TIMESTAMPTZ '2020-01-01 00:00:00+00:00'"),
    ("tz = TIMESTAMP '2020-01-01 00:00:00'", "\"tz\" = TIMESTAMPTZ '2020-01-01 00:00:00+00:00'"),
    ("t > '10:00'", "\"t\" > TIME '10:00:00'"),
    ("u = '12345678123412341234123456789ABC'", "\"u\" = '12345678-1234-1234-1234-123456789abc'"),
    ("b >= X'00fF'", "\"b\" >= X'00ff'"),
    ("fixed = x'0001'", "\"fixed\" = X'0001'"),
    ("code = 'a'", "\"code\" = 'a'"),
    ("x = CAST('7' AS DECIMAL)", '"x" = 7'),
    # prefixes
    ("s LIKE 'a%'", "\"s\" LIKE 'a%'"),
    ("s LIKE 'a%%'", "\"s\" LIKE 'a%'"),
    ("s LIKE 'a'", "\"s\" = 'a'"),
    ("s LIKE '%'", '"s" IS NOT NULL'),
    ("s NOT LIKE '%'", "FALSE"),
    ("s LIKE '5!%!_%' ESCAPE '!'", "\"s\" LIKE '5\\%\\_%' ESCAPE '\\'"),
    ("s NOT LIKE 'a%'", "\"s\" NOT LIKE 'a%'"),
    ("s LIKE NULL", "FALSE"),
    ("starts_with(s, 'it''s')", "\"s\" LIKE 'it''s%'"),
    ("s ^@ 'a'", "\"s\" LIKE 'a%'"),
    # names
    ('X = 1 AND "x" = 2 AND `x` = 3', '"x" = 1 AND "x" = 2 AND "x" = 3'),
    ('a.b = 5 AND A."C d" IS NULL', '"a"."b" = 5 AND "a"."C d" IS NULL'),
    ("Mixed = 1 AND mixed = 2", '"Mixed" = 1 AND "mixed" = 2'),
    ("interval = 1", '"interval" = 1'),
    ("a IS NULL AND tags IS NOT NULL", '"a" IS NULL AND "tags" IS NOT NULL'),
    ("x = 1 -- and a comment\n /* another */ AND s = '--'", '"x" = 1 AND "s" = \'--\''),
]


@pytest.mark.parametrize(("text", "expected"), BOUND)
def test_a_condition_is_bound_to_columns_and_values(text, expected):
    predicate = parse(text, SCHEMA)
    assert str(predicate) == expected
    assert parse(expected, SCHEMA) == predicate
    assert pickle.loads(pickle.dumps(predicate)) == predicate


REFUSED = [
    (FormatError, "", None, "the condition is empty"),
    (FormatError, "x >", 4, "the condition ends, expected a column or a literal"),
    (FormatError, "x = 1 y", 7, "found y, expected the end of the condition or AND or OR"),
    (
        FormatError,
        "x y = 1",
        3,
        'found y, expected the end of the condition or AND or OR; a name with spaces is quoted: "x y"',
    ),
    (FormatError, "x = 1;", 6, "found ;, expected the end of the condition or AND or OR"),
    (FormatError, "x IN ()", 7, "found ), expected a column or a literal"),
    (FormatError, "s = 'a", 5, "a string that is not closed"),
    (FormatError, '"s = 1', 1, "a name that is not closed"),
    (FormatError, "x NOT = 1", 7, "found =, expected IN, BETWEEN or LIKE"),
    (FormatError, "x IS 5", 6, "found 5, expected NULL, NAN, TRUE, FALSE or DISTINCT FROM"),
    (FormatError, "b = X'abc'", 5, "X'…' takes pairs of hexadecimal digits"),
    (FormatError, "1 < x < 3", 7, "found <, expected the end of the condition or AND or OR"),
    (FormatError, "s LIKE 'a!' ESCAPE '!'", 8, "the pattern ends with its escape character"),
    (FormatError, "isnan(d, 1)", 1, "wrong number of arguments for isnan()"),
    (UnsupportedError, "x = (SELECT 1)", 6, "a subquery is not supported in a condition"),
    (UnsupportedError, "EXISTS (SELECT 1)", 1, "a subquery (EXISTS) is not supported in a condition"),
    (FormatError, "x = ?", 5, "parameter ? has no value"),
    (UnsupportedError, "tags[1] = 'a'", 5, "access to elements is not supported in a condition"),
    (SchemaError, "CASE WHEN x THEN 1 END = 1", 11, '"x" is of type INTEGER, not a condition'),
    (FormatError, "CASE s WHEN 'a' 1 END = 1", 17, "found 1, expected THEN"),
    (FormatError, "CASE s END = 1", 8, "found END, expected WHEN or END"),
    (UnsupportedError, "u::int = 3", 1, "a cast of uuid to INTEGER is not supported in a condition"),
    (UnsupportedError, "x::geometry = 3", 4, "a cast to geometry is not supported in a condition"),
    (UnsupportedError, "x::varchar(3) = '3'", 4, "a cast to varchar is not supported in a condition"),
    (UnsupportedError, "d % 2 = 1", 3, "operator % of other numbers than whole ones is not supported in a condition"),
    (UnsupportedError, "s REGEXP 'a'", 3, "REGEXP (regexp_matches() is) is not supported in a condition"),
    (UnsupportedError, "soundex(s) = 'a'", 1, "function soundex() is not supported in a condition"),
    (
        UnsupportedError,
        "s LIKE s || '%'",
        8,
        "LIKE with a pattern that is not a constant is not supported in a condition",
    ),
    (
        UnsupportedError,
        "contains(s, s)",
        1,
        "contains() with an argument that is not a constant is not supported in a condition",
    ),
    (
        UnsupportedError,
        "substring(s, -1) = 'a'",
        1,
        "substring() with negative numbers is not supported in a condition",
    ),
    (SchemaError, "lower(x) = 'a'", 1, 'column "x" of type int32 is not a string'),
    (SchemaError, "s + 1 > 3", 3, '"s" is of type VARCHAR, not a number'),
    (SchemaError, "x + 1 > 'a'", 9, "'a' is not a BIGINT: not a number"),
    (SchemaError, "x = s", 1, "INTEGER and VARCHAR cannot be compared"),
    (SchemaError, "upper(s)", 1, 'upper("s") is of type VARCHAR, not a condition'),
    (
        SchemaError,
        "ts > INTERVAL '7 eons'",
        6,
        "'7 eons' is not a valid INTERVAL: intervals have the form '7 days' or '1 month 12 hours'",
    ),
    (FormatError, "lower(s, s) = 'a'", 1, "wrong number of arguments for lower()"),
    (SchemaError, "dd = 1", 1, "no column 'dd'; did you mean 'd'?"),
    (SchemaError, "a.bb = 1", 1, "no column 'a.bb'; did you mean 'a.b'?"),
    (SchemaError, "x.y = 1", 1, "no column 'x.y'; there are none"),
    (SchemaError, '"X" = 1', 1, "no column 'X'; did you mean 'x'?"),
    (SchemaError, "MIXED = 1", 1, 'column MIXED is ambiguous: quote the intended one of "Mixed", "mixed"'),
    (SchemaError, "x > 'abc'", 5, "'abc' does not fit column \"x\" of type int32: not a number"),
    (SchemaError, "s = 5", 5, "5 does not fit column \"s\" of type string: strings are written in quotes, '…'"),
    (SchemaError, "x", 1, 'column "x" is of type int32, not a condition'),
    (SchemaError, "5", 1, "5 is a number, not a condition"),
    (SchemaError, "x LIKE 'a%'", 1, 'column "x" of type int32 is not a string'),
    (SchemaError, "x IS NAN", 1, 'column "x" of type int32 is never NaN'),
    (
        SchemaError,
        "dt = '2020-02-30'",
        6,
        "'2020-02-30' does not fit column \"dt\" of type date32[day]: not a valid date: 2020-02-30",
    ),
    (
        SchemaError,
        "ts = '2020-01-01 00:00Z'",
        6,
        "'2020-01-01 00:00Z' does not fit column \"ts\" of type timestamp[us]: the column has no time zone",
    ),
    (SchemaError, "t = '25:00'", 5, "'25:00' does not fit column \"t\" of type time64[us]: not a valid time of day"),
    (
        SchemaError,
        "fixed = X'00'",
        9,
        "X'00' does not fit column \"fixed\" of type fixed_size_binary[2]: it has 1 bytes, not 2",
    ),
    (SchemaError, "flag = 'yes'", 8, "'yes' does not fit column \"flag\" of type bool: booleans are TRUE and FALSE"),
    (SchemaError, "1 = 'a'", 1, "1 and 'a' cannot be compared"),
    (SchemaError, "x > 1e999999999", 5, "1e999999999: numbers have at most 1100 digits and exponents up to 400"),
    (
        SchemaError,
        "x = '3.5'",
        5,
        "'3.5' does not fit column \"x\" of type int32: not an integer; write it without quotes",
    ),
]


@pytest.mark.parametrize(("error", "text", "character", "what"), REFUSED)
def test_a_bad_condition_is_refused_by_name_and_place(error, text, character, what):
    with pytest.raises(error) as caught:
        parse(text, SCHEMA)
    assert str(caught.value) == (what if character is None else f"{what} (character {character} of: {text})")


def test_a_long_condition_is_shown_around_the_place_only():
    text = " OR ".join(["x = 1"] * 1000) + " OR yy = 1 OR " + " OR ".join(["x = 1"] * 1000)
    with pytest.raises(SchemaError) as caught:
        parse(text, SCHEMA)
    assert f"character {text.index('yy') + 1} of: …" in str(caught.value)
    assert len(str(caught.value)) < 250


def test_deep_nesting_is_refused_and_long_lists_are_not():
    with pytest.raises(UnsupportedError, match="nesting deeper than 100"):
        parse("(" * 5000 + "x = 1" + ")" * 5000, SCHEMA)
    expression = pc.field("x") == 0
    for _ in range(2000):
        expression = ~expression
    with pytest.raises(UnsupportedError, match="nested too deeply"):
        parse(expression, SCHEMA)
    numbers = parse(f"x IN ({', '.join(map(str, range(50_000)))})", SCHEMA)
    batch = pa.record_batch({"x": pa.array([1, 49_999, 50_000, None], pa.int32())})
    assert row_mask(numbers, batch).true_count == 2
    alternatives = parse(" OR ".join(f"s LIKE '{number}%'" for number in range(5000)), SCHEMA)
    assert row_mask(alternatives, pa.record_batch({"s": ["4999x", "5x", "x"]})).true_count == 2


# ---- PyArrow expressions ----

FROM_ARROW = [
    (pc.field("x") > 3.5, '"x" > 3'),
    (pc.field("d") > 3, '"d" > 3.0 AND NOT isnan("d")'),
    (~(pc.field("d") > 3), '"d" <= 3.0 OR isnan("d")'),
    (pc.field("d") == pc.scalar(math.nan), "FALSE"),
    (pc.field("d") != pc.scalar(math.nan), '"d" IS NOT NULL'),
    (pc.field("f") == 3.14, "FALSE"),
    (pc.field("f") > 3.14, '"f" > 3.1399998664855957 AND NOT isnan("f")'),
    (pc.field("a", "b") == 5, '"a"."b" = 5'),
    (pc.field("x").isin([1, None]), '"x" = 1 OR "x" IS NULL'),
    (~pc.field("x").isin([1, 2]), '"x" NOT IN (1, 2) OR "x" IS NULL'),
    (pc.starts_with(pc.field("s"), "ab"), "\"s\" LIKE 'ab%'"),
    (pc.field("s") == "it's\n'quoted'", "\"s\" = 'it''s\n''quoted'''"),
    (pc.field("ts") > datetime.datetime(2020, 1, 1), "\"ts\" > TIMESTAMP '2020-01-01 00:00:00'"),
    (pc.field("d").is_null(nan_is_null=True), '"d" IS NULL OR isnan("d")'),
    ((pc.field("x") == 1) & (pc.field("s") == "a") | pc.field("flag"), '"x" = 1 AND "s" = \'a\' OR "flag" = TRUE'),
    (pc.field("u") == pa.scalar(bytes(16), pa.uuid()), "\"u\" = '00000000-0000-0000-0000-000000000000'"),
    (pc.field("x") == pa.scalar(None, pa.int32()), "FALSE"),
    (pc.scalar(True), "TRUE"),
    # filters in lists mean what the expression means
    ([("x", ">", 3.5)], '"x" > 3'),
    ([("x", "==", 1), ("s", "!=", "a")], '"x" = 1 AND "s" <> \'a\''),
    (
        [[("x", "in", {1})], [("d", "<=", 3), ("flag", "=", True)]],
        '"x" = 1 AND "x" IS NOT NULL OR "d" <= 3.0 AND "flag" = TRUE',
    ),
    ([("x", "not in", (1, 2))], '"x" NOT IN (1, 2) OR "x" IS NULL'),
    ([("x", "in", [])], "FALSE"),
    ([("dt", ">=", datetime.date(2020, 1, 1))], "\"dt\" >= DATE '2020-01-01'"),
    ((("d", "=", math.nan),), "FALSE"),
]


@pytest.mark.parametrize(("expression", "expected"), FROM_ARROW, ids=[text for _, text in FROM_ARROW])
def test_an_expression_is_bound_as_pyarrow_means_it(expression, expected):
    assert str(parse(expression, SCHEMA)) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (pc.field("x").cast("int64") > 3, "PyArrow function cast is not supported in a condition"),
        (pc.field("x") + 1 > 3, "PyArrow function add_checked is not supported in a condition"),
        (pc.field(0) == 1, "cannot be parsed: Serialization of non-name field_refs"),
        (pc.starts_with(pc.field("s"), "a", ignore_case=True), "starts_with() that ignores case"),
        (pc.field("x") == pc.field("f"), "comparing with another column (f)"),
    ],
)
def test_an_expression_beyond_conditions_is_refused_by_name(expression, message):
    with pytest.raises(UnsupportedError) as caught:
        parse(expression, SCHEMA)
    assert message in str(caught.value)


def test_other_conditions():
    assert parse(None, SCHEMA) == ALWAYS_TRUE
    predicate = parse("x = 1", SCHEMA)
    assert parse(predicate, SCHEMA) is predicate
    with pytest.raises(SchemaError, match=r"or a list of \(column, operator, value\), found int"):
        parse(5, SCHEMA)


def test_predicates_join_flat_and_without_repetition():
    one, two, three = (parse(f"x = {number}", SCHEMA) for number in (1, 2, 3))
    assert conjunction([]) == ALWAYS_TRUE
    assert disjunction([]) == ALWAYS_FALSE
    assert conjunction([one, ALWAYS_TRUE]) == one
    assert conjunction([one, ALWAYS_FALSE]) == ALWAYS_FALSE
    assert disjunction([one, ALWAYS_TRUE]) == ALWAYS_TRUE
    assert conjunction([conjunction([one, two]), three, two]) == And((one, two, three))
    assert {column.path for column in columns_of(disjunction([one, parse("a.b = 1", SCHEMA)]))} == {("x",), ("a", "b")}


# ---- verdicts ----

UNKNOWN = -1


def metrics(type_, *files):
    """Metrics of files given as (lower, upper, nulls, nans, values)."""
    lower, upper, nulls, nans, values = zip(*files, strict=True)
    return FieldMetrics(pa.array(lower, type_), pa.array(upper, type_), *(np.array(c) for c in (nulls, nans, values)))


def verdict_words(text, known):
    verdict = evaluate(parse(text, SCHEMA), lambda column: known, len(known.lower))
    return " ".join(
        "all" if must else "some" if may else "none" for may, must in zip(verdict.may, verdict.must, strict=True)
    )


# 10…20 | with nulls | only nulls | 15 only | nothing known | bounds the wrong way round | 10 and more | no bounds
INTEGERS = metrics(
    pa.int32(),
    (10, 20, 0, UNKNOWN, 9),
    (10, 20, 1, UNKNOWN, 9),
    (None, None, 9, UNKNOWN, 9),
    (15, 15, 0, UNKNOWN, 9),
    (None, None, UNKNOWN, UNKNOWN, UNKNOWN),
    (20, 10, 0, UNKNOWN, 9),
    (10, None, 0, UNKNOWN, 9),
    (None, None, 0, UNKNOWN, 9),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 15", "some some none all some some some some"),
        ("x = 9", "none none none none some some none some"),
        ("x = 21", "none none none none some some some some"),
        ("x <> 15", "some some none none some some some some"),
        ("x <> 21", "all some none all some some some some"),
        ("x <> 9", "all some none all some some all some"),
        ("x < 10", "none none none none some some none some"),
        ("x < 21", "all some none all some some some some"),
        ("x <= 10", "some some none none some some some some"),
        ("x > 20", "none none none none some some some some"),
        ("x > 9", "all some none all some some all some"),
        ("x >= 15", "some some none all some some some some"),
        ("x IN (1, 9, 21, 30)", "none none none none some some some some"),
        ("x IN (1, 12, 30)", "some some none none some some some some"),
        ("x IN (12, 15)", "some some none all some some some some"),
        ("x NOT IN (12, 15)", "some some none none some some some some"),
        ("x NOT IN (1, 9)", "all some none all some some all some"),
        ("x NOT IN (1, 9, 21)", "all some none all some some some some"),
        ("x IS NULL", "none some all none some none none none"),
        ("x IS NOT NULL", "all some none all some all all all"),
        ("x > 9 AND x IS NOT NULL", "all some none all some some all some"),
        ("x < 10 OR x IS NULL", "none some all none some some none some"),
        ("TRUE", "all all all all all all all all"),
        ("FALSE", "none none none none none none none none"),
    ],
)
def test_verdicts_on_integers(text, expected):
    assert verdict_words(text, INTEGERS) == expected


NAN = float("nan")
# 1…2 without NaN | with NaN | NaN count unknown | only NaN | bounds NaN (old writers)
DOUBLES = metrics(
    pa.float64(),
    (1, 2, 0, 0, 9),
    (1, 2, 0, 1, 9),
    (1, 2, 0, UNKNOWN, 9),
    (None, None, 0, 9, 9),
    (NAN, NAN, 0, UNKNOWN, 9),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d > 2", "none some some some some"),
        ("d >= 1", "all all all some some"),
        ("d < 3", "all some some none some"),
        ("d <= 2", "all some some none some"),
        ("d = 3", "none none none none some"),
        ("d <> 3", "all all all some some"),
        ("d IN (0, 3)", "none none none none some"),
        ("d NOT IN (0, 3)", "all all all some some"),
        ("isnan(d)", "none some some all some"),
        ("NOT isnan(d)", "all some some none some"),
        ("d = 'NaN'", "none some some all some"),
    ],
)
def test_verdicts_on_floating_point(text, expected):
    assert verdict_words(text, DOUBLES) == expected


# apple…banana | truncated from above to "b" + 1 | only words with "app" | lower bound only
STRINGS = metrics(
    pa.string(),
    ("apple", "banana", 0, 0, 9),
    ("appl", "c", 0, 0, 9),
    ("app", "apple", 0, 0, 9),
    ("apple", None, 0, 0, 9),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s LIKE 'app%'", "some some all some"),
        ("s NOT LIKE 'app%'", "some some none some"),
        ("s LIKE 'apq%'", "some some none some"),
        ("s LIKE 'c%'", "none some none some"),
        ("s NOT LIKE 'c%'", "all some all some"),
        ("s LIKE 'aa%'", "none none none none"),
        ("s NOT LIKE 'aa%'", "all all all all"),
        ("s = 'appl'", "none some some none"),
        ("s > 'b'", "some some none some"),
        ("s < 'banana'", "some some all some"),
    ],
)
def test_verdicts_on_strings(text, expected):
    assert verdict_words(text, STRINGS) == expected


def test_verdicts_on_uuids_hold_for_both_orders_of_their_halves():
    low, high = bytes([1]) + bytes(15), bytes([1]) + bytes(7) + b"\xff" * 8
    # Java orders the lower halves as signed: …ff is below …00, so a file of `high` to `low` has these bounds:
    known = metrics(pa.binary(16), (high, low, 0, 0, 2), (low, low, 0, 0, 2), (b"\x80" + bytes(15), low, 0, 0, 2))
    assert verdict_words(f"u = '{'01' + '00' * 7 + '80' + '00' * 7}'", known) == "some some some"
    assert verdict_words(f"u = '{'02' + '00' * 15}'", known) == "some none some"
    # of 80… and 00… the first is less to Java, and where one bound is missing nothing shows that
    known = metrics(pa.binary(16), (None, bytes(16), 0, 0, 2), (b"\x80" + bytes(15), None, 0, 0, 2))
    assert verdict_words(f"u = '{'80' + '00' * 15}'", known) == "some some"
    assert verdict_words(f"u = '{'00' * 16}'", known) == "some some"


def test_a_column_without_metrics_decides_nothing():
    verdict = evaluate(
        parse("x = 1 AND s = 'a'", SCHEMA), lambda column: INTEGERS if column.path == ("x",) else None, 8
    )
    assert verdict.may.tolist() == [False, False, False, False, True, True, False, True]
    assert not verdict.must.any()


def test_a_comparison_holds_the_operator_and_the_value_in_the_columns_units():
    predicate = parse("ts >= '1970-01-01 00:00:01'", SCHEMA)
    assert isinstance(predicate, Comparison)
    assert predicate.operator is Operator.GE
    assert predicate.value == 1_000_000
    assert predicate.column.field_id == 6
