"""`variant_get`: paths, types, and what fits them; compared with the decoded values."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import uuid
from typing import Any

import pyarrow as pa
import pytest
from variant_samples import column, comparable, decoded, random_value

from skerry.errors import FormatError, SchemaError
from skerry.variant import VARIANT, Primitive, Typed, as_json, check, encode_variant, variant_get
from skerry.variant.getting import parse_type
from skerry.variant.paths import normalized_path, parse_path

D = decimal.Decimal
VALUES: list[Any] = [
    7,
    2**40,
    D("3.00"),
    D("3.50"),
    D("2.000000000000000000000000000000"),
    2.5,
    Typed(Primitive.FLOAT, 0.5),
    "text",
    True,
    None,
    [1],
    dt.date(2020, 1, 1),
    dt.datetime(2020, 1, 1, 1),
    Typed(Primitive.TIMESTAMP_NTZ_NS, 1000),
    Typed(Primitive.TIMESTAMP_NTZ_NS, 1001),
    dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    b"bytes",
    uuid.UUID(int=5),
]
FITS: dict[str, dict[int, Any]] = {
    "int": {0: 7, 2: 3, 4: 2},
    "tinyint": {0: 7, 2: 3, 4: 2},
    "long": {0: 7, 1: 2**40, 2: 3, 4: 2},
    "decimal(5, 2)": {0: D("7.00"), 2: D("3.00"), 3: D("3.50"), 4: D("2.00")},
    "decimal(38, 1)": {0: D(7), 1: D(2**40), 2: D(3), 3: D("3.5"), 4: D(2)},
    "double": {0: 7.0, 1: 2.0**40, 2: 3.0, 3: 3.5, 4: 2.0, 5: 2.5, 6: 0.5},
    "float": {0: 7.0, 1: 2.0**40, 2: 3.0, 3: 3.5, 4: 2.0, 5: 2.5, 6: 0.5},
    "string": {7: "text"},
    "boolean": {8: True},
    "date": {11: dt.date(2020, 1, 1)},
    "timestamp": {12: dt.datetime(2020, 1, 1, 1), 13: dt.datetime(1970, 1, 1, 0, 0, 0, 1)},
    "timestamptz": {15: dt.datetime(2020, 1, 1, tzinfo=dt.UTC)},
    "binary": {16: b"bytes"},
    "uuid": {17: uuid.UUID(int=5)},
    "time": {},
}


@pytest.mark.parametrize("type_", FITS)
def test_values_that_fit_a_type_are_found(type_: str) -> None:
    found = variant_get(column([*({"a": value} for value in VALUES), ..., {}, 5]), "$.a", type_)
    found.validate(full=True)
    assert found.type == parse_type(type_)
    assert found.to_pylist() == [FITS[type_].get(row) for row in range(len(VALUES) + 3)]


def test_nanoseconds_fit_their_type() -> None:
    found = variant_get(column(VALUES), "$", "timestamp_ns")
    assert {row: value.value for row, value in enumerate(found) if value.is_valid} == {
        12: 1577840400 * 10**9,
        13: 1000,
        14: 1001,
    }


def test_paths_lead_into_objects_and_arrays() -> None:
    array = column([{"a": {"b c": [1, {"d": "x"}]}}, {"a": {"b c": []}}, {"a": 1}, ..., [{"a": 2}], {}])
    assert variant_get(array, "$.a['b c'][1].d", "string").to_pylist() == ["x", *[None] * 5]
    assert variant_get(array, '$["a"]["b c"][0]', "int").to_pylist() == [1, *[None] * 5]
    assert variant_get(array, "$[0].a", "int").to_pylist() == [None, None, None, None, 2, None]


def test_variants_inside_of_variants() -> None:
    array = column([{"a": {"b": 1}}, {"a": None}, {}, ...]).slice(0, 4)
    found = variant_get(array, "$.a")
    check(found)
    assert [comparable(value) for value in decoded(found)] == [
        {"b": ("number", 1)},
        (Primitive.NULL, "None"),
        ...,
        ...,
    ]


def test_random_fields_are_those_of_the_decoded_values() -> None:
    rng = random.Random(8)
    array = column([... if rng.random() < 0.1 else random_value(rng) for _ in range(400)])
    chunked = pa.chunked_array([array.slice(0, 150), array.slice(150)])
    for name in ("a", "", "é", "f1", "f25", "f299", "no such"):
        found = variant_get(chunked, normalized_path((name,)))
        expected = [value.get(name, ...) if isinstance(value, dict) else ... for value in decoded(array)]
        assert [comparable(value) for value in decoded(found)] == [comparable(value) for value in expected]


def test_paths_have_one_normal_form() -> None:
    for text, normal in {
        "$": "$",
        "$.a.b": "$['a']['b']",
        "$['a'][\"b\"][3]": "$['a']['b'][3]",
        "$['it\\'s']": "$['it\\'s']",
        '$["tab\\t"]': "$['tab\\t']",
        "$['\\u0001']": "$['\\u0001']",
        "$['\\ud83d\\ude00']": "$['\U0001f600']",
    }.items():
        assert normalized_path(parse_path(text)) == normal
        assert parse_path(normal) == parse_path(text)


def test_numbers_at_the_ends_of_their_range() -> None:
    least = column([-(2**63), -(10**18) + 1, -(10**18)])
    assert variant_get(least, "$", "decimal(18, 0)").to_pylist() == [None, -(10**18) + 1, None]
    far = [Typed(Primitive.TIMESTAMP_NTZ, sign * (2**63 // 1000 + more)) for sign in (1, -1) for more in (0, 1)]
    found = variant_get(column(far), "$", "timestamp_ns").cast(pa.int64()).to_pylist()
    assert found == [2**63 // 1000 * 1000, None, -(2**63 // 1000) * 1000, None]


@pytest.mark.parametrize("path", [None, 5, "", "a", "$a", "$.", "$[", "$[-1]", "$[*]", "$..a", "$.a b"])
def test_other_paths_are_refused(path: Any) -> None:
    with pytest.raises(SchemaError, match=r"no path|a path into a variant must be text"):
        variant_get(column([1]), path)


@pytest.mark.parametrize(
    "type_", [None, 5, "text", "decimal(39, 0)", "decimal(2, 3)", pa.uint8(), pa.list_(pa.int64())]
)
def test_other_types_are_refused(type_: Any) -> None:
    with pytest.raises(SchemaError):
        variant_get(column([1]), "$", type_)


def test_other_columns_are_refused() -> None:
    with pytest.raises(SchemaError, match="column of variants"):
        variant_get(pa.array([{"metadata": b"", "value": b""}]), "$")
    fields = [pa.field("value", pa.int64()), VARIANT.field(1)]
    for other in ([1], "v", pa.array([{"metadata": b"\x01\x00\x00", "value": 1}], pa.struct(fields))):
        with pytest.raises(SchemaError, match="a column of variants"):
            variant_get(other, "$")  # type: ignore[arg-type]
        with pytest.raises(SchemaError, match="a column of variants"):
            as_json(other)  # type: ignore[arg-type]
    missing = pa.array([{"metadata": b"\x01\x00\x00", "value": None}], VARIANT)
    with pytest.raises(FormatError, match="no value"):
        variant_get(missing, "$")


@pytest.mark.parametrize(
    "value",
    [b"\x02\x01\x02\x00\x01\x00", b"\x02\x05\x00", b"\x02\x01\x00\x00\x05\x00", b"\x02\x01\x00\x09\x01\x00", b""],
)
def test_bad_bytes_are_refused(value: bytes) -> None:
    array = pa.array([{"metadata": encode_variant({"a": 1, "b": 2})[0], "value": value}], VARIANT)
    with pytest.raises(FormatError):
        variant_get(array, "$.a", "int")
    with pytest.raises(FormatError):
        check(array)
