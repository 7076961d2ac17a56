"""Clauses of merges: which row falls to which, what becomes of it, and what is wrong with them."""

from __future__ import annotations

import datetime as dt
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import FormatError, SchemaError
from skerry.table.merging import (
    Delete,
    Insert,
    MergeRules,
    MergeSource,
    Update,
    key_predicate,
)
from skerry.table.merging.clauses import parse_clauses
from skerry.table.predicate import row_mask
from skerry.table.rows.keys import KeyIndex

NAN = float("nan")


def with_ids(*fields, required=()):
    return pa.schema(
        [
            pa.field(name, type_, name not in required, {"PARQUET:field_id": str(number)})
            for number, (name, type_) in enumerate(fields, 1)
        ]
    )


TABLE = with_ids(("id", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("at", pa.timestamp("us")))
SOURCE = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("op", pa.string())])


def source_of(*rows, schema=SOURCE, on=("id",)):
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )
    return MergeSource(table, on, KeyIndex.of([table.column(name) for name in on]))


def target_of(*rows, schema=TABLE):
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )


def rules_of(matched=(), not_matched=(), by_source=(), source=SOURCE, table=TABLE, on=("id",)):
    return MergeRules(
        source,
        table,
        on,
        matched=parse_clauses(matched, "when_matched", (Update, Delete)),
        not_matched=parse_clauses(not_matched, "when_not_matched", (Insert,)),
        not_matched_by_source=parse_clauses(by_source, "when_not_matched_by_source", (Update, Delete)),
    )


def use(where):
    """A merge in which `where` is the condition of the only clause for matched rows, and `op` is used."""
    return rules_of([Delete(where)], [Insert(where="op = ''")])


ROWS = [(1, 1.0, "a", "D"), (2, NAN, "b", "U"), (3, None, None, None), (4, 4.0, "d", "U")]
OLD = [(1, 2.0, "a", None), (2, NAN, "B", None), (3, 3.0, "c", None), (4, -0.0, None, None)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("source.op = 'D'", [1]),
        ("source.op <> 'D'", [2, 4]),
        ("NOT (source.op = 'D')", [2, 4]),
        ("source.x < target.x", [1]),
        ("source.x >= target.x", [2, 4]),
        ("source.x = target.x", [2]),
        ("source.x <> target.x", [1, 4]),
        ("NOT source.x < target.x", [2, 4]),
        ("source.x > target.x OR target.s IS NULL", [4]),
        ("source.x <= target.x AND source.op IN ('D', 'U')", [1, 2]),
        ("SOURCE.op = 'D' or Target.s = 'B'", [1, 2]),
        ("source.s = target.s", [1]),
        ("target.x = 0", [4]),
        ("TRUE", [1, 2, 3, 4]),
        ("NULL", []),
        (pc.field("source", "x") > pc.field("target", "x"), [4]),  # as PyArrow compares
        (pc.field("source", "op").isin(["D"]) | pc.is_null(pc.field("target", "s")), [1, 4]),
    ],
    ids=str,
)
def test_conditions(where, expected):
    rules = pickle.loads(pickle.dumps(use(where)))
    source, target = source_of(*ROWS), target_of(*OLD)
    actions = rules.decide(source, np.arange(4), target.select(rules.condition_columns))
    assert (np.flatnonzero(actions == 0) + 1).tolist() == expected


FLOATS = st.none() | st.sampled_from([NAN, -0.0, 0.0, 1.0, float("inf")])


@given(FLOATS, FLOATS, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), st.booleans())
def test_columns_compare_as_literals_do(left, right, operator, negated):
    def key(value):
        return (1, 0.0) if value != value else (0, value)

    compare = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[operator]
    known = left is not None and right is not None
    expected = known and getattr(key(left), compare)(key(right)) is not negated
    text = f"source.x {operator} target.x"
    rules = use(f"NOT ({text})" if negated else text)
    target = target_of((1, right, None, None))
    actions = rules.decide(source_of((1, left, "", "")), np.array([0]), target)
    assert (actions.tolist() == [0]) == expected


