"""Change records as JSON: what is read of them at once, and what is left as doubtful."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.jobs.record_fields import FieldNames
from skerry.jobs.record_texts import UNAVAILABLE, Envelope, ReadTexts, parse_texts, reads

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("amount", pa.decimal128(20, 2)),
        pa.field("count", pa.int32(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("day", pa.date32()),
    ]
)
ENVELOPE = Envelope(order=(("source.lsn", pa.int64()),))
ROW = {
    "id": 1,
    "name": "a",
    "amount": "1.50",
    "count": 1,
    "at": "2024-01-02T03:04:05.5Z",
    "local": "2024-01-02T03:04:05",
    "day": "2024-01-02",
}


def record(op: Any = "c", after: Any = ROW, before: Any = None, lsn: Any = 1, **more: Any) -> str:
    return json.dumps({"op": op, "before": before, "after": after, "source": {"lsn": lsn, "after": {"x": 1}}, **more})


def read(*texts: str, schema: pa.Schema = SCHEMA) -> ReadTexts:
    return parse_texts(pa.array(texts, pa.large_string()), ENVELOPE, schema, ["id"], FieldNames())


def test_times_are_read_as_numbers_and_as_texts() -> None:
    as_texts = read(record())
    as_numbers = read(record(after={**ROW, "at": 1704164645500000, "local": 1704164645000000, "day": 19724}))
    assert len(as_texts.doubtful) == len(as_numbers.doubtful) == 0
    assert as_texts.rows.schema.types == as_numbers.rows.schema.types == SCHEMA.types
    assert as_texts.rows.equals(as_numbers.rows)
    assert str(as_texts.rows.column("local")[0]) == "2024-01-02 03:04:05"


def test_digits_of_decimals_are_kept() -> None:
    text = record().replace('"1.50"', "123456789012345678.25")
    assert str(read(text).rows.column("amount")[0]) == "123456789012345678.25"


def test_records_in_payloads_and_deletes_and_keys_before() -> None:
    told = [record(), record("d", None, {"id": 7}), record("u", {**ROW, "id": 3}, {**ROW, "id": 2})]
    for texts in (told, [json.dumps({"schema": {"after": 1}, "payload": json.loads(text)}) for text in told]):
        found = read(*texts)
        assert found.op.to_pylist() == ["c", "d", "u"]
        assert found.rows.column("id").to_pylist() == [1, 7, 3]
        assert found.rows.column("count").to_pylist() == [1, None, 1]
        assert found.before is not None
        assert found.before.to_pylist() == [None, None, {"id": 2}]
        assert found.order["source.lsn"].to_pylist() == [1, 1, 1]
        assert found.fields is None


DOUBTFUL = [
    "nonsense",
    "",
    "{}",
    record() + record(),
    record("x"),
    record(None),
    record(after=None),
    record("d"),
    record(lsn=None),
    record(after={**ROW, "id": None}),
    record(after={**ROW, "count": None}),
    record(after={**ROW, "count": "1"}),
    record(after={**ROW, "count": 3_000_000_000}),
    record(after={**ROW, "amount": "1.505"}),
    record(after={**ROW, "name": UNAVAILABLE}),
]


@pytest.mark.parametrize("text", DOUBTFUL)
def test_what_looks_wrong_is_left_alone(text: str) -> None:
    good = [record(lsn=number) for number in range(200)]
    found = read(*good[:150], text, *good[150:])
    assert 150 in found.doubtful
    assert len(found.doubtful) <= 32  # halving ends where it costs more than it saves
    left = set(found.doubtful.tolist())
    assert found.indices.tolist() == [place for place in range(201) if place not in left]
    assert found.order["source.lsn"].to_pylist() == [place - (place > 150) for place in found.indices.tolist()]


def test_other_fields_are_noticed_in_a_single_row() -> None:
    fewer = {name: value for name, value in ROW.items() if name != "name"}
    turned = dict(reversed(ROW.items()))
    texts = [
        record(),
        record(after={**ROW, "more": 5}),
        record(after=turned),
        record(after=fewer),
        record("d", None, {"id": 1}),
    ]
    found = read(*texts).fields
    assert found is not None
    assert {frozenset(names) for names in found.names} == {frozenset([*ROW, "more"]), frozenset(fewer)}
    assert found.texts.to_pylist() == [texts[1], texts[3]]
    assert read(texts[0], texts[2], texts[4]).fields is None


field_names = st.sampled_from(["a", "b", "after", "payload", 'q"\\', "ä"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.none()
            | st.dictionaries(st.sampled_from(["a", "b", "after", "payload", 'q"\\', "ä"]), json_values, max_size=4),
            st.booleans(),
            st.booleans(),
            st.sampled_from([None, 1, 3]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_fields_are_found_as_plain_python_finds_them(rows: list[tuple[Any, bool, bool, int | None]]) -> None:
    texts, expected = [], []
    for row, is_wrapped, is_ascii, indent in rows:
        envelope: dict[str, Any] = {"before": {"after": {"no": 1}}, "after": row, "source": {"after": {"no": 1}}}
        told = {"schema": {"after": {"no": 1}}, "payload": envelope} if is_wrapped else envelope
        texts.append(json.dumps(told, ensure_ascii=is_ascii, indent=indent))
        expected.append(None if row is None else tuple(row))
    found, names = FieldNames().find(pa.array(texts, pa.large_string()))
    assert [names.get(number) for number in found.tolist()] == expected


def test_which_types_are_read_here() -> None:
    assert reads(SCHEMA)
    for type_ in (pa.binary(), pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.float32(), pa.time64("us")):
        assert not reads(pa.schema([("a", type_)]))
    assert np.array_equal(read(schema=SCHEMA).doubtful, np.empty(0, np.int64))
