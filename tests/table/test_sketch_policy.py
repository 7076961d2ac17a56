"""Which columns a commit sketches: the rules of the Bodo document and the properties that choose among them."""

import pyarrow as pa
import pytest

from skerry.errors import SchemaError
from skerry.table.statistics.column_statistics import ColumnRule, SketchPolicy


def field(name, type_, field_id):
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})


SCHEMA = pa.schema(
    [
        field("flag", pa.bool_(), 1),
        field("i", pa.int32(), 2),
        field("l", pa.int64(), 3),
        field("f", pa.float32(), 4),
        field("d", pa.float64(), 5),
        field("day", pa.date32(), 6),
        field("at", pa.time64("us"), 7),
        field("ts", pa.timestamp("us"), 8),
        field("tz", pa.timestamp("us", "UTC"), 9),
        field("s", pa.string(), 10),
        field("b", pa.binary(), 11),
        field("dec", pa.decimal128(9, 2), 12),
        field("fix", pa.binary(4), 13),
        field("st", pa.struct([field("x", pa.int32(), 15), field("y", pa.float64(), 16)]), 14),
        field("li", pa.list_(field("element", pa.int32(), 18)), 17),
    ]
)


def names(columns):
    return [column.name for column in columns]


def test_all_primitive_columns_by_default_struct_members_included_elements_not():
    assert names(SketchPolicy.from_properties({}).columns(SCHEMA, created=True)) == [
        *("flag", "i", "l", "f", "d", "day", "at", "ts", "tz", "s", "b", "dec", "fix", "st.x", "st.y")
    ]


def test_bodo_sketches_the_documents_types_when_a_table_is_created():
    policy = SketchPolicy.from_properties({"skerry.statistics.columns": "bodo"})
    assert names(policy.columns(SCHEMA, created=True)) == [
        *("i", "l", "day", "at", "ts", "tz", "s", "b", "dec", "st.x")
    ]


def test_bodo_extends_columns_with_a_sketch_float_and_double_included():
    policy = SketchPolicy.from_properties({"skerry.statistics.columns": "bodo"})
    assert names(policy.columns(SCHEMA, created=False, sketched={1, 2, 4, 5, 13})) == ["i", "f", "d"]


@pytest.mark.parametrize("rule", ["all", "bodo", "i,s"])
def test_without_a_sketch_of_the_earlier_rows_nothing_is_claimed(rule):
    policy = SketchPolicy.from_properties({"skerry.statistics.columns": rule})
    assert policy.columns(SCHEMA, created=False, sketched=()) == []


def test_a_list_of_columns():
    policy = SketchPolicy.from_properties({"skerry.statistics.columns": " s, st.x ,"})
    assert policy.rule is ColumnRule.LISTED
    policy.check(SCHEMA)
    assert names(policy.columns(SCHEMA, created=True)) == ["s", "st.x"]
    assert names(policy.columns(SCHEMA, created=False, sketched={10, 3})) == ["s"]


def test_a_listed_column_that_does_not_exist_is_answered_with_the_nearest():
    policy = SketchPolicy.from_properties({"skerry.statistics.columns": "dya"})
    with pytest.raises(SchemaError, match="names 'dya', which is not a primitive column; did you mean 'day'"):
        policy.check(SCHEMA)


def test_switched_off_by_property():
    policy = SketchPolicy.from_properties({"skerry.statistics.enabled": "false"})
    assert policy.columns(SCHEMA, created=True) == []


def test_switched_off_by_the_environment_whatever_the_properties_say(monkeypatch):
    monkeypatch.setenv("BODO_ENABLE_THETA_SKETCHES", "0")
    policy = SketchPolicy.from_properties({"skerry.statistics.enabled": "true", "skerry.statistics.columns": "all"})
    assert policy.columns(SCHEMA, created=True) == []
    monkeypatch.setenv("BODO_ENABLE_THETA_SKETCHES", "1")
    assert SketchPolicy.from_properties({}).enabled


def test_a_switch_that_is_neither_true_nor_false_is_refused():
    with pytest.raises(SchemaError, match="must be true or false, found 'maybe'"):
        SketchPolicy.from_properties({"skerry.statistics.enabled": "maybe"})
