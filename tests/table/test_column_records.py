"""Records made of columns are those that their class makes one by one."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import pytest

from skerry.table.rows.column_records import records_of


@dataclass(frozen=True, slots=True)
class Place:
    """One of each kind of field."""

    name: str
    size: int = 3
    tags: dict[int, int] = field(default_factory=dict)


def test_fields_come_from_columns_and_defaults():
    records = records_of(Place, 2, name=iter("ab"), size=[1, 2, 5])
    assert records == [Place("a", 1), Place("b", 2)]
    assert pickle.loads(pickle.dumps(records)) == records
    assert hash(records_of(Place, 1, name=["a"], tags=[()])[0]) == hash(Place("a", 3, ()))  # type: ignore[arg-type]


def test_what_is_made_for_each_record_is_its_own():
    one, other = records_of(Place, 2, name="ab")
    one.tags[1] = 2
    assert other.tags == {}


def test_no_records():
    assert records_of(Place, 0, name=[]) == []


def test_columns_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="fewer than 3 values of size"):
        records_of(Place, 3, name="abc", size=[1, 2])
    with pytest.raises(TypeError, match="Place without name"):
        records_of(Place, 1, size=[1])
    with pytest.raises(TypeError, match="Place has no field colour"):
        records_of(Place, 1, name="a", colour=["red"])