def test_the_first_true_clause_decides():
    rules = rules_of(
        [Delete("source.op = 'D'"), Update({"x": "source.x"}, "target.x < 3"), Update({"s": "'late'"})],
        [Insert(where="op = 'U'"), Insert({"id": "id", "s": "op"})],
        Delete("target.id > 100"),
    )
    assert rules.updates.tolist() == [False, True, True, False]
    target = target_of(*OLD, (101, 0.0, "z", None), (99, 0.0, "z", None))
    found = np.array([0, 1, 2, 3, -1, -1])
    actions = rules.decide(source_of(*ROWS), found, target)
    assert actions.tolist() == [0, 2, 2, 1, 3, -1]
    changed = np.array([1, 2, 3])
    new = rules.updated(source_of(*ROWS), found[changed], target.take(pa.array(changed)), actions[changed])
    assert new.to_pylist()[1:] == [
        {"id": 3, "x": 3.0, "s": "late", "at": None},
        {"id": 4, "x": 4.0, "s": None, "at": None},
    ]
    assert new.schema.equals(TABLE, check_metadata=True)
    inserted = [row for batch in rules.inserted(source_of(*ROWS), np.array([0, 1, 3])) for row in batch.to_pylist()]
    assert inserted[1:] == [{"id": 4, "x": 4.0, "s": "d", "at": None}, {"id": 1, "x": None, "s": "D", "at": None}]


def test_values():
    day = dt.datetime(2024, 1, 1)
    rules = rules_of(
        Update(
            {
                "x": pc.add(pc.field("target", "x"), pc.field("source", "x")),
                "s": "'it''s'",
                "at": day,
            }
        ),
        Insert({"id": "7", "x": 1, "s": "op", "at": "TIMESTAMP '2024-01-02 00:00:00'"}),
        Update({"s": "NULL", "x": 2.5}),
    )
    assert rules.kept_columns == ("at", "id", "x")
    source, target = source_of(*ROWS), target_of(*OLD)
    actions = rules.decide(source, np.array([0, -1, -1, 3]), target)
    rows = rules.updated(source, np.array([0, -1, -1, 3]), target, actions).to_pylist()
    assert rows == [
        {"id": 1, "x": 3.0, "s": "it's", "at": day},
        {"id": 2, "x": 2.5, "s": None, "at": None},
        {"id": 3, "x": 2.5, "s": None, "at": None},
        {"id": 4, "x": 4.0, "s": "it's", "at": day},
    ]
    (batch,) = rules.inserted(source, np.array([0]))
    assert batch.to_pylist() == [{"id": 7, "x": 1.0, "s": "D", "at": dt.datetime(2024, 1, 2)}]


