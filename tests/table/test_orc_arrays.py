"""Nested values that PyArrow's ORC writer is given."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from skerry.table.files.orc_arrays import rebuild_nested
from torture import examples


def through_orc(rows: pa.Table) -> pa.Table:
    file = io.BytesIO()
    with orc.ORCWriter(file) as writer:
        writer.write(rebuild_nested(rows))
    return orc.ORCFile(io.BytesIO(file.getvalue())).read()


def nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        types.map(pa.list_),
        types.map(lambda type_: pa.map_(pa.int32(), type_)),
        st.lists(types, min_size=1, max_size=3).map(
            lambda members: pa.struct([(f"m{place}", type_) for place, type_ in enumerate(members)])
        ),
    )


TYPES = st.recursive(st.sampled_from([pa.int32(), pa.string(), pa.bool_()]), nested, max_leaves=6)


def values(type_: pa.DataType, *, or_null: bool = True) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(type_):
        found: st.SearchStrategy[Any] = st.fixed_dictionaries({member.name: values(member.type) for member in type_})
    elif pa.types.is_list(type_):
        found = st.lists(values(type_.value_type), max_size=3)
    elif pa.types.is_map(type_):
        found = st.dictionaries(st.integers(0, 9), values(type_.item_type), max_size=3).map(lambda m: list(m.items()))
    elif pa.types.is_boolean(type_):
        found = st.booleans()
    else:
        found = st.integers(0, 99) if pa.types.is_integer(type_) else st.text("abc", max_size=3)
    return st.none() | found if or_null else found


@settings(max_examples=examples(60))
@given(st.data())
def test_files_hold_the_rows(data: st.DataObject) -> None:
    type_ = data.draw(TYPES)
    told = data.draw(st.lists(values(type_, or_null=data.draw(st.booleans())), min_size=1, max_size=12))
    start = data.draw(st.integers(0, len(told) - 1))
    rows = pa.table({"x": pa.array(told, type_)}).slice(start)
    rebuilt = rebuild_nested(rows)
    rebuilt.validate(full=True)
    assert rebuilt.equals(rows)
    assert through_orc(rows).column("x").to_pylist() == told[start:]


MEMBERS = pa.array([{"a": i, "b": str(i)} if i % 3 else None for i in range(40)])
IS_NULL = pa.array([i % 4 == 0 for i in range(10)])
OFFSETS = pa.array(range(0, 33, 3), pa.int32())
NESTED = {
    "struct": pa.StructArray.from_arrays([MEMBERS.slice(4, 10)], ["m"], mask=IS_NULL),
    "list": pa.ListArray.from_arrays(OFFSETS, MEMBERS.slice(5), mask=IS_NULL),
    "map": pa.MapArray.from_arrays(OFFSETS, pa.array(range(40)).slice(5), MEMBERS.slice(5), mask=IS_NULL),
}


@pytest.mark.parametrize("array", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize("start", [0, 1, 9, 10])
def test_what_lies_below_nulls_is_no_value(array: pa.Array, start: int) -> None:
    rows = pa.table({"x": array.slice(start)})
    assert through_orc(rows).column("x").to_pylist() == array.to_pylist()[start:]


def test_members_that_must_not_be_null_are_below_null_structs() -> None:
    type_ = pa.struct([pa.field("a", pa.int64(), nullable=False, metadata={"paimon.id": "7"})])
    rows = pa.table({"x": pa.array([{"a": 1}, None, {"a": 3}], type_), "y": [1, 2, 3]})
    rebuilt = rebuild_nested(rows)
    assert rebuilt.schema.equals(rows.schema, check_metadata=True)
    assert through_orc(rows.slice(1)).to_pylist() == [{"x": None, "y": 2}, {"x": {"a": 3}, "y": 3}]
    assert rebuild_nested(rows.schema.empty_table()).num_rows == 0