def test_columns_that_the_source_lacks_stay():
    rules = rules_of("update", source=pa.schema([("id", pa.int64()), ("s", pa.string())]))
    assert rules.kept_columns == ("at", "x")
    assert rules.condition_columns == ()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"matched": "insert"},
            SchemaError,
            'takes "update" or Update(…) or "delete" or Delete(…), found',
        ),
        ({"not_matched": "update"}, SchemaError, 'takes "insert" or Insert(…), found'),
        (
            {"matched": ["update", "delete"]},
            SchemaError,
            "clause after one without a condition never applies",
        ),
        ({"matched": Delete("x = 1")}, SchemaError, "column 'x' is ambiguous: use source.x or target.x"),
        ({"matched": Delete("source.y = 1")}, SchemaError, "no column 'source.y'; did you mean 'source.x'?"),
        ({"not_matched": Insert(where="target.x = 1")}, SchemaError, "no column 'target.x'"),
        ({"by_source": Delete("source.x = 1")}, SchemaError, "no column 'source.x'"),
        ({"matched": Delete("source.x =")}, FormatError, "the condition ends, expected"),
        ({"matched": Delete("source.s = target.x")}, SchemaError, "VARCHAR and DOUBLE cannot be compared"),
        ({"matched": Delete(pc.field("x") == 1)}, SchemaError, "use pc.field('source', 'x')"),
        ({"matched": Delete(pc.field("source", "y") == 1)}, SchemaError, "no column 'y' in the source; there are: id"),
        (
            {"matched": Delete(pc.add(pc.field("source", "x"), 1))},
            SchemaError,
            "is of type double, expected a condition",
        ),
        ({"matched": Delete(7)}, SchemaError, "a condition must be SQL text or a PyArrow expression, found int"),
        ({"matched": Update({"y": 1})}, SchemaError, "the table has no column 'y'"),
        ({"matched": Update({})}, SchemaError, "Update({}) sets no column"),
        ({"by_source": Update()}, SchemaError, "Update() has no values, and there is no source"),
        ({"matched": Update({"x": "'a'"})}, SchemaError, "'a' does not fit column x of type double"),
        ({"matched": Update({"id": "1.5"})}, SchemaError, "1.5 does not fit column 'id' of type int64"),
        ({"matched": Update({"id": 1.5})}, SchemaError, "column 'id'"),
        ({"matched": Update({"s": "no column"})}, SchemaError, "is not an expression in SQL"),
        ({"matched": Update({"at": "source.x > 1"})}, SchemaError, "is of type BOOLEAN, which column 'at' of type"),
        ({"matched": Update({"x": "source.s"})}, SchemaError, "column 'x' is string in the data, but double in"),
        ({"matched": "update"}, SchemaError, "column 'op' of the source is not a column of the table, and no clause"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_before_anything_is_read(arguments, error, message):
    with pytest.raises(error) as raised:
        rules_of(**arguments)
    assert message in str(raised.value)


def test_a_value_that_does_not_fit_its_required_column():
    table = with_ids(("id", pa.int64()), ("s", pa.string()), required=["s"])
    rules = rules_of("update", source=pa.schema([("id", pa.int64()), ("s", pa.string())]), table=table)
    source = source_of((1, None), schema=pa.schema([("id", pa.int64()), ("s", pa.string())]))
    with pytest.raises(SchemaError, match="column 's' is required, but null in row 0"):
        rules.updated(source, np.array([0]), target_of((1, "a"), schema=table), np.array([0], np.int16))


# Blind merges --------------------------------------------------------------------------------------------------------

FULL = pa.schema([*SOURCE, ("at", pa.timestamp("us"))])


def blind(matched, not_matched, *rows, source=FULL):
    rules = rules_of(matched, not_matched, source=source)
    ended = rules.blind(source_of(*rows, schema=source))
    return ended and (ended[0].tolist(), sorted(row["id"] for batch in ended[1] for row in batch.to_pylist()))


def test_blind_merges_of_changes():
    rows = [(1, 1.0, "a", "D", None), (2, 2.0, "b", "U", None), (3, 3.0, "c", "?", None), (None, 4.0, "d", "U", None)]
    changes = [Delete("source.op = 'D'"), Update(where="source.op = 'U'")]
    inserts = Insert(where="op = 'U'")
    deleted, inserted = rules_of(changes, inserts, source=FULL).blind(source_of(*rows, schema=FULL))
    assert deleted.tolist() == [0, 1]
    assert [row["x"] for batch in inserted for row in batch.to_pylist()] == [4.0, 2.0] or [
        row["x"] for batch in inserted for row in batch.to_pylist()
    ] == [2.0, 4.0]


@pytest.mark.parametrize(
    ("matched", "not_matched"),
    [
        (Update(where="target.x = 1 AND source.op = 'U'"), "insert"),
        (Update({"x": "source.x"}), Insert(where="op = 'U'")),
        ([Delete("source.op = 'D'"), "update"], "insert"),
        ((), Insert(where="op = 'D'")),
        (Update(where="source.op = 'D'"), Insert({"id": "id"})),
    ],
    ids=str,
)
def test_what_depends_on_the_table_is_not_blind(matched, not_matched):
    assert blind(matched, not_matched, (1, 1.0, "a", "D", None)) is None


# Predicates of keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize(
    ("type_", "make"),
    [
        (pa.int32(), lambda n: n * n % 100_003),
        (pa.float64(), lambda n: [NAN, 0.0, -0.0][n] if n < 3 else n / 7),
        (pa.string(), lambda n: f"k{n * 7 % 10_007}"),
        (pa.timestamp("us", "UTC"), lambda n: n * 10**9),
        (pa.time64("us"), lambda n: n * 1000),
        (pa.date32(), lambda n: n * 3),
        (pa.decimal128(20, 2), lambda n: n),
        (pa.bool_(), lambda n: n % 2 == 0),
        (pa.binary(2), lambda n: n.to_bytes(2, "big")),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_predicates_hold_for_all_keys(type_, make, count):
    values = pa.array([*map(make, range(count)), None], type_)
    field = pa.field("k", type_, metadata={"PARQUET:field_id": "1"})
    batch = pa.record_batch([values], schema=pa.schema([field]))
    for max_ranges in (1, 64):
        predicate = key_predicate([field], [values], max_ranges=max_ranges)
        assert row_mask(predicate, batch).fill_null(False).to_pylist() == [True] * count + [False]
        assert len(str(predicate)) < 40_000


def test_predicates_of_many_keys_leave_out_gaps():
    field = pa.field("k", pa.int64(), metadata={"PARQUET:field_id": "1"})
    keys = pa.array([*range(1000), *range(10**6, 10**6 + 1000)])
    predicate = key_predicate([field], [keys], max_ranges=2)
    assert str(predicate) == '"k" >= 0 AND "k" <= 999 OR "k" >= 1000000 AND "k" <= 1000999'
    assert str(key_predicate([field], [pa.array([None], pa.int64())])) == "FALSE"
